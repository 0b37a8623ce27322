"""Span lists as Phoenix exports them and as OpenTelemetry's console exporter prints them.

An array, JSON lines or documents one after another, each span
`{id, name, context{trace_id, span_id}, span_kind, parent_id, start_time, end_time, status_code, attributes, events}`;
attributes are nested or flat. Rows of Phoenix's spans table (`context.trace_id`, `attributes.llm.model_name`) are
read too. Spans are gathered by trace (see `telemetry.spans` for the bounds).
"""

from __future__ import annotations

from typing import Any

from ethogram.capture.intake import Intake
from ethogram.capture.parse import as_dict, as_list, as_name, as_text, iso_ns
from ethogram.capture.peek import Peek
from ethogram.capture.records import objects, records
from ethogram.capture.source import Source
from ethogram.capture.telemetry.assemble import write_traces
from ethogram.capture.telemetry.spans import RawEvent, RawSpan, SpanBuffer
from ethogram.capture.telemetry.wire import hex_id, kind_name, status_of

FORMAT = "openinference"

_KNOWN = frozenset(
    {
        "name",
        "context",
        "span_kind",
        "kind",
        "parent_id",
        "parent_span_id",
        "start_time",
        "end_time",
        "status",
        "status_code",
        "status_message",
        "attributes",
        "events",
        "links",
        "resource",
        "trace_id",
        "span_id",
    }
)
MARKS = frozenset(["context", "context.trace_id"])


def sniff(peek: Peek) -> int:
    """Spans have a context with two ids, and a start."""
    first = peek.first
    context = first.get("context")
    if isinstance(context, dict) and "trace_id" in context and "span_id" in context:
        return 90 if "start_time" in first or "attributes" in first else 60
    return 85 if "context.trace_id" in first and "context.span_id" in first else 0


def read(source: Source, intake: Intake) -> None:
    """One trace per trace id."""
    found = objects(records(source, intake, announce=False), intake)
    buffer = SpanBuffer()
    try:
        with intake.record("the rest of the file"):
            for place, item in found:
                with intake.record(place):
                    _take(_unrolled(item), buffer, intake)
        write_traces(buffer, intake)
    finally:
        buffer.close()


def _unrolled(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the spans table as a span; other spans as they are."""
    if "context.trace_id" not in row:
        return row
    span: dict[str, Any] = {"context": {}, "attributes": {}}
    for key, value in row.items():
        head, _, tail = key.partition(".")
        if head in ("context", "attributes") and tail:
            if value is not None:
                span[head][tail] = value
        else:
            span[key] = value
    return span


def _take(span: dict[str, Any], buffer: SpanBuffer, intake: Intake) -> None:
    context = as_dict(span.get("context"))
    trace = hex_id(context.get("trace_id"), 16)
    if not trace:
        raise ValueError("a span without a trace id")
    attributes = dict(as_dict(span.get("attributes")))
    kind = as_name(span.get("span_kind"))
    if kind and kind != "UNKNOWN" and "openinference.span.kind" not in attributes:
        attributes["openinference.span.kind"] = kind
    for where in ("annotations", "evaluations"):  # beside the attributes, where Phoenix puts them
        for i, item in enumerate(as_list(span.get(where))):
            if isinstance(item, dict):
                attributes.update({f"{where}.{i}.{k}": v for k, v in item.items()})
    status = span.get("status")
    code = span.get("status_code") or (status.get("status_code") if isinstance(status, dict) else status)
    words = span.get("status_message") or (status.get("description") if isinstance(status, dict) else None)
    extra = {k: v for k, v in span.items() if k not in _KNOWN and v not in (None, "", [], {})}
    for known in ("annotations", "evaluations"):
        extra.pop(known, None)
    if name := kind_name(span.get("kind")):
        extra["otel.kind"] = name
    if state := as_name(context.get("trace_state")).strip("[]"):
        extra["otel.trace_state"] = state
    if links := as_list(span.get("links")):
        extra["otel.links"] = links
    resource = as_dict(as_dict(span.get("resource")).get("attributes"))
    buffer.add(
        trace,
        RawSpan(
            name=as_name(span.get("name")),
            span_id=hex_id(context.get("span_id"), 8) or None,
            parent_id=hex_id(span.get("parent_id") or span.get("parent_span_id"), 8) or None,
            start_ns=iso_ns(span.get("start_time")),
            end_ns=iso_ns(span.get("end_time")),
            status=status_of(code),
            message=as_text(words),
            attributes=attributes,
            events=[_event(e) for e in as_list(span.get("events")) if isinstance(e, dict)],
            resource=buffer.resource(resource) if resource else -1,
            extra=extra,
        ),
    )


def _event(event: dict[str, Any]) -> RawEvent:
    """Phoenix lifts the fields of an exception out of its attributes; they go back there."""
    lifted = {f"exception.{k}": event[k] for k in ("message", "type", "stacktrace") if event.get(k) is not None}
    attributes = {**lifted, **as_dict(event.get("attributes"))}
    return RawEvent(as_name(event.get("name")), iso_ns(event.get("timestamp")), attributes)
