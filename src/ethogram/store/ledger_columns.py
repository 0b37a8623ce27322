"""The entries of a ledger segment as Parquet: every field is a column, ids and addresses are 16 bytes.

Fifty thousand entries take a tenth of the room of their JSON lines, and a question reads the columns it needs.
Columns have the names of the `episodes` view; `span_file` and `span_row` say where the spans of a trace begin.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from operator import attrgetter
from typing import Any

import msgspec

from ethogram.traces import CUT_OFF, OUTSIDE, UNMETERED, Head, Missing, Origin, Scored, Totals, TraceId
from ethogram.traces.ids import ALGORITHM

from .entry import Entry, Place

PLACED = ("trace_id", "episode", "span_file", "span_row", "spans", "supersedes")
SLIM = (
    *("trace_id", "episode", "task", "attempt", "condition", "score", "by", "reason", "meta", "span_file", "span_row"),
    *("at_ns", "supersedes", "forgotten", *Totals.__struct_fields__),
)
"""Columns that tell what counts and what it cost."""
_HEADER = "ethogram.header"
_IDS = ("trace_id", "episode", "answer", "supersedes")
_TOTALS = Totals.__struct_fields__
_RISING = ("start_ns", "end_ns", "at_ns", "span_row")
_UNIQUE = ("trace_id", "episode", "seed", *_RISING)
_ID_CHARS = len(ALGORITHM) + 32
_json = msgspec.json.Encoder()


class _Unfit(Exception):
    """An entry has a value that the columns cannot hold; the segment is written as lines."""


@cache
def schema() -> Any:
    """The Arrow schema of a ledger segment."""
    import pyarrow as pa

    text, number, address = pa.string(), pa.int64(), pa.binary(16)
    return pa.schema(
        [
            ("trace_id", address),
            ("episode", address),
            ("task", text),
            ("attempt", number),
            ("condition", text),
            ("agent", text),
            ("seed", pa.uint64()),
            ("score", pa.float64()),
            ("by", text),
            ("reason", text),
            ("answer", address),
            ("start_ns", number),
            ("end_ns", number),
            ("format", text),
            ("source", text),
            ("digest", text),
            ("meta", text),
            ("words", text),
            *((name, pa.float64() if name == "cost_usd" else number) for name in _TOTALS),
            ("span_file", text),
            ("span_row", number),
            ("texts", pa.list_(text)),
            ("at_ns", number),
            ("supersedes", address),
            ("forgotten", text),
        ]
    )


def encode_columns(header: bytes, entries: Sequence[Entry]) -> bytes | None:
    """A Parquet file of entries with the header in its metadata; None if a column cannot hold what an entry has."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from ethogram.arrays import arrow_table

    try:
        made = arrow_table(_columns(entries), schema())
    except (_Unfit, OverflowError, TypeError):  # a foreign seed may be negative, a foreign count absurd
        return None
    out = pa.BufferOutputStream()
    with pq.ParquetWriter(
        out,
        schema(),
        compression="zstd",
        compression_level=6,
        write_statistics=False,
        use_dictionary=[c for c in made.column_names if c not in _UNIQUE],
        column_encoding=dict.fromkeys(_RISING, "DELTA_BINARY_PACKED"),
        store_schema=False,
    ) as writer:
        writer.add_key_value_metadata({_HEADER: header.decode()})
        writer.write_table(made, row_group_size=65_536)
    return bytes(out.getvalue())


