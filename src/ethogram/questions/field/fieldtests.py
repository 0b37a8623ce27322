"""Tests on fields: on which dimensions successes and failures differ, and how two fields differ.

Labels are permuted within tasks, so the difficulty of tasks does not matter; max-T adjusts over dimensions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import numpy as np

from ethogram.errors import BadUsage
from ethogram.estimate import Estimate
from ethogram.measures.columns import Bools, Floats, Ints
from ethogram.plans import derived_seed
from ethogram.statistics import interval, multiplicity, permutation, spread, stratified
from ethogram.statistics.permutation import MaxT
from ethogram.traces.outcome import SUCCESS_AT

from . import standardised
from .features import Contrast, class_difference, contrast_test
from .field import Field


class SeparationTest(NamedTuple):
    """p per dimension, alone and adjusted over all of them; empty, with `why`, where a test makes no sense.

    `least` is the smallest p that a permutation can give. `method` says whether labels were permuted, or p was
    drawn from the normal limit of dealing, as it is above 20 000 runs.
    """

    p: dict[str, float]
    adjusted: dict[str, float]
    draws: int
    least: float
    why: str | None
    method: str = ""


class Test(msgspec.Struct, frozen=True, kw_only=True):
    """A p-value, what it is of, and whether it can be small at all."""

    of: str
    p: float | None
    method: str
    why: str | None = None


class DimensionShift(msgspec.Struct, frozen=True, kw_only=True):
    """How one dimension moved between two fields: the plain difference of means, the default reading, and p."""

    name: str
    difference: float
    shift: Estimate
    p: float | None
    adjusted: float | None
    separation: Estimate
    separation_p: float | None


class FieldComparison(msgspec.Struct, frozen=True, kw_only=True):
    """The second field against the first, on the tasks that both have."""

    tasks: int
    K: tuple[int, int]
    widths: tuple[float, float]
    convergences: tuple[Estimate, Estimate]
    width_ratio: Estimate
    centre_shift: Estimate
    pass_rate_difference: Estimate
    tests: tuple[Test, ...]
    dimensions: tuple[DimensionShift, ...]
    only_in_first: tuple[str, ...]
    only_in_second: tuple[str, ...]
    draws: int
    seed: int

    def test(self, of: str) -> Test:
        """The test of one thing: width, centre, centre per task, convergence."""
        return next(t for t in self.tests if t.of == of)


class Pair(NamedTuple):
    """Two fields on one scale: standardised log features of the tasks that both have, arms one after the other."""

    x: Floats
    second: Bools
    task: Ints
    tasks: list[str]
    alive: Bools
    sd: Floats
    parts: tuple[Field, Field]


def generator(seed: int, purpose: str) -> np.random.Generator:
    """A generator that depends on the seed and on what it is for, not on what was drawn before."""
    return np.random.default_rng(derived_seed(seed, purpose))


def separation_test(field: Field, draws: int, seed: int) -> SeparationTest:
    """Outcome classes permuted within tasks; refused below three of a class."""
    sides, scale = standardised.counts(field), standardised.scale_of(field)
    why = standardised.too_few_per_side(sides)
    if sides.tasks == 0 or min(sides.plus, sides.minus) < standardised.LEAST_PER_SIDE or not scale.alive.any():
        return SeparationTest({}, {}, 0, 1.0, why or "no dimension varies within a task")
    kinds = standardised.classes(field)
    part = field.subset(kinds < 2, "scored") if (kinds == 2).any() else field
    success = (kinds[kinds < 2] == 1).astype(np.float64)
    groups, rng = len(part.tasks), generator(seed, "field separation")
    ways = permutation.log_arrangements(part.task_index, success > 0, groups)
    if part.K > standardised.LARGE:
        whole = spread.merged(standardised.log_cells(part), standardised.CLASSES)
        score, covariance = spread.scores(part.points, success, part.task_index, whole.mean, spread.log_features)
        kept = np.flatnonzero(scale.alive)
        draws = max(draws, 9999)
        found = permutation.max_t_normal(score[kept], covariance[np.ix_(kept, kept)], draws, rng)
        many = f"{part.K} attempts, above {standardised.LARGE}"
        method = f"normal limit of outcomes permuted within tasks ({many}), {draws} draws"
    else:
        method = f"outcomes permuted within tasks, {draws} draws"
        x = standardised.standardised(part, scale)
        found = permutation.association(x, success, part.task_index, groups, draws, rng)
    names = [n for n, alive in zip(field.names, scale.alive, strict=True) if alive]
    return SeparationTest(
        dict(zip(names, found.p.tolist(), strict=True)),
        dict(zip(names, found.adjusted.tolist(), strict=True)),
        draws,
        max(float(np.exp(-ways)), 1 / (draws + 1)),
        why,
        f"{method}; max-T over dimensions",
    )


def compare_fields(
    first: Field, second: Field, *, level: float = 0.95, draws: int = 999, seed: int = 0
) -> FieldComparison:
    """Width ratio, shift of the centre, convergence and separation, each with an interval and a test.

    Runs of tasks that only one field has are left out and named. Two tests ask whether the centre moved: one norm of
    the shift averaged over tasks, one of every task's own shift; Holm over the two.
    """
    pair = paired(first, second)
    ratio, ratio_test = width_ratio(pair, level)
    moved, centre_tests, features = centre(pair, level, draws, seed)
    passes, pass_test = _pass_difference(pair, level)
    return FieldComparison(
        tasks=len(pair.tasks),
        K=(pair.parts[0].K, pair.parts[1].K),
        widths=(pair.parts[0].metrics().width(), pair.parts[1].metrics().width()),
        convergences=(standardised.convergence(pair.parts[0], level), standardised.convergence(pair.parts[1], level)),
        width_ratio=ratio,
        centre_shift=moved,
        pass_rate_difference=passes,
        tests=(ratio_test, *centre_tests, pass_test),
        dimensions=_dimensions(pair, features, level),
        only_in_first=tuple(sorted(set(first.tasks) - set(pair.tasks))),
        only_in_second=tuple(sorted(set(second.tasks) - set(pair.tasks))),
        draws=draws,
        seed=seed,
    )


def paired(first: Field, second: Field, scale: standardised.Scale | None = None) -> Pair:
    """Both fields on the tasks that they share, on the scale of the spread within task and field."""
    if first.names != second.names:
        raise BadUsage("two fields can be compared only with the same dimensions in the same order; measure both alike")
    known = set(second.tasks)
    shared = [t for t in first.tasks if t in known]
    if not shared:
        raise BadUsage(
            f"the fields share no task (the first has {_some(first.tasks)}, the second {_some(second.tasks)}); "
            "compare runs of the same tasks"
        )
    parts = tuple(_of_tasks(f, shared) for f in (first, second))
    place = {t: i for i, t in enumerate(shared)}
    index = [np.array([place[t] for t in f.tasks], dtype=np.int64)[f.task_index] for f in parts]
    found = [spread.cells(f.points, g, len(shared), spread.log_features) for f, g in zip(parts, index, strict=True)]
    used = standardised.scale_from(*found) if scale is None else scale
    if used.df == 0:
        # one run per task and side: the spread within tasks over both sides is all there is
        both = np.concatenate([f.points for f in parts])
        used = standardised.scale_from(spread.cells(both, np.concatenate(index), len(shared), spread.log_features))
    x = np.concatenate([standardised.standardised(f, used) for f in parts])
    second_arm = np.repeat([False, True], [parts[0].K, parts[1].K])
    return Pair(x, second_arm, np.concatenate(index), shared, used.alive, used.sd, (parts[0], parts[1]))


def width_ratio(pair: Pair, level: float) -> tuple[Estimate, Test]:
    """The second width over the first, ln of it jackknifed, Student's t."""
    groups = len(pair.tasks)
    arms: list[Any] = []
    for own in (~pair.second, pair.second):
        x, at = pair.x[own], pair.task[own]
        arms += [spread.squared_distances(x, at, spread.cells(x, at, groups).mean, np.ones(x.shape[1])), at]
    found = spread.width_ratio(arms[0], arms[1], arms[2], arms[3], groups)
    method = "widths within tasks on a common scale; jackknife-t of the log ratio"
    common: dict[str, Any] = {"level": level, "method": method, "n": found.rows, "of": "trajectories"}
    if not np.isfinite(found.value) or found.value <= 0:
        why = "no task has two trajectories that differ on both sides; the ratio needs 3 on each side of every task"
        return Estimate(value=None, why=why, **common), Test(of="width", p=None, method=method, why=why)
    if not np.isfinite(found.log_variance):
        why = f"{found.rows} trajectories in {found.groups} tasks are too few; it needs 3 on each side of every task"
        return Estimate(value=found.value, why=why, **common), Test(of="width", p=None, method=method, why=why)
    if found.log_variance > standardised.MOST_LOG_VARIANCE:
        return Estimate(value=found.value, why=standardised.ONE_RUN, **common), Test(
            of="width", p=None, method=method, why=standardised.ONE_RUN
        )
    low, high = spread.log_interval(found.value, found.log_variance, found.df, level)
    p = spread.log_test(found.value, found.log_variance, found.df)
    return Estimate(value=found.value, low=float(low), high=float(high), **common), Test(of="width", p=p, method=method)


