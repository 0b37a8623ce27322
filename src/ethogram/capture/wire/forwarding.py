"""Requests as they go on to an upstream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from .client import ClientSide
from .headers import for_upstream, header
from .upstreams import Upstream

if TYPE_CHECKING:
    import httpx


def forwarded(client: ClientSide, upstream: Upstream, path: bytes, body: bytes | AsyncIterator[bytes]) -> httpx.Request:
    """The client's request for an upstream: same method, path, query and headers; `body` is whole or still arriving."""
    import httpx

    headers = [(b"host", upstream.origin.partition("//")[2].encode()), *for_upstream(client.headers)]
    if isinstance(body, bytes):
        headers = [(name, value) for name, value in headers if name != b"content-length"]
        if body or client.method not in ("GET", "HEAD", "OPTIONS"):
            headers.append((b"content-length", b"%d" % len(body)))
        stream: httpx.AsyncByteStream = httpx.ByteStream(body)
    else:
        if header(headers, b"content-length") is None:
            headers.append((b"transfer-encoding", b"chunked"))
        stream = _arriving(body)
    target = path.decode("ascii") + (f"?{client.query.decode('ascii')}" if client.query else "")
    return httpx.Request(client.method, upstream.origin + target, headers=headers, stream=stream)


def _arriving(chunks: AsyncIterator[bytes]) -> httpx.AsyncByteStream:
    import httpx

    class Arriving(httpx.AsyncByteStream):
        """A body that is passed on while it arrives."""

        def __aiter__(self) -> AsyncIterator[bytes]:
            return chunks

    return Arriving()


def broken(error: Exception) -> str:
    """Why an upstream failed, in words that hold nothing of the request: messages of HTTP libraries quote headers."""
    return {
        "ConnectError": "no connection could be made",
        "ConnectTimeout": "it did not accept a connection in time",
        "ReadError": "the connection broke",
        "RemoteProtocolError": "it ended the connection in the middle of its reply",
    }.get(type(error).__name__, type(error).__name__)
