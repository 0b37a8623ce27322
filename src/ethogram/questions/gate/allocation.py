"""Allocation of attempts to tasks: the plan of a gate that buys its attempts against a stored baseline.

Looks, bounds and promises are those of any gate; what differs is the order (`informative_order`): informative tasks
come early, so that a drop is seen after fewer runs, and in the end every task has as many attempts as any other. A
regression needs no particular task, a pass needs all of them and is about their plain mean.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from ethogram.measures.outcomes import Floats, Ints, Outcomes

from . import informative_order
from . import plan as gate_plan
from .noise import outcome_floor
from .order import places
from .plan import (
    BOUND_SHAPE,
    PLAYED,
    GatePlan,
    GateSettings,
    believed_suites,
    missing_share,
    planning_rates,
    session_variance,
)

MOST_LOOKS = 30
"""About how many looks a plan has: more save hardly any runs."""
LEAST_RUNS = 4
"""Fewer runs than this are not worth a look."""
DRAWS = 500
"""The number of candidates that are simulated to find how long a plan must be."""


def plan_gate(base: Outcomes, settings: GateSettings, tasks: tuple[str, ...]) -> GatePlan:
    """The looks, from what the baseline says of its tasks; with `settings.ahead` along the order that informs."""
    plan = gate_plan.plan_looks(base, settings, tasks)
    return (
        _informative_plan(plan, base.only(tasks), settings)
        if settings.ahead and _knows_each_task(base, settings, tasks)
        else plan
    )


def informative_settings(base: Outcomes, settings: GateSettings, tasks: tuple[str, ...]) -> GateSettings:
    """The settings of a gate that buys its runs: informative tasks first, where a stored baseline says which they are.

    Passes of equal runs are put in order together, as many as the equal plan would take.
    """
    if not _knows_each_task(base, settings, tasks):
        return settings
    equal = gate_plan.plan_looks(base, settings, tasks)
    return msgspec.structs.replace(settings, ahead=math.ceil(equal.looks[-1]))


def _knows_each_task(base: Outcomes, settings: GateSettings, tasks: tuple[str, ...]) -> bool:
    """Whether a stored baseline says of every task how much an attempt at it informs."""
    return not settings.fresh and settings.metric == "success" and bool(np.all(base.only(tasks).attempts > 1))


def _informative_plan(equal: GatePlan, base: Outcomes, settings: GateSettings) -> GatePlan:
    """The plan along the order that informs, long enough for the promised power on suites that may lie behind it."""
    counts = base.successes.astype(np.float64), base.attempts.astype(np.float64)
    schedule = informative_order.schedule(*counts, places(equal.tasks), settings.ahead)
    size, most = len(equal.tasks), max(2 * equal.runs[-1], 2 * len(equal.tasks))
    step = max(round(settings.every * size) if settings.every else math.ceil(equal.runs[-1] / MOST_LOOKS), LEAST_RUNS)
    rates = planning_rates(base)
    suites = tuple(x[:DRAWS] for x in believed_suites(base, equal.margin))
    floor = outcome_floor(base, "success")
    extra = session_variance(floor, settings, equal, 0.0, equal.upper[-1])
    covered = 1 + int(np.unique(informative_order.ordered(schedule, settings.ahead * size), return_index=True)[1].max())
    count = math.ceil(max(0.8 * equal.runs[-1], covered) / step)
    while True:
        at = step * np.arange(1, count + 1)
        walked = informative_order.order_information(schedule, counts, rates, at)
        upper, reach = informative_order.look_bounds(walked, settings.looks_alpha, settings.power, BOUND_SHAPE)
        looks = informative_order.Looks(informative_order.ordered(schedule, int(at[-1])), at, upper, reach, walked.bias)
        none, real = _played(suites, counts, looks, equal.margin, extra, missing_share(base))
        if np.mean(real.said == 1) >= settings.power or at[-1] >= most:
            break
        count = max(count + 1, round(1.12 * count))
    return msgspec.structs.replace(
        equal,
        order=tuple(looks.order.tolist()),
        runs=tuple(at.tolist()),
        looks=_tuple(at / size),
        fractions=_tuple(walked.size / walked.size[-1]),
        upper=_tuple(upper),
        reach=_tuple(reach),
        spread=_tuple(rates * (1 - rates)),
        bias=_tuple(walked.bias),
        whole=float(walked.mean_size[-1]),
        power=float(np.mean(real.said == 1)),
        expected_without=float(none.runs.mean()) / size,
        expected_with=float(real.runs.mean()) / size,
        reachable=bool(np.mean(real.said == 1) >= settings.power),
    )


def _played(
    suites: tuple[Floats, ...],
    counts: tuple[Floats, Floats],
    looks: informative_order.Looks,
    margin: float,
    extra: float,
    missing: float,
) -> list[informative_order.PlayedComparison]:
    """Candidates of suites that may lie behind the baseline: unchanged, and after a drop of the margin."""
    rng = np.random.default_rng(PLAYED)
    apart = np.sqrt(extra) * rng.standard_normal((suites[0].shape[0], 1))
    return [
        informative_order.simulate_looks(
            np.clip(q + apart, 0.0, 1.0), counts, looks, margin, rng, extra=extra, missing=missing
        )
        for q in suites
    ]


def _tuple(values: Floats | Ints) -> tuple[float, ...]:
    return tuple(float(v) for v in values)
