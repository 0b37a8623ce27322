"""A result as HTML for a notebook: small tables, intervals as bars, long parts folded.

Notebooks say in many ways whether they are dark, and some in none, so no colour depends on it: words and lines take the
colour of the page, and the colour of bars can be told from white as well as from black. Everything that is shown is
escaped: names of tasks, answers and errors come from agents.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from .cells import Bar, number, text
from .contents import Contents, Listing

OPEN_ROWS, FOLD_ABOVE = 8, 12
"""A table of more than 12 rows is folded below its first 8."""
BLUE = "#2f8fc9"
WIDE, HIGH = 120, 12

STYLE = """<style>
.ethogram {font: 13px/1.45 system-ui, -apple-system, "Segoe UI", sans-serif; max-width: 100%; overflow-x: auto}
.ethogram p {margin: 0 0 6px; max-width: 90ch}
.ethogram .facts {display: flex; flex-wrap: wrap; gap: 1px 16px; margin: 0 0 6px}
.ethogram .facts span {max-width: 70ch}
.ethogram .quiet, .ethogram th, .ethogram .facts i {opacity: .72; font-style: normal; font-weight: 400}
.ethogram table {border-collapse: collapse; margin: 2px 0 6px; border: 0; font-size: 12px}
.ethogram tr, .ethogram tbody tr:nth-child(odd), .ethogram thead {background: transparent; border: 0}
.ethogram th, .ethogram td {text-align: left; padding: 2px 14px 2px 0; border: 0; vertical-align: top;
  max-width: 46ch; white-space: normal; overflow-wrap: break-word}
