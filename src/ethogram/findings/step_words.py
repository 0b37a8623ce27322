"""The words of a trace, step by step, decoded once for all detectors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from ethogram.traces import Message, Reasoning, Span, Text, ToolCall, ToolResult, Trace, begins_as_error

from .finding import FailureClass, Finding, FindingSource, quoted

_LEAD = re.compile(r"(?:Call id:\s*\S+\s+)?(?:Observation:\s*)?(?:Execution logs:\s*)?")


class StepWords:
    """One step of a trace as detectors read it: what was given, said, asked of a tool and returned."""

    __slots__ = (
        "_trace",
        "answers",
        "asked",
        "asked_names",
        "at",
        "decision",
        "failed",
        "name",
        "said",
        "span",
        "thought",
    )

    def __init__(self, trace: Trace, span: Span, at: int, decision: int | None) -> None:
        """`at` is the position in `trace.steps`, `decision` that of the model step that asked for a call."""
        self._trace = trace
        self.span = span
        self.at = at
        self.decision = decision
        self.name = span.tool or span.name
        said: list[str] = []
        thought: list[str] = []
        answers: list[str] = []
        self.asked_names: list[str] = []
        """The names of the tools that a model asked for."""
        self.asked: dict[str, str] = {}
        """The same names by the ids of the calls."""
        for ref in span.output:
            for part in trace.message(ref).parts:
                if isinstance(part, Text):
                    said.append(part.text)
                elif isinstance(part, Reasoning):
                    thought.append(part.text)
                elif isinstance(part, ToolResult):
                    answers.append(part.content)
                elif isinstance(part, ToolCall):
                    self.asked_names.append(part.name)
                    if part.call_id:
                        self.asked[part.call_id] = part.name
        self.said = "\n".join(said)
        self.thought = "\n".join(thought)
        self.answers = "\n".join(answers)
        self.failed = span.status == "error"

    @property
    def is_call(self) -> bool:
        """Whether this is the call of a tool."""
        return self.span.kind == "tool"

    @property
    def arguments(self) -> str:
        """The arguments of a call, as they were written."""
        return "" if self.span.arguments is None else self._trace.text(self.span.arguments)

    @property
    def result(self) -> str:
        """What a call returned."""
        return self.answers if self.span.result is None else self._trace.text(self.span.result)

    @property
    def returned(self) -> bool:
        """Whether a call came back, with a result or with an error."""
        span = self.span
        return span.result is not None or bool(span.output) or span.error is not None or span.status != "unset"

    @property
    def error(self) -> str:
        """The words of an error, empty where the step did not fail."""
        if not self.failed:
            return ""
        return self.result or self.said if self.span.error is None else self._trace.text(self.span.error)

    def inputs(self) -> Iterator[Message]:
        """The messages that are new to this step."""
        return map(self._trace.message, self.span.input)


def call_finding(step: StepWords, name: str, source: FindingSource, cls: FailureClass | None, **detail: Any) -> Finding:
    """A finding about a call: it quotes the call, and says which model step decided on it."""
    return Finding(
        name=name,
        cls=cls,
        source=source,
        step=step.at,
        text=quoted(f"{step.name}({step.arguments})"),
        detail={**detail, "decided_at": step.decision},
    )


class Observation(NamedTuple):
    """What an agent learnt from something it did: the step that it belongs to, the words, whether they tell of a
    failure, whether the step is a call of a tool, and the name of what answered."""

    step: StepWords
    words: str
    failed: bool
    is_call: bool
    of: str


class TraceWords:
    """The steps of a trace with their words, and the calls of tools among them."""

    def __init__(self, trace: Trace) -> None:
        """Decode what each step wrote; what it was given is decoded on demand."""
        self.trace = trace
        self.steps: list[StepWords] = []
        last: dict[str, int] = {}
        for at, span in enumerate(trace.steps):
            decision = last.get(span.lane) if span.kind != "model" else at
            self.steps.append(StepWords(trace, span, at, decision))
            if span.kind == "model":
                last[span.lane] = at

    @cached_property
    def calls(self) -> list[StepWords]:
        """The calls of tools."""
        return [s for s in self.steps if s.is_call]

    @cached_property
    def asked_names(self) -> frozenset[str]:
        """The names of the tools that models asked for."""
        return frozenset(name for step in self.steps if step.span.kind == "model" for name in step.asked_names)

    @cached_property
    def last_said(self) -> StepWords | None:
        """The last step in which an agent said something in words."""
        return next((s for s in reversed(self.steps) if s.span.kind in ("model", "handoff") and s.said.strip()), None)

    @cached_property
    def observations(self) -> list[Observation]:
        """Results of calls, and results that a model only read in a message, in the order of their steps."""
        found = [Observation(c, c.error or c.result, c.failed, True, c.name) for c in self.calls if c.returned]
        found.extend(self._read_in_messages())
        return sorted(found, key=lambda o: o.step.at)

    @cached_property
    def errors(self) -> list[Observation]:
        """Errors in the order of their steps: of calls, of results in messages, and of other steps that failed."""
        found = [o for o in self.observations if o.failed]
        found.extend(Observation(s, s.error, True, False, s.name) for s in self.steps if s.failed and not s.is_call)
        return sorted(found, key=lambda o: o.step.at)

    def _read_in_messages(self) -> Iterator[Observation]:
        """Results that no step of the trace returned: agents that write code get them as messages. Each belongs to the
        model step that it answers."""
        seen = {ref for step in self.steps for ref in step.span.output}
        last: dict[str, StepWords] = {}
        for step in self.steps:
            if step.span.kind != "model":
                continue
            before = last.get(step.span.lane)
            for ref in step.span.input:
                if ref in seen:
                    continue
                seen.add(ref)
                if before is None:
                    continue
                for part in self.trace.message(ref).parts:
                    if isinstance(part, ToolResult):
                        lead = _LEAD.match(part.content)
                        words = part.content[lead.end() if lead else 0 :]
                        of = part.name or before.asked.get(part.call_id or "") or before.name
                        yield Observation(before, words, begins_as_error(words), False, of)
            last[step.span.lane] = step

    def sources(self, upto: int) -> Iterator[tuple[int | None, str, str]]:
        """What was there to read before a step: where (None: before the first step), who wrote it, and the words."""
        for step in self.steps[:upto]:
            before = step.at - 1 if step.at else None
            for message in step.inputs():
                if message.role in ("system", "user") and message.text:
                    yield before, message.role, message.text
            kind = step.span.kind
            if kind == "model":
                if step.said or step.thought:
                    yield step.at, "agent", f"{step.said}\n{step.thought}"
            elif words := (step.result or step.said):
                yield step.at, "user" if kind == "user" else step.name, words


def decoded_or_none(value: Any) -> Any:
    """What a fact of a log says in JSON, None where it is no JSON; what is no text is given as it is."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
