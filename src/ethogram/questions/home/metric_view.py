"""The view `metrics` of `ethogram sql`: every metric of every episode, as `compare` reads it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ethogram.arrays import arrow_table
from ethogram.measures.metrics import metrics
from ethogram.reading.outcomes import episode_metrics
from ethogram.store import Run


def metric_table(runs: Iterable[Run]) -> Any:
    """An Arrow table: run, episode and trace of each row, and a column per metric, null where it is unknown."""
    import pyarrow as pa

    names = list(metrics())
    texts = ("run", "episode", "trace_id")
    columns: dict[str, list[Any]] = {name: [] for name in (*texts, *names)}
    for run in runs:
        figures = episode_metrics(run)
        inside = [f"{batch.id}:{i}" for batch in run.batches for i in range(len(batch))]
        columns["run"] += [run.name] * (len(run.entries) + len(inside))
        columns["episode"] += [*(e.head.episode for e in run.entries), *inside]
        columns["trace_id"] += [*(e.head.trace_id for e in run.entries), *([None] * len(inside))]
        for name in names:
            columns[name] += [None if value != value else value for value in figures[name].tolist()]
    return arrow_table(columns, pa.schema([*((t, pa.string()) for t in texts), *((n, pa.float64()) for n in names)]))
