"""Tails of features, and the widening of a width's interval for tails that few rows do not show.

A variance hangs on its rarest rows. Where rows show longer tails than normal ones, no interval of it covers; where they
do not, a long tail may still have been missed, which can only mean that the width is larger than it looks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ethogram.statistics import spread
from ethogram.statistics._numeric import Floats, Ints, Numbers, floats, normal_cdf, student_quantile
from ethogram.statistics.interval import Interval

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
