"""The codes of a PDF font: which character each of them shows, and which codes can be written with it."""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

_PUNCTUATION = {
    "space": " ", "exclam": "!", "quotedbl": '"', "numbersign": "#", "dollar": "$", "percent": "%", "ampersand": "&",
    "quotesingle": "'", "parenleft": "(", "parenright": ")", "asterisk": "*", "plus": "+", "comma": ",", "hyphen": "-",
    "period": ".", "slash": "/", "colon": ":", "semicolon": ";", "less": "<", "equal": "=", "greater": ">",
    "question": "?", "at": "@", "bracketleft": "[", "backslash": "\\", "bracketright": "]", "asciicircum": "^",
    "underscore": "_", "grave": "`", "braceleft": "{", "bar": "|", "braceright": "}", "asciitilde": "~",
    "quoteright": "’", "quoteleft": "‘", "quotedblleft": "“", "quotedblright": "”", "endash": "–", "emdash": "—",
    "bullet": "•", "fi": "ﬁ", "fl": "ﬂ", "ff": "ﬀ", "Euro": "€", "degree": "°", "germandbls": "ß", "minus": "−",
    "zero": "0", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7",
    "eight": "8", "nine": "9", "nbspace": "\u00a0",
}  # fmt: skip
_ACCENTS = {
    "acute": "\u0301", "grave": "\u0300", "circumflex": "\u0302", "dieresis": "\u0308", "tilde": "\u0303",
    "cedilla": "\u0327", "ring": "\u030a", "caron": "\u030c",
}  # fmt: skip
_UNREADABLE = ("Symbol", "ZapfDingbats", "Wingdings", "Webdings")


def glyph_char(name: str) -> str | None:
    """The character of a glyph by its name."""
    name = name.partition(".")[0]
    if name in _PUNCTUATION:
        return _PUNCTUATION[name]
    if len(name) == 1 and name in string.ascii_letters:
        return name
    found = re.fullmatch(r"(?:uni|u)([0-9A-F]{4,6})", name)
    if found:
        return chr(int(found[1], 16)) if int(found[1], 16) < 0x110000 else None
    for accent, mark in _ACCENTS.items():
        if name.endswith(accent) and len(name) == len(accent) + 1:
            return unicodedata.normalize("NFC", name[0] + mark)
    return None


class Font:
    """The codes of one font. `chars` is empty if nobody can tell what they show."""

    def __init__(self, width: int, chars: dict[int, str], open_set: bool) -> None:
        """`width` is the number of bytes of a code; an open set has glyphs also for characters not used so far."""
        self.width = width
        self.chars = chars
        self._used: set[int] = set()
        self._open = open_set
        self._codes: dict[str, int] | None = None

    def decode(self, raw: bytes) -> list[tuple[int, str | None]]:
        """Each code of a string, with the text that it shows if that is known."""
        codes = [int.from_bytes(raw[i : i + self.width], "big") for i in range(0, len(raw), self.width)]
        self._used.update(codes)
        return [(code, self.chars.get(code)) for code in codes]

    def code(self, char: str) -> int | None:
        """A code that shows a character, if the font surely has it."""
        if self._codes is None:
            usable = self.chars if self._open else {c: t for c, t in self.chars.items() if c in self._used}
            self._codes = {text: code for code, text in sorted(usable.items(), reverse=True)}
        return self._codes.get(char)

    def encode(self, codes: Iterable[int]) -> bytes:
        """A string of these codes."""
        return b"".join(code.to_bytes(self.width, "big") for code in codes)


def read_font(font: Any) -> Font:
    """What can be known about a font."""
    chars = _to_unicode(font)
    subset = re.match(r"/?[A-Z]{6}\+", str(font.get("/BaseFont", ""))) is not None
    if str(font.get("/Subtype", "")) == "/Type0":
        encoding = font.get("/Encoding")
        if str(encoding) not in ("/Identity-H", "/Identity-V"):
            return Font(2, {}, False)
        return Font(2, chars, bool(chars))
    if chars:
        return Font(1, chars, True)
    chars = _simple_encoding(font)
    return Font(1, chars, not subset and str(font.get("/Subtype", "")) != "/Type3")


