"""A ratio of two means from the same clusters, such as money spent per task resolved, with its interval.

x is what is spent (never negative), y what is achieved (0 to 1); rows are clusters (tasks) on the last axis.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ._numeric import Floats, Numbers, floats, student_quantile
from .interval import Interval
from .positive import within_df


class Means(NamedTuple):
    """Means of x and y with the covariance matrix of the means, and the degrees of freedom behind it."""

    x: Floats
    y: Floats
    xx: Floats
    xy: Floats
    yy: Floats
    df: Floats


def cluster_means(x: Numbers, y: Numbers) -> Means:
    """Means over clusters that were drawn from a population: covariance from their spread (Cochran 1977, chapter 6)."""
    x, y = floats(x), floats(y)
    n = x.shape[-1]
    dx, dy = x - x.mean(axis=-1, keepdims=True), y - y.mean(axis=-1, keepdims=True)
    scale = n * max(n - 1, 1)
    xx, xy, yy = (floats(np.sum(p * q, axis=-1) / scale) for p, q in ((dx, dx), (dx, dy), (dy, dy)))
    return Means(x.mean(axis=-1), y.mean(axis=-1), xx, xy, yy, floats(n - 1))


def task_means(x: Numbers, y: Numbers, task: Numbers, tasks: int) -> Means:
    """Means over exactly these tasks, from attempts with the index of their task: covariance within tasks only.

    Cochran (1977, chapter 6) with tasks as strata, which count equally; one with a single attempt lends its distance
    from the mean, which is never too small.
    """
    at = np.asarray(task, dtype=np.int64)
    n = np.bincount(at, minlength=tasks).astype(np.float64)
    used = n > 0
    count = int(used.sum())
    own = [np.bincount(at, weights=floats(v), minlength=tasks) / np.maximum(n, 1) for v in (x, y)]
    mean = [float(v[used].mean()) for v in own]
    off = [floats(v) - m[at] for v, m in zip((x, y), own, strict=True)]
    far = [m - centre for m, centre in zip(own, mean, strict=True)]

    def covariance(i: int, j: int) -> Floats:
        inside = np.bincount(at, weights=off[i] * off[j], minlength=tasks) / np.maximum(n - 1, 1) / np.maximum(n, 1)
        each = np.where(n > 1, inside, far[i] * far[j] * count / max(count - 1, 1))
        return floats(np.sum(each[used]) / count**2)

    # what is uncertain is x - R y: its own degrees of freedom, task by task
    rate = mean[0] / mean[1] if mean[1] != 0 else 0.0
    df = max(within_df(floats(x) - rate * floats(y), at, tasks), 1.0)
    return Means(floats(mean[0]), floats(mean[1]), covariance(0, 0), covariance(0, 1), covariance(1, 1), floats(df))


def fieller(means: Means, level: float) -> Interval:
    """Fieller's interval (1954): exact for normal means; the upper end is infinite where y may be 0."""
    t = student_quantile(0.5 + level / 2, np.maximum(means.df, 1.0))
    a = means.y**2 - t * t * means.yy
    b = means.x * means.y - t * t * means.xy
    c = means.x**2 - t * t * means.xx
    root = np.sqrt(np.maximum(b * b - a * c, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(b + root > 0, c / (b + root), 0.0)
        high = np.where((a > 0) & (b * b >= a * c), (b + root) / a, np.inf)
    return Interval(np.maximum(low, 0.0), high)


def mover_ratio(means: Means, spent: Interval, achieved: Interval) -> Interval:
    """From an interval of each mean to one of their ratio, with their correlation (MOVER-R: Donner and Zou 2012).

    Meant for an interval of y that keeps its width where everything or nothing was achieved (Wilson with an effective
    n) and one of x that minds its skewness (Hall). Infinite above only where `achieved` reaches 0.
    """
    spread = np.sqrt(means.xx * means.yy)
    r = np.clip(np.where(spread > 0, means.xy / np.where(spread > 0, spread, 1.0), 0.0), -1.0, 1.0)
    cheap = np.maximum(spent.low, 0.0)
    some = means.y > 0
    y = means._replace(y=np.where(some, means.y, 1.0))
    low = _ends(y, means.x - cheap, achieved.high - y.y, r)[0]
    high = _ends(y, spent.high - means.x, y.y - achieved.low, r)[1]
    none = cheap / np.where(achieved.high > 0, achieved.high, 1.0)
    return Interval(np.where(some, np.maximum(low, 0.0), none), np.where(some & (achieved.low > 0), high, np.inf))


def _ends(means: Means, a: Floats, b: Floats, r: Floats) -> tuple[Floats, Floats]:
    """The roots R of (x - R y)² = a² + R² b² - 2 r R a b, smaller and larger."""
    lead = means.y**2 - b * b
    half = means.x * means.y - r * a * b
    rest = means.x**2 - a * a
    root = np.sqrt(np.maximum(half * half - lead * rest, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(half + root > 0, rest / (half + root), 0.0), np.where(lead > 0, (half + root) / lead, np.inf)
