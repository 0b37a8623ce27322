"""Executors for a run: the same way here and on a worker elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ethogram.prices import Budget
from ethogram.store import Home, Run
from ethogram.store.redact import policy_from
from ethogram.suites.load import LoadedSuite

from .agents import Agent
from .answers import AnswersFor
from .executor import Executor, ExecutorSettings
from .options import RunOptions
from .recorded_answers import recorded_run
from .world import SuiteWorld

if TYPE_CHECKING:
    from .live import LiveCapture


def make_executor(
    home: Home,
    run: Run,
    loaded: LoadedSuite,
    agent: Agent,
    options: RunOptions,
    budget: Budget,
    task_budget: Callable[[str], Budget],
    capture: LiveCapture | None = None,
    answers_for: AnswersFor | None = None,
) -> Executor:
    """An executor for a run, with a writer of its own; engines elsewhere build theirs the same way.

    Without `answers_for`, a run that replays another is answered by that one.
    """
    if answers_for is None and options.replay is not None:
        answers_for = recorded_run(home, options.replay.run)
    writer = run.writer(home.redactor(policy_from(options.redact)), seal=options.seal)
    settings = ExecutorSettings(
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
    return Executor(
        SuiteWorld(loaded),
        agent,
        writer,
        budget,
        settings,
        task_budget=task_budget,
        capture=capture,
        answers_for=answers_for,
    )
