"""Asking checks of a stored trace, whose agent is long gone and whose workspace is, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from ethogram.checks import CHECKS, CheckResult, CheckScore, Evidence, definition, label_names
from ethogram.checks.settings import settings_of
from ethogram.errors import BadUsage, EthogramError
from ethogram.loading import raised_words
from ethogram.plans import Check, Task
from ethogram.store import Entry, Redactor, Run
from ethogram.suites.tasks import build_check
from ethogram.traces import Label, Missing, ToolCall, Trace, cut_whole


class StoredChecks:
    """Checks of layers L0 and L1, asked of the traces of one run."""

    def __init__(self, run: Run, redactor: Redactor) -> None:
        """What is expected passes the run's redactor before it is compared, as the answers did."""
        self.run = run
        self.redactor = redactor

    def results(
        self, task: Task, root: Path, entry: Entry, known: Mapping[tuple[str, str], Label]
    ) -> tuple[list[CheckResult], Missing | None]:
        """What each check says now, and the crash of one that decides."""
        evidence: Evidence | None = None
        results: list[CheckResult] = []
        crashed: Missing | None = None
        names = label_names((c.kind, c.name) for c in task.checks)
        for check, name in zip(task.checks, names, strict=True):
            result = CheckResult(
                name=name,
                kind=check.kind,
                definition=definition(check.kind, check.settings, task.expected),
                required=check.required,
                verdict=CheckScore(None, "this check looks at the workspace, which is gone"),
            )
            if check.kind in CHECKS:
                if evidence is None:
                    evidence = self._evidence(self.run.trace(entry), task, root)
                try:
                    result = msgspec.structs.replace(result, verdict=CHECKS[check.kind](evidence, check.settings))
                except Exception as error:  # whatever a suite's own code raises says nothing about the agent
                    said = str(error) if isinstance(error, EthogramError) else raised_words(error)
                    result = msgspec.structs.replace(result, verdict=CheckScore(None, said))
                    if name == task.outcome or (task.outcome is None and check.required):
                        crashed = crashed or Missing(
                            "infrastructure.verifier", cut_whole(f"{name}: {result.verdict.why}", 500)
                        )
            before = known.get((result.name, result.by))
            if result.verdict.score is None and before is not None and isinstance(before.value, int | float):
                # the same demands were answered when more was there to see
                kept = CheckScore(float(before.value), "as it was judged when the episode ended")
                result = msgspec.structs.replace(result, verdict=kept)
            results.append(result)
        return results, crashed

    def _evidence(self, trace: Trace, task: Task, root: Path) -> Evidence:
        policy = self.redactor.policy
        untouched = policy.kinds == () and not policy.patterns and not policy.fields
        return Evidence(
            answer=final_words(trace),
            expected=task.expected,
            inputs=task.inputs,
            calls=tuple(_calls(trace)),
            trace=trace,
            redact=None if untouched else lambda text: self.stored(text, "answer"),
            root=root,
        )

    def stored(self, text: str, field: str) -> str:
        """A text as the run stored it, if it had been in that field."""
        return self.redactor.redact(text, field).text


def typed_check(written: str) -> Check:
    """A check as it is typed: `contains=refunded`, `numeric={"expected": 7}`, or a kind alone."""
    kind, given, rest = written.partition("=")
    value: Any = rest
    with suppress(msgspec.DecodeError):
        value = msgspec.json.decode(rest)
    check = build_check({kind: value} if given else kind, "--check")
    settings = settings_of(check.kind, check.settings)
    problem = settings.problem(None)
    if problem is not None:
        raise BadUsage(f"--check {written!r} {problem}")
    if check.kind not in CHECKS:
        raise BadUsage(f"the check {check.kind!r} looks at the workspace, which a stored run no longer has")
    return check


def final_words(trace: Trace) -> str | None:
    """The answer; in a foreign log that marks none, the last words of the agent."""
    if trace.head.answer is not None:
        return trace.answer
    if trace.head.origin is None or trace.head.origin.format == "run":
        return None
    for span in reversed(trace.steps):
        if span.kind == "model":
            for ref in reversed(span.output):
                message = trace.message(ref)
                if message.role == "assistant" and message.text and not message.tool_calls:
                    return message.text
    return None


def _calls(trace: Trace) -> Iterator[ToolCall]:
    """The tool calls of a trace in order: what was run, or what was asked for where the log has no tool spans.

    Of a run of ours that is every call, as when it was scored: a tool that calls others is no step, but was called.
    """
    ran = [s for s in trace.steps if s.kind == "tool"]
    if trace.head.origin is None or trace.head.origin.format == "run":
        timed = all(s.start_ns is not None for s in trace.spans)
        every = [s for s in trace.spans if s.kind == "tool"]
        ran = sorted(every, key=lambda s: (s.start_ns or 0 if timed else 0, s.seq))
    for span in ran:
        arguments = trace.text(span.arguments) if span.arguments is not None else ""
        yield ToolCall(span.tool or span.name, arguments, span.call_id)
    if not ran:
        for span in trace.steps:
            for ref in span.output if span.kind == "model" else ():
                yield from trace.message(ref).tool_calls
