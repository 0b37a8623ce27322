"""Large and odd files: time in proportion, little memory beyond the file, and every byte that is not meant stays."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from ethogram.perturbations.catalogue import file_operator, operators_for
from ethogram.perturbations.csvfile import CsvTable
from ethogram.perturbations.data import LOADERS as DATA
from ethogram.perturbations.operator import NotApplicable, splice
from ethogram.perturbations.sheet import Edit

LONG = bool(os.environ.get("ETHOGRAM_LONG"))
MEGABYTES = 200 if LONG else 6
NAMES = [operator.name for operator in operators_for("csv")] if LONG else ["data_type_corrupt", "irrelevant_columns"]


def large_csv(megabytes: float) -> bytes:
    rows = "".join(f'{i},"Name {i}, Jr",{i * 7 % 1000}.{i % 100:02d},{i % 90},text\n' for i in range(5_000))
    times = int(megabytes * 1e6 / len(rows)) + 1
    return b"id,name,price,qty,note\n" + rows.encode() * times


MEASURE = """
import re, sys, time
from ethogram.perturbations.catalogue import file_operator
content = open(sys.argv[2], "rb").read()
small = content[:200_000].rpartition(b"\\n")[0]
file_operator(sys.argv[1], "csv").apply(small, "csv", 1)  # so that what is imported on use does not count
peak = lambda: 1024 * int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1])
before, started = peak(), time.process_time()
change = file_operator(sys.argv[1], "csv").apply(content, "csv", 1)
print(peak() - before, time.process_time() - started, len(change.content), change.places, len(change.where))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system does not tell a process's peak memory")
@pytest.mark.parametrize("name", NAMES)
def test_a_large_table_needs_little_memory_beyond_itself(name: str, tmp_path: Path) -> None:
    """Measured in a process of its own: the new file and the buffer it grows in, one number for each row, no more."""
    path = tmp_path / "large.csv"
    path.write_bytes(large_csv(MEGABYTES))
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, name, str(path)], capture_output=True, text=True, check=True, timeout=360
    )
    grown, seconds, size, places, listed = (float(word) for word in done.stdout.split())
    print(f"\n{name}: {MEGABYTES} MB in {seconds:.1f} s of CPU, {grown / 1e6:.0f} MB more than the file itself")
    assert grown < 2.5 * size + 10e6
    assert places > 0
    assert 0 < listed <= 50


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


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
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
    except NotApplicable as reason:
        # blank rows, or one that a bare carriage return cuts in two
        event(str(reason))
        return
    assert table.rewrite(Edit(row=lambda number, row: row)) == content
    assert table.rewrite(Edit(header=lambda row: row)) == content


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
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
