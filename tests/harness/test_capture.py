"""Ordinary agents, written with the packages of providers, are recorded, priced, capped and killed without a change."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ethogram.errors import BadUsage
from ethogram.findings.findings import findings
from ethogram.harness.environment import Environment
from ethogram.harness.options import AllCaps
from ethogram.harness.run_result import Quiet
from ethogram.harness.suites import resume_run
from ethogram.harness.suites import run as run_suite
from ethogram.plans import Check, Suite, Task
from ethogram.prices import Caps, Metering
from ethogram.questions.home.kill_switch import kill
from ethogram.store import Home, Run
from ethogram.traces import Missing, Scored, Span, ToolResult
from ethogram.wire.gateway.call import ModelReply, ModelRequest, Usage
from ethogram.worlds.model_server import ModelServer, serve_model, text_reply, tool_reply

AGENT = """
import json, sys
import openai

client = openai.OpenAI(api_key="sk-planted-0123456789abcdef", max_retries=0)
TOOLS = [{"type": "function", "function": {"name": "price", "parameters": {"type": "object", "properties": {}}}}]

def solve(task):
    return talk(task.prompt)

def talk(prompt):
    messages = [{"role": "user", "content": prompt}]
    while True:
        reply = client.chat.completions.create(model="gpt-4o-mini", messages=messages, tools=TOOLS).choices[0].message
        if not reply.tool_calls:
            return reply.content
        messages.append(reply.model_dump(exclude_none=True))
        for call in reply.tool_calls:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": "6"})

if __name__ == "__main__":
    print(talk(sys.stdin.read()), end="")
"""


def shop(request: ModelRequest) -> ModelReply:
    """Asks for a tool, then answers with its result and the question."""
    last = request.messages[-1].parts[0]
    if not isinstance(last, ToolResult):
        return tool_reply(("price", {"item": "tea"}))
    asked = request.messages[0].parts[0].text
    return text_reply(f"{asked}:{last.content}", usage=Usage(input_tokens=1000, output_tokens=100))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with serve_model(shop) as running:
        for name, value in running.variables().items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    path = tmp_path / "my_agent.py"
    path.write_text(AGENT)
    return path


MOST = 17_400
"""Tokens of one call of gpt-4o-mini at most: its own limit, and what these agents send."""


def suite(tasks: int = 2, **more: Any) -> Suite:
    check = (Check(kind="equals"),)
    return Suite(
        name="shop",
        tasks=tuple(Task(id=f"t{i}", prompt=f"q{i}", expected=f"q{i}:6", checks=check) for i in range(tasks)),
        **more,
    )


def steps(run: Run, kind: str) -> list[Span]:
    return [span for entry in run.entries for span in run.spans(entry) if span.kind == kind]


def check_recorded(home: Home, result: Any, server: ModelServer) -> None:
    assert (result.scored, result.successes) == (4, 4)
    assert result.model_calls == len(server.calls) == 8
    assert result.tokens is not None
    assert result.cost_usd is not None
    assert result.cost_usd > 0
    run = home.run(result.run)
    models, tools = steps(run, "model"), steps(run, "tool")
    assert {s.model for s in models} == {"gpt-4o-mini"}
    assert (len(models), [s.name for s in tools]) == (8, ["price"] * 4)
    assert sum(s.cost_usd or 0 for s in models) == pytest.approx(result.cost_usd)
    for entry in run.entries:
        trace = run.trace(entry)
        assert [s.kind for s in trace.steps] == ["model", "tool", "model"]
        assert trace.answer == f"q{entry.head.task[1:]}:6"


def test_a_python_agent_is_recorded_and_priced(home: Home, server: ModelServer, agent: Path) -> None:
    before = dict(os.environ)
    result = run_suite(suite(), f"{agent}:solve", k=2, home=home, run="a", caps=AllCaps(experiment=Caps(usd=2.0)))
    check_recorded(home, result, server)
    assert dict(os.environ) == before
    # the client that its module made finds the gateway in a later session too
    more = resume_run("a", k=3, home=home, suite=suite(), agent=f"{agent}:solve")
    assert (more.scored, more.model_calls) == (6, 12)
    plan = home.run("a").info.plan
    assert (plan["captured"], plan["meters"]) == (True, ["seconds", "steps", "tokens", "usd"])


def test_a_command_is_recorded_and_priced(home: Home, server: ModelServer, agent: Path) -> None:
    caps = AllCaps(experiment=Caps(usd=2.0), episode=Caps(steps=10, tokens=40_000))
    result = run_suite(suite(), f"cmd: {sys.executable} {agent}", k=2, home=home, run="a", caps=caps)
    check_recorded(home, result, server)
    run = home.run("a")
    for entry in run.entries:
        (command,) = [s for s in run.spans(entry) if s.kind == "agent"]
        assert {s.parent_id for s in run.spans(entry) if s.kind in ("model", "tool")} == {command.span_id}


CARELESS = """
import json, os, urllib.error, urllib.request

