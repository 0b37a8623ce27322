"""Many tests at once: p-values adjusted along the last axis, so that each can be held against the level itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ._numeric import Floats, Numbers, floats


def holm(p: Numbers) -> Floats:
    """Step-down: keeps the chance of any false find under any dependence, never weaker than Bonferroni (Holm 1979)."""
    ordered, back = _sorted(p)
    m = ordered.shape[-1]
    return _restored(np.maximum.accumulate(ordered * (m - np.arange(m)), axis=-1), back)


def benjamini_hochberg(p: Numbers) -> Floats:
    """Keeps the expected share of false finds among the finds (Benjamini and Hochberg 1995)."""
    ordered, back = _sorted(p)
    m = ordered.shape[-1]
    return _restored(_from_the_top(ordered * (m / np.arange(1, m + 1))), back)


def max_t(observed: Numbers, permuted: Numbers) -> Floats:
    """Step-down by the largest statistic of each permutation, which accounts for dependence between the tests.

    Westfall and Young (1993). `observed` are m statistics that speak against the null where they are large, `permuted`
    is (draws, m).
    """
    seen, draws = floats(observed), floats(permuted)
    order = np.argsort(-seen, kind="stable")
    # for the j-th largest statistic, only the hypotheses that are not yet rejected count
    largest = np.maximum.accumulate(draws[:, order][:, ::-1], axis=1)[:, ::-1]
    p = (1 + np.sum(largest >= seen[order] - 1e-12, axis=0)) / (1 + draws.shape[0])
    out = np.empty(seen.shape)
    out[order] = np.maximum.accumulate(p)
    return out


def holm_discrete(p: Numbers, attainable: Sequence[Floats | None]) -> Floats:
    """Holm for tests whose p-values are counted, not measured: each adds only the largest p that it could show.

    Westfall and Wolfinger (1997): Holm's m p becomes the sum over the tests of P(p-value ≤ p), which is 0 for a test
    that can never be so small (Tarone 1990). `attainable` are the p-values that each test can give, falling; None
    stands for any value.
    """
    values = floats(p)
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    sums = np.zeros(values.size)
    for place, test in enumerate(order):
        # the tests before this one are rejected already: only steps up to its own have it among them
        sums[: place + 1] += _reached(attainable[test], ordered[: place + 1])
    out = np.empty(values.size)
    out[order] = np.minimum(np.maximum.accumulate(sums), 1.0)
    return out


def _reached(attainable: Floats | None, p: Floats) -> Floats:
    """The largest p-value of a test that is at most p; 0 where it has none."""
    if attainable is None:
        return p
    place = np.searchsorted(-attainable, -p * (1 + 1e-9))
    return floats(np.where(place < attainable.size, attainable[np.minimum(place, attainable.size - 1)], 0.0))


def _sorted(p: Numbers) -> tuple[Floats, np.ndarray[tuple[int, ...], np.dtype[np.intp]]]:
    values = floats(p)
    order = np.argsort(values, axis=-1, kind="stable")
    return np.take_along_axis(values, order, axis=-1), np.argsort(order, axis=-1, kind="stable")


def _from_the_top(values: Floats) -> Floats:
    return floats(np.minimum.accumulate(values[..., ::-1], axis=-1)[..., ::-1])


def _restored(values: Floats, back: np.ndarray[tuple[int, ...], np.dtype[np.intp]]) -> Floats:
    return np.minimum(np.take_along_axis(values, back, axis=-1), 1.0)
