"""The number of attempts that a decision needs, and their cost, from a pilot run or from assumptions."""

from __future__ import annotations

from typing import ClassVar

import msgspec
import numpy as np

from ethogram.arguments import at_least
from ethogram.display import Drawing, Presentation
from ethogram.reading.attempt_prices import attempt_price
from ethogram.reading.outcomes import load_outcomes
from ethogram.reading.samples import sampled_run
from ethogram.store import Home, Run

from . import planner
from .plan import planning_rates
from .planner import ComparisonPlan, PlanSettings


class PlanResult(ComparisonPlan, kw_only=True):
    """Runs and dollars of a comparison that is not yet run."""

    presentation: ClassVar[Presentation] = Presentation(
        headline="at most {runs} attempts at {tasks} tasks to detect a drop of {drop}",
        facts=("pilot", "power", "alpha", "cost_usd", "expected_if_dropped", "expected_if_unchanged", "fixed_runs"),
        hidden=("looks",),
        drawing=Drawing(
            "what",
            "runs",
            "runs",
            "bars",
            fields=("expected_if_dropped", "expected_if_unchanged", "fixed_runs", "runs"),
        ),
    )

    pilot: str | None
    alpha: float
    target_power: float
    stored: float
    price: float | None


_DEFAULTS = PlanSettings()


def plan(
    pilot: str | Run | None = None,
    *,
    home: Home | str | None = None,
    tasks: int = 50,
    rate: float = 0.7,
    spread: float = 0.25,
    seed: int = 0,
    drop: float | None = _DEFAULTS.drop,
    alpha: float = _DEFAULTS.alpha,
    power: float = _DEFAULTS.power,
    stored: float = _DEFAULTS.stored,
    every: float | None = _DEFAULTS.every,
    usd_per_run: float | None = _DEFAULTS.usd_per_run,
    max_runs: int | None = _DEFAULTS.max_runs,
    max_usd: float | None = _DEFAULTS.max_usd,
) -> PlanResult:
    """How many attempts a comparison needs, and their price.

    The tasks' pass rates come from the run `pilot`, or without one from `tasks`, their mean `rate` and its `spread`.
    `drop` is the drop to detect; None asks for the drop that `max_runs` or `max_usd` can detect. `stored` is the number
    of attempts per task that the baseline has already (0: both versions are run), `every` the attempts per task between
    looks, `usd_per_run` what one attempt costs (by default what those of the pilot cost), `seed` that of the simulation
    which checks the plan. Raises `BadUsage` for a value that makes no sense.

    Example: `plan(drop=0.1, stored=20, usd_per_run=0.05).runs`
    """
    at_least("seed", seed)
    settings = PlanSettings(
        drop=drop,
        alpha=alpha,
        power=power,
        stored=stored,
        every=every,
        usd_per_run=usd_per_run,
        max_runs=max_runs,
        max_usd=max_usd,
    )
    name = None
    if pilot is None:
        rates = planner.assumed_rates(tasks, rate, spread)
    else:
        found = sampled_run(pilot, home)
        outcomes = load_outcomes(found, metrics=["cost"])
        rates, name = planning_rates(outcomes), found.name
        if settings.usd_per_run is None:
            settings = msgspec.structs.replace(settings, usd_per_run=attempt_price(outcomes))
    made = planner.plan_comparison(rates, settings, np.random.default_rng(seed))
    return PlanResult(
        **msgspec.structs.asdict(made),
        pilot=name,
        alpha=settings.alpha,
        target_power=settings.power,
        stored=settings.stored,
        price=settings.usd_per_run,
    )
