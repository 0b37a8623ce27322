"""Differences and correlations inside groups: success against failure per feature, task by task, with their spread.

Rows are runs, columns are features, groups are tasks; what differs between groups never counts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ethogram.statistics._numeric import Floats, Ints, Numbers, floats, student_cdf, student_quantile
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
