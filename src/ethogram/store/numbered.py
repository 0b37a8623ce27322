"""Span segments whose references are numbers: an address is 16 random bytes, and a text segment holds it already.

In memory a span names a text by its address. In a numbered segment it names it by its row (from 0) in the text segment
that the ledger gives as `refers_to`. Addresses of texts that lie in other segments are in the lists of the column
`elsewhere`; a negative number counts from the end of all of them together: -1 is the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from itertools import count
from typing import Any

from ethogram.arrays import arrow_table, column, plain_numbers

from .files import Files
from .segment import damage, open_parquet, open_texts, span_schema

LISTS = ("input", "output")
SINGLE = ("error", "arguments", "result", "attributes")
REFERENCES = (*LISTS, *SINGLE)
ELSEWHERE = "elsewhere"


@cache
def numbered_schema() -> Any:
    """The Arrow schema of a numbered span segment."""
    import pyarrow as pa

    kinds = {**dict.fromkeys(LISTS, pa.list_(pa.int32())), **dict.fromkeys(SINGLE, pa.int32())}
    fields = [(f.name, kinds.get(f.name, f.type)) for f in span_schema()]
    return pa.schema([*fields, (ELSEWHERE, pa.list_(pa.string()))])


class _Rows(dict[str, int]):
    """The number of each address: its row in the text segment, or a negative one for one that lies elsewhere."""

    def __init__(self, refs: Iterable[str]) -> None:
        """`refs` are the addresses of the text segment, by row."""
        super().__init__(zip(refs, count(), strict=False))
        self.elsewhere: list[str] = []

    def __missing__(self, ref: str) -> int:
        self.elsewhere.append(ref)
        self[ref] = number = -len(self.elsewhere)
        return number


def _numbers(columns: Mapping[str, Sequence[Any]], refs: Iterable[str]) -> dict[str, list[Any]]:
    """The columns of references with numbers for addresses, and the column of addresses that lie elsewhere."""
    rows = _Rows(refs)
    made: dict[str, list[Any]] = {
        **{n: [v and list(map(rows.__getitem__, v)) for v in columns[n]] for n in LISTS},
        **{n: [None if v is None else rows[v] for v in columns[n]] for n in SINGLE},
    }
    made[ELSEWHERE] = [[*reversed(rows.elsewhere)], *[()] * (len(columns[LISTS[0]]) - 1)]
    return made


def numbered_spans(columns: Mapping[str, Sequence[Any]], refs: Iterable[str]) -> Any:
    """Columns of spans as a table with numbers for addresses; `refs` are those of its text segment, by row."""
    return arrow_table({**columns, **_numbers(columns, refs)}, numbered_schema())


def numbered(table: Any, refs: Iterable[str]) -> Any:
    """A table of spans with numbers for addresses; `refs` are those of the text segment that it refers to, by row."""
    import pyarrow as pa

    made = _numbers({name: table.column(name).to_pylist() for name in REFERENCES}, refs)
    schema = numbered_schema()
    arrays = [column(made[f.name], f.type) if f.name in made else table.column(f.name) for f in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def addresses(files: Files, path: str, name: str, refers_to: str) -> Any:
    """What the numbers of a segment stand for, as an Arrow array: addresses of the text segment, then the others."""
    import pyarrow as pa

    found: list[Any] = []
    for file, wanted in ((refers_to, "ref"), (name, ELSEWHERE)):
        with damage(file), files.open(f"{path}/{file}") as source:
            opened = open_texts(source) if file == refers_to else open_parquet(source)
            chunks = opened.read(columns=[wanted], use_threads=False).column(wanted).chunks
            found += chunks if wanted == "ref" else [chunk.flatten() for chunk in chunks]
    return pa.concat_arrays(found)


def addressed(table: Any, names: Any) -> Any:
    """A table of spans with addresses again, of as many columns as it has; `names` is what `addresses` gives."""
    for name in (n for n in REFERENCES if n in table.column_names):
        numbers = table.column(name).combine_chunks()
        found = address_lists_at(numbers, names) if name in LISTS else addresses_at(numbers, names)
        table = table.set_column(table.column_names.index(name), name, found)
    return table.drop_columns([ELSEWHERE]) if ELSEWHERE in table.column_names else table


def addresses_at(numbers: Any, names: Any) -> Any:
    """The addresses behind an Arrow array of numbers; null stays null."""
    import numpy as np
    import pyarrow as pa

    rows = plain_numbers(numbers, 0)
    rows = np.where(rows < 0, rows + len(names), rows).astype(np.int64)
    valid = plain_numbers(numbers.is_valid().cast("uint8"), 0)
    mask = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return names.take(pa.Array.from_buffers(pa.int64(), len(rows), [mask, pa.py_buffer(rows)]))


def address_lists_at(numbers: Any, names: Any) -> Any:
    """The addresses behind an Arrow array of lists of numbers."""
    import numpy as np
    import pyarrow as pa

    lengths = plain_numbers(numbers.value_lengths(), 0)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    starts = pa.Array.from_buffers(pa.int32(), len(offsets), [None, pa.py_buffer(offsets)])
    kind = pa.list_(pa.field("element", pa.string()))  # as Parquet names it: tables of both kinds stand together
    return pa.ListArray.from_arrays(starts, addresses_at(numbers.flatten(), names), type=kind)
