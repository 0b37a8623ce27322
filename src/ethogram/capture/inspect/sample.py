"""One Inspect sample as a trace: its head, the span that stands for it, its events or its messages."""

from __future__ import annotations

from typing import Any

import msgspec

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.chat import ChatBuilder
from ethogram.capture.draft import Draft
from ethogram.capture.inspect.body import Body
from ethogram.capture.inspect.events import EventReader
from ethogram.capture.inspect.log import Log
from ethogram.capture.inspect.messages import Messages, failure, token_fields
from ethogram.capture.inspect.places import OWN, ROOT
from ethogram.capture.inspect.scores import add_labels, sample_outcome, scores_of
from ethogram.capture.intake import Intake
from ethogram.capture.parse import as_dict, as_float, as_int, as_list, as_name, as_text, iso_ns

_NOTES = ("answer", "reason", "metadata", "history")
_ELSEWHERE = frozenset(
    {
        *("id", "epoch", "uuid", "scores", "score", "output", "error", "error_retries", "timelines", "model_usage"),
        *("started_at", "completed_at", "total_time", "working_time", "limit", "invalidation"),
    }
)


def read_sample(body: Body, log: Log, intake: Intake, where: str) -> None:
    """Add one sample as a trace."""
    sample = body.fields
    sample_id, epoch = as_name(sample.get("id")), as_int(sample.get("epoch"))
    uuid = as_name(sample.get("uuid"))
    own = as_dict(as_dict(sample.get("metadata")).pop(OWN, None))
    with intake.trace(uuid or f"{log.key}/{sample_id}/{epoch}", worldwide=bool(uuid or log.key)) as trace:
        trace.task, trace.agent, trace.seed = _task(sample_id, log), log.agent, log.seed
        trace.attempt = epoch - 1 if epoch is not None and epoch > 0 else None
        messages = Messages(body, trace.lose)
        error = failure(sample.get("error"))
        scores = scores_of(sample, log)
        trace.outcome = sample_outcome(scores, error, sample, log, own)
        trace.answer = _answer(sample, messages)
        trace.meta = {**log.meta, **_sample_meta(sample, body)}
        _set_own(trace, own, sample_id)
        add_labels(trace, scores, sample)
        trace.lose("timelines", len(as_list(sample.get("timelines"))))
        if own.get("rooted", True):
            root = _root(sample, scores, error, log, messages)
            root.agent, root.attributes = trace.agent, {**root.attributes, **as_dict(own.get("root"))}
            trace.add(root)
        _retries(trace, sample, messages)
        events = EventReader(trace, messages, intake, where, error, ROOT if own.get("rooted", True) else "")
        for event in body.events():
            events.feed(event)
        events.close()
        if events.counts and not own:
            trace.meta["events"] = dict(events.counts)
        if events.counts["model"] or own:  # the events of our own writer hold every message
            _unread(trace, body, messages, events)
        else:
            _chat(trace, body, messages, log)


def _task(sample_id: str, log: Log) -> str:
    """The eval's task and the sample's id: samples of different evals are often numbered alike."""
    return "/".join(filter(None, (as_name(log.meta.get("task")), sample_id)))


def _set_own(trace: TraceBuilder, own: dict[str, Any], sample_id: str) -> None:
    """What our own writer said beyond Inspect's fields; its samples are named by their whole task."""
    if not own:
        return
    trace.task = sample_id
    trace.agent, trace.condition = as_name(own.get("agent")), as_name(own.get("condition"))
    trace.seed = as_int(own.get("seed"))
    trace.attempt = as_int(own.get("attempt", trace.attempt))
    trace.meta = as_dict(own.get("meta"))
    if not own.get("answered", True):
        trace.answer = None


def _root(sample: dict[str, Any], scores: dict[str, Any], error: str | None, log: Log, messages: Messages) -> Draft:
    """The span that stands for the sample."""
    rest = {k: v for k, v in sample.items() if k not in _ELSEWHERE and v not in (None, "", [], {})}
    if error and (traceback := as_dict(sample.get("error")).get("traceback")):
        rest["traceback"] = traceback
    notes = {name: {k: v for k, v in s.items() if k in _NOTES and v} for name, s in scores.items()}
    if any(notes.values()):
        rest["scores"] = {name: note for name, note in notes.items() if note}
    return Draft(
        kind="agent",
        name=as_name(log.meta.get("task")) or ROOT,
        span_id=ROOT,
        start_ns=iso_ns(sample.get("started_at")),
        end_ns=iso_ns(sample.get("completed_at")),
        status="error" if error else "ok" if scores else "unset",
        error=error,
        attributes=messages.plain(rest),
    )


