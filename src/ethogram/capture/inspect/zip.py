"""Members of an Inspect `.eval`, also where the standard library gives up.

Newer logs are packed with Zstandard (zip method 93), and a log that was cut off has no directory at its
end: then the members are found by their own headers. No member may expand beyond what it states.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from typing import Any, BinaryIO, NamedTuple

import zstandard

from ethogram.capture.compressed import MAX_EXPANDED, MAX_RATIO
from ethogram.capture.source import CHUNK, MAX_DOCUMENT, Source, spooled
from ethogram.errors import Unreadable

STORED, DEFLATED, ZSTANDARD = 0, 8, 93
_LOCAL = struct.Struct("<4sHHHHHIIIHH")
_LOCAL_MARK, _DIRECTORY_MARK = b"PK\x03\x04", b"PK\x01\x02"
_DESCRIPTOR = 0x08  # sizes stand behind the data
_ENCRYPTED = 0x01
_NEWEST = 99  # no version of the zip format is near this one
_DAMAGE = (zlib.error, zstandard.ZstdError, EOFError, OSError, struct.error, ValueError)


class Member(NamedTuple):
    """Where the packed bytes of a member lie; `size` and `crc` are None where the log does not say."""

    name: str
    method: int
    flags: int
    header: int
    packed: int
    size: int | None
    crc: int | None

    @property
    def limit(self) -> int:
        """How far the member may expand."""
        fair = min(MAX_EXPANDED, max(self.packed * MAX_RATIO, 64 << 20))
        return fair if self.size is None else min(self.size, fair)


class Archive:
    """The members of a log by name; a member that was written again counts once, with its last content."""

    def __init__(self, source: Source, report: Callable[[str, str], None]) -> None:
        """Read the directory, or find the members one by one; what cannot be used goes to `report`."""
        if source.compression:
            with source.open() as stream:
                source = spooled(source.name, stream, MAX_EXPANDED)
        self._source = source
        self.cut = False
        try:
            found = self._directory()
        except (zipfile.BadZipFile, OSError, ValueError, struct.error, NotImplementedError) as error:
            self.cut = True
            report(source.name, f"the directory of the archive is missing or damaged ({error}); members are salvaged")
            found = list(self._salvage(report))
        self.members = {m.name: m for m in found}

    def __contains__(self, name: str) -> bool:
        return name in self.members

    def size(self, name: str) -> int:
        """The unpacked size of a member, as it states it; the packed size where it does not."""
        member = self.members[name]
        return member.packed if member.size is None else member.size

    def read(self, name: str) -> bytes:
        """All bytes of a member of bounded size."""
        pieces, total = [], 0
        for piece in self._pieces(self.members[name]):
            total += len(piece)
            if total > MAX_DOCUMENT:
                raise Unreadable(f"{name}: more than {MAX_DOCUMENT >> 20} MiB in one piece")
            pieces.append(piece)
        return b"".join(pieces)

    def open(self, name: str) -> BinaryIO:
        """A member as a stream."""
        return Pieces(self._pieces(self.members[name]))  # type: ignore[return-value]

    def _pieces(self, member: Member) -> Generator[bytes, None, None]:
        """Unpacked bytes, checked against the stated size and checksum."""
        if member.flags & _ENCRYPTED:
            raise Unreadable(f"{member.name}: encrypted")
        unpack = _METHODS.get(member.method)
        if unpack is None:
            raise Unreadable(f"{member.name}: packed with the unknown method {member.method}")
        seen = checksum = 0
        with self._source.open_packed() as raw:
            try:
                for piece in unpack(_Slice(raw, member)):
                    seen += len(piece)
                    if seen > member.limit:
                        raise Unreadable(f"{member.name}: expands beyond {member.limit} bytes; refused")
                    checksum = zlib.crc32(piece, checksum)
                    yield piece
            except _DAMAGE as error:
                raise Unreadable(f"{member.name}: the packed data is damaged or cut off ({error})") from None
        if member.size is not None and seen != member.size:
            raise Unreadable(f"{member.name}: {seen} bytes where {member.size} are stated")
        if member.crc is not None and checksum != member.crc:
            raise Unreadable(f"{member.name}: the checksum does not match")

    def _directory(self) -> list[Member]:
        return [
            Member(i.filename, i.compress_type, i.flag_bits, i.header_offset, i.compress_size, i.file_size, i.CRC)
            for i in self._source.zip_members
            if not i.is_dir()
        ]

    def _salvage(self, report: Callable[[str, str], None]) -> Iterator[Member]:
        """Members by their own headers, from the start to the cut; damaged stretches are stepped over."""
        with self._source.open_packed() as raw:
            end = raw.seek(0, io.SEEK_END)
            at: int | None = _find(raw, 0, (_LOCAL_MARK,))
            while at is not None and at < end:
                member = _local_member(raw, at)
                if member is None:
                    at = _find(raw, at + 1, (_LOCAL_MARK,))
                    continue
                start = _data_start(raw, member)
                if start + member.packed > end:
                    report(member.name, f"cut off: {end - start} of {member.packed} packed bytes are there")
                    at = _find(raw, at + 4, (_LOCAL_MARK,))
                    continue
                yield member
                after = start + member.packed
                at = _find(raw, after, (_LOCAL_MARK,))
                if at is not None and at > after and not member.flags & _DESCRIPTOR:
                    report(self._source.name, f"bytes {after} to {at} belong to no member")


class _Slice:
    """The packed bytes of one member, as a file that ends where they end."""

    def __init__(self, raw: BinaryIO, member: Member) -> None:
        self._raw = raw
        self._left = member.packed
        raw.seek(_data_start(raw, member))

    def read(self, count: int = CHUNK) -> bytes:
        data = self._raw.read(min(count if count >= 0 else CHUNK, self._left))
        if not data and self._left:
            raise EOFError("the file ends inside the member")
        self._left -= len(data)
        return data


class Pieces(io.RawIOBase):
    """Pieces of bytes as a readable stream."""

    def __init__(self, pieces: Generator[bytes, None, None]) -> None:
        """Nothing is read yet."""
        self._pieces = pieces
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer as far as one piece goes."""
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def close(self) -> None:
        """Let go of the file behind the pieces."""
        self._rest = memoryview(b"")
        self._pieces.close()
        super().close()


