"""A request of an MCP client as recorders and transports see it, and the port that decides about it."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

CALL = "tools/call"
OURS = -32000
"""The code of errors that the proxy answers with: the first that JSON-RPC leaves to implementations."""


class McpError(Exception):
    """A request that was answered with an error of JSON-RPC instead of a result."""


class McpRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a client asks; `server` names the server that it asks, as the user started it."""

    server: str
    method: str
    params: Any = None

    @property
    def tool_call(self) -> tuple[str, dict[str, Any]] | None:
        """Tool and arguments, where the request is a call of a tool."""
        params = self.params
        if self.method != CALL or not isinstance(params, dict) or not isinstance(name := params.get("name"), str):
            return None
        arguments = params.get("arguments")
        if arguments is None:
            return name, {}
        return (name, arguments) if isinstance(arguments, dict) else None


class McpReply(msgspec.Struct, frozen=True, kw_only=True):
    """A result or an error; the other one is not set."""

    result: Any = msgspec.UNSET
    error: Any = msgspec.UNSET


class PassOn(msgspec.Struct, frozen=True, tag="pass on"):
    """The server is to answer; `call` is named again when it has."""

    call: str


class AnswerHere(msgspec.Struct, frozen=True, tag="answer"):
    """The answer is known here; the server is not asked."""

    reply: McpReply


class Settled(msgspec.Struct, frozen=True):
    """The server's answer was recorded; the client gets `reply` instead of it, where there is one."""

    reply: McpReply | None = None


McpDecision = PassOn | AnswerHere


class CallHandler(Protocol):
    """Records the requests of one session and decides about each. Used from several threads."""

    offline: bool
    """Whether requests are answered from a trace, so that no server is needed."""

    def begin(self, request: McpRequest) -> McpDecision:
        """A client asks; called before the server sees it."""
        ...

    def end(self, call: str, reply: McpReply) -> Settled:
        """The server has answered a request that was passed on; called before the client sees it."""
        ...


def our_error(kind: str, message: str) -> McpReply:
    """An error of ours: its kind is in the message, for models read that, and in its data, for programs."""
    return McpReply(error={"code": OURS, "message": f"{kind}: {message}", "data": {"kind": kind}})
