"""The one way a trace becomes bytes and back: JSON lines with a schema version and numbered upgrades.

    {"type": "trace", "schema_version": 1, "head": {…}}
    {"type": "text", "ref": "b2:…", "body": "…"}
    {"type": "span", …}
    {"type": "label", …}
    {"type": "end", "spans": 12}

A trace without its `end` line was cut off. Readers upgrade old lines one version at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

from .label import Label
from .span import Span
from .trace import Head, Trace

SCHEMA_VERSION = 1

Line = dict[str, Any]
UPGRADES: dict[int, Callable[[Line], Line]] = {}
"""`UPGRADES[n]` turns a line of version n into one of version n + 1. Version 1 is the first."""

encoder = msgspec.json.Encoder()
_decoders: dict[type, msgspec.json.Decoder[Any]] = {}
Checked = TypeVar("Checked", bound=msgspec.Struct)


class TextLine(msgspec.Struct, frozen=True, tag="text"):
    """A text by its address."""

    ref: str
    body: str


class HeadLine(msgspec.Struct, frozen=True, tag="trace"):
    """The start of a trace."""

    schema_version: int
    head: Head


class EndLine(msgspec.Struct, frozen=True, tag="end"):
    """The end of a trace."""

    spans: int


def encode(trace: Trace) -> Iterator[bytes]:
    """The lines of a trace, without line breaks."""
    yield encoder.encode(HeadLine(SCHEMA_VERSION, trace.head))
    for ref, body in trace.texts.items():
        yield encoder.encode(TextLine(ref, body))
    for span in trace.spans:
        yield tagged("span", span)
    for label in trace.labels:
        yield tagged("label", label)
    yield encoder.encode(EndLine(len(trace.spans)))


def check(record: Checked) -> Checked:
    """The record itself, if what is written of it can be read again; a `ValueError` that says why if not.

    A frozen record takes any value that it is given. It is checked before it is stored: what a wrong value would
    damage is the whole file that it is stored in.
    """
    kind = type(record)
    if kind not in _decoders:
        _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        _decoders[kind].decode(encoder.encode(record))
    except (msgspec.MsgspecError, TypeError, OverflowError, RecursionError, UnicodeError) as error:
        raise ValueError(f"not a {kind.__name__.lower()} that can be stored: {error}") from None
    return record


def tagged(kind: str, record: msgspec.Struct) -> bytes:
    """A record with its type in front."""
    return encoder.encode({"type": kind, **msgspec.to_builtins(record)})


def decode_line(line: Line, version: int) -> HeadLine | TextLine | Span | Label | EndLine:
    """One line as a record, upgraded from the version its trace was written in."""
    for step in range(version, SCHEMA_VERSION):
        line = UPGRADES[step](line)
    kind = line.get("type")
    shapes: dict[str, Any] = {"trace": HeadLine, "text": TextLine, "end": EndLine, "span": Span, "label": Label}
    if kind not in shapes:
        raise ValueError(f"unknown line type {kind!r}")
    if kind in ("span", "label"):
        line = {k: v for k, v in line.items() if k != "type"}
    result: HeadLine | TextLine | Span | Label | EndLine = msgspec.convert(line, shapes[kind])
    return result
