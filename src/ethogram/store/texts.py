"""Reading texts by their address, in bounded memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ethogram.errors import Damaged
from ethogram.trace import Ref, detached_refs

from .files import Files
from .ledger import DataFile
from .seal import Keyring
from .segment import TextRow, open_parquet

OPEN_FILES = 16
HELD_GROUPS = 6


class TextReader:
    """Texts of one run. Keeps the addresses of a few segments and the bodies of a few row groups."""

    def __init__(self, files: Files, path: str, known: Sequence[DataFile], keys: Keyring) -> None:
        """`known` are the data files that the ledger makes visible."""
        self._files = files
        self._path = path
        self._known = {f.name: f for f in known}
        self._keys = keys
        self._open: OrderedDict[str, tuple[Any, dict[str, int]]] = OrderedDict()
        self._groups: OrderedDict[tuple[str, int], dict[str, TextRow]] = OrderedDict()

    def get(self, ref: Ref, segments: Sequence[str]) -> str:
        """The body of a text that lies in one of these segments."""
        return self.row(ref, segments).body

    def row(self, ref: Ref, segments: Sequence[str]) -> TextRow:
        """A text as it is stored."""
        for name in segments:
            _, index = self._segment(name)
            group = index.get(ref)
            if group is not None:
                return self._group(name, group)[ref]
        raise Damaged(f"text {ref} is in none of the segments that should hold it; run: ethogram verify")

    def _segment(self, name: str) -> tuple[Any, dict[str, int]]:
        if name in self._open:
            self._open.move_to_end(name)
            return self._open[name]
        known = self._known.get(name)
        if known is None:
            raise Damaged(f"text segment {name} is not in the ledger; run: ethogram verify")
        key = self._keys.get(known.key) if known.key else None
        parquet = open_parquet(self._files.open(f"{self._path}/{name}"), key)
        index: dict[str, int] = {}
        for group in range(parquet.num_row_groups):
            for ref in parquet.read_row_group(group, columns=["ref"]).column(0).to_pylist():
                index[ref] = group
        self._open[name] = (parquet, index)
        if len(self._open) > OPEN_FILES:
            self._open.popitem(last=False)[1][0].close()
        return self._open[name]

    def _group(self, name: str, group: int) -> dict[str, TextRow]:
        place = (name, group)
        if place in self._groups:
            self._groups.move_to_end(place)
            return self._groups[place]
        table = self._segment(name)[0].read_row_group(group)
        rows = {values[0]: TextRow(*values) for values in zip(*(c.to_pylist() for c in table.columns), strict=True)}
        self._groups[place] = rows
        if len(self._groups) > HELD_GROUPS:
            self._groups.popitem(last=False)
        return rows


class TraceTexts(Mapping[Ref, str]):
    """The texts of one trace, fetched when asked for."""

    def __init__(self, reader: TextReader, segments: Sequence[str], refs: Sequence[Ref]) -> None:
        """`refs` are the addresses that the trace's spans name, in order."""
        self._reader = reader
        self._segments = segments
        self._refs = refs

    def __getitem__(self, ref: Ref) -> str:
        return self._reader.get(ref, self._segments)

    def __iter__(self) -> Iterator[Ref]:
        """Every address once: what spans name, then what those messages lean on."""
        seen: dict[Ref, None] = dict.fromkeys(self._refs)
        yield from seen
        for ref in self._refs:
            for leaning in detached_refs(self[ref]):
                if leaning not in seen:
                    seen[leaning] = None
                    yield leaning

    def __len__(self) -> int:
        return sum(1 for _ in self)
