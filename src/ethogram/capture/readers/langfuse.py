"""Langfuse exports: `{trace, observations}`, a trace with its observations inside, or observations alone.

The original attributes stand in `metadata.attributes`, as JSON in a string, with every value a string. They say what
the observation was; Langfuse's own fields (type, model, usage, cost) win where it has them. The usual export holds
the observations twice, without their words inside the trace: the full ones are read. Scores become labels, and so do
corrections. Files of normalised messages (`*.chatml.json`) are not traces and are not claimed.
"""

from __future__ import annotations

from typing import Any

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.intake import Intake
from ethogram.capture.parse import as_dict, as_float, as_int, as_list, as_name, as_text, iso_ns, to_json
from ethogram.capture.peek import Peek
from ethogram.capture.records import objects, records
from ethogram.capture.source import Source
from ethogram.capture.telemetry.assemble import write_traces
from ethogram.capture.telemetry.facts import label_source
from ethogram.capture.telemetry.messages import decoded_json, last_words
from ethogram.capture.telemetry.spans import RawSpan, SpanBuffer
from ethogram.capture.telemetry.usage import langfuse_tokens
from ethogram.traces import Kind

FORMAT = "langfuse"

_KINDS: dict[str, Kind] = {
    "GENERATION": "model",
    "TOOL": "tool",
    "AGENT": "agent",
    "RETRIEVER": "retrieval",
    "EVALUATOR": "judge",
    "GUARDRAIL": "judge",
}
_READ = frozenset(
    {
        "id",
        "traceId",
        "parentObservationId",
        "name",
        "startTime",
        "endTime",
        "level",
        "statusMessage",
        "input",
        "output",
        "metadata",
        "model",
        "modelParameters",
        "usageDetails",
        "usage",
        "inputUsage",
        "outputUsage",
        "totalUsage",
        "costDetails",
        "inputCost",
        "outputCost",
        "totalCost",
        "promptVersion",
        "latency",
        "projectId",
    }
)
_TRACE_READ = frozenset({"id", "observations", "scores", "corrections", "input", "output", "metadata"})
MARKS = frozenset(["trace", "observations", "traceId"])


def sniff(peek: Peek) -> int:
    """A trace beside its observations, or observations that name their trace."""
    first = peek.first
    trace = first.get("trace")
    if isinstance(trace, dict) and "id" in trace and ("observations" in first or "projectId" in trace):
        return 95
    inside = first.get("observations")
    if isinstance(inside, list) and "timestamp" in first and inside and _is_observation(inside[0]):
        return 90
    return 85 if _is_observation(first) else 0


def _is_observation(item: Any) -> bool:
    return isinstance(item, dict) and {"traceId", "type", "startTime"} <= item.keys() and "id" in item


def read(source: Source, intake: Intake) -> None:
    """One trace per trace id; traces that stand whole in one record are written at once."""
    found = objects(records(source, intake, announce=False), intake)
    loose = SpanBuffer()
    try:
        with intake.record("the rest of the file"):
            for place, item in found:
                with intake.record(place):
                    _take(place, item, loose, intake)
        write_traces(loose, intake)
    finally:
        loose.close()


def _take(place: str, item: dict[str, Any], loose: SpanBuffer, intake: Intake) -> None:
    if _is_observation(item):
        key = as_name(item["traceId"])
        if not key:
            raise ValueError("an observation without a trace id")
        loose.add(key, _span(item, loose))
        return
    trace = as_dict(item.get("trace")) or (item if "observations" in item else {})
    observations = as_list(item.get("observations")) or as_list(trace.get("observations"))
    key = as_name(trace.get("id"))
    if not key or not observations:
        raise ValueError("neither an observation nor a trace that has an id and observations")
    buffer = SpanBuffer()
    try:
        for number, observation in enumerate(observations):
            with intake.record(f"{place}, observation {number}"):
                if not isinstance(observation, dict):
                    raise ValueError(f"an observation that is a {type(observation).__name__}, not an object")
                buffer.add(key, _span(observation, buffer))
        write_traces(buffer, intake, finish=lambda builder, _, ids: _finish(builder, trace, ids))
    finally:
        buffer.close()


