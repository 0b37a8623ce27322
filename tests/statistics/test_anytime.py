"""e-processes: that the capital is a fair game is checked by enumerating every course of it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate

from ethogram.statistics import anytime as e

QUICK = settings(deadline=None, max_examples=40, derandomize=True)
BETS = e.uniform_bets(0.05, 0.9, 24)
WIDE = e.geometric_bets(0.005, 0.95, 24)


@pytest.mark.parametrize("bets", [BETS, WIDE])
def test_shares_sum_to_one(bets: e.Bets) -> None:
    assert np.exp(bets.log_shares).sum() == pytest.approx(1)
    assert np.all((bets.sizes > 0) & (bets.sizes < 1))


@pytest.mark.parametrize(("lost", "gained"), [(0, 0), (5, 1), (40, 22), (3, 30)])
def test_the_mixture_is_the_integral(lost: int, gained: int) -> None:
    wanted, _ = integrate.quad(lambda x: (1 + x) ** lost * (1 - x) ** gained / 0.85, 0.05, 0.9)
    assert np.exp(e.log_e(e.pair_capital(lost, gained, BETS), BETS)) == pytest.approx(wanted, rel=1e-6)


def test_a_fair_game_over_every_course() -> None:
    courses = np.array(list(product([1.0, -1.0, 0.0], repeat=7)))
    chance = np.where(courses == 0, 0.4, 0.3).prod(axis=1)
    capital = np.exp(
        e.log_e(e.pair_capital(np.cumsum(courses == 1, axis=1), np.cumsum(courses == -1, axis=1), BETS), BETS)
    )
    np.testing.assert_allclose(chance @ capital, np.ones(7), atol=1e-12)
    # a candidate that is better on average loses the bettor money
    better = np.where(courses == 0, 0.4, np.where(courses == 1, 0.2, 0.4)).prod(axis=1)
    assert np.all(np.diff(better @ capital) < 0)


def test_counts_of_pairs_are_bets_on_each_pair() -> None:
    drops = np.array([1, 1, 0, -1, 1, 0, 1])
    one_by_one = np.log1p(drops[:, None] * BETS.sizes).sum(axis=0)
    np.testing.assert_allclose(e.pair_capital(4, 1, BETS), one_by_one)


def test_state_adds_up_across_a_resume() -> None:
    resumed = e.pair_capital(30, 12, BETS) + e.pair_capital(5, 9, BETS)
    np.testing.assert_allclose(resumed, e.pair_capital(35, 21, BETS))


def test_anytime_p_is_the_best_so_far() -> None:
    np.testing.assert_allclose(e.anytime_p(np.log([0.5, 4.0, 2.0, 20.0])), [1, 0.25, 0.25, 0.05])


def test_an_end_is_where_the_capital_reaches_its_limit() -> None:
    drops = np.array([1.0] * 30 + [0.0] * 150 + [-1.0] * 10)
    found = e.pair_interval(30, 150, 10, 0.95, WIDE)
    assert found.low < 20 / 190 < found.high
    stake = (drops - found.low) / (1 + found.low)
    capital = e.log_e(np.log1p(stake[:, None] * WIDE.sizes).sum(axis=0), WIDE)
    assert capital == pytest.approx(np.log(40), abs=1e-6)
    assert e.pair_interval(0, 0, 0, 0.95, WIDE).high == pytest.approx(1)


@given(st.integers(0, 60), st.integers(0, 200), st.integers(0, 60))
@QUICK
def test_properties_of_the_interval(lost: int, same: int, gained: int) -> None:
    low, high = e.pair_interval(lost, same, gained, 0.95, WIDE)
    mirrored = e.pair_interval(gained, same, lost, 0.95, WIDE)
    np.testing.assert_allclose((-mirrored.high, -mirrored.low), (low, high), atol=1e-9)
    n = max(lost + same + gained, 1)
    assert -1 <= low <= (lost - gained) / n + 1e-9
    assert high > low
    wider = e.pair_interval(lost, same, gained, 0.99, WIDE)
    assert wider.low <= low + 1e-9
    more = e.pair_interval(4 * lost, 4 * same, 4 * gained, 0.95, WIDE)
    assert more.high - more.low <= high - low + 1e-9


@given(st.integers(0, 80), st.integers(0, 80))
@QUICK
def test_more_losses_raise_the_evidence(lost: int, gained: int) -> None:
    here = e.log_e(e.pair_capital(lost, gained, BETS), BETS)
    assert e.log_e(e.pair_capital(lost + 1, gained, BETS), BETS) > here
    assert e.log_e(e.pair_capital(lost, gained + 1, BETS), BETS) < here
