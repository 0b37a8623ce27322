"""Spans of a trace as the events of an Inspect sample.

What Inspect has no field for goes under the key `ethogram` of the metadata that every event may carry;
our reader puts it back, and others pass over it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from ethogram.capture.inspect.places import OWN, ROOT
from ethogram.capture.inspect.pool import JsonObject, MessagePool, arguments_of
from ethogram.capture.parse import from_json, to_json
from ethogram.traces import Ref, Span, SpanId, Trace

_STOPS = {
    **{s: s for s in ("stop", "max_tokens", "model_length", "tool_calls", "content_filter", "unknown")},
    **{"end_turn": "stop", "length": "max_tokens", "tool_use": "tool_calls", "tool_call": "tool_calls"},
}
_FLOATS = ("temperature", "top_p", "frequency_penalty", "presence_penalty")
_INTEGERS = ("max_tokens", "seed", "top_k", "num_choices")


def inspect_time(ns: int | None) -> str | None:
    """A time as Inspect writes it; the digits below a microsecond only where there are some."""
    if ns is None:
        return None
    seconds, rest = divmod(ns, 1_000_000_000)
    digits = f"{rest // 1000:06d}" if rest % 1000 == 0 else f"{rest:09d}"
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{digits}+00:00"


class TraceEvents:
    """The spans of a trace as events, in the order of the log; inner spans carry the id of the outer one."""

    def __init__(self, trace: Trace, pool: MessagePool, lost: Counter[str]) -> None:
        """`lost` counts what an event cannot say."""
        self._trace = trace
        self._pool = pool
        self._lost = lost
        self._above = {s.span_id: _parent(trace, s) for s in trace.spans}
        self._outer = {p for p in self._above.values() if p is not None}
        self._begun: set[SpanId] = set()

    def __iter__(self) -> Iterator[JsonObject]:
        ends: dict[int, list[Span]] = defaultdict(list)
        last: dict[SpanId, int] = {}
        ordered = sorted(self._trace.spans, key=lambda s: s.seq)
        for span in ordered:
            for above in self._line(span):
                last[above.span_id] = max(last.get(above.span_id, 0), span.seq)
        for span in ordered:
            if span.span_id in self._outer and not is_root(span):
                ends[last[span.span_id]].append(span)
        for span in ordered:
            yield from self._begin(span)
            if span.span_id not in self._outer and not is_root(span):
                yield from self._leaf(span)
            for ended in sorted(ends[span.seq], key=lambda s: len(self._line(s)), reverse=True):
                yield self._mark("span_end", ended, ended.end_ns)

    def _line(self, span: Span) -> list[Span]:
        """A span and all above it."""
        line = [span]
        while (above := self._above[line[-1].span_id]) is not None:
            line.append(self._trace.by_id[above])
        return line

    def _begin(self, span: Span) -> Iterator[JsonObject]:
        """Begin this span and those above it that have not begun, the outermost first."""
        for above in reversed(self._line(span)):
            if above.span_id in self._begun or above.span_id not in self._outer or is_root(above):
                continue
            self._begun.add(above.span_id)
            yield self._mark("span_begin", above, above.start_ns)
            if above.kind == "tool":
                yield self._tool(above)
            elif above.kind == "model":
                self._lost["model span with spans inside (messages, tokens)"] += 1

    def _leaf(self, span: Span) -> Iterator[JsonObject]:
        judged = span.kind == "judge"
        if span.kind == "model" or (judged and (span.model or span.output_tokens is not None)):
            yield self._model(span)
        elif span.kind == "tool" or (judged and span.tool):
            yield self._tool(span)
        elif span.kind == "user":
            words = "\n".join(self._trace.message(r).text for r in span.output if r in self._trace.texts)
            words = words or self._text(span.result) or ""
            yield {**self._base("input", span), "input": words, "input_ansi": words}
        else:
            yield self._mark("span_begin", span, span.start_ns)
            yield self._mark("span_end", span, span.end_ns)

    def _mark(self, event: str, span: Span, at: int | None) -> JsonObject:
        """The beginning or the end of a span."""
        marked = self._base(event, span, self._fields(span) if event == "span_begin" else None)
        marked |= {
            "id": span.span_id,
            "uuid": f"{span.span_id}:{event}",
            "timestamp": inspect_time(at),
            "completed": None,
        }
        if event == "span_begin":
            type_ = "tool" if span.kind == "tool" else span.kind
            marked |= {"parent_id": self._outer_id(span), "type": type_, "name": span.tool or span.name}
        return {k: v for k, v in marked.items() if v is not None}

    def _outer_id(self, span: Span) -> SpanId | None:
        above = self._above[span.span_id]
        return None if above is None or is_root(self._trace.by_id[above]) else above

    def _base(self, event: str, span: Span, own: JsonObject | None = None) -> JsonObject:
        start = self._trace.head.start_ns
        worked = (span.start_ns - start) / 1e9 if start is not None and span.start_ns is not None else 0.0
        base: JsonObject = {
            "uuid": span.span_id,
            "span_id": self._outer_id(span),
            "timestamp": inspect_time(span.start_ns),
            "working_start": worked,
            "event": event,
            "completed": inspect_time(span.end_ns),
        }
        if event != "span_end":
            base["metadata"] = {OWN: {**self._common(event, span), **(own or {})}}
        return {k: v for k, v in base.items() if v is not None}

    def _common(self, event: str, span: Span) -> JsonObject:
        """What every event of ours says beyond Inspect's own fields."""
        self._lost["result_hash"] += span.result_hash is not None
        own: JsonObject = {"agent": span.agent, "lane": span.lane, "name": span.name, "kind": span.kind}
        own |= {"status": span.status, "prompt_version": span.prompt_version}
        own["attributes"] = from_json(self._text(span.attributes) or "null")
        if event != "model" or len(span.output) > 1:
            own["output"] = self._pool.keys(span.output)
        if event != "model":
            own["input"] = self._pool.keys(self._trace.input_refs(span))
        return {k: v for k, v in own.items() if v is not None}

    def _fields(self, span: Span) -> JsonObject:
        """Fields of a span that is neither a model nor a tool event."""
        texts = {"arguments": span.arguments, "result": span.result, "error": span.error}
        return {
            **{k: self._text(ref) for k, ref in texts.items() if ref is not None},
            **{k: v for k in ("tool", "call_id", "stop_reason") if (v := getattr(span, k)) is not None},
        }

    def _model(self, span: Span) -> JsonObject:
        refs = self._pool.ranges(self._trace.input_refs(span))  # before the output: the pool follows the talk
        known = {k: v for k, v in span.params.items() if _is_config(k, v)}
        stop = _STOPS.get(span.stop_reason or "", "unknown")
        own: JsonObject = {} if stop == span.stop_reason else {"stop_reason": span.stop_reason or ""}
        if len(known) < len(span.params):
            own["params"] = span.params
        choices = [{"message": m, "stop_reason": stop} for m in self._pool.written(span.output)]
        own |= {"model": span.model or "", "provider": span.provider or ""}
        event = {
            **self._base("model", span, own),
            "model": model_name(span),
            "input": [],
            "input_refs": refs,
            "tools": [],
            "tool_choice": "auto",
            "config": known,
            "output": {"model": span.model or "", "choices": choices[:1], "usage": inspect_usage(span)},
            "error": self._text(span.error),
        }
        return {k: v for k, v in event.items() if v is not None}

    def _tool(self, span: Span) -> JsonObject:
        text = self._text(span.arguments)
        arguments = arguments_of(text or "")
        own: JsonObject = {} if text is None or to_json(arguments) == text else {"arguments": text}
        own |= {"truncated": True} if span.truncated else {}
        error = self._text(span.error)
        event = {
            **self._base("tool", span, own),
            "type": "function",
            "id": span.call_id or "",
            "function": span.tool or span.name,
            "arguments": arguments,
            "result": self._text(span.result) or "",
            "error": None if error is None else {"type": "unknown", "message": error},
            "failed": True if span.status == "error" else None,
            "events": [],
        }
        return {k: v for k, v in event.items() if v is not None}

    def _text(self, ref: Ref | None) -> str | None:
        if ref is None or ref in self._trace.texts:
            return None if ref is None else self._trace.text(ref)
        self._lost["text (missing)"] += 1
        return None


