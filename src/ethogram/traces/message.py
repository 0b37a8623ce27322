"""Messages: what model spans read and write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from .ids import Ref

Role = Literal["system", "user", "assistant", "tool", "other"]


class Text(msgspec.Struct, frozen=True, gc=False, tag="text"):
    """Words."""

    text: str


class Reasoning(msgspec.Struct, frozen=True, gc=False, tag="reasoning"):
    """Thinking that the model showed apart from its answer."""

    text: str


class ToolCall(msgspec.Struct, frozen=True, gc=False, tag="tool_call", omit_defaults=True):
    """A request to run a tool; `arguments` is JSON text, exactly as the model wrote it."""

    name: str
    arguments: str = ""
    call_id: str | None = None


def arguments_value(arguments: str) -> Any:
    """The arguments of a call as a value: an empty object where there are none, the text itself where it is no JSON."""
    text = arguments.strip()
    try:
        return msgspec.json.decode(text) if text else {}
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text


def canonical_json(text: str) -> str:
    """JSON text whatever its spacing and the order of its names; what is no JSON stays as it is."""
    try:
        return _encoder.encode(msgspec.json.decode(text)).decode()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text


class ToolResult(msgspec.Struct, frozen=True, gc=False, tag="tool_result", omit_defaults=True):
    """What a tool answered."""

    content: str
    name: str | None = None
    call_id: str | None = None
    failed: bool = False


class File(msgspec.Struct, frozen=True, gc=False, tag="file", omit_defaults=True):
    """An image, a sound or a document: where it is, not its bytes."""

    media_type: str
    uri: str = ""
    digest: str | None = None
    size: int | None = None


Part = Text | Reasoning | ToolCall | ToolResult | File


class Message(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One turn: who speaks, and in which parts."""

    role: Role
    parts: tuple[Part, ...] = ()
    name: str | None = None

    @property
    def text(self) -> str:
        """The words of the message: text parts and tool results, joined by line breaks."""
        words = [p.text if isinstance(p, Text) else p.content for p in self.parts if isinstance(p, Text | ToolResult)]
        return "\n".join(words)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """The tools that this message asks for."""
        return tuple([p for p in self.parts if isinstance(p, ToolCall)])


INLINE = 64
"""Arguments and results longer than this are stored as texts of their own, shared with the tool's span."""


class _DetachedCall(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="tool_call_ref"):
    name: str
    arguments: Ref
    call_id: str | None = None


class _DetachedResult(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, tag="tool_result_ref"):
    content: Ref
    name: str | None = None
    call_id: str | None = None
    failed: bool = False


class _Stored(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    role: Role
    parts: tuple[Text | Reasoning | ToolCall | ToolResult | File | _DetachedCall | _DetachedResult, ...] = ()
    name: str | None = None


_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(_Stored)


def pack_message(message: Message, put: Callable[[str], Ref]) -> str:
    """The canonical text of a message; long arguments and results go through `put` and leave a reference."""
    parts: list[Part | _DetachedCall | _DetachedResult] | None = None
    for number, part in enumerate(message.parts):
        apart: _DetachedCall | _DetachedResult
        if isinstance(part, ToolCall) and len(part.arguments) > INLINE:
            apart = _DetachedCall(part.name, put(part.arguments), part.call_id)
        elif isinstance(part, ToolResult) and len(part.content) > INLINE:
            apart = _DetachedResult(put(part.content), part.name, part.call_id, part.failed)
        else:
            continue
        parts = list(message.parts) if parts is None else parts
        parts[number] = apart
    # a message of which nothing stands apart is written as it is: its fields are those of what is stored
    whole = message if parts is None else _Stored(message.role, tuple(parts), message.name)
    return _encoder.encode(whole).decode()


def unpack_message(body: str, get: Callable[[Ref], str]) -> Message:
    """The message behind a canonical text; `get` fetches what was stored apart."""
    stored = _decoder.decode(body)
    parts: list[Part] = []
    for part in stored.parts:
        if isinstance(part, _DetachedCall):
            parts.append(ToolCall(part.name, get(part.arguments), part.call_id))
        elif isinstance(part, _DetachedResult):
            parts.append(ToolResult(get(part.content), part.name, part.call_id, part.failed))
        else:
            parts.append(part)
    return Message(stored.role, tuple(parts), stored.name)


def detached_refs(body: str) -> tuple[Ref, ...]:
    """The texts that a stored message leans on; none if the body is not a stored message."""
    if "_ref" not in body:
        return ()
    try:
        stored = _decoder.decode(body)
    except msgspec.MsgspecError:
        return ()
    return tuple(
        p.arguments if isinstance(p, _DetachedCall) else p.content
        for p in stored.parts
        if isinstance(p, _DetachedCall | _DetachedResult)
    )
