"""A loaded suite as the world of an executor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ethogram.checks import CHECKS, Evidence
from ethogram.plans import Check, Task
from ethogram.suites.load import LoadedSuite, resolve_simulator, world_tools
from ethogram.traces import Label, Outcome

from .executor import Wrap
from .handle import EpisodeHandle
from .verifiers import NamedCheck, judge_task, named_checks


class SuiteWorld:
    """The tools and the judgement of a suite."""

    def __init__(self, loaded: LoadedSuite) -> None:
        """Nothing is resolved before an episode needs it."""
        self.loaded = loaded
        self.suite = loaded.suite
        self.root = loaded.root
        self._checks: dict[str, list[NamedCheck]] = {}
        self._quick = {t.id: all(_is_quick(c, t.expected) for c in t.checks) for t in self.suite.tasks}

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
