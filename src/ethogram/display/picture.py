"""The picture of a result: what its class declares, else its table with intervals, else its estimates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ethogram.errors import BadUsage

from . import charts as marks
from .cells import Bar, text, with_bars, within, words
from .chart import Chart
from .contents import Contents, Listing, contents_of
from .presentation import Drawing, Presentable

MOST_MARKS = 60
"""More rows than this do not fit a picture."""


def chart_of(result: Presentable) -> Chart:
    """The chart of a result; raises `BadUsage` where it holds nothing that can be drawn."""
    drawing = result.presentation.drawing
    contents = contents_of(result)
    chart = None
    if drawing is not None and drawing.value:
        chart = _declared(result, drawing, contents.title)
    elif drawing is not None and drawing.kind == "curve":
        chart = marks.reliability_curve(result.rows(), bool(getattr(result, "same_tasks", True)))
    elif drawing is not None and drawing.kind == "looks":
        chart = marks.looks_chart(result.rows(), float(getattr(result, "margin", 0.0)))
    elif contents.table is not None:
        chart = _of_table(contents.table, Bar if drawing is None else float | int)
    chart = chart or _of_estimates(contents)
    if chart is None:
        raise BadUsage(
            f"this {type(result).__name__} holds no estimate to draw; to_df() has its rows for a picture of your own"
        )
    return chart


def _declared(result: Presentable, drawing: Drawing, name: str) -> Chart | None:
    rows = [_flat(row, drawing) for row in _source(result, drawing)[:MOST_MARKS]]
    rows = [row for row in rows if row["value"] is not None]
    if not rows:
        return None
    title = drawing.title or words(drawing.value)
    said = f"{name}: {title}"
    return marks.bars(rows, "label", "value", title, said) if drawing.kind == "bars" else _intervals(rows, title, said)


def _source(result: Presentable, drawing: Drawing) -> list[dict[str, Any]]:
    """The rows to draw: `rows()`, those of a field, or one for each of some fields."""
    if drawing.fields:
        found: Any = {words(name): getattr(result, name) for name in drawing.fields}
    else:
        found = getattr(result, drawing.source) if drawing.source else result.rows()
    built = msgspec.to_builtins(found) or []
    if isinstance(built, Mapping):
        column = drawing.value
        return [{drawing.label: name, **(r if isinstance(r, dict) else {column: r})} for name, r in built.items()]
    return list(built)


def _flat(row: dict[str, Any], drawing: Drawing) -> dict[str, Any]:
    """The label of one row, its number and the interval."""
    path, _, last = drawing.value.rpartition(".")
    value = with_bars(within(row, path) or {} if path else row).get(last)
    bar = value if isinstance(value, Bar) else Bar(value)
    return {"label": text(within(row, drawing.label)), "value": bar.value, "low": bar.low, "high": bar.high}


def _of_table(listing: Listing, kind: Any) -> Chart | None:
    """The first column of bars, or of numbers, by what names the rows."""
    rows = listing.rows[:MOST_MARKS]
    naming = [n for n in listing.columns if _names(rows, n)]
    for name in listing.columns:
        values = [row.get(name) for row in rows]
        before = [n for n in naming if n != name][:2]
        if not before or not any(isinstance(v, kind) and not isinstance(v, bool) for v in values):
            continue
        if kind is not Bar:
            before = [n for n in before if not any(isinstance(row[n], float | int) for row in rows)] or before[:1]
        labels = [" ".join(text(row.get(n)) for n in before) for row in rows]
        if kind is Bar:
            return _intervals(_rows(labels, values), words(name), listing.title)
        flat = [{"label": a, "value": v} for a, v in zip(labels, values, strict=True) if isinstance(v, kind)]
        return marks.bars(flat, "label", "value", words(name), listing.title)
    return None


def _names(rows: list[dict[str, Any]], column: str) -> bool:
    return all(isinstance(row.get(column), str | int) for row in rows)


def _rows(labels: list[str], values: list[Any]) -> list[dict[str, Any]]:
    return [
        {"label": label, "value": bar.value, "low": bar.low, "high": bar.high}
        for label, bar in zip(labels, values, strict=True)
        if isinstance(bar, Bar) and bar.value is not None
    ]


def _of_estimates(contents: Contents) -> Chart | None:
    """All of them where they are shares, else those that begin with the same word as the first."""
    drawn = [(name, bar) for name, bar in contents.estimates if bar.value is not None]
    if not drawn:
        return None
    if not all(0 <= bar.value <= 1 for _, bar in drawn if bar.value is not None):
        first = drawn[0][0].partition(" ")[0]
        drawn = [(name, bar) for name, bar in drawn if name.partition(" ")[0] == first]
    rows = _rows([name for name, _ in drawn], [bar for _, bar in drawn])
    return _intervals(rows, "estimate", f"{contents.title} {contents.headline}".strip())


def _intervals(rows: list[dict[str, Any]], title: str, said: str) -> Chart:
    ends = [row[end] for row in rows for end in ("value", "low", "high") if row[end] is not None]
    share = all(0 <= n <= 1 for n in ends)
    return marks.intervals(
        rows, "label", title, zero=any(n < 0 for n in ends), words=said, domain=[0.0, 1.0] if share else None
    )
