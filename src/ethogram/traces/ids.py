"""Stable ids: each one names the hash that made it, so that the hash may change one day."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import NewType

TraceId = NewType("TraceId", str)
SpanId = NewType("SpanId", str)
EpisodeId = NewType("EpisodeId", str)
Ref = NewType("Ref", str)
"""The content address of a text: `b2:` and 32 hex digits of BLAKE2b."""

ALGORITHM = "b2:"
_BYTES = 16
_SHORT = 200


def digest(*parts: str | bytes) -> str:
    """Hash parts so that no two different lists of parts give the same bytes."""
    whole: list[bytes] = []
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        whole += (len(data).to_bytes(8, "little"), data)
    return ALGORITHM + blake2b(b"".join(whole), digest_size=_BYTES).hexdigest()


def text_ref(body: str) -> Ref:
    """The address of a text is the hash of its UTF-8 bytes alone, so that anyone can re-derive it."""
    return _short_ref(body) if len(body) <= _SHORT else _text_ref(body)


def _text_ref(body: str) -> Ref:
    return Ref(ALGORITHM + blake2b(body.encode("utf-8", "surrogatepass"), digest_size=_BYTES).hexdigest())


_short_ref = lru_cache(maxsize=4096)(_text_ref)
"""Names of tools, answers of one word and reasons of checks come again and again."""


def trace_id(*parts: str) -> TraceId:
    """A trace is named by where it came from."""
    return TraceId(digest("trace", *parts))


def episode_id(*parts: str) -> EpisodeId:
    """An episode is named by what was asked: it stays the same when its trace is superseded."""
    return EpisodeId(digest("episode", *parts))


def short_id(known: str, digits: int = 12) -> str:
    """As much of an id as it takes to find it: commands take the start of one.

    >>> short_id("b2:0123456789abcdef0123456789abcdef")
    '0123456789ab'
    """
    return known.removeprefix(ALGORITHM)[:digits]
