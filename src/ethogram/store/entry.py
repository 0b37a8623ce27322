"""The records of ledger segments. Frozen and inert; `ledger` reads and writes them."""

from __future__ import annotations

import msgspec

from ethogram.traces import Head, Outcome, Ref, Totals, TraceId

from .batch import Batch


class DataFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file that a ledger segment makes visible; `key` names the key that sealed it.

    `refers_to` is the text segment whose rows the references of a numbered span segment count.
    """

    name: str
    rows: int
    bytes: int
    digest: str
    key: str | None = None
    refers_to: str | None = None


class Place(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Where spans of a trace lie: a file, the first row and the number of rows."""

    file: str
    row: int
    rows: int


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="episode", gc=False):
    """One episode, committed at `at_ns`; `forgotten` says why its spans are gone, if they are."""

    head: Head
    totals: Totals
    at_ns: int
    spans: tuple[Place, ...] = ()
    texts: tuple[str, ...] = ()
    supersedes: TraceId | None = None
    forgotten: str | None = None


class Revision(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag="revision"):
    """What was found out about a committed trace later: a new outcome (None: the old one stands), and text segments
    that hold the words of labels which came with it. It is no entry, so nothing is counted twice."""

    trace_id: TraceId
    at_ns: int
    outcome: Outcome | None = None
    texts: tuple[str, ...] = ()
    words: dict[str, Ref] = {}


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
    revisions: tuple[Revision, ...] = ()
    batches: tuple[Batch, ...] = ()
