"""Planning: the noise floor by hand, formulae against each other, simulation against the plan."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as reference

from ethogram.questions.gate import power
from ethogram.questions.gate.order import equal_attempts

QUICK = settings(deadline=None, max_examples=40, derandomize=True)


def test_the_floor_by_hand() -> None:
    passes = np.array([[1.0, 0.0, 1.0], [1.0, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 1.0, 0.0]])
    found = power.pass_floor(passes)
    assert found.within == pytest.approx((0 + 1 / 3 + 1 / 3) / 3)
    session = np.var([2 / 3, 1, 1 / 3, 2 / 3], ddof=1) - found.within / 3
    assert found.session == pytest.approx(max(session, 0))
    assert (found.tasks, found.passes) == (3, 4)
    assert found.session_error == pytest.approx(np.var([2 / 3, 1, 1 / 3, 2 / 3], ddof=1) * np.sqrt(2 / 3))


def test_a_doubtful_variance_goes_as_far_as_students_t() -> None:
    assert power.student_variance(4.0, 0.0, 1.96) == 4.0
    # a variance with 9 degrees of freedom: sd √(2/9); the table's t for one-sided .05 is 1.833 where z is 1.645
    found = power.student_variance(1.0, np.sqrt(2 / 9), 1.6448536)
    assert np.sqrt(found) * 1.6448536 == pytest.approx(1.8331129, rel=1e-6)
    grown = power.student_variance(1.0, np.array([0.1, 0.3, 1.0, 10.0]), 2.0)
    assert np.all(np.diff(grown) > 0)
    assert np.all(np.isfinite(grown))


def test_the_floor_with_missing_attempts() -> None:
    passes = np.array([[1.0, 0.0], [np.nan, 1.0], [1.0, np.nan], [0.0, 0.0]])
    found = power.pass_floor(passes)
    assert found.within == pytest.approx((1 / 3 + 1 / 3) / 2)
    with pytest.raises(ValueError, match="two passes"):
        power.pass_floor(np.ones((1, 5)))


def test_a_session_effect_is_found_and_its_absence_too() -> None:
    rng = np.random.default_rng(1)
    rates = rng.beta(2, 2, 400)
    quiet = power.pass_floor((rng.random((60, 400)) < rates).astype(float))
    moved = rates + 0.08 * rng.standard_normal((60, 1))
    loud = power.pass_floor((rng.random((60, 400)) < moved).astype(float))
    assert quiet.session < 1e-4
    assert loud.session == pytest.approx(0.0064, rel=0.5)
    assert quiet.within == pytest.approx(np.mean(rates * (1 - rates)), rel=0.02)


def test_many_attempts_follow_the_large_sample_formula() -> None:
    # K = 2 (z_alpha + z_power)² σ² / (n D²), where a drop this small changes no variance
    effect = power.DropMoments(0.01, 0.0001, 0.2, 0.2, 0.0, 0.0, 50)
    wanted = 2 * 2.486475**2 * 0.2 / (50 * 0.0001)
    assert power.passes_needed(effect, 0.05, 0.8, 0) == pytest.approx(wanted, rel=0.01)
    k = power.passes_needed(effect, 0.05, 0.8, 0)
    assert power.score_power(effect, k, k, 0.05) >= 0.8 > power.score_power(effect, k - 1, k - 1, 0.05)


def test_a_stored_arm_saves_and_may_not_suffice() -> None:
    effect = power.effect_on(np.linspace(0.3, 0.95, 50), 0.1, 50)
    fresh, stored = (power.passes_needed(effect, 0.05, 0.8, s) for s in (0, 20))
    assert stored < fresh
    tiny = power.effect_on(np.linspace(0.3, 0.95, 50), 0.01, 50)
    assert power.passes_needed(tiny, 0.05, 0.8, 5) == float("inf")
    assert power.sequential_plan(tiny, 0.05, 0.8, every=0.5, delta=0.25, stored=5) is None


@given(st.lists(st.floats(0.1, 0.99), min_size=3, max_size=40), st.floats(0.001, 0.08))
@QUICK
def test_shifted_rates_drop_as_told(rates: list[float], drop: float) -> None:
    p = np.array(rates)
    q = power.shifted(p, drop)
    assert p.mean() - q.mean() == pytest.approx(drop, abs=1e-9)
    assert np.all(q <= p + 1e-9)
    np.testing.assert_allclose(np.ptp(np.log(p / (1 - p)) - np.log(q / (1 - q))), 0, atol=1e-6)
    np.testing.assert_allclose(power.shifted(np.stack([p, p]), drop)[1], q)


def test_one_look_is_the_fixed_test() -> None:
    effect = power.effect_on(np.linspace(0.3, 0.95, 50), 0.1, 50)
    plan = power.staged(effect, 0.05, 0.8, [6.0], 0.25, 0)
    assert plan.power == pytest.approx(float(power.score_power(effect, 6, 6, 0.05)), abs=1e-4)
    assert plan.upper[0] == pytest.approx(reference.norm.ppf(0.95), abs=1e-5)
    assert plan.reach[0] == pytest.approx(reference.norm.ppf(0.8), abs=1e-5)


def test_a_plan_has_its_power_and_the_one_before_has_not() -> None:
    effect = power.effect_on(np.linspace(0.3, 0.95, 50), 0.1, 50)
    plan = power.sequential_plan(effect, 0.05, 0.8, every=0.5, delta=0.25, stored=0)
    assert plan is not None
    assert plan.power >= 0.8
    assert power.staged(effect, 0.05, 0.8, plan.looks[:-1], 0.25, 0).power < 0.8
    assert plan.expected_without < plan.expected_with < plan.looks[-1]
    assert plan.looks[-1] < 1.3 * power.passes_needed(effect, 0.05, 0.8, 0) + 1


def test_simulated_decisions_add_up_and_repeat() -> None:
    rates = np.random.default_rng(1).beta(1.4, 0.6, (300, 30))
    effect = power.effect_on(rates.ravel(), 0.15, 30)
    plan = power.sequential_plan(effect, 0.05, 0.8, every=0.5, delta=0.25, stored=0)
    assert plan is not None
    n = equal_attempts(list(plan.looks), 30)
    lower = power.shifted(rates, 0.15)
    one, two = (power.simulate(rates, lower, (n, n), plan, 0.15, np.random.default_rng(5)) for _ in range(2))
    assert one == two
    assert one.found + one.ruled_out + one.undecided == pytest.approx(1)
    assert one.found > 0.7
    assert 0 < one.first == one.second <= n[-1].sum()
    same = power.simulate(rates, rates, (n, n), plan, 0.15, np.random.default_rng(5))
    assert same.found < 0.1
    assert same.ruled_out > 0.85


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_attempts_that_are_drawn_look_by_look_are_binomial(missing: float) -> None:
    rates = np.broadcast_to([0.1, 0.5, 0.9], (20_000, 3))
    arm, rng = power._Drawn(rates, missing), np.random.default_rng(9)
    for attempts in ([1, 0, 2], [0, 0, 0], [1, 3, 0]):
        arm.draw(np.array(attempts), rng)
    sums = arm.sums(np.arange(20_000))
    known = np.broadcast_to(sums.n, rates.shape)
    n = np.array([2, 3, 2])
    for counts, chance in ((known, 1 - missing), (sums.first, rates[0] * (1 - missing))):
        law = reference.binom(n, chance)
        assert counts.mean(axis=0) == pytest.approx(law.mean(), abs=0.03)
        assert counts.var(axis=0) == pytest.approx(law.var(), abs=0.03)
    assert np.all(sums.first <= known)
