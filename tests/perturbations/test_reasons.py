"""What cannot be changed says why beforehand: empty, damaged, protected, misnamed, or lacking what it takes."""

from __future__ import annotations

import io
import sys
import zipfile

import pytest

from ethogram.errors import MissingExtra
from ethogram.perturbations.catalogue import FILES, file_operator
from ethogram.perturbations.operator import NotApplicable, format_of

Samples = dict[str, tuple[str, bytes]]


def reason(operator: str, format: str, content: bytes) -> str:
    """The reason, which applying gives too."""
    found = file_operator(operator, format)
    why = found.applicable(content, format)
    assert why is not None
    with pytest.raises(NotApplicable) as raised:
        found.apply(content, format, 1)
    assert str(raised.value) == why
    assert "\n" not in why
    return why


@pytest.mark.parametrize("operator", FILES, ids=lambda o: f"{o.kind}-{o.name}")
def test_an_empty_file(operator) -> None:
    assert operator.formats
    for format in operator.formats:
        assert reason(operator.name, format, b"") == "the file is empty"


@pytest.mark.parametrize("operator", FILES, ids=lambda o: f"{o.kind}-{o.name}")
def test_a_file_of_another_kind(operator, samples: Samples) -> None:
    for format in operator.formats:
        other = "xlsx" if format == "pdf" else "pdf"
        said = reason(operator.name, format, samples[other][1])
        assert said == f"the file is named as {format.upper()} but its content is {other.upper()}"
        if format in ("pdf", "xlsx"):
            assert "cannot be read as" in reason(operator.name, format, b"just words")
        elif format in ("txt", "md", "csv"):
            assert reason(operator.name, format, b"a\x00b\x01" * 50) == "the file is binary, not text"


def test_a_format_that_an_operator_does_not_know() -> None:
    operator = file_operator("column_swap", "csv")
    assert operator.applicable(b"a,b\n1,2\n", "pdf") == "column_swap works on csv, xlsx, not on pdf"


@pytest.mark.parametrize(
    ("operator", "content", "why"),
    [
        ("unit_change", b"name,town\nann,ulm\nbob,bonn\n", "no column of the table holds numbers"),
        ("data_type_corrupt", b"name,town\nann,ulm\n", "no column of the table holds numbers"),
        ("unit_change", b"id,year\n1,2020\n2,2021\n", "no column of the table holds measured numbers (id, year:"),
        ("unit_change", b"id,x\n1,0\n2,0\n", "no column of the table holds measured numbers (id, x:"),
        ("column_swap", b"only\n1\n2\n", "the table has a single column"),
        ("column_swap", b"a,b\n1,1\n2,2\n", "no two columns of the table differ"),
        ("row_duplicate", b"a,b\n", "the table has a header but no rows"),
        ("row_duplicate", b"\n\n  \n", "the file has no rows"),
        ("null_content", b"a,b\n,\n,\n", "the cells of the table are empty already"),
        ("row_duplicate", b'a,b\n1,"never closed\n2,3\n', "a quoted field is never closed"),
        ("label_corrupt", b"1,2\n3,4\n", "the table has no header row"),
    ],
)
def test_csv(operator: str, content: bytes, why: str) -> None:
    assert why in reason(operator, "csv", content)


@pytest.mark.parametrize(
    ("operator", "content", "why"),
    [
        ("number_corruption", "no figures here", "the text has no numbers"),
        ("text_redaction", "a b c 12", "no word of four letters"),
        ("paragraph_shuffle", "one paragraph\nof two lines", "a single paragraph"),
        ("section_removal", "one paragraph", "a single section"),
        ("encoding_error", "word", "no character that another encoding would damage"),
        ("ocr_noise", "---", "no letter or digit"),
        ("null_content", "  \n\n", "no content but white space"),
    ],
)
def test_text(operator: str, content: str, why: str) -> None:
    for format in ("txt", "md"):
        assert why in reason(operator, format, content.encode())


@pytest.mark.parametrize(
    ("operator", "format", "content", "why"),
    [
        ("key_rename", "json", b'{"a": 1,}', "the file cannot be read as JSON"),
        ("key_rename", "json", b"[1, 2]", "the document has no keys"),
        ("value_corrupt", "json", b'{"a": null}', "no value that could be corrupted"),
        ("record_drop", "json", b'{"a": [1]}', "no list of two records"),
        ("null_content", "json", b'{"a": null, "b": []}', "the document has no values"),
        ("key_rename", "json", b"[" * 100_000, "nested too deeply"),
        ("key_rename", "yaml", b"a: [1, 2", "the file cannot be read as YAML"),
        ("key_rename", "yaml", b"just some words", "no mapping and no list"),
        ("record_drop", "yaml", b"a: 1\nb: 2\n", "no list of two records"),
        ("null_content", "yaml", b"a:\nb:\n", "the document has no values"),
    ],
)
def test_data(operator: str, format: str, content: bytes, why: str) -> None:
    assert why in reason(operator, format, content)


