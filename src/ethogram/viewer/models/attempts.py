"""Every attempt of a run: as a grid of tasks, and as the list that the keys of a trace's page walk along."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from ethogram.display.money import dollars
from ethogram.errors import BadUsage
from ethogram.questions.home.filters import FieldKind, FilterValue, parse_filter
from ethogram.questions.home.runs import EpisodeRow, show
from ethogram.reading.task_names import NO_TASK, natural
from ethogram.store import Run
from ethogram.viewer.library import Library

AttemptState = Literal["passed", "failed", "missing"]
AttemptSort = Literal["task", "score", "cost", "steps", "errors", "tokens", "seconds"]
ATTEMPT_FIELDS: dict[str, FieldKind] = {
    "task": "text",
    "agent": "text",
    "condition": "text",
    "is": "text",
    "reason": "text",
    "trace": "text",
    "attempt": "number",
    "score": "number",
    "cost": "number",
    "steps": "number",
    "errors": "number",
    "tokens": "number",
    "seconds": "number",
}
"""What a filter of attempts can ask for; `is` takes passed, failed and missing."""


class AttemptsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which attempts of a run, in which order (`down`: largest first), and a window of their tasks."""

    run: str = "latest"
    filter: str = ""
    sort: AttemptSort = "task"
    down: bool = False
    first: int = 0
    count: int = 200


