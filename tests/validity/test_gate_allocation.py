"""Informative tasks first, simulated with known truth: false alarms where the order follows the noise of the baseline.

Rates are low, so a task that was lucky counts as informative, comes early and then falls back: without the correction
the same gate calls unchanged candidates regressions. ETHOGRAM_LONG=1 gives the long form; run with -s to read figures.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from grids import grid_outcomes

from ethogram.questions.gate import informative_order
from ethogram.questions.gate.plan import planning_rates

LONG = os.environ.get("ETHOGRAM_LONG") == "1"
SUITES = 1500 if LONG else 60
TASKS, STORED, CANDIDATES = 40, 20, 40
SHAPES = {
    "low, Beta(1, 5)": lambda rng: rng.beta(1, 5, TASKS),
    "all 0.2": lambda rng: np.full(TASKS, 0.2),
    "many never or always": lambda rng: rng.choice([0.0, 0.02, 0.5, 1.0], TASKS, p=[0.25, 0.2, 0.35, 0.2]),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_false_alarms_where_the_order_follows_the_baseline(shape: str) -> None:
    """Share of unchanged candidates called a regression, with the bias of the order taken off and left in."""
    alarms: dict[str, list[float]] = {"corrected": [], "left in": []}
    at = np.arange(8, 4 * TASKS + 1, 8)
    for number in range(SUITES):
        rng = np.random.default_rng([8, number, len(shape)])
        rates = SHAPES[shape](rng)
        base = grid_outcomes(rng.random((STORED, TASKS)) < rates)
        counts = base.successes.astype(float), base.attempts.astype(float)
        schedule = informative_order.schedule(*counts, rng.random(TASKS), 4)
        walked = informative_order.order_information(schedule, counts, planning_rates(base), at)
        upper, _ = informative_order.look_bounds(walked, 0.05, 0.8, 0.25)
        never = np.full(upper.shape, np.inf)
        for how, bias in (("corrected", walked.bias), ("left in", np.zeros(upper.shape))):
            looks = informative_order.Looks(informative_order.ordered(schedule, int(at[-1])), at, upper, never, bias)
            again = np.random.default_rng([9, number])
            found = informative_order.simulate_looks(
                np.broadcast_to(rates, (CANDIDATES, TASKS)), counts, looks, 0.1, again
            )
            alarms[how].append(float(np.mean(found.said == 1)))
    figures = {how: (np.mean(x), np.std(x, ddof=1) / np.sqrt(SUITES)) for how, x in alarms.items()}
    told = ", ".join(f"{how} {rate:.3f} ± {error:.3f}" for how, (rate, error) in figures.items())
    print(f"informative first, {shape}: false alarms {told}")
    rate, error = figures["corrected"]
    assert rate - 2.33 * error <= 0.055
    if shape.startswith("low"):
        apart = np.array(alarms["left in"]) - np.array(alarms["corrected"])
        assert apart.mean() > 3 * apart.std(ddof=1) / np.sqrt(SUITES), "without the correction it must fail"
