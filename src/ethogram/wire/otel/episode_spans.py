"""The spans that instrumentors open during one episode, until the episode ends and they become part of its trace."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.draft import Draft, LabelDraft
from ethogram.capture.intake import Intake, SourceReport
from ethogram.capture.telemetry.assemble import write_traces
from ethogram.capture.telemetry.spans import RawSpan, SpanBuffer
from ethogram.prices import Amounts
from ethogram.traces import Missing, Origin, SpanId, ToolCall, tokens_of
from ethogram.wire.context import open_here
from ethogram.wire.recorder import Recorder

from .matching import Matches, Told, told_by

UNFINISHED = "otel.unfinished"
"""The attribute of a span that was still open when its episode ended."""
MEMORY = 8 << 20
KEY = "episode"
_WIRE_HAS = ("input.value", "output.value", "gen_ai.response.id", "tool.definitions", "gen_ai.tool.definitions")
_PLACES = ("llm.tools", "server.", "url.", "http.", "network.", "llm.invocation_parameters")
"""Attributes of a model's span of which the captured call itself has more."""
_lock = threading.Lock()


class _Open(NamedTuple):
    id: str
    parent: str | None
    seq: int
    look: Callable[[], RawSpan]


class EpisodeSpans:
    """Gathers foreign spans of one episode. Keys are whatever the source tells its spans apart by."""

    def __init__(self, record: Recorder) -> None:
        """From now on spans of the recorder are held back, for some may turn out to be the same work."""
        self._record = record
        self._held = record.trace.hold()
        self._buffer = SpanBuffer(MEMORY)
        self._ids: dict[Hashable, str] = {}
        self._names: set[str] = set()
        self._open: dict[Hashable, _Open] = {}
        self._seen: list[Told] = []
        self._attributes: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        self._over = False

    def current(self) -> str | None:
        """The span of OpenTelemetry that is open here, if it belongs to this episode."""
        api = sys.modules.get("opentelemetry.trace")
        if api is None:
            return None
        context = api.get_current_span().get_span_context()
        return self._ids.get((context.trace_id, context.span_id))

    def recorded(self, draft: Draft) -> None:
        """Note what a span of the recorder tells."""
        told = told_by(draft)
        self._seen.append(told)
        self._attributes[told.span_id] = draft.attributes

    def started(self, key: Hashable, parent: Hashable | None, wanted: str, look: Callable[[], RawSpan]) -> None:
        """A span has begun; `look` tells what is known of it by then, should it never end. Twice is once."""
        with self._lock:
            if self._over or key in self._ids:
                return
            name = wanted
            while name in self._names:  # two traces may use one id
                name += "+"
            self._names.add(name)
            self._ids[key] = name
            self._open[key] = _Open(name, self._parent(parent), self._record.next_seq(), look)

    def _parent(self, parent: Hashable | None) -> str | None:
        """The innermost span around: the foreign parent, unless a span of the recorder was opened inside it."""
        above, here = None if parent is None else self._ids.get(parent), open_here()
        return here.span if above is None or (here.span is not None and here.foreign == above) else above

    def ended(self, key: Hashable, span: RawSpan) -> bool:
        """A span has ended; False if it is not one of this episode, or came after its end."""
        with self._lock:
            found = self._open.pop(key, None)
            if found is None or self._over:
                return False
            self._keep(found, span)
            return True

    def _keep(self, found: _Open, span: RawSpan) -> None:
        if span.parent_id is not None and found.parent is None:
            span.extra = {**span.extra, "otel.parent_id": span.parent_id}
        span.span_id, span.parent_id = found.id, found.parent
        span.fields = {**span.fields, "seq": found.seq}
        self._buffer.add(KEY, span)

    def finish(self) -> None:
        """Write the spans into the trace of the episode; raises `CapReached` where a capped resource is not counted."""
        with self._lock:
            self._over = True
            for found in self._open.values():
                span = found.look()
                span.end_ns, span.extra = None, {**span.extra, UNFINISHED: True}
                self._keep(found, span)
            self._open.clear()
        collected = _Collected(self._record)
        report = SourceReport(source="telemetry")
        write_traces(self._buffer, _Collecting(collected, report))
        self._buffer.close()
        for field, count in report.lost.items():
            self._record.trace.lose(field, count)
        if report.skipped:
            self._record.trace.meta["telemetry_problem"] = report.skipped[0].why
        self._join(collected)

    def _join(self, collected: _Collected) -> None:
        drafts = {draft.span_id or "": draft for draft in collected.drafts}
        same = Matches([told_by(draft) for draft in drafts.values()], self._seen).same
        became = self._became(drafts, same)
        tellers: dict[str, list[Draft]] = {}
        for one, seen in same.items():
            for span_id in seen:
                tellers.setdefault(span_id, []).append(drafts[one])
        kept = {span_id: draft for span_id, draft in drafts.items() if span_id not in became}
        for draft in kept.values():
            draft.parent_id = _resolved(draft.parent_id, became)
        changes = {told.span_id: self._place(told, tellers.get(told.span_id, []), became) for told in self._seen}
        owners = _Owners(
            kept, {told.span_id: changes[told.span_id].get("parent_id", told.parent_id) for told in self._seen}
        )
        for told in self._seen:
            change = changes[told.span_id] | owners.of(told.span_id)
            if change and not self._held.amend(told.span_id, **change):
                self._record.trace.lose("place of a span (too many to be held)")
        for span_id, draft in kept.items():
            draft.agent = draft.agent or owners.of(span_id).get("agent", "")
            self._add(draft)
        for label in collected.labels:
            label.span_id = _resolved(label.span_id, became)
            self._record.trace.add_label(label)
        for name, value in collected.meta.items():
            self._record.trace.meta.setdefault(name, value)
        self._settle(list(kept.values()))

    def _became(self, drafts: dict[str, Draft], same: dict[str, list[str]]) -> dict[str, str | None]:
        """What stands in place of spans of telemetry that are not kept: the recorded tool, or what is above the model.

        A model's span that repeats another one of telemetry goes the way of that one.
        """
        became: dict[str, str | None] = {}
        for span_id, draft in drafts.items():
            kept = draft.attributes.get("otel.same_call_as")
            if span_id in same:
                became[span_id] = draft.parent_id if draft.kind == "model" else same[span_id][0]
            elif isinstance(kept, str) and kept in same:
                became[span_id] = draft.parent_id
        return became

    def _place(self, told: Told, tellers: list[Draft], became: dict[str, str | None]) -> dict[str, Any]:
        """What changes about a recorded span: it is put where telemetry says that it belongs."""
        changes: dict[str, Any] = {}
        parent = _resolved(told.parent_id, became)
        deepest = max(tellers, key=self._depth, default=None)
        if deepest is not None:
            above = _resolved(deepest.parent_id, became)
            if (
                above is not None
                and above != told.span_id
                and (parent is None or parent in self._names or told.from_wire)
            ):
                parent = above
            changes = self._richer(told, deepest)
        return changes if parent == told.parent_id else {**changes, "parent_id": parent}

    def _depth(self, draft: Draft) -> int:
        return 0 if draft.parent_id is None else 1 + (draft.parent_id in self._names)

    def _richer(self, told: Told, draft: Draft) -> dict[str, Any]:
        """What telemetry knows and the recorder does not."""
        if told.kind == "model":
            more = {
                name: value
                for name, value in draft.attributes.items()
                if name not in _WIRE_HAS and not name.startswith(_PLACES)
            }
            changes: dict[str, Any] = {"attributes": {**more, **self._attributes[told.span_id]}} if more else {}
            return changes | ({"prompt_version": draft.prompt_version} if draft.prompt_version else {})
        kind = {"kind": "handoff"} if draft.kind == "handoff" else {}
        if told.from_wire and draft.start_ns is not None:
            return kind | {"start_ns": draft.start_ns, "end_ns": draft.end_ns}
        return kind

    def _add(self, draft: Draft) -> None:
        if draft.kind == "model":
            self._record.price(draft)
        self._record.trace.add(draft)

    def _settle(self, added: list[Draft]) -> None:
        """Count work that nobody but telemetry has seen."""
        gaps: dict[Any, str] = {}
        for draft in added:
            if draft.kind in ("tool", "handoff"):
                call = ToolCall(draft.tool or draft.name, draft.arguments or "{}", draft.call_id)
                self._record.calls.append(call)
                self._record.settle(Amounts(steps=1))
            elif draft.kind == "model":
                used = Amounts(steps=1, tokens=tokens_of(draft) or 0, usd=draft.cost_usd or 0.0)
                self._record.settle(used)
                gaps |= self._record.price(draft)
        self._record.tell_gaps(gaps)


