"""Reading the spans of one trace, a few thousand in memory at a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

from ethogram.errors import Damaged

from .entry import DataFile, Place
from .files import Files
from .numbered import REFERENCES, addressed, addresses
from .segment import damage, open_parquet

OPEN_FILES = 4


class SpanReader:
    """Span rows of one run. Small traces share a row group, so the last one that was unpacked is kept."""

    def __init__(self, files: Files, path: str, known: Sequence[DataFile]) -> None:
        """`path` is the run's directory, `known` are the data files that the ledger makes visible."""
        self._files = files
        self._path = path
        self._refers_to = {f.name: f.refers_to for f in known if f.refers_to is not None}
        self._names: OrderedDict[str, Any] = OrderedDict()
        self._open: OrderedDict[str, Any] = OrderedDict()
        self._last: tuple[tuple[str, int], Any] | None = None

    def rows(self, place: Place) -> Iterator[Any]:
        """The rows at a place as Arrow batches."""
        for group, skip, rows in self.groups(place):
            yield from self.group(place.file, group).slice(skip, rows).to_batches(max_chunksize=4096)

    def groups(self, place: Place) -> Iterator[tuple[int, int, int]]:
        """The row groups that hold a place: the number of each, how many of its rows to skip, and how many follow."""
        metadata = self._file(place.file).metadata
        skip, left = place.row, place.rows
        for group in range(metadata.num_row_groups):
            if left <= 0:
                return
            held = metadata.row_group(group).num_rows
            if skip >= held:
                skip -= held
                continue
            rows = min(held - skip, left)
            yield group, skip, rows
            left -= rows
            skip = 0
        if left > 0:
            raise Damaged(f"{place.file} is shorter than the ledger says; run: ethogram verify", where=place.file)

    def _file(self, name: str) -> Any:
        if name not in self._open:
            with damage(name):
                self._open[name] = open_parquet(self._files.open(f"{self._path}/{name}"))
            if len(self._open) > OPEN_FILES:
                self._open.popitem(last=False)  # closes once nobody reads from it any more
        self._open.move_to_end(name)
        return self._open[name]

    def column(self, name: str, group: int, column: str, *, plain: bool = False) -> Any:
        """One column of a row group; `plain` leaves addresses as they are stored, which may be numbers."""
        with damage(name):
            table = self._file(name).read_row_group(group, columns=[column], use_threads=False)
            if column in REFERENCES and name in self._refers_to and not plain:
                table = addressed(table, self._addresses(name))
            return table.column(column)

    def group(self, name: str, group: int) -> Any:
        """A row group with all columns."""
        place = (name, group)
        if self._last is None or self._last[0] != place:
            self._last = None  # two unpacked groups never stand in memory together
            with damage(name):
                table = self._file(name).read_row_group(group, use_threads=False)
                self._last = (place, addressed(table, self._addresses(name)) if name in self._refers_to else table)
        return self._last[1]

    def _addresses(self, name: str) -> Any:
        if name not in self._names:
            self._names[name] = addresses(self._files, self._path, name, self._refers_to[name])
            if len(self._names) > OPEN_FILES:
                self._names.popitem(last=False)
        return self._names[name]
