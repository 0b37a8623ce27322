"""traxr cases: `{case, input: {task_id, clean_trace, perturbed_trace}, output}`, two traces of one task each.

Every event is one span that keeps its type and payload, so that traxr's own signatures can be computed. An
answer handed over is a handoff, an agent's output a model span: both are steps, and neither counts twice.
"""

from __future__ import annotations

from typing import Any

from ethogram.capture.intake import Draft, Intake
from ethogram.capture.parse import as_dict, as_int, as_list, as_name, as_text, iso_ns, to_json
from ethogram.capture.peek import Peek
from ethogram.capture.source import Source
from ethogram.trace import Kind, Message, Part, Text, ToolCall, ToolResult

from ._records import as_listing, as_object, records, take_call, usage_tokens

FORMAT = "traxr"
SIDES = {"clean_trace": "clean", "perturbed_trace": "perturbed"}
_KINDS: dict[str, Kind] = {
    "routing_decision": "handoff",
    "tool_invocation": "tool",
    "memory_write": "memory",
    "memory_read": "memory",
    "retrieval_shown": "retrieval",
    "agent_output": "model",
    "final_answer": "handoff",
    "llm_call": "model",
    "tool_result": "tool",  # a request is not: the call would count twice
}


def sniff(peek: Peek) -> int:
    """A case holds its two traces under `input`."""
    return 97 if SIDES.keys() <= as_dict(peek.first.get("input")).keys() else 0


def read(source: Source, intake: Intake) -> None:
    """Two traces per case."""
    for where, item in records(source, intake):
        with intake.record(where):
            case = as_object(item, "the case")
            given = as_object(case.get("input"), "input")
            for side in SIDES:
                if side not in given:
                    intake.skip(f"{where}, {side}", "missing")
                    continue
                with intake.record(f"{where}, {side}"):
                    _read_side(case, given, side, f"{where}, {side}", intake)


def _read_side(case: dict[str, Any], given: dict[str, Any], side: str, where: str, intake: Intake) -> None:
    recorded = as_object(given.get(side), side)
    events = as_listing(recorded.get("events"), "events")
    task = as_name(given.get("task_id")) or as_name(case.get("case"))
    with intake.trace(f"{task}/{SIDES[side]}") as trace:
        trace.task = task
        trace.condition = SIDES[side]
        compared = as_dict(case.get("output"))
        summary = as_dict(compared.get("summary"))
        trace.meta = {
            **{k: v for k, v in case.items() if k not in ("input", "output")},
            **{k: v for k, v in recorded.items() if k != "events"},
            "perturbation_type": summary.get("perturbation_type"),
            "summary": summary if side == "perturbed_trace" and summary else None,
        }
        if side == "perturbed_trace" and compared.get("detail"):
            intake.lose("output.detail (traxr's own alignment)")
        claimed = as_int(recorded.get("event_count"))
        if claimed is not None and claimed != len(events):
            intake.skip(where, f"event_count says {claimed} and there are {len(events)} events")
        open_calls: list[ToolCall] = []
        for position, event in enumerate(events):
            with intake.record(f"{where}, event {position}"):
                event = as_object(event, "the event")
                trace.add(_draft(event, open_calls))
                if event.get("event_type") == "final_answer":
                    trace.answer = as_text(as_dict(event.get("payload")).get("answer"))


def _draft(event: dict[str, Any], open_calls: list[ToolCall]) -> Draft:
    """A span of one event."""
    what = as_name(event.get("event_type")) or "event"
    payload = as_dict(event.get("payload"))
    draft = Draft(
        kind=_KINDS.get(what, "other"),
        name=what,
        agent=as_name(event.get("agent_name")),
        start_ns=iso_ns(event.get("timestamp")),
        attributes={k: v for k, v in event.items() if k not in ("agent_name", "timestamp") and v is not None},
    )
    if what == "routing_decision":
        draft.name = as_name(payload.get("chosen_agent")) or what
    elif what == "tool_invocation":
        _set_tool(draft, payload, payload.get("output", payload.get("output_preview")))
        draft.truncated = "output" not in payload and "output_preview" in payload
        draft.status = "ok" if payload.get("success", True) else "error"
    elif what == "tool_request":
        open_calls.append(ToolCall(*_call(payload)))
    elif what == "tool_result":
        name, arguments, call_id = _call(payload)
        call = take_call(open_calls, ToolResult("", name, call_id))
        _set_tool(draft, {**payload, "arguments": arguments or call.arguments}, payload.get("content"))
    elif what in ("agent_output", "final_answer", "llm_call"):
        _set_words(draft, what, payload)
    elif what in ("tool_failure", "agent_error"):
        draft.error = as_text(payload.get("error", payload.get("message", payload.get("exc_type"))))
        draft.tool = as_name(payload.get("tool_name")) or None
    return draft


def _call(payload: dict[str, Any]) -> tuple[str, str, str | None]:
    arguments = payload.get("arguments")
    text = arguments if isinstance(arguments, str) else "" if arguments is None else to_json(arguments)
    return as_name(payload.get("tool_name")) or "unknown", text, as_name(payload.get("call_id")) or None


def _set_tool(draft: Draft, payload: dict[str, Any], result: Any) -> None:
    name, arguments, call_id = _call(payload)
    draft.name = draft.tool = name
    draft.call_id = call_id
    draft.arguments = arguments or None
    draft.result = None if result is None else as_text(result)


def _set_words(draft: Draft, what: str, payload: dict[str, Any]) -> None:
    """What an agent or a model said, where the log has more than its hash."""
    words = payload.get("answer", payload.get("content"))
    parts: list[Part] = [] if words is None else [Text(as_text(words))]
    if what == "llm_call":
        draft.name = "chat"
        draft.model = as_name(payload.get("model")) or None
        draft.stop_reason = as_name(payload.get("finish_reason")) or None
        parts.extend(ToolCall(as_name(name)) for name in as_list(payload.get("tool_call_names")))
        for field, value in usage_tokens(payload.get("usage")).items():
            setattr(draft, field, value)
    elif what == "agent_output":
        draft.name = as_name(payload.get("action")) or what
    if parts:
        draft.output = (Message("assistant", tuple(parts), draft.agent or None),)
