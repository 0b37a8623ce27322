"""`ethogram mcp --url …` between the official streamable HTTP client and server, and when the server misbehaves."""

from __future__ import annotations

import json
import runpy
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
import uvicorn
from mcp import Client
from mcp.shared.exceptions import MCPError

from ethogram.errors import BadUsage
from ethogram.store import open_home
from ethogram.traces import Trace
from ethogram.wire.mcp.proxy import server_name
from ethogram.wire.mcp.sessions import CallPlan, Sessions
from ethogram.wire.mcp.streamable import HttpProxy
from ethogram.wire.session_store import SessionStore


@pytest.fixture(scope="module")
def shop_url() -> Iterator[str]:
    """The official server, over streamable HTTP."""
    shop = runpy.run_path(str(Path(__file__).with_name("shop_server.py")))["shop"]
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    server = uvicorn.Server(uvicorn.Config(shop.streamable_http_app(), log_level="error", access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    server.should_exit = True
    thread.join(10)
    listening.close()


@contextmanager
def proxy(url: str, plan: CallPlan | None = None, store: SessionStore | None = None) -> Iterator[tuple[str, Sessions]]:
    sessions = Sessions(server_name((), url), plan or CallPlan(), store, None)
    running = HttpProxy(url, sessions)
    running.start()
    try:
        yield running.address, sessions
    finally:
        running.close()
        if store is not None:
            store.close()


def shopping(url: str, mode: str, b: int = 2) -> list[Any]:
    async def main() -> list[Any]:
        async with Client(url, mode=mode) as client:
            seen: list[Any] = [client.protocol_version, [tool.name for tool in (await client.list_tools()).tools]]
            calls = (("add", {"a": 1, "b": 2}), ("fail", {}), ("count", {"to": 2}), ("add", {"a": 5, "b": b}))
            for name, arguments in calls:
                try:
                    result = await client.call_tool(name, arguments)
                    seen.append((result.content[0].text, result.is_error))  # type: ignore[union-attr]
                except MCPError as error:
                    seen.append(str(error))
            return seen

    return anyio.run(main)  # type: ignore[no-any-return]


def traces_of(home: Path, run: str) -> list[Trace]:
    return list(open_home(str(home)).run(run).traces())


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_the_official_client_and_server_are_recorded_and_replayed(shop_url: str, tmp_path: Path, mode: str) -> None:
    direct = shopping(shop_url, mode)
    with proxy(shop_url, store=SessionStore(open_home(str(tmp_path)), "http", "mcp")) as (address, _):
        assert shopping(address, mode) == direct
    (trace,) = traces_of(tmp_path, "http")
    assert [(s.tool, s.status) for s in trace.steps] == [
        ("add", "ok"),
        ("fail", "error"),
        ("count", "ok"),
        ("add", "ok"),
    ]
    nobody = "http://127.0.0.1:9/mcp"
    with proxy(nobody, CallPlan(trace=trace)) as (address, sessions):
        assert shopping(address, mode) == direct
    assert (sessions.totals.served, sessions.totals.refused, sessions.totals.deviation) == (4, 0, None)
    with proxy(nobody, CallPlan(trace=trace)) as (address, sessions):
        seen = shopping(address, mode, b=6)
    assert seen[:-1] == direct[:-1]
    assert '- "b": 2\n+ "b": 6' in seen[-1]
    with proxy(shop_url, CallPlan(trace=trace, lenient=True)) as (address, sessions):
        assert shopping(address, mode, b=6)[-1] == ("11", False), "the server was asked, with a session of its own"
    assert sessions.totals.served == 3


def test_two_sessions_are_two_traces_and_operators_apply(shop_url: str, tmp_path: Path) -> None:
    store = SessionStore(open_home(str(tmp_path)), "http", "mcp")
    with proxy(shop_url, CallPlan(operator="tool_timeout", tools=("add",)), store) as (address, sessions):
        for _ in range(2):
            seen = shopping(address, "legacy")
            assert seen[2] == ("add did not answer within 30 s", True)
            assert seen[4] == ("2", False)
    assert sessions.totals.sessions == 2
    assert sorted(trace.head.attempt for trace in traces_of(tmp_path, "http")) == [0, 1]  # stored last, listed last
    assert {trace.head.agent for trace in traces_of(tmp_path, "http")} == {"mcp"}


class Odd(BaseHTTPRequestHandler):
    """A server that answers with what its path asks for."""

    protocol_version = "HTTP/1.1"
    seen: list[tuple[str, str, dict[str, str], bytes]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.seen.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        if self.path == "/broken":
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.send_header("content-length", "1000")
            self.end_headers()
            self.wfile.write(b": hello\n\nevent: message\ndata: garbage\n\n")
            self.close_connection = True
            return
        answer = b'{ "jsonrpc":"2.0", "id":1, "result": {"content":[]} }\n'
        self.send_response(404 if self.path.startswith("/other") else 200)
        self.send_header("content-type", "application/json")
        self.send_header("x-kept", "yes")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_DELETE = do_POST

    def log_message(self, *arguments: Any) -> None:
        """Nothing on the terminal."""


@pytest.fixture
def odd() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Odd)
    server.daemon_threads = True
    Odd.seen.clear()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "f"}}


