"""Episodes under operators that an agent of its own meets: tools over MCP are disturbed, and replays repeat it all."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ethogram.harness.disturbance import Disturbance
from ethogram.harness.options import parse_conditions
from ethogram.harness.suites import replay_run, run
from ethogram.perturbations.tools import Call, ToolPerturbation
from ethogram.plans import Condition, Suite, Task, derived_seed
from ethogram.questions.home.runs import show
from ethogram.questions.replay.buying.replay import replay
from ethogram.store import Home
from ethogram.traces import ToolResult, Trace
from ethogram.wire.gateway.call import ModelReply, ModelRequest
from ethogram.worlds.model_server import ModelServer, serve_model, text_reply, tool_reply

SHOP = Path(__file__).parents[2] / "examples" / "mcp"
PROXY = f"{Path(sys.executable).with_name('ethogram')} mcp -- {sys.executable} {SHOP / 'shop_server.py'}"
CLIENT = f"cmd: {sys.executable} {SHOP / 'shop_client.py'} pear 3"


def under(operator: str, intensity: float = 1.0, only: tuple[str, ...] = ()) -> Condition:
    wanted = Disturbance(operator=operator, seed=5, intensity=intensity, only=only)
    return Condition(name=operator, settings=wanted.settings())


def shop() -> Suite:
    return Suite(name="shop", tasks=(Task(id="sell", prompt="sell"),))


def mcp_steps(trace: Trace) -> list[tuple[str, str, bool]]:
    """Of each call over MCP: the tool, its words, and whether its span says that it was disturbed."""
    found = []
    for span in trace.steps:
        facts = json.loads(trace.text(span.attributes))["mcp"] if span.attributes else {}
        found.append((span.name, trace.text(span.result) if span.result else "", "perturbed" in facts))
    return found


def test_tools_over_mcp_are_disturbed_by_the_seeded_plan_and_replayed_as_they_were(home: Home) -> None:
    plain, broken = Condition(), under("tool_error", only=("stock",))
    run(shop(), f"{CLIENT} {PROXY}", home=home, run="rec", conditions=(plain, broken))
    traces = {trace.head.condition: trace for trace in home.run("rec").traces()}
    assert mcp_steps(traces[plain.name]) == [("stock", "12 of pear", False), ("sell", "9 of pear", False)]
    (stock, words, hit), sold = mcp_steps(traces[broken.name])
    around = ToolPerturbation("tool_error", derived_seed(5, f"episode:{traces[broken.name].head.seed}"))
    expected = str(around.operator.error(Call("stock", {"item": "pear"}, 0, ()), around.seed))
    assert (stock, words, hit, sold) == ("stock", expected, True, ("sell", "9 of pear", False))
    assert traces[broken.name].head.meta["perturbed_calls"] == 1
    assert f"stock: {expected}" in (traces[broken.name].answer or "")
    # no server is there in the replay, and nothing is disturbed twice
    gone = f"{CLIENT} {PROXY.partition(' -- ')[0]} -- no-such-server"
    result = replay_run("rec", suite=shop(), agent=gone, home=home)
    assert result.failures == ()
    again = {trace.head.condition: trace for trace in home.run(result.run).traces()}
    assert {name: trace.answer for name, trace in again.items()} == {n: t.answer for n, t in traces.items()}


@pytest.mark.parametrize("operator", ["tool_timeout", "truncated_result"])
def test_what_changes_results_over_mcp_lets_the_server_act(home: Home, operator: str) -> None:
    run(shop(), f"{CLIENT} {PROXY}", home=home, run="rec", conditions=(under(operator, only=("stock",)),))
    (trace,) = home.run("rec").traces()
    (_, words, hit), sold = mcp_steps(trace)
    assert hit
    assert words != "12 of pear"
    assert sold == ("sell", "9 of pear", False)


def test_ethogram_run_takes_the_operator_in_words(home: Home) -> None:
    (condition,) = parse_conditions(("perturb=tool_error",))
    run(shop(), f"{CLIENT} {PROXY}", home=home, run="rec", conditions=(condition,))
    (trace,) = home.run("rec").traces()
    assert [hit for _, _, hit in mcp_steps(trace)] == [True, True]


OWN_TOOLS = """
import json
import openai
import ethogram as eth

