"""Requests that never end: their connections are closed, and nobody else waits for them."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from ethogram.wire.asgi import TEXT, HttpRequest, answer
from ethogram.wire.gateway.server import ServerThread

HEAD = b"GET / HTTP/1.1\r\nhost: x\r\n"
BODY = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n123"


async def app(scope: Any, receive: Any, send: Any) -> None:
    headers = {k.decode(): v.decode() for k, v in scope["headers"]}
    request = HttpRequest(scope, headers, receive, send)
    await answer(send, 200, await request.body(), [TEXT])


@pytest.fixture
def serve() -> Iterator[Callable[..., ServerThread]]:
    running: list[ServerThread] = []

    def begin(**options: Any) -> ServerThread:
        server = ServerThread(app, **options)
        running.append(server)
        server.start()
        return server

    yield begin
    for server in running:
        server.close()


def opened(server: ServerThread, sent: bytes) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", server.port), timeout=15)
    made.sendall(sent)
    return made


def is_closed(one: socket.socket) -> bool:
    """Waits for it."""
    try:
        return one.recv(1) == b""
    except ConnectionResetError:
        return True
    finally:
        one.close()


@pytest.mark.parametrize("sent", [b"", HEAD, BODY], ids=["nothing", "half a head", "half a body"])
def test_500_requests_that_do_not_end_are_closed(serve: Callable[..., ServerThread], sent: bytes) -> None:
    server = serve(patience=0.5)
    held = [opened(server, sent) for _ in range(500)]
    assert httpx.post(server.address, content=b"hello").text == "hello", "others are served meanwhile"
    assert all(is_closed(one) for one in held)


def test_a_head_that_drips_is_closed_and_a_slow_body_is_not(serve: Callable[..., ServerThread]) -> None:
    server = serve(patience=1.0)
    dripping = opened(server, HEAD)
    ended = False
    began = time.monotonic()
    while not ended and time.monotonic() - began < 15:
        try:
            dripping.sendall(b"a: b\r\n")
        except OSError:
            ended = True
        time.sleep(0.05)
    dripping.close()
    assert ended

    def slowly() -> Iterator[bytes]:
        for part in (b"a", b"b", b"c", b"d", b"e", b"f"):
            yield part
            time.sleep(0.3)

    assert httpx.post(server.address, content=slowly(), timeout=30).text == "abcdef"


def test_a_call_that_waits_for_its_answer_is_not_timed_out(serve: Callable[..., ServerThread]) -> None:
    server = serve(patience=0.2)
    with httpx.Client() as client:
        assert client.post(server.address, content=b"1").text == "1"
        time.sleep(0.6)  # a connection that is kept for the next call
        assert client.post(server.address, content=b"2").text == "2"


def test_where_connections_run_out_the_oldest_unfinished_one_goes(serve: Callable[..., ServerThread]) -> None:
    server = ServerThread(app)
    server._most = 20
    try:
        server.start()
        held = [opened(server, HEAD) for _ in range(60)]
        assert httpx.post(server.address, content=b"hello").text == "hello"
        assert all(is_closed(one) for one in held[:40])
        for one in held[40:]:
            one.close()
    finally:
        server.close()
