"""Tool calls at the wire: asked for in one reply, answered in the next request, recorded once."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from ethogram.capture.asked_calls import REMEMBERED
from ethogram.traces import Message, ToolCall, ToolResult
from ethogram.wire.gateway.tool_results import AskedTools

ASKED: dict[str, Any] = {"model": "gpt-4o", "messages": [{"role": "user", "content": "weather in Paris?"}]}


def call(name: str, arguments: str, call_id: str | None) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def talk(base: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    reply = httpx.post(f"{base}/chat/completions", json={"model": "gpt-4o", "messages": messages})
    return reply.json()["choices"][0]["message"]


def wants(upstream: Any, bodies: Any, *calls: tuple[str | None, str, str]) -> None:
    upstream.answer = lambda handler, seen: handler.whole(bodies.chat("", calls=calls) if calls else bodies.chat())


def test_results_become_tool_spans(upstream: Any, gateway: Any, record: Any, kept: Any, bodies: Any):
    joined = gateway.join(record, parent="s0")
    base = joined.variables()["OPENAI_BASE_URL"]
    messages = [{"role": "user", "content": "weather in Paris and Rome?"}]
    wants(upstream, bodies, ("a", "weather", '{"city": "Paris"}'), ("b", "weather", '{"city": "Rome"}'))
    messages.append(talk(base, messages))
    messages += [
        {"role": "tool", "tool_call_id": "b", "content": "rain"},
        {"role": "tool", "tool_call_id": "a", "content": "sun"},
    ]
    wants(upstream, bodies)
    messages.append(talk(base, messages))
    messages.append({"role": "user", "content": "thanks"})
    talk(base, messages)  # sends the old results again
    joined.leave()
    assert [(d.name, d.arguments, d.result, d.parent_id) for d in kept.tools] == [
        ("weather", '{"city": "Rome"}', "rain", "s0"),
        ("weather", '{"city": "Paris"}', "sun", "s0"),
    ]
    first, second, _ = kept.models
    for tool in kept.tools:
        assert tool.attributes == {"seen": "wire"}
        assert tool.start_ns == first.end_ns
        assert second.start_ns - 50_000_000 <= tool.end_ns
        assert first.seq < tool.seq < second.seq
    assert [c.name for c in record.calls] == ["weather", "weather"]


@pytest.mark.parametrize(
    ("same", "shown"), [(True, "weather"), (False, "weather"), (True, "mcp__world__weather"), (True, "mcp__weather")]
)
def test_calls_that_were_recorded_already(
    upstream: Any, gateway: Any, record: Any, kept: Any, bodies: Any, same: bool, shown: str
):
    """A tool of the suite was called by the agent's own code: one span, not two, whatever models call it."""
    joined = gateway.join(record)
    base = joined.variables()["OPENAI_BASE_URL"]
    messages = [{"role": "user", "content": "weather in Paris?"}]
    wants(upstream, bodies, ("x", shown, '{"city":"Paris",  "days": 2}'))
    messages.append(talk(base, messages))
    record.tool("weather", lambda **arguments: "sun", days=2, city="Paris" if same else "Rome")
    messages.append({"role": "tool", "tool_call_id": "x", "content": "sun"})
    wants(upstream, bodies)
    talk(base, messages)
    joined.leave()
    assert len(kept.tools) == (1 if same and shown != "mcp__weather" else 2)


def test_ids_that_repeat(upstream: Any, gateway: Any, record: Any, kept: Any, bodies: Any):
    """Small servers number the calls of each reply from the start."""
    joined = gateway.join(record)
    base = joined.variables()["OPENAI_BASE_URL"]
    messages: list[dict[str, Any]] = [{"role": "user", "content": "weather?"}]
    for city in ("Paris", "Rome", "Paris"):
        wants(upstream, bodies, ("call_0", "weather", json.dumps({"city": city})))
        messages.append(talk(base, messages))
        messages.append({"role": "tool", "tool_call_id": "call_0", "content": f"sun in {city}"})
    wants(upstream, bodies)
    talk(base, messages)
    joined.leave()
    assert [d.result for d in kept.tools] == ["sun in Paris", "sun in Rome", "sun in Paris"]


