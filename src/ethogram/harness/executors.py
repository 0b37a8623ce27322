"""Executors for a run: the same way here and on a worker elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ethogram.checks import CHECKS, Evidence
from ethogram.plans import Check, Task
from ethogram.prices import Budget
from ethogram.store import Home, Run
from ethogram.store.redact import policy_from
from ethogram.suites.load import LoadedSuite, resolve_simulator, world_tools
from ethogram.suites.watched import WatchedFiles
from ethogram.traces import Label, Outcome
from ethogram.wire.gateway.breaker import Breaker

from .agents import Agent
from .answers import AnswersFor
from .executor import Executor, ExecutorSettings, Wrap
from .handle import EpisodeHandle
from .options import RunOptions
from .recorded_answers import recorded_run
from .verifiers import NamedCheck, judge_task, named_checks

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
    breaker: Breaker | None = None,
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
        bounds=options.bounds,
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
        breaker=breaker,
    )


class SuiteWorld:
    """The tools and the judgement of a suite."""

    def __init__(self, loaded: LoadedSuite) -> None:
        """Nothing is resolved before an episode needs it."""
        self.loaded = loaded
        self.suite = loaded.suite
        self.root = loaded.root
        self._watched = WatchedFiles(loaded)
        self.files: Sequence[Path] = self._watched.files
        self._checks: dict[str, list[NamedCheck]] = {}
        self._quick = {t.id: all(_is_quick(c, t.expected) for c in t.checks) for t in self.suite.tasks}

    def check_unchanged(self, task: str | None = None) -> None:
        """Raise `BadUsage` if files were edited since they were loaded: before an attempt at a task, or at the end."""
        self._watched.check_unchanged(task)

    def tools(self, task: Task, handle: EpisodeHandle) -> Mapping[str, Callable[..., Any]]:
        """The tools of a task."""
        return world_tools(self.loaded, task, handle)

    def simulator(self, task: Task) -> Callable[..., Any] | None:
        """Who plays the user, where the task names somebody."""
        return resolve_simulator(self.loaded, task)

    def judge(self, task: Task, evidence: Evidence, wrap: Wrap) -> tuple[Sequence[Label], Outcome]:
        """Labels of all checks, and the outcome."""
        if task.id not in self._checks:
            self._checks[task.id] = named_checks(task)
        return judge_task(task, self.loaded, evidence, wrap=wrap, checks=self._checks[task.id])

    def judges_at_once(self, task: Task) -> bool:
        """Pure checks are fast."""
        return self._quick[task.id]


def _is_quick(check: Check, expected: Any) -> bool:
    """Whether a check looks at the answer alone, and at no pattern: those take as long as the answer makes them."""
    patterns = "regex" in str(check.settings) or "regex" in str(expected)
    return check.kind in CHECKS.own and check.kind not in ("custom", "regex", "json_schema") and not patterns
