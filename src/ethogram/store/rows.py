"""Reading the spans of one trace, a few thousand in memory at a time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

from ethogram.errors import Damaged

from .files import Files
from .ledger import Place
from .segment import damage, open_parquet

OPEN_FILES = 4


class SpanReader:
    """Span rows of one run. Small traces share a row group, so the last one that was unpacked is kept."""

    def __init__(self, files: Files, path: str) -> None:
        """`path` is the run's directory."""
        self._files = files
        self._path = path
        self._open: OrderedDict[str, Any] = OrderedDict()
        self._last: tuple[tuple[str, int], Any] | None = None

    def rows(self, place: Place) -> Iterator[Any]:
        """The rows at a place as Arrow batches."""
        file = self._file(place.file)
        skip, left = place.row, place.rows
        for group in range(file.num_row_groups):
            if left <= 0:
                return
            rows = file.metadata.row_group(group).num_rows
            if skip >= rows:
                skip -= rows
                continue
            table = self._group(place.file, group).slice(skip, left)
            yield from table.to_batches(max_chunksize=4096)
            left -= table.num_rows
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

    def _group(self, name: str, group: int) -> Any:
        place = (name, group)
        if self._last is None or self._last[0] != place:
            self._last = None  # two unpacked groups never stand in memory together
            with damage(name):
                self._last = (place, self._file(name).read_row_group(group, use_threads=False))
        return self._last[1]