def _sample_meta(sample: dict[str, Any], body: Body) -> dict[str, Any]:
    limit, metadata = as_dict(sample.get("limit")), as_dict(sample.get("metadata"))
    target = sample.get("target")
    meta = {
        "target": target if isinstance(target, str) and len(target) <= 500 else None,
        "limit": limit.get("type"),
        "limit_value": as_float(limit.get("limit")),
        "limit_reason": limit.get("reason"),
        "total_time": as_float(sample.get("total_time")),
        "working_time": as_float(sample.get("working_time")),
        "retries": len(as_list(sample.get("error_retries"))) or None,
        "model_usage": as_dict(sample.get("model_usage")) or None,
        "attachments": body.attachments or None,
        "uuid": sample.get("uuid"),
    }
    for key, value in metadata.items():
        if isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= 200):
            meta[f"metadata.{key}"] = value
    return {k: v for k, v in meta.items() if v is not None}


def _answer(sample: dict[str, Any], messages: Messages) -> str | None:
    """The completion of the sample's last output."""
    output = as_dict(sample.get("output"))
    words = messages.resolve(as_text(output.get("completion")))
    if not words:
        choice = as_dict(next(iter(as_list(output.get("choices"))), None))
        content = as_dict(choice.get("message")).get("content")
        words = messages.read({"role": "assistant", "content": messages.resolve(content)}).text
    return words or None


def _retries(trace: TraceBuilder, sample: dict[str, Any], messages: Messages) -> None:
    """Attempts that failed before this one: their errors are kept, their events are not counted again."""
    for retry in as_list(sample.get("error_retries")):
        retry = as_dict(retry)
        attributes = {"traceback": messages.plain(retry["traceback"])} if retry.get("traceback") else {}
        words = failure(retry) or "error"
        trace.add(Draft(kind="other", name="retry", parent_id=ROOT, error=words, attributes=attributes))
        trace.lose("event of a retried attempt", len(as_list(retry.get("events"))))


def _unread(trace: TraceBuilder, body: Body, messages: Messages, events: EventReader) -> None:
    """Messages of the conversation that no model call read or wrote, such as the last tool results."""
    left = []
    for raw in body.messages:
        message = messages.one(raw)
        if message in events.calls.seen:
            continue
        if as_name(as_dict(msgspec.json.decode(raw)).get("id")) in events.calls.written:
            trace.lose("message (changed after the call that wrote it)")
        else:
            left.append(message)
    events.add_answered(left)
    if left:
        trace.add(Draft(kind="other", name="unread", parent_id=ROOT, agent=trace.agent, output=left))


def _chat(trace: TraceBuilder, body: Body, messages: Messages, log: Log) -> None:
    """A log without model events: its messages are the steps, and its output says what the last one cost."""
    chat = ChatBuilder(trace, agent=log.agent, failed=lambda result: result.failed)
    said = [messages.one(raw) for raw in body.messages]
    last = max((i for i, m in enumerate(said) if m.role == "assistant"), default=-1)
    provider, _, model = log.model.partition("/")
    for i, message in enumerate(said):
        details: dict[str, Any] = {"parent_id": ROOT}
        if message.role == "assistant":
            details |= {"model": model or None, "provider": provider or None}
        if i == last:
            details |= _last_call(body.fields, log, sum(m.role == "assistant" for m in said))
        chat.add(message, **details)
    chat.close()


def _last_call(sample: dict[str, Any], log: Log, calls: int) -> dict[str, Any]:
    """Tokens and stop reason of the last call; of several calls only the sum is known, and says so."""
    output = as_dict(sample.get("output"))
    choice = as_dict(next(iter(as_list(output.get("choices"))), None))
    details: dict[str, Any] = {}
    if stop := as_name(choice.get("stop_reason")):
        details["stop_reason"] = "max_tokens" if stop == "length" else stop
    total = as_dict(sample.get("model_usage")).get(log.model)
    if calls > 1 and total:
        return {**details, **token_fields(total), "attributes": {"usage_of": f"{calls} calls"}}
    return {**details, **token_fields(output.get("usage") or total)}
