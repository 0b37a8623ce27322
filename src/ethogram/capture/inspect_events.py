"""Events of an Inspect sample as spans.

`model` and `tool` events are the steps; `span_begin`/`span_end` (and `step` in old logs) nest them. The
span that Inspect opens around every tool call and the tool event inside it are one tool span here, so
that a sub-agent's steps lie below the tool that ran it. What a scorer does, its own model calls included,
is of kind `judge`: it is no step of the agent. All other events become `other` spans with their content
as attributes. A span is added when its end is read, after what it holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import msgspec

from ethogram.trace import Kind, Message

from .inspect_body import Json, raw_object
from .inspect_messages import Messages, failure, usage
from .inspect_places import Place, Places, Scope
from .intake import Draft, Intake, TraceBuilder
from .parse import as_dict, as_float, as_list, as_name, as_text, iso_ns, to_json

OWN = "ethogram"
"""Key in an event's metadata under which our own writer leaves what Inspect has no field for."""

Event = dict[str, Any]

_LATER = ("input", "call", "tools")  # of a model event: read only as far as they are new
_BASE = frozenset(
    {"uuid", "span_id", "timestamp", "working_start", "working_time", "event", "pending", "completed", "input_ansi"}
)
_MODEL_EXTRAS = ("role", "requested_model", "tool_choice", "retries", "request_ids", "cache", "traceback", "metadata")
_OUTPUT_EXTRAS = ("response_id", "fallback", "metadata", "error", "input_context_tokens")
_TOOL_EXTRAS = ("view", "truncated", "agent", "failed", "metadata")
_OWN_FIELDS: dict[str, type] = {
    **dict.fromkeys(("agent", "lane", "name", "status", "tool", "call_id", "arguments", "result", "error"), str),
    **{"prompt_version": str, "attributes": dict, "kind": str, "truncated": bool},
}


