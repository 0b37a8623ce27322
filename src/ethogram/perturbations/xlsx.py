"""XLSX in place: the largest sheet is a table, and only the cells that change are written anew.

A workbook is a zip of XML files. Loading and saving it through a library loses charts, cached results and whatever the
library does not know; here every byte outside the changed cells stays as it was.
"""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections.abc import Callable
from decimal import Decimal
from xml.sax.saxutils import escape, quoteattr

import msgspec

from .figures import WrittenNumber, figure
from .operator import NotApplicable
from .sheet import Column, Edit, SheetRow, columns_of
from .workbook import SheetXml, XmlCell, XmlRow, ZipMember, braced, column_letters, read_sheet, sheets_of, text_body

EPOCH = (1980, 1, 1, 0, 0, 0)
MOST_XML = 1 << 30


class Workbook(msgspec.Struct, frozen=True):
    """The parts of a workbook, in their order."""

    parts: list[ZipMember]

    def get(self, name: str) -> bytes | None:
        """The bytes of a part."""
        return next((part.data for part in self.parts if part.name == name), None)

    def replaced(self, name: str, data: bytes) -> bytes:
        """The file with one part replaced; dates and order stay, so the same parts give the same bytes."""
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for part in self.parts:
                info = zipfile.ZipInfo(part.name, part.date)
                info.compress_type = zipfile.ZIP_STORED if part.stored else zipfile.ZIP_DEFLATED
                info.external_attr = part.rights
                info.create_system = 0
                archive.writestr(info, data if part.name == name else part.data)
        return out.getvalue()


