"""The table of episodes that `ethogram export --to parquet` or `--to csv` writes: `episodes.parquet`, `episodes.csv`.

Every row is an outcome with its totals, as it stood in the run; its steps are not in this table, so the episodes come
in without a trace (`--to jsonl` keeps traces). An episode keeps its name everywhere: importing an export twice, or
as CSV after Parquet, adds nothing.
"""

from __future__ import annotations

from typing import Any

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.intake import Intake
from ethogram.capture.parse import as_dict, as_float, as_int, as_name
from ethogram.capture.peek import Peek, peek_at
from ethogram.capture.rows import TableRow, rows_of, sample_of
from ethogram.capture.source import Source
from ethogram.errors import Unreadable
from ethogram.traces import OUTCOME_ONLY, REASONS, TOKEN_FIELDS, Missing, Outcome, Scored, digest

FORMAT = "episodes"
_COLUMNS = {"episode", "trace_id", "task", "attempt", "condition", "agent", "score", "reason", "by", "cost_usd"}
_BESIDE = (
    {"run", "trace_id", "span_id", "seq", "kind"},
    {"run", "ref", "body", "chars"},
    {"run", "trace_id", "name", "by", "source", "version"},
)
"""The tables of spans, texts and labels that lie beside it."""
MARKS: frozenset[str] = frozenset()  # one document alone is no table


def sniff(peek: Peek) -> int:
    """The columns of the view `episodes`, or of the views beside it."""
    sample = sample_of(peek)
    names = set() if sample is None else set(sample.names)
    return 97 if any(known <= names for known in (_COLUMNS, *_BESIDE)) else 0


def read(source: Source, intake: Intake) -> None:
    """One episode per row."""
    peek = peek_at(source)
    sample = sample_of(peek)
    if sample is None or not set(sample.names) >= _COLUMNS:
        raise Unreadable("not the episodes of an exported run; --to jsonl keeps its steps, and can be imported")
    for where, row in rows_of(source, peek, intake):
        row = {name: _unquoted(value) for name, value in row.items()}
        intake.expect(row)
        with intake.record(where):
            name = as_name(row.get("episode"))
            if not name or not as_name(row.get("task")):
                raise Unreadable("the row has no episode or no task")
            content = digest(*(f"{k}={_plain(row.get(k))}" for k in sorted(_COLUMNS - {"by", "trace_id"})))
            with intake.trace(name, worldwide=True, content=content) as trace:
                _read_row(trace, row)


def _unquoted(value: Any) -> Any:
    """A cell as it was before a sign was put in front of what a spreadsheet would run."""
    return value[1:] if isinstance(value, str) and value[:1] == "'" and value[1:2] in tuple("=+-@\t\r\n") else value


def _plain(value: Any) -> str:
    """A value as both forms of the table have it: CSV writes numbers as words, and nothing as nothing."""
    number = as_float(value)
    return f"{number!r}" if number is not None else as_name(value)


def _read_row(trace: TraceBuilder, row: TableRow) -> None:
    trace.task, trace.agent = as_name(row["task"]), as_name(row.get("agent"))
    trace.condition = as_name(row.get("condition"))
    trace.attempt, trace.seed = as_int(row.get("attempt")), as_int(row.get("seed"))
    trace.outcome = _outcome(row)
    start, end = as_int(row.get("start_ns")), as_int(row.get("end_ns"))
    if start is not None and end is not None:
        trace.lasted(start, end)
    trace.meta = {
        **as_dict(row.get("meta")),
        OUTCOME_ONLY: True,
        **{field: as_int(row.get(field)) for field in TOKEN_FIELDS},
        "cost_usd": as_float(row.get("cost_usd")),
    }


def _outcome(row: TableRow) -> Outcome:
    reason, score = as_name(row.get("reason")), as_float(row.get("score"))
    if reason in REASONS:
        return Missing(reason)  # type: ignore[arg-type]
    if score is None:
        raise Unreadable("the row has neither a score nor a reason why it is missing")
    return Scored(score, as_name(row.get("by")))
