"""Events against outcomes within tasks: tables by hand, Fisher's test of scipy, and every way to deal outcomes anew."""

from __future__ import annotations

from itertools import combinations, product
from math import comb
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as reference

from ethogram.measures import contrasts
from ethogram.measures.contrasts import ContrastEvent, ContrastRuns, contrast_events


def runs_of(failed: list[int], task: list[int]) -> ContrastRuns:
    at = np.array(task, dtype=np.int64)
    return ContrastRuns(np.array(failed, dtype=bool), at, at)


def event(name: str, shown: list[int]) -> ContrastEvent:
    return ContrastEvent(name, np.flatnonzero(np.array(shown)).astype(np.int64))


def dealt(failed: list[int], task: list[int], shown: list[int]) -> float:
    """The upper tail by going through every way to deal the failures of each task among its attempts."""
    at = np.array(task)
    ways = []
    for one in sorted(set(task)):
        rows = np.flatnonzero(at == one)
        number = int(np.array(failed)[rows].sum())
        ways.append([sum(shown[i] for i in taken) for taken in combinations(rows.tolist(), number)])
    seen = sum(f * s for f, s in zip(failed, shown, strict=True))
    totals = [sum(way) for way in product(*ways)]
    return sum(t >= seen for t in totals) / len(totals)


rows = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 1)), min_size=4, max_size=12)


@given(rows)
@settings(max_examples=60)
def test_the_test_is_that_of_dealing_outcomes_anew_within_tasks(table: list[tuple[int, int, int]]) -> None:
    failed, task, shown = (list(column) for column in zip(*table, strict=True))
    (found,) = contrast_events([event("e", shown)], runs_of(failed, task)).contrasts
    if found.p is None:
        assert dealt(failed, task, shown) == 1
    else:
        assert found.p == pytest.approx(dealt(failed, task, shown))


