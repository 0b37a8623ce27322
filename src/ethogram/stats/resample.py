"""Resampling, vectorised: the bootstrap over tasks as clusters, and permutations within tasks.

Rows are clusters (tasks), columns are what is summed in each; a statistic is a function of the columns' means, so a
draw is a vector of weights and no data are copied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from ._numeric import Floats, Numbers, floats, normal_cdf, normal_quantile
from .interval import Interval

Statistic = Callable[[Floats], Floats]
"""From column means on the last axis to one number each."""

_CHUNK = 2_000_000


def bootstrap_means(columns: Numbers, draws: int, rng: np.random.Generator) -> Floats:
    """Means of the columns over clusters drawn with replacement, (draws, columns) (Efron 1979)."""
    x = floats(columns)
    n = x.shape[0]
    out = np.empty((draws, x.shape[1]))
    step = max(1, _CHUNK // n)
    for start in range(0, draws, step):
        size = min(step, draws - start)
        picks = rng.integers(0, n, size=(size, n)) + np.arange(size)[:, None] * n
        out[start : start + size] = np.bincount(picks.ravel(), minlength=size * n).reshape(size, n) @ x / n
    return out


def jackknife_means(columns: Numbers) -> Floats:
    """Means of the columns with one cluster left out in turn, (clusters, columns) (Quenouille 1949, Tukey 1958)."""
    x = floats(columns)
    return floats((x.sum(axis=0) - x) / (x.shape[0] - 1))


def percentile(columns: Numbers, statistic: Statistic, level: float, draws: int, rng: np.random.Generator) -> Interval:
    """The percentile interval (Efron 1981): too short for few clusters, and of no width if all are alike."""
    drawn = statistic(bootstrap_means(columns, draws, rng))
    tail = (1 - level) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Interval(floats(low), floats(high))


def bca(columns: Numbers, statistic: Statistic, level: float, draws: int, rng: np.random.Generator) -> Interval:
    """The interval corrected for bias and skewness (Efron 1987)."""
    x = floats(columns)
    value = float(statistic(x.mean(axis=0)[None, :])[0])
    drawn = statistic(bootstrap_means(x, draws, rng))
    if float(np.ptp(drawn)) == 0.0:
        return Interval(floats(value), floats(value))
    below = (np.sum(drawn < value) + 0.5 * np.sum(drawn == value)) / draws
    bias = float(normal_quantile(np.clip(below, 0.5 / draws, 1 - 0.5 / draws)))
    left = statistic(jackknife_means(x))
    off = left.mean() - left
    spread = float(np.sum(off**2))
    bend = float(np.sum(off**3)) / (6 * spread**1.5) if spread > 0 else 0.0
    z = normal_quantile(floats([(1 - level) / 2, (1 + level) / 2])) + bias
    low, high = np.quantile(drawn, normal_cdf(bias + z / (1 - bend * z)))
    return Interval(floats(low), floats(high))


def studentised(values: Numbers, level: float, draws: int, rng: np.random.Generator) -> Interval:
    """The bootstrap-t interval of a mean over clusters (Efron 1981, Hall 1988)."""
    x = floats(values)
    n, mean = x.size, float(x.mean())
    error = float(np.sqrt(x.var(ddof=1) / n))
    first, second = bootstrap_means(np.stack([x - mean, (x - mean) ** 2], axis=1), draws, rng).T
    errors = np.sqrt(np.maximum(second - first**2, 0.0) / (n - 1))
    t = first[errors > 0] / errors[errors > 0]
    if t.size == 0:
        return Interval(floats(mean), floats(mean))
    low, high = np.quantile(t, [(1 - level) / 2, (1 + level) / 2])
    return Interval(floats(mean - high * error), floats(mean - low * error))


def permutation_p(observed: float, drawn: Numbers, side: Literal["less", "greater", "two-sided"]) -> float:
    """(1 + draws at least as extreme) / (1 + draws), which is never 0 (Phipson and Smyth 2010)."""
    x = floats(drawn)
    slack = 1e-12 * max(1.0, abs(observed))
    less = (1 + int(np.sum(x <= observed + slack))) / (1 + x.size)
    greater = (1 + int(np.sum(x >= observed - slack))) / (1 + x.size)
    return min(1.0, {"less": less, "greater": greater, "two-sided": 2 * min(less, greater)}[side])
