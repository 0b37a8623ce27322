"""From gathered raw spans to traces: ordered, told apart into lanes, each model call counted once."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.cleaning import json_text
from ethogram.capture.draft import Draft, LabelDraft
from ethogram.capture.intake import RECORD_ERRORS, Intake
from ethogram.capture.parse import as_name
from ethogram.capture.semconv import Understood, understand
from ethogram.traces import TOKEN_FIELDS, File, ToolCall, ToolResult

from .facts import Note, apply_facts, take_facts
from .kinds import OpenedSpan, Outline, open_span, outline
from .messages import last_words
from .span_attributes import Bag
from .spans import RawSpan, SpanBuffer
from .tree import Tree

HELD_BYTES = 1 << 20
"""Spans of traces up to this size stay open from their outline until they are written; others are read again."""
TOGETHER = 64
"""This number of spans of a trace is understood before the first of them is stored."""
Finish = Callable[[TraceBuilder, str, dict[str, str]], None]
"""Completes a trace: the builder, its key, and the new id of each span id."""


def write_traces(buffer: SpanBuffer, intake: Intake, *, finish: Finish | None = None, repeats: bool = False) -> None:
    """One trace per trace id, in the order in which they first appeared.

    A span that was delivered twice, byte for byte, is kept once, unless the format means `repeats`.
    """
    for key in list(buffer.traces):
        write_trace(buffer, key, intake, finish=finish, repeats=repeats)
        buffer.forget(key)


def write_trace(
    buffer: SpanBuffer, key: str, intake: Intake, *, finish: Finish | None = None, repeats: bool = False
) -> None:
    """The trace of one id, from all of its spans that were gathered."""
    with intake.record(f"trace {key}"):
        _Assembly(buffer, key, intake, repeats).write(finish)


class _Assembly:
    """One trace on its way."""

    def __init__(self, buffer: SpanBuffer, key: str, intake: Intake, repeats: bool) -> None:
        self._buffer = buffer
        self._key = key
        self._intake = intake
        self._held: dict[int, OpenedSpan] = {}
        self._firsts: dict[str | None, int] = {}
        self._marks: dict[str | None, set[bytes]] = {}
        self._outlines = self._outline(repeats)
        self._exact = all(o.seq is not None for o in self._outlines.values())  # written by our own writer
        self._facts: dict[str, Any] = {}
        self._base: dict[str, Any] = {}
        self._ids: dict[str, str] = {}
        self._answer: tuple[bool, int, str] | None = None

    def write(self, finish: Finish | None) -> None:
        """Write the trace, unless there is nothing in it."""
        if not self._outlines:
            return
        tree = Tree(self._outlines)
        repeated = tree.same_calls()
        with self._intake.trace(self._key, worldwide=True) as trace:
            for start in range(0, len(tree.order), TOGETHER):
                self._write_spans(trace, tree, tree.order[start : start + TOGETHER], repeated)
            if trace.spans == 0:
                raise ValueError("none of its spans could be read")
            apply_facts(trace, self._facts)
            if not self._exact:
                trace.agent = trace.agent or self._agent(tree)
                trace.answer = self._answer[2] if trace.answer is None and self._answer else trace.answer
            if finish is not None:
                finish(trace, self._key, self._ids)

    def _outline(self, repeats: bool) -> dict[int, Outline]:
        found: dict[int, Outline] = {}
        sizes = self._buffer.sizes(self._key)
        hold = sum(sizes) <= HELD_BYTES
        for position in range(len(sizes)):
            try:
                span = self._buffer.span(self._key, position)
                if not repeats and self._came_before(span.span_id, position):
                    self._intake.lose("span (delivered twice)")
                    continue
                opened = self._opened(span)
                found[position] = outline(opened)
                if hold:
                    self._held[position] = opened
            except RECORD_ERRORS as error:
                self._intake.refuse(f"trace {self._key}, span {position}", error)
        known = {o.span_id for o in found.values()}
        for span_id in [s for s in self._buffer.traces[self._key].events if s not in known]:
            self._alone(span_id, found)
        return found

    def _came_before(self, span_id: str | None, position: int) -> bool:
        """Whether the same span stands at an earlier position, byte for byte."""
        first = self._firsts.setdefault(span_id, position)
        if first == position:
            return False
        if span_id not in self._marks:
            self._marks[span_id] = {self._mark(first)}
        mark, marks = self._mark(position), self._marks[span_id]
        known = mark in marks
        marks.add(mark)
        return known

    def _mark(self, position: int) -> bytes:
        return blake2b(self._buffer.encoded(self._key, position), digest_size=16).digest()

    def _opened(self, span: RawSpan) -> OpenedSpan:
        return open_span(span, self._buffer.events(self._key, span.span_id or ""))

    def _alone(self, span_id: str, found: dict[int, Outline]) -> None:
        """Events whose span is not here: a model call that only its messages tell of, or nothing we can use."""
        events = self._buffer.events(self._key, span_id)
        if not any(e.name.startswith("gen_ai.") for e in events):
            self._intake.lose("log record (its span is not here)", len(events))
            return
        times = [e.time_ns for e in events if e.time_ns is not None]
        spoken = any(e.name != "gen_ai.evaluation.result" for e in events)
        span = RawSpan(
            name="chat" if spoken else "evaluation",
            span_id=span_id or None,
            start_ns=min(times, default=None),
            end_ns=max(times, default=None),
            hint="model" if spoken else "judge",
        )
        position = len(self._buffer.traces[self._key].spans) // 2
        self._buffer.add(self._key, span)
        found[position] = outline(open_span(span, events))

    def _write_spans(self, trace: TraceBuilder, tree: Tree, positions: list[int], repeated: dict[int, int]) -> None:
        """Some spans in their order; what is in them is searched for secrets together."""
        ready: list[tuple[int, str | None, Understood]] = []
        for position in positions:
            try:
                ready.append((position, *self._understood(trace, tree, position, repeated)))
            except RECORD_ERRORS as error:
                self._intake.refuse(self._place(position), error)
        if self._intake.searches:
            self._intake.expect([_strings_of(known.draft) for _, _, known in ready])
        for position, raw_id, known in ready:
            try:
                span_id = trace.add(known.draft)
                if raw_id:
                    self._ids.setdefault(raw_id, span_id)
                add_notes(trace, known.notes, span_id)
            except RECORD_ERRORS as error:
                self._intake.refuse(self._place(position), error)

    def _place(self, position: int) -> str:
        return f"trace {self._key}, span {self._outlines[position].span_id or position}"

    def _understood(
        self, trace: TraceBuilder, tree: Tree, position: int, repeated: dict[int, int]
    ) -> tuple[str | None, Understood]:
        """What a span says, and the id that its log gives it."""
        opened = self._held.pop(position, None) or self._opened(self._buffer.span(self._key, position))
        raw, known = opened.span, understand(opened)
        draft = known.draft
        if not self._exact:
            draft.seq = None  # numbers of our own writer mean nothing beside spans that have none
            owner = tree.agent(position)
            draft.agent = draft.agent or (owner.agent if owner else "")
            draft.lane = draft.lane or tree.lane(position)
        if position in tree.moved:
            draft.attributes["otel.parent_id"], draft.parent_id = draft.parent_id, tree.moved[position]
        if draft.error and tree.is_of_a_tool(position, draft.error):
            draft.attributes["otel.status_message"], draft.error, draft.status = draft.error, None, "unset"
        if position in repeated:
            self._strip(known, self._outlines[repeated[position]].span_id)
        self._resource(trace, raw, known)
        for key, fact in known.facts.items():
            if not key.startswith("ethogram.") and trace.meta.setdefault(key, fact) != fact:
                draft.attributes[key] = fact
            self._facts.setdefault(key, fact)
        for field, count in known.lost.items():
            trace.lose(field, count)
        if draft.result and draft.kind in ("agent", "other"):
            rank = (draft.kind != "agent", tree.depth(position))
            if (self._answer is None or rank < self._answer[:2]) and (draft.kind == "agent" or rank[1] == 0):
                self._answer = (*rank, last_words(draft.result))
        return raw.span_id, known

    def _strip(self, known: Understood, kept: str | None) -> None:
        """A call that another span tells as well: neither its tokens nor its words count a second time."""
        draft = known.draft
        draft.kind = "other"
        for field in TOKEN_FIELDS:
            setattr(draft, field, None)
        draft.cost_usd = None
        draft.input = draft.output = ()
        draft.attributes["otel.same_call_as"] = kept
        self._intake.lose("duplicate model span")

    def _resource(self, trace: TraceBuilder, raw: RawSpan, known: Understood) -> None:
        """The first resource of a trace is about the trace; spans of another one say how it differs."""
        if raw.resource < 0:
            return
        resource = self._buffer.resource_of(raw.resource)
        if not self._base:
            bag = Bag(resource)
            self._facts = {**take_facts(bag), **self._facts}
            self._base = {"": True, **resource}
            if not self._exact:
                trace.meta = {**bag.rest, **trace.meta}
            return
        other = {k: v for k, v in resource.items() if self._base.get(k) != v}
        if other:
            known.draft.attributes["otel.resource"] = other

    def _agent(self, tree: Tree) -> str:
        """Whose trace it is: the topmost agent that has a name of its own, else the topmost, else the service."""
        agents = [self._outlines[p] for p in sorted(tree.order, key=tree.depth) if self._outlines[p].kind == "agent"]
        best = next((o for o in agents if o.named), agents[0] if agents else None)
        service = as_name(self._base.get("service.name"))
        return best.agent if best else "" if service.startswith("unknown_service") else service


def add_notes(trace: TraceBuilder, notes: list[Note], span_id: str | None) -> None:
    """Attach what was said about a span, or about the whole trace."""
    for note in notes:
        trace.add_label(
            LabelDraft(
                name=note.name,
                value=note.value,
                by=note.by,
                source=note.source,
                why=note.why,
                span_id=None if note.whole else span_id,
                version=note.version,
                at_ns=note.at_ns,
            )
        )


def _strings_of(draft: Draft) -> list[str | None]:
    """The strings of a draft that differ from span to span; of a context that grows, its end."""
    found = [draft.span_id, draft.call_id, draft.arguments, draft.result, draft.error]
    if draft.attributes:
        found.append(json_text(draft.attributes))
    for part in (part for message in (*draft.input[-3:], *draft.output) for part in message.parts):
        if isinstance(part, ToolCall):
            found += [part.arguments, part.call_id]
        elif isinstance(part, ToolResult):
            found += [part.content, part.call_id]
        elif not isinstance(part, File):
            found.append(part.text)
    return found
