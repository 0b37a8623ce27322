"""Secrets in disguise: encoded, escaped, dumped, coloured, spaced out, in pieces of a stream, broken over lines.
What is hidden is written plainly beside the text, and read by the same detectors.

Each disguise has a cheap test that ordinary text fails. Where it does not, a window of the text is written out as it
would read without the disguise, and every part of the window remembers where it stood. All windows of a text are
joined to one, with NUL between them, which no pattern crosses: so the detectors run once more, and no oftener.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from itertools import accumulate, pairwise
from typing import NamedTuple

from .lookalikes import is_mixed
from .text_view import PLAIN, UNSEEN, View

LEFT, RIGHT = 72, 200
"""How much plain text around a disguise is read with it: a name before it, and the rest of a token behind it."""
_SHORTEST = 20

# Characters that are written as several, each by its sign; the last ones take no room at all.
_CODES = (
    (b"%", re.compile(rb"%(?:25)*([2-7][0-9A-Fa-f])")),
    (b"\\", re.compile(rb"\\(?:x|u(?:00|\{0{0,4}))([2-7][0-9A-Fa-f])\}?")),
    (b"&", re.compile(rb"&#(?:[xX]0*([2-7][0-9A-Fa-f])|0*(\d{2,3}));")),
)
_UNSEEN = re.compile(UNSEEN + b"+")
_TOKEN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:/=~+-@")
_GAP = 200

# A secret goes on in the next line, perhaps behind an indent, a quotation mark or a sign of continuation. One of the
# two parts is long, and what stands at the break is no mark of punctuation: so most lines are passed over in one look.
# Classes are written out, since `\w` is slower; and an indent has an end, since a text may be made of indents.
_PART, _EDGE = rb"[A-Za-z0-9_+/=.%-]", rb"[A-Za-z0-9_+/=-]"
_PARTS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+/=.%-"
_INDENT = rb"[ \t\r\n>|#*+\"'`]{0,200}+"
# What the next line begins with has a digit, or a small letter and a capital behind it: most lines fail here, so it is
# asked first, and reads each character once.
_GOES_ON = b"(?=" + _INDENT + b"(?=" + _PART + rb"{4})(?:[A-Z_+/=.%-]++|[a-z]++(?![A-Z]))*+[a-z\d])"


def _broken(before: bytes) -> bytes:
    """A break behind a part of a token and `before`: eight characters, or four and twelve more."""
    four, eight = (b"(?<=" + _PART + size + _EDGE + before + rb"\n)" for size in (b"{3}", b"{7}"))
    return four + b"(?>" + eight + _INDENT + b"|" + _INDENT + b"(?=" + _PART + b"{12}))"


_BEFORE = (b"", rb"[\"'\\\r]", rb" \\", rb"[\"'] [+\\]")
_HASH = b"(?:(?=(?P<hash>[0-9a-f.TZ+/=-]{32,}+)(?!" + _PART + b")))?"
_BREAK = re.compile(
    rb"\n(?<=[A-Za-z0-9_+/=\-\"'\\\r]\n)" + _GOES_ON + b"(?:" + b"|".join(map(_broken, _BEFORE)) + b")" + _HASH
)
_WORD = re.compile(_PART + b"*+")
_MARKS = b"\"'`\\ +=\r"
_MOST_LINES = 12
_PLUS = ord("+")
_SEPARATORS = b"-_."
_PREFIX = re.compile(rb"[g-zG-Z][A-Za-z0-9]*+[-_]")
_BLOCK = 60

# Characters one by one, with something else between them: every second byte of a stretch is a space.
_ONE_BY_ONE = re.compile(rb"(?<!w)w(?: {1,2}w){8,}(?!w)")
_BLANKS, _SINGLES = b" " * 16, b"w" * 16
_STRETCH = 4096
_CLASS = re.compile(rb"w+")

# Groups of four digits of base64 that can only be printable ASCII; chance gives five of them once in a million.
_QUANTUM = rb"[I-Za-f][C-HS-Xi-nyz0-3][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9_+/-]"
_BASE64 = re.compile(_QUANTUM * 5 + rb"[\w+/-]*+={0,2}")
_PACKED = re.compile(rb"H4sI[\w+/-]{20,}+={0,2}")
_WHOLE = re.compile(rb"[\w+/\r\n-]{24,}={0,2}\s*")
_HEX = re.compile(rb"(?:[2-7][0-9A-Fa-f]|0[9aAdD]){12,}+(?![0-9A-Fa-f]{2})")
_BASE32 = re.compile(rb"[A-Z2-7]{24,}+={0,6}")
_IN_BASE32 = bytes(ord("A") if byte in b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567" else ord(" ") for byte in range(256))
_ALL_BASE32 = b"A" * 24
_GZIP = b"\x1f\x8b"
_MOST_UNPACKED = 1 << 20
_DEEPEST = 3

# Colours of a terminal, as they are or as JSON and Python write them.
_COLOUR = re.compile(rb"(?:\x1b|\\u001b|\\x1b)\[[0-9;]{0,20}[A-Za-z]")

# Lines of a dump (`xxd`, `hexdump -C`): an offset, up to sixteen bytes in hex, and perhaps what can be printed of them.
_DUMPED = re.compile(rb"^[ \t|]*[0-9A-Fa-f]{6,8}:? {1,2}((?:[0-9A-Fa-f]{2,4} {1,2}){1,16}+)[^\n]*\n?", re.MULTILINE)
_FIRST_LINE = b"00000000"
_DUMPED_BYTES = 16

# Short strings one after another, under a name of a stream's or each in a numbered line of its own.
_STREAMED = re.compile(
    rb"\"(?:content|text|delta|partial_json|arguments|thinking)\": ?(\")((?:\r\n|[^\"\\\n]|\\.){0,80}+)\"|"
    rb"(?:(?<=hunk [0-9]: )|(?<=hunk [0-9]{2}: )|(?<=hunk [0-9]{3}: ))(['\"])((?:\r\n|(?!\3)[^\\\n]|\\.){0,80}+)\3$",
    re.MULTILINE,
)
_APART, _FEWEST = 600, 3
_LONG = 1024
_PRINTABLE = bytes(range(32, 127)) + b"\t\n\r"
_IS_ODD = bytes(byte not in _PRINTABLE for byte in range(256))
_VISIBLE = bytes(byte if byte in _PRINTABLE else ord("?") for byte in range(256))
_TO_PLAIN = bytes.maketrans(b"-_", b"+/")


class Piece(NamedTuple):
    """A part of a window and where it stood: as it is, as one character (`code`), or in base64 (`base64`)."""

    text: bytes
    start: int
    end: int
    form: str = "plain"

    def origin(self, offset: int) -> tuple[int, int]:
        """Where a character of it stood."""
        if self.form == "plain":
            return self.start + offset, self.start + offset + 1
        if self.form == "code":
            return self.start, self.end
        quantum = self.start + 4 * (offset // 3)
        return quantum, min(self.end, quantum + 4)


_BETWEEN = Piece(b"\n\0\n", 0, 0)
"""Behind a window and before the next: a token may end or begin there, and none goes across."""


class TextWindows:
    """Windows of one text, written out; `bounds` of a hit in them are those of the original."""

    def __init__(self) -> None:
        self._pieces: list[Piece] = []
        self._at: list[int] = []
        self._joins: list[int] = []
        self._size = 0
        self.add([])

    def __bool__(self) -> bool:
        return len(self._pieces) > 1

    def add(self, pieces: list[Piece], *, joined: bool = False) -> None:
        """A window; `joined` means that each piece stood in a line of its own."""
        at = list(accumulate((len(piece.text) for piece in (*pieces, _BETWEEN)), initial=self._size))
        self._at.extend(at[:-1])
        if joined:
            self._joins.extend(at[1:-2])
        self._pieces.extend(pieces)
        self._pieces.append(_BETWEEN)
        self._size = at[-1]

    def text(self) -> bytes:
        """All windows, with NUL between them."""
        return b"".join(piece.text for piece in self._pieces)

    def bounds(self, start: int, end: int) -> tuple[int, int]:
        """Where a hit stands in the original."""
        return self._origin(start)[0], self._origin(end - 1)[1]

    def _origin(self, at: int) -> tuple[int, int]:
        number = bisect_right(self._at, at) - 1
        return self._pieces[number].origin(at - self._at[number])

    def is_disguised(self, start: int, end: int, text: bytes) -> bool:
        """Whether something of a hit was written otherwise; and if lines were joined, what follows looks like more
        of the same, and not like the first word of the next line."""
        number = bisect_right(self._joins, end - 1) - 1
        if number >= 0 and self._joins[number] > start:
            return is_mixed(text[self._joins[number] : end]) and text[end : end + 1] not in (b"=", b":", b"(")
        low, high = self.bounds(start, end)
        return high - low != end - start


def readings(raw: bytes, view: View) -> TextWindows:
    """A text without its disguises, where it has any; `raw` is the text as detectors read it."""
    found = TextWindows()
    units = _units(raw)
    if units:
        _decoded(found, raw, units)
    if b"\n" in raw:
        _lines(found, raw)
    _spaced(found, raw, view.classes)
    if _FIRST_LINE in raw:
        _dumped(found, raw)
    if b'"delta":' in raw or b"hunk 1: " in raw:
        _streamed(found, raw)
    for match in _HEX.finditer(view.hexes):
        _whole_run(found, raw, match[0], bytes.fromhex(match[0].decode()))
    runs = view.runs
    for piece in set(_BASE32.findall(runs)) if _ALL_BASE32 in runs.translate(_IN_BASE32) else ():
        bare = piece.rstrip(b"=")
        bare = bare[: len(bare) - (len(bare) % 8 in (1, 3, 6))]  # it may be cut off inside a byte
        _whole_run(found, raw, piece, base64.b32decode(bare + b"=" * (-len(bare) % 8)))
    if len(runs) > 4 * _LONG:  # what is text at all is text from its beginning
        runs = b"\n".join([run[:_LONG] for run in runs.split(b"\n")])
    packed = _PACKED.findall(runs) if b"H4sI" in runs else []
    for piece in {*_BASE64.findall(runs), *packed}:
        _encoded(found, raw, piece)
    return found


def _units(raw: bytes) -> list[Piece]:
    """Codes and characters without width, in order."""
    units: list[Piece] = []
    for sign, code in _CODES:
        if sign in raw:
            for match in code.finditer(raw):
                value = int(match[1], 16) if match[1] else int(match[2])
                if value in _TOKEN:
                    units.append(Piece(bytes([value]), *match.span(), "code"))
    if UNSEEN in raw:
        units += [Piece(b"", *match.span(), "code") for match in _UNSEEN.finditer(raw)]
    if b"\x1b" in raw or (b"\\" in raw and b"1b[" in raw):
        units += [Piece(b"", *match.span(), "code") for match in _COLOUR.finditer(raw)]
    return sorted(units, key=lambda unit: unit.start) if len(units) > 1 else units


def _decoded(found: TextWindows, raw: bytes, units: list[Piece]) -> None:
    """A window around units that lie close together."""
    edges = [i for i, (one, two) in enumerate(pairwise(units), 1) if two.start - one.end > _GAP]
    for first, last in pairwise([0, *edges, len(units)]):
        region = units[first:last]
        at, stop = max(0, region[0].start - LEFT), min(len(raw), region[-1].end + RIGHT)
        if last < len(units):
            stop = min(stop, units[last].start)
        pieces = []
        for unit in region:
            if at < unit.start:
                pieces.append(Piece(raw[at : unit.start], at, unit.start))
            if unit.text:
                pieces.append(unit)
            at = unit.end
        found.add([*pieces, Piece(raw[at:stop], at, stop)])


def _lines(found: TextWindows, raw: bytes) -> None:
    """Words that are broken over two lines or more, if together they are as long as a token."""
    last = -1
    for match in _BREAK.finditer(raw):
        line, at = match.span()
        if line < last:
            continue
        left = max(0, line - RIGHT)
        before = raw[left:line].rstrip(_MARKS)
        first = before[len(before.rstrip(_PARTS)) :]
        if match.lastindex and not _PREFIX.search(first):
            continue  # a name and a hash, or two hashes
        word = _WORD.match(raw, at, at + 4 * RIGHT)
        if word is None:
            continue
        stop = left + len(before)
        # A plus sign at the break is a digit if these are lines of base64.
        low, high = at - (raw[at - 1] == _PLUS), stop + (raw[stop] == _PLUS)
        if _are_base64(raw[stop - len(first) : high], raw[low : word.end()]) or not is_mixed(word[0]):
            continue
        spans = [(stop - len(first), stop), *_following(raw, match)]
        last = spans[-1][0]
        if sum(high - low for low, high in spans) >= _SHORTEST:
            whole = [(max(0, spans[0][0] - LEFT), stop), *spans[1:-1], (last, min(len(raw), spans[-1][1] + 8))]
            found.add([Piece(raw[low:high], low, high) for low, high in whole], joined=True)


def _following(raw: bytes, first: re.Match[bytes]) -> Iterator[tuple[int, int]]:
    """The first words of the lines that follow, for as long as one goes to the end of its line."""
    at: re.Match[bytes] | None = first
    for _ in range(_MOST_LINES):
        if at is None:
            return
        word = _WORD.match(raw, at.end(), at.end() + 4 * RIGHT)
        end = word.end() if word else at.end()
        yield at.end(), end
        line = raw.find(b"\n", end, end + 5)
        at = _BREAK.match(raw, line) if line >= 0 else None


def _are_base64(one: bytes, two: bytes) -> bool:
    """Lines of a file: no token has been broken there."""
    return len(one) == len(two) >= _BLOCK and len((one + two).translate(None, _SEPARATORS)) == 2 * len(one)


def _spaced(found: TextWindows, raw: bytes, classes: bytes) -> None:
    """Characters with spaces between them: in a stretch of them every second byte is a space, and every other is not.

    Both halves are searched in turn, each from where the other was found, and a search for one character many times
    leaps over what is shorter.
    """
    even, odd = classes[::2], classes[1::2]
    for parity, blanks, words in ((0, even, odd), (1, odd, even[1:])):
        at = 0
        while (at := blanks.find(_BLANKS, at)) >= 0 and (word := words.find(_SINGLES, at)) >= 0:
            if word > at and not blanks.startswith(_BLANKS, word):
                at = word
                continue
            place = 2 * word + parity
            match = _ONE_BY_ONE.search(classes, max(0, place - 2), place + _STRETCH)
            if match is not None:
                _collapsed(found, raw, classes, *match.span())
            at = max(word + 1, match.end() // 2 if match else 0)


def _collapsed(found: TextWindows, raw: bytes, classes: bytes, start: int, end: int) -> None:
    if not raw[start:end].strip(PLAIN + b" \n\r\t,"):
        return  # a dump of bytes, or a table of numbers
    low, high = max(0, start - LEFT), min(len(raw), end + 1)
    words = [Piece(raw[m.start() : m.end()], *m.span()) for m in _CLASS.finditer(classes, start, end)]
    found.add([Piece(raw[low:start], low, start), *words, Piece(raw[end:high], end, high)])


def _dumped(found: TextWindows, raw: bytes) -> None:
    """Consecutive lines of a dump of bytes are one text."""
    lines: list[Piece] = []
    for match in _DUMPED.finditer(raw):
        if lines and lines[-1].end != match.start():
            found.add(lines)
            lines = []
        digits = match[1].translate(None, b" ")[: 2 * _DUMPED_BYTES]
        said = bytes.fromhex(digits[: len(digits) // 2 * 2].decode())
        lines.append(Piece(said.translate(_VISIBLE), *match.span(), "code"))
    if lines:
        found.add(lines)


def _streamed(found: TextWindows, raw: bytes) -> None:
    """Three short strings or more, near one another, are pieces of one text."""
    pieces: list[Piece] = []
    for match in _STREAMED.finditer(raw):
        group = 2 if match[1] else 4
        if pieces and match.start() - pieces[-1].end > _APART:
            if len(pieces) >= _FEWEST:
                found.add(pieces)
            pieces = []
        pieces.append(Piece(match[group], *match.span(group)))
    if len(pieces) >= _FEWEST:
        found.add(pieces)


def _unpacked(said: bytes) -> bytes:
    """What was encoded again, or packed before it was encoded; the bytes themselves where they are neither."""
    for _ in range(_DEEPEST):
        if said.startswith(_GZIP):
            with suppress(zlib.error):
                said = zlib.decompressobj(wbits=31).decompress(said, _MOST_UNPACKED)
                continue
            return b""
        if _WHOLE.fullmatch(said) is None:
            break
        bare = said.translate(_TO_PLAIN, b"\r\n =")
        inner = base64.b64decode(bare + b"=" * (-len(bare) % 4)) if len(bare) % 4 != 1 else said
        if inner.translate(None, _PRINTABLE) and not inner.startswith(_GZIP):
            break  # it is a word of letters, and encodes nothing
        said = inner
    return said


def _whole_run(found: TextWindows, raw: bytes, piece: bytes, said: bytes) -> None:
    """A run that says something else: what is found in that stands for all of the run."""
    said = _unpacked(said)
    if not said or said.translate(None, _PRINTABLE):
        return
    at = raw.find(piece)
    while at >= 0:
        low, end = max(0, at - LEFT), at + len(piece)
        found.add([Piece(raw[low:at], low, at), Piece(said, at, end, "code")])
        at = raw.find(piece, end)


def _encoded(found: TextWindows, raw: bytes, piece: bytes) -> None:
    """Base64 of text: what it says, wherever it stands."""
    bare = piece.rstrip(b"=").translate(_TO_PLAIN)
    try:
        said = base64.b64decode(bare + b"=" * (-len(bare) % 4))
    except (binascii.Error, ValueError):
        return
    inner = _unpacked(said)
    if inner != said:
        _whole_run(found, raw, piece, inner)
        return
    odd = said.translate(_IS_ODD).find(1)
    said = said if odd < 0 else said[:odd]
    if len(said) < _DUMPED_BYTES - 1:
        return
    piece = piece if odd < 0 else piece[: 4 * (odd // 3)]
    at = raw.find(piece)
    while at >= 0:
        low, end = max(0, at - LEFT), at + len(piece)
        found.add([Piece(raw[low:at], low, at), Piece(said, at, end, "base64")])
        at = raw.find(piece, end)
