"""The page of all runs: a line each, searched, filtered and sorted."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

import msgspec

from ethogram.errors import BadUsage, EthogramError
from ethogram.questions.home.filters import FieldKind, FilterTerm, FilterValue, parse_filter
from ethogram.questions.home.overview import RunOverview, run_overview
from ethogram.questions.home.run_search import holds_words
from ethogram.viewer.library import Library

RUN_FIELDS: dict[str, FieldKind] = {
    "name": "text",
    "kind": "text",
    "tag": "text",
    "agent": "text",
    "model": "text",
    "is": "text",
    "words": "words",
    "pass": "number",
    "cost": "number",
    "episodes": "number",
    "scored": "number",
    "missing": "number",
    "tasks": "number",
    "tokens": "number",
    "seconds": "number",
}
"""What a filter of runs can ask for."""
PATIENCE = 0.4
"""Seconds that a reader waits for lines that are not known yet; the others come with the next request."""

RunSort = Literal["created", "name", "pass", "cost", "episodes", "missing", "tokens"]


class RunsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs: a filter, a column to sort by (`down`: largest or newest first), and a window of them."""

    filter: str = ""
    sort: RunSort = "created"
    down: bool = True
    first: int = 0
    count: int = 100


class RunsView(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of a home. `problem` is what is wrong with the filter: then no run is shown. `pending` runs are still being
    read or searched, and are not in `rows` yet; `unsearched` ones were too large to be searched to their end, or
    cannot be read."""

    home: str
    of: int
    matched: int
    rows: list[RunOverview]
    fields: list[str]
    tags: list[str] = []
    pending: int = 0
    unsearched: list[str] = []
    problem: str | None = None


def runs_view(library: Library, query: RunsQuery) -> RunsView:
    """All runs that match, a window of them."""
    names = library.home.names()
    empty = RunsView(home=library.home.files.address, of=len(names), matched=0, rows=[], fields=list(RUN_FIELDS))
    try:
        chosen = parse_filter(query.filter, RUN_FIELDS)
    except BadUsage as error:
        return msgspec.structs.replace(empty, problem=str(error))
    rows, pending = _overviews(library, list(library.states()))
    tags = sorted({tag for row in rows for tag in row.tags})
    rows = [row for row in rows if chosen.matches(_value_of(row), [row.run, *row.tags, *row.agents, row.model])]
    unsearched: list[str] = []
    for term in chosen.words:
        rows, unread, beyond = _with_words(library, rows, term)
        pending, unsearched = pending + unread, unsearched + beyond
    known = [row for row in rows if _sorted_by(row, query.sort) is not None]
    known.sort(key=lambda row: (_sorted_by(row, query.sort), row.created_ns), reverse=query.down)
    unknown = [row for row in rows if _sorted_by(row, query.sort) is None]
    return msgspec.structs.replace(
        empty,
        matched=len(rows),
        rows=[*known, *unknown][query.first : query.first + query.count],
        tags=tags,
        pending=pending,
        unsearched=sorted(set(unsearched)),
    )


def _overviews(library: Library, names: list[str]) -> tuple[list[RunOverview], int]:
    """Lines of the runs that are known by now, and how many are not."""
    until = time.monotonic() + PATIENCE
    rows: list[RunOverview] = []
    pending = 0
    for name in names:
        before = library.earlier(name, ("overview",))
        if before is not None:  # it is being computed for another reader: the page asks again
            rows.append(before)
            pending += 1
            continue
        if time.monotonic() > until and not library.known(name, ("overview",)):
            pending += 1
            continue
        rows.append(library.answer(name, ("overview",), run_overview))
    return rows, pending


def _with_words(
    library: Library, rows: list[RunOverview], term: FilterTerm
) -> tuple[list[RunOverview], int, list[str]]:
    """Runs whose traces hold a text (or do not, as the term says), how many were not looked through yet, and those
    that could not be to the end. What was found out is kept: the next request goes on from there."""
    until = time.monotonic() + PATIENCE
    found: list[RunOverview] = []
    pending, beyond = 0, list[str]()
    for row in rows:
        key = ("words", term.text)
        if time.monotonic() > until and not library.known(row.run, key):
            pending += 1
            continue
        try:
            held = library.answer(row.run, key, lambda run: holds_words(run, term.text))
        except EthogramError:  # sealed or damaged
            held = None
        if held is None:
            beyond.append(row.run)
        elif held != term.without:
            found.append(row)
    return found, pending, beyond


def _value_of(row: RunOverview) -> Callable[[str], FilterValue]:
    """The fields of a line as a filter asks for them; `words` is looked for elsewhere."""
    values: dict[str, FilterValue] = {
        "name": row.run,
        "kind": row.kind,
        "tag": row.tags,
        "agent": row.agents,
        "model": row.model,
        "is": [state for state, held in (("live", row.live), ("damaged", row.problem is not None)) if held],
        "pass": row.pass_rate.value if row.pass_rate is not None else None,
        "cost": row.cost_usd,
        "episodes": row.episodes,
        "scored": row.scored,
        "missing": sum(row.missing.values()),
        "tasks": row.tasks,
        "tokens": row.tokens,
        "seconds": row.seconds,
    }
    return values.__getitem__


def _sorted_by(row: RunOverview, sort: RunSort) -> float | str | None:
    if sort == "created":
        return row.created_ns
    if sort == "name":
        return row.run
    value = _value_of(row)(sort)
    return value if isinstance(value, int | float) else None
