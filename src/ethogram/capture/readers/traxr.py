"""traxr: cases of its analyzer, result files of its experiments (`ExperimentResults.to_json`), and single traces.

A case `{case, input: {task_id, clean_trace, perturbed_trace}, output}` is two traces of one task. A result file
`{fingerprint, pairs, answers, traces: {label: trace}}` is one task: `baseline` and `noise_floor_1…` are attempts under
the condition `clean`, every perturbed run has its label as condition, its success as outcome and its crash as label.
Every event is one span that keeps its type and payload, so that traxr's own signatures can be computed. An
answer handed over is a handoff, an agent's output a model span: both are steps, and neither counts twice.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ethogram.capture.draft import Draft, PayloadWords
from ethogram.capture.intake import Intake
from ethogram.capture.pairing import OpenCalls
from ethogram.capture.parse import as_dict, as_int, as_list, as_name, as_text, iso_ns, to_json, usage_tokens
from ethogram.capture.peek import Peek
from ethogram.capture.records import records
from ethogram.capture.source import Source
from ethogram.traces import Kind, Message, Outcome, Part, Scored, Text, ToolCall, ToolResult

from ._shared import as_listing, as_object

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


CLEAN, RERUN = "clean", "noise_floor_"
BASELINE = "baseline"
CRASHED, SKIPPED = "crashed", "skipped"
_RESULTS = {"answers", "fingerprint", "noise_floor_runs", "pairs"}
"""What every result file holds; the traces may be left out."""
MARKS = frozenset(["input", "fingerprint", "events"])


class _About(NamedTuple):
    """What is known of a trace beside its events."""

    key: str
    task: str
    condition: str
    attempt: int | None = None
    meta: dict[str, Any] = {}
    answer: str | None = None
    outcome: Outcome | None = None
    crashed: bool = False


def sniff(peek: Peek) -> int:
    """A case holds its two traces under `input`, a result file its fingerprint and pairs, a trace its events."""
    first = peek.first
    if SIDES.keys() <= as_dict(first.get("input")).keys() or first.keys() >= _RESULTS:
        return 97
    event = next(iter(as_list(first.get("events"))), None)
    return 90 if {"event_type", "sequence_index"} <= as_dict(event).keys() else 0


def read(source: Source, intake: Intake) -> None:
    """Two traces per case, all traces of a result file, or one."""
    for where, item in records(source, intake):
        with intake.record(where):
            whole = as_object(item, "the record")
            if "input" in whole:
                _read_case(whole, where, intake)
            elif "fingerprint" in whole or "pairs" in whole:
                _read_results(whole, where, intake)
            else:
                label = as_name(whole.get("run_label")) or where
                task = as_name(whole.get("task_id")) or label
                _read_trace(whole, _About(key=label, task=task, condition=""), where, intake)


def _read_case(case: dict[str, Any], where: str, intake: Intake) -> None:
    given = as_object(case.get("input"), "input")
    task = as_name(given.get("task_id")) or as_name(case.get("case"))
    compared = as_dict(case.get("output"))
    summary = as_dict(compared.get("summary"))
    for side, condition in SIDES.items():
        place = f"{where}, {side}"
        if side not in given:
            intake.skip(place, "missing")
            continue
        meta = {k: v for k, v in case.items() if k not in ("input", "output")}
        meta["perturbation_type"] = summary.get("perturbation_type")
        if side == "perturbed_trace":
            meta["summary"] = summary or None
        with intake.record(place):
            about = _About(key=f"{task}/{condition}", task=task, condition=condition, meta=meta)
            _read_trace(as_object(given.get(side), side), about, place, intake)
            if side == "perturbed_trace" and compared.get("detail"):
                intake.lose("output.detail (traxr's own alignment)")


def _read_results(results: dict[str, Any], where: str, intake: Intake) -> None:
    """All runs of an experiment; a pair that traxr skipped has no trace, and is listed."""
    known = as_dict(results.get("fingerprint"))
    task = PayloadWords(as_name(known.get("question"))) or ", ".join(map(as_name, as_list(known.get("files"))))
    pairs = {}
    for pair in map(as_dict, as_list(results.get("pairs"))):
        label = f"{as_name(pair.get('item_id'))}::{as_name(pair.get('perturbation'))}"
        if pair.get("status_perturbed") == SKIPPED:
            why = "; ".join(map(as_name, as_list(pair.get("warnings")))) or "not applicable"
            intake.skip(f"{where}, {label}", f"traxr did not run it: {why}")
        pairs[label] = pair
    traces = results.get("traces")
    if traces is None:
        intake.skip(where, "it holds no traces; write it with include_traces=True to import it")
    facts: dict[str, Any] = {
        k: known[k] for k in ("agent_kind", "seed", "model_ids", "expected_answer", "files") if k in known
    }
    answers = as_dict(results.get("answers"))
    for label, recorded in as_dict(traces).items():
        with intake.record(f"{where}, {label}"):
            about = _about_run(label, task, pairs)
            answer = answers.get(label)
            about = about._replace(meta={**facts, **about.meta}, answer=None if answer is None else as_text(answer))
            _read_trace(as_object(recorded, label), about, f"{where}, {label}", intake)


def _about_run(label: str, task: str, pairs: dict[str, dict[str, Any]]) -> _About:
    """A run of an experiment by its label: the baseline, one of its re-runs, or a perturbed run."""
    about = _About(key=f"{task}/{label}", task=task, condition=CLEAN)
    if label == BASELINE:
        return about._replace(attempt=0, crashed=any(p.get("status_baseline") == CRASHED for p in pairs.values()))
    number = label.removeprefix(RERUN)
    if label.startswith(RERUN) and number.isdecimal():
        return about._replace(attempt=int(number))
    pair = pairs.get(label, {})
    success = pair.get("task_success")
    return about._replace(
        condition=label,
        attempt=0,
        meta={"perturbation_type": pair.get("perturbation"), "summary": pair or None},
        outcome=Scored(float(success), "task_success") if isinstance(success, bool) else None,
        crashed=pair.get("status_perturbed") == CRASHED,
    )


def _read_trace(recorded: dict[str, Any], about: _About, where: str, intake: Intake) -> None:
    events = as_listing(recorded.get("events"), "events")
    with intake.trace(about.key) as trace:
        trace.task, trace.condition, trace.attempt = about.task, about.condition, about.attempt
        trace.answer = about.answer
        trace.meta = {**{k: v for k, v in recorded.items() if k != "events"}, **about.meta}
        if about.outcome is not None:
            trace.outcome = about.outcome
        if about.crashed:
            trace.label("stopped_by", "crash.traxr", by="traxr")
        claimed = as_int(recorded.get("event_count"))
        if claimed is not None and claimed != len(events):
            intake.skip(where, f"event_count says {claimed} and there are {len(events)} events")
        open_calls = OpenCalls()
        for position, event in enumerate(events):
            with intake.record(f"{where}, event {position}"):
                event = as_object(event, "the event")
                trace.add(_draft(event, open_calls))
                given = as_dict(event.get("payload")).get("answer")
                if event.get("event_type") == "final_answer" and given is not None:
                    trace.answer = as_text(given)


def _draft(event: dict[str, Any], open_calls: OpenCalls) -> Draft:
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
        open_calls.add(ToolCall(*_call(payload)))
    elif what == "tool_result":
        name, arguments, call_id = _call(payload)
        call = open_calls.call_for(ToolResult("", name, call_id))
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
