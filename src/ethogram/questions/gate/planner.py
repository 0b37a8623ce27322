"""Planning a comparison: from a pilot or from assumptions to attempts and dollars, and from a budget to a drop."""

from __future__ import annotations

import math

import msgspec
import numpy as np

from ethogram.arguments import MOST, at_least, between
from ethogram.errors import BadUsage
from ethogram.measures.outcomes import Floats
from ethogram.result import Result
from ethogram.statistics import beta

from . import power
from .order import equal_attempts
from .plan import BOUND_SHAPE, GateSettings, pace

_DRAWS = 2000
_HALVINGS = 18
"""Of the range of drops: to its millionth part, roughly."""
STORED_TRIED = (5, 10, 20, 40, 80, 160, 320)
"""Attempts per task of a stored baseline that are tried, the fewest first."""


class PlanSettings(msgspec.Struct, frozen=True, kw_only=True):
    """A comparison to be planned; the baseline already has `stored` attempts per task (0: both arms are run)."""

    drop: float | None = 0.05
    alpha: float = 0.05
    power: float = 0.8
    stored: float = 0.0
    every: float | None = None
    usd_per_run: float | None = None
    max_runs: int | None = None
    max_usd: float | None = None


class Simulated(msgspec.Struct, frozen=True, kw_only=True):
    """The chosen design, simulated: how often it found the drop, raised a false alarm, passed, or stayed open."""

    power: float
    false_alarms: float
    passed_in_error: float
    undecided: float
    runs_if_dropped: float
    runs_if_unchanged: float
    draws: int


class ComparisonPlan(Result, kw_only=True):
    """Runs for a drop, at most and on average, staged and in one go; with what they cost where a price is known."""

    drop: float
    tasks: int
    looks: list[float]
    attempts_per_task: int
    runs: int
    expected_if_dropped: float
    expected_if_unchanged: float
    fixed_runs: float | None
    power: float
    cost_usd: float | None
    expected_cost_usd: float | None
    simulated: Simulated


def assumed_rates(tasks: int, rate: float, spread: float) -> Floats:
    """Pass rates of this number of tasks with this mean and this standard deviation: even quantiles of a Beta."""
    at_least("tasks", tasks, 1)
    between("rate", rate, 0.0, 1.0)
    if not 0 <= spread < math.sqrt(rate * (1 - rate)):
        raise BadUsage(
            f"tasks with a mean rate of {rate:g} cannot spread by {spread:g}; --spread must be below "
            f"{math.sqrt(rate * (1 - rate)):.3g}"
        )
    if spread == 0:
        return np.full(tasks, rate)
    strength = rate * (1 - rate) / spread**2 - 1
    law = beta.Beta(np.asarray(rate * strength), np.asarray((1 - rate) * strength))
    places = (np.arange(tasks) + 0.5) / tasks
    return np.asarray(beta.quantile(law, places), dtype=np.float64)


def plan_comparison(rates: Floats, settings: PlanSettings, rng: np.random.Generator) -> ComparisonPlan:
    """Runs for `settings.drop`, or for the smallest drop that the budget can see."""
    _check(settings)
    if settings.drop is not None:
        plan = _plan(rates, settings.drop, settings)
        if plan is None:
            raise BadUsage(_unreachable(rates, settings.drop, settings))
        return _told(rates, settings.drop, plan, settings, rng)
    budget = _budget(settings)
    drop = detectable(rates, budget, settings)
    plan = _plan(rates, drop, settings)
    assert plan is not None
    return _told(rates, drop, plan, settings, rng)


def _check(settings: PlanSettings) -> None:
    """One sentence about what makes no sense."""
    between("alpha", settings.alpha, 0.0, 0.5)
    between("power", settings.power, 0.5, 1.0)
    for name in ("stored", "usd_per_run", "max_runs", "max_usd"):
        value = getattr(settings, name)
        if value is not None:
            at_least(name, value)
    if settings.stored > MOST:
        raise BadUsage.about("stored", f"must be at most {MOST}, not {settings.stored:g}", settings.stored)
    if settings.drop is not None and (settings.max_runs is not None or settings.max_usd is not None):
        raise BadUsage("give --drop (how many attempts it needs) or a budget (the drop that it can detect), not both")


def detectable(rates: Floats, runs: int, settings: PlanSettings) -> float:
    """The smallest drop that a staged comparison of at most `runs` runs finds with the promised power."""
    most = float(rates.mean()) * 0.98
    passes = runs / _runs(1.0, rates.size, settings)
    every, stored = pace(settings.every, rates.size), settings.stored
    low, high = 0.0, most
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        effect = power.effect_on(rates, middle, rates.size)
        fits = power.fits_within(
            effect, settings.alpha, settings.power, passes, every=every, delta=BOUND_SHAPE, stored=stored
        )
        low, high = (low, middle) if fits else (middle, high)
    if high >= most * 0.999:
        raise BadUsage(f"{runs} attempts cannot detect any drop on {rates.size} tasks; raise the budget")
    return high


