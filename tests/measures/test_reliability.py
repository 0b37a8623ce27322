"""pass@k and pass^k as people read them: by hand, refused where they cannot be had, bounded where some are missing."""

from __future__ import annotations

from fractions import Fraction
from math import comb
from random import Random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ethogram.errors import BadUsage
from ethogram.estimate import Estimate
from ethogram.measures.outcomes import Outcomes, outcomes_of
from ethogram.measures.reliability import MIN_TASKS, estimate_reliability


def made(counts: list[tuple[int, int]], missing: int = 0) -> Outcomes:
    """Tasks with (successes, attempts) each; `missing` more of every task were planned and lost."""
    rows = [
        (f"t{i:03d}", k, None if k >= n else float(k < c), "infrastructure.timeout")
        for i, (c, n) in enumerate(counts)
        for k in range(n + missing)
    ]
    return outcomes_of(rows)


def exactly(counts: list[tuple[int, int]], k: int, every: bool) -> float:
    """By counting subsets, in whole numbers."""
    used = [(c, n) for c, n in counts if n >= k]
    if every:
        return float(sum(Fraction(comb(c, k), comb(n, k)) for c, n in used) / len(used))
    return float(sum(1 - Fraction(comb(n - c, k), comb(n, k)) for c, n in used) / len(used))


def test_by_hand() -> None:
    found = estimate_reliability(made([(4, 4), (2, 4), (0, 4)]))
    assert list(found.pass_at) == ["1", "2", "3", "4"]
    assert found.pass_at["1"].value == pytest.approx(0.5)
    assert found.pass_at["2"].value == pytest.approx((1 + 5 / 6 + 0) / 3)
    assert found.pass_hat["2"].value == pytest.approx((1 + 1 / 6 + 0) / 3)
    assert found.pass_hat["4"].value == pytest.approx(1 / 3)
    assert [(t.task, t.n, t.c) for t in found.tasks] == [("t000", 4, 4), ("t001", 4, 2), ("t002", 4, 0)]
    assert (found.episodes.planned, found.episodes.scored, found.episodes.coverage) == (12, 12, 1.0)
    assert found.compounding is None
    assert found.score is None


counts = st.integers(1, 9).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@given(st.lists(counts, min_size=1, max_size=30))
def test_unequal_attempts_are_counted_exactly(drawn: list[tuple[int, int]]) -> None:
    most = max(n for _, n in drawn)
    found = estimate_reliability(made(drawn))
    for k in range(1, most + 1):
        at, hat = found.pass_at[str(k)], found.pass_hat[str(k)]
        assert at.value == pytest.approx(exactly(drawn, k, every=False), abs=1e-12)
        assert hat.value == pytest.approx(exactly(drawn, k, every=True), abs=1e-12)
        assert at.n == hat.n == sum(n >= k for _, n in drawn)
        for e in (at, hat):
            if e.low is not None:
                assert 0 <= e.low <= e.value <= e.high <= 1
                assert e.high > e.low, "an interval of no width claims to know"
            else:
                assert e.why
            left_out = sum(n < k for _, n in drawn)
            if left_out and e.low is not None:
                have = "1 task has" if left_out == 1 else f"{left_out} tasks have"
                assert f"{have} fewer than {k} attempts" in e.why


@example(drawn=[(0, 3), (0, 3), (4, 6), (4, 6), (0, 9)], random=Random(1))
@given(st.lists(counts, min_size=1, max_size=25), st.randoms(use_true_random=False))
def test_the_order_of_tasks_and_attempts_changes_no_number(drawn: list[tuple[int, int]], random) -> None:
    rows = [(f"t{i}", k, float(k < c), None) for i, (c, n) in enumerate(drawn) for k in range(n)]
    mixed = list(rows)
    random.shuffle(mixed)
    one, two = (estimate_reliability(outcomes_of(r)) for r in (rows, mixed))
    assert one.pass_at.keys() == two.pass_at.keys()
    for name in ("pass_at", "pass_hat"):
        for k, e in getattr(one, name).items():
            other = getattr(two, name)[k]
            assert other.value == pytest.approx(e.value, abs=1e-12)
            assert (other.low, other.high) == (pytest.approx(e.low, abs=1e-9), pytest.approx(e.high, abs=1e-9))


@pytest.mark.parametrize(("c", "value"), [(5, 1.0), (0, 0.0)])
@pytest.mark.parametrize("tasks", [3, 40])
def test_all_pass_and_all_fail_have_an_honest_width(c: int, value: float, tasks: int) -> None:
    found = estimate_reliability(made([(c, 5)] * tasks), [1, 5])
    for e in (*found.pass_at.values(), *found.pass_hat.values()):
        assert e.value == value
        assert e.high - e.low > 0.01
        assert e.low <= value <= e.high


def test_fewer_than_twenty_tasks_speak_of_themselves_only() -> None:
    few, many = (estimate_reliability(made([(3, 4)] * n)) for n in (MIN_TASKS - 1, MIN_TASKS))
    assert (few.target, many.target) == ("suite", "population")
    assert few.pass_at["1"].method == "wilson-neff fixed-suite"
    assert "for the population of tasks, 20 tasks are needed" in few.pass_at["1"].why
    assert many.pass_at["1"].method == "wilson-neff"
    assert many.pass_at["1"].why is None
    # asked for all the same, the claim is refused and the value stays
    asked = estimate_reliability(made([(3, 4)] * 19), target="population").pass_hat["1"]
    assert asked.value == 0.75
    assert asked.low is None
    assert asked.why == "too few tasks for a population claim: 19 of 20"


