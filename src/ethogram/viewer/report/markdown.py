"""A report as Markdown for a pull request: the headline figures, every answer in words, and its tables; no charts."""

from __future__ import annotations

import re
from html import escape

from .static_html import SIGNS
from .views import MatrixRow, PagePlace, ReportView, Section, ShownReason, TableView

MOST_TASKS = 40
"""Tasks of the grid that are written out, those with failures first."""
MOST_ROWS = 30
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~$@])")
_SPACE = re.compile(r"\s+")


def report_markdown(view: ReportView) -> str:
    """The whole text. Foreign words are escaped: none becomes a link, a mention or markup."""
    cards = [[card.label, card.value, card.detail] for card in view.cards]
    lines = [f"# {markdown_text(view.run)}", "", f"{markdown_text(view.subtitle)} · {markdown_text(view.made)}"]
    if cards:
        lines += ["", *_grid(["", "", ""], cards)]
    for section in view.sections:
        lines += ["", f"## {markdown_text(section.title)}", *_body(section)]
    return "\n".join(lines) + "\n"


def markdown_text(words: str) -> str:
    """Foreign words on one line, as Markdown shows them."""
    return _SPECIAL.sub(r"\\\1", _on_one_line(words)).replace("://", ":&#8203;//")


def _on_one_line(words: str) -> str:
    return _SPACE.sub(" ", words).strip()


def _body(section: Section) -> list[str]:
    lines: list[str] = []
    if section.lead:
        lines += ["", f"**{markdown_text(section.lead)}**"]
    for number, reason in enumerate(section.reasons, 1):
        lines += ["", *_reason(number, reason)]
    for paragraph in section.paragraphs:
        lines += ["", markdown_text(paragraph)]
    if section.matrix:
        lines += ["", *_matrix(section.matrix)]
    for table in section.tables:
        lines += ["", *_table(table)]
    for command in section.commands:
        lines += ["", f"    {_on_one_line(command)}"]
    for note in section.notes:
        lines += ["", f"> {markdown_text(note)}"]
    return lines


def _reason(number: int, reason: ShownReason) -> list[str]:
    facts = ", ".join(markdown_text(fact) for fact in (reason.kind, *reason.facts))
    lines = [f"{number}. **{markdown_text(reason.what)}** ({facts})"]
    lines += [f"   - {markdown_text(e.place.text)}: {markdown_text(e.text)}" for e in reason.excerpts]
    lines.append(f"   - Try first: {markdown_text(reason.next)}.")
    if reason.settle:
        lines.append(f"   - Settle it: `{reason.settle.replace('`', '')}` {markdown_text(reason.price)}".rstrip())
    return lines


def _matrix(rows: list[MatrixRow]) -> list[str]:
    failed = sorted(rows, key=lambda row: all(cell.mark == "pass" for cell in row.cells))
    cells = [[row.task, "".join(SIGNS[cell.mark] for cell in row.cells), row.rate] for row in failed[:MOST_TASKS]]
    left = len(rows) - len(cells)
    more = ["", f"{left} more tasks"] if left else []
    return [*_grid(["task", "attempts", "passed"], cells), *more]


def _table(table: TableView) -> list[str]:
    rows = [[cell.text if isinstance(cell, PagePlace) else cell for cell in row] for row in table.rows[:MOST_ROWS]]
    left = len(table.rows) - len(rows)
    more = ["", f"{left} more rows"] if left else []
    grid = [*_grid(list(table.columns), rows), *more]
    if not table.folded:
        return [*([f"{markdown_text(table.caption)}:", ""] if table.caption else []), *grid]
    # the summary is HTML, where Markdown's own escapes mean nothing
    return [f"<details><summary>{escape(_on_one_line(table.caption))}</summary>", "", *grid, "", "</details>"]


def _grid(columns: list[str], rows: list[list[str]]) -> list[str]:
    head = "| " + " | ".join(markdown_text(c) for c in columns) + " |"
    return [
        head,
        "|" + " --- |" * len(columns),
        *("| " + " | ".join(markdown_text(c) for c in row) + " |" for row in rows),
    ]
