"""The gate as people use it, simulated: planned from what a baseline happened to show, asked too early and too often,
with attempts missing and a resume in between. Naive gates fail the same checks.

Set ETHOGRAM_LONG=1 for the long form; run with -s to read the figures.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import numpy as np
import pytest
from grids import grid_outcomes

from ethogram.measures.comparison import compare_outcomes
from ethogram.measures.outcomes import Outcomes
from ethogram.questions.gate import power
from ethogram.questions.gate.allocation import plan_gate
from ethogram.questions.gate.monitor import watch
from ethogram.questions.gate.plan import GatePlan, GateSettings
from ethogram.questions.gate.verdict import judgement
from ethogram.statistics import stratified

LONG = os.environ.get("ETHOGRAM_LONG") == "1"
SUITES = 1500 if LONG else 60
"""Suites of the staged gate, each with its own rates, baseline and plan."""
TASKS, STORED, MARGIN = 50, 20, 0.1
NAMES = tuple(f"t{i}" for i in range(TASKS))
HOUR = 3_600_000_000_000


def error(rate: float, draws: int) -> float:
    return float(3 * np.sqrt(rate * (1 - rate) / draws))


def made(values: np.ndarray, at_ns: np.ndarray | None = None) -> Outcomes:
    return grid_outcomes(values, tasks=NAMES[: values.shape[1]], at_ns=at_ns)


def suites(rng: np.random.Generator, count: int) -> np.ndarray:
    p = rng.beta(1.4, 0.6, (2 * count, TASKS))
    return p[p.mean(axis=1) > 0.25][:count]


def passes(rng: np.random.Generator, p: np.ndarray, count: int, missing: float = 0.0) -> Outcomes:
    values = (rng.random((count, p.size)) < p).astype(float)
    values[rng.random(values.shape) < missing] = np.nan
    return made(values)


def ever(base: Outcomes, whole: Outcomes, plan: GatePlan, settings: GateSettings, rng: np.random.Generator) -> str:
    """Ask after a part of the attempts has come in, cut anywhere, then at the end: a regression that was called once
    stands, while a pass must hold at the end too."""
    said = []
    for share in (*np.sort(rng.random(1)), 1.0):
        there = np.arange(whole.task.size) < share * whole.task.size
        first = base.where(np.arange(base.task.size) < share * base.task.size) if settings.fresh else base
        said.append(judgement(first, whole.where(there), plan, settings).verdict)
    assert "regression" not in said or said[-1] == "regression", "a regression that stood was taken back"
    return said[-1]


@pytest.mark.parametrize("design", ["stored", "fresh"])
def test_the_staged_gate_keeps_its_promises(design: str) -> None:
    rng = np.random.default_rng([50, len(design)])
    settings = GateSettings(margin=MARGIN, fresh=design == "fresh")
    said: dict[str, Counter[str]] = {"unchanged": Counter(), "dropped": Counter()}
    planned = []
    for p in suites(rng, SUITES):
        known = passes(rng, p, STORED)
        plan = plan_gate(known, settings, NAMES)
        planned.append(plan.power)
        most = int(np.ceil(plan.looks[-1]))
        for case, q in (("unchanged", p), ("dropped", power.shifted(p, MARGIN))):
            base = passes(rng, p, most) if settings.fresh else known
            missing = 0.08 if case == "unchanged" else 0.0
            said[case][ever(base, passes(rng, q, most, missing), plan, settings, rng)] += 1
    alarms, found, silent = (
        said[case][verdict] / SUITES
        for case, verdict in (("unchanged", "regression"), ("dropped", "regression"), ("dropped", "pass"))
    )
    print(
        f"\n{design}, {SUITES} suites: false alarms {alarms:.3f}, found {found:.3f} (planned {np.mean(planned):.3f}), "
    )
    print(f"  passed at a drop of the margin {silent:.3f}; unchanged {dict(said['unchanged'])}")
    assert alarms <= 0.055 + error(0.055, SUITES)
    assert found >= np.mean(planned) - 0.02 - error(0.8, SUITES)
    assert silent <= 0.2 + error(0.2, SUITES)


def test_watching_for_ever() -> None:
    """Two hundred nights, asked after each: the e-process alarms seldom, and finds what is there."""
    rng = np.random.default_rng(51)
    draws, nights = (2000, 400) if LONG else (150, 120)
    alarms, found = 0, 0
    for p in suites(rng, draws):
        alarms += (
            watch(passes(rng, p, nights, 0.05), passes(rng, p, nights), GateSettings(), NAMES).alarm_at is not None
        )
        dropped = passes(rng, power.shifted(p, MARGIN), 40)
        found += watch(passes(rng, p, 40), dropped, GateSettings(), NAMES).alarm_at is not None
    print(
        f"\nwatching {nights} nights: false alarms {alarms / draws:.3f}; "
        f"a drop of {MARGIN} found in 40: {found / draws:.3f}"
    )
    assert alarms / draws <= 0.05 + error(0.05, draws)
    assert found / draws > 0.95


def test_one_look_of_compare() -> None:
    rng = np.random.default_rng(52)
    draws = 8000 if LONG else 800
    said: Counter[tuple[int, str]] = Counter()
    for i, p in enumerate(suites(rng, draws)):
        attempts = (1, 3, 8)[i % 3]
        found = compare_outcomes(passes(rng, p, attempts, 0.05), passes(rng, p, (attempts + 1) // 2))
        said[attempts, found.verdict] += 1
    each = draws / 3
    for attempts in (1, 3, 8):
        wrong = 1 - said[attempts, "undecided"] / sum(v for k, v in said.items() if k[0] == attempts)
        print(f"\ncompare after {attempts} attempts: called a change {wrong:.3f} of the time when there is none")
        assert wrong <= 0.055 + error(0.055, int(each))


def in_sessions(rng: np.random.Generator, p: np.ndarray, sessions: int, each: int, sd: float) -> np.ndarray:
    """Passes at different times, all tasks of a session shifted together."""
    logit = np.log(p / (1 - p))
    shift = np.repeat(sd * rng.standard_normal((sessions, 1)), each, axis=0)
    return (rng.random((sessions * each, p.size)) < 1 / (1 + np.exp(-logit - shift))).astype(float)


@pytest.mark.parametrize("sessions", [2, 10])
def test_the_measured_floor_keeps_the_level_where_sessions_differ(sessions: int) -> None:
    """A stored baseline of some evenings, a candidate of one: without the floor the gate raises false alarms."""
    rng = np.random.default_rng([53, sessions])
    draws = 1000 if LONG else 50
    alarms: Counter[str] = Counter()
    settings = GateSettings(margin=MARGIN)
    plan = None
    times = np.repeat(np.arange(sessions) * HOUR, STORED // sessions * TASKS)
    for p in suites(rng, draws):
        p = np.clip(p, 0.02, 0.98)
        values = in_sessions(rng, p, sessions, STORED // sessions, 0.3)
        # one plan for all: looks do not depend on the floor, and planning is what takes time
        plan = plan or plan_gate(made(values), settings, NAMES)
        candidate = made(in_sessions(rng, p, 1, int(np.ceil(plan.looks[-1])), 0.3))
        for name, base in (("with", made(values, times)), ("without", made(values))):
            alarms[name] += judgement(base, candidate, plan, settings).verdict == "regression"
    with_floor, without = (alarms[name] / draws for name in ("with", "without"))
    print(f"\n{sessions} sessions, 4 points apart: false alarms {with_floor:.3f} with the floor, {without:.3f} without")
    assert with_floor <= 0.055 + error(0.055, draws)
    assert without >= with_floor
    if LONG:
        assert without > 0.10


def test_naive_gates_fail_the_same_checks(pooled_z: Any) -> None:
    """Peeking with a fixed test, worse than one re-run, and a test that forgets the tasks."""
    rng = np.random.default_rng(54)
    draws = 600 if LONG else 250
    peeked = rerun = 0
    for p in suites(rng, draws):
        base, candidate = (rng.random((12, TASKS)) < p for _ in range(2))
        looks = [compare_outcomes(made(base[:k]), made(candidate[:k]), level=0.9).verdict for k in range(1, 11)]
        peeked += "regression" in looks
        rerun += candidate[0].mean() < base[0].mean() - abs(base[0].mean() - base[1].mean())
    p = suites(rng, 4000)
    arms: list[Any] = [stratified.sums_of_counts(rng.binomial(4, p), 4) for _ in range(2)]
    unpaired = float(np.mean(pooled_z(*arms) <= -1.645))
    worse = [arms[0], stratified.sums_of_counts(rng.binomial(4, power.shifted(p, MARGIN)), 4)]
    z, strata = pooled_z(*worse), stratified.score(*worse, equal=False, step=1.0, reach=1.645).z
    seen = float(np.mean(z <= -1.645)), float(np.mean(strata <= -1.645))
    print(f"\npeeking ten times {peeked / draws:.3f}; worse than one re-run {rerun / draws:.3f}; ")
    print(
        f"  unpaired z: false alarms {unpaired:.3f}, finds {seen[0]:.3f} where the stratified test finds {seen[1]:.3f}"
    )
    assert peeked / draws > 0.055 + error(0.055, draws)
    assert rerun / draws > 0.055 + error(0.055, draws)
    assert unpaired < 0.035, "it wastes what was promised"
    assert seen[0] < seen[1] - 0.08
