"""Which call a tool's result answers: the one place where calls and results are paired.

Ids from outside repeat, even inside one log, so an id alone names no call: a call that has its result waits no longer,
and among calls that fit, the oldest is taken. What fits is, for a log or a conversation, a call with the id of the
result, else one of its name, else any if one of the two has no id (`OpenCalls.take`). Three places know more or less
than that, and say by themselves what fits (`OpenCalls.take_first`, `OpenCalls.take_id`):

- Requests that were seen on the wire, or that a log holds, belong to many conversations, and a client sends a call back
  with its result: the call that fits is the one that was sent back (`capture/asked_calls.py`).
- A step of ATIF holds all its calls and all its results: what has no partner by id is paired by position
  (`capture/readers/_atif_steps.py`).
- Not every tool span of a trace was asked for by a model, so one without an id is paired by name only
  (`capture/writers/_atif_fields.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ethogram.traces import Message, ToolCall, ToolResult


class OpenCall(NamedTuple):
    """A call that has no result yet, and fields of the span that the result will complete."""

    call: ToolCall
    details: dict[str, Any]


class OpenCalls:
    """The calls of one conversation that wait for their results, in the order in which they were made."""

    def __init__(self, calls: Iterable[ToolCall] = (), **details: Any) -> None:
        """These calls were made, each with the same details."""
        self._open = [OpenCall(call, details) for call in calls]

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[OpenCall]:
        return iter(self._open)

    def add(self, call: ToolCall, **details: Any) -> None:
        """A call that a result will answer."""
        self._open.append(OpenCall(call, details))

    def take(self, result: ToolResult) -> OpenCall | None:
        """The call that this result answers, which then waits no longer; None if no open call fits."""
        best, best_rank = -1, 3
        for position, (call, _) in enumerate(self._open):
            if result.call_id is not None and call.call_id == result.call_id:
                best = position
                break
            rank = 1 if call.name == result.name else 2 if result.call_id is None or call.call_id is None else 3
            if rank < best_rank:
                best, best_rank = position, rank
        return self._open.pop(best) if best >= 0 else None

    def take_first(self, fits: Callable[[ToolCall], bool]) -> OpenCall | None:
        """The oldest call that fits, which then waits no longer; None if no open call does."""
        at = next((i for i, (call, _) in enumerate(self._open) if fits(call)), None)
        return None if at is None else self._open.pop(at)

    def take_id(self, call_id: str | None) -> OpenCall | None:
        """The oldest call with this id (or without one), which then waits no longer; None if there is none."""
        return self.take_first(lambda call: call.call_id == call_id)

    def call_for(self, result: ToolResult) -> ToolCall:
        """The call that this result answers; one without arguments that is made up for it if none was seen."""
        found = self.take(result)
        return found.call if found else unseen_call(result)

    def take_all(self) -> list[OpenCall]:
        """Every call that never got a result; none waits any longer."""
        calls, self._open = self._open, []
        return calls


def unseen_call(result: ToolResult) -> ToolCall:
    """What stands for the call of a result whose call was not seen."""
    return ToolCall(result.name or "unknown", "", result.call_id)


class AnsweredCall(NamedTuple):
    """A result in a request: where it stands (message, part), the call that it answers if that is there, and itself."""

    place: tuple[int, int]
    call: ToolCall | None
    result: ToolResult


def answered_calls(messages: Sequence[Message]) -> Iterator[AnsweredCall]:
    """Each result of the client's own tools in the messages of a request."""
    calls = OpenCalls()
    for i, message in enumerate(messages):
        if message.role == "assistant":  # results in it are those of tools that the provider runs
            for call in message.tool_calls:
                calls.add(call)
            continue
        for j, part in enumerate(message.parts):
            if isinstance(part, ToolResult):
                found = calls.take(part)
                yield AnsweredCall((i, j), found.call if found else None, part)
