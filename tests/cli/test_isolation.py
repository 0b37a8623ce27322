"""`--isolation bwrap` for real: what an agent and a check can reach from inside, through the front door."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ethogram.store import open_home


def _works() -> bool:
    if shutil.which("bwrap") is None:
        return False
    return subprocess.run(["bwrap", "--ro-bind", "/", "/", "--unshare-all", "true"], timeout=60).returncode == 0


pytestmark = pytest.mark.skipif(not _works(), reason="bubblewrap is not installed, or may not be used, on this machine")

AGENT = """
import json, os, socket, sys
from beside import helper

def tried(act):
    try:
        act()
        return True
    except OSError:
        return False

asked = json.loads(sys.stdin.read())
open("left.txt", "w").write("x")
print(json.dumps({
    "read": [p for p in asked["read"] if tried(lambda: open(p).close())],
    "listed": [p for p in asked["list"] if tried(lambda: os.listdir(p)) and os.listdir(p)],
    "written": [p for p in asked["write"] if tried(lambda: open(p, "w").close())],
    "network": tried(lambda: socket.create_connection(("127.0.0.1", asked["port"]), 5).close()),
    "env": sorted(k for k in os.environ if "ETHOGRAM_KEY" in k or "REDACTION" in k),
    "processes": len([p for p in os.listdir("/proc") if p.isdigit()]),
}))
"""


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def asked(port: int) -> dict[str, Any]:
    """A suite whose task asks the agent what it can reach."""
    here = Path.cwd()
    Path("private").mkdir()
    Path("private/secret.txt").write_text("a secret")
    Path("agent.py").write_text(AGENT)
    Path("beside.py").write_text("helper = 1\n")
    Path("suite/files").mkdir(parents=True)
    Path("suite/files/given.txt").write_text("given")
    home = os.environ.get("ETHOGRAM_HOME", str(here / ".ethogram"))
    found = {
        "read": [str(here / "suite/tasks.jsonl"), os.path.expanduser("~/.bashrc"), "given.txt"],
        "list": [home, str(here / "suite")],
        "write": [str(here / "out.txt"), "/etc/ethogram-test", "/usr/ethogram-test", str(here / "beside.py")],
        "port": port,
    }
    task = {"id": "t", "prompt": json.dumps(found), "files": {"given.txt": "files/given.txt"}}
    checks = [{"kind": "files", "settings": {"exists": ["left.txt"]}}]
    Path("suite/tasks.jsonl").write_text(json.dumps({**task, "checks": checks}) + "\n")
    return found


def answer(call: Any, isolation: str) -> dict[str, Any]:
    options = ("--isolation", isolation, "--redact", "none", "--run", "r")
    said = call("run", "suite", "--agent", "cmd: python agent.py", *options)
    assert said.code == 0, said
    assert "1 of 1 scored attempt succeeded" in said.out
    run = open_home(os.environ.get("ETHOGRAM_HOME", ".ethogram")).run("r")
    return dict(json.loads(run.trace(run.entries[0]).answer or ""))


def test_an_isolated_agent_reaches_its_workspace_and_nothing_else(call, asked):
    found = answer(call, "bwrap")
    assert found["read"] == ["given.txt"]
    assert found["listed"] == []
    assert found["written"] == []
    assert found["network"] is False
    assert found["env"] == []
    assert found["processes"] < 10, "it does not see other processes"
    assert Path("beside.py").read_text() == "helper = 1\n"


def test_the_network_can_be_allowed(call, asked):
    found = answer(call, "bwrap+network")
    assert found["network"] is True
    assert found["read"] == ["given.txt"]


def test_checks_run_isolated_too(call, asked):
    outside = Path.cwd() / "outside.txt"
    checks = [
        {"kind": "command", "settings": {"run": ["sh", "-c", f"echo x > {outside}; test ! -e {Path.cwd()}/private"]}},
        {"kind": "command", "settings": {"run": "{python} {suite}/grade.py"}},
    ]
    Path("suite/grade.py").write_text("assert open('given.txt').read() == 'given'\n")
    task = {"id": "t", "prompt": json.dumps(asked), "files": {"given.txt": "files/given.txt"}, "checks": checks}
    Path("suite/tasks.jsonl").write_text(json.dumps(task) + "\n")
    said = call("run", "suite", "--agent", "cmd: python agent.py", "--isolation", "bwrap")
    assert "1 of 1 scored attempt succeeded" in said.out
    assert not outside.exists()
