"""Agents and suites that crash, as a user meets them: the place, the exit code, and no secret on the screen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ethogram.store.ledger_file import unpack

TASKS = "\n".join(f"- {{id: t{i}, prompt: p, expected: a, checks: [{{kind: equals}}]}}" for i in range(3))
SECRET = "sk-ant-api03-" + "Zq7xW2" * 15 + "-AbCdEfAA"


@pytest.fixture
def tasks() -> str:
    Path("tasks.yaml").write_text(TASKS)
    return "tasks.yaml"


def test_when_every_episode_crashes_the_place_is_told_and_the_exit_code_is_2(call, tasks):
    Path("agent.py").write_text(
        "def helper(x):\n    return 1 + x\n\n\ndef solve(task, episode):\n    return helper('a')\n"
    )
    said = call("run", tasks, "--agent", "agent.py:solve", "-k", "3", "--run", "a")
    assert said.code == 2
    assert "the agent crashed in 9 episodes, first with: TypeError: unsupported operand" in said.out
    assert "  agent.py:6 in solve: return helper('a')\n  agent.py:2 in helper: return 1 + x\n" in said.out
    assert "ethogram/harness" not in said.out
    trace = call("sql", "SELECT trace_id FROM episodes LIMIT 1", "--run", "a", "--json").out
    shown = call("trace", json.loads(trace)["records"][0]["trace_id"])
    assert "TypeError: unsupported operand" in shown.out


def test_one_crash_among_several_episodes_is_told_and_the_run_is_done(call, tasks):
    Path("agent.py").write_text("def solve(task, episode):\n    assert task.id != 't1'\n    return 'a'\n")
    said = call("run", tasks, "--agent", "agent.py:solve")
    assert said.code == 0
    assert "crashed in 1 episode" in said.out
    assert "agent.py:2 in solve: assert task.id != 't1'" in said.out


def test_a_command_that_crashes_shows_its_last_lines(call, tasks):
    Path("agent.py").write_text("def deep():\n    return {}['x']\n\n\ndeep()\n")
    said = call("run", tasks, "--agent", "cmd: python agent.py")
    assert said.code == 2
    assert "first with: AgentCrash: exit code 1: KeyError: 'x'" in said.out
    assert "return {}['x']" in said.out
    assert "line 2, in deep" in said.out


def test_a_secret_in_a_crash_is_neither_printed_nor_stored(call, tasks, tmp_path):
    Path("agent.py").write_text(f"def solve(task, episode):\n    raise RuntimeError('bad key {SECRET}')\n")
    for form in ((), ("--json",)):
        said = call("run", tasks, "--agent", "agent.py:solve", *form)
        assert said.code == 2
        assert SECRET not in said.out + said.err
        assert "REDACTED" in said.out
    stored = [
        p for p in Path(".ethogram").rglob("*") if p.is_file() and SECRET.encode() in unpack(p.name, p.read_bytes())
    ]
    assert stored == []


def test_a_run_without_any_score_exits_2(call, tmp_path):
    Path("tasks.yaml").write_text("- {id: t, prompt: p}\n")
    Path("agent.py").write_text("def solve(task, episode):\n    return 'a'\n")
    said = call("run", "tasks.yaml", "--agent", "agent.py:solve")
    assert said.code == 2
    assert "nothing was scored" in said.out


@pytest.mark.parametrize(
    ("raised", "reason"),
    [("TimeoutError('slow')", "infrastructure.timeout"), ("FileNotFoundError('db')", "infrastructure.other")],
)
def test_a_tools_factory_that_fails_is_missing_and_never_a_traceback(call, raised, reason):
    Path("suite").mkdir()
    Path("suite/tasks.yaml").write_text(TASKS)
    Path("suite/tools.py").write_text(
        f"def tools(task, episode):\n    if task.id == 't1':\n        raise {raised}\n    return {{}}\n"
    )
    Path("agent.py").write_text("def solve(task, episode):\n    return 'a'\n")
    said = call("run", "suite", "--agent", "agent.py:solve", "--retries", "0")
    assert said.code == 0
    assert "2 of 2 scored attempts" in said.out
    assert f"1 missing ({reason} 1)" in said.out
    assert "Traceback" not in said.out + said.err
