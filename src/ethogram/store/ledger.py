"""The ledger: an episode exists if and only if a published ledger segment names it.

A segment has a header that lists the files it makes visible (spans, texts, labels, notes), and entries (an episode
each, or a batch of many). Segments are immutable; a later one may replace earlier ones (retention, compaction and key
rotation write that way), an entry may supersede an older trace, and a revision changes what a committed trace was
scored, without touching its spans. `ledger_file` says how a segment is stored.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar

import msgspec

from ethogram.errors import NotFound
from ethogram.traces import Head, TraceId

from .batch import Batch, distinct
from .entry import DataFile, Entry, Header, Revision, Segment
from .files import Files
from .head_texts import revised_words
from .ledger_columns import SLIM, is_unpriced, slim_entries, slim_meta
from .ledger_file import (
    COLUMNS,
    decode_columns,
    decode_header,
    decode_segment,
)
from .segment import damage

FOLDER = "ledger"
LABELS = "labels"
REMEMBERED = 10_000
LOOKS = 20
"""How often a ledger that changes under the reader's eyes is listed again."""


T = TypeVar("T")


class _Published(Protocol):
    """A segment, however much of it was read."""

    @property
    def name(self) -> str: ...
    @property
    def header(self) -> Header: ...


Published = TypeVar("Published", bound=_Published)


