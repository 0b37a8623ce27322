"""Forward a call to its upstream before it is read, where nothing decides about calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ethogram.wire.clock import SystemClock

from .call import ModelRequest, WireProtocol
from .client import ClientSide
from .connections import Connections
from .deferred import Later
from .exchange import UNREACHED, Exchange
from .forwarding import forwarded
from .headers import PROMPT, SPAN, header
from .registered_episode import Joined
from .reply_passage import ReplyPassage
from .unread_calls import may_cost
from .upstream_http import UpstreamFailed, UpstreamRequest
from .upstreams import Upstream

OwnerOfCall = Callable[[str | None, ModelRequest | None], Joined | None]

_clock = SystemClock()


class EarlyCall:
    """One call: its request is read once it was sent, its reply once it was passed on, both in the order of arrival."""

    def __init__(
        self,
        client: ClientSide,
        protocol: WireProtocol,
        upstream: Upstream,
        path: bytes,
        body: bytes,
        *,
        later: Later,
        owner: OwnerOfCall,
        unowned: Callable[[str | None], None],
    ) -> None:
        """`owner` says whose a call is, by its name and its request; `unowned` is told of one that is nobody's."""
        self._client = client
        self._protocol = protocol
        self._upstream = upstream
        self._path = path
        self._body = body
        self._later = later
        self._owner = owner
        self._unowned = unowned
        self._passage = ReplyPassage(protocol, later)
        self._started_ns = _clock.now_ns()
        self._ended_ns = 0
        self._read = False
        """Whether the request could be read."""
        self._exchange: Exchange | None = None
        self._failure: str | None = None
        self._unreached: UpstreamFailed | None = None
        self._task = asyncio.current_task()

    async def carry(self, connections: Connections) -> None:
        """Carry out the call. A reply that breaks off is left unfinished, so that the client sees it as broken."""
        client = self._client
        request = forwarded(client, self._upstream, self._path, self._body)
        self._later.busy()
        self._later.add(self._open, len(self._body))
        watcher = client.watch()
        try:
            await self._pass_on(connections, request)
        except asyncio.CancelledError:
            self._later.drain()  # what is known of it decides how it ended
            closed = None if self._exchange is None else self._exchange.closed_because
            if self._exchange is None or not self._exchange.complete:
                self._failure = "the client closed the connection" if client.gone else closed or "the gateway ended"
            if not client.gone and closed is None:
                raise
            if not client.started and not client.gone and self._exchange is not None:
                await self._exchange.tell_closed(client)
        finally:
            watcher.cancel()
            self._ended_ns = _clock.now_ns()
            copy = self._passage.copy
            self._later.add(self._end, 0 if copy is None else copy.received)
            if self._failure is not None:
                self._later.drain()  # somebody may wait for the end of what was ended from outside

    async def _pass_on(self, connections: Connections, request: UpstreamRequest) -> None:
        client, upstream = self._client, self._upstream
        try:
            response = await connections.send(request, upstream.origin)
        except UpstreamFailed as error:
            self._unreached = error
            self._failure = f"the upstream {upstream.origin} failed: {error}"
            await client.answer(502, self._protocol.error_body(UNREACHED, self._failure))
            return
        try:
            self._failure = await self._passage.pass_on(client, response)
        finally:
            await response.aclose()

    def _open(self) -> None:
        """Read the request, and find out whose it is; one that cannot be read stays unread."""
        body, self._body = self._body, b""
        try:
            request = self._protocol.request(body)
        except ValueError:
            return
        self._read = True
        joined = self._owned(request)
        if joined is None:
            return
        try:
            headers = self._client.headers
            span, prompt = header(headers, SPAN), header(headers, PROMPT)
            exchange = Exchange(joined, self._protocol, request, self._started_ns, span, prompt)
            exchange.begin_under_way(self._upstream, self._passage, self._task)
            self._exchange = exchange
        except Exception as error:  # the call passes all the same, and what it cost is not known
            joined.failure = joined.failure or error
            joined.count_unread("a call could not be recorded")

    def _owned(self, request: ModelRequest | None) -> Joined | None:
        """Whose the call is; one that is nobody's, or of which that cannot be found out, is counted."""
        name = self._client.episode
        try:
            joined = self._owner(name, request)
        except Exception:
            joined = None
        if joined is None:
            self._unowned(name)
        return joined

    def _end(self) -> None:
        """Record the call that is over."""
        exchange = self._exchange
        if exchange is None:
            if not self._read:
                self._count_unread()
            return
        exchange.ended_ns = self._ended_ns
        exchange.end(self._failure, failed=self._unreached)
        exchange.let_go()

    def _count_unread(self) -> None:
        status, client = self._passage.status, self._client
        if status is None or status >= 400 or not may_cost(client.method, self._path):
            return
        joined = self._owned(None)
        if joined is None:
            return
        try:
            joined.seen_unread(f"{client.method} {self._path.decode('latin-1')}", self._started_ns)
        except Exception as error:
            joined.failure = joined.failure or error
            joined.count_unread("a call could not be recorded")
