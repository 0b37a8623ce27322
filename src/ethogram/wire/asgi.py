"""HTTP requests as ASGI gives them: types, one request with its body and its reply, and short answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlsplit

LOOPBACK = ("127.0.0.1", "localhost", "::1")
JSON = (b"content-type", b"application/json")
TEXT = (b"content-type", b"text/plain; charset=utf-8")

Scope = MutableMapping[str, Any]
AsgiMessage = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[AsgiMessage]]
Send = Callable[[AsgiMessage], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]


class HttpRequest:
    """One HTTP request of a client."""

    def __init__(self, scope: Scope, headers: dict[str, str], receive: Receive, send: Send) -> None:
        self.scope = scope
        self.headers = headers
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.raw_path: str = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1")
        self.send = send
        self._receive = receive
        self._read = asyncio.Event()

    async def body(self) -> bytes:
        """All of the body."""
        chunks = []
        more = True
        while more:
            message = await self._receive()
            chunks.append(message.get("body", b""))
            more = message.get("more_body", False)
        self._read.set()
        return b"".join(chunks)

    async def disconnected(self) -> None:
        """Returns when the client has gone."""
        await self._read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def begin(self, status: int, headers: Headers) -> None:
        """Send the head of the reply."""
        await self.send({"type": "http.response.start", "status": status, "headers": headers})

    async def more(self, data: bytes, *, last: bool = False) -> None:
        """Send a part of the reply."""
        await self.send({"type": "http.response.body", "body": data, "more_body": not last})


async def answer(send: Send, status: int, body: bytes, headers: Headers) -> None:
    """Send a whole reply."""
    head: Headers = [*headers, (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": head})
    await send({"type": "http.response.body", "body": body})


def is_from_here(headers: dict[str, str]) -> bool:
    """Whether a request is meant for this machine: a page that renamed its host to us is refused."""
    host = urlsplit(f"//{headers.get('host', '')}").hostname
    origin = headers.get("origin")
    return host in LOOPBACK and (origin is None or urlsplit(origin).hostname in LOOPBACK)