def centre(pair: Pair, level: float, draws: int, seed: int) -> tuple[Estimate, list[Test], MaxT]:
    """The distance of the centres without what noise alone adds, in widths; and the tests of its being nought."""
    if not pair.alive.any():
        still = "no dimension varies within a task, on either side"
        nought = np.ones(0)
        tests = [Test(of="centre", p=None, method="arms permuted within tasks", why=still)]
        return Estimate(value=None, level=level, why=still), tests, MaxT(nought, nought, nought)
    groups, arms = len(pair.tasks), []
    for own in (~pair.second, pair.second):
        x, at = pair.x[own], pair.task[own]
        arms.append((spread.cells(x, at, groups), spread.pooled_covariance(x, at, groups)))
    cross = [a[1] for a in arms]
    known = [not np.isnan(c).any() for c in cross]
    cross = [c if k else cross[1 - i] for i, (c, k) in enumerate(zip(cross, known, strict=True))]
    found = spread.shift(arms[0][0], arms[1][0], cross[0], cross[1])
    least = -permutation.log_arrangements(pair.task, pair.second, groups)
    # a scale that knows the arms would favour the observed labels: here the spread within tasks over both
    whole = standardised.scale_from(spread.cells(pair.x, pair.task, groups)).sd
    many = pair.second.size > standardised.LARGE and pair.second.size / groups >= standardised.LARGE_TASK
    test = permutation.centre_tests_normal if many else permutation.centre_tests
    draws = draws if many else standardised.fewer_draws(draws, pair.second.size)
    tested = test(
        pair.x / np.where(whole > 0, whole, 1.0), pair.second, pair.task, groups, draws, generator(seed, "field centre")
    )
    method = f"arms permuted within tasks, {draws} draws"
    if many:
        method = f"normal limit of arms permuted within tasks ({pair.second.size} attempts), {draws} draws"
    smallest = float(np.exp(least)) * 2
    needed = (
        f"so few attempts that p cannot be below {smallest:.2g}; it needs 4 on each side of one task, or more tasks"
    )
    weak = needed if smallest > 1 - level else None
    if groups == 1:
        tests = [Test(of="centre", p=tested.pooled, method=method, why=weak)]
    else:
        holm = [float(p) for p in multiplicity.holm([tested.pooled, tested.per_group])]
        norms = (("centre", "norm of the mean shift"), ("centre per task", "norms of task shifts"))
        tests = [
            Test(of=of, p=p, method=f"{norm}; {method}; Holm over two norms", why=weak)
            for (of, norm), p in zip(norms, holm, strict=True)
        ]
    common: dict[str, Any] = {
        "level": level, "n": int(pair.second.size), "of": "trajectories",
        "method": "distance of centres averaged over tasks, unbiased square, in widths; noncentral F, 0 by the test",
    }  # fmt: skip
    unit = float(pair.alive.sum())
    if not any(known) or unit == 0:
        why = "one trajectory per task on each side says nothing of the spread; it needs two on one side at least"
        return Estimate(value=None, why=why, **common), tests, tested.features
    ends = [float(np.sqrt(max(float(e), 0.0) / unit)) for e in spread.norm_interval(found, level, tests[0].p)]
    value = min(max(float(np.sqrt(max(found.square, 0.0) / unit)), ends[0]), ends[1])
    estimate = Estimate(value=value, low=ends[0], high=ends[1], **common)
    return estimate, tests, tested.features


