"""Questions to the lake: SQL through DuckDB, in place, and columns as Arrow for the library.

Views: `runs`, `episodes`, `spans`, `texts`, `labels`, `messages`. Only what the ledger commits is visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any

from ethogram.errors import BadUsage, Sealed
from ethogram.trace import TOKEN_FIELDS, Missing, Scored

from .files import LocalFiles, ObjectFiles
from .lake import Run
from .ledger import Entry
from .segment import SPAN_COLUMNS, span_schema, text_schema

VIEWS = ("runs", "episodes", "spans", "texts", "labels", "messages")

_MESSAGES = """
SELECT run, trace_id, span_id, seq, part, position, ref, json_extract_string(body, '$.role') AS role, body
FROM (
  SELECT * FROM (
    SELECT run, trace_id, span_id, seq, 'input' AS part, unnest(input) AS ref, generate_subscripts(input, 1) AS position
    FROM spans WHERE len(input) > 0
  ) ANTI JOIN (
    SELECT run, trace_id, unnest(output) AS ref FROM spans WHERE kind <> 'model' AND len(output) > 0
  ) USING (run, trace_id, ref)
  UNION ALL
  SELECT run, trace_id, span_id, seq, 'output', unnest(output), generate_subscripts(output, 1)
  FROM spans WHERE len(output) > 0
) JOIN (SELECT DISTINCT ON (run, ref) run, ref, body FROM texts) USING (run, ref)
"""


class Lake:
    """A read-only window on some runs."""

    def __init__(self, runs: Iterable[Run]) -> None:
        """`runs` are looked at when a view needs them."""
        self.runs = list(runs)

    def sql(self, query: str, limit: int | None = None) -> Any:
        """The answer to one SELECT as an Arrow table."""
        with closing(self._connect()) as connection:
            statement = _only_select(connection, query)
            self._views(connection, _tables(connection, statement))
            _lock(connection, self.runs)
            return _run(connection, statement, limit)

    def spans(self, columns: Sequence[str], where: Any = None) -> Iterator[Any]:
        """Batches of span columns of every committed trace, read straight from the segments.

        This is the fast road for analyses: no SQL, no copy, bounded memory. `where` is a pyarrow expression.
        """
        import pyarrow.dataset as ds

        for run in self.runs:
            files = [f"{run.path}/{f.name}" for f in run.standing.files if f.name.startswith("spans-")]
            if not files:
                continue
            dead = run.standing.dead
            for file in files:
                source = ds.dataset(_handle(run, file), schema=span_schema(), format="parquet", **_system(run))
                gone = [trace for name, trace in dead if file.endswith("/" + name)]
                keep = where
                if gone:
                    alive = ~ds.field("trace_id").isin(gone)
                    keep = alive if keep is None else keep & alive
                yield from source.to_batches(columns=list(columns), filter=keep)

    def columns(self, *columns: str) -> Any:
        """Span columns of all committed traces as one Arrow table."""
        import pyarrow as pa

        unknown = [c for c in columns if c not in SPAN_COLUMNS]
        if unknown:
            raise BadUsage(f"spans have no column {unknown[0]!r}; they have: {', '.join(SPAN_COLUMNS)}")
        wanted = pa.schema([span_schema().field(c) for c in columns])
        return pa.Table.from_batches(self.spans(columns), schema=wanted)

    def _connect(self) -> Any:
        import duckdb

        connection = duckdb.connect(
            config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"}
        )
        registered = set()
        for run in self.runs:
            if isinstance(run.files, ObjectFiles) and run.files.protocol not in registered:
                connection.register_filesystem(run.files.fsspec_system())
                registered.add(run.files.protocol)
        return connection

    def _views(self, connection: Any, wanted: set[str]) -> None:
        """Define the views that a query names; the others would cost reading for nothing."""
        if "messages" in wanted:
            wanted |= {"spans", "texts"}
        makers: dict[str, Callable[[], Any]] = {
            "runs": self._runs_table,
            "episodes": self._episodes_table,
            "labels": self._labels_table,
        }
        for name, make in makers.items():
            if name in wanted:
                connection.register(name, make())
        if "spans" in wanted:
            connection.execute(f"CREATE TEMP VIEW spans AS {self._spans_sql(connection)}")
        if "texts" in wanted:
            connection.execute(f"CREATE TEMP VIEW texts AS {self._texts_sql(connection)}")
        if "messages" in wanted:
            connection.execute(f"CREATE TEMP VIEW messages AS {_MESSAGES}")

    def _spans_sql(self, connection: Any) -> str:
        import pyarrow as pa

        parts: list[str] = []
        dead: list[tuple[str, str]] = []
        for run in self.runs:
            urls = [run.files.url(f"{run.path}/{f.name}") for f in run.standing.files if f.name.startswith("spans-")]
            if urls:
                parts.append(f"SELECT {_quote(run.name)} AS run, * FROM read_parquet({_list(urls)}, filename=true)")
            dead.extend((run.files.url(f"{run.path}/{name}"), trace) for name, trace in run.standing.dead)
        if not parts:
            connection.register("_no_spans", span_schema().empty_table())
            return "SELECT ''::VARCHAR AS run, * FROM _no_spans"
        union = " UNION ALL ".join(parts)
        if not dead:
            return f"SELECT * EXCLUDE (filename) FROM ({union})"
        table = pa.table({"filename": [d[0] for d in dead], "trace_id": [d[1] for d in dead]})
        connection.register("_dead", table)
        return (
            f"SELECT * EXCLUDE (filename) FROM ({union}) AS s WHERE NOT EXISTS "
            "(SELECT 1 FROM _dead AS d WHERE d.filename = s.filename AND d.trace_id = s.trace_id)"
        )

    def _texts_sql(self, connection: Any) -> str:
        parts = []
        for run in self.runs:
            groups: dict[str | None, list[str]] = {}
            for file in run.standing.files:
                if file.name.startswith("texts-"):
                    groups.setdefault(file.key, []).append(run.files.url(f"{run.path}/{file.name}"))
            for key, urls in groups.items():
                sealed = ""
                if key is not None:
                    name = _register_key(connection, key, run)
                    sealed = f", encryption_config={{footer_key: {_quote(name)}}}"
                parts.append(f"SELECT {_quote(run.name)} AS run, * FROM read_parquet({_list(urls)}{sealed})")
        if not parts:
            connection.register("_no_texts", text_schema().empty_table())
            return "SELECT ''::VARCHAR AS run, * FROM _no_texts"
        return " UNION ALL ".join(parts)

    def _runs_table(self) -> Any:
        import pyarrow as pa

        rows = [
            {
                "run": r.name,
                "kind": r.info.kind,
                "created_ns": r.info.created_ns,
                "tags": list(r.info.tags),
                "episodes": len(r.entries),
            }
            for r in self.runs
        ]
        kinds = [("run", pa.string()), ("kind", pa.string()), ("created_ns", pa.int64())]
        return pa.Table.from_pylist(
            rows, pa.schema([*kinds, ("tags", pa.list_(pa.string())), ("episodes", pa.int64())])
        )

    def _episodes_table(self) -> Any:
        return episode_table((r.name, e) for r in self.runs for e in r.entries)

    def _labels_table(self) -> Any:
        import pyarrow as pa

        names = ("trace_id", "span_id", "name", "by", "source", "why", "version")
        schema = pa.schema(
            [("run", pa.string()), *((n, pa.string()) for n in names), ("value", pa.float64()), ("text", pa.string())]
        )
        rows = [
            {
                "run": run.name,
                **{n: getattr(label, n) for n in names},
                "value": float(label.value) if isinstance(label.value, bool | int | float) else None,
                "text": label.value if isinstance(label.value, str) else None,
            }
            for run in self.runs
            for label in run.labels()
        ]
        return pa.Table.from_pylist(rows, schema)


def episode_table(entries: Iterable[tuple[str, Entry]]) -> Any:
    """Committed episodes as an Arrow table: one row each, outcome and totals flat."""
    import msgspec
    import pyarrow as pa

    strings = ("run", "episode", "trace_id", "task", "condition", "agent", "by", "reason", "answer", "format", "source")
    integers = ("attempt", "start_ns", "end_ns", "spans", "steps", "model_calls", "tool_calls", "errors", *TOKEN_FIELDS)
    schema = pa.schema(
        [
            *((n, pa.string()) for n in strings),
            ("seed", pa.uint64()),
            ("score", pa.float64()),
            *((n, pa.int64()) for n in integers),
            ("cost_usd", pa.float64()),
            ("meta", pa.string()),
            ("forgotten", pa.string()),
        ]
    )
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
            "forgotten": entry.forgotten,
        }
        for name, column in columns.items():
            column.append(
                values[name]
                if name in values
                else getattr(head, name, None)
                if hasattr(head, name)
                else getattr(totals, name)
            )
    return pa.Table.from_arrays([pa.array(columns[f.name], f.type) for f in schema], schema=schema)


def _handle(run: Run, file: str) -> str:
    if isinstance(run.files, LocalFiles):
        return str(run.files.root / file)
    assert isinstance(run.files, ObjectFiles)
    return f"{run.files.base}/{file}"


def _system(run: Run) -> dict[str, Any]:
    return {"filesystem": run.files.fs} if isinstance(run.files, ObjectFiles) else {}


def _register_key(connection: Any, key: str, run: Run) -> str:
    import base64

    name = key.replace("-", "_")
    try:
        secret = base64.b64encode(run.keys.get(key)).decode()
    except Sealed as error:
        raise Sealed(f"run {run.name!r}: {error}") from None
    connection.execute(f"PRAGMA add_parquet_key({_quote(name)}, {_quote(secret)})")
    return name


def _only_select(connection: Any, query: str) -> Any:
    """The one statement of a query, which must be a SELECT."""
    import duckdb

    try:
        statements = connection.extract_statements(query)
    except duckdb.Error as error:
        raise BadUsage(f"the query cannot be parsed: {_first_line(error)}") from None
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise BadUsage("give exactly one SELECT: the lake is read only")
    return statements[0]


def _tables(connection: Any, statement: Any) -> set[str]:
    """Which of our views a statement names."""
    import duckdb

    try:
        named = {str(t).split(".")[-1].strip('"').lower() for t in connection.get_table_names(statement.query)}
    except duckdb.Error as error:
        raise BadUsage(f"the query cannot be understood: {_first_line(error)}") from None
    return named & set(VIEWS)


def _lock(connection: Any, runs: Sequence[Run]) -> None:
    """From here on the connection reads our runs and nothing else on this machine."""
    folders = sorted({str(run.files.root) for run in runs if isinstance(run.files, LocalFiles)})
    if folders:
        connection.execute(f"SET allowed_directories = {_list([f + '/' for f in folders])}")
    if all(isinstance(run.files, LocalFiles) for run in runs):
        connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _run(connection: Any, statement: Any, limit: int | None) -> Any:
    import duckdb

    try:
        relation = connection.sql(statement.query)
        if limit is None:
            return relation.to_arrow_table()
        import pyarrow as pa

        reader = relation.to_arrow_reader(max(1, min(limit + 1, 10_000)))
        batches, rows = [], 0
        for batch in reader:
            batches.append(batch)
            rows += batch.num_rows
            if rows > limit:
                break
        return pa.Table.from_batches(batches, schema=reader.schema).slice(0, limit + 1)
    except duckdb.Error as error:
        raise BadUsage(f"the query failed: {_first_line(error)}; views: {', '.join(VIEWS)}") from None


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0][:300]


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _list(texts: Sequence[str]) -> str:
    return "[" + ", ".join(_quote(t) for t in texts) + "]"
