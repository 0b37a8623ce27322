"""How far points lie apart inside groups: moments in one pass, widths with a jackknife, distances between centres.

Rows are runs, columns are features, `group` is the index of each row's task. Everything but a vector of distances is
bounded by a chunk, so a million rows need no second copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ._numeric import Bools, Floats, Ints, Numbers, floats, root, special, student_cdf
from .interval import Interval, student

Transform = Callable[[Floats], Floats]
"""From rows to rows, one chunk at a time."""

_CHUNK = 1 << 13
"""Rows at a time: what fits a cache, and below the size at which a library starts threads for a small product."""
ROUNDING = 1e-18
"""A squared length, as a share of its own variance, that is nothing but rounding."""
_FEW_GROUPS = 16
_TASKS_FOR_JACKKNIFE = 5


class Cells(NamedTuple):
    """Rows per group, their mean, and the sum of squared distances from it per feature."""

    n: Floats
    mean: Floats
    squares: Floats

    def variance(self) -> Floats:
        """Pooled within groups, n - 1 each; NaN where no group has two rows."""
        df = float(np.sum(np.maximum(self.n - 1, 0.0)))
        return floats(np.sum(self.squares, axis=0) / df) if df > 0 else np.full(self.mean.shape[1], np.nan)


class Width(NamedTuple):
    """The mean over groups of the summed variances (n - 1), and the variance and df of its logarithm.

    The variance is NaN where nothing can be said of it. `groups` have two rows at least; `rows` are in them; `by` says
    what was left out in turn.
    """

    value: float
    log_variance: float
    df: float
    groups: int
    rows: int
    by: str


class Gap(NamedTuple):
    """Width of all rows minus width of the chosen ones, in groups that have enough chosen rows.

    `rows` counts the chosen rows there; `variance` is that of the difference, NaN where nothing can be said.
    """

    value: float
    whole: float
    part: float
    variance: float
    df: float
    groups: int
    rows: int


class Shift(NamedTuple):
    """The second arm's centre minus the first's, averaged over groups, with its covariance.

    `square` is the squared length without the part that noise alone adds: it may be negative.
    """

    vector: Floats
    covariance: Floats
    df: float
    square: float
    groups: int


def log_features(x: Floats) -> Floats:
    """sign(x) ln(1 + |x|): counts, characters and shares on one footing."""
    if x.size and float(x.min()) >= 0:
        return np.log1p(x)
    return floats(np.sign(x) * np.log1p(np.abs(x)))


def cells(x: Numbers, group: Numbers, groups: int, transform: Transform | None = None) -> Cells:
    """Moments per group in one pass over chunks (Chan, Golub and LeVeque 1983)."""
    data, at = floats(x), np.asarray(group, dtype=np.int64)
    n, mean, squares = np.zeros(groups), np.zeros((groups, data.shape[1])), np.zeros((groups, data.shape[1]))
    step = max(_CHUNK, 4 * groups)
    for start in range(0, data.shape[0], step):
        part = data[start : start + step] if transform is None else transform(data[start : start + step])
        here = at[start : start + step]
        sums = _summer(here, groups)
        count = np.bincount(here, minlength=groups).astype(np.float64)
        centre = sums(part) / np.maximum(count, 1.0)[:, None]
        off = part - (centre if groups == 1 else centre[here])
        total = n + count
        share = np.divide(count, total, out=np.zeros(groups), where=total > 0)[:, None]
        apart = centre - mean
        np.multiply(off, off, out=off)
        squares += sums(off) + apart**2 * (n[:, None] * share)
        mean += apart * share
        n = total
    return Cells(n, mean, squares)


def merged(parts: Cells, ways: int) -> Cells:
    """Neighbouring cells joined: group g of the result is the cells g ways … g ways + ways - 1."""
    n = parts.n.reshape(-1, ways)
    mean = parts.mean.reshape(n.shape[0], ways, -1)
    total = n.sum(axis=1)
    centre = np.sum(n[..., None] * mean, axis=1) / np.maximum(total, 1.0)[:, None]
    between = np.sum(n[..., None] * (mean - centre[:, None]) ** 2, axis=1)
    return Cells(total, centre, parts.squares.reshape(mean.shape).sum(axis=1) + between)


def squared_distances(
    x: Numbers, group: Numbers, centres: Numbers, scale: Numbers, transform: Transform | None = None
) -> Floats:
    """The squared distance of every row from the centre of its group, features divided by `scale` (0: left out)."""
    data, at, centre, unit = floats(x), np.asarray(group, dtype=np.int64), floats(centres), floats(scale)
    weight = np.divide(1.0, unit, out=np.zeros(unit.shape), where=unit > 0)
    out = np.empty(data.shape[0])
    for start in range(0, data.shape[0], _CHUNK):
        part = data[start : start + _CHUNK] if transform is None else transform(data[start : start + _CHUNK])
        off = part - (centre if centre.shape[0] == 1 else centre[at[start : start + _CHUNK]])
        off *= weight
        np.einsum("ij,ij->i", off, off, out=out[start : start + _CHUNK])
    return out


def width(squared: Numbers, group: Numbers, groups: int) -> Width:
    """From squared distances to the width within groups, its logarithm jackknifed over rows (Tukey 1958).

    Where a group has two rows only, nothing is left of it when one is left out: whole groups are left out instead, if
    there are five at least; if not, groups of three and more are used alone.
    """
    q, at = floats(squared), np.asarray(group, dtype=np.int64)
    n = np.bincount(at, minlength=groups).astype(np.float64)
    own = np.bincount(at, weights=q, minlength=groups) / np.maximum(n - 1, 1.0)
    used = _usable(n)
    count, rows = int(used.sum()), int(n[used].sum())
    if count == 0:
        return Width(np.nan, np.nan, 0.0, 0, 0, "")
    value = float(own[used].mean())
    if value <= 0:
        return Width(value, np.nan, 0.0, count, rows, "")
    if np.all(n[used] >= 3):
        left = _without_each(q, at, n, own, value, count)
        keep = used[at]
        variance = stratified_variance(np.log(np.maximum(left, 1e-300))[keep], at[keep], n)
        return Width(value, variance, float(np.sum(n[used] - 1)), count, rows, "runs")
    if count >= _TASKS_FOR_JACKKNIFE:
        out = np.log(np.maximum((own[used].sum() - own[used]) / (count - 1), 1e-300))
        return Width(value, _jackknife(out), float(count - 1), count, rows, "tasks")
    return Width(value, np.nan, 0.0, count, rows, "")


def width_ratio(first: Numbers, group_first: Numbers, second: Numbers, group_second: Numbers, groups: int) -> Width:
    """The second width over the first in the groups where both have two rows: ln of it jackknifed, df of the scarcer.

    `value` is the ratio. Rows are left out one at a time within arms; where some cell has two rows only, whole groups
    are left out of both arms at once.
    """
    arms = [(floats(q), np.asarray(g, dtype=np.int64)) for q, g in ((first, group_first), (second, group_second))]
    n = [np.bincount(g, minlength=groups).astype(np.float64) for _, g in arms]
    both = _usable(np.minimum(n[0], n[1]))
    count, rows = int(both.sum()), int(n[0][both].sum() + n[1][both].sum())
    number = np.cumsum(both) - 1
    found = [width(q[both[g]], number[g[both[g]]], count) if count else None for q, g in arms]
    a, b = found
    if a is None or b is None or a.value <= 0 or b.value <= 0:
        return Width(np.nan, np.nan, 0.0, count, rows, "")
    value = b.value / a.value
    if a.by == "runs" and b.by == "runs":
        return Width(value, a.log_variance + b.log_variance, min(a.df, b.df), count, rows, "runs")
    if count >= _TASKS_FOR_JACKKNIFE:
        own = [
            np.bincount(g, weights=q, minlength=groups)[both] / (m[both] - 1) for (q, g), m in zip(arms, n, strict=True)
        ]
        left = [np.maximum(w.sum() - w, 1e-300) for w in own]
        return Width(value, _jackknife(np.log(left[1] / left[0])), float(count - 1), count, rows, "tasks")
    return Width(value, np.nan, 0.0, count, rows, "")


def log_interval(value: float, log_variance: float, df: float, level: float) -> Interval:
    """An interval that is symmetric in the logarithm, with Student's quantile."""
    ends = student(np.log(value), log_variance, df, level)
    return Interval(np.exp(ends.low), np.exp(ends.high))