def _pass_difference(pair: Pair, level: float) -> tuple[Estimate, Test]:
    """The pass rate of the second field minus that of the first, within tasks."""
    y = np.concatenate([p.outcomes for p in pair.parts])
    kept = ~np.isnan(y)
    missing: dict[str, int] = {}
    for part in pair.parts:
        for reason, count in part.missing.items():
            missing[reason] = missing.get(reason, 0) + count
    method = "within tasks, score interval of Cochran, Mantel and Haenszel"
    common: dict[str, Any] = {"level": level, "method": method, "n": int(kept.sum()), "of": "trajectories"}
    values = (y[kept] >= SUCCESS_AT).astype(np.float64)
    arms = stratified.arms_of_values(values, pair.task[kept], pair.second[kept], len(pair.tasks))
    found = stratified.difference(*arms, level, equal=False, step=1.0)
    if int(found.tasks) == 0:
        why = "no task has an outcome on both sides; score the attempts first"
        return Estimate(value=None, why=why, missing=missing, **common), Test(
            of="convergence", p=None, method=method, why=why
        )
    value, low, high = (float(np.clip(e, -1, 1)) for e in (found.value, found.low, found.high))
    test = Test(of="convergence", p=float(found.two_sided), method=method)
    return Estimate(value=value, low=min(low, value), high=max(high, value), missing=missing, **common), test


