"""Queries on the lake: SQL through DuckDB, in place, and columns as Arrow for the library.

Views: `runs`, `episodes`, `spans`, `texts`, `labels`, `messages`, and those that a caller adds. Only what the ledger
commits is visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from hashlib import blake2b
from types import MappingProxyType
from typing import Any

import msgspec

from ethogram.arrays import column
from ethogram.errors import BadUsage, Damaged, NotFound, Sealed, first_line

from . import episode_view, ledger, span_view
from .entry import DataFile
from .files import LocalFiles, ObjectFiles
from .numbered import REFERENCES, addressed, addresses, numbered_schema
from .scan import list_of, literal, quote, scan
from .segment import SPAN_COLUMNS, damage, open_parquet, open_texts, span_schema, text_schema
from .stored_run import Run
from .tables import label_table, run_table

TEXT_ROWS = 256
SPAN_BATCH = 1 << 17
MOST_WORDS = 1000
"""Characters of a refusal of DuckDB; a function may have many candidates."""
Where = Callable[[Any], Any]
_RUN = "string_split(filename, '/')[-2]"
"""The run of a segment: the folder that it lies in."""
_TEXTS = f"SELECT {_RUN} AS run, * FROM {{}}"
VIEWS = ("runs", "episodes", "spans", "texts", "labels", "messages")
_NONE: Mapping[str, Any] = MappingProxyType({})

_MESSAGES = """
SELECT run, trace_id, span_id, seq, part, position, ref,
  -- a filter on the role may be tried on every text before the join: not all of them are JSON
  CASE WHEN json_valid(body) THEN json_extract_string(body, '$.role') END AS role, body
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
) JOIN (SELECT run, ref, body FROM texts) USING (run, ref)
"""


class Lake:
    """A read-only window on some runs."""

    def __init__(self, runs: Iterable[Run], more: Mapping[str, Callable[[Sequence[Run]], Any]] = _NONE) -> None:
        """`runs` are looked at when a view needs them; `more` makes the Arrow tables of further views by name."""
        self.runs = list(runs)
        self.more = more
        self.views = (*VIEWS, *more)

    def sql(self, query: str, limit: int | None = None) -> Any:
        """The answer to one SELECT as an Arrow table; with a limit, one extra row shows that more exist."""
        if limit is not None and limit < 0:
            raise BadUsage(f"a limit of {limit} rows makes no sense; give 0 or more")
        with closing(self._connect()) as connection:
            statement, named = _understood(connection, query)
            readable = self._views(connection, named & set(self.views))
            _lock(connection, readable)
            return _run(connection, statement, limit, self.views)

    def spans(self, columns: Sequence[str], where: Where | None = None) -> Iterator[Any]:
        """Batches of span columns of every committed trace, read straight from the segments.

        This is the fast road for analyses: no SQL, no copy, bounded memory. `where` gets a batch of these columns
        (references to texts may be numbers in it) and gives an Arrow array that is true for the rows to keep.
        """
        _check_columns(columns)
        for run in self.runs:
            gone: dict[str, list[str]] = {}
            for name, trace in run.standing.dead:
                gone.setdefault(name, []).append(trace)
            for file in run.standing.named("spans-"):
                with damage(f"{file.name} of run {run.name!r}"), _open_named(run, file) as source:
                    batches = _rows(source, file, columns, gone.get(file.name, ()))
                    if where is not None:
                        batches = (b.filter(where(b)) for b in batches)
                    yield from batches if file.refers_to is None else _addressed(run, file, columns, batches)

    def texts(self, segments: Sequence[str] | None = None) -> Iterator[Any]:
        """Batches of texts, each text of a run once, read straight from the segments (those that are named, if any are)
        in bounded memory."""
        import pyarrow as pa

        for run in self.runs:
            held, seen = run.standing.named("texts-"), set[str]()
            held = [file for file in held if segments is None or file.name in segments]
            for file in held:
                key = _key(run, file)
                with (
                    damage(f"{file.name} of run {run.name!r}"),
                    run.files.open(f"{run.path}/{file.name}") as source,
                ):
                    for batch in open_texts(source, key).iter_batches(batch_size=TEXT_ROWS, use_threads=False):
                        if len(held) > 1:  # two writers may both have written a text
                            refs = batch.column("ref").to_pylist()
                            batch = batch.filter(column([r not in seen for r in refs], pa.bool_()))
                            seen.update(refs)
                        yield batch

    def distinct(self, *columns: str) -> list[set[Any]]:
        """The values that occur in text columns of committed spans, one set per column."""
        _check_columns(columns)
        found: list[set[Any]] = [set() for _ in columns]
        for run in self.runs:
            # where some traces do not count, rows must be looked at; else the files' own dictionaries say it all
            exact = run.episodes().replaced or not set(columns).isdisjoint(REFERENCES)
            rows = _distinct(run, columns) if exact else _dictionaries(run, columns)
            for batch in rows:
                for seen, values in zip(found, batch, strict=True):
                    seen.update(v for v in values.to_pylist() if v is not None)
        return found

    def columns(self, *columns: str) -> Any:
        """Span columns of all committed traces as one Arrow table."""
        import pyarrow as pa

        _check_columns(columns)
        wanted = pa.schema([span_schema().field(c) for c in columns])
        return pa.Table.from_batches(self.spans(columns), schema=wanted)

    def _connect(self) -> Any:
        connection = _connection()
        registered = set()
        for run in self.runs:
            if isinstance(run.files, ObjectFiles) and run.files.protocol not in registered:
                connection.register_filesystem(run.files.fsspec_system())
                registered.add(run.files.protocol)
        return connection

    def _views(self, connection: Any, wanted: set[str]) -> list[str]:
        """Define the views that a query names; the others would cost reading for nothing. Gives the files they need."""
        if "messages" in wanted:
            wanted |= {"spans", "texts"}
        makers: dict[str, Callable[[], Any]] = {
            "runs": lambda: run_table(self.runs),
            "labels": lambda: label_table(self.runs),
            **{name: partial(make, self.runs) for name, make in self.more.items()},
        }
        for name, make in makers.items():
            if name in wanted:
                connection.register(name, make())
        readable: list[str] = []
        if "episodes" in wanted:
            query, readable = episode_view.define_episodes(connection, self.runs)
            _define(connection, "episodes", query)
        if "spans" in wanted:
            query, urls = span_view.define_spans(connection, self.runs)
            readable += urls
            _define(connection, "spans", query)
        if "texts" in wanted:
            _define(connection, "texts", self._texts_sql(connection, readable))
        if "messages" in wanted:
            _define(connection, "messages", _MESSAGES)
        return readable

    def _texts_sql(self, connection: Any, readable: list[str]) -> str:
        """Every text of a run once: two writers may both have written it, and a join must not count it twice."""
        single: list[str] = []
        several: list[str] = []
        parts: list[str] = []
        repeated: list[str] = []
        for run in self.runs:
            held = run.visible.named("texts-")
            urls = _urls(run, [f for f in held if f.key is None])
            readable.extend(urls)
            (single if len(held) == 1 else several).extend(urls)
            sealed = [_sealed(connection, run, f) for f in held if f.key is not None]
            (parts if len(held) == 1 else repeated).extend(sealed)
        if single:
            parts.append(_TEXTS.format(scan(single)))
        if several:
            repeated.append(_TEXTS.format(scan(several)))
        if repeated:
            every = " UNION ALL ".join(repeated)
            first = f"SELECT run, ref, min(filename) AS filename FROM ({every}) GROUP BY run, ref"
            parts.append(f"SELECT t.* FROM ({every}) AS t JOIN ({first}) AS f USING (run, ref, filename)")
        if not parts:
            connection.register("_no_texts", text_schema().empty_table())
            return "SELECT ''::VARCHAR AS run, * FROM _no_texts"
        return f"SELECT * EXCLUDE (filename) FROM ({' UNION ALL '.join(parts)})"


def _sealed(connection: Any, run: Run, file: DataFile) -> str:
    """A sealed segment, opened by Arrow: DuckDB opens one too, but fails as soon as a filter lets it skip a page."""
    import pyarrow.dataset as ds
    import pyarrow.parquet.encryption as pe

    key = _key(run, file)
    scanning = ds.ParquetFragmentScanOptions(decryption_properties=pe.create_decryption_properties(footer_key=key))
    source = ds.dataset(
        _handle(run, f"{run.path}/{file.name}"),
        schema=text_schema(),
        format=ds.ParquetFileFormat(default_fragment_scan_options=scanning),
        **_system(run),
    )
    name = f"_sealed_{blake2b(run.files.url(f'{run.path}/{file.name}').encode(), digest_size=8).hexdigest()}"
    connection.register(name, source)
    return f"SELECT {quote(run.name)} AS run, *, {quote(file.name)} AS filename FROM {name}"


def _key(run: Run, file: DataFile) -> bytes | None:
    try:
        return run.keys.get(file.key) if file.key is not None else None
    except Sealed as error:
        raise Sealed(f"run {run.name!r}: {error}", key=error.key) from None


def _check_columns(columns: Iterable[str]) -> None:
    unknown = [c for c in columns if c not in SPAN_COLUMNS]
    if unknown:
        raise BadUsage(f"spans have no column {unknown[0]!r}; they have: {', '.join(SPAN_COLUMNS)}")


def _open_named(run: Run, file: DataFile) -> Any:
    """A file that the ledger names, so that it must be there."""
    try:
        return run.files.open(f"{run.path}/{file.name}")
    except NotFound as error:
        raise Damaged(f"{error}, and the ledger names it; run: ethogram verify", where=file.name) from None


def _rows(source: Any, file: DataFile, columns: Sequence[str], gone: Sequence[str]) -> Iterator[Any]:
    """Batches of these columns, without the traces that are gone; nulls where an earlier version had no such column.

    Without `pyarrow.dataset`, which imports pandas where that is installed.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    schema = span_schema() if file.refers_to is None else numbered_schema()
    wanted = pa.schema([schema.field(c) for c in columns])
    read = list(columns) if not gone or "trace_id" in columns else [*columns, "trace_id"]
    dead = column(sorted(gone), pa.string())
    for batch in open_parquet(source).iter_batches(batch_size=SPAN_BATCH, columns=read, use_threads=False):
        if gone:
            batch = batch.filter(pc.invert(pc.is_in(batch.column("trace_id"), value_set=dead)))
        arrays = [
            batch.column(f.name).cast(f.type) if f.name in batch.schema.names else pa.nulls(batch.num_rows, f.type)
            for f in wanted
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=wanted)


