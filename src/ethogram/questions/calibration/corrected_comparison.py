"""Two runs compared by a judge, each corrected by its own labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import numpy as np

from ethogram.arguments import check_level
from ethogram.errors import NotFound
from ethogram.estimate import Estimate
from ethogram.reading.suite_versions import comparable_tasks
from ethogram.reading.task_names import task_name
from ethogram.result import Result
from ethogram.store import Home, home_of, run_of

from .judge_accuracy import corrected_difference, corrected_rate, raw_rate
from .question import JudgeReading
from .verdicts import Item, Wanted, read_items

Direction = Literal["higher", "lower", "undecided"]


class ItemDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One item in two runs. `raw` is the difference that the verdicts show, `difference` the one after correction."""

    item: str
    judge: str
    tasks: int
    base: Estimate
    candidate: Estimate
    raw: float | None
    difference: Estimate
    verdict: Direction


class CorrectedComparison(Result, kw_only=True):
    """A run against another, item by item, on the tasks that both have; `decided` where every difference is known."""

    run: str
    against: str
    level: float
    items: list[ItemDifference]
    decided: bool

    def rows(self) -> list[dict[str, Any]]:
        """One row per item."""
        return [msgspec.to_builtins(i) for i in self.items]


def compare_corrected(
    run: str,
    against: str,
    *,
    items: Sequence[str] = (),
    judge: str | None = None,
    score: str | None = None,
    common_tasks: bool = False,
    level: float = 0.95,
    home: Home | str | None = None,
) -> CorrectedComparison:
    """Compare two judged runs by their corrected rates, each with labels of its own.

    `items`, `judge` and `score` are those of `calibrate`. Runs of different versions of a suite are refused, unless
    `common_tasks` keeps only tasks that are the same in both. Raises `NotFound` where the runs share no judged item.

    Example: `compare_corrected("candidate", "main", score="quality").items[0].difference`
    """
    check_level(level)
    lake = home_of(home)
    candidate, base = run_of(run, lake), run_of(against, lake)
    same = comparable_tasks(base, candidate, common_tasks=common_tasks)
    wanted = Wanted(items=tuple(items), judge=judge, score=score)
    sides = [(JudgeReading(r), {i.name: i for i in read_items(r, wanted)}) for r in (base, candidate)]
    shared = [name for name in sides[1][1] if name in sides[0][1]]
    if not shared:
        raise NotFound(
            f"no item was judged in both {base.name!r} and {candidate.name!r}", where=f"run {base.name!r}", what="item"
        )
    made = []
    for name in shared:
        pair = [_Side(reading, known[name]) for reading, known in sides]
        tasks = pair[0].tasks & pair[1].tasks if same is None else pair[0].tasks & pair[1].tasks & same
        made.append(_difference(pair[0], pair[1], tasks, level))
    decided = all(d.difference.value is not None for d in made)
    return CorrectedComparison(run=candidate.name, against=base.name, level=level, items=made, decided=decided)


class _Side:
    """One item in one run."""

    def __init__(self, reading: JudgeReading, item: Item) -> None:
        self.item = item
        units, self.paired, _ = reading.paired(item)
        self.names = [task_name(reading.entries[trace].head) for trace, _ in units]
        self.tasks = frozenset(self.names)


def _difference(base: _Side, candidate: _Side, tasks: frozenset[str], level: float) -> ItemDifference:
    parts = [s.paired.only(np.array([name in tasks for name in s.names], dtype=bool)) for s in (base, candidate)]
    before, after = (corrected_rate(part, level)[0] for part in parts)
    raw = [raw_rate(part, level).value for part in parts]
    found = corrected_difference(before, after)
    return ItemDifference(
        item=candidate.item.name,
        judge=candidate.item.judge,
        tasks=len(tasks),
        base=before,
        candidate=after,
        raw=None if raw[0] is None or raw[1] is None else raw[1] - raw[0],
        difference=found,
        verdict=_direction(found),
    )


def _direction(difference: Estimate) -> Direction:
    if difference.low is not None and difference.low > 0:
        return "higher"
    return "lower" if difference.high is not None and difference.high < 0 else "undecided"
