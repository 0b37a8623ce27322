"""Tool calls that models asked for and whose results stand in a later request, of whichever conversation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ethogram.traces import Message, ToolCall, ToolResult, arguments_value

from .pairing import OpenCall, OpenCalls

REMEMBERED = 1000
"""Calls that wait for their results; agents that never send them must not fill the memory."""


class AskedCalls:
    """The tool calls that models asked for and whose results were not seen yet."""

    def __init__(self) -> None:
        self._replies: list[OpenCalls] = []
        """The calls of each reply, with the time at which it ended; replies belong to many conversations."""

    def add(self, reply: Message, at_ns: int | None) -> None:
        """A reply that ended at this time asks for tools; each call is given back with the detail `at_ns`."""
        calls = OpenCalls(reply.tool_calls, at_ns=at_ns)
        if calls:
            self._replies.append(calls)
        while sum(map(len, self._replies)) > REMEMBERED:
            del self._replies[0]

    def answered(self, messages: Sequence[Message]) -> Iterator[tuple[OpenCall, ToolResult]]:
        """The calls whose results a request brings, behind its last message that asked for tools; each one once."""
        if not self._replies:
            return
        last = max((i for i, message in enumerate(messages) if message.tool_calls), default=-1)
        sent = OpenCalls(messages[last].tool_calls if last >= 0 else ())
        for message in messages[last + 1 :]:
            for part in message.parts:
                if isinstance(part, ToolResult) and (asked := self._take(part, sent)):
                    yield asked, part

    def settle(self, call: ToolCall) -> None:
        """Somebody else recorded this call: it waits no longer."""

        def same(asked: ToolCall) -> bool:
            return asked.call_id == call.call_id and (call.call_id is not None or asked.name == call.name)

        for calls in reversed(self._replies):
            if calls.take_first(same):
                if not calls:
                    self._replies.remove(calls)
                return

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


def _take_sent(calls: OpenCalls, sent: ToolCall) -> OpenCall | None:
    """The call that a client sent back; some clients leave out ids, and make up those that a model left out."""

    def fits(call: ToolCall) -> bool:
        same_id = call.call_id == sent.call_id or call.call_id is None or sent.call_id is None
        return same_id and call.name == sent.name and same_arguments(call, sent)

    return calls.take_first(fits)


def same_arguments(one: ToolCall, other: ToolCall) -> bool:
    """Whether two calls have the same arguments, however their JSON is written."""
    return one.arguments == other.arguments or arguments_value(one.arguments) == arguments_value(other.arguments)
