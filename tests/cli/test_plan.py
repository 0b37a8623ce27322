"""`ethogram plan`: what people see, what scripts read, what bad input says."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from ethogram.lab.gating import PlanResult

SUITE = """
from ethogram.plan import Check, Suite, Task

SUITE = Suite(name="coins", tasks=tuple(
    Task(id=f"t{i:02d}", prompt="?", expected="yes", checks=(Check(kind="equals"),)) for i in range(10)))
"""
AGENTS = """
from ethogram.run.faults import NetworkFault

def make(rate, fate="b", lost=0.0):
    def agent(task, episode):
        if episode.random("world").random() < lost:
            raise NetworkFault("down")
        with episode.record.model(model="coin-1", params={"temperature": 0.3}) as call:
            call.done("hm", input_tokens=1, output_tokens=1, cost_usd=0.01)
        return "yes" if episode.random(fate).random() < rate else "no"
    return agent

good, same, bad, sure, dead, torn = make(.8, "a"), make(.8), make(.2), make(1.0), make(.8, lost=1.0), make(.8, lost=.2)
"""


def as_said(kind: type) -> dict[str, Any]:
    """The schema of a record; the ends of an estimate may be infinite, which JSON says in words."""
    schema = msgspec.json.schema(kind)
    if "Estimate" in schema["$defs"]:
        for name in ("value", "low", "high"):
            schema["$defs"]["Estimate"]["properties"][name]["anyOf"].append({"enum": ["inf", "-inf"]})
    return schema


def checked(verb: str, kind: type, text: str) -> dict[str, Any]:
    """One document, valid under the schema that ships, or under that of its record while none is shipped."""
    assert text.count("\n") == 1, "more than one line on stdout"
    found: dict[str, Any] = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} in JSON"))
    file = files("ethogram") / "schemas" / f"{verb}.json"
    schema = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else as_said(kind)
    jsonschema.validate(found, schema)
    assert found["schema_version"] == 1
    return found


@pytest.fixture
def ran(call):
    """`ran("main", "good", 20)` runs an agent so many times over ten coins."""
    Path("coins.py").write_text(SUITE)
    Path("act.py").write_text(AGENTS)

    def run(name: str, agent: str, k: int) -> str:
        said = call("run", "coins.py", "--agent", f"act.py:{agent}", "-k", str(k), "--run", name, "--retries", "0")
        assert said.code in (0, 2), said
        return name

    return run


def test_what_people_see(call):
    said = call("plan", "--drop", "0.15", "--price", "0.05", "--tasks", "30")
    assert said.code == 0
    assert "a drop of 0.15 on 30 tasks, found with power 0.8 at 5% false alarms (both arms run anew)" in said.out
    assert "runs at most" in said.out
    assert "$" in said.out
    assert "simulated" in said.out
    stored = call("plan", "--drop", "0.15", "--stored", "20")
    assert "candidate only, 20 stored attempts per task" in stored.out
    assert "price unknown" in stored.out


def test_what_scripts_read(call, ran):
    ran("pilot", "good", 4)
    found = checked("plan", PlanResult, call("plan", "pilot", "--drop", "0.2", "--json").out)
    assert (found["pilot"], found["tasks"], found["price"]) == ("pilot", 10, pytest.approx(0.01))
    assert found["cost_usd"] == pytest.approx(0.01 * found["runs"])
    budget = checked("plan", PlanResult, call("plan", "pilot", "--max-runs", str(found["runs"]), "--json").out)
    assert budget["runs"] <= found["runs"]
    assert budget["drop"] <= 0.2 + 1e-3
    again = checked("plan", PlanResult, call("plan", "pilot", "--drop", "0.2", "--json").out)
    assert again == found


@pytest.mark.parametrize(
    "words",
    [
        ("--drop", "0"),
        ("--drop", "0.95"),
        ("--alpha", "0"),
        ("--power", "1"),
        ("--rate", "1"),
        ("--spread", "0.9"),
        ("--tasks", "0"),
        ("--stored", "-1"),
        ("--max-usd", "5"),
        ("--max-runs", "1"),
        ("--drop", "0.1", "--max-runs", "100"),
        ("nobody",),
    ],
)
def test_bad_input_is_one_sentence(call, words):
    said = call("plan", *words)
    assert said.code == 64, said
    assert "Traceback" not in said.err
    assert said.out == ""
