"""Segments: a span and a text come back as they went in, and few bytes need unpacking to read one text."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ethogram.errors import Damaged
from ethogram.store.segment import (
    SPAN_COLUMNS,
    TextRow,
    damage,
    open_parquet,
    parquet_bytes,
    span_schema,
    span_table,
    spans_of,
    text_schema,
    text_table,
)
from ethogram.traces import KINDS, Span, step_order

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
maybe = st.none() | words
refs = st.lists(words, max_size=3).map(tuple)
count = st.none() | st.integers(0, 2**53)
when = st.none() | st.integers(1, 2**62)
spans = st.builds(
    Span,
    trace_id=words,
    span_id=words,
    seq=st.integers(0, 2**31 - 1),
    kind=st.sampled_from(KINDS),
    name=words,
    parent_id=maybe,
    agent=words,
    lane=words,
    start_ns=when,
    end_ns=when,
    status=st.sampled_from(["ok", "error", "unset"]),
    error=maybe,
    model=maybe,
    params=st.dictionaries(words, st.none() | st.booleans() | st.integers(-(2**70), 2**70) | words, max_size=3),
    continues=maybe,
    keep=st.integers(0, 1000),
    input=refs,
    output=refs,
    requested=refs,
    tool=maybe,
    arguments=maybe,
    result=maybe,
    result_hash=maybe,
    truncated=st.booleans(),
    input_tokens=count,
    output_tokens=count,
    reasoning_tokens=count,
    cost_usd=st.none() | st.floats(0, 1e9),
    stop_reason=maybe,
    attributes=maybe,
)


def span(**values: Any) -> Span:
    return Span(**values)


def read_back(data: Any, key: bytes | None = None) -> Any:
    return open_parquet(pa.BufferReader(data), key).read()


@settings(deadline=None, max_examples=60)
@given(st.lists(spans, min_size=1, max_size=5))
def test_spans_survive_the_round_trip(many: list[Span]) -> None:
    table = read_back(parquet_bytes(span_table(many, {})))
    assert [s for batch in table.to_batches() for s in spans_of(batch)] == many


def test_every_field_of_a_span_has_a_column() -> None:
    assert set(SPAN_COLUMNS) - {"step"} == set(Span.__struct_fields__)
    assert span_schema().names == list(SPAN_COLUMNS)


def test_steps_are_numbered_in_the_linear_reading() -> None:
    many = [
        span(trace_id="t", span_id="a", seq=0, kind="agent", name="run"),
        span(trace_id="t", span_id="b", seq=1, kind="model", name="chat", parent_id="a", start_ns=20),
        span(trace_id="t", span_id="c", seq=2, kind="tool", name="x", parent_id="a", start_ns=10),
    ]
    numbers = {s.span_id: i for i, s in enumerate(step_order(many))}
    assert [s.span_id for s in step_order(many)] == ["c", "b"]
    assert read_back(parquet_bytes(span_table(many, numbers))).column("step").to_pylist() == [None, 1, 0]


def test_texts_survive_and_long_ones_stand_in_small_groups() -> None:
    rows = [TextRow(f"b2:{n}", f"{n} " + "long " * 50_000, 7, None if n % 2 else "mark") for n in range(40)]  # type: ignore[arg-type]
    data = parquet_bytes(text_table(rows))
    table = read_back(data)
    assert table.schema.equals(text_schema())
    assert [TextRow(*values) for values in zip(*(c.to_pylist() for c in table.columns), strict=True)] == rows
    groups = open_parquet(pa.BufferReader(data)).metadata
    assert groups.num_row_groups >= 2
    assert max(groups.row_group(g).total_byte_size for g in range(groups.num_row_groups)) < 6 << 20
    short = parquet_bytes(text_table([TextRow(f"b2:{n}", "short", 5, None) for n in range(3000)]))  # type: ignore[arg-type]
    assert open_parquet(pa.BufferReader(short)).num_row_groups == 1


def test_a_sealed_segment_hides_its_words_and_opens_with_its_key_alone() -> None:
    row = TextRow("b2:1", "the quick brown fox", 19, None)  # type: ignore[arg-type]
    open_data, sealed = (bytes(parquet_bytes(text_table([row] * 50), key)) for key in (None, b"k" * 32))
    assert b"quick brown" in open_data
    assert b"quick brown" not in sealed
    assert b"body" not in sealed  # not even the names of the columns
    assert sealed.startswith(b"PARE")
    assert read_back(sealed, b"k" * 32).column("body")[0].as_py() == "the quick brown fox"
    for wrong in (None, b"x" * 32):
        with pytest.raises(Damaged, match="texts-1 cannot be read"), damage("texts-1"):
            read_back(sealed, wrong)


def test_segments_are_plain_parquet() -> None:
    data = parquet_bytes(span_table([span(trace_id="t", span_id="a", seq=0, kind="model", name="chat")], {"a": 0}))
    column = pq.ParquetFile(pa.BufferReader(data)).metadata.row_group(0).column(0)
    assert column.compression == "ZSTD"
    assert column.path_in_schema == "trace_id"
