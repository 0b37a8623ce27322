"""Operators at the gateway, met by the real clients: what they see, what the upstream sees, what is recorded."""

from __future__ import annotations

import json
import time
from typing import Any

import anthropic
import openai
import pytest

from ethogram.perturbations.model import ModelFault, ModelOperator, model_operator
from ethogram.perturbations.tools import ToolPerturbation
from ethogram.traces import ToolResult
from ethogram.wire.gateway.faults import ModelFaults, ToolFaults

QUESTION: Any = [{"role": "user", "content": "weather in Paris?"}]


def client_of(joined: Any, retries: int = 0) -> openai.OpenAI:
    return openai.OpenAI(api_key="k", base_url=joined.variables()["OPENAI_BASE_URL"], max_retries=retries)


def test_an_error_that_clients_try_again_is_two_calls(upstream: Any, gateway: Any, record: Any, kept: Any) -> None:
    operator = model_operator("model_error")
    seed = next(s for s in range(100) if operator.hits(0, s, 0.5) and not operator.hits(1, s, 0.5))
    joined = gateway.join(record, policies=(ModelFaults(operator, seed, 0.5),))
    with client_of(joined, retries=1) as client:
        reply = client.chat.completions.create(model="gpt-4o", messages=QUESTION)
    joined.leave()
    assert reply.choices[0].message.content == "Paris is sunny."
    assert len(upstream.seen) == 1
    failed, answered = kept.models
    assert (failed.status, answered.status) == ("error", "ok")
    assert failed.attributes["note"].startswith("perturbed: HTTP 500")
    assert failed.attributes["status"] == 500


def test_an_error_that_clients_do_not_try_again(upstream: Any, gateway: Any, record: Any, kept: Any) -> None:
    joined = gateway.join(record, policies=(ModelFaults(model_operator("model_context_limit"), 1),))
    with (
        client_of(joined, retries=3) as client,
        pytest.raises(openai.BadRequestError, match="context window") as caught,
    ):
        client.chat.completions.create(model="gpt-4o", messages=QUESTION)
    assert caught.value.code == "context_length_exceeded"
    overloaded = gateway.join(record, policies=(ModelFaults(model_operator("model_overload"), 1),))
    base = overloaded.variables()["ANTHROPIC_BASE_URL"]
    with (
        anthropic.Anthropic(api_key="k", base_url=base, max_retries=0) as other,
        pytest.raises(anthropic.APIStatusError, match="Overloaded") as refused,
    ):
        other.messages.create(model="c", max_tokens=9, messages=QUESTION)
    assert (refused.value.status_code, refused.value.body["error"]["type"]) == (529, "overloaded_error")
    joined.leave()
    overloaded.leave()
    assert upstream.seen == []
    assert len(kept.models) == 2
    assert joined.refused is None


@pytest.mark.parametrize("stream", [False, True])
def test_a_reply_that_is_cut_is_an_error_of_the_connection(
    upstream: Any, gateway: Any, record: Any, kept: Any, bodies: Any, stream: bool
) -> None:
    if stream:
        upstream.answer = lambda handler, seen: handler.stream(bodies.chat_events())
    joined = gateway.join(record, policies=(ModelFaults(model_operator("model_cut"), 1),))
    with client_of(joined) as client, pytest.raises(openai.APIConnectionError):
        list(client.chat.completions.create(model="gpt-4o", messages=QUESTION, stream=stream))
    joined.leave()
    (span,) = kept.models
    assert span.status == "error"
    assert "cut after" in span.error


def test_a_limited_reply_is_limited_by_the_upstream(upstream: Any, gateway: Any, record: Any, kept: Any) -> None:
    joined = gateway.join(record, policies=(ModelFaults(model_operator("model_truncated"), 1),))
    with client_of(joined) as client:
        client.chat.completions.create(model="gpt-4o", messages=QUESTION, temperature=0)
    joined.leave()
    (seen,) = upstream.seen
    assert 4 <= seen.json["max_completion_tokens"] <= 24
    assert seen.json["temperature"] == 0


def test_a_late_reply(gateway: Any, record: Any) -> None:
    slow = ModelOperator("slow", "late", lambda rng: ModelFault(summary="late", delay_seconds=0.3))
    joined = gateway.join(record, policies=(ModelFaults(slow, 1),))
    with client_of(joined) as client:
        began = time.monotonic()
        client.chat.completions.create(model="gpt-4o", messages=QUESTION)
        assert time.monotonic() - began >= 0.3
    joined.leave()


def test_the_model_reads_another_result_in_every_request(upstream: Any, gateway: Any, record: Any, kept: Any) -> None:
    """An agent with a tool of its own: it keeps what the tool gave, and the upstream never sees it."""
    perturbation = ToolPerturbation("tool_timeout", 1)
    joined = gateway.join(record, policies=(ToolFaults(perturbation),))
    calls = [("c1", "weather", '{"city": "Paris"}')]
    messages = [*QUESTION]
    with client_of(joined) as client:
        for number in range(3):
            upstream.answer = _answer(calls if number == 0 else None)
            reply = client.chat.completions.create(model="gpt-4o", messages=messages).choices[0].message
            messages.append(reply)
            if reply.tool_calls:
                messages.append({"role": "tool", "tool_call_id": "c1", "content": "sunny, 21 degrees"})
            else:
                messages.append({"role": "user", "content": "And then?"})
    joined.leave()
    first, second, third = (seen.json["messages"] for seen in upstream.seen)
    assert len(first) == 1
    changed = "Error: weather did not answer within 30 s"
    assert [m["content"] for m in second if m["role"] == "tool"] == [changed]
    assert [m["content"] for m in third if m["role"] == "tool"] == [changed]
    (tool,) = kept.tools
    assert tool.result == "sunny, 21 degrees"
    read = [p.content for m in kept.models[1].input for p in m.parts if isinstance(p, ToolResult)]
    assert read == [changed]
    assert kept.models[1].attributes["note"] == "perturbed: tool_timeout in 1 result"
    assert [change.hit for change in perturbation.log] == [True]


def _answer(calls: Any) -> Any:
    function = [{"id": i, "type": "function", "function": {"name": n, "arguments": a}} for i, n, a in calls or ()]
    message = {"role": "assistant", "content": "Sunny.", **({"tool_calls": function} if function else {})}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if function else "stop"}
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "gpt-4o", "choices": [choice]}
    return lambda handler, seen: handler.whole(json.dumps(body).encode())