def _dimensions(pair: Pair, features: MaxT, level: float) -> tuple[DimensionShift, ...]:
    found = class_difference(spread.cells(pair.x, pair.task * 2 + pair.second, 2 * len(pair.tasks)))
    low, high = interval.student(found.value, found.variance, found.df, level)
    raw = pair.parts[1].metrics().center() - pair.parts[0].metrics().center()
    changes, parted = _separation_changes(pair, level)
    names = pair.parts[0].names
    place = np.cumsum(pair.alive) - 1
    out = []
    for j, name in enumerate(names):
        common: dict[str, Any] = {
            "level": level, "n": int(pair.second.size), "of": "trajectories",
            "method": "within tasks, standardised log feature; Welch's t",
        }  # fmt: skip
        i = int(place[j])
        if not pair.alive[j]:
            estimate = Estimate(value=None, why="this dimension never varies within a task", **common)
        elif not np.isfinite(low[i]):
            estimate = Estimate(value=float(found.value[i]), why="the spread within tasks is not known", **common)
        else:
            estimate = Estimate(value=float(found.value[i]), low=float(low[i]), high=float(high[i]), **common)
        out.append(
            DimensionShift(
                name=name,
                difference=float(raw[j]),
                shift=estimate,
                p=float(features.p[i]) if pair.alive[j] else None,
                adjusted=float(features.adjusted[i]) if pair.alive[j] else None,
                separation=changes[j],
                separation_p=parted.get(j),
            )
        )
    return tuple(out)


def _separation_changes(pair: Pair, level: float) -> tuple[list[Estimate], dict[int, float]]:
    """Separation of the second minus that of the first on the common scale, and p with Holm over dimensions."""
    found = [standardised.class_contrast(p) for p in pair.parts]
    sides = [standardised.counts(p) for p in pair.parts]
    common: dict[str, Any] = {
        "level": level, "n": sum(s.plus + s.minus for s in sides), "of": "trajectories",
        "method": "difference of separations within tasks, standardised log feature; Welch's t",
    }  # fmt: skip
    apart = found[1].value - found[0].value
    variances = [f.variance for f in found]
    df = np.array(
        [spread.welch_df([a, b], [c, d]) for a, b, c, d in zip(*variances, found[0].df, found[1].df, strict=True)]
    )
    change = Contrast(apart, variances[0] + variances[1], df, 0)
    low, high = interval.student(change.value, change.variance, change.df, level)
    p = contrast_test(change)
    refused = next((w for w in map(standardised.too_few_per_side, sides) if w), None)
    enough = all(min(s.plus, s.minus) >= standardised.LEAST_PER_SIDE for s in sides)
    out, tested = [], []
    for j, sd in enumerate(pair.sd):
        if not pair.alive[j] or not np.isfinite(apart[j]):
            why = refused or "this dimension never varies within a task"
            out.append(Estimate(value=None, why=why, **common))
        elif not enough or not np.isfinite(low[j]):
            out.append(Estimate(value=float(apart[j] / sd), why=refused or "the spread is not known", **common))
        else:
            ends = (float(low[j] / sd), float(high[j] / sd))
            out.append(Estimate(value=float(apart[j] / sd), low=ends[0], high=ends[1], why=refused, **common))
            tested.append(j)
    adjusted = multiplicity.holm(p[tested]) if tested else p[:0]
    return out, dict(zip(tested, adjusted.tolist(), strict=True))


def _of_tasks(field: Field, tasks: list[str]) -> Field:
    known = set(tasks)
    wanted = np.array([t in known for t in field.tasks], dtype=bool)
    return field if wanted.all() else field.subset(wanted[field.task_index], "tasks in common")


def _some(tasks: list[str]) -> str:
    shown = ", ".join(repr(t) for t in tasks[:3])
    return shown + (", …" if len(tasks) > 3 else "") if tasks else "none"
