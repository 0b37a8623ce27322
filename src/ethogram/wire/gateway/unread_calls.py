"""Calls that are forwarded without being read: which of them may have cost something."""

from __future__ import annotations

from contextlib import suppress

from .compressed_replies import decoder_of
from .connections import UpstreamReply
from .headers import header
from .refusals import CallOutcomes, refusal_of
from .upstream_http import UpstreamFailed
from .upstreams import Upstream

_FREE = frozenset(
    {
        b"batch",  # telemetry of command-line agents: /api/event_logging/batch
        b"cancel",
        b"count_tokens",
        b"files",
        b"input_tokens",
        b"moderations",
        b"tokenize",
        b"uploads",
    }
)
"""Last parts of paths to which clients post without anything being generated."""
MOST_ERROR = 1 << 16
"""Bytes of an error that are read."""


def may_cost(method: str, path: bytes) -> bool:
    """Whether a call that was not read may have used a model; embeddings, batches and unknown APIs may have."""
    if method != "POST":
        return False
    last = path.rstrip(b"/").rpartition(b"/")[2].lower()
    last = last.rpartition(b":")[2]  # models/gemini-pro:countTokens
    return last not in _FREE and last != b"counttokens"


class UnreadOutcome:
    """Whose fault a call is that was forwarded without being read, once its reply has passed."""

    def __init__(self, outcomes: CallOutcomes, upstream: Upstream, path: bytes) -> None:
        """`outcomes` are those of its episode; nothing came back yet."""
        self.outcomes, self._upstream, self._path = outcomes, upstream, path

    async def read(self, reply: UpstreamReply) -> bytes:
        """Read an error before any of it is passed on, for the client may act at once; gives what was read of it."""
        body = bytearray()
        try:
            while reply.status >= 400 and len(body) < MOST_ERROR and (chunk := await reply.read()):
                body += chunk
        finally:
            self._tell(reply, bytes(body))
        return bytes(body)

    def failed(self, error: UpstreamFailed) -> None:
        """No reply came."""
        refusal = refusal_of(self._upstream, None, [], b"", unsent=error.unsent, why=str(error))
        assert refusal is not None
        self.outcomes.refused(refusal, self._path)

    def _tell(self, reply: UpstreamReply, coded: bytes) -> None:
        decoder, body = decoder_of(header(reply.headers, b"content-encoding")), b""
        with suppress(ValueError):  # its status says enough
            body = decoder.decode(coded) if decoder is not None else b""
        refusal = refusal_of(self._upstream, reply.status, reply.headers, body)
        if refusal is None:
            self.outcomes.reached(self._path)
        else:
            self.outcomes.refused(refusal, self._path)
