"""The ledger: an episode exists if and only if a published ledger segment names it.

A segment is JSON lines: a header that lists the data files it makes visible, the entries, and an end
line with the hash of all lines before it. Segments are immutable; a later one may replace earlier ones
(retention, compaction and key rotation write that way), and an entry may supersede an older trace.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b

import msgspec

from ethogram.errors import Damaged
from ethogram.trace import Head, Totals, TraceId
from ethogram.trace.ids import ALGORITHM

from .files import Files

SCHEMA_VERSION = 1
FOLDER = "ledger"


class DataFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A Parquet file that a ledger segment makes visible; `key` names the key that sealed it."""

    name: str
    rows: int
    bytes: int
    digest: str
    key: str | None = None


class Place(msgspec.Struct, frozen=True, array_like=True):
    """Where spans of a trace lie: a file, the first row and the number of rows."""

    file: str
    row: int
    rows: int


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="episode"):
    """One episode, committed at `at_ns`; `forgotten` says why its spans are gone, if they are."""

    head: Head
    totals: Totals
    at_ns: int
    spans: tuple[Place, ...] = ()
    texts: tuple[str, ...] = ()
    supersedes: TraceId | None = None
    forgotten: str | None = None


class Header(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="segment"):
    """The first line of a segment."""

    schema_version: int
    writer: str
    number: int
    committed_ns: int
    files: tuple[DataFile, ...] = ()
    replaces: tuple[str, ...] = ()


class End(msgspec.Struct, frozen=True, tag="end"):
    """The last line of a segment."""

    entries: int
    digest: str


class Segment(msgspec.Struct, frozen=True):
    """A ledger segment in memory."""

    name: str
    header: Header
    entries: tuple[Entry, ...]


_decoder = msgspec.json.Decoder(Header | Entry | End)
_encoder = msgspec.json.Encoder()


def encode_segment(header: Header, entries: Sequence[Entry]) -> bytes:
    """The bytes of a segment."""
    body = b"\n".join([_encoder.encode(header), *(_encoder.encode(e) for e in entries)]) + b"\n"
    return body + _encoder.encode(End(len(entries), _hash(body))) + b"\n"


def decode_segment(name: str, data: bytes) -> Segment:
    """A segment from its bytes; damage is named, never passed over."""
    lines = data.splitlines(keepends=True)
    try:
        records = [_decoder.decode(line) for line in lines]
    except msgspec.MsgspecError as error:
        raise Damaged(f"ledger segment {name} cannot be read: {str(error).splitlines()[0]}") from None
    header, end = (records[0], records[-1]) if len(records) >= 2 else (None, None)
    if not isinstance(header, Header) or not isinstance(end, End):
        raise Damaged(f"ledger segment {name} has no header or no end")
    if end.digest != _hash(b"".join(lines[:-1])):
        raise Damaged(f"ledger segment {name} does not match its hash")
    return Segment(name, header, tuple(r for r in records[1:-1] if isinstance(r, Entry)))


def _hash(body: bytes) -> str:
    return ALGORITHM + blake2b(body, digest_size=16).hexdigest()


def segment_name(writer: str, number: int) -> str:
    """The file name of a segment."""
    return f"{writer}-{number:06d}.jsonl"


def read_segments(files: Files, run_path: str) -> list[Segment]:
    """All segments of a run that no other segment replaces, in order of commit."""
    folder = f"{run_path}/{FOLDER}"
    segments = [decode_segment(name, files.read(f"{folder}/{name}")) for name in files.names(folder)]
    return in_force(segments)


def in_force(segments: Iterable[Segment]) -> list[Segment]:
    """Segments that no other one replaces, in order of commit."""
    segments = list(segments)
    replaced = {name for s in segments for name in s.header.replaces}
    kept = [s for s in segments if s.name not in replaced]
    return sorted(kept, key=lambda s: (s.header.committed_ns, s.header.writer, s.header.number))


class Standing(msgspec.Struct, frozen=True):
    """What a ledger says in sum: live entries, and (file, trace) pairs whose spans no longer count."""

    live: tuple[Entry, ...]
    dead: tuple[tuple[str, TraceId], ...]
    files: tuple[DataFile, ...]


def standing(segments: Sequence[Segment]) -> Standing:
    """Which entries count: not superseded, and the first of each episode."""
    superseded = {e.supersedes for s in segments for e in s.entries if e.supersedes is not None}
    live: list[Entry] = []
    dead: list[tuple[str, TraceId]] = []
    seen: set[str] = set()
    for segment in segments:
        for entry in segment.entries:
            if entry.head.trace_id in superseded or entry.head.episode in seen:
                dead.extend((place.file, entry.head.trace_id) for place in entry.spans)
            else:
                seen.add(entry.head.episode)
                live.append(entry)
    return Standing(tuple(live), tuple(dead), tuple(f for s in segments for f in s.header.files))
