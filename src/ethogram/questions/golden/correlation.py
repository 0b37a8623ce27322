"""The correlation of two columns: Fisher's interval, and a permutation test of 'not negative'."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ethogram.statistics._numeric import Numbers, floats, normal_quantile
from ethogram.statistics.interval import Interval


class Negative(NamedTuple):
    """Pearson's correlation (NaN where a column does not vary) and the share of permutations that are as low."""

    r: float
    p: float


def fisher(r: float, n: int, level: float) -> Interval:
    """Fisher's z interval of a correlation over n pairs; [-1, 1] below four pairs."""
    if n < 4:
        return Interval(floats(-1.0), floats(1.0))
    z = np.arctanh(np.clip(r, -1 + 1e-12, 1 - 1e-12))
    half = float(normal_quantile(0.5 + level / 2)) / np.sqrt(n - 3)
    return Interval(floats(np.tanh(z - half)), floats(np.tanh(z + half)))


def negative(x: Numbers, y: Numbers, draws: int, rng: np.random.Generator) -> Negative:
    """Test for a negative correlation: x is permuted `draws` times (Phipson and Smyth 2010)."""
    a, b = floats(x) - np.mean(floats(x)), floats(y) - np.mean(floats(y))
    scale = np.sqrt(np.sum(a * a) * np.sum(b * b))
    if not scale > 1e-12:
        return Negative(float("nan"), 1.0)
    r = float(np.sum(a * b) / scale)
    dealt = rng.permuted(np.tile(a, (draws, 1)), axis=1) @ b / scale
    return Negative(r, float((1 + np.sum(dealt <= r + 1e-12)) / (draws + 1)))
