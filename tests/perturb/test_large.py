"""Large and odd files: time in proportion, little memory beyond the file, and every byte that is not meant stays."""

from __future__ import annotations

import os
import resource
import time
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ethogram.perturb import file_operator, operators_for
from ethogram.perturb.csvfile import CsvTable
from ethogram.perturb.data import LOADERS as DATA
from ethogram.perturb.operator import splice
from ethogram.perturb.sheet import Edit

LONG = bool(os.environ.get("ETHOGRAM_LONG"))
MEGABYTES = 200 if LONG else 4


def large_csv(megabytes: float) -> bytes:
    rows = "".join(f'{i},"Name {i}, Jr",{i * 7 % 1000}.{i % 100:02d},{i % 90},text\n' for i in range(20_000))
    times = int(megabytes * 1e6 / len(rows)) + 1
    return b"id,name,price,qty,note\n" + rows.encode() * times


@pytest.mark.parametrize("name", [operator.name for operator in operators_for("csv")])
def test_a_large_table_needs_little_memory_beyond_itself(name: str) -> None:
    content = large_csv(MEGABYTES)
    operator = file_operator(name, "csv")
    if LONG:  # tracing memory makes everything ten times slower
        started = time.process_time()
        change = operator.apply(content, "csv", 1)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"\n{name}: {len(content) / 1e6:.0f} MB, {time.process_time() - started:.1f} s CPU, {peak:.0f} MB at most"
        )
        assert peak < 1500
    else:
        tracemalloc.start()
        change = operator.apply(content, "csv", 1)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # the new file and a growing buffer of it, the sample of rows, one number for each row
        assert peak < 3.5 * len(change.content) + 10e6
    assert change.places > 0
    assert len(change.where) <= 50


def test_time_grows_in_proportion() -> None:
    """Ten times the rows must not take much more than ten times as long; a quadratic way would take a hundred times."""

    def seconds(content: bytes) -> float:
        started = time.process_time()
        file_operator("data_type_corrupt", "csv").apply(content, "csv", 1)
        return time.process_time() - started

    small, large = large_csv(0.3), large_csv(3)
    assert seconds(large) < 40 * max(min(seconds(small) for _ in range(3)), 0.005)


def test_a_quote_that_is_never_closed_is_found_in_one_pass() -> None:
    content = b'a,b\n1,"open\n' + b"2,3\n" * 300_000
    started = time.process_time()
    assert file_operator("row_duplicate", "csv").applicable(content, "csv") is not None
    assert time.process_time() - started < 20


FIELD = st.text(st.sampled_from('ab1,;"\n\r\t é'), max_size=6)


@settings(max_examples=300)
@given(
    rows=st.lists(st.lists(FIELD, min_size=2, max_size=4), min_size=2, max_size=6),
    ending=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
)
def test_a_table_that_nobody_edits_is_written_as_it_was(rows: list[list[str]], ending: str, last: bool) -> None:
    import csv
    import io

    out = io.StringIO(newline="")
    csv.writer(out, lineterminator=ending).writerows(rows)
    content = out.getvalue().encode()
    content = content if last else content.removesuffix(ending.encode())
    try:
        table = CsvTable(content)
    except ValueError:
        raise
    except Exception as error:
        assert "no rows" in str(error) or "no content" in str(error) or "never closed" in str(error), error
        return
    assert table.rewrite(Edit(row=lambda number, row: row)) == content
    assert table.rewrite(Edit(header=lambda row: row)) == content


@settings(max_examples=200)
@given(
    value=st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=5),
        lambda below: st.lists(below, max_size=4) | st.dictionaries(st.text(max_size=4), below, max_size=4),
        max_leaves=12,
    ),
    indent=st.sampled_from([None, 2]),
)
def test_every_key_and_value_of_json_is_found_where_it_stands(value: object, indent: int | None) -> None:
    import json

    text = json.dumps(value, indent=indent, ensure_ascii=False)
    found = DATA["json"](text.encode())
    for leaf in found.leaves:
        assert json.loads(found.raw(leaf)) == leaf.value
    for key in found.keys:
        assert json.loads(found.raw(key)) == key.name

    def count(value: object) -> tuple[int, int]:
        if isinstance(value, dict):
            below = [count(v) for v in value.values()]
            return sum(a for a, _ in below), len(value) + sum(b for _, b in below)
        if isinstance(value, list):
            below = [count(v) for v in value]
            return sum(a for a, _ in below), sum(b for _, b in below)
        return 1, 0

    assert (len(found.leaves), len(found.keys)) == count(value)
    assert splice(found.source, [(leaf.start, leaf.end, found.raw(leaf)) for leaf in found.leaves]) == text
