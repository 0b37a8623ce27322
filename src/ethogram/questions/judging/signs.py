"""An exact sign-flip test of differences that are symmetric around zero under the null."""

from __future__ import annotations

from itertools import product

import numpy as np

from ethogram.statistics._numeric import Floats, Numbers, floats

EXACT_UP_TO = 14
"""Up to this number of differences that are not zero, every pattern of signs is counted."""


def sign_flip(values: Numbers, draws: int, rng: np.random.Generator) -> float:
    """The two-sided p-value of Σ values if each value were as likely with the other sign (Fisher 1935).

    Zeros stay zeros. With many values `draws` random patterns are taken, and the observed one counts among them, so
    that the level holds.
    """
    v = floats(values)
    v = v[v != 0]
    if not v.size:
        return 1.0
    seen = abs(float(v.sum())) * (1 - 1e-12)
    if v.size <= EXACT_UP_TO:
        signs = np.array(list(product((1.0, -1.0), repeat=v.size)))
        return float(np.mean(np.abs(signs @ v) >= seen))
    drawn = np.abs(rng.choice((-1.0, 1.0), size=(draws, v.size)) @ v)
    return float((1 + np.sum(drawn >= seen)) / (draws + 1))


def clustered_slope(x: Numbers, y: Numbers, cluster: Numbers) -> tuple[float, float, int]:
    """The slope of y on x through the origin, its variance robust to clusters (Liang and Zeger 1986), and clusters.

    Both must have mean zero in whatever groups they are compared. The variance has the factor G / (G - 1).
    """
    xs, ys, at = floats(x), floats(y), np.asarray(cluster, dtype=np.int64)
    size: Floats = np.array(float(xs @ xs))
    clusters = int(np.unique(at).size)
    if size <= 0 or clusters < 2:
        return np.nan, np.nan, clusters
    slope = float(xs @ ys / size)
    scores = np.bincount(at, weights=xs * (ys - slope * xs))
    return slope, float(clusters / (clusters - 1) * np.sum(scores**2) / size**2), clusters
