"""Real instrumentors: agents, nodes, tools and handoffs of frameworks are in the trace, and no call counts twice."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ethogram.harness.run_result import RunResult
from ethogram.harness.suites import run as run_suite
from ethogram.plans import Check, Suite, Task
from ethogram.store import Home
from ethogram.traces import Trace
from ethogram.wire.gateway.call import ModelReply, Usage
from ethogram.worlds.model_server import ModelServer, in_turn, serve_model, text_reply, tool_reply

EXAMPLES = Path(__file__).parents[2] / "examples" / "agents"
LOOK_UP = tool_reply(("price", {"item": "tea"}))
ANSWER = text_reply("it costs 6", usage=Usage(input_tokens=1000, output_tokens=100))
HAND_OVER = tool_reply(("transfer_to_clerk", {}))
OPENAI_TOOL = {"name": "price", "parameters": {"type": "object", "properties": {"item": {"type": "string"}}}}


@pytest.fixture
def instrument() -> Iterator[Callable[[str, str], None]]:
    """Switches instrumentors on, as an agent does, and off again after the test."""
    done: list[Any] = []

    def switch(module: str, name: str) -> None:
        instrumentor = getattr(importlib.import_module(module), name)()
        instrumentor.instrument()
        done.append(instrumentor)

    yield switch
    for instrumentor in done:
        instrumentor.uninstrument()


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., ModelServer]]:
    running = []

    def start(*replies: ModelReply) -> ModelServer:
        context = serve_model(in_turn(*replies))
        server = context.__enter__()
        running.append(context)
        for name, value in server.variables().items():
            monkeypatch.setenv(name, value)
        return server

    yield start
    for context in running:
        context.__exit__(None, None, None)


def run(home: Home, solve: Callable[..., Any], server: ModelServer, calls: int) -> list[Trace]:
    """Two episodes; every call of the server is one model span, priced once."""
    task = Task(id="tea", prompt="How much is the tea?", expected="6", checks=(Check(kind="contains"),))
    result: RunResult = run_suite(Suite(name="s", tasks=(task,)), solve, home=home, run="a", k=2, workers=2)
    assert (result.crash, result.successes) == (None, 2)
    assert result.model_calls == len(server.calls) == 2 * calls
    stored = home.run("a")
    traces = [stored.trace(entry) for entry in stored.entries]
    for trace in traces:
        models = [span for span in trace.spans if span.kind == "model"]
        assert len(models) == calls
        assert models[-1].input_tokens == 1000
        assert sum(span.cost_usd or 0 for span in models) * 2 == pytest.approx(result.cost_usd)
    return traces


def shape(trace: Trace) -> list[tuple[int, str, str, str]]:
    return [(depth, span.kind, span.name, span.agent) for depth, span in trace.walk()]


PLAIN = [(0, "model", "chat", ""), (0, "tool", "price", ""), (0, "model", "chat", "")]


def openai_agent(chat: Callable[..., Any]) -> Callable[[Task], str]:
    def solve(task: Task) -> str:
        messages: list[Any] = [{"role": "user", "content": task.prompt}]
        while True:
            reply = chat(model="gpt-4o-mini", messages=messages, tools=[{"type": "function", "function": OPENAI_TOOL}])
            message = reply.choices[0].message
            if not message.tool_calls:
                return str(message.content)
            messages.append(message.model_dump(exclude_none=True))
            messages += [{"role": "tool", "tool_call_id": c.id, "content": "6"} for c in message.tool_calls]

    return solve


@pytest.mark.parametrize("dialect", ["openinference", "genai", "both"])
def test_openai(home: Home, serve: Any, instrument: Any, dialect: str) -> None:
    import openai

    server = serve(LOOK_UP, ANSWER)
    if dialect != "genai":
        instrument("openinference.instrumentation.openai", "OpenAIInstrumentor")
    if dialect != "openinference":
        instrument("opentelemetry.instrumentation.genai.openai", "OpenAIInstrumentor")
    with openai.OpenAI(max_retries=0) as client:
        traces = run(home, openai_agent(client.chat.completions.create), server, 2)
    for trace in traces:
        assert shape(trace) == PLAIN
        told = trace.text(trace.spans[0].attributes or "")
        assert "instrumentation" in told, "the call is joined with what the instrumentor told of it"
        assert '"wire":"openai-chat"' in told


def test_streams_of_openai(home: Home, serve: Any, instrument: Any) -> None:
    import openai

    server = serve(ANSWER)
    instrument("openinference.instrumentation.openai", "OpenAIInstrumentor")

    def solve(task: Task) -> str:
        with openai.OpenAI(max_retries=0) as client:
            stream = client.chat.completions.create(
                model="gpt-4o-mini",
                messages=[{"role": "user", "content": task.prompt}],
                stream=True,
                stream_options={"include_usage": True},
            )
            return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)

    for trace in run(home, solve, server, 1):
        assert shape(trace) == [(0, "model", "chat", "")]


def test_anthropic(home: Home, serve: Any, instrument: Any) -> None:
    import anthropic

    server = serve(LOOK_UP, ANSWER)
    instrument("openinference.instrumentation.anthropic", "AnthropicInstrumentor")
    tools: Any = [{"name": "price", "input_schema": OPENAI_TOOL["parameters"]}]

    def solve(task: Task) -> str:
        messages: list[Any] = [{"role": "user", "content": task.prompt}]
        with anthropic.Anthropic(max_retries=0) as client:
            while True:
                reply = client.messages.create(model="claude-haiku-4-5", max_tokens=99, messages=messages, tools=tools)
                uses = [part for part in reply.content if part.type == "tool_use"]
                if not uses:
                    return str(getattr(reply.content[0], "text", ""))
                shown = [{"type": "tool_use", "id": use.id, "name": use.name, "input": use.input} for use in uses]
                results = [{"type": "tool_result", "tool_use_id": use.id, "content": "6"} for use in uses]
                messages += [{"role": "assistant", "content": shown}, {"role": "user", "content": results}]

    for trace in run(home, solve, server, 2):  # the package itself tells of each call, and the instrumentor again
        assert shape(trace) == PLAIN


NODES = [
    (0, "other", "LangGraph", ""),
    (1, "other", "answer", ""),
    (2, "model", "chat", ""),
    (2, "other", "tools_condition", ""),
    (1, "other", "tools", ""),
    (2, "tool", "price", ""),
    (1, "other", "answer", ""),
    (2, "model", "chat", ""),
    (2, "other", "tools_condition", ""),
]


@pytest.mark.parametrize("client_too", [False, True])
def test_langgraph(home: Home, serve: Any, instrument: Any, monkeypatch: pytest.MonkeyPatch, client_too: bool) -> None:
    server = serve(LOOK_UP, ANSWER)
    instrument("openinference.instrumentation.langchain", "LangChainInstrumentor")
    if client_too:  # the framework tells of a call, its client too, and the gateway sees it
        instrument("openinference.instrumentation.openai", "OpenAIInstrumentor")
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.delitem(sys.modules, "langgraph_agent", raising=False)
    agent = importlib.import_module("langgraph_agent")
    for trace in run(home, agent.solve, server, 2):
        assert shape(trace) == NODES
        tool = next(span for span in trace.spans if span.kind == "tool")
        assert trace.text(tool.arguments or "") == '{"item":"tea"}'


def test_openai_agents(home: Home, serve: Any, instrument: Any) -> None:
    import openai
    from agents import Agent, OpenAIResponsesModel, RunConfig, Runner, function_tool

    server = serve(HAND_OVER, LOOK_UP, ANSWER)
    instrument("openinference.instrumentation.openai_agents", "OpenAIAgentsInstrumentor")

    @function_tool
    def price(item: str) -> str:
        """The price of an item."""
        return "6"

    clerk = Agent(name="clerk", instructions="Look it up.", tools=[price])
    front = Agent(name="front", instructions="Hand over.", handoffs=[clerk])

    async def solve(task: Task) -> str:
        async with openai.AsyncOpenAI(max_retries=0) as client:
            config = RunConfig(model=OpenAIResponsesModel("gpt-4o-mini", client))
            return str((await Runner.run(front, task.prompt, run_config=config)).final_output)

    for trace in run(home, solve, server, 3):
        assert [(span.kind, span.name, span.agent) for span in trace.steps] == [
            ("model", "chat", "front"),
            ("handoff", "transfer_to_clerk", "front"),
            ("model", "chat", "clerk"),
            ("tool", "price", "clerk"),
            ("model", "chat", "clerk"),
        ]
        assert [name for _, kind, name, _ in shape(trace) if kind == "agent"] == ["Agent workflow", "front", "clerk"]


def test_pydantic_ai(home: Home, serve: Any) -> None:
    import openai
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    server = serve(LOOK_UP, ANSWER)
    agent = Agent(system_prompt="You sell tea.", name="seller")

    @agent.tool_plain
    def price(item: str) -> str:
        """The price of an item."""
        return "6"

    async def solve(task: Task) -> str:
        async with openai.AsyncOpenAI(max_retries=0) as client:
            model = OpenAIChatModel("gpt-4o-mini", provider=OpenAIProvider(openai_client=client))
            return str((await agent.run(task.prompt, model=model)).output)

    Agent.instrument_all()
    try:
        traces = run(home, solve, server, 2)
    finally:
        Agent.instrument_all(False)
    for trace in traces:
        assert shape(trace) == [
            (0, "agent", "invoke_agent seller", "seller"),
            (1, "model", "chat", "seller"),
            (1, "tool", "price", "seller"),
            (1, "model", "chat", "seller"),
        ]
