"""Labels in a CSV: its rows, and the trace of each row."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from ethogram.errors import BadUsage, NotFound
from ethogram.store import Entry

from .value_source import source_names

LabelRow = dict[str, str]
Finder = Callable[[LabelRow], tuple[Entry | None, str | None]]
VALUE, OUTCOME = "value", "outcome"
_KEYS = ("trace", "source", "task")
_COLUMNS = "either 'trace', or 'source', or 'task' and 'attempt'; and"


def csv_rows(path: Path, column: str | None = None) -> Iterator[tuple[str, LabelRow]]:
    """Rows with their places and what `column` says as `value`; a file that cannot be labels is refused as a whole.

    By default that column is `value`, or `outcome` where there is no `value`.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.DictReader(stream)
            fields = reader.fieldnames or []
            column = column or (OUTCOME if OUTCOME in fields and VALUE not in fields else VALUE)
            if column not in fields or not set(_KEYS) & {*fields} - {column}:
                raise BadUsage(
                    f"{path.name} has the columns {', '.join(fields) or 'none'}; labels need {_COLUMNS} {column!r}",
                    where=str(path),
                )
            for row in reader:
                clean = {k: (v or "").strip() for k, v in row.items() if k}
                yield f"{path.name} line {reader.line_num}", {**clean, VALUE: clean[column]}
    except OSError as error:
        raise NotFound(f"no CSV file at {str(path)!r}: {error.strerror}", where=str(path)) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise BadUsage(f"{path.name} is not a CSV file: {error}", where=str(path)) from None


def trace_finder(entries: Sequence[Entry]) -> Finder:
    """A function from a row to its trace: none, exactly one, or the reason why it is ambiguous."""
    by_task: dict[tuple[str, str], list[Entry]] = {}
    by_source: dict[str, list[Entry]] = {}
    ids = [(e.head.trace_id.removeprefix("b2:"), e) for e in entries]
    exact = dict(ids)
    for entry in entries:
        by_task.setdefault((entry.head.task, str(entry.head.attempt)), []).append(entry)
        by_task.setdefault((entry.head.task, ""), []).append(entry)
        for name in source_names(entry.head):
            by_source.setdefault(name, []).append(entry)

    def find(row: LabelRow) -> tuple[Entry | None, str | None]:
        wanted = row.get("trace", "").removeprefix("b2:")
        if wanted:
            found = [exact[wanted]] if wanted in exact else [e for trace, e in ids if trace.startswith(wanted)]
        elif "task" not in row:
            found = by_source.get(row.get("source", ""), [])
        else:
            found = by_task.get((row["task"], row.get("attempt", "")), [])
            found = [
                e for e in found if all(row.get(k, "") in ("", getattr(e.head, k)) for k in ("condition", "agent"))
            ]
        if len(found) > 1:
            return None, f"{len(found)} traces fit; add the attempt, the condition or the trace"
        return (found[0] if found else None), None

    return find
