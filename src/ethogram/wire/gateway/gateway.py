"""The gateway: a reverse proxy on this machine that reads the calls of models that pass through it.

A client calls `http://127.0.0.1:PORT/<token>/<provider>/…`, where the token names an episode, or calls without a token
and names the episode in the header `x-ethogram-episode`. What is read becomes a model span of that episode; what is
not a call of a known API is forwarded untouched and counted.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ethogram.errors import BadInput
from ethogram.wire.recorder import Recorder

from .call import ENDED, CallPolicy, ModelRequest, WireProtocol
from .client import ClientGone, ClientSide
from .connections import Connections
from .deferred import Later
from .direct_forwarding import EarlyCall
from .exchange import LARGE, UNREACHED, Exchange
from .forwarding import forwarded
from .headers import EPISODE, NO_EPISODE, PROMPT, SPAN, for_client, header
from .protocols import protocol_for
from .refusals import NO_RETRY, CallBreaker, held_call, held_headers
from .registered_episode import Joined, refusal
from .remote_registration import CONTROL, Elsewhere
from .server import ServerThread
from .unread_calls import UnreadOutcome, may_cost
from .upstream_http import UpstreamFailed
from .upstreams import Upstream, variables_of

TOOLS = b"/_ethogram/mcp/"
"""Where proxies of MCP ask, below the token of their episode."""
READ_BYTES = 256 << 20
"""A longer request is passed on while it arrives, but not read."""

Strays = Callable[[str | None, ModelRequest | None], Joined | None]


class Gateway:
    """One gateway; episodes join and leave it, many at once.

    >>> gateway = Gateway(upstreams_of(os.environ))
    >>> address = gateway.start()
    >>> joined = gateway.join(recorder, parent=span_id)
    >>> subprocess.run(command, env={**os.environ, **joined.variables()})
    >>> joined.leave()
    >>> gateway.close()
    """

    def __init__(
        self,
        upstreams: Mapping[str, Upstream],
        *,
        port: int = 0,
        uds: Path | None = None,
        strays: Strays | None = None,
        free: Callable[[], bool] | None = None,
    ) -> None:
        """Binds a port of 127.0.0.1, or raises `BadUsage`; `uds` is a path to listen at as well.

        `strays` is asked, in the gateway's thread, to whom a call belongs that names no episode here. It gets the name
        that the call gives, in its header or path, and the request: None where it cannot be read. Calls are then
        recorded when no bytes are on their way. `free` is asked before each call whether nothing can refuse or change
        any call, neither a cap nor a policy nor the kill switch: such calls are forwarded before they are read.
        """
        self.upstreams = dict(upstreams)
        self.unattributed = 0
        """Calls that may have cost something and belong to no episode."""
        self._strays = strays
        self._free = free
        self._later = None if strays is None else Later()
        self._open: dict[int, Joined] = {}
        """Episodes that have joined, by identity."""
        self._joined: dict[str, Joined] = {}
        """Those that have a token, by it: most get theirs with their first call, and some never need one."""
        self._elsewhere = Elsewhere(self.upstreams)
        self._connections = Connections()
        self._server = ServerThread(self._app, port=port, uds=uds)
        self._environment = dict(os.environ)

    @property
    def address(self) -> str:
        """Where it listens: `http://127.0.0.1:PORT`."""
        return self._server.address

    @property
    def port(self) -> int:
        """The port of `address`."""
        return self._server.port

    def start_when_called(self) -> None:
        """Begin to serve with the first connection, so that a gateway that nobody calls costs next to nothing."""
        self._server.start_when_called()

    def listen_at(self, path: Path) -> None:
        """Listen at a Unix socket as well."""
        self._server.listen_at(path)

    def start(self) -> str:
        """Begin to serve, in a thread; gives the address."""
        self._server.start()
        return self.address

    def close(self) -> None:
        """Let all episodes leave, and end."""
        self._server.close(self._end())

    def variables(self, token: str = "") -> dict[str, str]:
        """Environment variables that lead clients here; calls belong to the episode of `token`, or of their header."""
        base = f"{self.address}/{token}" if token else self.address
        return variables_of(base, self.upstreams, self._environment)

    def join(
        self,
        record: Recorder,
        *,
        parent: str | None = None,
        policies: Sequence[CallPolicy] = (),
        stop: Callable[[], object] | None = None,
        token: str | None = None,
        breaker: CallBreaker | None = None,
    ) -> Joined:
        """Register an episode: its calls become spans of `record` under `parent`, and count against its meter.

        The first of `policies` that has an opinion decides about a call; `stop` is asked before each call, and once it
        gives true no call is forwarded any more; `breaker` keeps back what a provider goes on refusing. Callable from
        any thread; so is `Joined.leave`.
        """
        joined = Joined(self, record, parent=parent, policies=policies, stop=stop, token=token, breaker=breaker)
        self._open[id(joined)] = joined
        if token is not None:
            self.named(token, joined)
        return joined

    def named(self, token: str, joined: Joined) -> None:
        """An episode has a name from now on: calls of clients that carry it belong to it."""
        if not joined.left:
            self._joined[token] = joined

    def bypassed(self, token: str | None, host: str) -> None:
        """A call to a provider was seen that did not pass through here; without a token, any episode may have."""
        joined = None if token is None else self._joined.get(token)
        for one in list(self._open.values()) if joined is None else [joined]:
            one.outside_hosts.add(host)
            one.count_unread(f"a call to {host} did not pass through the gateway")

    def let_go(self, joined: Joined) -> None:
        """End an episode; where none of its calls is open, without waiting for the server's thread."""
        joined.left = True  # from here on calls are refused; those that began before are in `in_flight`
        if joined.in_flight:
            self._server.call(self._leave(joined))
        self._forget(joined)

    def _forget(self, joined: Joined) -> None:
        self._open.pop(id(joined), None)
        if joined.is_named:
            self._joined.pop(joined.token, None)

    async def _leave(self, joined: Joined) -> None:
        joined.left = True
        self._settle()
        open_calls = list(joined.in_flight)
        for exchange in open_calls:
            exchange.close("the episode ended before the reply did")
        for exchange in open_calls:
            await exchange.over.wait()
        self._forget(joined)

    async def _end(self) -> None:
        self._free = None  # calls are refused from now on, which only calls that were read can be
        self._settle()
        for joined in list(self._open.values()):
            await self._leave(joined)
        self._settle()
        await self._connections.close()

    def _settle(self) -> None:
        """Record all that has passed: what follows depends on it."""
        if self._later is not None:
            self._later.drain()

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        """The ASGI application; nothing that happens to one call may end it."""
        if scope["type"] != "http":
            return
        client = ClientSide(scope, receive, send)
        try:
            await self._route(client)
        except ClientGone:
            return
        except Exception as error:
            if not client.started:
                why = f"the gateway failed at this call: {type(error).__name__}"
                await client.answer(500, _error("ethogram_gateway_failed", why))

    async def _route(self, client: ClientSide) -> None:
        if client.path.startswith(CONTROL):
            await self._elsewhere.answer(client)
            return
        token, upstream, path = self._target(client.path)
        if upstream is None and token is not None and TOOLS in client.path:
            await self._answer_tools(client, token, client.path.rpartition(TOOLS)[2].decode("latin-1"))
            return
        if upstream is None:
            known = ", ".join(self.upstreams)
            why = f"no provider in the path; use {self.address}/PROVIDER/…, where PROVIDER is one of {known}"
            await client.answer(404, _error("ethogram_unknown_provider", why))
            return
        named = header(client.headers, EPISODE)
        client.episode = named.decode("latin-1") if named is not None else token
        elsewhere = self._elsewhere.target(client.episode, upstream.name, path)
        if elsewhere is not None:
            await self._pass_through(client, None, *elsewhere)
            return
        joined = self._owner(client.episode)
        protocol = protocol_for(client.method, path.decode("latin-1"))
        if protocol is None:
            await self._pass_through(client, joined, upstream, path)
        else:
            await self._read(client, protocol, joined, upstream, path)

    async def _answer_tools(self, client: ClientSide, token: str, what: str) -> None:
        """A proxy between an MCP client and its server, started in an episode, asks about a call of a tool."""
        from ethogram.wire.mcp.episode import answer_proxy

        joined = self._joined.get(token)
        body = await client.body(READ_BYTES)
        self._settle()
        if joined is None or joined.left or isinstance(body, list):
            await client.answer(404, _error(ENDED, "no such episode at this gateway, or it is over"))
            return
        try:
            await client.answer(200, await asyncio.to_thread(answer_proxy, joined.tool_calls(), what, body))
        except BadInput as error:
            await client.answer(400, _error("ethogram_bad_message", str(error)))

    def _owner(self, name: str | None) -> Joined | None:
        """The episode that a call belongs to: the one that it names; where it names none, the only one there is."""
        if name is not None:
            return self._joined.get(name)
        alone = self._strays is None and len(self._open) == 1
        return next(iter(list(self._open.values())), None) if alone else None

    def _stray(self, name: str | None, request: ModelRequest | None) -> Joined | None:
        """Whose a call is that belongs to none of the episodes here; one of a run elsewhere belongs to nobody here."""
        if self._strays is None or name == NO_EPISODE or self._elsewhere.knows(name):
            return None
        return self._strays(name, request)

    def _target(self, path: bytes) -> tuple[str | None, Upstream | None, bytes]:
        """The token, the upstream and the path there of a path here."""
        first, _, rest = path.lstrip(b"/").partition(b"/")
        upstream = self.upstreams.get(first.decode("latin-1"))
        if upstream is not None:
            return None, upstream, b"/" + rest
        second, _, rest = rest.partition(b"/")
        return first.decode("latin-1"), self.upstreams.get(second.decode("latin-1")), b"/" + rest

    async def _read(
        self,
        client: ClientSide,
        protocol: WireProtocol,
        joined: Joined | None,
        upstream: Upstream,
        path: bytes,
    ) -> None:
        """A call of a model."""
        body = await client.body(READ_BYTES)
        if isinstance(body, list):
            await self._pass_through(client, joined, upstream, path, body)
            return
        if self._later is not None and self._goes_first(client, body, self._later):
            early = EarlyCall(
                client,
                protocol,
                upstream,
                path,
                body,
                later=self._later,
                owner=self._owner_of_read,
                unowned=self._count_unattributed,
            )
            await early.carry(self._connections)
            return
        try:
            request = await asyncio.to_thread(protocol.request, body) if len(body) > LARGE else protocol.request(body)
        except ValueError:
            await self._pass_through(client, joined, upstream, path, [body])
            return
        self._settle()
        joined = joined or self._stray(client.episode, request)
        if joined is None and client.episode not in (None, NO_EPISODE):
            await self._refuse_unknown(client, protocol)
            return
        if joined is None:
            await self._pass_through(client, None, upstream, path, [body])
            return
        span, prompt = header(client.headers, SPAN), header(client.headers, PROMPT)
        exchange = Exchange(joined, protocol, request, joined.record.now_ns(), span, prompt, self._later)
        await exchange.carry(client, self._connections, upstream, path, body)

    def _goes_first(self, client: ClientSide, body: bytes, later: Later) -> bool:
        """Whether a call may be forwarded before it is read: it is some episode's, and nothing can refuse it.

        One that is large is read in another thread first; while another thread records a call, the next one waits for
        it where both belong to one episode.
        """
        if self._free is None or len(body) > LARGE or later.besides or client.episode == NO_EPISODE:
            return False
        return not self._elsewhere.knows(client.episode) and self._free()

    def _owner_of_read(self, name: str | None, request: ModelRequest | None) -> Joined | None:
        return self._owner(name) or self._stray(name, request)

    async def _refuse_unknown(self, client: ClientSide, protocol: WireProtocol) -> None:
        """Nobody records the calls of an episode that is over, or was never here, so none is made."""
        refused = refusal(ENDED, "no such episode at this gateway, or it is over; its calls are not forwarded")
        body = protocol.error_body(refused.kind, refused.message)
        await client.answer(refused.status, body, [NO_RETRY])

    async def _pass_through(
        self, client: ClientSide, joined: Joined | None, upstream: Upstream, path: bytes, read: Sequence[bytes] = ()
    ) -> None:
        """Forward a call that is not read, with bounded memory; one that may have cost something is counted."""

        async def chunks() -> AsyncIterator[bytes]:
            for chunk in read:
                yield chunk
            async for chunk in client.chunks():
                yield chunk

        costly = may_cost(client.method, path)
        if costly:
            self._settle()
            joined = joined or self._stray(client.episode, None)
        refused = None if joined is None else joined.outside(client.method, path.decode("latin-1"), costly)
        if refused is not None:
            await client.answer(refused.status, _error(refused.kind, refused.message), [NO_RETRY])
            return
        whose = None if joined is None or not costly else UnreadOutcome(joined.outcomes, upstream, path)
        held = None if whose is None else whose.outcomes.instead()
        if whose is not None and held is not None:
            whose.outcomes.refused(held, path, forwarded=False)
            answer = held_call(held)
            await client.answer(answer.status, _error(answer.kind, answer.message), held_headers(held))
            return
        started_ns = 0 if joined is None else joined.record.now_ns()
        body = chunks() if read or client.has_body else b""
        try:
            response = await self._connections.send(forwarded(client, upstream, path, body), upstream.origin)
        except UpstreamFailed as error:
            why = f"the upstream {upstream.origin} failed: {error}"
            if whose is not None:
                whose.failed(error)
            await client.answer(502, _error(UNREACHED, why))
            return
        if response.status < 400 and costly:
            if joined is None:
                self._count_unattributed(client.episode)
            else:
                joined.seen_unread(f"{client.method} {path.decode('latin-1')}", started_ns)
        watcher = client.watch()
        try:
            begun = b"" if whose is None else await whose.read(response)
            await client.start(response.status, for_client(response.headers))
            if begun:
                await client.send(begun)
            while chunk := await response.read():
                await client.send(chunk)
            await client.finish()
        except UpstreamFailed:
            return  # unfinished: the client sees a broken reply, as it is
        except asyncio.CancelledError:
            if not client.gone:
                raise
        finally:
            watcher.cancel()
            await response.aclose()

    def _count_unattributed(self, name: str | None) -> None:
        """Count a call that belongs to no episode; one that names none may be of any that runs now."""
        if self._elsewhere.knows(name):
            return
        self.unattributed += 1
        if name is None and self._strays is None:
            for joined in list(self._open.values()):
                joined.count_unread("a model was called, and nothing tells by which episode")


def _error(kind: str, message: str) -> bytes:
    """An error where no API is known."""
    return msgspec.json.encode({"error": {"type": kind, "code": kind, "message": message}})