def said(name: str, city: str, call_id: str | None) -> tuple[str | None, str, str]:
    return call_id, name, json.dumps({"city": city})


def result(words: str, call_id: str | None, **more: Any) -> dict[str, Any]:
    return {"role": "tool", "content": words, **({} if call_id is None else {"tool_call_id": call_id}), **more}


def by_city(kept: Any) -> list[tuple[str, str]]:
    return [(json.loads(d.arguments)["city"], d.result) for d in kept.tools]


@pytest.mark.parametrize("call_id", [None, "", "same"])
def test_parallel_calls_of_one_id(
    upstream: Any, gateway: Any, record: Any, kept: Any, bodies: Any, call_id: str | None
):
    """Small servers give the calls of one reply no ids, or all the same one."""
    joined = gateway.join(record)
    base = joined.variables()["OPENAI_BASE_URL"]
    messages: list[dict[str, Any]] = [{"role": "user", "content": "weather?"}]
    for day in ("today", "tomorrow"):
        wants(upstream, bodies, *(said("weather", f"{city} {day}", call_id) for city in ("Paris", "Rome", "Oslo")))
        messages.append(talk(base, messages))
        messages += [result(f"{sky} {day}", call_id) for sky in ("sun", "rain", "snow")]
    wants(upstream, bodies)
    talk(base, messages)
    joined.leave()
    assert by_city(kept) == [
        (f"{city} {day}", f"{sky} {day}")
        for day in ("today", "tomorrow")
        for city, sky in (("Paris", "sun"), ("Rome", "rain"), ("Oslo", "snow"))
    ]
    first, second, _ = kept.models
    assert [d.start_ns for d in kept.tools] == [first.end_ns] * 3 + [second.end_ns] * 3


@pytest.mark.parametrize("call_id", [None, "same"])
def test_results_out_of_order_that_name_their_tools(
    upstream: Any, gateway: Any, record: Any, kept: Any, bodies: Any, call_id: str | None
):
    """Without ids, the name of a tool tells; with one id for all, only the order does."""
    joined = gateway.join(record)
    base = joined.variables()["OPENAI_BASE_URL"]
    messages: list[dict[str, Any]] = [{"role": "user", "content": "weather and time?"}]
    wants(upstream, bodies, said("weather", "Paris", call_id), said("clock", "Rome", call_id))
    messages.append(talk(base, messages))
    messages += [result("noon", call_id, name="clock"), result("sun", call_id, name="weather")]
    wants(upstream, bodies)
    talk(base, messages)
    joined.leave()
    expected = [("Rome", "noon"), ("Paris", "sun")] if call_id is None else [("Paris", "noon"), ("Rome", "sun")]
    assert by_city(kept) == expected


@pytest.mark.parametrize("call_id", [None, "call_0"])
def test_a_result_that_is_missing_moves_no_other(
    upstream: Any, gateway: Any, record: Any, kept: Any, bodies: Any, call_id: str | None
):
    """The client drops a call that it did not carry out; the next reply uses the same id again."""
    joined = gateway.join(record)
    base = joined.variables()["OPENAI_BASE_URL"]
    messages: list[dict[str, Any]] = [{"role": "user", "content": "weather?"}]
    wants(upstream, bodies, said("weather", "Paris", call_id), said("weather", "Rome", "other"))
    messages.append(talk(base, messages))
    messages.append(result("rain", "other"))
    wants(upstream, bodies, said("weather", "Oslo", call_id), said("weather", "Bonn", call_id))
    messages.append(talk(base, messages))
    messages += [result("snow", call_id), result("fog", call_id)]
    wants(upstream, bodies)
    talk(base, messages)
    joined.leave()
    assert by_city(kept) == [("Rome", "rain"), ("Oslo", "snow"), ("Bonn", "fog")]


