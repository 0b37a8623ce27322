"""init, run, score, kill, drill: the verbs that run agents, on the small suite that init writes."""

from __future__ import annotations

from pathlib import Path

import pytest

AGENT = ("--agent", "agent.py:solve")


@pytest.fixture
def suite(document) -> str:
    files = document("init")["files"]
    assert "agent.py" in files
    return "suite"


def test_init_never_overwrites(call, suite):
    before = Path("agent.py").read_text()
    said = call("init")
    assert said.code == 64
    assert "exists already" in said.err
    assert Path("agent.py").read_text() == before


def test_run_and_look(call, document, suite):
    said = call("run", suite, *AGENT, "-k", "2", "--run", "first")
    assert said.code == 0
    assert "\n6 planned, 0 missing, 0 not run\n" in said.out
    found = document("run", suite, *AGENT, "-k", "2", "--run", "second")
    assert (found["planned"], found["scored"], found["missing"], found["not_run"]) == (6, 6, {}, 0)
    shown = document("show", "second")
    assert (shown["kind"], shown["episodes"]) == ("run", 6)
    query = "SELECT task, attempt, score, steps FROM episodes ORDER BY ALL"
    first, second = (document("sql", query, "--run", run)["records"] for run in ("first", "second"))
    assert first == second  # the same seed, the same numbers
    assert document("verify")["ok"] is True


def test_a_dry_run_calls_nothing(document, suite):
    plan = document("run", suite, *AGENT, "-k", "3", "--dry-run", "--max-usd", "2")
    assert (plan["planned"], plan["cost_usd_at_most"]) == (9, 2.0)
    assert document("runs")["runs"] == []


def test_a_switch_stops_and_resume_goes_on(document, suite):
    assert document("kill", "--why", "a look")["why"] == "a look"
    stopped = document("run", suite, *AGENT, "--run", "night", code=130)
    assert (stopped["scored"], stopped["not_run"], stopped["stopped"]) == (0, 3, "killed")
    assert document("kill", "--undo")["released"] is True
    done = document("run", "--resume", "night")
    assert (done["scored"], done["not_run"], done["stopped"]) == (3, 0, None)


def test_score_again(call, document, suite):
    document("run", suite, *AGENT, "--run", "night")
    Path("verdicts.csv").write_text("task,attempt,value\nprice-of-tea,0,0\n")
    found = document("score", "night", "--labels", "verdicts.csv")
    assert (found["scored"], found["changed"]) == (3, 1)
    assert "3 scored" in call("score", "night", "--suite", suite).out
    assert document("score", "night")["successes"] == document("show", "night")["scored"]


RAISES = """
def grade(evidence):
    return evidence.trace.head.meta["grade"] > 3
"""


def test_a_check_that_raises_changes_no_outcome_and_says_where(call, document, lake):
    Path("checks.py").write_text(RAISES)
    tasks = "".join(f"  - {{id: '{task}', checks: [{{custom: 'checks.py:grade'}}]}}\n" for task in (0, 1))
    Path("again.yaml").write_text(f"name: again\ntasks:\n{tasks}")
    said = call("score", lake, "--suite", "again.yaml")
    assert said.code == 2
    assert "4 scored, 0 missing" in said.out
    assert "a check raised an exception about 4 traces, which keep what they had:" in said.err
    assert "custom: KeyError: 'grade' (checks.py:3 in grade)" in said.err
    told = document("score", lake, "--suite", "again.yaml", code=2)
    assert (told["changed"], told["crashed"], told["successes"]) == (0, 4, 3)
    Path("checks.py").write_text(RAISES.replace('.meta["grade"] > 3', ".attempt == 0"))
    assert document("score", lake, "--suite", "again.yaml")["judged"] == 4


def test_answers_that_are_data_are_held_against_what_the_task_expects(call, document, env):
    Path("suite.yaml").write_text(
        "- {id: right, expected: {total: 6}, checks: [json]}\n"
        "- {id: wrong, expected: {total: 7}, checks: [json]}\n"
        "- {id: text, expected: '{\"total\": 6}', checks: [json]}\n"
        "- {id: none, checks: [json]}\n"
        "- {id: day, checks: [json_schema: {schema: {properties: {day: {format: date}}}}]}\n"
    )
    Path("agent.py").write_text('def solve(task, episode):\n    return \'{"total": 6, "day": "tomorrow"}\'\n')
    Path("plain.py").write_text("def solve(task, episode):\n    return '{\"total\": 6}'\n")
    document("run", "suite.yaml", "--agent", "plain.py:solve", "--run", "plain")
    scores = {t["task"]: t["mean"] for t in document("show", "plain")["tasks"]}
    assert scores == {"right": 1, "wrong": 0, "text": 1, "none": 1, "day": 1}
    document("run", "suite.yaml", "--agent", "agent.py:solve", "--run", "dated")
    scores = {t["task"]: t["mean"] for t in document("show", "dated")["tasks"]}
    assert scores == {"right": 0, "wrong": 0, "text": 0, "none": 1, "day": 0}


def test_drill(document):
    found = document("drill")
    assert found["ok"] is True
    assert found["episodes_not_run"] > 0


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("run",), "name a suite and an agent"),
        (("run", "nowhere", *AGENT), "nowhere"),
        (("run", "--resume", "nope"), "nope"),
        (("score", "nope"), "no run named"),
        (("kill", "nope"), "no run named"),
    ],
)
def test_bad_input(call, suite, args, words):
    said = call(*args)
    assert (said.code, said.out) == (64, "")
    assert words in said.err
    assert said.err.count("\n") == 1
