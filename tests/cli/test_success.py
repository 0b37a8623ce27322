"""Success is one number: every verb counts it at the threshold of the suite, and none at one of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ethogram.questions.divergence.diff import diff
from ethogram.questions.field.cloud import field_cloud
from ethogram.store import Home, Run, open_home, verify_run
from ethogram.traces import Scored
from ethogram.viewer.library import Library
from ethogram.viewer.models.attempts import AttemptsQuery, attempts_view
from ethogram.viewer.models.run import RunQuery, reliability_view
from ethogram.viewer.report.attempts import attempts_part

SUITE = """
from ethogram.plans import Check, Suite, Task

def closeness(answer, expected):
    return float(answer), f"closeness {answer}"

CHECKS = (Check(kind="custom", name="close", settings={"function": "near.py:closeness"}),)
SUITE = Suite(name="near", success_at=0.8, tasks=tuple(Task(id=t, prompt="?", checks=CHECKS) for t in ("a", "b")))
"""
AGENT = """
def act(task, episode):
    with episode.record.model(model="coin-1") as call:
        call.done("hm", input_tokens=1, output_tokens=1, cost_usd=0.01)
    good = episode.attempt < (2 if task.id == "a" else 1)
    if good:
        with episode.record.model(model="coin-1") as call:
            call.done("sure", input_tokens=1, output_tokens=1, cost_usd=0.01)
    return "1.0" if good else "0.6"
act.meters = ("tokens", "usd")
"""
OLD = ("--keep-all", "0s", "--sample", "0%")


@pytest.fixture
def near(call: Any) -> Home:
    """Eight attempts at 1.0 or 0.6, three of which a suite that wants 0.8 counts as successes."""
    Path("near.py").write_text(SUITE)
    Path("act.py").write_text(AGENT)
    said = call("run", "near.py", "--agent", "act.py:act", "-k", "4", "--run", "near")
    assert said.code == 0, said
    assert "3 of 8 scored attempts succeeded" in said.out
    return open_home()


def scored(run: Run, value: float) -> list[str]:
    """The kept traces with this score."""
    return [e.head.trace_id for e in run.entries if e.head.outcome == Scored(value, "close") and not e.forgotten]


def test_every_verb_counts_the_same_successes(near: Home, document: Any) -> None:
    library = Library(near)
    counted = document("sql", "SELECT count(*) AS n FROM episodes JOIN runs USING (run) WHERE score >= success_at")
    grid = attempts_view(library, AttemptsQuery(run="near"))
    drawn = attempts_part(near.run("near"))
    assert drawn is not None
    told = {
        "show": sum(t["successes"] for t in document("show", "near")["tasks"]),
        "stats": round(8 * document("stats", "near", "--k", "1")["pass_at"]["1"]["value"]),
        "cost": document("cost", "near")["resolved"],
        "why": 8 - document("why", "near")["failed"],
        "field": document("field", "near")["successes"],
        "cloud": sum(p.outcome == "success" for p in field_cloud("near", home=near).points),
        "retain": document("retain", "near", *OLD)["forgotten"],
        "sql": counted["records"][0]["n"],
        "attempts": sum(cell.state == "passed" for row in grid.rows for cell in row.cells),
        "page": reliability_view(library, RunQuery(run="near")).passed,
        "report": sum(cell.mark == "pass" for row in drawn[0].matrix for cell in row.cells),
        "score": document("score", "near")["successes"],
    }
    assert told == dict.fromkeys(told, 3)


def test_why_names_the_check_that_failed(near: Home, document: Any) -> None:
    said = document("why", "near")["said"]
    assert [(s["said"], s["failed_with"]) for s in said] == [("check: close", 5)]


def test_two_traces_side_by_side_say_which_passed(near: Home) -> None:
    run = near.run("near")
    found = diff(scored(run, 0.6)[0], scored(run, 1.0)[0], home=near)
    assert (found.first.passed, found.second.passed) == (False, True)


def test_failures_are_kept_when_the_rest_is_forgotten(near: Home, document: Any) -> None:
    failed = scored(near.run("near"), 0.6)
    done = document("retain", "near", *OLD, "--apply")
    assert (done["kept"], done["forgotten"]) == (5, 3)
    run = near.run("near")
    assert [e.head.trace_id for e in run.entries if not e.forgotten] == failed
    assert {run.trace(trace).answer for trace in failed} == {"0.6"}
    assert sum(t["successes"] for t in document("show", "near")["tasks"]) == 3, "outcomes outlive the traces"


def test_a_run_counts_as_the_suite_says_that_scored_it_last(near: Home, call: Any, document: Any) -> None:
    Path("near.py").write_text(SUITE.replace("success_at=0.8", "success_at=0.6"))
    again = document("score", "near")
    assert again["successes"] == 8
    assert again["notes"] == ["the run now counts a score of 0.6 or more as a success, as the suite says; it was 0.8"]
    assert sum(t["successes"] for t in document("show", "near")["tasks"]) == 8
    assert document("stats", "near", "--k", "1")["pass_at"]["1"]["value"] == 1
    assert document("score", "near")["notes"] == [], "nothing changes a second time"
    assert verify_run(near.run("near")).ok
    assert document("retain", "near", *OLD, "--apply")["forgotten"] == 8
    assert near.run("near").success_at == 0.6, "the note outlives the traces"
    assert verify_run(near.run("near")).ok


def test_labels_from_a_csv_are_counted_as_the_run_counts(near: Home, document: Any) -> None:
    Path("labels.csv").write_text("task,attempt,value\na,0,0.7\na,1,0.7\n")
    assert document("score", "near", "--labels", "labels.csv")["successes"] == 1


def test_a_suite_that_knows_none_of_the_tasks_changes_nothing(near: Home, document: Any) -> None:
    Path("far.py").write_text(SUITE.replace('("a", "b")', '("x",)').replace("success_at=0.8", "success_at=0.1"))
    assert document("score", "near", "--suite", "far.py")["successes"] == 3
    assert near.run("near").success_at == 0.8
