"""Shares over clusters of unequal size: by hand, against Wilson where clusters say nothing, and by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as reference

from ethogram.statistics.interval import wilson, wilson_edge
from ethogram.statistics.shares import clustered_share, share_estimate


def test_by_hand() -> None:
    """Twelve clusters of four, six with three hits and six with one: the design effect of a ratio, with Student's t."""
    hits, of = [3, 1] * 6, [4] * 12
    low, high = clustered_share(hits, of, 0.95)
    plain = wilson_edge(24, 48, 0.95)
    variance = 12 / 11 * 12 * 1.0 / 48**2
    t = float(reference.t.ppf(0.975, 11) / reference.norm.ppf(0.975))
    worth = 0.25 / (variance * t * t)
    assert worth < 48
    want = wilson_edge(0.5 * worth, worth, 0.95)
    assert (float(low), float(high)) == pytest.approx((float(want.low), float(want.high)))
    assert low <= plain.low
    assert high >= plain.high


def test_clusters_that_agree_with_themselves_count_once() -> None:
    """All of four or none: ten of twenty clusters; the interval is about that of twenty attempts, not of eighty."""
    low, high = clustered_share([4, 0] * 10, [4] * 20, 0.95)
    few, many = wilson(10, 20, 0.95), wilson(40, 80, 0.95)
    assert high - low == pytest.approx(few.high - few.low, rel=0.1)
    assert high - low > 1.5 * (many.high - many.low)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12))
def test_the_interval_holds_the_share(table: list[tuple[int, int]]) -> None:
    hits = np.array([min(a, b) for a, b in table])
    of = np.array([max(a, b) for a, b in table])
    low, high = clustered_share(hits, of, 0.95)
    share = hits.sum() / max(of.sum(), 1)
    assert 0 <= low <= share + 1e-9
    assert share - 1e-9 <= high <= 1


@pytest.mark.parametrize(("clusters", "rate", "alike"), [(10, 0.4, 0.6), (30, 0.1, 0.6), (100, 0.02, 0.6)])
def test_coverage_where_attempts_of_a_cluster_are_alike(clusters: int, rate: float, alike: float) -> None:
    rng = np.random.default_rng(clusters)
    covered = wrong = 0
    a, b = rate * (1 / alike - 1), (1 - rate) * (1 / alike - 1)
    for _ in range(600):
        of = rng.integers(1, 9, clusters)
        hits = rng.binomial(of, rng.beta(a, b, clusters))
        low, high = clustered_share(hits, of, 0.95)
        covered += low <= rate <= high
        naive = wilson(hits.sum(), of.sum(), 0.95)
        wrong += naive.low <= rate <= naive.high
    assert covered / 600 > 0.92
    assert wrong / 600 < 0.85, "attempts that are counted as independent must fail here"


def test_a_share_as_an_estimate() -> None:
    hits, of = [3, 1] * 6, [4] * 12
    low, high = clustered_share(hits, of, 0.9)
    found = share_estimate(np.array(hits), np.array(of), 0.9, "runs", missing={"unscored": 2})
    assert (found.value, found.low, found.high) == (0.5, float(low), float(high))
    assert (found.level, found.method, found.n, found.of) == (0.9, "wilson-neff", 48, "runs")
    assert found.missing == {"unscored": 2}
    none = share_estimate([0, 0], [0, 0], 0.95, "runs", nothing="no run failed")
    assert (none.value, none.low, none.n, none.why) == (None, None, 0, "no run failed")
