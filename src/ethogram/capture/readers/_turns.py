"""What the readers of session logs share: the turns of one conversation, as spans, in bounded memory.

`Turns` is one lane. It holds the words that the model has not read yet and the calls that have no result
yet, and nothing else, so a session of any length can pass through it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, suppress
from pathlib import PurePosixPath
from typing import Any, cast

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.chat import FailureTest, says_error
from ethogram.capture.draft import Draft
from ethogram.capture.intake import RECORD_ERRORS, Intake
from ethogram.capture.pairing import OpenCalls
from ethogram.capture.parse import to_json
from ethogram.traces import TOKEN_FIELDS, File, Message, SpanId, ToolCall, ToolResult


class Turns:
    """One conversation: every message becomes a span (or waits to be read), calls and results are paired."""

    def __init__(
        self,
        trace: TraceBuilder,
        intake: Intake,
        *,
        lane: str = "",
        agent: str = "",
        parent: str | None = None,
        failed: FailureTest = says_error,
        stops: tuple[str, str] = ("tool_calls", "stop"),
    ) -> None:
        """`stops` are the stop reasons of a reply with and without calls, where the log gives none."""
        self.trace = trace
        self._intake = intake
        self.unread: list[Message] = []
        self.open = OpenCalls()
        self.parent = parent
        self._lane = lane
        self._agent = agent
        self._failed = failed
        self._stops = stops
        self._anew = False

    def system(self, message: Message, name: str = "system", **details: Any) -> SpanId:
        """Instructions: not a step, but they have their place among the messages."""
        self.unread.append(message)
        return self._add("other", details, name=name, output=(message,))

    def user(self, message: Message, **details: Any) -> SpanId:
        """Somebody else speaks."""
        self.unread.append(message)
        return self._add("user", details, name=message.name or "user", output=(message,))

    def event(self, name: str, **details: Any) -> SpanId:
        """Something that happened beside the conversation."""
        return self._add("other", details, name=name)

    def model(self, message: Message, calls: list[dict[str, Any]] | None = None, **details: Any) -> SpanId:
        """The model reads what is unread and replies; `calls` are details for the span of each call."""
        stop = self._stops[0] if message.tool_calls else self._stops[1]
        details = {"input": tuple(self.unread), "growing": not self._anew, **details}
        details["stop_reason"] = details.get("stop_reason") or stop
        span_id = self._add("model", details, name="chat", output=(message,))
        self.unread = []
        self._anew = False
        for position, call in enumerate(message.tool_calls):
            self.call(call, **(calls[position] if calls and position < len(calls) else {}))
        return span_id

    def call(self, call: ToolCall, **details: Any) -> None:
        """A call that a result will answer."""
        self.open.add(call, **details)

    def result(self, result: ToolResult, message: Message | None = None, **details: Any) -> SpanId:
        """What a tool answered; `message` is how the model reads it."""
        waiting = self.open.take(result)
        if waiting is None:
            self.trace.lose("tool call (never seen)")
        call, known = waiting or (ToolCall(result.name or "unknown"), {})
        if message is None:
            message = Message("tool", (result,))
        self.unread.append(message)
        attributes = {**known.get("attributes", {}), **details.get("attributes", {})}
        details = {**known, **{k: v for k, v in details.items() if v is not None}, "attributes": attributes}
        return self._add(
            "tool",
            details,
            name=call.name,
            tool=call.name,
            call_id=result.call_id or call.call_id,
            arguments=call.arguments if waiting else None,
            result=result.content,
            status="error" if self._failed(result) else "ok",
            output=(message,),
        )

    def cut(self) -> None:
        """The context starts anew (after a compaction): the next reply reads only what follows."""
        self.unread = []
        self._anew = True

    def unanswered(self) -> None:
        """Spans for calls that never got a result."""
        for call, details in self.open.take_all():
            with self._intake.record(f"the call of {call.name}"):
                said = {"tool": call.name, "call_id": call.call_id, "arguments": call.arguments}
                self._add("tool", details, name=call.name, **said)
                self.trace.lose("tool result (never came)")

    def close(self) -> None:
        """The log ends here."""
        self.unanswered()

    def _add(self, kind: Any, details: dict[str, Any], **fields: Any) -> SpanId:
        """Details win over what the turn itself says."""
        base = {"kind": kind, "agent": self._agent, "lane": self._lane, "parent_id": self.parent}
        return self.trace.add(Draft(**{**base, **fields, **details}))


class _Nobody:
    """Stands where a trace and its intake would be."""

    def lose(self, field: str, count: int = 1) -> None:
        """Nothing is kept, so nothing is lost."""

    def record(self, where: str) -> AbstractContextManager[None]:
        """Nothing is reported: the real reading will do that."""
        return suppress(*RECORD_ERRORS)


class Probe(Turns):
    """Turns that leave no trace: how many replies there will be, and which of their counts the log itself gives."""

    def __init__(self) -> None:
        """Nothing was said yet."""
        super().__init__(cast("TraceBuilder", _Nobody()), cast("Intake", _Nobody()))
        self.replies = 0
        self.said: set[str] = set()

    def _add(self, kind: Any, details: dict[str, Any], **fields: Any) -> SpanId:
        if kind == "model":
            self.replies += 1
            self.said.update(f for f in (*TOKEN_FIELDS, "cost_usd") if details.get(f) is not None)
        return SpanId("")


def rest_of(item: dict[str, Any], *known: str) -> dict[str, Any]:
    """What an object holds besides the known keys: goes into attributes, so that nothing is dropped."""
    return {k: v for k, v in item.items() if k not in known and v is not None}


def add_whole(trace: TraceBuilder, intake: Intake, draft: Draft) -> SpanId:
    """The span of a whole run; if what it says of itself cannot be written down, the run is kept without it."""
    with intake.record("what the run says of itself"):
        return trace.add(draft)
    draft.attributes = {}
    return trace.add(draft)


def plain_meta(trace: TraceBuilder, meta: dict[str, Any]) -> dict[str, Any]:
    """Meta values that can be written down; what is nested too deeply is lost, and the trace is not."""
    kept: dict[str, Any] = {}
    for name, value in meta.items():
        try:
            kept[name] = to_json(value) if isinstance(value, dict | list) else value
        except RecursionError:
            trace.lose(f"{name} (nested too deeply)")
    return kept


def count_bytes(trace: TraceBuilder, message: Message) -> None:
    """Pictures and sounds keep their digest; their bytes are not kept."""
    trace.lose("file bytes", sum(isinstance(p, File) and p.digest is not None for p in message.parts))


def stem(name: str, *endings: str) -> str:
    """The name of a file without its folder and its endings: where the only name of a task is that of its file."""
    last = PurePosixPath(name.replace("\\", "/")).name
    for ending in (".gz", ".xz", ".zst", ".bz2", *endings, ".jsonl", ".json"):
        last = last.removesuffix(ending)
    return last
