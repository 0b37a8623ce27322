"""What tests of the gateway share: an upstream that answers as it is told, and an episode to record into."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from ethogram.capture.draft import Draft
from ethogram.wire.gateway.gateway import Gateway
from ethogram.wire.gateway.upstreams import upstreams_of
from ethogram.wire.recorder import Recorder


class Seen:
    """A request as the upstream saw it."""

    def __init__(self, method: str, path: str, headers: list[tuple[str, str]], body: bytes) -> None:
        self.method, self.path, self.headers, self.body = method, path, headers, body

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.body)


class Answering(BaseHTTPRequestHandler):
    """One connection of the upstream; `server.answer(handler, seen)` writes the reply."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: FakeUpstream

    def do_POST(self) -> None:
        if self.headers.get("transfer-encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
        seen = Seen(self.command, self.path, self.headers.items(), body)
        self.server.seen.append(seen)
        self.server.answer(self, seen)

    do_GET = do_DELETE = do_POST

    def log_message(self, *args: object) -> None:
        pass

    def whole(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content-type": "application/json", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def stream(self, events: Iterable[bytes], *, pause: float = 0.0, die: bool = False, **headers: str) -> None:
        """Events one by one; with `die` the connection ends after them, in the middle of the reply."""
        self.send_response(200)
        for name, value in {"content-type": "text/event-stream", **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        try:
            for event in events:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
                time.sleep(pause)
            if not die:
                self.wfile.write(b"0\r\n\r\n")
        except OSError:
            self.server.broken.append(self.path)
        if die:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)


class FakeUpstream(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1000
    answer: Callable[[Answering, Seen], None]

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.seen: list[Seen] = []
        self.broken: list[str] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that go away are a part of these tests."""


@pytest.fixture
def upstream() -> Iterator[FakeUpstream]:
    server = FakeUpstream()
    server.answer = lambda handler, seen: handler.whole(chat_body())
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(timeout=30)


@pytest.fixture
def gateway(upstream: FakeUpstream) -> Iterator[Gateway]:
    given = {"openai": f"{upstream.address}/v1", "anthropic": upstream.address}
    running = Gateway(upstreams_of({}, given))
    running.start()
    yield running
    running.close()


class Kept:
    """A trace that keeps its drafts; stands for the builder of one."""

    def __init__(self) -> None:
        self.drafts: list[Draft] = []

    def add(self, draft: Draft) -> None:
        self.drafts.append(draft)

    @property
    def models(self) -> list[Draft]:
        return [d for d in self.drafts if d.kind == "model"]

    @property
    def tools(self) -> list[Draft]:
        return [d for d in self.drafts if d.kind == "tool"]


@pytest.fixture
def kept() -> Kept:
    return Kept()


@pytest.fixture
def record(kept: Kept) -> Recorder:
    return Recorder(kept)  # type: ignore[arg-type]


def chat_body(text: str = "Paris is sunny.", *, model: str = "gpt-4o", tokens: int = 7, calls: Any = None) -> bytes:
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {"id": i, "type": "function", "function": {"name": n, "arguments": a}} for i, n, a in calls
        ]
    return json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": model,
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
            "usage": {"prompt_tokens": 11, "completion_tokens": tokens, "total_tokens": 11 + tokens},
        }
    ).encode()


def chat_events(words: Iterable[str] = ("Paris ", "is ", "sunny."), *, usage: bool = False) -> list[bytes]:
    common = {"id": "chatcmpl-2", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o"}
    parts: list[dict[str, Any]] = [
        {**common, "choices": [{"index": 0, "delta": {"role": "assistant", "content": word}, "finish_reason": None}]}
        for word in words
    ]
    parts.append({**common, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    if usage:
        parts.append(
            {
                **common,
                "choices": [],
                "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
            }
        )
    return [*(b"data: %s\n\n" % json.dumps(part).encode() for part in parts), b"data: [DONE]\n\n"]


def anthropic_body(text: str = "Paris is sunny.") -> bytes:
    return json.dumps(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-fake",
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "cache_read_input_tokens": 3, "output_tokens": 5},
        }
    ).encode()


def anthropic_events(words: Iterable[str] = ("Paris ", "is ", "sunny."), *, end: bool = True) -> list[bytes]:
    start = {
        "id": "msg_2",
        "type": "message",
        "role": "assistant",
        "model": "claude-fake",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 1},
    }
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": w}} for w in words),
    ]
    if end:
        events += [
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                "usage": {"output_tokens": 6},
            },
            {"type": "message_stop"},
        ]
    return [b"event: %s\ndata: %s\n\n" % (e["type"].encode(), json.dumps(e).encode()) for e in events]


class Bodies:
    """Replies as providers write them; a fixture, since tests cannot import from here."""

    chat, chat_events = staticmethod(chat_body), staticmethod(chat_events)
    anthropic, anthropic_events = staticmethod(anthropic_body), staticmethod(anthropic_events)


@pytest.fixture
def bodies() -> type[Bodies]:
    return Bodies


def eventually(holds: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never held"
        time.sleep(0.005)


@pytest.fixture(name="eventually")
def eventually_fixture() -> Callable[..., None]:
    return eventually
