"""Resampling: means with one cluster left out, and p-values of permutations."""

from __future__ import annotations

import numpy as np
import pytest

from ethogram.statistics import exact, resample


def test_a_mean_with_one_cluster_left_out_by_hand() -> None:
    x = np.array([[1.0, 10.0], [2.0, 20.0], [6.0, 0.0]])
    assert resample.jackknife_means(x).tolist() == [[4.0, 10.0], [3.5, 5.0], [1.5, 15.0]]


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
