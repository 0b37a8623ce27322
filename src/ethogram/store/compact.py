"""Compaction: a slow run leaves a few small files for every half second; merge them into few.

Rows are copied as they are, never read one by one. The merged files are published first, then one ledger segment that
replaces the small ones, then the small files go: a crash at any point leaves either the old run or the new one.
Nothing happens while a writer is at work, and a text that cannot be opened stays where it is.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from typing import Any

import msgspec

from ethogram.arrays import column
from ethogram.errors import EthogramError, Sealed
from ethogram.traces import TraceId

from . import lease, ledger, ledger_file
from .entry import DataFile, Entry, Header, Place, Segment
from .ledger_file import MANY
from .numbered import addressed, addresses, numbered
from .outline import SegmentOutline, live_traces, read_outline
from .recount import recounted
from .segment import damage, open_parquet, open_texts
from .stored_run import Run
from .verify import sweep
from .writer import publish_lines, publish_table

SMALL_BYTES, SMALL_ENTRIES = 256 << 10, MANY
"""A ledger segment that holds less than this is worth merging; one with more entries is columns already."""
MERGED_BYTES, MERGED_ENTRIES = 4 << 20, 10_000
"""About how much goes into one merged segment: what is held in memory at a time."""
FEW = 4
"""Up to this number, small segments are left alone."""
REPLACED = "replaced by a later attempt"


class Compaction(msgspec.Struct, frozen=True, kw_only=True):
    """What a compaction did: ledger segments before and after."""

    run: str
    segments_before: int
    segments_after: int


def compact(run: Run, *, few: int = FEW) -> Compaction:
    """Merge the small segments of a run if there are more than a few; refused (`Locked`) while others write."""
    before = len(run.files.names(f"{run.path}/{ledger.FOLDER}"))
    if before <= few:
        return Compaction(run=run.name, segments_before=before, segments_after=before)
    name = "c" + secrets.token_hex(4)
    lease.take(run.files, run.path, name, alone=True)
    try:
        found = ledger.read_all(run.files, run.path, read_outline)
        small, live = _small(found), live_traces(found)
        for number, batch in enumerate(_batches(small) if len(small) > few else ()):
            whole = [_whole(run, s.name) for s in batch]  # of all others only a little is in memory
            _Merger(run, f"{name}-{number:06d}", whole, found, live).write()
    finally:
        lease.release_lease(run.files, run.path, name)
        run.forget_cache()
    sweep(run)
    after = len(run.files.names(f"{run.path}/{ledger.FOLDER}"))
    return Compaction(run=run.name, segments_before=before, segments_after=after)


def _small(found: Sequence[SegmentOutline]) -> list[SegmentOutline]:
    """Segments in force that can be merged, in order of commit, as they were written.

    One with revisions stays, for it speaks of entries elsewhere; so does one with a trace that a second writer wrote
    too: in one file the two could not be told apart.
    """
    segments = ledger.unreplaced(found)
    writers = Counter(trace for s in segments for trace in s.traces)
    return [s for s in segments if not s.revises and _is_small(s) and all(writers[t] == 1 for t in s.traces)]


def _whole(run: Run, name: str) -> Segment:
    found = ledger_file.decode_segment(name, run.files.read(f"{run.path}/{ledger.FOLDER}/{name}"))
    return msgspec.structs.replace(found, entries=recounted(run.files, run.path, found.entries))


def _is_small(segment: SegmentOutline) -> bool:
    return _bytes(segment) < SMALL_BYTES and segment.lines < SMALL_ENTRIES


def _bytes(segment: SegmentOutline) -> int:
    return sum(f.bytes for f in segment.header.files)


def _batches(segments: Sequence[SegmentOutline]) -> Iterator[list[SegmentOutline]]:
    """Segments in groups that fit into memory; one alone is not worth the trouble."""
    batch: list[SegmentOutline] = []
    size = entries = 0
    for segment in segments:
        size, entries = size + _bytes(segment), entries + segment.lines
        if (size > MERGED_BYTES or entries > MERGED_ENTRIES) and len(batch) > 1:
            yield batch
            batch, size, entries = [], _bytes(segment), segment.lines
        batch.append(segment)
    if len(batch) > 1:
        yield batch


class _Merger:
    """Merges one group of segments."""

    def __init__(
        self, run: Run, name: str, segments: Sequence[Segment], found: Sequence[SegmentOutline], live: Set[str]
    ) -> None:
        """`found` is the whole ledger, with what was replaced and is still there; `live` are the traces that count."""
        self.run = run
        self.name = name
        self.segments = segments
        self.dead = {e.head.trace_id for s in segments for e in s.entries} - live
        merged = {s.name for s in segments}
        # text segments that somebody else names must keep their names
        self.named = {text for s in found if s.name not in merged for text in s.texts}
        # what these had replaced themselves, and did not get to remove, stays replaced
        there = {s.name for s in found} - merged
        self.replaces = (*merged, *sorted(there & {n for s in segments for n in s.header.replaces}))
        self.files: dict[str, DataFile] = {}
        self.made: list[str] = []
        self.moved: dict[str, tuple[str, int]] = {}
        self.refs: list[str] = []
        self.refers_to: str | None = None

    def write(self) -> None:
        """Publish the merged files, then the segment that replaces the old ones."""
        try:
            self._texts()
            self._spans()
            self._labels()
            segment_name, segment = self._segment()
        except BaseException:
            self._discard()
            raise
        # from here on the segment may be there even if we are told otherwise, so nothing is taken away any more
        self.run.files.publish(f"{self.run.path}/{ledger.FOLDER}/{segment_name}", segment)

    def _discard(self) -> None:
        for name in self.made:
            with suppress(EthogramError):
                self.run.files.delete(f"{self.run.path}/{name}")

    def _named(self, start: str) -> list[DataFile]:
        return [f for s in self.segments for f in s.header.files if f.name.startswith(start)]

    def _spans(self) -> None:
        """Rows of all traces that count, in order; `moved` tells where the rows of each old file begin."""
        import pyarrow as pa
        import pyarrow.compute as pc

        tables, row = [], 0
        name = f"spans-{self.name}.parquet"
        for file in self._named("spans-"):
            table = self._read(file, None)
            if self.dead & set(table.column("trace_id").unique().to_pylist()):
                gone = column(sorted(self.dead), pa.string())
                table = table.filter(pc.invert(pc.is_in(table.column("trace_id"), value_set=gone)))
                self._moved_rows(file, table)
            self.moved[file.name] = (name, row)
            row += table.num_rows
            tables.append(table)
        if row and self.refs:
            table = numbered(pa.concat_tables(tables).combine_chunks(), self.refs)
            self._publish(name, table, None, None)
            self.files[name] = msgspec.structs.replace(self.files[name], refers_to=self.refers_to)
        elif row:
            self._publish(name, pa.concat_tables(tables), None, None)

    def _moved_rows(self, file: DataFile, table: Any) -> None:
        """Where rows were taken out, every trace of the file has a place of its own."""
        for row, trace in enumerate(table.column("trace_id").to_pylist()):
            self.moved.setdefault(f"{file.name}\0{trace}", (file.name, row))

    def _texts(self) -> None:
        """Every text once, by key; what cannot be opened, or is named elsewhere, stays as it is."""
        import pyarrow as pa

        by_key: dict[str | None, list[DataFile]] = {}
        for file in self._named("texts-"):
            by_key.setdefault(file.key, []).append(file)
        for count, (key_name, files) in enumerate(by_key.items()):
            try:
                key = self.run.keys.get(key_name) if key_name else None
            except Sealed:
                key = b""
            free = [f for f in files if f.name not in self.named] if key != b"" else []
            self.files.update({f.name: f for f in files if f not in free})
            if not free:
                continue
            name = f"texts-{self.name}{f'-{count}' if count else ''}.parquet"
            tables, seen = [], set[str]()
            for file in free:
                table = self._read(file, key)
                refs = table.column("ref").to_pylist()
                fresh = [r not in seen for r in refs]
                seen.update(refs)
                tables.append(table if all(fresh) else table.filter(column(fresh, pa.bool_())))
                self.moved[file.name] = (name, 0)
            merged = pa.concat_tables(tables)
            self._publish(name, merged, key_name, key)
            if key_name is None:
                self.refs, self.refers_to = merged.column("ref").to_pylist(), name

    def _labels(self) -> None:
        """Labels of traces that count, in order; other notes stay as they are."""
        decoder = msgspec.json.Decoder(_Labelled)
        lines: list[bytes] = []
        for file in (f for s in self.segments for f in s.header.files if not f.name.endswith(".parquet")):
            if not file.name.startswith(ledger.LABELS + "/"):
                self.files[file.name] = file
                continue
            found = ledger_file.ledger_lines(self.run.files, f"{self.run.path}/{file.name}")
            lines += [x for x in found if not self.dead or decoder.decode(x).trace_id not in self.dead]
        if lines:
            name = f"{ledger.LABELS}/{self.name}.jsonl.zst"
            self.made.append(name)
            self.files[name] = publish_lines(self.run.files, self.run.path, name, lines)

    def _segment(self) -> tuple[str, bytes]:
        writer, _, number = self.name.rpartition("-")
        header = Header(
            schema_version=ledger_file.SCHEMA_VERSION,
            writer=writer,
            number=int(number),
            # first of all: entries that count keep counting wherever the segments in between stand
            committed_ns=self.segments[0].header.committed_ns,
            files=tuple(self.files.values()),
            replaces=self.replaces,
        )
        entries = [self._entry(e) for s in self.segments for e in s.entries]
        return ledger_file.encode_segment(header, entries, batches=[b for s in self.segments for b in s.batches])

    def _entry(self, entry: Entry) -> Entry:
        if entry.head.trace_id in self.dead:
            # its spans go, but what it cost was paid
            head = msgspec.structs.replace(entry.head, answer=None, words={})
            return msgspec.structs.replace(entry, head=head, spans=(), texts=(), forgotten=entry.forgotten or REPLACED)
        places = []
        for place in entry.spans:
            name, start = self.moved[place.file]
            own = self.moved.get(f"{place.file}\0{entry.head.trace_id}")
            places.append(Place(name, start + (place.row if own is None else own[1]), place.rows))
        texts = sorted({self.moved[t][0] if t in self.moved else t for t in entry.texts})
        return msgspec.structs.replace(entry, spans=tuple(places), texts=tuple(texts))

    def _read(self, file: DataFile, key: bytes | None) -> Any:
        with damage(file.name), self.run.files.open(f"{self.run.path}/{file.name}") as source:
            table = (open_texts if file.name.startswith("texts-") else open_parquet)(source, key).read()
        if file.refers_to is None:
            return table
        return addressed(table, addresses(self.run.files, self.run.path, file.name, file.refers_to))

    def _publish(self, name: str, table: Any, key_name: str | None, key: bytes | None) -> None:
        self.made.append(name)
        self.files[name] = publish_table(self.run.files, self.run.path, name, table.combine_chunks(), key_name, key)


class _Labelled(msgspec.Struct):
    """Of a label, whose it is."""

    trace_id: TraceId
