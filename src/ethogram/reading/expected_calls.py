"""Facts beside the traces of a run: the expected calls of its suite, else those that the logs keep."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import msgspec

from ethogram.checks.settings import ToolCallsCheck
from ethogram.findings.findings import Facts, known_facts
from ethogram.plans import Task
from ethogram.store import Home, Run
from ethogram.store.lake import redactor_of
from ethogram.traces import Trace

from .suite_versions import own_suite


def facts_for(run: Run, home: Home) -> Callable[[Trace], Facts]:
    """From a trace to what is known beside it. A suite that is gone or has changed since says nothing."""
    redactor = redactor_of(run, home)
    checks = {task.id: found for task in _tasks(run) if (found := _expected(task)) is not None}

    def facts(trace: Trace) -> Facts:
        own = checks.get(trace.head.task)
        if own is None:
            return known_facts(trace)
        return known_facts(
            trace, expected=own[0], compare=own[1], redact=lambda text: redactor.redact(text, "answer").text
        )

    return facts


def _tasks(run: Run) -> tuple[Task, ...]:
    suite = own_suite(run)
    if suite is None:
        return ()
    from ethogram.suites.load import load_suite

    with suppress(Exception):  # whatever the suite's own code raises: the traces can be read without it
        loaded = load_suite(suite).suite
        if loaded.digest == run.info.plan.get("suite_digest", loaded.digest):
            return loaded.tasks
    return ()


def _expected(task: Task) -> tuple[object, ToolCallsCheck] | None:
    for check in task.checks:
        if check.kind == "tool_calls":
            settings = msgspec.convert(check.settings, ToolCallsCheck)
            calls = task.expected if settings.calls is msgspec.UNSET else settings.calls
            return calls, settings
    return None
