"""OTLP JSON: one `{"resourceSpans": [...]}` document per line, one line per trace.

Attributes follow OpenTelemetry's GenAI conventions (≥ 1.37; cache writes as `cache_write`; input tokens include the
cache, as the wire wants it). What they have no word for (kind, task, attempt, seed, outcome, lane, cost, …) is said
in `ethogram.*` attributes, so that the `otlp` reader gives back the same spans, messages, tokens, task and outcome.
Every model span carries its whole input, as the conventions ask.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import msgspec

from ethogram.capture.parse import from_json, to_json
from ethogram.traces import (
    File,
    Label,
    Message,
    Missing,
    Part,
    Reasoning,
    Ref,
    Span,
    Text,
    ToolCall,
    Trace,
    digest,
    short_id,
)

FORMAT = "otlp"

_CODES = {"unset": 0, "ok": 1, "error": 2}
_OPERATIONS = {"model": "chat", "tool": "execute_tool", "agent": "invoke_agent", "retrieval": "retrieval"}
_REQUEST = frozenset(
    {
        "choice.count",
        "frequency_penalty",
        "max_tokens",
        "presence_penalty",
        "seed",
        "temperature",
        "top_k",
        "top_p",
    }
)
_UNDERSTOOD = re.compile(
    r"(agent|ai|annotations|embedding|error|ethogram|evaluations|exception|gcp|gen_ai|graph|input|langfuse|langsmith|llm"
    r"|mlflow|operation|openinference|otel|output|reranker|retrieval|session|tool|tool_call|trace|traceloop|user)\."
)
"""What an attribute's name begins with if the reader would understand it."""
_HEX_TRACE = re.compile(r"[0-9a-f]{32}")
_HEX_SPAN = re.compile(r"[0-9a-f]{16}")


def write(traces: Iterable[Trace], stream: BinaryIO) -> dict[str, int]:
    """Write traces and give what could not be said."""
    lost: dict[str, int] = {}
    for trace in traces:
        if not trace.spans:
            _lose(lost, "trace without spans")
            continue
        stream.write(msgspec.json.encode(document_of(trace, lost)))
        stream.write(b"\n")
    return lost


def _lose(lost: dict[str, int], what: str) -> None:
    lost[what] = lost.get(what, 0) + 1


def document_of(trace: Trace, lost: dict[str, int]) -> dict[str, Any]:
    """A trace as one document; what cannot be said is counted in `lost`."""
    labels: dict[str, list[Label]] = {}
    known = {s.span_id for s in trace.spans}
    for label in trace.labels:
        if label.span_id is not None and label.span_id not in known:
            _lose(lost, "label.span_id (no such span)")
            label = msgspec.structs.replace(label, span_id=None)
        labels.setdefault(label.span_id or trace.spans[0].span_id, []).append(label)
    spans = [_span(trace, span, labels.get(span.span_id, []), lost) for span in trace.spans]
    scope = {"scope": {"name": "ethogram"}, "spans": spans}
    resource = {"attributes": _pairs(_resource(trace, lost))}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}


def _resource(trace: Trace, lost: dict[str, int]) -> Iterator[tuple[str, Any]]:
    """What is about the whole trace."""
    head = trace.head
    yield "service.name", head.agent or "ethogram"
    yield "ethogram.task", head.task
    yield "ethogram.attempt", head.attempt
    yield "ethogram.condition", head.condition or None
    yield "ethogram.agent", head.agent or None
    yield "ethogram.seed", head.seed
    yield "ethogram.answer", _body(trace, head.answer, lost)
    if isinstance(head.outcome, Missing):
        yield "ethogram.outcome.missing", head.outcome.reason
        yield "ethogram.outcome.detail", head.outcome.detail or None
    else:
        yield "ethogram.outcome.value", float(head.outcome.value)
        yield "ethogram.outcome.by", head.outcome.by or None
    if head.origin is not None:
        yield "ethogram.origin", to_json(head.origin)
    for name, value in head.meta.items():
        yield f"ethogram.meta.{name}", value


