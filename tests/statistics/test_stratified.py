"""The stratified difference: against every way to deal the attempts, McNemar by hand, properties."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as reference

from ethogram.statistics import stratified as s
from ethogram.statistics.stratified import Sums

QUICK = settings(deadline=None, max_examples=80, derandomize=True)


def dealt(strata: list[tuple[list[float], list[float]]], equal: bool) -> np.ndarray:
    """The weighted difference under every way to deal each task's values to the arms."""
    pulls = np.array([len(a) * len(b) / (len(a) + len(b)) for a, b in strata])
    weights = np.full(len(strata), 1 / len(strata)) if equal else pulls / pulls.sum()
    ways = []
    for a, b in strata:
        pooled = np.array(a + b)
        picks = [list(c) for c in combinations(range(len(pooled)), len(b))]
        ways.append([pooled[p].mean() - np.delete(pooled, p).mean() for p in picks])
    return np.array([np.dot(weights, way) for way in product(*ways)])


def sums(values: list[list[float]]) -> Sums:
    flat = [(x, task) for task, xs in enumerate(values) for x in xs]
    return s.sums_of_values([x for x, _ in flat], [t for _, t in flat], len(values))


STRATA = [
    [([1.0, 0.0, 1.0], [0.0]), ([1.0, 1.0], [0.0, 1.0]), ([1.0], [0.0])],
    [([1.0, 1.0, 1.0, 0.0], [0.0, 1.0]), ([0.0, 0.0, 1.0], [0.0, 0.0])],
    [([0.3, 0.9, 2.0], [5.0, 1.0]), ([7.0, 1.5], [0.1]), ([2.0, 2.5], [2.2, 9.0])],
]


@pytest.mark.parametrize("strata", STRATA)
@pytest.mark.parametrize("equal", [True, False])
def test_moments_against_every_deal(strata: list[tuple[list[float], list[float]]], equal: bool) -> None:
    ways = dealt(strata, equal)
    found = s.score(sums([a for a, _ in strata]), sums([b for _, b in strata]), equal=equal, step=0.0, reach=2.0)
    assert found.variance == pytest.approx(ways.var())
    assert found.skewness == pytest.approx(reference.skew(ways), abs=1e-9)
    assert ways.mean() == pytest.approx(0, abs=1e-12)
    assert found.information == pytest.approx(1 / ways.var())


def test_with_one_attempt_each_it_is_mcnemar() -> None:
    lost, gained, both, none = 9, 2, 20, 5
    a = np.array([1] * lost + [0] * gained + [1] * both + [0] * none)
    b = np.array([0] * lost + [1] * gained + [1] * both + [0] * none)
    found = s.difference(s.sums_of_counts(a, 1), s.sums_of_counts(b, 1), 0.95, equal=False, step=1.0)
    assert found.z == pytest.approx((gained - lost) / np.sqrt(gained + lost))
    assert found.value == pytest.approx(-7 / 36)
    assert found.two_sided == pytest.approx(2 * reference.norm.cdf(-7 / np.sqrt(11)))
    assert found.less + found.greater == pytest.approx(1)


def test_one_table_is_the_chi_square_of_mantel_and_haenszel() -> None:
    # one stratum: z² is (N - 1) / N times Pearson's chi-square
    table = np.array([[30, 10], [22, 18]])
    found = s.score(s.sums_of_counts([30], [40]), s.sums_of_counts([22], [40]), equal=False, step=1.0, reach=1.96)
    chi2 = reference.chi2_contingency(table, correction=False).statistic
    assert found.z**2 == pytest.approx(chi2 * 79 / 80)


def test_equal_arms_are_not_skewed_and_unequal_ones_are_straightened() -> None:
    even = s.score(s.sums_of_counts([3] * 9, 4), s.sums_of_counts([2] * 9, 4), equal=False, step=1.0, reach=1.0)
    assert even.skewness == pytest.approx(0, abs=1e-12)
    assert even.z == pytest.approx(even.difference / np.sqrt(even.variance))
    # 20 stored attempts of which few fail: a failure in the single fresh attempt is worth less than it seems
    odd = s.score(
        s.sums_of_counts([19] * 30, 20), s.sums_of_counts([1] * 25 + [0] * 5, 1), equal=False, step=1.0, reach=1.6
    )
    assert odd.skewness < 0
    assert odd.difference / np.sqrt(odd.variance) < odd.z < 0


def test_the_least_variance_never_changes_a_decision_of_mcnemar() -> None:
    for flips in range(9):
        a = np.array([1] * flips + [1] * (40 - flips))
        b = np.array([0] * flips + [1] * (40 - flips))
        found = s.difference(s.sums_of_counts(a, 1), s.sums_of_counts(b, 1), 0.95, equal=False, step=1.0)
        assert (found.two_sided < 0.05) == (flips > 3.84)
        assert found.high - found.low > 0.05


