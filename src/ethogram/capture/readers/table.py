"""Any table of results: CSV, JSON lines, a JSON array or Parquet, one row per attempt with a task and a score.

A row becomes an episode without a trace: an outcome with cost, tokens, seconds, agent, model and, as facts, whatever
other columns there are. Which column is which is guessed from names and content, or said with `--columns`; the line
that was used is part of the report. Rows are named by their number, so that reading a table again with other columns
corrects the episodes that it gave before.
"""

from __future__ import annotations

from typing import Any

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.columns import OutcomeColumns, find_columns, outcome_in, why_no_table
from ethogram.capture.intake import Intake
from ethogram.capture.parse import as_int, as_name, as_text, iso_ns, to_json
from ethogram.capture.peek import Peek, peek_at
from ethogram.capture.register import RENUMBERED
from ethogram.capture.rows import TableRow, rows_of, sample_of, why_no_sample
from ethogram.capture.source import Source
from ethogram.errors import Unreadable
from ethogram.traces import OUTCOME_ONLY, digest

FORMAT = "table"
_AMOUNTS = {"cost": "cost_usd", "seconds": "seconds"}
MARKS: frozenset[str] = frozenset()  # one document alone is no table


def sniff(peek: Peek) -> int:
    """A table with a task and a score; a reader that knows the format better goes first."""
    sample = sample_of(peek)
    if sample is None or not sample.rows:
        return 0
    return 0 if why_no_table(sample) else 5


def read(source: Source, intake: Intake) -> None:
    """One episode per row."""
    peek = peek_at(source)
    sample = sample_of(peek)
    if sample is None:
        raise Unreadable(why_no_sample(peek) or "not a table: neither CSV with a header, nor JSON lines, nor Parquet")
    columns = find_columns(sample, intake.columns)
    named, line = {column.name for column in columns.roles.values()}, columns.line()
    intake.report.columns = line
    intake.report.notes.extend(columns.notes)
    for number, (where, row) in enumerate(rows_of(source, peek, intake)):
        intake.expect(row)
        content = digest(to_json(row), line)
        with intake.record(where), intake.trace(f"row {number}", content=content) as trace:
            read_row(trace, row, columns, named)
    if repeated := intake.report.lost.get(RENUMBERED):
        rows = "1 row has" if repeated == 1 else f"{repeated:,} rows have"
        intake.report.notes.append(f"{rows} the task and attempt of an earlier row: each counts as one more attempt")


def read_row(trace: TraceBuilder, row: TableRow, columns: OutcomeColumns, named: set[str]) -> None:
    """Fill a trace with what a row states."""
    roles = columns.roles
    if isinstance(task := row.get(roles["task"].name), list | dict):
        raise Unreadable(f"{roles['task'].name} is {as_text(task)[:60]}, not one word or number")
    words = {role: as_text(row.get(roles[role].name)) for role in ("task", "agent", "condition") if role in roles}
    if not words["task"].strip():
        raise Unreadable(f"{roles['task'].name} is empty")
    trace.task, trace.agent = words["task"].strip(), words.get("agent", "")
    trace.condition = words.get("condition", "")
    trace.outcome = outcome_in(roles["score"], row)
    for role in ("attempt", "seed"):
        if role in roles:
            setattr(trace, role, as_int(row.get(roles[role].name)))
    if "answer" in roles and (answer := row.get(roles["answer"].name)) is not None:
        trace.answer = as_text(answer)
    trace.meta = {name: value for name, value in row.items() if name not in named} | _stated(trace, row, columns)


def _stated(trace: TraceBuilder, row: TableRow, columns: OutcomeColumns) -> dict[str, Any]:
    """The amounts of a row, under the names that totals have."""
    roles = columns.roles
    facts: dict[str, Any] = {OUTCOME_ONLY: True}
    if "model" in roles:
        facts["model"] = as_name(row.get(roles["model"].name)) or None
    for role, field in _AMOUNTS.items():
        if role in roles and (amount := roles[role].number(row)) is not None and amount >= 0:
            facts[field] = amount
    for field in ("input_tokens", "output_tokens"):
        if field in roles:
            facts[field] = as_int(row.get(roles[field].name))
    if "tokens" in roles and not {"input_tokens", "output_tokens"} & roles.keys():
        facts["input_tokens"] = as_int(row.get(roles["tokens"].name))
        if facts["input_tokens"] is not None:
            trace.lose("tokens by kind (the total counts as input)")
    start = iso_ns(row.get(roles["start"].name)) if "start" in roles else None
    if start is not None and "seconds" in facts:
        trace.lasted(start, start + round(facts["seconds"] * 1e9))
    return facts
