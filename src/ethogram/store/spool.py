"""Lines that were acknowledged and are not yet in a ledger: appended, synced in groups, read again after a crash.

A spool is a folder of segments, each named after the position of its first byte; positions only grow. A group of lines
is followed by a line with its length and its CRC, and exists once that line is synced: what stands behind the last
such line was never acknowledged. A segment is deleted when all of it is committed elsewhere. Words in it must be
redacted before they come here.
"""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from ethogram.errors import BadUsage, NeedsPosix

from .files import sync_folder, write_all

try:
    import fcntl
except ImportError:  # not a Unix: nothing can be locked, nor synced by its descriptor
    fcntl = None  # type: ignore[assignment]

FOLDER = "spool"
SEGMENT_BYTES = 16 << 20
_END = b'["end",'


class SpooledLine(NamedTuple):
    """A line that a crash left behind, and where it stands."""

    position: int
    data: bytes


class _Segment:
    """One file of the spool."""

    def __init__(self, path: Path, start: int, size: int, descriptor: int) -> None:
        self.path = path
        self.start = start
        self.size = size
        self.descriptor = descriptor
        self.damaged = False

    @property
    def end(self) -> int:
        return self.start + self.size


class Spool:
    """One writer's spool; a second writer of the same folder is refused."""

    def __init__(self, folder: Path, start: int = 0, *, segment_bytes: int = SEGMENT_BYTES) -> None:
        """`start` is the least position that may be given; raises `BadUsage` where another process holds the folder."""
        NeedsPosix.check("receiving spans live")
        self._folder = folder
        self._segment_bytes = segment_bytes
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise BadUsage(f"another process holds the spool {str(folder)!r}; end it, or choose another run") from None
        self._changing = threading.Lock()
        self._segments: list[_Segment] = []
        self._active: _Segment | None = None
        self.problems: list[str] = []
        """What could not be read again after a crash."""
        for path in sorted(folder.glob("*.jsonl")):
            self._segments.append(self._opened(path))
        self.position = max([start, *(s.end for s in self._segments)])

    @property
    def held(self) -> int:
        """How many bytes are on disk."""
        return sum(s.size for s in self._segments)

    def lines(self) -> Iterator[SpooledLine]:
        """What an earlier process was told and did not commit; call it before anything is added."""
        for segment in self._segments:
            yield from self._read_again(segment)

    def add(self, lines: Sequence[bytes]) -> int:
        """Append a group and sync it; gives the position of its first line. After an `OSError` nothing was added."""
        data = b"".join(lines)
        end = b'%s%d,"%08x"]\n' % (_END, len(data), zlib.crc32(data))
        with self._changing:
            segment = self._active
            if segment is None or segment.size >= self._segment_bytes:
                segment = self._next()
            start = segment.end
            try:
                write_all(segment.descriptor, data + end)
                os.fdatasync(segment.descriptor)
            except OSError:
                self._give_up(segment)
                raise
            segment.size += len(data) + len(end)
            self.position = segment.end
            return start

    def read(self, position: int, length: int) -> bytes:
        """Bytes that are still held."""
        for segment in reversed(self._segments):
            if segment.start <= position:
                return os.pread(segment.descriptor, length, position - segment.start)
        raise ValueError(f"position {position} is no longer in the spool")

    def release(self, position: int) -> None:
        """Everything before a position is committed elsewhere: segments that end there are deleted."""
        with self._changing:
            for segment in [s for s in self._segments if s.end <= position]:
                self._forget(segment)
                if segment.damaged:
                    segment.path.rename(segment.path.with_suffix(".damaged"))
                else:
                    segment.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Give up the folder; what is in it stays."""
        for segment in self._segments:
            os.close(segment.descriptor)
        empty = not self._segments
        self._segments, self._active = [], None
        if empty:
            with suppress(OSError):  # something of another kind lies there
                (self._folder / ".lock").unlink(missing_ok=True)
                self._folder.rmdir()
        os.close(self._lock)

    def _opened(self, path: Path) -> _Segment:
        descriptor = os.open(path, os.O_RDWR)
        start = int(path.stem) if path.stem.isdigit() else 0
        return _Segment(path, start, os.fstat(descriptor).st_size, descriptor)

    def _next(self) -> _Segment:
        path = self._folder / f"{self.position:020d}.jsonl"
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        segment = _Segment(path, self.position, 0, os.open(path, flags, 0o600))
        sync_folder(self._folder)
        self._segments = [*self._segments, segment]
        self._active = segment
        return segment

    def _give_up(self, segment: _Segment) -> None:
        """After a write that failed the next group goes to a new segment; what of this one was synced stays."""
        with suppress(OSError):
            os.ftruncate(segment.descriptor, segment.size)
        if segment is self._active:
            self._active = None
        if segment.size == 0:
            self._forget(segment)
            segment.path.unlink(missing_ok=True)

    def _forget(self, segment: _Segment) -> None:
        if segment is self._active:
            self._active = None
        self._segments = [s for s in self._segments if s is not segment]
        os.close(segment.descriptor)

    def _read_again(self, segment: _Segment) -> Iterator[SpooledLine]:
        """The lines of whole groups; the rest at the end was never acknowledged and is passed over."""
        group: list[SpooledLine] = []
        at = check = size = 0
        with segment.path.open("rb") as stream:
            for line in stream:
                if not line.endswith(b"\n"):
                    return
                if not line.startswith(_END):
                    group.append(SpooledLine(segment.start + at, line))
                    check, size = zlib.crc32(line, check), size + len(line)
                else:
                    if _is_end(line, size, check):
                        yield from group
                    else:
                        segment.damaged = True
                        self.problems.append(
                            f"{segment.path.name}: {len(group)} lines before byte {at} are not as they were written"
                        )
                    group, check, size = [], 0, 0
                at += len(line)


def _is_end(line: bytes, size: int, check: int) -> bool:
    try:
        return bool(msgspec.json.decode(line) == ["end", size, f"{check:08x}"])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
