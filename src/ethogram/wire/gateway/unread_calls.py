"""Calls that are forwarded without being read: which of them may have cost something."""

from __future__ import annotations

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


def may_cost(method: str, path: bytes) -> bool:
    """Whether a call that was not read may have used a model; embeddings, batches and unknown APIs may have."""
    if method != "POST":
        return False
    last = path.rstrip(b"/").rpartition(b"/")[2].lower()
    last = last.rpartition(b":")[2]  # models/gemini-pro:countTokens
    return last not in _FREE and last != b"counttokens"
