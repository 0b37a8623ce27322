"""Executors for a run: the same way here and on a worker elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ethogram.cost import Budget
from ethogram.store import Home, Run
from ethogram.store.redact import policy_from
from ethogram.suite.load import LoadedSuite

from .agents import Agent
from .executor import Executor, Settings
from .options import RunOptions
from .world import SuiteWorld


def make_executor(
    home: Home,
    run: Run,
    loaded: LoadedSuite,
    agent: Agent,
    options: RunOptions,
    budget: Budget,
    task_budget: Callable[[str], Budget],
) -> Executor:
    """An executor for a run, with a writer of its own; engines elsewhere build theirs the same way."""
    writer = run.writer(home.redactor(policy_from(options.redact)), seal=options.seal)
    settings = Settings(
        caps=options.caps.episode,
        task_caps=options.caps.task,
        retries=options.retries,
        keep=options.keep,  # type: ignore[arg-type]
        isolation=options.isolation,
        home=str(Path(home.files.reach).resolve()) if Path(home.files.reach).is_dir() else "",
        meta=dict(options.meta),
        conditions={c.name: c for c in options.conditions},
        environment=options.environment,
        metering=options.metering,
    )
    return Executor(SuiteWorld(loaded), agent, writer, budget, settings, task_budget=task_budget)
