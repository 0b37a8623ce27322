"""Drafts, which readers and recorders give with the words still in them, and sinks, which store what they become."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol, TypedDict

import msgspec

from ethogram.traces import Head, Kind, Label, LabelSource, Message, Ref, Span, Status, ToolResult, begins_as_error


class Draft(msgspec.Struct, kw_only=True, gc=False):
    """A span with its words still in it.

    `input` is the full input of a model call; with `growing`, only the messages that are new since the
    last model call of the same lane (chat logs know this and save the comparison). `seq` is for recorders,
    which add a span when it ends but number it when it begins.
    """

    kind: Kind
    name: str
    seq: int | None = None
    span_id: str | None = None
    parent_id: str | None = None
    agent: str = ""
    lane: str = ""
    start_ns: int | None = None
    end_ns: int | None = None
    status: Status = "unset"
    error: str | None = None
    model: str | None = None
    provider: str | None = None
    prompt_version: str | None = None
    params: dict[str, Any] = {}
    input: Sequence[Message] = ()
    growing: bool = False
    output: Sequence[Message] = ()
    tool: str | None = None
    call_id: str | None = None
    arguments: str | None = None
    result: str | None = None
    truncated: bool = False
    input_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None
    stop_reason: str | None = None
    attributes: dict[str, Any] = {}


class SpanFields(TypedDict, total=False):
    """What a recorder takes of a `Draft`: all but its kind, its name and its place, which the recorder knows."""

    agent: str
    lane: str
    start_ns: int | None
    end_ns: int | None
    status: Status
    error: str | None
    model: str | None
    provider: str | None
    prompt_version: str | None
    params: dict[str, Any]
    input: Sequence[Message]
    growing: bool
    output: Sequence[Message]
    tool: str | None
    call_id: str | None
    arguments: str | None
    result: str | None
    truncated: bool
    input_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    cost_usd: float | None
    stop_reason: str | None
    attributes: dict[str, Any]


class PlacedFields(SpanFields, total=False):
    """The same, with the span that it is a part of."""

    parent_id: str | None


class DraftFields(PlacedFields, total=False):
    """All fields of a `Draft`: what may stand beside a message of a log."""

    kind: Kind
    name: str
    seq: int | None
    span_id: str | None


_FIELDS = frozenset(Draft.__struct_fields__)


def check_fields(function: str, fields: Collection[str]) -> None:
    """Raise the `TypeError` of an unknown keyword where one of these names is no field of a draft."""
    if not _FIELDS.issuperset(fields):
        from difflib import get_close_matches

        unknown = next(name for name in fields if name not in _FIELDS)
        near = get_close_matches(unknown, _FIELDS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise TypeError(f"{function}() got an unexpected keyword argument {unknown!r}{hint}")


def tells_error(draft: Draft) -> bool:
    """Whether a span without a status is a call of a tool whose result is an error by its first words."""
    if draft.kind != "tool":
        return False
    if draft.result is not None:
        return begins_as_error(draft.result)
    parts = (part for message in draft.output for part in message.parts if isinstance(part, ToolResult))
    return any(begins_as_error(part.content) for part in parts)


class LabelDraft(msgspec.Struct, kw_only=True):
    """A score or a note with its words still in it, on a trace or on the span that a log calls `span_id`."""

    name: str
    value: float | bool | str | None
    by: str
    source: LabelSource = "import"
    why: str | None = None
    span_id: str | None = None
    version: str = "1"
    at_ns: int | None = None


class PayloadWords(str):
    """Words of a payload that stand in for a name: they become one only behind the sink, redacted before they are cut.

    So no name holds a part of a secret that redaction would know as a whole.
    """

    __slots__ = ()


class TraceSink(Protocol):
    """Receives one trace; redaction and storage happen behind it."""

    @property
    def idle(self) -> bool:
        """Whether nothing is ever redacted."""
        ...

    def text(self, body: str, field: str, original: str | None = None) -> Ref:
        """Keep a text and give its address; no `field` means that it is clean already, and was `original` before."""
        ...

    def clean(self, value: str, field: str) -> str:
        """A short piece of metadata, redacted."""
        ...

    def named(self, words: str) -> str:
        """A name made of words of the log that nobody gave as a name: redacted, then cut."""
        ...

    def span(self, span: Span) -> None:
        """Keep a span."""
        ...

    def finish(self, head: Head, labels: Sequence[Label]) -> None:
        """The trace is complete."""
        ...

    def abort(self) -> None:
        """Forget the trace."""
        ...


def without_surrogates(value: str) -> str:
    """Text that every later reader can hold: half characters (lone surrogates) become U+FFFD."""
    if value.isascii():
        return value
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return value