def test_k_above_the_attempts_is_refused_with_what_there_is() -> None:
    found = estimate_reliability(made([(1, 1)] * 30), [1, 2])
    assert found.pass_hat["1"].low is not None
    for e in (found.pass_hat["2"], found.pass_at["2"]):
        assert (e.value, e.low, e.high) == (None, None, None)
        assert e.why == "no task has 2 scored attempts; the most is 1"
    with pytest.raises(BadUsage, match="at least 1"):
        estimate_reliability(made([(1, 1)]), [0])


def test_nothing_scored_says_nothing() -> None:
    found = estimate_reliability(made([(0, 0)] * 25, missing=2))
    assert found.pass_at["1"].value is None
    assert found.pass_at["1"].why == "no attempt has a score"
    assert (found.bounds.worst, found.bounds.best) == (0.0, 1.0)
    assert found.episodes.missing == {"infrastructure.timeout": 50}
    assert found.tasks[0].rate.value is None
    empty = estimate_reliability(outcomes_of([]))
    assert (empty.bounds.worst, empty.bounds.best, empty.pass_hat["1"].value) == (None, None, None)


def test_both_conventions_for_missing_attempts() -> None:
    outcomes = made([(3, 4)] * 25, missing=1)
    left_out, failed = (estimate_reliability(outcomes, [1, 5], convention=c) for c in ("bounds", "failure"))
    assert left_out.pass_at["1"].value == pytest.approx(0.75)
    assert left_out.pass_hat["5"].value is None
    assert failed.pass_at["1"].value == pytest.approx(0.6)
    assert failed.pass_hat["5"].value == 0.0
    assert failed.tasks[0].rate.value == pytest.approx(0.6)
    for found in (left_out, failed):
        assert found.bounds.worst == pytest.approx(0.6)
        assert found.bounds.best == pytest.approx(0.8)
        assert found.pass_at["1"].missing == {"infrastructure.timeout": 25}


def test_too_much_missing_leaves_a_value_without_an_interval() -> None:
    found = estimate_reliability(made([(2, 2)] * 25, missing=1))
    e = found.pass_at["1"]
    assert e.value == 1.0
    assert e.low is None
    assert e.why == "only 67% of the planned attempts have a score (80% are needed); see the bounds"
    assert estimate_reliability(made([(2, 2)] * 25, missing=1), convention="failure").pass_at["1"].low is not None


def test_bounds_contain_the_truth_with_a_fifth_missing_at_random() -> None:
    rng = np.random.default_rng(5)
    for _ in range(300):
        whole = rng.random((6, 30)) < rng.beta(1.4, 0.6, 30)
        gone = rng.random(whole.shape) < 0.2
        rows = [
            (f"t{i}", k, None if gone[k, i] else float(whole[k, i]), "infrastructure.rate_limit")
            for k in range(6)
            for i in range(30)
        ]
        bounds = estimate_reliability(outcomes_of(rows), [1]).bounds
        assert bounds.worst <= whole.mean() <= bounds.best
        assert bounds.best - bounds.worst == pytest.approx(gone.mean())


def test_graded_scores_have_a_mean_of_their_own() -> None:
    rows = [(f"t{i}", k, 0.25 * (i % 5), None) for i in range(25) for k in range(2)]
    found = estimate_reliability(outcomes_of(rows)).score
    assert isinstance(found, Estimate)
    assert found.value == pytest.approx(0.5)
    assert found.low < 0.5 < found.high
    few = estimate_reliability(outcomes_of(rows[:10])).score
    assert few.value == pytest.approx(0.5)
    assert few.low is None
    assert "this very suite" in few.why


def test_steps_against_the_whole() -> None:
    outcomes = made([(1, 2), (2, 2)])
    figures = {"steps": np.array([10.0, 10.0, 10.0, 10.0]), "errors": np.array([1.0, 1.0, 0.0, 0.0])}
    found = estimate_reliability(Outcomes(**{**vars(outcomes), "figures": figures})).compounding
    assert (found.steps, found.per_step, found.observed) == (10.0, 0.95, 0.75)
    assert found.predicted == pytest.approx(0.95**10)
    assert found.implied == pytest.approx(0.75**0.1)


def test_the_flattering_numbers_only_on_request() -> None:
    outcomes = made([(2, 4)] * 20)
    assert estimate_reliability(outcomes).naive_at is None
    found = estimate_reliability(outcomes, [1, 4], naive=True)
    assert found.naive_at["4"] == pytest.approx(1 - 0.5**4)
    assert found.naive_hat["4"] == pytest.approx(0.5**4)
    assert found.pass_hat["4"].value == 0.0, "which is what two of four attempts really are"
    assert found.pass_ratio["4"] == pytest.approx(2.0)


def test_long_curves_are_thinned() -> None:
    assert list(estimate_reliability(made([(30, 50)] * 3)).pass_at) == [*map(str, range(1, 11)), "20", "40", "50"]
