"""Agents written with the packages of providers are recorded at the gateway, and replayed without a server or a key."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ethogram.capture.intake import Intake, SourceReport
from ethogram.errors import BadInput, BadUsage, NotFound
from ethogram.harness.handle import EpisodeHandle
from ethogram.harness.options import AllCaps
from ethogram.harness.suites import run
from ethogram.plans import Check, Suite, Task
from ethogram.prices import Caps
from ethogram.questions.replay.buying.replay import ReplayOptions, ReplayResult, replay
from ethogram.store import Home
from ethogram.store.lake import REPLAY, REPLAYED
from ethogram.store.redact import policy_from
from ethogram.traces import Message, Origin, Text
from ethogram.wire.clock import SystemClock
from ethogram.wire.gateway.call import ModelReply, ModelRequest
from ethogram.wire.gateway.episode_replay import EpisodeReplay
from ethogram.wire.gateway.recorded_calls import recorded_calls
from ethogram.wire.gateway.sent_again import recorded_request
from ethogram.wire.recorder import Recorder
from ethogram.worlds.model_server import ModelServer, ReplyError, serve_model, text_reply, tool_reply

AGENT = '''
import asyncio, json, os, sys
import anthropic, openai

TURNS, CHANGED = 3, int(os.environ.get("CHANGED", "-1"))

def told(turn):
    """What the agent says at a turn: something else at the one that was changed."""
    return f"look again ({turn})" if turn == CHANGED else f"look {turn}"

def chat(task):
    with openai.OpenAI(max_retries=0) as client:
        said = [{"role": "system", "content": "Be brief."}]
        for turn in range(TURNS):
            said.append({"role": "user", "content": f"{task.prompt}: {told(turn)}"})
            reply = client.chat.completions.create(model="m-1", messages=said, temperature=0.5)
            said.append({"role": "assistant", "content": reply.choices[0].message.content})
        return said[-1]["content"]

def streamed(task):
    with openai.OpenAI(max_retries=0) as client:
        said = []
        for turn in range(TURNS):
            said.append({"role": "user", "content": f"{task.prompt}: {told(turn)}"})
            words = ""
            for chunk in client.chat.completions.create(model="m-1", messages=said, stream=True):
                words += chunk.choices[0].delta.content or "" if chunk.choices else ""
            said.append({"role": "assistant", "content": words})
        return said[-1]["content"]

async def later(task):
    async with openai.AsyncOpenAI(max_retries=0) as client:
        said = []
        for turn in range(TURNS):
            said.append({"role": "user", "content": f"{task.prompt}: {told(turn)}"})
            reply = await client.chat.completions.create(model="m-1", messages=said)
            said.append({"role": "assistant", "content": reply.choices[0].message.content})
        return said[-1]["content"]

def responses(task):
    with openai.OpenAI(max_retries=0) as client:
        said = []
        for turn in range(TURNS):
            said.append({"role": "user", "content": f"{task.prompt}: {told(turn)}"})
            reply = client.responses.create(model="m-1", input=said)
            said.append({"role": "assistant", "content": reply.output_text})
        return said[-1]["content"]

def messages(task):
    with anthropic.Anthropic(max_retries=0) as client:
        said = []
        for turn in range(TURNS):
            said.append({"role": "user", "content": f"{task.prompt}: {told(turn)}"})
            reply = client.messages.create(model="m-1", max_tokens=50, system="Be brief.", messages=said)
            said.append({"role": "assistant", "content": reply.content[0].text})
        return said[-1]["content"]

async def messages_streamed_later(task):
    async with anthropic.AsyncAnthropic(max_retries=0) as client:
        said = []
        for turn in range(TURNS):
            said.append({"role": "user", "content": f"{task.prompt}: {told(turn)}"})
            async with client.messages.stream(model="m-1", max_tokens=50, messages=said) as stream:
                words = "".join([text async for text in stream.text_stream])
            said.append({"role": "assistant", "content": words})
        return said[-1]["content"]

def tools(task):
    """Tool calls of the model, carried out by the agent itself: both calls of a turn, and their results."""
    with openai.OpenAI(max_retries=0) as client:
        tools = [{"type": "function", "function": {"name": "price", "parameters": {"type": "object"}}}]
        said = [{"role": "user", "content": task.prompt}]
        for turn in range(9):
            message = client.chat.completions.create(model="m-1", messages=said, tools=tools).choices[0].message
            if not message.tool_calls:
                return message.content
            said.append(message.model_dump(exclude_none=True))
            for call in message.tool_calls:
                said.append({"role": "tool", "tool_call_id": call.id, "content": told(turn)})

if __name__ == "__main__":
    from types import SimpleNamespace
    answer = globals()[sys.argv[1]](SimpleNamespace(prompt=sys.stdin.read()))
    print(asyncio.run(answer) if asyncio.iscoroutine(answer) else answer, end="")
'''
WAYS = ["chat", "streamed", "later", "responses", "messages", "messages_streamed_later"]


def echo(request: ModelRequest) -> ModelReply:
    """Answers with the number of the turn; asks for tools twice where there are any."""
    turn = sum(m.role == "assistant" for m in request.messages)
    if request.tools and turn < 2:
        return tool_reply(("price", {"item": f"tea {turn}"}), ("price", {"item": f"ale {turn}"}))
    return text_reply(f"answer {turn}")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.delenv("CHANGED", raising=False)
    with serve_model(echo) as running:
        for name, value in running.variables().items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "agent.py"
    path.write_text(AGENT)
    return path


def suite(**more: Any) -> Suite:
    task = Task(id="t", prompt="Find it", expected="answer 2", checks=(Check(kind="equals"),), **more)
    return Suite(name="s", tasks=(task,))


def offline(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> int:
    """From here on there is neither a server nor a key; gives how often the server was called."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    return len(server.calls)


