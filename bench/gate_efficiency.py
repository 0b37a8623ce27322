"""Claims: on 50 tasks of different difficulty, at 5 % false alarms and 80 % power, the gate needs at most 1.3 times Wald's
limit with two fresh arms and 1.6 times with a stored baseline of 20 passes, which is at most a fifth of the runs of the
usual two-proportion z-test; nothing is decided more often in error than was promised.

Where the gate buys its runs against a stored baseline, informative tasks come first: on suites shaped like real ones, where
many tasks always or never pass, a drop by a common shift of the logits takes at most 1.1 times Wald's limit (for equal
passes) for 0.10 and 1.4 times for 0.05, and on even suites nothing is lost.

    python bench/gate_efficiency.py [--quick] [--json] [--every 0.25] [--bought]

Every suite is drawn anew (pass rates from Beta(1.4, 0.6)). Wald's limit knows the rates, so the claims are about looks
planned from known rates. Beside them stand, measured and without a claim on their length, looks planned from what people
have: a pilot of 4 passes, or the noisy stored baseline itself. Each plan is played on many candidates at once. `--bought`
plays only the last claim: both orders are planned from the noisy baseline, and beside the shift stands a drop that breaks
a few tasks which mostly pass.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))
sys.path.insert(0, str(Path(__file__).parent))
from _common import QUICK, table, verdict
from grids import grid_outcomes

from ethogram.questions.gate import informative_order as allocation
from ethogram.questions.gate import power, sequential
from ethogram.questions.gate.allocation import led, plan_gate
from ethogram.questions.gate.plan import GatePlan, GateSettings
from ethogram.statistics import stratified

TASKS, ALPHA, POWER, STORED, PILOT = 50, 0.05, 0.8, 20, 4
SUITES, REPEATS = 4 if QUICK else 16, 200
DRAWS = SUITES * REPEATS
DESIGNS = {
    "fresh": "fresh, known rates",
    "fresh from a pilot": f"fresh, pilot of {PILOT}",
    "stored": f"stored {STORED}×, known rates",
    "stored from itself": f"stored {STORED}×, from itself",
}
CLAIMED = ("fresh", "stored")
FIXED_DRAWS = 1000 if QUICK else 4000
DROPS = (0.05, 0.10)
SHAPES: dict[str, Callable[[np.random.Generator], np.ndarray]] = {
    "38 % never pass, 20 % always": lambda rng: rng.choice([0.0, 1.0, np.nan], size=TASKS, p=[0.38, 0.20, 0.42]),
    "Beta(0.45, 0.6)": lambda rng: rng.beta(0.45, 0.6, TASKS),
    "even, Beta(2, 2)": lambda rng: rng.beta(2, 2, TASKS),
}
MOST = {0.10: 1.1, 0.05: 1.4}
"""How many times Wald's limit a drop may take on suites shaped like real ones."""
BOUGHT_SUITES, BOUGHT_REPEATS = (6, 20) if QUICK else (40, 25)
EVERY = float(sys.argv[sys.argv.index("--every") + 1]) if "--every" in sys.argv else None
NAMES = tuple(f"t{i}" for i in range(TASKS))


def suites(rng: np.random.Generator, count: int, drop: float) -> np.ndarray:
    """Pass rates of `count` suites, each able to drop by `drop`."""
    drawn = rng.beta(1.4, 0.6, (2 * count, TASKS))
    return drawn[drawn.mean(axis=1) > drop + 0.1][:count]


def divergence(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Kullback and Leibler's divergence of one attempt, from p as the truth."""
    p, q = (np.clip(x, 1e-12, 1 - 1e-12) for x in (p, q))
    return p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))


