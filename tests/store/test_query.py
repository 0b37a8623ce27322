"""Questions to the lake: every view, one SELECT and nothing else, odd names, sealed and unsealed runs together."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.compute as pc
import pytest

from ethogram.errors import BadUsage, Damaged
from ethogram.questions.home.queries import sql
from ethogram.store import VIEWS, Home, Keyring, Lake, Redactor
from ethogram.store.files import LocalFiles
from ethogram.traces import Missing, Scored


@pytest.fixture
def lake(home: Home, plain: Redactor, write_trace: Any) -> Lake:
    for name, tasks in (("one", 3), ("two", 2)):
        run = home.create(name, "import", tags=("t", name))
        with run.writer(plain, window=None) as writer:
            for n in range(tasks):
                outcome = Scored(n / 2, "test") if n < 2 else Missing("infrastructure.timeout", "it hung")
                write_trace(writer, f"{name}-{n}", steps=n + 1, task=f"task {n}", outcome=outcome, label=f"why {n}")
                writer.commit()
    return Lake(home.runs())


def rows(lake: Lake, query: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = lake.sql(query).to_pylist()
    return found


# -- views -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_has_the_same_columns_with_and_without_rows(lake: Lake, view: str) -> None:
    full, empty = lake.sql(f"SELECT * FROM {view}"), Lake([]).sql(f"SELECT * FROM {view}")
    assert full.num_rows > 0
    assert empty.num_rows == 0
    assert full.column_names == empty.column_names
    assert [str(t) for t in full.schema.types] == [str(t) for t in empty.schema.types]


def test_runs(lake: Lake) -> None:
    assert rows(lake, "SELECT run, kind, tags, episodes FROM runs") == [
        {"run": "one", "kind": "import", "tags": ["t", "one"], "episodes": 3},
        {"run": "two", "kind": "import", "tags": ["t", "two"], "episodes": 2},
    ]


def test_episodes(lake: Lake) -> None:
    query = """SELECT run, task, attempt, score, "by", reason, spans, steps, model_calls, tool_calls, errors,
        input_tokens, cache_read_tokens, format, source FROM episodes WHERE run = 'one' ORDER BY task"""
    found = rows(lake, query)
    assert [r["score"] for r in found] == [0.0, 0.5, None]
    assert [r["reason"] for r in found] == [None, None, "infrastructure.timeout"]
    assert [(r["spans"], r["steps"], r["model_calls"], r["tool_calls"]) for r in found] == [
        (3, 2, 1, 1),
        (5, 4, 2, 2),
        (7, 6, 3, 3),
    ]
    assert [r["errors"] for r in found] == [0, 0, 1]
    assert [r["input_tokens"] for r in found] == [10, 21, 33]
    assert {r["cache_read_tokens"] for r in found} == {None}  # the log never said, which is not zero
    assert found[0]["source"] == "one-0"


def test_spans_and_texts_join(lake: Lake) -> None:
    """The join that everybody writes first: by `using`, through a subquery, through a CTE."""
    queries = [
        "SELECT body FROM (SELECT run, result AS ref FROM spans WHERE kind = 'tool') JOIN texts USING (run, ref)",
        "SELECT t.body FROM spans s JOIN texts t ON t.run = s.run AND t.ref = s.result",
        "WITH r AS (SELECT run, result AS ref FROM spans) SELECT body FROM r JOIN texts USING (run, ref)",
        "SELECT body FROM texts WHERE (run, ref) IN (SELECT (run, result) FROM spans)",
        "SELECT (SELECT any_value(body) FROM texts t WHERE t.ref = s.result AND t.run = s.run) AS body "
        "FROM spans s WHERE s.result IS NOT NULL",
    ]
    found = [sorted(r["body"] for r in rows(lake, q)) for q in queries]
    assert len(found[0]) == 1 + 2 + 3 + 1 + 2
    assert all(f == found[0] for f in found)


def test_labels(lake: Lake) -> None:
    query = 'SELECT l.value, l.text, l."by", t.body FROM labels l JOIN texts t ON t.run = l.run AND t.ref = l.why'
    found = rows(lake, query)
    assert sorted(r["body"] for r in found) == ["why 0", "why 0", "why 1", "why 1", "why 2"]
    assert {(r["value"], r["text"], r["by"]) for r in found} == {(0.5, None, "a judge")}


def test_messages_are_those_of_the_trace(lake: Lake) -> None:
    trace = next(t for t in lake.runs[0].traces() if t.head.task == "task 2")
    found = rows(
        lake, f"SELECT ref, role FROM messages WHERE trace_id = '{trace.head.trace_id}' ORDER BY seq, part, position"
    )
    assert [r["role"] for r in found] == [m.role for m in trace.messages]
    assert [trace.message(r["ref"]) for r in found] == list(trace.messages)


def test_a_text_that_two_writers_stored_is_one_row(home: Home, plain: Redactor, write_trace: Any) -> None:
    run = home.create("run", "import")
    with run.writer(plain, window=None) as a, run.writer(plain, window=None) as b:
        write_trace(a, "a", words="the same")
        write_trace(b, "b", words="the same")
    lake = Lake([home.run("run")])
    (found,) = rows(lake, "SELECT count(*) AS all, count(DISTINCT ref) AS distinct_ FROM texts")
    assert found["all"] == found["distinct_"]
    joined = "SELECT count(*) AS n FROM spans s JOIN texts t ON t.ref = s.result WHERE s.kind = 'tool'"
    assert rows(lake, joined) == [{"n": 6}]


def test_columns_come_as_arrow(lake: Lake) -> None:
    table = lake.columns("kind", "name", "input_tokens")
    assert table.column_names == ["kind", "name", "input_tokens"]
    assert table.num_rows == rows(lake, "SELECT count(*) AS n FROM spans")[0]["n"] == 3 + 5 + 7 + 3 + 5
    only = sum(b.num_rows for b in lake.spans(["kind"], where=lambda b: pc.equal(b.column("kind"), "tool")))
    assert only == 9
    for ask in (lambda: lake.columns("kind", "colour"), lambda: list(lake.spans(["colour"]))):
        with pytest.raises(BadUsage, match="spans have no column 'colour'; they have: trace_id, span_id"):
            ask()


# -- one SELECT and nothing else -------------------------------------------------------------------------------------

FORBIDDEN = [
    "",
    "-- nothing",
    "SELECT 1; SELECT 2",
    "INSERT INTO runs VALUES (1)",
    "CREATE TABLE x AS SELECT 1",
    "DROP VIEW spans",
    "UPDATE runs SET kind = 'x'",
    "COPY (SELECT 1) TO '{tmp}/out.csv'",
    "COPY spans TO '{tmp}/out.parquet'",
    "EXPORT DATABASE '{tmp}/out'",
    "ATTACH '{tmp}/other.db'",
    "PRAGMA database_list",
    "PRAGMA add_parquet_key('a', 'b')",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "CALL pragma_version()",
    "BEGIN",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM read_blob('{home}/redaction.key')",
    "SELECT * FROM read_text('{home}/redaction.key')",
    "SELECT * FROM read_parquet('{tmp}/outside.parquet')",
    "SELECT * FROM '{tmp}/outside.parquet'",
    "SELECT * FROM read_json('{home}/runs/one/run.json')",
    "SELECT * FROM glob('{home}/*')",
    "SELECT * FROM parquet_metadata('{tmp}/outside.parquet')",
    "SELECT * FROM read_parquet('https://example.org/x.parquet')",
    "SELECT * FROM runs, read_csv('/etc/passwd')",
    "WITH x AS (SELECT * FROM read_text('/etc/passwd')) SELECT * FROM spans, x",
    "SELECT (SELECT any_value(content) FROM read_text('/etc/passwd')) FROM spans",
    "SELECT getenv('HOME')",
    "SELECT * FROM nonsense",
    "SELECT nonsense FROM spans",
    "SELECT FROM WHERE",
    "SELECT ?",
]


@pytest.mark.parametrize("query", FORBIDDEN)
def test_what_a_query_may_not_do(lake: Lake, home: Home, tmp_path: Path, query: str) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    home.redaction_key()
    pq.write_table(pa.table({"a": [1]}), tmp_path / "outside.parquet")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(BadUsage) as told:
        lake.sql(query.format(tmp=tmp_path, home=home.files.address))
    assert "\n" not in str(told.value)
    assert len(str(told.value)) < 500
    assert "root:" not in str(told.value)
    assert sorted(tmp_path.iterdir()) == before


def test_the_refusals_are_clear(lake: Lake) -> None:
    with pytest.raises(BadUsage, match=r"^give exactly one SELECT: the lake is read only$"):
        lake.sql("DROP VIEW spans")
    with pytest.raises(BadUsage, match=r"^a query reads the views runs, episodes, spans, .* and nothing else: no file"):
        lake.sql("SELECT * FROM read_csv('/etc/passwd')")
    with pytest.raises(BadUsage, match=r"the query failed: .*colour.*; views: runs, episodes"):
        lake.sql("SELECT colour FROM spans")
    with pytest.raises(BadUsage, match="the query cannot be parsed"):
        lake.sql("SELEKT 1")
    with pytest.raises(BadUsage, match=r'not found in FROM clause! Candidate bindings: "kind"[^\n]*; views'):
        lake.sql("SELECT\n  kin\nFROM spans")
    with pytest.raises(BadUsage, match=r"Table with name span does not exist!; views: runs, episodes, spans"):
        lake.sql("SELECT * FROM span")


def test_variables_of_the_program_are_not_tables(lake: Lake) -> None:
    import pyarrow as pa

    my_table = pa.table({"a": [1]})
    with pytest.raises(BadUsage, match="my_table"):
        lake.sql("SELECT * FROM my_table")
    assert my_table.num_rows == 1


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ("WITH spans AS (SELECT 5 AS a) SELECT * FROM spans", [{"a": 5}]),
        ("WITH runs AS (SELECT run FROM runs WHERE run = 'two') SELECT * FROM runs", [{"run": "two"}]),
        ("WITH texts AS (SELECT 1 AS n), s AS (SELECT count(*) AS n FROM runs) SELECT s.n FROM s, texts", [{"n": 2}]),
        ("SELECT run FROM RUNS ORDER BY 1 LIMIT 1", [{"run": "one"}]),
        ('SELECT run FROM "Runs" ORDER BY 1 LIMIT 1', [{"run": "one"}]),
        ("FROM runs SELECT count(*) AS n", [{"n": 2}]),
        ("SELECT count(*) AS n FROM (SELECT * FROM (SELECT run FROM episodes))", [{"n": 5}]),
        ("SELECT n FROM (VALUES (1), (2)) AS t(n) WHERE n > 1;", [{"n": 2}]),
        ("SELECT max(n) AS n FROM (SELECT run, count(*) AS n FROM spans GROUP BY ALL)", [{"n": 15}]),
        ("SELECT count(*) AS n FROM main.episodes", [{"n": 5}]),
        ("SELECT sum(spans) AS n FROM episodes /* spans texts */ WHERE task <> 'messages'", [{"n": 23}]),
        ("SELECT count(*) AS n FROM runs NATURAL JOIN episodes WHERE false", [{"n": 0}]),
    ],
)
def test_selects_of_all_shapes(lake: Lake, query: str, answer: list[dict[str, Any]]) -> None:
    assert rows(lake, query) == answer


def test_columns_chosen_by_pattern_and_description(lake: Lake) -> None:
    assert lake.sql("SELECT COLUMNS('.*_tokens') FROM spans").num_columns == 5
    assert lake.sql("DESCRIBE spans").num_rows == lake.sql("SELECT * FROM spans").num_columns


# -- limits and numbers ----------------------------------------------------------------------------------------------


def test_a_limit_tells_of_the_rest(lake: Lake, home: Home) -> None:
    query = "SELECT * FROM range(25000) AS t(n)"
    assert lake.sql(query).num_rows == 25_000
    for limit in (0, 1, 9, 10_000, 24_999, 25_000, 30_000):
        assert lake.sql(query, limit).num_rows == min(limit + 1, 25_000)
    answer = sql("SELECT run FROM runs ORDER BY 1", home=home, limit=1)
    assert (answer.records, answer.more) == ([{"run": "one"}], True)
    assert not sql("SELECT run FROM runs", home=home, limit=2).more
    with pytest.raises(BadUsage, match="a limit of -1 rows"):
        lake.sql("SELECT 1", limit=-1)


def test_numbers_that_json_cannot_say(home: Home) -> None:
    query = "SELECT 'nan'::DOUBLE AS a, '-inf'::DOUBLE AS b, 1.5::DECIMAL(5,2) AS c, 3::HUGEINT AS d, NULL AS e"
    answer = sql(query, home=home)
    assert answer.records == [{"a": None, "b": "-inf", "c": 1.5, "d": 3, "e": None}]
    assert "NaN" not in answer.to_json()


def test_foreign_numbers_that_no_column_holds(home: Home, plain: Redactor, write_trace: Any) -> None:
    run = home.create("run", "import")
    with run.writer(plain, window=None) as writer:
        for n, seed in enumerate((-1, 2**64 - 1, 2**64, 10**30, None)):
            sink = writer.trace(f"b2:{n}")  # type: ignore[arg-type]
            from ethogram.traces import Head

            head = Head(trace_id=f"b2:{n}", episode=f"e{n}", task="t", seed=seed, attempt=10**30, meta={"big": 10**30})  # type: ignore[arg-type]
            sink.finish(head, ())
    found = rows(Lake([home.run("run")]), "SELECT seed, attempt, meta FROM episodes ORDER BY trace_id")
    assert [r["seed"] for r in found] == [None, 2**64 - 1, None, None, None]
    assert {r["attempt"] for r in found} == {None}
    assert msgspec.json.decode(found[0]["meta"]) == {"big": 10**30}
    assert [e.head.seed for e in home.run("run").entries] == [-1, 2**64 - 1, 2**64, 10**30, None]


def test_costs_add_up_exactly_enough(lake: Lake) -> None:
    (found,) = rows(lake, "SELECT sum(cost_usd) AS usd FROM spans")
    assert math.isclose(found["usd"], sum(e.totals.cost_usd or 0 for r in lake.runs for e in r.entries))


# -- homes of all kinds ----------------------------------------------------------------------------------------------


def test_an_empty_home(home: Home) -> None:
    for view in VIEWS:
        assert sql(f"SELECT count(*) AS n FROM {view}", home=home).records == [{"n": 0}]
    home.create("empty", "import")
    assert sql("SELECT run, episodes FROM runs", home=home).records == [{"run": "empty", "episodes": 0}]
    for view in VIEWS[1:]:
        assert sql(f"SELECT count(*) AS n FROM {view}", home=home).records == [{"n": 0}]


def test_runs_with_odd_names(tmp_path: Path, plain: Redactor, write_trace: Any) -> None:
    """A run may lie in a folder of any name; its name is data, and its path is not a pattern."""
    odd = ["it's", "a*b", "a?b", "[ab]", "date=2026-01-01", 'quote"d', "semi;colon", "spa ce", "ünï", "a]b", "{a,b}"]
    made = Home(LocalFiles(tmp_path / "h ome's [1]"))
    for n, name in enumerate(odd):
        run = made.create(f"run{n}", "import")
        with run.writer(plain, window=None) as a, run.writer(plain, window=None) as b:
            write_trace(a, "same", steps=1)
            a.commit()
            write_trace(b, "same", steps=2)  # so that the reader must tell files apart
        (Path(made.files.address) / "runs" / f"run{n}").rename(tmp_path / name)
    for decoy in ("axb", "a"):
        made.create(decoy, "import")
        (Path(made.files.address) / "runs" / decoy).rename(tmp_path / decoy)
    lake = Lake([made.resolve(str(tmp_path / name)) for name in odd])
    found = rows(lake, "SELECT run, count(*) AS n FROM spans GROUP BY run")
    assert {r["run"]: r["n"] for r in found} == dict.fromkeys(odd, 3)
    assert lake.sql("SELECT * FROM spans").column_names == Lake([]).sql("SELECT * FROM spans").column_names
    assert sorted({r["run"] for r in rows(lake, "SELECT run FROM messages")}) == sorted(odd)
    assert rows(Lake(lake.runs[:1]), "SELECT DISTINCT run FROM texts") == [{"run": "it's"}]


def test_sealed_and_unsealed_runs_together(home: Home, keys: Keyring, plain: Redactor, write_trace: Any) -> None:
    for name in ("plain", "sealed", "resealed"):
        if name != "plain":
            keys.new()
        run = home.create(name, "import")
        with run.writer(plain, window=None) as writer:
            write_trace(writer, name)
    with home.run("plain").writer(plain, window=None) as writer:
        write_trace(writer, "late")  # one run, open and sealed segments side by side
    lake = Lake(home.runs())
    found = rows(lake, "SELECT run, count(*) AS n, bool_or(body LIKE '%words of%') AS words FROM texts GROUP BY run")
    assert {r["run"] for r in found} == {"plain", "sealed", "resealed"}
    assert all(r["words"] for r in found)
    assert len({f.key for r in lake.runs for f in r.standing.named("texts-")}) == 3


def test_a_damaged_segment_is_named(home: Home, plain: Redactor, write_trace: Any) -> None:
    run = home.create("run", "import")
    with run.writer(plain, window=None) as writer:
        write_trace(writer, "one")
    (file,) = (Path(home.files.address) / run.path).glob("spans-*")
    file.write_bytes(b"not parquet at all")
    with pytest.raises(Damaged, match=r"segments behind 'spans' cannot be read .*; run: ethogram verify"):
        Lake([home.run("run")]).sql("SELECT * FROM spans")
    with pytest.raises(Damaged, match=r"spans-.* of run 'run' cannot be read"):
        Lake([home.run("run")]).columns("kind")
    file.unlink()
    with pytest.raises(Damaged):
        Lake([home.run("run")]).columns("kind")
    assert rows(Lake([home.run("run")]), "SELECT count(*) AS n FROM episodes") == [{"n": 1}]
