"""Exact tests: against scipy and against enumeration of every table with the same margins."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as reference

from ethogram.statistics import exact

QUICK = settings(deadline=None, max_examples=60, derandomize=True)
cells = st.tuples(st.integers(1, 5), st.integers(1, 5)).flatmap(
    lambda n: st.tuples(st.integers(0, n[0]), st.just(n[0]), st.integers(0, n[1]), st.just(n[1]))
)


def enumerated(tables: list[tuple[int, int, int, int]]) -> tuple[float, float, float]:
    """Tails and the point probability of the second arm's passes, over all tables with these margins."""
    laws = []
    for a, na, b, nb in tables:
        law = reference.hypergeom(na + nb, a + b, nb)
        laws.append([(k, law.pmf(k)) for k in range(nb + 1) if law.pmf(k) > 0])
    seen = sum(b for _, _, b, _ in tables)
    totals = [(sum(k for k, _ in way), float(np.prod([p for _, p in way]))) for way in product(*laws)]
    less = sum(p for k, p in totals if k <= seen)
    greater = sum(p for k, p in totals if k >= seen)
    return less, greater, less + greater - 1


@given(st.lists(cells, min_size=1, max_size=4))
@QUICK
def test_stratified_against_enumeration(tables: list[tuple[int, int, int, int]]) -> None:
    less, greater, at = enumerated(tables)
    found = exact.stratified_test(*np.array(tables).T)
    assert found.less == pytest.approx(less, abs=1e-9)
    assert found.greater == pytest.approx(greater, abs=1e-9)
    assert found.less + found.greater == pytest.approx(1 + at, abs=1e-9)
    assert max(0.0, min(less, greater) - 1e-9) <= found.two_sided <= 1


def test_stratified_with_single_attempts_is_mcnemar() -> None:
    a, b = [1] * 9 + [0] * 2 + [1] * 30, [0] * 9 + [1] * 2 + [1] * 30
    found = exact.stratified_test(a, 1, b, 1)
    assert found.two_sided == pytest.approx(reference.binomtest(2, 11).pvalue)
    assert found.less == pytest.approx(reference.binomtest(2, 11, alternative="less").pvalue)
    assert found.greater == pytest.approx(reference.binomtest(2, 11, alternative="greater").pvalue)


def test_tiny_tails_have_their_order_of_magnitude() -> None:
    """Forty pairs, each once and all lost: 2 ** -40 on a side; with fifty more tasks that cannot tell, the same."""
    found = exact.stratified_test([1] * 40 + [1] * 50, 1, [0] * 40 + [1] * 50, 1)
    assert found.less == pytest.approx(2.0**-40, rel=1e-9)
    assert found.two_sided == pytest.approx(2.0**-39, rel=1e-9)
    # one task, all passed and then none: the table itself, as scipy has it
    table = exact.stratified_test([200], [200], [0], [200]).less
    assert table == pytest.approx(float(reference.hypergeom(400, 200, 200).pmf(0)), rel=1e-6)
    assert 0 < table < 1e-100
    several = exact.stratified_test([20] * 10, 20, [0, 1] * 5, 20)
    assert several.less == pytest.approx(enumerated_by_convolution(), rel=1e-6)


def enumerated_by_convolution() -> float:
    """The lower tail of five tables without a pass and five with one, by polynomials of whole numbers."""
    ways = [1]
    for passes in (20, 21) * 5:
        table = [comb(20, k) * comb(20, passes - k) if passes - k <= 20 else 0 for k in range(21)]
        ways = [
            sum(ways[i] * table[t - i] for i in range(len(ways)) if 0 <= t - i < len(table))
            for t in range(len(ways) + len(table) - 1)
        ]
    return float(Fraction(sum(ways[:6]), sum(ways)))


def test_nothing_to_tell_apart() -> None:
    assert exact.stratified_test([4, 0], [4, 4], [4, 0], [4, 4]).two_sided == 1.0
    assert exact.stratified_test([], [], [], []).less == 1.0


def test_each_task_against_fisher() -> None:
    rng = np.random.default_rng(2)
    na, nb = rng.integers(1, 12, 40), rng.integers(1, 12, 40)
    a, b = rng.binomial(na, 0.7), rng.binomial(nb, 0.4)
    found = exact.task_tests(a, na, b, nb)
    for i in range(40):
        table = [[b[i], nb[i] - b[i]], [a[i], na[i] - a[i]]]
        for ours, side in ((found.less, "less"), (found.greater, "greater"), (found.two_sided, "two-sided")):
            assert ours[i] == pytest.approx(reference.fisher_exact(table, side).pvalue, abs=1e-9)


def test_odds_of_flips() -> None:
    value, low, high = exact.flip_odds(9, 3, 0.95)
    share = reference.binomtest(9, 12).proportion_ci(0.95)
    assert value == 3
    assert low == pytest.approx(share.low / (1 - share.low))
    assert high == pytest.approx(share.high / (1 - share.high))
    assert exact.flip_odds(3, 0, 0.95).high == np.inf
    assert exact.flip_odds(0, 3, 0.95).low == 0


def test_common_odds_of_one_table_are_its_own_with_woolfs_variance() -> None:
    found = exact.common_odds([20], [50], [35], [50], 0.95)
    assert found.value == pytest.approx(35 * 30 / (20 * 15))
    half = 1.959964 * np.sqrt(1 / 20 + 1 / 30 + 1 / 35 + 1 / 15)
    assert np.log(found.high / found.value) == pytest.approx(half, rel=1e-6)
    assert np.log(found.value / found.low) == pytest.approx(half, rel=1e-6)
    # pairs: the ratio of the flips
    pairs = exact.common_odds([1] * 6 + [0] * 3, 1, [0] * 6 + [1] * 3, 1, 0.95)
    assert pairs.value == pytest.approx(0.5)
    assert exact.common_odds([0], [5], [5], [5], 0.95)[1:] == (0.0, np.inf)


def test_the_law_of_a_total_by_hand() -> None:
    """Two tasks of two attempts a side: one with one pass, one with all four; a third that one side never tried."""
    least, law = exact.total_law([2, 2, 0], [2, 2, 3], [1, 4, 2])
    assert least == 2  # the second arm's two passes of the second task are certain
    np.testing.assert_allclose(law, [0.5, 0.5])


@given(st.lists(cells, min_size=1, max_size=4))
@QUICK
def test_the_law_of_a_total_has_the_tails_of_the_test(tables: list[tuple[int, int, int, int]]) -> None:
    a, na, b, nb = np.array(tables).T
    least, law = exact.total_law(na, nb, a + b)
    assert law.sum() == pytest.approx(1)
    assert law[int(b.sum()) - least :].sum() == pytest.approx(float(exact.stratified_test(a, na, b, nb).greater))


def test_the_common_ratio_by_hand() -> None:
    found = exact.common_ratio([1, 1], [4, 2], [2, 3], [4, 4])
    assert found == pytest.approx((2 * 4 / 8 + 3 * 2 / 6) / (1 * 4 / 8 + 1 * 4 / 6))
    assert exact.common_ratio([0], [4], [2], [4]) == np.inf
    assert np.isnan(exact.common_ratio([0], [4], [0], [4]))
