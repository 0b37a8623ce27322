"""Standard dimensions and states from the span files of runs: here in one go, or on Ray over groups of files.

A trace is counted whole, so files that share one go to the same worker. A worker opens the home itself and gives back
arrays; which worker counted a trace changes no number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ethogram.cluster import Cluster
from ethogram.measures.columns import Ints
from ethogram.measures.milestones import Milestones
from ethogram.measures.standard_columns import COLUMNS, StandardValues, standard_values, together
from ethogram.measures.standard_states import COLUMNS as STATE_COLUMNS
from ethogram.measures.standard_states import state_labels
from ethogram.measures.standard_stream import PLACE
from ethogram.store import Entry, Run
from ethogram.store.files import Files, files_at
from ethogram.store.numbered import SINGLE, addresses, addresses_at
from ethogram.store.segment import damage, span_schema

BATCH = 1 << 17
PART_ROWS = 1 << 18
"""A worker is given files of about this number of rows at a time."""


class SpanRows(NamedTuple):
    """Rows of one span file: where stretches begin, how long they are, and which of the traces each is of.

    `refers_to` is the text segment that its references count the rows of, if they are numbers.
    """

    home: str
    run: str
    path: str
    first: Ints
    rows: Ints
    trace: Ints
    refers_to: str | None = None


class FileGroup(NamedTuple):
    """Traces whose rows are in the same files; `places` are their positions among all traces."""

    files: list[SpanRows]
    traces: Sequence[str]
    steps: Ints
    places: Ints

    def tally(self, homes: Mapping[str, Files]) -> StandardValues:
        """Counts over the steps of these traces."""
        return standard_values(span_columns(self.files, COLUMNS, homes), self.traces, self.steps)

    def labels(self, homes: Mapping[str, Files], stones: Milestones) -> list[tuple[str, ...]]:
        """The state of each step of each trace."""
        return state_labels(span_columns(self.files, STATE_COLUMNS, homes), self.traces, self.steps, stones)


class StoredSteps:
    """The steps of some stored traces, to be counted here or on a cluster."""

    def __init__(self, kept: Sequence[tuple[Run, Entry]], cluster: Cluster | None = None) -> None:
        self._homes = {run.files.reach: run.files for run in {id(run): run for run, _ in kept}.values()}
        traces = [e.head.trace_id for _, e in kept]
        steps = np.array([e.totals.steps for _, e in kept], dtype=np.int64)
        self._whole = FileGroup(span_rows(kept), traces, steps, np.arange(len(kept)))
        self._cluster = cluster
        self._parts = [] if cluster is None else file_groups(self._whole, PART_ROWS)

    def tally(self) -> StandardValues:
        """All dimensions that are computed from steps."""
        if self._cluster is None:
            return self._whole.tally(self._homes)
        found = self._cluster.map(_tally_there, [(part,) for part in self._parts])
        return together(((p.places, t) for p, t in zip(self._parts, found, strict=True)), len(self._whole.traces))

    def labels(self, stones: Milestones) -> list[tuple[str, ...]]:
        """The state of each step of each trace."""
        if self._cluster is None:
            return self._whole.labels(self._homes, stones)
        found = self._cluster.map(_labels_there, [(part, stones) for part in self._parts])
        out: list[tuple[str, ...]] = [()] * len(self._whole.traces)
        for part, labels in zip(self._parts, found, strict=True):
            for place, own in zip(part.places.tolist(), labels, strict=True):
                out[place] = own
        return out


def _tally_there(part: FileGroup) -> StandardValues:
    return part.tally(_opened(part))


def _labels_there(part: FileGroup, stones: Milestones) -> list[tuple[str, ...]]:
    return part.labels(_opened(part), stones)


def _opened(part: FileGroup) -> dict[str, Files]:
    """The homes of a part, opened where the work is done."""
    return {home: files_at(home) for home in {f.home for f in part.files}}


def span_rows(kept: Sequence[tuple[Run, Entry]]) -> list[SpanRows]:
    """Where the rows of these traces lie, file by file: the ledger knows, so ids need not be read."""
    # flat lists of numbers: a hundred thousand small tuples would keep the garbage collector busy
    files: dict[tuple[int, str], tuple[Run, list[int], list[int], list[int]]] = {}
    refers_to = {(id(r), f.name): f.refers_to for r in {id(r): r for r, _ in kept}.values() for f in r.standing.files}
    for number, (run, entry) in enumerate(kept):
        for spot in entry.spans:
            found = files.get((id(run), spot.file))
            if found is None:
                found = files[id(run), spot.file] = (run, [], [], [])
            found[1].append(spot.row)
            found[2].append(spot.rows)
            found[3].append(number)
    return [
        SpanRows(
            run.files.reach,
            run.name,
            f"{run.path}/{name}",
            np.array(first),
            np.array(rows),
            np.array(trace),
            refers_to.get((number, name)),
        )
        for (number, name), (run, first, rows, trace) in files.items()
    ]


def file_groups(whole: FileGroup, rows: int) -> list[FileGroup]:
    """The same traces by groups of files of about `rows` rows; files that share a trace stay together."""
    group = _groups([f.trace for f in whole.files], len(whole.traces))
    order = sorted(range(len(group)), key=group.__getitem__)
    parts: list[FileGroup] = []
    taken: list[SpanRows] = []
    size = 0
    for i, file in enumerate(order):
        taken.append(whole.files[file])
        size += int(whole.files[file].rows.sum())
        last = i + 1 == len(order)
        if last or (size >= rows and group[order[i + 1]] != group[file]):
            parts.append(_part(whole, taken))
            taken, size = [], 0
    return parts


def _groups(traces: Sequence[Ints], n: int) -> list[int]:
    """For each file the first one that it shares a trace with, directly or through others."""
    first = list(range(len(traces)))

    def root(file: int) -> int:
        while first[file] != file:
            first[file] = first[first[file]]
            file = first[file]
        return file

    owner = np.full(n, -1, dtype=np.int64)
    for file, own in enumerate(traces):
        for other in np.unique(owner[own]).tolist():
            if other >= 0:
                low, high = sorted((root(other), root(file)))
                first[high] = low
        owner[own] = file
    return [root(file) for file in range(len(traces))]


def _part(whole: FileGroup, files: Sequence[SpanRows]) -> FileGroup:
    places = np.unique(np.concatenate([f.trace for f in files]))
    own = [f._replace(trace=np.searchsorted(places, f.trace)) for f in files]
    return FileGroup(own, [whole.traces[i] for i in places.tolist()], whole.steps[places], places)


def span_columns(files: Sequence[SpanRows], columns: Sequence[str], homes: Mapping[str, Files]) -> Iterator[Any]:
    """Batches of span columns of some traces, with a column that says which of them each row is of.

    Files without such rows are not opened; texts stay the dictionaries that they are in the files, which halves the
    work.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    wanted = [c for c in columns if c != "trace_id"]
    texts = [c for c in wanted if pa.types.is_string(span_schema().field(c).type)]
    for rows in files:
        folder, _, name = rows.path.rpartition("/")
        with damage(f"{name} of run {rows.run!r}"), homes[rows.home].open(rows.path) as opened:
            source = pq.ParquetFile(opened, read_dictionary=texts, pre_buffer=False)
            numbers = [c for c in wanted if c in SINGLE] if rows.refers_to is not None else []
            known = addresses(homes[rows.home], folder, name, str(rows.refers_to)) if numbers else None
            own = _owners(rows, source.metadata.num_rows)
            first = 0
            for batch in source.iter_batches(BATCH, columns=wanted, use_threads=False):
                part = np.ascontiguousarray(own[first : first + batch.num_rows])
                first += batch.num_rows
                for c in numbers:
                    at = batch.schema.get_field_index(c)
                    batch = batch.set_column(at, c, addresses_at(batch.column(at), known).dictionary_encode())
                place = pa.Array.from_buffers(pa.int32(), part.size, [None, pa.py_buffer(part)])
                yield batch.append_column(PLACE, place)


def _owners(rows: SpanRows, size: int) -> npt.NDArray[np.int32]:
    """Which trace each row of a file is of, -1 for none of those wanted."""
    own = np.repeat(rows.trace.astype(np.int32), rows.rows)
    before = np.cumsum(rows.rows) - rows.rows
    if own.size == size and np.array_equal(rows.first, before):
        return own  # trace after trace, and all of them, as a file is written
    spread = np.full(size, -1, dtype=np.int32)
    spread[np.arange(own.size) + np.repeat(rows.first - before, rows.rows)] = own
    return spread
