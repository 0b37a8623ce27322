"""Which call a tool's result answers: the one place where calls and results are paired.

Ids from outside repeat, even inside one log, so an id alone names no call. A result takes the oldest open call with its
id, else the oldest of its name, else the oldest if one of the two has no id.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ethogram.trace import ToolCall, ToolResult


class OpenCall(NamedTuple):
    """A call that has no result yet, and fields of the span that the result will complete."""

    call: ToolCall
    details: dict[str, Any]


class OpenCalls:
    """The calls of one conversation that wait for their results, in the order in which they were made."""

    def __init__(self) -> None:
        """No call was made yet."""
        self._open: list[OpenCall] = []

    def __bool__(self) -> bool:
        return bool(self._open)

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

    def call_for(self, result: ToolResult) -> ToolCall:
        """The call that this result answers; one without arguments that is made up for it if none was seen."""
        found = self.take(result)
        return found.call if found else ToolCall(result.name or "unknown", "", result.call_id)

    def take_all(self) -> list[OpenCall]:
        """Every call that never got a result; none waits any longer."""
        calls, self._open = self._open, []
        return calls
