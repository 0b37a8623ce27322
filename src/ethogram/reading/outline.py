"""The outline of a trace as columns: its tree, its steps and its turns, without a record per span and without words.

A trace of 300,000 spans is a few megabytes of arrays here. Spans and words are made for a window of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ethogram.arrays import column, indices, plain_numbers
from ethogram.store import Entry, Run
from ethogram.store.segment import spans_of
from ethogram.store.span_table import SpanTable
from ethogram.traces import Ref, Span, Trace
from ethogram.traces.span import KINDS

from .trace_words import TOOL_KINDS, Only, WordsPart, step_parts

TURN_STARTS = ("model", "user")
"""A turn begins with a call of a model, or with a user's message; what follows belongs to it."""
CONTEXT = ("input_tokens", "cache_read_tokens", "cache_write_tokens")
"""What a model was given."""


def context_of(span: Span) -> int | None:
    """All input tokens of a span; None where the log does not say."""
    known = [n for n in (getattr(span, name) for name in CONTEXT) if n is not None]
    return sum(known) if known else None


@dataclass(frozen=True, eq=False)
class TraceOutline:
    """The spans of a trace: its tree, and its linear reading. Columns are read when they are asked for.

    `steps` are rows of the table (the order of the log); `turn` is the turn of each step, `turns` the first step
    of each turn.
    """

    run: Run
    entry: Entry
    table: SpanTable
    steps: Any
    turn: Any
    turns: Any

    def __len__(self) -> int:
        """How many spans."""
        return self.table.num_rows

    @property
    def nbytes(self) -> int:
        """About how many bytes are kept."""
        return self.table.nbytes + 100 * len(self)

    @cached_property
    def _tree(self) -> tuple[Any, Any, Any]:
        return _tree(self.table)

    @property
    def row(self) -> Any:
        """The rows in the order of the tree, parents first."""
        return self._tree[0]

    @property
    def depth(self) -> Any:
        """In the order of the tree: how many spans are above."""
        return self._tree[1]

    @property
    def end(self) -> Any:
        """In the order of the tree: where the spans below end."""
        return self._tree[2]

    @cached_property
    def kind(self) -> Any:
        """The number of each row's kind in `KINDS`."""
        return _coded(self.table.column("kind"), KINDS)

    @cached_property
    def failed(self) -> Any:
        """Rows that ended in an error, by their status alone, as totals and `--only errors` count them."""
        return _coded(self.table.column("status"), ("error",)) == 0

    @cached_property
    def step(self) -> Any:
        """The step of each row, -1 where it is none."""
        numbers = np.full(len(self), -1, dtype=np.int64)
        numbers[self.steps] = np.arange(self.steps.size)
        return numbers

    def numbers(self, name: str) -> Any:
        """A column of numbers by row, NaN where the log never said; times lose what is below a microsecond."""
        numbers = plain_numbers(self.table.column(name), 0).astype(float)
        return np.where(self.table.known(name), numbers, np.nan)

    def names(self, rows: Any) -> list[str]:
        """The names of some rows: of a tool its own, of a model the model's."""
        held = [self.table.column(name).take(indices(rows)).to_pylist() for name in ("tool", "name", "model")]
        return [tool or name or model or "" for tool, name, model in zip(*held, strict=True)]

    def step_of(self, span_id: str) -> int | None:
        """The step that a span is, or, of a span that holds others, the first step below it."""
        rows = np.flatnonzero(_coded(self.table.column("span_id"), (span_id,)) == 0)
        if not rows.size:
            return None
        row = int(rows[0])
        place = int(np.flatnonzero(self.row == row)[0])
        below = self.step[self.row[place : int(self.end[place])]]
        known = below[below >= 0]
        return int(known.min()) if known.size else None

    def rows_of(self, only: Only | None) -> Any:
        """Whether each row is of the chosen kind."""
        if only is None:
            return np.ones(len(self), dtype=bool)
        if only == "errors":
            return self.failed
        wanted = [KINDS.index(k) for k in (TOOL_KINDS if only == "tools" else ("model",))]
        return np.isin(self.kind, wanted)

    def visible(self, only: Only | None, folded: Sequence[int] = ()) -> Any:
        """Places in the order of the tree that are shown, with some kinds only and without what is folded away."""
        shown = self.rows_of(only)[self.row]
        for place in folded:
            if 0 <= place < len(self):
                shown[place + 1 : int(self.end[place])] = False
        return np.flatnonzero(shown)

    def visible_turns(self, only: Only | None) -> Any:
        """Turns with a step of the chosen kind."""
        if only is None:
            return np.arange(self.turns.size)
        return np.unique(self.turn[self.rows_of(only)[self.steps]])

    def last_step(self, turn: int) -> int:
        """The step after the last one of a turn."""
        return int(self.turns[turn + 1]) if turn + 1 < self.turns.size else int(self.steps.size)

    @cached_property
    def clock(self) -> tuple[Any, Any, float]:
        """By row: when it began and how long it took, in seconds; and how long the trace took.

        Where no span has a time, a row begins at its step, and the trace is as long as it has steps.
        """
        begun, ended = self.numbers("start_ns"), self.numbers("end_ns")
        if not np.isfinite(begun).any():
            return self.step.clip(0).astype(float), np.full(len(self), np.nan), float(self.steps.size)
        first = np.nanmin(begun)
        lasts = np.where(ended >= begun, (ended - begun) / 1e9, np.nan)
        begin = np.nan_to_num((begun - first) / 1e9)
        return (
            begin,
            lasts,
            float(max(np.nanmax(ended) if np.isfinite(ended).any() else 0, np.nanmax(begun)) - first) / 1e9,
        )

    @property
    def is_timed(self) -> bool:
        """Whether the log has times."""
        return bool(np.isfinite(self.numbers("start_ns")).any())

    @cached_property
    def context(self) -> Any:
        """All input tokens by row: fresh, read from a cache and written to it; NaN where the log never said."""
        parts = np.array([self.numbers(name) for name in CONTEXT])
        return np.where(np.isfinite(parts).any(axis=0), np.nansum(parts, axis=0), np.nan)

    def place(self, places: Any, step: int) -> int:
        """The position of a step among the visible places, or where it would be."""
        wanted = int(np.flatnonzero(self.row == self.steps[step])[0]) if 0 <= step < self.steps.size else 0
        return min(int(np.searchsorted(places, wanted)), max(int(places.size) - 1, 0))

    def points(self, most: int) -> TurnPoints:
        """The turns, put together into at most `most` points."""
        count = int(self.turns.size)
        groups = max(-(-count // most), 1)
        starts = np.arange(0, count, groups)
        firsts = self.turns[starts] if count else np.zeros(0, dtype=np.int64)
        rows = self.steps
        return TurnPoints(
            firsts,
            _reduced(np.fmax, self.context[rows], firsts),
            _reduced(np.add, self.numbers("output_tokens")[rows], firsts),
            _reduced(np.add, self.numbers("cost_usd")[rows], firsts),
            np.logical_or.reduceat(self.failed[rows], firsts) if firsts.size else np.zeros(0, dtype=bool),
        )

    def spans(self, rows: Sequence[int]) -> list[Span]:
        """Some rows as spans."""
        return spans_of(self.table.take(rows))

    def words(self, steps: Sequence[int]) -> Iterator[tuple[int, Span, list[WordsPart]]]:
        """Some steps as spans, with their words."""
        spans = self.spans([int(self.steps[s]) for s in steps])
        trace = Trace(self.entry.head, tuple(spans), _Texts(self.run, self.entry))
        written = self._written({ref for span in spans for ref in span.input})
        for step, span in zip(steps, spans, strict=True):
            yield step, span, list(step_parts(trace, span, step, written))

    def _written(self, refs: set[Ref]) -> dict[Ref, int]:
        """The step that first wrote each of some messages, where one did."""
        import pyarrow as pa
        import pyarrow.compute as pc

        messages, writers = self._outputs
        if not refs or not len(messages):
            return {}
        wanted = sorted(refs)
        found = pc.index_in(column(wanted, pa.string()), value_set=messages).to_pylist()
        return {ref: int(writers[at]) for ref, at in zip(wanted, found, strict=True) if at is not None}

    @cached_property
    def _outputs(self) -> tuple[Any, Any]:
        """Every message that a step wrote, in the order of steps, and the step."""
        import pyarrow.compute as pc

        held = self.table.column("output").take(indices(self.steps))
        return pc.list_flatten(held), np.from_dlpack(pc.list_parent_indices(held))

    def references(self) -> tuple[Any, Any]:
        """Every text that a step refers to, and the step: messages that are new to it, its call, result and error."""
        import pyarrow as pa
        import pyarrow.compute as pc

        refs, places = [], []
        for name in ("input", "output"):
            held = self.table.column(name).take(indices(self.steps))
            refs.append(pc.list_flatten(held))
            places.append(np.from_dlpack(pc.list_parent_indices(held)))
        for name in ("arguments", "result", "error"):
            refs.append(self.table.column(name).take(indices(self.steps)).drop_null())
            places.append(np.flatnonzero(self.table.known(name)[self.steps]))
        return pa.chunked_array(refs, pa.string()), np.concatenate(places)


class TurnPoints(NamedTuple):
    """Points of a chart over turns: the first step of each, its largest context, and sums of the rest."""

    step: Any
    context: Any
    output: Any
    cost_usd: Any
    failed: Any


def _reduced(how: Any, values: Any, firsts: Any) -> Any:
    """Values of steps put together by point; NaN where none of them is known."""
    if not firsts.size:
        return np.zeros(0)
    known = np.isfinite(values)
    put = how.reduceat(values if how is np.fmax else np.where(known, values, 0.0), firsts)
    return np.where(np.logical_or.reduceat(known, firsts), put, np.nan)


class _Texts(dict[Ref, str]):
    """The texts of a trace, read when asked for."""

    def __init__(self, run: Run, entry: Entry) -> None:
        super().__init__()
        self._run, self._entry = run, entry

    def __missing__(self, ref: Ref) -> str:
        self[ref] = body = self._run.texts.get(ref, self._entry.texts)
        return body


def trace_outline(run: Run, entry: Entry) -> TraceOutline:
    """The outline of a stored trace; raises `Damaged` where its spans cannot be read."""
    table = run.span_table(entry)
    numbers = plain_numbers(table.column("step"), -1)
    steps = np.flatnonzero(numbers >= 0)
    steps = steps[np.argsort(numbers[steps], kind="stable")]
    starts = np.isin(_coded(table.column("kind"), KINDS)[steps], [KINDS.index(k) for k in TURN_STARTS])
    if starts.size:
        starts[0] = True
    turn = np.cumsum(starts) - 1
    return TraceOutline(run, entry, table, steps, turn, np.flatnonzero(starts))


def _coded(values: Any, words: Sequence[str]) -> Any:
    """The number of each value among some words; what is none of them gets the number after the last."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found = pc.index_in(values, value_set=column(words, pa.string()))
    return plain_numbers(found, len(words))


def _tree(table: SpanTable) -> tuple[Any, Any, Any]:
    """Rows in the order of the tree, how deep each is, and where what is below it ends.

    As in `Trace.walk`: children by start and position; spans whose parent is unknown stand at the top, and a circle of
    parents is cut at its first span.
    """
    import pyarrow.compute as pc

    count = table.num_rows
    above = pc.index_in(table.column("parent_id"), value_set=table.column("span_id"))
    parent = np.where(table.known("parent_id"), plain_numbers(above, -1), -1).astype(np.int64)
    begun = plain_numbers(table.column("start_ns"), 0)
    order = np.lexsort((plain_numbers(table.column("seq"), 0), begun, ~table.known("start_ns")))
    levels = _levels(parent)
    depth, size = np.zeros(count, dtype=np.int64), np.ones(count, dtype=np.int64)
    for number, level in enumerate(levels):
        depth[level] = number
    for level in reversed(levels[1:]):
        np.add.at(size, parent[level], size[level])
    rank = np.empty(count, dtype=np.int64)
    rank[order] = np.arange(count)
    place = np.zeros(count, dtype=np.int64)
    for level in levels:  # each stands after its parent and its earlier siblings with all that is below them
        level = level[np.lexsort((rank[level], parent[level]))]
        before = np.cumsum(size[level]) - size[level]
        first = np.concatenate([[True], parent[level][1:] != parent[level][:-1]])
        before -= before[np.flatnonzero(first)][np.cumsum(first) - 1]
        at_top = parent[level] < 0
        place[level] = before + np.where(at_top, 0, place[parent[level]] + 1)
    row = np.empty(count, dtype=np.int64)
    row[place] = np.arange(count)
    return row, depth[row], np.arange(count) + size[row]


def _levels(parent: Any) -> list[Any]:
    """Rows by how many are above them; cuts circles in `parent`, each at its first row."""
    levels: list[list[Any]] = []
    below = np.argsort(parent, kind="stable")
    sorted_parent = parent[below]
    reached = np.zeros(parent.size, dtype=bool)
    level, unseen = np.flatnonzero(parent < 0), 0
    while True:
        number = 0
        while level.size:
            levels.extend([[]] if number == len(levels) else [])
            levels[number].append(level)
            reached[level] = True
            level, number = below[_ranges(sorted_parent, level)], number + 1
            level = level[~reached[level]]
        while unseen < reached.size and reached[unseen]:
            unseen += 1
        if unseen == reached.size:
            return [np.concatenate(parts) for parts in levels]
        top = _circle_of(parent, unseen)
        parent[top] = -1
        level = np.array([top])


def _ranges(sorted_parent: Any, rows: Any) -> Any:
    """Where the children of some rows stand in an array that is sorted by parent."""
    low, high = (np.searchsorted(sorted_parent, rows, side=side) for side in ("left", "right"))
    lengths = high - low
    return np.repeat(low - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())


def _circle_of(parent: Any, row: int) -> int:
    """The first row of the circle that a row hangs below, or is in."""
    seen: set[int] = set()
    while row not in seen:
        seen.add(row)
        row = int(parent[row])
    circle, at = {row}, int(parent[row])
    while at != row:
        circle.add(at)
        at = int(parent[at])
    return min(circle)
