"""The `spans` view: DuckDB reads span segments in place; numbers become addresses in columns that a query asks for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ethogram.arrays import arrow_table

from .entry import DataFile
from .numbered import LISTS, SINGLE, address_lists_at, addresses, addresses_at
from .scan import scan
from .segment import SPAN_COLUMNS, span_schema
from .stored_run import Run

_RUN = "string_split(filename, '/')[-2]"
"""The run of a segment: the folder that it lies in."""
_NAMED, _NAMED_LISTS = "_text_address", "_text_addresses"


def define_spans(connection: Any, runs: Iterable[Run]) -> tuple[str, list[str]]:
    """The query behind the view, and the files that it reads; tables and functions that it needs are registered."""
    plain: list[str] = []
    numbered: dict[str, tuple[Run, DataFile]] = {}
    dead: list[tuple[str, str]] = []
    for run in runs:
        for file in run.visible.named("spans-"):
            url = run.files.url(f"{run.path}/{file.name}")
            if file.refers_to is None:
                plain.append(url)
            else:
                numbered[url] = (run, file)
        dead.extend((run.files.url(f"{run.path}/{name}"), trace) for name, trace in run.visible.dead)
    # one scan of all files: a thousand scans in a union take ten times as long to plan
    parts = [f"SELECT {_RUN} AS run, {', '.join(SPAN_COLUMNS)}, filename FROM {scan(plain)}"] if plain else []
    if numbered:
        _Addresses(numbered).register(connection)
        parts.append(f"SELECT {_RUN} AS run, {_columns()}, filename FROM {scan(list(numbered))}")
    if not parts:
        connection.register("_no_spans", span_schema().empty_table())
        return "SELECT ''::VARCHAR AS run, * FROM _no_spans", []
    every = f"SELECT * EXCLUDE (filename) FROM ({' UNION ALL '.join(parts)}) AS s"
    if dead:
        connection.register("_dead", _dead_table(dead))
        gone = "SELECT 1 FROM _dead AS d WHERE d.filename = s.filename AND d.trace_id = s.trace_id"
        every = f"{every} WHERE NOT EXISTS ({gone})"
    return every, [*plain, *numbered]


def _columns() -> str:
    """The columns of a numbered segment as the view has them."""
    made = {**{n: f"{_NAMED_LISTS}(filename, {n}) AS {n}" for n in LISTS}}
    made |= {n: f"{_NAMED}(filename, {n}) AS {n}" for n in SINGLE}
    return ", ".join(made.get(name, name) for name in SPAN_COLUMNS)


def _dead_table(dead: list[tuple[str, str]]) -> Any:
    import pyarrow as pa

    columns = {"filename": [d[0] for d in dead], "trace_id": [d[1] for d in dead]}
    return arrow_table(columns, pa.schema([(name, pa.string()) for name in columns]))


class _Addresses:
    """Two functions for DuckDB: the addresses behind numbers. What numbers stand for is read once for each segment."""

    def __init__(self, segments: dict[str, tuple[Run, DataFile]]) -> None:
        self._segments = segments
        self._known: dict[str, Any] = {}

    def register(self, connection: Any) -> None:
        for name, numbers, result, function in (
            (_NAMED, "INTEGER", "VARCHAR", addresses_at),
            (_NAMED_LISTS, "INTEGER[]", "VARCHAR[]", address_lists_at),
        ):
            connection.create_function(
                name, self._over_files(function), ["VARCHAR", numbers], result, type="arrow", null_handling="special"
            )

    def _over_files(self, function: Any) -> Any:
        import pyarrow as pa

        def call(urls: Any, numbers: Any) -> Any:
            """One vector of rows; those of one file stand together."""
            names, parts, start = _plain(urls).to_pylist(), [], 0
            numbers = _plain(numbers)
            for at in range(1, len(names) + 1):
                if at == len(names) or names[at] != names[start]:
                    parts.append(function(numbers.slice(start, at - start), self._of(names[start])))
                    start = at
            return pa.concat_arrays(parts)

        return call

    def _of(self, url: str) -> Any:
        if url not in self._known:
            run, file = self._segments[url]
            self._known[url] = addresses(run.files, run.path, file.name, str(file.refers_to))
        return self._known[url]


def _plain(column: Any) -> Any:
    """A column as one array, whatever came in."""
    import pyarrow as pa

    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