class EventReader:
    """Feeds the events of one sample, in order, into a trace."""

    def __init__(self, trace: TraceBuilder, messages: Messages, intake: Intake, where: str, error: str | None) -> None:
        """`error` is the sample's own error: the event that repeats it adds nothing."""
        self.counts: Counter[str] = Counter()
        self.seen: set[Message] = set()
        self.written: set[str] = set()
        self._trace = trace
        self._messages = messages
        self._intake = intake
        self._where = where
        self._known_error = error
        self._places = Places(trace.agent)
        self._scope = Scope(self._places.root)
        self._talk: dict[str, list[Message]] = {}
        self._done: set[str] = set()
        self._pending: dict[str, tuple[Event, Scope]] = {}
        self._tools: dict[bytes, list[Any]] = {}
        self._defined: set[str] = set()
        self._handlers: dict[str, Callable[[Event, Scope], None]] = {
            **{"model": self._model, "tool": self._tool, "span_begin": self._places.begin, "span_end": self._end},
            **{"step": self._step, "subtask": self._subtask, "score": self._score, "error": self._error},
            **{"sandbox": self._sandbox, "input": self._input},
            "sample_init": lambda event, scope: None,  # the sample's own fields say it
        }

    def feed(self, raw: Json) -> None:
        """Read one event; a malformed one is reported, and the sample goes on."""
        with self._intake.record(f"{self._where}, event {self.counts.total()}"):
            fields: dict[str, msgspec.Raw] = {}
            try:
                fields = raw_object(raw)
            finally:
                kind = msgspec.json.decode(fields["event"]) if "event" in fields else None
                self.counts[kind if isinstance(kind, str) else "?"] += 1
            if kind == "model":
                event: Event = {k: v if k in _LATER else self._messages.value(v) for k, v in fields.items()}
            else:
                event = self._messages.value(raw)
            self._event(event, self._scope)

    def close(self) -> None:
        """Add what was still under way when the log ended."""
        for event, scope in self._pending.values():
            self._handle(event, scope)
        for place in (*reversed(self._scope.steps), *reversed(self._places.open.values())):
            self._emit(place, None)

    def _event(self, event: Event, scope: Scope) -> None:
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

    def _handle(self, event: Event, scope: Scope) -> None:
        kind = event.get("event")
        if not isinstance(kind, str):
            raise ValueError("an event without its kind")
        self._handlers.get(kind, self._other)(event, scope)

    def _draft(self, kind: Kind, name: str, event: Event, place: Place, **fields: Any) -> Draft:
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
            draft.attributes = {k: v for k, v in draft.attributes.items() if k != "metadata"}
            for field, shape in _OWN_FIELDS.items():
                if isinstance(own.get(field), shape):
                    setattr(draft, field, own[field])
        if event.get("pending"):
            draft.attributes = {**draft.attributes, "pending": True}
        return draft

    def _model(self, event: Event, scope: Scope) -> None:
        place = self._places.of(event, scope)
        output = as_dict(event.get("output"))
        choices = [c for c in as_list(output.get("choices")) if isinstance(c, dict)]
        first = choices[0] if choices else {}
        said = [self._messages.read(first["message"])] if isinstance(first.get("message"), dict) else []
        provider, slash, model = as_name(event.get("model")).partition("/")
        if not slash:
            provider, model = "", provider
        stop = as_name(first.get("stop_reason"))
        error = failure(event.get("error"))
        cached = event.get("cache") == "read"  # answered from Inspect's own cache: nothing was sent or billed
        draft = self._draft(
            "judge" if place.judge else "model",
            "chat",
            event,
            place,
            model=model or as_name(output.get("model")) or None,
            provider=provider or None,
            params={k: v for k, v in as_dict(event.get("config")).items() if v is not None},
            output=said,
            error=error,
            status="error" if error else "unset" if event.get("pending") else "ok",
            stop_reason="max_tokens" if stop == "length" else stop or None,
            attributes=self._model_attributes(event, output, choices, model),
            **({} if cached else usage(output.get("usage"))),
        )
        if draft.end_ns is None and draft.start_ns is not None and (spent := as_float(output.get("time"))):
            draft.end_ns = draft.start_ns + round(spent * 1e9)
        self._read_input(draft, self._messages.inputs(event.get("input"), event.get("input_refs")))
        self.written.add(as_name(as_dict(first.get("message")).get("id")))
        if event.get("call") not in (None, msgspec.Raw(b"null")):
            self._trace.lose("model.call")
        if any(c.get("logprobs") or c.get("prompt_logprobs") for c in choices):
            self._trace.lose("logprobs")
        self._trace.add(draft)

    def _read_input(self, draft: Draft, whole: list[Message]) -> None:
        """Give the draft its input: only what is new, where it continues the last call of its lane."""
        before = self._talk.get(draft.lane)
        fresh = whole
        if draft.kind == "model":
            if before is not None and len(whole) >= len(before) and whole[: len(before)] == before:
                draft.growing = True
                fresh = whole[len(before) :]
            self._talk[draft.lane] = [*whole, *draft.output]
        draft.input = fresh
        self.seen.update(fresh)
        self.seen.update(draft.output)

    def _model_attributes(self, event: Event, output: Event, choices: list[Event], model: str) -> dict[str, Any]:
        plain = self._messages.plain
        kept = {k: plain(event[k]) for k in _MODEL_EXTRAS if event.get(k)}
        kept.update((f"output.{k}", plain(output[k])) for k in _OUTPUT_EXTRAS if output.get(k))
        if as_name(output.get("model")) not in ("", model, event.get("model")):
            kept["response_model"] = output["model"]
        if event.get("cache") == "read" and output.get("usage"):
            kept["cached_usage"] = output["usage"]
        if choices and choices[0].get("stop_details"):
            kept["stop_details"] = choices[0]["stop_details"]
        if len(choices) > 1:
            kept["other_choices"] = [plain(c.get("message")) for c in choices[1:]]
        tools = self._tool_list(event.get("tools"))
        if tools:
            kept["tools"] = [as_name(as_dict(t).get("name")) for t in tools]
            defined = {to_json(t): t for t in tools}
            new = [t for text, t in defined.items() if text not in self._defined]
            self._defined.update(defined)
            if new:
                kept["tool_definitions"] = plain(new)
        return kept

    def _tool_list(self, raw: Any) -> list[Any]:
        """The tools of a model call; every call repeats them, so they are read once."""
        if raw is None or isinstance(raw, list):
            return raw or []
        key = bytes(raw)
        if key not in self._tools:
            self._tools[key] = as_list(self._messages.value(raw))
        return self._tools[key]

    def _tool(self, event: Event, scope: Scope) -> None:
        place = self._places.waiting(event)
        if place is not None:
            place.tool = event
        else:
            self._add_tool(event, self._places.of(event, scope))

    def _add_tool(self, event: Event, above: Place, span: Place | None = None, ended: int | None = None) -> None:
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

    def _subtask(self, event: Event, scope: Scope) -> None:
        place = self._places.of(event, scope)
        name = as_name(event.get("name")) or "subtask"
        draft = self._draft("judge" if place.judge else "other", name, event, place)
        draft.arguments = None if event.get("input") is None else to_json(self._messages.plain(event["input"]))
        draft.result = None if event.get("result") is None else as_text(self._messages.plain(event["result"]))
        draft.attributes = {"event": "subtask", "type": event.get("type")}
        self._nested(event, place.inner(self._trace.add(draft), name, event))

    def _nested(self, event: Event, base: Place) -> None:
        scope = Scope(base)
        for i, inner in enumerate(as_list(event.get("events"))):
            with self._intake.record(f"{self._where}, event {i} inside {base.name}"):
                self.counts[as_name(as_dict(inner).get("event")) or "?"] += 1
                self._event(self._messages.resolve(inner), scope)
        for place in reversed(scope.steps):
            self._emit(place, None)

    def _end(self, event: Event, scope: Scope) -> None:
        place = self._places.open.pop(as_name(event.get("id")), None)
        if place is None:
            self._trace.lose("span_end (never begun)")
        else:
            self._emit(place, iso_ns(event.get("timestamp")))

    def _step(self, event: Event, scope: Scope) -> None:
        if event.get("action") != "end":
            above = self._places.of(event, scope)
            scope.steps.append(self._places.new(f"step-{self.counts.total()}", event, above))
        elif scope.steps:
            self._emit(scope.steps.pop(), iso_ns(event.get("timestamp")))
        else:
            self._trace.lose("step end (never begun)")

    def _emit(self, place: Place, ended: int | None) -> None:
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

    def _score(self, event: Event, scope: Scope) -> None:
        name = as_name(event.get("scorer")) or "score"
        draft = self._draft("judge", name, event, self._places.of(event, scope), attributes=self._rest(event))
        draft.result = as_text(as_dict(event.get("score")).get("value"))
        self._trace.add(draft)

    def _error(self, event: Event, scope: Scope) -> None:
        words = failure(event.get("error")) or "error"
        if words == self._known_error:
            return
        traceback = as_dict(event.get("error")).get("traceback")
        attributes = {"traceback": traceback} if traceback else {}
        place = self._places.of(event, scope)
        self._trace.add(self._draft("other", "error", event, place, error=words, attributes=attributes))

    def _sandbox(self, event: Event, scope: Scope) -> None:
        attributes = {k: v for k, v in self._rest(event).items() if k not in ("cmd", "output")}
        name = f"sandbox {as_name(event.get('action'))}".strip()
        draft = self._draft("other", name, event, self._places.of(event, scope), attributes=attributes)
        draft.arguments = as_text(event.get("cmd") or event.get("file")) or None
        draft.result = None if event.get("output") is None else as_text(event["output"])
        self._trace.add(draft)

    def _input(self, event: Event, scope: Scope) -> None:
        attributes = {k: v for k, v in self._rest(event).items() if k != "input"}
        draft = self._draft("user", "input", event, self._places.of(event, scope), attributes=attributes)
        draft.result = as_text(event.get("input"))
        self._trace.add(draft)

    def _other(self, event: Event, scope: Scope) -> None:
        kind: Kind = "judge" if event["event"] in ("score_edit", "sentinel") else "other"
        place = self._places.of(event, scope)
        self._trace.add(self._draft(kind, event["event"], event, place, attributes=self._rest(event)))

    def _rest(self, event: Event) -> dict[str, Any]:
        """All that an event says beyond what every event has."""
        rest = {k: v for k, v in event.items() if k not in _BASE and v is not None}
        if event.get("event") == "state":
            rest["changes"] = [_thin(c) for c in as_list(event.get("changes"))]
        return {k: self._messages.plain(v) for k, v in rest.items()}


def _thin(change: Any) -> Any:
    """A change of the state; messages and output are only named, because model spans hold their words."""
    path = as_name(as_dict(change).get("path"))
    return {"op": change.get("op"), "path": path} if path.startswith(("/messages", "/output")) else change
