"""Span and text segments: Parquet with zstd, written once, never changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import msgspec

from ethogram.arrays import arrow_table
from ethogram.errors import Damaged, first_line
from ethogram.traces import Ref, Span

SPAN_ROWS = 65_536
TEXT_ROWS = 8_192
TEXT_CHARS = 4 << 20
"""About how much of a text segment must be unpacked to read one text."""
ZSTD_LEVEL, LARGE_LEVEL, LARGE = 6, 3, 1 << 20
"""Of a table of more than `LARGE` bytes the higher level makes hardly less, in three times the time."""
FEW_ROWS = 64
_UNIQUE = ("body", "ref", "mark", "span_id", "seq", "chars")
"""Columns in which hardly a value comes twice."""
_TIMES = ("start_ns", "end_ns")
_REFERENCES = ("error", "arguments", "result", "attributes")

_STRING, _INT, _INT32, _FLOAT, _BOOL, _LIST = "string", "int64", "int32", "float64", "bool", "list"
SPAN_COLUMNS: dict[str, str] = {
    "trace_id": _STRING,
    "span_id": _STRING,
    "seq": _INT32,
    "step": _INT32,
    "kind": _STRING,
    "name": _STRING,
    "parent_id": _STRING,
    "agent": _STRING,
    "lane": _STRING,
    "start_ns": _INT,
    "end_ns": _INT,
    "status": _STRING,
    "error": _STRING,
    "model": _STRING,
    "provider": _STRING,
    "prompt_version": _STRING,
    "params": _STRING,
    "continues": _STRING,
    "keep": _INT32,
    "input": _LIST,
    "output": _LIST,
    "requested": _LIST,
    "tool": _STRING,
    "call_id": _STRING,
    "arguments": _STRING,
    "result": _STRING,
    "result_hash": _STRING,
    "truncated": _BOOL,
    "input_tokens": _INT,
    "cache_read_tokens": _INT,
    "cache_write_tokens": _INT,
    "output_tokens": _INT,
    "reasoning_tokens": _INT,
    "cost_usd": _FLOAT,
    "stop_reason": _STRING,
    "attributes": _STRING,
}
_FIELDS = [c for c in SPAN_COLUMNS if c != "step"]


class TextRow(msgspec.Struct, frozen=True, gc=False):
    """A text as it is stored; `chars` is its length and `mark` its keyed hash before redaction."""

    ref: Ref
    body: str
    chars: int
    mark: str | None


@cache
def span_schema() -> Any:
    """The Arrow schema of span segments: a `Span` without its words, and its position in the linear reading."""
    import pyarrow as pa

    types = {_STRING: pa.string(), _INT: pa.int64(), _INT32: pa.int32(), _FLOAT: pa.float64(), _BOOL: pa.bool_()}
    types[_LIST] = pa.list_(pa.string())
    return pa.schema([(name, types[kind]) for name, kind in SPAN_COLUMNS.items()])


@cache
def text_schema() -> Any:
    """The Arrow schema of text segments."""
    import pyarrow as pa

    return pa.schema([("ref", pa.string()), ("body", pa.string()), ("chars", pa.int64()), ("mark", pa.string())])


def span_table(spans: Sequence[Span], steps: dict[str, int]) -> Any:
    """Spans of one trace as an Arrow table; `steps` gives the position of each step by span id."""
    return arrow_table(columns_of_spans([(spans, steps)]), span_schema())


def columns_of_spans(traces: Sequence[tuple[Sequence[Span], dict[str, int]]]) -> dict[str, Sequence[Any]]:
    """The columns of the spans of several traces, each with the positions of its steps."""
    spans = [s for those, _ in traces for s in those]
    columns = _columns(spans, Span)
    columns["step"] = [steps.get(s.span_id) for those, steps in traces for s in those]
    columns["params"] = [msgspec.json.encode(p, order="sorted").decode() if p else None for p in columns["params"]]
    return columns


def text_table(rows: Iterable[TextRow]) -> Any:
    """Texts as an Arrow table."""
    return arrow_table(_columns(list(rows), TextRow), text_schema())


def _columns(records: Sequence[msgspec.Struct], kind: type[msgspec.Struct]) -> dict[str, Sequence[Any]]:
    """The fields of records of one kind, each as a column."""
    fields = kind.__struct_fields__
    if not records:
        return dict.fromkeys(fields, ())
    return dict(zip(fields, zip(*map(msgspec.structs.astuple, records), strict=True), strict=True))


def parquet_bytes(table: Any, key: bytes | None = None) -> Any:
    """A Parquet file in memory, sealed with `key` if one is given."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sealing = None
    if key is not None:
        import pyarrow.parquet.encryption as pe

        sealing = pe.create_encryption_properties(footer_key=key)
    out = pa.BufferOutputStream()
    pq.write_table(
        table,
        out,
        compression="zstd",
        compression_level=LARGE_LEVEL if table.nbytes > LARGE else ZSTD_LEVEL,
        row_group_size=_text_rows(table) if "body" in table.column_names else SPAN_ROWS,
        # random hashes and bodies gain nothing from statistics, and every column costs footer bytes
        write_statistics=["trace_id", "kind", "start_ns"] if "kind" in table.column_names else False,
        use_dictionary=_repeating(table),
        # times and rows of texts grow by small steps: a fifth less to keep, and a third of the time to read
        column_encoding=dict.fromkeys(_rising(table), "DELTA_BINARY_PACKED") or None,
        encryption_properties=sealing,
        store_schema=False,
        # a reader notices a flipped bit at once, instead of showing what was never there; sealed pages are signed
        write_page_checksum=sealing is None,
    )
    return out.getvalue()