def wald(p: np.ndarray, drop: float, stored: bool) -> tuple[np.ndarray, np.ndarray]:
    """Wald's limit of the expected runs per suite if it dropped, and if nothing changed: evidence over evidence per run.

    With a stored baseline its rates count as known; with two arms the null nearest to both is their mean.
    """
    q = power.shifted(p, drop)
    beta = 1 - POWER
    dropped = POWER * np.log(POWER / ALPHA) + beta * np.log(beta / (1 - ALPHA))
    unchanged = (1 - ALPHA) * np.log((1 - ALPHA) / beta) + ALPHA * np.log(ALPHA / POWER)
    if stored:
        return dropped / divergence(q, p).mean(1), unchanged / divergence(p, q).mean(1)
    middle = (p + q) / 2
    apart = (divergence(p, middle) + divergence(q, middle)).mean(axis=1)
    back = (divergence(middle, p) + divergence(middle, q)).mean(axis=1)
    return 2 * dropped / apart, 2 * unchanged / back


def fixed(rng: np.random.Generator, drop: float, test: Callable[..., np.ndarray]) -> int:
    """The runs of both arms that one test at the end needs, by simulation, a pass of both at a time."""
    p = suites(rng, FIXED_DRAWS, drop)
    q = power.shifted(p, drop)
    low, high = 1, 64

    def found(passes: int) -> float:
        arms = (stratified.sums_of_counts(rng.binomial(passes, r), passes) for r in (p, q))
        return float(np.mean(test(*arms) <= -1.6448536))

    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if found(middle) >= POWER else (middle + 1, high)
    return 2 * TASKS * low


def z_test(first: stratified.Sums, second: stratified.Sums) -> np.ndarray:
    """The two-proportion z-test (Pearson 1900), which forgets the tasks."""
    na, nb = np.sum(first.n, axis=-1), np.sum(second.n, axis=-1)
    a, b = np.sum(first.first, axis=-1), np.sum(second.first, axis=-1)
    rate = (a + b) / (na + nb)
    variance = rate * (1 - rate) * (1 / na + 1 / nb)
    return np.where(variance > 0, (b / nb - a / na) / np.sqrt(np.where(variance > 0, variance, 1.0)), 0.0)


def by_task(first: stratified.Sums, second: stratified.Sums) -> np.ndarray:
    return stratified.score(first, second, equal=False, step=1.0, reach=1.645).z


def planned(p: np.ndarray, base: np.ndarray, rng: np.random.Generator, settings: GateSettings, how: str) -> GatePlan:
    """The plan of a suite: from its rates, from a pilot, or from its own stored baseline."""
    if how == "fresh from a pilot":
        known = rng.random((PILOT, TASKS)) < p
    elif how == "stored from itself":
        known = base
    else:
        passes = STORED if how == "stored" else 400
        # as many passes as there are, with the rates as near to the truth as they can show it
        known = np.arange(passes)[:, None] < np.round(passes * p)
    return plan_gate(grid_outcomes(known, tasks=NAMES), settings, NAMES)


def looks_bounds(plan: GatePlan, stored: float) -> tuple[np.ndarray, np.ndarray]:
    """How z is judged and how far the drop's bound lies at every look of a plan, if no attempt goes missing."""
    due = plan.attempts().astype(np.float64)
    other = np.full(due.shape, stored) if stored else due
    sizes = np.sum(due * other / np.maximum(due + other, 1.0), axis=1)
    spend = (1 - POWER) * np.minimum(np.array(plan.fractions)[: len(plan.looks)], 1.0) ** 2
    return sequential.rebound(plan.fractions, plan.upper, sizes, last=True), sequential.bounds_from_spending(
        sizes, spend
    )


def play(rng: np.random.Generator, plan: GatePlan, first: np.ndarray, rates: np.ndarray, fresh: bool) -> np.ndarray:
    """The gate on many candidates of one suite, as `judge` decides: (replicates, 2), runs and 1 found, -1 passed, 0.

    `first` are the baseline's successes per task, or its rates where it is run anew.
    """
    due = plan.attempts()
    runs, said = np.zeros(REPEATS), np.zeros(REPEATS)
    going = np.ones(REPEATS, dtype=bool)
    a, b = np.zeros((REPEATS, TASKS)), np.zeros((REPEATS, TASKS))
    upper, reach = looks_bounds(plan, 0.0 if fresh else float(STORED))
    before = np.zeros(TASKS, dtype=np.int64)
    for k, now in enumerate(due):
        b += rng.binomial(now - before, rates, b.shape)
        if fresh:
            a += rng.binomial(now - before, first, a.shape)
        arms = (a, now) if fresh else (np.broadcast_to(first, b.shape), np.full(TASKS, STORED))
        look = stratified.score(
            stratified.sums_of_counts(*arms),
            stratified.sums_of_counts(b, now),
            equal=False,
            step=1.0,
            reach=plan.upper[-1],
        )
        found = going & (-look.z >= upper[k])
        ruled = going & ~found & (-stratified.lower_end(look, reach[k]) < plan.margin)
        runs[going] = now.sum() * (2 if fresh else 1)
        said[found], said[ruled] = 1, -1
        going &= ~(found | ruled)
        before = now
    return np.stack([runs, said], axis=1)


