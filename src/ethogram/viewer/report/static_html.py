"""A report as plain HTML: what readers without scripts see, and what a page shows before its script has begun.

The names of classes are those of `web/src/pages/report.tsx`, so that one style sheet serves both.
"""

from __future__ import annotations

from html import escape

from .views import Card, Cell, MatrixRow, PagePlace, Picture, ReportView, Section, ShownReason, TableView

MOST_LARGE = 9
"""Up to this number of characters a headline figure is set large."""
LONG_CELL = 40
"""From this number of characters on a cell of a table wraps."""
SIGNS = {"pass": "●", "fail": "○", "missing": "·"}


def report_html(view: ReportView) -> str:
    """The headline, the cards and every section; every foreign word is escaped."""
    cards = "".join(_card(c) for c in view.cards)
    body = "".join(_section(s) for s in view.sections)
    return (
        f'<main><div class="page report"><header class="report-head"><h1>{escape(view.run)}</h1>'
        f"<p>{escape(view.subtitle)} · {escape(view.made)}</p></header>"
        f'<div class="cards">{cards}</div>{body}'
        "<noscript><p>Attempts are read with JavaScript on, or with: ethogram trace ID.</p></noscript></div></main>"
    )


def _card(card: Card) -> str:
    label, value, detail = (escape(text) for text in (card.label, card.value, card.detail))
    kind = "card long" if len(card.value) > MOST_LARGE else "card"
    return f'<div class="{kind}"><span>{label}</span><b>{value}</b><small>{detail}</small></div>'


def _section(section: Section) -> str:
    parts = []
    if section.lead:
        parts.append(f'<p class="lead">{escape(section.lead)}</p>')
    if section.reasons:
        parts.append(f'<ol class="findings">{"".join(_reason(r) for r in section.reasons)}</ol>')
    parts += [f"<p>{escape(p)}</p>" for p in section.paragraphs]
    if section.matrix:
        parts.append(f'<ul class="tries">{"".join(_matrix_row(r) for r in section.matrix)}</ul>')
    if section.pictures:
        parts.append(f'<div class="pictures">{"".join(_figure(p) for p in section.pictures)}</div>')
    parts += [_table(t) for t in section.tables]
    if section.commands:
        told = "".join(f"<li><code>{escape(c)}</code></li>" for c in section.commands)
        parts.append(f"<p>Score it with one of these:</p><ul>{told}</ul>")
    parts += [f'<p class="note">{escape(n)}</p>' for n in section.notes]
    return f'<section id="{escape(section.id)}"><h2>{escape(section.title)}</h2>{"".join(parts)}</section>'


def _reason(reason: ShownReason) -> str:
    facts = "".join(f"<span>{escape(f)}</span>" for f in (reason.kind, *reason.facts))
    words = "".join(f"<li>{_words(e.place)} <q>{escape(e.text)}</q></li>" for e in reason.excerpts)
    price = f" ({escape(reason.price)})" if reason.price else ""
    settle = f"<p>Settle it: <code>{escape(reason.settle)}</code>{price}</p>" if reason.settle else ""
    return (
        f'<li class="{reason.kind}"><h3>{escape(reason.what)}</h3><p class="basis">{facts}</p>'
        f"<ul>{words}</ul><p>Try first: {escape(reason.next)}.</p>{settle}</li>"
    )


def _words(place: str | PagePlace) -> str:
    return escape(place) if isinstance(place, str) else f"<code>{escape(place.text)}</code>"


def _figure(picture: Picture) -> str:
    words = escape(picture.words)
    drawn = f'<div role="img" aria-label="{words}">{picture.svg}</div>' if picture.svg else ""
    return f"<figure>{drawn}<figcaption>{words}</figcaption></figure>"


def _table(table: TableView) -> str:
    head = "".join(f'<th scope="col">{escape(c)}</th>' for c in table.columns)
    rows = "".join("<tr>" + "".join(_cell(c) for c in row) + "</tr>" for row in table.rows)
    body = f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody>"
    caption = escape(table.caption)
    if table.folded:
        inside = f'<div class="wide"><table>{body}</table></div>'
        return f'<details class="folded"><summary>{caption}</summary>{inside}</details>'
    caption = f"<caption>{caption}</caption>" if caption else ""
    return f'<div class="wide"><table>{caption}{body}</table></div>'


def _cell(words: str | PagePlace) -> str:
    long = isinstance(words, str) and len(words) > LONG_CELL
    return f'<td class="long">{_words(words)}</td>' if long else f"<td>{_words(words)}</td>"


def _matrix_row(row: MatrixRow) -> str:
    cells = "".join(_dot(c) for c in row.cells)
    return f"<li><span>{escape(row.task)}</span><span>{cells}</span><span>{escape(row.rate)}</span></li>"


def _dot(cell: Cell) -> str:
    return f'<i class="{cell.mark}" title="{escape(cell.words)}">{SIGNS[cell.mark]}</i>'
