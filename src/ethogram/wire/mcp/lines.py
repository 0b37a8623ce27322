"""Lines and events cut out of a stream of bytes, without changing one."""

from __future__ import annotations

from collections.abc import Iterator

LONGEST = 256 << 20
"""A longer line is passed on in pieces and not read."""


class LineCutter:
    """Cuts lines out of chunks; each keeps its line break."""

    def __init__(self, longest: int = LONGEST) -> None:
        self._rest = bytearray()
        self._searched = 0
        self._longest = longest
        self._too_long = False

    def feed(self, chunk: bytes) -> Iterator[tuple[bytes, bool]]:
        """The lines that are complete now; the flag is false for a piece of a line that is too long to be read."""
        self._rest += chunk
        while (end := self._rest.find(b"\n", self._searched)) >= 0:
            line = bytes(self._rest[: end + 1])
            del self._rest[: end + 1]
            self._searched = 0
            yield line, not self._too_long
            self._too_long = False
        self._searched = len(self._rest)
        if self._searched > self._longest:
            yield self._take(), False
            self._too_long = True

    def rest(self) -> bytes:
        """What stands after the last line break."""
        return self._take()

    def _take(self) -> bytes:
        rest = bytes(self._rest)
        self._rest.clear()
        self._searched = 0
        return rest


class EventCutter:
    """Cuts server-sent events out of chunks; each keeps the blank line that ends it."""

    def __init__(self) -> None:
        self._lines = LineCutter()
        self._event: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The events that are complete now."""
        for line, _ in self._lines.feed(chunk):
            self._event.append(line)
            if not line.strip(b"\r\n"):
                yield self._take()

    def rest(self) -> bytes:
        """What stands after the last event."""
        self._event.append(self._lines.rest())
        return self._take()

    def _take(self) -> bytes:
        event = b"".join(self._event)
        self._event = []
        return event


def event_data(event: bytes) -> bytes:
    """The data of a server-sent event; empty where it has none."""
    lines = event.replace(b"\r\n", b"\n").split(b"\n")
    return b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))


def with_data(event: bytes, data: bytes) -> bytes:
    """The event with other data; its id and its other fields stay."""
    lines = event.replace(b"\r\n", b"\n").strip(b"\n").split(b"\n")
    return b"\n".join([*(line for line in lines if not line.startswith(b"data:")), b"data: " + data]) + b"\n\n"
