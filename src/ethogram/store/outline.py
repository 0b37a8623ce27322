"""Outlines of ledger segments: what compaction must know of a whole ledger before it merges some of it."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ethogram.traces import TraceId

from . import ledger, ledger_file
from .entry import Header
from .ledger_columns import ids_of
from .ledger_file import COLUMNS, HeadIds, decode_blocks
from .segment import damage

_COLUMNS = ("trace_id", "episode", "supersedes", "texts")


class SegmentOutline(msgspec.Struct, frozen=True):
    """A ledger segment in little room: its traces and their episodes, and the text segments that it names."""

    name: str
    header: Header
    traces: list[TraceId]
    episodes: list[str]
    superseded: set[str]
    """Traces that an entry of another trace took the place of."""
    texts: set[str]
    lines: int
    revises: bool = False


class _Entry(msgspec.Struct, frozen=True, tag="episode", gc=False):
    head: HeadIds
    texts: tuple[str, ...] = ()
    supersedes: TraceId | None = None


class _Revision(msgspec.Struct, frozen=True, tag="revision", gc=False):
    texts: tuple[str, ...] = ()


class _Batch(msgspec.Struct, frozen=True, tag="batch", gc=False):
    """Of a batch, that it is there."""


_decoder = msgspec.json.Decoder(Header | _Entry | _Revision | _Batch)


def read_outline(name: str, data: bytes) -> SegmentOutline:
    """The outline of a segment from its bytes."""
    if name.endswith(COLUMNS):
        header, table = ledger_file.decode_columns(name, data, _COLUMNS)
        with damage(name):
            traces, episodes, old = (ids_of(table.column(c)) for c in _COLUMNS[:3])
            texts = set(table.column("texts").combine_chunks().flatten().unique().to_pylist())
        return SegmentOutline(name, header, traces, episodes, _others(traces, old), texts, len(traces))
    header, *records = (r for block in decode_blocks(name, data, _decoder) for r in block)
    entries = [r for r in records if isinstance(r, _Entry)]
    revisions = [r for r in records if isinstance(r, _Revision)]
    traces = [e.head.trace_id for e in entries]
    return SegmentOutline(
        name,
        header,
        traces,
        [e.head.episode for e in entries],
        _others(traces, [e.supersedes for e in entries]),
        {t for e in entries for t in e.texts} | {t for r in revisions for t in r.texts},
        len(records) - len(revisions),
        bool(revisions),
    )


def _others(traces: Iterable[str], old: Iterable[str | None]) -> set[str]:
    return {o for trace, o in zip(traces, old, strict=True) if o and o != trace}


def live_traces(found: Iterable[SegmentOutline]) -> set[TraceId]:
    """The traces that count, of a whole ledger."""
    segments = ledger.unreplaced(found)
    traces = [t for s in segments for t in s.traces]
    superseded = {t for s in segments for t in s.superseded}
    return {traces[i] for i in ledger.counted([e for s in segments for e in s.episodes], traces, superseded)}
