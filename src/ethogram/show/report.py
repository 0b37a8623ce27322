"""A report on paper: one HTML file that opens offline, prints well, and runs no script."""

from __future__ import annotations

from html import escape
from pathlib import Path

from ethogram.errors import BadUsage
from ethogram.result import Result
from ethogram.store import Home, Run

from .chart import Chart, can_draw
from .parts import report_view
from .views import Card, MatrixRow, Picture, ReportView, Section, TableView

MOST_LARGE = 9
"""Up to this number of characters a headline figure is set large."""
SIGNS = {"pass": "●", "fail": "○", "missing": "·"}


class ReportFile(Result, kw_only=True):
    """Where a report was written."""

    run: str
    report: str
    bytes: int
    sections: list[str]
    pictures: int
    notes: list[str]


def report(
    run: str | Run = "latest",
    path: str | Path = "report.html",
    *,
    candidate: str | Run | None = None,
    home: Home | str | None = None,
) -> ReportFile:
    """Write everything about a run as one HTML file that opens without a network.

    With a `candidate` the report is about that run, and begins with how it differs from `run`.

    Gives the file, its sections and the number of its pictures. Raises `BadUsage` for a path that is not HTML or cannot
    be written, `NotFound` for a run that does not exist.

    Example: `report("night", "night.html").sections`
    """
    place = Path(path)
    if place.suffix.lower() not in (".html", ".htm"):
        raise BadUsage(f"a report is an HTML page; name it {place.stem}.html, not {place.name}")
    view = report_view(run, candidate, home=home)
    drawn = can_draw()
    text = page(view, pictures=drawn)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadUsage(f"{place} cannot be written: {error.strerror}; choose another place with -o") from None
    notes = [] if drawn else ["pictures were left out: install ethogram[charts] to draw them"]
    return ReportFile(
        run=view.run,
        report=str(place),
        bytes=len(text.encode()),
        sections=[s.id for s in view.sections],
        pictures=sum(len(s.pictures) for s in view.sections) if drawn else 0,
        notes=notes,
    )


def page(view: ReportView, *, pictures: bool) -> str:
    """The whole page; every foreign word is escaped, and a policy forbids it to load or run anything."""
    links = "".join(f'<a href="#{escape(s.id)}">{escape(s.title)}</a>' for s in view.sections)
    cards = "".join(_card(c) for c in view.cards)
    body = "".join(_section(s, pictures) for s in view.sections)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(view.run)} · Ethogram</title><style>{_style()}</style></head><body>"
        f'<header><p class="brand">Ethogram</p><h1>{escape(view.run)}</h1>'
        f"<p>{escape(view.subtitle)} · {escape(view.made)}</p><nav>{links}</nav></header>"
        f'<main><div class="cards">{cards}</div>{body}</main>'
        "<footer>Every number is an estimate with its interval, or says why there is none.</footer>"
        "</body></html>\n"
    )


def _card(card: Card) -> str:
    label, value, detail = (escape(text) for text in (card.label, card.value, card.detail))
    kind = "card words" if len(card.value) > MOST_LARGE else "card"
    return f'<div class="{kind}"><span>{label}</span><b>{value}</b><small>{detail}</small></div>'


def _section(section: Section, pictures: bool) -> str:
    parts = [f"<p>{escape(p)}</p>" for p in section.paragraphs]
    if pictures and section.pictures:
        parts.append(f'<div class="figures">{"".join(_figure(p) for p in section.pictures)}</div>')
    parts += [_table(t) for t in section.tables]
    if section.matrix:
        parts.append(_matrix(section.matrix))
    parts += [f'<p class="note">{escape(n)}</p>' for n in section.notes]
    return f'<section id="{escape(section.id)}"><h2>{escape(section.title)}</h2>{"".join(parts)}</section>'


def _figure(drawn: Picture) -> str:
    chart = Chart({k: v for k, v in drawn.spec.items() if k not in ("$schema", "description")}, drawn.words)
    words = escape(drawn.words)
    return f'<figure role="img" aria-label="{words}">{chart.svg(inline=True)}<figcaption>{words}</figcaption></figure>'


def _table(table: TableView) -> str:
    head = "".join(f"<th>{escape(c)}</th>" for c in table.columns)
    rows = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in table.rows)
    caption = f"<caption>{escape(table.caption)}</caption>" if table.caption else ""
    return f'<div class="wide"><table>{caption}<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _matrix(rows: list[MatrixRow]) -> str:
    lines = []
    for row in rows:
        cells = "".join(f'<i class="{c.mark}" title="{escape(c.words)}">{SIGNS[c.mark]}</i>' for c in row.cells)
        name, rate = escape(row.task), escape(row.rate)
        lines.append(f'<li><span title="{name}">{name}</span><span>{cells}</span><span>{rate}</span></li>')
    return f'<ul class="matrix">{"".join(lines)}</ul>'


def _style() -> str:
    return (Path(__file__).parent / "report.css").read_text(encoding="utf-8")
