"""Tool calls seen on the wire: a model requests one in a reply, and its result is in the client's next request."""

from __future__ import annotations

from collections.abc import Sequence

from ethogram.capture.asked_calls import AskedCalls, same_arguments
from ethogram.traces import Message, ToolCall
from ethogram.wire.recorder import Recorder


class AskedTools:
    """The tool calls that the models of one episode asked for and whose results were not seen yet."""

    def __init__(self, record: Recorder) -> None:
        """Results become tool spans of `record`, unless it holds them already."""
        self._record = record
        self._asked = AskedCalls()
        self._matched: set[int] = set()
        """Positions in `record.calls` that belong to a result that was seen here."""

    def add(self, reply: Message, at_ns: int) -> None:
        """A reply that ended at this time asks for tools."""
        self._asked.add(reply, at_ns)

    def seen(self, messages: Sequence[Message], parent: str | None = None) -> None:
        """Record results in a new request, below `parent`: those behind the last message that asked for tools."""
        for (call, details), result in self._asked.answered(messages):
            if not self._recorded(call):
                self._matched.add(len(self._record.calls))
                self._record.seen_tool(call, result, start_ns=details["at_ns"], parent_id=parent)

    def _recorded(self, call: ToolCall) -> bool:
        """Whether the suite's tools, a proxy of MCP or the agent itself recorded this very call."""
        names = (call.name, plain_name(call.name))
        known = {
            position: known
            for position, known in enumerate(self._record.calls)
            if position not in self._matched and known.name in names
        }
        same = [p for p, k in known.items() if same_arguments(k, call)]
        same = same or [p for p, k in known.items() if k.call_id is not None and k.call_id == call.call_id]
        self._matched.update(same[:1])
        return bool(same)


def plain_name(name: str) -> str:
    """The name of a tool at its MCP server, where a client shows it to models as `mcp__SERVER__TOOL`."""
    return name.split("__", 2)[2] if name.startswith("mcp__") and name.count("__") > 1 else name
