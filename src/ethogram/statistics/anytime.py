"""Monitoring without an end: e-processes that may be evaluated after every attempt, and confidence sequences.

A bet of size λ against the null multiplies its capital by 1 + λ d for a drop d between -1 and 1. If the mean drop is
not above 0 the capital does not grow on average, so by Ville's inequality (1939) it ever exceeds 1 / alpha with
probability at most alpha. Many bets are held at once and averaged. The logarithms of their capitals are all the state
there is: they add up, so a process can be stopped, stored and resumed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ._numeric import Floats, Numbers, bisect, floats, log_mean_exp
from .interval import Interval


class Bets(NamedTuple):
    """The sizes of the bets that are held, between 0 and 1, and the logarithms of their shares."""

    sizes: Floats
    log_shares: Floats


def uniform_bets(low: float, high: float, count: int) -> Bets:
    """Bets spread evenly between two sizes, by Gauss and Legendre's nodes."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return Bets(floats(low + (high - low) * (nodes + 1) / 2), np.log(weights / 2))


def geometric_bets(low: float, high: float, count: int) -> Bets:
    """Bets spread evenly on a logarithmic scale: for effects of unknown size, as a confidence sequence needs them."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    ends = np.log([low, high])
    return Bets(np.exp(ends[0] + (ends[1] - ends[0]) * (nodes + 1) / 2), np.log(weights / 2))


def bets_within(pairs: int, level: float) -> Bets:
    """Bets for a confidence sequence that ends after this many pairs at the latest.

    A small bet tells small effects apart, but only after many pairs: sizes begin at half of the one that grows fastest
    for the smallest effect that this number of pairs shows, √(2 log(2 / (1 - level)) / (n v)) with v = 1/2.
    """
    fastest = math.sqrt(4 * math.log(2 / (1 - level)) / max(pairs, 1))
    return uniform_bets(min(fastest / 2, 0.5), 0.99, 24)


def pair_capital(lost: Numbers, gained: Numbers, bets: Bets) -> Floats:
    """Log capital of every bet from counts of pairs that the second arm lost and gained; a new last axis of bets.

    The sign of a discordant pair is a fair coin at worst (Waudby-Smith and Ramdas 2024). With tasks of different
    drops the process is valid after whole passes for the null of no mean drop, and at any time if no task dropped.
    """
    x, y = floats(lost)[..., None], floats(gained)[..., None]
    return floats(x * np.log1p(bets.sizes) + y * np.log1p(-bets.sizes))


def log_e(capital: Numbers, bets: Bets) -> Floats:
    """The logarithm of the e-value: the mean of all capitals (mixtures: Robbins 1970).

    An alarm at level alpha is log_e ≥ log(1 / alpha).
    """
    return log_mean_exp(floats(capital), bets.log_shares)


def anytime_p(log_e_process: Numbers) -> Floats:
    """A p-value valid at every moment: one over the highest e-value so far (Shafer et al. 2011), on the last axis."""
    highest = np.maximum.accumulate(floats(log_e_process), axis=-1)
    return np.exp(-np.maximum(highest, 0.0))


def mean_capital(values: Numbers, counts: Numbers, bets: Bets) -> Floats:
    """Log capital of every bet that a mean is above 0, from how often each value between -1 and 1 was seen.

    The last axis of `counts` goes with `values`; it gives way to one of bets.
    """
    return floats(floats(counts) @ np.log1p(floats(values)[:, None] * bets.sizes))


def pair_interval(lost: Numbers, same: Numbers, gained: Numbers, level: float, bets: Bets) -> Interval:
    """An interval for the mean drop, valid at every stop, from counts of pairs lost, unchanged and gained (batches)."""
    counts = np.stack(np.broadcast_arrays(*(floats(x) for x in (lost, same, gained))), axis=-1)
    return mean_interval([1.0, 0.0, -1.0], counts, level, bets)


def mean_interval(values: Numbers, counts: Numbers, level: float, bets: Bets) -> Interval:
    """An interval for a mean of values between -1 and 1, valid at every stop, from how often each was seen (batches).

    Every mean that has not lost its bet from above or from below: the hedged betting confidence sequence of
    Waudby-Smith and Ramdas (2024) with a fixed mixture of bets, each side at half the error. What was seen may be
    pairs, or means of pairs that belong together: the mean of each, given those before it, must be the one asked for.
    """
    seen, often = floats(values), floats(counts)
    limit = float(np.log(2 / (1 - level)))

    def excess(mean: Floats, side: float) -> Floats:
        """Log capital of the bets that the truth lies above (side 1) or below (side -1) a mean, over the limit."""
        m = side * mean[..., None]
        stake = (side * seen - m) / (1 + m)
        return log_e(np.sum(often[..., None] * np.log1p(stake[..., None] * bets.sizes), axis=-2), bets) - limit

    edge = np.full(often.shape[:-1], 1 - 1e-12)
    low = bisect(lambda m: -excess(m, 1.0), -edge, edge)
    high = bisect(lambda m: excess(m, -1.0), -edge, edge)
    return Interval(np.where(low > -edge + 1e-9, low, -1.0), np.where(high < edge - 1e-9, high, 1.0))
