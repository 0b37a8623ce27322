"""Make docs/assets/gate-runs.svg and print its table: what the gate needs beside the usual tests and Wald's limit.

    python scripts/make_gate_picture.py        half a minute

One plan per cell, made from the known spread of the tasks, and played on thousands of suites at once.
bench/gate_efficiency.py does the same with a noisy baseline and a plan of its own for every suite.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "bench"))
from gate_efficiency import ALPHA, POWER, STORED, TASKS, by_task, fixed, suites, wald, z_test  # noqa: E402

from ethogram.display.chart import CONFIG  # noqa: E402
from ethogram.questions.field.charts import compare_variance_bar  # noqa: E402
from ethogram.questions.gate import power  # noqa: E402
from ethogram.questions.gate.order import equal_attempts  # noqa: E402
from ethogram.questions.gate.plan import BOUND_SHAPE, pace  # noqa: E402

SUITES = 6000


def gate_runs(rng: np.random.Generator, drop: float, stored: int) -> tuple[float, float, float, float]:
    """Mean runs if it dropped and if nothing changed, how often it was found, and false alarms."""
    p = suites(rng, SUITES, drop)
    q = power.shifted(p, drop)
    effect = power.effect_between(p, q, TASKS)
    plan = power.sequential_plan(effect, ALPHA, POWER, every=pace(None, TASKS), delta=BOUND_SHAPE, stored=stored)
    assert plan is not None
    due = equal_attempts(list(plan.looks), TASKS)
    attempts = (np.full(due.shape, stored) if stored else due, due)
    real, none = (power.simulate(p, rates, attempts, plan, drop, rng) for rates in (q, p))
    runs = [o.second + (0 if stored else o.first) for o in (real, none)]
    return runs[0], runs[1], real.found, none.found


def main() -> int:
    rng = np.random.default_rng(12)
    rows, lines = (
        [],
        ["| drop, baseline | z-test | by task, one look | gate | unchanged | Wald | × Wald | found | false alarms |"],
    )
    lines.append("|---|---|---|---|---|---|---|---|---|")
    for drop in (0.05, 0.10):
        usual, paired = fixed(rng, drop, z_test), fixed(rng, drop, by_task)
        for stored, name in ((0, "run anew"), (STORED, f"stored {STORED}×")):
            dropped, unchanged, found, false = gate_runs(rng, drop, stored)
            limit = float(wald(suites(rng, 4000, drop), drop, bool(stored))[0].mean())
            cells = [usual, paired, round(dropped), round(unchanged), round(limit)]
            lines.append(
                f"| {drop:.2f}, {name} | {' | '.join(f'{c:,}' for c in cells)} | {dropped / limit:.2f} | {found:.2f} | "
                f"{false:.3f} |"
            )
            label = f"drop {drop:.2f}, {name}"
            for who, value in (("z-test", usual), ("by task", paired), ("gate", dropped), ("Wald's limit", limit)):
                rows.append({"dimension": label, "field": who, "value": float(value)})
    drawn = compare_variance_bar(rows)
    drawn.words = "runs to see a drop with power .8 at 5 % false alarms, on 50 tasks of different difficulty"
    drawn.spec["description"] = drawn.words
    drawn.spec["encoding"]["x"]["title"] = "runs on average"
    drawn.spec["encoding"]["color"]["sort"] = None
    drawn.spec["encoding"]["yOffset"]["sort"] = None
    drawn.spec["config"] = {**CONFIG, "background": "white"}  # a page may be dark
    drawn.save(ROOT / "docs" / "assets" / "gate-runs.svg")
    print("\n".join(lines))
    print("wrote docs/assets/gate-runs.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
