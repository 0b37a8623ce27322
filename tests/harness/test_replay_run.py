"""A recorded run repeated with its own answers: offline, free, marked, and held to its checks and its record."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ethogram.errors import BadUsage, NotFound
from ethogram.harness.environment import Environment
from ethogram.harness.handle import EpisodeHandle
from ethogram.harness.suites import replay_run, resume_run
from ethogram.harness.suites import run as run_suite
from ethogram.plans import Check, Condition, Suite, Task
from ethogram.questions.home.runs import show
from ethogram.questions.reliability.question import stats
from ethogram.store import Home
from ethogram.store.lake import REPLAY
from ethogram.wire.gateway.call import ModelReply, ModelRequest
from ethogram.worlds.model_server import ModelServer, serve_model, text_reply

AGENT = """
import sys
import openai

def talk(prompt):
    with openai.OpenAI(max_retries=0) as client:
        said = [{"role": "user", "content": "SAY " + prompt}]
        return client.chat.completions.create(model="m-1", messages=said).choices[0].message.content

def solve(task):
    return talk(task.prompt)

if __name__ == "__main__":
    print(talk(sys.stdin.read()), end="")
"""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    def answer(request: ModelRequest) -> ModelReply:
        return text_reply(request.messages[-1].text.removeprefix("SAY "))

    with serve_model(answer) as running:
        for name, value in running.variables().items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "agent.py"
    path.write_text(AGENT)
    return path


def suite(*words: str) -> Suite:
    check = (Check(kind="equals"),)
    return Suite(name="s", tasks=tuple(Task(id=w, prompt=w, expected=w, checks=check) for w in words))


def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a key nor an address of a server is left in the environment."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("how", ["python", "command"])
def test_a_run_is_repeated_without_a_server_or_a_key(
    home: Home, server: ModelServer, agent: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = f"{agent}:solve" if how == "python" else f"cmd: {sys.executable} {agent}"
    passed = Environment(passed={"OPENAI_API_KEY": None})
    run_suite(suite("a", "b"), spec, k=2, seed=7, home=home, run="rec", environment=passed)
    offline(monkeypatch)
    result = replay_run("rec", suite=suite("a", "b"), home=home)
    assert (result.planned, result.scored, result.successes, result.failures) == (4, 4, 4, ())
    assert (result.replays, result.cost_usd, len(server.calls)) == ("rec", 0.0, 4)
    made, recorded = home.run(result.run), home.run("rec")
    assert made.info.kind == REPLAY
    assert show(result.run, home=home).cost_usd == 0.0  # nobody was asked, whatever the price table says
    seeds = [{(e.head.task, e.head.attempt): e.head.seed for e in run.entries} for run in (made, recorded)]
    assert seeds[0] == seeds[1]
    with pytest.raises(BadUsage, match="not independent attempts"):
        stats(result.run, home=home)
    # nothing is left to do, so nothing is done twice
    again = resume_run(result.run, suite=suite("a", "b"), home=home)
    assert (again.executed, again.failures, again.replays) == (0, (), "rec")


def test_deviations_failed_checks_and_lacking_records_are_failures(
    home: Home, server: ModelServer, agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = f"{agent}:solve"
    run_suite(suite("a", "b"), spec, home=home, run="rec")
    offline(monkeypatch)
    edited = agent.with_name("edited.py")
    edited.write_text(AGENT.replace('"SAY " + prompt', '"SAY " + prompt.replace("b", "B")'))
    result = replay_run("rec", suite=suite("a", "b", "c"), agent=f"{edited}:solve", home=home)
    assert (result.planned, result.successes, result.missing) == (3, 1, {"deviation": 2})
    b, c = result.failures
    assert (b.task, b.reason, c.task, c.reason) == ("b", "deviation", "c", "deviation")
    assert "-SAY b" in b.why
    assert "+SAY B" in b.why
    assert c.why.startswith("run 'rec' has no attempt 0 of task 'c'")
    # a check that became stricter is found offline
    strict = Suite(name="s", tasks=(Task(id="a", prompt="a", expected="z", checks=(Check(kind="equals"),)),))
    result = replay_run("rec", suite=strict, agent=spec, home=home)
    assert [(f.task, f.reason, f.why) for f in result.failures] == [("a", "checks", "score 0")]
    assert len(server.calls) == 2


def test_some_tasks_and_attempts_only_and_conditions(
    home: Home, server: ModelServer, agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = (Condition(name="one"), Condition(name="two"))
    spec = f"{agent}:solve"
    run_suite(suite("a", "b"), spec, k=2, home=home, run="rec", conditions=both)
    offline(monkeypatch)
    part = replay_run("rec", suite=suite("a", "b"), changes={"tasks": ("b",), "k": 1, "name": "part"}, home=home)
    assert (part.run, part.planned, part.failures) == ("part", 2, ())
    assert {e.head.condition for e in home.run("part").entries} == {"one", "two"}
    more = replay_run("rec", suite=suite("a", "b"), changes={"k": 3}, home=home)
    assert (more.planned, more.missing, len(more.failures)) == (12, {"deviation": 4}, 4)


def test_a_check_of_files_that_recorded_tools_wrote_is_left_unscored(
    home: Home, server: ModelServer, agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act(task: Task, episode: EpisodeHandle) -> str:
        import openai

        folder = episode.workspace
        assert folder is not None

        def write(text: str) -> str:
            (folder / "out.txt").write_text(text)
            return "written"

        with openai.OpenAI(max_retries=0) as client:
            said: Any = [{"role": "user", "content": "SAY hello"}]
            reply = client.chat.completions.create(model="m-1", messages=said)
        return str(episode.record.tool("write", write, text=reply.choices[0].message.content))

    check = Check(kind="files", settings={"exists": ["out.txt"]})
    files = Suite(name="files", tasks=(Task(id="f", prompt="f", checks=(check,)),))
    assert run_suite(files, act, home=home, run="rec").successes == 1
    offline(monkeypatch)
    result = replay_run("rec", suite=files, agent=act, home=home)
    assert (result.missing, result.failures) == ({"unscored": 1}, ())
    (trace,) = home.run(result.run).traces()
    assert "wrote none" in trace.outcome.detail  # type: ignore[union-attr]


def test_bad_input_is_one_sentence(home: Home, server: ModelServer, agent: Path) -> None:
    with pytest.raises(NotFound):
        replay_run("nothing", home=home)
    home.create("imported", "import")
    with pytest.raises(BadUsage, match="not made by 'ethogram run'"):
        replay_run("imported", home=home)
    run_suite(suite("a"), f"{agent}:solve", home=home, run="rec")
    with pytest.raises(BadUsage, match="leave out capture off"):
        replay_run("rec", suite=suite("a"), changes={"capture": "off"}, home=home)
    with pytest.raises(BadUsage, match="process of its own"):
        replay_run("rec", suite=suite("a"), agent="http://127.0.0.1:9/", home=home)


SHOP = Path(__file__).parents[2] / "examples" / "mcp"


def test_tools_over_mcp_are_steps_of_the_episode_and_answer_from_its_trace(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    proxy = f"{Path(sys.executable).with_name('ethogram')} mcp -- {sys.executable} {SHOP / 'shop_server.py'}"
    command = f"cmd: {sys.executable} {SHOP / 'shop_client.py'} pear"
    task = Suite(name="shop", tasks=(Task(id="sell", prompt="sell"),))
    run_suite(task, f"{command} 3 {proxy}", home=home, run="rec")
    (trace,) = home.run("rec").traces()
    tools = [step.name for step in trace.steps if step.kind == "tool"]
    assert tools, "the calls of the proxy are steps of the episode"
    result = replay_run(
        "rec", suite=task, home=home, agent=f"{command} 3 {proxy.partition(' --')[0]} -- no-such-server"
    )
    assert result.failures == ()
    (again,) = home.run(result.run).traces()
    assert [step.name for step in again.steps if step.kind == "tool"] == tools
    assert (again.answer, again.head.meta["served_tools"]) == (trace.answer, len(tools))
    other = replay_run("rec", suite=task, home=home, agent=f"{command} 4 {proxy}")
    assert [failure.reason for failure in other.failures] == ["deviation"]
    assert "was recorded with other arguments" in other.failures[0].why