def _addressed(run: Run, file: DataFile, columns: Sequence[str], batches: Iterator[Any]) -> Iterator[Any]:
    """Batches of a numbered segment with addresses, in columns that have any."""
    import pyarrow as pa

    if set(columns).isdisjoint(REFERENCES):
        yield from batches
        return
    names = addresses(run.files, run.path, file.name, str(file.refers_to))
    wanted = pa.schema([span_schema().field(c) for c in columns])
    for batch in batches:
        yield from addressed(pa.Table.from_batches([batch]), names).cast(wanted).to_batches()


def _distinct(run: Run, columns: Sequence[str]) -> Iterator[list[Any]]:
    """The values of these columns in spans that count, a batch at a time."""
    return ([values.unique() for values in batch] for batch in Lake([run]).spans(columns))


def _dictionaries(run: Run, columns: Sequence[str]) -> Iterator[list[Any]]:
    """The dictionaries of these columns, a row group at a time."""
    for file in ledger.named(run.episodes().files, "spans-"):
        with damage(f"{file.name} of run {run.name!r}"):
            opened = open_parquet(run.files.open(f"{run.path}/{file.name}"), dictionaries=columns)
            for group in range(opened.num_row_groups):
                table = opened.read_row_group(group, columns=list(columns), use_threads=False)
                yield [table.column(c).unify_dictionaries().chunk(0).dictionary for c in columns]