def open_workbook(content: bytes) -> Workbook:
    """The parts of a workbook, or the reason why there are none."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            infos = archive.infolist()
            if any(info.flag_bits & 1 for info in infos):
                raise NotApplicable("the workbook is password-protected")
            if sum(info.file_size for info in infos) > MOST_XML:
                raise NotApplicable("the workbook unpacks to more than 1 GB")
            parts = [
                ZipMember(
                    info.filename,
                    archive.read(info),
                    max(info.date_time, EPOCH),
                    info.external_attr,
                    info.compress_type == zipfile.ZIP_STORED,
                )
                for info in infos
            ]
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError) as error:
        raise NotApplicable(f"the file cannot be read as XLSX: {error}") from None
    return Workbook(parts)


class XlsxTable:
    """The largest sheet of a workbook as a table; a cell is the XML element as it stands in the file."""

    def __init__(self, content: bytes) -> None:
        """Raises `NotApplicable` where there is no table."""
        self._book = open_workbook(content)
        sheets = sheets_of(self._book.get)
        read = [read_sheet(sheet, self._book.get) for sheet in sheets]
        if not read:
            raise NotApplicable("the workbook has no sheet")
        self._xml: SheetXml = max(read, key=lambda sheet: sum(len(row.cells) for row in sheet.rows))
        self.place = f"sheet {self._xml.name!r}, " if len(read) > 1 else ""
        self._layout()

    def _layout(self) -> None:
        """Which row is the header and which rows are data; rows of merged cells are neither."""
        rows = [row for row in self._xml.rows if row.number not in self._xml.merged and self._filled(row)]
        if not rows:
            raise NotApplicable("no sheet of the workbook has content")
        width = max(len(self._filled(row)) for row in rows)
        head = next((i for i, row in enumerate(rows) if len(self._filled(row)) * 2 >= width), 0)
        self.header = all(cell.kind == "text" for cell in self._filled(rows[head]))
        self._head = rows[head] if self.header else None
        self._data = rows[head + 1 :] if self.header else rows[head:]
        if not self._data:
            raise NotApplicable("the table has a header but no rows")
        self.rows = len(self._data)
        self._first = min(min(row.cells) for row in [rows[head], *self._data] if row.cells)
        self._width = max(max(row.cells) for row in [rows[head], *self._data] if row.cells) - self._first + 1
        labels = [self.text(cell) for cell in self._cells(self._head)] if self._head is not None else None
        self.sample: list[SheetRow] = [self._cells(row) for row in self._data]
        self.columns: list[Column] = [
            msgspec.structs.replace(c, name=c.label or column_letters(c.index + self._first))
            for c in columns_of(self, labels, self.sample)
        ]

    @staticmethod
    def _filled(row: XmlRow) -> list[XmlCell]:
        return [cell for cell in row.cells.values() if cell.text.strip() or cell.kind == "formula"]

    def _cells(self, row: XmlRow) -> SheetRow:
        """The cells of a row, from the first column of the table to its last."""
        columns = range(self._first, self._first + self._width)
        return [row.cells.get(column) or self.blank() for column in columns]

    def text(self, cell: XmlCell) -> str:
        """What a cell shows, without its format; a formula shows its last result."""
        return cell.text

    def number(self, cell: XmlCell) -> WrittenNumber | None:
        """The number in a cell."""
        return figure(cell.text) if cell.kind == "number" else None

    def is_number(self, cell: XmlCell) -> bool:
        """Whether a cell holds a number; dates are something else."""
        return cell.kind == "number"

    def written(self, cell: XmlCell, text: str) -> XmlCell:
        """A cell with a text in the old format."""
        return msgspec.structs.replace(cell, text=text, kind="text", type="inlineStr", body=text_body(text), raw=b"")

    def with_number(self, cell: XmlCell, number: str) -> XmlCell:
        """A cell with another number in the old format, as exact as a spreadsheet keeps it."""
        value = Decimal(number)
        plain = format(round(value, max(15 - value.adjusted() - 1, 0)), "f")
        plain = plain.rstrip("0").rstrip(".") if "." in plain else plain
        return msgspec.structs.replace(cell, text=plain, type="", body=f"<{{p}}v>{plain}</{{p}}v>", raw=b"")

    def emptied(self, cell: XmlCell) -> XmlCell:
        """A cell without its content; a formula stays, without its last result."""
        if cell.absent or not cell.text:
            return cell
        body = braced(cell.formula) if cell.kind == "formula" else ""
        return msgspec.structs.replace(cell, text="", type="", body=body, raw=b"")

    def fixed(self, cell: XmlCell) -> bool:
        """Whether a cell holds a formula."""
        return cell.kind == "formula"

    def blank(self) -> XmlCell:
        """A new cell."""
        return XmlCell(absent=True)

    def row_name(self, row: int) -> str:
        """How the spreadsheet calls a row."""
        return f"row {self._data[row].number}"

    def count(self, test: Callable[[SheetRow], bool]) -> int:
        """How many rows pass a test."""
        return sum(test(list(row)) for row in self.sample)

    def rewrite(self, edit: Edit) -> bytes:
        """The file with an edit carried out; copies of rows come below the last row, so that no formula moves."""
        xml = self._xml
        edits: list[tuple[XmlRow, SheetRow, SheetRow]] = []
        if self._head is not None and edit.header is not None:
            cells = self._cells(self._head)
            edits.append((self._head, cells, edit.header(list(cells))))
        copies: list[bytes] = []
        last = max(row.number for row in xml.rows)
        for number, row in enumerate(self._data):
            cells = self.sample[number]
            if edit.row is not None:
                edits.append((row, cells, edit.row(number, list(cells))))
            if edit.copied is not None and edit.copied[number]:
                last += 1
                copies.append(self._copy(row, last))
        parts, at, right = [], 0, self._first + self._width - 1
        for row, before, after in sorted(edits, key=lambda found: found[0].start):
            if len(before) == len(after) and all(new is old for new, old in zip(after, before, strict=True)):
                continue
            right = max(right, self._first + len(after) - 1)
            parts += [xml.data[at : row.start], self._row(row, after)]
            at = row.end
        parts += [xml.data[at : xml.end], *copies, xml.data[xml.end :]]
        data = b"".join(parts)
        if copies or right >= self._first + self._width:
            data = _with_dimension(data, right, last)
        return self._book.replaced(xml.part, data)

    def _row(self, row: XmlRow, cells: SheetRow) -> bytes:
        """A row with cells of the table exchanged; what lies beside the table stays."""
        merged = {c: cell for c, cell in row.cells.items() if not self._first <= c < self._first + len(cells)}
        merged.update({self._first + i: cell for i, cell in enumerate(cells) if cell.body or not cell.absent})
        inside = b"".join(self._cell(merged[column], column, row.number) for column in sorted(merged))
        p = self._xml.prefix
        attributes = "".join(f" {k}={quoteattr(v)}" for k, v in row.attributes.items() if k != "spans")
        return f"<{p}row{attributes}>".encode() + inside + f"</{p}row>".encode()

    def _cell(self, cell: XmlCell, column: int, row: int) -> bytes:
        name = f"{column_letters(column)}{row}"
        if cell.raw and cell.name == name:
            return cell.raw
        p = self._xml.prefix
        style = f' s="{cell.style}"' if cell.style else ""
        kind = f' t="{cell.type}"' if cell.type else ""
        return f'<{p}c r="{name}"{style}{kind}>{cell.body.format(p=p)}</{p}c>'.encode()

    def _copy(self, row: XmlRow, number: int) -> bytes:
        """A row once more, with its own formulas; a formula shared with other rows becomes its last result."""
        cells = {}
        for column, cell in row.cells.items():
            if cell.kind == "formula":
                cell = self._copied_formula(cell, f"{column_letters(column)}{number}")
            cells[column] = msgspec.structs.replace(cell, raw=b"")
        p = self._xml.prefix
        kept = "".join(f" {k}={quoteattr(v)}" for k, v in row.attributes.items() if k not in ("r", "spans"))
        inside = b"".join(self._cell(cells[column], column, number) for column in sorted(cells))
        return f'<{p}row r="{number}"{kept}>'.encode() + inside + f"</{p}row>".encode()

    def _copied_formula(self, cell: XmlCell, name: str) -> XmlCell:
        value = f"<{{p}}v>{braced(escape(cell.text))}</{{p}}v>" if cell.text else ""
        if not cell.plain_formula:
            return msgspec.structs.replace(cell, body=value)
        own = re.search(r"\d+$", cell.name)
        if own is None or set(re.findall(r"\b\$?[A-Z]{1,3}\$?(\d+)\b", cell.plain_formula)) - {own[0]}:
            # it looks at other rows, as a total does: the copy is the same total
            formula = f"<{{p}}f>{braced(escape(cell.plain_formula))}</{{p}}f>"
            return msgspec.structs.replace(cell, body=formula + value)
        try:
            from openpyxl.formula.translate import Translator
        except ImportError:
            from ethogram.errors import MissingExtra

            raise MissingExtra.needed("files", "a copy of a row with formulas") from None
        moved = Translator(f"={cell.plain_formula}", origin=cell.name).translate_formula(name)[1:]
        return msgspec.structs.replace(cell, body=f"<{{p}}f>{braced(escape(moved))}</{{p}}f>{value}")


def _with_dimension(data: bytes, right: int, bottom: int) -> bytes:
    """The sheet with the area that it says it uses widened; some readers believe it."""

    def wider(found: re.Match[bytes]) -> bytes:
        start = found[2].partition(b":")[0]
        return found[1] + start + f":{column_letters(right)}{bottom}".encode() + found[3]

    return re.sub(rb'(<(?:\w+:)?dimension\s[^>]*?ref=")([A-Z]+\d+(?::[A-Z]+\d+)?)(")', wider, data, count=1)
