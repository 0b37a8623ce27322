"""A cap is a promise: what the upstream is paid for is at most the cap, whatever agents and providers do."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from ethogram.prices import Budget, Caps
from ethogram.wire.recorder import Recorder

MESSAGES = [{"role": "user", "content": "weather in Paris?"}]
LIMIT = 1000
ASKED: dict[str, Any] = {"model": "gpt-4o", "messages": MESSAGES, "max_tokens": LIMIT}
COST = (60 * 2.5 + LIMIT * 10) / 1e6
"""Dollars of one call that uses all that it may."""


class Paid:
    """What an upstream bills: every request that reaches it, with as long an answer as was allowed."""

    def __init__(self, bodies: Any, usage: Callable[[dict[str, Any]], Any] = lambda usage: usage) -> None:
        self.usd, self.calls = 0.0, 0
        self.open, self.most_open = 0, 0
        self.release = threading.Event()
        self.release.set()
        self._lock = threading.Lock()
        self._bodies, self._usage = bodies, usage

    def __call__(self, handler: Any, seen: Any) -> None:
        with self._lock:
            self.calls += 1
            self.usd += COST
            self.open += 1
            self.most_open = max(self.most_open, self.open)
        self.release.wait(10)
        with self._lock:
            self.open -= 1
        document = json.loads(self._bodies.chat())
        document["usage"] = self._usage({"prompt_tokens": 60, "completion_tokens": LIMIT, "total_tokens": 60 + LIMIT})
        handler.whole(json.dumps(document).encode())


def asked_at_once(address: str, count: int, body: dict[str, Any] = ASKED) -> list[int]:
    async def every() -> list[int]:
        async with httpx.AsyncClient(timeout=60, limits=httpx.Limits(max_connections=None)) as client:
            replies = await asyncio.gather(*(client.post(address, json=body) for _ in range(count)))
        return [reply.status_code for reply in replies]

    return asyncio.run(every())


def chat(joined: Any) -> str:
    return f"{joined.variables()['OPENAI_BASE_URL']}/chat/completions"


@pytest.mark.parametrize("callers", [40, 200])
def test_one_agent_with_many_calls_at_once_spends_at_most_the_cap(
    upstream: Any, gateway: Any, kept: Any, bodies: Any, callers: int
) -> None:
    paid = upstream.answer = Paid(bodies)
    budget = Budget("experiment", Caps(usd=0.2))
    joined = gateway.join(Recorder(kept, budget))
    statuses = asked_at_once(chat(joined), callers)
    joined.leave()
    assert set(statuses) == {200, 403}
    assert paid.usd <= 0.2, f"${paid.usd:.2f} of $0.20"
    assert paid.usd > 0.2 - 2 * COST, "what fits is let through"
    assert budget.reserved.usd == pytest.approx(0, abs=1e-12)
    assert joined.refused.cap.resource == "usd"


def test_what_does_not_fit_is_told_with_what_would(upstream: Any, gateway: Any, kept: Any, bodies: Any) -> None:
    paid = upstream.answer = Paid(bodies)
    joined = gateway.join(Recorder(kept, Budget("experiment", Caps(usd=0.005))))
    refused = httpx.post(chat(joined), json=ASKED)
    assert (refused.status_code, paid.calls) == (403, 0)
    told = refused.json()["error"]["message"]
    assert "the experiment's cap of 0.005 usd" in told
    assert "0.005 is left" in told
    fits = int(told.partition("set max_tokens to ")[2].partition(" ")[0])
    assert 0 < fits < 500
    assert httpx.post(chat(joined), json={**ASKED, "max_tokens": fits}).status_code == 200
    joined.leave()


@pytest.mark.parametrize(
    "usage",
    [
        lambda usage: {**usage, "prompt_tokens": -5_000_000, "completion_tokens": -900_000},
        lambda usage: {**usage, "completion_tokens": None},
        lambda usage: None,
    ],
    ids=["negative", "null", "none"],
)
def test_usage_that_cannot_be_or_is_not_told_keeps_what_was_reserved(
    upstream: Any, gateway: Any, kept: Any, bodies: Any, usage: Any
) -> None:
    paid = upstream.answer = Paid(bodies, usage)
    joined = gateway.join(Recorder(kept, Budget("experiment", Caps(usd=0.1))))
    statuses = [httpx.post(chat(joined), json=ASKED).status_code for _ in range(15)]
    joined.leave()
    assert statuses[0] == 200
    assert statuses[-1] == 403
    assert paid.usd <= 0.1, f"${paid.usd:.3f} of $0.10"
    assert all(d.attributes["usage_estimated"] for d in kept.models if d.status == "ok")
    assert all((d.input_tokens or 0) >= 0 for d in kept.models)


def test_a_client_that_hangs_up_and_calls_again_pays_for_both(
    upstream: Any, gateway: Any, kept: Any, bodies: Any, eventually: Any
) -> None:
    paid = upstream.answer = Paid(bodies)
    paid.release.clear()
    joined = gateway.join(Recorder(kept, Budget("experiment", Caps(usd=10 * COST))))
    port = int(chat(joined).split(":")[2].partition("/")[0])
    path = "/" + chat(joined).partition("//")[2].partition("/")[2]
    body = json.dumps(ASKED).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    for number in range(30):
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(head.encode() + body)
            eventually(lambda number=number: paid.calls > number or joined.refused is not None)
        eventually(lambda: not joined.in_flight)
    joined.leave()
    paid.release.set()
    assert joined.refused is not None
    assert paid.usd <= 10 * COST, f"{paid.calls} calls of 10"
    assert paid.calls >= 9


def test_a_call_waits_for_open_ones_that_may_give_back_what_it_needs(
    upstream: Any, gateway: Any, kept: Any, bodies: Any, eventually: Any
) -> None:
    paid = upstream.answer = Paid(bodies, lambda usage: {"prompt_tokens": 1, "completion_tokens": 1})
    paid.release.clear()
    budget = Budget("experiment", Caps(usd=2.5 * COST))
    joined = gateway.join(Recorder(kept, budget))
    address, statuses = chat(joined), []
    asking = threading.Thread(target=lambda: statuses.extend(asked_at_once(address, 6)), daemon=True)
    asking.start()
    eventually(lambda: paid.open == 2 and len(joined.in_flight) == 6)
    paid.release.set()
    asking.join(30)
    joined.leave()
    assert statuses == [200] * 6, "each used a little of what it might have"
    assert paid.most_open == 2


def test_several_answers_count_each(upstream: Any, gateway: Any, kept: Any, bodies: Any) -> None:
    upstream.answer = Paid(bodies)
    joined = gateway.join(Recorder(kept, Budget("experiment", Caps(tokens=4 * LIMIT))))
    assert httpx.post(chat(joined), json={**ASKED, "n": 5}).status_code == 403
    assert httpx.post(chat(joined), json={**ASKED, "max_tokens": -1}).status_code == 403, "no limit of its own"
    assert httpx.post(chat(joined), json={**ASKED, "n": 3}).status_code == 200
    joined.leave()


def test_a_picture_counts_by_its_providers_rule_and_not_by_its_bytes(
    upstream: Any, gateway: Any, kept: Any, bodies: Any
) -> None:
    upstream.answer = Paid(bodies)
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 400_000}}
    joined = gateway.join(Recorder(kept, Budget("episode", Caps(tokens=150_000))))
    messages = [{"role": "user", "content": [{"type": "text", "text": "?"}, picture]}]
    assert httpx.post(chat(joined), json={**ASKED, "messages": messages}).status_code == 200
    joined.leave()


def anthropic_body(bodies: Any, **usage: Any) -> bytes:
    document = json.loads(bodies.anthropic())
    document["model"] = "claude-sonnet-4-5"
    document["usage"] = {"input_tokens": 100, "output_tokens": 100, **usage}
    return json.dumps(document).encode()


def test_what_is_cached_for_an_hour_costs_twice_the_fresh_price(
    upstream: Any, gateway: Any, kept: Any, record: Recorder, bodies: Any
) -> None:
    written = {
        "cache_creation_input_tokens": 5000,
        "cache_creation": {"ephemeral_5m_input_tokens": 1000, "ephemeral_1h_input_tokens": 4000},
    }
    upstream.answer = lambda handler, seen: handler.whole(anthropic_body(bodies, **written))
    joined = gateway.join(record)
    asked = {"model": "claude-sonnet-4-5", "max_tokens": 100, "messages": MESSAGES}
    httpx.post(f"{joined.variables()['ANTHROPIC_BASE_URL']}/v1/messages", json=asked)
    joined.leave()
    (call,) = kept.models
    fresh, minutes, hour, output = 100 * 3, 1000 * 3 * 1.25, 4000 * 3 * 2, 100 * 15
    assert call.cost_usd == pytest.approx((fresh + minutes + hour + output) / 1e6)


@pytest.mark.parametrize(("tier", "factor"), [("flex", 0.5), ("default", 1.0), ("priority", 2.0)])
@pytest.mark.parametrize("stream", [False, True])
def test_a_service_tier_has_its_rates(
    upstream: Any, gateway: Any, kept: Any, record: Recorder, bodies: Any, tier: str, factor: float, stream: bool
) -> None:
    def answer(handler: Any, seen: Any) -> None:
        if stream:
            events = [
                e.replace(b'"gpt-4o"', b'"gpt-5", "service_tier": "%s"' % tier.encode())
                for e in bodies.chat_events(usage=True)
            ]
            handler.stream(events)
            return
        handler.whole(json.dumps({**json.loads(bodies.chat(model="gpt-5")), "service_tier": tier}).encode())

    upstream.answer = answer
    joined = gateway.join(record)
    httpx.post(chat(joined), json={**ASKED, "model": "gpt-5", "service_tier": "auto", "stream": stream})
    joined.leave()
    (call,) = kept.models
    tokens_in, tokens_out = (9, 3) if stream else (11, 7)
    assert call.cost_usd == pytest.approx(factor * (tokens_in * 1.25 + tokens_out * 10) / 1e6)
