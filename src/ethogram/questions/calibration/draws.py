"""Sizes of a sample per stratum: in proportion, or by the variance of the truth (Neyman 1934)."""

from __future__ import annotations

import numpy as np

from ethogram.statistics._numeric import Floats, Ints, Numbers, floats


def proportional(sizes: Numbers, n: int, already: Numbers = 0) -> Ints:
    """Draws per stratum in proportion to its size; every stratum that holds something gets one while there are enough.

    `already` were drawn before and stay: gives totals, `n` in all where that can be.
    """
    return _shared(floats(sizes), floats(sizes), n, already)


def neyman(sizes: Numbers, spreads: Numbers, n: int, already: Numbers = 0) -> Ints:
    """Draws per stratum in proportion to its size times the standard deviation of the truth in it."""
    return _shared(floats(sizes), floats(sizes) * floats(spreads), n, already)


def pilot_spread(yes: Numbers, n: Numbers) -> Floats:
    """The standard deviation of answers in a stratum from a pilot, one of each kind added, so never 0."""
    rate = (floats(yes) + 1) / (floats(n) + 2)
    return np.sqrt(rate * (1 - rate))


def _shared(sizes: Floats, wants: Floats, n: int, already: Numbers) -> Ints:
    """Whole numbers near wants, between what is drawn already (at least one) and the size, that add up to n."""
    least = np.minimum(np.maximum(np.broadcast_to(floats(already), sizes.shape), 1.0), sizes)
    goal = min(float(max(n, least.sum())), float(sizes.sum()))
    low, high = 0.0, 1.0
    while float(np.clip(wants * high, least, sizes).sum()) < goal - 1e-9 and high < 1e12:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if float(np.clip(wants * middle, least, sizes).sum()) < goal else (low, middle)
    exact = np.clip(wants * high, least, sizes)
    whole = np.floor(exact + 1e-9).astype(np.int64)
    left = round(goal) - int(whole.sum())
    room = np.flatnonzero(whole < sizes)
    order = room[np.argsort(-(exact - whole)[room], kind="stable")]
    whole[order[: max(left, 0)]] += 1
    return whole