def _span(trace: Trace, span: Span, labels: list[Label], lost: dict[str, int]) -> dict[str, Any]:
    error = _body(trace, span.error, lost)
    status: dict[str, Any] = {"code": _CODES[span.status]}
    if error and span.status == "error":
        status["message"] = error
        error = None
    if span.result_hash is not None:
        _lose(lost, "result_hash")
    wire: dict[str, Any] = {
        "traceId": wire_id(span.trace_id, _HEX_TRACE),
        "spanId": _wire_span(span, span.span_id),
        "name": span.name,
        "kind": 3 if span.kind == "model" else 1,
        "startTimeUnixNano": str(span.start_ns or 0),
        "endTimeUnixNano": str(span.end_ns or 0),
        "attributes": _pairs([("ethogram.error", error), *_attributes(trace, span, lost)]),
        "events": [_event(trace, label, lost) for label in labels],
        "status": status,
    }
    if span.parent_id is not None:
        wire["parentSpanId"] = _wire_span(span, span.parent_id)
    return wire


def _wire_span(span: Span, known: str) -> str:
    """The id of a span, or of its parent; a hash holds the trace, for some receivers keep one span of an id in all."""
    return wire_id(known, _HEX_SPAN, span.trace_id)


def wire_id(known: str, shape: re.Pattern[str], within: str = "") -> str:
    """An id of the size that the wire wants: our own without its prefix, a foreign one as it is, else a hash."""
    bare = known.removeprefix("b2:")
    if shape.fullmatch(bare) and bare.strip("0"):
        return bare
    size = 32 if shape is _HEX_TRACE else 16
    return short_id(digest("wire", known, *([within] if within else [])), size)


def _attributes(trace: Trace, span: Span, lost: dict[str, int]) -> Iterator[tuple[str, Any]]:
    yield "ethogram.kind", span.kind
    yield "ethogram.seq", span.seq
    if _wire_span(span, span.span_id) != span.span_id:
        yield "ethogram.span_id", span.span_id
    if span.parent_id is not None and _wire_span(span, span.parent_id) != span.parent_id:
        yield "ethogram.parent_id", span.parent_id
    yield "ethogram.lane", span.lane or None
    yield "gen_ai.operation.name", _OPERATIONS.get(span.kind)
    yield "gen_ai.agent.name", span.agent or None
    yield "gen_ai.request.model", span.model
    yield "gen_ai.provider.name", span.provider
    yield "ethogram.prompt_version", span.prompt_version
    for name, value in span.params.items():
        yield f"gen_ai.request.{name}" if name in _REQUEST else f"ethogram.params.{name}", value
    yield from _messages(trace, span, lost)
    yield from _tool(trace, span, lost)
    yield from _usage(span)
    yield "gen_ai.response.finish_reasons", None if span.stop_reason is None else [span.stop_reason]
    yield "ethogram.truncated", span.truncated or None
    yield from _rest(trace, span, lost)


def _messages(trace: Trace, span: Span, lost: dict[str, int]) -> Iterator[tuple[str, Any]]:
    try:
        heard, said = trace.conversation(span), [trace.message(r) for r in span.output]
    except KeyError:
        _lose(lost, "text (missing)")
        return
    if heard:
        yield "gen_ai.input.messages", to_json([_message(m, None) for m in heard])
    if said:
        yield "gen_ai.output.messages", to_json([_message(m, span.stop_reason) for m in said])


def _message(message: Message, stop: str | None) -> dict[str, Any]:
    said: dict[str, Any] = {"role": message.role, "parts": [_part(p) for p in message.parts]}
    if message.name is not None:
        said["name"] = message.name
    if stop is not None:
        said["finish_reason"] = stop
    return said


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, Text):
        return {"type": "text", "content": part.text}
    if isinstance(part, Reasoning):
        return {"type": "reasoning", "content": part.text}
    if isinstance(part, ToolCall):
        whole = from_json(part.arguments)
        same = isinstance(whole, dict | list) and to_json(whole) == part.arguments
        arguments = whole if same else part.arguments
        return _without_none({"type": "tool_call", "id": part.call_id, "name": part.name, "arguments": arguments})
    if isinstance(part, File):
        about = {"mime_type": part.media_type, "uri": part.uri, "digest": part.digest, "size": part.size}
        return _without_none({"type": "uri", "modality": part.media_type.partition("/")[0], **about})
    about = {"id": part.call_id, "name": part.name, "response": part.content, "is_error": part.failed or None}
    return _without_none({"type": "tool_call_response", **about})


