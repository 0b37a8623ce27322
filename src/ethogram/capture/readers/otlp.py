"""OTLP: traces (and the log records that belong to them) as JSON documents, JSON lines, or protobuf.

Spans of one trace may be scattered over a whole file, and one document holds spans of many traces: all are
gathered first (see `telemetry.spans` for the bounds) and each trace is written when the source ends. Log records
join their span by trace and span id where both are in the same source. `lost` counts metrics, log records without
a trace, what the exporting SDK had dropped already, spans that were delivered twice, and model spans that tell the
same call twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from ethogram.capture.intake import Intake
from ethogram.capture.parse import as_dict, as_int, as_list, as_name, as_text
from ethogram.capture.peek import Peek, peek_at
from ethogram.capture.records import lines, objects
from ethogram.capture.salvage import parse
from ethogram.capture.source import Source
from ethogram.capture.telemetry.assemble import write_traces
from ethogram.capture.telemetry.spans import RawEvent, RawSpan, SpanBuffer
from ethogram.capture.telemetry.wire import (
    METRICS,
    Piece,
    any_value,
    hex_id,
    is_protobuf,
    key_values,
    kind_name,
    nanos,
    protobuf,
    status_of,
    streamed,
    taken_apart,
)
from ethogram.errors import Unreadable

FORMAT = "otlp"

_TOPS = frozenset({"resourceSpans", "resource_spans", "resourceLogs", "resource_logs"})
_DROPPED = {
    f"dropped{what}Count": f"{what.lower()} (dropped by the exporter)" for what in ("Attributes", "Events", "Links")
}
_WHOLE = 16 << 20
"""Documents up to this size are parsed at once (faster, and forgiving); larger ones are streamed."""


def sniff(peek: Peek) -> int:
    """Documents name their resource spans; protobuf shows a trace id and a span id where a span has them."""
    if not peek.records and is_protobuf(peek.data):
        return 90
    found = any(isinstance(r, dict) and any(isinstance(r.get(k), list) for k in _TOPS) for r in peek.records)
    return 95 if found else 0


def read(source: Source, intake: Intake) -> None:
    """One trace per trace id."""
    buffer = SpanBuffer()
    try:
        _Gathering(buffer, intake).take(source)
        write_traces(buffer, intake)
    finally:
        buffer.close()


class _Gathering:
    """Puts the spans and log records of a source into the buffer."""

    def __init__(self, buffer: SpanBuffer, intake: Intake) -> None:
        self._buffer = buffer
        self._intake = intake
        self._resource: int | None = None
        self._waiting: int | None = None
        self._scope: dict[str, Any] = {}
        self._scope_name = ""
        self._count = 0

    def take(self, source: Source) -> None:
        """All pieces of a source; what is cut off or damaged is reported and what came before it is kept."""
        peek = peek_at(source)
        binary = is_protobuf(peek.data)
        if not binary and peek.shape not in ("lines", "array", "object"):
            why = "empty" if peek.shape == "empty" else "neither JSON nor OTLP in protobuf"
            raise Unreadable(f"{source.name}: {why}")
        with self._intake.record("the rest of the file"):
            if binary:
                self._all("", protobuf(source))
            elif peek.shape == "lines" or _first_line_is_whole(peek):
                for place, document in objects(lines(source, self._intake), self._intake):
                    if not any(key in document for key in (*_TOPS, *METRICS)):
                        self._intake.skip(place, "no resourceSpans or resourceLogs in it")
                    self._all(f"{place}, ", taken_apart(document))
            else:
                self._document(source)

    def _document(self, source: Source) -> None:
        with source.open() as stream:
            start = stream.read(_WHOLE)
            while len(start) < _WHOLE and (more := stream.read(_WHOLE - len(start))):
                start += more
        if len(start) < _WHOLE:
            try:
                whole = parse(start.removeprefix(b"\xef\xbb\xbf"))
            except (ValueError, RecursionError):
                whole = None  # cut off or several documents: the streaming parser takes what there is
            for document in whole if isinstance(whole, list) else [whole]:
                if isinstance(document, dict):
                    self._all("", taken_apart(document))
            if whole is not None:
                return
        with source.open() as stream:
            self._all("", streamed(stream))

    def _all(self, place: str, pieces: Iterator[Piece]) -> None:
        for piece in pieces:
            self._one(place, piece)

    def _one(self, place: str, piece: Piece) -> None:
        what, value = piece
        if what == "resource+":
            self._resource, self._waiting, self._scope, self._scope_name = None, None, {}, ""
        elif what == "scope+":
            self._scope, self._scope_name = {}, ""
        elif what == "resource":
            self._resource_is(value)
        elif what == "scope":
            self._scope = as_dict(value)
            named = " ".join(as_name(self._scope[k]) for k in ("name", "version") if self._scope.get(k))
            self._scope_name = "" if named.startswith("ethogram") else named
        elif what in ("span", "log"):
            self._count += 1
            with self._intake.record(f"{place}{what} {self._count}"):
                self._span(value) if what == "span" else self._log(value)
        elif what == "metrics":
            self._intake.lose("resourceMetrics")
        else:
            self._intake.skip(place.rstrip(", ") or "document", str(value))

    def _resource_is(self, value: Any) -> None:
        attributes = self._attributes(as_dict(value).get("attributes"))
        if self._waiting is not None:  # its spans came first
            self._buffer.fill_resource(self._waiting, attributes)
        else:
            self._resource = self._buffer.resource(attributes)

    def _resource_number(self) -> int:
        if self._resource is None:
            self._resource = self._waiting = self._buffer.open_resource()
        return self._resource

    def _attributes(self, pairs: Any) -> dict[str, Any]:
        found, bad = key_values(pairs)
        if bad:
            self._intake.lose("attribute (malformed)", bad)
        return found

    def _span(self, span: Any) -> None:
        if not isinstance(span, dict):
            raise ValueError(f"a span that is a {type(span).__name__}, not an object")
        get = _getter(span)
        trace = hex_id(get("traceId"), 16)
        if not trace:
            raise ValueError("a span without a trace id")
        status, parent = as_dict(get("status")), hex_id(get("parentSpanId"), 8)
        extra: dict[str, Any] = {}
        if name := kind_name(get("kind")):
            extra["otel.kind"] = name
        if self._scope_name:
            extra["otel.scope"] = self._scope_name
        if (named := self._scope.get("attributes")) and (inner := self._attributes(named)):
            extra["otel.scope_attributes"] = inner
        if state := as_name(get("traceState")):
            extra["otel.trace_state"] = state
        if links := [self._link(link) for link in as_list(get("links"))]:
            extra["otel.links"] = links
        for field, what in _DROPPED.items():
            if (count := get(field)) and (number := as_int(count)):
                self._intake.lose(what, number)
        self._buffer.add(
            trace,
            RawSpan(
                name=as_name(get("name")),
                span_id=hex_id(get("spanId"), 8) or None,
                parent_id=parent if parent.strip("0") else None,
                start_ns=nanos(get("startTimeUnixNano")),
                end_ns=nanos(get("endTimeUnixNano")),
                status=status_of(status.get("code")),
                message=as_text(status.get("message")),
                attributes=self._attributes(get("attributes")),
                events=[self._event(event) for event in as_list(get("events")) if isinstance(event, dict)],
                resource=self._resource_number(),
                extra=extra,
            ),
        )

    def _event(self, event: dict[str, Any]) -> RawEvent:
        get = _getter(event)
        return RawEvent(as_name(get("name")), nanos(get("timeUnixNano")), self._attributes(get("attributes")))

    def _link(self, link: Any) -> dict[str, Any]:
        get = _getter(as_dict(link))
        inner = self._attributes(get("attributes"))
        return {"trace_id": hex_id(get("traceId"), 16), "span_id": hex_id(get("spanId"), 8), **inner}

    def _log(self, record: Any) -> None:
        if not isinstance(record, dict):
            raise ValueError(f"a log record that is a {type(record).__name__}, not an object")
        get = _getter(record)
        trace = hex_id(get("traceId"), 16)
        if not trace.strip("0"):
            self._intake.lose("log record (no trace id)")
            return
        attributes = self._attributes(get("attributes"))
        body = any_value(get("body"))
        name = as_name(get("eventName") or attributes.pop("event.name", None))
        if isinstance(body, dict):
            attributes = {**attributes, **body}
        elif body is not None:
            attributes["content" if name.startswith("gen_ai.") else "body"] = body
        if severity := as_name(get("severityText")):
            attributes.setdefault("severity", severity)
        when = nanos(get("timeUnixNano")) or nanos(get("observedTimeUnixNano"))
        self._buffer.add_event(trace, hex_id(get("spanId"), 8), RawEvent(name or "log", when, attributes))


def _first_line_is_whole(peek: Peek) -> bool:
    """Whether lines follow each other of which strict parsers refuse the first."""
    line, _, rest = peek.data.partition(b"\n")
    try:
        return bool(rest.strip()) and isinstance(parse(line), dict)
    except (ValueError, RecursionError):
        return False


def _getter(item: dict[str, Any]) -> Any:
    """Fields by their JSON name or, where people kept protobuf's own names, in snake case."""
    if "_" not in "".join(item):
        return item.get

    def get(name: str) -> Any:
        value = item.get(name)
        return value if value is not None else item.get(_snake(name))

    return get


@cache
def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
