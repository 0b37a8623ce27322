"""A result in at most ten lines of text, for a console: its headline, its estimates, the first rows of its table."""

from __future__ import annotations

from .cells import Bar, text, words
from .contents import Contents, Listing
from .shorten import shortened

MOST_LINES = 10
_WIDE = 110


def plain_of(contents: Contents, name: str) -> str:
    """The lines: headline, facts, estimates, rows, a note, and how much more there is."""
    head = [f"{name}: {contents.headline}" if contents.headline else name]
    head += _packed([f"{k} {v}" for k, v in contents.facts])[:2]
    width = max((len(k) for k, _ in contents.estimates), default=0)
    body = [f"  {k:<{width}}  {bar.words or bar}" for k, bar in contents.estimates]
    body += _rows(contents.table) if contents.table else []
    notes = [f"  note: {note}" for note in contents.notes[:1]]
    total = len(contents.estimates) + (contents.table.total + 1 if contents.table else 0)
    room = MOST_LINES - len(head) - len(notes)
    if contents.details or total > room:
        body = body[: room - 1]
        body.append(_rest(contents, total - len(body)))
    return "\n".join(_cut(line) for line in [*head, *body, *notes])


def _rows(table: Listing) -> list[str]:
    """The first rows, in columns."""
    cells = [[_said(row.get(name)) for name in table.columns] for row in table.rows[:MOST_LINES]]
    cells.insert(0, [words(name) for name in table.columns])
    widths = [max(len(row[i]) for row in cells) for i in range(len(table.columns))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]
    return [f"  {line}".rstrip() for line in lines]


def _said(value: object) -> str:
    return str(value) if isinstance(value, Bar) else text(value)


def _packed(parts: list[str]) -> list[str]:
    """Facts side by side, as many to a line as fit."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(part) + 3 <= _WIDE:
            lines[-1] += f" · {part}"
        else:
            lines.append(f"  {part}")
    return lines


def _rest(contents: Contents, left: int) -> str:
    parts = [f"{d.title} ({d.total:,})" for d in contents.details]
    return f"  … {', '.join([*([f'{left:,} more'] if left else []), *parts])}"


def _cut(line: str) -> str:
    return shortened(line, _WIDE)
