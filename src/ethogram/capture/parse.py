"""Small, forgiving conversions that every reader needs: foreign values in, clean values or None out."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

import msgspec

from ethogram.traces import File, Message, Part, Reasoning, Role, Text, ToolCall, ToolResult, digest

_FRACTION = re.compile(r"\.(\d+)")
_DURATION = re.compile(r"(-?)P(?:(\d{1,9})D)?(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9}(?:\.\d*)?|\.\d+)S)?)?")
_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "human": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "model": "assistant",
    "agent": "assistant",
    "tool": "tool",
    "function": "tool",
}


def as_int(value: Any) -> int | None:
    """A whole number of up to 64 bits, also from a string or a float."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        if isinstance(value, str) and value.strip().lstrip("+-").isdecimal() and len(value) < 40:
            value = int(value)
        number = float(value) if not isinstance(value, int) else value
    except (TypeError, ValueError):
        return None
    return int(number) if abs(number) < 1 << 64 else None  # NaN and infinities are not less than anything


def as_float(value: Any) -> float | None:
    """A finite number, also from a string."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def as_dict(value: Any) -> dict[str, Any]:
    """An object, also from JSON inside a string; anything else is empty."""
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    if isinstance(value, str) and value.lstrip()[:1] == "{":
        value = from_json(value)
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    """A list, also from JSON inside a string; anything else is empty."""
    if value is None:
        return []
    if isinstance(value, list):
        return value
    if isinstance(value, str) and value.lstrip()[:1] == "[":
        value = from_json(value)
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    """Words as they are; other values as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else to_json(value)


def as_name(value: Any) -> str:
    """A short name; nothing and non-strings included."""
    return value if isinstance(value, str) else "" if value is None else to_json(value)


def to_json(value: Any) -> str:
    """JSON text of a foreign value; half of a surrogate pair, which is no character, stays escaped."""
    try:
        return msgspec.json.encode(value, enc_hook=str).decode()
    except UnicodeEncodeError:
        return json.dumps(value, default=str)


