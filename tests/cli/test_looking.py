"""import, runs, show, trace, sql: what people see, and what scripts read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest


def test_import_reports_every_file(call, document, log):
    Path("notes.txt").write_text("shopping list\n")
    Path("empty.json").write_text("")
    said = call("import", "desk.json", "notes.txt", "empty.json", "--run", "night", "--tag", "ci", "--tag", "small")
    assert said.code == 0
    for words in ("desk.json", "tau-bench", "notes.txt", "empty.json", "run night: 4 traces, 16 spans added"):
        assert words in said.out
    assert "skipped empty.json: the file is empty" in said.out
    assert "skipped notes.txt: no reader recognises this content" in said.out
    assert "next: ethogram show night" in said.out
    again = document("import", "desk.json", "--run", "night")
    assert (again["traces"], again["unchanged"], again["format"]) == (0, 4, "tau-bench")
    runs = document("runs", "--tag", "ci")["runs"]
    assert [(r["run"], r["episodes"], r["scored"], r["missing"], r["tags"]) for r in runs] == [
        ("night", 4, 4, 0, ["ci", "small"])
    ]
    assert document("runs", "--tag", "other")["runs"] == []


def test_import_json_says_what_was_skipped_and_lost(document, log):
    broken = json.loads(log.read_text())
    del broken[2]["traj"]
    Path("broken.json").write_text(json.dumps(broken))
    found = document("import", "broken.json", "--run", "b")
    assert found["traces"] == 3
    assert [s["where"] for s in found["skipped"]] == ["broken.json: element 2"]
    assert found["files"][0]["source"] == "broken.json"
    assert found["lost"] == {}


def test_import_from_standard_input_and_compressed(shell, document, log):
    said = shell("ethogram import - --run piped --json < desk.json")
    assert (said.code, json.loads(said.out)["traces"]) == (0, 4)
    Path("desk.json.gz").write_bytes(gzip.compress(log.read_bytes()))
    assert document("import", "desk.json.gz", "--run", "packed")["traces"] == 4


def test_tasks_and_outcomes_from_outside(document, log):
    Path("verdicts.csv").write_text("task,attempt,outcome\n0,0,fail\n0,1,pass\n1,0,0.25\n")
    found = document("import", log, "--run", "judged", "--outcome-from", "csv:verdicts.csv")
    assert found["traces"] == 4
    shown = document("show", "judged")
    scores = {(t["task"], t["attempt"]): t["score"] for t in shown["traces"]}
    assert scores == {("0", 0): 0.0, ("0", 1): 1.0, ("1", 0): 0.25, ("1", 1): 0.0}
    document("import", log, "--run", "named", "--task-from", "name:^([a-z]+)")
    assert {t["task"] for t in document("show", "named")["traces"]} == {"desk"}


def test_nothing_to_import_is_bad_input(call, env):
    Path("notes.txt").write_text("shopping list\n")
    said = call("import", "notes.txt")
    assert said.code == 64
    assert "nothing was imported" in said.err


def test_runs(call, document, lake, home):
    said = call("runs")
    assert said.code == 0
    assert "desk" in said.out
    assert "import" in said.out
    assert document("runs")["home"] == str(home)


def test_runs_in_an_empty_home(call):
    said = call("runs")
    assert said.code == 0
    assert "no runs in" in said.out


def test_show(call, document, lake):
    said = call("show", "desk")
    assert said.code == 0
    for words in ("4 episodes: 4 scored, 0 missing", "16 spans", "4 tool calls, 1 error\n", "next: ethogram trace"):
        assert words in said.out
    assert "… and 2 more traces; --limit 0 shows all" in call("show", "desk", "--limit", "2").out
    shown = document("show", "latest")
    assert shown["run"] == "desk"
    assert [(t["task"], t["attempts"], t["successes"], t["mean"]) for t in shown["tasks"]] == [
        ("0", 2, 2, 1.0),
        ("1", 2, 1, 0.5),
    ]


def test_a_run_by_name_by_folder_and_latest(document, lake, home):
    for wanted in ("desk", "latest", str(home / "runs" / "desk")):
        assert document("show", wanted)["episodes"] == 4


def test_another_home(document, call, log, tmp_path):
    document("import", log, "--run", "there", "--home", str(tmp_path / "other"))
    assert [r["run"] for r in document("runs", "--home", str(tmp_path / "other"))["runs"]] == ["there"]
    assert document("runs")["runs"] == []


def test_trace_is_a_tree(call, document, lake):
    failed = next(t for t in document("show")["traces"] if t["score"] == 0)
    short = failed["trace_id"].removeprefix("b2:")[:8]
    said = call("trace", short)
    assert said.code == 0
    for words in ("task 1  attempt 1  score 0", "2 tool lookup", "✗ error", "Error: no such customer"):
        assert words in said.out
    tree = document("trace", short, "--run", "desk")
    assert [(s["kind"], s["step"], s["status"]) for s in tree["spans"]] == [
        ("user", 0, "unset"),
        ("model", 1, "unset"),
        ("tool", 2, "error"),
        ("model", 3, "unset"),
    ]
    assert (tree["shown"], tree["of"]) == (4, 4)
    cut = document("trace", short, "--limit", "2")
    assert (cut["shown"], cut["of"]) == (2, 4)
    assert "… 2 more spans" in call("trace", short, "--limit", "2").out


def test_sql(call, document, lake):
    query = "SELECT kind, count(*) AS n FROM spans GROUP BY kind ORDER BY kind"
    said = call("sql", query)
    assert said.code == 0
    assert said.out.split() == ["kind", "n", "model", "8", "tool", "4", "user", "4"]
    found = document("sql", query)
    assert found["columns"] == ["kind", "n"]
    assert found["records"] == [{"kind": "model", "n": 8}, {"kind": "tool", "n": 4}, {"kind": "user", "n": 4}]
    cut = document("sql", "SELECT span_id FROM spans", "--limit", "3")
    assert (len(cut["records"]), cut["more"]) == (3, True)
    assert len(document("sql", "SELECT span_id FROM spans", "--limit", "0")["records"]) == 16
    assert document("sql", "SELECT 1 AS one", "--run", "desk")["records"] == [{"one": 1}]


def test_numbers_that_json_cannot_say(document, lake):
    query = "SELECT 'nan'::DOUBLE AS a, 'inf'::DOUBLE AS b, '-inf'::DOUBLE AS c, sum(1) AS d, sum(0.5) AS e"
    assert document("sql", query)["records"] == [{"a": None, "b": "inf", "c": "-inf", "d": 1, "e": 0.5}]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("DROP TABLE spans", "read only"),
        ("SELECT 1; SELECT 2", "exactly one SELECT"),
        ("SELECT nothing FROM spans", "views: runs, episodes"),
        ("SELEKT", "cannot be parsed"),
        ("SELECT * FROM read_csv('/etc/passwd')", "nothing else: no file"),
        ("COPY (SELECT 1) TO 'out.csv'", "read only"),
    ],
)
def test_sql_refuses(call, lake, query, words):
    said = call("sql", query)
    assert (said.code, said.out) == (64, "")
    assert words in said.err
    assert said.err.count("\n") == 1
    assert not Path("out.csv").exists()


def test_joins_over_views(document, lake):
    query = "SELECT count(*) AS n FROM spans JOIN episodes USING (run, trace_id) WHERE score < 0.5 AND kind = 'tool'"
    assert document("sql", query)["records"] == [{"n": 1}]


def test_log_text_cannot_draw_on_the_terminal(call, env):
    item = {"task_id": "t[red]x[/red]\u001b[2J", "trial": 0, "reward": 1.0, "info": {}, "traj": []}
    item["traj"] = [{"role": "user", "content": "hi \u001b[31mred\u0007 [bold]x[/bold] :warning:"}]
    Path("odd.json").write_text(json.dumps([item]))
    call("import", "odd.json", "--run", "odd")
    out = call("show", "odd").out
    assert "\u001b" not in out
    assert "t[red]x[/red]" in out
    tree = call("trace", "", "--run", "odd").out
    assert "\u001b" not in tree
    assert "\u0007" not in tree
    assert "[bold]x[/bold] :warning:" in tree


def test_an_import_of_nothing_says_why_and_leaves_no_run(call, log, tmp_path):
    assert call("import", str(log), "--run", "good").code == 0
    (Path("empty") / ".git").mkdir(parents=True)
    (Path("empty") / ".git" / "config").write_text("x")
    said = call("import", "empty")
    assert (said.code, said.err.strip()) == (64, "ethogram import: nothing was imported; there is no file in it")
    assert "run empty" not in said.out
    Path("none.json").write_text(
        '{"version": 2, "status": "error", "samples": [], '
        '"eval": {"task": "x", "model": "m", "run_id": "r", "created": "2026-01-01T00:00:00Z", "config": {}}}'
    )
    said = call("import", "none.json")
    assert (said.code, "there is no trace in it" in said.out) == (64, True)
    assert [r["run"] for r in json.loads(call("runs", "--json").out)["runs"]] == ["good"]
    assert call("show", "latest").out.startswith(call("show", "good").out[:20])


def test_attempts_under_conditions_are_told_apart(call, ran, env):
    call("run", "coins.py", "--agent", "act.py:good", "-k", "1", "--run", "loud", "--condition", "volume=2")
    shown = call("show", "loud").out
    (head,) = [line for line in shown.splitlines() if line.startswith("trace ")]
    assert head.split()[:4] == ["trace", "task", "condition", "attempt"]
    assert "volume=2" in shown


def test_a_whole_trace_in_full_ends_with_labels_and_the_answer(call, document, ran):
    trace = document("show", ran("main", "good", 1))["traces"][0]["trace_id"]
    plain, full = (call("trace", trace, *more).out for more in ((), ("--full",)))
    ends = [line for line in plain.splitlines() if line.startswith(("label ", "answer: "))]
    assert ends
    assert [line for line in full.splitlines() if line.startswith(("label ", "answer: "))] == ends
