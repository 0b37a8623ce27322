"""Requests of many episodes in one process carry the episode that they belong to, whatever client sends them."""

from __future__ import annotations

import asyncio
import http.client
import json
import subprocess
import sys
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import aiohttp
import anthropic
import httpx
import httpx2
import openai
import pytest
import requests

from ethogram.wire.context import within_span
from ethogram.wire.gateway.attribution import ASIDE, Attribution, FixedMark, _mark, marked

CHAT = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hi"}}],
}
MESSAGE = {
    "id": "m",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "hi"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 1, "output_tokens": 1},
}


class Seen:
    """A server in place of the gateway: keeps of each request its body's last words and our headers."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str | None, str | None]] = []
        self.paths: list[str] = []
        seen = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                said = body["messages"][-1]["content"]
                seen.calls.append((said, self.headers["x-ethogram-episode"], self.headers["x-ethogram-span"]))
                seen.paths.append(self.path)
                reply = json.dumps(MESSAGE if self.path.endswith("messages") else CHAT).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(reply)))
                self.end_headers()
                self.wfile.write(reply)

            def log_message(self, *_: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            request_queue_size = 512
            daemon_threads = True

        self._server = Server(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join(10)
        self._server.server_close()


@pytest.fixture
def seen() -> Iterator[Seen]:
    server = Seen()
    yield server
    server.close()


@pytest.fixture
def bypassed() -> list[tuple[str | None, str]]:
    return []


@pytest.fixture
def attribution(seen: Seen, bypassed: list[tuple[str | None, str]]) -> Iterator[Attribution]:
    made = Attribution(seen.address, lambda token, host: bypassed.append((token, host)))
    made.install()
    yield made
    made.uninstall()


def body(word: str) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": word}]}


def test_64_episodes_at_once_in_one_process_are_kept_apart(seen: Seen, attribution: Attribution) -> None:
    # clients are made once, before any episode, as agents do when they are imported
    keys = {"api_key": "k", "max_retries": 0}
    chat, chat_later = openai.OpenAI(base_url=seen.address, **keys), openai.AsyncOpenAI(base_url=seen.address, **keys)
    claude = anthropic.Anthropic(base_url=seen.address, **keys)
    claude_later = anthropic.AsyncAnthropic(base_url=seen.address, **keys)
    pool = ThreadPoolExecutor(4)
    wave = 64

    def in_a_thread(call: Callable[..., Any], word: str) -> None:
        thread = threading.Thread(target=lambda: call(**body(word)))
        thread.start()
        thread.join(60)

    async def episode(number: int) -> None:
        word = f"e{number}"
        with marked(FixedMark(word)):
            await asyncio.sleep(0.001 * (number % 7))
            await asyncio.gather(
                asyncio.create_task(chat_later.chat.completions.create(**body(word))),
                asyncio.create_task(claude_later.messages.create(**body(word))),
                asyncio.to_thread(chat.chat.completions.create, **body(word)),
                asyncio.to_thread(in_a_thread, claude.messages.create, word),
                asyncio.wrap_future(pool.submit(claude.messages.create, **body(word))),
                asyncio.get_running_loop().run_in_executor(pool, lambda: chat.chat.completions.create(**body(word))),
            )

    async def all_of_them() -> None:
        await asyncio.gather(*(episode(n) for n in range(wave)))
        await chat_later.close()
        await claude_later.close()

    asyncio.run(all_of_them())
    pool.shutdown()
    chat.close()
    claude.close()
    assert len(seen.calls) == 6 * wave
    assert all(said == token for said, token, _ in seen.calls)
    assert set(Counter(said for said, _, _ in seen.calls).values()) == {6}


def test_a_loop_in_another_thread_and_a_thread_of_a_thread_belong_to_who_asked(
    seen: Seen, attribution: Attribution
) -> None:
    loop = asyncio.new_event_loop()
    aside = threading.Thread(target=loop.run_forever, daemon=True)
    aside.start()  # before any episode

    async def call(word: str) -> None:
        async with httpx2.AsyncClient() as client:
            await client.post(f"{seen.address}/chat/completions", json=body(word))

    def outer(word: str) -> None:
        inner = threading.Thread(target=lambda: httpx.post(f"{seen.address}/chat/completions", json=body(word)))
        inner.start()
        inner.join(60)

    for word in ("a", "b"):
        with marked(FixedMark(word)):
            asyncio.run_coroutine_threadsafe(call(word), loop).result(60)
            thread = threading.Thread(target=outer, args=(word,))
            thread.start()
            thread.join(60)
    loop.call_soon_threadsafe(loop.stop)
    aside.join(60)
    loop.close()
    assert [(said, token) for said, token, _ in seen.calls] == [("a", "a"), ("a", "a"), ("b", "b"), ("b", "b")]


def post_urllib(url: str, data: bytes) -> None:
    with urllib.request.urlopen(urllib.request.Request(url, data, {"content-type": "application/json"})) as reply:
        reply.read()


def post_requests(url: str, data: bytes) -> None:
    requests.post(url, data=data, timeout=30).close()


def post_aiohttp(url: str, data: bytes) -> None:
    async def post() -> None:
        async with aiohttp.ClientSession() as session, session.post(url, data=data) as reply:
            await reply.read()

    asyncio.run(post())


def post_httpx(url: str, data: bytes) -> None:
    httpx.post(url, content=data)


@pytest.mark.parametrize("post", [post_urllib, post_requests, post_aiohttp, post_httpx])
def test_other_http_libraries_carry_the_episode_and_its_span(
    seen: Seen, attribution: Attribution, post: Callable[[str, bytes], None]
) -> None:
    data = json.dumps(body("x")).encode()
    with marked(FixedMark("e1")), within_span("s7"):
        post(f"{seen.address}/chat/completions", data)
    with marked(ASIDE):
        post(f"{seen.address}/chat/completions", data)
    post(f"{seen.address}/chat/completions", data)
    assert seen.calls == [("x", "e1", "s7"), ("x", "none", None), ("x", None, None)]


def test_only_the_gateway_is_told_the_episode(seen: Seen, attribution: Attribution) -> None:
    other = Seen()
    with marked(FixedMark("e1")):
        for post in (post_urllib, post_requests, post_aiohttp, post_httpx):
            post(f"{other.address}/chat/completions", json.dumps(body("x")).encode())
    other.close()
    assert other.calls == [("x", None, None)] * 4
    assert seen.calls == []


def test_a_client_of_an_upstream_that_was_made_before_calls_the_gateway(
    seen: Seen, attribution: Attribution, bypassed: list[tuple[str | None, str]]
) -> None:
    upstream = Seen()
    attribution.redirect({f"{upstream.address}/v1": f"{seen.address}/openai/v1"})
    client = openai.OpenAI(base_url=f"{upstream.address}/v1", api_key="k", max_retries=0)
    with marked(FixedMark("e1")):
        client.chat.completions.create(**body("x"))
        post_requests(f"{upstream.address}/v1/chat/completions", json.dumps(body("past")).encode())
    client.close()
    upstream.close()
    assert (seen.calls, seen.paths) == ([("x", "e1", None)], ["/openai/v1/chat/completions"])
    assert upstream.calls == [("past", None, None)]
    assert bypassed == [("e1", "127.0.0.1")], "its address could not be changed, so its cost is not known"


def test_calls_of_providers_that_pass_by_the_gateway_are_told(
    attribution: Attribution, bypassed: list[tuple[str | None, str]]
) -> None:
    sent = attribution.sent
    with marked(FixedMark("e1")):
        for url in ("https://api.openai.com/v1/responses", "https://x.openai.azure.com/openai/deployments/d/chat"):
            sent("POST", url, movable=True)
        sent("GET", "https://api.openai.com/v1/models", movable=True)
        sent("POST", "https://api.openai.com/v1/traces/ingest", movable=True)
        sent("POST", "https://example.org/v1/chat/completions", movable=True)
    with marked(ASIDE):
        sent("POST", "https://api.anthropic.com/v1/messages", movable=True)
    sent("POST", "https://api.anthropic.com/v1/messages", movable=False)
    expected = [("e1", "api.openai.com"), ("e1", "x.openai.azure.com"), (None, "api.anthropic.com")]
    assert bypassed == expected
    mocked = httpx.Client(transport=httpx.MockTransport(lambda request: httpx.Response(200)))
    with marked(FixedMark("e1")):
        mocked.post("https://api.openai.com/v1/chat/completions")
    mocked.close()
    assert bypassed == expected, "nothing left this process"


def test_a_program_that_an_agent_starts_calls_under_its_episode(seen: Seen, attribution: Attribution) -> None:
    show = [sys.executable, "-c", "import os; print(os.environ['OPENAI_BASE_URL'])"]
    mine = FixedMark("e1", {"OPENAI_BASE_URL": f"{seen.address}/e1/openai"})

    def printed(**options: Any) -> str:
        return subprocess.run(show, capture_output=True, text=True, check=True, **options).stdout.strip()

    with marked(mine):
        shared, own = {"OPENAI_BASE_URL": f"{seen.address}/openai"}, {"OPENAI_BASE_URL": "http://localhost:1"}
        assert printed(env=shared) == f"{seen.address}/e1/openai"
        assert printed(env=own) == "http://localhost:1", "an address that the agent chose stays"
    assert printed(env=shared) == f"{seen.address}/openai"


def test_a_library_that_is_imported_later_is_marked_too(seen: Seen) -> None:
    code = f"""
