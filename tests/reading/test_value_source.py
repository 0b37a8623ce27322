"""Tasks and outcomes for logs that have none: from the name, a meta value, a label or a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ethogram.capture.verdicts import outcome_of
from ethogram.errors import BadUsage, NotFound, Unreadable
from ethogram.questions.logs.imports import import_logs
from ethogram.reading.value_source import value_source
from ethogram.store import Home
from ethogram.traces import EpisodeId, Head, Label, Missing, Origin, Scored, TraceId

HEAD = Head(
    trace_id=TraceId("b2:1"),
    episode=EpisodeId("e"),
    task="ring",
    attempt=2,
    meta={"resolved": True, "score": 0.75},
    origin=Origin("openai-chat", "night/task-7_run-3.traj.json.gz", "b2:9"),
)
LABELS = [
    Label(trace_id=TraceId("b2:1"), name=n, value=v, by="x", source="import") for n, v in (("a", 1.0), ("b", "yes"))
]


def given(spec: str, column: str = "task", head: Head = HEAD) -> str | None:
    return value_source(spec, column)(head, LABELS)


# --- the forms -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (r"name:task-\d+", "task-7"),
        (r"name:task-(\d+)", "7"),
        (r"name:run-(\d+)|nothing", "3"),
        (r"name:^(other)?night", None),
        ("name:absent", None),
        ("meta:resolved", "True"),
        ("meta:score", "0.75"),
        ("meta:absent", None),
        ("label:a", "1.0"),
        ("label:b", "yes"),
        ("label:absent", None),
    ],
)
def test_values_from_the_log_itself(spec: str, expected: str | None) -> None:
    assert given(spec) == expected


@pytest.mark.parametrize("spec", ["", "name", "name:", "meta:", "label:", "csv:", "color:red", "ring", ":x"])
def test_a_spec_that_says_nothing_is_explained(spec: str) -> None:
    with pytest.raises(BadUsage, match=r"write name:REGEX, meta:KEY, label:NAME or csv:FILE"):
        value_source(spec, "task")


def test_a_broken_pattern_is_explained() -> None:
    with pytest.raises(BadUsage, match="is not a regular expression"):
        value_source("name:(", "task")


@pytest.mark.parametrize(
    ("word", "value"),
    [("1", 1.0), ("0.5", 0.5), (" Pass ", 1.0), ("FAILED", 0.0), ("True", 1.0), ("C", 1.0), ("i", 0.0), ("-2", -2.0)],
)
def test_words_that_are_verdicts(word: str, value: float) -> None:
    assert outcome_of(word, "csv") == Scored(value, "csv")


@pytest.mark.parametrize("word", [None, "", "maybe", "nan", "inf", "1,5"])
def test_words_that_are_none(word: str | None) -> None:
    assert outcome_of(word, "csv") is None


# --- tables --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rows",
    [
        "trace,outcome\nb2:1,pass\n",
        "source,outcome\nnight/task-7_run-3.traj.json.gz,pass\n",
        "source,outcome\ntask-7_run-3.traj.json.gz,pass\n",
        "source,outcome\ntask-7_run-3.traj.json,pass\n",
        "source,outcome\ntask-7_run-3,pass\n",
        "task,outcome\nring,pass\n",
        "task,attempt,outcome\nring,1,fail\nring,2,pass\n",
        "\ufefftask,outcome\r\nring,pass\r\n",
        'comment,task,outcome\n"with, comma",ring,pass\nshort\n',
    ],
)
def test_rows_are_matched_by_trace_source_or_task(rows: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(rows, encoding="utf-8")
    assert given(f"csv:{tmp_path}/t.csv", "outcome") == "pass"
    other = Head(trace_id=TraceId("b2:2"), episode=EpisodeId("f"), task="stop", origin=Origin("x", "elsewhere"))
    assert given(f"csv:{tmp_path}/t.csv", "outcome", other) is None


def test_a_column_may_be_named(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("source,task,verdict\ntask-7_run-3,named,no\n")
    assert given(f"csv:{tmp_path}/t.csv") == "named"
    assert given(f"csv:{tmp_path}/t.csv:verdict", "outcome") == "no"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"source,verdict\na,1\n", "has no column 'outcome'; it has: source, verdict"),
        (b"", "has no column 'outcome'; it has: none"),
        (b"name,outcome\na,1\n", "needs a column 'trace', 'source' or 'task'"),
        ("source,outcome\ngrün,1\n".encode("latin-1"), "cannot be read as CSV in UTF-8"),
    ],
)
def test_tables_that_cannot_be_used(data: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(data)
    with pytest.raises((BadUsage, Unreadable), match=why) as told:
        value_source(f"csv:{tmp_path}/t.csv", "outcome")
    assert "\n" not in str(told.value)


def test_a_table_that_is_not_there(tmp_path: Path) -> None:
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises(NotFound, match="no CSV file at"):
            value_source(f"csv:{path}", "outcome")


# --- through an import ---------------------------------------------------------------------------------------------


def outcomes(home: Home, run: str) -> dict[tuple[str, int], Any]:
    return {(e.head.task, e.head.attempt): e.head.outcome for e in home.resolve(run).entries}


def test_tasks_and_outcomes_from_names(logs: Any, home: Home) -> None:
    for name in ("ring-1-pass", "ring-2-fail", "stop-1-pass"):
        logs.put(f"{name}.jsonl", logs.chat(name, "ok"))
    import_logs(logs.root, home=home, task_from=r"name:^[a-z]+", outcome_from=r"name:-(pass|fail)")
    assert outcomes(home, "logs") == {
        ("ring", 0): Scored(1.0, "name"),
        ("ring", 1): Scored(0.0, "name"),
        ("stop", 0): Scored(1.0, "name"),
    }


def test_a_table_overrules_the_log_and_the_other_forms_complete_it(logs: Any, home: Home, tmp_path: Path) -> None:
    logs.put("a.json", [logs.turns("x", 0, 1.0), logs.turns("x", 1, None)])
    (tmp_path / "csv_of_verdicts.csv").write_text("task,attempt,outcome\nx,0,0\nx,1,0.25\n")
    import_logs(logs.root, home=home, run="completed", outcome_from="meta:ended_by")
    import_logs(logs.root, home=home, run="named", outcome_from=r"name:(a)\.json|csv")
    import_logs(logs.root, home=home, run="overruled", outcome_from=f"csv:{tmp_path}/csv_of_verdicts.csv")
    assert outcomes(home, "completed") == {("x", 0): Scored(1.0, "reward"), ("x", 1): Missing("unscored")}
    assert outcomes(home, "named") == {("x", 0): Scored(1.0, "reward"), ("x", 1): Missing("unscored")}
    assert outcomes(home, "overruled") == {("x", 0): Scored(0.0, "csv"), ("x", 1): Scored(0.25, "csv")}


def test_a_table_by_task_and_attempt_matches_attempts_that_the_import_numbers(
    logs: Any, home: Home, tmp_path: Path
) -> None:
    for i in range(3):
        logs.put(f"ring-{i}.jsonl", logs.chat(f"{i}", "ok"))
    (tmp_path / "t.csv").write_text("task,attempt,outcome\nring,0,1\nring,1,0\nring,2,0.5\n")
    import_logs(logs.root, home=home, task_from="name:^[a-z]+", outcome_from=f"csv:{tmp_path}/t.csv")
    assert outcomes(home, "logs") == {("ring", i): Scored(v, "csv") for i, v in enumerate((1.0, 0.0, 0.5))}


def test_what_is_supplied_and_no_verdict_is_counted(logs: Any, home: Home, tmp_path: Path) -> None:
    logs.put("a.jsonl", logs.chat("a", "b"))
    (tmp_path / "t.csv").write_text("source,outcome\na,maybe\n")
    result = import_logs(logs.root, home=home, outcome_from=f"csv:{tmp_path}/t.csv")
    assert result.lost["outcome (supplied, but neither a number nor a verdict)"] == 1
    assert outcomes(home, "logs") == {("a", 0): Missing("unscored")}


def test_bad_specs_stop_before_anything_is_written(logs: Any, home: Home) -> None:
    logs.put("a.jsonl", logs.chat("a", "b"))
    for wrong in ({"task_from": "x"}, {"outcome_from": "csv:none.csv"}, {"format": "poem"}, {"redact": "everythng"}):
        with pytest.raises((BadUsage, NotFound)):
            import_logs(logs.root, home=home, **wrong)
    assert home.names() == []