def _span(item: dict[str, Any], buffer: SpanBuffer) -> RawSpan:
    metadata = as_dict(item.get("metadata"))
    attributes = dict(as_dict(metadata.get("attributes")))
    resource = as_dict(metadata.get("resourceAttributes"))
    gave = item.get("output")
    fields, left = _own_fields(item)
    for own, known in (("input", "input.value"), ("output", "output.value")):
        value = item.get(own)
        if value not in (None, "") and decoded_json(attributes.setdefault(known, value)) != decoded_json(value):
            left[own] = value
    hint: Kind = _KINDS.get(as_name(item.get("type")).upper(), "other")
    answer = decoded_json(gave)
    if hint == "other" and isinstance(answer, dict) and answer.get("type") == "tool" and "tool_call_id" in answer:
        hint = "tool"  # LangChain's tools are plain spans, but they answer with a tool message
        fields.update(call_id=as_name(answer["tool_call_id"]) or None, result=as_text(answer.get("content")))
        attributes["tool.name"] = as_name(answer.get("name")) or as_name(item.get("name"))
        if isinstance(metadata.get("inputs"), dict):  # the input itself is Python's way to print a dictionary
            fields["arguments"] = to_json(metadata["inputs"])
        if answer.get("status") == "error":
            fields["status"] = "error"
    extra = {f"langfuse.{k}": v for k, v in item.items() if k not in _READ and v not in (None, "", [], {})}
    level = as_name(item.get("level"))
    if level not in ("", "DEFAULT", "ERROR"):
        extra["langfuse.level"] = level
    extra.update({f"langfuse.{k}": v for k, v in left.items()})
    scope = as_dict(metadata.get("scope"))
    if scope.get("name"):
        extra["otel.scope"] = " ".join(as_name(scope[k]) for k in ("name", "version") if scope.get(k))
    rest = {k: v for k, v in metadata.items() if k not in ("attributes", "resourceAttributes", "scope")}
    if rest or (metadata == {} and item.get("metadata") not in (None, "", "{}", {})):
        extra["langfuse.metadata"] = rest or item.get("metadata")
    return RawSpan(
        name=as_name(item.get("name")),
        span_id=as_name(item.get("id")) or None,
        parent_id=as_name(item.get("parentObservationId")) or None,
        start_ns=iso_ns(item.get("startTime")),
        end_ns=iso_ns(item.get("endTime")),
        status="error" if level == "ERROR" else "unset",
        message=as_text(item.get("statusMessage")),
        hint=hint,
        attributes=attributes,
        resource=buffer.resource(resource) if resource else -1,
        fields=fields,
        extra=extra,
    )


def _own_fields(item: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fields of the draft that Langfuse knows itself, and what is left of its usage and parameters."""
    fields: dict[str, Any] = {}
    left: dict[str, Any] = {}
    if item.get("model"):
        fields["model"] = as_name(item["model"])
    details = as_dict(item.get("usageDetails")) or as_dict(item.get("usage"))
    if not details and (as_int(item.get("totalUsage")) or 0) > 0:
        details = {k: item.get(f"{k}Usage") for k in ("input", "output", "total")}
    if details:
        counts, more = langfuse_tokens(details)
        fields.update({k: v for k, v in counts.items() if v is not None})
        if more:
            left["usageDetails"] = more
    if as_dict(item.get("costDetails")) or as_float(item.get("totalCost")):
        cost = as_float(item.get("totalCost"))
        fields["cost_usd"] = as_float(as_dict(item.get("costDetails")).get("total")) if cost is None else cost
    said = as_dict(item.get("modelParameters"))
    parameters = {k: v for k, v in said.items() if v is not None and (k, v) != ("model", item.get("model"))}
    short = {k: v for k, v in parameters.items() if not isinstance(v, str) or len(v) <= 200}
    if short:
        fields["params"] = short
    if len(short) < len(parameters):
        left["modelParameters"] = {k: v for k, v in parameters.items() if k not in short}
    if item.get("promptVersion") is not None:
        fields["prompt_version"] = as_name(item["promptVersion"])
    return fields, left


def _finish(trace: TraceBuilder, head: dict[str, Any], ids: dict[str, str]) -> None:
    """What the export says of the whole trace."""
    if head.get("output") not in (None, ""):
        trace.answer = last_words(head["output"])
    trace.meta.update({k: v for k, v in head.items() if k not in _TRACE_READ and v not in (None, "", [], {})})
    metadata = as_dict(head.get("metadata"))
    rest = {k: v for k, v in metadata.items() if k not in ("attributes", "resourceAttributes", "scope")}
    if rest:
        trace.meta["metadata"] = rest
    for score in as_list(head.get("scores")):
        if isinstance(score, dict):
            text = score.get("stringValue")
            number = as_float(score.get("value"))
            value = text if isinstance(text, str) and text and score.get("dataType") != "NUMERIC" else number
            if score.get("dataType") == "BOOLEAN" and number is not None:
                value = number >= 0.5
            _label(trace, score, as_name(score.get("name")) or "score", value, as_text(score.get("comment")), ids)
        else:
            trace.lose("score (malformed)")
    for item in as_list(head.get("corrections")):
        if isinstance(item, dict):
            words = as_text(item.get("longStringValue")) or as_text(item.get("comment"))
            _label(trace, item, f"correction.{as_name(item.get('name'))}", None, words, ids)


def _label(trace: TraceBuilder, score: dict[str, Any], name: str, value: Any, why: str, ids: dict[str, str]) -> None:
    source = as_name(score.get("source"))
    trace.label(
        name,
        value,
        by=as_name(score.get("authorUserId")) or source or "langfuse",
        source=label_source(source),
        why=why or None,
        span_id=ids.get(as_name(score.get("observationId"))),
    )
