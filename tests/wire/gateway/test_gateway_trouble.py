"""What goes wrong on the way: passed on as it is, recorded as far as it came, and the gateway keeps serving."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import tracemalloc
from typing import Any

import httpx
import openai
import pytest

from ethogram.traces import Message, Text
from ethogram.wire.gateway.call import Forward, ModelReply, Refuse, RequestEdits, Serve
from ethogram.wire.gateway.gateway import Gateway
from ethogram.wire.gateway.upstreams import upstreams_of
from ethogram.wire.recorder import Recorder

ASKED = {"model": "gpt-4o", "messages": [{"role": "user", "content": "weather in Paris?"}]}


def still_serves(joined: Any, upstream: Any, bodies: Any) -> bool:
    upstream.answer = lambda handler, seen: handler.whole(bodies.chat())
    reply = httpx.post(f"{joined.variables()['OPENAI_BASE_URL']}/chat/completions", json=ASKED)
    return reply.status_code == 200


def test_errors_of_the_upstream(upstream: Any, gateway: Any, record: Any, kept: Any):
    error = b'{"error": {"message": "slow down", "type": "rate_limit", "code": null}}'
    upstream.answer = lambda handler, seen: handler.whole(error, 429, retry_after="7")
    joined = gateway.join(record)
    reply = httpx.post(f"{joined.variables()['OPENAI_BASE_URL']}/chat/completions", json=ASKED)
    joined.leave()
    assert (reply.status_code, reply.content, reply.headers["retry-after"]) == (429, error, "7")
    (span,) = kept.models
    assert span.status == "error"
    assert span.error.startswith("HTTP 429")
    assert "slow down" in span.error
    assert span.input_tokens is None
    assert span.attributes["status"] == 429
    assert joined.refused is None


@pytest.mark.parametrize("api", ["openai", "anthropic"])
def test_the_upstream_dies_in_the_middle(upstream: Any, gateway: Any, record: Any, kept: Any, bodies: Any, api: str):
    events = bodies.chat_events()[:2] if api == "openai" else bodies.anthropic_events(end=False)
    upstream.answer = lambda handler, seen: handler.stream(events, pause=0.01, die=True)
    joined = gateway.join(record)
    path = "chat/completions" if api == "openai" else "v1/messages"
    base = joined.variables()[f"{api.upper()}_BASE_URL"]
    got: list[bytes] = []
    with httpx.stream("POST", f"{base}/{path}", json={**ASKED, "stream": True, "max_tokens": 9}) as reply:
        chunks = reply.iter_raw()
        with pytest.raises(httpx.RemoteProtocolError):
            got.extend(chunks)
    assert b"".join(got) == b"".join(events)
    assert still_serves(joined, upstream, bodies)
    joined.leave()
    span = kept.models[0]
    assert span.status == "error"
    assert "middle of its reply" in span.error
    assert span.output[0].text.startswith("Paris is")
    assert span.attributes["usage_estimated"] is True
    assert span.output_tokens > 1
    assert api == "openai" or span.input_tokens == 10  # what was reported stays


def test_a_client_that_goes_away(upstream: Any, gateway: Any, record: Any, kept: Any, bodies: Any, eventually: Any):
    def endless() -> Any:
        while True:
            yield from bodies.chat_events()[:1]

    upstream.answer = lambda handler, seen: handler.stream(endless(), pause=0.01)
    joined = gateway.join(record)
    with httpx.stream(
        "POST", f"{joined.variables()['OPENAI_BASE_URL']}/chat/completions", json={**ASKED, "stream": True}
    ) as reply:
        next(reply.iter_raw())
    eventually(lambda: kept.models and upstream.broken)  # recorded, and the upstream was told
    (span,) = kept.models
    assert span.status == "error"
    assert "client closed" in span.error
    assert span.output_tokens > 0
    assert span.attributes["usage_estimated"] is True
    assert still_serves(joined, upstream, bodies)


def test_an_episode_that_leaves_closes_its_calls(
    upstream: Any, gateway: Any, record: Any, kept: Any, bodies: Any, eventually: Any
):
    release = threading.Event()

    def slowly(handler: Any, seen: Any) -> None:
        release.wait(20)
        handler.whole(bodies.chat())

    upstream.answer = slowly
    joined = gateway.join(record)
    replies: list[httpx.Response] = []
    address = f"{joined.variables()['OPENAI_BASE_URL']}/chat/completions"
    thread = threading.Thread(target=lambda: replies.append(httpx.post(address, json=ASKED, timeout=20)))
    thread.start()
    eventually(lambda: upstream.seen)
    joined.leave()
    (span,) = kept.models
    assert (span.status, span.error) == ("error", "the episode ended before the reply did")
    thread.join(20)
    release.set()
    assert replies[0].status_code == 403
    late = httpx.post(address, json=ASKED)
    assert late.status_code == 403
    assert late.headers["x-should-retry"] == "false"
    assert len(kept.models) == 1
    assert len(upstream.seen) == 1


def test_malformed_events_are_passed_on_and_counted(upstream: Any, gateway: Any, record: Any, kept: Any, bodies: Any):
    events = [*bodies.chat_events()[:-1], b"data: {no json\n\n", b"data: [DONE]\n\n"]
    upstream.answer = lambda handler, seen: handler.stream(events)
    joined = gateway.join(record)
    base = joined.variables()["OPENAI_BASE_URL"]
    reply = httpx.post(f"{base}/chat/completions", json={**ASKED, "stream": True})
    joined.leave()
    assert reply.content == b"".join(events)
    (span,) = kept.models
    assert span.attributes["malformed_events"] == 1
    assert span.output[0].text == "Paris is sunny."
    assert span.status == "ok"


def test_a_reply_that_cannot_be_read_has_an_unknown_cost(upstream: Any, gateway: Any, record: Any, kept: Any):
    upstream.answer = lambda handler, seen: handler.whole(b"<html>a page</html>")
    joined = gateway.join(record)
    reply = httpx.post(f"{joined.variables()['OPENAI_BASE_URL']}/chat/completions", json=ASKED)
    joined.leave()
    assert reply.content == b"<html>a page</html>"
    assert joined.unread == 1
    assert kept.models[0].cost_usd is None
    assert kept.models[0].status == "error"


def test_unknown_paths_are_forwarded_and_counted(upstream: Any, gateway: Any, record: Any, kept: Any):
    upstream.answer = lambda handler, seen: handler.whole(b'{"data": [{"embedding": [0.1]}]}')
    joined = gateway.join(record)
    base = joined.variables()["OPENAI_BASE_URL"]
    with openai.OpenAI(api_key="k", base_url=base) as client:
        client.models.list()
    httpx.post(f"{base}/files", content=b"x")
    httpx.get(f"{base}/anything")
    httpx.post(f"{base}/chat/completions", content=b"not json")
    assert joined.unread == 1  # the last one: the upstream accepted what we cannot read
    assert httpx.post(f"{base}/embeddings", json={"input": "x"}).json() == {"data": [{"embedding": [0.1]}]}
    gemini = f"{gateway.address}/{joined.token}/openai/v1beta/models/gemini-pro:generateContent?key=abc"
    httpx.post(gemini, json={"contents": []})
    joined.leave()
    assert joined.unread == 3
    assert upstream.seen[-1].path == "/v1beta/models/gemini-pro:generateContent?key=abc"
    assert not kept.models


def test_bodies_of_fifty_megabytes(upstream: Any, gateway: Any, record: Any, kept: Any):
    """A file is streamed through with little memory; a request that is read is read whole."""
    large = b"x" * (50 << 20)
    sizes: list[int] = []

    def swallow(handler: Any, seen: Any) -> None:
        sizes.append(len(seen.body))
        seen.body = b""
        handler.whole(b"{}" if seen.path.endswith("files") else b"y" * (50 << 20), content_type="text/plain")

    upstream.answer = swallow
    joined = gateway.join(record)
    base = joined.variables()["OPENAI_BASE_URL"]
    assert httpx.post(f"{base}/files", content=large, timeout=60).json() == {}
    chat = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x" * (50 << 20)}]}).encode()
    reply = httpx.post(f"{base}/chat/completions", content=chat, timeout=60)
    assert len(reply.content) == 50 << 20
    joined.leave()
    assert sizes == [len(large), len(chat)]
    assert len(kept.models[0].input[0].text) == 50 << 20
    assert joined.failure is None


def test_nobody_is_at_the_upstream(record: Any, kept: Any):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    gateway = Gateway(upstreams_of({}, {"openai": f"http://127.0.0.1:{port}/v1"}))
    gateway.start()
    joined = gateway.join(record)
    reply = httpx.post(f"{joined.variables()['OPENAI_BASE_URL']}/chat/completions", json=ASKED)
    listed = httpx.get(f"{joined.variables()['OPENAI_BASE_URL']}/models")
    nowhere = httpx.get(f"{gateway.address}/nobody")
    gateway.close()
    assert reply.status_code == listed.status_code == 502
    assert reply.json()["error"]["message"].endswith("no connection could be made")
    assert kept.models[0].status == "error"
    assert kept.models[0].input_tokens is None
    assert nowhere.status_code == 404
    assert "openai, anthropic" in nowhere.json()["error"]["message"]


def test_a_recorder_that_fails_does_not_end_the_gateway(upstream: Any, gateway: Any):
    class Full:
        def add(self, draft: Any) -> None:
            raise OSError("no space left")

    joined = gateway.join(Recorder(Full()))  # type: ignore[arg-type]
    for _ in range(2):
        reply = httpx.post(f"{joined.variables()['OPENAI_BASE_URL']}/chat/completions", json=ASKED)
        assert reply.status_code == 200
    joined.leave()
    assert str(joined.failure) == "no space left"


class Fixed:
    """A policy that says always the same."""

    def __init__(self, decision: Any) -> None:
        self.decision = decision
        self.over: list[Any] = []

    def decide(self, request: Any) -> Any:
        return self.decision

    def done(self, request: Any, reply: Any) -> None:
        self.over.append(reply)


def test_policies_edit_cut_serve_and_refuse(upstream: Any, gateway: Any, kept: Any, record: Any, bodies: Any):
    def through(decision: Any, **more: Any) -> httpx.Response | None:
        joined = gateway.join(record, policies=(policy := Fixed(decision),))
        try:
            return httpx.post(f"{joined.variables()['OPENAI_BASE_URL']}/chat/completions", json={**ASKED, **more})
        except httpx.RemoteProtocolError:
            return None
        finally:
            joined.leave()
            assert len(policy.over) == 1

    edits = RequestEdits(model="other", system="be brief")
    assert through(Forward(edits=edits, note="changed")).status_code == 200
    assert upstream.seen[-1].json["model"] == "other"
    assert kept.models[-1].input[0].text == "be brief"
    assert kept.models[-1].attributes["note"] == "changed"

    assert through(Forward(cut_after=20)) is None
    assert "cut after 20 bytes" in kept.models[-1].error

    calls = len(upstream.seen)
    served = ModelReply(message=Message("assistant", (Text("from here"),)), model="m", stop_reason="stop")
    assert through(Serve(reply=served)).json()["choices"][0]["message"]["content"] == "from here"
    streamed = through(Serve(reply=served), stream=True)
    assert b"from here" in streamed.content
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert kept.models[-1].output[0].text == "from here"
    refused = through(Refuse(status=429, kind="rate_limit_error", message="slow down", retry=True))
    assert (refused.status_code, "x-should-retry" in refused.headers) == (429, False)
    assert kept.models[-1].error == "HTTP 429: slow down"
    assert len(upstream.seen) == calls


def test_compressed_requests_are_forwarded_unread(upstream: Any, gateway: Any, record: Any):
    joined = gateway.join(record)
    body = gzip.compress(json.dumps(ASKED).encode())
    base = joined.variables()["OPENAI_BASE_URL"]
    reply = httpx.post(f"{base}/chat/completions", content=body, headers={"content-encoding": "gzip"})
    joined.leave()
    assert reply.status_code == 200
    assert upstream.seen[0].body == body
    assert joined.unread == 1


def test_memory_of_a_stream_through_is_bounded(upstream: Any, gateway: Any, record: Any):
    piece = b"z" * (1 << 20)

    def pour(handler: Any, seen: Any) -> None:
        handler.stream((piece for _ in range(40)), content_type="application/octet-stream")

    upstream.answer = pour
    joined = gateway.join(record)
    base = joined.variables()["OPENAI_BASE_URL"]
    tracemalloc.start()
    size = 0
    with httpx.stream("GET", f"{base}/files/f/content", timeout=60) as reply:
        for chunk in reply.iter_raw():
            size += len(chunk)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size == 40 << 20
    assert peak < 20 << 20


def test_the_result_of_a_tool_that_follows_a_large_call_at_once_is_a_step(
    upstream: Any, gateway: Gateway, record: Recorder, kept: Any, bodies: Any
) -> None:
    """A large call is recorded in another thread, and the client sends its next request before that is done."""
    calls = [("c1", "look", "{}")]
    upstream.answer = lambda handler, seen: handler.whole(
        bodies.chat(calls=calls) if len(seen.json["messages"]) == 1 else bodies.chat()
    )
    joined = gateway.join(record)
    messages: list[Any] = [{"role": "user", "content": "a large context " * 200_000}]
    client = openai.OpenAI(base_url=joined.variables()["OPENAI_BASE_URL"], api_key="k", max_retries=0)
    reply = client.chat.completions.create(model="gpt-4o", messages=messages).choices[0].message
    messages += [reply.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": "c1", "content": "seen"}]
    client.chat.completions.create(model="gpt-4o", messages=messages)
    client.close()
    joined.leave()
    assert [d.kind for d in kept.drafts] == ["model", "tool", "model"]
