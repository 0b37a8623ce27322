"""Sign flips and clustered slopes against counts by hand and textbook formulas."""

from __future__ import annotations

import numpy as np
import pytest

from ethogram.questions.judging import bias


def test_patterns_are_counted_by_hand() -> None:
    rng = np.random.default_rng(0)
    assert bias.sign_flip([1.0, 1.0, 1.0], 99, rng) == 2 / 8
    assert bias.sign_flip([3.0, 1.0, 1.0], 99, rng) == 2 / 8  # only all of one sign reach 5
    assert bias.sign_flip([2.0, -1.0, 1.0], 99, rng) == 6 / 8  # |±2±1±1| ≥ 2
    assert bias.sign_flip([0.0, 0.0], 99, rng) == 1.0


def test_many_values_agree_with_the_normal_law() -> None:
    values = np.random.default_rng(1).normal(0.2, 1.0, 200)
    z = abs(values.sum()) / np.sqrt(np.sum(values**2))
    from scipy import special

    assert bias.sign_flip(values, 20_000, np.random.default_rng(2)) == pytest.approx(2 * special.ndtr(-z), abs=0.01)


def test_a_slope_with_each_row_its_own_cluster_is_the_sandwich() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=50), rng.normal(size=50)
    slope, variance, clusters = bias.clustered_slope(x, y, np.arange(50))
    assert slope == pytest.approx(np.linalg.lstsq(x[:, None], y, rcond=None)[0][0], abs=1e-12)
    residual = y - slope * x
    assert variance == pytest.approx(50 / 49 * np.sum(x**2 * residual**2) / np.sum(x**2) ** 2, abs=1e-12)
    assert clusters == 50
    assert np.isnan(bias.clustered_slope(np.zeros(4), np.ones(4), [0, 1, 2, 3])[0])
