"""The server of the gateway and of the receiver: uvicorn's HTTP in a thread of its own, so that agents may block.

Only its protocol is used. `uvicorn.Server` would handle signals, write into the log, and take a fifth of a second to
end.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import select
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ethogram.errors import BadUsage, MachineFailure

if TYPE_CHECKING:
    from uvicorn.server import ServerState

HOST = "127.0.0.1"
KEEP_ALIVE_SECONDS = 75
"""Longer than clients keep unused connections, so that none sends a call into one that is being closed."""
REQUEST_SECONDS = 10.0
"""How long a client may take from connecting to the end of a request's head, and between two pieces of its body."""
WHOLE_SECONDS = 300.0
"""How long a request may take to arrive at all."""
BACKLOG = 2048
START_SECONDS = 20.0
LINGER_SECONDS = 1.0
"""How long replies that are under way may take once the server is to end."""

T = TypeVar("T")
App = Callable[[Any, Any, Any], Awaitable[None]]


class ServerThread:
    """Serves an ASGI application on loopback or another address, and on a Unix socket where one is asked for."""

    def __init__(
        self,
        app: App,
        *,
        host: str = HOST,
        port: int = 0,
        uds: Path | None = None,
        what: str = "the gateway",
        patience: float = REQUEST_SECONDS,
    ) -> None:
        """Binds at once; raises `BadUsage` where that is not possible. Port 0 takes one that is free.

        `what` names the server in errors; a request that does not go on for `patience` seconds is given up. Who may ask
        an application that others can reach is for it to decide.
        """
        self._app = app
        self._what = what
        self._patience = patience
        self._most = _room_for_connections()
        self._sockets = [_bound(host, port, what)]
        self._host = f"[{host}]" if ":" in host else host
        self.port: int = self._sockets[0].getsockname()[1]
        self.uds = uds
        if uds is not None:
            self._sockets.append(_bound_path(uds))
        self.loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._started = threading.Event()
        self._lock = threading.Lock()
        self._waiting = False
        self._wakened, self._wake = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="ethogram-server", daemon=True)
        self._failure: BaseException | None = None
        self._connection: Callable[[], asyncio.Protocol] = asyncio.Protocol
        self._servers: list[asyncio.Server] = []

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"http://{self._host}:{self.port}"

    def start_when_called(self) -> None:
        """Begin to serve with the first connection. Until then a thread waits, and nothing more is imported."""
        for listening in self._sockets:
            listening.listen(BACKLOG)
        self._waiting = True
        self._thread.start()

    def listen_at(self, path: Path) -> None:
        """Listen at a path as well; raises `BadUsage` where that is not possible."""
        listening = _bound_path(path)
        listening.listen(BACKLOG)
        self.uds = path
        with self._lock:
            self._sockets.append(listening)
            if self._waiting:
                self._wake.send(b"+")
                return
        self.call(self._serve_at(listening))

    def start(self) -> None:
        """Begin to serve; it answers when this returns."""
        self._thread.start()
        if not self._started.wait(START_SECONDS) or self._failure is not None:
            raise MachineFailure(f"{self._what} could not be started: {self._failure or 'it did not answer in time'}")

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Carry out something in the server's loop and wait for it; it must have been started."""
        self._started.wait(START_SECONDS)
        assert self.loop is not None
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def close(self, last: Coroutine[Any, Any, None] | None = None) -> None:
        """Accept no more connections, carry out what is left to do, and end."""
        with self._lock:
            if self._waiting:
                self._wake.send(b"x")
        serving = self._thread.is_alive() and not self._waiting
        if serving and last is not None:
            self.call(last)
        elif last is not None:
            last.close()
        if serving:
            self._started.wait(START_SECONDS)
            assert self.loop is not None
            self.loop.call_soon_threadsafe(self._stop.set)
        if self._thread.is_alive():
            self._thread.join()
        for one in (*self._sockets, self._wakened, self._wake):
            one.close()
        if self.uds is not None:
            self.uds.unlink(missing_ok=True)

    def _run(self) -> None:
        try:
            if self._waiting and not self._called():
                return
            with asyncio.Runner() as runner:
                self.loop = runner.get_loop()
                runner.run(self._serve())
        except BaseException as error:
            self._failure = error
            self._started.set()

    def _called(self) -> bool:
        """Wait for the first connection; False where the server is closed before."""
        while True:
            with self._lock:
                waited_for = [self._wakened, *self._sockets]
            ready = select.select(waited_for, [], [])[0]
            if self._wakened in ready:
                if self._wakened.recv(1) == b"x":
                    return False
                continue
            with self._lock:
                self._waiting = False
            return True

    async def _serve_at(self, listening: socket.socket) -> None:
        assert self.loop is not None
        self._servers.append(await self.loop.create_server(self._connection, sock=listening, backlog=BACKLOG))

    async def _serve(self) -> None:
        from uvicorn import Config
        from uvicorn.server import ServerState

        config = Config(
            self._app,
            http="httptools",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            proxy_headers=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
        )
        config.load()
        state = ServerState()
        loop = asyncio.get_running_loop()

        kind = _connections_of(state, loop, self._most)

        def connection() -> asyncio.Protocol:
            protocol = kind(config, state, {}, loop)
            protocol.logger = protocol.access_logger = _SILENT  # paths and messages may hold keys
            protocol.access_log = False
            return cast("asyncio.Protocol", protocol)

        self._connection = connection
        for listening in list(self._sockets):
            await self._serve_at(listening)
        self._started.set()
        ending = asyncio.create_task(_end_unfinished(state, self._patience))
        await self._stop.wait()
        ending.cancel()
        for server in self._servers:
            server.close()
        await asyncio.sleep(0)  # connections that were accepted just now become known
        await _end_connections(state)


