"""Sees the spans of every tracer of OpenTelemetry's SDK in this process, and gives each to the episode it belongs to.

An agent brings its own instrumentors, with its own provider or none; nothing of that is changed. Processors of all
providers are watched (`provider.py` has one for agents that set none).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

from ethogram.capture.telemetry.spans import RawEvent, RawSpan
from ethogram.capture.telemetry.wire import kind_name, status_of
from ethogram.wire.context import current_recorder
from ethogram.wire.gateway.patching import Patches

from .episode_spans import EpisodeSpans, episode_spans_of

_owners: WeakValueDictionary[tuple[int, int], EpisodeSpans] = WeakValueDictionary()


def watch_spans(library: Any, patches: Patches) -> None:
    """Watch the spans of the SDK until `patches` are undone."""
    for processors in (library.SynchronousMultiSpanProcessor, library.ConcurrentMultiSpanProcessor):
        patches.wrap(processors, "on_start", _starting)
        patches.wrap(processors, "on_end", _ending)


def _starting(on_start: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(on_start)
    def started(processors: Any, span: Any, parent_context: Any = None) -> None:
        span_started(span)
        on_start(processors, span, parent_context)

    return started


def _ending(on_end: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(on_end)
    def ended(processors: Any, span: Any) -> None:
        span_ended(span)
        on_end(processors, span)

    return ended


def span_started(span: Any) -> None:
    """A span of the SDK has begun: in the episode of this context, else in that of its parent."""
    context, parent = span.get_span_context(), span.parent
    above = None if parent is None else (parent.trace_id, parent.span_id)
    record = current_recorder()
    owner = episode_spans_of(record) if record is not None else _owners.get(above) if above is not None else None
    if owner is None:
        return
    key = (context.trace_id, context.span_id)
    _owners[key] = owner
    owner.started(key, above, f"{context.span_id:016x}", functools.partial(raw_span_of, span))


def span_ended(span: Any) -> None:
    """A span of the SDK has ended."""
    context = span.get_span_context()
    owner = _owners.pop((context.trace_id, context.span_id), None)
    if owner is not None:
        owner.ended((context.trace_id, context.span_id), raw_span_of(span))


def raw_span_of(span: Any) -> RawSpan:
    """A span of the SDK as all telemetry is read; one that is still open as far as it is."""
    context, parent = span.get_span_context(), span.parent
    extra: dict[str, Any] = {}
    if kind := kind_name(span.kind.name):
        extra["otel.kind"] = kind
    scope = span.instrumentation_scope
    if scope is not None and scope.name:
        extra["otel.scope"] = f"{scope.name} {scope.version or ''}".rstrip()
    if span.links:
        extra["otel.links"] = [
            {"trace_id": f"{at.trace_id:032x}", "span_id": f"{at.span_id:016x}", **dict(link.attributes or {})}
            for link in span.links
            for at in (link.context,)
        ]
    return RawSpan(
        name=span.name,
        span_id=f"{context.span_id:016x}",
        parent_id=None if parent is None else f"{parent.span_id:016x}",
        start_ns=span.start_time,
        end_ns=span.end_time,
        status=status_of(span.status.status_code.name),
        message=span.status.description or "",
        attributes=dict(span.attributes or {}),
        events=[RawEvent(event.name, event.timestamp, dict(event.attributes or {})) for event in span.events],
        extra=extra,
    )
