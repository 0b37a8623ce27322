"""`ethogram compare`: what people see, what scripts read, what bad input says."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from ethogram.lab.comparison import CompareResult

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


def test_what_people_see(call, ran):
    ran("old", "good", 8)
    ran("new", "bad", 8)
    said = call("compare", "old", "new")
    assert said.code == 0, "a comparison tells; only the gate judges"
    assert "old → new  regression" in said.out
    assert "difference -0." in said.out
    assert "80 pairs (80 with the same seed)" in said.out
    assert "exact p" in said.out
    assert "… and 8 more tasks; --limit shows more" in call("compare", "old", "new", "--limit", "2").out


def test_what_scripts_read(call, ran):
    ran("old", "good", 4)
    ran("new", "sure", 4)
    found = checked("compare", CompareResult, call("compare", "old", "new", "--json").out)
    assert found["verdict"] == "improvement"
    assert found["difference"]["low"] > 0
    assert found["pairs"]["lost"] == 0
    assert len(found["tasks"]) == 10
    for metric in ("cost", "steps", "tokens", "seconds"):
        paid = checked("compare", CompareResult, call("compare", "old", "new", "--metric", metric, "--json").out)
        assert paid["metric"] == metric
        assert paid["pairs"] is None
    between = checked("compare", CompareResult, call("compare", "old", "new", "--design", "between", "--json").out)
    assert between["method"] == "paired t over tasks"


def test_nothing_to_compare_cannot_be_decided(call, ran):
    ran("old", "good", 2)
    ran("dead", "dead", 2)
    said = call("compare", "old", "dead")
    assert said.code == 2
    assert "no task has a known success in both runs" in said.out
    assert "anywhere from" in said.out


def test_bad_input_is_one_sentence(call, ran):
    ran("old", "good", 1)
    Path("coins.py").write_text(SUITE.replace("range(10)", "range(9)"))
    assert call("run", "coins.py", "--agent", "act.py:good", "--run", "newer").code == 0
    for words, told in (
        (("old", "newer"), "different versions"),
        (("old", "nobody"), "nobody"),
        (("old", "old", "--metric", "x"), "metric"),
    ):
        said = call("compare", *words)
        assert said.code == 64, said
        assert told in said.err
        assert "Traceback" not in said.err