def test_bytes_headers_and_other_paths_pass_unchanged(odd: str, tmp_path: Path) -> None:
    secret = "Bearer sk-ant-api03-" + "Zq8vT1" * 16
    store = SessionStore(open_home(str(tmp_path)), "http", "mcp")
    with proxy(f"{odd}/mcp?key=k1", store=store) as (address, _):
        reply = httpx.post(address, json=CALL, headers={"authorization": secret, "mcp-method": "tools/call"})
        assert reply.content == b'{ "jsonrpc":"2.0", "id":1, "result": {"content":[]} }\n'
        assert reply.headers["x-kept"] == "yes"
        assert httpx.get(address.replace("/mcp", "/other?x=1")).status_code == 404
        assert httpx.delete(address).status_code == 200
    (_, path, headers, body), other, deleted = Odd.seen
    assert (path, headers["authorization"], headers["mcp-method"]) == ("/mcp?key=k1", secret, "tools/call")
    assert json.loads(body) == CALL
    assert other[:2] == ("GET", "/other?x=1")
    assert deleted[:2] == ("DELETE", "/mcp?key=k1")
    assert [s.tool for s in traces_of(tmp_path, "http")[0].steps] == ["f"]
    stored = b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    assert b"Zq8vT1" not in stored
    assert b"key=k1" not in stored


def test_a_stream_that_breaks_and_a_server_that_is_gone_are_errors_of_the_call(odd: str, tmp_path: Path) -> None:
    store = SessionStore(open_home(str(tmp_path)), "http", "mcp")
    with proxy(f"{odd}/broken", store=store) as (address, _):
        text = httpx.post(address, json=CALL).text
        assert text.startswith(": hello\n\nevent: message\ndata: garbage\n\n")
        error = json.loads(text.rpartition("data: ")[2])
        assert (error["id"], error["error"]["data"]["kind"]) == (1, "ethogram_server_ended")
    (trace,) = traces_of(tmp_path, "http")
    assert [s.status for s in trace.steps] == ["error"]
    with proxy("http://127.0.0.1:9/mcp", CallPlan(operator="stale_result")) as (address, sessions):
        gone = httpx.post(address, json=CALL)
        assert gone.status_code == 502
        assert "does not answer" in gone.json()["error"]["message"]
        assert httpx.get(address).status_code == 502
    assert sessions.totals.failed == 1


def test_pages_of_other_hosts_are_refused(odd: str) -> None:
    with proxy(f"{odd}/mcp") as (address, _):
        assert httpx.post(address, json=CALL, headers={"host": "evil.example"}).status_code == 403
        assert httpx.post(address, json=CALL, headers={"origin": "http://evil.example"}).status_code == 403
        assert httpx.post(address, json=CALL, headers={"origin": "http://localhost:3000"}).status_code == 200
    assert len(Odd.seen) == 1


def test_bad_addresses_and_ports_are_one_sentence(odd: str) -> None:
    sessions = Sessions("s", CallPlan(), None, None)
    with pytest.raises(BadUsage, match="is not the address of an MCP server"):
        HttpProxy("localhost:8000", sessions)
    with pytest.raises(BadUsage, match="cannot listen on port"):
        HttpProxy(f"{odd}/mcp", sessions, port=int(odd.rpartition(":")[2]))
