"""Tables on narrow screens: every number stands there as a whole, no column disappears, no line is too long."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from ethogram.cli.printing import table

COLUMNS = ["task", "attempts", "mean score", "out tok", "cost", "interval", ""]
ROWS = [
    ["a-task-with-a-rather-long-name-07", 6, 0.8333, 1234567, "$1.2345", "0.436–0.991", "····━━━━●━━━········"],
    ["short", 12, None, 7, "–", "0.000–1.000", "━━━━━━━━●━━━━━━━━━━━"],
]


def printed(columns, rows, width, title=None):
    out = Console(file=io.StringIO(), width=width, color_system=None)
    out.print(table(columns, rows, title=title))
    return out.file.getvalue()


@pytest.mark.parametrize("width", [30, 40, 60, 72, 80, 110, 160])
def test_no_number_is_cropped_and_no_column_is_lost(width):
    text = printed(COLUMNS, ROWS, width)
    for number in ("0.8333", "1,234,567", "$1.2345", "0.436–0.991", "0.000–1.000", "12"):
        assert number in text, (width, text)
    words = " ".join(text.split())
    for header in ("task", "attempts", "mean", "score", "tok", "cost", "interval"):
        assert header in words, (width, text)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text


def test_pictures_go_first():
    assert "●" in printed(COLUMNS, ROWS, 110)
    narrow = printed(COLUMNS, ROWS, 66)
    assert "●" not in narrow
    assert narrow.count("task") == 2, "header and name: nothing had to be continued below"


def test_what_does_not_fit_is_continued_below():
    text = printed(["run", *(f"figure {i}" for i in range(12))], [["night", *(1000000 + i for i in range(12))]], 50)
    assert text.count("night") == 3
    assert re.findall(r"1,000,0\d\d", text) == [f"1,000,{i:03d}" for i in range(12)]
    assert max(map(len, text.splitlines())) <= 50


def test_a_wide_screen_is_as_before():
    text = printed(["task", "n"], [["a", 1], ["b", 22]], 80, title="by task")
    assert text.splitlines() == ["by task ", "task   n", "a      1", "b     22"]


@given(
    st.lists(st.integers(0, 10**9), min_size=1, max_size=12),
    st.text(st.characters(categories=("Ll", "Lu", "Nd")), min_size=1, max_size=60),
    st.integers(40, 120),
)
def test_whatever_the_table(numbers, name, width):
    columns = ["task", *(f"figure number {i}" for i in range(len(numbers)))]
    text = printed(columns, [[name, *numbers]], width)
    for number in numbers:
        assert re.search(rf"(?<![\d,]){number:,}(?![\d,])", text), text
    assert max(map(len, text.splitlines())) <= width
