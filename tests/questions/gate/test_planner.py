"""What it costs to know: against the published figures, by its own simulation, and back from a budget."""

from __future__ import annotations

import numpy as np
import pytest

from ethogram.errors import BadUsage
from ethogram.questions.gate.plan import GateSettings
from ethogram.questions.gate.planner import PlanSettings, assumed_rates, baseline_needed, plan_comparison

SPREAD = float(np.sqrt(0.21 / 3))  # of Beta(1.4, 0.6)


@pytest.fixture(scope="module")
def rates() -> np.ndarray:
    return assumed_rates(50, 0.7, SPREAD)


def rng() -> np.random.Generator:
    return np.random.default_rng(4)


def test_assumed_rates_have_the_mean_and_the_spread(rates: np.ndarray) -> None:
    assert rates.mean() == pytest.approx(0.7, abs=0.002)
    assert rates.std() == pytest.approx(SPREAD, abs=0.005)
    np.testing.assert_array_equal(assumed_rates(3, 0.4, 0.0), [0.4] * 3)


@pytest.mark.parametrize(
    ("stored", "fixed", "dropped", "unchanged"), [(0.0, 400, 279, 241), (20.0, None, 75, 68)], ids=["fresh", "stored"]
)
def test_ten_points_cost_what_was_published(
    rates: np.ndarray, stored: float, fixed: int | None, dropped: int, unchanged: int
) -> None:
    plan = plan_comparison(rates, PlanSettings(drop=0.1, stored=stored, usd_per_run=0.02), rng())
    assert plan.power >= 0.8
    assert plan.expected_if_dropped == pytest.approx(dropped, rel=0.1)
    assert plan.expected_if_unchanged == pytest.approx(unchanged, rel=0.12)
    if fixed:
        assert plan.fixed_runs == fixed
    assert plan.runs == round(plan.looks[-1] * 50) * (1 if stored else 2)
    assert plan.cost_usd == pytest.approx(0.02 * plan.runs)
    seen = plan.simulated
    assert seen.power == pytest.approx(plan.power, abs=0.03 + 2 * np.sqrt(0.16 / seen.draws))
    assert seen.false_alarms <= 0.055 + 2 * np.sqrt(0.05 / seen.draws)
    assert seen.passed_in_error <= 0.2 + 2 * np.sqrt(0.16 / seen.draws)
    assert seen.runs_if_dropped == pytest.approx(plan.expected_if_dropped, rel=0.08)
    assert seen.power + seen.passed_in_error + seen.undecided == pytest.approx(1.0)


def test_a_budget_comes_back_as_the_drop_it_can_see(rates: np.ndarray) -> None:
    wanted = plan_comparison(rates, PlanSettings(drop=0.15, usd_per_run=0.1), rng())
    for budget in ({"max_runs": wanted.runs}, {"max_usd": wanted.runs * 0.1 + 1e-6}):
        found = plan_comparison(rates, PlanSettings(drop=None, usd_per_run=0.1, **budget), rng())
        assert found.runs <= wanted.runs
        assert found.drop <= 0.15 + 1e-3


def test_more_is_asked_more_is_paid(rates: np.ndarray) -> None:
    runs = [
        plan_comparison(rates, PlanSettings(drop=d, power=p), rng()).runs
        for d, p in ((0.2, 0.8), (0.15, 0.8), (0.15, 0.9))
    ]
    assert runs[0] < runs[1] < runs[2]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"drop": 0.9}, "not possible from a pass rate"),
        ({"drop": 0.0}, "not possible"),
        ({"drop": None}, "give either drop, or a budget"),
        ({"drop": None, "max_usd": 5.0}, "price of one attempt"),
        ({"drop": 0.1, "max_runs": 10}, "not both"),
        ({"drop": 0.02, "stored": 5.0}, "a stored baseline of 5 attempts per task cannot show a drop of 0.02"),
        ({"drop": None, "max_runs": 3}, "cannot detect any drop"),
        ({"drop": 0.1, "alpha": 0.0}, "alpha"),
        ({"drop": 0.1, "alpha": 1.5}, "alpha"),
        ({"drop": 0.1, "power": 1.0}, "power"),
        ({"drop": 0.1, "stored": -1.0}, "stored"),
        ({"drop": 0.1, "usd_per_run": -1.0}, "usd_per_run"),
    ],
)
def test_what_cannot_be_planned_is_said_in_a_sentence(rates: np.ndarray, given: dict[str, float], said: str) -> None:
    with pytest.raises(BadUsage, match=said):
        plan_comparison(rates, PlanSettings(**given), rng())


@pytest.mark.parametrize("wrong", [(0, 0.7, 0.1), (10, 0.0, 0.1), (10, 1.0, 0.1), (10, 0.7, 0.6), (10, 0.7, -0.1)])
def test_assumptions_that_cannot_be(wrong: tuple[int, float, float]) -> None:
    with pytest.raises(BadUsage):
        assumed_rates(*wrong)


def test_how_large_a_baseline_must_be(rates: np.ndarray) -> None:
    assert baseline_needed(rates, GateSettings(margin=0.1)) == 5
    assert baseline_needed(rates, GateSettings(margin=0.05)) == 10
    assert baseline_needed(np.full(2, 0.5), GateSettings(margin=0.01)) is None
