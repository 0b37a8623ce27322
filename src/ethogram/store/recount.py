"""Counts over steps that a ledger of an earlier version lacks, from the columns of its spans."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from .entry import Entry, Place
from .files import Files
from .segment import damage


def recounted(files: Files, run_path: str, entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """The same entries with their tool calls and errors counted where they are unknown.

    Reads three columns of the span files that hold such entries, and nothing for a ledger that has all counts. What
    was forgotten stays unknown.
    """
    unknown = [e for e in entries if None in (e.totals.tool_calls, e.totals.errors) and e.spans]
    if not unknown:
        return tuple(entries)
    counts: dict[str, list[int]] = {e.head.trace_id: [0, 0] for e in unknown}
    places: dict[str, list[tuple[str, Place]]] = {}
    for entry in unknown:
        for place in entry.spans:
            places.setdefault(place.file, []).append((entry.head.trace_id, place))
    for name, those in places.items():
        sums = _sums(files, f"{run_path}/{name}")
        for trace, place in those:
            for i, summed in enumerate(sums):
                counts[trace][i] += int(summed[place.row + place.rows] - summed[place.row])
    return tuple(_with_counts(e, *counts[e.head.trace_id]) if e.head.trace_id in counts else e for e in entries)


def _with_counts(entry: Entry, tool_calls: int, errors: int) -> Entry:
    totals = msgspec.structs.replace(entry.totals, tool_calls=tool_calls, errors=errors)
    return msgspec.structs.replace(entry, totals=totals)


def _sums(files: Files, path: str) -> tuple[Any, Any]:
    """Tool calls and errors among the steps of a span file, summed up to each row."""
    import numpy as np
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    with damage(path.rpartition("/")[2]), files.open(path) as source:
        table = pq.read_table(source, columns=["kind", "status", "step"], use_threads=False)
    is_step = table.column("step").is_valid().to_numpy()
    found = []
    for name, word in (("kind", "tool"), ("status", "error")):
        hits = pc.fill_null(pc.equal(table.column(name), word), False).to_numpy() & is_step
        found.append(np.concatenate([[0], np.cumsum(hits)]))
    return found[0], found[1]
