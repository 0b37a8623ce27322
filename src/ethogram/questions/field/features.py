"""Features of runs inside groups: differences between success and failure, correlations, tails, with their spread.

Rows are runs, columns are features, groups are tasks; what differs between groups never counts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ethogram.statistics import spread
from ethogram.statistics._numeric import Floats, Ints, Numbers, floats, normal_cdf, student_cdf, student_quantile
from ethogram.statistics.interval import Interval
from ethogram.statistics.spread import Cells, cells, stratified_variance


class Contrast(NamedTuple):
    """A difference per feature with its variance, and the degrees of freedom behind that."""

    value: Floats
    variance: Floats
    df: Floats
    groups: int


def class_difference(found: Cells) -> Contrast:
    """Mean of the second class minus mean of the first within groups: their cells are 2 g + 1 and 2 g.

    Groups weigh n₀ n₁ / n; variances are pooled over groups within each class, so that groups with one row in a class
    count too. Degrees of freedom after Welch.
    """
    n = found.n.reshape(-1, 2)
    mean = found.mean.reshape(n.shape[0], 2, -1)
    squares = found.squares.reshape(mean.shape)
    used = (n > 0).all(axis=1)
    count = int(used.sum())
    d = mean.shape[2]
    if count == 0:
        return Contrast(np.full(d, np.nan), np.full(d, np.nan), np.zeros(d), 0)
    weight = np.where(used, n[:, 0] * n[:, 1] / np.maximum(n.sum(axis=1), 1.0), 0.0)
    weight = weight / weight.sum()
    value = weight @ (mean[:, 1] - mean[:, 0])
    spread, dfs = squares.sum(axis=0), np.maximum(n - 1, 0.0).sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        own = np.where(dfs[:, None] > 0, spread / dfs[:, None], spread.sum(axis=0) / dfs.sum())
        reach = np.stack([np.sum(np.where(used, weight**2 / n[:, c], 0.0)) for c in (0, 1)])
        parts = own * reach[:, None]
        df = parts.sum(axis=0) ** 2 / np.sum(parts**2 / np.where(dfs > 0, dfs, dfs.sum())[:, None], axis=0)
    variance = parts.sum(axis=0)
    return Contrast(value, variance, np.where(variance > 0, df, float(dfs.sum())), count)


def contrast_test(found: Contrast) -> Floats:
    """Two-sided p-values of no difference; NaN where the variance is unknown."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(found.variance > 0, found.value / np.sqrt(found.variance), np.where(found.value == 0, 0.0, np.inf))
    p = 2 * student_cdf(-np.abs(t), np.maximum(found.df, 1.0))
    return np.where(np.isnan(found.variance), np.nan, p)


