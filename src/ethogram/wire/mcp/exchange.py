"""The messages of one session, in both directions: what is passed on, what is answered here. No input or output."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock
from typing import NamedTuple

import msgspec

from .calls import CallHandler, McpReply, McpRequest, PassOn, our_error
from .rpc import RpcMessage, read_messages, reply_to, written

SERVER_ENDED = "ethogram_server_ended"
NOT_JSON = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}'
_HANDSHAKE = ("initialize", "notifications/initialized")


class Passage(NamedTuple):
    """What becomes of a client's message: bytes for the server, bytes for the client, each None for nothing.

    `before` goes to the server first: the handshake that a server has missed which is asked for the first time.
    `asked` are the ids of requests that the server is to answer.
    """

    to_server: bytes | None = None
    to_client: bytes | None = None
    before: tuple[bytes, ...] = ()
    asked: tuple[bytes, ...] = ()


class McpExchange:
    """Follows the messages of one session; what it does not understand passes unchanged and is counted."""

    def __init__(self, server: str, handler: CallHandler | None) -> None:
        """`server` names the server in the trace; without a handler everything passes."""
        self.unreadable = 0
        self._server = server
        self._handler = handler
        self._offline = handler is not None and handler.offline
        self._pending: dict[bytes, str] = {}
        self._handshake: list[bytes] = []
        self._unasked: set[bytes] = set()
        self._lock = Lock()

    def from_client(self, data: bytes) -> Passage:
        """A line or body that the client sent."""
        if self._handler is None:
            return Passage(data)
        try:
            messages, batch = read_messages(data)
        except ValueError:
            self.unreadable += bool(data.strip())
            return Passage(None, NOT_JSON) if self._offline else Passage(data)
        forward: list[bytes] = []
        answers: list[bytes] = []
        was_offline = self._offline
        for message in messages:
            answer = self._asked(message)
            if answer is not None:
                answers.append(answer)
            elif not self._offline:
                forward.append(message.raw)
        to_server = data if len(forward) == len(messages) else written(forward, batch)
        before: tuple[bytes, ...] = ()
        if was_offline and to_server is not None:
            before = tuple(self._handshake)
        asked = tuple([m.id for m in messages if m.is_request and m.id in self._pending])
        return Passage(to_server, written(answers, batch), before, asked)

    def from_server(self, data: bytes) -> bytes | None:
        """A line, body or event that the server sent: what the client gets of it, None for nothing."""
        if self._handler is None:
            return data
        try:
            messages, batch = read_messages(data)
        except ValueError:
            self.unreadable += bool(data.strip())
            return data
        passed = [self._answered(message) for message in messages]
        kept = [raw for raw in passed if raw is not None]
        same = all(raw is message.raw for raw, message in zip(passed, messages, strict=True))
        return data if same else written(kept, batch)

    def end(self, why: str, only: Iterable[bytes] | None = None) -> list[bytes]:
        """No answer comes any more, to any request or `only` to some: gives an error for each that waits for one."""
        with self._lock:
            ids = [i for i in (self._pending if only is None else only) if i in self._pending]
            pending = {i: self._pending.pop(i) for i in ids}
        reply = our_error(SERVER_ENDED, why)
        for call in pending.values():
            self._settle(call, reply)
        return [reply_to(request, reply) for request in pending]

    def _asked(self, message: RpcMessage) -> bytes | None:
        """The answer to a client's message that is known here, or None."""
        assert self._handler is not None
        if self._offline and message.method in _HANDSHAKE:
            self._handshake.append(message.raw)
            if message.id is not None:
                self._unasked.add(message.id)
        if not message.is_request:
            if message.method == "notifications/cancelled":
                self._cancelled(message)
            return None
        assert message.id is not None
        if message.method == "ping":
            return reply_to(message.id, McpReply(result={})) if self._offline else None
        decision = self._handler.begin(McpRequest(server=self._server, method=message.method, params=message.params))
        if isinstance(decision, PassOn):
            self._offline = False
            self._unasked.discard(message.id)
            if message.raw in self._handshake:
                self._handshake.remove(message.raw)
            with self._lock:
                self._pending[message.id] = decision.call
            return None
        return reply_to(message.id, decision.reply)

    def _answered(self, message: RpcMessage) -> bytes | None:
        """A server's message as the client gets it."""
        if not message.is_reply or message.id is None:
            return message.raw
        with self._lock:
            call = self._pending.pop(message.id, None)
        if call is None:
            if message.id in self._unasked:  # the client has the recorded answer to it already
                self._unasked.discard(message.id)
                return None
            return message.raw
        changed = self._settle(call, message.reply)
        return message.raw if changed is None else reply_to(message.id, changed)

    def _cancelled(self, message: RpcMessage) -> None:
        params = message.params if isinstance(message.params, dict) else {}
        with self._lock:
            call = self._pending.pop(msgspec.json.encode(params.get("requestId")), None)
        if call is not None:
            reason = params.get("reason")
            self._settle(
                call, McpReply(error={"code": 0, "message": f"cancelled by the client: {reason or 'no reason given'}"})
            )

    def _settle(self, call: str, reply: McpReply) -> McpReply | None:
        assert self._handler is not None
        return self._handler.end(call, reply).reply
