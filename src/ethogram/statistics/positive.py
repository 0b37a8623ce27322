"""The mean of positive values with a long right tail, such as money or time, over tasks.

Student's interval ends too low when a few large values carry the mean, and few values do not show how long the tail is.
Each interval here is the wider of two on either side: Student's, which assumes nothing of the shape and needs many
values, and Cox's for lognormal values (Zhou and Gao 1997), which knows a long tail and needs few.
"""

from __future__ import annotations

import numpy as np

from ._numeric import Floats, Ints, Numbers, floats, student_quantile
from .interval import Interval, skewed_mean
from .spread import welch_df

LEAST_VALUES = 4
"""With fewer, the interval of a long tail covers too little, or says nothing: three values of a lognormal cover .92."""


def suite_mean(values: Numbers, task: Numbers, tasks: int, level: float) -> Interval:
    """The mean over exactly these tasks, equally weighted; the interval is for new attempts at them.

    Student's with Satterthwaite's degrees of freedom: one dear task decides alone how much is known.
    """
    x, at = floats(values), np.asarray(task, dtype=np.int64)
    n = np.bincount(at, minlength=tasks).astype(np.float64)
    own = np.bincount(at, weights=x, minlength=tasks) / np.maximum(n, 1)
    mean = float(own.mean())
    variances, df = _mean_variances(x, at, n, own)
    total = float(variances.sum()) / tasks**2
    half = float(student_quantile(0.5 + level / 2, max(df, 1.0))) * np.sqrt(total)
    share = own / max(float(own.sum()), 1e-300)
    bend = _cox(x, at, n, share, level)
    return Interval(floats(min(mean - half, mean / bend)), floats(max(mean + half, mean * bend)))


def population_mean(values: Numbers, level: float) -> Interval:
    """The mean over the population that tasks were drawn from, from one value per task, on the last axis."""
    x = floats(values)
    n = x.shape[-1]
    mean = x.mean(axis=-1)
    low, high = skewed_mean(x, level)
    logs, some = np.log(np.where(x > 0, x, 1.0)), x > 0
    count = np.maximum(some.sum(axis=-1), 1)
    middle = np.sum(logs, axis=-1) / count
    square = np.sum(np.where(some, (logs - middle[..., None]) ** 2, 0.0), axis=-1) / np.maximum(count - 1, 1)
    bend = _bend(square, square / n, floats(n - 1), level)
    return Interval(np.minimum(low, mean / bend), np.maximum(high, mean * bend))


def within_df(values: Numbers, task: Numbers, tasks: int) -> float:
    """Satterthwaite's degrees of freedom of a mean over tasks, each with its own variance."""
    x, at = floats(values), np.asarray(task, dtype=np.int64)
    n = np.bincount(at, minlength=tasks).astype(np.float64)
    own = np.bincount(at, weights=x, minlength=tasks) / np.maximum(n, 1)
    return _mean_variances(x, at, n, own)[1]


def _mean_variances(x: Floats, at: Ints, n: Floats, own: Floats) -> tuple[Floats, float]:
    """The variance of every task's mean, and Satterthwaite's df of their sum.

    A task with one attempt lends its distance from the mean over tasks, which is never too small.
    """
    tasks = n.size
    inside = np.bincount(at, weights=(x - own[at]) ** 2, minlength=tasks) / np.maximum(n - 1, 1) / np.maximum(n, 1)
    far = (own - own.mean()) ** 2 * tasks / max(tasks - 1, 1)
    single = n < 2
    variances = np.where(single, far, inside)
    parts = [*variances[~single].tolist(), float(variances[single].sum())]
    dfs = [*(n[~single] - 1).tolist(), float(max(int(single.sum()), tasks) - 1) if single.any() else 0.0]
    return variances, welch_df(parts, dfs)


def _cox(x: Floats, at: Ints, n: Floats, share: Floats, level: float) -> float:
    """The factor by which a mean over tasks may be off, if values are lognormal with one spread within all tasks."""
    some = x > 0
    logs = np.log(np.where(some, x, 1.0))
    count = np.bincount(at[some], minlength=n.size).astype(np.float64)
    middle = np.bincount(at[some], weights=logs[some], minlength=n.size) / np.maximum(count, 1)
    df = float(np.sum(np.maximum(count - 1, 0)))
    if df > 0:
        square = float(np.sum(np.where(some, (logs - middle[at]) ** 2, 0.0))) / df
    else:
        df = max(float(np.sum(count > 0)) - 1, 1.0)
        square = float(np.sum((middle[count > 0] - middle[count > 0].mean()) ** 2)) / df if count.any() else 0.0
    return float(_bend(floats(square), floats(square * np.sum(share**2 / np.maximum(n, 1))), floats(df), level))


def _bend(square: Floats, variance: Floats, df: Floats, level: float) -> Floats:
    """exp of the half width of ln of a lognormal mean: its variance, and that of s² / 2, which is s⁴ / 2 df."""
    spread = variance + square**2 / (2 * np.maximum(df - 1, 1.0))
    half = student_quantile(0.5 + level / 2, np.maximum(df, 1.0)) * np.sqrt(spread)
    return floats(np.exp(np.minimum(half, 300.0)))
