"""Messages of OTLP in protobuf as raw spans, without a detour over JSON: most exporters send them."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ethogram.traces import Status

from .spans import RawEvent, RawSpan

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
    from opentelemetry.proto.trace.v1.trace_pb2 import Span

DROPPED = tuple(f"{what} (dropped by the exporter)" for what in ("attributes", "events", "links"))
_KINDS = ("", "", "server", "client", "producer", "consumer")
_STATUSES: tuple[Status, ...] = ("unset", "ok", "error")


def plain_value(value: AnyValue) -> Any:
    """A typed value as a plain one; bytes in base64, as JSON has them."""
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return value.string_value
    if kind is None:
        return None
    inner = getattr(value, kind)
    if kind == "array_value":
        return [plain_value(v) for v in inner.values]
    if kind == "kvlist_value":
        return attributes_of(inner.values)
    return base64.b64encode(inner).decode() if kind == "bytes_value" else inner


def attributes_of(pairs: Iterable[KeyValue]) -> dict[str, Any]:
    """Attributes from key/value pairs."""
    return {pair.key: plain_value(pair.value) for pair in pairs}


def scope_facts(scope: InstrumentationScope) -> dict[str, Any]:
    """What the scope adds to the attributes of its spans; our own writer's says nothing."""
    facts: dict[str, Any] = {}
    named = " ".join(part for part in (scope.name, scope.version) if part)
    if named and not named.startswith("ethogram"):
        facts["otel.scope"] = named
    if scope.attributes:
        facts["otel.scope_attributes"] = attributes_of(scope.attributes)
    return facts


def raw_span(span: Span, resource: int, scope: dict[str, Any], lose: Callable[[str, int], None]) -> tuple[str, RawSpan]:
    """The trace id of a span, and the span; raises `ValueError` where it has no trace id."""
    trace, parent = span.trace_id.hex(), span.parent_span_id.hex()
    if not trace.strip("0"):
        raise ValueError("a span without a trace id")
    extra = scope
    kind = _KINDS[span.kind] if 0 <= span.kind < len(_KINDS) else ""
    if kind or span.trace_state or span.links:
        extra = {**({"otel.kind": kind} if kind else {}), **scope}
        if span.trace_state:
            extra["otel.trace_state"] = span.trace_state
        if span.links:
            extra["otel.links"] = [
                {"trace_id": x.trace_id.hex(), "span_id": x.span_id.hex(), **attributes_of(x.attributes)}
                for x in span.links
            ]
    dropped = (span.dropped_attributes_count, span.dropped_events_count, span.dropped_links_count)
    if any(dropped):
        for what, count in zip(DROPPED, dropped, strict=True):
            lose(what, count)
    return trace, RawSpan(
        name=span.name,
        span_id=span.span_id.hex() or None,
        parent_id=parent if parent.strip("0") else None,
        start_ns=span.start_time_unix_nano or None,
        end_ns=span.end_time_unix_nano or None,
        status=_STATUSES[span.status.code] if 0 <= span.status.code < len(_STATUSES) else "unset",
        message=span.status.message,
        attributes={pair.key: plain_value(pair.value) for pair in span.attributes},
        events=[RawEvent(e.name, e.time_unix_nano or None, attributes_of(e.attributes)) for e in span.events],
        resource=resource,
        extra=extra,
    )
