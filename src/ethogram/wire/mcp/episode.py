"""The episode that a proxy belongs to, and its HTTP calls to the run that executes the episode."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from ethogram.errors import BadInput, BadUsage
from ethogram.wire.gateway.headers import EPISODE_VARIABLE

from .calls import AnswerHere, McpDecision, McpReply, McpRequest, PassOn, Settled, our_error
from .episode_calls import EpisodeCalls

ROUTE = "_ethogram/mcp"
EPISODE_GONE = "ethogram_episode_over"
SECONDS = 30.0
MOST_PARENTS = 64
T = TypeVar("T")


class Ended(msgspec.Struct, frozen=True):
    """The answer to a request, on its way to the episode."""

    call: str
    reply: McpReply


class Greeting(msgspec.Struct, frozen=True):
    """What a proxy learns first: whether requests are answered from a trace."""

    offline: bool


_decision = msgspec.json.Decoder(McpDecision)
_settled = msgspec.json.Decoder(Settled)
_greeting = msgspec.json.Decoder(Greeting)


def find_episode(environment: Mapping[str, str] | None = None) -> str | None:
    """The address of the episode that this process belongs to, or None.

    MCP clients start servers with a few variables only, so what is not in our own environment is looked for in that of
    the processes above us. Only processes of the same user can be read, and only where there is a `/proc`.
    """
    own = os.environ if environment is None else environment
    if address := own.get(EPISODE_VARIABLE):
        return address if urlsplit(address).path.strip("/") else None  # of a process with several episodes at once
    process = os.getppid()
    for _ in range(MOST_PARENTS):
        if process <= 1:
            return None
        folder = Path("/proc") / str(process)
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
            status = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        lead = f"{EPISODE_VARIABLE}=".encode()
        for variable in variables:
            if variable.startswith(lead) and len(variable) > len(lead):
                return os.fsdecode(variable[len(lead) :])
        process = int(status.rpartition(")")[2].split()[1])
    return None


class RemoteCalls:
    """A `CallHandler` whose episode is in another process: the run decides about each request and records it."""

    def __init__(self, address: str) -> None:
        """Greet the episode; raises `BadUsage` for an address that is none, or that nobody answers at."""
        parts = urlsplit(address)
        if parts.scheme != "http" or parts.hostname is None:
            raise BadUsage(
                f"{EPISODE_VARIABLE} is not the address of an episode; it looks like http://127.0.0.1:PORT/TOKEN"
            )
        self._host, self._port = parts.hostname, parts.port or 80
        self._path = f"{parts.path.rstrip('/')}/{ROUTE}"
        self._connections = threading.local()
        self.unrecorded = 0
        try:
            self.offline = self._post("hello", b"{}", _greeting).offline
        except (OSError, ValueError) as error:
            raise BadUsage(
                f"the episode of {EPISODE_VARIABLE} does not answer ({type(error).__name__}); it is over, or the "
                "run has ended"
            ) from None

    def begin(self, request: McpRequest) -> McpDecision:
        """Ask the episode; where it does not answer the call is refused, since nobody counts it."""
        try:
            decision: McpDecision = self._post("begin", msgspec.json.encode(request), _decision)
        except (OSError, ValueError):
            return AnswerHere(our_error(EPISODE_GONE, "the run that this agent belongs to no longer takes calls"))
        if isinstance(decision, PassOn):
            self.offline = False
        return decision

    def end(self, call: str, reply: McpReply) -> Settled:
        """Tell the episode; where it does not answer, the client gets what the server said."""
        try:
            return self._post("end", msgspec.json.encode(Ended(call, reply)), _settled)
        except (OSError, ValueError):
            if not self.unrecorded:
                print("ethogram mcp: the episode is over; further answers are not recorded", file=sys.stderr)
            self.unrecorded += 1
            return Settled()

    def _post(self, what: str, body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
        """Ask over the connection of this thread; one that was closed meanwhile is opened anew, once."""
        import http.client

        for fresh in (False, True):
            connection = None if fresh else getattr(self._connections, "one", None)
            if connection is None:
                connection = http.client.HTTPConnection(self._host, self._port, timeout=SECONDS)
                self._connections.one, fresh = connection, True
            try:
                connection.request("POST", f"{self._path}/{what}", body, {"content-type": "application/json"})
                answer = connection.getresponse()
                data = answer.read()
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                self._connections.one = None
                if fresh:
                    raise OSError(str(error)) from error
                continue
            if answer.status != 200:
                raise ValueError(f"HTTP {answer.status}")
            return decoder.decode(data)
        raise OSError("no connection")


def answer_proxy(calls: EpisodeCalls, what: str, body: bytes) -> bytes:
    """The answer of an episode to its proxy: `what` is the last part of the path.

    Raises `BadInput` for a body or a path that no proxy sends.
    """
    answer: Any
    try:
        if what == "hello":
            answer = Greeting(calls.offline)
        elif what == "begin":
            answer = calls.begin(msgspec.json.decode(body, type=McpRequest))
        elif what == "end":
            ended = msgspec.json.decode(body, type=Ended)
            answer = calls.end(ended.call, ended.reply)
        else:
            raise BadInput(f"an episode has no {what!r}; it has hello, begin and end")
    except msgspec.MsgspecError as error:
        raise BadInput(f"not a message of a proxy: {error}") from None
    return msgspec.json.encode(answer)
