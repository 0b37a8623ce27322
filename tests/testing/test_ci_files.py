"""The files for CI are run as far as they run without their hosts: the Action's steps, the scripts, the hooks."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
BIN = str(Path(sys.executable).parent)
GH = """#!/bin/sh
echo "gh $*" >> "$GH_LOG"
case "$*" in *--edit-last*) exit 1 ;; esac
"""


class Job:
    """A job that uses the Action in a checkout: runs its steps as GitHub does, but for those of other actions."""

    def __init__(self, folder: Path, event: str, **inputs: str) -> None:
        self.folder = folder
        number = 7 if event == "pull_request" else ""
        self.values: dict[str, Any] = {"github.action_path": str(ROOT), "github.event_name": event}
        self.values |= {"github.token": "t", "github.event.pull_request.number": number}
        self.values |= {"github.run_id": "1", "github.run_attempt": "1"}
        given = {name: str(about.get("default", "")) for name, about in ACTION["inputs"].items()} | inputs
        self.values |= {f"inputs.{name}": value for name, value in given.items()}
        self.ran: list[str] = []
        self.said = ""

    def expression(self, text: str) -> Any:
        known = {**self.values, "steps.gate.outputs.verdict": self.output("verdict")}
        python = re.sub(r"[a-z_]+(\.[a-z_-]+)+", lambda m: repr(known[m[0]]), text)
        return eval(python.replace("&&", " and ").replace("always()", "True"))

    def output(self, name: str) -> str:
        place = self.folder / "output"
        lines = place.read_text().splitlines() if place.exists() else []
        return next((x.partition("=")[2] for x in reversed(lines) if x.startswith(f"{name}=")), "")

    def run(self) -> int:
        code = 0
        for step in ACTION["runs"]["steps"]:
            condition = str(step.get("if", "True"))
            if not self.expression(condition) or (code and "always()" not in condition):
                continue
            self.ran.append(step["name"])
            if "run" in step:
                code = self.step(step) or code
        return code

    def step(self, step: dict[str, Any]) -> int:
        filled = {
            name: re.sub(r"\$\{\{(.+?)\}\}", lambda m: _text(self.expression(m[1].strip())), str(value))
            for name, value in step["env"].items()
        }
        env = {**os.environ, **filled, "PATH": f"{self.folder}/bin:{BIN}:{os.environ['PATH']}"}
        env |= {"GITHUB_ACTIONS": "true", "GITHUB_OUTPUT": str(self.folder / "output")}
        env |= {"GITHUB_STEP_SUMMARY": str(self.folder / "summary.md"), "GH_LOG": str(self.folder / "gh.log")}
        command = ["bash", "-e", "-o", "pipefail", "-c", step["run"]]
        done = subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True, timeout=240)
        self.said += done.stdout + done.stderr
        return done.returncode


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A user's repository with the starter suite, its own remote, and a `gh` that notes how it was called."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    (folder / "bin").mkdir()
    (folder / "bin" / "gh").write_text(GH)
    (folder / "bin" / "gh").chmod(0o755)
    subprocess.run([f"{BIN}/ethogram", "init"], cwd=folder, check=True, capture_output=True)
    changed = (folder / "agent.py").read_text().replace("random() < 0.3", "random() < 0.95")
    (folder / "changed.py").write_text(changed)
    git(tmp_path, "init", "-q", "--bare", "remote")
    for words in ("init -q", "remote add origin ../remote", "add agent.py", "commit -q -m begin"):
        git(folder, *words.split())
    return folder


def git(folder: Path, *words: str) -> str:
    me = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    return subprocess.run(["git", *me, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def test_the_action_is_one_that_github_accepts() -> None:
    assert ACTION["runs"]["using"] == "composite"
    for step in ACTION["runs"]["steps"]:
        assert ("uses" in step) != ("run" in step)
        if "run" in step:
            assert step["shell"] == "bash"
            # what people write must never become a part of a script
            assert "${{" not in step["run"]
    text = (ROOT / "action.yml").read_text()
    assert set(re.findall(r"inputs\.([a-z-]+)", text)) == set(ACTION["inputs"])


def test_an_outage_while_recording_keeps_the_baseline_before_it(checkout: Path) -> None:
    (checkout / "down.py").write_text("def solve(task):\n    raise ConnectionError('the provider is down')\n")
    script = ["sh", str(ROOT / "examples" / "ci" / "gate.sh")]

    def record(agent: str) -> tuple[int, str]:
        env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "SUITE": "suite", "AGENT": agent, "K": "2"}
        done = subprocess.run(
            script, cwd=checkout, env={**env, "UPDATE": "true"}, capture_output=True, text=True, timeout=240
        )
        return done.returncode, done.stdout

    place = checkout / ".ethogram" / "runs" / "baseline"
    code, said = record("down.py:solve")
    assert code == 2
    assert "no baseline recorded" in said
    assert not place.exists()
    code, said = record("agent.py:solve")
    assert code == 0
    assert "### Ethogram: baseline recorded\n\nrun baseline: 5 of 6 scored attempts succeeded; " in said
    kept = (place / "run.json").read_bytes()
    assert record("down.py:solve")[0] == 2
    assert (place / "run.json").read_bytes() == kept


REFUSED = """
from ethogram.harness.faults import ProviderFault
from ethogram.wire.gateway.refusals import ProviderRefusal
from agent import solve as good

