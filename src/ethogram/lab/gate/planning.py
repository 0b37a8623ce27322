"""How many runs does a decision take, and what do they cost? From a pilot run, or from assumptions."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from ethogram.decide import planner
from ethogram.decide.gate_plan import planning_rates
from ethogram.decide.planner import PlanSettings, Simulated
from ethogram.lab.outcomes.columns import load_outcomes, run_of
from ethogram.measure.outcomes import Outcomes
from ethogram.result import Result
from ethogram.store import Home, Run


class PlanResult(Result, kw_only=True):
    """Runs and dollars of a comparison that is not yet run."""

    pilot: str | None
    drop: float
    alpha: float
    target_power: float
    stored: float
    tasks: int
    looks: list[float]
    attempts_per_task: int
    runs: int
    expected_if_dropped: float
    expected_if_unchanged: float
    fixed_runs: float | None
    power: float
    price: float | None
    cost_usd: float | None
    expected_cost_usd: float | None
    simulated: Simulated


def plan_runs(
    pilot: str | Run | None = None,
    settings: PlanSettings | None = None,
    *,
    home: Home | str | None = None,
    tasks: int = 50,
    rate: float = 0.7,
    spread: float = 0.25,
    seed: int = 0,
    **given: Any,
) -> PlanResult:
    """How many runs, what price: from a pilot run, or from assumptions about the tasks."""
    settings = msgspec.structs.replace(settings or PlanSettings(), **given)
    name = None
    if pilot is None:
        rates = planner.assumed_rates(tasks, rate, spread)
    else:
        found = run_of(pilot, home)
        outcomes = load_outcomes(found, metrics=["cost"])
        rates, name = planning_rates(outcomes), found.name
        if settings.price is None:
            settings = msgspec.structs.replace(settings, price=price_of(outcomes))
    made = planner.plan_runs(rates, settings, np.random.default_rng(seed))
    return PlanResult(
        pilot=name,
        alpha=settings.alpha,
        target_power=settings.power,
        stored=settings.stored,
        price=settings.price,
        **{f: getattr(made, f) for f in made.__struct_fields__},
    )


def price_of(outcomes: Outcomes) -> float | None:
    """The mean recorded cost of an episode, None where no log said."""
    known = outcomes.figures.get("cost")
    if known is None or np.all(np.isnan(known)):
        return None
    return float(np.nanmean(known))
