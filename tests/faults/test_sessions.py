"""One session at a time, in a home that is there: real processes, a home that is removed under a run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from ethogram.errors import Locked
from ethogram.store.files import LocalFiles
from ethogram.store.lease import Lease, leases, session

COMMAND = Path(sys.executable).with_name("ethogram")
WORLD = """
import time
from pathlib import Path
from ethogram.plans import Check, Suite, Task

SUITE = Suite(name="many", tasks=tuple(
    Task(id=f"t{i}", prompt="?", expected="yes", checks=(Check(kind="equals"),)) for i in range(40)))

def slow(task, episode):
    with open("started", "a") as file:
        file.write("x")
    time.sleep(0.2)
    return "yes"

def waiting(task, episode):
    slow(task, episode)
    while not Path("go").exists():
        time.sleep(0.05)
    return "yes"
"""
RUN = ("run", "world.py", "--agent", "world.py:slow", "--run", "night", "--workers", "2")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "world.py").write_text(WORLD)
    return tmp_path


def start(place: Path, *args: str) -> subprocess.Popen[str]:
    env = {**os.environ, "ETHOGRAM_HOME": str(place / "home")}
    pipe = subprocess.PIPE
    return subprocess.Popen([COMMAND, *args], cwd=place, env=env, stdout=pipe, stderr=pipe, text=True)


def started(place: Path, count: int) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if (place / "started").exists() and len((place / "started").read_text()) >= count:
            return
        time.sleep(0.02)
    pytest.fail("the run did not begin")


def test_a_home_that_vanishes_stops_the_run_in_one_sentence(place: Path) -> None:
    run = start(place, *RUN)
    started(place, 6)
    shutil.rmtree(place / "home")
    out, err = run.communicate(timeout=60)
    assert run.returncode == 64, (out, err)
    assert "run 'night' has vanished from" in err
    assert "Traceback" not in err
    assert "not run" not in out
    assert len((place / "started").read_text()) < 40, "it went on and paid for nothing"
    assert not (place / "home" / "runs" / "night").exists(), "half a run must not come back"


def test_a_run_that_is_still_going_is_not_resumed(place: Path) -> None:
    run = start(place, "run", "world.py", "--agent", "world.py:waiting", "--run", "night", "--workers", "20")
    started(place, 2)
    second = start(place, "run", "--resume", "night")
    out, err = second.communicate(timeout=60)
    assert (second.returncode, out) == (64, "")
    assert f"run 'night' is still going (process {run.pid})" in err
    assert err.count("\n") == 1
    (place / "go").touch()
    run.communicate(timeout=60)
    assert run.returncode == 0
    assert len((place / "started").read_text()) == 40
    third = start(place, "run", "--resume", "night", "--json")
    assert json.loads(third.communicate(timeout=60)[0])["executed"] == 0


def test_a_run_whose_process_was_killed_is_resumed_at_once(place: Path) -> None:
    run = start(place, *RUN)
    started(place, 2)
    run.kill()
    run.communicate(timeout=60)
    again = start(place, "run", "--resume", "night", "--workers", "40", "--json")
    assert json.loads(again.communicate(timeout=120)[0])["scored"] == 40


def test_a_session_that_was_lost_with_its_machine_bars_the_next_only_for_minutes(tmp_path: Path) -> None:
    files = LocalFiles(tmp_path)
    for age_s, is_barred in ((60, True), (400, False)):
        lost = Lease(1, "another-machine", "1", time.time_ns() - age_s * 10**9, session=True)
        files.publish("runs/a/writers/session-x.json", msgspec.json.encode(lost))
        if is_barred:
            with pytest.raises(Locked, match="on another machine"), session(files, "runs/a"):
                pass
        else:
            with session(files, "runs/a"):
                assert sum(held.session for held in leases(files, "runs/a").values()) == 2
    assert list(leases(files, "runs/a")) == ["session-x"]