def test_a_result_that_comes_late(upstream: Any, gateway: Any, record: Any, kept: Any, bodies: Any):
    """A slow tool is answered behind the next message of calls."""
    joined = gateway.join(record)
    base = joined.variables()["OPENAI_BASE_URL"]
    messages: list[dict[str, Any]] = [{"role": "user", "content": "weather?"}]
    wants(upstream, bodies, said("weather", "Paris", "a"), said("weather", "Rome", "b"))
    messages.append(talk(base, messages))
    messages.append(result("sun", "a", name="weather"))
    wants(upstream, bodies, said("weather", "Oslo", "c"))
    messages.append(talk(base, messages))
    messages += [result("rain", "b", name="weather"), result("snow", "c", name="weather")]
    wants(upstream, bodies)
    talk(base, messages)
    joined.leave()
    assert by_city(kept) == [("Paris", "sun"), ("Rome", "rain"), ("Oslo", "snow")]


def test_ids_that_the_client_made_up(upstream: Any, gateway: Any, record: Any, kept: Any, bodies: Any):
    joined = gateway.join(record)
    base = joined.variables()["OPENAI_BASE_URL"]
    messages: list[dict[str, Any]] = [{"role": "user", "content": "weather?"}]
    wants(upstream, bodies, said("weather", "Paris", None), said("weather", "Rome", None))
    talk(base, messages)
    calls = [call("weather", '{"city":"Paris"}', "x1"), call("weather", '{"city":"Rome"}', "x2")]
    messages.append({"role": "assistant", "content": None, "tool_calls": calls})
    messages += [result("rain", "x2"), result("sun", "x1")]
    wants(upstream, bodies)
    talk(base, messages)
    joined.leave()
    assert by_city(kept) == [("Rome", "rain"), ("Paris", "sun")]


def test_one_of_two_calls_of_one_id_was_recorded_already(
    upstream: Any, gateway: Any, record: Any, kept: Any, bodies: Any
):
    joined = gateway.join(record)
    base = joined.variables()["OPENAI_BASE_URL"]
    messages: list[dict[str, Any]] = [{"role": "user", "content": "weather?"}]
    wants(upstream, bodies, said("weather", "Paris", "same"), said("weather", "Rome", "same"))
    messages.append(talk(base, messages))
    record.tool("weather", lambda city: "rain", city="Rome")
    messages += [result("sun", "same"), result("rain", "same")]
    wants(upstream, bodies)
    talk(base, messages)
    joined.leave()
    assert sorted(by_city(kept)) == [("Paris", "sun"), ("Rome", "rain")]


def test_calls_that_are_never_answered_are_forgotten(record: Any, kept: Any):
    asked = AskedTools(record)
    for n in range(REMEMBERED + 1):
        asked.add(Message("assistant", (ToolCall("look", "{}", f"c{n}"),)), n)
    for n in (0, 1, REMEMBERED):
        asked.seen([Message("tool", (ToolResult(str(n), None, f"c{n}"),))])
    assert [(d.call_id, d.start_ns) for d in kept.tools] == [("c1", 1), (f"c{REMEMBERED}", REMEMBERED)]


def test_results_that_no_model_asked_for(upstream: Any, gateway: Any, record: Any, kept: Any, bodies: Any):
    """Examples in a prompt look like calls, but nobody made them."""
    joined = gateway.join(record)
    shown = [
        {"role": "assistant", "content": None, "tool_calls": [call("weather", "{}", "a")]},
        {"role": "tool", "tool_call_id": "a", "content": "sun"},
        {"role": "user", "content": "and now?"},
    ]
    talk(joined.variables()["OPENAI_BASE_URL"], shown)
    joined.leave()
    assert not kept.tools
