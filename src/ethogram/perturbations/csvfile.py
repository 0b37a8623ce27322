"""CSV in place: every field keeps its quotes, every line its ending; only the fields that are changed are written anew.

A file is read record by record, so that a very large table needs time in proportion and little memory beyond itself.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Iterator

from .encoding import charset_of
from .figures import WrittenNumber, figure, is_number
from .operator import NotApplicable
from .sheet import Column, Edit, SheetRow, columns_of

DELIMITERS = (b",", b";", b"\t", b"|")
SAMPLE_ROWS = 2000
_CLOSE = re.compile(rb'[^"]*(?:""[^"]*)*"(?!")')


class CsvTable:
    """A CSV file as a table; a cell is the field as it stands in the file, quotes and all."""

    place = ""

    def __init__(self, content: bytes) -> None:
        """Raises `NotApplicable` where there is no table."""
        self._charset, self._bom = charset_of(content)
        self._wide = self._charset.startswith("utf-16")
        body = content[len(self._bom) :] if self._bom else content
        if self._wide:
            # fields are found by single bytes; two-byte text makes a detour
            body = _recoded(body, self._charset, "utf-8")
        self._body = body
        self._eol = b"\n" if b"\n" in body else b"\r"
        self.use(_delimiter(self))
        self._comma = self.delimiter != b","
        self._profile()

    def use(self, delimiter: bytes) -> None:
        """Read the file under a delimiter."""
        quoted, d = rb'"[^"]*(?:""[^"]*)*"', re.escape(delimiter)
        self.delimiter = delimiter
        self._field = re.compile(rb"(" + quoted + rb"[^" + d + rb"]*|[^" + d + rb"]*)" + d)
        one = rb"(?:" + quoted + rb"|[^\"" + d + rb"\r\n][^" + d + rb"\r\n]*|)"
        self._closed = re.compile(one + rb"(?:" + d + one + rb")*[\r\n]*")

    def _profile(self) -> None:
        records = (record for record, _ in self.records() if record.strip())
        first = next(records, None)
        if first is None:
            raise NotApplicable("the file has no rows")
        cells = self.split(first)
        texts = [self.text(c) for c in cells]
        self.header = not any(figure(t, self._comma) for t in texts) and sum(map(bool, texts)) * 2 >= len(texts)
        sample = [] if self.header else [cells]
        rows = len(sample)
        for record in records:
            rows += 1
            if rows <= SAMPLE_ROWS:
                sample.append(self.split(record))
        if not rows:
            raise NotApplicable("the table has a header but no rows")
        self.rows = rows
        self.sample = sample
        self.columns: list[Column] = columns_of(self, texts if self.header else None, sample)

    def records(self) -> Iterator[tuple[bytes, bytes]]:
        """Every record without its line ending, and that ending; a quoted field may span lines."""
        held: list[bytes] = []
        inside = False
        for line in self._lines():
            # most lines with quotes are whole records, and one match sees it; the others are followed field by field
            if inside or (b'"' in line and self._closed.fullmatch(line) is None):
                inside = self._ends_open(line, inside)
                if inside:
                    held.append(line)
                    continue
            whole = b"".join([*held, line]) if held else line
            if held:
                held = []
            record = whole.rstrip(b"\r\n")
            yield record, whole[len(record) :]
        if held:
            raise NotApplicable("the file cannot be read as CSV: a quoted field is never closed")

    def _lines(self) -> Iterator[bytes]:
        if self._eol == b"\n":
            yield from io.BytesIO(self._body)
            return
        start = 0
        while start < len(self._body):
            end = self._body.find(b"\r", start) + 1 or len(self._body)
            yield self._body[start:end]
            start = end

    def _ends_open(self, line: bytes, inside: bool) -> bool:
        """Whether a line ends inside a quoted field."""
        at = 0
        if not inside and line.startswith(b'"'):
            inside, at = True, 1
        while True:
            if inside:
                closed = _CLOSE.match(line, at)
                if closed is None:
                    return True
                at, inside = closed.end(), False
            at = line.find(self.delimiter, at) + 1
            if not at:
                return False
            if line.startswith(b'"', at):
                inside, at = True, at + 1

    def split(self, record: bytes) -> SheetRow:
        """The fields of a record, as they stand."""
        if b'"' not in record:
            return record.split(self.delimiter)
        return self._field.findall(record + self.delimiter)

    def text(self, cell: bytes) -> str:
        """What a field says."""
        if len(cell) > 1 and cell.startswith(b'"') and cell.endswith(b'"'):
            cell = cell[1:-1].replace(b'""', b'"')
        return cell.decode("utf-8" if self._wide else self._charset)

    def number(self, cell: bytes) -> WrittenNumber | None:
        """The number in a field."""
        return figure(self.text(cell), self._comma)

    def is_number(self, cell: bytes) -> bool:
        """Whether a field holds a number."""
        return is_number(cell, "", False) or (any(48 <= b < 58 for b in cell) and self.number(cell) is not None)

    def written(self, cell: bytes, text: str) -> bytes:
        """A field with another text, quoted if the old one was or if it must be."""
        raw = text.encode("utf-8" if self._wide else self._charset, "replace")
        if cell.startswith(b'"') or any(b in raw for b in (b'"', b"\n", b"\r", self.delimiter)):
            return b'"' + raw.replace(b'"', b'""') + b'"'
        return raw

    def with_number(self, cell: bytes, number: str) -> bytes:
        """A field with another number."""
        return self.written(cell, number)

    def emptied(self, cell: bytes) -> bytes:
        """The field without its content."""
        return b'""' if cell.startswith(b'"') else b""

    def fixed(self, cell: bytes) -> bool:
        """A CSV file has no cells that must stay."""
        return False

    def blank(self) -> bytes:
        """A new field."""
        return b""

    def row_name(self, row: int) -> str:
        """How a row is called: counted from 1 below the header."""
        return f"row {row + 1}"

    def count(self, test: Callable[[SheetRow], bool]) -> int:
        """How many rows pass a test."""
        return sum(test(self.split(record)) for record in self._rows())

    def _rows(self) -> Iterator[bytes]:
        skip = self.header
        for record, _ in self.records():
            if record.strip():
                if not skip:
                    yield record
                skip = False

    def rewrite(self, edit: Edit) -> bytes:
        """The file with an edit carried out; a copy of a row follows the row."""
        out = io.BytesIO()
        write, delimiter = out.write, self.delimiter
        number, skip, at = 0, self.header, 0
        end = self._eol
        only_header = edit.row is None and edit.copied is None
        for record, ending in self.records():
            if only_header and not skip:
                write(memoryview(self._body)[at:])
                break
            at += len(record) + len(ending)
            end = ending or end
            if not record.strip():
                write(record + ending)
                continue
            if skip:
                skip = False
                new = record if edit.header is None else delimiter.join(edit.header(self.split(record)))
            else:
                new = record if edit.row is None else delimiter.join(edit.row(number, self.split(record)))
                if edit.copied is not None and edit.copied[number]:
                    write(record + end)
                number += 1
            write(new)
            write(ending)
        body = out.getvalue()
        return self._bom + (_recoded(body, "utf-8", self._charset) if self._wide else body) if self._bom else body


def _delimiter(table: CsvTable) -> bytes:
    """The delimiter under which the first records have the same number of fields, more than one."""
    best, found = (0.0, 1), b","
    for delimiter in DELIMITERS:
        table.use(delimiter)
        sizes: Counter[int] = Counter()
        try:
            for record, _ in table.records():
                if record.strip():
                    sizes[len(table.split(record))] += 1
                if sizes.total() >= 50:
                    break
        except NotApplicable:
            continue  # under this delimiter a quote stays open; another may do better, and _profile says if none does
        if not sizes:
            continue
        usual, count = max(sizes.items(), key=lambda item: (item[1], item[0]))
        score = (count / sizes.total(), usual)
        if usual > 1 and score > best:
            best, found = score, delimiter
    return found


def _recoded(body: bytes, source: str, target: str) -> bytes:
    try:
        return body.decode(source).encode(target)
    except UnicodeDecodeError as error:
        raise NotApplicable(f"the file is not valid {source}: {error.reason} at byte {error.start}") from None
