"""SQL from the library: one SELECT, rows that JSON can say, and nothing outside the views."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from ethogram.errors import BadUsage, NotFound
from ethogram.questions.home.queries import arrow, sql
from ethogram.questions.logs.imports import import_logs
from ethogram.store import VIEWS, Home


def test_every_view_answers(bells: str, home: Home) -> None:
    for view in VIEWS:
        answer = sql(f"SELECT * FROM {view}", home=home)
        assert json.loads(answer.to_json())["columns"] == answer.columns
        assert list(answer.to_df().columns) == (answer.columns if answer.records else [])
    assert sql("SELECT count(*) AS n FROM spans", home=home).records == [{"n": 16}]
    talk = sql(
        "SELECT role, body FROM messages WHERE trace_id = (SELECT min(trace_id) FROM episodes) ORDER BY seq", home=home
    )
    assert [r["role"] for r in talk.records] == ["user", "assistant", "tool", "assistant"]


def test_an_empty_home_has_empty_views(home: Home) -> None:
    for view in VIEWS:
        assert sql(f"SELECT * FROM {view}", home=home).records == []


def test_some_runs_only(bells: str, home: Home, logs: Any) -> None:
    import_logs(logs.put("b.jsonl", logs.chat("a", "b")), home=home, run="second")
    count = "SELECT count(*) AS n FROM episodes"
    assert [sql(count, runs=r, home=home).records[0]["n"] for r in (None, ["bells"], ["second"], ["latest"])] == [
        5,
        4,
        1,
        1,
    ]
    with pytest.raises(NotFound, match="no run named"):
        sql(count, runs=["none"], home=home)


def test_limits(bells: str, home: Home) -> None:
    query = "SELECT seq FROM spans"
    for limit, rows, more in ((0, 0, True), (5, 5, True), (16, 16, False), (99, 16, False), (None, 16, False)):
        answer = sql(query, home=home, limit=limit)
        assert (len(answer.records), answer.more) == (rows, more)
    with pytest.raises(BadUsage, match="limit must be at least 0"):
        sql(query, home=home, limit=-1)


@pytest.mark.parametrize(
    ("query", "record"),
    [
        ("SELECT 1::HUGEINT AS a, 10::HUGEINT ** 1 AS b", {"a": 1, "b": 10.0}),
        ("SELECT 100000000000000000000000000::HUGEINT AS a", {"a": 10**26}),
        ("SELECT 1.25::DECIMAL(9,2) AS a, 2.00::DECIMAL(9,2) AS b", {"a": 1.25, "b": 2}),
        ("SELECT 'nan'::DOUBLE AS a, 'inf'::DOUBLE AS b, '-inf'::DOUBLE AS c", {"a": None, "b": "inf", "c": "-inf"}),
        (
            "SELECT ['nan'::DOUBLE, 'inf'::DOUBLE] AS a, {'k': 'inf'::DOUBLE} AS b",
            {"a": [None, "inf"], "b": {"k": "inf"}},
        ),
        ("SELECT make_timestamp_ns(1767323045123456789) AS a", {"a": "2026-01-02T03:04:05.123456789"}),
        (
            "SELECT TIMESTAMP '2026-01-02 03:04:05' AS a, DATE '2026-01-02' AS b",
            {"a": "2026-01-02T03:04:05", "b": "2026-01-02"},
        ),
        ("SELECT 1 AS a, 2 AS a, 3 AS a_1, 4 AS a", {"a": 1, "a_1": 2, "a_1_1": 3, "a_2": 4}),
        ("SELECT NULL AS a, true AS b, 'x' AS \"the c\"", {"a": None, "b": True, "the c": "x"}),
        ("SELECT MAP {'k': 1} AS a", {"a": [["k", 1]]}),
    ],
)
def test_values_that_json_can_say(query: str, record: dict[str, Any], home: Home) -> None:
    answer = sql(query, home=home)
    assert json.loads(answer.to_json(), parse_constant=pytest.fail)["records"] == [record]
    assert answer.columns == list(record)
    assert len(answer.to_df()) == 1


def test_a_join_keeps_both_columns_of_a_name(bells: str, home: Home) -> None:
    answer = sql("SELECT s.run, e.run FROM spans s JOIN episodes e USING (trace_id) LIMIT 1", home=home)
    assert answer.records == [{"run": "bells", "run_1": "bells"}]


def test_sums_of_tokens_are_numbers(logs: Any, home: Home) -> None:
    import_logs(logs.put("a.jsonl", logs.session(8)), home=home, run="r")
    answer = sql("SELECT sum(input_tokens) AS n, max(make_timestamp_ns(start_ns)) AS at FROM spans", home=home)
    assert answer.records[0]["n"] == 12
    assert datetime.fromisoformat(answer.records[0]["at"]).year == 2026


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("", "exactly one SELECT"),
        ("SELECT 1; SELECT 2", "exactly one SELECT"),
        ("DROP TABLE spans", "exactly one SELECT"),
        ("SELEC 1", "cannot be parsed"),
        ("SELECT nothing FROM spans", "the query failed"),
        ("SELECT * FROM nowhere", "the query failed"),
        ("COPY spans TO 'x.csv'", "exactly one SELECT"),
        ("SET memory_limit='1GB'", "exactly one SELECT"),
    ],
)
def test_queries_that_are_refused(query: str, why: str, bells: str, home: Home) -> None:
    with pytest.raises(BadUsage, match=why) as told:
        sql(query, home=home)
    assert "\n" not in str(told.value)


def test_no_file_but_the_lake_is_read(bells: str, home: Home, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    for reach in (f"'{tmp_path}/secret.csv'", f"read_text('{tmp_path}/secret.csv')", f"glob('{tmp_path}/*')"):
        with pytest.raises(BadUsage):
            sql(f"SELECT * FROM {reach}", home=home)


def test_the_same_as_arrow(bells: str, home: Home) -> None:
    table = arrow("SELECT task, score FROM episodes ORDER BY task, attempt", home=home)
    assert table.to_pydict() == {"task": ["0", "0", "1", "1"], "score": [1.0, 1.0, 1.0, 0.0]}