def recorded(home: Home, agent: Any, **more: Any) -> str:
    result = run(suite(), agent, home=home, run="rec", **more)
    assert result.scored == 1
    return home.run("rec").entries[0].head.trace_id


def check_same(found: ReplayResult, calls: int) -> None:
    assert (found.same, found.deviation, found.first_divergence) == (True, None, None)
    assert (found.d_norm, found.t_star, found.answer_changed) == (0.0, None, False)
    assert (found.served, found.recorded_calls, found.score, found.cost_usd) == (calls, calls, 1.0, 0.0)


@pytest.mark.parametrize("way", WAYS)
def test_an_agent_in_python_does_the_same_again(
    home: Home, server: ModelServer, agent: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = f"{agent}:{way}"
    trace = recorded(home, spec)
    calls = offline(server, monkeypatch)
    found = replay(trace, spec, suite=suite(), home=home)
    check_same(found, 3)
    assert len(server.calls) == calls == 3
    run = home.run(found.run)
    assert (run.info.kind, run.info.plan[REPLAYED]) == (REPLAY, "rec")
    # the agent is found again by itself, the suite of a program is not
    with pytest.raises(NotFound, match="suite"):
        replay(trace, home=home)


@pytest.mark.parametrize("way", ["streamed"])
def test_a_command_does_the_same_again_in_a_clean_environment_too(
    home: Home, server: ModelServer, agent: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = f"cmd: {sys.executable} {agent} {way}"
    trace = recorded(home, spec)
    offline(server, monkeypatch)
    check_same(replay(trace, spec, suite=suite(), home=home), 3)


@pytest.mark.parametrize("way", ["chat", "messages"])
@pytest.mark.parametrize("turn", [0, 1, 2])
def test_one_changed_prompt_deviates_at_its_step(
    home: Home, server: ModelServer, agent: Path, way: str, turn: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = recorded(home, f"{agent}:{way}")
    calls = offline(server, monkeypatch)
    changed = agent.with_name("changed.py")
    changed.write_text(AGENT.replace('int(os.environ.get("CHANGED", "-1"))', str(turn)))
    found = replay(trace, f"{changed}:{way}", suite=suite(), home=home)
    assert (found.same, found.first_divergence, found.missing, found.served) == (False, turn, "deviation", turn)
    assert found.t_star == turn
    assert found.deviation is not None
    assert f"-Find it: look {turn}" in found.deviation.diff
    assert f"+Find it: look again ({turn})" in found.deviation.diff
    assert len(server.calls) == calls


@pytest.mark.parametrize("turn", [-1, 0, 1])
def test_results_of_an_agent_s_own_tools_take_part(
    home: Home, server: ModelServer, agent: Path, turn: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = recorded(home, f"{agent}:tools")
    offline(server, monkeypatch)
    changed = agent.with_name("changed.py")
    changed.write_text(AGENT.replace('int(os.environ.get("CHANGED", "-1"))', str(turn)))
    found = replay(trace, f"{changed}:tools", suite=suite(), home=home)
    assert (found.own_tools, found.recorded_tools) == (4, 0)
    # steps: model, tool, tool, model, tool, tool, model
    assert found.first_divergence == {-1: None, 0: 3, 1: 6}[turn]
    assert found.same is (turn == -1)


def test_a_lenient_replay_goes_live_and_says_where(home: Home, server: ModelServer, agent: Path) -> None:
    trace = recorded(home, f"{agent}:chat")
    changed = agent.with_name("changed.py")
    changed.write_text(AGENT.replace('int(os.environ.get("CHANGED", "-1"))', "1"))
    before = len(server.calls)
    options = ReplayOptions(mode="lenient")
    found = replay(trace, f"{changed}:chat", suite=suite(), home=home, options=options)
    assert (found.first_divergence, found.served, found.score, found.answer) == (1, 1, 1.0, "answer 2")
    assert len(server.calls) - before == 2
    assert (found.same, found.answer_changed, found.d_norm) == (False, False, 0.0)


def test_calls_that_failed_fail_again(home: Home, agent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = iter(range(99))

    def shaky(request: ModelRequest) -> ModelReply:
        if next(tries) == 1:
            raise ReplyError(429, "slow down", kind="rate_limit_error")
        return echo(request)

    agent.write_text(AGENT.replace("max_retries=0", "max_retries=2"))
    with serve_model(shaky) as running:
        for name, value in running.variables().items():
            monkeypatch.setenv(name, value)
        trace = recorded(home, f"{agent}:chat")
        offline(running, monkeypatch)
        check_same(replay(trace, f"{agent}:chat", suite=suite(), home=home), 4)


def test_answers_that_redaction_changed_are_named_and_refused(
    home: Home, agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leaky(request: ModelRequest) -> ModelReply:
        turn = sum(m.role == "assistant" for m in request.messages)
        return text_reply("write to ada.lovelace@example.org" if turn == 1 else f"answer {turn}")

    with serve_model(leaky) as running:
        for name, value in running.variables().items():
            monkeypatch.setenv(name, value)
        trace = recorded(home, f"{agent}:chat")
        with pytest.raises(BadInput, match="step 1: redaction changed its answer"):
            replay(trace, f"{agent}:chat", suite=suite(), home=home)
        before = len(running.calls)
        options = ReplayOptions(mode="lenient")
        found = replay(trace, f"{agent}:chat", suite=suite(), home=home, options=options)
        assert [(one.step, one.why) for one in found.unusable] == [(1, "redaction changed its answer")]
        assert (found.first_divergence, found.served, len(running.calls) - before) == (1, 1, 2)


def test_an_agent_that_stops_early_or_goes_on_deviates(
    home: Home, server: ModelServer, agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = recorded(home, f"{agent}:chat")
    offline(server, monkeypatch)
    shorter = agent.with_name("shorter.py")
    shorter.write_text(AGENT.replace("TURNS, CHANGED = 3", "TURNS, CHANGED = 2"))
    found = replay(trace, f"{shorter}:chat", suite=suite(), home=home)
    assert (found.first_divergence, found.missing, found.answer) == (2, "deviation", "answer 1")
    assert found.deviation is not None
    assert "ended without the model call of step 2" in found.deviation.why
    longer = agent.with_name("longer.py")
    longer.write_text(AGENT.replace("TURNS, CHANGED = 3", "TURNS, CHANGED = 4"))
    found = replay(trace, f"{longer}:chat", suite=suite(), home=home)
    assert found.first_divergence == 3
    assert found.deviation is not None
    assert "once more after all 3 recorded calls" in found.deviation.why


def test_a_command_that_goes_around_the_gateway_is_found_out(home: Home, server: ModelServer, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("""
import json, sys
from urllib.request import Request, urlopen
asked = {"model": "m-1", "messages": [{"role": "user", "content": "go"}]}
sent = Request(sys.argv[1] + "/chat/completions", json.dumps(asked).encode(), {"content-type": "application/json"})
print(json.load(urlopen(sent))["choices"][0]["message"]["content"], end="")
""")
    trace = recorded(home, f"cmd: sh -c 'exec {sys.executable} {program} $OPENAI_BASE_URL'")
    around = f"cmd: {sys.executable} {program} {server.variables()['OPENAI_BASE_URL']}"
    found = replay(trace, around, suite=suite(), home=home)
    assert (found.same, found.first_divergence, found.missing) == (False, 0, "deviation")
    assert found.deviation is not None
    assert "no call came to the gateway" in found.deviation.why


def test_a_trace_that_was_cut_short_says_so(
    home: Home, server: ModelServer, agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = f"{agent}:chat"
    run(suite(), spec, home=home, run="rec", caps=AllCaps(episode=Caps(steps=2)))
    (entry,) = home.run("rec").entries
    offline(server, monkeypatch)
    # the cap of the record holds in the replay too, so that it ends in the same place
    same = replay(entry.head.trace_id, spec, suite=suite(), home=home)
    assert (same.deviation, same.d_norm, same.served) == (None, 0.0, 2)
    trace = home.run("rec").trace(entry)
    policy = EpisodeReplay(trace, home.redactor(policy_from("default"))).playback
    for call in recorded_calls(trace):
        policy.decide(recorded_request(trace, call))
    policy.decide(ModelRequest(protocol="openai-chat", model="m-1"))
    assert policy.deviation is not None
    assert policy.deviation.why.endswith("the recorded episode was cut short (cap.steps)")


def test_a_trace_without_model_calls_is_refused(home: Home, agent: Path) -> None:
    run(suite(), lambda task: "answer 2", home=home, run="rec", capture="off")
    (entry,) = home.run("rec").entries
    with pytest.raises(BadInput, match="no model calls, so there is nothing to serve"):
        replay(entry.head.trace_id, f"{agent}:chat", suite=suite(), home=home)


def test_tools_of_the_suite_and_the_user_answer_from_the_trace(
    home: Home, server: ModelServer, agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []

    def send(to: str) -> dict[str, int]:
        happened.append(to)
        return {"sent": len(happened)}

    async def act(task: Task, episode: EpisodeHandle) -> str:
        import openai

        result = episode.record.tool("send", send, to="ann")
        said: Any = [{"role": "user", "content": f"sent {result['sent']}"}]
        async with openai.AsyncOpenAI(max_retries=0) as client:
            reply = await client.chat.completions.create(model="m-1", messages=said)
        return f"{reply.choices[0].message.content}".replace("0", "2")

    trace = recorded(home, act)
    assert happened == ["ann"]
    offline(server, monkeypatch)
    found = replay(trace, act, suite=suite(), home=home)
    assert (found.same, found.served, found.served_tools, found.recorded_tools) == (True, 1, 1, 1)
    assert happened == ["ann"], "nothing was sent again"


def test_bad_input_is_one_sentence(home: Home, server: ModelServer, agent: Path) -> None:
    trace = recorded(home, f"{agent}:chat")
    with pytest.raises(NotFound, match="no trace"):
        replay("0000", f"{agent}:chat", home=home)
    with pytest.raises(BadUsage, match="process of its own"):
        replay(trace, "http://127.0.0.1:9/agent", suite=suite(), home=home)
    other = Suite(name="other", tasks=(Task(id="else", prompt="?"),))
    with pytest.raises(NotFound, match="no task named 't' in suite other"):
        replay(trace, f"{agent}:chat", suite=other, home=home)


def test_parameters_take_part(home: Home, server: ModelServer, agent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = recorded(home, f"{agent}:chat")
    offline(server, monkeypatch)
    changed = agent.with_name("changed.py")
    changed.write_text(AGENT.replace("temperature=0.5", "temperature=0.6"))
    found = replay(trace, f"{changed}:chat", suite=suite(), home=home)
    assert found.first_divergence == 0
    assert found.deviation is not None
    assert "-temperature = 0.5" in found.deviation.diff


def test_calls_that_are_not_read_are_not_forwarded(
    home: Home, server: ModelServer, agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def act(task: Task, *, embed: bool = False) -> str:
        import openai

        with openai.OpenAI(max_retries=0) as client:
            with suppress(openai.NotFoundError):
                client.models.list()
            if embed:
                with suppress(openai.PermissionDeniedError):
                    client.embeddings.create(model="e", input="words")
            said: Any = [{"role": "user", "content": "look"}]
            reply = client.chat.completions.create(model="m-1", messages=said)
        return f"{reply.choices[0].message.content}".replace("0", "2")

    trace = recorded(home, act)
    calls = offline(server, monkeypatch)
    check_same(replay(trace, act, suite=suite(), home=home), 1)
    found = replay(trace, lambda task: act(task, embed=True), suite=suite(), home=home)
    assert found.deviation is not None
    assert "POST /v1/embeddings is not a call whose answers are recorded" in found.deviation.why
    assert len(server.calls) == calls


def test_a_command_needs_no_suite(home: Home, agent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace of a run that was not planned, such as one that was imported: what the command reads is given."""
    spec = f"cmd: {sys.executable} {agent} chat"
    ask = [Message("system", (Text("Be brief."),)), Message("user", (Text("Find it: look 0"),))]
    run = home.create("imported", "import")
    with run.writer(home.redactor(policy_from("default"))) as writer:
        intake = Intake(lambda t: writer.trace(t, None), Origin("otlp"), SourceReport(source="log"))
        with intake.trace("one") as builder:
            builder.task, builder.answer = "found", "answer 0"
            with Recorder(builder, clock=SystemClock()).model(input=ask, model="m-1") as call:
                call.done("answer 0")
    (entry,) = home.run("imported").entries
    agent.write_text(AGENT.replace("TURNS, CHANGED = 3", "TURNS, CHANGED = 1"))
    with pytest.raises(BadUsage, match="give it with suite"):
        replay(entry.head.trace_id, f"{agent}:chat", home=home)
    with pytest.raises(BadUsage, match="does not name its agent"):
        replay(entry.head.trace_id, home=home)
    found = replay(entry.head.trace_id, spec, home=home, options=ReplayOptions(given="Find it"))
    assert (found.same, found.d_norm, found.score, found.missing) == (True, 0.0, None, "unscored")
