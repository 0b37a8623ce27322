"""Every operator on files: the same seed gives the same bytes, the file stays valid, one kind of thing changes.

What changed is judged by other programs than the ones that changed it: csv, openpyxl, json, yaml and pypdf.
"""

from __future__ import annotations

import csv
import functools
import io
import json
import os
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import yaml

from ethogram.errors import BadUsage
from ethogram.perturbations.catalogue import FILES, file_operator, operators_for
from ethogram.perturbations.operator import Change, NotApplicable

SEEDS = 200
SLOW_SEEDS = SEEDS if os.environ.get("ETHOGRAM_LONG") else 25
"""Workbooks and PDFs take milliseconds each, and longer to check; all seeds with ETHOGRAM_LONG=1."""

NAMES = {
    "csv": ["csv", "csv-bom", "csv-1252", "csv-utf16", "csv-semicolon", "csv-tabs", "csv-lines", "csv-mac"],
    "xlsx": ["xlsx"],
    "txt": ["txt", "txt-1252", "txt-crlf"],
    "md": ["md"],
    "json": ["json", "json-tight"],
    "yaml": ["yaml", "yaml-documents"],
    "pdf": ["pdf", "pdf-hex", "pdf-differences"],
}
CANNOT = {
    ("label_corrupt", "csv-tabs"): "the table has no header row",
}
CASES = [
    (operator.name, format, name)
    for operator in FILES
    for format in operator.formats
    for name in NAMES[format]
    if CANNOT.get((operator.name, name)) is None
]

Samples = dict[str, tuple[str, bytes]]
Grid = list[list[Any]]


@pytest.mark.parametrize(("operator", "format", "name"), CASES)
def test_same_seed_same_bytes_valid_file_one_kind_of_change(
    samples: Samples, operator: str, format: str, name: str
) -> None:
    content = samples[name][1]
    found = file_operator(operator, format)
    assert found.applicable(content, format) is None
    read = READERS[format]
    before = read(content, name)
    kinds = set()
    for seed in range(SLOW_SEEDS if format in ("xlsx", "pdf") else SEEDS):
        intensity = (1.0, 0.5, 0.1)[seed % 3]
        change = found.apply(content, format, seed, intensity)
        assert change.content == found.apply(content, format, seed, intensity).content
        assert change.content != content
        assert_reported(change, intensity)
        CHECKS[found.kind, operator](before, read(change.content, name))
        UNTOUCHED.get(format, lambda *_: None)(content, change.content, operator)
        kinds.add(change.content)
    if operator != "null_content" and (operator != "page_shuffle" or len(before) > 2):
        assert len(kinds) > 1, "the seed makes no difference"


def assert_reported(change: Change, intensity: float) -> None:
    assert change.summary
    assert change.intensity == intensity
    assert 0 < len(change.where) == len(change.before) == len(change.after) <= 50
    assert change.places >= len(change.where)
    assert all(change.where)
    assert any(b != a for b, a in zip(change.before, change.after, strict=True))


def test_the_cases_are_all_there() -> None:
    assert {(o.kind, o.name) for o in FILES} == set(CHECKS)
    assert {f for o in FILES for f in o.formats} == set(NAMES)


# readers


def read_csv(content: bytes, name: str) -> Grid:
    charset = {"csv-1252": "cp1252", "csv-utf16": "utf-16", "csv-bom": "utf-8-sig"}.get(name, "utf-8")
    delimiter = {"csv-semicolon": ";", "csv-tabs": "\t"}.get(name, ",")
    if name == "csv-bom":
        assert content.startswith(b"\xef\xbb\xbf")
    if name == "csv-utf16":
        assert content.startswith(b"\xff\xfe")
    text = content.decode(charset)
    header = name != "csv-tabs"
    rows = [row for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if row]
    return rows if header else [[], *rows]


def read_xlsx(content: bytes, name: str) -> Grid:
    """The table of the large sheet, header first; formulas as they are written."""
    import openpyxl

    sheet = openpyxl.load_workbook(io.BytesIO(content))["Sales & more"]
    return [["" if v is None else v for v in row] for row in sheet.iter_rows(min_row=3, values_only=True)]


def read_text(content: bytes, name: str) -> str:
    return content.decode({"txt-1252": "cp1252", "txt-crlf": "utf-8-sig"}.get(name, "utf-8"))


def read_json(content: bytes, name: str) -> Any:
    return json.loads(content.decode("utf-8-sig"))


def read_yaml(content: bytes, name: str) -> Any:
    return list(yaml.safe_load_all(content))


