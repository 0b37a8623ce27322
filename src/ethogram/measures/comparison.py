"""Comparison of two sets of outcomes on the same tasks, at one look: difference, changed outcomes, tasks that moved."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, assert_never, get_args

import msgspec
import numpy as np

from ethogram.errors import BadUsage
from ethogram.estimate import Estimate
from ethogram.result import Result
from ethogram.statistics import exact, multiplicity, stratified
from ethogram.statistics.stratified import Sums

from .metrics import Metric, metric
from .outcomes import Floats, Ints, Outcomes

FALSE_FINDS = 0.10
"""The share of false finds that is borne among the tasks that are said to have moved."""
FEW = 5000
"""Up to this number of attempts in all, the exact test stands beside the approximate one."""

ChangeVerdict = Literal["improvement", "regression", "undecided"]
Design = Literal["within", "between"]
DESIGNS: tuple[str, ...] = get_args(Design)


class Flips(msgspec.Struct, frozen=True, kw_only=True):
    """Attempts of both versions with the same task and number: what was lost, gained and kept.

    `odds` says how many were lost for one that was gained.
    """

    pairs: int
    lost: int
    gained: int
    both_passed: int
    both_failed: int
    same_seed: int
    odds: Estimate


class TaskChange(msgspec.Struct, frozen=True, kw_only=True):
    """One task in both versions; `q` is its p-value after control of the share of false finds."""

    task: str
    base: float | None
    candidate: float | None
    n_base: int
    n_candidate: int
    difference: float | None
    p: float | None
    q: float | None
    moved: bool


class Comparison(Result, kw_only=True):
    """Candidate minus base on the tasks that both have."""

    metric: str
    unit: str
    better: str
    verdict: ChangeVerdict
    difference: Estimate
    base: Estimate
    candidate: Estimate
    p: float | None
    p_exact: float | None
    method: str
    pairs: Flips | None
    odds: Estimate | None
    tasks: list[TaskChange]
    only_base: list[str]
    only_candidate: list[str]
    bounds: tuple[float, float] | None


def shared_tasks(base: Outcomes, candidate: Outcomes) -> list[str]:
    """Tasks that both have, in the order of the base."""
    there = set(candidate.tasks)
    return [t for t in base.tasks if t in there]


def compare_outcomes(
    base: Outcomes,
    candidate: Outcomes,
    *,
    name: str = "success",
    level: float = 0.95,
    design: Design = "within",
) -> Comparison:
    """One planned look at two versions.

    `within` is about exactly these tasks (stratified score test), `between` about the population that they come from.
    """
    tasks = shared_tasks(base, candidate)
    if not tasks:
        raise BadUsage("the two runs have no task in common; compare runs of the same suite")
    one, two = base.only(tasks), candidate.only(tasks)
    kind = metric(name)
    found = one_look(one, two, name=name, level=level, design=design)
    both = set(tasks)
    return Comparison(
        metric=kind.name,
        unit=kind.unit,
        better=kind.better,
        verdict=found.verdict,
        difference=found.difference,
        base=arm_mean(one, name, level),
        candidate=arm_mean(two, name, level),
        p=found.p,
        p_exact=found.p_exact,
        method=found.difference.method or "",
        pairs=flips(one, two, level) if name == "success" else None,
        odds=_odds(one, two, level) if name == "success" else None,
        tasks=task_changes(one, two, name),
        only_base=[t for t in base.tasks if t not in both],
        only_candidate=[t for t in candidate.tasks if t not in both],
        bounds=missing_bounds(one, two) if name == "success" else None,
    )


class OneLook(NamedTuple):
    """The verdict of one look, with the interval and the p-value that decide it; `p_exact` is the exact test's."""

    verdict: ChangeVerdict
    difference: Estimate
    p: float | None
    p_exact: float | None


def one_look(
    base: Outcomes, candidate: Outcomes, *, name: str = "success", level: float = 0.95, design: Design = "within"
) -> OneLook:
    """The difference on tasks that both arms number alike, and whether it is one.

    One rule decides: a change is called where the p-value is at most 1 - level, which is where the interval excludes 0.
    Where the exact test can be had, the larger of both p-values counts, and an interval that the exact test does
    not bear out reaches to 0: few attempts are coarser than the approximation knows.
    """
    kind = metric(name)
    arms = sums(base, candidate, name)
    if design == "within":
        found, method = stratified.difference(*arms, level, equal=False, step=kind.step), "stratified score"
    elif design == "between":
        found, method = stratified.difference_between_tasks(*arms, level), "paired t over tasks"
    else:
        assert_never(design)
    difference = _difference(found, kind, level, method, base, candidate)
    if difference.low is None or difference.high is None:
        return OneLook("undecided", difference, None, None)
    p = float(found.two_sided)
    exactly = _exact(base, candidate) if name == "success" and design == "within" else None
    if exactly is not None:
        p = max(p, exactly)
        if exactly > 1 - level:
            ends = min(difference.low, 0.0), max(difference.high, 0.0)
            difference = msgspec.structs.replace(difference, low=ends[0], high=ends[1])
    return OneLook(_verdict(difference, kind), difference, p, exactly)