def _handle(run: Run, file: str) -> str:
    if isinstance(run.files, LocalFiles):
        return str(run.files.root / file)
    assert isinstance(run.files, ObjectFiles)
    return f"{run.files.base}/{file}"


def _system(run: Run) -> dict[str, Any]:
    return {"filesystem": run.files.fs} if isinstance(run.files, ObjectFiles) else {}


def _connection() -> Any:
    """A fresh DuckDB that installs nothing and looks at no variable of the program around it."""
    import duckdb

    names = ("autoinstall_known_extensions", "autoload_known_extensions", "python_enable_replacements")
    return duckdb.connect(config=dict.fromkeys(names, "false"))


def _understood(connection: Any, query: str) -> tuple[str, set[str]]:
    """The one SELECT of a query and the tables that it names: parsed only, so no file is touched."""
    import duckdb

    if not isinstance(query, str):
        raise BadUsage.about("query", f"must be a text, not {query!r}", query)
    try:
        statements = connection.extract_statements(query)
    except duckdb.Error as error:
        raise BadUsage(f"the query cannot be parsed: {_all_words(error)}") from None
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise BadUsage("give exactly one SELECT: the lake is read only")
    text = str(statements[0].query)
    ((tree,),) = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [text]).fetchall()
    return text, {name.lower() for name in _tables(msgspec.json.decode(tree))}


