"""The kill switch: it works on a full disk, and what it stopped goes on only when somebody says so."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ethogram.errors import BadUsage, EthogramError
from ethogram.harness.agents import PythonAgent
from ethogram.harness.suites import resume_run, run
from ethogram.plans import Check, Suite, Task
from ethogram.questions.home.kill_switch import kill
from ethogram.store import Home, open_home
from ethogram.store.stop import lay_down, pull, pulled

SUITE = Suite(name="s", tasks=(Task(id="t", prompt="?", expected="42", checks=(Check(kind="equals"),)),))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    place = tmp_path / "disk"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(words, capture_output=True, timeout=60).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("no file system can be mounted by this user")
    yield place
    subprocess.run(["umount", "-l", str(place)], timeout=60, check=True)


@pytest.mark.parametrize("which", ["a", None], ids=["the run's", "the home's"])
def test_the_switch_works_on_a_full_disk(small_disk: Path, which: str | None) -> None:
    home = open_home(str(small_disk / "home"))
    made = home.create("a", "run")
    lay_down(made.files, made.path)
    with pytest.raises(OSError, match="No space"):
        (small_disk / "filler").write_bytes(b"x" * (1 << 20))
    with pytest.raises(EthogramError, match="No space"):
        made.files.publish("other", b"x" * 10)
    assert pulled(made.files, made.path) is None
    kill(which, why="the bill", home=home)
    flag = pulled(made.files, made.path)
    assert flag is not None
    assert flag.why == "pulled when the disk was full"


def killed(home: Home) -> None:
    def act(task: Any, episode: Any) -> str:
        kill("a", why="the bill", home=home)
        held.wait(0.5)  # longer than a look at the switch takes
        return "42"

    held = threading.Event()
    assert run(SUITE, PythonAgent(act, "acting"), k=4, workers=1, home=home, run="a").stopped == "killed"


def test_a_run_lays_its_flag_down_and_a_killed_one_goes_on_with_undo_only(home: Home) -> None:
    killed(home)
    found = home.run("a")
    assert found.files.exists(f"{found.path}/.stop.json.ready")
    assert found.files.exists(".stop.json.ready")
    options: dict[str, Any] = {"suite": SUITE, "agent": PythonAgent(lambda task: "42", "acting"), "home": home}
    with pytest.raises(BadUsage, match=r"kill switch of run 'a' is pulled \(the bill\), .*: ethogram kill a --undo"):
        resume_run("a", **options)
    assert len(home.run("a").entries) < 4
    assert pulled(found.files, found.path) is not None
    pull(home.files, None, "holidays")
    with pytest.raises(BadUsage, match=r"kill switch of this home is pulled \(holidays\), .*: ethogram kill --undo"):
        resume_run("a", undo=True, **options)
    kill(undo=True, home=home)
    assert resume_run("a", **options).scored == 4
