"""The part of a report with tasks × attempts: every dot opens its attempt."""

from __future__ import annotations

from collections.abc import Sequence

from ethogram.measures.outcomes import Outcomes
from ethogram.reading.metric_means import metric_means
from ethogram.reading.outcomes import UNKNOWN, chosen_entries, clean_condition, load_outcomes
from ethogram.store import Entry, Run
from ethogram.traces import Scored, is_outcome_only

from .views import Card, Cell, MatrixRow, Section, metrics_table

ID, TITLE = "attempts", "Tasks and attempts"
MOST_TASKS = 300
"""How many tasks are drawn one by one, those with failures first; the rest is counted."""


def attempts_part(run: Run) -> tuple[Section, list[Card]] | None:
    """Every attempt once."""
    conditions = sorted({e.head.condition for e in run.entries})
    rows: list[MatrixRow] = []
    tasks = 0
    for condition in conditions if len(conditions) > 1 else [clean_condition(run)]:
        outcomes = load_outcomes(run, condition=condition)
        under = f" · {condition}" if condition else ""
        rows += _matrix(outcomes, chosen_entries(run, condition, None), under)
        tasks += len(outcomes.tasks)
    rows = rows[:MOST_TASKS]
    notes = [] if len(rows) == tasks else [f"{len(rows)} of {tasks} tasks are drawn"]
    lead = "● passed, ○ failed, · no score."
    if any(cell.trace for row in rows for cell in row.cells):
        lead += " Choose a dot to read the attempt; failed ones are shown beside one that passed."
    section = Section(
        id=ID,
        title=TITLE,
        paragraphs=[lead],
        matrix=rows,
        notes=notes,
        tables=[metrics_table(metric_means(run, condition=clean_condition(run)))]
        if _has_means(conditions, run)
        else [],
    )
    return section, []


def _has_means(conditions: Sequence[str], run: Run) -> bool:
    """Whether means over scored attempts can be told, and are of one behaviour: conditions mixed are none."""
    scored = any(isinstance(e.head.outcome, Scored) for e in run.entries)
    return scored and (len(conditions) < 2 or clean_condition(run) is not None)


def _matrix(outcomes: Outcomes, entries: Sequence[Entry], under: str) -> list[MatrixRow]:
    order: dict[int, list[int]] = {}
    for i in sorted(range(outcomes.task.size), key=lambda i: (int(outcomes.task[i]), int(outcomes.attempt[i]))):
        order.setdefault(int(outcomes.task[i]), []).append(i)
    failing = sorted(range(len(outcomes.tasks)), key=lambda t: int(outcomes.successes[t]) >= int(outcomes.attempts[t]))
    rows = []
    for t in sorted(failing[:MOST_TASKS]):
        cells = [_cell(outcomes, i, entries[i] if i < len(entries) else None) for i in order.get(t, ())]
        n, c = int(outcomes.attempts[t]), int(outcomes.successes[t])
        rows.append(MatrixRow(task=(outcomes.tasks[t] or UNKNOWN) + under, cells=cells, rate=f"{c}/{n}"))
    return rows


def _cell(outcomes: Outcomes, i: int, entry: Entry | None) -> Cell:
    attempt, reason = int(outcomes.attempt[i]), outcomes.reason[i]
    is_open = entry is not None and not entry.forgotten and not is_outcome_only(entry.head)
    trace = entry.head.trace_id if entry is not None and is_open else ""
    if reason is not None:
        return Cell(mark="missing", words=f"attempt {attempt}: {reason}", trace=trace)
    passed = bool(outcomes.success[i])
    words = f"attempt {attempt}: score {outcomes.value[i]:g}"
    return Cell(mark="pass" if passed else "fail", words=words, trace=trace)
