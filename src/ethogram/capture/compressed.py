"""Compressed streams: unpacked as they are read, with a bound on their expansion, and damage named in one sentence."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import zlib
from collections.abc import Callable
from typing import IO, Any, BinaryIO

import zstandard

from ethogram.errors import Unreadable, first_line

MAX_EXPANDED = 64 << 30
MAX_RATIO = 2000
BROKEN = (EOFError, OSError, ValueError, zlib.error, lzma.LZMAError, zstandard.ZstdError, struct.error)
"""What unpackers raise where the bytes are damaged or end too early."""


class _Bounded(io.RawIOBase):
    """A decompressed stream that refuses to expand without end, and names damage in one sentence."""

    def __init__(self, inner: IO[bytes], raw: BinaryIO, name: str, packed: int) -> None:
        self._inner = inner
        self._raw = raw
        # a stream that is cut off must give what came before the cut, so it is read as it comes
        self._read = getattr(inner, "read1", inner.read)
        self._name = name
        self._limit = min(MAX_EXPANDED, max(packed * MAX_RATIO, 64 << 20))
        self._seen = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        try:
            data = self._read(len(view))
        except BROKEN as error:
            why = first_line(error, 200)
            raise Unreadable.at(self._name, f"the compressed data is damaged or cut off ({why})") from None
        self._seen += len(data)
        if self._seen > self._limit:
            raise Unreadable.at(self._name, f"expands to more than {self._limit >> 20} MiB; refused")
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._inner.close()
            self._raw.close()
        super().close()


def _gz(raw: BinaryIO) -> IO[bytes]:
    return gzip.open(raw)  # type: ignore[return-value]


class _Zst(io.RawIOBase):
    """Zstandard frames one after another; unlike the library's own reader it notices that the last one is cut off."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._context = zstandard.ZstdDecompressor(max_window_size=1 << 27)
        self._frame: Any = None
        self._packed = self._ready = b""

    def read1(self, size: int) -> bytes:
        """Up to `size` bytes; none at the end."""
        while not self._ready:
            if not self._packed:
                self._packed = self._raw.read(_ZST_PIECE)
            if not self._packed:
                if self._frame is not None:
                    raise EOFError("the last frame has no end")
                return b""
            self._frame = self._frame or self._context.decompressobj()
            self._ready = self._frame.decompress(self._packed)
            self._packed = b""
            if self._frame.eof:
                self._packed, self._frame = self._frame.unused_data, None
        given, self._ready = self._ready[:size], self._ready[size:]
        return given


_ZST_PIECE = 2048  # a piece may unpack to thousands of times its size, all at once


_COMPRESSIONS: dict[str, Callable[[BinaryIO], IO[bytes]]] = {
    "gz": _gz,
    "xz": lzma.open,
    "bz2": bz2.open,
    "zst": _Zst,  # type: ignore[dict-item]
}
_MAGIC = {"gz": b"\x1f\x8b", "xz": b"\xfd7zXZ\x00", "zst": b"\x28\xb5\x2f\xfd", "bz2": b"BZh"}


def compression_of(start: bytes) -> str:
    """`gz`, `xz`, `zst`, `bz2` or nothing, by the first bytes of a file."""
    return next((name for name, magic in _MAGIC.items() if start.startswith(magic)), "")


def unpacked(raw: BinaryIO, compression: str, name: str, size: int) -> BinaryIO:
    """The stream behind a compressed one of `size` bytes; reading it raises `Unreadable` at damage, or if huge."""
    return _Bounded(_COMPRESSIONS[compression](raw), raw, name, max(size, 1))  # type: ignore[return-value]