def from_json(value: str | bytes) -> Any:
    """The value of JSON text, or None if it is not JSON."""
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def iso_ns(value: Any) -> int | None:
    """Nanoseconds of an ISO 8601 time (without a zone: UTC), or of a number of seconds, ms, µs or ns since 1970."""
    if isinstance(value, datetime):
        return _datetime_ns(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return epoch_ns(value)
    if not isinstance(value, str) or not value:
        return None
    if value.replace(".", "", 1).isdecimal() and len(value) < 400:
        return epoch_ns(float(value) if "." in value else int(value))
    fraction = _FRACTION.search(value)
    nanos = int((fraction.group(1) + "000000000")[:9]) if fraction else 0
    plain = _FRACTION.sub("", value, count=1).strip()
    try:
        parsed = datetime.fromisoformat(plain.replace(" UTC", "+00:00"))
    except ValueError:
        return None
    whole = _datetime_ns(parsed)
    return None if whole is None else whole + nanos


def _datetime_ns(value: datetime) -> int | None:
    if value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    try:
        delta = value - datetime(1970, 1, 1, tzinfo=UTC)
    except OverflowError:
        return None
    return (delta.days * 86_400 + delta.seconds) * 1_000_000_000 + delta.microseconds * 1000


def epoch_ns(value: float) -> int | None:
    """A time since 1970 in a unit that its size gives away."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value <= 0:
        return None
    for limit, factor in ((1e11, 1_000_000_000), (1e14, 1_000_000), (1e17, 1000)):
        if value < limit:
            return value * factor if isinstance(value, int) else round(value * factor)
    return int(value)


def duration_ns(value: Any) -> int | None:
    """Nanoseconds of an ISO 8601 duration such as `PT24.688187S`."""
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    sign, days, hours, minutes, seconds = match.groups()
    total = int(days or 0) * 86_400 + int(hours or 0) * 3600 + int(minutes or 0) * 60
    nanos = total * 1_000_000_000 + round(float(seconds or 0) * 1_000_000_000)
    return -nanos if sign else nanos


def role(value: Any) -> Role:
    """One of our roles; speakers that are none of them are `other`."""
    return (_ROLES.get(value) or _ROLES.get(value.lower(), "other")) if isinstance(value, str) else "other"


def media(media_type: str, data: str) -> File:
    """A picture or sound: data addresses and base64 become a digest and a size, never bytes in the lake."""
    if data.startswith(("http://", "https://", "file:", "attachment:")) or len(data) < 200:
        return File(media_type, uri=data)
    return File(media_type, digest=digest(data), size=len(data) * 3 // 4)


def content_parts(content: Any) -> list[Part]:
    """Parts of a message in any of the common spellings: a string, a list of strings or of typed parts."""
    if content is None or content == "":
        return []
    if isinstance(content, str):
        return [Text(content)]
    if isinstance(content, dict):
        content = [content]
    if not isinstance(content, list):
        return [Text(to_json(content))]
    if content and all(isinstance(c, str) for c in content):
        return [Text("\n".join(content))]
    parts: list[Part] = []
    for item in content:
        parts.extend(_one_part(item))
    return parts


def _one_part(item: Any) -> list[Part]:
    """One typed part, by its `type`."""
    if not isinstance(item, dict):
        return [Text(as_text(item))]
    kind = as_name(item.get("type"))
    if kind in ("thinking", "reasoning", "redacted_thinking"):
        summary = "\n".join(as_text(s.get("text") if isinstance(s, dict) else s) for s in as_list(item.get("summary")))
        return [
            Reasoning(
                as_text(
                    item.get("thinking") or item.get("reasoning") or item.get("content") or item.get("text") or summary
                )
            )
        ]
    if kind in ("tool_use", "tool_call", "server_tool_call", "server_tool_use"):
        return [tool_call(item)]
    if kind in ("tool_result", "tool_call_response", "server_tool_call_response"):
        body = item.get("content", item.get("response", item.get("result", item.get("output"))))
        return [
            ToolResult(
                flat_text(body),
                as_name(item.get("name")) or None,
                as_name(item.get("tool_use_id") or item.get("id")) or None,
                bool(item.get("is_error")),
            )
        ]
    text = item.get("refusal") if kind == "refusal" else item.get("text", item.get("content"))
    if isinstance(text, str) and kind in ("", "text", "input_text", "output_text", "refusal"):
        return [Text(text)]
    if "image" in kind or "audio" in kind or "file" in kind or kind in ("document", "blob", "uri", "video"):
        return [_file_part(kind, item)]
    if isinstance(text, str):
        return [Text(text)]
    return [Text(to_json(item))]


def _file_part(kind: str, item: dict[str, Any]) -> File:
    inner = item.get("source") or item.get(kind) or item.get("image_url") or item
    if isinstance(inner, str):
        inner = {"url": inner}
    if not isinstance(inner, dict):
        inner = {}
    media_type = as_name(inner.get("media_type") or item.get("mime_type") or inner.get("format")) or kind.split("_")[-1]
    data = (
        inner.get("data")
        or (inner.get("content") if kind == "blob" else None)
        or inner.get("url")
        or inner.get("uri")
        or inner.get("path")
        or inner.get("file_id")
    )
    return media(media_type, as_text(data))


def flat_text(content: Any) -> str:
    """The words of a content value; pictures and structures become short JSON."""
    return words_of_parts(content_parts(content))


def words_of_parts(parts: Iterable[Part]) -> str:
    """The words of parts; pictures and calls become short JSON."""
    words = []
    for part in parts:
        if isinstance(part, Text | Reasoning):
            words.append(part.text)
        elif isinstance(part, ToolResult):
            words.append(part.content)
        else:
            words.append(to_json(part))
    return "\n".join(words)


def tool_call(item: Any) -> ToolCall:
    """A tool call in the OpenAI, Anthropic, OTel or AgentDojo spelling; arguments become JSON text."""
    item = as_dict(item)
    function = item.get("function")
    inner = function if isinstance(function, dict) else item
    name = inner.get("name") or (function if isinstance(function, str) else None) or inner.get("function_name")
    arguments = next((inner[k] for k in ("arguments", "input", "args", "kwargs") if inner.get(k) is not None), None)
    call_id = item.get("id") or item.get("tool_call_id") or item.get("call_id")
    text = arguments if isinstance(arguments, str) else "" if arguments is None else to_json(arguments)
    return ToolCall(as_name(name) or "unknown", text, as_name(call_id) or None)


def chat_message(item: dict[str, Any]) -> Message:
    """A chat message in the OpenAI or Anthropic spelling."""
    get = item.get
    speaker, content = role(get("role")), get("content")
    if len(item) == 2 and content and isinstance(content, str) and speaker != "tool" and "role" in item:
        return Message(speaker, (Text(content),))  # what most messages are: who speaks, and words
    name = as_name(get("name")) or None
    parts = content_parts(content)
    if not parts and isinstance(refusal := get("refusal"), str) and refusal:
        parts = [Text(refusal)]
    reasoning = get("reasoning_content") or get("reasoning")
    if isinstance(reasoning, str) and reasoning:
        parts.insert(0, Reasoning(reasoning))
    if speaker == "tool" and ToolResult not in map(type, parts):
        words = content if isinstance(content, str) else flat_text(content)
        parts = [ToolResult(words, name, as_name(get("tool_call_id")) or None, bool(get("error")))]
    if calls := get("tool_calls"):
        parts += map(tool_call, as_list(calls))
    if isinstance(legacy := get("function_call"), dict):
        parts.append(tool_call(legacy))
    return Message(speaker, tuple(parts), name)


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
        "reasoning_tokens": _first(out.get("reasoning_tokens"), out.get("thinking_tokens")),
    }


def _first(*values: Any) -> int | None:
    """The first count; less than nothing is no count."""
    return next((number for v in values if (number := as_int(v)) is not None and number >= 0), None)