def staged(rng: np.random.Generator, drop: float, how: str) -> dict[str, Any]:
    """The gate at work on many suites, unchanged and dropped; errors are those of the mean over suites."""
    fresh = how.startswith("fresh")
    settings = GateSettings(margin=drop, alpha=ALPHA, power=POWER, every=EVERY, fresh=fresh)
    rates = suites(rng, SUITES, drop)
    limits = wald(rates, drop, not fresh)
    played, looks, reachable = [], [], []
    for p in rates:
        base = rng.random((STORED, TASKS)) < p
        plan = planned(p, base, rng, settings, how)
        looks.append(len(plan.looks))
        reachable.append(plan.reachable)
        first = p if fresh else base.sum(axis=0)
        played.append([play(rng, plan, first, q, fresh) for q in (p, power.shifted(p, drop))])
    each = np.array(played)  # suites, unchanged or dropped, replicates, runs and verdict
    runs, said = each[..., 0].mean(axis=2), each[..., 1]
    ratio = float(runs[:, 1].mean() / limits[0].mean())
    # the length of a suite follows its limit, so the ratio is surer than either
    left = runs[:, 1] - ratio * limits[0]
    shares = {
        "found": (said[:, 1] == 1).mean(axis=1),
        "passed_in_error": (said[:, 1] == -1).mean(axis=1),
        "undecided": (said[:, 1] == 0).mean(axis=1),
        "false_alarms": (said[:, 0] == 1).mean(axis=1),
    }
    return {
        "drop": drop,
        "how": how,
        "every": EVERY,
        "draws": DRAWS,
        "looks": float(np.mean(looks)),
        "reachable": float(np.mean(reachable)),
        "runs_if_dropped": float(runs[:, 1].mean()),
        "runs_if_unchanged": float(runs[:, 0].mean()),
        "wald_if_dropped": float(limits[0].mean()),
        "wald_if_unchanged": float(limits[1].mean()),
        "to_wald": ratio,
        "to_wald_se": float(np.std(left, ddof=1) / np.sqrt(SUITES) / limits[0].mean()),
        **{name: float(x.mean()) for name, x in shares.items()},
        **{f"{name}_se": float(np.std(x, ddof=1) / np.sqrt(SUITES)) for name, x in shares.items()},
    }


def shaped(rng: np.random.Generator, shape: str, drop: float) -> np.ndarray:
    """The pass rates of one suite of a shape, able to drop so far; what the shape leaves open lies anywhere between."""
    while True:
        rates = SHAPES[shape](rng)
        rates = np.where(np.isnan(rates), rng.beta(1.2, 1.2, TASKS), rates)
        if rates.mean() > drop + 0.1:
            return rates


def broken(rng: np.random.Generator, rates: np.ndarray, drop: float) -> np.ndarray:
    """The same suite with tasks broken that mostly pass, until the mean falls by the drop."""
    after, left = rates.copy(), drop * TASKS
    for task in rng.permutation(np.flatnonzero(rates > 0.5)):
        after[task] -= min(after[task], left)
        left -= min(rates[task], left)
    return after


def along(plan: GatePlan) -> allocation.Looks:
    """The looks of a plan as `judge` sees them; nothing passes before every task was attempted."""
    upper, reach = (np.array(plan.upper), np.array(plan.reach))
    if not plan.spread:
        upper, reach = looks_bounds(plan, float(STORED))
        reach = np.where(np.all(plan.attempts() > 0, axis=1), reach, np.inf)
    bias = np.array(plan.bias) if plan.bias else np.zeros(len(plan.runs))
    return allocation.Looks(np.array(plan.order), np.array(plan.runs), upper, reach, bias)


