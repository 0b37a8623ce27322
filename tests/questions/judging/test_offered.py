"""Tools that were not offered: what a trace must hold before a call of one is a mistake."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.draft import Draft
from ethogram.capture.intake import Intake, SourceReport
from ethogram.capture.memory import MemorySink
from ethogram.findings.facts import offered_tools
from ethogram.findings.findings import findings
from ethogram.findings.rubric import STANDARD
from ethogram.findings.step_words import TraceWords
from ethogram.questions.judging.judges import Case
from ethogram.questions.judging.rulejudge import RuleJudge
from ethogram.questions.why.question import why
from ethogram.store import Home, open_home
from ethogram.store.redact import policy_from
from ethogram.traces import SUCCESS_AT, Message, Origin, Scored, Text, ToolCall, Trace
from ethogram.wire.gateway.call import ModelReply, ModelRequest
from ethogram.wire.gateway.gateway import Gateway
from ethogram.wire.gateway.upstreams import upstreams_of
from ethogram.wire.recorder import Recorder
from ethogram.worlds.model_server import ModelServer, serve_model, text_reply, tool_reply

LOOK = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
WIRE = {"wire": "openai-chat"}


def trace_of(*asked: tuple[str | None, dict[str, Any]], **params: Any) -> Trace:
    """One model call per pair: the tool that it asks for and that is called, and the attributes of its request."""
    done: list[Trace] = []
    with Intake(lambda t: MemorySink(done), Origin("run"), SourceReport(source="live")).trace("one") as trace:
        for tool, attributes in asked:
            said = Text("done") if tool is None else ToolCall(tool, "{}")
            output = (Message("assistant", (said,)),)
            trace.add(Draft(kind="model", name="chat", output=output, attributes=attributes, params=params))
            if tool is not None:
                trace.add(Draft(kind="tool", name=tool, tool=tool, arguments="{}", result="fine"))
    return done[0]


def blamed(trace: Trace) -> list[str]:
    return [f.name for f in findings(TraceWords(trace), SUCCESS_AT) if f.cls == "wrong_tool"]


@pytest.mark.parametrize(
    "tool",
    [
        LOOK,
        {"type": "function", "name": "look", "parameters": {}},
        {"name": "look", "input_schema": {}},
        {"type": "custom", "custom": {"name": "look"}},
        {"type": "custom", "name": "look"},
    ],
)
def test_every_protocol_names_its_tools(tool: dict[str, Any]) -> None:
    asked = {**WIRE, "tools": [tool]}
    trace = trace_of(("look", asked), ("book", asked), (None, WIRE))
    assert offered_tools(trace) == {"look"}
    assert blamed(trace) == ["wrong_tool:book"]


@pytest.mark.parametrize(
    "asked",
    [
        [("book", {}), (None, {})],  # no request was kept
        [("look", {**WIRE, "tools": [LOOK]}), ("book", {})],  # only some were
        [("look", {**WIRE, "tools": [LOOK]}), ("book", WIRE)],  # this one offered its tools in another way
        [("book", {"note": "a log of something else"})],
        [("book", {**WIRE, "tools": [LOOK, {"type": "mcp", "server_label": "shop"}]})],
        [("book", {**WIRE, "tools": "look"})],
        [("book", {**WIRE, "tools": [{"name": "[REDACTED:email:01234567]"}]})],
        [(None, WIRE)],
    ],
)
def test_where_not_every_tool_is_known_nobody_is_blamed(asked: list[tuple[str | None, dict[str, Any]]]) -> None:
    trace = trace_of(*asked)
    assert offered_tools(trace) == frozenset()
    assert blamed(trace) == []


def test_parameters_may_offer_more() -> None:
    trace = trace_of(("book", {**WIRE, "tools": [LOOK]}), mcp_servers='[{"name": "shop"}]')
    assert offered_tools(trace) == frozenset()


def test_tools_that_the_agents_own_code_calls_are_no_choice_of_the_model() -> None:
    done: list[Trace] = []
    with Intake(lambda t: MemorySink(done), Origin("run"), SourceReport(source="live")).trace("one") as trace:
        output = (Message("assistant", (ToolCall("look", "{}"),)),)
        trace.add(Draft(kind="model", name="chat", output=output, attributes={**WIRE, "tools": [LOOK]}))
        trace.add(Draft(kind="tool", name="look", tool="look", arguments="{}", result="fine"))
        trace.add(Draft(kind="tool", name="fetch", tool="fetch", arguments="{}", result="fine"))
    assert offered_tools(done[0]) == {"look"}
    assert blamed(done[0]) == []


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """A model that asks for `book` where the task is hard, and for `look` elsewhere."""

    def reply(request: ModelRequest) -> ModelReply:
        if request.messages[-1].role == "tool":
            return text_reply("done")
        hard = "hard" in request.messages[0].text
        return tool_reply(("book" if hard else "look", {}))

    with serve_model(reply) as running:
        yield running


def attempt(builder: TraceBuilder, gateway: Gateway, words: str) -> None:
    """An agent that answers every call of a tool, whatever its name."""
    joined = gateway.join(Recorder(builder))
    messages: list[dict[str, Any]] = [{"role": "user", "content": words}]
    while messages[-1]["role"] != "assistant" or messages[-1].get("tool_calls"):
        url = f"{joined.variables()['OPENAI_BASE_URL']}/chat/completions"
        body = {"model": "m", "messages": messages, "tools": [LOOK]}
        messages.append(httpx.post(url, json=body).json()["choices"][0]["message"])
        for call in messages[-1].get("tool_calls") or ():
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps("fine")})
    joined.leave()


def test_what_the_gateway_records_tells_why_and_the_rule_judge(server: ModelServer, home: Home) -> None:
    gateway = Gateway(upstreams_of({}, {"openai": server.variables()["OPENAI_BASE_URL"]}))
    gateway.start()
    run = home.create("night", "run", redaction="default")
    try:
        with run.writer(home.redactor(policy_from("default"))) as writer:
            intake = Intake(lambda t: writer.trace(t, None), Origin("run"), SourceReport(source="live"))
            for number in range(12):
                with intake.trace(f"{number}") as builder:
                    builder.task, builder.attempt = f"t{number // 2}", number % 2
                    attempt(builder, gateway, "an easy task" if number % 2 else "a hard task")
                    builder.outcome = Scored(float(number % 2), "test")
    finally:
        gateway.close()
    told = why("night", home=home)
    assert "wrong_tool:book" in {name for cause in (*told.causes, *told.leads) for name in (cause.cause, *cause.also)}
    for entry in home.resolve("night").entries:
        trace = home.resolve("night").trace(entry)
        assert offered_tools(trace) == {"look"}
        (verdict,) = RuleJudge().judge(Case(trace, SUCCESS_AT, None), STANDARD).of("tool_choice")
        assert verdict.value is (entry.head.attempt == 1)
        assert verdict.value or "the tool 'book' was not offered" in verdict.why


@pytest.fixture
def home(tmp_path: Any) -> Home:
    return open_home(str(tmp_path / "home"))
