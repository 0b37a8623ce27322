"""Connections to upstreams: straight ones, and those that the environment sends through a proxy."""

from __future__ import annotations

import urllib.request
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from ethogram.wire.asgi import LOOPBACK, Headers

from .upstream_http import CONNECT_SECONDS, IDLE_SECONDS, HttpPool, UpstreamFailed, UpstreamRequest

if TYPE_CHECKING:
    import httpx


class UpstreamReply(Protocol):
    """A reply whose head is there, and whose body is still to be read."""

    @property
    def status(self) -> int:
        """Its status."""
        ...

    @property
    def headers(self) -> Headers:
        """Its headers, names in small letters."""
        ...

    @property
    def ended(self) -> bool:
        """Whether nothing more comes after what was read; False where that is not known yet."""
        ...

    async def read(self) -> bytes:
        """The next bytes of the body, none at its end; raises `UpstreamFailed` where it breaks off."""
        ...

    async def aclose(self) -> None:
        """It is no longer needed."""
        ...


class Connections:
    """Connections to all upstreams, a pool per server; used from one event loop."""

    def __init__(self) -> None:
        """Nothing is opened before it is needed."""
        self._pools: dict[str, HttpPool | _ProxiedPool] = {}

    async def send(self, request: UpstreamRequest, origin: str) -> UpstreamReply:
        """Send a request; the reply's body is still to be read, and to be closed. Raises `UpstreamFailed`."""
        pool = self._pools.get(origin)
        if pool is None:
            proxy = _proxy_of(origin)
            pool = self._pools[origin] = HttpPool(origin) if proxy is None else _ProxiedPool(origin, proxy)
        return await pool.send(request)

    async def close(self) -> None:
        """Close them all."""
        for pool in self._pools.values():
            await pool.close()


def _proxy_of(origin: str) -> str | None:
    """The proxy that the environment names for a server, as clients find it."""
    parts = urlsplit(origin)
    proxy = urllib.request.getproxies().get(parts.scheme)
    if proxy is None or parts.hostname in LOOPBACK or urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    return proxy


class _ProxiedPool:
    """Connections to one server through a proxy, by a library that knows the ways of proxies.

    Its transport is used without a client around it: a client would follow redirects, keep cookies, and write
    addresses, which may hold keys, into the log.
    """

    def __init__(self, origin: str, proxy: str) -> None:
        import httpx

        self._origin = origin
        self._transport = httpx.AsyncHTTPTransport(
            verify=origin.startswith("https:"),  # certificates are loaded only where they are needed
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=IDLE_SECONDS),
            proxy=proxy,
        )

    async def send(self, request: UpstreamRequest) -> _ProxiedReply:
        import httpx

        body = request.body
        sent = httpx.Request(
            request.method,
            self._origin + request.target.decode("ascii"),
            headers=request.headers,
            stream=httpx.ByteStream(body) if isinstance(body, bytes) else _arriving(body),
            extensions={"timeout": {"connect": CONNECT_SECONDS, "read": None, "write": None, "pool": None}},
        )
        try:
            return _ProxiedReply(await self._transport.handle_async_request(sent))
        except httpx.TransportError as error:
            raise _failed(error) from None

    async def close(self) -> None:
        await self._transport.aclose()


class _ProxiedReply:
    """A reply that came through a proxy."""

    ended = False

    def __init__(self, response: httpx.Response) -> None:
        self.status = response.status_code
        self.headers: Headers = [(name.lower(), value) for name, value in response.headers.raw]
        self._response = response
        assert not isinstance(response.stream, bytes)
        self._chunks: AsyncIterator[bytes] = aiter(response.stream)  # type: ignore[arg-type]

    async def read(self) -> bytes:
        import httpx

        try:
            async for chunk in self._chunks:
                if chunk:
                    return chunk
        except httpx.TransportError as error:
            raise _failed(error) from None
        return b""

    async def aclose(self) -> None:
        await self._response.aclose()


def _arriving(chunks: AsyncIterator[bytes]) -> httpx.AsyncByteStream:
    import httpx

    class Arriving(httpx.AsyncByteStream):
        """A body that is passed on while it arrives."""

        def __aiter__(self) -> AsyncIterator[bytes]:
            return chunks

    return Arriving()


def _failed(error: Exception) -> UpstreamFailed:
    """Why a call failed, in words that hold nothing of the request: messages of HTTP libraries quote headers."""
    name = type(error).__name__
    why = {
        "ConnectError": "no connection could be made",
        "ConnectTimeout": "it did not accept a connection in time",
        "ReadError": "the connection broke",
        "RemoteProtocolError": "it ended the connection in the middle of its reply",
    }.get(name, name)
    return UpstreamFailed(why, unsent=name in ("ConnectError", "ConnectTimeout"))
