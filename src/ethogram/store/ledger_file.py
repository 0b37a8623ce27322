"""Ledger segments as files: compressed JSON lines, or Parquet where there are many entries.

A segment's name ends with the hash of its bytes, so that a reader knows at once whether it is whole. JSON lines begin
with the header. In Parquet (`ledger_columns`) every field of an entry is a column, and the header is in the metadata of
the file. Segments of earlier versions are plain JSON lines; their last line has the hash of all lines before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from ethogram.errors import BadInput, Damaged, first_line
from ethogram.traces import TraceId
from ethogram.traces.ids import ALGORITHM

from . import ledger_columns, segment
from .batch import Batch
from .entry import End, Entry, Header, Place, Revision, Segment
from .files import Files

SCHEMA_VERSION = 3
"""Version 2 added batches, version 3 compressed lines and Parquet; it counts tool calls and errors over steps only."""
STEP_COUNTS = 3
BLOCK = 1 << 17
LINES, COLUMNS = ".jsonl.zst", ".parquet"
MANY = 1_000
"""A segment with this many entries or more is Parquet: smaller than lines, and counting reads a column or two."""
_LEVEL = 6
_DIGITS = 32


class HeadIds(msgspec.Struct, frozen=True, gc=False):
    """Of a head, which trace it is and of which episode: all that is decoded where nothing else matters."""

    trace_id: TraceId
    episode: str


class _Placed(msgspec.Struct, frozen=True, tag="episode", gc=False):
    """Of an entry, which trace it names and where its spans lie."""

    head: HeadIds
    spans: tuple[Place, ...] = ()
    supersedes: TraceId | None = None


class _NoRevision(msgspec.Struct, frozen=True, tag="revision", gc=False):
    """Of a revision, nothing: it moves no file."""


class _NoBatch(msgspec.Struct, frozen=True, tag="batch", gc=False):
    """Of a batch, nothing: it has no file."""


_decoder = msgspec.json.Decoder(Header | Entry | Revision | Batch | End)
_places_decoder = msgspec.json.Decoder(Header | _Placed | _NoRevision | _NoBatch | End)
_header_decoder = msgspec.json.Decoder(Header)
_encoder = msgspec.json.Encoder()


def hash_of(data: bytes | memoryview) -> str:
    """The hash of a file's bytes."""
    return ALGORITHM + blake2b(data, digest_size=_DIGITS // 2).hexdigest()


def pack_lines(lines: Iterable[bytes]) -> bytes:
    """JSON lines as `.jsonl.zst` holds them: Zstandard, with the length in front."""
    import zstandard

    return zstandard.ZstdCompressor(level=_LEVEL).compress(b"".join(line + b"\n" for line in lines))


def unpack(name: str, data: bytes) -> bytes:
    """The lines of a `.jsonl.zst`, or of a `.jsonl` of an earlier version, as one piece of text."""
    if not name.endswith(LINES):
        return data
    import zstandard

    try:
        return zstandard.ZstdDecompressor().decompress(data)
    except (zstandard.ZstdError, MemoryError) as error:
        raise Damaged(f"{name} cannot be read ({error}); run: ethogram verify", where=name) from None


def ledger_lines(files: Files, path: str) -> list[bytes]:
    """The lines of a file of labels or notes."""
    return unpack(path, files.read(path)).splitlines()


def encode_segment(
    header: Header, entries: Sequence[Entry], revisions: Sequence[Revision] = (), batches: Sequence[Batch] = ()
) -> tuple[str, bytes]:
    """The name and the bytes of a segment: Parquet if it holds many entries and nothing else, lines if not."""
    data, ending = None, COLUMNS
    if len(entries) >= MANY and not revisions and not batches:
        data = ledger_columns.encode_columns(_encoder.encode(header), entries)
    if data is None:
        data, ending = pack_lines(_encoder.encode(r) for r in (header, *entries, *revisions, *batches)), LINES
    digits = hash_of(data).removeprefix(ALGORITHM)
    return f"{header.writer}-{header.number:06d}-{digits}{ending}", data


def decode_segment(name: str, data: bytes) -> Segment:
    """A segment from its bytes; damage is named, never passed over."""
    if name.endswith(COLUMNS):
        header, table = decode_columns(name, data)
        with segment.damage(name):
            return Segment(name, header, ledger_columns.entries_of(table))
    header, *records = (r for block in decode_blocks(name, data, _decoder) for r in block)
    entries = tuple(r for r in records if isinstance(r, Entry))
    if header.schema_version < STEP_COUNTS:
        entries = tuple(map(_uncounted, entries))
    revisions = tuple(r for r in records if isinstance(r, Revision))
    return Segment(name, header, entries, revisions, tuple(r for r in records if isinstance(r, Batch)))


def _uncounted(entry: Entry) -> Entry:
    """An entry of an earlier version: what it counted over all spans is not known of its steps, unless it is 0."""
    old = entry.totals
    if not old.tool_calls and not old.errors:
        return entry
    totals = msgspec.structs.replace(old, tool_calls=None if old.tool_calls else 0, errors=None if old.errors else 0)
    return msgspec.structs.replace(entry, totals=totals)


def decode_places(name: str, data: bytes) -> Segment:
    """A segment whose entries have their ids and places only, which is what a query over files needs of it."""
    entries: Iterable[_Placed]
    if name.endswith(COLUMNS):
        header, table = decode_columns(name, data, ledger_columns.PLACED)
        with segment.damage(name):
            rows = ledger_columns.places_of(table)
        entries = (_Placed(HeadIds(trace, episode), spans, old) for trace, episode, spans, old in rows)
    else:
        header, *records = (r for block in decode_blocks(name, data, _places_decoder) for r in block)
        entries = (r for r in records if isinstance(r, _Placed))
    return Segment(name, header, tuple(entries))  # type: ignore[arg-type]


def decode_header(name: str, data: bytes) -> Segment:
    """A segment without its entries: which files it makes visible, and which segments it replaces."""
    if name.endswith(COLUMNS):
        return Segment(name, decode_columns(name, data, ())[0], ())
    header, *_ = next(decode_blocks(name, data, _header_decoder, 1))
    return Segment(name, header, ())


def decode_columns(name: str, data: bytes, columns: Sequence[str] | None = None) -> tuple[Header, Any]:
    """The header of a Parquet segment, and these of its columns as an Arrow table."""
    _check_hash(name, data)
    with segment.damage(name):
        header, table = ledger_columns.read_columns(data, columns)
        found = msgspec.json.decode(header, type=Header)
    _check_header(name, found)
    return found, table


def decode_blocks(
    name: str, data: bytes, decoder: msgspec.json.Decoder[Any], block: int = BLOCK
) -> Iterator[list[Any]]:
    """The records of a segment of lines whose hash holds, its header first, as a decoder of its lines makes them.

    They come some thousands at a time: who keeps less of them than a record works in the same small piece of memory.
    """
    if name.endswith(LINES):
        _check_hash(name, data)
    lines = unpack(name, data) if name.endswith(LINES) else _lines_before_the_end(name, data)
    at, body = 0, memoryview(lines)
    while at < len(lines) or at == 0:
        end = lines.find(b"\n", min(at + block, len(lines) - 1)) + 1 or len(lines)
        try:
            records = decoder.decode_lines(body[at:end])
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise Damaged(f"ledger segment {name} cannot be read: {first_line(error)}", where=name) from None
        if at == 0:
            _check_header(name, records[0] if records else None)
        at = end or 1
        yield records


def _lines_before_the_end(name: str, data: bytes) -> bytes:
    """The lines of a segment of an earlier version without the last one, which has their number and their hash."""
    start = data.rfind(b"\n", 0, -1) + 1
    body = memoryview(data)[:start]
    end = End(max(0, data.count(b"\n", 0, start) - 1), hash_of(body))
    if data[start:] != _encoder.encode(end) + b"\n":
        raise _changed(name)
    return bytes(body)


def _changed(name: str) -> Damaged:
    return Damaged(
        f"ledger segment {name} does not match its hash: it was changed after it was written; ethogram verify RUN "
        "names all files that are damaged; restore the file from a copy, or remove it and get its episodes again with "
        "ethogram run --resume RUN, or with ethogram import where they came from logs",
        where=name,
    )


def _check_hash(name: str, data: bytes) -> None:
    digits = name.removesuffix(LINES).removesuffix(COLUMNS).rpartition("-")[2]
    if ALGORITHM + digits != hash_of(data):
        raise _changed(name)


def _check_header(name: str, header: object) -> None:
    if not isinstance(header, Header):
        raise Damaged(f"ledger segment {name} has no header", where=name)
    if header.schema_version > SCHEMA_VERSION:
        raise BadInput(
            f"ledger segment {name} is written in schema version {header.schema_version} and this Ethogram reads up "
            f"to {SCHEMA_VERSION}; upgrade Ethogram to read it",
            where=name,
        )
