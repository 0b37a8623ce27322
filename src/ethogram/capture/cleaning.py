"""Words on their way into a trace: what is redacted in a message or a parameter, and how values become text.

The builder of traces uses these before it stores, and replay before it compares a live request with a stored one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ethogram.traces import File, Message, Param, Part, Reasoning, Text, ToolCall, ToolResult

from .draft import without_surrogates

_encoder = msgspec.json.Encoder(enc_hook=str, order="sorted")


def json_text(value: Any) -> str:
    """A foreign value as JSON text; what JSON cannot say becomes its printed form."""
    try:
        return _encoder.encode(value).decode()
    except UnicodeEncodeError:
        return _encoder.encode(_all_printable(value)).decode()


def _all_printable(value: Any) -> Any:
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, dict):
        return {_all_printable(k): _all_printable(v) for k, v in value.items()}
    return [_all_printable(v) for v in value] if isinstance(value, list | tuple) else value


def clean_message(message: Message, clean: Callable[[str], str]) -> Message:
    """The message with every string in it redacted; the structure stays."""
    parts = tuple([_clean_part(part, clean) for part in message.parts])
    name = clean(message.name) if message.name else None
    return message if name == message.name and parts == message.parts else Message(message.role, parts, name)


def _clean_part(part: Part, clean: Callable[[str], str]) -> Part:
    """The part itself where there is nothing to redact in it."""
    match part:
        case Text() | Reasoning():
            words = clean(part.text)
            return part if words == part.text else type(part)(words)
        case ToolResult():
            content, name, call_id = clean(part.content), _maybe(part.name, clean), _maybe(part.call_id, clean)
            same = content == part.content and name == part.name and call_id == part.call_id
            return part if same else ToolResult(content, name, call_id, part.failed)
        case ToolCall():
            called, arguments, call_id = clean(part.name), clean(part.arguments), _maybe(part.call_id, clean)
            same = called == part.name and arguments == part.arguments and call_id == part.call_id
            return part if same else ToolCall(called, arguments, call_id)
        case File():  # its digest has no words
            return msgspec.structs.replace(part, media_type=clean(part.media_type), uri=clean(part.uri))


def _maybe(value: str | None, clean: Callable[[str], str]) -> str | None:
    return None if value is None else clean(value)


def clean_params(params: Mapping[str, Any], clean: Callable[[str, str], str]) -> dict[str, Param]:
    """Parameters as a trace keeps them: `clean` redacts a value under the policy of its field; None is left out."""
    kept: dict[str, Param] = {}
    for name, value in params.items():
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            continue
        name = clean(str(name), "meta")
        if isinstance(value, bool | int | float):
            kept[name] = value
        else:
            kept[name] = _fact(name, value if isinstance(value, str) else json_text(value), clean)
    return kept


def _fact(name: str, value: str, clean: Callable[[str, str], str]) -> str:
    """A value that a name is given to, redacted: of a password only the name may tell what it is."""
    lead = f"{name}="
    told = clean(lead + value, "meta")
    return told[len(lead) :] if told.startswith(lead) else clean(value, "meta")
