"""OpenHands: bare lists of events, and evaluation outputs with a `history` of events, one run a line.

The verdict is that of the log (`report.resolved`, `resolved`, `score`, `success`); without one the run is unscored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from ethogram.capture.draft import Draft
from ethogram.capture.intake import RECORD_ERRORS, Intake
from ethogram.capture.parse import as_dict, as_float, as_name, as_text
from ethogram.capture.peek import Peek, peek_at
from ethogram.capture.records import records
from ethogram.capture.source import Source
from ethogram.traces import TOKEN_FIELDS, Missing, Outcome, Scored

from ._openhands_events import Events, is_event, run_tokens
from ._shared import as_object, infrastructure, verdict
from ._turns import Probe, Turns, add_whole, plain_meta, rest_of, stem

FORMAT = "openhands"

_HISTORY = ("history", "trajectory", "events")
_PARAMS = ("temperature", "top_p", "top_k", "max_output_tokens", "max_input_tokens", "seed", "reasoning_effort")
_SECRETS = ("api_key", "aws_access_key_id", "aws_secret_access_key")
MARKS = frozenset([*_HISTORY, "test_result"])


def sniff(peek: Peek) -> int:
    """Events that act or observe; or outputs whose history is made of such events."""
    if peek.shape == "array":
        return 92 if peek.records and is_event(peek.records[0]) else 0
    return max((_score(r) for r in peek.records if isinstance(r, dict)), default=0)


def _score(item: dict[str, Any]) -> int:
    history = next((h for k in _HISTORY if isinstance(h := item.get(k), list)), None)
    if history:
        named = "instance_id" in item or "issue" in item or "metrics" in item
        return (92 if named else 85) if is_event(history[0]) else 0
    return 75 if {"instance_id", "test_result", "metadata", "history"} <= item.keys() else 0


def read(source: Source, intake: Intake) -> None:
    """One trace per list of events."""
    peek = peek_at(source)
    with intake.record("the rest of the file"):
        if peek.shape == "array" and not any(isinstance(peek.first.get(k), list) for k in _HISTORY):
            with intake.trace("run") as trace:
                trace.task, trace.agent = stem(source.name), "openhands"
                events = Events(trace, Turns(trace, intake, agent="openhands"), {}, {})
                _feed(events, records(source, intake), intake)
                if not trace.spans:
                    raise ValueError("no event in it")
                trace.answer = events.finish
                trace.meta["events"] = events.count
            return
        seen: Counter[str] = Counter()
        for where, item in records(source, intake):
            with intake.record(where):
                _read_output(as_object(item, "the output"), where, source, intake, seen)


def _read_output(item: dict[str, Any], where: str, source: Source, intake: Intake, seen: Counter[str]) -> None:
    history = next((h for k in _HISTORY if isinstance(h := item.get(k), list)), None)
    if history is None:
        raise ValueError("no history of events")
    task = _task(item) or stem(source.name)
    seen[task] += 1
    metadata, metrics = as_dict(item.get("metadata")), as_dict(item.get("metrics"))
    model = as_dict(metadata.get("llm_config"))
    facts: dict[str, Any] = {"model": as_name(model.get("model")) or None}
    facts["params"] = {k: model[k] for k in _PARAMS if model.get(k) is not None}
    with intake.trace(task if seen[task] == 1 else f"{task}#{seen[task]}") as trace:
        trace.task, trace.agent = task, as_name(metadata.get("agent_class")) or "openhands"
        error, result = as_text(item.get("error")), as_dict(item.get("test_result"))
        trace.outcome = _outcome(item, result, error)
        meta = {f"metadata_{k}": v for k, v in rest_of(metadata, "llm_config", "agent_class").items()}
        trace.meta = plain_meta(trace, meta) | {
            "error": error or None,
            "accumulated_cost": as_float(metrics.get("accumulated_cost")),
        }
        root = add_whole(trace, intake, _root(trace.agent, item, history, model))
        turns = Turns(trace, intake, agent=trace.agent, parent=root)
        events, flat = Events(trace, turns, facts, metrics), _flat(history)
        events.last, events.whole = _whole(metrics, flat)
        if events.whole and events.last:
            trace.meta["usage_is_per_trace"] = True
        _feed(events, ((f"{where}, event {i}", e) for i, e in enumerate(flat)), intake)
        patch = result.get("git_patch", item.get("git_patch"))
        trace.answer = patch if isinstance(patch, str) and patch else events.finish
        trace.meta["events"] = events.count


def _feed(events: Events, items: Iterable[tuple[str, Any]], intake: Intake) -> None:
    """All events, as far as they go."""
    with intake.record("the rest of the file"):
        for where, item in items:
            for part in item if isinstance(item, list) else [item]:
                with intake.record(where):
                    events.add(as_object(part, "the event"))
    with intake.record("the last reply"):
        events.flush()
    events.close()


def _flat(history: list[Any]) -> list[Any]:
    """Events in order; the oldest outputs keep pairs of an action and what it brought."""
    return [e for entry in history for e in (entry if isinstance(entry, list) else [entry])]


def _whole(metrics: dict[str, Any], events: list[Any]) -> tuple[int, dict[str, Any]]:
    """The usage of the run and the number of the last reply, where the events themselves say nothing of it."""
    probe = Probe()
    trial = Events(probe.trace, probe, {}, metrics)
    for event in events:
        with suppress(*RECORD_ERRORS):
            trial.add(as_object(event, "the event"))
    with suppress(*RECORD_ERRORS):
        trial.flush()
    found: dict[str, Any] = {}
    cost = as_float(metrics.get("accumulated_cost"))
    if cost is not None and "cost_usd" not in probe.said:
        found["cost_usd"] = cost
    if not probe.said & set(TOKEN_FIELDS):
        found |= run_tokens(as_dict(metrics.get("accumulated_token_usage")))
    return probe.replies, found


def _task(item: dict[str, Any]) -> str:
    issue = as_dict(item.get("issue"))
    named = f"{as_name(issue.get('owner'))}/{as_name(issue.get('repo'))}#{as_name(issue.get('number'))}"
    return as_name(item.get("instance_id")) or (named if issue else "")


def _outcome(item: dict[str, Any], result: dict[str, Any], error: str) -> Outcome:
    """The first verdict that the output holds."""
    places = {
        "test_result.report.resolved": as_dict(result.get("report")).get("resolved"),
        "test_result.result.resolved": as_dict(result.get("result")).get("resolved"),
        "test_result.resolved": result.get("resolved"),
        "report.resolved": as_dict(item.get("report")).get("resolved"),
        "resolved": item.get("resolved"),
        "test_result.score": result.get("score"),
        "success": item.get("success"),
    }
    for by, value in places.items():
        outcome = verdict(value, by)
        if isinstance(outcome, Scored):
            return outcome
    return infrastructure(error) or Missing("unscored")


def _root(agent: str, item: dict[str, Any], history: list[Any], model: dict[str, Any]) -> Draft:
    """The span of the whole run, with all that the output says of it."""
    attributes = {k: v for k, v in rest_of(item, "metadata").items() if v is not history}
    metadata = as_dict(item.get("metadata"))
    if metadata:
        attributes["metadata"] = {**metadata, "llm_config": rest_of(model, *_SECRETS)}
    error = as_text(item.get("error")) or None
    return Draft(kind="agent", name=agent, agent=agent, error=error, attributes=attributes)
