"""Resampling, vectorised: means over tasks drawn with replacement or left out in turn, and p-values of permutations.

Rows are clusters (tasks), columns are what is summed in each; a draw is a vector of weights, so no data are copied.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ._numeric import Floats, Numbers, floats

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


def permutation_p(observed: float, drawn: Numbers, side: Literal["less", "greater", "two-sided"]) -> float:
    """(1 + draws at least as extreme) / (1 + draws), which is never 0 (Phipson and Smyth 2010)."""
    x = floats(drawn)
    slack = 1e-12 * max(1.0, abs(observed))
    less = (1 + int(np.sum(x <= observed + slack))) / (1 + x.size)
    greater = (1 + int(np.sum(x >= observed - slack))) / (1 + x.size)
    return min(1.0, {"less": less, "greater": greater, "two-sided": 2 * min(less, greater)}[side])
