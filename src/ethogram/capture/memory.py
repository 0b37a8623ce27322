"""Traces straight from a source into memory, with no store between: for small logs, notebooks and tests."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ethogram.errors import Unreadable
from ethogram.traces import Head, Label, Origin, Ref, Span, Trace, TraceId, text_ref

from .intake import Intake, SourceReport
from .readers import reader, recognise
from .source import Source


class MemorySink:
    """Keeps one trace in memory and hands it to `done`; nothing is redacted."""

    idle = True

    def __init__(self, done: list[Trace]) -> None:
        """`done` receives the finished trace."""
        self._done = done
        self._spans: list[Span] = []
        self._texts: dict[Ref, str] = {}

    def text(self, body: str, field: str, original: str | None = None) -> Ref:
        """Keep a text."""
        ref = text_ref(body)
        self._texts[ref] = body
        return ref

    def clean(self, value: str, field: str) -> str:
        """Nothing is redacted here."""
        return value

    def named(self, words: str) -> str:
        """The words: nothing is stored here."""
        return words

    def span(self, span: Span) -> None:
        """Keep a span."""
        self._spans.append(span)

    def finish(self, head: Head, labels: Sequence[Label]) -> None:
        """Build the trace."""
        self._done.append(Trace(head, tuple(self._spans), self._texts, tuple(labels)))

    def abort(self) -> None:
        """Forget the trace."""
        self._spans.clear()


def read_traces(source: Source, format: str | None = None) -> tuple[list[Trace], SourceReport]:
    """All traces of one source, and the report of what was skipped and lost."""
    report = SourceReport(source=source.name)
    try:
        found = reader(format) if format else recognise(source)
    except Unreadable as error:
        report.skip(source.name, error.cli_message)
        return [], report
    if found is None:
        report.skip(source.name, source.damage or "no reader recognises this content")
        return [], report
    report.format = found.format
    done: list[Trace] = []
    attempts: dict[tuple[str, str], int] = {}

    def settle(head: Head, labels: Sequence[Label], spans: int) -> Head:
        if head.attempt >= 0:
            return head
        key = (head.task, head.condition)
        attempts[key] = attempts.get(key, -1) + 1
        return msgspec.structs.replace(head, attempt=attempts[key])

    def open_sink(trace: TraceId) -> MemorySink:
        return MemorySink(done)

    try:
        intake = Intake(open_sink, Origin(found.format, source.name, source.digest), report, settle)
        found.read(source, intake)
        if intake.annotations:
            report.labels = 0
            report.skip(source.name, "labels of a trace that another file holds; import both into one run")
        report.end()
    except Unreadable as error:
        report.skip(source.name, error.cli_message)
    return done, report
