"""Agreement: by hand, against independent programs, as properties, and where a rater never says yes."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ethogram.questions.calibration import agreement
from ethogram.statistics import interval

QUICK = settings(deadline=None, max_examples=60, derandomize=True)
pairs = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40)


def alone(n: int) -> np.ndarray:
    return np.arange(n)


def kappa_by_pairs(a: np.ndarray, b: np.ndarray) -> float:
    """Cohen's kappa from all pairs of units, written down anew: chance is agreement with somebody else's answer."""
    seen = np.mean(a == b)
    chance = np.mean(a[:, None] == b[None, :])
    return float((seen - chance) / (1 - chance))


def alpha_by_pairs(ratings: np.ndarray) -> float:
    """Krippendorff's alpha from all pairs of values, written down anew."""
    inside, n = 0.0, 0
    every = []
    for row in ratings:
        values = row[~np.isnan(row)]
        if values.size >= 2:
            inside += sum(x != y for x, y in permutations(values, 2)) / (values.size - 1)
            n += values.size
            every.extend(values)
    apart = sum(x != y for x, y in permutations(every, 2)) / (n * (n - 1))
    return 1 - inside / n / apart


def test_a_table_by_hand() -> None:
    # Cohen's kappa of 20, 5, 10, 15: observed .7, chance .5
    f = np.repeat([1, 1, 0, 0], [20, 5, 10, 15])
    y = np.repeat([1, 0, 1, 0], [20, 5, 10, 15])
    assert agreement.confusion(f, y) == (20, 5, 10, 15)
    assert agreement.cohen(f, y, 1.0, alone(50), 0.95).value == pytest.approx(0.4, abs=1e-12)
    sensitivity = agreement.share(f * y, y, alone(50), 0.95)
    specificity = agreement.share((1 - f) * (1 - y), 1 - y, alone(50), 0.95)
    assert (sensitivity.value, specificity.value) == (pytest.approx(2 / 3), pytest.approx(3 / 4))
    np.testing.assert_allclose(sensitivity[1:3], interval.wilson_edge(20, 30, 0.95), rtol=1e-9)
    j = agreement.youden(sensitivity, specificity)
    assert j.value == pytest.approx(2 / 3 + 3 / 4 - 1)
    assert j.low is not None
    assert j.high is not None
    assert j.low < j.value < j.high
    assert agreement.phi(agreement.confusion(f, y)) == pytest.approx(np.corrcoef(f, y)[0, 1])


@QUICK
@given(pairs)
def test_kappa_is_that_of_all_pairs(said: list[tuple[bool, bool]]) -> None:
    f, y = np.array(said, dtype=float).T
    found = agreement.cohen(f, y, 1.0, alone(f.size), 0.95)
    if np.unique(np.concatenate([f, y])).size < 2:
        assert found.value is None
        assert found.why
        return
    assert found.value == pytest.approx(kappa_by_pairs(f, y), abs=1e-9)
    if found.low is not None and found.high is not None:
        assert -1 <= found.low <= found.value + 1e-9
        assert found.value - 1e-9 <= found.high <= 1


@QUICK
@given(st.lists(st.lists(st.sampled_from([0.0, 1.0, 2.0, np.nan]), min_size=3, max_size=3), min_size=2, max_size=20))
def test_alpha_is_that_of_all_pairs(rows: list[list[float]]) -> None:
    ratings = np.array(rows)
    found = agreement.krippendorff(ratings, alone(len(rows)), 0.95)
    used = ratings[np.sum(~np.isnan(ratings), axis=1) >= 2]
    if np.unique(used[~np.isnan(used)]).size < 2:
        assert found.value is None
        assert found.why
    else:
        assert found.value == pytest.approx(alpha_by_pairs(ratings), abs=1e-9)


def test_fleiss_of_a_published_table() -> None:
    # Fleiss (1971) as worked out on many pages: ten units, fourteen raters, five categories, 0.210
    counts = np.array(
        [[0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1], [7, 7, 0, 0, 0],
         [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7]]
    )  # fmt: skip
    found = agreement.fleiss(counts, alone(10), 0.95)
    each = counts / 14
    seen = np.mean((np.sum(counts**2, axis=1) - 14) / (14 * 13))
    chance = np.sum(each.mean(axis=0) ** 2)
    assert found.value == pytest.approx((seen - chance) / (1 - chance), abs=1e-12)
    assert found.value == pytest.approx(0.210, abs=5e-4)
    uneven = agreement.fleiss([[1, 2], [2, 2]], alone(2), 0.95)
    assert uneven.value is None
    assert uneven.why


def test_independent_programs_agree() -> None:
    krippendorff = pytest.importorskip("krippendorff", reason="the package krippendorff is not installed (dev extra)")
    rng = np.random.default_rng(1)
    for _ in range(20):
        ratings = rng.integers(0, 3, (12, 4)).astype(float)
        ratings[rng.random(ratings.shape) < 0.3] = np.nan
        theirs = krippendorff.alpha(reliability_data=ratings.T, level_of_measurement="nominal")
        assert agreement.krippendorff(ratings, alone(12), 0.95).value == pytest.approx(theirs, abs=1e-9)