KEY = ProviderRefusal(reason="infrastructure.provider.key", provider="openai", status=401, said="Incorrect API key")

def solve(task, episode):
    if episode.attempt:
        raise ProviderFault(KEY)
    return good(task)

def never(task):
    raise ProviderFault(KEY)
"""


def test_a_run_that_a_provider_refused_is_no_baseline_and_no_red_cross(checkout: Path) -> None:
    (checkout / "refused.py").write_text(REFUSED)
    common = {"suite": "suite", "install": "", "k": "4", "margin": "0.2"}
    push = Job(checkout, "push", agent="refused.py:solve", update="true", **common)
    assert (push.run(), push.output("verdict")) == (2, "undecided")
    assert "the provider refused the key in 9 of 12 attempts" in (checkout / "summary.md").read_text()
    assert not (checkout / ".ethogram" / "runs" / "baseline").exists()
    assert Job(checkout, "push", agent="agent.py:solve", update="true", **common).run() == 0
    change = Job(checkout, "pull_request", agent="refused.py:never", comment="true", **common)
    assert (change.run(), change.output("verdict")) == (2, "undecided")
    comment = (checkout / "ethogram-gate" / "gate.md").read_text()
    assert "the provider refused the key in " in comment
    assert "❌" not in comment
    assert "::error" not in change.said


def test_a_push_records_and_a_pull_request_is_judged(checkout: Path) -> None:
    common = {"suite": "suite", "margin": "0.2", "install": "", "baseline-branch": "kept"}
    first = Job(checkout, "pull_request", agent="changed.py:solve", **common)
    assert (first.run(), first.output("verdict")) == (2, "undecided")
    assert "There is no baseline `baseline` yet" in (checkout / "summary.md").read_text()

    push = Job(checkout, "push", agent="agent.py:solve", update="true", **common)
    assert (push.run(), push.output("verdict")) == (0, "recorded")
    assert push.ran[-2:] == ["Keep the new baseline on its branch", "Keep the report"]
    kept = git(checkout.parent / "remote", "ls-tree", "-r", "--name-only", "kept")
    assert "baseline/run.json" in kept.splitlines()
    assert {line.partition("/")[0] for line in kept.splitlines()} == {"baseline"}

    # another machine: only the branch brings the baseline
    subprocess.run(["rm", "-r", str(checkout / ".ethogram")], check=True)
    change = Job(checkout, "pull_request", agent="changed.py:solve", comment="true", **common)
    assert (change.run(), change.output("verdict")) == (1, "regression")
    assert "restored baseline from kept" in change.said
    assert "::error title=ethogram gate%3A regression::" in change.said
    assert "::warning title=task bread-and-milk moved::" in change.said
    summary = (checkout / "summary.md").read_text()
    assert "Ethogram gate: regression" in summary
    assert "| bread-and-milk | 12/20 |" in summary
    assert sorted(p.name for p in (checkout / "ethogram-gate").iterdir()) == [
        "gate.json",
        "gate.md",
        "gate.xml",
        "report.html",
    ]
    assert (checkout / "gh.log").read_text().splitlines() == [
        "gh pr comment 7 --body-file ethogram-gate/gate.md --edit-last",
        "gh pr comment 7 --body-file ethogram-gate/gate.md",
    ]


def test_the_action_keeps_its_baseline_in_the_cache_by_default(checkout: Path) -> None:
    common = {"suite": "suite", "agent": "agent.py:solve", "install": "", "k": "2"}
    job = Job(checkout, "push", update="true", **common)
    assert job.run() == 0
    assert job.ran == [
        "Restore the baseline from the cache",
        "Gate",
        "Keep the new baseline in the cache",
        "Keep the report",
    ]
    bad = Job(checkout, "push", **{**common, "suite": "nowhere", "update": "true"})
    assert (bad.run(), "nowhere" in bad.said) == (64, True)


def test_the_action_installs_itself_unless_told_otherwise(tmp_path: Path) -> None:
    (install,) = [s for s in ACTION["runs"]["steps"] if s["name"] == "Install"]
    for given, wanted in (("action", "/the/action"), ("ethogram==1.2", "ethogram==1.2")):
        script = f'python() {{ echo "$@"; }}; {install["run"]}'
        env = {**os.environ, "INSTALL": given, "ACTION": "/the/action"}
        done = subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True, cwd=tmp_path)
        assert done.stdout.strip() == f"-m pip install --quiet {wanted}"


def test_the_hooks_of_pre_commit_run(checkout: Path) -> None:
    hooks = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    assert sorted(hooks) == ["ethogram-golden", "ethogram-pytest", "ethogram-replay"]
    env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}

    def run(entry: str, *args: str) -> tuple[int, str]:
        done = subprocess.run(
            [*shlex.split(entry), *args], cwd=checkout, env=env, capture_output=True, text=True, timeout=120
        )
        return done.returncode, done.stdout

    assert all(not hook["pass_filenames"] and {"name", "language"} <= hook.keys() for hook in hooks.values())
    run("ethogram run suite --agent agent.py:solve -k 5 --run recorded")
    code, said = run(hooks["ethogram-replay"]["entry"], "recorded")
    assert "no deviation from recorded" in said
    assert code == 0  # also where a recorded attempt had failed its checks
    run("ethogram golden freeze suite")
    assert run(hooks["ethogram-golden"]["entry"], "suite")[0] == 0
    tasks = checkout / "suite" / "tasks.yaml"
    tasks.write_text(tasks.read_text().replace("tea", "coffee"))
    assert run(hooks["ethogram-golden"]["entry"], "suite")[0] == 1
    code, said = run(hooks["ethogram-pytest"]["entry"], "--version")
    assert code == 0


def test_the_script_says_what_it_lacks(tmp_path: Path) -> None:
    script = str(ROOT / "examples" / "ci" / "gate.sh")
    env = {name: value for name, value in os.environ.items() if name not in ("SUITE", "AGENT")}
    done = subprocess.run(["sh", script], env=env, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, "name the suite" in done.stderr) == (2, True)
    branch = str(ROOT / "examples" / "ci" / "baseline_branch.sh")
    done = subprocess.run(["sh", branch], env=env, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (64, "usage: baseline_branch.sh restore|store\n")
