"""The spans of one trace as a table of which only what is asked for is read: a column, or some rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ethogram.arrays import indices

from .entry import Place
from .rows import SpanReader
from .segment import span_schema

SMALL = 5_000
"""Rows of a trace that shares its row group with others: unpacked once, the group serves all of them."""


class _Piece(NamedTuple):
    """Neighbouring rows of one row group of a file."""

    file: str
    group: int
    skip: int
    rows: int


class SpanTable:
    """The rows of a trace in the order of the log. Columns that were read are kept, whole rows are not."""

    def __init__(self, reader: SpanReader, places: Sequence[Place]) -> None:
        """Nothing is read yet; `places` are where the ledger says that the rows lie."""
        self._reader = reader
        self._places = places
        self._columns: dict[tuple[str, bool], Any] = {}
        self.num_rows = sum(place.rows for place in places)

    @property
    def nbytes(self) -> int:
        """The bytes of what is kept."""
        return sum(int(held.nbytes) for held in self._columns.values())

    def column(self, name: str) -> Any:
        """A column as one Arrow array; raises `Damaged` where it cannot be read."""
        return self._column(name, plain=False)

    def known(self, name: str) -> Any:
        """Where a column has a value; no address is made for it."""
        valid = self._column(name, plain=True).is_valid()
        return np.unpackbits(np.frombuffer(valid.buffers()[1], np.uint8), bitorder="little")[: len(valid)].astype(bool)

    def take(self, rows: Any) -> Any:
        """Some rows with all columns, in the order asked for. Only the row groups that hold them are read."""
        import pyarrow as pa

        wanted = np.asarray(rows, dtype=np.int64)
        starts = np.cumsum([0, *(piece.rows for piece in self._pieces)])
        owner = np.searchsorted(starts, wanted, side="right") - 1
        parts, order = [], []
        for number in np.unique(owner):
            at = np.flatnonzero(owner == number)
            piece = self._pieces[int(number)]
            own = wanted[at] - starts[number] + piece.skip
            parts.append(self._reader.group(piece.file, piece.group).take(indices(own)))
            order.append(at)
        if not parts:
            return span_schema().empty_table()
        return pa.concat_tables(parts).take(indices(np.argsort(np.concatenate(order), kind="stable")))

    @cached_property
    def _pieces(self) -> list[_Piece]:
        return [_Piece(place.file, *piece) for place in self._places for piece in self._reader.groups(place)]

    def _column(self, name: str, *, plain: bool) -> Any:
        import pyarrow as pa

        held = self._columns.get((name, plain))
        if held is None:
            parts = []
            for file, group, skip, rows in self._pieces:
                if self.num_rows <= SMALL:
                    found = self._reader.group(file, group).column(name)
                else:
                    found = self._reader.column(file, group, name, plain=plain)
                parts += found.slice(skip, rows).chunks
            held = pa.concat_arrays(parts) if parts else pa.nulls(0, span_schema().field(name).type)
            self._columns[name, plain] = held
        return held