def model_name(span: Span) -> str:
    """Provider and model as Inspect joins them."""
    return f"{span.provider}/{span.model}" if span.provider and span.model else span.model or "unknown"


def inspect_usage(span: Span) -> JsonObject | None:
    """Inspect's counts: cached tokens apart from the input, and all of them in the total."""
    counts = {
        "input_tokens": span.input_tokens,
        "output_tokens": span.output_tokens,
        "input_tokens_cache_read": span.cache_read_tokens,
        "input_tokens_cache_write": span.cache_write_tokens,
    }
    known = {k: v for k, v in counts.items() if v is not None}
    extras = {"reasoning_tokens": span.reasoning_tokens, "total_cost": span.cost_usd}
    written = {**known, **{k: v for k, v in extras.items() if v is not None}}
    return {**written, "total_tokens": sum(known.values())} if written else None


def is_root(span: Span) -> bool:
    """Whether a span stands for the whole sample, as our reader makes it."""
    return span.span_id == ROOT and span.kind == "agent" and span.parent_id is None


def _parent(trace: Trace, span: Span) -> SpanId | None:
    """The parent that a span has in this trace; none for a span that is above itself."""
    seen: set[SpanId] = set()
    at = span.parent_id
    while at is not None and at in trace.by_id and at not in seen:
        if at == span.span_id:
            return None
        seen.add(at)
        at = trace.by_id[at].parent_id
    return span.parent_id if span.parent_id in trace.by_id else None


def _is_config(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return False
    return (name in _FLOATS and isinstance(value, int | float)) or (name in _INTEGERS and isinstance(value, int))