def bought(shape: str, drop: float) -> list[dict[str, Any]]:
    """Equal passes and informative tasks first, on the same suites, baselines and draws."""
    settings = GateSettings(margin=drop, alpha=ALPHA, power=POWER, every=EVERY)
    kept: dict[str, list[list[allocation.PlayedComparison]]] = {"equal passes": [], "informative first": []}
    limits, spent = [], dict.fromkeys(kept, 0.0)
    for number in range(BOUGHT_SUITES):
        rng = np.random.default_rng([11, round(100 * drop), number, len(shape)])
        p = shaped(rng, shape, drop)
        base = grid_outcomes(rng.random((STORED, TASKS)) < p, tasks=NAMES)
        limits.append(float(wald(p[None], drop, True)[0][0]))
        truths = p, power.shifted(p, drop), broken(rng, p, drop)
        for how, asked in (("equal passes", settings), ("informative first", led(base, settings, NAMES))):
            before = time.process_time()
            looks = along(plan_gate(base, asked, NAMES))
            arms, again = (base.successes, base.attempts), np.random.default_rng([5, number])
            each = (np.broadcast_to(q, (BOUGHT_REPEATS, TASKS)) for q in truths)
            kept[how].append([allocation.simulate_looks(q, arms, looks, drop, again) for q in each])
            spent[how] += time.process_time() - before
    return [_bought(shape, drop, how, kept[how], np.array(limits), spent[how]) for how in kept]


def _bought(
    shape: str, drop: float, how: str, played: list[list[allocation.PlayedComparison]], limits: np.ndarray, cpu: float
) -> dict[str, Any]:
    runs = np.array([[x.runs.mean() for x in suite] for suite in played])
    said = np.array([[[np.mean(x.said == v) for v in (1, -1)] for x in suite] for suite in played])
    ratio = float(runs[:, 1].mean() / limits.mean())
    left, few = runs[:, 1] - ratio * limits, np.sqrt(len(played))
    shares = {
        "false_alarms": said[:, 0, 0],
        "found": said[:, 1, 0],
        "passed_in_error": said[:, 1, 1],
        "broken_found": said[:, 2, 0],
        "broken_passed": said[:, 2, 1],
    }
    return {
        "shape": shape,
        "drop": drop,
        "how": how,
        "wald": float(limits.mean()),
        "runs_if_dropped": float(runs[:, 1].mean()),
        "runs_if_unchanged": float(runs[:, 0].mean()),
        "runs_if_broken": float(runs[:, 2].mean()),
        "to_wald": ratio,
        "to_wald_se": float(np.std(left, ddof=1) / few / limits.mean()),
        "cpu_s": cpu,
        **{name: float(x.mean()) for name, x in shares.items()},
        **{f"{name}_se": float(np.std(x, ddof=1) / few) for name, x in shares.items()},
    }


def told(found: list[dict[str, Any]]) -> bool:
    """The table of bought runs, and whether its claims hold (99 % bounds of the simulation error)."""
    rows = [
        [
            c["shape"],
            f"{c['drop']:g}",
            c["how"],
            round(c["wald"]),
            round(c["runs_if_dropped"]),
            shown(c, "to_wald", 2),
            round(c["runs_if_unchanged"]),
            shown(c, "false_alarms", 3),
            shown(c, "found", 2),
            f"{c['passed_in_error']:.2f}",
            round(c["runs_if_broken"]),
            f"{c['broken_found']:.2f}",
            f"{c['broken_passed']:.2f}",
        ]
        for c in found
    ]
    columns = (
        "suite,drop,order,Wald,gate,to Wald,unchanged,false alarms,found,passed,if broken,broken found,broken passed"
    )
    table(f"bought runs, {BOUGHT_SUITES} suites × {BOUGHT_REPEATS} candidates each", columns.split(","), rows)
    held = []
    for equal, ahead in zip(found[::2], found[1::2], strict=True):
        name = f"{ahead['shape']}, drop {ahead['drop']:g}"
        if ahead["shape"].startswith("even"):
            worst = equal["to_wald"] + 2.33 * np.hypot(equal["to_wald_se"], ahead["to_wald_se"])
            held.append(verdict(f"{name}: nothing lost", ahead["to_wald"] <= worst))
        else:
            most = MOST[ahead["drop"]]
            surely = ahead["to_wald"] - 2.33 * ahead["to_wald_se"]
            held.append(verdict(f"{name}: at most {most} × Wald ({shown(ahead, 'to_wald', 2)})", surely <= most))
        for c in (equal, ahead):
            alarms = c["false_alarms"] - 2.33 * c["false_alarms_se"]
            least = c["found"] + 2.33 * c["found_se"]
            held.append(verdict(f"{name}, {c['how']}: false alarms {shown(c, 'false_alarms', 3)}", alarms <= 0.055))
            held.append(verdict(f"{name}, {c['how']}: found {shown(c, 'found', 2)}", least >= POWER - 0.02))
    return all(held)


