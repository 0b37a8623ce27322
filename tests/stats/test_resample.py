"""Resampling: against scipy.stats.bootstrap, and what a permutation may and may not change."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats as reference

from ethogram.stats import exact, methods, resample


def only(means: np.ndarray) -> np.ndarray:
    return means[:, 0]


def quotient(means: np.ndarray) -> np.ndarray:
    return means[:, 0] / means[:, 1]


def test_bootstrap_means_have_the_right_moments_in_any_chunk() -> None:
    rng = np.random.default_rng(1)
    x = np.stack([np.arange(40.0), np.arange(40.0) ** 2], axis=1)
    drawn = resample.bootstrap_means(x, 20_000, rng)
    assert drawn.shape == (20_000, 2)
    np.testing.assert_allclose(drawn.mean(axis=0), x.mean(axis=0), rtol=0.01)
    np.testing.assert_allclose(drawn.var(axis=0), x.var(axis=0) / 40, rtol=0.05)
    assert np.corrcoef(drawn.T)[0, 1] == pytest.approx(np.corrcoef(x.T)[0, 1], abs=0.01)


@pytest.mark.parametrize(("ours", "theirs"), [(resample.percentile, "percentile"), (resample.bca, "BCa")])
def test_intervals_against_scipy(ours: object, theirs: str) -> None:
    x = np.random.default_rng(4).lognormal(size=(60, 2)) + 0.2
    low, high = ours(x, quotient, 0.9, 20_000, np.random.default_rng(5))  # type: ignore[operator]
    wanted = reference.bootstrap(
        (x[:, 0], x[:, 1]),
        lambda a, b, axis: a.mean(axis=axis) / b.mean(axis=axis),
        paired=True,
        vectorized=True,
        method=theirs,
        confidence_level=0.9,
        n_resamples=20_000,
        rng=np.random.default_rng(6),
    ).confidence_interval
    np.testing.assert_allclose((low, high), (wanted.low, wanted.high), rtol=0.02)


def test_studentised_is_near_the_t_interval_for_normal_data() -> None:
    x = np.random.default_rng(3).standard_normal(80)
    low, high = resample.studentised(x, 0.95, 20_000, np.random.default_rng(1))
    wanted = reference.t.interval(0.95, 79, x.mean(), reference.sem(x))
    np.testing.assert_allclose((low, high), wanted, atol=0.02)


def test_all_alike_collapses() -> None:
    ones = np.ones((10, 1))
    for method in (resample.percentile, resample.bca):
        assert method(ones, only, 0.95, 200, np.random.default_rng(0)) == (1.0, 1.0)
    assert resample.studentised(ones[:, 0], 0.95, 200, np.random.default_rng(0)) == (1.0, 1.0)


def test_the_generator_decides_everything() -> None:
    x = np.random.default_rng(2).random((15, 1))
    one, same, other = (resample.percentile(x, only, 0.9, 500, np.random.default_rng(s)) for s in (1, 1, 2))
    assert one == same
    assert one != other


def test_permutation_p_counts_itself() -> None:
    drawn = np.arange(99.0)
    assert resample.permutation_p(98.0, drawn, "greater") == pytest.approx(0.02)
    assert resample.permutation_p(1000.0, drawn, "greater") == pytest.approx(0.01)
    assert resample.permutation_p(0.0, drawn, "less") == pytest.approx(0.02)
    assert resample.permutation_p(0.0, drawn, "two-sided") == pytest.approx(0.04)
    assert resample.permutation_p(49.0, drawn, "two-sided") == 1.0


def test_a_drawn_test_agrees_with_the_exact_one() -> None:
    a, na, b, nb = [3, 4, 2, 1, 4], [4] * 5, [1, 3, 2, 0, 2], [4] * 5
    passes = np.add(a, b)
    drawn = np.random.default_rng(1).hypergeometric(passes, 8 - passes, 4, size=(20_000, 5)).sum(axis=1)
    found = resample.permutation_p(float(sum(b)), drawn, "less")
    assert found == pytest.approx(float(exact.stratified_test(a, na, b, nb).less), abs=0.01)


def test_every_method_by_name_gives_an_interval_around_the_mean() -> None:
    rng = np.random.default_rng(3)
    values = rng.binomial(4, rng.beta(2, 1, 40)) / 4
    for name, method in methods.MEANS.items():
        low, high = method(values, np.full(40, 4.0), 0.95, np.random.default_rng(1))
        assert 0 <= low < values.mean() < high <= 1, name
        assert method.__doc__, name
