"""Spans of a live trace that are held back until it ends, because telemetry may still change their place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ethogram.traces import Head, Label, Ref, Span

from .cleaning import json_text
from .draft import TraceSink

MOST = 20_000
"""Spans that are held at most; from there on they are passed on at once."""
_NAMES = ("parent_id", "agent", "lane", "prompt_version", "name")


class HeldSpans:
    """A sink before the sink: texts are stored as they come, spans when the trace is complete."""

    def __init__(self, sink: TraceSink) -> None:
        """`sink` gets everything in the end."""
        self._sink = sink
        self.idle = sink.idle
        self._spans: dict[str, Span] = {}
        self._full = False

    def text(self, body: str, field: str, original: str | None = None) -> Ref:
        """Keep a text."""
        return self._sink.text(body, field, original)

    def clean(self, value: str, field: str) -> str:
        """A value, redacted."""
        return self._sink.clean(value, field)

    def named(self, words: str) -> str:
        """A name made of words of the log."""
        return self._sink.named(words)

    def span(self, span: Span) -> None:
        """Hold a span."""
        if not self._full:
            self._spans[span.span_id] = span
            self._full = len(self._spans) >= MOST
            return
        self._sink.span(span)

    def amend(self, span_id: str, attributes: Mapping[str, Any] | None = None, **changes: Any) -> bool:
        """Change fields of a span that is held, names as they are; False if it was passed on already."""
        span = self._spans.get(span_id)
        if span is None:
            return False
        for name in _NAMES:
            if changes.get(name):
                changes[name] = self.clean(changes[name], "name")
        if attributes is not None:
            changes["attributes"] = self.text(json_text(dict(attributes)), "attributes")
        self._spans[span_id] = msgspec.structs.replace(span, **changes)
        return True

    def finish(self, head: Head, labels: Sequence[Label]) -> None:
        """Pass everything on."""
        for span in self._spans.values():
            self._sink.span(span)
        self._spans = {}
        self._sink.finish(head, labels)

    def abort(self) -> None:
        """Forget the trace."""
        self._spans = {}
        self._sink.abort()