@contextmanager
def gc_paused() -> Iterator[None]:
    """Pause Python's garbage collector: reading a ledger makes many records and no cycles, and runs twice as fast.

    For code that makes many records of what was read; inside another such block it changes nothing.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


class Slim:
    """Segments without what only readers of traces need: enough to tell what counts and what it cost, in little room.

    Equal parts are kept once. Where spans lie is kept of entries whose cost is unknown: prices may become known.
    """

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._known: dict[object, object] = {}

    def __call__(self, name: str, data: bytes) -> Segment:
        """A segment from its bytes, slim."""
        if name.endswith(COLUMNS):
            header, table = decode_columns(name, data, SLIM)
            with damage(name):
                return Segment(name, header, slim_entries(table))
        segment = decode_segment(name, data)
        return msgspec.structs.replace(segment, entries=tuple(map(self._entry, segment.entries)))

    def _entry(self, entry: Entry) -> Entry:
        head = entry.head
        slim = Head(
            trace_id=head.trace_id,
            episode=head.episode,
            task=self._once(head.task),
            attempt=head.attempt,
            condition=self._once(head.condition),
            outcome=self._once(head.outcome),
            meta=slim_meta(head.meta),
        )
        return Entry(
            head=slim,
            totals=self._once(entry.totals),
            at_ns=entry.at_ns,
            spans=entry.spans if is_unpriced(slim, entry.totals) else (),
            supersedes=entry.supersedes,
            forgotten=entry.forgotten,
        )

    def _once(self, value: T) -> T:
        if len(self._known) > REMEMBERED:
            self._known.clear()
        return self._known.setdefault(value, value)  # type: ignore[return-value]


def read_all(files: Files, run_path: str, decode: Callable[[str, bytes], Published]) -> list[Published]:
    """All segments of a run, replaced ones included; `decode` says what of each is read and stays in memory.

    A rewrite publishes one segment and removes the ones that it replaces. A reader that lists the folder in
    that moment may miss both, so it lists again until the ledger stood still.
    """
    folder = f"{run_path}/{FOLDER}"
    read: dict[str, Published] = {}
    names = files.names(folder)
    for _ in range(LOOKS):
        for name in [n for n in names if n not in read]:
            try:
                read[name] = decode(name, files.read(f"{folder}/{name}"))
            except NotFound:
                continue
        listed, names = names, files.names(folder)
        if names == listed:
            break
    if set(listed) <= set(names):
        return [read[n] for n in listed if n in read]
    raise NotFound(
        f"the ledger of {run_path.rpartition('/')[2]!r} changes faster than it can be read; try again", where=run_path
    )


def read_segments(files: Files, run_path: str) -> list[Segment]:
    """All segments of a run that no other segment replaces, in order of commit."""
    return in_force(read_all(files, run_path, decode_segment))


def unreplaced(segments: Iterable[Published]) -> list[Published]:
    """Segments that no other one replaces, in order of commit."""
    segments = list(segments)
    replaced = {name for s in segments for name in s.header.replaces}
    kept = [s for s in segments if s.name not in replaced]
    return sorted(kept, key=lambda s: (s.header.committed_ns, s.header.writer, s.header.number))


def visible_files(files: Files, run_path: str) -> tuple[DataFile, ...]:
    """The files that a ledger makes visible, from the headers of its segments."""
    return tuple(f for s in unreplaced(read_all(files, run_path, decode_header)) for f in s.header.files)


def in_force(segments: Iterable[Segment]) -> list[Segment]:
    """Segments that no other one replaces, in order of commit; their entries are as later revisions left them."""
    kept = unreplaced(segments)
    revisions: dict[TraceId, list[Revision]] = {}
    for segment in kept:
        for revision in segment.revisions:
            revisions.setdefault(revision.trace_id, []).append(revision)
    return [_revised(s, revisions) for s in kept] if revisions else kept


def _revised(segment: Segment, revisions: dict[TraceId, list[Revision]]) -> Segment:
    """A segment whose entries have their newest outcome, and the text segments of all their labels."""
    entries = []
    for entry in segment.entries:
        later = revisions.get(entry.head.trace_id, ())
        last = next((r for r in reversed(later) if r.outcome is not None), None)
        texts = tuple(dict.fromkeys((*entry.texts, *(t for r in later for t in r.texts if not entry.forgotten))))
        head = entry.head
        if last is not None:
            words = {} if entry.forgotten else revised_words(head.words, last.words)
            head = msgspec.structs.replace(head, outcome=last.outcome, words=words)
        entries.append(msgspec.structs.replace(entry, head=head, texts=texts) if later else entry)
    return msgspec.structs.replace(segment, entries=tuple(entries))


class Standing(msgspec.Struct, frozen=True):
    """What a ledger says in sum: live entries and batches, visible files, and (file, trace) pairs that do not count."""

    live: tuple[Entry, ...]
    dead: tuple[tuple[str, TraceId], ...]
    files: tuple[DataFile, ...]
    batches: tuple[Batch, ...] = ()

    def named(self, start: str) -> list[DataFile]:
        """Visible files of one kind: `spans-`, `texts-`, `labels/`, …"""
        return named(self.files, start)


def named(files: Iterable[DataFile], start: str) -> list[DataFile]:
    """Those files whose names begin so."""
    return [f for f in files if f.name.startswith(start)]


def counted(episodes: Sequence[str], traces: Sequence[str], superseded: set[str]) -> Sequence[int]:
    """Which entries count, of all in order of commit: those not superseded, and of each episode the first."""
    if not superseded and len(set(episodes)) == len(episodes):
        return range(len(episodes))
    first: dict[str, int] = {}
    for i, (episode, trace) in enumerate(zip(episodes, traces, strict=True)):
        if trace not in superseded:
            first.setdefault(episode, i)
    return list(first.values())


def standing(segments: Sequence[Segment]) -> Standing:
    """What a ledger says in sum."""
    entries = [e for s in segments for e in s.entries]
    heads = [e.head for e in entries]
    superseded: set[str] = {e.supersedes for e in entries if e.supersedes and e.supersedes != e.head.trace_id}
    live = counted([h.episode for h in heads], [h.trace_id for h in heads], superseded)
    dead: list[tuple[str, TraceId]] = []
    if len(live) < len(entries):
        labels = [
            [f.name for f in s.header.files if f.name.startswith(LABELS + "/")] for s in segments for _ in s.entries
        ]
        for i in sorted(set(range(len(entries))) - set(live)):
            dead.extend((file, heads[i].trace_id) for file in (*(p.file for p in entries[i].spans), *labels[i]))
    return Standing(
        tuple(entries[i] for i in live),
        tuple(dead),
        tuple(f for s in segments for f in s.header.files),
        distinct(b for s in segments for b in s.batches),
    )
