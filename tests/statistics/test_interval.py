"""Intervals for rates and means: goldens, scipy.stats as the independent reference, properties."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as reference

from ethogram.statistics import interval

QUICK = settings(deadline=None, max_examples=60, derandomize=True)
RATES = {f.__name__: f for f in (interval.wilson, interval.wilson_edge, interval.clopper_pearson)}
counts = st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))
levels = st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99])


def test_wilson_by_hand() -> None:
    # 5 of 5 at z = 1.959964: low = 5 / (5 + z²) = 0.5655
    low, high = interval.wilson(5, 5, 0.95)
    assert low == pytest.approx(5 / (5 + 1.959963985**2), abs=1e-9)
    assert high == 1.0
    low, high = interval.wilson(0, 5, 0.95)
    assert (low, high) == (0.0, pytest.approx(1 - 0.5655175, abs=1e-6))


@pytest.mark.parametrize(("ours", "theirs"), [(interval.wilson, "wilson"), (interval.clopper_pearson, "exact")])
@pytest.mark.parametrize("n", [1, 2, 7, 30, 400])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_against_scipy(ours: Any, theirs: str, n: int, level: float) -> None:
    x = np.unique(np.linspace(0, n, 9).astype(int))
    low, high = ours(x, n, level)
    wanted = [reference.binomtest(int(k), n).proportion_ci(level, method=theirs) for k in x]
    np.testing.assert_allclose(low, [w.low for w in wanted], atol=1e-10)
    np.testing.assert_allclose(high, [w.high for w in wanted], atol=1e-10)


def test_the_edge_moves_only_the_near_end_and_only_outwards() -> None:
    n = np.full(51, 50.0)
    x = np.arange(51.0)
    plain, edge = interval.wilson(x, n, 0.95), interval.wilson_edge(x, n, 0.95)
    assert np.all(edge.low <= plain.low)
    assert np.all(edge.high >= plain.high)
    np.testing.assert_array_equal(edge.low[4:], plain.low[4:])
    np.testing.assert_array_equal(edge.high[:47], plain.high[:47])
    # one event: the Poisson rate whose chance of any event is 5 %
    assert edge.low[1] == pytest.approx(-np.log(0.95) / 50, rel=1e-9)
    assert edge.low[1] == pytest.approx(reference.chi2.ppf(0.05, 2) / 2 / 50, rel=1e-9)


def test_nothing_seen_is_everything_possible() -> None:
    for name, method in RATES.items():
        assert method(0, 0, 0.95) == (0.0, 1.0), name


def test_effective_n_by_hand() -> None:
    # a rate of 0.5 whose mean has variance 0.01 is worth 25 trials
    assert interval.effective_n(0.5, 0.01, 1, 100, 7) == 25
    assert interval.effective_n(0.5, 0.0001, 1, 100, 7) == 100
    assert interval.effective_n(0.5, 0.0, 1, 100, 7) == 100
    assert interval.effective_n(0.5, 9.0, 1, 100, 7) == 1
    assert interval.effective_n([0.0, 1.0], 0.0, 1, 100, 7).tolist() == [7, 7]


def test_student_against_scipy() -> None:
    x = np.array([1.0, 4.0, 2.0, 8.0])
    low, high = interval.student(x.mean(), x.var(ddof=1) / 4, 3, 0.9)
    np.testing.assert_allclose((low, high), reference.t.interval(0.9, 3, x.mean(), reference.sem(x)))
    assert interval.student(1.0, 0.0, 0, 0.9) == (-np.inf, np.inf)


def test_a_skewed_mean_reaches_further_up() -> None:
    rng = np.random.default_rng(1)
    even = np.concatenate([np.arange(1.0, 11), -np.arange(1.0, 11)])
    plain = interval.student(even.mean(), even.var(ddof=1) / 20, 19, 0.95)
    np.testing.assert_allclose(interval.skewed_mean(even, 0.95), plain, rtol=1e-6)
    costs = np.exp(rng.standard_normal(30))
    plain = interval.student(costs.mean(), costs.var(ddof=1) / 30, 29, 0.95)
    hall = interval.skewed_mean(costs, 0.95)
    assert plain.low < hall.low < costs.mean()
    assert hall.high > plain.high
    mirrored = interval.skewed_mean(-costs, 0.95)
    np.testing.assert_allclose((-mirrored.high, -mirrored.low), hall)
    np.testing.assert_allclose(interval.skewed_mean([1.0, 2.0], 0.95), interval.student(1.5, 0.25, 1, 0.95))
    assert interval.skewed_mean([2.0, 2.0, 2.0], 0.95) == (2.0, 2.0)


def test_bounds_of_missing_trials() -> None:
    low, high = interval.bounds(6, 10, 5)
    assert (low, high) == (pytest.approx(6 / 15), pytest.approx(11 / 15))
    assert interval.bounds(6, 10, 0) == (0.6, 0.6)


@given(counts, levels)
@QUICK
def test_properties_of_rate_intervals(count: tuple[int, int], level: float) -> None:
    x, n = count
    for name, method in RATES.items():
        low, high = method(x, n, level)
        flipped = method(n - x, n, level)
        np.testing.assert_allclose((1 - flipped.high, 1 - flipped.low), (low, high), atol=1e-9, err_msg=name)
        assert 0 <= low <= x / n <= high <= 1, name
        assert high > low, name
        wide = method(x, n, (1 + level) / 2)
        assert wide.low <= low + 1e-12, name
        assert wide.high >= high - 1e-12, name


@given(counts, levels)
@QUICK
def test_more_successes_move_the_interval_up(count: tuple[int, int], level: float) -> None:
    x, n = count
    if x < n:
        for name in ("wilson", "clopper_pearson"):
            here, there = RATES[name](x, n, level), RATES[name](x + 1, n, level)
            assert there.low >= here.low - 1e-12, name
            assert there.high >= here.high - 1e-12, name