def solve(task):
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": task.prompt}]}).encode()
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", data=body)
    try:
        with urllib.request.urlopen(request) as response:
            reply = json.load(response)
    except urllib.error.HTTPError as error:
        reply = json.load(error)
    return reply["choices"][0]["message"]["content"][TASTE]
"""


def test_a_crash_upon_a_model_that_is_away_is_not_the_agents_fault(
    home: Home, server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "careless.py").write_text(CARELESS)
    run_suite(suite(1), str(tmp_path / "careless.py:solve"), k=1, home=home, run="there", retries=0)
    (own,) = home.resolve("there").entries
    assert isinstance(own.head.outcome, Scored), "with a model it crashes by itself"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    run_suite(suite(1), str(tmp_path / "careless.py:solve"), k=1, home=home, run="away", retries=0)
    (entry,) = home.resolve("away").entries
    assert isinstance(entry.head.outcome, Missing)
    assert entry.head.outcome.reason == "infrastructure.provider.unreached"


def test_a_command_with_a_clean_environment_and_an_upstream_of_its_own(
    home: Home, server: ModelServer, agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = Environment(passed={"OPENAI_BASE_URL": f"{server.address}/v1"}, clean=True)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/nobody-is-here")
    result = run_suite(suite(), f"cmd: {sys.executable} {agent}", k=2, home=home, run="a", environment=given)
    check_recorded(home, result, server)


def test_a_command_in_a_bubble_without_network_reaches_the_gateway_only(
    home: Home, server: ModelServer, agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is not installed, so nothing can be isolated")
    monkeypatch.chdir(agent.parent)
    agent.write_text(
        AGENT.replace(
            "def talk(",
            f"""
def shut(address):
    import urllib.request
    try:
        urllib.request.urlopen(address, timeout=5).close()
    except OSError:
        return
    raise SystemExit("the network is open")

shut("{server.address}/v1/models")

