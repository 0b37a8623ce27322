"""Add a log that an agent left behind to the trace that is being recorded.

A command-line agent may write its own trace, in any format we read; its spans hang below the span of the command.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.discover import sources
from ethogram.capture.draft import Draft, LabelDraft
from ethogram.capture.intake import Intake, SourceReport
from ethogram.capture.readers import recognise
from ethogram.capture.source import file_source
from ethogram.errors import Unreadable
from ethogram.prices import Amounts
from ethogram.prices.budget import Resource
from ethogram.traces import Missing, Origin, SpanId

from .context import current_span
from .recorder import Recorder


class _Grafted(TraceBuilder):
    """Looks like a builder to a reader, and adds to the recorder's own trace."""

    def __init__(self, record: Recorder, prefix: str) -> None:
        self.trace_id, self.episode = record.trace.trace_id, record.trace.episode
        self.task, self.attempt, self.condition, self.agent, self.seed = "", None, "", "", None
        self.outcome, self.answer, self.meta = Missing("unscored"), None, {}
        self.spans = 0
        self._record = record
        self._prefix = prefix
        self._root = current_span()
        self.gaps: dict[Resource, str] = {}

    def lose(self, field: str, count: int = 1) -> None:
        self._record.trace.lose(field, count)

    def add(self, draft: Draft) -> SpanId:
        own = f"{self._prefix}{draft.span_id or f's{self.spans}'}"
        draft.span_id = own
        draft.parent_id = f"{self._prefix}{draft.parent_id}" if draft.parent_id else self._root
        draft.seq = self._record.next_seq()
        if draft.lane or draft.kind == "model":
            draft.lane = f"{self._prefix}{draft.lane}"
        self.spans += 1
        if draft.kind == "model":
            self.gaps.update(self._record.price(draft))
        added = self._record.trace.add(draft)
        return SpanId(added.removeprefix(self._prefix))

    def add_label(self, draft: LabelDraft) -> None:
        draft.span_id = f"{self._prefix}{draft.span_id}" if draft.span_id else None
        self._record.trace.add_label(draft)


class _Graft(Intake):
    """An intake whose traces all become parts of one."""

    def __init__(self, record: Recorder, name: str, report: SourceReport) -> None:
        super().__init__(_no_sink, Origin("run", name), report)
        self.gaps: dict[Resource, str] = {}
        self._record = record
        self._count = 0

    @contextmanager
    def trace(self, key: str, *, worldwide: bool = False, content: str | None = None) -> Iterator[TraceBuilder]:
        self._count += 1
        grafted = _Grafted(self._record, f"g{self._count}:")
        yield grafted
        if not grafted.meta.get("usage_is_per_trace"):  # one call then speaks for all of them
            self.gaps.update(grafted.gaps)
        for name, value in grafted.meta.items():
            self._record.trace.meta.setdefault(name, value)


def _no_sink(trace: object) -> Any:
    raise AssertionError("a graft opens no sink of its own")


def graft(path: Path, record: Recorder) -> SourceReport:
    """Add the spans of a log to the trace that is being recorded; what it cost is settled after the fact."""
    report = SourceReport(source=path.name)
    gaps: dict[Resource, str] = {}
    before = record.trace.usage()
    for source in (
        sources(path, lambda s: recognise(s) is not None, report.skip)
        if path.is_dir()
        else [file_source(path, path.name)]
    ):
        found = recognise(source)
        if found is None:
            report.skip(source.name, "no reader recognises what the agent left as its trace")
            continue
        report.format = found.format
        intake = _Graft(record, source.name, report)
        try:
            found.read(source, intake)
        except Unreadable as error:
            report.skip(source.name, error.cli_message)
        gaps.update(intake.gaps)
    used = record.trace.usage()
    record.settle(Amounts(tokens=used[0] - before[0], usd=used[1] - before[1]))
    if report.skipped:
        record.trace.meta["trace_problem"] = report.skipped[0].why
    record.tell_gaps(gaps)
    return report