def read_pdf(content: bytes, name: str) -> list[str]:
    import pikepdf
    import pypdf

    with pikepdf.open(io.BytesIO(content)) as pdf:
        assert pdf.check_pdf_syntax() == []
    return [page.extract_text() for page in pypdf.PdfReader(io.BytesIO(content), strict=True).pages]


READERS: dict[str, Callable[[bytes, str], Any]] = {
    "csv": read_csv,
    "xlsx": read_xlsx,
    "txt": read_text,
    "md": read_text,
    "json": read_json,
    "yaml": read_yaml,
    "pdf": read_pdf,
}


# what must stay as it was, byte for byte


def csv_untouched(before: bytes, after: bytes, operator: str) -> None:
    """Line endings stay, and lines of rows that are not changed stay as they are."""
    if operator != "row_duplicate" and b"two\nlines" not in before:
        for ending in (b"\r\n", b"\n", b"\r"):
            assert before.count(ending) == after.count(ending)
    if operator in ("label_corrupt", "row_duplicate"):
        start = 0 if operator == "row_duplicate" else 1
        assert set(before.splitlines()[start:]) == set(after.splitlines()[start:]) or before[:2] == b"\xff\xfe"


@functools.cache
def load_sheet(content: bytes) -> Any:
    import openpyxl

    return openpyxl.load_workbook(io.BytesIO(content))["Sales & more"]


def xlsx_untouched(before: bytes, after: bytes, operator: str) -> None:
    """All parts but one sheet are the same bytes; formats and formulas stay in their places."""
    import openpyxl

    old, new = zipfile.ZipFile(io.BytesIO(before)), zipfile.ZipFile(io.BytesIO(after))
    assert old.namelist() == new.namelist()
    assert [n for n in old.namelist() if old.read(n) != new.read(n)] == ["xl/worksheets/sheet1.xml"]
    assert [i.date_time for i in old.infolist()] == [i.date_time for i in new.infolist()]
    a, b = load_sheet(before), openpyxl.load_workbook(io.BytesIO(after))["Sales & more"]
    assert a.merged_cells == b.merged_cells
    for row in a.iter_rows():
        for cell in row:
            other = b[cell.coordinate]
            if operator != "column_swap":
                assert cell.style_id == other.style_id
                assert cell.number_format == other.number_format
            if cell.data_type == "f":
                assert cell.value == other.value


UNTOUCHED: dict[str, Callable[[bytes, bytes, str], None]] = {"csv": csv_untouched, "xlsx": xlsx_untouched}


# tables


def differing(before: Grid, after: Grid) -> list[tuple[int, int]]:
    assert [len(row) for row in before] == [len(row) for row in after]
    return [(i, j) for i, row in enumerate(before) for j, cell in enumerate(row) if after[i][j] != cell]


def as_number(cell: Any) -> float | None:
    if isinstance(cell, int | float):
        return float(cell)
    text = str(cell)
    if re.fullmatch(r"-?\d+(\.\d{3})*,\d+", text):
        text = text.replace(".", "").replace(",", ".")
    try:
        return float(text)
    except ValueError:
        return None


def check_column_swap(before: Grid, after: Grid) -> None:
    cells = differing(before, after)
    assert after[0] == before[0]
    assert len({j for _, j in cells}) == 2
    a, b = sorted({j for _, j in cells})
    for i in {i for i, _ in cells}:
        assert (after[i][a], after[i][b]) == (before[i][b], before[i][a])


def check_label_corrupt(before: Grid, after: Grid) -> None:
    cells = differing(before, after)
    assert {i for i, _ in cells} == {0}
    assert len(set(after[0])) == len(after[0])


def check_data_type_corrupt(before: Grid, after: Grid) -> None:
    cells = differing(before, after)
    assert len({j for _, j in cells}) == 1
    for i, j in cells:
        assert i > 0
        assert as_number(before[i][j]) is not None
        assert as_number(after[i][j]) is None
        assert isinstance(after[i][j], str)


def check_row_duplicate(before: Grid, after: Grid) -> None:
    assert after[0] == before[0]
    plain = [[str(c) for c in row if not str(c).startswith("=")] for row in after]
    added = Counter(map(tuple, plain))
    added.subtract(tuple(str(c) for c in row if not str(c).startswith("=")) for row in before)
    assert added.total() == len(after) - len(before) > 0
    assert min(added.values()) >= 0


def check_irrelevant_columns(before: Grid, after: Grid) -> None:
    width = max(len(row) for row in before)
    assert len(before) == len(after)
    assert len({len(row) for row in after if row}) == 1
    for old, new in zip(before, after, strict=True):
        assert new[: len(old)] == old
        assert len(new) > width or not old


