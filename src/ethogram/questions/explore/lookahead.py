"""The value of more episodes at a point: the expected reduction of the probability to classify it wrongly."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ethogram.statistics._numeric import Floats, floats, normal_cdf, special

from .surface import Belief


def expected_gain(belief: Belief, threshold: float, more: Sequence[int]) -> Floats:
    """The most that an episode at each point is worth: max over r of gain(r) / r (Letham et al. 2022, in closed form).

    With d the distance of the mean from the threshold and s its deviation, r episodes bring s to s'; the expected
    error then is 2 T(d / s, s' / sqrt(s² - s'²)), with Owen's T.
    """
    d = belief.mean - threshold
    s = np.sqrt(belief.variance)
    p = 1 / (1 + np.exp(-belief.mean))
    now = normal_cdf(-np.abs(d / s))
    best = np.zeros_like(d)
    for r in more:
        after = 1 / (1 / belief.variance + r * p * (1 - p))
        told = np.maximum(belief.variance - after, 1e-300)
        gain = now - 2 * special().owens_t(d / s, np.sqrt(after / told))
        best = np.maximum(best, gain / r)
    return floats(best)


def most_gain(belief: Belief, threshold: float, more: Sequence[int], count: int, counts: Floats) -> Floats:
    """The same times how much a call of each point `counts`; exact for the `count` best points, 0 for others.

    No point gains more than its chance to be called wrongly now, shared over the fewest episodes: on a large grid few
    need to be looked at.
    """
    most = counts * wrong(belief, threshold) / min(more)
    looked = 16 * count
    while looked < len(most):
        near = np.argpartition(-most, looked)[:looked]
        found = np.zeros_like(most)
        found[near] = counts[near] * expected_gain(Belief(belief.mean[near], belief.variance[near]), threshold, more)
        rest = np.ones(len(most), dtype=bool)
        rest[near] = False
        if np.partition(found[near], -count)[-count] >= most[rest].max():
            return found
        looked *= 4
    return counts * expected_gain(belief, threshold, more)


def straddle(belief: Belief, threshold: float, width: float) -> Floats:
    """How far the interval reaches over the threshold (Bryan et al. 2005)."""
    return floats(width * np.sqrt(belief.variance) - np.abs(belief.mean - threshold))


def wrong(belief: Belief, threshold: float) -> Floats:
    """The chance that the likelier side of the threshold is the wrong one."""
    return normal_cdf(-np.abs(belief.mean - threshold) / np.sqrt(belief.variance))
