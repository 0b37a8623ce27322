"""What the readers of benchmark logs share: verdicts, tokens, crashes, and messages that are fed one by one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.chat import ChatBuilder
from ethogram.capture.draft import Draft
from ethogram.capture.intake import Intake
from ethogram.capture.parse import as_dict, as_float, as_int, chat_message
from ethogram.trace import Message, Missing, Outcome, Reason, Scored, ToolCall, ToolResult


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
        with intake.record(f"{where}, message {position}"):
            item = as_object(item, "the message")
            chat.add(chat_message(item), **details(position, item))


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


def usage_tokens(usage: Any) -> dict[str, int | None]:
    """Token fields of a draft from a usage object in the OpenAI or the Anthropic spelling.

    `prompt_tokens` holds cached tokens, so they are taken out. `input_tokens` does so only where its own
    details say how many (OpenAI's responses); Anthropic's raw count is fresh input already.
    """
    usage = as_dict(usage)
    if not usage:
        return {}
    inclusive = "prompt_tokens" in usage or "input_tokens_details" in usage
    details = as_dict(usage.get("prompt_tokens_details") or usage.get("input_tokens_details"))
    out = as_dict(usage.get("completion_tokens_details") or usage.get("output_tokens_details"))
    read = _first(details.get("cached_tokens"), usage.get("cache_read_input_tokens"))
    write = _first(
        details.get("cache_creation_tokens"),
        details.get("cache_write_tokens"),
        usage.get("cache_creation_input_tokens"),
    )
    whole = _first(usage.get("prompt_tokens"), usage.get("input_tokens"))
    if whole is not None and inclusive:
        whole = max(0, whole - (read or 0) - (write or 0))
    return {
        "input_tokens": whole,
        "cache_read_tokens": read,
        "cache_write_tokens": write,
        "output_tokens": _first(usage.get("completion_tokens"), usage.get("output_tokens")),
        "reasoning_tokens": _first(out.get("reasoning_tokens")),
    }


def _first(*values: Any) -> int | None:
    return next((number for v in values if (number := as_int(v)) is not None), None)


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
            return Missing(reason, last[:300])
    return None


def add_crash(trace: TraceBuilder, error: str, **details: Any) -> None:
    """A span for the error that ended a run."""
    trace.add(Draft(kind="other", name="crash", error=error, **details))
