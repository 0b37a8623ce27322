"""The server of the gateway ends in good order, whatever its clients do."""

from __future__ import annotations

import gc
import socket
import threading
import time
import warnings
from typing import Any

from ethogram.wire.gateway.server import ServerThread


def test_clients_that_do_not_read_leave_nothing_open() -> None:
    waiting = threading.Semaphore(0)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        waiting.release()
        for _ in range(100):
            await send({"type": "http.response.body", "body": bytes(1 << 20), "more_body": True})

    server = ServerThread(app)
    server.start()
    clients = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(8)]
    for client in clients:
        client.send(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
    for _ in clients:
        assert waiting.acquire(timeout=30)
    began = time.monotonic()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        server.close()
        del server
        gc.collect()
    for client in clients:
        client.close()
    assert [str(one.message) for one in told] == []
    assert time.monotonic() - began < 10
