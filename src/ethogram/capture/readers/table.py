"""Any table of results: CSV, JSON lines, a JSON array or Parquet, one row per attempt with a task and a score.

A row becomes an episode without a trace: an outcome with cost, tokens, seconds, agent, model and, as facts, whatever
other columns there are. Which column is which is guessed from names and content, or said with `--columns`; the line
that was used is part of the report. Rows are named by their number, so that reading a table again with other columns
corrects the episodes that it gave before. Rows of one attempt by several raters are one episode, with a label for each
rater; its outcome is what most of them say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.columns import OutcomeColumns, find_columns, outcome_in, why_no_table
from ethogram.capture.intake import Intake
from ethogram.capture.parse import as_int, as_name, as_text, iso_ns, to_json
from ethogram.capture.peek import Peek, peek_at
from ethogram.capture.register import RENUMBERED
from ethogram.capture.rows import TableRow, rows_of, sample_of, why_no_sample
from ethogram.capture.source import Source
from ethogram.errors import Unreadable
from ethogram.traces import OUTCOME_ONLY, Missing, Scored, cut_whole, digest

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
    entries = (_Row(number, *entry) for number, entry in enumerate(rows_of(source, peek, intake)))
    for rated in _by_attempt(entries, columns, intake) if "rater" in columns.roles else ([row] for row in entries):
        intake.expect(rated[0].values)
        content = digest(*(to_json(row.values) for row in rated), line)
        with intake.record(rated[0].where), intake.trace(f"row {rated[0].number}", content=content) as trace:
            read_row(trace, rated[0].values, columns, named)
            if "rater" in columns.roles:
                _rate(trace, rated, columns)
    if repeated := intake.report.lost.get(RENUMBERED):
        rows = "1 row has" if repeated == 1 else f"{repeated:,} rows have"
        intake.report.notes.append(f"{rows} the task and attempt of an earlier row: each counts as one more attempt")


class _Row(NamedTuple):
    """A row with its number and its place."""

    number: int
    where: str
    values: TableRow


def _by_attempt(rows: Iterable[_Row], columns: OutcomeColumns, intake: Intake) -> Iterable[list[_Row]]:
    """Rows of one attempt by different raters together; a rater's second row of a task is about another attempt."""
    attempts: dict[tuple[Any, ...], list[_Row]] = {}
    seen: Counter[tuple[Any, ...]] = Counter()
    roles = columns.roles
    same = [roles[role].name for role in ("task", "agent", "condition", "attempt", "seed") if role in roles]
    for row in rows:
        with intake.record(row.where):
            outcome_in(roles["score"], row.values)  # a row without a score must not take others of its attempt along
            key = tuple(as_text(row.values.get(name)) for name in same)
            rater = (*key, as_text(row.values.get(roles["rater"].name)))
            attempts.setdefault((*key, seen[rater]), []).append(row)
            seen[rater] += 1
    return attempts.values()


def _rate(trace: TraceBuilder, rated: list[_Row], columns: OutcomeColumns) -> None:
    """A label of each rater; the outcome is the score that more than half of them give."""
    score, given = columns.roles["score"], []
    for row in rated:
        outcome = outcome_in(score, row.values)
        given.append(outcome.value if isinstance(outcome, Scored) else None)
        rater = as_text(row.values.get(columns.roles["rater"].name)) or "unknown"
        trace.label(score.name, given[-1], by=rater, source="hand")
    value, count = Counter(given).most_common(1)[0]
    if len(set(given)) > 1:
        if value is None or 2 * count <= len(given):
            trace.outcome = Missing("unscored", f"{score.name}: raters disagree")
        else:
            trace.outcome = Scored(value, score.name)


def read_row(trace: TraceBuilder, row: TableRow, columns: OutcomeColumns, named: set[str]) -> None:
    """Fill a trace with what a row states."""
    roles = columns.roles
    if isinstance(task := row.get(roles["task"].name), list | dict):
        raise Unreadable(f"{roles['task'].name} is {cut_whole(as_text(task), 60)}, not one word or number")
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