def _tables(tree: Any) -> Iterator[str]:
    """Names of tables in a syntax tree; one that a CTE defines is among them, which costs a view for nothing."""
    if isinstance(tree, dict):
        if tree.get("type") == "BASE_TABLE":
            yield str(tree.get("table_name"))
        tree = list(tree.values())
    if isinstance(tree, list):
        for below in tree:
            yield from _tables(below)


def _define(connection: Any, view: str, query: str) -> None:
    import duckdb

    try:
        connection.execute(f"CREATE TEMP VIEW {view} AS {query}")
    except duckdb.Error as error:
        raise Damaged(
            f"the segments behind {view!r} cannot be read ({first_line(error, 300)}); run: ethogram verify",
            where=view,
        ) from None


def _lock(connection: Any, readable: Sequence[str]) -> None:
    """From here on the connection reads the files behind the views, and nothing else anywhere."""
    if readable:
        paths = sorted({*readable, *map(literal, readable)})
        connection.execute(f"SET allowed_paths = {list_of(paths)}")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _run(connection: Any, query: str, limit: int | None, views: Sequence[str]) -> Any:
    import duckdb

    try:
        relation = connection.sql(query)
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
        raise _refusal(error, views) from None


def _refusal(error: BaseException, views: Sequence[str]) -> BadUsage:
    """One sentence for a query that cannot be answered."""
    told = _all_words(error)
    if told.startswith("Permission Error"):
        return BadUsage(f"a query reads the views {', '.join(views)} and nothing else: no file, no address, no setting")
    return BadUsage(f"the query failed: {told}; views: {', '.join(views)}")


def _all_words(error: BaseException) -> str:
    """What DuckDB says, with the columns and functions that it proposes, in one line; the query follows there."""
    words = " ".join(str(error).partition("\n\nLINE ")[0].split())
    if "Table with name" in words:  # it proposes tables of its own: views that a query does not name are not defined
        words = words.partition(" Did you mean")[0]
    return words[:MOST_WORDS]


def _urls(run: Run, files: Sequence[DataFile]) -> list[str]:
    return [run.files.url(f"{run.path}/{f.name}") for f in files]
