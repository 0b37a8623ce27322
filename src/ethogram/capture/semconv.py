"""The one place that understands attributes: OpenTelemetry's `gen_ai.*` in all its versions, OpenInference's
`llm.*`, and the dialects of Traceloop, pydantic-ai, the Vercel AI SDK, LangSmith, MLflow and Langfuse.

`understand` turns a raw span into a draft. Known attributes are consumed, the rest stays in `Draft.attributes`;
what OpenTelemetry has beside attributes (events, links, scope) stays there under `otel.*`. Attributes named
`ethogram.*` say exactly what they mean; spans of our own writer have an `ethogram.seq`, and nothing is guessed then.

Embeddings are `other`, not `model`: no language model speaks, and a retrieval that embeds stays one step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ethogram.traces import Message

from .draft import Draft
from .parse import as_dict, as_float, as_int, as_list, as_name, as_text, from_json
from .telemetry.facts import Note, notes_of, take_facts
from .telemetry.kinds import AGENT_KEYS, KIND_KEYS, OWN, OpenedSpan
from .telemetry.messages import CARRIERS, decoded_json, is_definition
from .telemetry.span_attributes import Bag
from .telemetry.span_messages import RAW_KEYS, take_input, take_output
from .telemetry.span_messages import exact as exact_messages
from .telemetry.spans import RawEvent, RawSpan
from .telemetry.usage import COST_KEYS, COUNT_KEYS, take_cost, take_tokens

_NUMBERS = frozenset(["temperature", "top_p", "frequency_penalty", "presence_penalty"])
_WHOLE_NUMBERS = frozenset(["top_k", "max_tokens", "seed", "choice.count"])
_LONG = 200


class Understood(msgspec.Struct, kw_only=True):
    """A draft, what it says about the trace, the labels it carries, and what was dropped."""

    draft: Draft
    facts: dict[str, Any]
    notes: list[Note]
    lost: dict[str, int]


def understand(opened: OpenedSpan) -> Understood:
    """A draft from a span, whose attributes are taken out of it."""
    span, bag, shape, kind = opened.span, opened.bag, opened.bag.shape, opened.kind
    exact = "ethogram.seq" in bag
    facts = take_facts(bag)
    notes, events = notes_of(bag, opened.events)
    draft = Draft(
        kind=kind,
        name=span.name or ("" if exact else "chat" if kind == "model" else kind),
        span_id=span.span_id,
        parent_id=span.parent_id,
        agent=opened.agent,
        start_ns=span.start_ns,
        end_ns=span.end_ns,
        status=span.status,
    )
    if shape.has(OWN):
        draft.seq = as_int(bag.rest["ethogram.seq"]) if exact else None
        draft.span_id = as_name(bag.take("ethogram.span_id")) or span.span_id
        draft.parent_id = as_name(bag.take("ethogram.parent_id")) or span.parent_id
        draft.lane = as_name(bag.take("ethogram.lane"))
    if shape.has(_ABOUT_MODELS) or shape.has(_PARAMS) or shape.has(_OWN_PARAMS):
        _models(draft, bag, exact)
    if shape.has(COUNT_KEYS):
        for field, count in take_tokens(bag, exact=exact).items():
            setattr(draft, field, count)
    if shape.has(COST_KEYS):
        draft.cost_usd = take_cost(bag)
    lost: dict[str, int] = {}
    events = _words(draft, bag, events, lost, exact)
    _error(draft, span, bag, events, exact)
    for key in _IN_THE_DRAFT.intersection(bag.rest):
        if key not in KIND_KEYS or as_name(bag.rest[key]) in _SAID_BY_KIND:
            del bag.rest[key]
    if shape.has("embedding."):
        for key in [k for k in bag.rest if k.startswith("embedding.") and k.endswith(".vector")]:
            del bag.rest[key]
            lost["embedding vector"] = lost.get("embedding vector", 0) + 1
    if span.fields:
        if draft.model and span.fields.get("model", draft.model) != draft.model:
            bag.rest.setdefault("gen_ai.request.model", draft.model)
        for field, value in span.fields.items():
            setattr(draft, field, value if field != "params" else {**value, **draft.params})
    if bag.rest or span.extra:
        draft.attributes = {**_left(bag), **({} if exact else span.extra)}
    if events and not exact:
        draft.attributes["otel.events"] = [_event(e) for e in events]
    return Understood(draft=draft, facts=facts, notes=notes, lost=lost)


_IN_THE_DRAFT = frozenset([*AGENT_KEYS, *KIND_KEYS, "ethogram.kind", "ethogram.seq"])
_SAID_BY_KIND = frozenset(
    ["LLM", "TOOL", "AGENT", "RETRIEVER", "chat", "execute_tool", "invoke_agent", "retrieval", "tool", "agent"]
)
"""Values of the kind attributes that our kind says as well; others (`CHAIN`, `embeddings`) are kept."""


_ANSWERED = ("gen_ai.response.model", "llm.response.model_name", "ai.response.model")
_ASKED = ("gen_ai.request.model", "llm.request.model_name", "llm.model_name", "ai.model.id")
_PROVIDER = ("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system", "ai.model.provider")
_VERSION = ("ethogram.prompt_version", "gen_ai.prompt.version", "llm.prompt_template.version")
_STOP = (
    "gen_ai.response.finish_reasons",
    "llm.finish_reason",
    "ai.response.finishReason",
    "llm.response.finish_reason",
    "llm.response.stop_reason",
)
_GIVEN_PARAMS = "llm.invocation_parameters"
_ABOUT_MODELS = frozenset([*_ANSWERED, *_ASKED, "model_name", *_PROVIDER, *_VERSION, *_STOP, _GIVEN_PARAMS])
_STOP_NAMES, _VERSION_NAMES = frozenset(_STOP), frozenset(_VERSION)
_PARAMS, _OWN_PARAMS = "gen_ai.request.", "ethogram.params."


def _models(draft: Draft, bag: Bag, exact: bool) -> None:
    """Model, provider, parameters and why it stopped."""
    answered, asked = bag.take(*_ANSWERED), bag.take(*_ASKED)
    draft.model = as_name(answered or asked or bag.take("model_name")) or None
    if asked and answered and asked != answered:
        bag.rest["gen_ai.request.model"] = asked
    draft.provider = as_name(bag.take(*_PROVIDER)) or None
    if bag.shape.has(_VERSION_NAMES):
        draft.prompt_version = as_name(bag.take(*_VERSION)) or None
    if bag.shape.has(_STOP_NAMES):
        stop = decoded_json(bag.take(*_STOP))
        reasons = list(dict.fromkeys(as_name(s) for s in (stop if isinstance(stop, list) else [stop]) if s))
        draft.stop_reason = ",".join(reasons) or None
    params = bag.under(_OWN_PARAMS)
    for name, value in bag.under(_PARAMS).items():
        if name == "model" or name.startswith("functions.") or (isinstance(value, list | dict) and not exact):
            bag.rest[f"gen_ai.request.{name}"] = value
        else:
            params[name] = value if exact else _number(name, value)
    if given := as_dict(bag.take(_GIVEN_PARAMS)):
        short = {k: v for k, v in given.items() if _is_short(v) and not (k == "model" and v == draft.model)}
        params.update({k: v for k, v in short.items() if k not in params})
        left = {k: v for k, v in given.items() if k not in short and k != "model" and v not in (None, [], {})}
        if left:
            bag.rest[_GIVEN_PARAMS] = left
    draft.params = params


def _number(name: str, value: Any) -> Any:
    """Parameters that were numbers before somebody wrote them as text."""
    known = as_float(value) if name in _NUMBERS else as_int(value) if name in _WHOLE_NUMBERS else None
    return value if known is None else known


def _is_short(value: Any) -> bool:
    return isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= _LONG)


def _words(draft: Draft, bag: Bag, events: list[RawEvent], lost: dict[str, int], exact: bool) -> list[RawEvent]:
    """Messages of model spans; arguments and results of all others. Gives the events that were not used."""
    if exact:
        draft.input = exact_messages(bag, "gen_ai.input.messages")
        draft.output = exact_messages(bag, "gen_ai.output.messages")
        draft.tool = as_name(bag.take("gen_ai.tool.name")) or None
        draft.call_id = as_name(bag.take("gen_ai.tool.call.id")) or None
        given = bag.rest.pop("ethogram.arguments", bag.rest.pop("gen_ai.tool.call.arguments", None))
        gave = bag.rest.pop("ethogram.result", bag.rest.pop("gen_ai.tool.call.result", None))
        draft.arguments = None if given is None else as_text(given)
        draft.result = None if gave is None else as_text(gave)
        draft.truncated = bag.take("ethogram.truncated") is True
        return events
    if draft.kind != "model":
        _call(draft, bag)
        return events
    raw = bag.shape.has(RAW_KEYS)
    if raw:
        definitions = [i for i in as_list(bag.rest.get("input.value")) if is_definition(i)]
        if definitions:
            bag.rest["tool.definitions"] = [as_dict(i.get("content")) for i in definitions]
    heard = take_input(bag, events)
    said = take_output(bag, heard.events)
    if heard.again + said.again:
        lost["messages (the same in a second dialect)"] = heard.again + said.again
    draft.input, draft.output = heard.messages, said.messages
    draft.stop_reason = draft.stop_reason or said.stop or None
    if raw:
        _residues(draft, bag)
    return said.events


def _residues(draft: Draft, bag: Bag) -> None:
    """Keep of the raw request and response what the messages do not say."""
    raw = (bag.rest.get("input.value"), bag.rest.get("output.value"))
    if raw != (None, None):
        for key in [k for k, v in bag.rest.items() if isinstance(v, str) and len(v) > 1 and v in raw]:
            if key not in ("input.value", "output.value"):
                del bag.rest[key]  # some frameworks repeat the request under a name of their own
    _residue(bag, "input.value", draft.input)
    _residue(bag, "output.value", draft.output)
    for key in ("input.mime_type", "output.mime_type"):
        bag.rest.pop(key, None)


def _residue(bag: Bag, key: str, said: Sequence[Message]) -> None:
    """Keep of a raw request or response only what the messages do not say."""
    value = bag.rest.pop(key, None)
    whole = decoded_json(value)
    if isinstance(whole, dict):
        left = {k: v for k, v in whole.items() if k not in CARRIERS and v not in (None, [], {}, "")}
        if left:
            bag.rest[key] = left
    elif isinstance(whole, str) and whole and not any(m.text == whole for m in said):
        bag.rest[key] = value


def _call(draft: Draft, bag: Bag) -> None:
    """The call of a tool, or what any other span was given and gave back."""
    tool = bag.take(*_TOOL)
    if draft.kind in ("tool", "handoff"):
        tool = tool or (bag.take("traceloop.entity.name") if draft.kind == "tool" else None)
        tool = tool or draft.name.removeprefix("execute_tool ")
        if draft.kind == "tool" and draft.name != tool:
            if draft.name != f"execute_tool {tool}":
                bag.rest["otel.name"] = draft.name
            draft.name = as_name(tool)
    draft.tool = as_name(tool) or None
    draft.call_id = as_name(bag.take(*_CALL_ID)) or None
    given = _first(bag, _GIVEN)
    if given is None and draft.kind == "tool":
        given = _first(bag, ("tool.parameters",))
    gave = _first(bag, _GAVE)
    if bag.shape.lists:
        documents = bag.indexed("retrieval.documents") or bag.indexed("reranker.output_documents")
        found = [as_dict(d).get("document", d) for d in documents]
        if found and gave is None:
            gave = found
        elif found:
            bag.rest["retrieval.documents"] = found
    draft.arguments = None if given is None else as_text(given)
    draft.result = None if gave is None else as_text(gave)


_TOOL = ("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "tool_call.function.name")
_CALL_ID = ("gen_ai.tool.call.id", "tool_call.id", "ai.toolCall.id", "tool.id")
_GIVEN = (
    "gen_ai.tool.call.arguments",
    "ai.toolCall.args",
    "tool_call.function.arguments",
    "tool_arguments",
    "gen_ai.input.messages",
    "gen_ai.retrieval.query.text",
    "gen_ai.memory.query.text",
    "reranker.query",
    "input.value",
    "traceloop.entity.input",
    "langfuse.observation.input",
    "mlflow.spanInputs",
    "gen_ai.prompt",
    "ai.prompt",
    "gcp.vertex.agent.tool_call_args",
)
_GAVE = (
    "gen_ai.tool.call.result",
    "ai.toolCall.result",
    "tool_response",
    "gen_ai.output.messages",
    "gen_ai.retrieval.documents",
    "gen_ai.memory.records",
    "output.value",
    "traceloop.entity.output",
    "langfuse.observation.output",
    "mlflow.spanOutputs",
    "gen_ai.completion",
    "ai.response.text",
    "final_result",
    "gcp.vertex.agent.tool_response",
)


def _first(bag: Bag, keys: tuple[str, ...]) -> Any:
    """The first of several attributes that may hold the same thing; the others stay unless they are equal."""
    if bag.rest.keys().isdisjoint(keys):
        return None
    present = [key for key in keys if key in bag.rest]
    for key in present:
        value = bag.rest[key]
        if value is not None and value != "":
            for other in present:
                if bag.rest[other] == value:
                    del bag.rest[other]
            return value
    return None


def _error(draft: Draft, span: RawSpan, bag: Bag, events: list[RawEvent], exact: bool) -> None:
    """Why a span failed: its own message, else the exception it recorded, else the type of the error."""
    if exact:
        own = bag.rest.pop("ethogram.error", None)
        draft.error = own if isinstance(own, str) else (span.message or None) if span.status == "error" else None
        return
    kind = bag.rest.get("error.type")
    if draft.status == "unset" and isinstance(kind, str) and kind:
        draft.status = "error"
    if draft.status != "error":
        if span.message:
            bag.rest["otel.status_message"] = span.message
        return
    raised = next((e.attributes for e in events if e.name == "exception"), bag.rest)
    words = [as_name(raised.get(f"exception.{k}")) for k in ("type", "message")]
    draft.error = span.message or ": ".join(w for w in words if w) or as_name(bag.take("error.type")) or None


def _left(bag: Bag) -> dict[str, Any]:
    """What nobody asked for; JSON that our writer packed is unpacked."""
    packed = bag.rest.pop("ethogram.attributes", None)
    left = {k: v for k, v in bag.rest.items() if v is not None}
    if isinstance(packed, str) and isinstance(inner := from_json(packed), dict):
        left.update(inner)
    return left


def _event(event: RawEvent) -> dict[str, Any]:
    when = {} if event.time_ns is None else {"time_ns": event.time_ns}
    return {"name": event.name, **when, **({"attributes": event.attributes} if event.attributes else {})}
