"""Caps and the kill switch at the wire: checked before a call is forwarded, told to the client and to the harness."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import anthropic
import httpx
import openai
import pytest

from ethogram.prices import Budget, Caps, Unmetered
from ethogram.wire.recorder import Recorder

ASKED: dict[str, Any] = {"model": "gpt-4o", "messages": [{"role": "user", "content": "weather in Paris?"}]}
LIMITED = {**ASKED, "max_tokens": 10}
TOKENS = 18
"""What a reply of the upstream says that it used."""
MOST = 200
"""More than a call with this limit can use by its bytes."""


def test_a_cap_refuses_before_forwarding(upstream: Any, gateway: Any, kept: Any):
    cap = MOST + TOKENS
    budget = Budget("episode", Caps(tokens=cap))
    joined = gateway.join(Recorder(kept, budget))
    with openai.OpenAI(api_key="k", base_url=joined.variables()["OPENAI_BASE_URL"]) as client:
        for _ in range(2):
            client.chat.completions.create(**LIMITED)
        with pytest.raises(openai.PermissionDeniedError, match=f"cap of {cap} tokens") as refused:
            client.chat.completions.create(**ASKED)
    assert refused.value.response.headers["x-should-retry"] == "false"
    assert refused.value.body["type"] == "ethogram_cap_reached"
    with anthropic.Anthropic(api_key="k", base_url=joined.variables()["ANTHROPIC_BASE_URL"]) as other:
        with pytest.raises(anthropic.PermissionDeniedError, match=f"cap of {cap} tokens"):
            other.messages.create(model="m", max_tokens=500, messages=ASKED["messages"])
    joined.leave()
    assert len(upstream.seen) == 2  # the refused calls reached nobody, and were not tried again
    assert [d.status for d in kept.models] == ["ok", "ok", "error", "error"], "each is a step all the same"
    assert (joined.refused.kind, joined.refused.cap.resource) == ("ethogram_cap_reached", "tokens")
    assert budget.used.tokens == 2 * TOKENS
    assert (budget.reserved.tokens, budget.reserved.steps) == (0, 0)


def test_steps_count_before_the_call(upstream: Any, gateway: Any, kept: Any):
    joined = gateway.join(Recorder(kept, Budget("episode", Caps(steps=1))))
    base = joined.variables()["OPENAI_BASE_URL"]
    statuses = [httpx.post(f"{base}/chat/completions", json=ASKED).status_code for _ in range(3)]
    joined.leave()
    assert statuses == [200, 403, 403]
    assert joined.refused.cap.resource == "steps"


def test_estimated_tokens_count(upstream: Any, gateway: Any, kept: Any, bodies: Any):
    upstream.answer = lambda handler, seen: handler.stream(bodies.chat_events())
    budget = Budget("episode", Caps(tokens=MOST))
    joined = gateway.join(Recorder(kept, budget))
    base = joined.variables()["OPENAI_BASE_URL"]
    asked = {**LIMITED, "stream": True}
    statuses = [httpx.post(f"{base}/chat/completions", json=asked).status_code for _ in range(2)]
    joined.leave()
    assert statuses == [200, 403]
    assert MOST / 2 < budget.used.tokens <= MOST, "all that was reserved: nobody knows what was used"


def test_a_model_without_a_price_under_a_cap_in_dollars(upstream: Any, gateway: Any, kept: Any, bodies: Any):
    upstream.answer = lambda handler, seen: handler.whole(bodies.chat(model="nobody-knows-it"))
    joined = gateway.join(Recorder(kept, Budget("experiment", Caps(usd=1.0))))
    base = joined.variables()["OPENAI_BASE_URL"]
    httpx.post(f"{base}/chat/completions", json=ASKED)
    joined.leave()
    assert isinstance(joined.refused.cap, Unmetered)
    assert "nobody-knows-it" in joined.refused.message


def test_calls_that_are_not_read_under_a_cap(upstream: Any, gateway: Any, kept: Any):
    joined = gateway.join(Recorder(kept, Budget("experiment", Caps(tokens=10))))
    base = joined.variables()["OPENAI_BASE_URL"]
    httpx.get(f"{base}/models")
    assert joined.refused is None
    httpx.post(f"{base}/embeddings", json={"input": "x"})
    joined.leave()
    assert isinstance(joined.refused.cap, Unmetered)


def test_the_kill_switch_answers(upstream: Any, gateway: Any, kept: Any):
    pulled = threading.Event()
    joined = gateway.join(Recorder(kept), stop=pulled.is_set)
    base = joined.variables()["OPENAI_BASE_URL"]
    assert httpx.post(f"{base}/chat/completions", json=ASKED).status_code == 200
    pulled.set()
    refused = httpx.post(f"{base}/chat/completions", json=ASKED)
    assert refused.status_code == httpx.post(f"{base}/embeddings", json={}).status_code == 403
    assert refused.json()["error"]["type"] == "ethogram_killed"
    joined.leave()
    assert joined.refused.kind == "ethogram_killed"
    assert len(upstream.seen) == 1


@pytest.mark.parametrize("how", ["cap", "kill"])
def test_a_hundred_agents_at_once(upstream: Any, gateway: Any, bodies: Any, how: str):
    """Nothing is spent beyond the cap; after the switch was pulled, at most one call of each agent."""
    agents, allowed = 100, 50
    cap = Caps(tokens=allowed * TOKENS + MOST) if how == "cap" else Caps()
    experiment = Budget("experiment", cap)
    lock, pulled = threading.Lock(), threading.Event()
    answered = 0

    def answer(handler: Any, seen: Any) -> None:
        nonlocal answered
        with lock:
            answered += 1
            if how == "kill" and answered == allowed:
                pulled.set()
        handler.whole(bodies.chat())

    upstream.answer = answer

    async def agent(client: httpx.AsyncClient) -> str:
        trace = type("Trace", (), {"add": staticmethod(lambda draft: None)})
        joined = gateway.join(Recorder(trace, Budget("episode", Caps(), experiment)), stop=pulled.is_set)
        address = f"{joined.variables()['OPENAI_BASE_URL']}/chat/completions"
        for _ in range(20):
            if (await client.post(address, json=LIMITED)).status_code == 403:
                break
        await asyncio.to_thread(joined.leave)
        return joined.refused.kind

    async def all_of_them() -> list[str]:
        async with httpx.AsyncClient(timeout=60, limits=httpx.Limits(max_connections=None)) as client:
            return await asyncio.gather(*(agent(client) for _ in range(agents)))

    kinds = asyncio.run(all_of_them())
    assert set(kinds) == {"ethogram_cap_reached" if how == "cap" else "ethogram_killed"}
    assert allowed <= answered <= (allowed + MOST / TOKENS if how == "cap" else allowed + agents)
    assert experiment.used.tokens == answered * TOKENS
    assert (experiment.reserved.tokens, experiment.reserved.steps) == (0, 0)
