"""Requests as they go on to an upstream."""

from __future__ import annotations

from collections.abc import AsyncIterator

from .client import ClientSide
from .headers import for_upstream, header
from .upstream_http import UpstreamRequest
from .upstreams import Upstream


def forwarded(
    client: ClientSide, upstream: Upstream, path: bytes, body: bytes | AsyncIterator[bytes]
) -> UpstreamRequest:
    """The client's request for an upstream: same method, path, query and headers; `body` is whole or still arriving."""
    headers = [(b"host", upstream.origin.partition("//")[2].encode()), *for_upstream(client.headers)]
    if isinstance(body, bytes):
        headers = [(name, value) for name, value in headers if name != b"content-length"]
        if body or client.method not in ("GET", "HEAD", "OPTIONS"):
            headers.append((b"content-length", b"%d" % len(body)))
    elif header(headers, b"content-length") is None:
        headers.append((b"transfer-encoding", b"chunked"))
    target = path + (b"?" + client.query if client.query else b"")
    return UpstreamRequest(client.method, target, headers, body)
