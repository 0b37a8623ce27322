"""Sources: streams of bytes that may hold a log, whether in a file, in memory or in an archive, packed or plain.

A small source is read from disk once: its format, its digest and its records all come from the same bytes. Limits hold
against streams that expand without end and lines that never break.
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO

import ijson
import msgspec

from ethogram.errors import Unreadable, first_line
from ethogram.traces.ids import ALGORITHM

from .compressed import MAX_EXPANDED, compression_of, unpacked

if TYPE_CHECKING:
    from functools import cached_property

    from .peek import Peek
else:

    class cached_property:  # that of functools takes a lock, which every small file would pay for
        """A property that is computed once."""

        def __init__(self, compute):
            self._compute = compute
            self.__doc__ = compute.__doc__

        def __get__(self, holder, owner):
            if holder is None:
                return self
            value = holder.__dict__[self._compute.__name__] = self._compute(holder)
            return value


MAX_LINE = 64 << 20
MAX_DOCUMENT = 256 << 20
PEEK = 1 << 20
HELD = 8 << 20
"""Sources up to this size are held in memory while they are read."""
MAX_PREFIX = 20_000
UNKNOWN = object()
CHUNK = 1 << 20


class Source:
    """One stream of bytes, already unpacked; can be opened again and again.

    `place` tells it from others of its name: where it lies on this machine, nothing for a stream.
    """

    def __init__(self, name: str, opener: Callable[[], BinaryIO], size: int, path: str | Path | None = None) -> None:
        """`name` is what the user sees; `opener` gives the packed bytes; `size` is their number."""
        self.name = name
        self.size = size
        self.path = path
        self._opener = opener
        self.damage = ""
        self.on_bytes: Callable[[int], None] | None = None
        self.look: Peek | None = None
        """What `peek_at` saw, so that it looks once."""
        self.recognised: Any = UNKNOWN
        """The reader that `recognise` found, or None; so that readers are asked once."""

    def __repr__(self) -> str:
        return f"Source({self.name!r})"

    @cached_property
    def place(self) -> str:
        """Where the file lies, with links followed; empty for a stream."""
        return os.path.realpath(self.path) if self.path else ""

    def open(self) -> BinaryIO:
        """The unpacked bytes, with a bound on how far they may expand."""
        raw = self.open_packed()
        if self.on_bytes is not None:
            raw = _Watched(raw, self.on_bytes)  # type: ignore[assignment]
        return unpacked(raw, self.compression, self.name, self.size) if self.compression else raw

    def open_packed(self) -> BinaryIO:
        """The bytes as they lie on disk (zip files want to seek in them)."""
        start, whole = self._start
        return io.BytesIO(start) if whole else self._opener()

    @cached_property
    def zip_members(self) -> list[zipfile.ZipInfo]:
        """What the directory of a zip file names; raises what `zipfile` raises for a damaged one.

        It is read once, for who recognises a format and who reads it.
        """
        with self.open_packed() as raw, zipfile.ZipFile(raw) as archive:
            return archive.infolist()

    @cached_property
    def _start(self) -> tuple[bytes, bool]:
        """The first packed bytes, and whether they are all: the only time that a small source is read."""
        limit = HELD if self.size <= HELD else PEEK
        wanted = min(self.size, limit) + 1
        if self.path is None:
            with self._opener() as raw:
                data = raw.read(wanted)
        else:
            data = _read_start(self.path, wanted, self.size)
        return data, len(data) <= limit

    @cached_property
    def compression(self) -> str:
        """`gz`, `xz`, `zst`, `bz2` or nothing, by the first bytes."""
        return compression_of(self._start[0])

    @property
    def held(self) -> bool:
        """Whether all packed bytes are in memory."""
        return self._start[1]

    @property
    def whole(self) -> bytes | None:
        """All bytes of a small source that is not compressed; None of others."""
        start, whole = self._start
        return start if whole and not self.compression else None

    @cached_property
    def peek(self) -> bytes:
        """The first unpacked bytes: enough to recognise a format. Of a damaged stream, what came before `damage`."""
        if not self.compression:
            return self._start[0][:PEEK]
        with self.open() as stream:
            return _read_up_to(stream, PEEK, lambda error: setattr(self, "damage", str(error)))

    @cached_property
    def digest(self) -> str:
        """The hash of all packed bytes."""
        start, whole = self._start
        state = blake2b(start if whole else b"", digest_size=16)
        if not whole:
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
                report(f"line {number}", f"not JSON: {first_line(error, 200)}")
                continue
            if isinstance(value, dict):
                yield number, value
            else:
                report(f"line {number}", f"a JSON {type(value).__name__}, not an object")

    def items(self, path: str) -> Iterator[Any]:
        """Elements of a JSON array at an ijson path (`item`, `samples.item`), one at a time, in bounded memory."""
        with self.open() as stream:
            yield from ijson.items(_shallow(stream), path)


def _shallow(stream: BinaryIO) -> Iterator[tuple[str, str, Any]]:
    """Parse events of a JSON stream; nesting without end is refused, because its cost grows with its square."""
    buffered = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(stream)  # type: ignore[type-var]
    if buffered.peek(3).startswith(b"\xef\xbb\xbf"):
        buffered.read(3)
    for prefix, event, value in ijson.parse(buffered, use_float=True):
        if event in ("start_map", "start_array") and len(prefix) > MAX_PREFIX:
            raise ValueError("nested too deeply")
        yield prefix, event, value


def _read_start(path: str | Path, wanted: int, size: int) -> bytes:
    """The first bytes of a file of a known size, without a buffer between: all of it comes at once.

    A read that ends at the known size, although more was wanted, has seen the end of the file.
    """
    with open(path, "rb", buffering=0) as raw:
        data = raw.read(wanted)
        while len(data) < min(size, wanted) and (more := raw.read(wanted - len(data))):
            data += more
    return data


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


def file_source(path: str | Path, name: str, size: int | None = None) -> Source:
    """A file on disk, whose size may be known already."""
    return Source(name, lambda: open(path, "rb"), os.stat(path).st_size if size is None else size, path)


def bytes_source(name: str, data: bytes) -> Source:
    """Bytes in memory."""
    return Source(name, lambda: io.BytesIO(data), len(data))


def stdin_source() -> Source:
    """Standard input, kept in a temporary file because readers look twice."""
    return spooled("stdin", sys.stdin.buffer, MAX_EXPANDED)


def spooled(name: str, stream: BinaryIO | IO[bytes], limit: int) -> Source:
    """A stream up to a limit, kept in memory if it is small, else in an unnamed temporary file."""
    pieces: list[bytes] = []
    kept: IO[bytes] | None = None
    size = 0
    try:
        while chunk := stream.read(CHUNK):
            size += len(chunk)
            if size > limit:
                raise Unreadable.at(name, f"expands to more than {limit >> 20} MiB; refused")
            pieces.append(chunk)
            if size > HELD:
                kept = kept or tempfile.NamedTemporaryFile(prefix="ethogram-")  # noqa: SIM115 - lives with the source
                kept.writelines(pieces)
                pieces.clear()
        if kept is None:
            return bytes_source(name, b"".join(pieces))
        kept.flush()
    except BaseException:
        if kept is not None:
            kept.close()
        raise
    file = kept
    source = Source(name, lambda: open(file.name, "rb"), size)  # noqa: SIM115 - the caller closes it
    source.keep_alive = file  # type: ignore[attr-defined]
    return source
