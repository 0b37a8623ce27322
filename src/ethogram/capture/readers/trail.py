"""TRAIL traces: `{trace_id, spans}` with spans nested in `child_spans`, and their annotations.

Spans have a start and an ISO duration, token counts are strings, agents repeat the tokens of their model calls.
A repeated span id gets a suffix, a parent that is not in the file leaves an orphan; both are kept. An annotation file
belongs to the trace that its `trace_id` or, without one, its file name gives, wherever the two lie (beside each other,
in sibling folders, in one archive, or imported one after the other into one run): each error becomes a label `error`
(its category) and a label `error.impact` on the span it names, each score a label on the trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from ethogram.capture.intake import Intake
from ethogram.capture.parse import as_dict, as_float, as_list, as_name, as_text, duration_ns, iso_ns, to_json
from ethogram.capture.peek import Peek
from ethogram.capture.records import objects, records
from ethogram.capture.source import Source
from ethogram.capture.telemetry.assemble import write_traces
from ethogram.capture.telemetry.spans import RawEvent, RawSpan, SpanBuffer
from ethogram.capture.telemetry.wire import kind_name, status_of
from ethogram.traces import Label, Ref, SpanId, TraceId

FORMAT = "trail"

_SPAN_KEYS = ("span_attributes", "child_spans")
_LOG_NOISE = ("trace_id", "span_id", "timestamp", "service_name", "trace_flags", "severity_number")
MARKS = frozenset(["spans", "errors"])


def sniff(peek: Peek) -> int:
    """Nested spans with attributes of that name; or errors that have a category and a place."""
    spans = peek.first.get("spans")
    if isinstance(spans, list) and spans and isinstance(spans[0], dict):
        return 95 if any(key in spans[0] for key in _SPAN_KEYS) else 0
    return 90 if _is_annotation(peek.first) else 0


def _is_annotation(document: dict[str, Any]) -> bool:
    errors = document.get("errors")
    if not isinstance(errors, list) or "spans" in document:
        return False
    scores = document.get("scores")
    rated = isinstance(scores, list) and any(isinstance(s, dict) and "overall" in s for s in scores)
    placed = any(isinstance(e, dict) and {"category", "location"} <= e.keys() for e in errors)
    return rated or placed


def read(source: Source, intake: Intake) -> None:
    """One trace per document; an annotation becomes labels of its trace."""
    for place, document in objects(records(source, intake, announce=False), intake):
        with intake.record(place):
            if _is_annotation(document):
                key = as_name(document.get("trace_id")) or _key_in(source.name)
                intake.annotate(key, list(_labels(document, intake)))
            else:
                _read_one(document, intake)


def _read_one(document: dict[str, Any], intake: Intake) -> None:
    spans = as_list(document["spans"])
    inner = next((as_name(s.get("trace_id")) for s in spans if isinstance(s, dict)), "")
    key = as_name(document.get("trace_id")) or inner
    if not key or not spans:
        raise ValueError("a trace without an id or without spans")
    buffer = SpanBuffer()
    try:
        for number, (span, parent) in enumerate(_walk(spans)):
            with intake.record(f"span {number}"):
                if not isinstance(span, dict):
                    raise ValueError(f"a span that is a {type(span).__name__}, not an object")
                buffer.add(key, _span(span, parent, buffer))
        write_traces(buffer, intake, repeats=True)
    finally:
        buffer.close()


def _walk(spans: list[Any]) -> Iterator[tuple[Any, str | None]]:
    """Every span with the id of the one it is nested in, parents first."""
    stack: list[tuple[Any, str | None]] = [(span, None) for span in reversed(spans)]
    while stack:
        span, parent = stack.pop()
        yield span, parent
        if isinstance(span, dict):
            below = as_list(span.get("child_spans"))
            stack.extend((child, as_name(span.get("span_id")) or None) for child in reversed(below))


def _span(span: dict[str, Any], parent: str | None, buffer: SpanBuffer) -> RawSpan:
    attributes = dict(as_dict(span.get("span_attributes")))
    start, length = iso_ns(span.get("timestamp")), duration_ns(span.get("duration"))
    extra: dict[str, Any] = {}
    if name := kind_name(span.get("span_kind")):
        extra["otel.kind"] = name
    if scope := " ".join(as_name(span[k]) for k in ("scope_name", "scope_version") if span.get(k)):
        extra["otel.scope"] = scope
    if span.get("trace_state"):
        extra["otel.trace_state"] = span["trace_state"]
    if span.get("links"):
        extra["otel.links"] = span["links"]
    resource = as_dict(span.get("resource_attributes"))
    if span.get("service_name"):
        resource = {"service.name": span["service_name"], **resource}
    events = [_event(e) for e in as_list(span.get("events")) if isinstance(e, dict)]
    for log in as_list(span.get("logs")):
        if isinstance(log, dict):
            events.extend(_log(log, attributes, resource))
    return RawSpan(
        name=as_name(span.get("span_name")),
        span_id=as_name(span.get("span_id")) or None,
        parent_id=as_name(span.get("parent_span_id")) or parent,
        start_ns=start,
        end_ns=None if start is None or length is None else start + length,
        status=status_of(span.get("status_code")),
        message=as_text(span.get("status_message")),
        attributes=attributes,
        events=events,
        resource=buffer.resource(resource) if resource else -1,
        extra=extra,
    )


def _event(event: dict[str, Any]) -> RawEvent:
    """An event; its keys are capitalised."""
    low = {key.lower(): value for key, value in event.items()}
    return RawEvent(as_name(low.get("name")), iso_ns(low.get("timestamp")), as_dict(low.get("attributes")))


def _log(log: dict[str, Any], attributes: dict[str, Any], resource: dict[str, Any]) -> list[RawEvent]:
    """A log record of a span: what a traced function was given and gave back, or an event."""
    body = as_dict(log.get("body"))
    rest = {k: v for k, v in log.items() if k not in _LOG_NOISE and v not in (None, "", [], {})}
    if as_dict(rest.get("resource_attributes")).items() <= resource.items():
        rest.pop("resource_attributes", None)
    if "function.arguments" in body and "input.value" not in attributes:
        attributes["input.value"] = to_json(body["function.arguments"])
        if body.get("function.output") not in (None, "<null>"):
            attributes.setdefault("output.value", as_text(body["function.output"]))
        rest["body"] = {k: v for k, v in body.items() if k not in ("function.arguments", "function.output")}
    return [RawEvent("log", iso_ns(log.get("timestamp")), rest)]


def _key_in(name: str) -> str:
    """The trace that a file name gives: `split__KEY.annotation.json.gz`, `folder/KEY.json`."""
    return PurePosixPath(name).name.split(".")[0].rpartition("__")[2]


def _labels(document: dict[str, Any], intake: Intake) -> Iterator[Label]:
    for number, error in enumerate(as_list(document.get("errors"))):
        with intake.record(f"annotation error {number}"):
            if not isinstance(error, dict):
                raise ValueError(f"an error that is a {type(error).__name__}, not an object")
            yield from _error_labels(error, intake)
    for number, scores in enumerate(as_list(document.get("scores"))):
        with intake.record(f"annotation score {number}"):
            if not isinstance(scores, dict):
                raise ValueError(f"scores that are a {type(scores).__name__}, not an object")
            for name, value in scores.items():
                if not name.endswith("_reasoning"):
                    why = as_text(scores.get(f"{name.removesuffix('_score')}_reasoning"))
                    given = as_float(value)
                    yield _label(name, as_text(value) if given is None else given, why)


def _error_labels(error: dict[str, Any], intake: Intake) -> Iterator[Label]:
    """Keys of errors are broken now and then: with blanks, in another case, or missing."""
    clean = {key.strip().strip(':"').lower(): value for key, value in error.items()}
    category, place = as_name(clean.pop("category", None)).strip(), as_name(clean.pop("location", None)).strip()
    impact = as_name(clean.pop("impact", None)).strip()
    words = [as_text(clean.pop("description", None))]
    if evidence := as_text(clean.pop("evidence", None)):
        words.append(f"Evidence: {evidence}")
    if clean:
        words.append(to_json(clean))
    if not category:
        intake.lose("annotation without a category")
    yield _label("error", category or None, "\n\n".join(w for w in words if w), place)
    if impact:
        yield _label("error.impact", impact, "", place)


def _label(name: str, value: float | str | None, why: str, place: str = "") -> Label:
    return Label(
        trace_id=TraceId(""),
        name=name,
        value=value,
        by="TRAIL",
        source="hand",
        span_id=SpanId(place) if place else None,
        why=Ref(why) if why else None,
    )