def check_unit_change(before: Grid, after: Grid) -> None:
    cells = differing(before, after)
    assert len({j for _, j in cells}) == 1
    pairs = [(as_number(before[i][j]), as_number(after[i][j])) for i, j in cells]
    ratios = [new / old for old, new in pairs if old and new is not None]
    assert len(ratios) == len(pairs)
    assert all(i > 0 for i, _ in cells)
    # conversions are rounded to the hundredth, so that small numbers differ by their rounding
    assert all(abs(r - ratios[0]) <= 0.05 * abs(ratios[0]) for r in ratios)


def check_null_table(before: Grid, after: Grid) -> None:
    cells = differing(before, after)
    for i, j in cells:
        assert i > 0
        assert after[i][j] in ("", None)
    for i in {i for i, _ in cells}:
        assert all(str(c) == "" or str(c).startswith("=") for c in after[i])


# texts


def check_ocr_noise(before: str, after: str) -> None:
    assert [len(line.split()) for line in after.splitlines()] == [len(line.split()) for line in before.splitlines()]
    for old, new in zip(before.split(), after.split(), strict=True):
        assert len(old) <= len(new) <= 2 * len(old)


def masked(text: str) -> str:
    return re.sub(r"\d", "#", text)


def check_number_corruption(before: str, after: str) -> None:
    assert masked(before) == masked(after)
    for old, new in zip(re.findall(r"\d+", before), re.findall(r"\d+", after), strict=True):
        assert sum(a != b for a, b in zip(old, new, strict=True)) <= 1


def check_text_redaction(before: str, after: str) -> None:
    assert len(before) == len(after)
    assert {b for a, b in zip(before, after, strict=True) if a != b} <= {"█", "X"}


def blocks(text: str) -> list[str]:
    return [b.strip() for b in re.split(r"\n\s*\n", text.replace("\r\n", "\n")) if b.strip()]


def check_paragraph_shuffle(before: str, after: str) -> None:
    assert sorted(blocks(before)) == sorted(blocks(after))
    assert blocks(before) != blocks(after)


def check_encoding_error(before: str, after: str) -> None:
    def plain(text: str) -> str:
        return re.sub(r"[^A-Za-z0-9\n.,;:#()\[\]`]", "", text)

    assert plain(before) == plain(after)
    assert len(after) > len(before)


def is_subsequence(part: Sequence[Any], whole: Sequence[Any]) -> bool:
    rest = iter(whole)
    return all(any(item == other for other in rest) for item in part)


def check_fewer_lines(before: str, after: str) -> None:
    old, new = ([line for line in t.splitlines() if line.strip()] for t in (before, after))
    assert is_subsequence(new, old)
    assert len(new) < len(old)


def check_section_removal(before: str, after: str) -> None:
    check_fewer_lines(before, after)
    assert after.strip()


# data


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict):
        for key, below in value.items():
            yield from leaves(below, (*path, key))
    elif isinstance(value, list):
        for i, below in enumerate(value):
            yield from leaves(below, (*path, i))
    else:
        yield path, value


def keys(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(k for below in value.values() for k in keys(below))]
    return [k for below in value for k in keys(below)] if isinstance(value, list) else []


def check_key_rename(before: Any, after: Any) -> None:
    assert [v for _, v in leaves(before)] == [v for _, v in leaves(after)]
    old, new = keys(before), keys(after)
    assert len(old) == len(new)
    renamed = {(a, b) for a, b in zip(old, new, strict=True) if a != b}
    assert renamed
    assert len({a for a, _ in renamed}) == len(renamed), "a key is renamed the same way everywhere"
    assert all(isinstance(b, str) and b not in old for _, b in renamed)


def check_value_corrupt(before: Any, after: Any) -> None:
    old, new = list(leaves(before)), list(leaves(after))
    assert [p for p, _ in old] == [p for p, _ in new]
    assert [type(v) for _, v in old] == [type(v) for _, v in new]
    assert old != new


def check_record_drop(before: Any, after: Any) -> None:
    def shorter(a: Any, b: Any) -> int:
        if isinstance(a, dict):
            assert a.keys() == b.keys()
            return sum(shorter(a[k], b[k]) for k in a)
        if isinstance(a, list) and len(a) != len(b):
            assert 0 < len(b) < len(a)
            assert is_subsequence(b, a)
            return 1
        if isinstance(a, list):
            return sum(shorter(x, y) for x, y in zip(a, b, strict=True))
        assert a == b
        return 0

    assert shorter(before, after) == 1


def check_null_data(before: Any, after: Any) -> None:
    old, new = dict(leaves(before)), dict(leaves(after))
    assert old.keys() == new.keys()
    assert {new[p] for p in old if str(new[p]) != str(old[p])} == {None}


# PDF