def test_gwet_by_hand() -> None:
    # Gwet (2008): 118 agree on yes, 5 and 2 disagree, 0 agree on no; AC1 is .9408, and Cohen's kappa is below 0
    f = np.repeat([1, 1, 0], [118, 5, 2])
    y = np.repeat([1, 0, 1], [118, 5, 2])
    share = (123 + 120) / 250
    chance = 2 * share * (1 - share)
    found = agreement.gwet(f, y, 1.0, alone(125), 0.95)
    assert found.value == pytest.approx((118 / 125 - chance) / (1 - chance), abs=1e-12)
    assert found.value == pytest.approx(0.9408, abs=5e-5)
    kappa = agreement.cohen(f, y, 1.0, alone(125), 0.95)
    assert kappa.value is not None
    assert kappa.value < 0 < 0.85 < (found.low or 0)
    # observed .7, shares of yes .5 and .6: chance .495
    f = np.repeat([1, 1, 0, 0], [20, 5, 10, 15])
    y = np.repeat([1, 0, 1, 0], [20, 5, 10, 15])
    assert agreement.gwet(f, y, 1.0, alone(50), 0.95).value == pytest.approx((0.7 - 0.495) / 0.505, abs=1e-12)
    never = agreement.gwet(np.zeros(20), np.zeros(20), 1.0, alone(20), 0.95)
    assert (never.value, never.high) == (1.0, 1.0)
    assert never.low is not None
    assert 0.8 < never.low < 0.9
    assert agreement.gwet([], [], 1.0, [], 0.95).why == "nothing was rated twice"


def test_weighted_kappa_by_hand() -> None:
    # grades 1, 2, 3; the table below: quadratic and linear weights worked out cell by cell
    table = np.array([[10, 3, 0], [2, 8, 4], [1, 2, 10]])
    first, second = (np.repeat(np.array(g).ravel(), table.ravel()) for g in np.mgrid[1:4, 1:4])
    n, rows, columns = 40, [13, 14, 13], [13, 13, 14]
    for power in (1, 2):
        apart = [[abs(i - j) ** power for j in range(3)] for i in range(3)]
        seen = sum(apart[i][j] * table[i, j] for i in range(3) for j in range(3)) / n
        chance = sum(apart[i][j] * rows[i] * columns[j] for i in range(3) for j in range(3)) / n**2
        found = agreement.weighted_kappa(first, second, 1.0, alone(n), 0.95, power=power)
        assert found.value == pytest.approx(1 - seen / chance, abs=1e-12)
        assert found.low is not None
        assert found.high is not None
        assert found.low < found.value < found.high
    same = agreement.weighted_kappa([3, 3], [3, 3], 1.0, alone(2), 0.95)
    assert (same.value, "nothing is left to agree on" in str(same.why)) == (None, True)
    assert agreement.weighted_kappa([], [], 1.0, [], 0.95).why == "nothing was rated twice"


@QUICK
@given(pairs)
def test_weighted_kappa_of_two_grades_is_kappa(said: list[tuple[bool, bool]]) -> None:
    f, y = np.array(said, dtype=float).T
    kappa = agreement.cohen(f, y, 1.0, alone(f.size), 0.95)
    found = agreement.weighted_kappa(f, y, 1.0, alone(f.size), 0.95, power=1.0)
    assert (found.value is None) == (kappa.value is None)
    if kappa.value is not None:
        assert found[:3] == pytest.approx(kappa[:3], abs=1e-9)


def test_a_peer_gives_the_same_figures() -> None:
    peer = pytest.importorskip("truescore.agreement", reason="the package truescore is not installed (dev extra)")
    rng = np.random.default_rng(3)
    for _ in range(20):
        f, y = (rng.random((2, 30)) < rng.uniform(0.3, 0.9)).astype(float)
        assert agreement.gwet(f, y, 1.0, alone(30), 0.95).value == pytest.approx(peer.gwet_ac1(f, y), abs=1e-9)
        grades, others = rng.integers(1, 6, (2, 30))
        theirs = peer.quadratic_weighted_kappa(grades, others)
        ours = agreement.weighted_kappa(grades, others, 1.0, alone(30), 0.95)
        assert ours.value == pytest.approx(theirs, abs=1e-9)


def test_a_rater_who_never_says_yes_gets_an_answer() -> None:
    never, y = np.zeros(20), np.repeat([1.0, 0.0], [5, 15])
    assert agreement.cohen(never, y, 1.0, alone(20), 0.95).value == pytest.approx(0.0)
    precision = agreement.share(never * y, never, alone(20), 0.95, "the judge never says yes")
    assert precision == agreement.AgreementFigure(None, n=0, why="the judge never says yes")
    assert agreement.share(never * y, y, alone(20), 0.95).value == 0.0
    both = agreement.cohen(never, never, 1.0, alone(20), 0.95)
    assert both.value is None
    assert "nothing is left to agree on" in str(both.why)
    assert agreement.phi(agreement.confusion(never, y)) is None
    silent = agreement.youden(agreement.share([], [], [], 0.95, "nobody"), agreement.share([1.0], [1.0], [0], 0.95))
    assert silent == agreement.AgreementFigure(None, n=0, why="nobody")


def test_weights_and_clusters() -> None:
    rng = np.random.default_rng(2)
    f, y = (rng.random((2, 60)) < 0.6).astype(float)
    thrice = np.repeat(np.arange(60), 3)
    one = agreement.cohen(f, y, 3.0, alone(60), 0.95)
    many = agreement.cohen(f[thrice], y[thrice], 1.0, alone(180), 0.95)
    told = agreement.cohen(f[thrice], y[thrice], 1.0, thrice, 0.95)
    assert one.value == pytest.approx(many.value) == pytest.approx(told.value)
    assert many.high is not None
    assert many.low is not None
    assert told.high is not None
    assert told.low is not None
    # three copies of a unit are one unit
    assert told.high - told.low > 1.5 * (many.high - many.low)
    assert one.high is not None
    assert one.low is not None
    assert told.high - told.low == pytest.approx(one.high - one.low, rel=0.1)
