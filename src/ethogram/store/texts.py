"""Reading texts by their address, in bounded memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ethogram.errors import Damaged, EthogramError, Sealed
from ethogram.traces import Ref, Span, detached_refs

from .entry import DataFile
from .files import Files
from .seal import Keyring
from .segment import TextRow, damage, open_texts

OPEN_FILES = 16
HELD_CHARS = 64 << 20
TRACE_CHARS = 4 << 20
"""What one trace keeps of its texts once they were read."""


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
        self._sizes: dict[tuple[str, int], int] = {}

    def get(self, ref: Ref, segments: Sequence[str]) -> str:
        """The body of a text that lies in one of these segments."""
        return self.row(ref, segments).body

    def row(self, ref: Ref, segments: Sequence[str]) -> TextRow:
        """A text as it is stored; a segment whose key is gone matters only if no other holds the text."""
        sealed: Sealed | None = None
        for name in segments:
            try:
                _, index = self._segment(name)
            except Sealed as error:
                sealed = error
                continue
            group = index.get(ref)
            if group is not None:
                return self._group(name, group)[ref]
        if sealed is not None:
            raise sealed
        raise Damaged(
            f"text {ref} is in none of the segments that should hold it; run: ethogram verify", where=f"text {ref}"
        )

    def _segment(self, name: str) -> tuple[Any, dict[str, int]]:
        if name in self._open:
            self._open.move_to_end(name)
            return self._open[name]
        known = self._known.get(name)
        if known is None:
            raise Damaged(f"text segment {name} is not in the ledger; run: ethogram verify", where=name)
        key = self._keys.get(known.key) if known.key else None
        index: dict[str, int] = {}
        with damage(name):
            parquet = open_texts(self._files.open(f"{self._path}/{name}"), key)
            for group in range(parquet.num_row_groups):
                for ref in parquet.read_row_group(group, columns=["ref"], use_threads=False).column(0).to_pylist():
                    index[ref] = group
        self._open[name] = (parquet, index)
        if len(self._open) > OPEN_FILES:
            self._open.popitem(last=False)[1][0].close(force=True)
        return self._open[name]

    def _group(self, name: str, group: int) -> dict[str, TextRow]:
        place = (name, group)
        if place in self._groups:
            self._groups.move_to_end(place)
            return self._groups[place]
        with damage(name):
            table = self._segment(name)[0].read_row_group(group, use_threads=False)
            rows = {values[0]: TextRow(*values) for values in zip(*(c.to_pylist() for c in table.columns), strict=True)}
        self._groups[place] = rows
        self._sizes[place] = table.nbytes
        while len(self._groups) > 1 and sum(self._sizes.values()) > HELD_CHARS:
            del self._sizes[self._groups.popitem(last=False)[0]]
        return rows


def stored_refs(files: Files, path: str, segments: Iterable[DataFile], key: bytes | None) -> Iterator[tuple[Ref, str]]:
    """The addresses in some text segments that one key opens, each with its segment; a damaged one gives none."""
    for segment in segments:
        refs: list[Ref] = []
        with suppress(EthogramError), damage(segment.name), files.open(f"{path}/{segment.name}") as file:
            refs = open_texts(file, key).read(columns=["ref"], use_threads=False).column(0).to_pylist()
        yield from ((ref, segment.name) for ref in refs)


class TraceTexts(Mapping[Ref, str]):
    """The texts of one trace, fetched when asked for."""

    def __init__(self, reader: TextReader, segments: Sequence[str], spans: Sequence[Span], more: Sequence[Ref]) -> None:
        """`more` are addresses that are named outside the spans: the answer, and why labels say what they say."""
        self._reader = reader
        self._segments = segments
        self._spans = spans
        self._more = more
        self._read: dict[Ref, str] = {}
        self._room = TRACE_CHARS

    def __getitem__(self, ref: Ref) -> str:
        if not ref:  # what has no words has no address: `get` gives its default for it, as that of a dict does
            raise KeyError(ref)
        body = self._read.get(ref)
        if body is None:
            body = self._reader.get(ref, self._segments)
            self._room -= len(body)
            if self._room > 0:
                self._read[ref] = body
        return body

    def changed(self, ref: Ref) -> bool:
        """Whether redaction changed a text before it was stored."""
        return self._reader.row(ref, self._segments).mark is not None

    def __iter__(self) -> Iterator[Ref]:
        """Every address once: what spans name, then what their messages lean on."""
        seen = dict.fromkeys((*self._more, *(ref for span in self._spans for ref in span.refs)))
        yield from seen
        messages = dict.fromkeys(ref for span in self._spans for ref in (*span.input, *span.output))
        for message in messages:
            for ref in detached_refs(self[message]):
                if ref not in seen:
                    seen[ref] = None
                    yield ref

    def __len__(self) -> int:
        return sum(1 for _ in self)
