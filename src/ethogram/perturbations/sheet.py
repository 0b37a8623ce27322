"""What every table has, whatever its file: columns, rows of cells, and one way to write it anew with a change."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from .figures import WrittenNumber

SheetRow = list[Any]
"""Cells as the file has them; only their table can read or write them."""

_IDENTIFIER = re.compile(
    r"(?:^|[\W_])(?:id|ids|key|code|zip|postcode|phone|no|nr|year|date|index|row)(?:$|[\W_])", re.I
)


class Column(msgspec.Struct, frozen=True):
    """A column as a sample of rows shows it."""

    index: int
    label: str
    name: str
    filled: int
    numbers: int

    @property
    def numeric(self) -> bool:
        """Whether it mostly holds numbers."""
        return self.numbers > 0 and self.numbers * 2 >= self.filled

    @property
    def identifies(self) -> bool:
        """Whether its name says that its numbers measure nothing."""
        spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", self.label)
        return _IDENTIFIER.search(spaced) is not None


class Edit(msgspec.Struct, frozen=True):
    """A change to a table: what becomes of the header, of each row, and which rows are written twice."""

    header: Callable[[SheetRow], SheetRow] | None = None
    row: Callable[[int, SheetRow], SheetRow] | None = None
    copied: bytearray | None = None


class Table(Protocol):
    """A table in a file."""

    place: str
    header: bool
    rows: int
    columns: list[Column]
    sample: list[SheetRow]

    def text(self, cell: Any) -> str:
        """What a cell says."""
        ...

    def number(self, cell: Any) -> WrittenNumber | None:
        """The number in a cell."""
        ...

    def is_number(self, cell: Any) -> bool:
        """Whether a cell holds a number."""
        ...

    def written(self, cell: Any, text: str) -> Any:
        """A cell with another text."""
        ...

    def with_number(self, cell: Any, number: str) -> Any:
        """A cell with another number."""
        ...

    def emptied(self, cell: Any) -> Any:
        """A cell without its content."""
        ...

    def fixed(self, cell: Any) -> bool:
        """Whether a cell holds a formula, which stays where it is."""
        ...

    def blank(self) -> Any:
        """A new cell."""
        ...

    def row_name(self, row: int) -> str:
        """How people call a row."""
        ...

    def count(self, test: Callable[[SheetRow], bool]) -> int:
        """How many rows pass a test."""
        ...

    def rewrite(self, edit: Edit) -> bytes:
        """The file with an edit carried out."""
        ...


def columns_of(table: Table, labels: Sequence[str] | None, sample: Sequence[SheetRow]) -> list[Column]:
    """The columns of a table, from its labels and a sample of its rows."""
    width = max([len(labels or ()), *(len(row) for row in sample)])
    columns = []
    for index in range(width):
        cells = [row[index] for row in sample if index < len(row)]
        filled = [cell for cell in cells if table.text(cell).strip()]
        numbers = sum(not table.fixed(cell) and table.is_number(cell) for cell in filled)
        label = labels[index].strip() if labels is not None and index < len(labels) else ""
        columns.append(Column(index, label, label or f"{index + 1}", len(filled), numbers))
    return columns
