"""The XML inside a workbook: which sheets there are, and where in its bytes each row and cell of a sheet stands."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from typing import Any, Literal
from xml.parsers import expat
from xml.sax.saxutils import escape

import msgspec

from .operator import NotApplicable

CellKind = Literal["empty", "text", "number", "date", "formula", "other"]
DATE_FORMATS = frozenset([*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)])


class ZipMember(msgspec.Struct, frozen=True):
    """A file inside the zip."""

    name: str
    data: bytes
    date: tuple[int, int, int, int, int, int]
    rights: int
    stored: bool


class XmlCell(msgspec.Struct, frozen=True):
    """A cell: what it says, and its element; `body` is a template in which {p} is the name space prefix."""

    name: str = ""
    text: str = ""
    kind: CellKind = "empty"
    style: str = ""
    type: str = ""
    raw: bytes = b""
    body: str = ""
    formula: str = ""
    plain_formula: str = ""
    absent: bool = False


class XmlRow(msgspec.Struct):
    """A row: where it stands in the bytes, and its cells by column number, from 1."""

    number: int
    start: int
    attributes: dict[str, str]
    cells: dict[int, XmlCell]
    end: int = 0


class SheetXml(msgspec.Struct, frozen=True):
    """A sheet: its bytes, its rows, and where a further row would go."""

    name: str
    part: str
    data: bytes
    prefix: str
    rows: list[XmlRow]
    merged: frozenset[int]
    end: int


Get = Callable[[str], bytes | None]


def column_letters(number: int) -> str:
    """The name of a column: 1 is A, 28 is AB."""
    letters = ""
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def column_number(letters: str) -> int:
    """The number of a column: A is 1, AB is 28."""
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - 64
    return number


def _local(name: str) -> str:
    return name.rpartition(":")[2]


def _parse(data: bytes, what: str, start: Any = None, end: Any = None, chars: Any = None) -> None:
    parser = expat.ParserCreate()
    parser.buffer_text = False
    if start is not None:
        parser.StartElementHandler = lambda name, attributes: start(_local(name), attributes, parser.CurrentByteIndex)
    if end is not None:
        parser.EndElementHandler = lambda name: end(_local(name), parser.CurrentByteIndex)
    if chars is not None:
        parser.CharacterDataHandler = chars
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise NotApplicable(f"the file cannot be read as XLSX: {what} is damaged ({error})") from None


def sheets_of(get: Get) -> list[tuple[str, str]]:
    """The name and the part of every worksheet."""
    book = get("xl/workbook.xml")
    links = get("xl/_rels/workbook.xml.rels")
    if book is None or links is None:
        raise NotApplicable("the file cannot be read as XLSX: it has no workbook inside")
    targets: dict[str, str] = {}
    sheets: list[tuple[str, str]] = []

    def link(name: str, attributes: dict[str, str], _: int) -> None:
        if name == "Relationship" and attributes.get("Type", "").endswith("/worksheet"):
            target = attributes.get("Target", "")
            path = target.lstrip("/") if target.startswith("/") else posixpath.normpath(f"xl/{target}")
            targets[attributes.get("Id", "")] = path

    def sheet(name: str, attributes: dict[str, str], _: int) -> None:
        key = next((v for k, v in attributes.items() if k.endswith(":id")), "")
        if name == "sheet" and key in targets and get(targets[key]) is not None:
            sheets.append((attributes.get("name", ""), targets[key]))

    _parse(links, "the list of its parts", link)
    _parse(book, "the workbook", sheet)
    return sheets


def shared_texts(get: Get) -> list[str]:
    """The texts that cells share; phonetic readings are left out."""
    data = get("xl/sharedStrings.xml")
    texts: list[str] = []
    state = {"t": False, "aside": False}
    if data is None:
        return texts

    def start(name: str, _: dict[str, str], __: int) -> None:
        if name == "si":
            texts.append("")
        elif name in ("rPh", "t"):
            state["aside" if name == "rPh" else "t"] = True

    def end(name: str, _: int) -> None:
        if name in ("rPh", "t"):
            state["aside" if name == "rPh" else "t"] = False

    def chars(text: str) -> None:
        if state["t"] and not state["aside"]:
            texts[-1] += text

    _parse(data, "the list of texts", start, end, chars)
    return texts


def date_styles(get: Get) -> frozenset[str]:
    """The styles under which a number is a date or a time."""
    data = get("xl/styles.xml")
    custom: set[str] = set()
    found: list[str] = []
    state = {"inside": False, "count": 0}
    if data is None:
        return frozenset()

    def start(name: str, attributes: dict[str, str], _: int) -> None:
        if name == "numFmt":
            bare = re.sub(r'"[^"]*"|\[[^\]]*\]|\\.', "", attributes.get("formatCode", ""))
            if re.search(r"[ymdhs]", bare, re.I) and "General" not in bare:
                custom.add(attributes.get("numFmtId", ""))
        elif name == "cellXfs":
            state["inside"] = True
        elif name == "xf" and state["inside"]:
            key = attributes.get("numFmtId", "0")
            if key in custom or (key.isdigit() and int(key) in DATE_FORMATS):
                found.append(str(state["count"]))
            state["count"] += 1

    def end(name: str, _: int) -> None:
        if name == "cellXfs":
            state["inside"] = False

    _parse(data, "the list of styles", start, end)
    return frozenset(found)


def read_sheet(sheet: tuple[str, str], get: Get) -> SheetXml:
    """The rows and cells of a sheet, with their places in its bytes."""
    name, part = sheet
    data = get(part)
    assert data is not None
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise NotApplicable(f"sheet {name!r} is written in UTF-16, which is not supported")
    reader = _SheetReader(data, shared_texts(get), date_styles(get))
    _parse(data, f"sheet {name!r}", reader.start, reader.finish, reader.chars)
    return SheetXml(name, part, data, reader.prefix, reader.rows, frozenset(reader.merged), reader.end)


class _SheetReader:
    """Follows the parser and notes where rows and cells begin and end."""

    def __init__(self, data: bytes, texts: list[str], dates: frozenset[str]) -> None:
        self.rows: list[XmlRow] = []
        self.merged: set[int] = set()
        self.prefix = ""
        self.end = 0
        self._data, self._texts, self._dates = data, texts, dates
        self._column = 0
        self._cell: dict[str, str] | None = None
        self._start = self._formula_start = 0
        self._formula: dict[str, str] | None = None
        self._formula_raw = ""
        self._inside = ""
        self._value: list[str] = []
        self._formula_text: list[str] = []
        self._touched = False

    def start(self, name: str, attributes: dict[str, str], at: int) -> None:
        self._touched = True
        if name == "row":
            number = int(attributes.get("r") or (self.rows[-1].number + 1 if self.rows else 1))
            self.rows.append(XmlRow(number, at, attributes, {}))
            self._column = 0
        elif name == "c" and self.rows:
            letters = re.match(r"[A-Z]+", attributes.get("r", ""))
            self._column = column_number(letters[0]) if letters else self._column + 1
            self._cell, self._start, self._formula = attributes, at, None
            self._value, self._formula_text = [], []
        elif self._cell is not None and name in ("v", "t", "f"):
            self._inside = name
            if name == "f":
                self._formula, self._formula_start = attributes, at
        elif name == "sheetData":
            found = re.match(rb"<([\w.\-]+:)?sheetData", self._data[at : at + 60])
            self.prefix = found[1].decode() if found and found[1] else ""
        elif name == "mergeCell":
            rows = [int(n) for n in re.findall(r"\d+", attributes.get("ref", ""))]
            if len(rows) == 2 and rows[1] - rows[0] < 100_000:
                self.merged.update(range(rows[0], rows[1] + 1))
        self._touched = False

    def chars(self, text: str) -> None:
        self._touched = True
        if self._inside == "f":
            self._formula_text.append(text)
        elif self._inside:
            self._value.append(text)

    def finish(self, name: str, at: int) -> None:
        itself, self._touched = self._closed_itself(at), True
        if name == "sheetData":
            self.end = at
        if name not in ("row", "c", "f", "v", "t"):
            return
        end = at if itself else self._data.index(b">", at) + 1
        if name == "f":
            self._formula_raw = self._data[self._formula_start : end].decode()
        if name in ("f", "v", "t"):
            self._inside = ""
        elif name == "c" and self._cell is not None:
            self.rows[-1].cells[self._column] = self._made(end)
            self._cell = None
        elif name == "row":
            self.rows[-1].end = end

    def _closed_itself(self, at: int) -> bool:
        """Whether the element was `<c/>`: then the parser already stands behind it."""
        return not self._touched and self._data[at - 2 : at] == b"/>"

    def _made(self, end: int) -> XmlCell:
        assert self._cell is not None
        style, type_ = self._cell.get("s", ""), self._cell.get("t", "")
        value = "".join(self._value)
        text = value
        kind: CellKind = "empty"
        if type_ == "s":
            index = int(value) if value.strip().isdigit() else -1
            text = self._texts[index] if 0 <= index < len(self._texts) else ""
        if self._formula is not None:
            kind = "formula"
        elif value:
            kind = _KINDS.get(type_, "other")
            if kind == "number" and style in self._dates:
                kind = "date"
        return XmlCell(
            name=f"{column_letters(self._column)}{self.rows[-1].number}",
            text=text,
            kind=kind,
            style=style,
            type=type_,
            raw=self._data[self._start : end],
            body=_body(value, type_ == "inlineStr") if value else "",
            formula=self._formula_raw if kind == "formula" else "",
            plain_formula="".join(self._formula_text) if self._formula is not None and not self._formula else "",
        )


_KINDS: dict[str, CellKind] = {"": "number", "n": "number", "s": "text", "inlineStr": "text", "str": "text"}


def braced(text: str) -> str:
    """A text that survives being a template."""
    return text.replace("{", "{{").replace("}", "}}")


def _body(value: str, inline: bool) -> str:
    return text_body(value) if inline else f"<{{p}}v>{braced(escape(value))}</{{p}}v>"


def text_body(text: str) -> str:
    """The inside of a cell that holds its own text."""
    return f'<{{p}}is><{{p}}t xml:space="preserve">{braced(escape(text))}</{{p}}t></{{p}}is>'
