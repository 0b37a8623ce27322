"""One line about each run of a home: how much, how well, what it cost."""

from __future__ import annotations

import msgspec
import numpy as np

from ethogram.errors import EthogramError
from ethogram.estimate import Estimate
from ethogram.measures.comparison import arm_mean
from ethogram.measures.metrics import METRICS
from ethogram.measures.reliability import estimate_reliability
from ethogram.reading.episode_costs import kept_costs, run_cost
from ethogram.reading.outcomes import clean_condition, facts_of, load_outcomes
from ethogram.store import Run
from ethogram.store.episodes import Episodes

from .runs import run_outcomes

_TOKENS = METRICS["tokens"]
_FIGURES = sorted({*_TOKENS.needs, *METRICS["seconds"].needs})
"""All that is asked for below, so that the ledger is read once."""


class RunOverview(msgspec.Struct, frozen=True, kw_only=True):
    """A run in a list. What could not be known of it is None, and `problem` says why."""

    run: str
    kind: str
    created_ns: int
    tags: tuple[str, ...]
    live: bool
    episodes: int = 0
    planned: int | None = None
    scored: int = 0
    missing: dict[str, int] = {}
    tasks: int = 0
    agents: tuple[str, ...] = ()
    model: str = ""
    pass_rate: Estimate | None = None
    cost_usd: float | None = None
    at_least_usd: float = 0.0
    tokens: int | None = None
    seconds: float | None = None  # the metric of that name, of the attempts that pass_rate is of; the above are sums
    problem: str | None = None


def run_overview(run: Run) -> RunOverview:
    """The line about one run; a damaged one says its problem instead of raising."""
    info = run.info
    begun = RunOverview(run=run.name, kind=info.kind, created_ns=info.created_ns, tags=info.tags, live=bool(run.busy()))
    try:
        return _filled(run, begun)
    except EthogramError as error:
        return msgspec.structs.replace(begun, problem=error.cli_message)


def _filled(run: Run, begun: RunOverview) -> RunOverview:
    rows = run.episodes(_FIGURES)
    outcomes = run_outcomes(run)
    scored = outcomes.pop("scored", 0)
    costs = kept_costs(run)
    tokens = _TOKENS.measured(rows.figures)
    known = tokens[~np.isnan(tokens)]
    pass_rate, seconds = _means(run, scored)
    return msgspec.structs.replace(
        begun,
        episodes=scored + outcomes.total(),
        planned=run.planned,
        scored=scored,
        missing=dict(sorted(outcomes.items())),
        tasks=_tasks(rows),
        agents=tuple(name for name in rows.names["agent"] if name),
        model=facts_of(run)["model"],
        pass_rate=pass_rate,
        cost_usd=run_cost(run, costs),
        at_least_usd=sum(c.at_least_usd for c in costs.values()),
        tokens=int(known.sum()) if known.size else None,
        seconds=seconds,
    )


def _tasks(rows: Episodes) -> int:
    """How many tasks; a trace that names none is a task of its own."""
    names = rows.names["task"]
    nameless = int((rows.task == names.index("")).sum()) if "" in names else 0
    return sum(1 for name in names if name) + nameless


def _means(run: Run, scored: int) -> tuple[Estimate, float | None]:
    """pass@1 and the metric `seconds`; unknown where episodes are no samples or of several conditions."""
    unscored = Estimate(value=None, why="no episode has a score")
    try:
        outcomes = load_outcomes(run, condition=clean_condition(run), metrics=["seconds"])
    except EthogramError as error:
        return Estimate(value=None, why=error.cli_message) if scored else unscored, None
    seconds = arm_mean(outcomes, "seconds", 0.95).value
    return estimate_reliability(outcomes, [1]).pass_at["1"] if scored else unscored, seconds
