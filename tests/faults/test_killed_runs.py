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

from ethogram.store import Home, open_home, verify_run

LONG = bool(os.environ.get("ETHOGRAM_LONG"))
KILLS = 100 if LONG else 6
EPISODES = 300
PAUSE = 0.25 if LONG else 0.02
"""How long an episode takes: so long that a run lives through many kills."""

SUITE = """
from ethogram.plans import Check, Suite, Task

SUITE = Suite(name="many", tasks=tuple(
    Task(id=f"t{i}", prompt="?", expected="yes", checks=(Check(kind="equals"),)) for i in range(30)))
"""
AGENT = f"""
import time
from ethogram.harness.faults import NetworkFault

def agent(task, episode):
    time.sleep({PAUSE})
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
        "--workers",
        "4",
    )
    whole = start(tmp_path, *common, "--run", "whole")
    assert whole.wait(120) == 0, (tmp_path / "said").read_text()
    home = open_home(str(tmp_path / "home"))
    expected = ledger(home, "whole")
    assert len(expected) == EPISODES
    assert len({outcome for _, _, _, outcome, _ in expected}) == 3  # successes, failures and missing ones
    kills = grown = torn = 0
    rng = random.Random(11)
    while kills < KILLS:
        torn += 1
        more, of_them = tear(tmp_path, home, f"torn-{torn}", common, rng, KILLS - kills)
        kills, grown = kills + more, grown + of_them
        assert ledger(home, f"torn-{torn}") == expected
        checked = verify_run(home.run(f"torn-{torn}"))
        assert checked.ok, checked.damaged
    print(f"{kills} kills, {grown} of sessions that had committed something, {torn} run(s) of {EPISODES} episodes")
    assert grown >= KILLS // 5


def tear(place: Path, home: Home, name: str, new: tuple[str, ...], rng: random.Random, most: int) -> tuple[int, int]:
    """Kill a run again and again until it is complete; gives how many kills met it with work left to do, and how
    many of those met a session that had committed something."""
    folder = place / f"home/runs/{name}"
    kills = grown = before = 0
    process = start(place, *new, "--run", name)
    while kills < most:
        if rng.random() < 0.7:  # most at some moment of the work, the others at some moment of the start
            until = time.monotonic() + 60
            while not list(folder.glob("writers/*.json")) and process.poll() is None and time.monotonic() < until:
                time.sleep(0.01)
        try:
            process.wait(rng.uniform(0.0, 1.6))
            break
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait(timeout=60)
        begun = (folder / "run.json").exists()
        now = len(home.run(name).entries) if begun else 0
        kills += now < EPISODES
        grown += before < now < EPISODES
        before = now
        more = ("--resume", name, "--workers", "4") if begun else (*new, "--run", name)
        for lease in folder.glob("writers/*.json"):
            lease.unlink()  # of the dead
        process = start(place, *more)
    assert process.wait(240) == 0, (place / "said").read_text()
    return kills, grown
