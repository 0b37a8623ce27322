"""Reading, measuring and reporting need nothing that Windows has not; what does, says so in one sentence."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.xdist_group("portable")  # its program runs once

HERE = Path(__file__).parent
SRC = HERE.parents[1] / "src" / "ethogram"
NEEDS_POSIX = {"gateway", "serve"}
CODES = {"gate": 2, "cost": 2}  # this log is too small for a verdict, and holds no usage


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the program `without_posix.py` printed; a file opened without an encoding is an error in it."""
    folder = tmp_path_factory.mktemp("windows")
    logs = SRC / "data" / "demo" / "support-desk.json"
    strict = ["-X", "warn_default_encoding", "-W", "error::EncodingWarning:ethogram"]
    program = [sys.executable, *strict, str(HERE / "without_posix.py"), str(folder / "home"), str(logs)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return {"folder": folder, **json.loads(done.stdout)}


def test_every_module_can_be_imported(told: dict[str, Any]) -> None:
    assert told["failed"] == {}


def test_what_can_be_answered_is_answered(told: dict[str, Any]) -> None:
    answers = {tuple(a["words"][:2]): a for a in told["answers"]}
    assert len(answers) == len(told["answers"]) - 2  # two commands are `run suite`, two import the log
    for answer in told["answers"]:
        words = answer["words"]
        if words[0] in NEEDS_POSIX or "outside" in words:
            continue
        assert answer["code"] == CODES.get(words[0], 0), answer
    assert "12 traces" in answers["import", str(SRC / "data" / "demo" / "support-desk.json")]["out"]
    assert (told["folder"] / "small.html").stat().st_size > 10_000


def test_what_needs_posix_says_so(told: dict[str, Any]) -> None:
    refused = [a for a in told["answers"] if a["words"][0] in NEEDS_POSIX or "outside" in a["words"]]
    assert len(refused) == 3
    for answer in refused:
        assert answer["code"] == 64, answer
        assert "needs Linux or macOS; on Windows, use it inside WSL" in answer["err"]


def test_file_names_are_allowed_everywhere(told: dict[str, Any]) -> None:
    reserved = re.compile(r'[<>:"|?*\\]|[ .]$|^(con|prn|aux|nul|com\d|lpt\d)(\.|$)', re.IGNORECASE)
    stored = list((told["folder"] / "home").rglob("*"))
    assert len(stored) > 10
    assert [str(p) for p in stored if reserved.search(p.name)] == []


def test_a_pattern_ends_in_time_without_a_timer_of_the_system() -> None:
    program = "import signal\ndel signal.setitimer\nimport re\n"
    program += "from ethogram.checks import matcher\nmatcher.start_timer(0.2)\n"
    slow = program + "re.match('(a+)+$', 'a' * 40 + 'b')\n"
    done = subprocess.run([sys.executable, "-c", slow], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    quick = program + "matcher.stop_timer()\nimport time\ntime.sleep(0.4)\nprint('on')\n"
    assert subprocess.run([sys.executable, "-c", quick], capture_output=True, text=True, timeout=60).stdout == "on\n"