def sums(
    base: Outcomes, candidate: Outcomes, name: str, charged: tuple[Floats, Floats] | None = None
) -> tuple[Sums, Sums]:
    """Both arms of a metric as power sums per task; both must number their tasks alike.

    `charged` are missing attempts per task, of each arm, that are taken at their worst: as failures, or as the worst
    attempt that either arm made at the task (at any task, where it has none).
    """
    columns = [o.metric(name) for o in (base, candidate)]
    known = [~np.isnan(c) for c in columns]
    tasks = len(base.tasks)
    if name == "success":
        one, two = (
            stratified.sums_of_counts(
                np.bincount(o.task[k], weights=c[k], minlength=tasks), np.bincount(o.task[k], minlength=tasks)
            )
            for o, c, k in zip((base, candidate), columns, known, strict=True)
        )
        worst = np.zeros(tasks)
    else:
        values = np.concatenate([c[k] for c, k in zip(columns, known, strict=True)])
        task = np.concatenate([o.task[k] for o, k in zip((base, candidate), known, strict=True)])
        second = np.repeat([False, True], [int(k.sum()) for k in known])
        one, two = stratified.arms_of_values(values, task, second, tasks)
        worst = _worst(values, task, tasks, metric(name)) if charged is not None else np.zeros(tasks)
    if charged is None:
        return one, two
    return one.joined(charged[0], worst), two.joined(charged[1], worst)


def _worst(values: Floats, task: Ints, tasks: int, kind: Metric) -> Floats:
    """The worst value of every task, from the mean of the task as the sums are."""
    n = np.bincount(task, minlength=tasks)
    centre = np.bincount(task, weights=values, minlength=tasks) / np.maximum(n, 1)
    if kind.unit == "score":
        return np.asarray(np.where(n > 0, -centre, 0.0))
    worst = np.full(tasks, -np.inf)
    np.maximum.at(worst, task, kind.worse_sign * values)
    worst = np.where(n > 0, worst, np.max(kind.worse_sign * values, initial=0.0))
    return np.asarray(kind.worse_sign * worst - centre)


def arm_mean(outcomes: Outcomes, name: str, level: float) -> Estimate:
    """The mean of one version over its tasks, each counted once; the comparison carries the interval."""
    values = outcomes.metric(name)
    known = ~np.isnan(values)
    n = np.bincount(outcomes.task[known], minlength=len(outcomes.tasks))
    total = np.bincount(outcomes.task[known], weights=values[known], minlength=len(outcomes.tasks))
    used = n > 0
    gone = outcomes.missing(name)
    silent = int(np.sum(outcomes.scored & ~known))
    if silent:
        gone["unrecorded"] = silent
    if not np.any(used):
        return Estimate(
            value=None, level=level, n=0, of="tasks", missing=gone, why=f"no attempt has a known value of {name}"
        )
    mean = float((total[used] / n[used]).mean())
    return Estimate(
        value=mean,
        level=level,
        method="mean over tasks",
        n=int(used.sum()),
        of="tasks",
        missing=gone,
        why="its uncertainty is in the difference",
    )


def flips(base: Outcomes, candidate: Outcomes, level: float) -> Flips:
    """Pairs of attempts with the same task and number."""
    rows = max(int(o.attempt.max(initial=-1)) + 1 for o in (base, candidate))
    key_a, key_b = (o.task * rows + o.attempt for o in (base, candidate))
    common, at_a, at_b = np.intersect1d(
        key_a[base.scored], key_b[candidate.scored], assume_unique=True, return_indices=True
    )
    was, now = base.success[base.scored][at_a], candidate.success[candidate.scored][at_b]
    lost, gained = int(np.sum(was & ~now)), int(np.sum(~was & now))
    return Flips(
        pairs=int(common.size),
        lost=lost,
        gained=gained,
        both_passed=int(np.sum(was & now)),
        both_failed=int(np.sum(~was & ~now)),
        same_seed=_same_seed(base, candidate, at_a, at_b),
        odds=_ratio(exact.flip_odds(lost, gained, level), level, "clopper-pearson", lost + gained, "flipped pairs"),
    )


