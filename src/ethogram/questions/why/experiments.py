"""The experiment that tests a cause, as a command, with its price."""

from __future__ import annotations

import shlex

from ethogram.reading.attempt_prices import run_price
from ethogram.store import Home, Run
from ethogram.traces import is_marked, short_id

from .alternatives import alternatives
from .causes import CauseGroup
from .results import SettlingExperiment
from .run_findings import AllFindings
from .scoring_ways import home_option

PAIRS = 20
"""Continuations of one trace with the change, and without it."""


def experiment_for(run: Run, found: AllFindings, group: CauseGroup, home: Home) -> SettlingExperiment:
    """A fork of a failed run that shows the cause; else a gate for a changed agent; nothing for logs of others."""
    if not runs_again(run):
        why = "the run names no suite and agent that could be run again; ethogram fork takes both (--suite, --agent)"
        return SettlingExperiment(kind=None, command=None, runs=None, usd=None, why=why)
    agent, usd = str(run.info.plan["agent"]), run_price(run)
    unpriced = None if usd is not None else "the run does not say what it cost"
    made = next(alternatives(run, found, group), None)
    if made is None:
        runs = len(run.entries)
        parts = [
            "ethogram",
            "gate",
            run.name,
            f"{run.name}-changed",
            "--buy",
            "--agent",
            agent,
            "--max-runs",
            str(runs),
        ]
        changed = "change the agent first; no successful attempt has another way at a step that a fork could set"
        return SettlingExperiment(
            kind="gate",
            command=shlex.join(parts) + home_option(home),
            runs=runs,
            usd=None if usd is None else usd * runs,
            why=changed if unpriced is None else f"{changed}; {unpriced}",
        )
    taken = f"{made.change.what}_of={short_id(made.other)}:{made.other_at}"
    parts = ["ethogram", "fork", short_id(made.trace), "--at", str(made.at), "--set", taken, "-k", str(PAIRS)]
    runs = 2 * PAIRS
    usd = None if usd is None else usd * runs
    return SettlingExperiment(
        kind="fork", command=shlex.join(parts) + home_option(home), runs=runs, usd=usd, why=unpriced
    )


def runs_again(run: Run) -> bool:
    """Whether the run names a suite and an agent, as a user could."""
    named = [str(run.info.plan.get(what) or "") for what in ("suite", "agent")]
    return all(name and not is_marked(name) for name in named)