def log_test(value: float, log_variance: float, df: float) -> float:
    """Two-sided p-value of the ratio 1."""
    if not log_variance > 0 or df <= 0:
        return 1.0 if value == 1.0 or not log_variance >= 0 else 0.0
    return float(2 * student_cdf(-abs(np.log(value)) / np.sqrt(log_variance), df))


def gap(x: Numbers, group: Numbers, groups: int, chosen: Numbers) -> Gap:
    """Width of all rows minus that of the chosen ones, n - 1 in both, jackknifed over all rows together.

    `x` is on its final scale. Only groups with three chosen rows and some other count, in both widths; those with two
    chosen if none has three. A group where all are chosen would say 0 and mean nothing.
    """
    data, at, own = floats(x), np.asarray(group, dtype=np.int64), np.asarray(chosen, dtype=bool)
    taken = np.bincount(at[own], minlength=groups)
    mixed = np.bincount(at, minlength=groups) > taken
    used = mixed & (taken >= (3 if np.any(mixed & (taken >= 3)) else 2))
    count = int(used.sum())
    if count == 0:
        return Gap(np.nan, np.nan, np.nan, np.nan, 0.0, 0, 0)
    keep = used[at]
    number = np.cumsum(used) - 1
    data, own, at = data[keep], own[keep], number[at[keep]]
    ones = np.ones(data.shape[1])
    sides = []
    for rows in (np.ones(own.size, dtype=bool), own):
        q = squared_distances(data[rows], at[rows], cells(data[rows], at[rows], count).mean, ones)
        n = np.bincount(at[rows], minlength=count).astype(np.float64)
        w = np.bincount(at[rows], weights=q, minlength=count) / (n - 1)
        left = np.full(own.size, w.mean())
        if np.all(n >= 3):
            left[rows] = _without_each(q, at[rows], n, w, float(w.mean()), count)
        sides.append((float(w.mean()), left, n))
    (whole, left_whole, _), (part, left_part, n_part) = sides
    df = float(np.sum(n_part - 1))
    variance = np.nan
    if np.all(n_part >= 3):
        n_all = np.bincount(at, minlength=count).astype(np.float64)
        variance = stratified_variance(left_whole - left_part, at, n_all)
    return Gap(whole - part, whole, part, variance, df, count, int(own.sum()))