def task_changes(base: Outcomes, candidate: Outcomes, name: str) -> list[TaskChange]:
    """Every task by itself; `q` is its p-value adjusted over all tasks (Benjamini and Hochberg)."""
    one, two = (_raw_sums(o, name) for o in (base, candidate))
    if name == "success":
        p = exact.task_tests(one.first, one.n, two.first, two.n).two_sided
    else:
        one_each, two_each = (Sums(*(column[:, None] for column in arm)) for arm in sums(base, candidate, name))
        p = stratified.difference(one_each, two_each, 0.95, equal=False, step=metric(name).step).two_sided
    tested = (one.n > 0) & (two.n > 0) & ((one.n > 1) | (two.n > 1))
    q = np.full(p.shape, np.nan)
    if np.any(tested):
        q[tested] = multiplicity.benjamini_hochberg(p[tested])
    means = one.mean(), two.mean()
    return [
        TaskChange(
            task=task,
            base=float(means[0][i]) if one.n[i] else None,
            candidate=float(means[1][i]) if two.n[i] else None,
            n_base=int(one.n[i]),
            n_candidate=int(two.n[i]),
            difference=float(means[1][i] - means[0][i]) if one.n[i] and two.n[i] else None,
            p=float(p[i]) if tested[i] else None,
            q=float(q[i]) if tested[i] else None,
            moved=bool(tested[i] and q[i] <= FALSE_FINDS),
        )
        for i, task in enumerate(base.tasks)
    ]


def missing_bounds(base: Outcomes, candidate: Outcomes) -> tuple[float, float] | None:
    """The difference of the mean rates if chance had been against the candidate everywhere, and for it everywhere."""
    ends = []
    for o in (base, candidate):
        used = o.planned > 0
        if not np.any(used):
            return None
        planned = o.planned[used].astype(np.float64)
        ends.append(
            (
                float(np.mean(o.successes[used] / planned)),
                float(np.mean((o.successes[used] + o.missing_per_task[used]) / planned)),
            )
        )
    return ends[1][0] - ends[0][1], ends[1][1] - ends[0][0]


def _raw_sums(outcomes: Outcomes, name: str) -> Sums:
    values = outcomes.metric(name)
    known = ~np.isnan(values)
    return stratified.sums_of_values(values[known], outcomes.task[known], len(outcomes.tasks))


def _difference(
    found: stratified.Difference, kind: Metric, level: float, method: str, base: Outcomes, candidate: Outcomes
) -> Estimate:
    gone = {
        f"{side}.{reason}": n
        for side, o in (("base", base), ("candidate", candidate))
        for reason, n in o.missing(kind.name).items()
    }
    tasks = int(found.tasks)
    made = Estimate(value=None, level=level, method=method, n=tasks, of="tasks", missing=gone)
    if tasks == 0:
        return msgspec.structs.replace(made, why=f"no task has a known value of {kind.name} in both runs")
    value, low, high = (float(x) for x in (found.value, found.low, found.high))
    why = _weighing(base, candidate, kind.name, method)
    if not np.isfinite(low) or not np.isfinite(high):
        few = "one task" if method == "paired t over tasks" else "one task with one attempt each"
        why = f"{few} has no spread to measure by"
        return msgspec.structs.replace(made, value=value, why=why)
    if kind.unit == "rate":
        low, high = max(low, -1.0), min(high, 1.0)
    return msgspec.structs.replace(made, value=value, low=low, high=high, why=why)


def _weighing(base: Outcomes, candidate: Outcomes, name: str, method: str) -> str | None:
    """Where attempts differ between tasks, the difference that the test weighs is not that of the means."""
    one, two = (_raw_sums(o, name) for o in (base, candidate))
    used = (one.n > 0) & (two.n > 0)
    if method != "stratified score" or (np.ptp(one.n[used]) == 0 and np.ptp(two.n[used]) == 0):
        return None
    alike = float(np.mean((two.mean() - one.mean())[used]))
    return f"tasks weigh by their attempts, n base × n candidate / n; counted alike the difference is {alike:+.3g}"


def _verdict(difference: Estimate, kind: Metric) -> ChangeVerdict:
    if difference.low is None or difference.high is None or difference.low <= 0 <= difference.high:
        return "undecided"
    return "regression" if kind.worse_sign * difference.low > 0 else "improvement"


def _exact(base: Outcomes, candidate: Outcomes) -> float | None:
    if base.attempts.sum() + candidate.attempts.sum() > FEW:
        return None
    return float(
        exact.stratified_test(base.successes, base.attempts, candidate.successes, candidate.attempts).two_sided
    )


def _odds(base: Outcomes, candidate: Outcomes, level: float) -> Estimate:
    found = exact.common_odds(base.successes, base.attempts, candidate.successes, candidate.attempts, level)
    tasks = int(np.sum((base.attempts > 0) & (candidate.attempts > 0)))
    return _ratio(found, level, "mantel-haenszel", tasks, "tasks")


def _ratio(found: exact.Odds, level: float, method: str, n: int, of: str) -> Estimate:
    value, low, high = (float(x) for x in found)
    if np.isnan(value):
        return Estimate(value=None, level=level, method=method, n=n, of=of, why="nothing flipped either way")
    return Estimate(value=value, low=low, high=high, level=level, method=method, n=n, of=of)


def _same_seed(base: Outcomes, candidate: Outcomes, at_a: Any, at_b: Any) -> int:
    if base.seed is None or candidate.seed is None:
        return 0
    one, two = base.seed[base.scored][at_a], candidate.seed[candidate.scored][at_b]
    known = one != None  # noqa: E711 -- every element is asked
    return int(np.sum(known & (one == two)))
