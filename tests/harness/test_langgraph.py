"""`from_langgraph`: a compiled graph as an agent; its nodes, tools and retrievals are in the trace, uninstrumented."""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langchain_core.documents import Document
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.retrievers import BaseRetriever
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph

import ethogram as eth
from ethogram.errors import BadUsage
from ethogram.harness.run_result import RunResult
from ethogram.harness.suites import run as run_suite
from ethogram.plans import Suite, Task
from ethogram.store import Home
from ethogram.traces import Trace
from ethogram.wire.gateway.call import Usage
from ethogram.worlds.model_server import ModelServer, in_turn, serve_model, text_reply, tool_reply

EXAMPLES = Path(__file__).parents[2] / "examples" / "agents"
TASK = Task(id="tea", prompt="How much is the tea?")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    answer = text_reply("it costs 6", usage=Usage(input_tokens=1000, output_tokens=100))
    with serve_model(in_turn(tool_reply(("price", {"item": "tea"})), answer)) as running:
        for name, value in running.variables().items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture
def app(monkeypatch: pytest.MonkeyPatch, server: ModelServer) -> Any:
    monkeypatch.syspath_prepend(EXAMPLES)
    monkeypatch.delitem(sys.modules, "langgraph_agent", raising=False)
    return importlib.import_module("langgraph_agent").app


def run(home: Home, agent: Any, k: int = 1, **options: Any) -> tuple[RunResult, list[Trace]]:
    result = run_suite(Suite(name="s", tasks=(TASK,)), agent, home=home, run="a", k=k, **options)
    stored = home.run("a")
    assert result.crash is None
    return result, [stored.trace(entry) for entry in stored.entries]


def shape(trace: Trace) -> list[tuple[int, str, str, str]]:
    return [(depth, span.kind, span.name, span.agent) for depth, span in trace.walk()]


NODES = [
    (0, "agent", "LangGraph", "LangGraph"),
    (1, "other", "answer", "LangGraph"),
    (2, "model", "chat", "LangGraph"),
    (1, "other", "tools", "LangGraph"),
    (2, "tool", "price", "LangGraph"),
    (1, "other", "answer", "LangGraph"),
    (2, "model", "chat", "LangGraph"),
]


def test_nodes_tools_and_captured_calls_are_a_tree(home: Home, server: ModelServer, app: Any) -> None:
    result, traces = run(home, eth.from_langgraph(app, config={"recursion_limit": 10}), k=3, workers=3)
    assert (result.model_calls, len(server.calls)) == (6, 6)
    assert result.cost_usd is not None
    for trace in traces:
        assert shape(trace) == NODES
        assert trace.answer == "it costs 6"
        tool = next(span for span in trace.spans if span.kind == "tool")
        assert (trace.text(tool.arguments or ""), trace.text(tool.result or "")) == ('{"item":"tea"}', "6")


def test_without_capture_the_callbacks_tell_the_calls_too(home: Home, server: ModelServer, app: Any) -> None:
    result, (trace,) = run(home, eth.from_langgraph(app), capture="off")
    assert shape(trace) == NODES
    assert (result.model_calls, result.at_least_tokens > 1100) == (2, True)
    last = trace.steps[-1]
    assert (last.input_tokens, last.output_tokens, last.model) == (1000, 100, "gpt-4o-mini")
    assert [message.role for message in trace.conversation(last)] == ["system", "user", "assistant", "tool"]


class Shelf(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return [Document(f"about {query}")]


class Question(TypedDict):
    question: str


def test_retrievals_models_of_any_kind_and_errors(home: Home) -> None:
    words = iter([AIMessage("six", usage_metadata={"input_tokens": 7, "output_tokens": 1, "total_tokens": 8})] * 9)
    model = GenericFakeChatModel(messages=words)

    def look(state: Question) -> Question:
        (found,) = Shelf().invoke(state["question"])
        return {"question": f"{model.invoke(found.page_content).content}"}

    def fail(state: Question) -> Question:
        raise ValueError("closed")

    graph = StateGraph(Question)
    graph.add_node("look", look)
    graph.add_edge(START, "look")
    _, (trace,) = run(home, eth.from_langgraph(graph.compile(name="shop")))
    assert [row[:3] for row in shape(trace)] == [
        (0, "agent", "shop"),
        (1, "other", "look"),
        (2, "retrieval", "Shelf"),
        (2, "model", "chat"),
    ]
    assert trace.answer == "six"
    found = next(span for span in trace.spans if span.kind == "retrieval")
    assert trace.text(found.result or "") == '["about How much is the tea?"]'

    graph.add_node("fail", fail)
    graph.add_edge("look", "fail")
    run_suite(Suite(name="s", tasks=(TASK,)), eth.from_langgraph(graph.compile()), home=home, run="b")
    stored = home.run("b")
    broken = stored.trace(stored.entries[0])
    failed = [span.name for span in broken.spans if span.status == "error"]
    assert failed == ["LangGraph", "fail"]
    assert broken.head.meta["crash"] == "ValueError: closed"


def test_a_graph_that_remembers_begins_anew_in_every_episode(home: Home) -> None:
    graph = StateGraph(MessagesState)
    graph.add_node("count", lambda state: {"messages": [AIMessage(str(len(state["messages"])))]})
    graph.add_edge(START, "count")
    _, traces = run(home, eth.from_langgraph(graph.compile(checkpointer=InMemorySaver())), k=3)
    assert [trace.answer for trace in traces] == ["1", "1", "1"]


def test_outside_of_an_episode_it_is_the_graph() -> None:
    graph = StateGraph(Question)
    graph.add_node("ask", lambda state: {"question": state["question"] + "!"})
    graph.add_edge(START, "ask")
    assert asyncio.run(eth.from_langgraph(graph.compile())(TASK)) == "How much is the tea?!"
    asked = eth.from_langgraph(
        graph.compile(), ask=lambda task: {"question": task.id}, answer=lambda state: state["question"].upper()
    )
    assert asyncio.run(asked(TASK)) == "TEA!"


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(BadUsage, match=r"not a StateGraph; compile it first: graph.compile\(\)"):
        eth.from_langgraph(StateGraph(Question))
    with pytest.raises(BadUsage, match="takes a compiled graph, not a int"):
        eth.from_langgraph(3)

    class Two(TypedDict):
        a: str
        b: str

    graph = StateGraph(Two)
    graph.add_node("x", lambda state: {"a": "x"})
    graph.add_edge(START, "x")
    with pytest.raises(BadUsage, match="the graph takes a, b; say what it gets of a task"):
        eth.from_langgraph(graph.compile())
