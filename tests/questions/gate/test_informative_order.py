"""Attempts where they inform: the order, its bias, and the looks along it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ethogram.questions.gate import informative_order
from ethogram.statistics import stratified

RNG = np.random.default_rng(11)


def made(counts: list[int], n: int, block: int, seed: int = 0) -> informative_order.Schedule:
    places = np.random.default_rng(seed).random(len(counts))
    return informative_order.schedule(counts, np.full(len(counts), n), places, block)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 12), min_size=2, max_size=25), st.integers(1, 6), st.integers(0, 9))
def test_every_task_is_attempted_as_often_in_a_block(counts: list[int], block: int, seed: int) -> None:
    plan = made(counts, 12, block, seed)
    order = informative_order.ordered(plan, 2 * block * len(counts))
    first, second = np.split(order, 2)
    for part in (first, second):
        assert np.all(np.bincount(part, minlength=len(counts)) == block)
    assert np.array_equal(informative_order.ordered(plan, 3), order[:3]), "a longer plan begins as a shorter one does"


def test_informative_tasks_come_early_and_no_task_waits_long() -> None:
    counts = [0] * 15 + [10] * 20 + [20] * 15
    order = informative_order.ordered(made(counts, 20, 6), 300)
    early = np.bincount(order[:40], minlength=50)
    assert early[15:35].sum() >= 25, "16 if all tasks were alike"
    assert np.all(np.bincount(order[: round(2.5 * 50)], minlength=50) > 0)


def test_tasks_that_differ_by_chance_alone_are_taken_alike() -> None:
    counts = np.random.default_rng(3).binomial(20, 0.3, 50)
    alike = made(list(counts), 20, 4)
    told = made([2] * 25 + [18] * 15 + [10] * 10, 20, 4)
    assert np.ptp(alike.speed) < 0.5 * np.ptp(told.speed)
    assert informative_order.shrunk_rates(np.full(50, 6), np.full(50, 20)).trust == 0


def test_the_bias_of_an_order_by_its_own_counts_by_hand() -> None:
    """One task of two attempts and rate 1/2 beside others that hold the order still: all counts, weighed by hand."""
    counts = np.array([1.0, *[0.0] * 4, *[2.0] * 4])
    attempts = np.full(9, 2.0)
    plan = informative_order.schedule(counts, attempts, np.linspace(0.05, 0.9, 9), 3)
    rates, looks = np.full(9, 0.5), np.array([7])
    found = informative_order.bias(plan, attempts, rates, looks)[0]
    at = np.sort((np.arange(3) + plan.place[:, None]) / plan.speed[:, None], axis=None)
    times = np.array([(np.arange(3) + u) / s for u, s in zip(plan.place, plan.speed, strict=True)])
    assert np.all(times[:, 0] <= informative_order.COVERED), "no first attempt is moved here, so that the sum is plain"
    threshold, total = at[6], 0.0
    for place in plan.place:
        for c, chance in ((0, 0.25), (1, 0.5), (2, 0.25)):
            variance = float(plan.belief.variances(c, 2))
            speed = informative_order.EVEN + (1 - informative_order.EVEN) * variance / plan.belief.variance
            met = sum((j + place) / speed <= threshold for j in range(3))
            total += chance * (2 * met / (2 + met) if met else 0.0) * (0.5 - c / 2)
    assert found == pytest.approx(total, abs=1e-12)


def test_the_bias_is_what_unchanged_candidates_show_on_average() -> None:
    """Against simulation: rates below one half, so that lucky counts come early and look like a drop."""
    tasks, n, look = 40, 10, np.array([30])
    rates = np.tile([0.02, 0.1, 0.3, 0.45], 10)
    shown, told = [], []
    for seed in range(1500):
        rng = np.random.default_rng(seed)
        counts = rng.binomial(n, rates).astype(float)
        plan = informative_order.schedule(counts, np.full(tasks, float(n)), rng.random(tasks), 3)
        met = np.bincount(informative_order.ordered(plan, 30), minlength=tasks)
        pull = n * met / (n + met)
        shown.append(np.sum(pull * (rng.binomial(met, rates) / np.maximum(met, 1) - counts / n)))
        told.append(informative_order.bias(plan, np.full(tasks, float(n)), rates, look)[0])
    error = np.std(shown) / np.sqrt(len(shown))
    assert np.mean(told) < -4 * error, "left alone it would be seen as a drop"
    assert abs(np.mean(shown) - np.mean(told)) < 3 * error


def test_a_known_bias_is_taken_off_the_difference() -> None:
    one = stratified.sums_of_counts(np.array([9.0, 5.0]), np.array([10.0, 10.0]))
    two = stratified.sums_of_counts(np.array([3.0, 1.0]), np.array([4.0, 4.0]))
    plain = stratified.score(one, two, equal=False, step=1.0, reach=2.0)
    moved = stratified.score(one, two, equal=False, step=1.0, reach=2.0, bias=-0.1)
    assert float(moved.difference) == pytest.approx(float(plain.difference) + 0.1)
    assert float(moved.z) > float(plain.z)


def test_information_by_hand() -> None:
    size, mean = informative_order.information([10, 10], [[0, 5], [2, 5]], [0.25, 0.09])
    assert size == pytest.approx([0.09 * 50 / 15, 0.25 * 20 / 12 + 0.09 * 50 / 15])
    assert mean[0] == 0, "not every task was attempted"
    assert mean[1] == pytest.approx(1 / (0.25 * (1 / 10 + 1 / 2) + 0.09 * (1 / 10 + 1 / 5)))


def test_nothing_is_ruled_out_before_every_task_is_seen() -> None:
    reach = informative_order.reaches(np.array([0.0, 0.0, 3.0, 5.0]), 5.0, 0.8)
    assert np.isinf(reach[:2]).all()
    assert np.isfinite(reach[2:]).all()
    assert np.isinf(informative_order.reaches(np.zeros(3), 0.0, 0.8)).all()
