"""The client's side of one call: its request, and the reply as it is sent back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

from ethogram.wire.asgi import AsgiMessage, Headers, Receive, Send

from .headers import header


class ClientGone(Exception):
    """The client closed its connection."""


class ClientSide:
    """One request of a client, over ASGI."""

    def __init__(self, scope: AsgiMessage, receive: Receive, send: Send) -> None:
        """Nothing is read yet."""
        self.method: str = scope["method"]
        self.path: bytes = scope["raw_path"]
        self.query: bytes = scope["query_string"]
        self.headers: Headers = scope["headers"]
        self.started = False
        self.finished = False
        self.gone = False
        self.episode: str | None = None
        """The name of the episode that the request belongs to, as far as it says."""
        self._receive = receive
        self._send = send
        self._more = True

    @property
    def has_body(self) -> bool:
        """Whether the request announces a body."""
        length = header(self.headers, b"content-length")
        return header(self.headers, b"transfer-encoding") is not None or length not in (None, b"0")

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives; raises `ClientGone` where the client does not finish it."""
        while self._more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self.gone = True
                raise ClientGone
            self._more = message.get("more_body", False)
            if message.get("body"):
                yield message["body"]

    async def body(self, limit: int) -> bytes | list[bytes]:
        """The whole body; where it is longer than `limit`, the chunks read so far, and the rest is still to come."""
        read: list[bytes] = []
        size = 0
        async for chunk in self.chunks():
            read.append(chunk)
            size += len(chunk)
            if size > limit:
                return read
        return b"".join(read)

    def watch(self) -> asyncio.Task[None]:
        """Cancel the present task once the client is gone; the request's body must have been read."""
        return asyncio.create_task(self._watch(asyncio.current_task()))

    async def _watch(self, task: asyncio.Task[Any] | None) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass  # the empty body of a request without one
        if not self.finished and task is not None:
            self.gone = True
            task.cancel()

    async def start(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Begin the reply."""
        self.started = True
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def send(self, chunk: bytes) -> None:
        """Pass on a part of the reply; waits while the client reads more slowly."""
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def finish(self, chunk: bytes = b"") -> None:
        """End the reply in good order. A reply that is not finished is seen as broken by the client."""
        self.finished = True
        await self._send({"type": "http.response.body", "body": chunk, "more_body": False})

    async def answer(self, status: int, body: bytes, headers: Headers | None = None) -> None:
        """A whole reply of our own, in JSON unless `headers` say otherwise."""
        common = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await self.start(status, [*common, *(headers or [])])
        await self.finish(body)
