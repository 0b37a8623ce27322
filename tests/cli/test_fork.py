"""`ethogram fork`: what people see, what scripts read, what bad input says."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ethogram.store import open_home

Call = Callable[..., Any]
BETTER = '{"content": "Fine.", "tool_calls": [{"name": "order", "arguments": {"item": "tea"}}]}'
SILENT = 'answer={"tool_calls": [{"name": "order", "arguments": {"item": "milk"}}]}'


@pytest.fixture
def world(env: dict[str, str], home: Path, request: pytest.FixtureRequest) -> Any:
    """The shop, a model that fails after wrong orders only, and a run of some attempts; the failed trace first."""
    made = request.getfixturevalue("fork_world")
    made.serve(made.Shopper(1, right=1.0, wrong=0.0))
    made.record(open_home(str(home)))
    made.failed = made.traces(open_home(str(home)), "Oh.")[0].removeprefix("b2:")[:12]
    Path("better.json").write_text(BETTER + "\n")
    return made


def test_an_effect_is_shown(world: Any, call: Call) -> None:
    said = call("fork", world.failed, "--at", "2", "-k", "12", "--set", "answer=better.json", "--price", "*=1/1")
    assert said.code == 0, said
    lines = said.out.splitlines()
    assert lines[0] == f"fork-order-tea-001  trace {world.failed} of night, task order-tea, step 2"
    assert lines[1] == 'answer = Fine. order({"item":"tea"}): this raises success'
    assert lines[2].startswith("effect on success: +1 [+0.")
    assert "95 %, betting confidence sequence, n = 8 pairs" in lines[2]
    assert lines[3] == "without it 0.00, with it 1.00; the interval excludes 0 after 8 pairs"
    assert "next: ethogram show fork-order-tea-001" in lines[-1]
    assert "$" in lines[-1]
    assert "look 1: 4 pairs, 4 gained, 0 lost; effect between" in said.err


def test_scripts_read_it(world: Any, document: Call) -> None:
    words = (world.failed, "--at", "2", "-k", "8", "--set", "answer=better.json", "--run", "if")
    found = document("fork", *words)
    assert (found["run"], found["verdict"], found["effect"]["value"], found["pairs"]) == ("if", "raises", 1.0, 8)
    assert (found["effect"]["low"] > 0, found["effect"]["level"]) == (True, 0.95)
    assert [look["pairs"] for look in found["looks"]] == [4, 8]
    assert document("fork", *words)["looks"] == found["looks"], "a run that is complete is read, not bought again"
    assert document("fork", world.failed, "--at", "2", "-k", "4", "--set", SILENT, code=2)["verdict"] == "undecided"
    assert document("fork", world.failed, "--at", "2", "-k", "2")["verdict"] is None


def test_what_is_not_settled_has_code_2(world: Any, call: Call) -> None:
    said = call("fork", world.failed, "--at", "2", "-k", "9", "--set", SILENT)
    assert said.code == 2
    assert "this is not settled" in said.out
    assert "the pairs that are left could not change that" in said.out.replace("\n", " ")


def test_a_rate_without_a_change(world: Any, call: Call) -> None:
    said = call("fork", world.failed, "--at", "3", "-k", "4", "--level", "0.9")
    assert said.code == 0
    assert "model calls are live from step 4 on" in said.out
    assert "it succeeds from there with 0 [0, 0.527] (90 %, clopper-pearson, n = 4 continuations)" in said.out


BAD = [
    (("--at", "2", "--set", "tea"), "'tea' changes nothing"),
    (("--at", "2", "--set", "seed=1"), "'seed' cannot be changed"),
    (("--at", "77", "--set", "prompt=x"), "the trace has no step 77; its steps are 0 to 4"),
    (("--at", "two"), "--at 'two' is not a step"),
    (("--at", "2", "-k", "0"), "at least one continuation"),
    (("--at", "2", "--level", "2"), "--level must lie between 0.5 and 1"),
    (("--at", "2", "--suite", "nowhere"), "nowhere"),
    (("--at", "2", "--agent", "nobody.py:solve"), "nobody"),
    (("--at", "2", "--set", "prompt=raw.bin"), "'raw.bin' of --set cannot be read as text"),
    (("--at", "2", "--run", "night"), "exists and is not a fork"),
    (("--at", "2", "--capture", "off"), "recorded answers are given at the gateway"),
]


def test_bad_input_is_one_sentence(world: Any, call: Call) -> None:
    Path("raw.bin").write_bytes(b"\xff\xfe\x00")
    for words, said in BAD:
        found = call("fork", world.failed, *words)
        assert found.code == 64, words
        assert said in found.err, words
        assert "Traceback" not in found.err
        assert found.out == ""
    assert call("runs").out.count("fork") == 0, "nothing was begun"


def test_ctrl_c_and_going_on(world: Any, env: dict[str, str], home: Path, call: Call) -> None:
    """A real process, a real signal: what was bought stays, and the same command goes on."""
    patient = world.model

    def slow(request: Any) -> Any:
        time.sleep(0.3)
        return patient(request)

    world.serve(slow)
    words = ("fork", world.failed, "--at", "2", "-k", "16", "--set", SILENT, "--run", "cut", "--workers", "1")
    variables = env | world.server.variables()
    with subprocess.Popen(["ethogram", *words], env=variables, stderr=subprocess.PIPE, text=True) as started:
        until = time.monotonic() + 60
        runs = open_home(str(home))
        while time.monotonic() < until and not ("cut" in runs.names() and len(runs.run("cut").entries) >= 2):
            time.sleep(0.1)
        started.send_signal(signal.SIGINT)
        _, told = started.communicate(timeout=60)
    assert started.returncode == 130, told
    assert "continue with --run cut" in told
    kept = {e.head.trace_id for e in open_home(str(home)).run("cut").entries}
    assert kept
    world.serve(patient)
    said = call(*words, "--json")
    assert said.code == 2
    after = {e.head.trace_id for e in open_home(str(home)).run("cut").entries}
    assert kept < after