import sys
from ethogram.wire.gateway.attribution import Attribution, FixedMark, marked
assert not [m for m in ("httpx", "httpx2", "aiohttp") if m in sys.modules]
attribution = Attribution({seen.address!r}, print)
attribution.install()
with marked(FixedMark("late")):
    import httpx
    httpx.post({seen.address!r} + "/chat/completions", json={body("x")!r})
attribution.uninstall()
assert "Attribution" not in httpx.Client.send.__qualname__ and httpx.Client.send.__module__.startswith("httpx")
import httpx2
assert not hasattr(httpx2.Client.send, "__wrapped__")
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
    assert seen.calls == [("x", "late", None)]


def test_every_change_is_undone() -> None:
    places = (
        (httpx.Client, "send"),
        (httpx.AsyncClient, "send"),
        (httpx2.Client, "send"),
        (aiohttp.ClientRequest, "send"),
        (http.client.HTTPConnection, "endheaders"),
        (threading.Thread, "start"),
        (ThreadPoolExecutor, "submit"),
        (subprocess.Popen, "__init__"),
    )
    before = [owner.__dict__[name] for owner, name in places]
    path = list(sys.meta_path)
    first, second = (Attribution("http://127.0.0.1:1", lambda *_: None) for _ in range(2))
    first.install()
    first.install()
    second.install()
    assert [owner.__dict__[name] for owner, name in places] != before
    second.uninstall()
    first.uninstall()
    with marked(FixedMark("x")):
        assert ThreadPoolExecutor(1).submit(_mark.get).result(60) == FixedMark("x"), "still installed"
    first.uninstall()
    assert [owner.__dict__[name] for owner, name in places] == before
    assert sys.meta_path == path


def test_httpx_is_whole_before_a_client_on_httpx2_can_call() -> None:
    """The openai package reads `sys.modules["httpx"].Timeout` at each call, also while another thread imports httpx."""
    program = """
import sys
from ethogram.wire.gateway.attribution import Attribution

made = Attribution("http://127.0.0.1:1", lambda token, host: None)
made.install()
assert "httpx" not in sys.modules
import openai
assert sys.modules["httpx"].Timeout
made.uninstall()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
