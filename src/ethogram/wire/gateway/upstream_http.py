"""HTTP/1.1 to upstreams: connections that are kept, requests that go out at once, replies that are read as they arrive.

A client of our own, on the parser that the server uses too. Most of the time that a call took in the gateway went into
the layers of a general client: its pool looks at every kept connection for each request, and its parser is Python. This
one does what a gateway needs and no more: it follows no redirects, keeps no cookies, logs nothing, and never sends a
request twice, since a call of a model that was sent may have cost something.
"""

from __future__ import annotations

import asyncio
import select
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple
from urllib.parse import urlsplit

import httptools

from ethogram.wire.asgi import Headers
from ethogram.wire.certificates import trusted

from .upstreams import is_address

CONNECT_SECONDS = 15.0
IDLE_SECONDS = 4.0
"""How long an unused connection is kept: servers commonly close theirs after five seconds, and would race with us."""
BUFFERED = 1 << 18
"""Bytes of a reply that may wait for a slow client; more are left to the upstream."""
MOST_HEAD = 1 << 18
"""Bytes of the head of a reply; a longer one is refused."""
JOINED = 1 << 16
"""A body up to this size is written together with its head."""
OTHER_ADDRESS_SECONDS = 0.25
"""How long one address of a name may take before the next is tried as well."""
BROKE_OFF = "it ended the connection in the middle of its reply"
BROKEN = "the connection broke"


class UpstreamFailed(Exception):
    """An upstream could not be reached or broke off; the words hold nothing of the request."""

    def __init__(self, why: str, *, unsent: bool = False) -> None:
        """`unsent` says that nothing of the request reached the upstream, so that it cannot have cost anything."""
        super().__init__(why)
        self.unsent = unsent


class UpstreamRequest(NamedTuple):
    """A request as it is sent: `target` is path and query, `body` whole or still arriving.

    The headers say how long a whole body is; one that arrives has `content-length`, or is chunked and says so.
    """

    method: str
    target: bytes
    headers: Headers
    body: bytes | AsyncIterator[bytes]


class HttpPool:
    """Connections to one server; used from one event loop."""

    def __init__(self, origin: str) -> None:
        """`origin` is `http://HOST:PORT` or `https://…`; nothing is opened yet."""
        parts = urlsplit(origin)
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if parts.scheme == "https" else 80)
        # an address has no others, and to race for it costs as much as to connect
        self._other_after = None if is_address(self._host) else OTHER_ADDRESS_SECONDS
        self._context = trusted() if parts.scheme == "https" else None
        self._idle: deque[HttpConnection] = deque()
        self._open: set[HttpConnection] = set()

    async def send(self, request: UpstreamRequest) -> HttpConnection:
        """Send a request; gives the connection with the head of its reply, to be read and closed.

        Raises `UpstreamFailed`, and whatever the iterator of the body raises.
        """
        connection = self._rested() or await self._connected()
        try:
            await connection.send(request)
        except BaseException:
            connection.abort()
            raise
        return connection

    def keep(self, connection: HttpConnection, now: float) -> None:
        """A connection is free again."""
        connection.idle_since = now
        self._idle.append(connection)

    def opened(self, connection: HttpConnection) -> None:
        """A connection was made."""
        self._open.add(connection)

    def lost(self, connection: HttpConnection) -> None:
        """A connection is over."""
        self._open.discard(connection)
        if connection.idle_since is not None:
            self._idle.remove(connection)
            connection.idle_since = None

    async def close(self) -> None:
        """Close all connections."""
        for connection in list(self._open):
            connection.abort()
        while self._open:
            await asyncio.sleep(0)

    def _rested(self) -> HttpConnection | None:
        """A kept connection that can be used; those that were kept for too long are closed."""
        oldest = asyncio.get_running_loop().time() - IDLE_SECONDS
        while self._idle and (self._idle[0].idle_since or 0.0) < oldest:
            self._idle[0].abort()
        while self._idle:
            connection = self._idle[-1]
            if not connection.readable():
                self._idle.pop()
                connection.idle_since = None
                return connection
            connection.abort()  # its server has closed it, or says what nobody asked
        return None

    async def _connected(self) -> HttpConnection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, connection = await loop.create_connection(
                    lambda: HttpConnection(self, loop),
                    self._host,
                    self._port,
                    ssl=self._context,
                    happy_eyeballs_delay=self._other_after,
                )
        except TimeoutError:
            raise UpstreamFailed("it did not accept a connection in time", unsent=True) from None
        except (OSError, UnicodeError):
            raise UpstreamFailed("no connection could be made", unsent=True) from None
        return connection