def _stored(packed: _Slice) -> Iterator[bytes]:
    while piece := packed.read():
        yield piece


def _deflated(packed: _Slice) -> Iterator[bytes]:
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    while not inflate.eof and (data := packed.read()):
        while data:
            yield inflate.decompress(data, CHUNK)
            data = inflate.unconsumed_tail
    if not inflate.eof:
        raise EOFError("the stream has no end")


def _zstandard(packed: _Slice) -> Iterator[bytes]:
    unpacker = zstandard.ZstdDecompressor(max_window_size=1 << 27)
    with unpacker.stream_reader(packed, read_across_frames=True) as reader:  # type: ignore[arg-type]
        while piece := reader.read(CHUNK):
            yield piece


_METHODS: dict[int, Callable[[_Slice], Iterator[bytes]]] = {
    STORED: _stored,
    DEFLATED: _deflated,
    ZSTANDARD: _zstandard,
}


def local_names(data: bytes) -> Iterator[str]:
    """Names in the member headers of the first bytes of an archive: enough to recognise one that was cut."""
    at = data.find(_LOCAL_MARK)
    while at >= 0 and at + _LOCAL.size <= len(data):
        length = _LOCAL.unpack_from(data, at)[9]
        yield data[at + _LOCAL.size : at + _LOCAL.size + length].decode("utf-8", "replace")
        at = data.find(_LOCAL_MARK, at + 4)


def _local_member(raw: BinaryIO, at: int) -> Member | None:
    """The member whose header stands here, or None if these bytes are not a header."""
    raw.seek(at)
    header = raw.read(_LOCAL.size)
    if len(header) < _LOCAL.size or not header.startswith(_LOCAL_MARK):
        return None
    _, version, flags, method, _, _, crc, packed, size, name_length, extra_length = _LOCAL.unpack(header)
    name, extra = raw.read(name_length), raw.read(extra_length)
    if version > _NEWEST or method not in _METHODS or len(name) < name_length or not name or min(name) < 0x20:
        return None  # packed data that happens to look like a header
    if 0xFFFFFFFF in (packed, size):
        packed, size = _zip64(extra, packed, size)
    text = name.decode("utf-8" if flags & 0x800 or name.isascii() else "cp437", "replace")
    if not flags & _DESCRIPTOR or packed:
        return Member(text, method, flags, at, packed, size, crc)
    start = at + _LOCAL.size + name_length + extra_length
    end = _find(raw, start, (_LOCAL_MARK, _DIRECTORY_MARK))
    return Member(text, method, flags, at, (end or raw.seek(0, io.SEEK_END)) - start, None, None)


def _zip64(extra: bytes, packed: int, size: int) -> tuple[int, int]:
    """Sizes beyond 4 GiB stand in the extra field 1: first the unpacked, then the packed one."""
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == 1:
            numbers = [n for (n,) in struct.iter_unpack("<Q", extra[at + 4 : at + 4 + length // 8 * 8])]
            if size == 0xFFFFFFFF and numbers:
                size = numbers.pop(0)
            if packed == 0xFFFFFFFF and numbers:
                packed = numbers.pop(0)
        at += 4 + length
    return packed, size


def _data_start(raw: BinaryIO, member: Member) -> int:
    raw.seek(member.header)
    header = raw.read(_LOCAL.size)
    if len(header) < _LOCAL.size or not header.startswith(_LOCAL_MARK):
        raise EOFError("no header where the directory says")
    *_, name_length, extra_length = _LOCAL.unpack(header)
    return member.header + _LOCAL.size + int(name_length) + int(extra_length)


def _find(raw: BinaryIO, start: int, marks: tuple[bytes, ...]) -> int | None:
    """The next place of any of these marks; reads in pieces that overlap by a mark."""
    raw.seek(start)
    held, at = b"", start
    while data := raw.read(CHUNK):
        held += data
        places = [p for mark in marks if (p := held.find(mark)) >= 0]
        if places:
            return at + min(places)
        at += len(held) - 3
        held = held[-3:]
    return None
