"""A ratio of means: Fieller by its own equation, the recovered interval where it must equal Fieller, edges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as reference

from ethogram.statistics import interval, ratio
from ethogram.statistics.interval import Interval

QUICK = settings(deadline=None, max_examples=50, derandomize=True)


def drawn(seed: int, n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = rng.binomial(4, 0.6, n) / 4
    return np.exp(0.5 * rng.standard_normal(n)) * (1.5 - 0.5 * y), y


def test_between_is_the_covariance_of_means() -> None:
    x, y = drawn(1)
    found = ratio.cluster_means(x, y)
    wanted = np.cov(x, y) / 40
    np.testing.assert_allclose([found.xx, found.xy, found.yy], [wanted[0, 0], wanted[0, 1], wanted[1, 1]])
    assert (found.x, found.y, found.df) == (pytest.approx(x.mean()), pytest.approx(y.mean()), 39)


def test_fieller_solves_its_equation() -> None:
    means = ratio.cluster_means(*drawn(2))
    t = reference.t.ppf(0.975, 39)
    for end in ratio.fieller(means, 0.95):
        variance = means.xx - 2 * end * means.xy + end**2 * means.yy
        assert (means.x - end * means.y) ** 2 == pytest.approx(t * t * variance)


@pytest.mark.parametrize("seed", range(4))
def test_recovered_from_even_intervals_is_fieller(seed: int) -> None:
    means = ratio.cluster_means(*drawn(seed))
    x, y = (interval.student(m, v, 39, 0.95) for m, v in ((means.x, means.xx), (means.y, means.yy)))
    np.testing.assert_allclose(ratio.mover_ratio(means, x, y), ratio.fieller(means, 0.95), rtol=1e-9)


def test_nothing_achieved_costs_at_least_something() -> None:
    x, y = np.array([1.0, 1.2, 0.9, 1.1]), np.zeros(4)
    means = ratio.cluster_means(x, y)
    achieved = interval.wilson(0.0, 4.0, 0.95)
    low, high = ratio.mover_ratio(means, interval.skewed_mean(x, 0.95), achieved)
    assert high == np.inf
    assert low == pytest.approx(interval.skewed_mean(x, 0.95).low / achieved.high)
    assert ratio.fieller(means, 0.95).high == np.inf


def test_everything_achieved_still_leaves_doubt() -> None:
    x, y = np.full(10, 2.0), np.ones(10)
    means = ratio.cluster_means(x, y)
    low, high = ratio.mover_ratio(means, interval.skewed_mean(x, 0.95), interval.wilson(10.0, 10.0, 0.95))
    assert low == pytest.approx(2.0)
    assert high == pytest.approx(2.0 / interval.wilson(10, 10, 0.95).low)
    assert ratio.fieller(means, 0.95) == (2.0, 2.0)


def test_within_leaves_differences_between_tasks_out() -> None:
    task = np.repeat(np.arange(3), 4)
    noise = np.tile([-0.1, 0.1, -0.1, 0.1], 3)
    x = np.repeat([1.0, 10.0, 100.0], 4) + noise
    y = np.tile([1.0, 0.0, 1.0, 1.0], 3)
    found = ratio.task_means(x, y, task, 3)
    own = np.var([-0.1, 0.1, -0.1, 0.1], ddof=1) / 4
    assert found.x == pytest.approx(37.0)
    assert found.xx == pytest.approx(3 * own / 9)
    assert found.yy == pytest.approx(3 * np.var([1, 0, 1, 1], ddof=1) / 4 / 9)
    assert found.df == 9
    single = ratio.task_means([1.0, 2.0, 4.0], [1.0, 0.0, 1.0], [0, 1, 2], 3)
    np.testing.assert_allclose(single[:5], ratio.cluster_means(np.array([1.0, 2, 4]), np.array([1.0, 0, 1]))[:5])


@given(st.integers(0, 10_000), st.floats(0.01, 100))
@QUICK
def test_the_unit_of_money_does_not_matter(seed: int, unit: float) -> None:
    x, y = drawn(seed, 15)
    achieved = Interval(np.float64(max(y.mean() - 0.2, 0.01)), np.float64(min(y.mean() + 0.2, 1.0)))
    one = ratio.mover_ratio(ratio.cluster_means(x, y), interval.skewed_mean(x, 0.95), achieved)
    other = ratio.mover_ratio(ratio.cluster_means(unit * x, y), interval.skewed_mean(unit * x, 0.95), achieved)
    np.testing.assert_allclose(other, np.multiply(one, unit), rtol=1e-6)
    assert one.low <= x.mean() / y.mean() <= one.high