def talk(""",
        )
    )
    result = run_suite(suite(), f"cmd: {sys.executable} my_agent.py", k=2, home=home, run="a", isolation="bwrap")
    assert result.crash is None
    check_recorded(home, result, server)


@pytest.mark.parametrize("kind", ["python", "command"])
def test_a_cap_stops_an_agent_and_is_no_crash(home: Home, server: ModelServer, agent: Path, kind: str) -> None:
    spec = f"{agent}:solve" if kind == "python" else f"cmd: {sys.executable} {agent}"
    # the first call of an episode uses some of its tokens, and the second may use more than is left
    result = run_suite(suite(1), spec, home=home, run="a", caps=AllCaps(episode=Caps(tokens=MOST + 400)))
    (entry,) = home.run("a").entries
    (label,) = [x for x in home.run("a").labels() if x.name == "stopped_by"]
    assert (label.value, result.crashed, result.scored, result.successes) == ("cap.tokens", 0, 1, 0)
    assert (entry.totals.model_calls, len(server.calls)) == (2, 1), "a refused call is a step, and was not made"
    assert result.tokens is not None


def test_the_dollars_of_the_experiment_end_at_their_cap(home: Home, server: ModelServer, agent: Path) -> None:
    caps = AllCaps(experiment=Caps(usd=0.012))
    result = run_suite(suite(4), f"{agent}:solve", k=5, home=home, run="a", caps=caps, workers=4)
    assert result.stopped == "cap.experiment"
    assert result.cost_usd is not None
    assert 0.001 <= result.cost_usd <= 0.012
    assert result.crashed == 0
    assert result.not_run > 0


WITHOUT = """
def solve(task):
    return task.prompt + ":6"
"""


def test_an_agent_that_calls_no_model_costs_an_unknown_amount(home: Home, tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(WITHOUT)
    spec = f"{tmp_path / 'plain.py'}:solve"
    result = run_suite(suite(), spec, home=home, run="free")
    assert (result.successes, result.cost_usd, result.tokens, result.stopped) == (2, None, None, None)
    caps = AllCaps(experiment=Caps(usd=1.0))
    capped = run_suite(suite(), spec, home=home, run="capped", caps=caps, workers=1)
    assert (capped.stopped, capped.scored, capped.cost_usd) == (None, 2, None), "its connections are seen"
    assert capped.unseen == (
        "no model call was seen in 2 of 2 attempts: its connections are seen, so caps count them as nothing",
    )
    assert resume_run("capped", k=2, home=home, suite=suite(), agent=spec).scored == 4
    allowed = run_suite(
        suite(),
        spec,
        home=home,
        run="allowed",
        caps=AllCaps(experiment=Caps(usd=1.0)),
        metering=Metering(allow_unmetered=True),
    )
    assert (allowed.successes, allowed.cost_usd, allowed.stopped) == (2, None, None)


def test_capture_can_be_turned_off(home: Home, server: ModelServer, agent: Path) -> None:
    spec = f"{agent}:solve"
    result = run_suite(suite(), spec, home=home, run="a", capture="off")
    assert (result.successes, result.cost_usd, result.model_calls) == (2, None, 0)
    assert home.run("a").info.plan["captured"] is False
    with pytest.raises(BadUsage, match="capture auto"):
        run_suite(suite(), spec, home=home, capture="off", caps=AllCaps(experiment=Caps(usd=1.0)))
    with pytest.raises(BadUsage, match="no capture 'on'"):
        run_suite(suite(), spec, home=home, capture="on")
    with pytest.raises(BadUsage, match="agents behind an address"):
        run_suite(suite(), spec, home=home, capture="http://127.0.0.1:1")
    with pytest.raises(BadUsage, match="start it under 'ethogram gateway'"):
        run_suite(suite(), "http://127.0.0.1:1/solve", home=home, capture="gateway")


def test_agents_that_record_all_their_use_are_left_alone_unless_asked(
    home: Home, server: ModelServer, agent: Path
) -> None:
    agent.write_text(AGENT + "\nsolve.meters = ('tokens', 'usd')\n")
    alone = run_suite(suite(), f"{agent}:solve", home=home, run="alone")
    assert (alone.model_calls, alone.cost_usd, len(server.calls)) == (0, 0.0, 4)
    asked = run_suite(suite(), f"{agent}:solve", home=home, run="asked", capture="gateway")
    assert (asked.model_calls, len(server.calls)) == (4, 8)


MANY = """
import httpx2, openai

async def solve(task):
    said = []
    # closed with the episode: an agent that is stopped in mid-call must leave no connection behind
    async with openai.AsyncOpenAI(
        api_key="k", max_retries=0, http_client=httpx2.AsyncClient(verify=False, timeout=60)
    ) as client:
        for turn in range(20):
            messages = [{"role": "user", "content": task.prompt}]
            reply = await client.chat.completions.create(model="gpt-4o-mini", messages=messages)
            said.append(reply.choices[0].message.content)
    return said[-1]
"""
CALL = Usage(input_tokens=1000, output_tokens=1000)


@pytest.fixture
def many(tmp_path: Path) -> str:
    (tmp_path / "many.py").write_text(MANY)
    return f"{tmp_path / 'many.py'}:solve"


def test_100_agents_at_once_spend_at_most_the_cap(home: Home, many: str, monkeypatch: pytest.MonkeyPatch) -> None:
    price = (1000 * 0.15 + 1000 * 0.6) / 1e6  # of one call of gpt-4o-mini
    with serve_model(lambda request: text_reply("x", usage=CALL)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.address}/v1")
        caps = AllCaps(experiment=Caps(usd=150 * price))
        result = run_suite(suite(100), many, home=home, run="a", workers=100, caps=caps)
        made = len(server.calls)
    assert result.cost_usd == pytest.approx(made * price), "what was spent is what the server served"
    assert 150 * price - MOST * 0.6e-6 <= result.cost_usd <= 150 * price + 1e-9
    assert (result.stopped, result.crashed, result.successes) == ("cap.experiment", 0, 0)
    assert result.missing == {"cap.experiment": 100}


def test_the_kill_switch_answers_100_agents_and_commands_at_once(
    home: Home, many: str, agent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulled: list[int] = []

    def slow(request: ModelRequest) -> ModelReply:
        time.sleep(0.02)
        return text_reply("x", usage=CALL)

    with serve_model(slow) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.address}/v1")

        def pull() -> None:
            while len(server.calls) < 150:
                time.sleep(0.01)
            kill("a", why="test", home=home)
            time.sleep(0.6)  # the flag is looked at every quarter of a second
            pulled.append(len(server.calls))

        switch = threading.Thread(target=pull)
        switch.start()
        result = run_suite(suite(120), many, home=home, run="a", workers=100)
        switch.join(60)
        assert len(server.calls) <= pulled[0] + 100, "at most the calls that were under way"
    assert (result.stopped, result.crashed) == ("killed", 0)
    assert result.missing["killed"] >= 100
    labels = {x.value for x in home.run("a").labels() if x.name == "stopped_by"}
    assert labels == {"killed"}


STUBBORN = """
import time, openai
client = openai.OpenAI(api_key="k", max_retries=0)
while True:
    try:
        client.chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": "?"}])
    except openai.PermissionDeniedError as error:
        assert error.type == "ethogram_cap_reached", error.body
        print("I could not finish", flush=True)
        time.sleep(60)
"""


def test_a_command_that_goes_on_after_a_refusal_is_ended_soon(home: Home, server: ModelServer, tmp_path: Path) -> None:
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    began = time.monotonic()
    caps = AllCaps(episode=Caps(steps=1))
    result = run_suite(suite(3), f"cmd: {sys.executable} {tmp_path / 'stubborn.py'}", home=home, run="a", caps=caps)
    assert time.monotonic() - began < 40
    assert (result.crashed, result.scored, len(server.calls)) == (0, 3, 3)
    assert {x.value for x in home.run("a").labels() if x.name == "stopped_by"} == {"cap.steps"}
    assert {home.run("a").trace(e).answer for e in home.run("a").entries} == {"I could not finish\n"}


def test_before_it_starts_a_capped_run_says_how_many_calls_fit(home: Home, server: ModelServer, agent: Path) -> None:
    notes: list[str] = []
    called: list[int] = []

    class Listening(Quiet):
        def warn(self, words: str) -> None:
            notes.append(words)
            called.append(len(server.calls))

    caps = AllCaps(experiment=Caps(usd=0.2))
    run_suite(suite(1), f"{agent}:solve", home=home, run="a", caps=caps, progress=Listening())
    (told,) = notes
    assert called == [0]
    assert "the experiment's cap of 0.2 usd" in told
    assert "20 of gpt-4o-mini without max_tokens (16,384)" in told
    assert "a lower max_tokens lets more through" in told
    resume_run("a", k=2, home=home, suite=suite(1), agent=f"{agent}:solve", progress=Listening())
    run_suite(
        suite(1), f"{agent}:solve", home=home, run="b", meta={"model": "of-our-own"}, caps=caps, progress=Listening()
    )
    assert "of-our-own: its limit is not known, so up to one call per caller beyond" in notes[-1]


SOMETIMES = """
import openai, sys
prompt = sys.stdin.read()
if prompt.startswith("q0"):
    openai.OpenAI(api_key="k").chat.completions.create(
        model="gpt-4o-mini", messages=[{"role": "user", "content": "?"}], max_tokens=1000
    )
print(prompt + ":6", end="")
"""


def test_a_command_that_called_nobody_counts_as_the_dearest_attempt_so_far(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sometimes.py").write_text(SOMETIMES)
    spec = f"cmd: {sys.executable} {tmp_path / 'sometimes.py'}"
    usage = Usage(input_tokens=100, output_tokens=1000)
    call = (100 * 0.15 + 1000 * 0.6) / 1e6
    caps = AllCaps(experiment=Caps(usd=3.5 * call))
    with serve_model(lambda request: text_reply("x", usage=usage)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.address}/v1")
        result = run_suite(suite(6), spec, home=home, run="a", caps=caps, workers=1)
    assert (result.stopped, result.successes) == ("cap.experiment", 4), "one that is known, three that count like it"
    assert result.at_least_usd == pytest.approx(call)
    assert "no model call was seen in 3 of" in result.unseen[0]
    assert "do not cover those before the first" in result.unseen[0]
    bounded = AllCaps(experiment=Caps(usd=1.0), episode=Caps(usd=0.4))
    (tmp_path / "sometimes.py").write_text(SOMETIMES.replace("q0", "never"))
    last = run_suite(suite(6), spec, home=home, run="b", caps=bounded, workers=1)
    assert (last.stopped, last.scored) == ("cap.experiment", 3), "each counts as the episode's own cap"


CRASHING = """
def solve(task):
    raise ValueError("before the first call")
"""


def test_an_agent_that_crashes_before_its_first_call_stays_in_the_denominator(home: Home, tmp_path: Path) -> None:
    (tmp_path / "crashing.py").write_text(CRASHING)
    caps = AllCaps(experiment=Caps(usd=1.0))
    result = run_suite(suite(3), f"{tmp_path / 'crashing.py'}:solve", home=home, run="a", caps=caps)
    assert (result.stopped, result.scored, result.crashed, result.missing) == (None, 3, 3, {})


SWALLOWING = """
import openai
client = openai.OpenAI(api_key="k", max_retries=0)

def solve(task):
    for _ in range(2):
        try:
            client.chat.completions.create(model="gpt-4o-mini", messages=[{"role": "user", "content": "?"}])
        except openai.OpenAIError:
            pass
    return task.prompt + ":6"
"""


def test_a_success_of_which_a_cap_refused_a_call_is_counted_as_cut_off(
    home: Home, server: ModelServer, tmp_path: Path
) -> None:
    (tmp_path / "swallowing.py").write_text(SWALLOWING)
    spec = f"{tmp_path / 'swallowing.py'}:solve"
    result = run_suite(suite(1), spec, home=home, run="a", caps=AllCaps(episode=Caps(steps=1)))
    assert (result.successes, result.cut_off, result.cut_off_successes, len(server.calls)) == (1, 1, 1, 1)
    run = home.run("a")
    (entry,) = run.entries
    passed, refused = run.trace(entry).steps
    assert (passed.status, refused.status) == ("ok", "error")
    told = run.trace(entry).text(refused.error)
    assert told.startswith("refused by the budget: the episode's cap of 1 steps is reached")
    assert result.cost_usd == pytest.approx(passed.cost_usd), "what was not made cost nothing"
    assert entry.head.meta["cut_off"] == "cap.steps"
    found = findings(run.trace(entry), 0.5)
    assert [f.step for f in found if f.cls == "budget"] == [1]
