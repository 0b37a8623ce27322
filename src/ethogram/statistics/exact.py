"""Tests without approximation for passes and failures, given the margins of every task; for few attempts and for flags.

Counts of successes and attempts per task on the last axis; `less` speaks for a second arm that passes less often.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ._numeric import Floats, Numbers, floats, log_choose, normal_quantile
from .interval import clopper_pearson


class Exact(NamedTuple):
    """One-sided tails including what was seen, and two-sided."""

    less: Floats
    greater: Floats
    two_sided: Floats


class Odds(NamedTuple):
    """An odds ratio with its interval."""

    value: Floats
    low: Floats
    high: Floats


def stratified_test(first: Numbers, n_first: Numbers, second: Numbers, n_second: Numbers) -> Exact:
    """All tasks together: the sum of the second arm's passes against the sum of hypergeometrics (Mehta et al. 1985).

    With one attempt on each side this is McNemar's exact test. One comparison at a time, meant for totals of up to
    some thousand attempts. Sums of products without a minus sign: tails are as precise however small they are, down to
    the least number there is.
    """
    a, na, b, nb = np.broadcast_arrays(*(np.asarray(x, dtype=np.int64) for x in (first, n_first, second, n_second)))
    least, law = total_law(na, nb, a + b)
    seen = int(b[(na > 0) & (nb > 0)].sum()) - least
    at = law[seen]
    below, above = law[:seen].sum(), law[seen + 1 :].sum()
    two = law[law <= at * (1 + 1e-7)].sum()
    return Exact(*(floats(min(x, 1.0)) for x in (below + at, above + at, two)))


def total_law(n_first: Numbers, n_second: Numbers, passes: Numbers) -> tuple[int, Floats]:
    """The law of the second arm's passes over all tasks, `passes` of both arms being given: its least value, and the
    probability of that and of each value above it. Tasks that only one arm attempted do not count."""
    na, nb, m = np.broadcast_arrays(*(np.asarray(x, dtype=np.int64) for x in (n_first, n_second, passes)))
    both = (na > 0) & (nb > 0)
    open_ = both & (m > 0) & (m < na + nb)
    settled = int(nb[both & ~open_ & (m > 0)].sum())  # where everything passed there is one way only
    tables, counts = np.unique(np.stack([na[open_], nb[open_], m[open_]]), axis=1, return_counts=True)
    if not tables.size:
        return settled, np.ones(1)
    lows, pmf = _support(*tables.astype(np.float64))
    law = np.ones(1)
    for row, low, table, count in zip(pmf, lows, tables.T, counts, strict=True):
        width = int(min(table[1], table[2]) - low) + 1
        law = np.convolve(law, _sum_law(row[:width], int(count)))
    return settled + int(lows @ counts), floats(law / law.sum())


def task_tests(first: Numbers, n_first: Numbers, second: Numbers, n_second: Numbers) -> Exact:
    """Every task for itself: Fisher's exact test (1934), an array of them at once."""
    a, na, b, nb = np.broadcast_arrays(*(floats(x) for x in (first, n_first, second, n_second)))
    low, pmf = _support(na, nb, a + b)
    place = np.arange(pmf.shape[-1]) - (b - low)[..., None]
    at = np.sum(np.where(place == 0, pmf, 0.0), axis=-1)
    below, above = np.sum(np.where(place < 0, pmf, 0.0), axis=-1), np.sum(np.where(place > 0, pmf, 0.0), axis=-1)
    two = np.sum(np.where(pmf <= at[..., None] * (1 + 1e-7), pmf, 0.0), axis=-1)
    parts = (below + at, above + at, two)
    return Exact(*(np.minimum(x, 1.0) for x in parts))


def flip_odds(lost: Numbers, gained: Numbers, level: float) -> Odds:
    """How many pairs were lost for one that was gained, with the share's interval by Clopper and Pearson (1934)."""
    x, y = np.broadcast_arrays(floats(lost), floats(gained))
    share = clopper_pearson(x, x + y, level)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(x + y > 0, x / y, np.nan)
        return Odds(value, share.low / (1 - share.low), np.where(share.high < 1, share.high / (1 - share.high), np.inf))


def common_odds(first: Numbers, n_first: Numbers, second: Numbers, n_second: Numbers, level: float) -> Odds:
    """The odds of passing, second arm to first, common to all tasks (Mantel and Haenszel 1959).

    The variance of its logarithm is that of Robins, Breslow and Greenland (1986), good for many small strata.
    """
    a, na, b, nb = np.broadcast_arrays(*(floats(x) for x in (first, n_first, second, n_second)))
    total = np.maximum(na + nb, 1.0)
    up, down = b * (na - a) / total, a * (nb - b) / total
    p, q = (b + na - a) / total, (a + nb - b) / total
    r, s = np.sum(up, axis=-1), np.sum(down, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = r / s
        variance = np.sum(p * up, axis=-1) / (2 * r * r)
        variance = variance + np.sum(p * down + q * up, axis=-1) / (2 * r * s) + np.sum(q * down, axis=-1) / (2 * s * s)
        half = float(normal_quantile(0.5 + level / 2)) * np.sqrt(variance)
        known = (r > 0) & (s > 0)
        return Odds(value, np.where(known, value * np.exp(-half), 0.0), np.where(known, value * np.exp(half), np.inf))


def common_ratio(first: Numbers, n_first: Numbers, second: Numbers, n_second: Numbers) -> Floats:
    """How many times as often the second arm passes, common to all tasks (Mantel and Haenszel 1959, for rates).

    Infinite where the first arm never passes, NaN where neither does.
    """
    a, na, b, nb = np.broadcast_arrays(*(floats(x) for x in (first, n_first, second, n_second)))
    total = np.maximum(na + nb, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return floats(np.sum(b * na / total, axis=-1) / np.sum(a * nb / total, axis=-1))


def _sum_law(law: Floats, count: int) -> Floats:
    """The law of the sum of `count` alike, by doubling."""
    whole = np.ones(1)
    while count:
        if count & 1:
            whole = np.convolve(whole, law)
        count >>= 1
        if count:
            law = np.convolve(law, law)
    return floats(whole)


def _support(n_first: Floats, n_second: Floats, passes: Floats) -> tuple[Floats, Floats]:
    """The smallest number of passes the second arm can have, and the hypergeometric law from there on."""
    low = np.maximum(0.0, passes - n_first)
    width = int(np.max(np.minimum(n_second, passes) - low, initial=0)) + 1
    x = low[..., None] + np.arange(width)
    na, nb, m = n_first[..., None], n_second[..., None], passes[..., None]
    return low, np.exp(log_choose(nb, x) + log_choose(na, m - x) - log_choose(na + nb, m))
