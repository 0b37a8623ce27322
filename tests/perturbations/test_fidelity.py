"""What an edit must not lose: cached results, prefixes, anchors, comments, bookmarks, kerning."""

from __future__ import annotations

import io
import re
import zipfile
from typing import Any

import pytest
import yaml

from ethogram.perturbations.catalogue import file_operator

Samples = dict[str, tuple[str, bytes]]
SHEET = "xl/worksheets/sheet1.xml"


def with_sheet(content: bytes, change: Any) -> bytes:
    """A workbook with the XML of its first sheet changed."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            data = old.read(info)
            new.writestr(info, change(data.decode()).encode() if info.filename == SHEET else data)
    return out.getvalue()


def sheet_xml(content: bytes) -> str:
    return zipfile.ZipFile(io.BytesIO(content)).read(SHEET).decode()


def values(content: bytes, data_only: bool = False) -> list[list[Any]]:
    import openpyxl

    sheet = openpyxl.load_workbook(io.BytesIO(content), data_only=data_only)["Sales & more"]
    return [list(row) for row in sheet.iter_rows(values_only=True)]


def cached(xml: str) -> str:
    """Formulas with their last results, as a spreadsheet saves them."""
    return re.sub(r"(<f>B(\d)\*C\d</f>)<v\s*/>|(<f>B(\d)\*C\d</f>)<v></v>", r"\1\3<v>\g<2>\g<4>0.5</v>", xml)


def test_results_of_formulas_are_kept(samples: Samples) -> None:
    content = with_sheet(samples["xlsx"][1], cached)
    assert values(content, data_only=True)[3][4] == 40.5
    change = file_operator("label_corrupt", "xlsx").apply(content, "xlsx", 2)
    assert values(change.content, data_only=True)[3][4] == 40.5
    copied = file_operator("row_duplicate", "xlsx").apply(content, "xlsx", 1, 0.05).content
    formulas, results = values(copied), values(copied, data_only=True)
    last = len(formulas)
    if formulas[-1][0] != "Total":
        assert formulas[-1][4] == f"=B{last}*C{last}"
        assert str(results[-1][4]).endswith("0.5")


def test_a_total_that_is_copied_is_the_same_total(samples: Samples) -> None:
    operator = file_operator("row_duplicate", "xlsx")
    changes = (operator.apply(samples["xlsx"][1], "xlsx", seed, 0.05).content for seed in range(60))
    totals = [rows[-1][4] for rows in map(values, changes) if rows[-1][0] == "Total"]
    assert totals
    assert set(totals) == {"=SUM(E4:E8)"}


def test_a_name_space_with_a_prefix(samples: Samples) -> None:
    def prefixed(xml: str) -> str:
        xml = re.sub(r"<(/?)([a-zA-Z])", r"<\1x:\2", xml.partition("?>")[2] if xml.startswith("<?") else xml)
        return xml.replace(' xmlns="', ' xmlns:x="', 1)

    content = with_sheet(samples["xlsx"][1], prefixed)
    assert values(content) == values(samples["xlsx"][1])
    for name in ("row_duplicate", "irrelevant_columns", "data_type_corrupt", "unit_change", "null_content"):
        plain = file_operator(name, "xlsx").apply(samples["xlsx"][1], "xlsx", 4)
        change = file_operator(name, "xlsx").apply(content, "xlsx", 4)
        assert values(change.content) == values(plain.content)
        assert "<row" not in sheet_xml(change.content)


def test_cells_that_do_not_say_where_they_are(samples: Samples) -> None:
    def bare(xml: str) -> str:
        head, _, rest = xml.partition("<sheetData>")
        return head + "<sheetData>" + re.sub(r' r="[A-Z]+\d+"', "", rest)

    content = with_sheet(samples["xlsx"][1], bare)
    change = file_operator("unit_change", "xlsx").apply(content, "xlsx", 4)
    assert change.places == file_operator("unit_change", "xlsx").apply(samples["xlsx"][1], "xlsx", 4).places


def test_the_used_area_grows_with_the_table(samples: Samples) -> None:
    change = file_operator("irrelevant_columns", "xlsx").apply(samples["xlsx"][1], "xlsx", 1)
    assert re.search(r'<dimension ref="A1:K9"', sheet_xml(change.content))
    change = file_operator("row_duplicate", "xlsx").apply(samples["xlsx"][1], "xlsx", 1)
    assert re.search(rf'<dimension ref="A1:F{9 + change.places}"', sheet_xml(change.content))


def test_a_swapped_cell_keeps_its_format(samples: Samples) -> None:
    import openpyxl

    for seed in range(30):
        change = file_operator("column_swap", "xlsx").apply(samples["xlsx"][1], "xlsx", seed)
        if "price_eur and qty" in change.summary:
            sheet = openpyxl.load_workbook(io.BytesIO(change.content))["Sales & more"]
            assert sheet["C4"].number_format == "0.00 €"
            assert sheet["B4"].fill.fgColor.rgb == "00FFEE00"
            return
    pytest.fail("no seed swaps price and quantity")


def test_comments_anchors_and_order_of_yaml_are_kept(samples: Samples) -> None:
    content = samples["yaml"][1]
    for name in ("key_rename", "value_corrupt", "record_drop", "null_content"):
        for seed in range(30):
            after = file_operator(name, "yaml").apply(content, "yaml", seed, 0.2).content.decode()
            assert "# a list of machines" in after
            assert "# after the list" in after
            assert "&max 100" in after
            assert "*max" in after


@pytest.mark.parametrize(
    "text",
    [
        "- a\n- b\n- c\n",
        "x:\n- a: 1\n  b: 2\n- a: 3\n  b: 4\ny: 5\n",
        "x:\n    -   a\n    -   b\n\n# end\n",
        "x: [a, b,\n  c]\n",
        "x:\n- - 1\n  - 2\n- - 3\n  - 4\n",
        "x:\n- |\n  text\n  more\n- second\n",
        "x:\n-\n  a: 1\n-\n  a: 2\n",
        "- 😀 smile\n- é\n- last",
    ],
)
def test_records_of_yaml_are_dropped_in_any_hand(text: str) -> None:
    before = yaml.safe_load(text)
    for seed in range(20):
        change = file_operator("record_drop", "yaml").apply(text.encode(), "yaml", seed)
        after = yaml.safe_load(change.content)
        old, new = (v["x"] if isinstance(v, dict) else v for v in (before, after))
        assert len(new) < len(old)
        assert [v for v in old if v in new] == new
        if isinstance(before, dict):
            assert {k: v for k, v in before.items() if k != "x"} == {k: v for k, v in after.items() if k != "x"}


def test_plain_scalars_of_yaml_stay_what_they_were() -> None:
    """A misspelt word must not turn into a boolean, a number or a comment."""
    text = "a: n\nb: nul\nc: 'on'\nd: tru\ne: x1\nf: 12:30\ng: a b\nh: 0o17\ni: 1e3\nj: .5\nk: -7\n"
    before = yaml.safe_load(text)
    for seed in range(200):
        change = file_operator("value_corrupt", "yaml").apply(text.encode(), "yaml", seed)
        after = yaml.safe_load(change.content)
        assert {k: type(v) for k, v in after.items()} == {k: type(v) for k, v in before.items()}
        renamed = file_operator("key_rename", "yaml").apply(text.encode(), "yaml", seed).content
        assert all(isinstance(k, str) for k in yaml.safe_load(renamed))


def test_bookmarks_to_a_page_that_is_gone_lead_nowhere(samples: Samples) -> None:
    import pikepdf
    import pypdf

    out = io.BytesIO()
    with pikepdf.open(io.BytesIO(samples["pdf"][1])) as pdf:
        with pdf.open_outline() as outline:
            outline.root.extend(pikepdf.OutlineItem(f"part {i + 1}", i) for i in range(3))
        pdf.save(out, static_id=True)
    change = file_operator("page_removal", "pdf").apply(out.getvalue(), "pdf", 1)
    gone = int(change.where[0].split()[1])
    with pikepdf.open(io.BytesIO(change.content)) as pdf, pdf.open_outline() as outline:
        led = [item.title for item in outline.root if item.destination is not None]
    assert led == [f"part {i}" for i in (1, 2, 3) if i != gone]
    shown = [page.extract_text() for page in pypdf.PdfReader(io.BytesIO(out.getvalue())).pages][gone - 1]
    words = shown.splitlines()[0].encode()
    with pikepdf.open(io.BytesIO(change.content)) as pdf:
        streams = [o.read_bytes() for o in pdf.objects if isinstance(o, pikepdf.Stream)]
    assert not any(words in data for data in streams), "the page is really gone"


def test_metadata_of_a_pdf_is_kept(samples: Samples) -> None:
    import pikepdf

    out = io.BytesIO()
    with pikepdf.open(io.BytesIO(samples["pdf"][1])) as pdf:
        pdf.docinfo["/Title"] = "A title"
        pdf.docinfo["/ModDate"] = "D:20200102030405Z"
        pdf.save(out, static_id=True)
    change = file_operator("number_corruption", "pdf").apply(out.getvalue(), "pdf", 1)
    with pikepdf.open(io.BytesIO(change.content)) as pdf:
        assert str(pdf.docinfo["/Title"]) == "A title"
        assert str(pdf.docinfo["/ModDate"]) == "D:20200102030405Z"


def test_kerning_and_drawing_stay(samples: Samples) -> None:
    import pikepdf

    def drawn(content: bytes) -> list[tuple[str, int]]:
        with pikepdf.open(io.BytesIO(content)) as pdf:
            return [
                (str(i.operator), len(i.operands[0]) if str(i.operator) == "TJ" else len(i.operands))
                for page in pdf.pages
                for i in pikepdf.parse_content_stream(page)
            ]

    before = drawn(samples["pdf"][1])
    for name in ("number_corruption", "text_redaction"):
        assert drawn(file_operator(name, "pdf").apply(samples["pdf"][1], "pdf", 3).content) == before


def test_unchanged_pages_are_extracted_as_before(samples: Samples) -> None:
    import pypdf

    before = [p.extract_text() for p in pypdf.PdfReader(io.BytesIO(samples["pdf"][1])).pages]
    change = file_operator("number_corruption", "pdf").apply(samples["pdf"][1], "pdf", 1, 0.05)
    after = [p.extract_text() for p in pypdf.PdfReader(io.BytesIO(change.content)).pages]
    touched = int(change.where[0].split()[1]) - 1
    assert [a == b for a, b in zip(before, after, strict=True)] == [i != touched for i in range(3)]
    assert after[touched] == before[touched].replace(change.before[0], change.after[0], 1)