def _simple_encoding(font: Any) -> dict[int, str]:
    import pikepdf

    base = str(font.get("/BaseFont", ""))
    encoding = font.get("/Encoding")
    differences: list[Any] = []
    name = ""
    if isinstance(encoding, pikepdf.Dictionary):
        name = str(encoding.get("/BaseEncoding", ""))
        differences = list(encoding.get("/Differences", []))
    elif encoding is not None:
        name = str(encoding)
    embedded = _is_embedded(font)
    if not name and any(word in base for word in _UNREADABLE):
        return {}
    chars: dict[int, str] = {}
    if name or not embedded:
        charset = {"/WinAnsiEncoding": "cp1252", "/MacRomanEncoding": "mac_roman"}.get(name, "ascii")
        for code in range(32, 256):
            text = bytes([code]).decode(charset, "ignore")
            if text:
                chars[code] = text
        if charset == "ascii":
            chars.update({0x27: "’", 0x60: "‘"})
    code = 0
    for item in differences:
        if isinstance(item, int):
            code = item
            continue
        chars.pop(code, None)
        text = glyph_char(str(item).lstrip("/")) or ""
        if text:
            chars[code] = text
        code += 1
    return chars


def _is_embedded(font: Any) -> bool:
    descriptor = font.get("/FontDescriptor")
    return descriptor is not None and any(f"/FontFile{n}" in descriptor for n in ("", "2", "3"))


_SECTION = re.compile(rb"begin(bfchar|bfrange)\s(.*?)end(?:bfchar|bfrange)", re.DOTALL)
_HEX = re.compile(rb"<([0-9A-Fa-f\s]*)>|(\[)|(\])")
MOST_CODES = 65536


def _to_unicode(font: Any) -> dict[int, str]:
    """The table from codes to text that a font may carry."""
    import pikepdf

    stream = font.get("/ToUnicode")
    if not isinstance(stream, pikepdf.Stream):
        return {}
    chars: dict[int, str] = {}
    for kind, body in _SECTION.findall(stream.read_bytes()):
        if kind == b"bfchar":
            values = [_unhex(m[1]) for m in _HEX.finditer(body) if m[1] is not None]
            for source, target in zip(values[::2], values[1::2], strict=False):
                chars[int.from_bytes(source, "big")] = _utf16(target)
        else:
            for low, high, targets in _ranges(body):
                for i, code in enumerate(range(low, min(high, low + MOST_CODES) + 1)):
                    if len(targets) == 1 and low != high:
                        last = int.from_bytes(targets[0][-2:], "big") + i
                        chars[code] = _utf16(targets[0][:-2] + (last & 0xFFFF).to_bytes(2, "big"))
                    elif i < len(targets):
                        chars[code] = _utf16(targets[i])
    return {code: text for code, text in chars.items() if text}


def _ranges(body: bytes) -> Iterator[tuple[int, int, list[bytes]]]:
    found: list[bytes] = []
    inside: list[bytes] | None = None
    for token in _HEX.finditer(body):
        if token[2]:
            inside = []
        elif token[3]:
            if len(found) == 2 and inside is not None:
                yield int.from_bytes(found[0], "big"), int.from_bytes(found[1], "big"), inside
            found, inside = [], None
        elif inside is not None:
            inside.append(_unhex(token[1]))
        else:
            found.append(_unhex(token[1]))
            if len(found) == 3:
                yield int.from_bytes(found[0], "big"), int.from_bytes(found[1], "big"), [found[2]]
                found = []


def _unhex(digits: bytes) -> bytes:
    packed = b"".join(digits.split())
    return bytes.fromhex((packed + b"0" * (len(packed) % 2)).decode())


def _utf16(raw: bytes) -> str:
    return raw.decode("utf-16-be", "ignore").replace("\x00", "")