def read_columns(data: bytes, columns: Sequence[str] | None = None) -> tuple[bytes, Any]:
    """The header and these columns of a segment."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False)
    found = file.read(columns=None if columns is None else list(columns), use_threads=False)
    return file.metadata.metadata[_HEADER.encode()], found


def _columns(entries: Sequence[Entry]) -> dict[str, Any]:
    heads, totals = [e.head for e in entries], [e.totals for e in entries]
    outcomes, origins = [h.outcome for h in heads], [h.origin for h in heads]
    if any(isinstance(o, Missing) and o.detail for o in outcomes) or any(len(e.spans) > 1 for e in entries):
        raise _Unfit
    places = [e.spans[0] if e.spans else None for e in entries]
    if any(p is not None and p.rows != t.spans for p, t in zip(places, totals, strict=True)):
        raise _Unfit
    columns: dict[str, Any] = {
        "trace_id": [h.trace_id for h in heads],
        "episode": [h.episode for h in heads],
        "answer": [h.answer for h in heads],
        "supersedes": [e.supersedes for e in entries],
        **{n: [getattr(h, n) for h in heads] for n in ("task", "attempt", "condition", "agent", "seed")},
        "start_ns": [h.start_ns for h in heads],
        "end_ns": [h.end_ns for h in heads],
        "score": [o.value if isinstance(o, Scored) else None for o in outcomes],
        "by": [o.by if isinstance(o, Scored) else None for o in outcomes],
        "reason": [o.reason if isinstance(o, Missing) else None for o in outcomes],
        "format": [None if o is None else o.format for o in origins],
        "source": [None if o is None else o.name for o in origins],
        "digest": [None if o is None else o.digest for o in origins],
        "meta": [_json.encode(h.meta).decode() if h.meta else None for h in heads],
        "words": [_json.encode(h.words).decode() if h.words else None for h in heads],
        **{name: list(map(attrgetter(name), totals)) for name in _TOTALS},
        "span_file": [None if p is None else p.file for p in places],
        "span_row": [None if p is None else p.row for p in places],
        "texts": [e.texts for e in entries],
        "at_ns": [e.at_ns for e in entries],
        "forgotten": [e.forgotten for e in entries],
    }
    if any(s is not None and not 0 <= s < 1 << 64 for s in columns["seed"]):
        raise _Unfit
    return columns | {name: _as_bytes(columns[name]) for name in _IDS}


def _as_bytes(ids: Sequence[str | None]) -> list[bytes | None]:
    """Ids without the name of their hash, 16 bytes each."""
    if any(i is not None and (len(i) != _ID_CHARS or not i.startswith(ALGORITHM)) for i in ids):
        raise _Unfit
    digits = "".join(i[len(ALGORITHM) :] for i in ids if i is not None)
    try:
        data = bytes.fromhex(digits)
    except ValueError:
        raise _Unfit from None
    if data.hex() != digits:
        raise _Unfit
    pieces = (data[at : at + 16] for at in range(0, len(data), 16))
    return [None if i is None else next(pieces) for i in ids]


def ids_of(array: Any) -> list[Any]:
    """Ids of a column as the rest of the program has them."""
    return [None if v is None else ALGORITHM + v.hex() for v in array.to_pylist()]


def places_of(found: Any) -> Iterator[tuple[TraceId, str, tuple[Place, ...], TraceId | None]]:
    """Trace, episode, place of the spans and superseded trace of each entry."""
    ids = [ids_of(found.column(name)) for name in ("trace_id", "episode", "supersedes")]
    return zip(ids[0], ids[1], _places(found), ids[2], strict=True)


def _places(found: Any) -> list[tuple[Place, ...]]:
    columns = [found.column(name).to_pylist() for name in ("span_file", "span_row", "spans")]
    return [() if file is None else (Place(file, row, rows),) for file, row, rows in zip(*columns, strict=True)]


def entries_of(found: Any) -> tuple[Entry, ...]:
    """The entries of a whole segment."""
    c = {
        name: ids_of(found.column(name)) if name in _IDS else found.column(name).to_pylist()
        for name in found.column_names
    }
    c["places"] = _places(found)
    totals = [Totals(**dict(zip(_TOTALS, row, strict=True))) for row in zip(*(c[n] for n in _TOTALS), strict=True)]
    return tuple(
        Entry(
            head=_head(c, i),
            totals=totals[i],
            at_ns=c["at_ns"][i],
            spans=c["places"][i],
            texts=tuple(c["texts"][i]),
            supersedes=c["supersedes"][i],
            forgotten=c["forgotten"][i],
        )
        for i in range(found.num_rows)
    )


def slim_entries(found: Any) -> tuple[Entry, ...]:
    """The entries of a segment of which the columns `SLIM` were read; what is equal in many of them is one object."""

    @cache
    def totals_of(*row: Any) -> Totals:
        return Totals(**dict(zip(_TOTALS, row, strict=True)))

    @cache
    def outcome_of(reason: Any, score: float, by: str) -> Scored | Missing:
        return Missing(reason) if reason is not None else Scored(score, by)

    @cache
    def meta_of(meta: str | None) -> dict[str, Any]:
        return {} if meta is None else slim_meta(msgspec.json.decode(meta))

    ids = [ids_of(found.column(name)) for name in ("trace_id", "episode", "supersedes")]
    plain = [found.column(name).to_pylist() for name in ("task", "attempt", "condition", "at_ns", "forgotten")]
    outcomes = map(outcome_of, *(found.column(name).to_pylist() for name in ("reason", "score", "by")))
    totals = map(totals_of, *(found.column(name).to_pylist() for name in _TOTALS))
    facts = map(meta_of, found.column("meta").to_pylist())
    entries = []
    for trace, episode, old, task, attempt, condition, at_ns, forgotten, outcome, counts, meta, places in zip(
        *ids, *plain, outcomes, totals, facts, _places(found), strict=True
    ):
        head = Head(
            trace_id=trace,
            episode=episode,
            task=task,
            attempt=attempt,
            condition=condition,
            outcome=outcome,
            meta=meta,
        )
        spans = places if is_unpriced(head, counts) else ()
        entries.append(Entry(head=head, totals=counts, at_ns=at_ns, spans=spans, supersedes=old, forgotten=forgotten))
    return tuple(entries)


def slim_meta(meta: dict[str, Any]) -> dict[str, Any]:
    """Of the facts of a trace, those that tell what was used."""
    return {k: v for k, v in meta.items() if k.startswith("wasted_") or k in (CUT_OFF, OUTSIDE, UNMETERED)}


def is_unpriced(head: Head, totals: Totals) -> bool:
    """Whether some of an episode's cost is unknown, so that its spans may be looked at again."""
    return totals.cost_usd is None or UNMETERED in head.meta


def _head(c: dict[str, list[Any]], i: int) -> Head:
    reason, meta, words = c["reason"][i], c["meta"][i], c["words"][i]
    return Head(
        trace_id=c["trace_id"][i],
        episode=c["episode"][i],
        task=c["task"][i],
        attempt=c["attempt"][i],
        condition=c["condition"][i],
        agent=c["agent"][i],
        seed=c["seed"][i],
        outcome=Missing(reason) if reason is not None else Scored(c["score"][i], c["by"][i]),
        answer=c["answer"][i],
        start_ns=c["start_ns"][i],
        end_ns=c["end_ns"][i],
        meta={} if meta is None else msgspec.json.decode(meta),
        origin=None if c["format"][i] is None else Origin(c["format"][i], c["source"][i], c["digest"][i]),
        words={} if words is None else msgspec.json.decode(words),
    )
