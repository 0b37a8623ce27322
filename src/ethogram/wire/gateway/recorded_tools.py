"""The tool calls of a stored trace, to be answered from it: suite's tools, `eth.tool` and MCP servers alike.

A call is found by its tool and its arguments, in the order in which equal calls were made. Words of the live call pass
the redactor that the stored ones passed, since what is stored is all that they can be compared with.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from difflib import unified_diff
from threading import Lock
from typing import Any

import msgspec

from ethogram.capture.parse import from_json, to_json
from ethogram.traces import Ref, Span, SpanId, Trace, canonical_json, is_marked

Redact = Callable[[str, str], str]
"""A value as it would be stored in a field (`arguments`, `name`, …) of a trace."""


class RecordedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a tool as a trace has it; `number` counts the tool calls of the trace from 1.

    `unusable` says why the answer is not what the tool gave, e.g. because it was redacted; empty where it is.
    """

    number: int
    span_id: SpanId
    name: str
    arguments: str
    result: str | None = None
    error: str | None = None
    failed: bool = False
    attributes: Mapping[str, Any] = {}
    unusable: str = ""


class RecordedTools:
    """Answers calls of tools from a trace, each recorded call once. May be used from several threads."""

    def __init__(self, trace: Trace, redact: Redact | None = None, before: Span | None = None) -> None:
        """Read the tool spans of a trace.

        Args:
            trace: the recorded trace.
            redact: how the trace was redacted, e.g. `Run.writer(…).clean` of its home; by default not at all.
            before: only calls that began before this span.
        """
        self._redact = redact or (lambda value, field: value)
        self._lock = Lock()
        self._waiting: defaultdict[tuple[str, str], deque[RecordedCall]] = defaultdict(deque)
        self._given: dict[tuple[str, str], int] = {}
        spans = sorted((s for s in trace.spans if s.kind == "tool"), key=began)
        if before is not None:
            spans = [s for s in spans if began(s) < began(before)]
        self.calls = tuple(_call(trace, span, number) for number, span in enumerate(spans, start=1))
        for call in self.calls:
            self._waiting[call.name, canonical_json(call.arguments)].append(call)

    def answer(self, name: str, arguments: Mapping[str, Any]) -> RecordedCall | None:
        """The recorded call that this one repeats, or None if the trace has no such call left."""
        key = self._key(name, arguments)
        with self._lock:
            waiting = self._waiting.get(key)
            if not waiting:
                return None
            self._given[key] = self._given.get(key, 0) + 1
            return waiting.popleft()

    @property
    def left(self) -> tuple[RecordedCall, ...]:
        """Recorded calls that nobody made again, in their order."""
        with self._lock:
            waiting = [call for calls in self._waiting.values() for call in calls]
        return tuple(sorted(waiting, key=lambda call: call.number))

    def difference(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Why a call has no answer, with the arguments of the nearest recorded call as a diff."""
        key = self._key(name, arguments)
        if given := self._given.get(key, 0):
            times = "once" if given == 1 else f"{given} times"
            return f"{key[0]} was recorded {times} with these arguments and is called once more"
        same_tool = [call for call in self.calls if call.name == key[0]]
        if not same_tool:
            known = sorted({call.name for call in self.calls})
            return f"the trace has no call of {key[0]}" + (f"; it has calls of {', '.join(known)}" if known else "")
        left = {call.number for call in self.left}
        nearest = next((call for call in same_tool if call.number in left), same_tool[-1])
        lines = unified_diff(
            _lines(nearest.arguments), _lines(key[1]), f"recorded call {nearest.number}", "this call", lineterm=""
        )
        return f"{key[0]} was recorded with other arguments:\n" + "\n".join(lines)

    def _key(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, str]:
        stored = self._redact(to_json(dict(arguments)), "arguments")
        return self._redact(name, "name"), canonical_json(stored)


def began(span: Span) -> tuple[int, int]:
    """When a span began, to compare it with others of its trace."""
    return span.start_ns or 0, span.seq


def _call(trace: Trace, span: Span, number: int) -> RecordedCall:
    def words(ref: Ref | None) -> str | None:
        return None if ref is None else trace.text(ref)

    result, error, attributes = words(span.result), words(span.error), words(span.attributes)
    failed = span.status == "error"
    unusable = ""
    if any(is_marked(text) for text in (result, error, attributes) if text):
        unusable = "its answer was redacted when it was stored"
    elif span.truncated:
        unusable = "its answer was too long to be stored whole"
    elif result is None and not failed:
        unusable = "the trace has no answer to it"
    facts = from_json(attributes) if attributes else None
    return RecordedCall(
        number=number,
        span_id=span.span_id,
        name=span.tool or span.name,
        arguments=words(span.arguments) or "{}",
        result=result,
        error=error,
        failed=failed,
        attributes=facts if isinstance(facts, dict) else {},
        unusable=unusable,
    )


def _lines(arguments: str) -> list[str]:
    value = from_json(arguments)
    return [arguments] if value is None else json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False).split("\n")
