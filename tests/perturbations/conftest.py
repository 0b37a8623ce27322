"""Files to damage, made here: tables, texts, data and PDFs in several hands."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import date

import pytest

CSV_PLAIN = (
    "id,name,price_usd,qty,weight kg\r\n"
    '1,"Smith, Jane",12.50,3,0.75\r\n2,Ann,7.25,14,1.5\r\n3,"Bob ""the"" Builder",1999.00,9,20\r\n'
    "4,Zoë,0.99,0,3.25\r\n5,Émile,15,21,4\r\n6,Kim,8.75,7,2.5\r\n"
)
CSV_SEMICOLON = '"Ort";"Umsatz";"Menge"\n"Köln";"1.200,50";12\n"Bonn";"88,25";7\n"Mainz";"12,00";31\n'
CSV_BARE = "1\t10.5\t7\n2\t11.5\t9\n3\t12.25\t4"
CSV_LINES = 'name,note,score\n"a","two\nlines, and a comma",10\n\n"b",plain,20\n"c","more ""quotes""\r\n",30\n'

PROSE = """ANNUAL NOTE

The café sold 1,250 cups in 2023 and 1,480 in 2024, a rise of 18.4 percent. The owner's "plan" – to add a terrace –
was approved on the 3rd of May.

STAFF

Seven people work here. Wages rose to 14.50 per hour; the manager earns 52000 a year.

OUTLOOK

Rent of 2100 is due every month. The lease ends in 2027.
"""
MARKDOWN = """# Field report

Measured on 12 sites with 3 instruments.

## Results

- mean depth 4.25 m, maximum 11.8 m
- temperature between 9 and 17 degrees

```python
depth = 4

print(depth)
```

## Method

Every site was visited twice; see [the protocol](protocol.md) for details.

Conclusion
----------

Nothing "unusual" was found in the naïve comparison.
"""
JSON = """{
  "shop": "Corner",
  "open": true,
  "rate": 0.075,
  "items": [
    {"sku": "A-1", "price": 12.5, "stock": 4, "tags": ["new", "red"]},
    {"sku": "B-2", "price": 3.0, "stock": 0, "tags": []},
    {"sku": "C-3", "price": -1.25e2, "stock": 17, "tags": null},
    {"sku": "D\\u00e9-4", "price": 99, "stock": 120, "tags": ["blue"]}
  ],
  "note": "line one\\nline \\"two\\" {braces}",
  "empty": {}, "none": null
}
"""
JSON_TIGHT = '[{"a":1,"b":"x"},{"a":2,"b":"y"},{"a":3,"b":"zß"}]'
YAML = """# a list of machines
machines:
  - name: alpha   # the first
    cores: 8
    load: 0.75
    tags: [fast, "old one", 'x']
  - name: beta
    cores: 16
    load: 1.5
    up: true
  # between
  - name: gamma
    cores: 4
    load: 0.1
    notes: |
      two lines
      of notes

