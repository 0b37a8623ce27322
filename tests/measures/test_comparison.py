"""Two versions on the same tasks: goldens by hand, both ways round, any order, nothing to compare."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ethogram.errors import BadUsage, NotFound
from ethogram.measures.comparison import compare_outcomes, missing_bounds, shared_tasks, sums
from ethogram.measures.outcomes import Outcomes, outcomes_of
from ethogram.statistics import stratified

Made = Callable[..., Outcomes]


def counted(*counts: tuple[int, int]) -> Outcomes:
    """Tasks with (successes, attempts)."""
    return outcomes_of([(f"t{i:02d}", k, float(k < c), None) for i, (c, n) in enumerate(counts) for k in range(n)])


def test_the_score_test_by_hand() -> None:
    """z of Mantel and Haenszel with nothing taken off, from its formula; the exact test is larger here, and decides."""
    before, after = [(8, 10), (5, 10), (9, 10), (6, 10)], [(5, 10), (3, 10), (9, 10), (2, 10)]
    found = compare_outcomes(counted(*before), counted(*after))
    weight = sum(10 * 10 / 20 for _ in before)
    apart = sum(5 * (b - a) / 10 for (a, _), (b, _) in zip(before, after, strict=True)) / weight
    variance = sum(100 * (a + b) * (20 - a - b) / (400 * 19) for (a, _), (b, _) in zip(before, after, strict=True))
    z = apart * weight / math.sqrt(variance)
    assert found.difference.value == pytest.approx(apart)
    approximate = math.erfc(abs(z) / math.sqrt(2))
    arms = sums(counted(*before), counted(*after), "success")
    assert float(stratified.difference(*arms, 0.95, equal=False, step=1.0).two_sided) == pytest.approx(approximate)
    assert found.verdict == "regression"
    assert found.difference.low < apart < found.difference.high < 0
    assert (found.base.value, found.candidate.value) == (pytest.approx(0.7), pytest.approx(0.475))
    assert found.method == "stratified score"
    assert approximate < found.p_exact < 2 * approximate, "the exact test is the more careful one"
    assert found.p == found.p_exact


def test_one_rule_decides() -> None:
    """Few attempts: the score test alone would call a change that the exact test does not bear out."""
    found = compare_outcomes(counted((5, 5)), counted((2, 5)))
    arms = sums(counted((5, 5)), counted((2, 5)), "success")
    assert float(stratified.difference(*arms, 0.9, equal=False, step=1.0).two_sided) < 0.1 < found.p_exact
    for level in (0.5, 0.8, 0.9, 0.95, 0.99):
        found = compare_outcomes(counted((5, 5), (4, 5)), counted((2, 5), (3, 5)), level=level)
        outside = found.difference.high < 0 or found.difference.low > 0
        assert (found.p <= 1 - level) == outside == (found.verdict != "undecided")


def test_flips_by_hand() -> None:
    base = outcomes_of([("a", 0, 1, None), ("a", 1, 1, None), ("b", 0, 0, None), ("b", 1, 1, None), ("c", 0, 1, None)])
    cand = outcomes_of([("a", 0, 1, None), ("a", 1, 0, None), ("b", 0, 1, None), ("b", 2, 1, None), ("c", 0, None, "")])
    found = compare_outcomes(base, cand).pairs
    assert (found.pairs, found.lost, found.gained, found.both_passed, found.both_failed) == (3, 1, 1, 1, 0)
    assert found.odds.value == 1.0
    assert found.same_seed == 0
    only_lost = compare_outcomes(counted((3, 3)), counted((0, 3))).pairs.odds
    assert only_lost.value == math.inf
    assert only_lost.low > 0


def test_which_tasks_moved_is_held_against_all_of_them() -> None:
    still = [(10, 20)] * 30
    found = compare_outcomes(counted((20, 20), *still), counted((2, 20), *still))
    moved = [t for t in found.tasks if t.moved]
    assert [t.task for t in moved] == ["t00"]
    assert moved[0].difference == pytest.approx(-0.9)
    assert moved[0].p < moved[0].q <= 0.1
    # with one attempt on each side nothing can be tested, and nothing is
    single = compare_outcomes(counted(*[(1, 1)] * 40), counted(*[(0, 1)] * 40))
    assert all(t.p is None and t.q is None and not t.moved for t in single.tasks)
    assert single.verdict == "regression"


def test_tasks_that_only_one_has_are_named_and_not_compared() -> None:
    base = outcomes_of([("a", 0, 1, None), ("b", 0, 1, None)])
    cand = outcomes_of([("c", 0, 1, None), ("b", 0, 0, None)])
    assert shared_tasks(base, cand) == ["b"]
    found = compare_outcomes(base, cand)
    assert (found.only_base, found.only_candidate, found.difference.n) == (["a"], ["c"], 1)
    with pytest.raises(BadUsage, match="no task in common"):
        compare_outcomes(outcomes_of([("a", 0, 1, None)]), outcomes_of([("c", 0, 1, None)]))


def test_unknown_metrics_are_refused_by_name(made: Made) -> None:
    with pytest.raises(NotFound, match="cost"):
        compare_outcomes(made([[1]]), made([[1]]), name="costs")


@pytest.mark.parametrize("name", ["cost", "steps", "tokens", "seconds"])
def test_less_is_better_for_what_one_pays(made: Made, name: str) -> None:
    rng = np.random.default_rng(3)
    paid = rng.gamma(4, 1, (6, 20))
    base, dear = made(np.ones((6, 20)), **{name: paid}), made(np.ones((6, 20)), **{name: paid * 1.5})
    assert compare_outcomes(base, dear, name=name).verdict == "regression"
    assert compare_outcomes(dear, base, name=name).verdict == "improvement"
    found = compare_outcomes(base, dear, name=name)
    assert found.difference.value == pytest.approx(float(paid.mean()) / 2, rel=1e-6)
    assert (found.pairs, found.odds, found.p_exact, found.bounds) == (None, None, None, None)


def test_what_was_not_recorded_is_counted_as_such(made: Made) -> None:
    cost = np.where(np.arange(40).reshape(4, 10) % 4 == 0, np.nan, 1.0 + np.arange(40).reshape(4, 10) % 3)
    found = compare_outcomes(made(np.ones((4, 10)), cost=cost), made(np.ones((4, 10)), cost=cost), name="cost")
    assert found.base.missing == {"unrecorded": 10}
    assert found.difference.value == pytest.approx(0.0, abs=1e-12)
    none = compare_outcomes(made(np.ones((4, 10))), made(np.ones((4, 10))), name="cost")
    assert (none.verdict, none.difference.value) == ("undecided", None)
    assert none.difference.why == "no task has a known value of cost in both runs"
    assert none.base.why == "no attempt has a known value of cost"


def test_graded_scores(made: Made) -> None:
    rng = np.random.default_rng(4)
    base = np.clip(rng.normal(0.6, 0.1, (8, 15)), 0, 1)
    found = compare_outcomes(made(base), made(base - 0.1), name="score")
    assert found.verdict == "regression"
    assert found.difference.value == pytest.approx(-0.1)


def test_one_attempt_of_one_task_decides_nothing(made: Made) -> None:
    found = compare_outcomes(made([[1]]), made([[0]]))
    assert found.verdict == "undecided"
    assert (found.difference.low, found.difference.high) == (-1.0, 1.0)
    between = compare_outcomes(made([[1]] * 5), made([[0]] * 5), design="between")
    assert between.difference.low is None
    assert between.difference.why == "one task has no spread to measure by"
    assert between.p is None


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_all_alike_is_undecided_with_a_width(made: Made, value: float) -> None:
    found = compare_outcomes(made(np.full((5, 10), value)), made(np.full((5, 10), value)))
    assert found.verdict == "undecided"
    assert found.difference.low < 0 < found.difference.high
    assert found.p == 1.0
    assert found.odds.value is None
    assert found.odds.why == "nothing flipped either way"


def test_all_missing_is_undecided_and_bounded(made: Made) -> None:
    found = compare_outcomes(made(np.ones((3, 5))), made(np.full((3, 5), np.nan)))
    assert (found.verdict, found.difference.value, found.p, found.p_exact) == ("undecided", None, None, None)
    assert found.bounds == (-1.0, 0.0)
    assert found.difference.missing == {"candidate.infrastructure.timeout": 15}


def test_bounds_contain_the_truth_with_a_fifth_missing(made: Made) -> None:
    rng = np.random.default_rng(6)
    for _ in range(200):
        whole = [(rng.random((4, 20)) < rng.beta(2, 1, 20)).astype(float) for _ in range(2)]
        torn = [np.where(rng.random(x.shape) < 0.2, np.nan, x) for x in whole]
        low, high = missing_bounds(made(torn[0]), made(torn[1]))
        assert low <= whole[1].mean() - whole[0].mean() <= high


@st.composite
def pairs(draw: Any) -> tuple[list[list[float]], list[list[float]]]:
    tasks, value = draw(st.integers(1, 6)), st.sampled_from([0.0, 1.0, 1.0, math.nan])
    return tuple(
        draw(st.lists(st.lists(value, min_size=tasks, max_size=tasks), min_size=1, max_size=6)) for _ in range(2)
    )


@settings(deadline=None, max_examples=60)
@given(pairs())
def test_properties(made: Made, both: tuple[list[list[float]], list[list[float]]]) -> None:
    one, two = made(both[0]), made(both[1])
    found, back = compare_outcomes(one, two), compare_outcomes(two, one)
    same = compare_outcomes(one, one)
    assert same.verdict == "undecided"
    assert same.difference.value in (None, 0.0)
    if found.difference.value is None:
        assert found.verdict == "undecided"
        assert found.difference.why
        return
    assert back.difference.value == pytest.approx(-found.difference.value)
    assert back.p == pytest.approx(found.p)
    mirrored = {"improvement": "regression", "regression": "improvement", "undecided": "undecided"}
    assert back.verdict == mirrored[found.verdict]
    assert back.difference.low == pytest.approx(-found.difference.high, abs=1e-9)
    # the interval and the test say the same
    if abs(found.p - 0.05) > 1e-6:
        assert (found.verdict != "undecided") == (found.p < 0.05)
    assert found.difference.low <= found.difference.value <= found.difference.high
    pairs = found.pairs
    assert pairs.pairs == pairs.lost + pairs.gained + pairs.both_passed + pairs.both_failed


@settings(deadline=None, max_examples=40)
@given(pairs(), st.randoms(use_true_random=False))
def test_the_order_of_episodes_changes_nothing(
    made: Made, both: tuple[list[list[float]], list[list[float]]], random: Any
) -> None:
    one, two = made(both[0]), made(both[1])

    def mixed(o: Outcomes) -> Outcomes:
        order = list(range(o.task.size))
        random.shuffle(order)
        return outcomes_of(
            [(o.tasks[o.task[i]], int(o.attempt[i]), None if o.reason[i] else o.value[i], o.reason[i]) for i in order]
        ).only(o.tasks)

    for design in ("within", "between"):
        found, again = (
            compare_outcomes(one, two, design=design),
            compare_outcomes(mixed(one), mixed(two), design=design),
        )
        assert again.difference.value == pytest.approx(found.difference.value, abs=1e-12)
        assert again.p == pytest.approx(found.p, abs=1e-12)
        assert again.tasks == found.tasks
        assert again.pairs == found.pairs
        assert again.bounds == pytest.approx(found.bounds)