@given(rows, st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_neither_the_order_of_runs_nor_the_names_of_tasks_matter(
    table: list[tuple[int, int, int]], random: Random
) -> None:
    def told(rows: list[tuple[int, int, int]]) -> tuple[object, ...]:
        failed, task, shown = (list(column) for column in zip(*rows, strict=True))
        one, two = contrast_events(
            [event("e", shown), event("not", [1 - s for s in shown])], runs_of(failed, task)
        ).contrasts
        assert one.failed_with + two.failed_with == sum(failed)
        assert (one.p is None) == (two.p is None)
        if one.p is not None and two.p is not None:
            assert one.p + two.p >= 1 - 1e-9  # both tails hold what was seen
            assert one.adjusted is not None
            assert one.adjusted >= one.p - 1e-12
        return (one.p, one.lift, one.share.value, one.adjusted)

    mixed = [(f, 2 - t, s) for f, t, s in random.sample(table, len(table))]
    assert told(mixed) == pytest.approx(told(table), nan_ok=True)


def test_one_task_is_fishers_test() -> None:
    """Four of five failures and one of five successes show it."""
    failed, shown = [1] * 5 + [0] * 5, [1, 1, 1, 1, 0, 1, 0, 0, 0, 0]
    (found,) = contrast_events([event("e", shown)], runs_of(failed, [0] * 10)).contrasts
    assert found.p == pytest.approx(reference.fisher_exact([[4, 1], [1, 4]], alternative="greater").pvalue)
    assert found.p == pytest.approx((comb(5, 4) * comb(5, 1) + comb(5, 5) * comb(5, 0)) / comb(10, 5))
    assert (found.failed_with, found.succeeded_with) == (4, 1)
    assert found.lift == pytest.approx(4.0)
    assert found.excess == pytest.approx(4 * (1 - 1 / 4))
    assert found.share.value == pytest.approx(0.8)
    assert (found.share.n, found.share.of) == (5, "failed runs")


def test_lift_is_that_of_mantel_and_haenszel() -> None:
    """Tasks of different size: each counts by its attempts, and one that always fails does not count."""
    failed = [1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1, 1]
    shown = [1, 0, 0, 1, 1, 0, 0, 0, 1, 0, 1, 1, 1]
    task = [0] * 4 + [1] * 6 + [2] * 3
    (found,) = contrast_events([event("e", shown)], runs_of(failed, task)).contrasts
    up = 1 * 2 / 4 + 1 * 5 / 6  # failed with it × successes / attempts
    down = 1 * 2 / 4 + 1 * 1 / 6
    assert found.lift == pytest.approx(up / down)
    assert found.failed_with == 5  # those of the task that always fails are failed runs with it all the same
    assert found.tasks == 2


def test_what_differs_between_tasks_is_no_cause() -> None:
    """Shown in every run of the tasks that always fail and in none of the others: nothing can be said."""
    failed = [1] * 40 + [0] * 40
    task = [i // 4 for i in range(80)]
    (found,) = contrast_events([event("hard", failed)], runs_of(failed, task)).contrasts
    assert (found.p, found.adjusted, found.lift, found.excess) == (None, None, None, 0.0)
    assert not found.is_cause
    # mixed tasks where it says nothing: a test that forgets the tasks would be sure
    failed = [1, 1, 1, 0] * 10 + [0, 0, 0, 1] * 10
    hard = [1] * 40 + [0] * 40
    (found,) = contrast_events([event("hard", hard)], runs_of(failed, task)).contrasts
    assert found.p is None
    pooled = reference.fisher_exact([[30, 10], [10, 30]], alternative="greater").pvalue
    assert pooled < 1e-4


def test_events_of_the_same_runs_are_one_test() -> None:
    failed, task = [1, 1, 0, 0] * 6, [i // 4 for i in range(24)]
    one = contrast_events([event("a", failed)], runs_of(failed, task))
    three = contrast_events([event(n, failed) for n in "abc"], runs_of(failed, task))
    assert one.contrasts[0].p == pytest.approx(6.0**-6)
    assert [c.adjusted for c in three.contrasts] == [one.contrasts[0].adjusted] * 3
    assert (one.tested, three.tested) == (1, 1)


def test_events_too_rare_to_tell_cost_nothing() -> None:
    """A hundred events that one run each shows can never be small: the family is no larger for them."""
    failed, task = [1, 0] * 8, [i // 2 for i in range(16)]
    alone = contrast_events([event("a", failed)], runs_of(failed, task)).contrasts[0]
    rare = [event(f"r{i}", [int(j == i) for j in range(16)]) for i in range(16)]
    with_rare = contrast_events([event("a", failed), *rare], runs_of(failed, task)).contrasts[0]
    assert alone.adjusted == with_rare.adjusted == pytest.approx(2.0**-8)


def test_among_the_runs_that_came_there() -> None:
    """Two tasks; at a place that three runs of each reach, the choice is always wrong."""
    failed, task = [1, 0, 0, 1] * 2, [0] * 4 + [1] * 4
    choice = ContrastEvent("c", np.array([0, 4]), np.array([0, 1, 2, 4, 5, 6]))
    (found,) = contrast_events([choice], runs_of(failed, task)).contrasts
    assert found.p == pytest.approx(1 / 9)
    told = contrasts.fall(choice, runs_of(failed, task), 0.025)
    assert told.value == pytest.approx(-1.0)
    assert told.n == 6
    assert told.low == -1.0


def test_large_families_use_the_normal_limit() -> None:
    rng = np.random.default_rng(1)
    task = np.repeat(np.arange(30), 1000)
    failed = rng.random(30_000) < 0.4
    shown = rng.random(30_000) < np.where(failed, 0.31, 0.30)
    found = contrast_events([ContrastEvent("e", np.flatnonzero(shown))], ContrastRuns(failed, task, task)).contrasts[0]
    n1 = np.bincount(task[failed], minlength=30)
    m = np.bincount(task[shown], minlength=30)
    mean = float(np.sum(n1 * m / 1000))
    sd = float(np.sqrt(np.sum(n1 * (1000 - n1) * m * (1000 - m) / 1000**2 / 999)))
    z = (found.failed_with - mean) / sd
    assert found.p == pytest.approx(float(reference.norm.sf(z)), rel=0.02)


def test_nothing_is_left_of_an_event_that_another_explains() -> None:
    rng = np.random.default_rng(2)
    task = np.repeat(np.arange(40), 6)
    cause = rng.random(240) < 0.4
    failed = np.where(cause, rng.random(240) < 0.8, rng.random(240) < 0.2)
    effect = np.where(cause, rng.random(240) < 0.9, rng.random(240) < 0.1)
    runs = ContrastRuns(failed, task, task)
    first, second = (ContrastEvent(n, np.flatnonzero(x)) for n, x in (("cause", cause), ("effect", effect)))
    family = contrast_events([first, second], runs)
    assert all(c.is_cause for c in family.contrasts)
    left = contrasts.given(second, runs, first.rows)
    assert left is not None
    assert left > 0.05
    other_way = contrasts.given(first, runs, second.rows)
    assert other_way is not None
    assert other_way < 0.01