def shift(first: Cells, second: Cells, cross_first: Floats, cross_second: Floats) -> Shift:
    """The second centre minus the first over the groups that both have, each group alike.

    `cross_…` is the pooled covariance within groups of each arm (see `pooled_covariance`). The unbiased square is
    |D|² - tr V.
    """
    both = (first.n > 0) & (second.n > 0)
    count = int(both.sum())
    apart = (second.mean - first.mean)[both].mean(axis=0) if count else np.zeros(first.mean.shape[1])
    parts = [
        cross * float(np.sum(1 / arm.n[both])) / max(count, 1) ** 2
        for arm, cross in ((first, cross_first), (second, cross_second))
    ]
    covariance = parts[0] + parts[1]
    dfs = [float(np.sum(np.maximum(arm.n[both] - 1, 0.0))) for arm in (first, second)]
    df = welch_df([float(np.trace(p)) for p in parts], dfs)
    square = float(apart @ apart - np.trace(covariance))
    return Shift(apart, covariance, df, square, count)


def welch_df(variances: list[float], dfs: list[float]) -> float:
    """Degrees of freedom of a sum of independent variances (Satterthwaite 1946, Welch 1947)."""
    total = sum(variances)
    below = sum(v * v / df for v, df in zip(variances, dfs, strict=True) if v > 0 and df > 0)
    return total * total / below if below > 0 else float(sum(dfs))


def pooled_covariance(x: Numbers, group: Numbers, groups: int) -> Floats:
    """The covariance within groups, n - 1 each, pooled; NaN where no group has two rows."""
    data, at = floats(x), np.asarray(group, dtype=np.int64)
    found = cells(data, at, groups)
    df = float(np.sum(np.maximum(found.n - 1, 0.0)))
    off = data - found.mean[at]
    return floats(off.T @ off / df) if df > 0 else np.full((data.shape[1],) * 2, np.nan)


def norm_interval(found: Shift, level: float, p: float | None = None) -> Interval:
    """An interval of the squared length of a shift: the noncentral F turned round.

    With `p`, that of a test of no shift, it excludes 0 exactly where the test rejects at 1 - level. The test has all
    its error on one side; so have the lengths near 0 that the interval is made of, and far from 0 both sides share it
    alike (as Feldman and Cousins 1998), so that every length is covered with the level.

    |D|² is close to c χ'² with ν = tr V / c degrees of freedom (Box 1954, Imhof 1961); c is the larger of tr V² / tr V
    and the variance along D itself, so the interval is not too short when the shift lies along the longest axis. V was
    estimated: its trace with some ν df degrees of freedom, along one axis with df; √ν df stands between.
    """
    trace = float(np.trace(found.covariance))
    length = float(found.vector @ found.vector)
    if not trace > 0 or length <= ROUNDING * trace:
        # nothing varies, or nothing at all changed, as where the same seeds meet a setting without any effect
        known = floats(length if length > ROUNDING * trace else 0.0)
        return Interval(known, known)
    along = float(found.vector @ found.covariance @ found.vector) / length if length > 0 else 0.0
    unit = max(float(np.sum(found.covariance**2)) / trace, along)
    nu = trace / unit
    df = max(np.sqrt(nu) * found.df, 2.0)
    ratio = length / trace

    def below(excess: float, at: float) -> float:
        # the tail of a far noncentral F may underflow to NaN
        return float(np.nan_to_num(special().ncfdtr(nu, df, excess / unit, at)))

    half = (1 - level) / 2

    def extra(excess: float) -> float:
        return half * float(np.exp(-excess / trace))

    most = length + trace
    while below(most, ratio) >= half - extra(most):
        most *= 2
    high = root(lambda e: half - extra(e) - below(e, ratio), 0.0, most, 1e-9 * most)

    def lower(at: float) -> float:
        return root(lambda e: 1 - half - extra(e) - below(e, at), 0.0, most, 1e-9 * most)

    low = lower(ratio)
    if p is not None:
        # the ratio whose tail is p: near 0 the test is exact and the noncentral F only close to it
        low = max(low, lower(float(special().fdtri(nu, df, 1 - max(p, 1e-12))))) if p <= 1 - level else 0.0
    return Interval(floats(min(low, high)), floats(high))


