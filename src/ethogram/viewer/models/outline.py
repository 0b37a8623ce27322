"""The outline of a trace in windows: rows of its tree on a clock, and its turns as points of a chart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from ethogram.errors import NotFound
from ethogram.reading.outline import TraceOutline, trace_outline
from ethogram.reading.trace_words import Only
from ethogram.store import Run
from ethogram.traces.span import KINDS
from ethogram.viewer.library import Library

MOST_ROWS = 1_000
MOST_POINTS = 600
"""Points of the chart over turns; more turns share one."""


class TraceQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which trace: a run, and the start of the trace's id."""

    run: str
    trace: str


class OutlineQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A window of the outline: from row `first`, or so that `step` is in it. `folded` are places whose inside is
    hidden, with commas between them."""

    run: str
    trace: str
    only: Only | None = None
    folded: str = ""
    first: int = 0
    step: int | None = None
    count: int = 200


class OutlineView(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of the outline as columns. `at` are places in the tree, `inside` counts what is below each, `begin` and
    `seconds` are on the clock of the trace (`seconds` long in all), or by step where the log has no times."""

    first: int
    of: int
    spans: int
    timed: bool
    whole: float
    kinds: list[str]
    names: list[str]
    at: list[int]
    depth: list[int]
    kind: list[int]
    name: list[int]
    failed: list[bool]
    step: list[int | None]
    begin: list[float]
    seconds: list[float | None]
    tokens: list[int | None]
    inside: list[int]


def outline_view(library: Library, query: OutlineQuery) -> OutlineView:
    """A window of the outline."""
    with opened_outline(library, query.run, query.trace) as outline:
        folded = [int(part) for part in query.folded.split(",") if part.isdecimal()]
        places = outline.visible(query.only, folded)
        count = min(query.count, MOST_ROWS)
        first = max(query.first, 0)
        if query.step is not None:
            first = max(outline.place(places, query.step) - count // 2, 0)
        return outline_rows(outline, places, first, count)


def outline_rows(outline: TraceOutline, places: Any, first: int, count: int) -> OutlineView:
    """A window of some places of the outline."""
    shown = places[first : first + count]
    rows = outline.row[shown]
    begin, lasts, whole = outline.clock
    names: dict[str, int] = {}
    name = [names.setdefault(word, len(names)) for word in outline.names(rows)]
    return OutlineView(
        first=first,
        of=int(places.size),
        spans=len(outline),
        timed=outline.is_timed,
        whole=whole,
        kinds=[*KINDS, "other"],
        names=list(names),
        at=shown.tolist(),
        depth=outline.depth[shown].tolist(),
        kind=outline.kind[rows].tolist(),
        name=name,
        failed=outline.failed[rows].tolist(),
        step=[None if step < 0 else int(step) for step in outline.step[rows]],
        begin=begin[rows].round(4).tolist(),
        seconds=_known(lasts[rows]),
        tokens=_counted(outline.numbers("output_tokens")[rows]),
        inside=(outline.end[shown] - shown - 1).tolist(),
    )


class TurnsView(msgspec.Struct, frozen=True, kw_only=True):
    """The turns of a trace as columns, several to a point where there are many: the first step, the largest context
    (all input tokens) and all output tokens of each point, and whether something failed."""

    turns: int
    step: list[int]
    context: list[int | None]
    output: list[int | None]
    cost_usd: list[float | None]
    failed: list[bool]


def turns_view(library: Library, query: TraceQuery) -> TurnsView:
    """Context and tokens over turns."""
    with opened_outline(library, query.run, query.trace) as outline:
        return turns_of(outline)


def turns_of(outline: TraceOutline) -> TurnsView:
    """Context and tokens over the turns of an opened trace."""
    points = outline.points(MOST_POINTS)
    return TurnsView(
        turns=int(outline.turns.size),
        step=points.step.tolist(),
        context=_counted(points.context),
        output=_counted(points.output),
        cost_usd=_known(points.cost_usd),
        failed=points.failed.tolist(),
    )


@contextmanager
def opened_outline(library: Library, run: str, trace: str) -> Iterator[TraceOutline]:
    """The outline of a trace, for this thread alone; raises `NotFound` where there is no such trace, or no longer."""
    with library.alone(run, ("outline", trace), lambda found: _opened(found, trace)) as outline:
        yield outline


def _opened(run: Run, trace: str) -> TraceOutline:
    entry = run.find(trace)
    if entry.forgotten:
        raise NotFound(
            f"trace {entry.head.trace_id} is no longer kept: {entry.forgotten}", what="trace", name=entry.head.trace_id
        )
    return trace_outline(run, entry)


def _known(values: Any) -> list[float | None]:
    return [None if value != value else round(float(value), 6) for value in values]


def _counted(values: Any) -> list[int | None]:
    return [None if value != value else int(value) for value in values]
