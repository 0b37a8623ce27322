"""The plan of a gate that buys its runs: informative tasks first, every task in the end, one order for all."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from grids import grid_outcomes

from ethogram.measures.outcomes import Outcomes
from ethogram.questions.gate import informative_order, power
from ethogram.questions.gate.allocation import informative_settings, plan_gate
from ethogram.questions.gate.plan import GatePlan, GateSettings
from ethogram.questions.gate.verdict import judgement

NAMES = tuple(f"task {i}" for i in range(30))
RATES = np.array([0.0] * 11 + [0.3, 0.5, 0.7] * 4 + [1.0] * 7)
SETTINGS = GateSettings(margin=0.1)


@cache
def baseline() -> Outcomes:
    return grid_outcomes(np.random.default_rng(4).random((20, 30)) < RATES, tasks=NAMES)


@cache
def planned() -> tuple[GatePlan, GateSettings]:
    asked = informative_settings(baseline(), SETTINGS, NAMES)
    return plan_gate(baseline(), asked, NAMES), asked


def candidate(rates: np.ndarray, attempts: np.ndarray, seed: int = 0) -> Outcomes:
    """`count` attempts at each task."""
    drawn = np.where(np.random.default_rng(seed).random((int(attempts.max()), 30)) < rates, 1.0, 0.0)
    whole = grid_outcomes(drawn, tasks=NAMES)
    return whole.upto(attempts)


def test_informative_tasks_come_first_and_every_task_is_in_the_plan() -> None:
    plan, asked = planned()
    assert asked.ahead >= 1
    due = plan.attempts()
    assert np.all(due[-1] >= 1)
    assert np.all(due.sum(axis=1) == plan.runs)
    half = due[len(due) // 3]
    middle = (RATES > 0) & (RATES < 1)
    assert half[middle].mean() > 2 * half[~middle].mean()
    equal = plan_gate(baseline(), SETTINGS, NAMES)
    assert plan.power >= 0.8
    assert plan.expected_with < equal.expected_with


def test_the_order_follows_the_tasks_and_not_the_file() -> None:
    plan, asked = planned()
    turned = tuple(reversed(NAMES))
    again = plan_gate(baseline(), asked, turned)
    assert [turned[i] for i in again.order] == [NAMES[i] for i in plan.order]
    assert plan_gate(baseline(), asked, NAMES) == plan
    other = plan_gate(baseline(), GateSettings(margin=0.15, ahead=asked.ahead), NAMES)
    both = min(len(other.order), len(plan.order))
    assert other.order[:both] == plan.order[:both], "what was bought can be judged under another margin"


def test_a_regression_needs_no_particular_task_and_a_pass_needs_all() -> None:
    plan, asked = planned()
    due = plan.attempts()
    first = int(np.argmax(np.all(due > 0, axis=1)))
    assert first > 0, "some looks come before every task was attempted"
    for k in range(first):
        found = judgement(baseline(), candidate(np.ones(30), due[k]), plan, asked)
        assert found.verdict == "undecided"
        assert found.looks[-1].worst_case == 1.0
    worse = judgement(baseline(), candidate(np.where(RATES == 1, 1.0, 0.0), due[first - 1]), plan, asked)
    assert worse.verdict == "regression"
    assert worse.looks[-1].tasks < 30
    assert worse.difference.high is not None
    assert worse.difference.high < 0, "the interval agrees with the verdict"
    passed = judgement(baseline(), candidate(np.ones(30), due[-1]), plan, asked)
    assert passed.verdict == "pass"
    mean = np.mean(1.0 - baseline().successes / 20)
    assert passed.difference.value == pytest.approx(mean), "tasks count alike, however often each was attempted"


def test_judge_decides_as_the_plan_was_played() -> None:
    """Two implementations, the same attempts: the simulated one that the power is found by, and `judge`."""
    plan, asked = planned()
    looks = informative_order.Looks(
        np.array(plan.order), np.array(plan.runs), np.array(plan.upper), np.array(plan.reach), np.array(plan.bias)
    )
    arms = baseline().successes.astype(float), baseline().attempts.astype(float)
    dropped = power.shifted(RATES, 0.1)
    for seed in range(12):
        draws = np.random.default_rng(seed).random((1, plan.runs[-1]))
        fixed = _Fixed(draws)
        played = informative_order.simulate_looks(dropped, arms, looks, plan.margin, fixed)  # type: ignore[arg-type]
        number, rows = np.zeros(30, dtype=int), np.full((max(np.bincount(plan.order)), 30), np.nan)
        for at, task in enumerate(plan.order):
            rows[number[task], task] = draws[0, at] < dropped[task]
            number[task] += 1
        whole = grid_outcomes(rows, tasks=NAMES)
        k = plan.runs.index(int(played.runs[0]))
        found = judgement(baseline(), whole.upto(plan.attempts()[k]), plan, asked)
        assert found.verdict == {1: "regression", -1: "pass", 0: "undecided"}[int(played.said[0])]


class _Fixed:
    """A generator that gives what it was given."""

    def __init__(self, draws: np.ndarray) -> None:
        self.draws = draws

    def random(self, _: tuple[int, int]) -> np.ndarray:
        return self.draws


def test_where_no_baseline_tells_tasks_apart_passes_stay_equal() -> None:
    assert informative_settings(baseline(), GateSettings(margin=0.1, fresh=True), NAMES).ahead == 0
    single = grid_outcomes(np.ones((1, 30)), tasks=NAMES)
    assert informative_settings(single, SETTINGS, NAMES).ahead == 0
    assert informative_settings(baseline(), GateSettings(metric="steps", margin=0.1), NAMES).ahead == 0
