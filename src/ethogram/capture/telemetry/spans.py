"""Raw spans, as any telemetry format gives them, and the buffer that gathers them by trace.

Spans of one trace may lie anywhere in a source, so all are kept until its end: encoded, in one temporary file
that stays in memory up to `MEMORY` bytes and spills to disk beyond. What remains in memory is 16 bytes a span, one
small table a trace, a hundred bytes for each distinct resource, and, while a trace is written, about half a
kilobyte for each span of that one trace (all of a trace of up to 1 MiB). A source of any size is read so.
"""

from __future__ import annotations

import tempfile
from array import array
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

import msgspec

from ethogram.capture.draft import without_surrogates
from ethogram.trace import Kind, Status

MEMORY = 64 << 20


class RawEvent(msgspec.Struct, omit_defaults=True):
    """Something that happened during a span; also a log record that names the span."""

    name: str
    time_ns: int | None = None
    attributes: dict[str, Any] = {}


class RawSpan(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A span before anything is understood.

    `fields` are fields of the draft that the format itself knows; they win over what the attributes say.
    `extra` goes into the attributes of the draft unread. `hint` is the kind that the format names.
    """

    name: str = ""
    span_id: str | None = None
    parent_id: str | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    status: Status = "unset"
    message: str = ""
    hint: Kind | None = None
    attributes: dict[str, Any] = {}
    events: list[RawEvent] = []
    resource: int = -1
    fields: dict[str, Any] = {}
    extra: dict[str, Any] = {}


_encoder = msgspec.json.Encoder(enc_hook=str)
_span_decoder = msgspec.json.Decoder(RawSpan)
_event_decoder = msgspec.json.Decoder(RawEvent)


class Gathered:
    """What one trace has in the buffer: places of its spans, and places of the events of each span id."""

    def __init__(self) -> None:
        self.spans = array("Q")
        self.events: dict[str, array[int]] = {}


class SpanBuffer:
    """Keeps raw spans until their trace is complete."""

    def __init__(self, memory: int | None = None) -> None:
        """`memory` is how many bytes stay out of the file system."""
        size = MEMORY if memory is None else memory
        self._file = tempfile.SpooledTemporaryFile(max_size=size, prefix="ethogram-")  # noqa: SIM115
        self._end = 0
        self._at_end = True
        self._numbers: dict[bytes, int] = {}
        self._resources = array("Q")
        self._last: tuple[int, dict[str, Any]] = (-1, {})
        self.traces: dict[str, Gathered] = {}

    def close(self) -> None:
        """Forget everything."""
        self._file.close()

    def resource(self, attributes: dict[str, Any]) -> int:
        """The number of a resource; equal ones share it."""
        data = _encode(attributes)
        mark = blake2b(data, digest_size=16).digest()
        if mark not in self._numbers:
            self._numbers[mark] = self.open_resource()
            self.fill_resource(self._numbers[mark], attributes)
        return self._numbers[mark]

    def open_resource(self) -> int:
        """The number of a resource that is not known yet."""
        self._resources.extend((0, 0))
        return len(self._resources) // 2 - 1

    def fill_resource(self, number: int, attributes: dict[str, Any]) -> None:
        """Say what a resource is."""
        self._resources[2 * number], self._resources[2 * number + 1] = self._put(_encode(attributes))

    def resource_of(self, number: int) -> dict[str, Any]:
        """The attributes of a resource."""
        if self._last[0] != number:
            offset, length = self._resources[2 * number], self._resources[2 * number + 1]
            found = msgspec.json.decode(self._get(offset, length)) if length else {}
            self._last = (number, found if isinstance(found, dict) else {})
        return self._last[1]

    def add(self, trace: str, span: RawSpan) -> None:
        """Keep a span."""
        self.traces.setdefault(trace, Gathered()).spans.extend(self._put(_encode(span)))

    def add_event(self, trace: str, span_id: str, event: RawEvent) -> None:
        """Keep an event that came apart from its span."""
        places = self.traces.setdefault(trace, Gathered()).events.setdefault(span_id, array("Q"))
        places.extend(self._put(_encode(event)))

    def sizes(self, trace: str) -> array[int]:
        """How many bytes each span of a trace takes, in the order in which they came."""
        return self.traces[trace].spans[1::2]

    def encoded(self, trace: str) -> Iterator[bytes]:
        """The spans of a trace as they were kept, in the order in which they came."""
        places = self.traces[trace].spans
        for i in range(0, len(places), 2):
            yield self._get(places[i], places[i + 1])

    def span(self, trace: str, position: int) -> RawSpan:
        """One span of a trace."""
        places = self.traces[trace].spans
        return _span_decoder.decode(self._get(places[2 * position], places[2 * position + 1]))

    def events(self, trace: str, span_id: str) -> list[RawEvent]:
        """The events that came apart from their span."""
        places = self.traces[trace].events.get(span_id, ())
        return [_event_decoder.decode(self._get(places[i], places[i + 1])) for i in range(0, len(places), 2)]

    def _put(self, data: bytes) -> tuple[int, int]:
        if not self._at_end:
            self._file.seek(self._end)
            self._at_end = True
        self._file.write(data)
        place = (self._end, len(data))
        self._end += len(data)
        return place

    def _get(self, offset: int, length: int) -> bytes:
        self._at_end = False
        self._file.seek(offset)
        return self._file.read(length)


def decode_span(data: bytes) -> RawSpan:
    """A span as it was kept."""
    return _span_decoder.decode(data)


def _encode(value: Any) -> bytes:
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:  # half characters
        return _encoder.encode(_printable(msgspec.to_builtins(value, enc_hook=str)))


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return without_surrogates(value)
    if isinstance(value, dict):
        return {_printable(k): _printable(v) for k, v in value.items()}
    return [_printable(v) for v in value] if isinstance(value, list) else value
