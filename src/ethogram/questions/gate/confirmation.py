"""Tasks that moved, attempted again: only what the new attempts confirm is a regression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from ethogram.display.shorten import shortened_list
from ethogram.errors import Damaged, NotFound
from ethogram.measures.outcomes import Outcomes
from ethogram.statistics import exact, multiplicity
from ethogram.store import Run
from ethogram.store.lake import CONFIRMATIONS


class Confirmation(msgspec.Struct, frozen=True, kw_only=True):
    """A task that moved, attempted again: `confirmed` if fresh attempts alone show it too, which blocks.

    `p` is held against all tasks that were tried (Holm 1979); `allowed` tasks do not block.
    """

    task: str
    base: float
    before: float
    again: float
    attempts: int
    p: float
    confirmed: bool
    allowed: bool = False


class Again(msgspec.Struct, frozen=True, kw_only=True):
    """A note in the candidate's run: attempts of a task from number `first` on are fresh, and no look judges them."""

    task: str
    first: int


def asked_again(run: Run) -> dict[str, int]:
    """Tasks that a gate attempted again, each with its first fresh attempt."""
    asked: dict[str, int] = {}
    for name, line in run.notes(CONFIRMATIONS):
        try:
            note = msgspec.json.decode(line, type=Again)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise Damaged(
                f"{name} of run {run.name!r} cannot be read; run: ethogram verify", where=f"{run.path}/{name}"
            ) from None
        asked.setdefault(note.task, note.first)
    return asked


def without_fresh(outcomes: Outcomes, asked: Mapping[str, int]) -> Outcomes:
    """The outcomes that looks judge: without the attempts that were made to confirm."""
    if not asked:
        return outcomes
    most = np.array([asked.get(t, np.iinfo(np.int64).max) for t in outcomes.tasks], dtype=np.int64)
    return outcomes.upto(most)


def confirm_moved(
    before: Outcomes, after: Outcomes, asked: Mapping[str, int], alpha: float, allowed: Sequence[str] = ()
) -> list[Confirmation]:
    """Tasks that moved, judged by the attempts from number `asked[task]` on alone, which chose nothing.

    The baseline's attempts are those that helped to choose the task, so a lucky baseline can still be confirmed.
    """
    tasks = tuple(asked)
    if not tasks:
        return []
    one, two = before.only(tasks), after.only(tasks)
    first = np.array([asked[t] for t in tasks], dtype=np.int64)
    early, fresh = two.upto(first), two.where(two.attempt >= first[two.task])
    tests = exact.task_tests(one.successes, one.attempts, fresh.successes, fresh.attempts).less
    adjusted = multiplicity.holm(tests)
    return [
        Confirmation(
            task=task,
            base=_share(one, i),
            before=_share(early, i),
            again=_share(fresh, i),
            attempts=int(fresh.attempts[i]),
            p=float(adjusted[i]),
            confirmed=bool(fresh.attempts[i] > 0 and adjusted[i] <= alpha),
            allowed=task in allowed,
        )
        for i, task in enumerate(tasks)
    ]


def blocking(confirmations: Sequence[Confirmation]) -> str | None:
    """What confirmed tasks say against a version, in one sentence."""
    broken = [c for c in confirmations if c.confirmed and not c.allowed]
    if not broken:
        return None
    named = [f"{c.task} ({c.base:.2g} → {c.again:.2g} in {c.attempts} fresh attempts)" for c in broken]
    which = "a task" if len(broken) == 1 else f"{len(broken)} tasks"
    return f"fresh attempts confirm that {which} broke: {shortened_list(named, 5)}"


def check_allowed(allowed: Sequence[str], tasks: Sequence[str]) -> None:
    """Exceptions name tasks that there are."""
    for task in allowed:
        if task not in tasks:
            raise NotFound.named("task to allow", task, list(tasks))


def _share(outcomes: Outcomes, task: int) -> float:
    return float(outcomes.successes[task]) / max(int(outcomes.attempts[task]), 1)
