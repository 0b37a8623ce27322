"""The small tables of the lake, built from ledgers and labels; and the columns of every view."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ethogram.arrays import arrow_table, rows_table
from ethogram.traces import TOKEN_FIELDS, Missing, Scored

from .entry import Entry
from .stored_run import Run

_LABEL_NAMES = ("trace_id", "span_id", "name", "by", "source", "why", "version", "words")


def _run_schema() -> Any:
    import pyarrow as pa

    kinds = [("run", pa.string()), ("kind", pa.string()), ("created_ns", pa.int64())]
    return pa.schema([*kinds, ("tags", pa.list_(pa.string())), ("episodes", pa.int64()), ("success_at", pa.float64())])


def _label_schema() -> Any:
    import pyarrow as pa

    named = [(n, pa.string()) for n in ("run", *_LABEL_NAMES)]
    return pa.schema([*named, ("value", pa.float64()), ("text", pa.string())])


def run_table(runs: Iterable[Run]) -> Any:
    """Runs as an Arrow table."""

    rows = [
        {
            "run": r.name,
            "kind": r.info.kind,
            "created_ns": r.info.created_ns,
            "tags": list(r.info.tags),
            "episodes": len(r.entries) + sum(map(len, r.batches)),
            "success_at": r.success_at,
        }
        for r in runs
    ]
    return rows_table(rows, _run_schema())


def label_table(runs: Iterable[Run]) -> Any:
    """Labels as an Arrow table: numbers and verdicts in `value`, words in `text`."""

    rows = [
        {
            "run": run.name,
            **{n: getattr(label, n) for n in _LABEL_NAMES},
            "value": float(label.value) if isinstance(label.value, bool | int | float) else None,
            "text": label.value if isinstance(label.value, str) else None,
        }
        for run in runs
        for label in run.labels()
    ]
    return rows_table(rows, _label_schema())


def episode_schema() -> Any:
    """The columns of `episodes`."""
    import pyarrow as pa

    strings = ("run", "episode", "trace_id", "task", "condition", "agent", "by", "reason", "answer", "format", "source")
    integers = ("attempt", "start_ns", "end_ns", "spans", "steps", "model_calls", "tool_calls", "errors", *TOKEN_FIELDS)
    return pa.schema(
        [
            *((n, pa.string()) for n in strings),
            ("seed", pa.uint64()),
            ("score", pa.float64()),
            *((n, pa.int64()) for n in integers),
            ("cost_usd", pa.float64()),
            ("meta", pa.string()),
            ("words", pa.string()),
            ("forgotten", pa.string()),
        ]
    )


def episode_table(entries: Iterable[tuple[str, Entry]]) -> Any:
    """Committed episodes as an Arrow table: one row each, outcome and totals flat."""
    schema = episode_schema()
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    for run, entry in entries:
        head, totals, outcome = entry.head, entry.totals, entry.head.outcome
        values: dict[str, Any] = {
            "run": run,
            "by": outcome.by if isinstance(outcome, Scored) else None,
            "reason": outcome.reason if isinstance(outcome, Missing) else None,
            "score": outcome.value if isinstance(outcome, Scored) else None,
            "format": head.origin.format if head.origin else None,
            "source": head.origin.name if head.origin else None,
            "meta": msgspec.json.encode(head.meta).decode() if head.meta else None,
            "words": msgspec.json.encode(head.words).decode() if head.words else None,
            "forgotten": entry.forgotten,
        }
        for name, column in columns.items():
            if name in values:
                column.append(values[name])
            else:
                column.append(_fitting(name, getattr(head if hasattr(head, name) else totals, name)))
    return arrow_table(columns, schema)


def _fitting(name: str, value: Any) -> Any:
    """A value that its column can hold: a foreign seed may be negative, a foreign count absurd."""
    if isinstance(value, int):
        low, high = (0, 1 << 64) if name == "seed" else (-(1 << 63), 1 << 63)
        return value if low <= value < high else None
    return value