def _resolved(span_id: str | None, became: dict[str, str | None]) -> str | None:
    """Where a span went, however often it moved."""
    moved: set[str] = set()
    while span_id is not None and span_id in became and span_id not in moved:
        moved.add(span_id)
        span_id = became[span_id]
    return span_id


class _Owners:
    """Whose work each span is: that of the nearest agent above that telemetry names."""

    def __init__(self, drafts: dict[str, Draft], parents: dict[str, str | None]) -> None:
        self._drafts = drafts
        self._parents = {**parents, **{span_id: draft.parent_id for span_id, draft in drafts.items()}}

    def of(self, span_id: str) -> dict[str, str]:
        """The agent and the lane of a span, as far as telemetry tells them."""
        known: set[str] = set()
        here: str | None = span_id
        while here is not None and here not in known:
            known.add(here)
            draft = self._drafts.get(here)
            if draft is not None and draft.agent:
                return {"agent": draft.agent, "lane": draft.lane} if draft.lane else {"agent": draft.agent}
            here = self._parents.get(here)
        return {}


class _Collected(TraceBuilder):
    """Looks like a builder to what understands spans, and keeps what it is given."""

    def __init__(self, record: Recorder) -> None:
        self.trace_id, self.episode = record.trace.trace_id, record.trace.episode
        self.task, self.attempt, self.condition, self.agent, self.seed = "", None, "", "", None
        self.outcome, self.answer, self.meta = Missing("unscored"), None, {}
        self.spans = 0
        self.drafts: list[Draft] = []
        self.labels: list[LabelDraft] = []
        self._record = record

    def lose(self, field: str, count: int = 1) -> None:
        self._record.trace.lose(field, count)

    def add(self, draft: Draft) -> SpanId:
        self.spans += 1
        self.drafts.append(draft)
        return SpanId(draft.span_id or "")

    def add_label(self, draft: LabelDraft) -> None:
        self.labels.append(draft)


class _Collecting(Intake):
    """An intake for the one trace of an episode."""

    def __init__(self, collected: _Collected, report: SourceReport) -> None:
        super().__init__(lambda trace: None, Origin("run", "telemetry"), report)  # type: ignore[arg-type, return-value]
        self._collected = collected

    @contextmanager
    def trace(self, key: str, *, worldwide: bool = False, content: str | None = None) -> Iterator[TraceBuilder]:
        yield self._collected


def episode_spans_of(record: Recorder) -> EpisodeSpans:
    """The foreign spans of an episode; the first one that asks makes the place for them."""
    with _lock:
        if not isinstance(record.foreign, EpisodeSpans):
            record.foreign = EpisodeSpans(record)
        return record.foreign


def finish_spans(record: Recorder) -> None:
    """The episode is over: what telemetry told becomes part of its trace."""
    if isinstance(record.foreign, EpisodeSpans):
        record.foreign.finish()
