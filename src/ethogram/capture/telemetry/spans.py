"""Raw spans, as any telemetry format gives them, and the buffer that gathers them by trace.

Spans of one trace may lie anywhere in a source, so all are kept until its end: the first of them as they are, and
once these take three quarters of `MEMORY`, encoded in one temporary file, which spills to disk beyond the last
quarter. What remains in memory is 16 bytes a span, one small table a trace, a hundred bytes for each distinct
resource, and, while a trace is written, about half a kilobyte for each span of that one trace (all of a trace of up
to 1 MiB). A source of any size is read so.
"""

from __future__ import annotations

import math
import tempfile
from array import array
from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import msgspec

from ethogram.capture.draft import without_surrogates
from ethogram.traces import Kind, Status

MEMORY = 64 << 20
OPEN_SPAN = 1500
"""About how many bytes a span that is not encoded takes beside its words."""
_LONGEST = 1 << 63


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
    """What one trace has in the buffer: places of its spans, and places of the events of each span id.

    `open` holds spans that were never encoded, by position; of their places only the size counts.
    """

    def __init__(self) -> None:
        self.spans = array("Q")
        self.open: dict[int, RawSpan] = {}
        self.events: dict[str, array[int]] = {}


class SpanBuffer:
    """Keeps raw spans until their trace is complete."""

    def __init__(self, memory: int | None = None, resources: Callable[[int], dict[str, Any]] | None = None) -> None:
        """`memory` is how many bytes stay out of the file system; `resources` knows those that were numbered before."""
        size = MEMORY if memory is None else memory
        self._room = size * 3 // 4
        self._file = tempfile.SpooledTemporaryFile(max_size=size - self._room, prefix="ethogram-")  # noqa: SIM115
        self._end = 0
        self._at_end = True
        self._numbers: dict[bytes, int] = {}
        self._resources = array("Q")
        self._last: tuple[int, dict[str, Any]] = (-1, {})
        self._known = resources
        self.traces: dict[str, Gathered] = {}

    def close(self) -> None:
        """Forget everything."""
        self._file.close()

    def resource(self, attributes: dict[str, Any]) -> int:
        """The number of a resource; equal ones share it."""
        data = encode_raw(attributes)
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
        self._resources[2 * number], self._resources[2 * number + 1] = self._put(encode_raw(attributes))

    def resource_of(self, number: int) -> dict[str, Any]:
        """The attributes of a resource."""
        if self._known is not None:
            return self._known(number)
        if self._last[0] != number:
            offset, length = self._resources[2 * number], self._resources[2 * number + 1]
            found = msgspec.json.decode(self._get(offset, length)) if length else {}
            self._last = (number, found if isinstance(found, dict) else {})
        return self._last[1]

    def add(self, trace: str, span: RawSpan) -> None:
        """Keep a span: as it is while there is room, unless encoding it would change it."""
        size = _open_size(span) if self._room > 0 else None
        if size is None:
            self.keep(trace, encode_raw(span))
            return
        self._room -= size
        found = self.traces.get(trace)
        if found is None:
            found = self.traces[trace] = Gathered()
        found.open[len(found.spans) // 2] = span
        found.spans.extend((0, size))

    def keep(self, trace: str, data: bytes) -> None:
        """Keep a span that is encoded already."""
        self.traces.setdefault(trace, Gathered()).spans.extend(self._put(data))

    def keep_event(self, trace: str, span_id: str, data: bytes) -> None:
        """Keep an event that is encoded already."""
        self.traces.setdefault(trace, Gathered()).events.setdefault(span_id, array("Q")).extend(self._put(data))

    def add_event(self, trace: str, span_id: str, event: RawEvent) -> None:
        """Keep an event that came apart from its span."""
        self.keep_event(trace, span_id, encode_raw(event))

    def sizes(self, trace: str) -> array[int]:
        """How many bytes each span of a trace takes, in the order in which they came."""
        return self.traces[trace].spans[1::2]

    def encoded(self, trace: str, position: int) -> bytes:
        """One span of a trace, encoded."""
        found = self.traces[trace]
        if position in found.open:
            return encode_raw(found.open[position])
        return self._get(found.spans[2 * position], found.spans[2 * position + 1])

    def span(self, trace: str, position: int) -> RawSpan:
        """One span of a trace."""
        found = self.traces[trace].open.get(position)
        return _span_decoder.decode(self.encoded(trace, position)) if found is None else found

    def forget(self, trace: str) -> None:
        """Make room: nobody will ask for the spans of this trace again."""
        found = self.traces.pop(trace)
        self._room += sum(found.spans[2 * position + 1] for position in found.open)

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


def _open_size(span: RawSpan) -> int | None:
    """About how many bytes a span takes in memory; None if encoding would change what is in it, or share it."""
    if span.events or span.fields:
        return None
    named = _names_size(tuple(span.attributes))
    if named is None:
        return None
    size = OPEN_SPAN + named
    values = span.attributes.values()
    for value in (span.name, span.message, span.start_ns, span.end_ns, *values, *span.extra.values()):
        kind = type(value)
        if kind is str:
            if not value.isascii() and without_surrogates(value) is not value:
                return None
            size += len(value)
        elif kind is int:
            if not -_LONGEST < value < _LONGEST:
                return None
        elif value is not None and kind is not bool and not (kind is float and math.isfinite(value)):
            return None
    return size


@lru_cache(maxsize=1024)
def _names_size(names: tuple[str, ...]) -> int | None:
    """The characters of the names of a span's attributes, which are the same in many spans; None as `_open_size`."""
    if any(without_surrogates(name) is not name for name in names):
        return None
    return sum(map(len, names))


def decode_span(data: bytes) -> RawSpan:
    """A span as it was kept."""
    return _span_decoder.decode(data)


def encode_raw(value: Any) -> bytes:
    """A raw span, a raw event or attributes, as they are kept."""
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
