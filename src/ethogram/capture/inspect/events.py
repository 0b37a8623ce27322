"""Events of an Inspect sample as spans.

`model` and `tool` events are the steps; `span_begin`/`span_end` (and `step` in old logs) nest them. The
span that Inspect opens around every tool call and the tool event inside it are one tool span here, so
that a sub-agent's steps lie below the tool that ran it. What a scorer does, its own model calls included,
is of kind `judge`: it is no step of the agent. All other events become `other` spans with their content
as attributes. A span is added when its end is read, after what it holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ethogram.capture.asked_calls import AskedCalls
from ethogram.capture.builder import TraceBuilder
from ethogram.capture.chat import says_error
from ethogram.capture.draft import Draft
from ethogram.capture.inspect.body import RawJson, raw_object
from ethogram.capture.inspect.calls import InspectEvent, ModelCalls
from ethogram.capture.inspect.messages import Messages, failure
from ethogram.capture.inspect.places import OWN, EventScope, OpenSpan, Places
from ethogram.capture.intake import Intake
from ethogram.capture.parse import as_dict, as_float, as_list, as_name, as_text, iso_ns, to_json, tool_call
from ethogram.traces import Kind, Message

_LATER = ("input", "call", "tools")  # of a model event: read only as far as they are new
_BASE = frozenset(
    {"uuid", "span_id", "timestamp", "working_start", "working_time", "event", "pending", "completed", "input_ansi"}
)
_TOOL_EXTRAS = ("view", "truncated", "agent", "failed", "metadata")
_OWN_FIELDS: dict[str, type] = {
    **dict.fromkeys(("agent", "lane", "name", "status", "tool", "call_id", "arguments", "result", "error"), str),
    **dict.fromkeys(("prompt_version", "kind", "model", "provider", "stop_reason"), str),
    **{"attributes": dict, "params": dict, "truncated": bool},
}


class EventReader:
    """Feeds the events of one sample, in order, into a trace."""

    def __init__(
        self, trace: TraceBuilder, messages: Messages, intake: Intake, where: str, error: str | None, root: str
    ) -> None:
        """`error` is the sample's own, so that no event repeats it; `root` the id of the span above all."""
        self.counts: Counter[str] = Counter()
        self.calls = ModelCalls(messages, trace.lose)
        self._trace = trace
        self._messages = messages
        self._intake = intake
        self._where = where
        self._known_error = error
        self._places = Places(trace.agent, root)
        self._scope = EventScope(self._places.root)
        self._asked = AskedCalls()
        self._done: set[str] = set()
        self._pending: dict[str, tuple[InspectEvent, EventScope]] = {}
        self._handlers: dict[str, Callable[[InspectEvent, EventScope], None]] = {
            **{"model": self._model, "tool": self._tool, "span_begin": self._places.begin, "span_end": self._end},
            **{"step": self._step, "subtask": self._subtask, "score": self._score, "error": self._error},
            **{"sandbox": self._sandbox, "input": self._input},
            "sample_init": lambda event, scope: None,  # the sample's own fields say it
        }

    def feed(self, raw: RawJson) -> None:
        """Read one event; a malformed one is reported, and the sample goes on."""
        with self._intake.record(f"{self._where}, event {self.counts.total()}"):
            fields: dict[str, msgspec.Raw] = {}
            try:
                fields = raw_object(raw)
            finally:
                kind = msgspec.json.decode(fields["event"]) if "event" in fields else None
                self.counts[kind if isinstance(kind, str) else "?"] += 1
            if kind == "model":
                event: InspectEvent = {k: v if k in _LATER else self._messages.value(v) for k, v in fields.items()}
            else:
                event = self._messages.value(raw)
            self._event(event, self._scope)

    def close(self) -> None:
        """Add what was still under way when the log ended."""
        for event, scope in self._pending.values():
            self._handle(event, scope)
        for place in (*reversed(self._scope.steps), *reversed(self._places.open.values())):
            self._emit(place, None)

    def _event(self, event: InspectEvent, scope: EventScope) -> None:
        """Handle an event once: first pending and then with its result, it has one id."""
        uuid, pending = event.get("uuid"), event.get("pending")
        if isinstance(uuid, str) and event.get("event") not in ("span_begin", "span_end", "step"):
            if uuid in self._done:
                self._trace.lose("event (repeated)")
                return
            self._pending.pop(uuid, None)
            if pending and not (event.get("event") == "tool" and self._places.waiting(event)):
                self._pending[uuid] = (event, scope)
                return
            if not pending:
                self._done.add(uuid)
        self._handle(event, scope)

    def _handle(self, event: InspectEvent, scope: EventScope) -> None:
        kind = event.get("event")
        if not isinstance(kind, str):
            raise ValueError("an event without its kind")
        self._handlers.get(kind, self._other)(event, scope)

    def _draft(self, kind: Kind, name: str, event: InspectEvent, place: OpenSpan, **fields: Any) -> Draft:
        """A draft with the place and times that all events share."""
        start, end = iso_ns(event.get("timestamp")), iso_ns(event.get("completed"))
        worked = as_float(event.get("working_time"))
        if end is None and start is not None and worked is not None and worked >= 0:
            end = start + round(worked * 1e9)
        draft = Draft(
            kind=kind,
            name=name,
            span_id=as_name(event.get("uuid")) or None,
            parent_id=place.id,
            agent=place.agent,
            lane=place.lane,
            start_ns=start,
            end_ns=end,
        )
        for field, value in fields.items():
            setattr(draft, field, value)
        own = as_dict(event.get("metadata")).get(OWN)
        if isinstance(own, dict):
            self._restore(draft, own)
        if event.get("pending"):
            draft.attributes = {**draft.attributes, "pending": True}
        return draft

    def _restore(self, draft: Draft, own: dict[str, Any]) -> None:
        """What our own writer said beyond Inspect's fields."""
        draft.attributes = {}
        for field, shape in _OWN_FIELDS.items():
            if isinstance(own.get(field), shape):
                setattr(draft, field, own[field])
        for field in ("input", "output"):
            if own.get(field):
                setattr(draft, field, self._messages.by_key(own[field]))
        self.calls.seen.update((*draft.input, *draft.output))

    def _model(self, event: InspectEvent, scope: EventScope) -> None:
        place = self._places.of(event, scope)
        kind: Kind = "judge" if place.judge else "model"
        draft = self._draft(kind, "chat", event, place, **self.calls.fields(event))
        whole = self.calls.finish(draft, event)
        if kind == "model":
            self.add_answered(whole, place, draft.start_ns)
        self._trace.add(draft)
        if kind == "model":
            for message in draft.output:
                self._asked.add(message, draft.end_ns)

    def add_answered(
        self, messages: Sequence[Message], place: OpenSpan | None = None, ended: int | None = None
    ) -> None:
        """Tool spans of results in a request that no tool event tells of: an agent behind Inspect's bridge carries out
        its tools itself, as one behind a gateway does."""
        place = place or self._places.root
        for (call, details), result in self._asked.answered(messages):
            start = details["at_ns"]
            self._trace.add(
                Draft(
                    kind="tool",
                    name=call.name,
                    parent_id=place.id,
                    agent=place.agent,
                    lane=place.lane,
                    start_ns=start,
                    end_ns=ended if start is not None else None,
                    tool=call.name,
                    call_id=call.call_id,
                    arguments=call.arguments,
                    result=result.content,
                    status="error" if says_error(result) else "unset",
                    attributes={"seen": "request"},
                )
            )

    def _tool(self, event: InspectEvent, scope: EventScope) -> None:
        self._asked.settle(tool_call(event))
        place = self._places.waiting(event)
        if place is not None:
            place.tool = event
        else:
            self._add_tool(event, self._places.of(event, scope))

    def _add_tool(
        self, event: InspectEvent, above: OpenSpan, span: OpenSpan | None = None, ended: int | None = None
    ) -> None:
        """A tool span, and below it the events that old logs kept inside the tool event."""
        name = as_name(event.get("function")) or "unknown"
        error = failure(event.get("error"))
        arguments, pending = event.get("arguments"), event.get("pending")
        draft = self._draft(
            "judge" if above.judge else "tool",
            name,
            event,
            above,
            tool=name,
            call_id=as_name(event.get("id")) or None,
            arguments=None if arguments is None else as_text(arguments),
            result=None if pending else self._messages.result(event.get("result")),
            error=error,
            status="error" if error or event.get("failed") else "unset" if pending else "ok",
            truncated=bool(event.get("truncated")),
            attributes={k: self._messages.plain(event[k]) for k in _TOOL_EXTRAS if event.get(k)},
        )
        draft.span_id = span.id if span is not None else draft.span_id
        draft.end_ns = ended if draft.end_ns is None else draft.end_ns
        self._nested(event, above.inner(self._trace.add(draft), name, event))

    def _subtask(self, event: InspectEvent, scope: EventScope) -> None:
        place = self._places.of(event, scope)
        name = as_name(event.get("name")) or "subtask"
        draft = self._draft("judge" if place.judge else "other", name, event, place)
        draft.arguments = None if event.get("input") is None else to_json(self._messages.plain(event["input"]))
        draft.result = None if event.get("result") is None else as_text(self._messages.plain(event["result"]))
        draft.attributes = {"event": "subtask", "type": event.get("type")}
        self._nested(event, place.inner(self._trace.add(draft), name, event))

    def _nested(self, event: InspectEvent, base: OpenSpan) -> None:
        scope = EventScope(base)
        for i, inner in enumerate(as_list(event.get("events"))):
            with self._intake.record(f"{self._where}, event {i} inside {base.name}"):
                self.counts[as_name(as_dict(inner).get("event")) or "?"] += 1
                self._event(self._messages.resolve(inner), scope)
        for place in reversed(scope.steps):
            self._emit(place, None)

    def _end(self, event: InspectEvent, scope: EventScope) -> None:
        place = self._places.open.pop(as_name(event.get("id")), None)
        if place is None:
            self._trace.lose("span_end (never begun)")
        else:
            self._emit(place, iso_ns(event.get("timestamp")))

    def _step(self, event: InspectEvent, scope: EventScope) -> None:
        if event.get("action") != "end":
            above = self._places.of(event, scope)
            scope.steps.append(self._places.new(f"step-{self.counts.total()}", event, above))
        elif scope.steps:
            self._emit(scope.steps.pop(), iso_ns(event.get("timestamp")))
        else:
            self._trace.lose("step end (never begun)")

    def _emit(self, place: OpenSpan, ended: int | None) -> None:
        """Add a span whose end was read, or will never be."""
        above = place.above or self._places.root
        if place.tool is not None:
            self._add_tool(place.tool, above, place, ended)
            return
        attributes = {"type": place.type} if place.type else {}
        if metadata := place.event.get("metadata"):
            attributes["metadata"] = self._messages.plain(metadata)
        draft = self._draft(place.kind, place.name, place.event, place, attributes=attributes)
        draft.span_id, draft.parent_id, draft.end_ns = place.id, above.id, ended
        self._trace.add(draft)

    def _score(self, event: InspectEvent, scope: EventScope) -> None:
        name = as_name(event.get("scorer")) or "score"
        draft = self._draft("judge", name, event, self._places.of(event, scope), attributes=self._rest(event))
        draft.result = as_text(as_dict(event.get("score")).get("value"))
        self._trace.add(draft)

    def _error(self, event: InspectEvent, scope: EventScope) -> None:
        words = failure(event.get("error")) or "error"
        if words == self._known_error:
            return
        traceback = as_dict(event.get("error")).get("traceback")
        attributes = {"traceback": traceback} if traceback else {}
        place = self._places.of(event, scope)
        self._trace.add(self._draft("other", "error", event, place, error=words, attributes=attributes))

    def _sandbox(self, event: InspectEvent, scope: EventScope) -> None:
        attributes = {k: v for k, v in self._rest(event).items() if k not in ("cmd", "output")}
        name = f"sandbox {as_name(event.get('action'))}".strip()
        draft = self._draft("other", name, event, self._places.of(event, scope), attributes=attributes)
        draft.arguments = as_text(event.get("cmd") or event.get("file")) or None
        draft.result = None if event.get("output") is None else as_text(event["output"])
        self._trace.add(draft)

    def _input(self, event: InspectEvent, scope: EventScope) -> None:
        attributes = {k: v for k, v in self._rest(event).items() if k != "input"}
        draft = self._draft("user", "input", event, self._places.of(event, scope), attributes=attributes)
        if OWN not in as_dict(event.get("metadata")):
            draft.result = as_text(event.get("input"))
        self._trace.add(draft)

    def _other(self, event: InspectEvent, scope: EventScope) -> None:
        kind: Kind = "judge" if event["event"] in ("score_edit", "sentinel") else "other"
        place = self._places.of(event, scope)
        self._trace.add(self._draft(kind, event["event"], event, place, attributes=self._rest(event)))

    def _rest(self, event: InspectEvent) -> dict[str, Any]:
        """All that an event says beyond what every event has."""
        rest = {k: v for k, v in event.items() if k not in _BASE and v is not None}
        if event.get("event") == "state":
            rest["changes"] = [_thin(c) for c in as_list(event.get("changes"))]
        return {k: self._messages.plain(v) for k, v in rest.items()}


def _thin(change: Any) -> Any:
    """A change of the state; messages and output are only named, because model spans hold their words."""
    path = as_name(as_dict(change).get("path"))
    return {"op": change.get("op"), "path": path} if path.startswith(("/messages", "/output")) else change
