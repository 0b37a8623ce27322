"""What is printed or stored beside the traces: crash texts, addresses, tags and facts show no secret."""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ethogram.store.ledger_file import unpack

SECRET = "sk-" + "proj-" + "Zk3" * 16
PASSWORD = "hunter" + "7Qx9"
SUITE = """
- id: one
  prompt: say yes
  expected: "yes"
"""


def ethogram(*args: str, cwd: Path, code: int | None = 0, **more: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "ETHOGRAM_HOME": str(cwd / "home"), **more}
    done = subprocess.run(
        [sys.executable, "-m", "ethogram.cli.main", *args],
        cwd=cwd,
        env=env,
        text=True,
        capture_output=True,
        check=False,
    )
    assert code is None or done.returncode == code, done.stderr
    return done


def everything(folder: Path) -> bytes:
    """Every byte of every file, and every name."""
    files = [f for f in sorted(folder.rglob("*")) if f.is_file()]
    return b"\n".join([str(f).encode() for f in files] + [unpack(f.name, f.read_bytes()) for f in files])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "suite.yaml").write_text(SUITE)
    (tmp_path / "agent.py").write_text(
        f"def solve(task, episode):\n    raise ValueError('the provider refused {SECRET}')\n"
    )
    return tmp_path


@pytest.mark.parametrize("json_too", [False, True])
def test_a_crash_is_told_without_the_key_in_it(place: Path, json_too: bool) -> None:
    done = ethogram(
        "run", "suite.yaml", "--agent", "agent.py:solve", *(["--json"] if json_too else []), cwd=place, code=None
    )
    said = done.stdout + done.stderr
    assert "the provider refused [REDACTED:openai-key:" in said
    assert SECRET not in said
    assert SECRET.encode() not in everything(place / "home")


def test_an_error_that_quotes_an_argument_hides_the_secret_in_it(place: Path) -> None:
    done = ethogram("show", SECRET, cwd=place, code=64)
    assert "[REDACTED:openai-key:" in done.stderr
    assert SECRET not in done.stderr
    done = ethogram(SECRET, cwd=place, code=64)
    assert SECRET not in done.stderr
    done = ethogram("run", "suite.yaml", f"--{SECRET}", cwd=place, code=64)
    assert SECRET not in done.stderr


def test_addresses_tags_and_facts_are_stored_without_their_secrets(place: Path) -> None:
    address = f"http://joe:{PASSWORD}@127.0.0.1:9/act?api_key={SECRET}"
    said = ethogram(
        "run", "suite.yaml", "--agent", address, "--run", "r", "--tag", SECRET, "--meta", f"password={PASSWORD}",
        "--retries", "0", cwd=place, code=None,
    )  # fmt: skip
    held = everything(place / "home")
    for secret in (SECRET, PASSWORD):
        assert secret not in said.stdout + said.stderr
        assert secret.encode() not in held, secret
    info = json.loads((place / "home/runs/r/run.json").read_text())
    assert re.fullmatch(r"\[REDACTED:openai-key:\w{8}\]", info["tags"][0])
    done = ethogram("run", "--resume", "r", cwd=place, code=64)
    assert "name it again with --agent" in done.stderr
    ethogram("run", "--resume", "r", "--agent", address, cwd=place, code=None)
    assert "r" in ethogram("runs", cwd=place).stdout


def test_a_run_cannot_be_named_by_a_secret(place: Path) -> None:
    done = ethogram("run", "suite.yaml", "--agent", "agent.py:solve", "--run", SECRET, cwd=place, code=64)
    assert "the name of the run holds a secret" in done.stderr
    assert SECRET not in done.stderr


def test_words_of_a_crash_and_of_facts_are_sealed_with_the_rest(place: Path) -> None:
    words = "the patient said that her knee hurts"
    (place / "agent.py").write_text(f"def solve(task, episode):\n    raise ValueError({words!r})\n")
    key = {"ETHOGRAM_KEY": base64.b64encode(bytes(range(32))).decode()}
    told = ("--agent", "agent.py:solve", "--run", "r", "--meta", "note=seen by Dr Grey in May")
    ethogram("run", "suite.yaml", *told, cwd=place, code=None, **key)
    runs = [p for p in (place / "home/runs/r").rglob("*") if p.is_file() and p.name != "run.json"]
    for spoken in (words, "Dr Grey"):
        assert not [p.name for p in runs if spoken.encode() in unpack(p.name, p.read_bytes())]
    segments = [unpack(p.name, p.read_bytes()) for p in (place / "home/runs/r/ledger").iterdir()]
    ledger = b"".join(segments).decode()
    (trace,) = set(re.findall(r'"trace_id":"b2:(\w+)"', ledger))
    read = json.loads(ethogram("trace", trace, "--json", cwd=place, **key).stdout)
    assert words in read["meta"]["crash"]
    assert read["meta"]["note"] == "seen by Dr Grey in May"
    without = ethogram("trace", trace, cwd=place, code=None)
    assert words not in without.stdout
    assert "Traceback" not in without.stderr
    assert ethogram("verify", cwd=place, **key).returncode == 0
