"""The order of a gate's attempts: fixed before the first look, and the same for recorded and for bought runs.

An order is a sequence of task indices; the attempt numbers of a task follow by counting. A look judges the first so
many entries, so what it judges can neither be chosen after the fact nor depend on where a task stands in a file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from ethogram.measure.outcomes import Ints


def passes(tasks: Sequence[str], count: int) -> Ints:
    """The first `count` attempts of equal passes: each pass takes every task once, in an order of its own.

    That order is drawn from the sorted task ids and the number of the pass: the order of a file does not matter, and a
    part of a pass is a random sample of the tasks. Places are ranks of raw draws, which every version of numpy keeps.
    """
    ranked = np.array(sorted(range(len(tasks)), key=tasks.__getitem__), dtype=np.int64)
    names = json.dumps(sorted(tasks)).encode()
    drawn: list[Ints] = []
    for number in range(-(-count // len(tasks))):
        seed = blake2b(names, digest_size=16, person=b"gate.pass", salt=number.to_bytes(8, "little")).digest()
        draws = np.random.PCG64(int.from_bytes(seed, "little")).random_raw(len(tasks))
        drawn.append(ranked[np.argsort(draws, kind="stable")])
    return np.concatenate(drawn)[:count] if drawn else np.empty(0, dtype=np.int64)


def attempts_by_look(order: Sequence[int] | Ints, runs: Sequence[int], tasks: int) -> Ints:
    """Attempts of each task among the first `runs` entries of an order, one row per look."""
    parts = np.split(np.asarray(order, dtype=np.int64), list(runs))[: len(runs)]
    return np.cumsum([np.bincount(part, minlength=tasks) for part in parts], axis=0, dtype=np.int64)


def runs_by_look(looks: Sequence[float], tasks: int) -> list[int]:
    """Whole attempts by each look, for looks after so many passes over so many tasks."""
    return [round(look * tasks) for look in looks]


def equal_attempts(looks: Sequence[float], tasks: int) -> Ints:
    """Attempts of tasks without names after so many equal passes, one row per look: for plans and simulations."""
    runs = runs_by_look(looks, tasks)
    return attempts_by_look(passes([str(i) for i in range(tasks)], runs[-1]), runs, tasks)
