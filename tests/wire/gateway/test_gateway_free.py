"""Calls at a gateway without caps: forwarded first, read when it is quiet, and never lost."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from ethogram.prices import Budget, Caps
from ethogram.traces import Message, ToolCall
from ethogram.wire.gateway import deferred
from ethogram.wire.gateway.gateway import Gateway
from ethogram.wire.gateway.registered_episode import Joined
from ethogram.wire.gateway.upstreams import upstreams_of
from ethogram.wire.recorder import Recorder

ASKED = {"model": "gpt-4o", "messages": [{"role": "user", "content": "weather in Paris?"}]}
LIMITED = {**ASKED, "max_tokens": 10}
MOST = len(json.dumps(LIMITED, separators=(",", ":"))) + 64 + 10
"""What is reserved for a call with this limit: its bytes, what may stand around them, and the limit."""


class Alone:
    """A gateway whose calls all belong to one episode, and what was read when."""

    def __init__(self, upstream: Any, record: Recorder, *, free: bool = True) -> None:
        self.switch = False
        self.read: list[str] = []
        given = {"openai": f"{upstream.address}/v1"}
        free_to_go = (lambda: not self.switch) if free else None
        self.gateway = Gateway(upstreams_of({}, given), strays=self.owner, free=free_to_go)
        self.joined = self.gateway.join(record, stop=lambda: self.switch)
        self.address = f"{self.gateway.start()}/openai/v1/chat/completions"

    def owner(self, name: str | None, request: Any) -> Joined:
        self.read.append("" if request is None else request.messages[-1].text)
        return self.joined


@pytest.fixture
def alone(upstream: Any, record: Recorder) -> Iterator[Alone]:
    made = Alone(upstream, record)
    yield made
    made.gateway.close()


@pytest.fixture
def never_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read unless something asks for it."""
    monkeypatch.setattr(deferred, "QUIET_SECONDS", 60.0)
    monkeypatch.setattr(deferred, "LATEST_SECONDS", 60.0)


def test_a_request_is_forwarded_before_it_is_read(
    upstream: Any, alone: Alone, never_quiet: None, kept: Any, bodies: Any
) -> None:
    reply = httpx.post(alone.address, json=ASKED)
    assert (reply.status_code, reply.content) == (200, bodies.chat())
    assert json.loads(upstream.seen[0].body) == ASKED
    assert (alone.read, kept.models) == ([], [])
    alone.gateway.close()  # the end of a gateway records all of it
    assert alone.read == ["weather in Paris?"]
    (span,) = kept.models
    assert (span.status, span.output[0].text, span.output_tokens) == ("ok", "Paris is sunny.", 7)


def test_times_are_those_of_the_call_and_not_of_its_reading(
    upstream: Any, alone: Alone, never_quiet: None, kept: Any, bodies: Any
) -> None:
    seen_at: list[int] = []

    def slowly(handler: Any, seen: Any) -> None:
        seen_at.append(time.time_ns())
        time.sleep(0.2)
        handler.whole(bodies.chat())

    upstream.answer = slowly
    began = time.time_ns()
    httpx.post(alone.address, json=ASKED)
    time.sleep(1.0)
    closed = time.time_ns()
    alone.gateway.close()
    (span,) = kept.models
    slack = 10_000_000  # between two clocks
    assert began - slack < span.start_ns < seen_at[0] + slack
    assert seen_at[0] + 200_000_000 - slack < span.end_ns < closed - 100_000_000


def test_conversations_in_turns_are_read_in_their_order(
    upstream: Any, alone: Alone, kept: Any, bodies: Any, eventually: Any
) -> None:
    """A client sends its next request upon the last byte, with the result of a tool in it."""
    calls = [("c1", "look", "{}")]
    upstream.answer = lambda handler, seen: handler.whole(
        bodies.chat(calls=calls) if len(seen.json["messages"]) == 1 else bodies.chat()
    )
    with httpx.Client() as client:
        for turn in range(20):
            messages: list[Any] = [{"role": "user", "content": f"turn {turn}"}]
            asked = client.post(alone.address, json={"model": "gpt-4o", "messages": messages}).json()
            result = {"role": "tool", "tool_call_id": "c1", "content": f"seen {turn}"}
            messages += [asked["choices"][0]["message"], result]
            client.post(alone.address, json={"model": "gpt-4o", "messages": messages})
    eventually(lambda: len(kept.drafts) == 60)
    assert [d.kind for d in kept.drafts] == ["model", "tool", "model"] * 20
    assert [d.result for d in kept.tools] == [f"seen {turn}" for turn in range(20)]


