"""What an agent is told: the task, but neither what is expected of it nor how that is checked, and none of our keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

SECRET = "the-right-answer-4711"
TASKS = f"""
- id: t
  prompt: Which number?
  inputs: {{hint: none}}
  expected: {SECRET}
  outcome: equals
  simulator: user.py:reply
  checks: [equals, {{contains: {SECRET}, name: also, required: false}}]
"""
USER = "def reply(task, episode, text):\n    return task.expected\n"
PYTHON = """
import msgspec

def cheats(task, episode):
    for one in (task, episode.task):
        assert one.id == "t" and one.prompt == "Which number?" and one.inputs == {"hint": "none"}
        assert "4711" not in msgspec.json.encode(one).decode()
        assert not one.checks and one.outcome is None
    return str(task.expected)

def asks(task, episode):
    return episode.ask_user("which?")
"""
COMMAND = """
import json, os, sys
task = json.load(open(sys.argv[1]))
assert task["id"] == "t" and open(os.environ["ETHOGRAM_TASK"]).read() == open(sys.argv[1]).read()
print(json.dumps({"task": task, "env": dict(os.environ)}), end="")
"""
KEYS = ("ETHOGRAM_KEY", "ETHOGRAM_REDACTION_KEY", "ETHOGRAM_KEYS", "ETHOGRAM_HOME")


@pytest.fixture
def suite(env: dict[str, str]) -> str:
    Path("suite").mkdir()
    Path("suite/tasks.yaml").write_text(TASKS)
    Path("suite/user.py").write_text(USER)
    Path("agent.py").write_text(PYTHON)
    Path("act.py").write_text(COMMAND)
    return "suite"


def answer(document, run: str) -> dict:
    """What the command printed of its task and its environment."""
    trace = document("show", run)["traces"][0]["trace_id"]
    return json.loads(document("trace", trace)["answer"])


def test_a_python_agent_is_not_handed_the_answer_and_the_checks_still_know_it(document, suite):
    assert document("run", suite, "--agent", "agent.py:cheats", "--run", "a")["successes"] == 0
    assert document("show", "a")["traces"][0]["score"] == 0  # it neither crashed nor was it right
    assert document("run", suite, "--agent", "agent.py:asks", "--run", "b")["successes"] == 1


def test_an_exploration_does_not_hand_it_over_either(document, suite):
    Path("grid.yaml").write_text("parameters: {noise: [0.0, 1.0]}\n")
    options = ("--grid", "grid.yaml", "--max-episodes", "4", "--run", "map")
    document("explore", suite, "--agent", "agent.py:cheats", *options, code=2)
    assert {t["score"] for t in document("show", "map")["traces"]} == {0.0}


def test_a_command_gets_the_task_without_the_answer_and_an_environment_without_our_keys(
    document, suite, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ETHOGRAM_REDACTION_KEY", "ab" * 32)
    monkeypatch.setenv("PROVIDER_PLACE", "north")
    assert document("run", suite, "--agent", "cmd: python act.py {task}", "--run", "a", "--redact", "none")["scored"]
    told = answer(document, "a")
    assert SECRET not in json.dumps(told)
    assert not told["env"].keys() & set(KEYS)
    assert (told["env"]["PROVIDER_PLACE"], told["env"]["ETHOGRAM_TASK_ID"]) == ("north", "t")


def test_env_passes_more_and_clean_env_nothing_else(document, call, suite, home, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PROVIDER_PLACE", "north")
    monkeypatch.setenv("OTHER", "thing")
    cleanly = ("--clean-env", "--env", "PROVIDER_PLACE", "--env", "SPEED=7", "--redact", "none")
    document("run", suite, "--agent", "cmd: python act.py {task}", "--run", "a", *cleanly)
    env = answer(document, "a")["env"]
    assert (env["PROVIDER_PLACE"], env["SPEED"], "OTHER" in env, "PATH" in env) == ("north", "7", False, True)
    stored = (home / "runs/a/run.json").read_text()
    assert "SPEED" in stored
    assert '"7"' not in stored, "values may be secrets"
    said = call("run", "--resume", "a", "-k", "2")
    assert (said.code, said.out) == (64, "")
    assert "SPEED is to be passed to the agent" in said.err
    assert document("run", "--resume", "a", "-k", "2", "--env", "SPEED=8")["scored"] == 2


@pytest.mark.parametrize(
    ("word", "words"),
    [("NOWHERE_TO_BE_FOUND", "is not in the environment"), ("a b=secret", "is not the name of a variable")],
)
def test_what_cannot_be_passed_is_refused_before_anything_runs(call, document, suite, word, words):
    said = call("run", suite, "--agent", "cmd: python act.py {task}", "--env", word)
    assert (said.code, said.out) == (64, "")
    assert words in said.err
    assert "secret" not in said.err
    assert document("runs")["runs"] == []
