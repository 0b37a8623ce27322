"""Group-sequential bounds: published constants, scipy's multivariate normal, simulated motion, properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as reference

from ethogram.questions.gate import sequential as q
from ethogram.questions.gate.brownian import FAR

QUICK = settings(deadline=None, max_examples=25, derandomize=True)


def even(looks: int) -> np.ndarray:
    return np.arange(1, looks + 1) / looks


@pytest.mark.parametrize(
    ("looks", "pocock", "obrien_fleming"),
    # Jennison and Turnbull (2000), tables 2.1 and 2.3, two-sided 5 %
    [(2, 2.178, 1.977), (3, 2.289, 2.004), (5, 2.413, 2.040), (10, 2.555, 2.087), (20, 2.672, 2.126)],
)
def test_published_constants(looks: int, pocock: float, obrien_fleming: float) -> None:
    assert q.wang_tsiatis(even(looks), 0.025, 0.5)[-1] == pytest.approx(pocock, abs=6e-4)
    assert q.wang_tsiatis(even(looks), 0.025, 0.0)[-1] == pytest.approx(obrien_fleming, abs=6e-4)


def test_spending_bounds_as_published() -> None:
    # Lan and DeMets' O'Brien-Fleming spending, five even looks, one-sided 2.5 %
    bounds = q.bounds_from_spending(even(5), 2 * reference.norm.sf(reference.norm.isf(0.0125) / np.sqrt(even(5))))
    np.testing.assert_allclose(bounds, [4.8769, 3.3569, 2.6803, 2.2898, 2.0310], atol=5e-4)
    bounds = q.bounds_from_spending(even(5), 0.025 * np.log1p((np.e - 1) * even(5)))
    np.testing.assert_allclose(bounds, [2.4380, 2.4268, 2.4101, 2.3966, 2.3859], atol=5e-4)


def test_between_the_two_as_the_default_gate_uses_it() -> None:
    constants = [q.wang_tsiatis(even(looks), 0.05, 0.25)[-1] for looks in (1, 2, 3, 5, 10, 20)]
    np.testing.assert_allclose(constants, [1.645, 1.747, 1.799, 1.857, 1.923, 1.975], atol=1e-3)


def test_crossing_against_the_multivariate_normal() -> None:
    info, upper, lower, effect = np.array([1.0, 2.5, 4.0]), np.array([2.2, 2.0, 1.8]), np.array([-1.0, -0.3, 1.8]), 0.7
    root = np.sqrt(info)
    cov = np.minimum.outer(info, info) / np.outer(root, root)
    found = q.crossing(info, upper, lower, effect)

    def stays(looks: int, top: np.ndarray, bottom: np.ndarray) -> float:
        law = reference.multivariate_normal(effect * root[:looks], cov[:looks, :looks])
        return float(law.cdf(top, lower_limit=bottom, rng=np.random.default_rng(1)))

    for k in range(1, 4):
        top, bottom = upper[:k].copy(), lower[:k].copy()
        top[-1], bottom[-1] = 20.0, upper[k - 1]
        assert found.upper[k - 1] == pytest.approx(stays(k, top, bottom), abs=2e-5)
        top[-1], bottom[-1] = lower[k - 1], -20.0
        assert found.lower[k - 1] == pytest.approx(stays(k, top, bottom), abs=2e-5)


def test_crossing_against_simulated_motion() -> None:
    rng = np.random.default_rng(4)
    info = np.array([0.1, 0.4, 0.5, 0.9, 1.0])
    upper = q.wang_tsiatis(info, 0.05, 0.25)
    steps = rng.standard_normal((200_000, 5)) * np.sqrt(np.diff(info, prepend=0))
    z = np.cumsum(steps, axis=1) / np.sqrt(info)
    assert np.mean(np.any(z >= upper, axis=1)) == pytest.approx(0.05, abs=0.0025)


def test_looks_at_other_information_keep_the_error() -> None:
    plan = even(6)
    upper = q.wang_tsiatis(plan, 0.05, 0.25)
    as_planned = q.rebound(plan, upper, plan, last=True)
    np.testing.assert_allclose(as_planned, upper, atol=1e-4)
    met = np.array([0.3, 0.35, 0.8, 2.0])
    bounds = q.rebound(plan, upper, met, last=True)
    assert q.crossing(met, bounds, None, 0.0).upper.sum() == pytest.approx(0.05, abs=1e-6)
    # what was decided at earlier looks does not change when later ones arrive
    np.testing.assert_allclose(q.rebound(plan, upper, met[:2], last=False), bounds[:2], atol=1e-6)
    open_ended = q.rebound(plan, upper, met, last=False)
    assert open_ended[-1] > bounds[-1]
    with pytest.raises(ValueError, match="were planned"):
        q.rebound(plan, upper, np.arange(1, 9), last=False)


def test_information_must_grow() -> None:
    with pytest.raises(ValueError, match="grow"):
        q.crossing([1.0, 1.0], [2.0, 2.0], None, 0.0)


@given(st.lists(st.floats(0.05, 1.0), min_size=1, max_size=6), st.sampled_from([0.01, 0.05]), st.floats(0.0, 0.5))
@QUICK
def test_any_spacing_spends_alpha(steps: list[float], alpha: float, delta: float) -> None:
    info = np.cumsum(steps)
    bounds = q.wang_tsiatis(info / info[-1], alpha, delta)
    assert q.crossing(info, bounds, None, 0.0).upper.sum() == pytest.approx(alpha, abs=1e-5)
    assert np.all(np.diff(bounds) <= 1e-9)
    assert q.crossing(info, bounds, None, 1.0).upper.sum() > alpha
    spending = q.bounds_from_spending(info, alpha * (info / info[-1]) ** 1.5)
    assert q.crossing(info, spending, None, 0.0).upper.sum() == pytest.approx(alpha, abs=1e-5)
    assert np.all(spending < FAR)