def test_tasks_of_one_arm_only_are_left_out() -> None:
    found = s.difference(
        s.sums_of_counts([3, 4, 0], [4, 4, 0]), s.sums_of_counts([1, 0, 2], [4, 0, 4]), 0.95, equal=True, step=1.0
    )
    assert found.tasks == 1
    assert found.value == pytest.approx(-0.5)
    nothing = s.difference(s.sums_of_counts([1], [1]), s.sums_of_counts([0], [0]), 0.95, equal=True, step=1.0)
    assert nothing.tasks == 0
    assert np.isnan(nothing.value)
    assert (nothing.low, nothing.high) == (-np.inf, np.inf)
    assert nothing.two_sided == 1.0


def test_extra_variance_widens() -> None:
    arms = s.sums_of_counts([30] * 20, 40), s.sums_of_counts([24] * 20, 40)
    plain = s.difference(*arms, 0.95, equal=False, step=1.0)
    noisy = s.difference(*arms, 0.95, equal=False, step=1.0, extra=0.01)
    assert abs(noisy.z) < abs(plain.z)
    assert noisy.low < plain.low < plain.high < noisy.high
    bare = s.score(*arms, equal=False, step=1.0, reach=1.96)
    assert s.score(*arms, equal=False, step=1.0, reach=1.96, extra=0.01).variance == pytest.approx(bare.variance + 0.01)


def test_between_tasks_it_is_the_paired_t_test() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.random((2, 12))
    index = np.arange(12)
    found = s.difference_between_tasks(s.sums_of_values(a, index, 12), s.sums_of_values(b, index, 12), 0.9)
    wanted = reference.ttest_rel(b, a)
    assert found.z == pytest.approx(wanted.statistic)
    assert found.two_sided == pytest.approx(wanted.pvalue)
    np.testing.assert_allclose((found.low, found.high), wanted.confidence_interval(0.9))
    single = s.difference_between_tasks(s.sums_of_counts([1], [2]), s.sums_of_counts([2], [2]), 0.9)
    assert (single.low, single.high, single.two_sided) == (-np.inf, np.inf, 1.0)


arms = st.integers(1, 5).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(st.lists(st.tuples(arms, arms), min_size=1, max_size=25), st.booleans(), st.sampled_from([0.8, 0.95]))
@QUICK
def test_properties(strata: list[tuple[tuple[int, int], tuple[int, int]]], equal: bool, level: float) -> None:
    (a, na), (b, nb) = (np.array([x[i] for x in strata]).T for i in (0, 1))
    first, second = s.sums_of_counts(a, na), s.sums_of_counts(b, nb)
    found = s.difference(first, second, level, equal=equal, step=1.0)
    assert found.low <= found.value <= found.high
    assert found.high - found.low > 1e-3
    # the interval leaves 0 out exactly when the test rejects
    assert (found.two_sided < 1 - level) == (found.low > 0 or found.high < 0)
    # swapping the arms, or passes for failures, mirrors everything
    swapped = s.difference(second, first, level, equal=equal, step=1.0)
    np.testing.assert_allclose((-swapped.high, -swapped.low), (found.low, found.high), atol=1e-9)
    failures = s.difference(s.sums_of_counts(na - a, na), s.sums_of_counts(nb - b, nb), level, equal=equal, step=1.0)
    np.testing.assert_allclose((-failures.high, -failures.low), (found.low, found.high), atol=1e-9)
    order = np.random.default_rng(1).permutation(len(a))
    again = s.difference(
        s.sums_of_counts(a[order], na[order]), s.sums_of_counts(b[order], nb[order]), level, equal=equal, step=1.0
    )
    np.testing.assert_allclose(again[:3], found[:3], atol=1e-9)


@given(st.lists(st.floats(0, 100), min_size=4, max_size=30), st.floats(0.1, 50), st.floats(-1e6, 1e6))
@QUICK
def test_units_do_not_matter(values: list[float], scale: float, shift: float) -> None:
    x = np.round(values, 3)
    if np.ptp(x) < 0.1:
        return
    task, second = np.arange(len(x)) // 4, np.arange(len(x)) % 2 == 1
    tasks = int(task.max()) + 1

    def found(y: np.ndarray) -> s.Difference:
        return s.difference(*s.arms_of_values(y, task, second, tasks), 0.95, equal=False, step=0.0)

    here, there = found(x), found(scale * x + shift)
    assert there.z == pytest.approx(here.z, rel=1e-5, abs=1e-5)
    np.testing.assert_allclose(there[:3], np.multiply(here[:3], scale), rtol=1e-5, atol=1e-5)
    plain = s.difference(
        s.sums_of_values(x[~second], task[~second], tasks),
        s.sums_of_values(x[second], task[second], tasks),
        0.95,
        equal=False,
        step=0.0,
    )
    np.testing.assert_allclose(plain[:3], here[:3], rtol=1e-5, atol=1e-5)
