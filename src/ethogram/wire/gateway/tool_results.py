"""Tool calls seen on the wire: a model requests one in a reply, and its result is in the client's next request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ethogram.capture.pairing import OpenCall, OpenCalls
from ethogram.traces import Message, ToolCall, ToolResult, arguments_value
from ethogram.wire.recorder import Recorder

REMEMBERED = 1000
"""Calls that wait for their results; agents that never send them must not fill the memory."""


class AskedTools:
    """The tool calls that the models of one episode asked for and whose results were not seen yet."""

    def __init__(self, record: Recorder) -> None:
        """Results become tool spans of `record`, unless it holds them already."""
        self._record = record
        self._replies: list[OpenCalls] = []
        """The calls of each reply, with the time at which it ended; replies belong to many conversations."""
        self._matched: set[int] = set()
        """Positions in `record.calls` that belong to a result that was seen here."""

    def add(self, reply: Message, at_ns: int) -> None:
        """A reply that ended at this time asks for tools."""
        calls = OpenCalls(reply.tool_calls, at_ns=at_ns)
        if calls:
            self._replies.append(calls)
        while sum(map(len, self._replies)) > REMEMBERED:
            del self._replies[0]

    def seen(self, messages: Sequence[Message], parent: str | None = None) -> None:
        """Record results in a new request, below `parent`: those behind the last message that asked for tools."""
        for (call, details), result in self._answered(messages):
            if not self._recorded(call):
                self._matched.add(len(self._record.calls))
                self._record.seen_tool(call, result, start_ns=details["at_ns"], parent_id=parent)

    def _answered(self, messages: Sequence[Message]) -> Iterator[tuple[OpenCall, ToolResult]]:
        if not self._replies:
            return
        last = max((i for i, message in enumerate(messages) if message.tool_calls), default=-1)
        sent = OpenCalls(messages[last].tool_calls if last >= 0 else ())
        for message in messages[last + 1 :]:
            for part in message.parts:
                if isinstance(part, ToolResult) and (asked := self._take(part, sent)):
                    yield asked, part

    def _take(self, result: ToolResult, sent: OpenCalls) -> OpenCall | None:
        """The call that a result answers: the one that the client sent back, if it did, else one with its id.

        Ids may repeat: the newest reply with such a call is taken, and in it the first such call.
        """
        # a result may come late, behind a newer message of calls: one of its name there is not the one with its id
        answered = sent.take(result) if result.call_id is None else sent.take_id(result.call_id)
        for calls in reversed(self._replies):
            asked = calls.take_id(result.call_id) if answered is None else _take_sent(calls, answered.call)
            if asked is not None:
                if not calls:
                    self._replies.remove(calls)
                return asked
        return None

    def _recorded(self, call: ToolCall) -> bool:
        """Whether the suite's tools, a proxy of MCP or the agent itself recorded this very call."""
        names = (call.name, plain_name(call.name))
        known = {
            position: known
            for position, known in enumerate(self._record.calls)
            if position not in self._matched and known.name in names
        }
        same = [p for p, k in known.items() if _same_arguments(k, call)]
        same = same or [p for p, k in known.items() if k.call_id is not None and k.call_id == call.call_id]
        self._matched.update(same[:1])
        return bool(same)


def plain_name(name: str) -> str:
    """The name of a tool at its MCP server, where a client shows it to models as `mcp__SERVER__TOOL`."""
    return name.split("__", 2)[2] if name.startswith("mcp__") and name.count("__") > 1 else name


def _take_sent(calls: OpenCalls, sent: ToolCall) -> OpenCall | None:
    """The call that a client sent back; some clients leave out ids, and make up those that a model left out."""

    def fits(call: ToolCall) -> bool:
        same_id = call.call_id == sent.call_id or call.call_id is None or sent.call_id is None
        return same_id and call.name == sent.name and _same_arguments(call, sent)

    return calls.take_first(fits)


def _same_arguments(one: ToolCall, other: ToolCall) -> bool:
    return one.arguments == other.arguments or arguments_value(one.arguments) == arguments_value(other.arguments)
