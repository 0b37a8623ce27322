"""Runs that somebody stops, or that reach their budget: exit codes, what is said, and what is kept."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ethogram.questions.home.kill_switch import kill
from ethogram.store import open_home, verify_run

WORLD = """
import time
from ethogram.plans import Check, Suite, Task

SUITE = Suite(name="many", tasks=tuple(
    Task(id=f"t{i}", prompt="?", expected="yes", checks=(Check(kind="equals"),)) for i in range(20)))

def slow(task, episode):
    # the first few are quick; then a call that nothing can interrupt
    time.sleep(0.05 if task.id in ("t0", "t1", "t2") else 60)
    return "yes"

def steady(task, episode):
    with episode.record.model(model="m", at_most_usd=0.01) as call:
        time.sleep(0.05)
        call.done("yes", input_tokens=1, output_tokens=1, cost_usd=0.01)
    return "yes"

steady.meters = ("tokens", "usd")

def quits(task, episode):
    raise SystemExit("enough")

async def quits_too(task, episode):
    raise SystemExit(3)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "world.py").write_text(WORLD)
    return tmp_path


def start(place: Path, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "ethogram.cli.main", *args],
        cwd=place,
        env={**os.environ, "ETHOGRAM_HOME": str(place / "home")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(place: Path, *args: str) -> tuple[int, str, str]:
    process = start(place, "run", *args)
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def wait_for(place: Path, run: str, episodes: int) -> None:
    home, deadline = open_home(str(place / "home")), time.monotonic() + 60
    while time.monotonic() < deadline:
        if home.files.exists(f"runs/{run}/run.json") and len(home.run(run).entries) >= episodes:
            return
        time.sleep(0.05)
    pytest.fail(f"{run} did not come to {episodes} episodes in a minute")


@pytest.mark.parametrize("form", ["people", "--json"])
def test_ctrl_c_ends_at_once_with_130_and_keeps_what_is_done(place: Path, form: str) -> None:
    more = ("--json",) if form == "--json" else ()
    process = start(place, "run", "world.py", "--agent", "world.py:slow", "--run", "night", *more)
    wait_for(place, "night", 3)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert time.monotonic() - began < 20  # not the minute that its agents would take
    assert process.returncode == 130, err
    assert "Traceback" not in err
    if more:
        told = json.loads(out)
        assert (told["stopped"], told["scored"], told["not_run"]) == ("interrupted", 3, 17)
    else:
        assert "stopped: interrupted from the keyboard; resume with: ethogram run --resume night" in out
    assert verify_run(open_home(str(place / "home")).run("night")).ok
    code, out, _ = run(place, "--resume", "night", "--dry-run", "--json")
    assert (code, json.loads(out)["remaining"]) == (0, 17)


def test_the_kill_switch_gives_130_and_resume_goes_on(place: Path) -> None:
    process = start(place, "run", "world.py", "--agent", "world.py:steady", "-k", "20", "--run", "night")
    wait_for(place, "night", 5)
    kill("night", home=str(place / "home"))
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "stopped: the kill switch is on; resume with: ethogram run --resume night --undo" in out
    code, out, err = run(place, "--resume", "night")
    assert code == 64
    assert (
        "kill switch of run 'night' is pulled, so nothing begins; release it: ethogram kill night --undo"
        in " ".join(err.split())
    )
    code, out, err = run(place, "--resume", "night", "--undo", "--json")
    told = json.loads(out)
    assert (code, told["scored"], told["not_run"], told["stopped"]) == (0, 400, 0, None)


def test_a_run_that_its_budget_ended_before_its_plan_says_so(place: Path) -> None:
    code, out, _ = run(place, "world.py", "--agent", "world.py:steady", "--max-usd", "0.1", "--run", "night")
    assert code == 2
    assert "stopped: the experiment's budget is used up; resume with: ethogram run --resume night --max-usd MORE" in out
    code, out, _ = run(place, "--resume", "night", "--json")
    told = json.loads(out)
    assert (code, told["stopped"]) == (2, "cap.experiment")
    assert told["cost_usd"] <= 0.1 + 0.01
    code, out, _ = run(place, "--resume", "night", "--max-usd", "1", "--retry", "cap.experiment", "--json")
    told = json.loads(out)
    assert (code, told["scored"], told["stopped"]) == (0, 20, None)


def test_more_attempts_from_the_command_line(place: Path) -> None:
    assert run(place, "world.py", "--agent", "world.py:steady", "-k", "2", "--run", "night")[0] == 0
    code, out, _ = run(place, "--resume", "night", "-k", "3", "--task", "t4", "--json")
    assert (code, json.loads(out)["planned"], json.loads(out)["executed"]) == (0, 41, 1)
    code, out, err = run(place, "--resume", "night", "-k", "1")
    assert (code, out, err.count("\n")) == (64, "", 1)
    assert "a resume cannot reduce the number of attempts" in err
    code, out, err = run(place, "--resume", "night", "--seed", "4")
    assert (code, out) == (64, "")
    assert "--seed cannot be changed when a run is resumed" in err


@pytest.mark.parametrize("agent", ["quits", "quits_too"])
def test_an_agent_that_calls_exit_ends_its_episode_only(place: Path, agent: str) -> None:
    code, out, err = run(place, "world.py", "--agent", f"world.py:{agent}", "--run", "night", "--json")
    told: dict[str, Any] = json.loads(out)
    assert (code, told["scored"], told["successes"], told["missing"]) == (2, 20, 0, {}), err
    labels = {x.value for x in open_home(str(place / "home")).run("night").labels() if x.name == "stopped_by"}
    assert labels == {"crash.AgentCrash"}