def cells() -> list[dict[str, Any]]:
    """All drops and designs."""
    made = []
    for drop in DROPS:
        rng = np.random.default_rng([7, round(100 * drop)])
        z, strata = fixed(rng, drop, z_test), fixed(rng, drop, by_task)
        for how in DESIGNS:
            before = time.process_time()
            cell = staged(rng, drop, how) | {"z_test": z, "fixed_by_task": strata}
            made.append({**cell, "to_z_test": cell["runs_if_dropped"] / z, "cpu_s": time.process_time() - before})
    return made


def shown(cell: dict[str, Any], name: str, digits: int) -> str:
    """A figure with its Monte-Carlo error."""
    return f"{cell[name]:.{digits}f} ± {cell[name + '_se']:.{digits}f}"


def main() -> bool:
    ordered = [c for shape in SHAPES for drop in DROPS for c in bought(shape, drop)]
    found = [] if "--bought" in sys.argv else cells()
    if "--json" in sys.argv:
        facts = {"tasks": TASKS, "alpha": ALPHA, "power": POWER, "stored": STORED}
        print(json.dumps({**facts, "bought": ordered, "cells": found}, indent=1))
        return True
    kept = told(ordered)
    return kept and (not found or known(found))


def known(found: list[dict[str, Any]]) -> bool:
    """The table of looks planned from known rates, and whether its claims hold."""
    rows = [
        [
            f"{c['drop']:g}",
            DESIGNS[c["how"]],
            c["z_test"],
            c["fixed_by_task"],
            round(c["runs_if_dropped"]),
            round(c["runs_if_unchanged"]),
            round(c["wald_if_dropped"]),
            shown(c, "to_wald", 2),
            f"1/{1 / c['to_z_test']:.1f}",
            shown(c, "false_alarms", 3),
            shown(c, "found", 3),
            shown(c, "passed_in_error", 3),
            f"{c['reachable']:.0%}",
            f"{c['cpu_s']:.0f} s",
        ]
        for c in found
    ]
    columns = (
        "drop,design,z-test,fixed by task,gate,unchanged,Wald,to Wald,to z,false alarms,found,passed,reachable,CPU"
    )
    table(f"expected runs, {TASKS} tasks, {SUITES} suites × {REPEATS} candidates each", columns.split(","), rows)
    held = []
    for c in found:
        name = f"drop {c['drop']:g}, {c['how']}"
        alarms = c["false_alarms"] - 2 * c["false_alarms_se"]
        held.append(verdict(f"{name}: false alarms {shown(c, 'false_alarms', 3)}", alarms <= 0.055))
        if c["how"] not in CLAIMED:
            continue
        most = 1.6 if c["how"] == "stored" else 1.3
        surely = c["to_wald"] - 2 * c["to_wald_se"]
        held.append(verdict(f"{name}: at most {most} × Wald ({shown(c, 'to_wald', 2)})", surely <= most))
        if c["how"] == "stored":
            held.append(verdict(f"{name}: a fifth of the z-test (1/{1 / c['to_z_test']:.1f})", c["to_z_test"] <= 0.2))
    return all(held)


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
