"""Resampling: means over tasks, each left out in turn, and p-values of permutations.

Rows are clusters (tasks), columns are what is summed in each.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ._numeric import Floats, Numbers, floats


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
