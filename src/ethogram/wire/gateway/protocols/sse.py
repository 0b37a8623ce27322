"""Server-sent events: a parser that takes bytes as they arrive, and the writer of one event."""

from __future__ import annotations

from typing import Any

import msgspec

EVENT_LIMIT = 32 << 20
"""Bytes of one event; a longer one is dropped and counted, so that a stream without blank lines cannot fill memory."""

_MARK = b"\xef\xbb\xbf"
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder()


class EventParser:
    """Cuts a stream into the data of its events. Chunks may end anywhere, inside a character or a line break too.

    Lines end in LF, CRLF or CR; data of several lines is joined by LF; comments, ids and retry times are left out.
    The names of events are left out as well: every API here repeats them in its data, as `type`.
    """

    def __init__(self, limit: int = EVENT_LIMIT) -> None:
        self.dropped = 0
        self._limit = limit
        self._start: bytes | None = b""
        """The first bytes while they may still become a byte order mark, then None."""
        self._after_cr = False
        self._pieces: list[bytes] = []
        self._line_size = 0
        self._data: list[bytes] = []
        self._data_size = 0
        self._overlong = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that these bytes complete."""
        if self._start is not None:
            chunk = self._without_mark(chunk)
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        if b"\r" in chunk:
            self._after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        first, *lines = chunk.split(b"\n")
        self._keep(first)
        if not lines:
            return []
        first = b"".join(self._pieces)
        self._pieces.clear()
        self._line_size = 0
        rest = lines.pop()
        events = [data for line in (first, *lines) if (data := self._line(line)) is not None]
        self._keep(rest)
        return events

    def _without_mark(self, chunk: bytes) -> bytes:
        start = (self._start or b"") + chunk
        if len(start) < len(_MARK) and _MARK.startswith(start):
            self._start = start
            return b""
        self._start = None
        return start.removeprefix(_MARK)

    def _keep(self, piece: bytes) -> None:
        """Remember the beginning of a line, unless its event has grown too long."""
        if not piece:
            return
        self._line_size += len(piece)
        if self._overlong or self._data_size + self._line_size > self._limit:
            self._overlong = True
            self._data.clear()
            self._pieces = [b":"]  # a comment stands for the line, of which nothing is kept
        else:
            self._pieces.append(piece)

    def _line(self, line: bytes) -> bytes | None:
        """Take one line; gives the data of an event where a blank line ends it."""
        if not line:
            data, overlong = self._data, self._overlong
            self._data, self._data_size, self._overlong = [], 0, False
            self.dropped += overlong
            return b"\n".join(data) if data and not overlong else None
        self._overlong = self._overlong or self._data_size + len(line) > self._limit
        if self._overlong:
            return None
        if line.startswith(b"data:"):
            self._data.append(line[6:] if line[5:6] == b" " else line[5:])
            self._data_size += len(line)
        elif line == b"data":
            self._data.append(b"")
        return None


def event(data: dict[str, Any], name: str = "") -> bytes:
    """One event as bytes; `name` is left out where the API does not name its events."""
    head = b"event: " + name.encode() + b"\n" if name else b""
    return head + b"data: " + _encoder.encode(data) + b"\n\n"


class ReplyReader:
    """Base of the readers of streamed replies: each event with a JSON object goes to `take`, once and in order."""

    def __init__(self) -> None:
        self._parser = EventParser()
        self._malformed = 0
        self.ended = False
        """Whether the stream said that it is over."""

    @property
    def malformed(self) -> int:
        """Events that were too long, no JSON, or no object."""
        return self._malformed + self._parser.dropped

    def feed(self, chunk: bytes) -> None:
        """The next bytes, cut anywhere; never raises."""
        for data in self._parser.feed(chunk):
            if data == b"[DONE]":
                self.ended = True
                continue
            try:
                value = _decoder.decode(data)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                self._malformed += 1
                continue
            if not isinstance(value, dict):
                self._malformed += 1
                continue
            self.take(value)

    def take(self, value: dict[str, Any]) -> None:
        """One event; kinds and fields that are unknown are passed over."""
        raise NotImplementedError