def _plan(rates: Floats, drop: float, settings: PlanSettings) -> power.StagedPlan | None:
    if not 0 < drop < float(rates.mean()):
        raise BadUsage(
            f"a drop of {drop:g} is not possible from a pass rate of {rates.mean():.3g}; choose a smaller one"
        )
    effect = power.effect_on(rates, drop, rates.size)
    return power.sequential_plan(
        effect,
        settings.alpha,
        settings.power,
        every=pace(settings.every, rates.size),
        delta=BOUND_SHAPE,
        stored=settings.stored,
    )


def _budget(settings: PlanSettings) -> int:
    bounds = [] if settings.max_runs is None else [settings.max_runs]
    if settings.max_usd is not None:
        if not settings.usd_per_run:
            raise BadUsage(
                "a budget in dollars needs the price of one attempt: give --usd-per-run, or a pilot that recorded cost"
            )
        bounds.append(int(settings.max_usd / settings.usd_per_run))
    if not bounds:
        raise BadUsage("give either --drop, or a budget with --max-runs or --max-usd")
    return min(bounds)


def baseline_needed(rates: Floats, settings: GateSettings) -> int | None:
    """The fewest attempts per task of a stored baseline, by doublings, that let a gate see its margin."""
    asked = PlanSettings(drop=settings.margin, alpha=settings.alpha, power=settings.power, every=settings.every)
    return _enough_stored(rates, settings.margin, asked, 0.0)


def _unreachable(rates: Floats, drop: float, settings: PlanSettings) -> str:
    if settings.stored == 0:
        return (
            f"a drop of {drop:g} on {rates.size} tasks needs more than 100 passes; add tasks, or choose a larger drop"
        )
    enough = _enough_stored(rates, drop, settings, settings.stored)
    more = f"{enough} attempts per task are enough" if enough else "compare two fresh arms instead (--stored 0)"
    return f"a stored baseline of {settings.stored:g} attempts per task cannot show a drop of {drop:g}; {more}"


def _enough_stored(rates: Floats, drop: float, settings: PlanSettings, beyond: float) -> int | None:
    for stored in STORED_TRIED:
        tried = msgspec.structs.replace(settings, stored=float(stored))
        if stored > beyond and _plan(rates, drop, tried) is not None:
            return stored
    return None


def _runs(passes: float, tasks: int, settings: PlanSettings) -> float:
    return float(passes) * tasks * (1 if settings.stored else 2)


def _told(
    rates: Floats, drop: float, plan: power.StagedPlan, settings: PlanSettings, rng: np.random.Generator
) -> ComparisonPlan:
    tasks = rates.size
    runs = math.ceil(_runs(plan.looks[-1], tasks, settings))
    average = [_runs(x, tasks, settings) for x in (plan.expected_with, plan.expected_without)]
    fixed = power.passes_needed(power.effect_on(rates, drop, tasks), settings.alpha, settings.power, settings.stored)
    price = settings.usd_per_run
    return ComparisonPlan(
        drop=drop,
        tasks=tasks,
        looks=[float(x) for x in plan.looks],
        attempts_per_task=math.ceil(plan.looks[-1]),
        runs=runs,
        expected_if_dropped=average[0],
        expected_if_unchanged=average[1],
        fixed_runs=_runs(fixed, tasks, settings) if math.isfinite(fixed) else None,
        power=plan.power,
        cost_usd=None if price is None else runs * price,
        expected_cost_usd=None if price is None else max(average) * price,
        simulated=_simulated(rates, drop, plan, settings, rng),
    )


def _simulated(
    rates: Floats, drop: float, plan: power.StagedPlan, settings: PlanSettings, rng: np.random.Generator
) -> Simulated:
    tasks = rates.size
    draws = max(200, min(_DRAWS, 2_000_000 // (tasks * plan.looks.size)))
    due = equal_attempts(list(plan.looks), tasks)
    base = due if settings.stored == 0 else np.full(due.shape, round(settings.stored))
    p = np.broadcast_to(rates, (draws, tasks))
    q = np.broadcast_to(power.shifted(rates, drop), (draws, tasks))
    none = power.simulate(p, p, (base, due), plan, drop, rng)
    real = power.simulate(p, q, (base, due), plan, drop, rng)
    spent = [o.second + (o.first if settings.stored == 0 else 0.0) for o in (real, none)]
    return Simulated(
        power=real.found,
        false_alarms=none.found,
        passed_in_error=real.ruled_out,
        undecided=real.undecided,
        runs_if_dropped=spent[0],
        runs_if_unchanged=spent[1],
        draws=draws,
    )
