"""How far two raters, or many, say the same: agreement, kappa, alpha, and how often a judge is right about each answer.

Raters say yes (1) or no (0); a truth between the two is a share of people who say yes, and counts as such a share of
both. Units carry weights (one over the probability that they were drawn) and belong to clusters (tasks), which may be
correlated inside. A figure that has no value says why: nothing here is NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ethogram.statistics._numeric import Floats, Ints, Numbers, floats, normal_quantile, student_quantile
from ethogram.statistics.interval import effective_n, known_ends, mover, wilson_edge


class AgreementFigure(NamedTuple):
    """A number with its interval; `value` is None where there is none, and `why` says so."""

    value: float | None
    low: float | None = None
    high: float | None = None
    n: int = 0
    why: str | None = None


class Confusion(NamedTuple):
    """Weights of the four cases; `missed` is a yes of the truth that the judge denies."""

    both_yes: float
    judge_yes: float
    missed: float
    both_no: float


def confusion(judge: Numbers, truth: Numbers, weight: Numbers = 1.0) -> Confusion:
    """The table of a judge against the truth."""
    f, y, w = np.broadcast_arrays(floats(judge), floats(truth), floats(weight))
    cases = (f * y, f * (1 - y), (1 - f) * y, (1 - f) * (1 - y))
    return Confusion(*(float(np.sum(w * case)) for case in cases))


def share(part: Numbers, whole: Numbers, cluster: Numbers, level: float, nothing: str = "") -> AgreementFigure:
    """The share of `whole` that is `part`, both weights per unit; Wilson's interval at the effective n of clusters.

    Without any whole the value is None for the reason `nothing`. With one unit per cluster and equal weights it is
    Wilson's interval.
    """
    p, w = floats(part), floats(whole)
    total, n = float(w.sum()), int(np.sum(w > 0))
    if total <= 0:
        return AgreementFigure(None, n=0, why=nothing or "there is nothing to take a share of")
    value = min(max(float(p.sum()) / total, 0.0), 1.0)
    _, code = np.unique(np.asarray(cluster)[w > 0], return_inverse=True)
    off = np.bincount(code, weights=((p - value * w) / total)[w > 0])
    variance = float(np.sum(off**2))
    if off.size < n:
        variance *= off.size / max(off.size - 1, 1) * _widening(off.size, level)
    spread = effective_n(value, variance, 1.0, float(n), float(off.size))
    low, high = wilson_edge(value * spread, spread, level)
    return AgreementFigure(value, float(low), float(high), n)


def youden(sensitivity: AgreementFigure, specificity: AgreementFigure) -> AgreementFigure:
    """J, sensitivity + specificity - 1, with the interval that the two give together (Zou and Donner 2008)."""
    caught, cleared = (known_ends(f.value, f.low, f.high) for f in (sensitivity, specificity))
    if caught is None or cleared is None:
        return AgreementFigure(None, n=0, why=sensitivity.why or specificity.why)
    value, low, high = mover([(1.0, caught), (1.0, cleared)])
    return AgreementFigure(value - 1, max(low - 1, -1.0), min(high - 1, 1.0), sensitivity.n + specificity.n)


def phi(table: Confusion) -> float | None:
    """The correlation of judge and truth; None where one of the two never varies."""
    a, b, c, d = table
    spread = (a + b) * (c + d) * (a + c) * (b + d)
    return float((a * d - b * c) / spread**0.5) if spread > 0 else None


def cohen(judge: Numbers, truth: Numbers, weight: Numbers, cluster: Numbers, level: float) -> AgreementFigure:
    """Cohen's kappa (1960) of two raters, with an interval from leaving out one cluster in turn."""
    f, y, w = np.broadcast_arrays(floats(judge), floats(truth), floats(weight))
    cases = np.stack([w * f * y, w * f * (1 - y), w * (1 - f) * y, w * (1 - f) * (1 - y)], axis=1)
    return _beyond_chance(_per_cluster(cases, cluster), _cohen, f.size, level, "both raters always say the same")


def gwet(judge: Numbers, truth: Numbers, weight: Numbers, cluster: Numbers, level: float) -> AgreementFigure:
    """Gwet's AC1 (2008) of two raters: chance is 2p(1 - p), with p the mean share of yes of both.

    It has a value where both always say the same, and does not fall towards 0 where nearly all answers are alike, as
    kappa does.
    """
    f, y, w = np.broadcast_arrays(floats(judge), floats(truth), floats(weight))
    columns = np.stack([w * (f * y + (1 - f) * (1 - y)), w, w * (f + y) / 2], axis=1)

    def parts(totals: Floats) -> tuple[Floats, Floats]:
        n = np.where(totals[..., 1] > 0, totals[..., 1], 1.0)
        yes = totals[..., 2] / n
        return totals[..., 0] / n, 2 * yes * (1 - yes)

    return _beyond_chance(_per_cluster(columns, cluster), parts, f.size, level, "")


