"""Annotation files: labels of traces that other files hold, joined by the name of the trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from ethogram.capture.intake import Annotation, SourceReport
from ethogram.capture.register import ReadFile, Register
from ethogram.store import Entry, Redactor, Run
from ethogram.store.rescore import append_outcomes
from ethogram.traces import Head, Label, Outcome, Ref, TraceId

OutcomeSource = Callable[[Head, Sequence[Label], SourceReport], Outcome | None]
"""The outcome that the user asked to take from the labels of a trace, if any."""


NOT_HERE = "annotations of a trace that is not in this run; import the trace into it as well"


class Waiting(msgspec.Struct):
    """A source that was read, and what it says of traces that may not have been committed yet.

    `complete` says whether all of these traces were found.
    """

    read: ReadFile
    annotations: list[Annotation]
    complete: bool = True


def annotate(
    run: Run, waiting: Sequence[Waiting], register: Register, judge: OutcomeSource, redactor: Redactor
) -> None:
    """Add the labels of all sources to their traces at once, and say in each report what could not be added."""
    run.forget_cache()
    entries = {e.head.trace_id: e for e in run.entries}
    labels: list[Label] = []
    outcomes: dict[TraceId, Outcome] = {}
    for source in waiting:
        for annotation in source.annotations:
            known = register.episodes.get(annotation.episode)
            if known is None:
                source.complete = False
                source.read.report.labels -= len(annotation.labels)
                source.read.report.skip(source.read.report.source, NOT_HERE)
                continue
            entry = entries[known.trace_id]
            placed = _placed(run, entry, annotation.labels, source.read.report)
            labels.extend(placed)
            verdict = judge(entry.head, placed, source.read.report)
            if verdict is not None:
                outcomes[known.trace_id] = verdict
    append_outcomes(run, outcomes, labels, redactor)


def _placed(run: Run, entry: Entry, labels: Sequence[Label], report: SourceReport) -> list[Label]:
    """The labels with their trace; one that names a span the trace does not have keeps the name in its words."""
    spans = {s.span_id for s in run.spans(entry)} if any(x.span_id for x in labels) else set()
    placed = []
    for label in labels:
        span, why = label.span_id, label.why
        if span is not None and span not in spans:
            report.lose("annotation location (no such span)")
            why = Ref("\n\n".join(filter(None, (why, f"Location: {span}"))))
            span = None
        placed.append(msgspec.structs.replace(label, trace_id=entry.head.trace_id, span_id=span, why=why))
    return placed
