"""What one attempt costs: the one price that plans, gates and experiments reckon with, as `ethogram cost` has it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ethogram.measures.outcomes import Outcomes
from ethogram.prices.resolved import PricedEpisodes, mean_per_run
from ethogram.store import Entry, Run

from .episode_costs import known_costs
from .task_names import task_name

CLEAN = ""
"""The condition without any disturbance."""


def attempt_price(outcomes: Outcomes) -> float | None:
    """Mean dollars of an attempt, tasks weighing equally, where `outcomes` have the metric `cost`.

    Attempts of unknown cost are left out; None where the cost of none is known.

    Example: `attempt_price(load_outcomes("night", metrics=["cost"]))`
    """
    cost = outcomes.figures.get("cost")
    return None if cost is None else mean_per_run(PricedEpisodes(outcomes.task, cost, np.full(cost.shape, np.nan)))


def run_price(*runs: Run) -> float | None:
    """The same of stored runs, a task of several runs being one task; disturbed attempts are left out where there are
    others."""
    chosen = [(run, entry) for run in runs for entry in _undisturbed(run)]
    tasks: dict[str, int] = {}
    task = [tasks.setdefault(task_name(entry.head), len(tasks)) for _, entry in chosen]
    cost = np.array(known_costs(chosen), dtype=np.float64)
    return mean_per_run(PricedEpisodes(np.array(task, dtype=np.int64), cost, np.full(cost.shape, np.nan)))


def _undisturbed(run: Run) -> Sequence[Entry]:
    return [e for e in run.entries if e.head.condition == CLEAN] or run.entries
