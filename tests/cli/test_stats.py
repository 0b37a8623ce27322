"""`ethogram stats`: what people see, what scripts read, what bad input says."""

from __future__ import annotations

import json
import re

import pytest


def test_what_people_see(call, ran):
    ran("night", "good", 4)
    said = call("stats", "night", "--k", "1,2,4,8")
    assert said.code == 0
    assert "n 40 attempts, c " in said.out
    assert "model: coin-1; temperature: 0.3; scaffold: unknown" in said.out
    assert "40 planned: 40 scored (100%), 0 missing" in said.out
    assert "pass@k" in said.out
    assert "pass^k" in said.out
    assert "●" in said.out
    assert "note: no task has 8 scored attempts; the most is 4" in said.out
    assert "the interval is about exactly these 10 tasks; for the population of tasks, 20 tasks are needed" in said.out
    assert "naive" not in said.out
    assert "pass@k / pass@1" in call("stats", "night", "--naive").out
    assert "… and 7 more tasks; --limit 0 shows all" in call("stats", "night", "--limit", "3").out


def test_k_over_other_tasks_is_said(call, tmp_path):
    """Easy tasks were attempted four times, hard ones twice: pass^k rises along the table, which must not mislead."""
    runs = [
        {"task_id": task, "trial": trial, "reward": float(task < 6 or trial == 0), "info": {}, "traj": []}
        for task in range(24)
        for trial in range(4 if task < 6 else 2)
    ]
    for row in runs:
        row["traj"] = [{"role": "user", "content": f"task {row['task_id']}"}, {"role": "assistant", "content": "Done."}]
    (tmp_path / "uneven.json").write_text(json.dumps(runs))
    assert call("import", str(tmp_path / "uneven.json"), "--run", "uneven").code == 0
    said = call("stats", "uneven", "--k", "1,2,4")
    assert re.match(
        r"uneven  pass@1 0\.\d{3} \[0\.\d{3}, 0\.\d{3}\], \d+ of 60 scored attempts succeeded\nn 60 attempts, c ",
        said.out,
    )
    assert said.out.splitlines()[4].split()[:3] == ["k", "tasks", "pass@k"]
    assert "each k uses only the tasks with k attempts" in said.out
    found = json.loads(call("stats", "uneven", "--k", "1,2,4", "--json").out)
    assert found["same_tasks"] is False
    assert found["pass_hat"]["4"]["value"] > found["pass_hat"]["2"]["value"]
    assert "18 tasks have fewer than 4 attempts" in found["pass_hat"]["4"]["why"]


def test_what_scripts_read(call, ran, checked):
    ran("night", "good", 3)
    found = checked("stats", call("stats", "--k", "1-3", "--json").out)
    assert found["run"] == "night"
    assert set(found["pass_at"]) == set(found["pass_hat"]) == {"1", "2", "3"}
    assert found["episodes"] == {"planned": 30, "run": 30, "scored": 30, "missing": {}, "coverage": 1.0}
    assert len(found["tasks"]) == 10
    assert {"value", "low", "high", "level", "method", "n", "of", "missing"} <= found["pass_hat"]["3"].keys()
    refused = checked("stats", call("stats", "--k", "9", "--naive", "--json").out)
    assert (refused["pass_hat"]["9"]["value"], refused["pass_hat"]["9"]["low"]) == (None, None)


def test_missing_attempts_both_ways(call, ran):
    ran("night", "torn", 5)
    left_out, failed = call("stats", "night"), call("stats", "night", "--missing", "failure")
    assert "infrastructure.network" in left_out.out
    assert "pass@1 if all missing attempts failed:" in left_out.out
    assert "missing attempts are counted as failures (--missing failure)" in failed.out
    assert (left_out.code, failed.code) == (0, 0)


def test_nothing_scored_cannot_be_decided(call, ran, checked):
    ran("dead", "dead", 2)
    said = call("stats", "dead")
    assert said.code == 2
    assert "no attempt has a score" in said.out
    found = checked("stats", call("stats", "dead", "--json").out)
    assert found["bounds"] == {"worst": 0.0, "best": 1.0}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--k", "x"), "cannot be read"),
        (("--k", "0"), "from 1 on"),
        (("--condition", "loud"), "has no conditions"),
        (("nowhere",), "nowhere"),
    ],
)
def test_bad_input_is_one_sentence(call, ran, words, told):
    ran("night", "good", 1)
    said = call("stats", *words)
    assert said.code == 64
    assert told in said.err
    assert "Traceback" not in said.err