def products(x: Numbers, centre: Numbers, y: Numbers | None = None) -> Floats:
    """Sums over rows of (x - centre)(x - centre)ᵀ, or of (x - centre) y."""
    data, middle = floats(x), floats(centre)
    other = None if y is None else floats(y)
    total = np.zeros((data.shape[1],) * (2 if y is None else 1))
    for start in range(0, data.shape[0], _CHUNK):
        off = data[start : start + _CHUNK] - middle
        total += off.T @ off if other is None else other[start : start + _CHUNK] @ off
    return total


def scores(
    x: Numbers, y: Numbers, group: Numbers, centres: Numbers, transform: Transform | None = None
) -> tuple[Floats, Floats]:
    """Σ ỹ x̃ over rows taken from the mean of their group, and its covariance if y is permuted within groups.

    The permutation covariance is Σ over groups of Σ ỹ² Σ x̃ x̃ᵀ / (n - 1); y is centred here, x by `centres`.
    """
    data, at, centre = floats(x), np.asarray(group, dtype=np.int64), floats(centres)
    groups, d = centre.shape
    n = np.maximum(np.bincount(at, minlength=groups), 1)
    ys = floats(y) - (np.bincount(at, weights=floats(y), minlength=groups) / n)[at]
    factor = np.bincount(at, weights=ys * ys, minlength=groups) / np.maximum(n - 1, 1)
    score, covariance = np.zeros(d), np.zeros((d, d))
    for start in range(0, data.shape[0], _CHUNK):
        part = data[start : start + _CHUNK] if transform is None else transform(data[start : start + _CHUNK])
        here = at[start : start + _CHUNK]
        off = part - (centre if groups == 1 else centre[here])
        score += ys[start : start + _CHUNK] @ off
        covariance += (off * factor[here][:, None]).T @ off
    return score, covariance


def _usable(n: Floats) -> Bools:
    """Groups of two rows and more; of three and more where groups of two could not be jackknifed."""
    pairs, triples = n >= 2, n >= 3
    few = int(pairs.sum()) < _TASKS_FOR_JACKKNIFE
    return triples if few and triples.any() else pairs


def _without_each(q: Floats, at: Ints, n: Floats, own: Floats, value: float, count: int) -> Floats:
    """The width with each row left out in turn: a group's squares fall by n / (n - 1) times the row's own."""
    size = n[at]
    less = (own[at] * (size - 1) - size / np.maximum(size - 1, 1.0) * q) / np.maximum(size - 2, 1.0)
    return floats(value + (np.maximum(less, 0.0) - own[at]) / count)


def stratified_variance(left: Floats, at: Ints, n: Floats) -> float:
    """The jackknife variance when rows are left out within groups: Σ (n - 1) / n Σ (θᵢ - mean of the group)²."""
    total = np.bincount(at, weights=left, minlength=n.size)
    off = left - (total / np.maximum(n, 1.0))[at]
    return float(np.sum((n[at] - 1) / n[at] * off * off))


def _jackknife(left: Floats) -> float:
    return float((left.size - 1) / left.size * np.sum((left - left.mean()) ** 2))


def _summer(group: Ints, groups: int) -> Transform:
    """Column sums per group: a product with indicators for few groups, counting for many."""
    if groups == 1:
        return lambda x: floats(x.sum(axis=0)[None])
    if groups <= _FEW_GROUPS:
        marks = (group == np.arange(groups)[:, None]).astype(np.float64)
        return lambda x: floats(marks @ x)
    return lambda x: by_group(x, group, groups)


def by_group(x: Floats, group: Ints, groups: int) -> Floats:
    """Column sums per group, (groups, columns)."""
    if x.shape[1] == 0:
        return np.zeros((groups, 0))
    return np.stack([np.bincount(group, weights=column, minlength=groups) for column in x.T], axis=1)
