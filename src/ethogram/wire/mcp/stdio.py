"""The proxy for servers that speak over their standard input and output, one message per line.

One thread follows each direction, so that a line is passed on as soon as it has arrived. The server's standard error is
ours. When client or server ends, the other is ended as well.
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress

from ethogram.errors import BadUsage
from ethogram.store.files import write_all
from ethogram.wire.stopping import StopEvent, on_stop_signals

from .exchange import McpExchange, Passage
from .lines import LineCutter

CHUNK = 1 << 16
GRACE_SECONDS = 1.0
"""How long a server may take to end once its input is closed. Clients give the proxy two seconds themselves."""
KILL_SECONDS = 0.4
SHELL_SIGNAL = 128
"""What shells add to the number of the signal that ended a process."""


class StdioProxy:
    """Stands between a client on our own standard streams and a server that it starts."""

    def __init__(
        self, command: Sequence[str], exchange: McpExchange, *, lazy: bool = False, client: tuple[int, int] = (0, 1)
    ) -> None:
        """`lazy` starts the server only once it is asked; `client` are the descriptors to read from and write to."""
        self._command = list(command)
        self._exchange = exchange
        self._lazy = lazy
        self._read_from, self._write_to = client
        self._writing = threading.Lock()
        self._starting = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._following: threading.Thread | None = None
        self._over = StopEvent()
        self._client_ended = False

    def run(self) -> int:
        """Pass messages until one side ends; gives the exit code of the server, or of the signal that ended us.

        Raises `BadUsage` for a server that cannot be started.
        """
        with on_stop_signals(self._over.set):
            if not self._lazy:
                self._start()
            reader = threading.Thread(target=self._follow_client, name="mcp client", daemon=True)
            reader.start()
            self._over.wait()
            return self._finish()

    def _finish(self) -> int:
        server = self._server
        if server is None:
            return SHELL_SIGNAL + self._over.signal if self._over.signal else 0
        _close_input(server)
        if self._over.signal and server.poll() is None:
            server.send_signal(self._over.signal)
        code = _ended(server)
        if self._following is not None:
            self._following.join(GRACE_SECONDS)  # what the server wrote last is still in the pipe
        if self._over.signal:
            return SHELL_SIGNAL + self._over.signal
        ended_by_us = self._client_ended and code < 0
        return 0 if ended_by_us else code if code >= 0 else SHELL_SIGNAL - code

    def _start(self) -> subprocess.Popen[bytes]:
        with self._starting:
            if self._server is None:
                try:
                    self._server = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603
                except (OSError, ValueError) as error:
                    why = getattr(error, "strerror", None) or error
                    raise BadUsage(f"cannot start the MCP server {self._command[0]!r}: {why}") from None
                self._following = threading.Thread(target=self._follow_server, name="mcp server", daemon=True)
                self._following.start()
            return self._server

    def _follow_client(self) -> None:
        try:
            for line, readable in _lines(self._read_from):
                passage = self._exchange.from_client(line) if readable else Passage(line)
                if passage.to_server is not None:
                    same = passage.to_server is line
                    self._to_server([*map(_line, passage.before), line if same else _line(passage.to_server)])
                if passage.to_client is not None:
                    self._to_client(_line(passage.to_client))
        except BadUsage as error:  # of a server that was to be started late
            for reply in self._exchange.end(str(error)):
                self._to_client(_line(reply))
        finally:
            self._client_ended = not self._over.is_set()
            self._over.set()

    def _to_server(self, messages: list[bytes]) -> None:
        server = self._start()
        assert server.stdin is not None
        with suppress(OSError, ValueError):  # it has ended: its other end says so
            for message in messages:
                write_all(server.stdin.fileno(), message)

    def _follow_server(self) -> None:
        server = self._server
        assert server is not None
        assert server.stdout is not None
        try:
            for line, readable in _lines(server.stdout.fileno()):
                passed = self._exchange.from_server(line) if readable else line
                if passed is not None:
                    self._to_client(line if passed is line else _line(passed))
        finally:
            code = _ended(server)
            how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
            for reply in self._exchange.end(f"the MCP server ended {how} before it answered"):
                self._to_client(_line(reply))
            self._over.set()

    def _to_client(self, message: bytes) -> None:
        with self._writing, suppress(OSError):  # a client that is gone closes our input as well
            write_all(self._write_to, message)


def _lines(descriptor: int) -> Iterator[tuple[bytes, bool]]:
    """Lines as they arrive; what stands behind the last line break comes last, without one."""
    cutter = LineCutter()
    while chunk := _chunk(descriptor):
        yield from cutter.feed(chunk)
    if rest := cutter.rest():
        yield rest, True


def _chunk(descriptor: int) -> bytes:
    """The next bytes; a pipe that breaks has ended."""
    try:
        return os.read(descriptor, CHUNK)
    except OSError:
        return b""


def _line(message: bytes) -> bytes:
    """A message of ours, or one that we changed, as a line."""
    return message if message.endswith(b"\n") else message + b"\n"


def _close_input(server: subprocess.Popen[bytes]) -> None:
    assert server.stdin is not None
    with suppress(OSError):
        server.stdin.close()


def _ended(server: subprocess.Popen[bytes]) -> int:
    """The exit code of a server; one that does not end by itself is ended."""
    for end, seconds in ((None, GRACE_SECONDS), (server.terminate, KILL_SECONDS), (server.kill, None)):
        if end is not None:
            end()
        with suppress(subprocess.TimeoutExpired):
            return server.wait(seconds)
    return server.wait()
