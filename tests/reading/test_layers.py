"""Stored runs by layer: own checks of every kind, logs with a reference and a score, runs of any age."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ethogram.harness.suites import run
from ethogram.plans import Check, Suite, Task
from ethogram.questions.compare.question import compare
from ethogram.questions.gate.question import gate
from ethogram.questions.logs.imports import import_logs
from ethogram.questions.scoring.question import score
from ethogram.questions.why.question import why
from ethogram.reading.layers import layers_of
from ethogram.store import Home

CHECKS = (
    Check(kind="equals", settings={"expected": "done"}, required=False),
    Check(kind="tool_calls", settings={"calls": [{"name": "switch", "arguments": {"lamp": 1}}]}, required=False),
    Check(kind="files", settings={"exists": ["lamp.txt"]}),
)


def lamps(tasks: int = 6) -> Suite:
    return Suite(name="lamps", tasks=tuple(Task(id=f"t{i}", prompt="?", checks=CHECKS) for i in range(tasks)))


def agent(*, says: float = 1.0, calls: float = 1.0, leaves: float = 1.0, crashes: bool = False) -> Any:
    """Switches a lamp, leaves a file and says so; each goes wrong by itself in a share of the attempts."""

    def work(task: Task, episode: Any) -> str:
        if crashes and episode.attempt % 2:
            raise RuntimeError("out of oil")
        lamp = 1 if episode.random("call").random() < calls else 2
        episode.record.tool("switch", lambda lamp: "on", lamp=lamp)
        if episode.random("leave").random() < leaves:
            (episode.workspace / "lamp.txt").write_text("on")
        return "done" if episode.random("say").random() < says else "hm"

    return work


def test_each_layer_has_its_rate_and_the_way_taken_is_not_measured(home: Home) -> None:
    run(lamps(), agent(calls=0.0), k=5, home=home, run="night")
    found = layers_of("night", home=home)
    assert {layer: rate.value for layer, rate in found.layers.items()} == {"L0": 1.0, "L1": 0.0, "L2": None, "L3": 1.0}
    assert found.layers["L2"].why == "not measured: the steps were not judged; use ethogram judge"
    assert why("night", home=home).layers == found.layers
    assert [row["layer"] for row in found.rows()] == ["L0", "L1", "L2", "L3"]


@pytest.mark.parametrize(
    ("worse", "moved", "suspects"),
    [
        ({"calls": 0.3}, ["L1"], ["tools"]),
        ({"leaves": 0.3}, ["L3"], ["plan", "environment", "verifier"]),
        ({"says": 0.3}, ["L0"], ["prompt"]),
        ({}, [], []),
    ],
)
def test_the_layer_that_was_broken_is_the_one_that_moved(
    home: Home, worse: dict[str, float], moved: list[str], suspects: list[str]
) -> None:
    run(lamps(), agent(), k=10, home=home, run="old")
    run(lamps(), agent(**worse), k=10, home=home, run="new")
    found = compare("old", "new", home=home).layers
    assert found is not None
    assert (found.moved, found.suspects) == (moved, suspects)


def test_gate_and_why_say_the_same_as_compare(home: Home) -> None:
    run(lamps(), agent(), k=10, home=home, run="old")
    run(lamps(), agent(calls=0.3), k=10, home=home, run="new")
    moved = ["L1"]
    judged = gate("old", "new", home=home).layers
    assert judged is not None
    assert judged.moved == moved
    against = why("new", against="old", home=home).against
    assert against is not None
    assert against.layers is not None
    assert against.layers.moved == moved
    document = json.loads(compare("old", "new", home=home).to_json())["layers"]
    assert document["layers"]["L2"]["state"] == "not measured"
    assert compare("old", "new", home=home, metric="steps").layers is None


def test_an_attempt_that_the_agent_crashed_fails_every_layer(home: Home) -> None:
    run(lamps(), agent(), k=6, home=home, run="old")
    run(lamps(), agent(crashes=True), k=6, home=home, run="new")
    rates = layers_of("new", home=home).layers
    assert rates["L3"].value == 0.5
    assert rates["L1"].value == 0.5, "a crash is no way to be left out of a layer"
    found = compare("old", "new", home=home).layers
    assert found is not None
    assert {"L1", "L3"} <= set(found.moved)


def turns(task: int, trial: int, reward: float, amount: int) -> dict[str, Any]:
    """One run as tau-bench writes it: a refund, and the actions that were expected."""
    call = {"id": "c", "type": "function", "function": {"name": "refund", "arguments": json.dumps({"amount": amount})}}
    talk = [
        {"role": "user", "content": "Refund it."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "name": "refund", "content": "refunded"},
        {"role": "assistant", "content": f"Done, {trial}."},
    ]
    expected = {"user_id": "u", "actions": [{"name": "refund", "kwargs": {"amount": 30}}], "instruction": "x" * 500}
    return {"task_id": task, "trial": trial, "reward": reward, "info": {"task": expected}, "traj": talk}


def test_a_log_with_a_reference_has_tool_calls_and_an_end_state(logs: Any, home: Home) -> None:
    same = [turns(t, k, 1.0, 30) for t in range(5) for k in range(8)]
    wrong = [turns(t, k, 0.0, 3) if k % 2 else turns(t, k, 1.0, 30) for t in range(5) for k in range(8)]
    import_logs(logs.put("same.json", same), run="same", home=home)
    import_logs(logs.put("wrong.json", wrong), run="wrong", home=home)
    found = layers_of("wrong", home=home)
    assert (found.layers["L1"].value, found.layers["L3"].value) == (0.5, 0.5)
    assert "0 of 20 attempts with a wrong end state pass L1" in found.look
    assert "tool descriptions" in found.look
    told = compare("same", "wrong", home=home).layers
    assert told is not None
    assert told.moved == ["L1", "L3"]
    assert told.suspects == ["tools"]
    silent = [turns(t, k, 0.0 if k % 2 else 1.0, 30) for t in range(5) for k in range(8)]
    import_logs(logs.put("silent.json", silent), run="silent", home=home)
    assert "verifier" in layers_of("silent", home=home).look, "right calls, wrong end: the environment or the verifier"


def test_a_score_that_nobody_places_is_said(logs: Any, home: Home) -> None:
    import_logs(logs.put("chat.jsonl", logs.chat("hello", "good day")), run="chat", home=home)
    (row,) = [{"trace": e.head.trace_id} for e in home.resolve("chat").entries]
    labels = logs.put("verdicts.csv", f"trace,outcome\n{row['trace']},1\n".encode())
    score("chat", outcome_from=f"csv:{labels}", home=home)
    found = layers_of("chat", home=home)
    assert all(rate.value is None for rate in found.layers.values())
    assert len(found.notes) == 1
    assert "belong to no known layer" in found.notes[0]


def test_a_check_asked_later_is_a_layer(logs: Any, home: Home) -> None:
    import_logs(logs.put("chat.jsonl", logs.chat("hello", "good day")), run="chat", home=home)
    score("chat", checks=["contains=good"], home=home)
    score("chat", checks=["contains=bad"], home=home)
    assert layers_of("chat", home=home).layers["L0"].value == 0.0, "the newest demand of a name counts"
