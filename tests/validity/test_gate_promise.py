"""What the gate promises, end to end: planned from a noisy baseline, attempts in their drawn order, some missing.

False alarms, power against the power that was promised, drops that pass, and the coverage of the interval at the stop,
on suites of every shape: tasks that always or never pass, two tasks, a thousand. The candidate is bought look by look
as `gate --buy` does, so stopping is included.

Set ETHOGRAM_LONG=1 for the long form; run with -s to read the figures. A limit counts as broken when the 99 % bound of
the simulation's error lies beyond it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from grids import grid_outcomes

from ethogram.measures.outcomes import Outcomes
from ethogram.questions.gate import power
from ethogram.questions.gate.allocation import plan_gate
from ethogram.questions.gate.plan import GatePlan, GateSettings
from ethogram.questions.gate.verdict import Judgement, judgement

LONG = os.environ.get("ETHOGRAM_LONG") == "1"
EACH = 10 if LONG else 4
"""Candidates of every kind for each baseline."""
Floats = np.ndarray


def shaped(never: float, always: float) -> Callable[[np.random.Generator, int], Floats]:
    """Suites where these shares of the tasks never and always pass, and the others do so at any rate."""

    def draw(rng: np.random.Generator, tasks: int) -> Floats:
        place = (rng.permutation(tasks) + 0.5) / tasks
        return np.where(place < never, 0.0, np.where(place < never + always, 1.0, rng.random(tasks)))

    return draw


SHAPES: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "beta": lambda rng, tasks: rng.beta(1.4, 0.6, tasks),
    "38 % never, 20 % always": shaped(0.38, 0.20),
    "20 % never, 60 % always": shaped(0.20, 0.60),
    "easy": lambda rng, tasks: rng.beta(9, 0.5, tasks),
}


class Case(NamedTuple):
    shape: str
    tasks: int
    margin: float
    stored: int
    missing: float
    suites: int


CASES = [
    Case("38 % never, 20 % always", 50, 0.1, 20, 0.05, 300),
    Case("20 % never, 60 % always", 50, 0.1, 20, 0.05, 300),
    Case("38 % never, 20 % always", 1000, 0.05, 20, 0.05, 100),
]
SLOW = [
    Case("beta", 50, 0.1, 20, 0.05, 300),
    Case("38 % never, 20 % always", 50, 0.05, 20, 0.0, 150),
    Case("easy", 50, 0.1, 10, 0.05, 300),
    Case("beta", 50, 0.1, 5, 0.0, 300),
    Case("beta", 2, 0.25, 20, 0.05, 100),
]
"""Plans with many looks: only in the long form."""


class Found(NamedTuple):
    """Shares over suites, each with its standard error."""

    alarms: tuple[float, float]
    short: tuple[float, float]
    promised: float
    found: tuple[float, float]
    silent: tuple[float, float]
    covered: tuple[float, float]


def dropped(p: Floats, margin: float) -> Floats | None:
    """The rates after a drop by one shift of all logits; None where these tasks cannot drop so far."""
    able = (p > 0) & (p < 1)
    if p[able].sum() < 1.1 * margin * p.size:
        return None
    q = p.copy()
    q[able] = power.shifted(p[able], margin * p.size / able.sum())
    return q


def passes(rng: np.random.Generator, p: Floats, count: int, missing: float) -> Outcomes:
    values = (rng.random((count, p.size)) < p).astype(float)
    values[rng.random(values.shape) < missing] = np.nan
    return grid_outcomes(values, tasks=[f"task-{i}" for i in range(p.size)])


def bought(base: Outcomes, whole: Outcomes, plan: GatePlan, settings: GateSettings) -> Judgement:
    """Look by look, no further than the verdict needs."""
    found = None
    for due in plan.attempts():
        if found is not None and not int(due.sum()):
            continue
        found = judgement(base, whole.upto(due), plan, settings)
        if found.verdict != "undecided":
            break
    assert found is not None
    return found


def mean(values: list[float]) -> tuple[float, float]:
    x = np.array(values)
    return float(x.mean()), float(x.std(ddof=1) / np.sqrt(x.size))


def played(case: Case, rng: np.random.Generator) -> Found:
    settings = GateSettings(margin=case.margin)
    suites = case.suites if LONG else max(case.suites // 25, 6)
    shares: dict[str, list[float]] = {name: [] for name in ("alarms", "found", "silent", "covered", "promised")}
    while len(shares["alarms"]) < suites:
        p = SHAPES[case.shape](rng, case.tasks)
        q = dropped(p, case.margin)
        base = passes(rng, p, case.stored, case.missing)
        if q is None or float(base.metric("success")[base.scored].mean()) < 1.2 * case.margin:
            continue
        plan = plan_gate(base, settings, base.tasks)
        most = int(plan.attempts()[-1].max())
        none = [bought(base, passes(rng, p, most, case.missing), plan, settings) for _ in range(EACH)]
        real = [bought(base, passes(rng, q, most, case.missing), plan, settings) for _ in range(EACH)]
        truth = [0.0] * EACH + [float(np.mean(q - p))] * EACH
        inside = [
            d.difference.low <= t <= d.difference.high
            for d, t in zip([*none, *real], truth, strict=True)
            if d.difference.low is not None and d.difference.high is not None
        ]
        shares["alarms"].append(float(np.mean([d.verdict == "regression" for d in none])))
        shares["found"].append(float(np.mean([d.verdict == "regression" for d in real])))
        shares["silent"].append(float(np.mean([d.verdict == "pass" for d in real])))
        shares["covered"].append(float(np.mean(inside)))
        shares["promised"].append(plan.power)
    short = [b - a for a, b in zip(shares["found"], shares["promised"], strict=True)]
    return Found(
        mean(shares["alarms"]),
        mean(short),
        float(np.mean(shares["promised"])),
        mean(shares["found"]),
        mean(shares["silent"]),
        mean(shares["covered"]),
    )


def surely_above(figure: tuple[float, float], limit: float) -> bool:
    return figure[0] - 2.576 * figure[1] > limit


@pytest.mark.parametrize(
    "case", CASES + SLOW if LONG else CASES, ids=lambda c: f"{c.shape}-{c.tasks}-{c.margin}-{c.stored}"
)
def test_the_promise_is_kept(case: Case) -> None:
    found = played(case, np.random.default_rng([90, case.tasks, case.stored, int(1000 * case.margin)]))
    shown = {name: "{:.3f} ± {:.3f}".format(*getattr(found, name)) for name in ("alarms", "found", "silent", "covered")}
    print(
        f"\n{case.shape}, {case.tasks} tasks × {case.stored}, margin {case.margin:g}, {case.missing:.0%} missing: "
        f"false alarms {shown['alarms']}, found {shown['found']} (promised {found.promised:.3f}), "
        f"passed {shown['silent']}, interval covers {shown['covered']}"
    )
    assert not surely_above(found.alarms, 0.055)
    assert not surely_above(found.short, 0.02)
    assert not surely_above(found.silent, 0.2)
    assert not surely_above((-found.covered[0], found.covered[1]), -0.9)
