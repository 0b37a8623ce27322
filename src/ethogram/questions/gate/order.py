"""The order of a gate's attempts: fixed before the first look, and the same for recorded and for bought runs.

An order is a sequence of task indices; the attempt numbers of a task follow by counting. A look judges the first so
many entries, so what it judges can neither be chosen after the fact nor depend on where a task stands in a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from ethogram.measures.outcomes import Floats, Ints


def passes(tasks: Sequence[str], count: int) -> Ints:
    """The first `count` attempts of equal passes: each pass takes every task once, in an order of its own.

    A task's place in a pass follows from a hash of its id and the number of the pass. So the order of a file does not
    matter, a part of a pass is a random sample of the tasks, and leaving a task out does not shuffle the others.
    """
    drawn: list[int] = []
    for number in range(-(-count // max(len(tasks), 1))):
        salt = number.to_bytes(8, "little")
        places = [(blake2b(t.encode(), digest_size=16, salt=salt, person=b"gate.pass").digest(), t) for t in tasks]
        drawn += sorted(range(len(tasks)), key=places.__getitem__)
    return np.array(drawn[:count], dtype=np.int64)


def places(tasks: Sequence[str]) -> Floats:
    """A draw from [0, 1) for every task, from a hash of its id alone."""
    drawn = [blake2b(t.encode(), digest_size=8, person=b"gate.place").digest() for t in tasks]
    return np.array([int.from_bytes(d, "little") / 2**64 for d in drawn], dtype=np.float64)


def attempts_by_look(order: Sequence[int] | Ints, runs: Sequence[int], tasks: int) -> Ints:
    """Attempts of each task among the first `runs` entries of an order, one row per look."""
    parts = np.split(np.asarray(order, dtype=np.int64), list(runs))[: len(runs)]
    return np.cumsum([np.bincount(part, minlength=tasks) for part in parts], axis=0, dtype=np.int64)


def runs_by_look(looks: Sequence[float], tasks: int) -> list[int]:
    """Whole attempts by each look, for looks after these passes over this number of tasks."""
    return [round(look * tasks) for look in looks]


def equal_attempts(looks: Sequence[float], tasks: int) -> Ints:
    """Attempts of tasks without names after these equal passes, one row per look: for plans and simulations."""
    runs = runs_by_look(looks, tasks)
    return attempts_by_look(passes([str(i) for i in range(tasks)], runs[-1]), runs, tasks)