def test_a_stream_whose_client_goes_upon_its_last_event_is_complete(
    upstream: Any, alone: Alone, kept: Any, bodies: Any, eventually: Any
) -> None:
    """The upstream keeps the stream open for longer; the next call comes meanwhile, and after it."""
    release = threading.Event()

    def lingering() -> Iterator[bytes]:
        yield from bodies.chat_events()
        release.wait(20)

    upstream.answer = lambda handler, seen: (
        handler.stream(lingering()) if seen.json.get("stream") else handler.whole(bodies.chat())
    )
    with httpx.stream("POST", alone.address, json={**ASKED, "stream": True}) as reply:
        read = b""
        for chunk in reply.iter_raw():
            read += chunk
            if read.endswith(b"[DONE]\n\n"):
                break
        assert httpx.post(alone.address, json=ASKED).status_code == 200
        eventually(lambda: len(kept.models) == 2)
    release.set()
    assert [(d.status, d.error) for d in kept.models] == [("ok", None)] * 2
    assert kept.models[0].params["stream"] is True


def test_the_switch_refuses_at_once(upstream: Any, alone: Alone, never_quiet: None) -> None:
    assert httpx.post(alone.address, json=ASKED).status_code == 200
    alone.switch = True
    reply = httpx.post(alone.address, json=ASKED)
    assert (reply.status_code, reply.json()["error"]["type"]) == (403, "ethogram_killed")
    assert len(upstream.seen) == 1
    assert len(alone.read) == 2  # a call that is refused was read, and so were those before it


def test_reading_that_fails_does_not_break_the_reply(
    upstream: Any, alone: Alone, kept: Any, bodies: Any, eventually: Any
) -> None:
    def fails(name: str | None, request: Any) -> Joined:
        raise OSError("no space left")

    alone.gateway._strays = fails
    assert httpx.post(alone.address, json=ASKED).content == bodies.chat()
    eventually(lambda: alone.gateway.unattributed)
    alone.gateway._strays = alone.owner
    record = alone.joined.record
    alone.joined.record = Recorder(Broken())  # type: ignore[arg-type]
    assert httpx.post(alone.address, json=ASKED).content == bodies.chat()
    eventually(lambda: alone.joined.failure)
    alone.joined.asked.add(Message("assistant", (ToolCall("look", "{}", "c1"),)), 1)
    told = {"role": "tool", "tool_call_id": "c1", "content": "x"}
    alone.joined.asked._record = alone.joined.record
    assert httpx.post(alone.address, json={**ASKED, "messages": [told]}).content == bodies.chat()
    eventually(lambda: alone.joined.unread == 1)  # it could not even be begun
    alone.joined.record = record
    assert httpx.post(alone.address, json=ASKED).content == bodies.chat()
    eventually(lambda: len(kept.models) == 1)


class Broken:
    def add(self, draft: Any) -> None:
        raise OSError("no space left")


def test_what_cannot_be_read_is_forwarded_and_counted(upstream: Any, alone: Alone, kept: Any, eventually: Any) -> None:
    assert httpx.post(alone.address, content=b"not json").status_code == 200
    assert upstream.seen[0].body == b"not json"
    eventually(lambda: alone.joined.unread == 1)
    upstream.answer = lambda handler, seen: handler.whole(b"{}", 400)
    assert httpx.post(alone.address, content=b"not json").status_code == 400  # refused, so it cost nothing
    upstream.answer = lambda handler, seen: handler.whole(b"<html>")
    assert httpx.post(alone.address, json=ASKED).content == b"<html>"
    eventually(lambda: alone.joined.unread == 2)
    assert [d.kind for d in kept.drafts] == ["other", "model"]


