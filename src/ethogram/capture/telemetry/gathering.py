"""Spans and log records out of OTLP, in JSON or in protobuf, as raw spans and raw events by trace."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from ethogram.capture.intake import RECORD_ERRORS
from ethogram.capture.parse import as_dict, as_int, as_list, as_name, as_text

from . import protobuf as pb
from .spans import RawEvent, RawSpan
from .wire import WirePiece, any_value, hex_id, key_values, kind_name, nanos, status_of

if TYPE_CHECKING:
    from opentelemetry.proto.logs.v1.logs_pb2 import ResourceLogs
    from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans

DROPPED = {f"dropped{what}Count": pb.DROPPED[i] for i, what in enumerate(("Attributes", "Events", "Links"))}

_OFTEN = frozenset(["traceId", "spanId", "parentSpanId", "name", "startTimeUnixNano", "endTimeUnixNano", "attributes"])
"""Fields that every span has; one without others is read in one look."""


class SpanTaker(Protocol):
    """Where raw spans are gathered: the buffer of a file, or the batch of a request."""

    def resource(self, attributes: dict[str, Any]) -> int:
        """The number of a resource; equal ones share it."""
        ...

    def open_resource(self) -> int:
        """The number of a resource that is not known yet."""
        ...

    def fill_resource(self, number: int, attributes: dict[str, Any]) -> None:
        """Say what a resource is."""
        ...

    def add(self, trace: str, span: RawSpan) -> None:
        """Keep a span."""
        ...

    def add_event(self, trace: str, span_id: str, event: RawEvent) -> None:
        """Keep an event that came apart from its span."""
        ...


class GatheringHost(Protocol):
    """Who is told of what cannot be used."""

    def record(self, where: str) -> AbstractContextManager[None]:
        """One foreign record: whatever is wrong with its shape is reported."""
        ...

    def refuse(self, where: str, error: BaseException) -> None:
        """Report a record that an error of `RECORD_ERRORS` was raised for."""
        ...

    def skip(self, where: str, why: str) -> None:
        """Report a record that could not be used."""
        ...

    def lose(self, field: str, count: int = 1) -> None:
        """Report what could not be represented."""
        ...


class Gathering:
    """Puts spans and log records where they are gathered; what is wrong with one of them costs that one."""

    def __init__(self, buffer: SpanTaker, host: GatheringHost) -> None:
        self._buffer = buffer
        self._host = host
        self._resource: int | None = None
        self._waiting: int | None = None
        self._scope: dict[str, Any] = {}
        self._scope_name = ""
        self._count = 0

    def pieces(self, place: str, pieces: Iterable[WirePiece]) -> None:
        """Pieces of documents in JSON; `place` says where they stand."""
        for piece in pieces:
            self._one(place, piece)

    def spans_message(self, message: ResourceSpans) -> None:
        """The spans of one resource, in protobuf."""
        number = self._buffer.resource(pb.attributes_of(message.resource.attributes))
        for scope in message.scope_spans:
            beside = pb.scope_facts(scope.scope)
            for span in scope.spans:
                self._count += 1
                with self._host.record(f"span {self._count}"):
                    trace, raw = pb.raw_span(span, number, beside, self._host.lose)
                    self._buffer.add(trace, raw)

    def logs_message(self, message: ResourceLogs) -> None:
        """The log records of one resource, in protobuf."""
        for scope in message.scope_logs:
            for record in scope.log_records:
                self._count += 1
                with self._host.record(f"log {self._count}"):
                    attributes = pb.attributes_of(record.attributes)
                    self._keep_log(
                        record.trace_id.hex(),
                        record.span_id.hex(),
                        record.event_name,
                        record.time_unix_nano or record.observed_time_unix_nano or None,
                        record.severity_text,
                        pb.plain_value(record.body),
                        attributes,
                    )

    def _one(self, place: str, piece: WirePiece) -> None:
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
            try:
                self._span(value) if what == "span" else self._log(value)
            except RECORD_ERRORS as error:
                self._host.refuse(f"{place}{what} {self._count}", error)
        elif what == "metrics":
            self._host.lose("resourceMetrics")
        else:
            self._host.skip(place.rstrip(", ") or "document", str(value))

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
            self._host.lose("attribute (malformed)", bad)
        return found

    def _span(self, span: Any) -> None:
        if not isinstance(span, dict):
            raise ValueError(f"a span that is a {type(span).__name__}, not an object")
        get = _getter(span)
        trace = hex_id(get("traceId"), 16)
        if not trace.strip("0"):
            raise ValueError("a span without a trace id")
        parent = get("parentSpanId")
        parent = hex_id(parent, 8) if parent else ""
        status: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        events: Any = None
        rare = not _OFTEN.issuperset(span)
        if rare and (kind := get("kind")) is not None and (name := kind_name(kind)):
            extra["otel.kind"] = name
        if self._scope_name:
            extra["otel.scope"] = self._scope_name
        if (named := self._scope.get("attributes")) and (inner := self._attributes(named)):
            extra["otel.scope_attributes"] = inner
        if rare:
            status, events = as_dict(get("status")), get("events")
            self._rare(get, extra)
        self._buffer.add(
            trace,
            RawSpan(
                name=as_name(get("name")),
                span_id=hex_id(get("spanId"), 8) or None,
                parent_id=parent if parent.strip("0") else None,
                start_ns=nanos(get("startTimeUnixNano")),
                end_ns=nanos(get("endTimeUnixNano")),
                status=status_of(status.get("code")) if status else "unset",
                message=as_text(status.get("message")) if status else "",
                attributes=self._attributes(get("attributes")),
                events=[self._event(event) for event in as_list(events) if isinstance(event, dict)] if events else [],
                resource=self._resource_number(),
                extra=extra,
            ),
        )

    def _rare(self, get: Any, extra: dict[str, Any]) -> None:
        """What few spans have: a state, links, and what the exporter dropped."""
        if state := as_name(get("traceState")):
            extra["otel.trace_state"] = state
        if links := [self._link(link) for link in as_list(get("links"))]:
            extra["otel.links"] = links
        for field, what in DROPPED.items():
            if (count := get(field)) and (number := as_int(count)):
                self._host.lose(what, number)

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
        self._keep_log(
            hex_id(get("traceId"), 16),
            hex_id(get("spanId"), 8),
            as_name(get("eventName")),
            nanos(get("timeUnixNano")) or nanos(get("observedTimeUnixNano")),
            as_name(get("severityText")),
            any_value(get("body")),
            self._attributes(get("attributes")),
        )

    def _keep_log(
        self, trace: str, span: str, name: str, when: int | None, severity: str, body: Any, attributes: dict[str, Any]
    ) -> None:
        if not trace.strip("0"):
            self._host.lose("log record (no trace id)")
            return
        name = name or as_name(attributes.pop("event.name", None))
        if isinstance(body, dict):
            attributes = {**attributes, **body}
        elif body is not None:
            attributes["content" if name.startswith("gen_ai.") else "body"] = body
        if severity:
            attributes.setdefault("severity", severity)
        self._buffer.add_event(trace, span, RawEvent(name or "log", when, attributes))


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
