"""Rows of spans, as they are read, into tables of whole traces; columns of words into codes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ethogram.arrays import plain_numbers
from ethogram.errors import Damaged

from .columns import Bools, Ints

PLACE = "place"
"""A column of integers that says which trace a row is of; faster than reading the ids."""
CHUNK = 1 << 17
"""How many rows are worked on at a time."""


def whole_traces(
    batches: Iterable[Any], traces: Sequence[str], steps: Ints, chunk: int = CHUNK
) -> Iterator[tuple[Ints, Any, Ints]]:
    """Tables that hold only whole traces, one after the other: their places, the rows, and where each trace begins.

    Rows that are no steps are passed over; text columns may be plain or dictionaries. A column `place` says which trace
    a row is of, -1 for none; without it `trace_id` does.
    """
    place: dict[str, int] = {}
    held: list[Any] = []
    rows, wanted = 0, chunk
    for batch in batches:
        if not place and PLACE not in batch.schema.names:
            place = {trace: i for i, trace in enumerate(traces)}
        held.append(batch)
        rows += batch.num_rows
        if rows < wanted:
            continue
        whole, rest = _cut(_table(held), place, steps)
        held, rows = rest.to_batches(), rest.num_rows
        # one trace that outgrows a chunk must not be looked through again at every batch
        wanted = max(chunk, 2 * rows)
        if whole is not None:
            yield whole
    if rows:
        table = _table(held)
        whole, rest = _cut(table, place, steps)
        if rest.num_rows:
            short = traces[int(_places(rest, place)[0])]
            raise Damaged(
                f"trace {short} has fewer steps than the ledger says; run: ethogram verify", where=f"trace {short}"
            )
        if whole is not None:
            yield whole


def _table(batches: Sequence[Any]) -> Any:
    import pyarrow as pa

    table = pa.Table.from_batches(batches).unify_dictionaries()
    step = table.column("step")
    return table.filter(step.is_valid()) if step.null_count else table


def _cut(table: Any, place: Mapping[Any, int], steps: Ints) -> tuple[Any, Any]:
    """What is complete, and what has to wait for more rows."""
    if table.num_rows == 0:
        return None, table
    own, position = _places(table, place), plain_numbers(table.column("step"), -1)
    starts = _starts(own)
    heads = own[starts]
    done = np.diff(starts, append=own.size) >= steps[heads]
    later = position[1:] > position[:-1]
    later[starts[1:] - 1] = True
    once = bool((heads[1:] > heads[:-1]).all()) or np.unique(heads).size == heads.size
    if once and later.all() and heads.min() >= 0 and done[:-1].all():
        # as logs are written: trace after trace, the last one perhaps cut off
        end = own.size if done[-1] else int(starts[-1])
        return ((heads[done], table.slice(0, end), starts[done]) if end else None), table.slice(end)
    return _sorted_out(table, own, position, steps)


def _sorted_out(table: Any, own: Ints, position: Any, steps: Ints) -> tuple[Any, Any]:
    """The same for rows in any order."""
    ids, code = np.unique(own, return_inverse=True)
    complete = (ids >= 0) & (np.bincount(code) >= steps[ids])
    waiting = (ids >= 0) & ~complete
    rest = table.filter(_mask(waiting[code])) if waiting.any() else table.slice(0, 0)
    order = np.flatnonzero(complete[code])
    if order.size == 0:
        return None, rest
    order = order[np.argsort((own[order].astype(np.int64) << 32) | position[order].astype(np.int64), kind="stable")]
    starts = _starts(own[order])
    return (own[order][starts], table.take(_indices(order)), starts), rest


def _starts(own: Ints) -> Ints:
    """The first row of every stretch of rows of one trace."""
    return np.concatenate([[0], np.flatnonzero(own[1:] != own[:-1]) + 1])


def _places(table: Any, place: Mapping[Any, int]) -> Ints:
    """Which trace each row is of, -1 for none of those wanted."""
    if PLACE in table.column_names:
        return plain_numbers(table.column(PLACE), 0)  # type: ignore[no-any-return]
    ids, code = coded(table.column("trace_id"))
    at = np.array([place.get(i, -1) for i in ids], dtype=np.int64)
    return np.asarray(at[code], dtype=np.int64)


def coded(column: Any) -> tuple[list[Any], Any]:
    """The distinct values of a column and which one each row has, -1 where it is null."""
    found = encoded(column)
    return found.dictionary.to_pylist(), codes_of(found)


def encoded(column: Any) -> Any:
    """A column of words as a dictionary array in one piece."""
    import pyarrow as pa

    whole = column.combine_chunks()
    return whole if pa.types.is_dictionary(whole.type) else whole.dictionary_encode()


def codes_of(found: Any, rows: Ints | None = None) -> Any:
    """The codes of a dictionary array, or of some rows of it, -1 where it is null.

    Straight from its buffers, for this is where time goes.
    """
    indices = found.indices
    if str(indices.type) != "int32":
        whole = plain_numbers(indices, -1)
        return whole if rows is None else whole[rows]
    valid, numbers = indices.buffers()
    first, end = indices.offset, indices.offset + len(indices)
    codes = np.frombuffer(numbers, dtype=np.int32, count=end)[first:]
    codes = codes if rows is None else codes[rows]
    if not indices.null_count:
        return codes
    known = np.unpackbits(np.frombuffer(valid, dtype=np.uint8), count=end, bitorder="little")[first:]
    return np.where(known if rows is None else known[rows], codes, np.int32(-1))


def _mask(values: Bools) -> Any:
    import pyarrow as pa

    return pa.Array.from_buffers(pa.bool_(), values.size, [None, pa.py_buffer(np.packbits(values, bitorder="little"))])


def _indices(rows: Ints) -> Any:
    import pyarrow as pa

    return pa.Array.from_buffers(pa.int64(), rows.size, [None, pa.py_buffer(np.ascontiguousarray(rows, np.int64))])
