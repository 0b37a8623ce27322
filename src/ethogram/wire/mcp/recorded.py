"""An MCP session as a trace has it: its tool calls, and the requests around them that a client needs to begin."""

from __future__ import annotations

from collections import deque
from threading import Lock
from typing import Any

from ethogram.capture.parse import from_json, to_json
from ethogram.traces import Trace, canonical_json, is_marked
from ethogram.wire.gateway.recorded_tools import RecordedTools, Redact

from .calls import McpReply, McpRequest
from .results import FACTS

HELLO = frozenset({"initialize", "server/discover"})
"""Requests that are answered alike for every client: their parameters describe the client."""


class RecordedSession:
    """Answers the requests of a client from a trace: calls of tools once each, other requests as often as asked."""

    def __init__(self, trace: Trace, redact: Redact | None = None) -> None:
        """Read a trace; `redact` is how it was redacted (see `RecordedTools`)."""
        self.tools = RecordedTools(trace, redact)
        self._redact = redact or (lambda value, field: value)
        self._lock = Lock()
        self._replies: dict[tuple[str, str, str], deque[tuple[McpReply, str]]] = {}
        for span in sorted(trace.spans, key=lambda s: s.seq):
            facts = from_json(trace.text(span.attributes)) if span.kind == "other" and span.attributes else None
            facts = facts.get(FACTS) if isinstance(facts, dict) else None
            if not isinstance(facts, dict) or (span.result is None and "error" not in facts):
                continue
            result = None if span.result is None else trace.text(span.result)
            reply = McpReply(error=facts["error"]) if result is None else McpReply(result=from_json(result))
            unusable = "" if result is None else _unusable(span.name, result, reply)
            asked = "" if span.arguments is None or span.name in HELLO else canonical_json(trace.text(span.arguments))
            server = str(facts.get("server", ""))
            self._replies.setdefault((server, span.name, asked), deque()).append((reply, unusable))
        self._servers = {server for server, _, _ in self._replies}

    def reply(self, request: McpRequest) -> tuple[McpReply, str] | None:
        """The recorded answer to a request that calls no tool, and why it cannot be used; None if there is none."""
        asked = (
            "" if request.method in HELLO else canonical_json(self._redact(params_text(request.params), "arguments"))
        )
        stored = self._redact(request.server, "attributes")
        server = stored if stored in self._servers or len(self._servers) != 1 else next(iter(self._servers))
        with self._lock:
            replies = self._replies.get((server, request.method, asked))
            if not replies:
                return None
            return replies.popleft() if len(replies) > 1 else replies[0]

    def difference(self, request: McpRequest) -> str:
        """Why a request that calls no tool has no answer."""
        known = sorted({method for _, method, _ in self._replies})
        if len(self._servers) > 1 and self._redact(request.server, "attributes") not in self._servers:
            return f"the trace has the servers {', '.join(sorted(self._servers))}, and none of them is {request.server}"
        if request.method in known:
            return f"{request.method} was recorded with other parameters than {params_text(request.params)}"
        return f"the trace has no {request.method}; it has {', '.join(known) or 'no request of an MCP client'}"


def params_text(params: Any) -> str:
    """The parameters of a request as they are stored: without what describes the client and this one request."""
    return to_json({k: v for k, v in params.items() if k != "_meta"} if isinstance(params, dict) else params or {})


def _unusable(method: str, result: str, reply: McpReply) -> str:
    """Why a stored answer cannot be given. Marks in descriptions of tools do not hinder: they are no observation."""
    if reply.result is None:
        return "its answer was not stored whole"
    described = method in HELLO or method.endswith("/list")
    return "its answer was redacted when it was stored" if is_marked(result) and not described else ""
