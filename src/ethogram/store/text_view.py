"""One text as detectors of secrets read it: ASCII bytes of the same length, with earlier marks blanked with NUL."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

TextRange = tuple[int, int]

LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
DIGITS = b"0123456789"
NAME = LETTERS + DIGITS + b"_-"
HEX = DIGITS + b"abcdef"
PLAIN = HEX + b"-:.TZ+/="
_LONG_HEX = 32  # twelve bytes and their name
_RUN = 20  # no provider's token is shorter
_LONG_RUN = b"w" * _RUN
TAIL = re.compile(rb"[-_.](?<=([A-Za-z0-9]{2}[-_.]))")
# Typographic spaces and hyphens that models and web pages put into numbers; one character each, so offsets hold.
_FOLDED = dict(zip("\u00a0\u202f\u2009\u2010\u2011\u2012\u2013\u2018\u2019\u201c\u201d", b"   ----''\"\"", strict=True))
# Letters and digits in other clothes: full-width, mathematical, circled.
_ORNATE = "\uff01-\uff5e\U0001d400-\U0001d7ff\u2460-\u24ff\u2070-\u209c\u2100-\u214e\U0001f130-\U0001f189"
_WIDTHLESS = "\u00ad\u034f\u061c\u180e\u200b-\u200f\u2060-\u2064\ufeff"
_ODD = re.compile("[" + "".join(_FOLDED) + _ORNATE + _WIDTHLESS + "]")
_UNSEEN = re.compile("[" + _WIDTHLESS + "]")
_ESCAPED = re.compile(rb"\\[nrt]")
_UNESCAPED = {rb"\n": b"\r\n", rb"\r": b"\r\r", rb"\t": b"\t\t"}
UNSEEN = b"\x01"
"""Stands for a character that takes no room."""


@lru_cache(maxsize=2048)
def _plain(odd: str) -> int:
    """The ASCII character that an odd one stands for; itself as `?` where there is none."""
    if odd in _FOLDED:
        return _FOLDED[odd]
    if _UNSEEN.match(odd):
        return UNSEEN[0]
    plain = unicodedata.normalize("NFKC", odd)
    return ord(plain) if len(plain) == 1 and plain.isascii() else ord("?")


def _classes(groups: dict[bytes, bytes], other: bytes) -> bytes:
    table = bytearray(other * 256)
    for members, becomes in groups.items():
        for byte in members:
            table[byte] = becomes[0]
    return bytes(table)


_TOKEN_CLASS = _classes({NAME + b".:/=~%+": b"w"}, b" ")
_SHAPE_CLASS = _classes({DIGITS: b"0", LETTERS + b"_\0": b"a"} | {bytes([c]): bytes([c]) for c in b" -./()+#"}, b",")


class View:
    """One text, seen in the ways that detectors read it; `raw`, `low` and `shape` have the text's own offsets."""

    __slots__ = ("classes", "hexes", "low", "raw", "runs", "shape", "tails")

    def __init__(self, raw: bytes) -> None:
        """Each view is one pass in C; what it saves is a pass for each detector."""
        self.raw = raw
        self.low = raw.lower()
        self.classes = classes = raw.translate(_TOKEN_CLASS)
        # The long runs alone, each once: the only places where a provider's token can be. Order does not matter,
        # and runs without any letter beyond f, such as hashes, ids and times, have no prefix to find.
        runs = set(_long_runs(raw, classes))
        self.runs = b"\n".join([run for run in runs if run.strip(PLAIN)])
        self.hexes = b"\n".join([run for run in runs if len(run) >= _LONG_HEX])
        # The last letters before each separator in those runs: most prefixes end so, and one look finds them all.
        self.tails = set(TAIL.findall(self.runs))
        self.shape = raw.translate(_SHAPE_CLASS)

    def before(self, pos: int, size: int) -> bytes:
        """Up to `size` lower-case bytes left of `pos`, never looking past a mark."""
        return self.low[max(0, pos - size) : pos].rpartition(b"\0")[2]


def _long_runs(raw: bytes, classes: bytes) -> Iterator[bytes]:
    """Runs of a token's characters; a search for one character many times leaps over short ones."""
    end = 0
    while (start := classes.find(_LONG_RUN, end)) >= 0:
        end = classes.find(b" ", start)
        end = len(classes) if end < 0 else end
        yield raw[start:end]


def _folded(error: UnicodeError) -> tuple[str, int]:
    """What stands for a stretch of characters beyond ASCII, one for each."""
    assert isinstance(error, UnicodeEncodeError)
    odd = error.object[error.start : error.end]
    if _ODD.search(odd) is None:
        return "?" * len(odd), error.end
    return "".join([chr(_plain(each)) if _ODD.match(each) else "?" for each in odd]), error.end


# So the encoder itself finds the characters that need a look, and the rest of a text costs nothing.
codecs.register_error("ethogram.folded", _folded)


def as_bytes(text: str) -> bytes:
    """The text as one ASCII byte per character, wide and ornate letters plain; an escaped line break is a real one."""
    raw = text.encode("ascii", "ethogram.folded")
    return _ESCAPED.sub(_unescaped, raw) if b"\\" in raw else raw


def _unescaped(match: re.Match[bytes]) -> bytes:
    return _UNESCAPED[match[0]]
