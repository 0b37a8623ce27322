"""Points above a threshold: scores of a classification against the truth and against a posterior, and the episodes that
rule out a failure rate at one point, at any stopping time."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ethogram.statistics._numeric import Bools, Floats, Ints, hermite, normal_cdf

from .surface import Belief


class Scores(NamedTuple):
    """Recall of points above, specificity, precision, and balanced accuracy; None where a class is empty."""

    recall: float | None
    specificity: float | None
    precision: float | None
    balanced: float | None
    above: int
    below: int


def score_calls(called: Bools, truth: Floats, threshold: float, indifferent: float) -> Scores:
    """Score calls of "above" against known rates; points within `indifferent` of the threshold do not count.

    The zone is the precision of Locatelli et al. (2016). A point exactly at the threshold is not above it.
    """
    gap = np.round(truth - threshold, 12)
    counts = np.abs(gap) >= indifferent if indifferent > 0 else np.ones(len(gap), dtype=bool)
    above, below = (gap > 0) & counts, (gap <= 0) & counts
    hits, alarms = int(np.sum(called & above)), int(np.sum(called & below))
    recall = hits / above.sum() if above.any() else None
    specificity = 1 - alarms / below.sum() if below.any() else None
    both = [x for x in (recall, specificity) if x is not None]
    return Scores(
        None if recall is None else float(recall),
        None if specificity is None else float(specificity),
        hits / (hits + alarms) if hits + alarms else None,
        float(np.mean(both)) if both else None,
        int(above.sum()),
        int(below.sum()),
    )


def chance_above(belief: Belief, threshold: float) -> Floats:
    """The probability that the rate at each point exceeds a threshold between 0 and 1."""
    if not 0 < threshold < 1:
        return np.full(len(belief.mean), float(threshold <= 0))
    return normal_cdf((belief.mean - np.log(threshold / (1 - threshold))) / np.sqrt(belief.variance))


def rate_moments(belief: Belief) -> tuple[Floats, Floats]:
    """The mean of the rate at each point, and that of its square, by Gauss and Hermite."""
    sd = np.sqrt(belief.variance)
    first, second = np.zeros_like(sd), np.zeros_like(sd)
    for x, w in zip(*hermite(9), strict=True):
        p = 1 / (1 + np.exp(-(belief.mean + x * sd)))
        first += w * p
        second += w * p * p
    return first, second


def expected_scores(called: Bools, surely_above: Floats, surely_below: Floats, few: float) -> Scores:
    """Scores that the posterior expects: `surely_above` is P(rate > threshold + zone), `surely_below` the other side.

    A class that the posterior expects to hold fewer than `few` points is taken to be empty.
    """
    above, below = float(surely_above.sum()), float(surely_below.sum())
    recall = float(surely_above[called].sum()) / above if above >= few else None
    specificity = float(surely_below[~called].sum()) / below if below >= few else None
    both = [x for x in (recall, specificity) if x is not None]
    flagged = float(surely_above[called].sum() + surely_below[called].sum())
    precision = float(surely_above[called].sum()) / flagged if flagged > 0 else None
    return Scores(recall, specificity, precision, float(np.mean(both)) if both else None, round(above), round(below))


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
