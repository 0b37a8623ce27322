"""Which certificates are trusted, read once in each process: a client that reads them itself takes 70 ms of CPU."""

from __future__ import annotations

import os
import ssl
from functools import cache


def trusted() -> ssl.SSLContext:
    """What HTTP clients of Python trust: `SSL_CERT_FILE`, `SSL_CERT_DIR`, or the authorities that come with certifi."""
    return _read(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@cache
def _read(file: str | None, folder: str | None) -> ssl.SSLContext:
    """The arguments tell one environment from another; httpx reads them itself."""
    import httpx

    context = httpx.create_ssl_context()
    context.set_alpn_protocols(["http/1.1"])
    return context
