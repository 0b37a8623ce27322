"""Default metrics of a field: standardised, within tasks, with intervals.

The plain metrics mislead: one dimension with large values dominates the width, ddof 0 biases drift, and pooled tasks
mix their difficulty into separation and skew. So features are logarithms (sign(x) ln(1 + |x|)) over their pooled
standard deviation within tasks, variances divide by n - 1, and everything is computed within tasks and then averaged.
What cannot be distinguished from chance is refused, with the estimate attached.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import numpy as np

from ethogram.estimate import Estimate
from ethogram.measures.columns import Bools, Floats, Ints
from ethogram.statistics import interval, passk, spread
from ethogram.traces.outcome import SUCCESS_AT

from . import features
from .field import Field

CLASSES = 3
"""Failed, succeeded, without outcome."""
FEW_SUCCESSES, ENOUGH_SUCCESSES = 5, 10
LEAST_PER_SIDE, ENOUGH_PER_SIDE = 3, 5
ROUNDING = 1e-20
"""A width of log features below this is what rounding leaves of none."""
LARGE = 20_000
LARGE_TASK = 50
"""From this number of trajectories (of a task, on average), the normal limit replaces permutation."""

_DESCRIBED = "within tasks, standardised log features, n - 1"


MOST_DEALT = 40_000_000
"""Labels that a test deals at most: many trajectories need fewer draws."""
MOST_LOG_VARIANCE = 25.0
"""Of the logarithm of a variance: an interval would reach over ten powers of e to either side."""
ONE_RUN = "one attempt causes all of the spread; look at the attempt furthest from the mean"
MOST_FOR_TAILS = 20_000
"""Trajectories that tails are judged by, about: some tasks or evenly taken rows of more."""


class Scale(NamedTuple):
    """The pooled standard deviation of each log feature within tasks; 0 where a dimension never varies there."""

    sd: Floats
    df: float

    @property
    def alive(self) -> Bools:
        """Which dimensions vary."""
        return self.sd > 0


class MixedTasks(NamedTuple):
    """Successes and failures in tasks that have both: only these tasks can show a difference."""

    plus: int
    minus: int
    tasks: int


def fewer_draws(draws: int, count: int) -> int:
    """As many draws as were asked for, fewer where that would take minutes; 199 at least."""
    return min(draws, max(199, MOST_DEALT // max(count, 1)))


def classes(field: Field, threshold: float = SUCCESS_AT) -> Ints:
    """0 failed, 1 succeeded, 2 without outcome."""
    outcomes = field.outcomes
    return np.where(np.isnan(outcomes), 2, outcomes >= threshold).astype(np.int64)


def log_cells(field: Field) -> spread.Cells:
    """Moments of log features per task and class: cell 3 t + class. Kept until the field grows."""
    kept = field.__dict__.get("_log_cells")
    if kept is None or kept[0] != field.K:
        group = field.task_index * CLASSES + classes(field)
        found = spread.cells(field.points, group, len(field.tasks) * CLASSES, spread.log_features)
        field.__dict__["_log_cells"] = kept = (field.K, found)
    cells: spread.Cells = kept[1]
    return cells


def scale_of(field: Field) -> Scale:
    """The scale of the field that this one was taken from, so that horizons and regions are on one ruler."""
    whole = spread.merged(log_cells(field.root), CLASSES)
    return scale_from(whole)


def scale_from(*parts: spread.Cells) -> Scale:
    """The pooled standard deviation within the groups of all parts."""
    df = float(sum(np.sum(np.maximum(p.n - 1, 0.0)) for p in parts))
    squares = sum((p.squares.sum(axis=0) for p in parts), np.zeros(parts[0].mean.shape[1]))
    sizes = np.max([np.abs(p.mean).max(axis=0, initial=0.0) for p in parts], axis=0)
    sd = np.sqrt(squares / df) if df > 0 else np.zeros(squares.shape)
    # what rounding alone leaves of a constant is no spread
    return Scale(np.where(sd > 1e-9 * np.maximum(sizes, 1e-300), sd, 0.0), df)


def standardised(field: Field, scale: Scale) -> Floats:
    """Log features over the scale, without dimensions that never vary."""
    return spread.log_features(field.points[:, scale.alive]) / scale.sd[scale.alive]


def counts(field: Field) -> MixedTasks:
    """Successes and failures where a task has both."""
    n = log_cells(field).n.reshape(-1, CLASSES)[:, :2]
    both = (n > 0).all(axis=1)
    return MixedTasks(int(n[both, 1].sum()), int(n[both, 0].sum()), int(both.sum()))


def width(field: Field, level: float, *, scaled: bool = True) -> Estimate:
    """The width within tasks: in units of the whole field's own spread (one per dimension that varies), or in logs.

    On its own scale a whole field has as many units as dimensions that vary; the scale is for its parts.
    """
    whole = spread.merged(log_cells(field), CLASSES)
    scale = scale_of(field)
    unit = scale.sd if scaled else scale.alive.astype(np.float64)
    squared = spread.squared_distances(field.points, field.task_index, whole.mean, unit, spread.log_features)
    tasks = len(field.tasks)
    found = spread.width(squared, field.task_index, tasks)
    estimate = width_as_estimate(found, level, _DESCRIBED if scaled else "within tasks, log features, n - 1")
    some = _for_tails(field)
    x = spread.log_features(field.points[some][:, scale.alive]) / unit[scale.alive]
    return _with_tails(estimate, found, x, field.task_index[some], level)


def variance(field: Field, level: float) -> dict[str, Estimate]:
    """The variance of each dimension within tasks (n - 1), in its own unit squared: the width of one dimension."""
    tasks, some = len(field.tasks), _for_tails(field)
    centres = spread.cells(field.points, field.task_index, tasks).mean
    out = {}
    for j, name in enumerate(field.names):
        own = field.points[:, [j]]
        squared = spread.squared_distances(own, field.task_index, centres[:, [j]], np.ones(1))
        found = spread.width(squared, field.task_index, tasks)
        kind = "mean over tasks of the variance within, n - 1"
        estimate = width_as_estimate(found, level, kind)
        out[name] = _with_tails(estimate, found, own[some], field.task_index[some], level)
    return out


def _for_tails(field: Field) -> Ints:
    """Some rows, of whole tasks where there are enough of them, since tails are judged within tasks."""
    step = -(-field.K // MOST_FOR_TAILS)
    return np.flatnonzero(field.task_index % step == 0) if len(field.tasks) >= step else np.arange(0, field.K, step)


def _with_tails(estimate: Estimate, found: spread.Width, x: Floats, task: Ints, level: float) -> Estimate:
    """A width with the interval that its tails allow, or the reason why they allow none."""
    if estimate.low is None or not np.isfinite(found.log_variance):
        return estimate
    seen = features.tails(x, task, int(task.max()) + 1)
    ends = features.width_interval(found, seen, level)
    if ends is not None:
        return msgspec.structs.replace(estimate, low=float(ends.low), high=float(ends.high))
    why = (
        f"a few attempts cause most of the spread (tails longer than normal, p = {seen.p:.2g}), so an interval would "
        "be too narrow; look at the attempts furthest from the mean"
    )
    return msgspec.structs.replace(estimate, low=None, high=None, why=why)


def width_as_estimate(found: spread.Width, level: float, kind: str) -> Estimate:
    """With a jackknife-t interval of its logarithm, or with the reason why there is none."""
    method = f"{kind}; jackknife-t over {found.by or 'runs'}"
    common: dict[str, Any] = {"level": level, "method": method, "n": found.rows, "of": "trajectories"}
    if found.groups == 0:
        why = "no task has two trajectories, so the spread within tasks is unknown; run each task at least twice"
        return Estimate(value=None, why=why, **common)
    if found.value <= ROUNDING:
        return Estimate(value=0.0, why="all trajectories of a task are equal, so there is no spread", **common)
    if not np.isfinite(found.log_variance):
        why = (
            f"{found.rows} trajectories in {found.groups} task{'s' * (found.groups > 1)} are too few for an interval; "
            "it needs 3 of every task, or 2 of each of 5 tasks"
        )
        return Estimate(value=found.value, why=why, **common)
    if found.log_variance > MOST_LOG_VARIANCE:
        return Estimate(value=found.value, why=ONE_RUN, **common)
    low, high = spread.log_interval(found.value, found.log_variance, found.df, level)
    return Estimate(value=found.value, low=float(low), high=float(high), **common)


def convergence(field: Field, level: float) -> Estimate:
    """Mean over sd of outcomes: for passes and failures √(p / (1 - p)), with the interval of the pass rate."""
    rate, binary = pass_rate(field, level), _is_binary(field)
    if rate.value is None or not binary:
        return rate if rate.value is None else _graded_convergence(field, level)
    value, low, high = (_odds_root(x) for x in (rate.value, rate.low, rate.high))
    return Estimate(
        value=value, low=low, high=high, level=level, method=f"√(p / (1 - p)) of the pass rate, {rate.method}",
        n=rate.n, of=rate.of, missing=rate.missing,
    )  # fmt: skip


def pass_rate(field: Field, level: float) -> Estimate:
    """The mean over tasks of the share of successes; the interval is for new attempts at these tasks."""
    n = log_cells(field).n.reshape(-1, CLASSES)
    attempts, successes = n[:, 0] + n[:, 1], n[:, 1]
    used = attempts > 0
    total = int(attempts.sum())
    common: dict[str, Any] = {"level": level, "n": total, "of": "trajectories", "missing": field.missing}
    if total == 0:
        return Estimate(value=None, why="no trajectory has an outcome; score them first", **common)
    if int(used.sum()) == 1:
        low, high = interval.wilson_edge(successes.sum(), total, level)
        return Estimate(
            value=float(successes.sum() / total), low=float(low), high=float(high), method="Wilson", **common
        )
    curve = passk.curve(successes[used], attempts[used], [1], level, kind="hat", target="suite")
    return Estimate(
        value=float(curve.value[0]), low=float(curve.low[0]), high=float(curve.high[0]),
        method="mean over tasks, Wilson with effective n", **common,
    )  # fmt: skip


def separation(field: Field, level: float) -> dict[str, Estimate]:
    """Successes minus failures within tasks, per dimension, in standard deviations of the log feature."""
    found, scale, sides = class_contrast(field), scale_of(field), counts(field)
    refusal = too_few_per_side(sides)
    low, high = interval.student(found.value, found.variance, found.df, level)
    out = {}
    for j, name in enumerate(field.names):
        common: dict[str, Any] = {
            "level": level, "n": sides.plus + sides.minus, "of": "trajectories", "missing": field.missing,
            "method": "successes minus failures within tasks, standardised log feature; Welch's t",
        }  # fmt: skip
        if sides.tasks == 0 or not scale.alive[j]:
            still = "this dimension never varies within a task"
            out[name] = Estimate(value=None, why=refusal if sides.tasks == 0 else still, **common)
            continue
        value, ends = found.value[j] / scale.sd[j], (low[j] / scale.sd[j], high[j] / scale.sd[j])
        if sides.plus < LEAST_PER_SIDE or sides.minus < LEAST_PER_SIDE or not np.isfinite(ends[0]):
            out[name] = Estimate(value=float(value), why=refusal or "the spread within classes is not known", **common)
        else:
            out[name] = Estimate(value=float(value), low=float(ends[0]), high=float(ends[1]), why=refusal, **common)
    return out


def class_contrast(field: Field) -> features.Contrast:
    """Successes minus failures within tasks, per log feature."""
    whole = log_cells(field)
    rows = np.arange(whole.n.size).reshape(-1, CLASSES)[:, :2].ravel()
    return features.class_difference(spread.Cells(*(part[rows] for part in whole)))


def too_few_per_side(sides: MixedTasks) -> str | None:
    """What is missing for a test of success against failure; None if nothing is."""
    plus, minus = f"{sides.plus} success{'' if sides.plus == 1 else 'es'}", f"{sides.minus} failure"
    have = f"tasks with both outcomes have {plus} and {minus}{'' if sides.minus == 1 else 's'}"
    if sides.tasks == 0:
        return "no task has both successes and failures, so they cannot be compared; run more attempts per task"
    if min(sides.plus, sides.minus) < LEAST_PER_SIDE:
        return f"too few attempts: {have}; {LEAST_PER_SIDE} of each are needed ({ENOUGH_PER_SIDE} for a test)"
    if min(sides.plus, sides.minus) < ENOUGH_PER_SIDE and sides.tasks == 1:
        return f"{have}, which can hardly be significant; {ENOUGH_PER_SIDE} of each or more such tasks are needed"
    return None


def skew(field: Field, level: float) -> dict[str, Estimate]:
    """The correlation of outcome and log feature within tasks, per dimension."""
    scored = np.flatnonzero(field.scored)
    part = field if scored.size == field.K else field.subset(scored, "scored")
    scale, y, group, tasks = scale_of(field), part.outcomes, part.task_index, len(part.tasks)
    sides, binary = counts(field), _is_binary(field)
    refusal = too_few_per_side(sides) if binary else None
    enough = not binary or min(sides.plus, sides.minus) >= LEAST_PER_SIDE
    common: dict[str, Any] = {
        "level": level, "n": part.K, "of": "trajectories", "missing": field.missing,
        "method": "correlation of outcome and log feature within tasks; jackknife-t of Fisher's z",
    }  # fmt: skip
    out = {}
    spreads = part.K > 0 and float(spread.cells(y[:, None], group, max(tasks, 1)).squares.sum()) > 0
    for j, name in enumerate(field.names):
        if not spreads or not scale.alive[j]:
            what = "this dimension" if spreads else "the outcome"
            out[name] = Estimate(value=None, why=f"{what} never varies within a task", **common)
            continue
        column = spread.log_features(part.points[:, j : j + 1])
        value, variance, df = features.correlation_left_out(column, y, group, tasks)
        if not np.isfinite(value[0]):
            out[name] = Estimate(value=None, why="this dimension never varies here within a task", **common)
        elif not enough or not np.isfinite(variance[0]) or df < 2:
            why = refusal or "the correlation is perfect with or without some trajectory, so its spread is unknown"
            out[name] = Estimate(value=float(value[0]), why=why, **common)
        else:
            low, high = features.bounded_interval(value[0], variance[0], df, level)
            out[name] = Estimate(value=float(value[0]), low=float(low), high=float(high), why=refusal, **common)
    return out


def center(field: Field, level: float) -> dict[str, Estimate]:
    """The mean over tasks of task means, per dimension, in its own unit; intervals for new attempts at these tasks."""
    found = spread.cells(field.points, field.task_index, len(field.tasks))
    tasks = found.n.size
    value = found.mean.mean(axis=0)
    variance = found.variance() * float(np.sum(1 / found.n)) / tasks**2
    df = float(np.sum(found.n - 1))
    low, high = interval.student(value, variance, df, level)
    common: dict[str, Any] = {
        "level": level,
        "n": field.K,
        "of": "trajectories",
        "method": "mean over tasks; t, sd within tasks",
    }
    few = "with one trajectory per task the spread within tasks is unknown; run each task at least twice"
    return {
        name: Estimate(value=float(value[j]), low=float(low[j]), high=float(high[j]), **common)
        if df > 0
        else Estimate(value=float(value[j]), why=few, **common)
        for j, name in enumerate(field.names)
    }


def drift(field: Field, level: float) -> Estimate:
    """Width of all minus width of the successes, in tasks that also failed; refused below five successes."""
    scale = scale_of(field)
    common: dict[str, Any] = {
        "level": level,
        "of": "successes",
        "method": f"W(all) - W(successes): {_DESCRIBED}; jackknife-t over runs",
    }
    success = classes(field) == 1
    if not scale.alive.any():
        return Estimate(value=None, why="no dimension varies within a task", n=int(success.sum()), **common)
    found = spread.gap(standardised(field, scale), field.task_index, len(field.tasks), success)
    if found.groups == 0:
        why = f"no task has two successes and a failure; drift needs {ENOUGH_SUCCESSES} successes of such tasks"
        return Estimate(value=None, why=why, n=int(success.sum()), **common)
    have = f"{found.rows} of {int(success.sum())} successes"
    if found.rows < FEW_SUCCESSES or not np.isfinite(found.variance):
        few = (
            f"only {have} are in tasks that also have failures"
            if found.rows < FEW_SUCCESSES
            else "a task has only two successes"
        )
        why = f"{few}; an interval needs {FEW_SUCCESSES} (3 of each task), a claim {ENOUGH_SUCCESSES}"
        return Estimate(value=found.value, why=why, n=found.rows, **common)
    low, high = interval.student(found.value, found.variance, found.df, level)
    weak = (
        f"only {have} are in tasks that also have failures: a direction, not a claim; a claim needs {ENOUGH_SUCCESSES}"
    )
    reason = None if found.rows >= ENOUGH_SUCCESSES else weak
    return Estimate(value=found.value, low=float(low), high=float(high), why=reason, n=found.rows, **common)


def _is_binary(field: Field) -> bool:
    scores = field.outcomes[field.scored]
    return bool(np.all((scores == 0) | (scores == 1)))


def _odds_root(rate: float | None) -> float | None:
    if rate is None:
        return None
    return float(np.sqrt(rate / (1 - rate))) if rate < 1 else float("inf")


def _graded_convergence(field: Field, level: float) -> Estimate:
    """Mean over sd of graded scores, n - 1, with the jackknife of its logarithm over trajectories."""
    y = field.outcomes[field.scored]
    n = y.size
    common: dict[str, Any] = {
        "level": level, "n": n, "of": "trajectories", "missing": field.missing,
        "method": "mean / sd (n - 1); jackknife-t of its logarithm",
    }  # fmt: skip
    mean, sd = float(y.mean()), float(y.std(ddof=1)) if n > 1 else 0.0
    if sd <= 1e-12 * max(abs(mean), 1e-300):
        value = float("inf") if mean > 0 else 0.0
        return Estimate(value=value, why=f"all {n} scores are alike, so their spread is not known", **common)
    value = mean / sd
    total, squares = y.sum(), np.sum((y - mean) ** 2)
    left_mean = (total - y) / (n - 1)
    left_square = np.maximum(squares - n / (n - 1) * (y - mean) ** 2, 0.0)
    if n < 4 or value <= 0 or np.any(left_mean <= 0) or np.any(left_square <= 0):
        return Estimate(
            value=value, why=f"{n} graded scores with this mean do not bear an interval; it needs more", **common
        )
    left = np.log(left_mean / np.sqrt(left_square / (n - 2)))
    variance = float((n - 1) / n * np.sum((left - left.mean()) ** 2))
    low, high = spread.log_interval(value, variance, n - 1, level)
    return Estimate(value=value, low=float(low), high=float(high), **common)
