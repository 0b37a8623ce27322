"""A table of results is enough: what is guessed and refused, what works on it, what says that it needs traces."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ethogram.capture.columns import OutcomeColumn, find_columns, outcome_in, parse_columns
from ethogram.capture.rows import RowSample
from ethogram.errors import BadUsage, EthogramError, Refused, Unreadable
from ethogram.questions.compare.question import compare
from ethogram.questions.cost.question import cost
from ethogram.questions.divergence.diff import diff
from ethogram.questions.divergence.question import divergence
from ethogram.questions.field.question import field
from ethogram.questions.gate.planning import plan
from ethogram.questions.gate.question import gate
from ethogram.questions.home.exports import export
from ethogram.questions.home.runs import show
from ethogram.questions.judging.buying.runs import judge_run
from ethogram.questions.logs.imports import import_logs
from ethogram.questions.reliability.question import stats
from ethogram.questions.why.question import why
from ethogram.reading.outcomes import load_outcomes
from ethogram.store import Home, Policy
from ethogram.traces import Missing, Scored
from ethogram.viewer.report.parts import report_view
from ethogram.viewer.report.report import report

Rows = list[dict[str, object]]


def results(rate: float, seed: int = 1, tasks: int = 12, attempts: int = 4) -> Rows:
    draw = random.Random(seed)
    return [
        {"case": f"t{t}", "trial": k, "passed": draw.random() < rate, "usd": 0.01 * (k + 1), "latency_ms": 500 + k}
        for t in range(tasks)
        for k in range(attempts)
    ]


def as_csv(rows: Rows, path: Path) -> Path:
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    return path


def as_lines(rows: Rows, path: Path) -> Path:
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def as_parquet(rows: Rows, path: Path) -> Path:
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def sample(*rows: dict[str, object]) -> RowSample:
    return RowSample(list(rows[0]), list(rows))


def test_csv_lines_and_parquet_say_the_same(home: Home, tmp_path: Path) -> None:
    rows = results(0.7)
    truth = sum(bool(r["passed"]) for r in rows) / len(rows)
    answers = []
    for write, ending in ((as_csv, "csv"), (as_lines, "jsonl"), (as_parquet, "parquet")):
        result = import_logs(write(rows, tmp_path / f"{ending}.{ending}"), home=home)
        assert (result.format, result.traces, result.spans, result.skipped) == ("table", len(rows), 0, [])
        line = "--columns task=case,score=passed,attempt=trial,cost=usd,seconds=latency_ms/1000"
        assert result.files[0].columns == line
        answers.append(stats(ending, home=home).pass_at["1"])
        assert answers[-1].value == pytest.approx(truth)
        assert show(ending, home=home).traces[1].seconds == 0.501
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize("data", [",task,score\n0,a,1\n1,b,0\n", "task,score,\na,1,\nb,0,\n"])
def test_an_index_of_pandas_and_a_comma_at_the_end_have_no_name(home: Home, tmp_path: Path, data: str) -> None:
    (tmp_path / "r.csv").write_text(data)
    result = import_logs(tmp_path / "r.csv", home=home)
    assert (result.traces, result.files[0].columns) == (2, "--columns task=task,score=score")
    assert {t.task: t.score for t in show("r", home=home).traces} == {"a": 1.0, "b": 0.0}


def test_the_same_rows_again_change_nothing(home: Home, tmp_path: Path) -> None:
    rows = results(0.7)
    path = as_csv(rows[:-4], tmp_path / "r.csv")
    import_logs(path, home=home)
    assert import_logs(path, home=home).unchanged == len(rows) - 4
    grown = import_logs(as_csv(rows, path), home=home)
    assert (grown.traces, grown.unchanged, grown.superseded) == (4, len(rows) - 4, 0)
    named = import_logs(
        path, home=home, columns="task=case,score=passed,attempt=trial,cost=usd,seconds=latency_ms/1000"
    )
    assert (named.traces, named.unchanged) == (0, len(rows))


def test_a_wrong_guess_is_corrected_by_reading_again(home: Home, tmp_path: Path) -> None:
    rows = [{"name": f"row{i}", "group": f"g{i % 3}", "score": i % 2} for i in range(12)]
    path = as_csv(rows, tmp_path / "r.csv")
    assert "task=name" in import_logs(path, home=home).files[0].columns
    assert len(show("r", home=home).tasks) == 12
    result = import_logs(path, home=home, columns="task=group")
    assert (result.superseded, show("r", home=home).episodes) == (12, 12)
    assert [t.task for t in show("r", home=home).tasks] == ["g0", "g1", "g2"]
    assert import_logs(path, home=home, columns="task=group").unchanged == 12


def test_bad_rows_are_listed_and_good_ones_kept(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_text('task;score;note\na;pass;"two\nlines"\nb;banana;x\n;fail;x\nc;error;x\nd;fail\ne;;x\nf;FAIL;x\n')
    result = import_logs(path, home=home)
    assert result.traces == 4
    assert [(s.where, s.why.partition(",")[0]) for s in result.skipped] == [
        ("r.csv: line 4", "score is 'banana'"),
        ("r.csv: line 5", "task is empty"),
        ("r.csv: line 7", "the row has 2 fields where the header has 3"),
    ]
    found = {t.task: t.missing or t.score for t in show("r", home=home).traces}
    assert found == {"a": 1.0, "c": "unscored", "e": "unscored", "f": 0.0}


@pytest.mark.parametrize(
    ("data", "why"),
    [
        ("a,b\n1,2\n", "no column that is surely the task or the score; it has a, b: name it with --columns"),
        ("task,b\nx,2\n", "no column that is surely the score; it has task, b"),
        ("task,score\nx,3\ny,5\n", "score goes from 3 to 5, which is neither 0 to 1 nor percent"),
        ("task,score,score\nx,1,0\n", "more than one column is named score; if this is a table, rename them"),
        ("task,cached\nx,true\ny,false\n", "no column that is surely the score; it has task, cached"),
        (",".join(f"a-long-name-{i}" for i in range(90)) + "\n" + "1," * 89 + "1\n", "…: name it with --columns task"),
        ("task,score\n", "the table has a header and no rows"),
        ("Caf\xe9,score\nx,1\n", "line 1 is not UTF-8 (byte 0xe9); save the text as UTF-8"),
    ],
)
def test_a_table_without_task_or_score_is_one_sentence(home: Home, tmp_path: Path, data: str, why: str) -> None:
    path = tmp_path / "r.csv"
    path.write_text(data, "latin-1")
    for given in (import_logs(path, home=home), import_logs(path, home=home, format="table")):
        assert given.traces == 0
        assert len(given.skipped) == 1
        assert why in given.skipped[0].why
    assert home.names() == []


def test_one_bad_row_of_json_lines_does_not_hide_the_table(home: Home, tmp_path: Path) -> None:
    path = as_lines(
        [{"task": "a", "score": 1}, {"task": ["x"], "score": 0}, {"task": "b", "score": 0}], tmp_path / "r.jsonl"
    )
    result = import_logs(path, home=home)
    assert result.traces == 2
    assert [s.why for s in result.skipped] == ['task is ["x"], not one word or number']


def test_scores_outside_the_scale_of_the_first_rows_are_listed(home: Home, tmp_path: Path) -> None:
    """The scale is guessed from the first rows: a later 95 is no score of 95."""
    rows: Rows = [{"task": f"t{i % 5}", "score": i % 2} for i in range(100)]
    path = as_lines([*rows, {"task": "t0", "score": 95}, {"task": "t0", "score": "150%"}], tmp_path / "r.jsonl")
    result = import_logs(path, home=home)
    assert result.traces == 100
    assert [s.why.partition(";")[0] for s in result.skipped] == [
        "score is 95, outside of 0 to 1",
        "score is 150%, outside of 0 to 1",
    ]
    kept = import_logs(path, home=home, run="kept", columns="score=score/1")
    assert kept.traces == 102
    again = kept.files[0].columns.removeprefix("--columns ")
    assert import_logs(path, home=home, run="kept", columns=again).unchanged == 102


def test_the_same_attempt_twice_is_counted_and_noted(home: Home, tmp_path: Path) -> None:
    path = as_csv([{"task": "a", "attempt": 0, "score": 1}] * 3, tmp_path / "r.csv")
    result = import_logs(path, home=home)
    assert result.traces == 3
    assert (
        "2 rows have the task and attempt of an earlier row: each counts as one more attempt" in result.files[0].notes
    )


def test_a_letter_that_is_not_utf8_after_the_first_look_is_counted(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.write_bytes(b"task,score\n" + b"a,1\n" * 2_000 + "T\xfcr,1\n".encode("latin-1"))
    assert import_logs(path, home=home).lost == {"characters that are not UTF-8": 1}


@pytest.mark.parametrize(
    ("given", "note"),
    [
        ([1, None, "nan", "nan", "n/a"], "a score from 0 to 1"),
        (["95%", "40%"], "percent"),
        (["pass", "fail", ""], "pass or fail"),
        ([True, False], "pass or fail"),
        (["pass", 0.3], "pass or fail or a score from 0 to 1"),
    ],
)
def test_how_scores_are_read_is_said_rightly(given: list[object], note: str) -> None:
    table = sample(*({"task": f"t{i}", "score": value} for i, value in enumerate(given)))
    assert find_columns(table, {}).notes == [f"score is read as {note}"]


def test_tables_in_a_folder_are_read_only_when_named(home: Home, tmp_path: Path) -> None:
    """A table beside logs may repeat their outcomes: counting both would count twice."""
    folder = tmp_path / "logs"
    folder.mkdir()
    path = as_csv(results(0.5), folder / "r.csv")
    result = import_logs(folder, home=home)
    assert result.traces == 0
    assert "name the file itself" in result.skipped[0].why
    assert import_logs(path, home=home).traces == 48


@pytest.mark.parametrize(
    ("value", "divisor", "score"),
    [
        (True, 1, 1.0),
        ("False", 1, 0.0),
        ("pass", 1, 1.0),
        ("FAILED", 1, 0.0),
        ("0.25", 1, 0.25),
        (0.25, 1, 0.25),
        ("85%", 1, 0.85),
        (85, 100, 0.85),
        ("yes", 1, 1.0),
    ],
)
def test_scores_in_every_spelling(value: object, divisor: float, score: float) -> None:
    found = outcome_in(OutcomeColumn("s", divisor), {"s": value})
    assert isinstance(found, Scored)
    assert (found.value, found.by) == (pytest.approx(score), "s")


@pytest.mark.parametrize("value", [None, "", "n/a", "error", "NaN", float("nan")])
def test_an_absent_score_is_missing_and_never_0(value: object) -> None:
    assert isinstance(outcome_in(OutcomeColumn("s"), {"s": value}), Missing)


def test_columns_that_are_said() -> None:
    table = sample({"q": "a", "acc": 80, "model": "m", "a,b": 1}, {"q": "b", "acc": 40, "model": "n", "a,b": 2})
    guessed = find_columns(table, parse_columns("task=q"))
    assert guessed.roles["score"] == OutcomeColumn("acc", 100.0)
    assert "read as percent" in guessed.notes[0]
    assert guessed.roles["agent"] == OutcomeColumn("model")
    said = find_columns(table, parse_columns('task=q,score=acc/80,agent=,"attempt=a,b"'))
    assert (said.roles["score"], said.roles["attempt"]) == (OutcomeColumn("acc", 80.0), OutcomeColumn("a,b"))
    assert "agent" not in said.roles
    again = said.line().removeprefix("--columns ").strip("'")
    assert find_columns(table, {**parse_columns(again), "agent": ""}).roles == said.roles
    for wrong in ("task", "tsk=q", "task=nope", "task=q/2"):
        with pytest.raises(BadUsage):
            find_columns(table, parse_columns(wrong))
    with pytest.raises(Unreadable, match="full score"):
        find_columns(sample({"task": "a", "score": 7}, {"task": "b", "score": 3}), {})


def test_compare_gate_plan_and_cost_work(home: Home, tmp_path: Path) -> None:
    for name, rate in (("base", 0.9), ("worse", 0.3)):
        import_logs(as_csv(results(rate, 3, 20, 6), tmp_path / f"{name}.csv"), home=home)
    assert compare("base", "worse", home=home).verdict == "regression"
    assert gate("base", "worse", home=home).verdict == "regression"
    assert plan("base", home=home, drop=0.2).price == pytest.approx(0.035)
    costs = cost("base", home=home)
    assert costs.cost_usd == pytest.approx(20 * 0.21)
    assert show("base", home=home).cost_usd == costs.cost_usd
    assert costs.per_run.value == pytest.approx(0.035)
    # what nobody counted is unknown, never 0
    for metric in ("steps", "tool_calls", "errors", "tokens"):
        assert compare("base", "worse", home=home, metric=metric).difference.value is None
    totals = show("base", home=home).totals
    assert (totals.spans, totals.steps, totals.tool_calls, totals.errors, totals.model_calls) == (0, *[None] * 4)


def test_two_agents_in_one_table(home: Home, tmp_path: Path) -> None:
    rows = [{**row, "agent": agent} for agent, rate in (("a", 0.9), ("b", 0.1)) for row in results(rate)]
    import_logs(as_csv(rows, tmp_path / "both.csv"), home=home)
    rates = {agent: load_outcomes("both", home=home, agent=agent).value.mean() for agent in ("a", "b")}
    assert rates["a"] > 0.7
    assert rates["b"] < 0.3


def test_what_needs_traces_says_so(home: Home, tmp_path: Path) -> None:
    import_logs(as_csv(results(0.5), tmp_path / "r.csv"), home=home)
    first, second = (t.trace_id for t in show("r", home=home).traces[:2])
    questions: list[Callable[[], object]] = [
        lambda: field("r", home=home),
        lambda: divergence("r", home=home),
        lambda: why("r", home=home),
        lambda: diff(first, second, home=home),
        lambda: judge_run("r", home=home),
    ]
    for ask in questions:
        with pytest.raises(Refused, match=r"without (a )?trace") as said:
            ask()
        assert (said.value.have, said.value.of) == (0, "traces with steps")


@pytest.mark.parametrize("ending", ["html", "md"])
def test_a_report_has_what_outcomes_answer(home: Home, tmp_path: Path, ending: str) -> None:
    for name, rate in (("base", 0.9), ("worse", 0.3)):
        import_logs(as_csv(results(rate, 3), tmp_path / f"{name}.csv"), home=home)
    alone = report("worse", tmp_path / f"one.{ending}", home=home)
    assert {"why", "attempts", "reliability", "cost"} <= set(alone.sections)
    both = report("base", tmp_path / f"two.{ending}", candidate="worse", home=home)
    assert both.sections[0] == "compare"
    assert both.attempts == 0
    view = report_view("base", "worse", home=home)
    assert all(isinstance(cell, str) for table in view.sections[0].tables for row in table.rows for cell in row)
    text = (tmp_path / f"two.{ending}").read_text()
    assert "outcomes without traces" in text
    assert "Choose a dot" not in text.partition("<script")[0]


@pytest.mark.parametrize("to", ["csv", "parquet"])
def test_an_export_can_be_imported_again(home: Home, tmp_path: Path, to: str) -> None:
    rows = results(0.6)
    rows[3]["passed"] = rows[7]["passed"] = "skipped"
    import_logs(as_csv(rows, tmp_path / "r.csv"), home=home, run="there")
    export("there", to, out=tmp_path / "out", home=home)
    result = import_logs(tmp_path / "out", home=home, run="back")
    assert (result.format, result.traces) == ("episodes", len(rows))
    there, back = (stats(run, home=home) for run in ("there", "back"))
    assert (there.pass_at, there.pass_hat, there.episodes) == (back.pass_at, back.pass_hat, back.episodes)
    assert [t.task for t in there.tasks] == [t.task for t in back.tasks]
    for metric in ("cost", "seconds"):
        one, two = (load_outcomes(run, home=home, metrics=[metric]).figures[metric] for run in ("there", "back"))
        assert one.tolist() == pytest.approx(two.tolist())
    other = "parquet" if to == "csv" else "csv"
    export("there", other, out=tmp_path / "other", home=home)
    assert import_logs(tmp_path / "other", home=home, run="back").traces == 0


def test_runs_with_traces_come_back_without_them(home: Home, tmp_path: Path) -> None:
    chat = {"messages": [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]}
    (tmp_path / "chat.json").write_text(json.dumps(chat))
    import_logs(tmp_path / "chat.json", home=home, task_from="name:(.*)")
    export("chat", "csv", out=tmp_path / "out", home=home)
    result = import_logs(tmp_path / "out", home=home, run="back")
    assert result.traces == 1
    assert sum("--to jsonl" in s.why for s in result.skipped) == 3
    with pytest.raises(EthogramError):
        field("back", home=home)


def test_many_rows_are_read_in_groups(home: Home, tmp_path: Path) -> None:
    """Outcomes without spans take room too: they are committed in groups, not all at the end."""
    from ethogram.store.sink import Limits
    from ethogram.traces import OUTCOME_ONLY, Head, episode_id, trace_id

    run = home.create("many", "import")
    with run.writer(home.redactor(Policy()), window=None, limits=Limits(group_spans=100)) as writer:
        for i in range(250):
            name = str(i)
            sink = writer.trace(trace_id(name))
            facts = {OUTCOME_ONLY: True, "cost_usd": 0.5}
            sink.finish(Head(trace_id=trace_id(name), episode=episode_id(name), task="t", meta=facts), ())
        assert len(home.resolve("many").entries) == 200
    assert {e.totals.cost_usd for e in home.resolve("many").entries} == {0.5}
