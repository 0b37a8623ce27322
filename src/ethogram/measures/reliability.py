"""Reliability: pass@k, pass^k, and what is missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import msgspec
import numpy as np

from ethogram.errors import BadUsage
from ethogram.estimate import Estimate
from ethogram.result import Result
from ethogram.statistics import interval, passk
from ethogram.statistics.passk import Target

from .outcomes import Floats, Ints, Outcomes

MIN_TASKS = 20
"""With fewer tasks nothing is claimed about the population they came from; the suite's own interval is given."""
MIN_COVERAGE = 0.8
"""Below this share of planned attempts with a score, a rate is given without an interval: too much is unknown."""

Convention = Literal["bounds", "failure"]
CONVENTIONS: tuple[str, ...] = get_args(Convention)
TARGETS: tuple[str, ...] = get_args(Target)


class EpisodeCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What was planned and what came of it."""

    planned: int
    run: int
    scored: int
    missing: dict[str, int]
    coverage: float


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """The mean success rate of the tasks if every missing attempt had failed, and if every one had passed."""

    worst: float | None
    best: float | None


class TaskReliability(msgspec.Struct, frozen=True, kw_only=True):
    """One task: n scored attempts, c successes, and its own pass rate."""

    task: str
    n: int
    c: int
    missing: int
    rate: Estimate


class Compounding(msgspec.Struct, frozen=True, kw_only=True):
    """Per step against end to end.

    `per_step` is the share of steps without an error; were errors fatal and independent, a run of its length would end
    well with `predicted`. `implied` is the per-step reliability that would give the observed rate.
    """

    steps: float
    per_step: float
    predicted: float
    observed: float
    implied: float | None


class Reliability(Result, kw_only=True):
    """All results of `ethogram stats` on one set of outcomes.

    `same_tasks` is false where some k is over fewer tasks than another, which then do not make one curve.
    """

    episodes: EpisodeCounts
    target: Target
    convention: Convention
    pass_at: dict[str, Estimate]
    pass_hat: dict[str, Estimate]
    bounds: Bounds
    tasks: list[TaskReliability]
    same_tasks: bool = True
    score: Estimate | None = None
    compounding: Compounding | None = None
    naive_at: dict[str, float] | None = None
    naive_hat: dict[str, float] | None = None
    pass_ratio: dict[str, float] | None = None


def estimate_reliability(
    outcomes: Outcomes,
    ks: Sequence[int] = (),
    *,
    level: float = 0.95,
    convention: Convention = "bounds",
    target: Target | None = None,
    naive: bool = False,
) -> Reliability:
    """pass@k and pass^k with intervals; without `ks`, every k up to the most attempts that some task has.

    `convention` says what a missing attempt is: unknown (left out, and bounded), or a failure. `target` is the
    population of tasks, or exactly this suite; by default the population from 20 tasks on.
    """
    n, c = outcomes.attempts, outcomes.successes
    if convention == "failure":
        n = np.maximum(outcomes.planned, n)
    most = int(n.max(initial=0))
    orders = sorted(set(ks)) if ks else _usual(most)
    if any(k < 1 for k in orders):
        raise BadUsage(f"k must be at least 1, not {min(orders)}")
    asked = target or ("population" if int(np.sum(n > 0)) >= MIN_TASKS else "suite")
    scale = _Scale(outcomes, n, c, level, convention, target)
    made = scale.curves(orders, asked)
    return Reliability(
        episodes=_episodes(outcomes),
        target=asked,
        convention=convention,
        pass_at=made[0],
        pass_hat=made[1],
        bounds=_bounds(outcomes),
        tasks=_tasks(outcomes, n, c, level),
        same_tasks=len({e.n for e in made[1].values() if e.value is not None}) < 2,
        score=None if outcomes.binary else _graded(outcomes, level, asked),
        compounding=_compounding(outcomes),
        **(_naive(n, c, orders, made[0]) if naive else {}),
    )


class _Scale:
    """pass@k and pass^k as estimates, refused where they cannot be had."""

    def __init__(
        self, outcomes: Outcomes, n: Ints, c: Ints, level: float, convention: Convention, target: Target | None
    ) -> None:
        self.n, self.c, self.level = n, c, level
        self.missing = outcomes.missing()
        self.convention = convention
        self.target = target
        planned = int(outcomes.planned.sum())
        self.coverage = float(n.sum()) / planned if planned else 0.0

    def curves(self, ks: Sequence[int], target: Target) -> tuple[dict[str, Estimate], dict[str, Estimate]]:
        """Both curves, by k as text."""
        found = [passk.curve(self.c, self.n, ks, self.level, kind=kind, target=target) for kind in ("at", "hat")]
        at, hat = ({str(k): self._estimate(k, curve, i, target) for i, k in enumerate(ks)} for curve in found)
        return at, hat

    def _estimate(self, k: int, curve: passk.Curve, i: int, target: Target) -> Estimate:
        tasks, most = int(curve.tasks[i]), int(self.n.max(initial=0))
        why: str | None
        name = "wilson-neff" if target == "population" else "wilson-neff fixed-suite"
        base = Estimate(value=None, level=self.level, method=name, n=tasks, of="tasks", missing=self.missing)
        if tasks == 0:
            why = f"no task has {k} scored attempts; the most is {most}" if most else "no attempt has a score"
            return msgspec.structs.replace(base, why=why)
        value = float(curve.value[i])
        if self.coverage < MIN_COVERAGE and self.convention == "bounds":
            why = (
                f"only {self.coverage:.0%} of the planned attempts have a score ({MIN_COVERAGE:.0%} are needed); "
                "see the bounds"
            )
            return msgspec.structs.replace(base, value=value, why=why)
        low: float | None = float(curve.low[i])
        high: float | None = float(curve.high[i])
        told = []
        if target == "suite" and self.target is None:
            these = "this task" if tasks == 1 else f"these {tasks} tasks"
            told.append(
                f"the interval is about exactly {these}; for the population of tasks, {MIN_TASKS} tasks are needed"
            )
        elif target == "population" and tasks < MIN_TASKS:
            told.append(f"too few tasks for a population claim: {tasks} of {MIN_TASKS}")
            low = high = None
        left_out = int(np.sum(self.n > 0)) - tasks
        if left_out:
            have = f"{left_out} task{' has' if left_out == 1 else 's have'} fewer than {k} attempts"
            told.append(f"{have} and {'is' if left_out == 1 else 'are'} left out: not the same tasks as at a smaller k")
        why = "; ".join(told) or None
        return msgspec.structs.replace(base, value=value, low=low, high=high, why=why)


def _usual(most: int) -> list[int]:
    """Every k up to ten, then the doublings, and the last: enough for a curve."""
    few = list(range(1, min(most, 10) + 1))
    while few and few[-1] < most:
        few.append(min(2 * few[-1], most))
    return few or [1]


def _episodes(outcomes: Outcomes) -> EpisodeCounts:
    planned, scored = int(outcomes.planned.sum()), int(outcomes.scored.sum())
    return EpisodeCounts(
        planned=planned,
        run=outcomes.task.size,
        scored=scored,
        missing=outcomes.missing(),
        coverage=scored / planned if planned else 0.0,
    )


def _bounds(outcomes: Outcomes) -> Bounds:
    """Per task first, so that tasks count alike however many of their attempts are missing."""
    used = outcomes.planned > 0
    if not np.any(used):
        return Bounds(worst=None, best=None)
    low, high = interval.bounds(outcomes.successes[used], outcomes.attempts[used], outcomes.missing_per_task[used])
    return Bounds(worst=float(low.mean()), best=float(high.mean()))


def _tasks(outcomes: Outcomes, n: Ints, c: Ints, level: float) -> list[TaskReliability]:
    ends = interval.wilson_edge(c, n, level)
    gone = outcomes.missing_per_task
    rows = []
    for i, name in enumerate(outcomes.tasks):
        attempts, passed, absent = int(n[i]), int(c[i]), int(gone[i])
        if attempts:
            rate = Estimate(
                value=passed / attempts,
                low=float(ends.low[i]),
                high=float(ends.high[i]),
                level=level,
                method="wilson-edge",
                n=attempts,
                of="attempts",
            )
        else:
            rate = Estimate(value=None, level=level, n=0, of="attempts", why="no attempt has a score")
        rows.append(TaskReliability(task=name, n=attempts, c=passed, missing=absent, rate=rate))
    return rows


def _graded(outcomes: Outcomes, level: float, target: Target) -> Estimate:
    """The mean score where scores are more than pass and fail: t over task means, which may lie anywhere."""
    scored = outcomes.scored
    n = outcomes.attempts
    sums = np.bincount(outcomes.task[scored], weights=outcomes.value[scored], minlength=len(outcomes.tasks))
    used = n > 0
    means: Floats = sums[used] / n[used]
    tasks = int(means.size)
    base = Estimate(value=None, level=level, method="student over task means", n=tasks, of="tasks")
    base = msgspec.structs.replace(base, missing=outcomes.missing())
    if tasks == 0:
        return msgspec.structs.replace(base, why="no attempt has a score")
    value = float(means.mean())
    if tasks < 2 or target == "suite":
        why = "the spread of tasks says nothing about this very suite" if tasks >= 2 else "one task has no spread"
        return msgspec.structs.replace(base, value=value, why=why)
    low, high = interval.student(value, means.var(ddof=1) / tasks, tasks - 1, level)
    return msgspec.structs.replace(base, value=value, low=float(low), high=float(high))


def _compounding(outcomes: Outcomes) -> Compounding | None:
    """Only where steps were counted and something was scored."""
    if "steps" not in outcomes.figures:
        return None
    scored = outcomes.scored & np.isfinite(outcomes.figures["steps"])
    steps, errors = outcomes.figures["steps"][scored], outcomes.figures["errors"][scored]
    total = float(steps.sum())
    if total == 0:
        return None
    per_step = 1 - float(errors.sum()) / total
    observed = float(outcomes.success[scored].mean())
    length = float(steps.mean())
    return Compounding(
        steps=length,
        per_step=per_step,
        predicted=float(np.mean(per_step**steps)),
        observed=observed,
        implied=observed ** (1 / length) if observed > 0 else None,
    )


def _naive(n: Ints, c: Ints, ks: Sequence[int], honest: dict[str, Estimate]) -> dict[str, Any]:
    """The biased plug-ins for comparison, and how much larger pass@k reads than pass@1."""
    used = n > 0
    at, hat = (f(c[used], n[used], ks).mean(axis=0) for f in (passk.naive_at, passk.naive_hat))
    first = passk.pass_at(c[used], n[used], [1]).mean() if np.any(used) else 0.0
    told = {k: e.value / float(first) for k, e in honest.items() if e.value is not None and first > 0}
    return {
        "naive_at": {str(k): float(v) for k, v in zip(ks, at, strict=True)} if np.any(used) else {},
        "naive_hat": {str(k): float(v) for k, v in zip(ks, hat, strict=True)} if np.any(used) else {},
        "pass_ratio": told,
    }
