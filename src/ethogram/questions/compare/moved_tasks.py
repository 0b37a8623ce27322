"""The tasks that moved between two runs, each with one failing attempt: its trace, its reason, its first difference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from ethogram.findings.verifier_messages import what_checks_said
from ethogram.measures.comparison import TaskChange
from ethogram.measures.divergence import diverge
from ethogram.measures.metrics import OUTCOME, metric
from ethogram.measures.outcomes import Ints, Outcomes
from ethogram.measures.sequence import read_positions
from ethogram.reading.outcomes import chosen_entries, load_outcomes
from ethogram.store import Entry, Run
from ethogram.traces import Scored, Trace

MOST_OPENED = 50
"""How many tasks are shown with a trace; further ones are listed with their counts alone."""
MOST_WORSE = 5
"""Where a regression is established and no task is sure by itself, how many of those that got worse most are named."""


class Counted(msgspec.Struct, frozen=True, kw_only=True):
    """Attempts of a task by one version: how many passed (null for other metrics), how many are known, their mean."""

    passed: int | None
    of: int
    mean: float | None


class FirstDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The first step at which the failing attempt does something else than a passing one of the same task.

    `at` counts steps from 0; `failing` and `passing` are the signatures there, null where that attempt had ended. Where
    no such step can be named, `at` is null and `why` says so.
    """

    at: int | None = None
    failing: str | None = None
    passing: str | None = None
    passing_trace: str | None = None
    why: str | None = None


class MovedTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task that moved, or with `moved` false one of those that got worse most where no task is sure by itself.

    `trace` is a failing attempt of the candidate, and `why` what the check said of it; for metrics other than success
    and score, they are the worst attempt and its value.
    """

    task: str
    base: Counted
    candidate: Counted
    moved: bool
    worse: bool
    q: float | None
    trace: str | None = None
    step: FirstDifference | None = None
    why: str | None = None


class Arm(NamedTuple):
    """One of two versions: a run, and which of its episodes."""

    run: Run
    condition: str | None = None
    agent: str | None = None


def moved_tasks(changes: Sequence[TaskChange], name: str, *, regression: bool) -> list[MovedTask]:
    """The tasks that moved, those for the worse first; with `regression` some tasks are named even if none is sure."""
    sign = metric(name).worse_sign
    chosen = [c for c in changes if c.moved]
    worse = [c for c in changes if sign * (c.difference or 0.0) > 0]
    if regression and not any(c.moved for c in worse):
        chosen += sorted(worse, key=_surest)[:MOST_WORSE]
    chosen.sort(key=lambda c: (sign * (c.difference or 0.0) <= 0, *_surest(c)))
    return [_plain(c, sign, name) for c in chosen]


def with_traces(tasks: Sequence[MovedTask], base: Arm, candidate: Arm, name: str) -> list[MovedTask]:
    """The same tasks, each that got worse with a failing attempt; only the traces that are shown are read."""
    opened = [t.task for t in tasks if t.worse][:MOST_OPENED]
    if not opened:
        return list(tasks)
    one, two = _Attempts(base, name), _Attempts(candidate, name)
    return [_opened(one, two, t) if t.task in opened else t for t in tasks]


def _surest(change: TaskChange) -> tuple[float, float]:
    return (1.0 if change.p is None else change.p, -abs(change.difference or 0.0))


def _plain(change: TaskChange, sign: float, name: str) -> MovedTask:
    def counted(mean: float | None, n: int) -> Counted:
        passed = round((mean or 0.0) * n) if name == "success" else None
        return Counted(passed=passed, of=n, mean=mean)

    return MovedTask(
        task=change.task,
        base=counted(change.base, change.n_base),
        candidate=counted(change.candidate, change.n_candidate),
        moved=change.moved,
        worse=sign * (change.difference or 0.0) > 0,
        q=change.q,
    )


class _Attempts:
    """The episodes of one arm beside their values, so that one of them can be opened."""

    def __init__(self, arm: Arm, name: str) -> None:
        self.run = arm.run
        self.name = name
        self.entries: list[Entry] = chosen_entries(arm.run, arm.condition, arm.agent)
        self.outcomes: Outcomes = load_outcomes(arm.run, condition=arm.condition, agent=arm.agent, metrics=[name])
        # larger is worse, so that "the worst" means one thing for passes, cost and time
        self.worse = metric(name).worse_sign * self.outcomes.metric(name)
        self.place = {task: i for i, task in enumerate(self.outcomes.tasks)}

    def of(self, task: str) -> Ints:
        """Rows of a task that have a value and are still kept, in order of attempt."""
        if task not in self.place:
            return np.zeros(0, dtype=np.int64)
        rows = np.flatnonzero((self.outcomes.task == self.place[task]) & ~np.isnan(self.worse))
        kept = [int(i) for i in rows if self.entries[i].forgotten is None]
        return np.array(sorted(kept, key=lambda i: int(self.outcomes.attempt[i])), dtype=np.int64)

    def trace(self, row: int) -> Trace:
        return self.run.trace(self.entries[row])


def _opened(one: _Attempts, two: _Attempts, task: MovedTask) -> MovedTask:
    """The task with a failing attempt of the candidate beside a passing one of the base."""
    bad, good = _pair(one, two, task.task)
    if bad is None:
        return msgspec.structs.replace(task, why="no attempt of the candidate is kept")
    trace = two.trace(bad)
    if good is None:
        step = FirstDifference(why="no better attempt of the base is kept")
    else:
        step = _first_difference(trace, one.trace(good))
    if two.name in OUTCOME:
        why = what_checks_said(trace, two.outcomes.success_at) or _only_score(trace)
    else:
        why = f"{two.name} {two.outcomes.metric(two.name)[bad]:.4g}"
    return msgspec.structs.replace(task, trace=trace.head.trace_id, step=step, why=why)


def _pair(one: _Attempts, two: _Attempts, task: str) -> tuple[int | None, int | None]:
    """A failing row of the candidate and a passing one of the base, of the same attempt where there is such a pair."""
    ours, theirs = two.of(task), one.of(task)
    if not ours.size:
        return None, None
    failing = ours[two.worse[ours] >= two.worse[ours].max()]
    passing = theirs[one.worse[theirs] < two.worse[failing[0]]]
    best = passing[one.worse[passing] <= one.worse[passing].min()] if passing.size else passing
    by_number = {_number(one, int(i)): int(i) for i in reversed(best)}
    for row in failing:
        if _number(two, int(row)) in by_number:
            return int(row), by_number[_number(two, int(row))]
    return int(failing[0]), int(best[0]) if best.size else None


def _number(attempts: _Attempts, row: int) -> tuple[int, object]:
    """What two runs of one suite have in common for the same attempt: its number and its seed."""
    seed = None if attempts.outcomes.seed is None else attempts.outcomes.seed[row]
    return int(attempts.outcomes.attempt[row]), seed


def _first_difference(failing: Trace, passing: Trace) -> FirstDifference:
    there = passing.head.trace_id
    one, two = read_positions(passing), read_positions(failing)
    for reading, whose in ((two, "candidate"), (one, "base")):
        if not len(reading):
            return FirstDifference(passing_trace=there, why=f"the {whose}'s attempt recorded no steps")
    at = diverge(one, two).t_star
    if at is None:
        return FirstDifference(passing_trace=there, why="both took the same steps")
    return FirstDifference(
        at=at,
        failing=two.signatures[at] if at < len(two) else None,
        passing=one.signatures[at] if at < len(one) else None,
        passing_trace=there,
    )


def _only_score(trace: Trace) -> str:
    outcome = trace.head.outcome
    if isinstance(outcome, Scored):
        return f"score {outcome.value:g}" + (f" by {outcome.by}" if outcome.by else "") + ", no reason was recorded"
    return f"no score: {outcome.reason}"
