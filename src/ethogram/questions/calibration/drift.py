"""A test whether a rate has fallen since it was measured; it may be evaluated after every label.

The baseline is known from a sample only. Half of the error that is allowed goes into its lower limit, half into a bet
that the rate is below that limit (see `anytime`): whatever the baseline, and however often one looks, an unchanged rate
raises an alarm at most that often.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ethogram.statistics._numeric import Floats, Numbers, floats
from ethogram.statistics.anytime import geometric_bets, log_e, mean_capital
from ethogram.statistics.interval import wilson_edge


class Watched(NamedTuple):
    """The limit that is watched, after every label the logarithm of the e-value, and the first label above `at`."""

    limit: float
    log_e: Floats
    at: float
    alarm: int | None


def watch_fall(good: Numbers, n: Numbers, later: Numbers, alpha: float) -> Watched:
    """Test for a fall: first `good` of `n` (effective counts), then 1 or 0 in order of time."""
    y = floats(later)
    limit = float(wilson_edge(good, n, 1 - alpha).low)  # two-sided 1 - alpha: alpha / 2 below
    bets = geometric_bets(0.05, 0.95, 16)
    worse = np.arange(1, y.size + 1) - np.cumsum(y)
    counts = np.stack([np.cumsum(y), worse], axis=-1)
    e = log_e(mean_capital([limit - 1, limit], counts, bets), bets) if y.size else np.zeros(0)
    at = float(np.log(2 / alpha))
    over = np.flatnonzero(e >= at)
    return Watched(limit, floats(e), at, int(over[0]) if over.size else None)
