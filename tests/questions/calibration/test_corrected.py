"""Corrected means: by hand, against the formulae of PPI++, and where little is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ethogram.questions.calibration import corrected, draws, judge_accuracy
from ethogram.questions.calibration.corrected import JudgedSample, Labels, corrected_mean
from ethogram.statistics import interval

QUICK = settings(deadline=None, max_examples=60, derandomize=True)


def drawn(rng: np.random.Generator, n: int = 1000, labels: int = 200) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    y = (rng.random(n) < 0.6).astype(float)
    f = np.where(rng.random(n) < 0.9, y, 1 - y)
    return f, y, rng.choice(n, labels, replace=False)


def test_it_is_ppi_plus_plus() -> None:
    f, y, at = drawn(np.random.default_rng(1))
    found = corrected_mean(JudgedSample.of(f), Labels.of(at, y[at]), 0.95)
    trust = np.cov(y[at], f[at], ddof=0)[0, 1] / f.var()
    assert found.trust == pytest.approx(trust)
    assert found.value == pytest.approx(y[at].mean() + trust * (f.mean() - f[at].mean()))
    # the same with the variance of the paper: labels apart from the rest
    rest = np.delete(f, at)
    small = trust * rest.size / f.size
    variance = np.var(y[at] - small * f[at], ddof=1) / at.size + small**2 * np.var(rest, ddof=1) / rest.size
    assert found.variance == pytest.approx(variance, rel=0.02)
    n = found.value * (1 - found.value) / found.variance
    np.testing.assert_allclose(found[1:3], interval.wilson_edge(found.value * n, n, 0.95), rtol=1e-9)
    worth = corrected.label_worth(np.corrcoef(y[at], f[at])[0, 1], at.size, f.size)
    plain = y[at].var() / at.size
    assert plain / found.variance == pytest.approx(worth, rel=0.05)


def test_strata_by_verdict_are_weighted_back() -> None:
    # nine of ten verdicts are yes; half of the labels were taken among the others
    f = np.repeat([1.0, 0.0], [900, 100])
    at = np.concatenate([np.arange(50), np.arange(900, 950)])
    y = np.concatenate([np.repeat([1.0, 0.0], [45, 5]), np.repeat([1.0, 0.0], [10, 40])])
    found = corrected_mean(JudgedSample.of(f, cell=f), Labels.of(at, y, np.repeat([50 / 900, 0.5], 50)), 0.95)
    assert found.value == pytest.approx(0.9 * 0.9 + 0.1 * 0.2)
    spread = 0.81 * 0.09 / 49 + 0.01 * 0.16 / 49 + 0.7**2 * 0.09 / 1000
    assert found.variance == pytest.approx(spread, rel=0.03)
    with pytest.raises(ValueError, match="no label in cell 0"):
        corrected_mean(JudgedSample.of(f, cell=f), Labels.of(np.arange(50), np.ones(50)), 0.95)


def test_a_judge_that_says_nothing_costs_nothing() -> None:
    rng = np.random.default_rng(3)
    y = (rng.random(800) < 0.4).astype(float)
    at = np.arange(100)
    for f in (np.ones(800), rng.permutation(y)):
        found = corrected_mean(JudgedSample.of(f), Labels.of(at, y[at]), 0.95)
        low, high = interval.wilson(y[at].sum(), 100, 0.95)
        assert found.high - found.low <= 1.03 * float(high - low)


def test_perfect_agreement_is_not_certainty() -> None:
    f = np.repeat([1.0, 0.0], [25_000, 25_000])
    at = np.arange(0, 50_000, 500)
    found = corrected_mean(JudgedSample.of(f), Labels.of(at, f[at]), 0.95)
    assert found.high - found.low > 0.03, "a hundred labels leave room for a wrong verdict or two"
    none = corrected_mean(JudgedSample.of(np.zeros(500)), Labels.of(np.arange(100), np.zeros(100)), 0.95)
    assert (none.value, none.low) == (0.0, 0.0)
    assert 0.02 < none.high < 0.05


def test_repeats_of_a_task_are_not_new_labels() -> None:
    rng = np.random.default_rng(4)
    f, y, _ = drawn(rng, 200)
    many, at = np.repeat(np.arange(200), 5), np.arange(500)
    whole = corrected_mean(JudgedSample.of(f[many], many), Labels.of(at, y[many][at]), 0.95)
    single = corrected_mean(JudgedSample.of(f), Labels.of(np.arange(100), y[:100]), 0.95)
    assert whole.clusters == 100
    assert whole.high - whole.low == pytest.approx(single.high - single.low, rel=0.1)


@QUICK
@given(st.integers(0, 10**6), st.integers(1, 40), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_it_is_always_an_interval(seed: int, labels: int, rate: float, right: float) -> None:
    rng = np.random.default_rng(seed)
    y = (rng.random(60) < rate).astype(float)
    f = np.where(rng.random(60) < right, y, 1 - y)
    at = rng.choice(60, labels, replace=False)
    found = corrected_mean(JudgedSample.of(f, rng.integers(0, 9, 60)), Labels.of(at, y[at]), 0.95)
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert 0 <= found.trust <= 1
    assert found.high > found.low


def test_the_price_of_raw_verdicts() -> None:
    # statistics for symmetric errors at a rate of one half: 1 / J²
    assert corrected.raw_multiplier(0.8, 0.5, 0.5) == pytest.approx(1 / 0.64)
    assert corrected.raw_multiplier(0.6, 0.9, 0.74) == pytest.approx(0.74 * 0.26 / 0.09 / 0.36)
    assert corrected.raw_multiplier(0.0, 0.5, 0.5) is None
    assert corrected.label_worth(0.76, 100, 1100) == pytest.approx(1 / (1 - 0.76**2 * 1000 / 1100))


def test_sizes_of_samples() -> None:
    assert draws.proportional([900, 100], 50).tolist() == [45, 5]
    assert draws.neyman([500, 500], [0.1, 0.4], 100).tolist() == [20, 80]
    assert draws.neyman([500, 20], [0.01, 0.5], 100, [10, 5]).tolist() == [80, 20], "a stratum is not drawn twice"
    assert draws.proportional([10, 10, 10], 2).tolist() == [1, 1, 1], "none is left without a chance"
    assert draws.proportional([3, 2], 50).tolist() == [3, 2]


def test_the_alarm_by_hand() -> None:
    calm = judge_accuracy.watch_fall(95, 100, np.ones(200), 0.05)
    assert calm.alarm is None
    assert np.all(np.diff(calm.log_e) < 0)
    bad = judge_accuracy.watch_fall(95, 100, np.tile([1.0, 0.0], 30), 0.05)
    assert bad.alarm is not None
    assert bad.alarm < 30
    assert judge_accuracy.watch_fall(9, 10, [], 0.05).alarm is None