def _without_none(item: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in item.items() if v is not None}


def _tool(trace: Trace, span: Span, lost: dict[str, int]) -> Iterator[tuple[str, Any]]:
    yield "gen_ai.tool.name", span.tool
    yield "gen_ai.tool.call.id", span.call_id
    names = ("gen_ai.tool.call.arguments", "gen_ai.tool.call.result")
    for name, ref in zip(names, (span.arguments, span.result), strict=True):
        body = _body(trace, ref, lost)
        # the reader takes an empty attribute for an absent one, and other spans than tools have no call
        plain = span.kind == "tool" and body != ""
        yield name if plain else f"ethogram.{name.rpartition('.')[2]}", body


def _usage(span: Span) -> Iterator[tuple[str, Any]]:
    read, written = span.cache_read_tokens, span.cache_write_tokens
    if span.input_tokens is not None:
        yield "gen_ai.usage.input_tokens", span.input_tokens + (read or 0) + (written or 0)
    yield "gen_ai.usage.cache_read.input_tokens", read
    yield "gen_ai.usage.cache_write.input_tokens", written
    yield "gen_ai.usage.output_tokens", span.output_tokens
    yield "gen_ai.usage.reasoning.output_tokens", span.reasoning_tokens
    yield "ethogram.cost_usd", None if span.cost_usd is None else float(span.cost_usd)


def _rest(trace: Trace, span: Span, lost: dict[str, int]) -> Iterator[tuple[str, Any]]:
    """Further attributes: plain ones as they are; those that a reader would understand, in one JSON text."""
    body = _body(trace, span.attributes, lost)
    if body is None:
        return
    whole = from_json(body)
    if not isinstance(whole, dict):
        _lose(lost, "attributes (no object)")
        return
    packed = {}
    for name, value in whole.items():
        plain = isinstance(value, str | bool) or (isinstance(value, int) and abs(value) < 1 << 63)
        if plain and "." in name and not _UNDERSTOOD.match(name):
            yield name, value
        else:
            packed[name] = value
    if packed:
        yield "ethogram.attributes", to_json(packed)


def _event(trace: Trace, label: Label, lost: dict[str, int]) -> dict[str, Any]:
    """A label as an evaluation; what the conventions do not say is added."""
    number = isinstance(label.value, int | float) and not isinstance(label.value, bool)
    about = [
        ("gen_ai.evaluation.name", label.name),
        ("gen_ai.evaluation.score.value", float(label.value) if number and label.value is not None else None),
        ("gen_ai.evaluation.score.label", str(label.value) if label.value is not None and not number else None),
        ("gen_ai.evaluation.explanation", _body(trace, label.why, lost)),
        ("ethogram.label.by", label.by),
        ("ethogram.label.source", label.source),
        ("ethogram.label.version", label.version if label.version != "1" else None),
        ("ethogram.label.value", label.value),
        ("ethogram.label.whole", True if label.span_id is None else None),
    ]
    when = str(label.at_ns or 0)
    return {"name": "gen_ai.evaluation.result", "timeUnixNano": when, "attributes": _pairs(about)}


def _body(trace: Trace, ref: Ref | None, lost: dict[str, int]) -> str | None:
    if ref is None:
        return None
    if ref not in trace.texts:
        _lose(lost, "text (missing)")
        return None
    return trace.text(ref)


def _pairs(items: Iterable[tuple[str, Any]]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _any(value)} for key, value in items if value is not None]


def _any(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)} if abs(value) < 1 << 63 else {"stringValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_any(v) for v in value]}}
    return {"stringValue": value}