.ethogram th {border-bottom: 1px solid color-mix(in srgb, currentColor 30%, transparent); white-space: nowrap}
.ethogram td.n {font-variant-numeric: tabular-nums; white-space: nowrap; text-align: right}
.ethogram th.n {text-align: right}
.ethogram td.b {white-space: nowrap; font-variant-numeric: tabular-nums}
.ethogram svg {vertical-align: -2px; margin-right: 6px}
.ethogram details {display: inline-block; vertical-align: top; margin: 0 14px 2px 0; max-width: 100%}
.ethogram details[open] {display: block}
.ethogram summary {cursor: pointer; opacity: .85}
.ethogram ul {margin: 2px 0; padding-left: 18px; max-width: 90ch}
</style>"""


def html_of(contents: Contents) -> str:
    """The whole of a result; parts that it lacks leave no trace."""
    lead = f"<p><b>{escape(contents.title)}</b> {escape(contents.headline)}</p>"
    parts = [lead, _facts(contents.facts), _estimates(contents.estimates)]
    if contents.table is not None:
        parts.append(_table(contents.table))
    parts += [_folded(f"{d.title} ({d.total:,})", _rows(d, d.rows)) for d in contents.details]
    parts.append(_notes(contents.notes))
    return f'{STYLE}<div class="ethogram">{"".join(parts)}</div>'


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    if not facts:
        return ""
    said = "".join(f"<span><i>{escape(name)}</i> {escape(value)}</span>" for name, value in facts)
    return f'<div class="facts">{said}</div>'


def _estimates(pairs: Sequence[tuple[str, Bar]]) -> str:
    """Names, bars and numbers; each row has a scale of its own unless all of them are shares."""
    if not pairs:
        return ""
    shares = all(_is_share(bar) for _, bar in pairs)
    scales = [(0.0, 1.0) if shares else _scale([bar]) for _, bar in pairs]
    body = [
        f"<tr><td>{escape(name)}</td><td class=b>{_drawn(bar, scale)}{_said(bar)}</td>"
        f'<td class="quiet">{escape(_origin(bar))}</td></tr>'
        for (name, bar), scale in zip(pairs, scales, strict=True)
    ]
    if len(body) <= FOLD_ABOVE:
        return f"<table>{''.join(body)}</table>"
    first, rest = body[:OPEN_ROWS], body[OPEN_ROWS:]
    return f"<table>{''.join(first)}</table>" + _folded(
        f"{len(rest)} more estimates", f"<table>{''.join(rest)}</table>"
    )


def _table(listing: Listing) -> str:
    head = f'<p class="quiet">{escape(listing.title)}</p>'
    if listing.total <= FOLD_ABOVE:
        return head + _rows(listing, listing.rows)
    return (
        head
        + _rows(listing, listing.rows[:OPEN_ROWS])
        + _folded(f"all {listing.total:,}", _rows(listing, listing.rows))
    )


def _rows(listing: Listing, rows: Sequence[dict[str, Any]]) -> str:
    scales = {
        name: _scale([row[name] for row in listing.rows if isinstance(row.get(name), Bar)]) for name in listing.columns
    }
    kinds = {name: _kind([row.get(name) for row in listing.rows]) for name in listing.columns}
    head = "".join(f'<th class="{kinds[n]}">{escape(n.replace("_", " "))}</th>' for n in listing.columns)
    body = "".join(
        f"<tr>{''.join(_cell(row.get(n), kinds[n], scales[n]) for n in listing.columns)}</tr>" for row in rows
    )
    more = "" if len(rows) < len(listing.rows) or listing.total == len(rows) else _cut(listing)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _cut(listing: Listing) -> str:
    return f'<p class="quiet">the first {len(listing.rows):,} of {listing.total:,}; to_json() and to_df() have all</p>'


def _cell(value: Any, kind: str, scale: tuple[float, float]) -> str:
    if isinstance(value, Bar):
        return f'<td class=b title="{escape(value.words)}">{_drawn(value, scale)}{_said(value)}</td>'
    return f'<td class="{kind}">{escape(text(value))}</td>'


def _kind(values: Iterable[Any]) -> str:
    there = [v for v in values if v is not None]
    return "n" if there and all(isinstance(v, int | float) and not isinstance(v, bool) for v in there) else "t"


def _said(bar: Bar) -> str:
    if bar.value is None:
        return "unknown"
    if bar.low is None or bar.high is None:
        return f"{escape(number(bar.value))} <span class=quiet>no interval</span>"
    return (
        f"{escape(number(bar.value))} <span class=quiet>[{escape(number(bar.low))}, {escape(number(bar.high))}]</span>"
    )


def _origin(bar: Bar) -> str:
    """How an estimate was made: what its words say behind the numbers."""
    head, _, tail = bar.words.partition(" (")
    return tail.removesuffix(")") if tail and not head.startswith("unknown") else bar.words.removeprefix("unknown ")


def _is_share(bar: Bar) -> bool:
    ends = [n for n in (bar.value, bar.low, bar.high) if n is not None]
    return bool(ends) and all(0 <= n <= 1 for n in ends)


def _scale(bars: Sequence[Bar]) -> tuple[float, float]:
    """The ends of the axis that these share: 0 to 1 of shares, else from 0 to whatever is furthest out."""
    ends = [n for bar in bars for n in (bar.value, bar.low, bar.high) if n is not None and abs(n) != float("inf")]
    if all(0 <= n <= 1 for n in ends):
        return 0.0, 1.0
    low, high = min(0.0, *ends), max(0.0, *ends)
    return (low, high) if high > low else (low - 1, high + 1)


def _drawn(bar: Bar, scale: tuple[float, float]) -> str:
    """The track, the interval and the value; where zero lies inside the track it is marked."""
    if bar.value is None:
        return ""
    low, high = scale

    def x(value: float) -> str:
        share = (min(max(value, low), high) - low) / (high - low)
        return f"{4 + share * (WIDE - 8):.1f}"

    middle = HIGH / 2
    marks = [f'<line x1="4" x2="{WIDE - 4}" y1="{middle}" y2="{middle}" stroke="currentColor" stroke-opacity=".25"/>']
    if low < 0 < high:
        marks.append(f'<line x1="{x(0)}" x2="{x(0)}" y1="0" y2="{HIGH}" stroke="currentColor" stroke-opacity=".5"/>')
    if bar.low is not None and bar.high is not None:
        marks.append(
            f'<line x1="{x(bar.low)}" x2="{x(bar.high)}" y1="{middle}" y2="{middle}" stroke="{BLUE}" stroke-width="5" '
            'stroke-opacity=".6" stroke-linecap="round"/>'
        )
    marks.append(f'<circle cx="{x(bar.value)}" cy="{middle}" r="3.5" fill="{BLUE}"/>')
    said = escape(str(bar))
    return f'<svg width="{WIDE}" height="{HIGH}" role="img" aria-label="{said}">{"".join(marks)}</svg>'


def _folded(summary: str, inside: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{inside}</details>"


def _notes(notes: Sequence[str]) -> str:
    if not notes:
        return ""
    items = "".join(f"<li>{escape(note)}</li>" for note in notes[:20])
    return f"<ul>{items}</ul>"
