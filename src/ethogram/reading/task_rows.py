"""One row for each task of a run: attempts, successes and missing outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from ethogram.store import Batch, Entry
from ethogram.store.batch import SCORED, SUCCESS, tally
from ethogram.traces import Scored

from .task_names import natural, task_name


class TaskRow(msgspec.Struct, kw_only=True):
    """One task of a run."""

    task: str
    attempts: int = 0
    scored: int = 0
    successes: int = 0
    mean: float | None = None
    missing: dict[str, int] = {}


def task_rows(entries: Iterable[Entry], batches: Iterable[Batch], success_at: float) -> list[TaskRow]:
    """The rows of all tasks, in natural order; batches hold episodes without a trace."""
    rows: dict[str, TaskRow] = {}
    sums: Counter[str] = Counter()
    for batch in batches:
        row, found = rows.setdefault(batch.task, TaskRow(task=batch.task)), tally([batch])
        row.attempts += len(batch)
        row.scored += found.pop(SCORED)
        row.successes += batch.outcomes.count(SUCCESS)
        row.mean = row.successes / row.scored if row.scored else None
        row.missing = dict(found + Counter(row.missing))
        sums[batch.task] = row.successes
    for entry in entries:
        task, outcome = task_name(entry.head), entry.head.outcome
        row = rows.setdefault(task, TaskRow(task=task))
        row.attempts += 1
        if isinstance(outcome, Scored):
            row.scored += 1
            row.successes += outcome.success(success_at)
            sums[task] += outcome.value  # type: ignore[assignment]
            row.mean = sums[task] / row.scored
        else:
            row.missing[outcome.reason] = row.missing.get(outcome.reason, 0) + 1
    return [rows[t] for t in sorted(rows, key=natural)]