class _Gathering:
    """A transport that sends what was written in one turn of the loop at once: the head of a reply with its body."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._written: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Keep it until the end of this turn."""
        if not self._written:
            self._loop.call_soon(self._send)
        self._written.append(data)

    def close(self) -> None:
        """Send what was written, and close."""
        self._send()
        self._transport.close()

    def _send(self) -> None:
        if self._written:
            self._transport.write(b"".join(self._written))
            self._written.clear()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


def _connections_of(state: ServerState, loop: asyncio.AbstractEventLoop, most: int) -> type[Any]:
    """Connections that know when their request began, of which there are not more than `most` at once."""
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class Connection(HttpToolsProtocol):
        began: float | None  # when a request began that has not arrived yet
        heard: float
        has_head = False

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(cast("asyncio.Transport", _Gathering(transport, loop)))
            self.began = self.heard = loop.time()
            if len(state.connections) > most:
                _end_oldest(state)

        def data_received(self, data: bytes) -> None:
            self.heard = loop.time()
            super().data_received(data)

        def on_message_begin(self) -> None:
            if self.began is None:
                self.began = self.heard
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self.has_head = True
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self.began, self.has_head = None, False
            super().on_message_complete()

    return Connection


async def _end_unfinished(state: ServerState, patience: float) -> None:
    """Close connections whose request does not arrive, for as long as the server runs."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(min(1.0, patience / 4))
        now = loop.time()
        for protocol in list(state.connections):
            one: Any = protocol
            if one.began is not None:
                since = one.heard if one.has_head else one.began
                if now - since >= patience or now - one.began >= WHOLE_SECONDS:
                    one.transport.abort()


def _end_oldest(state: ServerState) -> None:
    """Make room for one more: of the connections whose request has not arrived, the oldest goes."""
    unfinished: list[Any] = [c for c in state.connections if getattr(c, "began", None) is not None]
    min(unfinished, key=lambda one: one.began).transport.abort()


def _room_for_connections() -> int:
    """How many connections there may be at once: the other half of the descriptors is for files and for calls."""
    try:
        import resource
    except ImportError:  # not a Unix
        return BACKLOG
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return BACKLOG if soft == resource.RLIM_INFINITY else max(soft // 2, 16)


async def _end_connections(state: ServerState) -> None:
    """Close every connection; one that still has a reply to send gets a moment, for no socket may outlive its loop."""
    for protocol in list(state.connections):
        protocol.transport.close()
    if state.tasks:
        await asyncio.wait(state.tasks, timeout=LINGER_SECONDS)
    for protocol in list(state.connections):
        protocol.transport.abort()  # its client does not read, so what is left would never be sent
    while state.connections:
        await asyncio.sleep(0)


_SILENT = logging.Logger("ethogram.gateway", logging.CRITICAL + 1)


def check_free(host: str, port: int, what: str) -> None:
    """Raise `BadUsage` where nothing can listen."""
    _bound(host, port, what).close()


def _bound(host: str, port: int, what: str) -> socket.socket:
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        at = f"port {port}" if host == HOST else f"{host} port {port}"
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            free = _free_port(host)
            raise BadUsage(f"{what} cannot listen on {at}, which is taken; --port {free} is free") from None
        change = "choose another --port" if host == HOST else "choose another --host or --port"
        raise BadUsage(f"{what} cannot listen on {at}: {error}; {change}") from None
    return listening


def _free_port(host: str) -> int:
    """A port that nobody has at the moment."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def _bound_path(path: Path) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listening.bind(str(path))
    except OSError as error:
        listening.close()
        raise BadUsage(f"the gateway cannot listen at {str(path)!r}: {error}") from None
    finally:
        os.umask(before)
    return listening
