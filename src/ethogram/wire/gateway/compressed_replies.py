"""Compressed replies: clients get the bytes as they came, and we read a copy."""

from __future__ import annotations

import zlib
from typing import Protocol

DECODABLE = frozenset({b"gzip", b"x-gzip", b"deflate", b"zstd", b"identity"})
"""Codings that can be read here. Brotli is not among them: it would need one more package."""


class Decoder(Protocol):
    """Follows compressed bytes; raises `ValueError` where they are damaged."""

    def decode(self, chunk: bytes) -> bytes:
        """The next bytes, decoded as far as possible."""
        ...


class Plain:
    """No coding."""

    def decode(self, chunk: bytes) -> bytes:
        """The bytes themselves."""
        return chunk


class Zlib:
    """Gzip, or deflate with and without its frame, which servers confuse."""

    def __init__(self, gzip: bool) -> None:
        """`gzip` expects a frame of gzip."""
        self._stream = zlib.decompressobj(31 if gzip else 15)
        self._gzip = gzip
        self._first = True

    def decode(self, chunk: bytes) -> bytes:
        """The next bytes; raises `ValueError` where they are damaged."""
        try:
            decoded = self._decode(chunk)
        except zlib.error as error:
            raise ValueError(f"the reply's compression is damaged: {error}") from None
        self._first = False
        return decoded

    def _decode(self, chunk: bytes) -> bytes:
        try:
            return self._stream.decompress(chunk)
        except zlib.error:
            if self._gzip or not self._first:
                raise
            self._stream = zlib.decompressobj(-15)
            return self._stream.decompress(chunk)


class Zstd:
    """Zstandard."""

    def __init__(self) -> None:
        """Nothing was read yet."""
        import zstandard

        self._stream = zstandard.ZstdDecompressor().decompressobj()
        self._error = zstandard.ZstdError

    def decode(self, chunk: bytes) -> bytes:
        """The next bytes; raises `ValueError` where they are damaged."""
        try:
            return self._stream.decompress(chunk)
        except self._error as error:
            raise ValueError(f"the reply's compression is damaged: {error}") from None


def decoder_of(encoding: bytes | None) -> Decoder | None:
    """A decoder for the value of `content-encoding`; None for a coding that cannot be read here."""
    coding = (encoding or b"identity").strip().lower()
    if coding == b"identity":
        return Plain()
    if coding == b"zstd":
        return Zstd()
    return Zlib(coding != b"deflate") if coding in DECODABLE else None