def _repeating(table: Any) -> list[str] | bool:
    """Columns that are worth a dictionary: each costs a page, which few rows or no values do not pay back."""
    apart = {*_UNIQUE, *_rising(table)}
    found = [c for c in table.column_names if c not in apart and table.column(c).null_count < table.num_rows]
    return found if table.num_rows >= FEW_ROWS and found else False


def _rising(table: Any) -> list[str]:
    """Columns whose numbers mostly grow by small steps: times, and the references of numbered segments."""
    import pyarrow as pa

    found = [c for c in (*_TIMES, "chars") if c in table.column_names]
    for field in table.schema:
        if pa.types.is_list(field.type) and pa.types.is_int32(field.type.value_type):
            found.append(f"{field.name}.list.element")
        elif field.name in _REFERENCES and pa.types.is_int32(field.type):
            found.append(field.name)
    return found


def _text_rows(table: Any) -> int:
    """Rows per group: few where texts are long, so that reading one of them costs little memory."""
    groups = int(table.column("body").nbytes) // TEXT_CHARS + 1
    return max(1, min(TEXT_ROWS, -(-int(table.num_rows) // groups)))


def open_parquet(file: Any, key: bytes | None = None, dictionaries: Sequence[str] = ()) -> Any:
    """A Parquet file to read from; columns named in `dictionaries` stay as they are coded.

    Read it without threads: a process that ends while Arrow's pool winds down may abort after its work (arrow 34314).
    """
    import pyarrow.parquet as pq

    opening = None
    if key is not None:
        import pyarrow.parquet.encryption as pe

        opening = pe.create_decryption_properties(footer_key=key)
    return pq.ParquetFile(
        file,
        decryption_properties=opening,
        pre_buffer=False,
        read_dictionary=list(dictionaries),
        page_checksum_verification=key is None,
    )


def open_texts(file: Any, key: bytes | None = None) -> Any:
    """A text segment to read from; raises `TypeError` where its columns are not those of one.

    One changed bit of the footer makes words of bytes, and nothing else of the file need be wrong.
    """
    parquet = open_parquet(file, key)
    found = {field.name: field.type for field in parquet.schema_arrow}
    for field in text_schema():
        if field.name in found and found[field.name] != field.type:
            raise TypeError(f"column {field.name} is {found[field.name]} instead of {field.type}")
    return parquet


@contextmanager
def damage(name: str) -> Iterator[None]:
    """Name the file whose bytes cannot be read; in damaged ones anything may be missing or of another type."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError) as error:
        told = first_line(error, 200)
        raise Damaged(f"{name} cannot be read ({told}); run: ethogram verify", where=name) from None


def spans_of(batch: Any) -> list[Span]:
    """Spans of an Arrow batch."""
    columns = {name: batch.column(name).to_pylist() for name in _FIELDS}
    params = [None if p is None else msgspec.json.decode(p) for p in columns["params"]]
    lists = {name: [tuple(v or ()) for v in columns[name]] for name in ("input", "output", "requested")}
    columns.update(lists)
    spans = []
    for i in range(batch.num_rows):
        values = {name: column[i] for name, column in columns.items() if column[i] is not None}
        values["params"] = params[i] or {}
        spans.append(Span(**values))
    return spans
