"""The real clients through the gateway: they see what they would see without it, and the calls are recorded."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from typing import Any

import anthropic
import httpx
import openai
import pytest
import zstandard

QUESTION = [{"role": "user", "content": "weather in Paris?"}]


def same_headers(one: Any, other: Any) -> bool:
    def plain(seen: Any) -> list[tuple[str, str]]:
        return sorted((k.lower(), v) for k, v in seen.headers if k.lower() not in ("host", "connection"))

    return plain(one) == plain(other)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_openai_chat(
    upstream: Any, gateway: Any, record: Any, kept: Any, bodies: Any, stream: bool, asynchronous: bool
):
    def answer(handler: Any, seen: Any) -> None:
        handler.stream(bodies.chat_events()) if seen.json.get("stream") else handler.whole(bodies.chat())

    upstream.answer = answer
    joined = gateway.join(record, parent="s0")
    base = joined.variables()["OPENAI_BASE_URL"]

    async def ask(address: str) -> str:
        async with openai.AsyncOpenAI(api_key="k", base_url=address) as client:
            reply = await client.chat.completions.create(model="gpt-4o", messages=QUESTION, stream=stream)
            if not stream:
                return reply.choices[0].message.content
            return "".join([chunk.choices[0].delta.content or "" async for chunk in reply])

    def ask_at_once(address: str) -> str:
        with openai.OpenAI(api_key="k", base_url=address) as client:
            reply = client.chat.completions.create(model="gpt-4o", messages=QUESTION, stream=stream)
            if not stream:
                return reply.choices[0].message.content
            return "".join(chunk.choices[0].delta.content or "" for chunk in reply)

    texts = [asyncio.run(ask(a)) if asynchronous else ask_at_once(a) for a in (f"{upstream.address}/v1", base)]
    joined.leave()
    assert texts == ["Paris is sunny."] * 2
    direct, through = upstream.seen
    assert (direct.path, direct.body) == (through.path, through.body)
    assert same_headers(direct, through)
    (span,) = kept.models
    assert (span.model, span.parent_id, span.status) == ("gpt-4o", "s0", "ok")
    assert span.output[0].text == "Paris is sunny."
    assert span.input[0].text == "weather in Paris?"
    assert span.attributes["wire"] == "openai-chat"
    assert bool(span.attributes.get("usage_estimated")) is stream  # the client did not ask for usage, so none came
    assert span.input_tokens > 0
    assert span.output_tokens > 0
    assert span.cost_usd > 0


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("asynchronous", [False, True])
def test_anthropic(upstream: Any, gateway: Any, record: Any, kept: Any, bodies: Any, stream: bool, asynchronous: bool):
    def answer(handler: Any, seen: Any) -> None:
        handler.stream(bodies.anthropic_events()) if seen.json.get("stream") else handler.whole(bodies.anthropic())

    upstream.answer = answer
    joined = gateway.join(record)
    base = joined.variables()["ANTHROPIC_BASE_URL"]
    asked: dict[str, Any] = {"model": "claude-fake", "max_tokens": 50, "messages": QUESTION}

    async def ask(address: str) -> str:
        async with anthropic.AsyncAnthropic(api_key="k", base_url=address) as client:
            if not stream:
                return (await client.messages.create(**asked)).content[0].text
            async with client.messages.stream(**asked) as events:
                return "".join([text async for text in events.text_stream])

    def ask_at_once(address: str) -> str:
        with anthropic.Anthropic(api_key="k", base_url=address) as client:
            if not stream:
                return client.messages.create(**asked).content[0].text
            with client.messages.stream(**asked) as events:
                return "".join(events.text_stream)

    texts = [asyncio.run(ask(a)) if asynchronous else ask_at_once(a) for a in (upstream.address, base)]
    joined.leave()
    assert texts == ["Paris is sunny."] * 2
    direct, through = upstream.seen
    assert (direct.path, direct.body) == (through.path, through.body)
    assert same_headers(direct, through)
    (span,) = kept.models
    assert span.output[0].text == "Paris is sunny."
    assert (span.input_tokens, span.output_tokens) == (10, 6 if stream else 5)
    assert span.attributes["wire"] == "anthropic-messages"


CODINGS = {
    "identity": lambda data: data,
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "zstd": lambda data: zstandard.ZstdCompressor().compress(data),
}


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("stream", [False, True])
def test_bytes_are_equal(upstream: Any, gateway: Any, record: Any, kept: Any, bodies: Any, coding: str, stream: bool):
    """Status, headers and raw bytes of the reply are those of the upstream, compressed or not."""
    whole = CODINGS[coding](b"".join(bodies.chat_events(usage=True)) if stream else bodies.chat())
    cuts = [whole[i : i + 37] for i in range(0, len(whole), 37)]

    def answer(handler: Any, seen: Any) -> None:
        named = {"content_encoding": coding, "x_request_id": "r-1"}
        handler.stream(cuts, **named) if stream else handler.whole(whole, **named)

    upstream.answer = answer
    joined = gateway.join(record)
    body = b'{"model":"gpt-4o",  "messages":[{"role":"user","content":"hi \\u00e9"}]%s}' % (
        b',"stream":true' if stream else b""
    )
    replies = []
    for base in (f"{upstream.address}/v1", joined.variables()["OPENAI_BASE_URL"]):
        with httpx.stream("POST", f"{base}/chat/completions?x=%20y", content=body, timeout=20) as reply:
            hop = ("date", "server", "connection")
            headers = {k: v for k, v in reply.headers.items() if k not in hop}
            replies.append((reply.status_code, headers, b"".join(reply.iter_raw())))
    joined.leave()
    assert replies[0] == replies[1]
    assert replies[1][2] == whole
    assert upstream.seen[0].path == upstream.seen[1].path == "/v1/chat/completions?x=%20y"
    assert upstream.seen[0].body == upstream.seen[1].body == body
    assert kept.models[0].output[0].text == "Paris is sunny."
    assert kept.models[0].output_tokens == (3 if stream else 7)


def test_codings_that_cannot_be_read_are_not_asked_for(upstream: Any, gateway: Any, record: Any):
    joined = gateway.join(record)
    base = joined.variables()["OPENAI_BASE_URL"]
    asked = {"model": "m", "messages": QUESTION}
    for given, forwarded in [("br, gzip;q=0.5", "gzip;q=0.5"), ("br", "identity"), ("gzip, zstd", "gzip, zstd")]:
        httpx.post(f"{base}/chat/completions", json=asked, headers={"accept-encoding": given})
        assert dict(upstream.seen[-1].headers)["accept-encoding"] == forwarded


def test_a_call_belongs_to_the_episode_of_its_header(upstream: Any, gateway: Any, record: Any, kept: Any):
    """The header goes before the path, and never reaches the upstream."""
    joined = gateway.join(record)
    base = gateway.variables()["OPENAI_BASE_URL"]
    client = openai.OpenAI(api_key="k", base_url=base, default_headers={"x-ethogram-episode": joined.token})
    client.chat.completions.create(model="gpt-4o", messages=QUESTION)
    client.close()
    joined.leave()
    assert len(kept.models) == 1
    assert not [name for name, _ in upstream.seen[0].headers if name.startswith("x-ethogram")]


def test_sixty_four_episodes_are_kept_apart(upstream: Any, gateway: Any, bodies: Any):
    from ethogram.wire.recorder import Recorder

    upstream.answer = lambda handler, seen: handler.whole(bodies.chat(seen.json["messages"][0]["content"]))

    async def episode(number: int, client: openai.AsyncOpenAI) -> None:
        kept: list[Any] = []
        trace = type("Trace", (), {"add": staticmethod(kept.append)})
        joined = gateway.join(Recorder(trace))
        named = {"x-ethogram-episode": joined.token}
        for call in range(2):
            asked = [{"role": "user", "content": f"episode {number} call {call}"}]
            await client.chat.completions.create(model="gpt-4o", messages=asked, extra_headers=named)
        await asyncio.to_thread(joined.leave)
        assert [d.output[0].text for d in kept] == [f"episode {number} call {call}" for call in range(2)]

    async def all_of_them() -> None:
        async with openai.AsyncOpenAI(api_key="k", base_url=gateway.variables()["OPENAI_BASE_URL"]) as client:
            await asyncio.gather(*(episode(n, client) for n in range(64)))

    asyncio.run(all_of_them())


def test_over_a_unix_socket(upstream: Any, record: Any, kept: Any, tmp_path: Any):
    from ethogram.wire.gateway.gateway import Gateway
    from ethogram.wire.gateway.upstreams import upstreams_of

    path = tmp_path / "gateway.sock"
    gateway = Gateway(upstreams_of({}, {"openai": f"{upstream.address}/v1"}), uds=path)
    gateway.start()
    joined = gateway.join(record)
    with httpx.Client(transport=httpx.HTTPTransport(uds=str(path))) as client:
        address = f"http://any/{joined.token}/openai/v1/chat/completions"
        assert client.post(address, json={"model": "m", "messages": QUESTION}).status_code == 200
    gateway.close()
    assert len(kept.models) == 1
    assert not path.exists()
