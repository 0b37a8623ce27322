"""What a Ray worker needs to build its own executor: addresses and names, never live objects."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ethogram.errors import BadUsage
from ethogram.harness.engines.ray import RayEngine
from ethogram.prices import Amounts, Budget
from ethogram.store import Home, Run, open_home
from ethogram.suites.load import load_suite
from ethogram.wire.gateway.breaker import Breaker

from .agents import Agent
from .executor import EpisodeReport, Executor, Work
from .executors import make_executor
from .options import RunOptions
from .planning import agent_for, is_captured

if TYPE_CHECKING:
    from .live import LiveCapture


class BuildExecutor:
    """Builds an executor wherever it is called; it travels to the worker."""

    def __init__(self, home: str, run: str, suite: str, agent: str | Callable[..., Any], options: RunOptions) -> None:
        """`home` and `suite` must be reachable from every node."""
        self.home, self.run, self.suite, self.agent, self.options = home, run, suite, agent, options
        self.folder = os.getcwd()
        self.paths = [p for p in sys.path if p]

    def __call__(self, budget: Budget, task_budget: Callable[[str], Budget]) -> Executor:
        """Build it here."""
        if Path(self.folder).is_dir():
            os.chdir(self.folder)
        for path in self.paths:
            if path not in sys.path:
                sys.path.append(path)
        home = open_home(self.home)
        loaded = load_suite(self.suite)
        here = msgspec.structs.replace(self.options, engine="local")
        agent = agent_for(self.agent, here)
        run = home.run(self.run)
        breaker = Breaker(here.breaker)
        capture = _entered(agent, here, run, breaker) if is_captured(agent, here) else None
        return make_executor(home, run, loaded, agent, here, budget, task_budget, capture, breaker=breaker)


def _entered(agent: Agent, options: RunOptions, run: Run, breaker: Breaker) -> LiveCapture:
    """Live capture for as long as this worker lives."""
    from .live import live_capture

    return live_capture(agent, options, run, breaker).__enter__()


def ray_engine(
    home: Home,
    run: Run,
    suite: str,
    agent: str | Callable[..., Any],
    options: RunOptions,
    budget: Budget,
    spent: dict[str, Amounts],
) -> RayEngine[Work, EpisodeReport]:
    """An engine on the cluster that Ray finds (`RAY_ADDRESS`), or on a new local one."""
    if run.path != f"runs/{run.name}":
        raise BadUsage("the engine 'ray' needs a run that is in its home")
    build = BuildExecutor(home.files.reach, run.name, suite, agent, options)

    def committed() -> set[str]:
        run.forget_cache()
        return {e.head.episode for e in run.entries}

    return RayEngine(
        build,
        budget,
        committed,
        concurrency=options.workers,
        task_caps=options.caps.task,
        spent=spent,
    )
