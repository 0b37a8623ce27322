"""From a flat list of chat messages to spans: the way most benchmarks record their agents."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Unpack

import msgspec

from ethogram.traces import Message, ToolResult, begins_as_error

from .builder import TraceBuilder
from .draft import Draft, DraftFields, PayloadWords, check_fields
from .pairing import OpenCalls

FailureTest = Callable[[ToolResult], bool]


def task_asked(messages: Iterable[Message]) -> PayloadWords:
    """What names a task that nobody named: the words that were asked first, so equal questions are repeats of one.

    Empty where no user said anything.
    """
    return PayloadWords(next((m.text for m in messages if m.role == "user" and m.text), ""))


_OF_SYSTEM = ("parent_id", "start_ns", "end_ns", "lane", "attributes")
"""What is kept of a system message; the rest, such as its model, says nothing of a span that is no step."""


def says_error(result: ToolResult) -> bool:
    """The common convention: a failed tool says so, or its answer begins as an error does."""
    return result.failed or begins_as_error(result.content)


class ChatBuilder:
    """Feeds messages in order; makes a model span for each assistant message, a tool span for each result,
    a user span for each user turn.
    """

    def __init__(self, trace: TraceBuilder, *, agent: str = "", failed: FailureTest = says_error) -> None:
        """`failed` decides whether a tool result is an error."""
        self._trace = trace
        self._agent = agent
        self._failed = failed
        self._unread: list[Message] = []
        self._open = OpenCalls()

    def add(self, message: Message, **details: Unpack[DraftFields]) -> None:
        """Add a message; `details` are fields of the draft (tokens, times, model, attributes, …), nothing else."""
        if details:
            check_fields("ChatBuilder.add", details)
        if message.role == "assistant":
            self._assistant(message, details)
        elif ToolResult in map(type, message.parts):
            self._results(message, details)
        elif message.role == "system":
            # a span of its own, which is no step, keeps instructions in their place among the messages
            kept: dict[str, Any] = {k: v for k, v in details.items() if k in _OF_SYSTEM}
            self._trace.add(Draft(kind="other", name="system", output=(message,), **kept))
            self._unread.append(message)
        else:
            self._unread.append(message)
            draft = Draft(kind="user", name=message.name or "user", agent=self._agent, output=(message,))
            self._trace.add(_with(draft, details))

    def close(self) -> None:
        """Report calls that never got a result."""
        for call, place in self._open.take_all():
            self._trace.add(
                Draft(
                    kind="tool",
                    name=call.name,
                    tool=call.name,
                    call_id=call.call_id,
                    arguments=call.arguments,
                    **{"agent": self._agent, **place},
                )
            )
            self._trace.lose("tool result (never came)")

    def _assistant(self, message: Message, details: DraftFields) -> None:
        calls = message.tool_calls
        stop = "tool_calls" if calls else "stop"
        draft = _with(
            Draft(
                kind="model",
                name="chat",
                agent=self._agent,
                stop_reason=stop,
                input=self._unread,
                growing=True,
                output=(message,),
            ),
            details,
        )
        if message.name and not draft.agent:
            draft.agent = message.name
        self._trace.add(draft)
        self._unread = []
        if calls:
            place = {k: details[k] for k in ("parent_id", "lane", "agent") if k in details}
            for call in calls:
                self._open.add(call, **place)

    def _results(self, message: Message, details: DraftFields) -> None:
        """A tool message, or a user message that carries tool results (Anthropic's way)."""
        results = [p for p in message.parts if isinstance(p, ToolResult)]
        rest = tuple([p for p in message.parts if not isinstance(p, ToolResult)])
        for i, result in enumerate(results):
            found = self._open.take(result)
            call = found.call if found else None
            name = (call.name if call else result.name) or "unknown"
            single = message if len(results) == 1 and not rest else msgspec.structs.replace(message, parts=(result,))
            self._unread.append(single)
            self._trace.add(
                _with(
                    Draft(
                        kind="tool",
                        name=name,
                        agent=self._agent,
                        tool=name,
                        call_id=result.call_id or (call.call_id if call else None),
                        arguments=call.arguments if call else None,
                        result=result.content,
                        status="error" if self._failed(result) else "ok",
                        output=(single,),
                    ),
                    details if i == 0 else {},
                )
            )
        if rest:
            words = Message("user", rest, message.name)
            self._unread.append(words)
            self._trace.add(Draft(kind="user", name="user", agent=self._agent, output=(words,)))


def _with(draft: Draft, details: DraftFields) -> Draft:
    """The draft, with details that win over what it says."""
    for name, value in details.items():
        setattr(draft, name, value)
    return draft
