"""Rows of a table, whatever it is written in: CSV (any usual separator), JSON lines, a JSON array, or Parquet.

Rows come one at a time and with their place; a row that does not fit its header is reported and left out. Of a JSON
object inside a row every value is a column of its own: `metrics.score`.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from ethogram.errors import Unreadable

from .intake import Intake
from .peek import Peek, why_not_utf8
from .records import objects, records
from .source import MAX_DOCUMENT, PEEK, Source

SEPARATORS = ",;\t|"
BATCH = 2_000
MAX_FIELD = 16 << 20
DEPTH = 3
"""How deep objects in a row are opened."""

TableRow = dict[str, Any]


class RowSample(NamedTuple):
    """The names of the columns, and the first rows."""

    names: list[str]
    rows: list[TableRow]


def sample_of(peek: Peek) -> RowSample | None:
    """What the first look shows of a table; None if it is none."""
    if peek.shape == "text":
        return _csv_sample(peek.data)
    if peek.shape not in ("lines", "array", "parquet"):
        return None
    rows = [flat_row(r) for r in peek.records if isinstance(r, dict)]
    names = list(dict.fromkeys([*peek.members, *(name for row in rows for name in row)]))
    return RowSample(names, rows) if names and len(rows) == len(peek.records) else None


def why_no_sample(peek: Peek) -> str:
    """What keeps text from being a table, in one sentence; empty where nothing says that it ought to be one."""
    sign = separator_of(peek.data) if peek.shape == "text" else None
    names = [] if sign is None else _fields(_first_line(peek.data), sign)
    repeated = [name for name, count in Counter(map(str.strip, names)).items() if name and count > 1]
    if repeated:
        return f"more than one column is named {' or '.join(repeated[:5])}; if this is a table, rename them"
    return why_not_utf8(peek.data)


def rows_of(source: Source, peek: Peek, intake: Intake) -> Iterator[tuple[str, TableRow]]:
    """Place and values of every row; empty cells are None."""
    if peek.shape == "text":
        return _csv_rows(source, peek, intake)
    if peek.shape == "parquet":
        return _parquet_rows(source)
    return ((place, flat_row(value)) for place, value in objects(records(source, intake), intake))


def flat_row(row: TableRow, before: str = "", depth: int = DEPTH) -> TableRow:
    """The row with the values of its objects beside it, under names with dots."""
    found: TableRow = {}
    for name, value in row.items():
        if isinstance(value, dict) and depth > 1:
            found |= flat_row(value, f"{before}{name}.", depth - 1)
        else:
            found[f"{before}{name}"] = value
    return found


def separator_of(data: bytes) -> str | None:
    """The sign between the fields of the first line; None if there is none."""
    first = _first_line(data)
    counts = {sign: len(_fields(first, sign)) for sign in SEPARATORS}
    best = max(counts, key=lambda sign: counts[sign])
    return best if counts[best] > 1 else None


def _fields(line: str, sign: str) -> list[str]:
    """The fields of a line; none where it is not CSV."""
    csv.field_size_limit(MAX_FIELD)
    try:
        return next(csv.reader([line], delimiter=sign), [])
    except csv.Error:
        return []


def _first_line(data: bytes) -> str:
    return data.partition(b"\n")[0].decode("utf-8", "replace")


def _csv_sample(data: bytes) -> RowSample | None:
    sign = separator_of(data)
    if sign is None:
        return None
    whole = data if len(data) < PEEK else data[: data.rfind(b"\n") + 1]
    lines = csv.reader(io.StringIO(whole.decode("utf-8", "replace"), newline=""), delimiter=sign)
    try:
        names = _header(next(lines))
        rows = [dict(zip(names, map(_cell, fields), strict=True)) for fields in lines if len(fields) == len(names)]
    except csv.Error:
        return None
    return RowSample(names, rows) if all(names) and len(set(names)) == len(names) else None


def _csv_rows(source: Source, peek: Peek, intake: Intake) -> Iterator[tuple[str, TableRow]]:
    names: list[str] = []
    with source.open() as stream:
        buffered = stream if isinstance(stream, io.BufferedIOBase) else io.BufferedReader(stream)  # type: ignore[type-var]
        text = io.TextIOWrapper(buffered, "utf-8-sig", "replace", newline="")
        lines = csv.reader(text, delimiter=separator_of(peek.data) or ",")
        while True:
            where = f"line {lines.line_num + 1}"
            try:
                fields = next(lines, None)
            except csv.Error as error:
                intake.skip(where, f"not CSV: {error}")
                continue
            if fields is None:
                return
            if not names:
                names = _header(fields)
            elif len(fields) != len(names):
                if fields:
                    intake.skip(where, f"the row has {len(fields)} fields where the header has {len(names)}")
            else:
                if any("\ufffd" in field for field in fields):
                    intake.lose("characters that are not UTF-8")
                yield where, dict(zip(names, map(_cell, fields), strict=True))


def _header(fields: list[str]) -> list[str]:
    """The names of the columns; one without a name is the index of pandas at the start, a stray comma at the end."""
    names = [name.strip() for name in fields]
    for place in {0, len(names) - 1}:
        names[place] = names[place] or f"column {place + 1}"
    return names


def _cell(value: str) -> str | None:
    return value.strip() or None


def _parquet_rows(source: Source) -> Iterator[tuple[str, TableRow]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with _seekable(source) as stream, pq.ParquetFile(stream) as file:
            for batch in file.iter_batches(batch_size=BATCH):
                if source.on_bytes is not None:
                    source.on_bytes(source.size * batch.num_rows // max(1, file.metadata.num_rows))
                for row in batch.to_pylist():
                    yield f"row {number}", flat_row(row)
                    number += 1
    except (pa.ArrowException, OSError) as error:
        raise Unreadable(f"the Parquet is damaged after row {number}: {str(error)[:200]}") from None


def _seekable(source: Source) -> Any:
    if not source.compression:
        return source.open_packed()
    with source.open() as stream:
        data = stream.read(MAX_DOCUMENT + 1)
    if len(data) > MAX_DOCUMENT:
        raise Unreadable("unpack it first: it is Parquet inside another compression")
    return io.BytesIO(data)
