"""What an episode used and took, each rule once: its tokens, its seconds, what the harness could not count, and whether
a model stopped at a length limit."""

from __future__ import annotations

from typing import Protocol

from .span import Param

TOKEN_PARTS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens")
"""Counts whose sum is all tokens; reasoning is part of the output."""

LENGTH_STOPS = frozenset({"length", "maxtokens", "maxoutputtokens", "tokenlimit", "modellength", "contextlength"})
"""Stop reasons of a reply that was cut off, as letters alone."""


class TokenCounts(Protocol):
    """What counts tokens: a span, a call that is being recorded, or totals; input tokens are fresh ones."""

    @property
    def input_tokens(self) -> int | None:
        """Fresh input."""
        ...

    @property
    def cache_read_tokens(self) -> int | None:
        """Input read from a cache."""
        ...

    @property
    def cache_write_tokens(self) -> int | None:
        """Input written to a cache."""
        ...

    @property
    def output_tokens(self) -> int | None:
        """Output, reasoning included."""
        ...


def tokens_of(counted: TokenCounts) -> int | None:
    """All tokens: the sum of the counts that are known; None where none is."""
    fresh, cached = counted.input_tokens, counted.cache_read_tokens
    written, output = counted.cache_write_tokens, counted.output_tokens
    if fresh is cached is written is output is None:
        return None
    return (fresh or 0) + (cached or 0) + (written or 0) + (output or 0)


def seconds_between(start_ns: int | None, end_ns: int | None, stated: Param = None) -> float | None:
    """How long an episode took: from its start to its end, else what the log states; None where neither is known.

    An end before the start is no duration.
    """
    if start_ns is not None and end_ns is not None and end_ns >= start_ns:
        return (end_ns - start_ns) / 1e9
    if isinstance(stated, int | float) and not isinstance(stated, bool) and 0 <= stated < float("inf"):
        return float(stated)
    return None


def is_unmetered(resources: Param, figure: str) -> bool:
    """Whether a part of a figure (`cost_usd`, `tokens`, `input_tokens`, …) was not counted, so that the rest would be
    read as the whole; `resources` is what a trace keeps under `UNMETERED`."""
    resource = "usd" if figure == "cost_usd" else "tokens" if figure.endswith("tokens") else None
    return resource is not None and resource in str(resources or "").split(",")


def is_length_stop(reason: str | None) -> bool:
    """Whether a stop reason says that a reply was cut off at a length limit; `MAX_TOKENS` and `maxTokens` are one."""
    return reason is not None and "".join(c for c in reason.lower() if c.isalpha()) in LENGTH_STOPS