def correlation_left_out(x: Floats, y: Floats, group: Ints, groups: int) -> tuple[Floats, Floats, float]:
    """The correlation within groups per feature, the jackknife variance of its Fisher z, and its df.

    Columns of x against y, both taken from the mean of their group. The variance is NaN where |r| = 1, with all rows or
    without one of them. Rows are left out within groups; a group of two counts as a whole.
    """
    n = np.bincount(group, minlength=groups).astype(np.float64)
    xs, ys = x - cells(x, group, groups).mean[group], y - cells(y[:, None], group, groups).mean[group, 0]
    xx, yy, xy = np.sum(xs * xs, axis=0), float(np.sum(ys * ys)), xs.T @ ys
    size = n[group]
    # leaving row i out of a group of n lowers a sum of products of deviations by n / (n - 1) times its own
    share = size / np.maximum(size - 1, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        r = np.clip(xy / np.sqrt(xx * yy), -1.0, 1.0)
        below = (xx - share[:, None] * xs * xs) * (yy - share * ys * ys)[:, None]
        left = np.arctanh(np.clip((xy - share[:, None] * xs * ys[:, None]) / np.sqrt(below), -1.0, 1.0))
    left[~np.isfinite(left)] = np.nan
    # sums of products of small groups vary (n - 1) / (n - 2) times as much as rows left out of them tell
    stretch = np.sqrt((size - 1) / np.maximum(size - 2, 1.0))
    many = size >= 3
    variance = np.array([stratified_variance((stretch * c)[many], group[many], n) for c in left.T])
    sums = [
        np.stack([np.bincount(group, weights=c, minlength=groups) for c in v.T]) for v in (xs * xs, xs * ys[:, None])
    ]
    own = np.bincount(group, weights=ys * ys, minlength=groups)
    with np.errstate(divide="ignore", invalid="ignore"):
        without = (xy[:, None] - sums[1]) / np.sqrt((xx[:, None] - sums[0]) * (yy - own))
        off = np.arctanh(np.clip(without[:, n == 2], -1.0, 1.0)) - np.arctanh(r)[:, None]
    variance = variance + np.sum(off * off, axis=1)
    df = float(np.sum(np.maximum(n[own > 0] - 1, 0.0))) - 1
    return r, np.where((np.abs(r) < 1) & np.isfinite(variance), variance, np.nan), df


def bounded_interval(value: Numbers, variance: Numbers, df: Numbers, level: float) -> Interval:
    """The interval of a correlation from the variance of its Fisher z (Fisher 1921), with Student's quantile."""
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.arctanh(floats(value))
        half = student_quantile(0.5 + level / 2, np.maximum(floats(df), 1.0)) * np.sqrt(floats(variance))
        return Interval(np.tanh(z - half), np.tanh(z + half))


ALPHA = 0.05
"""Of normal features, the share that is taken for long-tailed."""


MATERIAL = 1.25
"""How much more than normal features the logarithm of a width must vary before its tails matter."""


_LEAST_ROWS = 4
"""The kurtosis of three values is always the same, and that of four says next to nothing."""


_TELLING = 100.0
"""With this many values of one task the test sees t with 3 degrees of freedom four times in five; more leave less."""


class Tails(NamedTuple):
    """Effective dimensions, the p-value of normal tails (1 if no group has four rows), and what may be unseen.

    `unseen` is the logarithm of the factor by which a width may be larger than the rows show.
    """

    dimensions: float
    p: float
    unseen: float


def tails(x: Numbers, group: Numbers, groups: int) -> Tails:
    """Of features on their final scale; a feature counts as much as it contributes to the width."""
    data, at = floats(x), np.asarray(group, dtype=np.int64)
    found, covariance = spread.cells(data, at, groups), spread.pooled_covariance(data, at, groups)
    own = np.diag(covariance)
    rows = float(np.sum(found.n[found.n >= 2]))
    if not own.sum() > 0:
        return Tails(1.0, 1.0, float(-np.log1p(-unseen_share(rows))))
    share = own / own.sum()
    size = np.sqrt(np.where(own > 0, own, 1.0))
    # kurtoses of normal features are correlated as the fourth power of their correlation
    overlap = float(share @ (covariance / np.outer(size, size)) ** 4 @ share)
    dimensions = float(own.sum() ** 2 / np.sum(covariance**2))
    p = _normal_tails(_kurtosis(data, at, found), found.n, share, overlap)
    telling = dimensions * float(np.sum(np.maximum(found.n - _LEAST_ROWS, 0.0)))
    unseen = -np.log1p(-unseen_share(dimensions * rows)) * min(1.0, _TELLING / max(telling, 1.0))
    return Tails(dimensions, p, float(unseen))


def width_interval(found: spread.Width, seen: Tails, level: float) -> Interval | None:
    """The interval of a width, or None where its tails are longer than normal ones and matter.

    Below, the larger of the jackknife's variance and that of normal features; above, what may be unseen comes on top.
    """
    normal = 2 / (seen.dimensions * max(float(found.rows - found.groups), 1.0))
    if seen.p < ALPHA and found.log_variance > MATERIAL * normal:
        return None
    low, high = spread.log_interval(found.value, max(found.log_variance, normal), found.df, level)
    return Interval(low, high * np.exp(seen.unseen))


def unseen_share(values: float) -> float:
    """The share of the variance of t with 3 degrees of freedom beyond what one of n values exceeds."""
    end = float(student_quantile(1 - 0.5 / max(values, 2.0), 3.0))
    angle = np.arctan(end / np.sqrt(3))
    return float(1 - (angle - np.sin(angle) * np.cos(angle)) * 2 / np.pi)


def _kurtosis(x: Floats, at: Ints, found: spread.Cells) -> Floats:
    """Per group and feature, n Σ e⁴ / (Σ e²)²; what normal values have on average where a feature stands still."""
    fourth = spread.by_group((x - found.mean[at]) ** 4, at, found.n.size)
    moves = found.squares > 1e-12 * found.squares.sum(axis=0)
    n = found.n[:, None]
    return floats(np.where(moves, n * fourth / np.where(moves, found.squares, 1.0) ** 2, 3 * (n - 1) / (n + 1)))


def _normal_tails(kurtosis: Floats, rows: Floats, share: Floats, overlap: float) -> float:
    """The upper p-value of the mean kurtosis within groups were all features normal (Anscombe and Glynn 1983).

    Within groups, so that groups of other widths do not count as tails. The exact moments of one group are added up
    over groups and features, and their Wilson-Hilferty approximation is kept.
    """
    used = rows >= _LEAST_ROWS
    if not used.any():
        return 1.0
    n = rows[used]
    weight = n / n.sum()
    value = float(weight @ kurtosis[used] @ share)
    mean = float(weight @ (3 * (n - 1) / (n + 1)))
    each = 24 * n * (n - 2) * (n - 3) / ((n + 1) ** 2 * (n + 3) * (n + 5))
    skew = 6 * (n * n - 5 * n + 2) / ((n + 7) * (n + 9)) * np.sqrt(6 * (n + 3) * (n + 5) / (n * (n - 2) * (n - 3)))
    sd = float(np.sqrt(overlap * np.sum(weight**2 * each)))
    skewness = float(overlap**2 * np.sum(weight**3 * skew * each**1.5)) / sd**3
    z = (value - mean) / sd
    if skewness > 1e-3:
        a = 6 + 8 / skewness * (2 / skewness + np.sqrt(1 + 4 / skewness**2))
        below = max(1 + z * np.sqrt(2 / (a - 4)), 1e-9)
        z = (1 - 2 / (9 * a) - np.cbrt((1 - 2 / a) / below)) / np.sqrt(2 / (9 * a))
    return float(normal_cdf(-z))
