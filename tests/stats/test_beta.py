"""Beta posteriors: against scipy, closed forms and an independent grid."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special
from scipy import stats as reference

from ethogram.stats import beta as b

QUICK = settings(deadline=None, max_examples=40, derandomize=True)


def test_posterior_and_interval_against_scipy() -> None:
    found = b.posterior([0, 3, 10], [10, 10, 10], 1, 1)
    law = reference.beta([1, 4, 11], [11, 8, 1])
    np.testing.assert_allclose(found.mean(), law.mean())
    np.testing.assert_allclose(found.variance(), law.var())
    np.testing.assert_allclose(b.credible(found, 0.9), law.interval(0.9))
    np.testing.assert_allclose(b.above(found, 0.2), law.sf(0.2))


@pytest.mark.parametrize(
    ("one", "two"), [((3, 5), (2, 9)), ((1, 1), (1, 1)), ((40, 3), (25, 12)), ((200, 90), (180, 110))]
)
def test_greater_against_the_closed_form(one: tuple[int, int], two: tuple[int, int]) -> None:
    # for a whole first parameter: P(second > first) = Σ B(a1 + i, b1 + b2) / ((b2 + i) B(1 + i, b2) B(a1, b1))
    (a1, b1), (a2, b2) = one, two
    i = np.arange(a2)
    terms = special.betaln(a1 + i, b1 + b2) - np.log(b2 + i) - special.betaln(1 + i, b2) - special.betaln(a1, b1)
    second_wins = np.exp(terms).sum()
    first, second = (b.Beta(np.array(float(x)), np.array(float(y))) for x, y in (one, two))
    assert b.greater(first, second, 200) == pytest.approx(1 - second_wins, abs=1e-4)


@given(st.floats(0.5, 80), st.floats(0.5, 80), st.floats(0.5, 80), st.floats(0.5, 80))
@QUICK
def test_greater_is_antisymmetric(a1: float, b1: float, a2: float, b2: float) -> None:
    one, two = b.Beta(np.array([a1]), np.array([b1])), b.Beta(np.array([a2]), np.array([b2]))
    assert b.greater(one, two, 120)[0] + b.greater(two, one, 120)[0] == pytest.approx(1, abs=2e-3)
    assert b.greater(one, one, 120)[0] == pytest.approx(0.5, abs=2e-3)


def test_the_population_against_an_independent_grid() -> None:
    rng = np.random.default_rng(9)
    n = np.array([4] * 20 + [7] * 20)
    c = rng.binomial(n, rng.beta(2.0, 1.0, 40))
    found = b.population(c, n)
    assert found.weights.sum() == pytest.approx(1)
    value, (low, high) = b.population_curve(found, [1, 3], 0.9, "hat")

    mean = np.linspace(0.002, 0.998, 250)
    precision = np.exp(np.linspace(-2.5, 6.5, 200))
    a, rest = mean[:, None] * precision, (1 - mean)[:, None] * precision
    log_weight = sum(reference.betabinom.logpmf(x, m, a, rest) for x, m in zip(c, n, strict=True))
    weights = np.exp(log_weight - log_weight.max())
    weights /= weights.sum()
    for place, k in enumerate((1, 3)):
        curve = np.exp(special.betaln(a + k, rest) - special.betaln(a, rest))
        assert value[place] == pytest.approx((weights * curve).sum(), abs=0.002)
        order = np.argsort(curve.ravel())
        mass = np.cumsum(weights.ravel()[order])
        ends = np.interp([0.05, 0.95], mass, curve.ravel()[order])
        np.testing.assert_allclose((low[place], high[place]), ends, atol=0.006)


def test_pass_at_is_the_mirror_of_pass_hat() -> None:
    c, n = np.array([0, 1, 4, 2, 3, 4]), np.full(6, 4)
    hat, ends_hat = b.population_curve(b.population(c, n), [1, 2, 4], 0.95, "hat")
    at, ends_at = b.population_curve(b.population(n - c, n), [1, 2, 4], 0.95, "at")
    np.testing.assert_allclose(1 - at, hat, atol=1e-6)
    np.testing.assert_allclose(1 - ends_at.high, ends_hat.low, atol=1e-6)


def test_drawn_rates_shrink_towards_the_population() -> None:
    rng = np.random.default_rng(2)
    c, n = np.array([0, 4, 2, 3, 3, 4, 1, 2]), np.full(8, 4)
    rates = b.population_rates(b.population(c, n), c, n, rng, 4000)
    assert rates.shape == (4000, 8)
    means = rates.mean(axis=0)
    assert 0 < means[0] < means[2] < means[1] < 1
    assert means[0] > 0.02
    assert means.mean() == pytest.approx(c.mean() / 4, abs=0.05)
