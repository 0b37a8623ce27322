"""The changes of layers, as `compare`, `gate` and `why` print them."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from ethogram.measures.layer_changes import LayerComparison
from ethogram.questions.compare.layer_words import COLUMNS, change_lines, change_rows

from .printing import printable, table


def print_layers(out: Console, found: LayerComparison | None, *, brief: bool = False) -> None:
    """Where more than one layer is measured, a table and where to look; in brief only the latter."""
    if found is None:
        return
    rows, lines = change_rows(found), change_lines(found)
    if brief:
        rows, lines = [], lines[:1]
    if rows:
        out.print()
        out.print(table(COLUMNS, rows))
    for line in lines:
        out.print(Text(printable(line), style="" if line.startswith("layers") else "dim"))
