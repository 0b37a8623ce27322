"""Tool calls at the wire: asked for in one reply, answered in the next request, recorded once."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

ASKED: dict[str, Any] = {"model": "gpt-4o", "messages": [{"role": "user", "content": "weather in Paris?"}]}


def call(name: str, arguments: str, call_id: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def talk(base: str, messages: list[dict[str, Any]]) -> dict[str, Any]:
    reply = httpx.post(f"{base}/chat/completions", json={"model": "gpt-4o", "messages": messages})
    return reply.json()["choices"][0]["message"]


def wants(upstream: Any, bodies: Any, *calls: tuple[str, str, str]) -> None:
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
