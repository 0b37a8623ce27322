"""Spans back into words, and words into the fields of ATIF."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from ethogram.capture.draft import Draft
from ethogram.capture.pairing import OpenCall, OpenCalls
from ethogram.capture.parse import as_dict
from ethogram.capture.readers._atif_steps import PATCHABLE
from ethogram.traces import File, Part, Reasoning, Ref, Span, SpanId, Text, ToolCall, Trace


def pair(trace: Trace, spans: list[Span]) -> dict[SpanId, dict[int, Span]]:
    """Tool spans by the reply and the place of the call that asked for them: by id, then by name."""
    found: dict[SpanId, dict[int, Span]] = {}
    waiting = OpenCalls()
    for span in spans:
        if span.kind == "model" and span.output:
            for place, call in enumerate(trace.message(span.output[0]).tool_calls):
                waiting.add(call, asker=span.span_id, place=place)
        elif span.kind == "tool":
            asked = _call_of(span, waiting)
            if asked is not None:
                found.setdefault(asked.details["asker"], {})[asked.details["place"]] = span
    return found


def _call_of(span: Span, waiting: OpenCalls) -> OpenCall | None:
    """The call that a tool span carried out; one of another id is none, nor is one of another name without an id."""
    asked = waiting.take_id(span.call_id) if span.call_id else None
    if asked is not None:
        return asked
    return waiting.take_first(lambda call: call.name == span.tool and not (call.call_id and span.call_id))


def draft_of(trace: Trace, span: Span) -> Draft:
    """A span with its words in it again (without what it read)."""

    def words(ref: Ref | None) -> str | None:
        return None if ref is None else trace.text(ref)

    values = {f: getattr(span, f) for f in PATCHABLE if hasattr(span, f)}
    values["output"] = tuple(trace.message(ref) for ref in span.output)
    values |= {f: words(getattr(span, f)) for f in ("error", "arguments", "result")}
    values["attributes"] = as_dict(words(span.attributes))
    return Draft(**values)


def differences(guess: Draft, real: Draft) -> dict[str, Any]:
    """The fields that the reader would not guess."""
    found: dict[str, Any] = {}
    for field in sorted(PATCHABLE):
        value, known = getattr(real, field), getattr(guess, field)
        if field == "output":
            value, known = tuple(value), tuple(known)
        if value != known:
            found[field] = msgspec.to_builtins(value)
    return found


def content(parts: Iterable[Part]) -> Any:
    """Words as a string; files and words as content parts."""
    found = list(_content_parts(parts))
    if not found:
        return ""
    if len(found) == 1 and found[0]["type"] == "text" and found[0]["text"]:
        return found[0]["text"]
    return found


def _content_parts(parts: Iterable[Part]) -> Iterator[dict[str, Any]]:
    for part in parts:
        if isinstance(part, Text):
            yield {"type": "text", "text": part.text}
        elif isinstance(part, File) and part.media_type.startswith("image"):
            yield {"type": "image", "source": {"media_type": part.media_type, "path": part.uri or part.digest or ""}}
        elif isinstance(part, File):  # version 1.7 knows no other files
            yield {"type": "text", "text": f"[{part.media_type}]"}
        elif not isinstance(part, Reasoning | ToolCall):
            yield {"type": "text", "text": part.content}


def atif_metrics(span: Span) -> dict[str, Any]:
    """The tokens and the cost of a reply; prompt tokens include the cached ones."""
    found = without_unknown(
        prompt_tokens=total_of(span.input_tokens, span.cache_read_tokens, span.cache_write_tokens),
        completion_tokens=span.output_tokens,
        cached_tokens=span.cache_read_tokens,
        cost_usd=span.cost_usd,
    )
    extra = without_unknown(cache_write_tokens=span.cache_write_tokens, reasoning_tokens=span.reasoning_tokens)
    return found | ({"extra": extra} if extra else {})


def total_of(*counts: int | None) -> int | None:
    """The sum of what is known."""
    known = [n for n in counts if n is not None]
    return sum(known) if known else None


def without_unknown(**values: Any) -> dict[str, Any]:
    """Without what is not known."""
    return {k: v for k, v in values.items() if v is not None}


def iso(ns: int | None) -> str | None:
    """ISO 8601 in UTC, with as many digits as the time has."""
    if ns is None:
        return None
    whole, rest = divmod(ns, 1_000_000_000)
    digits = 3 if rest % 1_000_000 == 0 else 6 if rest % 1000 == 0 else 9
    moment = datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{moment}.{f'{rest:09d}'[:digits]}Z"
