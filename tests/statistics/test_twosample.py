"""Dealing labels within tasks: uniform, exact where it can be counted out, and never surer than the deals allow."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from ethogram.statistics import twosample as t
from ethogram.statistics._numeric import Floats


def square(values: list[float]) -> Floats:
    x = np.array(values)
    return np.abs(x[:, None] - x[None, :])


def sample(values: list[float], first: int) -> t.TaskSample:
    x = np.array(values)
    return t.TaskSample(square(values), x[:, None], np.arange(x.size) >= first)


def test_every_deal_is_equally_likely() -> None:
    labels = t.permuted_sides(2, 3, 20_000, np.random.default_rng(0))
    assert labels.shape == (20_000, 5)
    assert np.all(labels.sum(axis=1) == 3)
    kinds, counts = np.unique(labels, axis=0, return_counts=True)
    assert len(kinds) == 10
    chi = np.sum((counts - 2000) ** 2 / 2000)
    assert chi < 27.9  # 0.1 % of chi-square with 9 degrees of freedom


def test_energy_is_its_definition() -> None:
    d = square([0.0, 1.0, 5.0, 7.0, 7.5])
    labels = np.array([[0, 0, 1, 1, 1], [1, 0, 1, 0, 1]], dtype=np.float64)
    for row, found in zip(labels, t.energy(d, labels), strict=True):
        one, two = np.flatnonzero(row == 0), np.flatnonzero(row == 1)
        n, m = one.size, two.size
        want = 2 * d[np.ix_(one, two)].mean() - d[np.ix_(one, one)].mean() - d[np.ix_(two, two)].mean()
        assert found == pytest.approx(n * m / (n + m) * want)


def test_p_is_that_of_all_deals_counted_out() -> None:
    values = [0.0, 1.0, 2.0, 3.5, 4.0, 7.0]
    found = t.compare_samples([sample(values, 3)], 40_000, np.random.default_rng(1))
    x = np.array(values)
    shifts = [abs(x[list(c)].sum() - 3 * x.mean()) for c in combinations(range(6), 3)]
    exact = np.mean(np.array(shifts) >= abs(x[3:].sum() - 3 * x.mean()) - 1e-12)
    assert found.same_way_p == pytest.approx(exact, abs=0.01)
    assert found.own_way_p == pytest.approx(exact, abs=0.01)
    assert found.task_features_p[0] == pytest.approx(exact, abs=0.01)
    assert found.same_way[0] > 0


def test_nothing_that_varies_is_no_evidence() -> None:
    flat = t.TaskSample(np.zeros((4, 4)), np.ones((4, 2)), np.array([False, False, True, True]))
    found = t.compare_samples([flat, flat], 200, np.random.default_rng(2))
    assert found.energy_p == found.same_way_p == found.own_way_p == 1.0
    assert np.all(found.feature_p == 1.0)


def test_opposite_shifts_cancel_in_one_question_and_not_in_the_other() -> None:
    up, down = sample([0, 1, 2, 10, 11, 12], 3), sample([10, 11, 12, 0, 1, 2], 3)
    found = t.compare_samples([up, down, up, down], 2000, np.random.default_rng(3))
    assert found.same_way_p == 1.0
    assert found.own_way_p < 0.01
    alike = t.compare_samples([up, up, up, up], 2000, np.random.default_rng(3))
    assert alike.same_way_p < 0.01


def test_p_is_never_zero_and_the_seed_decides() -> None:
    far = sample([0, 0.1, 0.2, 50, 51, 52], 3)
    found = t.compare_samples([far] * 6, 99, np.random.default_rng(4))
    assert found.energy_p == found.same_way_p == pytest.approx(0.01)
    again = t.compare_samples([far] * 6, 99, np.random.default_rng(4))
    assert np.array_equal(found.task_energy_p, again.task_energy_p)