def weighted_kappa(
    first: Numbers, second: Numbers, weight: Numbers, cluster: Numbers, level: float, *, power: float = 2.0
) -> AgreementFigure:
    """Cohen's weighted kappa (1968) of two raters who give grades: a disagreement counts by its distance.

    The distance of two grades is their difference to this `power`: 2 is the quadratic kappa, 1 the linear one. With
    two grades it is Cohen's kappa.
    """
    f, y, w = np.broadcast_arrays(floats(first), floats(second), floats(weight))
    if f.size == 0:
        return AgreementFigure(None, n=0, why="nothing was rated twice")
    grades, code = np.unique(np.concatenate([f, y]), return_inverse=True)
    if grades.size < 2:
        return AgreementFigure(
            None, n=f.size, why="both raters always give one grade: nothing is left to agree on beyond chance"
        )
    near = 1 - (np.abs(grades[:, None] - grades) / (grades[-1] - grades[0])) ** power
    one, two = code[: f.size], code[f.size :]
    given = np.eye(grades.size)
    columns = np.column_stack([w * near[one, two], w, w[:, None] * given[one], w[:, None] * given[two]])

    def parts(totals: Floats) -> tuple[Floats, Floats]:
        n = np.where(totals[..., 1] > 0, totals[..., 1], 1.0)
        ours, theirs = totals[..., 2 : 2 + grades.size], totals[..., 2 + grades.size :]
        return totals[..., 0] / n, np.sum(ours @ near * theirs, axis=-1) / n**2

    constant = "both raters always give one grade"
    return _beyond_chance(_per_cluster(columns, cluster), parts, f.size, level, constant)


def fleiss(counts: Numbers, cluster: Numbers, level: float) -> AgreementFigure:
    """Fleiss' kappa (1971) from (units, categories) counts of raters; every unit has as many raters, at least two."""
    c = floats(counts)
    raters = c.sum(axis=1)
    if c.shape[0] == 0 or np.ptp(raters) > 0 or raters[0] < 2:
        return AgreementFigure(
            None, n=c.shape[0], why="Fleiss' kappa needs the same number of raters, two or more, at every unit"
        )
    same = np.sum(c * (c - 1), axis=1) / (raters * (raters - 1))
    columns = np.column_stack([same, np.ones(c.shape[0]), c / raters[:, None]])

    def parts(totals: Floats) -> tuple[Floats, Floats]:
        shares = totals[..., 2:] / totals[..., 1:2]
        return totals[..., 0] / totals[..., 1], np.sum(shares**2, axis=-1)

    return _beyond_chance(_per_cluster(columns, cluster), parts, c.shape[0], level, "all raters always say the same")


def krippendorff(ratings: Numbers, cluster: Numbers, level: float) -> AgreementFigure:
    """Krippendorff's alpha for categories (2004) from (units, raters), NaN where a rating is missing."""
    r = floats(ratings)
    used = np.sum(~np.isnan(r), axis=1) >= 2
    if not np.any(used):
        return AgreementFigure(None, n=0, why="no unit was rated twice")
    r, where = r[used], np.asarray(cluster)[used]
    values = np.unique(r[~np.isnan(r)])
    c = np.sum(r[:, :, None] == values, axis=1).astype(np.float64)
    m = c.sum(axis=1)
    same = np.sum(c * (c - 1), axis=1) / (m - 1)
    columns = np.column_stack([same, m, c])

    def parts(totals: Floats) -> tuple[Floats, Floats]:
        n, each = totals[..., 1], totals[..., 2:]
        safe = np.maximum(n * (n - 1), 1.0)
        return totals[..., 0] / np.maximum(n, 1.0), np.sum(each * (each - 1), axis=-1) / safe

    return _beyond_chance(_per_cluster(columns, where), parts, r.shape[0], level, "all raters always say the same")


Parts = Callable[[Floats], tuple[Floats, Floats]]
"""From totals on the last axis to observed agreement and agreement by chance."""


def _cohen(totals: Floats) -> tuple[Floats, Floats]:
    a, b, c, d = np.moveaxis(totals, -1, 0)
    n = np.where(a + b + c + d > 0, a + b + c + d, 1.0)
    return (a + d) / n, ((a + b) * (a + c) + (c + d) * (b + d)) / n**2


def _beyond_chance(columns: Floats, parts: Parts, n: int, level: float, constant: str) -> AgreementFigure:
    """(observed - chance) / (1 - chance), and Wilson's interval of an agreement that has the same variance."""
    if columns.shape[0] == 0:
        return AgreementFigure(None, n=0, why="nothing was rated twice")
    observed, chance = (float(x) for x in parts(columns.sum(axis=0)))
    if chance >= 1 - 1e-12:
        return AgreementFigure(None, n=n, why=f"{constant}: nothing is left to agree on beyond chance")
    value = (observed - chance) / (1 - chance)
    clusters = columns.shape[0]
    if clusters < 2:
        return AgreementFigure(value, n=n, why="one cluster has no spread")
    seen, by_chance = parts(columns.sum(axis=0) - columns)
    left = np.where(by_chance < 1, (seen - by_chance) / np.where(by_chance < 1, 1 - by_chance, 1.0), value)
    variance = (clusters - 1) / clusters * float(np.sum((left - left.mean()) ** 2))
    if clusters < n:
        variance *= _widening(clusters, level)
    worth = effective_n(observed, variance * (1 - chance) ** 2, 1.0, float(n), float(clusters))
    ends = wilson_edge(observed * worth, worth, level)
    low, high = (float((end - chance) / (1 - chance)) for end in ends)
    return AgreementFigure(value, max(low, -1.0), min(high, 1.0), n)


def _per_cluster(columns: Floats, cluster: Numbers) -> Floats:
    _, code = np.unique(np.asarray(cluster), return_inverse=True)
    where: Ints = code.astype(np.int64)
    return np.stack([np.bincount(where, weights=column) for column in columns.T], axis=1)


def _widening(clusters: int, level: float) -> float:
    """The square of Student's quantile over the normal one: few clusters know their own variance badly."""
    upper = 0.5 + level / 2
    return float(student_quantile(upper, max(clusters - 1, 1)) / normal_quantile(upper)) ** 2