class AttemptCell(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt: its trace, how it ended, and what to say of it."""

    trace: str
    attempt: int
    state: AttemptState
    words: str


class AttemptRow(msgspec.Struct, frozen=True, kw_only=True):
    """A task under one condition, and its attempts."""

    task: str
    condition: str
    passed: int
    scored: int
    cells: list[AttemptCell]


class AttemptsView(msgspec.Struct, frozen=True, kw_only=True):
    """A window of tasks; `problem` is what is wrong with the filter: then none is shown."""

    rows: list[AttemptRow]
    tasks: int
    attempts: int
    of: int
    fields: list[str]
    problem: str | None = None


class HeldAttempts(msgspec.Struct, frozen=True):
    """The attempts of a run, and from which score on one is a success."""

    rows: list[EpisodeRow]
    success_at: float
    by_trace: dict[str, EpisodeRow]

    def state(self, row: EpisodeRow) -> AttemptState:
        """How an attempt ended."""
        if row.score is None:
            return "missing"
        return "passed" if row.score >= self.success_at else "failed"


def attempts_view(library: Library, query: AttemptsQuery) -> AttemptsView:
    """The grid: tasks, each with its attempts; in other orders a flat list of attempts."""
    return grid_of(run_attempts(library, query.run), query)


def grid_of(held: HeldAttempts, query: AttemptsQuery) -> AttemptsView:
    """The grid of attempts that are known."""
    try:
        rows = chosen_attempts(held, query.filter, query.sort, query.down)
    except BadUsage as error:
        return AttemptsView(
            rows=[], tasks=0, attempts=0, of=len(held.rows), fields=[*ATTEMPT_FIELDS], problem=str(error)
        )
    groups: dict[tuple[str, str, int], list[EpisodeRow]] = {}
    for number, row in enumerate(rows):
        groups.setdefault((row.task, row.condition, 0 if query.sort == "task" and row.task else number), []).append(row)
    shown = list(groups.items())[query.first : query.first + query.count]
    return AttemptsView(
        rows=[_row(held, task, condition, own) for (task, condition, _), own in shown],
        tasks=len(groups),
        attempts=len(rows),
        of=len(held.rows),
        fields=list(ATTEMPT_FIELDS),
    )


class NeighboursQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A trace, and the filter and order of the list that it was opened from."""

    run: str
    trace: str
    filter: str = ""
    sort: AttemptSort = "task"
    down: bool = False


class NeighboursView(msgspec.Struct, frozen=True, kw_only=True):
    """Where a trace stands in the list (from 1; 0 where the filter leaves it out), and its neighbours."""

    at: int
    of: int
    previous: str | None
    next: str | None
    siblings: list[AttemptCell]


def neighbours_view(library: Library, query: NeighboursQuery) -> NeighboursView:
    """The attempts before and after a trace, and the other attempts at its task."""
    held = run_attempts(library, query.run)
    rows = chosen_attempts(held, query.filter, query.sort, query.down)
    digits = query.trace.removeprefix("b2:")
    own = next((row for row in held.rows if row.trace_id.removeprefix("b2:").startswith(digits)), None)
    ids = [row.trace_id for row in rows]
    at = ids.index(own.trace_id) if own is not None and own.trace_id in ids else -1
    after = ids[at + 1] if at + 1 < len(ids) else None
    siblings = [
        row
        for row in held.rows
        if own is not None and own.task and (row.task, row.condition) == (own.task, own.condition)
    ]
    return NeighboursView(
        at=at + 1,
        of=len(ids),
        previous=ids[at - 1] if at > 0 else None,
        next=after,
        siblings=[_cell(held, row) for row in sorted(siblings, key=lambda r: r.attempt)[:64]],
    )


def run_attempts(library: Library, run: str) -> HeldAttempts:
    """The attempts of a run, read once for each state of its ledger."""
    return library.answer(run, ("attempts",), attempts_of)


def attempts_of(run: Run) -> HeldAttempts:
    """The attempts of a run by task and number."""
    rows = sorted(show(run).traces, key=lambda r: (natural(r.task), r.condition, r.attempt))
    return HeldAttempts(rows, run.success_at, {row.trace_id: row for row in rows})


def chosen_attempts(held: HeldAttempts, filter_: str, sort: AttemptSort, down: bool) -> list[EpisodeRow]:
    """Attempts that a filter lets through, in order; those without the figure come last. Raises `BadUsage`."""
    chosen = parse_filter(filter_, ATTEMPT_FIELDS)
    rows = [row for row in held.rows if chosen.matches(_value_of(held, row), [row.task, row.agent, row.condition])]
    if sort == "task":
        return rows[::-1] if down else rows
    known = [(value, row) for row in rows if isinstance(value := _value_of(held, row)(sort), int | float)]
    unknown = [row for row in rows if not isinstance(_value_of(held, row)(sort), int | float)]
    return [*(row for _, row in sorted(known, key=lambda pair: pair[0], reverse=down)), *unknown]


def _value_of(held: HeldAttempts, row: EpisodeRow) -> Callable[[str], FilterValue]:
    values: dict[str, FilterValue] = {
        "task": row.task,
        "agent": row.agent,
        "condition": row.condition,
        "is": held.state(row),
        "reason": row.missing,
        "trace": row.trace_id,
        "attempt": row.attempt,
        "score": row.score,
        "cost": row.cost_usd,
        "steps": row.totals.steps,
        "errors": row.totals.errors,
        "tokens": row.tokens,
        "seconds": row.seconds,
    }
    return values.__getitem__


def _row(held: HeldAttempts, task: str, condition: str, own: list[EpisodeRow]) -> AttemptRow:
    states = [held.state(row) for row in own]
    return AttemptRow(
        task=task or NO_TASK + own[0].trace_id.removeprefix("b2:")[:12],
        condition=condition,
        passed=states.count("passed"),
        scored=len(states) - states.count("missing"),
        cells=[_cell(held, row) for row in own],
    )


def _cell(held: HeldAttempts, row: EpisodeRow) -> AttemptCell:
    facts = [row.missing or f"score {row.score:g}", f"{row.totals.steps} steps"]
    facts += [f"{row.totals.errors} errors"] if row.totals.errors else []
    facts += [dollars(row.cost_usd)] if row.cost_usd is not None else []
    words = f"attempt {row.attempt}: {', '.join(facts)}"
    return AttemptCell(trace=row.trace_id, attempt=row.attempt, state=held.state(row), words=words)
