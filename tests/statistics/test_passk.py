"""pass@k and pass^k: by hand, by enumerating every choice of k attempts, by their expectation, by properties."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as reference

from ethogram.statistics import interval, passk

QUICK = settings(deadline=None, max_examples=60, derandomize=True)
suites = st.lists(
    st.integers(1, 12).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), min_size=1, max_size=12
)


def test_by_hand() -> None:
    # 3 of 4 attempts: all of 2 in 3 of 6 pairs, any of 2 in 6 of 6
    np.testing.assert_allclose(passk.pass_hat([3], [4], [1, 2, 3, 4])[0], [0.75, 0.5, 0.25, 0.0])
    np.testing.assert_allclose(passk.pass_at([3], [4], [1, 2, 3, 4])[0], [0.75, 1.0, 1.0, 1.0])
    np.testing.assert_allclose(passk.pass_at([1], [4], [1, 2, 3, 4])[0], [0.25, 0.5, 0.75, 1.0])
    np.testing.assert_allclose(passk.naive_hat([3], [4], [1, 2])[0], [0.75, 0.5625])
    np.testing.assert_allclose(passk.naive_at([3], [4], [1, 2])[0], [0.75, 0.9375])


@pytest.mark.parametrize("n", [1, 2, 5, 7])
def test_against_every_choice_of_k_attempts(n: int) -> None:
    for c in range(n + 1):
        runs = [1] * c + [0] * (n - c)
        for k in range(1, n + 1):
            chosen = list(combinations(runs, k))
            assert passk.pass_hat(c, n, [k])[0] == pytest.approx(np.mean([min(x) for x in chosen]))
            assert passk.pass_at(c, n, [k])[0] == pytest.approx(np.mean([max(x) for x in chosen]))


@pytest.mark.parametrize("p", [0.03, 0.4, 0.9])
@pytest.mark.parametrize(("n", "k"), [(4, 1), (4, 3), (10, 4), (10, 10)])
def test_unbiased_and_the_naive_ones_are_not(p: float, n: int, k: int) -> None:
    c = np.arange(n + 1)
    weights = reference.binom.pmf(c, n, p)
    assert weights @ passk.pass_hat(c, n, [k])[:, 0] == pytest.approx(p**k, abs=1e-12)
    assert weights @ passk.pass_at(c, n, [k])[:, 0] == pytest.approx(1 - (1 - p) ** k, abs=1e-12)
    if k > 1:
        assert weights @ passk.naive_hat(c, n, [k])[:, 0] > p**k * (1 + 1e-6)
        assert weights @ passk.naive_at(c, n, [k])[:, 0] < (1 - (1 - p) ** k) * (1 - 1e-6)


@pytest.mark.parametrize("kind", ["at", "hat"])
@pytest.mark.parametrize(("n", "k"), [(2, 1), (4, 2), (10, 4)])
def test_the_variance_within_a_task_is_unbiased(kind: passk.PassKind, n: int, k: int) -> None:
    c = np.arange(n + 1)
    for p in (0.1, 0.5, 0.8):
        weights = reference.binom.pmf(c, n, p)
        values = (passk.pass_hat if kind == "hat" else passk.pass_at)(c, n, [k])[:, 0]
        truth = weights @ values**2 - (weights @ values) ** 2
        assert weights @ passk.within_variance(c, n, [k], kind)[:, 0] == pytest.approx(truth, abs=1e-12)
    assert np.isnan(passk.within_variance(1, n, [n], kind)).all()


def test_unequal_attempts_leave_short_tasks_out_and_say_so() -> None:
    found = passk.curve([4, 2, 1], [4, 4, 1], [1, 2, 5], 0.95, kind="hat", target="population")
    np.testing.assert_array_equal(found.tasks, [3, 2, 0])
    np.testing.assert_allclose(found.value[:2], [(1 + 0.5 + 1) / 3, (1 + 1 / 6) / 2])
    assert np.isnan(found.value[2])
    assert (found.low[2], found.high[2]) == (0.0, 1.0)


@pytest.mark.parametrize("target", ["population", "suite"])
@pytest.mark.parametrize("kind", ["at", "hat"])
def test_all_pass_and_all_fail_keep_their_width(target: passk.Target, kind: passk.PassKind) -> None:
    for c, value in ((0, 0.0), (4, 1.0)):
        found = passk.curve(np.full(20, c), np.full(20, 4), [1, 2, 4], 0.95, kind=kind, target=target)
        np.testing.assert_array_equal(found.value, value)
        assert np.all(found.high - found.low > 0.02)


def test_the_population_interval_by_hand() -> None:
    # one attempt: the effective n is n times (n - 1) / n, shrunk by (z / t)²
    c = np.array([1] * 30 + [0] * 20)
    found = passk.curve(c, np.ones(50), [1], 0.95, kind="hat", target="population")
    n_eff = 49 * (1.959963985 / reference.t.ppf(0.975, 49)) ** 2
    assert found.effective[0] == pytest.approx(n_eff, rel=1e-6)
    np.testing.assert_allclose((found.low[0], found.high[0]), interval.wilson(0.6 * n_eff, n_eff, 0.95))


def test_the_suite_interval_by_hand() -> None:
    # ten tasks, 2 of 4 each: within variance 1/12 each, plus z²/2 steps of 1/4, over ten
    found = passk.curve(np.full(10, 2), np.full(10, 4), [1], 0.95, kind="hat", target="suite")
    variance = (10 / 12 + 1.959963985**2 / 2 / 16) / 100
    assert found.effective[0] == pytest.approx(max(0.25 / variance, 40.0))
    # tasks that never waver in four attempts each: more is known than from 40 tosses of a coin, but not everything
    firm = passk.curve([0] * 5 + [4] * 5, np.full(10, 4), [1], 0.95, kind="hat", target="suite")
    step = 1.959963985**2 / 2 / 16 / 100
    assert firm.effective[0] == pytest.approx(0.25 / step)
    assert 0.05 < firm.high[0] - firm.low[0] < 0.25


def test_one_attempt_falls_back_on_the_tasks() -> None:
    c = np.array([1] * 14 + [0] * 6)
    found = passk.curve(c, np.ones(20), [1], 0.95, kind="hat", target="suite")
    np.testing.assert_allclose((found.low[0], found.high[0]), interval.wilson(14, 20, 0.95))


def test_batches_come_first() -> None:
    rng = np.random.default_rng(3)
    c = rng.integers(0, 6, size=(3, 2, 15))
    whole = passk.curve(c, np.full(15, 5), [1, 3], 0.9, kind="at", target="suite")
    assert whole.value.shape == (3, 2, 2)
    part = passk.curve(c[1, 0], np.full(15, 5), [1, 3], 0.9, kind="at", target="suite")
    for all_, one in zip(whole, part, strict=True):
        np.testing.assert_allclose(all_[1, 0], one)


@pytest.mark.parametrize("k", [0, -1])
def test_k_starts_at_one(k: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        passk.pass_at([1], [2], [k])


@given(suites, st.sampled_from(["population", "suite"]))
@QUICK
def test_properties(suite: list[tuple[int, int]], target: passk.Target) -> None:
    c, n = np.array(suite).T
    ks = np.arange(1, n.max() + 1)
    hat, at = passk.pass_hat(c, n, ks), passk.pass_at(c, n, ks)
    enough = n[:, None] >= ks
    assert np.all(np.isnan(hat) == ~enough)
    assert np.all((hat >= 0) & (hat <= at + 1e-12) & (at <= 1) | ~enough)
    np.testing.assert_allclose(hat[:, 0], c / n)
    np.testing.assert_allclose(at[:, 0], c / n, atol=1e-12)
    assert np.all((np.diff(hat, axis=1) <= 1e-12) | ~enough[:, 1:])
    assert np.all((np.diff(at, axis=1) >= -1e-12) | ~enough[:, 1:])
    for kind in ("at", "hat"):
        found = passk.curve(c, n, ks, 0.95, kind=kind, target=target)
        used = found.tasks > 0
        assert np.all((found.low <= found.value) & (found.value <= found.high) | ~used)
        assert np.all(found.high - found.low > 1e-6)
        mixed = np.random.default_rng(0).permutation(len(c))
        again = passk.curve(c[mixed], n[mixed], ks, 0.95, kind=kind, target=target)
        np.testing.assert_allclose(again.low, found.low, rtol=1e-9, atol=1e-12)
    mirror = passk.curve(n - c, n, ks, 0.95, kind="at", target=target)
    straight = passk.curve(c, n, ks, 0.95, kind="hat", target=target)
    np.testing.assert_allclose(1 - mirror.high, straight.low, atol=1e-9)
