"""Tables that fit the screen: no number is ever cropped, and no column disappears.

Where the columns do not fit beside each other, pictures go first, then headers are broken into words and gaps become
narrow; what still does not fit is continued below, with the first column repeated.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

LEAST = 10
"""Columns of words are folded to no less than this."""
PICTURE = frozenset("·━● ")


class TableColumn(NamedTuple):
    """A column: its header, its cells as markup, and whether its cells stay on one line."""

    header: str
    cells: list[str]
    right: bool
    whole: bool

    @property
    def natural(self) -> int:
        """The width that the column would like to have."""
        return max([_width(self.header), *map(_width, self.cells)])

    @property
    def least(self) -> int:
        """The width that it needs as it is."""
        return self.natural if self.whole else min(self.natural, max(LEAST, _longest_word(self.header)))

    @property
    def narrow(self) -> int:
        """The width that it needs with its header broken into words."""
        words = _longest_word(self.header)
        return max([words, *map(_width, self.cells)]) if self.whole else min(self.natural, max(LEAST, words))

    @property
    def is_picture(self) -> bool:
        """Whether it only draws what other columns say."""
        return (
            bool(self.cells)
            and all(set(c) <= PICTURE or c == "–" for c in self.cells)
            and any("━" in c for c in self.cells)
        )


class FittingTable:
    """A table that is laid out when the width of the screen is known."""

    def __init__(self, columns: Sequence[TableColumn], rows: int, title: str | None) -> None:
        self.columns, self.rows, self.title = list(columns), rows, title

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """The table, or the parts that it is cut into."""
        width = options.max_width
        columns = self.columns
        if not _fits([c.least for c in columns], 2, width):
            columns = [c for c in columns if not c.is_picture]
        if _fits([c.least for c in columns], 2, width):
            yield self._plain(columns)
            return
        gap = 2 if _fits([c.narrow for c in columns], 2, width) else 1
        parts = [columns] if _fits([c.narrow for c in columns], gap, width) else _parts(columns, width)
        for number, part in enumerate(parts):
            if number:
                yield Text()
            yield self._narrow(part, width, gap if len(parts) == 1 else 2, self.title if not number else None)

    def _plain(self, columns: list[TableColumn]) -> Table:
        built = _frame(self.title, 2)
        for column in columns:
            justify: JustifyMethod = "right" if column.right else "left"
            built.add_column(column.header, justify=justify, overflow="fold", no_wrap=column.whole)
        return self._filled(built, columns)

    def _narrow(self, columns: list[TableColumn], width: int, gap: int, title: str | None) -> Table:
        built = _frame(title, gap)
        room = width - sum(c.narrow for c in columns) - gap * (len(columns) - 1)
        for column in columns:
            more = 0 if column.whole else min(room, column.natural - column.narrow)
            room -= more
            header = "\n".join(textwrap.wrap(column.header, column.narrow + more)) if column.header else ""
            justify: JustifyMethod = "right" if column.right else "left"
            built.add_column(header, justify=justify, overflow="fold", width=column.narrow + more)
        return self._filled(built, columns)

    def _filled(self, built: Table, columns: list[TableColumn]) -> Table:
        for row in range(self.rows):
            built.add_row(*(c.cells[row] for c in columns))
        return built


def _frame(title: str | None, gap: int) -> Table:
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        padding=(0, 1) if gap == 2 else (0, 1, 0, 0),
        header_style="bold dim",
    )


def _parts(columns: list[TableColumn], width: int) -> list[list[TableColumn]]:
    """Columns in parts that fit, each beginning with the first column."""
    first, parts = columns[0], [[columns[0]]]
    for column in columns[1:]:
        if len(parts[-1]) > 1 and not _fits([c.narrow for c in (*parts[-1], column)], 2, width):
            parts.append([first])
        parts[-1].append(column)
    return parts


def _fits(widths: list[int], gap: int, width: int) -> bool:
    return sum(widths) + gap * (len(widths) - 1) <= width


def _width(markup: str) -> int:
    return max((Text.from_markup(line).cell_len for line in markup.split("\n")), default=0)


def _longest_word(header: str) -> int:
    return max(map(len, header.split()), default=0)