LINES = "first line" + chr(10) + "second line" + chr(10) + "third line" + chr(10)

def look(place):
    return f"{place}: {LINES}"

def solve(task, episode):
    tools = {"look": look, "marked": eth.tool(name="marked")(look)}
    said = [{"role": "user", "content": task.prompt}]
    with openai.OpenAI(max_retries=2) as client:
        for _ in range(8):
            reply = client.chat.completions.create(model="m-1", messages=said, max_tokens=500).choices[0].message
            if not reply.tool_calls:
                return reply.content
            said.append(reply.model_dump(exclude_none=True))
            for call in reply.tool_calls:
                try:
                    result = tools[call.function.name](**json.loads(call.function.arguments))
                except Exception as error:
                    result = f"{type(error).__name__}: {error}"
                said.append({"role": "tool", "tool_call_id": call.id, "content": result})
"""
PLACES = ("attic", "cellar", "garden")


def answer(request: ModelRequest) -> ModelReply:
    """Ask for one tool after the other, then say all that they gave."""
    results = [part.content for m in request.messages for part in m.parts if isinstance(part, ToolResult)]
    tool = request.messages[0].text
    if len(results) == len(PLACES):
        return text_reply(" / ".join(results))
    return tool_reply((tool, {"place": PLACES[len(results)]}))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with serve_model(answer) as running:
        for name, value in running.variables().items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.mark.parametrize("tool", ["look", "marked"])
@pytest.mark.parametrize(
    "operator",
    ["tool_error", "truncated_result", "stale_result", "irrelevant_result", "model_truncated", "model_error"],
)
def test_an_episode_under_an_operator_is_replayed_under_the_same(
    home: Home, server: ModelServer, tmp_path: Path, tool: str, operator: str
) -> None:
    path = tmp_path / "agent.py"
    path.write_text(OWN_TOOLS)
    task = Suite(name="s", tasks=(Task(id="t", prompt=tool),))
    run(task, f"{path}:solve", home=home, run="rec", k=2, conditions=(under(operator, 0.5),))
    recorded = list(home.run("rec").traces())
    if not operator.startswith("model"):
        assert sum(trace.head.meta["perturbed_calls"] for trace in recorded) > 0
    asked = len(server.calls)
    result = replay_run("rec", suite=task, agent=f"{path}:solve", home=home)
    assert result.failures == ()
    assert len(server.calls) == asked
    answers = {trace.head.attempt: trace.answer for trace in home.run(result.run).traces()}
    assert answers == {trace.head.attempt: trace.answer for trace in recorded}
    one = replay(recorded[0].head.trace_id, f"{path}:solve", suite=task, home=home)
    assert (one.same, one.d_norm, one.deviation) == (True, 0.0, None)


SELF_RECORDED = """
import openai
from ethogram.traces import Message, Text

def solve(task, episode):
    asked = [Message("user", (Text(task.prompt),))]
    with openai.OpenAI(max_retries=0) as client, episode.record.model(input=asked, model="m-1") as call:
        said = [{"role": "user", "content": task.prompt}]
        reply = client.chat.completions.create(model="m-1", messages=said)
        text = reply.choices[0].message.content
        call.done(text, input_tokens=reply.usage.prompt_tokens, output_tokens=reply.usage.completion_tokens)
    return text

solve.meters = ("steps", "tokens", "usd")
"""


def test_calls_of_an_agent_that_records_them_itself_stand_once_in_a_replay(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "agent.py"
    path.write_text(SELF_RECORDED)
    task = Suite(name="s", tasks=(Task(id="t", prompt="hello"),))
    with serve_model(lambda request: text_reply("hi")) as server:
        for name, value in server.variables().items():
            monkeypatch.setenv(name, value)
        run(task, f"{path}:solve", home=home, run="rec")
        (recorded,) = home.run("rec").traces()
        assert [step.kind for step in recorded.steps] == ["model"]
        found = replay(recorded.head.trace_id, f"{path}:solve", suite=task, home=home)
        assert (found.same, found.d_norm, found.served) == (True, 0.0, 1)
        (again,) = home.run(found.run).traces()
        assert [step.kind for step in again.steps] == ["model"]
        assert len(server.calls) == 1
        assert (found.cost_usd, show(found.run, home=home).cost_usd) == (0.0, 0.0)
