"""Episodes needed at one point to rule out a failure rate of at least r, at any stopping time."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ethogram.statistics._numeric import Bools, Floats, Ints

LOOKS = 2048
"""Episodes that the table covers; beyond it, the share of failures must be as small as at its end."""


def chance_to_miss(level: float, count: int) -> float:
    """The error rate of one point, such that with probability `level` none of `count` points is wrong."""
    return float(1 - level ** (1 / count))


@lru_cache(maxsize=64)
def looks_needed(rate: float, miss: float) -> Ints:
    """For 0, 1, 2, … failures the episodes that rule out a failure rate of `rate` or more.

    A setting that fails at `rate` is ever ruled out with a chance of `miss` at most: of all paths of outcomes, those
    that reach an entry of the table are counted exactly. No failure needs the fewest episodes; what is left of
    `miss` is shared among f = 1, 2, … failures as 1 / (f (f + 1)), which sums to one.
    """
    paths = np.zeros(LOOKS + 1)
    paths[0] = 1.0
    needed: list[int] = []
    share = left = miss
    for n in range(1, LOOKS + 1):
        paths[1:] = paths[1:] * (1 - rate) + paths[:-1] * rate
        paths[0] *= 1 - rate
        f = len(needed)
        if paths[f] <= share:
            left = left - paths[0] if f == 0 else left
            paths[f] = 0.0  # ruled out: these paths go no further
            needed.append(n)
            share = left / ((f + 1) * (f + 2))
    return np.asarray(needed, dtype=np.int64)


def ruled_out(n: Ints, fails: Ints, rate: float, miss: float) -> Bools:
    """Whether `fails` failures of `n` episodes rule out a failure rate of `rate` or more, per point."""
    needed = looks_needed(rate, miss)
    last = len(needed) - 1
    within = n >= needed[np.minimum(fails, last)]
    beyond = (n > LOOKS) & (fails * needed[last] <= n * last)
    return np.asarray(np.where(fails <= last, within, beyond), dtype=bool)


def looks_to_come(n: Ints, fails: Ints, mean: Floats, rate: float, miss: float) -> Ints:
    """Further episodes after which `rate` would be ruled out, if each point keeps failing at its `mean` rate."""
    needed = looks_needed(rate, miss)
    last = len(needed) - 1
    found = np.full(len(n), -1, dtype=np.int64)
    for more in range(len(needed)):
        looks = np.maximum(needed[np.minimum(fails + more, last)] - n, 0)
        found = np.where((found < 0) & (mean * looks <= more + 0.5), looks, found)
        if (found >= 0).all():
            break
    return np.where(found < 0, np.maximum(needed[last] - n, 0), found)
