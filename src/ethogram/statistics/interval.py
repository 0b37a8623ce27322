"""Intervals for a rate at any n, 0/n and n/n included, and for a mean of values between 0 and 1.

`level` is the two-sided coverage that is aimed at; counts may be fractions, so that an effective n can stand in for n.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from ._numeric import Floats, Numbers, beta_quantile, floats, gamma_quantile, normal_quantile, student_quantile

_FEW = 3.0
"""With fewer events the Poisson limit of Brown, Cai and DasGupta replaces the near end of Wilson's interval."""


ValueWithEnds = tuple[float, float, float]
"""A value, and the lower and upper end of its interval."""


class Interval(NamedTuple):
    """The two ends, each an array of the broadcast shape of the input."""

    low: Floats
    high: Floats


def wilson(successes: Numbers, n: Numbers, level: float) -> Interval:
    """The score interval (Wilson 1927); n = 0 gives [0, 1]."""
    x, n = np.broadcast_arrays(floats(successes), floats(n))
    z = float(normal_quantile(0.5 + level / 2))
    safe = np.where(n > 0, n, 1.0)
    rate = x / safe
    centre = (rate + z * z / (2 * safe)) / (1 + z * z / safe)
    half = z / (1 + z * z / safe) * np.sqrt(np.maximum(rate * (1 - rate), 0.0) / safe + z * z / (4 * safe * safe))
    return _closed(centre - half, centre + half, x, n)


def wilson_edge(successes: Numbers, n: Numbers, level: float) -> Interval:
    """Wilson's interval with the end near 0 or 1 moved out to its Poisson limit (Brown, Cai and DasGupta 2001).

    Wilson alone covers too little when the truth is a hair from an end and one or two events were seen all the same.
    """
    x, n = np.broadcast_arrays(floats(successes), floats(n))
    low, high = wilson(x, n, level)
    safe = np.where(n > 0, n, 1.0)
    # a mean over tasks is three events to rounding, and must not change with the order of the tasks
    few = np.minimum(_FEW, n / 2) * (1 + 1e-9)
    for_low = (x > 0) & (x <= few)
    for_high = (n - x > 0) & (n - x <= few)
    low, high = low.copy(), high.copy()
    # only where it is needed: this quantile costs more than all the rest
    low[for_low] = np.minimum(low[for_low], gamma_quantile(1 - level, x[for_low]) / safe[for_low])
    gone = n[for_high] - x[for_high]
    high[for_high] = np.maximum(high[for_high], 1 - gamma_quantile(1 - level, gone) / safe[for_high])
    return Interval(low, high)


def known_ends(value: float | None, low: float | None, high: float | None) -> ValueWithEnds | None:
    """All three, or None where one is not known."""
    return None if value is None or low is None or high is None else (value, low, high)


def mover(terms: Iterable[tuple[float, ValueWithEnds]]) -> ValueWithEnds:
    """A sum of estimates with weights, from the ends of each (Zou and Donner 2008); too wide where they correlate."""
    value = below = above = 0.0
    for weight, (middle, low, high) in terms:
        near, far = (low, high) if weight > 0 else (high, low)
        value += weight * middle
        below += (weight * (middle - near)) ** 2
        above += (weight * (far - middle)) ** 2
    return value, value - below**0.5, value + above**0.5


def clopper_pearson(successes: Numbers, n: Numbers, level: float) -> Interval:
    """The exact interval from the binomial tails (Clopper and Pearson 1934): never below its level, hence wide."""
    x, n = np.broadcast_arrays(floats(successes), floats(n))
    tail = (1 - level) / 2
    low = beta_quantile(tail, np.where(x > 0, x, 1.0), n - x + 1)
    high = beta_quantile(1 - tail, x + 1, np.where(n - x > 0, n - x, 1.0))
    return _closed(low, high, x, n)


def effective_n(mean: Numbers, variance: Numbers, least: Numbers, most: Numbers, certain: Numbers) -> Floats:
    """How many independent trials of this rate have this variance of the mean: m (1 - m) / Var(m), in [least, most].

    The design effect turned round (Kish 1965). A mean of exactly 0 or 1 says nothing of its variance: `certain` then.
    """
    m, v, least, most, certain = np.broadcast_arrays(*(floats(x) for x in (mean, variance, least, most, certain)))
    spread = m * (1 - m)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        seen = np.where(v > 0, spread / v, np.inf)
    return np.where(spread > 0, np.clip(seen, least, most), certain)


def student(mean: Numbers, variance: Numbers, df: Numbers, level: float) -> Interval:
    """The t interval of a mean whose variance was estimated with `df` degrees of freedom (Student 1908)."""
    m, v, df = np.broadcast_arrays(floats(mean), floats(variance), floats(df))
    half = np.where(df > 0, student_quantile(0.5 + level / 2, np.maximum(df, 1.0)) * np.sqrt(v), np.inf)
    return Interval(m - half, m + half)


def skewed_mean(values: Numbers, level: float) -> Interval:
    """The t interval of a mean of skewed values (money, time) over the last axis, straightened by Hall's cubic (1992).

    The plain t interval ends too low when a few large values carry the mean. Below three values it is the plain one.
    """
    x = floats(values)
    n = x.shape[-1]
    mean = x.mean(axis=-1)
    off = x - mean[..., None]
    square = np.sum(off**2, axis=-1)
    error = np.sqrt(square / max(n - 1, 1) / n)
    plain = student(mean, error**2, n - 1, level)
    if n < 3:
        return plain
    bent = square > 0
    third = np.where(bent, np.sum(off**3, axis=-1) / np.where(bent, square, 1.0) ** 1.5, 0.0)
    h = third * n * np.sqrt(n - 1) / (n - 2) / np.sqrt(n)
    bent = np.abs(h) > 1e-6
    safe = np.where(bent, h, 1.0)
    t = float(student_quantile(0.5 + level / 2, n - 1))
    low, high = (mean - error * 3 / safe * (np.cbrt(1 + safe * (y - safe / 6)) - 1) for y in (t, -t))
    return Interval(np.where(bent, low, plain.low), np.where(bent, high, plain.high))


def bounds(successes: Numbers, scored: Numbers, missing: Numbers) -> Interval:
    """The rate if every missing trial had failed, and if every one had passed (Manski 1989)."""
    x, n, gone = np.broadcast_arrays(floats(successes), floats(scored), floats(missing))
    planned = np.where(n + gone > 0, n + gone, np.nan)
    return Interval(x / planned, (x + gone) / planned)


def _closed(low: Floats, high: Floats, x: Floats, n: Floats) -> Interval:
    """Ends that belong to 0 and n are exactly 0 and 1; without trials nothing is known."""
    low = np.where((x <= 0) | (n <= 0), 0.0, np.clip(low, 0.0, 1.0))
    return Interval(low, np.where((x >= n) | (n <= 0), 1.0, np.clip(high, 0.0, 1.0)))