class HttpConnection(asyncio.Protocol):
    """One connection, and the reply that arrives on it."""

    def __init__(self, pool: HttpPool, loop: asyncio.AbstractEventLoop) -> None:
        """Made by `HttpPool`."""
        self.status = 0
        self.headers: Headers = []
        self.idle_since: float | None = None
        self._pool = pool
        self._loop = loop
        self._transport: asyncio.Transport
        self._poll: Callable[[int], list[tuple[int, int]]] | None = None
        self._parser = httptools.HttpResponseParser(self)
        with_leniency = getattr(self._parser, "set_dangerous_leniencies", None)
        if with_leniency is not None:  # lines that end without CR, chunks with a length: clients commonly accept them
            with_leniency(lenient_optional_cr_before_lf=True, lenient_chunked_length=True)
        self._chunks: list[bytes] = []
        self._buffered = 0
        self._head_bytes = 0
        self._head_read = self._sent = self._complete = True
        self._bodiless = self._until_end = self._reading_paused = self._writing_paused = False
        self._kept = False
        """Whether the upstream keeps the connection after its reply."""
        self._unasked = False
        """Whether a reply came to which there is no request: the connection is not used again."""
        self._failure: UpstreamFailed | None = None
        self._waiter: asyncio.Future[None] | None = None

    # the transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is there."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._pool.opened(self)
        if hasattr(select, "poll"):
            polling = select.poll()
            polling.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
            self._poll = polling.poll

    def data_received(self, data: bytes) -> None:
        """Bytes of the reply; on a connection at rest nobody asked for any."""
        if self._complete:
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._over(UpstreamFailed("its reply is not HTTP"))
            self._transport.abort()
            return
        if not self._head_read:
            self._head_bytes += len(data)
            if self._head_bytes > MOST_HEAD:
                self._over(UpstreamFailed("the head of its reply is too long"))
                self._transport.abort()
        self._wake()

    def eof_received(self) -> None:
        """The upstream says no more; the transport closes itself."""
        self._over(None if self._until_end and self._head_read else UpstreamFailed(BROKE_OFF))

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is over, from this end or the other."""
        self._over(UpstreamFailed(BROKE_OFF if error is None else BROKEN))
        self._pool.lost(self)
        del self._parser  # which refers to this object: nothing is left to the collector of garbage

    def pause_writing(self) -> None:
        """The upstream takes the body more slowly than it comes."""
        self._writing_paused = True

    def resume_writing(self) -> None:
        """It takes more."""
        self._writing_paused = False
        self._wake()

    # the parser's side

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; what follows a body is not passed on."""
        if not self._head_read:
            self.headers.append((name.lower(), value or b""))

    def on_headers_complete(self) -> None:
        """The head is complete; one that only announces another is passed over."""
        if self._head_read:
            self._unasked = True
            return
        self.status = self._parser.get_status_code()
        if self.status < 200:
            self.headers = []
            return
        self._head_read = True
        framed = any(name in (b"content-length", b"transfer-encoding") for name, _ in self.headers)
        self._until_end = not framed and self.status not in (204, 304)
        self._complete = self._bodiless  # the parser would wait for a body that does not come

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        if self._bodiless or self._unasked:
            return
        self._chunks.append(body)
        self._buffered += len(body)
        if self._buffered > BUFFERED and not self._reading_paused:
            self._reading_paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        """The reply is complete, unless it only announced another."""
        self._complete = self._head_read
        self._kept = self._parser.should_keep_alive()  # later it has forgotten

    # our side

    async def send(self, request: UpstreamRequest) -> None:
        """Send a request and wait for the head of its reply, which may come before all of the request is sent."""
        self.headers, self._chunks, self._buffered, self._head_bytes = [], [], 0, 0
        self._head_read = self._sent = self._complete = self._until_end = self._kept = False
        self._bodiless = request.method == "HEAD"
        head = _head(request)
        if isinstance(request.body, bytes):
            if len(request.body) <= JOINED:
                self._transport.write(head + request.body)
            else:
                self._transport.write(head)
                self._transport.write(request.body)
            self._sent = True
        else:
            self._transport.write(head)
            await self._send_arriving(request.body, (b"transfer-encoding", b"chunked") in request.headers)
        while not self._head_read:
            if self._failure is not None:
                raise self._failure
            await self._wait()

    async def _send_arriving(self, body: AsyncIterator[bytes], chunked: bool) -> None:
        async for chunk in body:
            while self._writing_paused and not self._complete and self._failure is None:
                await self._wait()
            if self._complete or self._failure is not None:
                return  # it has answered without the rest, or will not answer any more
            self._transport.write(b"%x\r\n%s\r\n" % (len(chunk), chunk) if chunked else chunk)
        if chunked:
            self._transport.write(b"0\r\n\r\n")
        self._sent = True

    @property
    def ended(self) -> bool:
        """Whether nothing more comes after what was read."""
        return self._complete and not self._chunks

    async def read(self) -> bytes:
        """The next bytes of the body, none at its end; raises `UpstreamFailed` where it breaks off."""
        while not self._chunks:
            if self._complete:
                return b""
            if self._failure is not None:
                raise self._failure
            await self._wait()
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._buffered = 0
        if self._reading_paused:
            self._reading_paused = False
            if self._failure is None:
                self._transport.resume_reading()
        return data

    async def aclose(self) -> None:
        """The reply is no longer needed: a connection that can be used again is kept."""
        whole = self._sent and self.ended and self._kept and not (self._bodiless or self._unasked)
        if whole and self._failure is None and not self._transport.is_closing():
            self._pool.keep(self, self._loop.time())
        else:
            self.abort()

    def readable(self) -> bool:
        """Whether something has arrived on a connection at rest: most often its end, which was not told yet."""
        return self._transport.is_closing() or (self._poll is not None and bool(self._poll(0)))

    def abort(self) -> None:
        """End the connection; it is no longer kept."""
        if self.idle_since is not None:
            self._pool.lost(self)
            self._pool.opened(self)  # until its transport is over
        self._transport.abort()

    def _over(self, failure: UpstreamFailed | None) -> None:
        """Nothing more arrives; a reply that is complete stays so."""
        if not self._complete and self._failure is None:
            self._failure, self._complete = failure, failure is None
        elif self._failure is None:
            self._failure = failure
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None


def _head(request: UpstreamRequest) -> bytes:
    lines = [b"%s %s HTTP/1.1\r\n" % (request.method.encode("ascii"), request.target)]
    lines += [b"%s: %s\r\n" % one for one in request.headers]
    lines.append(b"\r\n")
    return b"".join(lines)
