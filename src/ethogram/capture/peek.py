"""A first look at a source: enough to recognise its format without reading it."""

from __future__ import annotations

import struct
import zipfile
from typing import Any, NamedTuple

import ijson
from ijson.common import ObjectBuilder

from .parse import from_json
from .source import Source


class Peek(NamedTuple):
    """What the first megabyte shows.

    `shape`: `object` (one JSON document), `array`, `lines` (JSON objects, one a line), `zip`, `binary`, `text`,
    `empty`.
    `first`: the document itself for an object (cut where the look ended), the first element of an array, the first
    object of JSON lines. `records`: the first few elements or lines. `members`: names in a zip.
    """

    shape: str
    first: dict[str, Any]
    records: list[Any]
    members: list[str]
    data: bytes


def peek_at(source: Source) -> Peek:
    """Look at a source."""
    data = source.peek.removeprefix(b"\xef\xbb\xbf")
    if not data.strip():
        return Peek("empty", {}, [], [], data)
    if data.startswith(b"PK\x03\x04"):
        return Peek("zip", {}, [], _members(source), data)
    start = data.lstrip()[:1]
    if start not in (b"{", b"["):
        shape = "binary" if b"\x00" in data[:4096] or not _is_text(data[:4096]) else "text"
        records = _lines(data) if shape == "text" else []
        objects = [r for r in records if isinstance(r, dict)]
        return Peek("lines" if objects else shape, objects[0] if objects else {}, objects, [], data)
    records = _lines(data) if start == b"{" else []
    if len(records) > 1:
        return Peek("lines", records[0], records, [], data)
    value = _partial(data)
    if isinstance(value, list):
        first = value[0] if value and isinstance(value[0], dict) else {}
        return Peek("array", first, value[:20], [], data)
    value = value if isinstance(value, dict) else {}
    return Peek("object", value, [value], [], data)


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start > len(data) - 4
    return True


def _lines(data: bytes) -> list[Any]:
    """Objects among the first lines; the last line may be cut and is then left out.

    Objects on indented lines are parts of one document that was printed prettily.
    """
    found = []
    for line in data.split(b"\n")[:20]:
        value = from_json(line) if line[:1] == b"{" else None
        if isinstance(value, dict):
            found.append(value)
    return found


def _partial(data: bytes) -> Any:
    """The value as far as it goes: a cut document gives what stood before the cut."""
    builder = ObjectBuilder()
    try:
        for event, value in ijson.basic_parse(data, use_float=True):
            builder.event(event, value)
    except (ijson.JSONError, ValueError, RecursionError):
        pass
    return getattr(builder, "value", None)


def _members(source: Source) -> list[str]:
    try:
        with source.open_packed() as raw, zipfile.ZipFile(raw) as archive:
            return archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, RuntimeError, struct.error):
        return []
