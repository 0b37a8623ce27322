"""Sources: bytes that may hold logs, wherever they lie and however they are packed.

A folder gives its files, an archive its members, a compressed file its content. Limits hold against
archives that expand without end, members that point outside, and lines that never break.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import stat
import struct
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import cached_property
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import IO, Any, BinaryIO

import ijson
import msgspec
import zstandard

from ethogram.errors import NotFound, Unreadable
from ethogram.trace.ids import ALGORITHM

MAX_EXPANDED = 64 << 30
MAX_RATIO = 2000
MAX_LINE = 64 << 20
MAX_DOCUMENT = 256 << 20
MAX_MEMBERS = 200_000
MAX_NESTING = 3
PEEK = 1 << 20
MAX_PREFIX = 20_000
CHUNK = 1 << 20

_BROKEN = (EOFError, OSError, ValueError, zlib.error, lzma.LZMAError, zstandard.ZstdError, struct.error)
_BROKEN_ARCHIVE = (*_BROKEN, zipfile.BadZipFile, tarfile.TarError, RuntimeError)  # RuntimeError: encrypted, unsupported
_NEVER_LOGS = re.compile(r"^(\.git|\.hg|\.svn|\.venv|\.DS_Store|__MACOSX|node_modules)$")


class Source:
    """One stream of bytes, already unpacked; can be opened again and again.

    `place` tells it from others of its name: where it lies on this machine, nothing for a stream.
    """

    def __init__(self, name: str, opener: Callable[[], BinaryIO], size: int, path: Path | None = None) -> None:
        """`name` is what the user sees; `opener` gives the packed bytes; `size` is their number."""
        self.name = name
        self.size = size
        self.path = path
        self.place = os.path.realpath(path) if path else ""
        self._opener = opener
        self.damage = ""
        self.on_bytes: Callable[[int], None] | None = None

    def __repr__(self) -> str:
        return f"Source({self.name!r})"

    def open(self) -> BinaryIO:
        """The unpacked bytes, with a bound on how far they may expand."""
        unpack = _COMPRESSIONS.get(self.compression)
        raw = self._opener()
        if self.on_bytes is not None:
            raw = _Watched(raw, self.on_bytes)  # type: ignore[assignment]
        if unpack is None:
            return raw
        return _Bounded(unpack(raw), raw, self.name, max(self.size, 1))  # type: ignore[return-value]

    def open_packed(self) -> BinaryIO:
        """The bytes as they lie on disk (zip files want to seek in them)."""
        return self._opener()

    @cached_property
    def compression(self) -> str:
        """`gz`, `xz`, `zst`, `bz2` or nothing, by the first bytes."""
        with self._opener() as raw:
            magic = raw.read(6)
        for name, start in _MAGIC.items():
            if magic.startswith(start):
                return name
        return ""

    @cached_property
    def peek(self) -> bytes:
        """The first unpacked bytes: enough to recognise a format. Of a damaged stream, what came before `damage`."""
        with self.open() as stream:
            return _read_up_to(stream, PEEK, lambda error: setattr(self, "damage", str(error)))

    @cached_property
    def digest(self) -> str:
        """The hash of all packed bytes."""
        state = blake2b(digest_size=16)
        with self._opener() as raw:
            while chunk := raw.read(CHUNK):
                state.update(chunk)
        return ALGORITHM + state.hexdigest()

    def lines(self, on_long: Callable[[int, str], None]) -> Iterator[tuple[int, bytes]]:
        """Line numbers (from 1) and lines without their break; empty lines are left out, endless ones reported."""
        with self.open() as stream:
            buffered = io.BufferedReader(stream, CHUNK) if isinstance(stream, io.RawIOBase) else stream
            number = 0
            while line := buffered.readline(MAX_LINE + 1):
                number += 1
                if len(line) > MAX_LINE:
                    dropped = len(line)
                    while not line.endswith(b"\n") and (line := buffered.readline(MAX_LINE)):
                        dropped += len(line)
                    on_long(number, f"the line has {dropped >> 20} MiB; at most {MAX_LINE >> 20} are read")
                    continue
                if number == 1:
                    line = line.removeprefix(b"\xef\xbb\xbf")
                if line := line.strip():
                    yield number, line

    def objects(self, report: Callable[[str, str], None]) -> Iterator[tuple[int, dict[str, Any]]]:
        """JSON lines that are objects; all others are reported with their line number."""
        for number, line in self.lines(lambda n, why: report(f"line {n}", why)):
            try:
                value = msgspec.json.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                report(f"line {number}", f"not JSON: {_short(error)}")
                continue
            if isinstance(value, dict):
                yield number, value
            else:
                report(f"line {number}", f"a JSON {type(value).__name__}, not an object")

    def items(self, path: str) -> Iterator[Any]:
        """Elements of a JSON array at an ijson path (`item`, `samples.item`), one at a time, in bounded memory."""
        with self.open() as stream:
            yield from ijson.items(_shallow(stream), path)

    def key_values(self, path: str = "") -> Iterator[tuple[str, Any]]:
        """Keys and values of a JSON object at an ijson path, one at a time."""
        with self.open() as stream:
            yield from ijson.kvitems(_shallow(stream), path)

    def document(self) -> Any:
        """A whole JSON document of bounded size."""
        with self.open() as stream:
            data = _read_up_to(stream, MAX_DOCUMENT + 1)
        if len(data) > MAX_DOCUMENT:
            raise Unreadable.at(self.name, f"one JSON document of more than {MAX_DOCUMENT >> 20} MiB")
        try:
            return msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Unreadable.at(self.name, f"not a JSON document: {_short(error)}") from None


def _shallow(stream: BinaryIO) -> Iterator[tuple[str, str, Any]]:
    """Parse events of a JSON stream; nesting without end is refused, because its cost grows with its square."""
    buffered = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(stream)  # type: ignore[type-var]
    if buffered.peek(3).startswith(b"\xef\xbb\xbf"):
        buffered.read(3)
    for prefix, event, value in ijson.parse(buffered, use_float=True):
        if event in ("start_map", "start_array") and len(prefix) > MAX_PREFIX:
            raise ValueError("nested too deeply")
        yield prefix, event, value


def _short(error: BaseException) -> str:
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__


def _read_up_to(stream: BinaryIO, limit: int, forgive: Callable[[Unreadable], None] | None = None) -> bytes:
    chunks: list[bytes] = []
    left = limit
    try:
        while left > 0 and (chunk := stream.read(min(left, CHUNK))):
            chunks.append(chunk)
            left -= len(chunk)
    except Unreadable as error:
        if forgive is None or not chunks:
            raise
        forgive(error)
    return b"".join(chunks)


class _Watched(io.RawIOBase):
    """A stream that tells how far it was read, for progress bars."""

    def __init__(self, inner: BinaryIO, tell: Callable[[int], None]) -> None:
        self._inner = inner
        self._tell = tell

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._inner.read(len(buffer))
        memoryview(buffer)[: len(data)] = data
        self._tell(len(data))
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._inner.close()
        super().close()


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
        except _BROKEN as error:
            raise Unreadable.at(self._name, f"the compressed data is damaged or cut off ({_short(error)})") from None
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
        """Up to so many bytes; none at the end."""
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


def sources(path: str | Path, is_log: Callable[[Source], bool], report: Callable[[str, str], None]) -> Iterator[Source]:
    """All sources behind a path: a file, a folder, an archive, or `-` for standard input.

    `is_log` says whether an archive is itself a log (an Inspect `.eval` is a zip) and must stay whole.
    """
    if str(path) == "-":
        yield from _expand(stdin_source(), is_log, report, 0)
        return
    root = Path(path)
    if not root.exists():
        raise NotFound(f"no file or folder at {str(path)!r}", where=str(path))
    if root.is_file():
        yield from _expand(file_source(root, root.name), is_log, report, 0)
        return
    for file in _files_below(root, report):
        name = file.relative_to(root).as_posix()
        try:
            source = file_source(file, name)
        except OSError as error:
            report(name, f"cannot be read: {error.strerror or error}")
            continue
        yield from _expand(source, is_log, report, 0)


def _files_below(root: Path, report: Callable[[str, str], None]) -> list[Path]:
    """All files in a folder and the folders below; what is passed over is reported.

    Hidden files and folders are read only where nothing else is there, or where they are named themselves.
    """
    found, hidden = _walk(root, report, hidden=False)
    if not found and hidden:
        found, hidden = _walk(root, report, hidden=True)
    for path in hidden:
        kind = "folder" if path.is_dir() else "file"
        report(path.relative_to(root).as_posix(), f"a hidden {kind}; name it to have it read")
    return found


def _walk(root: Path, report: Callable[[str, str], None], *, hidden: bool) -> tuple[list[Path], list[Path]]:
    """Files in the order of their names, and what was passed over because it is hidden."""

    def closed(error: OSError) -> None:
        name = Path(error.filename or root).relative_to(root).as_posix()
        report(root.name if name == "." else name, f"the folder cannot be read: {error.strerror or error}")

    found: list[Path] = []
    passed: list[Path] = []
    for folder, below, files in os.walk(root, onerror=closed):
        shown = {name for name in (*below, *files) if not _NEVER_LOGS.match(name)}
        if not hidden:
            passed.extend(Path(folder, name) for name in shown if name.startswith("."))
            shown = {name for name in shown if not name.startswith(".")}
        below[:] = [name for name in below if name in shown]
        found.extend(Path(folder, name) for name in files if name in shown)
    return sorted(path for path in found if os.path.isfile(path)), sorted(passed)


def file_source(path: Path, name: str) -> Source:
    """A file on disk."""
    return Source(name, lambda: path.open("rb"), path.stat().st_size, path)


def bytes_source(name: str, data: bytes) -> Source:
    """Bytes in memory."""
    return Source(name, lambda: io.BytesIO(data), len(data))


def stdin_source() -> Source:
    """Standard input, kept in a temporary file because readers look twice."""
    import sys

    return spooled("stdin", sys.stdin.buffer, MAX_EXPANDED)


def spooled(name: str, stream: BinaryIO | IO[bytes], limit: int) -> Source:
    """A stream copied to an unnamed temporary file, up to a limit."""
    kept = tempfile.NamedTemporaryFile(prefix="ethogram-", delete=True)  # noqa: SIM115 - lives as long as the source
    size = 0
    while chunk := stream.read(CHUNK):
        size += len(chunk)
        if size > limit:
            kept.close()
            raise Unreadable.at(name, f"expands to more than {limit >> 20} MiB; refused")
        kept.write(chunk)
    kept.flush()
    source = Source(name, lambda: open(kept.name, "rb"), size)  # noqa: SIM115 - whoever opens it closes it
    source.keep_alive = kept  # type: ignore[attr-defined]
    return source


def _expand(
    source: Source, is_log: Callable[[Source], bool], report: Callable[[str, str], None], depth: int
) -> Iterator[Source]:
    """The source itself, or its members if it is an archive that is not a log."""
    try:
        start = source.peek[:512]
        archive = "zip" if start.startswith(b"PK\x03\x04") else "tar" if start[257:262] == b"ustar" else ""
        whole = not archive or is_log(source)
    except Unreadable as error:
        report(source.name, str(error))
        return
    except OSError as error:
        report(source.name, f"cannot be read: {error.strerror or error}")
        return
    if whole:
        yield source
    elif depth >= MAX_NESTING:
        report(source.name, f"archives nested more than {MAX_NESTING} deep are not opened")
    else:
        members = _zip_members(source) if archive == "zip" else _tar_members(source)
        try:
            for member in _unpacked(source, members, report):
                yield from _expand(member, is_log, report, depth + 1)
        except Unreadable as error:
            report(source.name, str(error))
        except _BROKEN_ARCHIVE as error:
            report(source.name, f"the archive is damaged or not supported ({_short(error)})")


Members = Iterator[tuple[str, int, IO[bytes] | str]]
"""Name, size and content of each member; a string says why it has no content."""


def _unpacked(source: Source, members: Members, report: Callable[[str, str], None]) -> Iterator[Source]:
    """The members that may be opened, one temporary file at a time; together they may not expand without end."""
    left = min(MAX_EXPANDED, max(source.size * MAX_RATIO, 64 << 20))
    for count, (name, size, stream) in enumerate(members):
        place = f"{source.name}/{name}"
        if count >= MAX_MEMBERS:
            report(source.name, f"only the first {MAX_MEMBERS} members are read")
            return
        if (why := _unsafe(name)) or isinstance(stream, str):
            report(place, why or str(stream))
        elif size > left:
            report(place, f"expands to {size >> 20} MiB where {left >> 20} are left for this archive; refused")
        else:
            try:
                member = spooled(place, stream, left)
            except _BROKEN_ARCHIVE as error:
                report(place, f"cannot be unpacked: damaged or not supported ({_short(error)})")
                continue
            left -= member.size
            member.place = f"{source.place}/{name}" if source.place else ""
            yield member


def _unsafe(name: str) -> str:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if name.startswith(("/", "\\")) or ".." in parts or (parts and ":" in parts[0]):
        return "the member's name points outside the archive"
    return ""


def _zip_members(source: Source) -> Members:
    with source.open_packed() as raw, zipfile.ZipFile(raw) as archive:
        for info in sorted(archive.infolist(), key=lambda i: i.filename):
            if info.is_dir():
                continue
            if stat.S_ISLNK(info.external_attr >> 16):
                yield info.filename, 0, _LINK
                continue
            try:
                member = archive.open(info)
            except (RuntimeError, zipfile.BadZipFile) as error:  # encrypted, an unknown compression, a broken header
                yield info.filename, 0, _short(error)
                continue
            with member as stream:
                yield info.filename, info.file_size, stream


def _tar_members(source: Source) -> Members:
    with source.open() as raw, tarfile.open(fileobj=raw, mode="r|") as archive:
        for info in archive:
            stream = archive.extractfile(info) if info.isreg() else None
            if stream is not None:
                yield info.name, info.size, stream
            elif not info.isdir():
                yield info.name, 0, _LINK if info.issym() or info.islnk() else "not a file"


_LINK = "a link; links in archives are not followed"
