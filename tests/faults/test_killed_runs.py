"""A run that is killed with -9 again and again and resumed gives what one uninterrupted run gives, each once."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ethogram.store import Home, open_home, verify

KILLS = 100 if os.environ.get("ETHOGRAM_LONG") else 6
EPISODES = 300

SUITE = """
from ethogram.plan import Check, Suite, Task

SUITE = Suite(name="many", tasks=tuple(
    Task(id=f"t{i}", prompt="?", expected="yes", checks=(Check(kind="equals"),)) for i in range(30)))
"""
AGENT = """
import time
from ethogram.run.faults import NetworkFault

def agent(task, episode):
    time.sleep(0.02)
    if episode.random("world").random() < 0.1:
        raise NetworkFault("down")
    with episode.record.model(model="m") as call:
        call.done("hm", input_tokens=3, output_tokens=1, cost_usd=0.001)
    return "yes" if episode.rng.random() < 0.5 else "no"
"""


def ledger(home: Home, run: str) -> list[tuple[Any, ...]]:
    return sorted(
        (e.head.task, e.head.attempt, e.head.seed, str(e.head.outcome), e.totals.cost_usd or 0)
        for e in home.run(run).entries
    )


def start(place: Path, *args: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "ethogram.cli.main", "run", *args, "--home", str(place / "home"), "--json"]
    with (place / "said").open("wb") as said:
        return subprocess.Popen(command, cwd=place, stdout=subprocess.DEVNULL, stderr=said)


@pytest.mark.xdist_group("killed")
def test_killed_and_resumed_runs_equal_an_uninterrupted_one(tmp_path: Path) -> None:
    (tmp_path / "many.py").write_text(SUITE)
    (tmp_path / "act.py").write_text(AGENT)
    common = (
        "many.py",
        "--agent",
        "act.py:agent",
        "-k",
        str(EPISODES // 30),
        "--retries",
        "0",
        "--max-concurrency",
        "4",
    )
    whole = start(tmp_path, *common, "--run", "whole")
    assert whole.wait(120) == 0, (tmp_path / "said").read_text()
    home = open_home(str(tmp_path / "home"))
    expected = ledger(home, "whole")
    assert len(expected) == EPISODES
    rng = random.Random(11)
    process = start(tmp_path, *common, "--run", "torn")
    kills = 0
    while kills < KILLS:
        time.sleep(rng.uniform(0.3, 1.6))
        process.send_signal(signal.SIGKILL)
        process.wait()
        kills += 1
        if (tmp_path / "home/runs/torn/run.json").exists():
            process = start(tmp_path, "--resume", "torn", "--max-concurrency", "4")
        else:
            process = start(tmp_path, *common, "--run", "torn")
    assert process.wait(120) == 0, (tmp_path / "said").read_text()
    assert ledger(home, "torn") == expected
    checked = verify(home.run("torn"))
    assert checked.ok, checked.damaged
