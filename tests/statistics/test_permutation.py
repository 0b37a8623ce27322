"""Labels dealt within groups: margins stay, p-values are those of full enumeration, levels are exact."""

from __future__ import annotations

from itertools import combinations, permutations
from math import comb, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ethogram.statistics import permutation, spread


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.integers(0, 10_000))
def test_dealing_keeps_what_each_group_holds(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    group = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    values = rng.normal(size=group.size)
    for drawn in permutation.deal(values, group, 5, rng):
        for g in range(len(sizes)):
            assert sorted(drawn[group == g]) == sorted(values[group == g])


def test_every_arrangement_is_dealt_alike() -> None:
    rng = np.random.default_rng(1)
    drawn = permutation.deal([1, 1, 0, 0], [0, 0, 0, 0], 12_000, rng)
    seen, counts = np.unique(drawn, axis=0, return_counts=True)
    assert len(seen) == 6
    assert counts == pytest.approx(2000, abs=200)


def test_arrangements_are_counted() -> None:
    group, own = np.array([0, 0, 0, 1, 1, 1, 1]), np.array([1, 0, 0, 1, 1, 0, 0], dtype=bool)
    assert permutation.log_arrangements(group, own, 2) == pytest.approx(log(comb(3, 1) * comb(4, 2)))


def test_association_is_the_enumeration() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(7, 2)), rng.normal(size=7)
    group = np.array([0, 0, 0, 0, 1, 1, 1])
    found = permutation.association(x, y, group, 2, 20_000, np.random.default_rng(3))
    xs = x - np.array([x[group == g].mean(axis=0) for g in (0, 1)])[group]

    def statistic(values: np.ndarray) -> np.ndarray:
        return np.abs(values @ xs)

    every = np.array(
        [
            statistic(np.concatenate([y[list(a)], y[list(b)]]))
            for a in permutations(range(4))
            for b in permutations(range(4, 7))
        ]
    )
    exact = np.mean(every >= statistic(y) - 1e-12, axis=0)
    assert found.p == pytest.approx(exact, abs=0.012)
    sd = np.sqrt(np.mean(every**2, axis=0))
    assert np.abs(found.z) == pytest.approx(statistic(y) / sd)
    assert np.all(found.adjusted >= found.p)


def test_a_column_without_spread_has_p_one() -> None:
    x = np.column_stack([np.ones(8), np.arange(8.0)])
    found = permutation.association(x, np.arange(8.0), np.zeros(8, dtype=int), 1, 99, np.random.default_rng(0))
    assert (found.z[0], found.p[0]) == (0.0, 1.0)
    assert found.adjusted[1] == pytest.approx(0.01)


def test_the_normal_limit_agrees_with_permutation() -> None:
    rng = np.random.default_rng(4)
    group = rng.integers(0, 20, 2000)
    x, y = rng.normal(size=(2000, 5)) + group[:, None], (rng.random(2000) < 0.4).astype(float)
    x[:, 2] += 0.12 * y
    dealt = permutation.association(x, y, group, 20, 4000, np.random.default_rng(5))
    score, covariance = spread.scores(x, y, group, spread.cells(x, group, 20).mean)
    limit = permutation.max_t_normal(score, covariance, 4000, np.random.default_rng(6))
    assert dealt.z == pytest.approx(limit.z)
    assert dealt.p == pytest.approx(limit.p, abs=0.03)
    assert dealt.adjusted == pytest.approx(limit.adjusted, abs=0.04)


def test_centre_tests_are_the_enumeration() -> None:
    rng = np.random.default_rng(7)
    x = rng.normal(size=(8, 3))
    second = np.array([0, 0, 0, 0, 1, 1, 1, 1], dtype=bool)
    x[second] += [1.0, 0.5, 0.0]
    found = permutation.centre_tests(x, second, np.zeros(8, dtype=int), 1, 20_000, rng)
    norms = []
    for picks in combinations(range(8), 4):
        own = np.isin(np.arange(8), picks)
        norms.append(np.sum((x[own].mean(axis=0) - x[~own].mean(axis=0)) ** 2))
    seen = np.sum((x[second].mean(axis=0) - x[~second].mean(axis=0)) ** 2)
    assert found.pooled == pytest.approx(np.mean(np.array(norms) >= seen - 1e-9), abs=0.012)
    assert found.per_group == found.pooled


