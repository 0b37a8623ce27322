"""What the readers of benchmark logs share: records out of a file of any JSON shape, verdicts, tokens, crashes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import ijson
import msgspec
from ijson.common import ObjectBuilder

from ethogram.capture.chat import ChatBuilder
from ethogram.capture.intake import Draft, Intake, TraceBuilder
from ethogram.capture.parse import as_dict, as_float, as_int, chat_message
from ethogram.capture.peek import peek_at
from ethogram.capture.source import CHUNK, MAX_DOCUMENT, Source
from ethogram.errors import Unreadable
from ethogram.trace import Message, Missing, Outcome, Reason, Scored, ToolCall, ToolResult

_BAD_JSON = (msgspec.DecodeError, ValueError, RecursionError)


def records(source: Source, intake: Intake) -> Iterator[tuple[str, Any]]:
    """Place and value of each record: JSON lines, the elements of an array, or the one document.

    Python writes NaN and integers of any length into its JSON; strict parsers stop there. What they refuse is
    tried again with Python's own parser, and a document that is cut off gives what stood before the cut.
    """
    shape = peek_at(source).shape
    if shape == "lines":
        yield from _lines(source, intake)
    elif shape == "array":
        yield from _elements(source, intake)
    elif shape == "object":
        yield from _document(source, intake)
    else:
        raise Unreadable(f"{source.name}: {'empty' if shape == 'empty' else 'no JSON in it'}")


def _lines(source: Source, intake: Intake) -> Iterator[tuple[str, Any]]:
    for number, line in source.lines(lambda n, why: intake.skip(f"line {n}", why)):
        try:
            value = _decode(line)
        except _BAD_JSON as error:
            intake.skip(f"line {number}", f"not JSON: {_short(error)}")
        else:
            yield f"line {number}", value


def _elements(source: Source, intake: Intake) -> Iterator[tuple[str, Any]]:
    position = 0
    try:
        for value in source.items("item"):
            yield f"element {position}", value
            position += 1
        return
    except (ijson.JSONError, ValueError) as error:
        why = _short(error)
    try:
        whole = _decode(_read(source)[0])
    except _BAD_JSON:
        intake.skip("the rest of the file", f"after element {position - 1}: the JSON is damaged or cut off ({why})")
    else:
        for value in whole[position:]:
            yield f"element {position}", value
            position += 1


def _document(source: Source, intake: Intake) -> Iterator[tuple[str, Any]]:
    data, damage = _read(source)
    if len(data) > MAX_DOCUMENT:
        raise Unreadable(f"{source.name}: one JSON document of more than {MAX_DOCUMENT >> 20} MiB")
    try:
        value = _decode(data)
    except _BAD_JSON as error:
        why = _short(error)
    else:
        if damage:
            intake.skip("the end of the file", damage)
        yield "the document", value
        return
    if b"\n" in data and not damage and _is_object(data[: data.index(b"\n")]):
        yield from _lines(source, intake)  # a first line so long that the look at the file saw no second one
        return
    intake.skip("the rest of the document", f"the JSON is damaged or cut off: {damage or why}; the start is kept")
    value = _salvage(data)
    if isinstance(value, dict):
        yield "the document", value


def _read(source: Source) -> tuple[bytes, str]:
    """The bytes as far as they can be unpacked, and what stopped the unpacking."""
    chunks: list[bytes] = []
    size = 0
    try:
        with source.open() as stream:
            while size <= MAX_DOCUMENT and (chunk := stream.read(CHUNK)):
                chunks.append(chunk)
                size += len(chunk)
    except Unreadable as error:
        return b"".join(chunks), str(error)
    return b"".join(chunks).removeprefix(b"\xef\xbb\xbf"), ""


def _decode(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        return json.loads(data)


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(_decode(line), dict)
    except _BAD_JSON:
        return False


def _salvage(data: bytes) -> Any:
    """The value as far as it goes."""
    builder = ObjectBuilder()
    try:
        for event, value in ijson.basic_parse(data, use_float=True):
            builder.event(event, value)
    except (ijson.JSONError, ValueError):
        pass
    return getattr(builder, "value", None)


def _short(error: BaseException) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__


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


def take_call(open_calls: list[ToolCall], result: ToolResult) -> ToolCall:
    """The call that a result answers, taken off the list: the oldest with its id, else of its name, else the oldest."""
    matches: list[ToolCall] = (
        [c for c in open_calls if result.call_id is not None and c.call_id == result.call_id]
        or [c for c in open_calls if result.name is not None and c.name == result.name]
        or open_calls
    )
    if not matches:
        return ToolCall(result.name or "unknown", "", result.call_id)
    call = matches[0]
    open_calls.remove(call)
    return call


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