# after the list
owner: "Ada: L"
limit: &max 100
used: *max
since: 2024-05-01
empty:
greeting: grüß dich
...
"""
YAML_DOCUMENTS = "---\n- 1\n- 2\n- 3.5\n---\nkey: value\nyes_or_no: no\n? odd\n: 7\n"


def make_xlsx() -> bytes:
    """A workbook with formats, formulas, dates, a title, merged cells, a total and a second sheet."""
    from openpyxl import Workbook
    from openpyxl.chart import BarChart, Reference
    from openpyxl.styles import Font, PatternFill

    book = Workbook()
    sheet = book.active
    sheet.title = "Sales & more"
    sheet["A1"] = "Quarterly sales"
    sheet.merge_cells("A1:F1")
    for column, label in enumerate(["item", "price_eur", "qty", "sold on", "total", "note"], 1):
        sheet.cell(3, column, label).font = Font(bold=True)
    rows = [("bolt {M8}", 0.25, 400), ("nut", 0.1, 800), ("gear <x>", 12.5, 14), ("belt", 33, 7), ("cog", 8.75, 21)]
    for i, (name, price, count) in enumerate(rows, 4):
        for column, value in enumerate(
            [name, price, count, date(2024, 3, i), f"=B{i}*C{i}", "ok" if i % 2 else None], 1
        ):
            sheet.cell(i, column, value)
        sheet.cell(i, 2).number_format = "0.00 €"
        sheet.cell(i, 3).fill = PatternFill("solid", fgColor="FFEE00")
    sheet["A9"], sheet["E9"] = "Total", "=SUM(E4:E8)"
    chart = BarChart()
    chart.add_data(Reference(sheet, min_col=2, min_row=3, max_row=8), titles_from_data=True)
    sheet.add_chart(chart, "H2")
    book.create_sheet("Other")["A1"] = "untouched"
    book["Other"]["B2"] = "='Sales & more'!E9"
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def make_pdf(objects: Sequence[bytes]) -> bytes:
    """A PDF by hand: objects from number 1 on, of which the first is the catalogue."""
    out = io.BytesIO()
    out.write(b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n")
    places = []
    for number, body in enumerate(objects, 1):
        places.append(out.tell())
        out.write(b"%d 0 obj\n%s\nendobj\n" % (number, body))
    table = out.tell()
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    out.write(b"".join(b"%010d 00000 n \n" % place for place in places))
    out.write(
        b"trailer\n<< /Size %d /Root 1 0 R /ID [<00112233445566778899aabb> <00112233445566778899aabb>] >>\n"
        b"startxref\n%d\n%%%%EOF\n" % (len(objects) + 1, table)
    )
    return out.getvalue()


def stream(data: bytes, extra: bytes = b"") -> bytes:
    return b"<< /Length %d %s >>\nstream\n%s\nendstream" % (len(data), extra, data)


def pages_pdf(contents: Sequence[bytes], fonts: bytes, more: Sequence[bytes] = (), forms: bytes = b"") -> bytes:
    """A PDF of pages that share their fonts and forms; `more` are objects from number 3 on."""
    first = 3 + len(more)
    kids = b" ".join(b"%d 0 R" % (first + 2 * i) for i in range(len(contents)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d /MediaBox [0 0 595 842] "
        b"/Resources << /Font << %s >> /XObject << %s >> >> >>" % (kids, len(contents), fonts, forms),
        *more,
    ]
    for i, content in enumerate(contents):
        objects.append(b"<< /Type /Page /Parent 2 0 R /Contents %d 0 R >>" % (first + 2 * i + 1))
        objects.append(stream(content))
    return make_pdf(objects)


HELVETICA = b"/F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"

REPORT = [
    b"BT /F1 20 Tf 72 770 Td (Annual report) Tj ET\n"
    b"BT /F1 11 Tf 14 TL 72 740 Td (Revenue was 1250 thousand in 2023.) Tj "
    b"T* (Costs were 980 thousand.) Tj ET\nBT /F1 16 Tf 72 690 Td (Staff) Tj ET\n"
    b"BT /F1 11 Tf 14 TL 72 665 Td [(W) 80 (e empl) -20 (oy 42 pe) 10 (ople) "
    b"-300 (on) -300 (3) 20 (7) -300 (sites.)] TJ "
    b"(Turnover fell to 12.5 percent.) ' ET",
    b"q 1 0 0 1 0 0 cm BT /F1 16 Tf 1 0 0 1 72 770 Tm (Outlook) Tj /F1 11 Tf 1 0 0 1 72 740 Tm "
    b"(We expect 1400 thousand and 45 people.) Tj ET Q\n0 0 m 10 10 l S",
    b"BT /F1 16 Tf 72 770 Td (Appendix) Tj /F1 11 Tf 14 TL 0 -30 Td (Table of 9 figures: caf\\351 \\(open\\)) Tj "
    b'1 0 (Source: ledger 77.) " ET',
]


def hex_pdf() -> bytes:
    """Two-byte codes with a table to Unicode, as a word processor writes them; the codes are no characters."""
    letters = sorted(set("Invoice 20417 of May: total 1536 euros, paid 980. Second page holds 3 items."))
    codes = {char: 0x0101 + 7 * i for i, char in enumerate(letters)}

    def shown(text: str) -> bytes:
        return b"<" + b"".join(b"%04X" % codes[c] for c in text) + b">"

    lines = b"\n".join(b"<%04X> <%04X>" % (code, ord(char)) for char, code in codes.items() if char not in "012")
    ranges = b"\n".join(b"<%04X> <%04X> [<%04X>]" % (codes[c], codes[c], ord(c)) for c in "012" if c in codes)
    table = (
        b"/CIDInit /ProcSet findresource begin\n12 dict begin\nbegincmap\n1 begincodespacerange\n<0000> <FFFF>\n"
        b"endcodespacerange\n%d beginbfchar\n%s\nendbfchar\n%d beginbfrange\n%s\nendbfrange\nendcmap\nend\nend"
        % (len(codes), lines, ranges.count(b"[") or 1, ranges)
    )
    more = [
        stream(table),
        b"<< /Type /Font /Subtype /Type0 /BaseFont /ABCDEF+Made /Encoding /Identity-H /DescendantFonts [5 0 R] "
        b"/ToUnicode 3 0 R >>",
        b"<< /Type /Font /Subtype /CIDFontType2 /BaseFont /ABCDEF+Made /CIDSystemInfo << /Registry (Adobe) "
        b"/Ordering (Identity) /Supplement 0 >> /DW 500 /FontDescriptor 6 0 R >>",
        b"<< /Type /FontDescriptor /FontName /ABCDEF+Made /Flags 4 /ItalicAngle 0 /Ascent 800 /Descent -200 "
        b"/CapHeight 700 /StemV 80 /FontBBox [0 0 1000 1000] >>",
    ]
    pages = [
        b"BT /F1 11 Tf 72 770 Td "
        + shown("Invoice 20417 of May")
        + b" Tj 0 -40 Td ["
        + shown("total 15")
        + b" -10 "
        + shown("36 euros, paid 980.")
        + b"] TJ ET",
        b"BT /F1 11 Tf 72 770 Td " + shown("Second page holds 3 items.") + b" Tj ET",
    ]
    return pages_pdf(pages, b"/F1 4 0 R", more)


def differences_pdf() -> bytes:
    """A simple font whose encoding is given by the names of its glyphs, on codes of their own; text in a form too."""
    names = b"/space /one /two /three /four /five /zero /T /o /t /a /l /s /u /m /X /eacute"
    text = {" ": 1, "1": 2, "2": 3, "3": 4, "4": 5, "5": 6, "0": 7, "T": 8, "o": 9, "t": 10, "a": 11, "l": 12, "s": 13,
            "u": 14, "m": 15, "X": 16, "é": 17}  # fmt: skip

    def shown(words: str) -> bytes:
        return b"(" + b"".join(b"\\%03o" % text[c] for c in words) + b")"

    form = stream(
        b"BT /F1 11 Tf 72 600 Td " + shown("Total 4512 sumsé") + b" Tj ET",
        b"/Type /XObject /Subtype /Form /BBox [0 0 595 842] /Resources << /Font << /F1 3 0 R >> >>",
    )
    more = [
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding << /Type /Encoding /Differences [1 %s] >> >>"
        % names,
        form,
    ]
    page = (
        b"BT /F1 12 Tf 72 770 Td " + shown("Total 150 salut") + b" Tj 0 -60 Td " + shown("sum 234") + b" Tj ET /Fm Do"
    )
    last = b"BT /F1 12 Tf 72 700 Td " + shown("last 51") + b" Tj ET"
    return pages_pdf([page, last], b"/F1 3 0 R", more, b"/Fm 4 0 R")


def scan_pdf(pages: int = 2) -> bytes:
    """Pages that only draw a picture."""
    return pages_pdf([b"q 100 0 0 100 0 0 cm BI /W 1 /H 1 /CS /G /BPC 8 ID \x80 EI Q"] * pages, HELVETICA)


def secret_pdf(password: str) -> bytes:
    import pikepdf

    out = io.BytesIO()
    with pikepdf.open(io.BytesIO(pages_pdf(REPORT, HELVETICA))) as pdf:
        pdf.save(out, encryption=pikepdf.Encryption(owner="owner", user=password))
    return out.getvalue()


@pytest.fixture(scope="session")
def samples() -> dict[str, tuple[str, bytes]]:
    """Every sample by name: its format and its bytes."""
    return {
        "csv": ("csv", CSV_PLAIN.encode()),
        "csv-bom": ("csv", b"\xef\xbb\xbf" + CSV_PLAIN.encode()),
        "csv-1252": ("csv", CSV_PLAIN.encode("cp1252")),
        "csv-utf16": ("csv", b"\xff\xfe" + CSV_PLAIN.encode("utf-16-le")),
        "csv-semicolon": ("csv", CSV_SEMICOLON.encode()),
        "csv-tabs": ("csv", CSV_BARE.encode()),
        "csv-lines": ("csv", CSV_LINES.encode()),
        "csv-mac": ("csv", CSV_PLAIN.replace("\r\n", "\r").encode()),
        "xlsx": ("xlsx", make_xlsx()),
        "txt": ("txt", PROSE.encode()),
        "txt-1252": ("txt", PROSE.encode("cp1252")),
        "txt-crlf": ("txt", b"\xef\xbb\xbf" + PROSE.replace("\n", "\r\n").encode()),
        "md": ("md", MARKDOWN.encode()),
        "json": ("json", JSON.encode()),
        "json-tight": ("json", b"\xef\xbb\xbf" + JSON_TIGHT.encode()),
        "yaml": ("yaml", YAML.encode()),
        "yaml-documents": ("yaml", YAML_DOCUMENTS.encode()),
        "pdf": ("pdf", pages_pdf(REPORT, HELVETICA)),
        "pdf-hex": ("pdf", hex_pdf()),
        "pdf-differences": ("pdf", differences_pdf()),
        "pdf-scan": ("pdf", scan_pdf()),
        "pdf-secret": ("pdf", secret_pdf("open sesame")),
    }