def test_two_norms_see_two_kinds_of_change() -> None:
    rng = np.random.default_rng(8)
    group = np.tile(np.repeat(np.arange(20), 4), 2)
    second = np.arange(160) >= 80
    noise = rng.normal(size=(160, 5))
    alike = permutation.centre_tests(noise + 0.6 * second[:, None], second, group, 20, 499, rng)
    own_way = rng.normal(size=(20, 5)) * 1.2
    each = permutation.centre_tests(noise + second[:, None] * own_way[group], second, group, 20, 499, rng)
    assert alike.pooled <= 0.01
    assert each.per_group <= 0.01
    assert each.per_group < each.pooled
    alone = permutation.centre_tests(noise[:5], second[:5], group[:5], 20, 99, rng)
    assert (alone.pooled, alone.per_group) == (1.0, 1.0)


def test_distance_test_by_hand() -> None:
    rng = np.random.default_rng(9)
    x = rng.normal(size=(9, 2))
    new = np.arange(9) >= 6
    x[new] += 1.0
    far, p = permutation.distance_test(x, new, np.zeros(9, dtype=int), 1, 20_000, rng)
    values = []
    for picks in combinations(range(9), 3):
        own = np.isin(np.arange(9), picks)
        values.append(np.mean(np.sum((x[own] - x[~own].mean(axis=0)) ** 2, axis=1)))
    seen = np.mean(np.sum((x[new] - x[~new].mean(axis=0)) ** 2, axis=1))
    assert far == pytest.approx(seen)
    assert p == pytest.approx(np.mean(np.array(values) >= seen - 1e-9), abs=0.012)


def test_conformal_p_counts_and_is_exact() -> None:
    reference = np.array([[-1.0], [0.0], [1.0], [0.5]])
    p, distance = permutation.conformal_p(reference, [[9.0], [0.1]])
    assert p == pytest.approx([1 / 5, 1.0])
    assert distance[0] > 1 > distance[1]
    still = permutation.conformal_p(np.ones((4, 2)), np.ones((1, 2)))
    assert (still[0][0], still[1][0]) == (1.0, 0.0)
    rng = np.random.default_rng(10)
    found = []
    for _ in range(2000):
        cloud = rng.lognormal(sigma=1.5, size=(20, 3))
        found.append(permutation.conformal_p(cloud[1:], cloud[:1])[0][0])
        if len(found) <= 20:  # the plain way
            score = np.sum(((cloud - cloud.mean(axis=0)) / cloud.std(axis=0)) ** 2, axis=1)
            assert found[-1] == pytest.approx(np.mean(score >= score[0] - 1e-9))
    values = np.array(found)
    for alpha in (0.05, 0.1, 0.25):
        assert np.mean(values <= alpha + 1e-9) == pytest.approx(alpha, abs=0.022)


def test_the_normal_limit_of_the_centre_tests() -> None:
    rng = np.random.default_rng(11)
    group, second = rng.integers(0, 5, 1000), rng.random(1000) < 0.4
    x = rng.normal(size=(1000, 4)) + group[:, None]
    x[second] += [0.12, 0.0, 0.0, 0.0]
    dealt = permutation.centre_tests(x, second, group, 5, 4000, np.random.default_rng(1))
    limit = permutation.centre_tests_normal(x, second, group, 5, 4000, np.random.default_rng(2))
    assert dealt.pooled == pytest.approx(limit.pooled, abs=0.03)
    assert dealt.per_group == pytest.approx(limit.per_group, abs=0.03)
    assert dealt.features.z == pytest.approx(limit.features.z)
    assert dealt.features.adjusted == pytest.approx(limit.features.adjusted, abs=0.03)
