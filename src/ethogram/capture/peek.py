"""A first look at a source: enough to recognise its format without reading it."""

from __future__ import annotations

import io
import struct
import zipfile
from typing import Any, NamedTuple

import msgspec

from ethogram.errors import Unreadable

from .damaged_json import before_the_cut
from .parse import from_json
from .source import PEEK, Source

PARQUET_ROWS = 200
NO_DOCUMENT = object()
"""Stands for a document that was not parsed, or was taken already."""


class Peek(NamedTuple):
    """What the first megabyte shows.

    `shape`: `object` (one JSON document), `array`, `lines` (JSON objects, one a line), `parquet`, `zip`, `binary`,
    `text`, `empty`.
    `first`: the document itself for an object (cut where the look ended), the first element of an array, the first
    object of JSON lines. `records`: the first few elements, lines or rows. `members`: names in a zip, of columns in
    Parquet. `document`: the value of a small source that is one JSON document, whole; readers get it by
    `take_document`.
    """

    shape: str
    first: dict[str, Any]
    records: list[Any]
    members: list[str]
    data: bytes
    document: Any = NO_DOCUMENT


def peek_at(source: Source) -> Peek:
    """Look at a source; a second look gives what the first one saw."""
    if source.look is None:
        source.look = _look(source)
    return source.look


def take_document(source: Source) -> Any:
    """The document that the look at a small source has parsed, once: readers may change what they get."""
    look = peek_at(source)
    source.look = look._replace(document=NO_DOCUMENT)
    return look.document


def _look(source: Source) -> Peek:
    data = source.peek.removeprefix(b"\xef\xbb\xbf")
    if not (start := (data[:64].lstrip() or data.lstrip())[:1]):
        return Peek("empty", {}, [], [], data)
    if data.startswith(b"PAR1"):
        return _parquet(source, data)
    if data.startswith(b"PK\x03\x04"):
        return Peek("zip", {}, [], _members(source), data)
    if start not in (b"{", b"["):
        shape = "binary" if b"\x00" in data[:4096] or not _is_text(data[:4096]) else "text"
        records = _lines(data) if shape == "text" else []
        objects = [r for r in records if isinstance(r, dict)]
        return Peek("lines" if objects else shape, objects[0] if objects else {}, objects, [], data)
    document = value = _document(source, data)
    if document is NO_DOCUMENT:
        records = _lines(data) if start == b"{" else []
        if len(records) > 1:
            return Peek("lines", records[0], records, [], data)
        value = before_the_cut(data)
    if isinstance(value, list):
        first = value[0] if value and isinstance(value[0], dict) else {}
        return Peek("array", first, value[:20], [], data, document)
    value = value if isinstance(value, dict) else {}
    return Peek("object", value, [value], [], data, document)


def _document(source: Source, data: bytes) -> Any:
    """The value of a source that is held whole."""
    whole = source.whole if not source.compression else data if len(data) < PEEK and not source.damage else None
    if whole is None:
        return NO_DOCUMENT
    try:
        return msgspec.json.decode(whole.removeprefix(b"\xef\xbb\xbf"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return NO_DOCUMENT


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start > len(data) - 4
    return True


def why_not_utf8(data: bytes) -> str:
    """Where text is in another encoding, in one sentence; empty for UTF-8 and for what is not text at all."""
    start = data[:4096]
    if (
        _is_text(start)
        or sum(byte < 9 or 13 < byte < 32 for byte in start)
        or sum(b > 127 for b in start) > len(start) / 3
    ):
        return ""
    try:
        start.decode("utf-8")
    except UnicodeDecodeError as error:
        line = start.count(b"\n", 0, error.start) + 1
        return f"line {line} is not UTF-8 (byte 0x{start[error.start]:02x}); save the text as UTF-8 and import it again"
    return ""


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


def _members(source: Source) -> list[str]:
    try:
        return [member.filename for member in source.zip_members]
    except (zipfile.BadZipFile, OSError, ValueError, RuntimeError, struct.error):
        return []


def _parquet(source: Source, data: bytes) -> Peek:
    """The columns and the first rows; damaged Parquet is binary like any other."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with source.open_packed() if not source.compression else source.open() as raw:
            stream = raw if not source.compression else io.BytesIO(raw.read(PEEK + 1))
            with pq.ParquetFile(stream) as file:
                rows = next(file.iter_batches(batch_size=PARQUET_ROWS), None)
                records = [] if rows is None else rows.to_pylist()
                return Peek("parquet", records[0] if records else {}, records, file.schema_arrow.names, data)
    except (pa.ArrowException, OSError, Unreadable):
        return Peek("binary", {}, [], [], data)
