"""What a log held when it was read, so that it is known again after it has grown, moved or been compressed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b

import msgspec

from ethogram.errors import Unreadable
from ethogram.traces import digest

from .source import CHUNK, Source

OPENING, CLOSING = b"\xef\xbb\xbf[ \t\r\n", b"]} \t\r\n"
"""What stands before the first record of a document and behind the last one, and changes when a record is added."""
STARTS = tuple(64 << n for n in range(0, 32, 2))
"""The lengths of the starts by which an earlier version is looked for."""


class Content(msgspec.Struct, frozen=True):
    """The unpacked bytes of a log: the hash of all of them, and keyed hashes of those between the outermost brackets
    (`core`, of `size` bytes) and of the longest start among them. Empty where there is too little to tell."""

    digest: str = ""
    size: int = 0
    core: str = ""
    start: str = ""


def content_of(source: Source, mark: Callable[[str], str]) -> tuple[Content, list[str]]:
    """The content of a source, and its starts, the longest first; of damaged bytes nothing is known.

    `mark` is a keyed hash: the start of a log may be a secret that can be guessed.
    """
    state, at, size, core = blake2b(digest_size=16), 0, 0, ""
    starts: list[tuple[int, str]] = []
    opening: list[bytes] = []
    try:
        for chunk in _chunks(source, opening):
            solid, done = len(chunk.rstrip(CLOSING)), 0
            for cut in sorted({solid, len(chunk), *(n - at for n in STARTS if at < n <= at + len(chunk))}):
                state.update(memoryview(chunk)[done:cut])
                done = cut
                if at + cut in STARTS:
                    starts.append((at + cut, state.hexdigest()))
                if cut == solid > 0:
                    size, core = at + cut, state.hexdigest()
            at += len(chunk)
    except Unreadable:
        return Content(), []
    marks = [mark(start) for length, start in reversed(starts) if length <= size]
    whole = digest(state.hexdigest(), *opening)
    return Content(whole, size, mark(core), marks[0]) if marks else Content(whole), marks


def core_of(source: Source, size: int, mark: Callable[[str], str]) -> str:
    """The keyed hash of the first bytes of a source, as it is the `core` of a content of this size."""
    state, left = blake2b(digest_size=16), size
    for chunk in _chunks(source, []):
        state.update(memoryview(chunk)[:left])
        left -= len(chunk)
        if left <= 0:
            break
    return mark(state.hexdigest())


def _chunks(source: Source, opening: list[bytes]) -> Iterator[bytes]:
    """The unpacked bytes behind the opening brackets, which are put into the list."""
    with source.open() as stream:
        while chunk := stream.read(CHUNK):
            if not opening:
                solid = chunk.lstrip(OPENING)
                opening.append(chunk[: len(chunk) - len(solid)])
                chunk = solid
            yield chunk
