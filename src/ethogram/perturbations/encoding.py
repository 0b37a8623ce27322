"""Bytes of a text file as text and back, in whatever encoding they came."""

from __future__ import annotations

import codecs

import msgspec

from .operator import NotApplicable

PIECE = 1 << 20
BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


class Encoded(msgspec.Struct, frozen=True):
    """A text with what is needed to write it as it was: its encoding and its byte order mark."""

    text: str
    charset: str
    bom: bytes = b""

    def encode(self, text: str) -> bytes:
        """Another text in the same encoding."""
        return self.bom + text.encode(self.charset)

    def can_write(self, text: str) -> bool:
        """Whether the encoding has these characters."""
        try:
            text.encode(self.charset)
        except UnicodeEncodeError:
            return False
        return True


def charset_of(content: bytes) -> tuple[str, bytes]:
    """The encoding of a text file, and its byte order mark."""
    for bom, charset in BOMS:
        if content.startswith(bom):
            return charset, bom
    if b"\x00" in content[:65536]:
        raise NotApplicable("the file is binary, not text")
    if content.isascii():
        return "utf-8", b""
    return next((c for c in ("utf-8", "cp1252") if _reads_as(content, c)), "latin-1"), b""


def _reads_as(content: bytes, charset: str) -> bool:
    """Whether every byte makes sense in an encoding; in pieces, since a table may be large."""
    decoder = codecs.getincrementaldecoder(charset)()
    view = memoryview(content)
    try:
        for start in range(0, len(view), PIECE):
            decoder.decode(view[start : start + PIECE], final=start + PIECE >= len(view))
    except UnicodeDecodeError:
        return False
    return True


def decoded(content: bytes) -> Encoded:
    """The text of a file; writing it again gives the same bytes."""
    charset, bom = charset_of(content)
    try:
        text = content[len(bom) :].decode(charset)
    except UnicodeDecodeError as error:
        raise NotApplicable(f"the file is not valid {charset}: {error.reason} at byte {error.start}") from None
    if not text.strip():
        raise NotApplicable("the file has no content but white space")
    return Encoded(text, charset, bom)
