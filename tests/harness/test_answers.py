"""Answers in place of models, tools and users, for agents in Python, as commands and in isolation."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ethogram.capture.builder import TraceBuilder
from ethogram.errors import BadInput, BadUsage, NotFound
from ethogram.harness.answers import Simulator
from ethogram.harness.handle import EpisodeHandle
from ethogram.harness.options import RunOptions
from ethogram.harness.run_start import again, run_episodes
from ethogram.harness.suites import run
from ethogram.plans import Check, Episode, Suite, Task
from ethogram.store import Home
from ethogram.store.lake import REPLAY
from ethogram.traces import Missing, Scored
from ethogram.wire.gateway.call import CallPolicy, Decision, ModelReply, ModelRequest, Refuse, Serve
from ethogram.worlds.model_server import text_reply

AGENT = """
import sys
import openai

client = openai.OpenAI(api_key="k", max_retries=0, base_url=None)

def talk(prompt):
    said = [{"role": "user", "content": prompt}]
    return client.chat.completions.create(model="m", messages=said).choices[0].message.content

def solve(task):
    return talk(task.prompt)

if __name__ == "__main__":
    print(talk(sys.stdin.read()), end="")
"""


class Fixed:
    """Answers every model call with the number of the attempt, or refuses it."""

    def __init__(self, attempt: int, refuse: bool = False) -> None:
        self.attempt = attempt
        self.refuse = refuse
        self.over = False
        self.asked: list[str] = []

    @property
    def policies(self) -> Sequence[CallPolicy]:
        return [self]

    def decide(self, request: ModelRequest) -> Decision | None:
        if self.refuse:
            self.over = True
            return Refuse(status=403, kind="ethogram_deviation", message="not in the record")
        return Serve(reply=text_reply(f"{request.messages[0].text}:{self.attempt}"))

    def done(self, request: ModelRequest, reply: ModelReply | None) -> None:
        pass

    def begin(self, episode: EpisodeHandle) -> None:
        self.seed = episode.seed

    def stand_in(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        return lambda **arguments: f"{name} {arguments}"

    def reply(self, simulator: Simulator | None) -> Simulator | None:
        return lambda episode, text: f"you said {text}"

    def close(self, trace: TraceBuilder) -> Missing | None:
        trace.meta["closed"] = self.attempt
        return Missing("deviation", "it asked for something else") if self.over else None


def suite() -> Suite:
    return Suite(name="s", tasks=(Task(id="t", prompt="q", expected="q:7", checks=(Check(kind="equals"),)),))


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/nobody-is-here/v1")
    path = tmp_path / "agent.py"
    path.write_text(AGENT)
    return str(path)


def episodes(*attempts: int) -> list[Episode]:
    return [Episode(id="", task="t", agent="", attempt=n, seed=5) for n in attempts]  # type: ignore[arg-type]


@pytest.mark.parametrize("how", ["python", "command", "isolated"])
def test_model_calls_of_any_agent_are_answered(home: Home, agent: str, how: str) -> None:
    if how == "isolated" and shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed, so nothing can be isolated")
    spec = f"{agent}:solve" if how == "python" else f"cmd: {sys.executable} {agent}"
    options = RunOptions(name="r", isolation="bwrap" if how == "isolated" else "none")
    result = run_episodes(
        suite(), spec, episodes(6, 7), options, answers_for=lambda e: Fixed(e.attempt), kind=REPLAY, home=home
    )
    assert (result.scored, result.successes, result.cost_usd) == (2, 1, 0.0)
    run = home.run("r")
    assert run.info.kind == REPLAY
    assert {e.head.attempt: e.head.outcome for e in run.entries}[7] == Scored(1.0, "equals")
    assert {(e.head.seed, e.head.agent, e.head.meta["closed"]) for e in run.entries} == {(5, spec, 6), (5, spec, 7)}
    assert [run.trace(e).answer for e in sorted(run.entries, key=lambda e: e.head.attempt)] == ["q:6", "q:7"]


@pytest.mark.parametrize("how", ["python", "command"])
def test_an_agent_that_gets_no_further_has_no_outcome_and_did_not_crash(home: Home, agent: str, how: str) -> None:
    spec = f"{agent}:solve" if how == "python" else f"cmd: {sys.executable} {agent}"
    result = run_episodes(
        suite(), spec, episodes(0), RunOptions(name="r"), answers_for=lambda e: Fixed(0, refuse=True), home=home
    )
    assert (result.missing, result.crashed) == ({"deviation": 1}, 0)
    (trace,) = home.run("r").traces()
    assert trace.outcome == Missing("deviation", "it asked for something else")


def test_tools_and_the_user_are_answered_too(home: Home) -> None:
    async def curious(task: Task, episode: EpisodeHandle) -> str:
        said = episode.record.tool("look", lambda **more: "in earnest", at="tea")
        return f"{said}; {await episode.ask_user('hello')}"

    result = run_episodes(
        suite(), curious, episodes(0), RunOptions(name="r"), answers_for=lambda e: Fixed(0), home=home
    )
    assert result.scored == 1
    (trace,) = home.run("r").traces()
    assert trace.answer == "look {'at': 'tea'}; you said hello"


def test_an_episode_without_answers_is_live_and_one_that_cannot_be_answered_is_missing(home: Home) -> None:
    def answers_for(episode: Episode) -> Fixed | None:
        if episode.attempt == 1:
            raise BadInput("there is no record of it")
        return None

    result = run_episodes(
        suite(), lambda task: "q:7", episodes(0, 1), RunOptions(name="r"), answers_for=answers_for, home=home
    )
    assert (result.successes, result.missing) == (1, {"deviation": 1})


def test_a_recorded_episode_again(home: Home) -> None:
    run(suite(), lambda task: "q:7", k=2, seed=3, run="first", home=home)
    heads = {e.head.attempt: e.head for e in home.run("first").entries}
    repeat = again(heads[1])
    assert (repeat.id, repeat.seed, repeat.attempt) == (heads[1].episode, heads[1].seed, 1)
    assert again(heads[1], attempt=9).attempt == 9
    assert again(heads[1], attempt=9).seed == heads[1].seed


def test_bad_input(home: Home) -> None:
    wrong = [Episode(id="", task="nothing", agent="", attempt=0, seed=0)]  # type: ignore[arg-type]
    with pytest.raises(NotFound, match="nothing"):
        run_episodes(suite(), lambda task: "", wrong, RunOptions(), answers_for=lambda e: None, home=home)
    with pytest.raises(BadUsage, match="on this machine only"):
        run_episodes(
            suite(), lambda task: "", episodes(0), RunOptions(engine="ray"), answers_for=lambda e: None, home=home
        )
    assert home.names() == []
