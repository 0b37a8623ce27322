"""Points above a threshold: scores of a classification against the truth, and against a posterior."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ethogram.statistics._numeric import Bools, Floats, hermite, normal_cdf

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
