"""A home of one's own, small logs, and two ways to call the command: in this process and in one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import pytest

from ethogram.cli.main import run_verb

COMMAND = Path(sys.executable).with_name("ethogram")
KEY = "sk-proj-" + "9hTq2LmZ7vXc4RbN1wYk8sDf5gJp3aEu6oKi0tQxWzBnMrVy"
MAIL = "ada.lovelace@example.org"
COINS = """
from ethogram.plans import Check, Suite, Task

SUITE = Suite(name="coins", tasks=tuple(
    Task(id=f"t{i:02d}", prompt="?", expected="yes", checks=(Check(kind="equals"),)) for i in range(10)))
"""
FLIPPERS = """
from ethogram.harness.faults import NetworkFault

def make(rate, fate="b", lost=0.0):
    def agent(task, episode):
        if episode.random("world").random() < lost:
            raise NetworkFault("down")
        with episode.record.model(model="coin-1", params={"temperature": 0.3}) as call:
            call.done("hm", input_tokens=1, output_tokens=1, cost_usd=0.01)
        return "yes" if episode.random(fate).random() < rate else "no"
    agent.meters = ("tokens", "usd")
    return agent

good, same, bad, sure, dead, torn = make(.8, "a"), make(.8), make(.2), make(1.0), make(.8, lost=1.0), make(.8, lost=.2)
"""


class Said(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


Call = Callable[..., Said]


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A newcomer's environment: an empty home, no keys, a working folder of its own."""
    place = tmp_path / "work"
    place.mkdir()
    monkeypatch.chdir(place)
    for name in [n for n in os.environ if n.startswith("ETHOGRAM_")]:
        monkeypatch.delenv(name)
    for name, value in {
        "ETHOGRAM_HOME": str(tmp_path / "home"),
        "ETHOGRAM_KEYS": str(tmp_path / "keys.json"),
        "PATH": f"{COMMAND.parent}{os.pathsep}{os.environ['PATH']}",
    }.items():
        monkeypatch.setenv(name, value)
    return dict(os.environ)


@pytest.fixture
def home(env: dict[str, str]) -> Path:
    return Path(env["ETHOGRAM_HOME"])


@pytest.fixture
def call(env: dict[str, str], capfd: pytest.CaptureFixture[str]) -> Call:
    """Call a verb in this process."""

    def caller(*args: str | Path) -> Said:
        capfd.readouterr()
        code = run_verb([str(a) for a in args])
        return Said(code, *capfd.readouterr())

    return caller


@pytest.fixture
def shell(env: dict[str, str]) -> Call:
    """Run a line in a real bash, with the command on its path."""

    def caller(line: str, stdin: str = "", **more: str) -> Said:
        done = subprocess.run(
            ["bash", "-c", line], input=stdin, capture_output=True, text=True, env={**env, **more}, timeout=120
        )
        return Said(done.returncode, done.stdout, done.stderr)

    return caller


@pytest.fixture
def document(call: Call) -> Callable[..., dict[str, Any]]:
    """Call a verb with --json: one document, nothing else on stdout, valid under the schema that ships."""

    def caller(verb: str, *args: str | Path, code: int = 0) -> dict[str, Any]:
        said = call(verb, *args, "--json")
        assert said.code == code, said
        assert said.out.count("\n") == 1, "more than one line on stdout"
        return valid(verb, said.out)

    return caller


@cache
def _validator(verb: str) -> jsonschema.Draft202012Validator:
    """The schema of a verb as it ships; whether it is one itself takes longer to find out than any document does."""
    schema = json.loads((files("ethogram") / "schemas" / f"{verb}.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def valid(verb: str, text: str) -> dict[str, Any]:
    """A document, checked against the schema of its verb and against keys that the schema does not know."""
    built: dict[str, Any] = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} in JSON"))
    validator = _validator(verb)
    validator.validate(built)
    schema = validator.schema
    roots = [r["$ref"].rpartition("/")[2] for r in schema.get("anyOf", [schema])]
    assert any(built.keys() <= schema["$defs"][root]["properties"].keys() for root in roots)
    return built


@pytest.fixture
def checked() -> Callable[[str, str], dict[str, Any]]:
    """What a verb printed with --json, whatever its exit code: one line, valid under the schema that ships."""

    def check(verb: str, text: str) -> dict[str, Any]:
        assert text.count("\n") == 1, "more than one line on stdout"
        found = valid(verb, text)
        assert found["schema_version"] == 1
        return found

    return check


@pytest.fixture
def ran(call: Call) -> Callable[[str, str, int], str]:
    """`ran("main", "good", 20)` runs an agent 20 times over ten coins."""
    Path("coins.py").write_text(COINS)
    Path("act.py").write_text(FLIPPERS)

    def run(name: str, agent: str, k: int) -> str:
        said = call("run", "coins.py", "--agent", f"act.py:{agent}", "-k", str(k), "--run", name, "--retries", "0")
        assert said.code in (0, 2), said
        return name

    return run


def turns(task: int, trial: int, reward: float) -> dict[str, Any]:
    """One run of a small service agent, with a secret and an address in it."""
    call = {"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": f'{{"mail": "{MAIL}"}}'}}
    talk: list[dict[str, Any]] = [
        {"role": "user", "content": f"Where is my order? I am {MAIL}."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "name": "lookup", "content": f"order 7, key {KEY}"},
        {"role": "assistant", "content": f"It leaves on day {trial}."},
    ]
    if not reward:
        talk[2]["content"] = "Error: no such customer"
    return {"task_id": task, "trial": trial, "reward": reward, "info": {"source": "user"}, "traj": talk}


@pytest.fixture
def log(env: dict[str, str]) -> Path:
    """Two tasks, two trials each, one of the four a failure."""
    path = Path("desk.json")
    path.write_text(json.dumps([turns(t, k, float((t, k) != (1, 1))) for k in (0, 1) for t in (0, 1)]))
    return path


@pytest.fixture
def lake(log: Path, call: Call) -> str:
    """A run with four traces."""
    said = call("import", log, "--run", "desk")
    assert said.code == 0, said
    return "desk"
