"""SQL over the lake, from the library."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any, ClassVar

from ethogram.arguments import at_least
from ethogram.arrays import arrow_table
from ethogram.display import Drawing, Presentation
from ethogram.measures.metrics import metrics
from ethogram.reading.outcomes import episode_metrics
from ethogram.result import Result
from ethogram.store import Home, Lake, Run, home_of


class QueryResult(Result, kw_only=True):
    """Rows that answer a query; `more` says that the limit cut them."""

    presentation: ClassVar[Presentation] = Presentation(
        title="", facts=(), hidden=("columns", "records", "more"), drawing=Drawing(kind="bars")
    )

    columns: list[str]
    records: list[dict[str, Any]]
    more: bool = False

    def rows(self) -> list[dict[str, Any]]:
        """The rows."""
        return self.records


def sql(
    query: str, *, runs: Sequence[str] | None = None, home: Home | str | None = None, limit: int | None = None
) -> QueryResult:
    """The answer to one SELECT over `runs`, `episodes`, `spans`, `texts`, `labels`, `messages`, `metrics`.

    `metrics` has what `compare` reads of each episode, `episodes` what its log recorded. `runs` limits it to some runs,
    `limit` the rows that are returned. Raises `BadUsage` for a query that DuckDB refuses or that is more than a
    SELECT.

    Example: `sql("SELECT task, avg(score) FROM episodes GROUP BY task").to_df()`
    """
    if limit is not None:
        at_least("limit", limit)
    table = arrow(query, runs=runs, home=home, limit=limit)
    more = limit is not None and table.num_rows > limit
    if more:
        table = table.slice(0, limit)
    table = table.rename_columns(_unlike(table.column_names))
    records = [{name: _plain(value) for name, value in row.items()} for row in table.to_pylist()]
    return QueryResult(columns=table.column_names, records=records, more=more)


def _unlike(names: Sequence[str]) -> list[str]:
    """Column names that a record can hold: of two that are the same, the second gets a number."""
    found: list[str] = []
    for name in names:
        number, plain = 1, name
        while name in found:
            name, number = f"{plain}_{number}", number + 1
        found.append(name)
    return found


def _plain(value: Any) -> Any:
    """A value that JSON can say: sums of integers come as decimals, ratios as NaN, times in pandas' own kind."""
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, datetime) and type(value) is not datetime:
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == int(value) else float(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value


def arrow(
    query: str, *, runs: Sequence[str] | None = None, home: Home | str | None = None, limit: int | None = None
) -> Any:
    """The same as an Arrow table."""
    lake = home_of(home)
    chosen = [lake.resolve(r) for r in runs] if runs else list(lake.runs())
    return Lake(chosen, MORE_VIEWS).sql(query, limit)


def _metrics(runs: Sequence[Run]) -> Any:

    return metric_table(runs)


MORE_VIEWS: Mapping[str, Callable[[Sequence[Run]], Any]] = MappingProxyType({"metrics": _metrics})
"""Views of what follows from the lake, beside those of what it holds."""


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
