"""Scoring stored runs without running the agent: nothing is rewritten, and nothing that the world spoiled is scored."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ethogram.capture.draft import Draft
from ethogram.capture.intake import Intake, SourceReport
from ethogram.errors import BadUsage, EthogramError, NotFound
from ethogram.harness.faults import NetworkFault
from ethogram.harness.suites import run
from ethogram.questions.home.runs import load, show
from ethogram.questions.logs.imports import import_logs
from ethogram.questions.scoring.question import score
from ethogram.store import Home, Lake, Policy, Run, verify_run
from ethogram.suites.load import load_suite
from ethogram.traces import Message, Missing, Origin, Outcome, Scored, Text, ToolCall, TraceId

SUITE = """
name: asked
tasks:
  - id: sum
    expected: 42
    tools: [price]
    checks:
      - numeric
      - {tool_calls: [{name: price, arguments: {item: tea}}], name: looked, required: false}
  - id: file
    checks: [{files: [out.txt]}]
  - id: world
    checks: [{contains: x}]
  - id: crash
    checks: [{contains: x}]
"""
TOOLS = "def price(item):\n    return 6\n"


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    root = tmp_path / "suite"
    root.mkdir()
    (root / "suite.yaml").write_text(SUITE)
    (root / "tools.py").write_text(TOOLS)
    return root


def act(task: Any, episode: Any) -> str:
    """Right at even attempts, wrong at odd ones; the world fails in one task, the agent itself in another."""
    if task.id == "world":
        raise NetworkFault("the world is away")
    if task.id == "crash":
        raise ZeroDivisionError("my own fault")
    if task.id == "file" and episode.attempt == 0:
        (episode.workspace / "out.txt").write_text("x")
    if task.id == "sum":
        episode.tools["price"](item="tea" if episode.attempt == 0 else "milk")
    return f"joe@example.org says {42 + episode.attempt}"


@pytest.fixture
def native(suite: Path, home: Home) -> Run:
    """A run of the suite, two attempts each."""
    done = run(str(suite), act, home=home, k=2, retries=0, redact="default")
    return home.resolve(done.run)


def outcomes(run: Run) -> dict[tuple[str, int], Outcome]:
    run.forget_cache()
    return {(e.head.task, e.head.attempt): run.head(e).outcome for e in run.entries}


def change(suite: Path, old: str, new: str) -> None:
    text = (suite / "suite.yaml").read_text()
    assert old in text
    (suite / "suite.yaml").write_text(text.replace(old, new))


def ledger_bytes(run: Run) -> dict[str, bytes]:
    """Every file of a run as it is."""
    root = Path(run.files.address) / run.path
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def test_scoring_again_by_the_same_suite_changes_nothing(native: Run, home: Home) -> None:
    before, files = outcomes(native), ledger_bytes(native)
    assert before["sum", 0] == Scored(1.0, "numeric")
    assert before["sum", 1] == Scored(0.0, "numeric")
    assert before["file", 0] == Scored(1.0, "files")
    assert isinstance(before["world", 0], Missing)
    assert before["crash", 0] == Scored(0.0, "contains")
    result = score(native.name, home=home)
    assert (result.changed, result.labels) == (0, 0)
    assert (result.scored, result.missing, result.successes) == (6, {"infrastructure.network": 2}, 2)
    assert outcomes(native) == before
    assert ledger_bytes(native) == files


def test_a_changed_suite_gives_new_outcomes_and_keeps_every_old_byte(native: Run, suite: Path, home: Home) -> None:
    files = ledger_bytes(native)
    change(suite, "expected: 42", "expected: 43")
    result = score(native.name, suite=suite, home=home)
    assert result.changed == 2
    after = outcomes(native)
    assert after["sum", 0] == Scored(0.0, "numeric")
    assert after["sum", 1] == Scored(1.0, "numeric")
    assert after["file", 0] == Scored(1.0, "files"), "a check that needs the workspace keeps its verdict"
    assert isinstance(after["world", 0], Missing), "what the world spoiled is not scored"
    assert result.suite_digest == load_suite(suite).suite.digest
    grown = ledger_bytes(native)
    assert all(grown[name] == data for name, data in files.items())
    assert len(grown) > len(files)
    assert verify_run(native).ok
    rows = {t.task: (t.attempts, t.scored, t.successes) for t in result.tasks}
    assert rows == {"crash": (2, 2, 0), "file": (2, 2, 1), "sum": (2, 2, 1), "world": (2, 0, 0)}
    assert [r["task"] for r in result.rows()] == ["crash", "file", "sum", "world"]


def test_labels_tell_the_story_of_a_trace(native: Run, suite: Path, home: Home) -> None:
    change(suite, "expected: 42", "expected: 43")
    score(native.name, suite=suite, home=home)
    native.forget_cache()
    entry = next(e for e in native.entries if (e.head.task, e.head.attempt) == ("sum", 0))
    trace = native.trace(entry)
    told = [(x.name, x.value) for x in trace.labels]
    assert told == [("numeric", 1.0), ("looked", 1.0), ("numeric", 0.0)]
    by = [x.by for x in trace.labels if x.name == "numeric"]
    assert by[0] != by[1], "the demands differ, and the labels say so"
    why = trace.labels[2].why
    assert why is not None
    assert trace.text(why) == "42 is not 43"
    found = Lake([native]).sql("""SELECT score, "by" FROM episodes WHERE task = 'sum' ORDER BY attempt""").to_pylist()
    assert found == [{"score": 0.0, "by": "numeric"}, {"score": 1.0, "by": "numeric"}]


def test_scoring_back_and_forth_takes_the_newest(native: Run, suite: Path, home: Home) -> None:
    before = outcomes(native)
    for old, new in (("42", "43"), ("43", "44"), ("44", "42")):
        change(suite, f"expected: {old}", f"expected: {new}")
        score(native.name, suite=suite, home=home)
    assert outcomes(native) == before
    assert show(native.name, home=home).episodes == 8
    assert verify_run(native).ok


def test_a_changed_check_of_the_workspace_cannot_be_told(native: Run, suite: Path, home: Home) -> None:
    change(suite, "out.txt", "other.txt")
    result = score(native.name, suite=suite, home=home)
    outcome = outcomes(native)["file", 0]
    assert isinstance(outcome, Missing)
    assert outcome.reason == "unscored"
    assert "workspace" in outcome.detail
    assert result.missing == {"infrastructure.network": 2, "unscored": 2}


def test_the_rule_of_blame_holds_here_too(native: Run, suite: Path, home: Home) -> None:
    change(suite, "name: asked", "name: asked\non_crash: missing")
    score(native.name, suite=suite, home=home)
    assert isinstance(outcomes(native)["crash", 0], Missing)
    change(suite, "on_crash: missing", "on_crash: zero")
    score(native.name, suite=suite, home=home)
    assert outcomes(native)["crash", 0] == Scored(0.0, "blame")


def test_answers_are_compared_as_they_were_redacted(native: Run, suite: Path, home: Home) -> None:
    change(suite, "expected: 42", "expected: joe@example.org")
    change(suite, "- numeric", "- contains")
    score(native.name, suite=suite, home=home)
    assert outcomes(native)["sum", 1] == Scored(1.0, "contains")
    stored = b"".join(ledger_bytes(native).values())
    assert b"joe@example.org" not in stored
    change(suite, "joe@example.org", "ann@example.org")
    score(native.name, suite=suite, home=home)
    assert outcomes(native)["sum", 1] == Scored(0.0, "contains")
    trace = native.trace(next(e for e in native.entries if e.head.task == "sum"))
    words = [trace.text(x.why) for x in trace.labels if x.why is not None]
    assert not any("ann@example.org" in w for w in words), "what was expected is redacted in the words of a label too"


def test_a_check_that_crashes_is_not_the_agents_fault(native: Run, suite: Path, home: Home) -> None:
    (suite / "checks.py").write_text("def grade(evidence):\n    raise KeyError('x')\n")
    change(suite, "- numeric", "- custom: checks.py:grade")
    before = outcomes(native)
    result = score(native.name, suite=suite, home=home)
    assert (result.crashed, result.judged, result.changed) == (2, 4, 0)
    assert result.crash == f"custom: KeyError: 'x' ({suite / 'checks.py'}:2 in grade)"
    assert outcomes(native) == before
    (suite / "checks.py").write_text("def grade(evidence):\n    return evidence.trace.head.attempt == 0\n")
    score(native.name, suite=suite, home=home)
    assert outcomes(native)["sum", 0] == Scored(1.0, "custom")


def test_tasks_that_the_suite_lacks_stay_as_they_are(native: Run, tmp_path: Path, home: Home) -> None:
    before = outcomes(native)
    other = tmp_path / "other.yaml"
    other.write_text("- {id: sum, checks: [{contains: says}]}\n")
    result = score(native.name, suite=other, home=home)
    after = outcomes(native)
    assert after["sum", 1] == Scored(1.0, "contains")
    assert {k: v for k, v in after.items() if k[0] != "sum"} == {k: v for k, v in before.items() if k[0] != "sum"}
    assert result.unmatched == ["crash", "file", "world"]


# ---- by labels ----


def test_labels_from_a_csv(native: Run, tmp_path: Path, home: Home) -> None:
    trace = next(e.head.trace_id for e in native.entries if (e.head.task, e.head.attempt) == ("world", 0))
    path = tmp_path / "hand.csv"
    path.write_text(
        "trace,task,attempt,value,why\n"
        f"{trace.removeprefix('b2:')[:16]},,,0.75,looked at it\n"
        ",sum,0,fail,\n"
        ",sum,1,TRUE,\n"
        ",sum,9,pass,\n"
        ",file,,pass,\n"
        ",file,0,perhaps,\n"
    )
    result = score(native.name, labels=path, home=home)
    after = outcomes(native)
    assert after["world", 0] == Scored(0.75, "hand.csv")
    assert after["sum", 0] == Scored(0.0, "hand.csv")
    assert after["sum", 1] == Scored(1.0, "hand.csv")
    assert after["file", 0] == Scored(1.0, "files")
    assert result.unmatched == ["hand.csv line 5"]
    assert [s.where for s in result.skipped] == ["hand.csv line 6", "hand.csv line 7"]
    assert "2 traces fit" in result.skipped[0].why
    assert "'perhaps'" in result.skipped[1].why
    labels = [x for x in native.labels() if x.source == "hand"]
    assert {x.name for x in labels} == {"outcome"}
    assert len(labels) == 3
    assert score(native.name, labels=path, home=home).labels == 0


def test_a_label_becomes_the_outcome(native: Run, home: Home, tmp_path: Path) -> None:
    result = score(native.name, score="looked", home=home)
    after = outcomes(native)
    assert after["sum", 0] == Scored(1.0, "looked")
    assert after["sum", 1] == Scored(0.0, "looked")
    assert isinstance(after["file", 0], Missing)
    assert result.missing == {"infrastructure.network": 2, "unscored": 4}
    with pytest.raises(NotFound, match="did you mean 'looked'"):
        score(native.name, score="lookd", home=home)
    path = tmp_path / "many.csv"
    path.write_text("task,attempt,name,by,value\nsum,0,style,ann,0.25\nsum,0,speed,ann,1\n")
    score(native.name, labels=path, score="style", home=home)
    assert outcomes(native)["sum", 0] == Scored(0.25, "style")


def test_what_cannot_be_labels_is_refused(native: Run, home: Home, tmp_path: Path) -> None:
    path = tmp_path / "l.csv"
    for text, said in (("a,b\n1,2\n", "labels need"), ("task\n1\n", "labels need"), ("", "labels need")):
        path.write_text(text)
        with pytest.raises(BadUsage, match=said):
            score(native.name, labels=path, home=home)
    path.write_bytes(b"task,value\n\xff\xfe,1\n")
    with pytest.raises(BadUsage, match="not a CSV file"):
        score(native.name, labels=path, home=home)
    with pytest.raises(NotFound, match="no CSV file"):
        score(native.name, labels=tmp_path / "none.csv", home=home)


# ---- imported runs ----


@pytest.fixture
def imported(home: Home) -> Run:
    """A run of foreign logs: one marks its answer, one only talks, one says nothing; one only asks for its tool."""
    run = home.create("logs", "import", redaction="none")
    with run.writer(home.redactor(Policy(kinds=()))) as writer:
        for number, key in enumerate(("marked", "talks", "silent")):

            def sink(trace: TraceId) -> Any:
                return writer.trace(trace)

            with Intake(sink, Origin("otlp", key, key), SourceReport(source=key)).trace(key) as trace:
                trace.task, trace.attempt = "sum", number
                if key == "marked":
                    trace.answer = "42"
                call = ToolCall("price", '{"item": "tea"}', "c")
                trace.add(Draft(kind="model", name="chat", output=(Message("assistant", (Text("let me see"), call)),)))
                if key != "silent":
                    trace.add(Draft(kind="tool", name="price", tool="price", arguments='{"item": "tea"}', result="6"))
                    words = Message("assistant", (Text("it is 42"),))
                    trace.add(Draft(kind="model", name="chat", output=(words,)))
    return run


def test_imported_logs_are_scored_by_what_they_show(imported: Run, suite: Path, home: Home) -> None:
    with pytest.raises(BadUsage, match="has no suite of its own"):
        score(imported.name, home=home)
    result = score(imported.name, suite=suite, home=home)
    after = outcomes(imported)
    assert after["sum", 0] == Scored(1.0, "numeric")
    assert after["sum", 1] == Scored(1.0, "numeric")
    assert after["sum", 2] == Missing("unscored", "numeric: the log has no final answer")
    assert result.scored == 2
    looked = [x.value for x in imported.labels() if x.name == "looked"]
    assert looked == [1.0, 1.0, 1.0], "where no tool was run, what was asked for counts"
    assert score(imported.name, score="looked", home=home).scored == 3


def test_a_run_directory_somewhere_else_brings_its_own_key(native: Run, suite: Path, tmp_path: Path) -> None:
    change(suite, "expected: 42", "expected: joe@example.org")
    change(suite, "- numeric", "- contains")
    other = Home(type(native.files)(tmp_path / "other"), native.keys)  # type: ignore[call-arg]
    place = Path(native.files.address) / native.path
    result = score(str(place), suite=suite, home=other)
    assert result.successes == 3
    assert not (tmp_path / "other" / "redaction.key").exists()


def test_a_run_that_is_open_already_brings_its_own_key(
    native: Run, suite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change(suite, "expected: 42", "expected: joe@example.org")
    change(suite, "- numeric", "- contains")
    monkeypatch.setenv("ETHOGRAM_HOME", str(tmp_path / "other"))
    result = score(native, suite=suite)
    assert (result.run, result.successes) == (native.name, 3)
    assert not (tmp_path / "other" / "redaction.key").exists()


def test_the_command_line(
    native: Run, suite: Path, home: Home, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from ethogram.cli.score import command

    address = home.files.address
    assert command(native.name, suite=str(suite), json=True, home=address) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["scored"] == 6
    assert said["missing"] == {"infrastructure.network": 2}
    assert said["schema_version"] == 1
    assert {t["task"] for t in said["tasks"]} == {"sum", "file", "world", "crash"}
    path = tmp_path / "x.csv"
    path.write_text("task,attempt,value\nsum,0,maybe\nnone,0,1\n")
    assert command(native.name, labels=path, json=False, home=address) == 0
    shown = capsys.readouterr()
    assert "6 scored, 2 missing (infrastructure.network 2)" in shown.out
    assert "skipped x.csv line 2" in shown.err
    assert "not matched" in shown.err


def test_a_busy_writer_does_not_stop_scoring(
    native: Run, suite: Path, home: Home, write_trace: Callable[..., TraceId]
) -> None:
    change(suite, "expected: 42", "expected: 43")
    with native.writer(home.redactor(Policy(kinds=()))) as writer:
        write_trace(writer, "meanwhile", task="other")
        assert score(native.name, suite=suite, home=home).changed == 2
    assert len(outcomes(native)) == 9
    assert verify_run(native).ok


@pytest.fixture
def told(home: Home, tmp_path: Path) -> str:
    """Three conversations without a score; the log keeps what became of them beside each."""
    talks = [("It is refunded.", True), ("I cannot.", False), ("Refunded!", True)]
    lines = [
        {
            "messages": [{"role": "user", "content": "Refund it."}, {"role": "assistant", "content": words}],
            "metadata": {"resolved": resolved, "place": f"p{i}"},
        }
        for i, (words, resolved) in enumerate(talks)
    ]
    path = tmp_path / "talks.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    import_logs(path, home=home, run="talks", redact="none")
    return "talks"


def test_checks_need_no_suite(told: str, home: Home) -> None:
    found = score(told, checks=["regex=(?i)refunded"], home=home)
    assert (found.scored, found.successes) == (3, 2)
    both = score(told, checks=["contains=refunded", 'regex={"pattern": "It is"}'], home=home)
    assert both.successes == 1
    for wrong, said in (
        ("regexp=x", "no kind of check"),
        ("regex=(", "regular expression"),
        ('files=["x"]', "workspace"),
    ):
        with pytest.raises(EthogramError, match=said):
            score(told, checks=[wrong], home=home)


def test_another_scale_and_traces_without_a_score_are_said(told: str, home: Home, tmp_path: Path) -> None:
    first, second, third = (e.head.trace_id for e in load(told, home=home).entries)
    (tmp_path / "said.csv").write_text(f"trace,value\n{first},4\n{second},1\n{third},0.2\n")
    found = score(told, labels=tmp_path / "said.csv", home=home)
    (note,) = found.notes
    assert (found.successes, note.startswith("scores go up to 4, and 0.5 or more counts as a success")) == (2, True)
    silent = {"messages": [{"role": "user", "content": "Refund it."}], "metadata": {}}
    (tmp_path / "silent.jsonl").write_text(json.dumps(silent))
    import_logs(tmp_path / "silent.jsonl", home=home, run="silent", redact="none")
    nothing = score("silent", checks=["contains=refunded"], home=home)
    assert (nothing.scored, nothing.notes) == (
        0,
        ["traces that got no score: 1, e.g.: contains: the log has no final answer"],
    )
    assert score("silent", checks=["contains=refunded"], home=home).changed == 0, "it said the same twice"


def test_outcomes_from_a_label_and_from_a_csv(told: str, home: Home, tmp_path: Path) -> None:
    entries = load(told, home=home).entries
    rows = [f"{e.head.trace_id},{'pass' if i else 'maybe'}" for i, e in enumerate(entries[:2])]
    (tmp_path / "said.csv").write_text("\n".join(["trace,verdict", *rows]))
    found = score(told, outcome_from=f"csv:{tmp_path / 'said.csv'}:verdict", home=home)
    assert (found.scored, found.successes) == (1, 1)
    assert [s.why for s in found.skipped] == ["'maybe' is neither a number nor a word like pass or fail"]
    assert found.unmatched == []
    score(told, checks=["regex=(?i)refunded"], home=home)
    assert score(told, outcome_from="label:regex", home=home).scored == 3
    with pytest.raises(BadUsage, match="does not say where to take the outcome from"):
        score(told, outcome_from="nowhere", home=home)


def test_a_table_has_one_meaning_under_both_names(told: str, home: Home, tmp_path: Path) -> None:
    table = tmp_path / "said.csv"
    first, *_ = load(told, home=home).entries
    table.write_text(f"trace,value,why\n{first.head.trace_id},fail,it was rude\n")
    by_labels = score(told, labels=table, home=home)
    assert (by_labels.scored, by_labels.successes, by_labels.labels) == (1, 0, 1)
    by_form = score(told, outcome_from=f"csv:{table}", home=home)
    assert (by_form.scored, by_form.changed, by_form.labels) == (1, 0, 0), "it added the same label and outcome"
    for more, words in (
        ({"labels": table, "outcome_from": f"csv:{table}"}, "labels and outcome_from csv: say the same"),
        ({"score": "outcome", "outcome_from": "label:outcome"}, "score and outcome_from label: say the same"),
        ({"outcome_from": f"csv:{table}:grade"}, "labels need either 'trace', or 'source', .* 'grade'"),
    ):
        with pytest.raises(BadUsage, match=words):
            score(told, home=home, **more)  # type: ignore[arg-type]


def test_rows_name_a_trace_by_its_file(logs: Any, home: Home, tmp_path: Path) -> None:
    for name in ("one", "two"):
        import_logs(logs.put(f"{name}.json", [logs.turns(len(name) + ord(name[0]), 0, None)]), home=home, run="files")
    table = tmp_path / "said.csv"
    table.write_text("source,outcome\none.json,pass\ntwo,fail\nthree,pass\n")
    found = score("files", labels=table, home=home)
    assert (found.scored, found.successes, found.unmatched) == (2, 1, ["said.csv line 4"])
