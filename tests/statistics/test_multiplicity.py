"""Adjusted p-values: by hand, against scipy, and what they promise."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as reference

from ethogram.statistics import multiplicity as m

QUICK = settings(deadline=None, max_examples=80, derandomize=True)
P = [0.01, 0.04, 0.03, 0.005]


def test_by_hand() -> None:
    np.testing.assert_allclose(m.holm(P), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(m.benjamini_hochberg(P), [0.02, 0.04, 0.04, 0.02])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
@QUICK
def test_against_scipy_and_in_order(p: list[float]) -> None:
    x = np.array(p)
    np.testing.assert_allclose(m.benjamini_hochberg(x), reference.false_discovery_control(x, method="bh"), atol=1e-12)
    bonferroni = np.minimum(x * len(x), 1.0)
    for sharper, blunter in pairwise((m.benjamini_hochberg(x), m.holm(x), bonferroni)):
        assert np.all(sharper <= blunter + 1e-12)
    order = np.argsort(x, kind="stable")
    mixed = np.random.default_rng(0).permutation(len(x))
    for adjust in (m.holm, m.benjamini_hochberg):
        name, adjusted = adjust.__name__, adjust(x)
        assert np.all(adjusted >= x - 1e-12), name
        assert np.all(np.diff(adjusted[order]) >= -1e-12), name
        np.testing.assert_allclose(adjust(x[mixed]), adjusted[mixed], err_msg=name)
        np.testing.assert_allclose(adjust(np.stack([x, x]))[1], adjusted, err_msg=name)


def test_max_t_by_hand() -> None:
    permuted = np.array([[1.0, 0.0], [0.0, 3.0], [2.0, 1.0]])
    # the largest statistic, 2.5, meets draws whose maximum is 1, 3, 2; the second, 0.5, those of its own column
    np.testing.assert_allclose(m.max_t([2.5, 0.5], permuted), [0.5, 0.75])


def test_max_t_uses_dependence() -> None:
    rng = np.random.default_rng(1)
    same = np.repeat(rng.standard_normal((999, 1)), 20, axis=1)
    apart = rng.standard_normal((999, 20))
    seen = np.full(20, 2.0)
    assert m.max_t(seen, same)[0] < 0.05 < m.max_t(seen, apart)[0]


def test_max_t_keeps_the_chance_of_any_false_find() -> None:
    rng = np.random.default_rng(6)
    alarms = 0
    for _ in range(400):
        # rotating signs of exchangeable rows: the observed row is one of its own permutations
        base = rng.standard_normal((8, 5)) + rng.standard_normal((8, 1))
        signs = rng.choice([-1.0, 1.0], size=(99, 8))
        drawn = np.abs(signs @ base)
        alarms += m.max_t(np.abs(base.sum(axis=0)), drawn).min() <= 0.05
    assert alarms / 400 < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)


def test_holm_for_counted_tests_by_hand() -> None:
    """Three tests: the third can never fall below .2, so it costs the first nothing; the second adds its own .03."""
    attainable = [np.array([1.0, 0.5, 0.04, 0.01]), np.array([1.0, 0.3, 0.03]), np.array([1.0, 0.2])]
    found = m.holm_discrete([0.04, 0.3, 1.0], attainable)
    # .04 + the .03 that the second could have shown; then .3 + the .2 of the third; then the third alone
    np.testing.assert_allclose(found, [0.07, 0.5, 1.0])
    np.testing.assert_allclose(m.holm_discrete([0.01, 0.3, 1.0], attainable)[0], 0.01)


@given(st.lists(st.floats(1e-6, 1), min_size=1, max_size=30))
@QUICK
def test_holm_for_counted_tests_is_holm_where_any_value_can_be(p: list[float]) -> None:
    np.testing.assert_allclose(m.holm_discrete(p, [None] * len(p)), m.holm(p), rtol=1e-6)


def test_counted_tests_keep_the_chance_of_any_false_find() -> None:
    """Thirty sign tests of four to nine pairs that share a coin: exact level, and more power than Holm."""
    rng = np.random.default_rng(7)
    laws = [reference.binom(n, 0.5) for n in range(4, 10) for _ in range(5)]
    attainable = [np.array([law.sf(k - 1) for k in range(int(law.args[0]) + 1)]) for law in laws]
    alarms = plain = 0
    for _ in range(1000):
        coin, own, alone = rng.random(), rng.random(len(laws)), rng.random(len(laws)) < 0.5
        drawn = np.where(alone, own, coin)
        seen = [int(law.ppf(u)) for law, u in zip(laws, drawn, strict=True)]
        p = [tails[k] for tails, k in zip(attainable, seen, strict=True)]
        alarms += m.holm_discrete(p, attainable).min() <= 0.05
        plain += m.holm(p).min() <= 0.05
    assert plain <= alarms
    assert alarms / 1000 < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 1000)