def test_pdf(samples: Samples) -> None:
    for name in ("number_corruption", "text_redaction", "section_removal", "null_content"):
        said = reason(name, "pdf", samples["pdf-scan"][1])
        assert said == "the PDF has no text on its 2 pages: it looks like a scan"
    for name in ("number_corruption", "page_removal", "null_content"):
        assert reason(name, "pdf", samples["pdf-secret"][1]) == "the PDF is password-protected"
        assert "cannot be read as PDF" in reason(name, "pdf", b"%PDF-1.7\nnothing more")
    assert file_operator("page_removal", "pdf").applicable(samples["pdf-scan"][1], "pdf") is None


def pdf_of(text: bytes, font: bytes, pages: int = 1) -> bytes:
    import pikepdf

    out = io.BytesIO()
    with pikepdf.new() as pdf:
        for _ in range(pages):
            page = pdf.add_blank_page()
            page.obj.Contents = pdf.make_stream(b"BT /F1 12 Tf 72 700 Td " + text + b" Tj ET")
            page.obj.Resources = pikepdf.Object.parse(b"<< /Font << /F1 " + font + b" >> >>")
        pdf.save(out, static_id=True)
    return out.getvalue()


@pytest.mark.parametrize(
    ("font", "text", "operator", "why"),
    [
        (b"<< /Type /Font /Subtype /Type1 /BaseFont /Symbol >>", b"(abc 12)", "number_corruption", "do not say which"),
        (
            b"<< /Type /Font /Subtype /Type0 /BaseFont /Made /Encoding /UniGB-UCS2-H >>",
            b"<00310032>",
            "text_redaction",
            "do not say which",
        ),
        (
            b"<< /Type /Font /Subtype /Type0 /BaseFont /M /Encoding /Identity-H >>",
            b"<0031>",
            "section_removal",
            "do not",
        ),
        (b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>", b"(no figure)", "number_corruption", "no numbers"),
        (b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>", b"(a b 1)", "text_redaction", "no word"),
        (b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>", b"(words)", "section_removal", "a single section"),
        (b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>", b"(words)", "page_removal", "a single page"),
        (
            b"<< /Type /Font /Subtype /Type1 /BaseFont /ABCDEF+Part /Encoding /WinAnsiEncoding >>",
            b"(just 1)",
            "number_corruption",
            "no other digits than those in use",
        ),
    ],
)
def test_fonts_that_cannot_be_written_with(font: bytes, text: bytes, operator: str, why: str) -> None:
    assert why in reason(operator, "pdf", pdf_of(text, font))


def test_text_in_an_unreadable_font_can_still_be_taken_away() -> None:
    content = pdf_of(b"(abc)", b"<< /Type /Font /Subtype /Type1 /BaseFont /Symbol >>", 2)
    change = file_operator("null_content", "pdf").apply(content, "pdf", 1)
    assert change.summary == "2 pages without text"


def test_xlsx(samples: Samples) -> None:
    import openpyxl

    def saved(book: openpyxl.Workbook) -> bytes:
        out = io.BytesIO()
        book.save(out)
        return out.getvalue()

    book = openpyxl.Workbook()
    assert reason("row_duplicate", "xlsx", saved(book)) == "no sheet of the workbook has content"
    book.active.append(["name", "town"])
    assert reason("row_duplicate", "xlsx", saved(book)) == "the table has a header but no rows"
    book.active.append(["ann", "ulm"])
    assert reason("unit_change", "xlsx", saved(book)) == "no column of the table holds numbers"
    content = samples["xlsx"][1]
    assert "cannot be read as XLSX" in reason("row_duplicate", "xlsx", content[: len(content) // 2])
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("xl/other.xml", "<a/>")
    assert "no workbook inside" in reason("row_duplicate", "xlsx", out.getvalue())
    old = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)
    assert "old or password-protected".upper() in reason("row_duplicate", "xlsx", old).upper()


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch, samples: Samples) -> None:
    monkeypatch.setitem(sys.modules, "pikepdf", None)
    with pytest.raises(MissingExtra, match=r"ethogram\[files\]"):
        file_operator("page_removal", "pdf").applicable(samples["pdf"][1], "pdf")


def test_formats_by_suffix() -> None:
    assert [format_of(n) for n in ("A.CSV", "x/y.yml", "t.tsv", "r.markdown", "m.xlsm")] == [
        "csv", "yaml", "csv", "md", "xlsx",
    ]  # fmt: skip
    assert [format_of(n) for n in ("noext", "a.b/c", ".csv.bak", "")] == [None] * 4
