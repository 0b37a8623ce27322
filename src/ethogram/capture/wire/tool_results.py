"""Tools at the wire: a model asks for a call in one reply, and its result stands in the client's next request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from ethogram.capture.recorder import Recorder
from ethogram.trace import Message, ToolCall, ToolResult

REMEMBERED = 1000
"""Calls that wait for their results; agents that never send them must not fill the memory."""


class _Asked(NamedTuple):
    call: ToolCall
    at_ns: int


class AskedTools:
    """The tool calls that the models of one episode asked for and whose results were not seen yet."""

    def __init__(self, record: Recorder) -> None:
        """Results become tool spans of `record`, unless it holds them already."""
        self._record = record
        self._waiting: dict[str | None, list[_Asked]] = {}
        self._size = 0
        self._matched: set[int] = set()
        """Positions in `record.calls` that belong to a result that was seen here."""

    def add(self, reply: Message, at_ns: int) -> None:
        """A reply that ended at this time asks for tools."""
        for call in reply.tool_calls:
            self._waiting.setdefault(call.call_id, []).append(_Asked(call, at_ns))
            self._size += 1
        if self._size > REMEMBERED:
            oldest = next(iter(self._waiting))
            self._size -= len(self._waiting.pop(oldest))

    def seen(self, messages: Sequence[Message], parent: str | None = None) -> None:
        """Record results in a new request, below `parent`: those behind the last message that asked for tools."""
        for asked, result in self._answered(messages):
            if not self._recorded(asked.call):
                self._matched.add(len(self._record.calls))
                self._record.seen_tool(asked.call, result, start_ns=asked.at_ns, parent_id=parent)

    def _answered(self, messages: Sequence[Message]) -> Iterator[tuple[_Asked, ToolResult]]:
        if not self._waiting:
            return
        last = max((i for i, message in enumerate(messages) if message.tool_calls), default=-1)
        sent = {call.call_id: call for call in messages[last].tool_calls} if last >= 0 else {}
        for message in messages[last + 1 :]:
            for part in message.parts:
                if isinstance(part, ToolResult) and (asked := self._take(part.call_id, sent.get(part.call_id))):
                    yield asked, part

    def _take(self, call_id: str | None, sent: ToolCall | None) -> _Asked | None:
        """The call that a result answers: since ids may repeat, the one that the client sent back, if it did."""
        waiting = self._waiting.get(call_id, [])
        for position in reversed(range(len(waiting))):
            if sent is None or _same(waiting[position].call, sent):
                self._size -= 1
                asked = waiting.pop(position)
                if not waiting:
                    del self._waiting[call_id]
                return asked
        return None

    def _recorded(self, call: ToolCall) -> bool:
        """Whether the suite's tools, a proxy of MCP or the agent itself recorded this very call."""
        for position, known in enumerate(self._record.calls):
            if position in self._matched or known.name not in (call.name, plain_name(call.name)):
                continue
            if (known.call_id is not None and known.call_id == call.call_id) or _same_arguments(known, call):
                self._matched.add(position)
                return True
        return False


def plain_name(name: str) -> str:
    """The name of a tool at its MCP server, where a client shows it to models as `mcp__SERVER__TOOL`."""
    return name.split("__", 2)[2] if name.startswith("mcp__") and name.count("__") > 1 else name


def _same(one: ToolCall, other: ToolCall) -> bool:
    return one.name == other.name and _same_arguments(one, other)


def _same_arguments(one: ToolCall, other: ToolCall) -> bool:
    return one.arguments == other.arguments or _decoded(one.arguments) == _decoded(other.arguments)


def _decoded(arguments: str) -> Any:
    """Arguments as a value, since clients write JSON anew; what is none stays as it is."""
    try:
        return msgspec.json.decode(arguments or "{}")
    except msgspec.DecodeError:
        return arguments
