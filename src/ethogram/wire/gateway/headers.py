"""Headers of calls that are passed on: what belongs to one connection, or to us, stays behind."""

from __future__ import annotations

from collections.abc import Iterable

from ethogram.wire.asgi import Headers

from .compressed_replies import DECODABLE

EPISODE = b"x-ethogram-episode"
EPISODE_VARIABLE = "ETHOGRAM_EPISODE"
"""The variable with the address of the episode, e.g. http://127.0.0.1:40001/<token>: who has it may record into it."""
NO_EPISODE = "none"
"""What calls that belong to no episode say, such as those of a judge: they are forwarded, and count nowhere."""
SPAN = b"x-ethogram-span"
"""The span of its episode in which a call was made."""
PROMPT = b"x-ethogram-prompt-version"
"""The version of the prompt of a call, percent-encoded where it has characters that headers cannot carry."""
_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)


def header(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """The first value of a header."""
    return next((value for key, value in headers if key.lower() == name), None)


def for_upstream(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """A client's headers as they go on: without the host, our own, and those of its connection.

    Codings of the reply that we could not read are not asked for; the rest stays as the client wrote it.
    """
    kept = []
    for name, value in _end_to_end(headers):
        if name == b"host" or name == b"expect" or name.startswith(b"x-ethogram-"):
            continue
        kept.append((name, _decodable(value) if name == b"accept-encoding" else value))
    return kept


def for_client(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """An upstream's headers as they are passed on."""
    return list(_end_to_end(headers))


def _end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> Iterable[tuple[bytes, bytes]]:
    lowered = [(name.lower(), value) for name, value in headers]
    named = {part.strip().lower() for name, value in lowered if name == b"connection" for part in value.split(b",")}
    return [(name, value) for name, value in lowered if name not in _HOP_BY_HOP and name not in named]


def _decodable(value: bytes) -> bytes:
    codings = [coding.strip() for coding in value.split(b",")]
    kept = [coding for coding in codings if coding.partition(b";")[0].strip().lower() in DECODABLE]
    return value if len(kept) == len(codings) else b", ".join(kept) or b"identity"