def pages_alike(check: Callable[[str, str], None]) -> Callable[[list[str], list[str]], None]:
    def compare(before: list[str], after: list[str]) -> None:
        assert len(before) == len(after)
        for old, new in zip(before, after, strict=True):
            if old != new:
                check(old, new)
        assert before != after

    return compare


def check_pdf_redaction(before: str, after: str) -> None:
    kept = [word for word in after.split() if not re.fullmatch(r"\W*X+\W*", word)]
    assert is_subsequence([w for w in kept if len(w.strip(".,:;")) > 3], before.split())
    assert re.findall(r"\d", before) == re.findall(r"\d", after)


def check_pdf_sections(before: list[str], after: list[str]) -> None:
    assert len(before) == len(after)
    old, new = (
        [line.strip() for page in pages for line in page.splitlines() if line.strip()] for pages in (before, after)
    )
    assert is_subsequence(new, old)
    assert 0 < len(new) < len(old)


def check_page_removal(before: list[str], after: list[str]) -> None:
    assert is_subsequence(after, before)
    assert 0 < len(after) < len(before)


def check_page_shuffle(before: list[str], after: list[str]) -> None:
    assert sorted(before) == sorted(after)
    assert before != after


def check_pdf_null(before: str, after: str) -> None:
    assert before
    assert after == ""


CHECKS: dict[tuple[str, str], Callable[[Any, Any], None]] = {
    ("table", "column_swap"): check_column_swap,
    ("table", "label_corrupt"): check_label_corrupt,
    ("table", "data_type_corrupt"): check_data_type_corrupt,
    ("table", "row_duplicate"): check_row_duplicate,
    ("table", "irrelevant_columns"): check_irrelevant_columns,
    ("table", "unit_change"): check_unit_change,
    ("table", "null_content"): check_null_table,
    ("text", "ocr_noise"): check_ocr_noise,
    ("text", "number_corruption"): check_number_corruption,
    ("text", "text_redaction"): check_text_redaction,
    ("text", "paragraph_shuffle"): check_paragraph_shuffle,
    ("text", "encoding_error"): check_encoding_error,
    ("text", "section_removal"): check_section_removal,
    ("text", "null_content"): check_fewer_lines,
    ("pdf", "number_corruption"): pages_alike(check_number_corruption),
    ("pdf", "text_redaction"): pages_alike(check_pdf_redaction),
    ("pdf", "section_removal"): check_pdf_sections,
    ("pdf", "page_removal"): check_page_removal,
    ("pdf", "page_shuffle"): check_page_shuffle,
    ("pdf", "null_content"): pages_alike(check_pdf_null),
    ("data", "key_rename"): check_key_rename,
    ("data", "value_corrupt"): check_value_corrupt,
    ("data", "record_drop"): check_record_drop,
    ("data", "null_content"): check_null_data,
}


# intensity


@pytest.mark.parametrize("format", NAMES)
def test_a_larger_intensity_changes_the_same_places_and_more(samples: Samples, format: str) -> None:
    content = samples[format][1]
    # more pages in play are dealt anew: places grow, but a page may fall back on its own place
    growing = [o for o in operators_for(format) if o.name not in ("paragraph_shuffle", "page_shuffle")]
    assert growing
    for operator in growing:
        for seed in range(5):
            small, medium, full = (operator.apply(content, format, seed, i) for i in (0.05, 0.4, 1.0))
            assert set(small.where) <= set(medium.where) <= set(full.where), operator
            assert small.places <= medium.places <= full.places


def test_full_null_content_leaves_nothing(samples: Samples) -> None:
    def nulled(name: str) -> Any:
        format, content = samples[name]
        return READERS[format](file_operator("null_content", format).apply(content, format, 1).content, name)

    assert nulled("txt") == ""
    assert nulled("md") == ""
    assert nulled("txt-crlf") == ""
    assert set(nulled("pdf")) == {""}
    assert all(cell == "" for row in nulled("csv")[1:] for cell in row)
    assert all(value is None for _, value in leaves(nulled("json")) if value != [])


@pytest.mark.parametrize("intensity", [0.0, -1.0, 1.5, float("nan")])
def test_an_intensity_that_makes_no_sense_is_refused(samples: Samples, intensity: float) -> None:
    with pytest.raises(BadUsage, match="above 0 and up to 1"):
        file_operator("row_duplicate", "csv").apply(samples["csv"][1], "csv", 1, intensity)


def test_what_cannot_be_changed_is_refused_with_the_same_reason(samples: Samples) -> None:
    operator = file_operator("label_corrupt", "csv")
    content = samples["csv-tabs"][1]
    reason = operator.applicable(content, "csv")
    assert reason == "the table has no header row"
    with pytest.raises(NotApplicable, match=reason):
        operator.apply(content, "csv", 1)