def test_trouble_on_the_way_is_recorded(upstream: Any, alone: Alone, kept: Any, bodies: Any, eventually: Any) -> None:
    def endless() -> Iterator[bytes]:
        while True:
            yield from bodies.chat_events()[:1]

    upstream.answer = lambda handler, seen: handler.stream(endless(), pause=0.01)
    with httpx.stream("POST", alone.address, json={**ASKED, "stream": True}) as reply:
        next(reply.iter_raw())
    eventually(lambda: len(kept.models) == 1 and upstream.broken)
    assert kept.models[0].error == "the client closed the connection"
    assert kept.models[0].output_tokens > 0

    upstream.answer = lambda handler, seen: handler.stream(bodies.chat_events()[:2], die=True)
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.post(alone.address, json={**ASKED, "stream": True})
    eventually(lambda: len(kept.models) == 2)
    assert "in the middle of its reply" in kept.models[1].error

    upstream.shutdown()
    upstream.server_close()
    reply = httpx.post(alone.address, json=ASKED)
    assert (reply.status_code, reply.json()["error"]["type"]) == (502, "ethogram_upstream_failed")
    eventually(lambda: len(kept.models) == 3)
    assert "no connection could be made" in kept.models[2].error
    assert kept.models[2].input_tokens is None
    assert "no connection" in str(alone.joined.outcomes.last)


def test_the_end_of_the_gateway_closes_calls_that_are_under_way(
    upstream: Any, alone: Alone, kept: Any, bodies: Any, eventually: Any
) -> None:
    release = threading.Event()

    def slowly(handler: Any, seen: Any) -> None:
        release.wait(20)
        handler.whole(bodies.chat())

    upstream.answer = slowly
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(httpx.post, alone.address, json=ASKED, timeout=20)
        eventually(lambda: upstream.seen)
        alone.gateway.close()
        release.set()
        assert waiting.result().status_code == 403
    (span,) = kept.models
    assert span.error == "the episode ended before the reply did"


def test_a_cap_counts_calls_that_were_not_read_yet(upstream: Any, kept: Any, never_quiet: None) -> None:
    """18 tokens a call: the third finds 36 used of MOST + 30, though nothing has had time to read the first two."""
    budget = Budget("episode", Caps(tokens=MOST + 30))
    alone = Alone(upstream, Recorder(kept, meter=budget), free=False)
    try:
        with httpx.Client() as client:
            found = [client.post(alone.address, json=LIMITED).status_code for _ in range(4)]
        assert found == [200, 200, 403, 403]
        assert len(upstream.seen) == 2
        assert budget.used.tokens == 36
    finally:
        alone.gateway.close()


def test_a_cap_holds_under_a_hundred_callers(upstream: Any, kept: Any, never_quiet: None) -> None:
    budget = Budget("experiment", Caps(tokens=900 + MOST))
    alone = Alone(upstream, Recorder(kept, meter=budget), free=False)

    def until_refused(_: int) -> int:
        passed = 0
        with httpx.Client(timeout=60) as client:
            while client.post(alone.address, json=LIMITED).status_code == 200:
                passed += 1
        return passed

    try:
        with ThreadPoolExecutor(100) as pool:
            passed = sum(pool.map(until_refused, range(100)))
    finally:
        alone.gateway.close()
    assert budget.used.tokens == 18 * passed
    assert 900 <= budget.used.tokens <= 900 + MOST
    assert [d.status for d in kept.models].count("ok") == passed


def test_large_calls_are_recorded_beside_and_in_order(upstream: Any, alone: Alone, kept: Any, bodies: Any) -> None:
    calls = [("c1", "look", "{}")]
    upstream.answer = lambda handler, seen: handler.whole(
        bodies.chat(calls=calls) if len(seen.json["messages"]) == 1 else bodies.chat()
    )
    messages: list[Any] = [{"role": "user", "content": "a large context " * 200_000}]
    asked = httpx.post(alone.address, json={"model": "gpt-4o", "messages": messages}).json()
    messages += [asked["choices"][0]["message"], {"role": "tool", "tool_call_id": "c1", "content": "seen"}]
    small = [{"role": "user", "content": "short"}, *messages[1:]]
    httpx.post(alone.address, json={"model": "gpt-4o", "messages": small})
    alone.gateway.close()
    assert [d.kind for d in kept.drafts] == ["model", "tool", "model"]
