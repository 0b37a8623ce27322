"""What the readers of benchmark logs share: verdicts, tokens, crashes, and messages that are fed one by one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.chat import ChatBuilder
from ethogram.capture.draft import Draft
from ethogram.capture.intake import RECORD_ERRORS, Intake
from ethogram.capture.parse import as_float, chat_message
from ethogram.traces import Message, Missing, Outcome, Reason, Scored, ToolCall, ToolResult, cut_whole


def as_object(value: Any, what: str) -> dict[str, Any]:
    """The object itself; anything else is an error that names what was expected."""
    if not isinstance(value, dict):
        raise TypeError(f"{what} is a {type(value).__name__}, not an object")
    return value


def as_listing(value: Any, what: str) -> list[Any]:
    """The list itself; anything else is an error (a string would be read letter by letter)."""
    if not isinstance(value, list):
        raise TypeError(f"{what} is a {type(value).__name__}, not a list")
    return value


def verdict(value: Any, by: str) -> Outcome:
    """A score from a number or a truth value; anything else is no verdict."""
    if isinstance(value, bool):
        return Scored(float(value), by)
    number = as_float(value)
    return Missing("unscored") if number is None else Scored(number, by)


def feed(
    chat: ChatBuilder,
    messages: Iterable[Any],
    intake: Intake,
    where: str,
    details: Callable[[int, dict[str, Any]], dict[str, Any]] = lambda position, item: {},
) -> None:
    """Add chat messages in order; a malformed one is reported and the others are kept.

    `details` gives the fields of the draft that stand beside a message or in its record.
    """
    for position, item in enumerate(messages):
        try:
            item = as_object(item, "the message")
            chat.add(chat_message(item), **details(position, item))
        except RECORD_ERRORS as error:
            intake.refuse(f"{where}, message {position}", error)


def add_tool(trace: TraceBuilder, call: ToolCall, message: Message | None, **fields: Any) -> None:
    """A tool span of a call and the message with its result, or without one that never came."""
    if message is None:
        trace.lose("tool result (never came)")
    else:
        result = next(p for p in message.parts if isinstance(p, ToolResult))
        status = "error" if result.failed else "ok"
        fields = {"status": status, "result": result.content, "output": (message,), **fields}
    trace.add(
        Draft(kind="tool", name=call.name, tool=call.name, call_id=call.call_id, arguments=call.arguments, **fields)
    )


_FAULTS: tuple[tuple[str, Reason], ...] = (
    (r"RateLimit|TooManyRequests|(?:code|status)\D{0,3}429|rate limit", "infrastructure.rate_limit"),
    (r"Timeout|timed out|(?:code|status)\D{0,3}504", "infrastructure.timeout"),
    (r"APIConnection|ConnectionError|ConnectionReset|RemoteProtocol", "infrastructure.network"),
    (r"InternalServer|ServiceUnavailable|Overloaded|(?:code|status)\D{0,3}5\d\d", "infrastructure.other"),
)


def infrastructure(error: str) -> Missing | None:
    """The reason, where the error of a run names a fault of the provider or the network and not of the agent.

    Benchmarks write a score of 0 for such runs; counting it would blame the agent.
    """
    if not error.strip():
        return None
    last = error.strip().splitlines()[-1]  # of a traceback: the exception's own line
    for pattern, reason in _FAULTS:
        if re.search(pattern, last, re.IGNORECASE):
            return Missing(reason, cut_whole(last, 300))
    return None


def add_crash(trace: TraceBuilder, error: str, **details: Any) -> None:
    """A span for the error that ended a run."""
    trace.add(Draft(kind="other", name="crash", error=error, **details))
