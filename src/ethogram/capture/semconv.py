"""The one place that understands attributes: OpenTelemetry's `gen_ai.*` in all its versions, OpenInference's
`llm.*`, and the dialects of Traceloop, pydantic-ai, the Vercel AI SDK, LangSmith, MLflow and Langfuse.

`understand` turns a raw span into a draft. Known attributes are consumed, the rest stays in `Draft.attributes`;
what OpenTelemetry has beside attributes (events, links, scope) stays there under `otel.*`. Attributes named
`ethogram.*` are our own writer's and say exactly what they mean: nothing is guessed then.

Embeddings are `other`, not `model`: no language model speaks, and a retrieval that embeds stays one step.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ethogram.trace import KINDS, Kind, LabelSource, Message, text_ref

from .intake import Draft
from .parse import as_dict, as_float, as_int, as_list, as_name, as_text, from_json, to_json
from .telemetry.bag import Bag
from .telemetry.facts import Note, notes_of, take_facts
from .telemetry.messages import CARRIERS, decoded, is_definition
from .telemetry.spans import RawEvent, RawSpan
from .telemetry.talk import take_input, take_output
from .telemetry.usage import USAGE_KEYS, take_cost, take_tokens

_KINDS: dict[str, Kind] = {
    **dict.fromkeys(
        "llm chat chat_model generate_content text_completion completion generation generate_text stream_text".split(),
        "model",
    ),
    **dict.fromkeys("tool execute_tool".split(), "tool"),
    **dict.fromkeys("agent invoke_agent invoke_workflow workflow".split(), "agent"),
    **dict.fromkeys("retriever retrieval reranker rerank".split(), "retrieval"),
    **dict.fromkeys("guardrail evaluator judge".split(), "judge"),
    **dict.fromkeys("chain task span event prompt embedding embeddings create_agent plan parser unknown".split(), "other"),
    "memory": "memory",
    "handoff": "handoff",
}
_KIND_KEYS = (
    "openinference.span.kind",
    "gen_ai.operation.name",
    "traceloop.span.kind",
    "langfuse.observation.type",
    "mlflow.spanType",
    "langsmith.span.kind",
    "llm.request.type",
)
_AI_SDK: dict[str, Kind] = {"doGenerate": "model", "doStream": "model", "toolCall": "tool", "doEmbed": "other"}
_AGENT_KEYS = ("gen_ai.agent.name", "agent.name", "agent_name")
_RESPONSE_KEYS = ("gen_ai.response.id", "ai.response.id", "llm.response.id")
_NUMBERS = frozenset("temperature top_p frequency_penalty presence_penalty".split())
_WHOLE_NUMBERS = frozenset("top_k max_tokens seed choice.count".split())
_LONG = 200


class Outline(msgspec.Struct, kw_only=True):
    """What must be known of every span of a trace before the first one is written."""

    span_id: str | None
    parent_id: str | None
    kind: Kind
    start_ns: int | None
    end_ns: int | None
    agent: str = ""
    named: bool = False
    seq: int | None = None
    response: str = ""
    weight: int = 0


class Understood(msgspec.Struct, kw_only=True):
    """A draft, what it says about the trace, the labels it carries, and what was dropped."""

    draft: Draft
    facts: dict[str, Any]
    notes: list[Note]
    lost: dict[str, int]


def outline(span: RawSpan) -> Outline:
    """The place of a span in its trace."""
    bag = Bag(span.attributes)
    kind = kind_of(bag, span)
    agent, named = agent_of(bag, span, kind)
    get = bag.rest.get
    return Outline(
        span_id=as_name(get("ethogram.span_id")) or span.span_id,
        parent_id=as_name(get("ethogram.parent_id")) or span.parent_id,
        kind=kind,
        start_ns=span.start_ns,
        end_ns=span.end_ns,
        agent=agent,
        named=named,
        seq=as_int(get("ethogram.seq")),
        response=next((as_name(get(k)) for k in _RESPONSE_KEYS if k in bag), "") if kind == "model" else "",
        weight=sum(_weight(key) for key in bag.rest) + sum(e.name.startswith("gen_ai.") for e in span.events),
    )


def _weight(key: str) -> int:
    if key in USAGE_KEYS:
        return 10
    return int(key.startswith(("gen_ai.input", "gen_ai.output", "gen_ai.prompt", "gen_ai.completion", "llm.")))


def kind_of(bag: Bag, span: RawSpan) -> Kind:
    """What kind of work a span is, by what it calls itself, then by what it carries."""
    own = bag.rest.get("ethogram.kind")
    if own in KINDS:
        return own  # type: ignore[return-value]
    if span.hint is not None and span.hint != "other":
        return span.hint
    operation = as_name(bag.rest.get("ai.operationId"))
    if operation:
        return _AI_SDK.get(operation.rpartition(".")[2], "other")
    for key in _KIND_KEYS:
        said = bag.rest.get(key)
        if isinstance(said, str) and said:
            name = said.lower()
            if name.endswith(("_memory", "_memory_store")):
                return "memory"
            kind = _KINDS.get(name)
            if kind == "tool" and span.name.lower().startswith("handoff"):
                return "handoff"
            if kind is not None and not (kind == "other" and name in ("span", "unknown")):
                return kind
    if bag.rest.get("mcp.method.name") == "tools/call" and span.extra.get("otel.kind") == "server":
        return "other"
    if span.hint is not None:
        return "tool" if "gen_ai.tool.name" in bag else span.hint
    if any(key in bag for key in ("gen_ai.tool.name", "tool.name", "gen_ai.tool.call.id", "tool_call.id")):
        return "tool"
    if any(key in bag for key in ("gen_ai.request.model", "gen_ai.response.model", "llm.model_name")):
        return "model" if any(key in USAGE_KEYS for key in bag.rest) or "gen_ai.system" in bag else "other"
    if any(key.startswith("gen_ai.aggregated_usage.") for key in bag.rest) or "agent_name" in bag:
        return "agent"
    spoken = any(e.name in ("gen_ai.choice", "gen_ai.user.message", "gen_ai.assistant.message") for e in span.events)
    return "model" if spoken else "other"


def agent_of(bag: Bag, span: RawSpan, kind: Kind) -> tuple[str, bool]:
    """The agent that a span names, and whether it is more than the name of the span."""
    for key in _AGENT_KEYS:
        if key in bag:
            return as_name(bag.rest[key]), True
    if kind != "agent" or "ethogram.kind" in bag:
        return "", False
    node = bag.rest.get("graph.node.name") or bag.rest.get("graph.node.id") or bag.rest.get("traceloop.entity.name")
    if isinstance(node, str) and node:
        return node, True
    return span.name.removeprefix("invoke_agent").strip() or span.name, False


def understand(span: RawSpan, apart: list[RawEvent]) -> Understood:
    """A draft from a raw span and the events that came apart from it."""
    bag = Bag(span.attributes)
    exact = "ethogram.kind" in bag
    kind = kind_of(bag, span)
    events = [*span.events, *apart]
    for event in list(events):
        if event.name == "gen_ai.client.inference.operation.details":
            bag.rest = {**event.attributes, **bag.rest}
            events.remove(event)
    facts = take_facts(bag)
    notes, events = notes_of(bag, events)
    draft = Draft(
        kind=kind,
        name=span.name or ("chat" if kind == "model" else kind),
        span_id=as_name(bag.take("ethogram.span_id")) or span.span_id,
        parent_id=as_name(bag.take("ethogram.parent_id")) or span.parent_id,
        agent=agent_of(bag, span, kind)[0],
        lane=as_name(bag.take("ethogram.lane")),
        start_ns=span.start_ns,
        end_ns=span.end_ns,
        status=span.status,
    )
    _models(draft, bag, exact)
    for field, count in take_tokens(bag, exact=exact).items():
        setattr(draft, field, count)
    draft.cost_usd = take_cost(bag)
    lost: dict[str, int] = {}
    events = _words(draft, bag, events, lost, exact)
    _error(draft, span, bag, events, exact)
    for key in (*_AGENT_KEYS, *_KIND_KEYS, "ethogram.kind", "ethogram.seq"):
        if key not in _KIND_KEYS or bag.rest.get(key) in _SAID_BY_KIND:
            bag.rest.pop(key, None)
    vectors = [k for k in bag.rest if k.startswith("embedding.") and k.endswith(".vector")]
    for key in vectors:
        del bag.rest[key]
        lost["embedding vector"] = lost.get("embedding vector", 0) + 1
    for field, value in span.fields.items():
        setattr(draft, field, value if field != "params" else {**value, **draft.params})
    draft.attributes = {**_left(bag, exact), **span.extra}
    if events:
        draft.attributes["otel.events"] = [_event(e) for e in events]
    return Understood(draft=draft, facts=facts, notes=notes, lost=lost)


_SAID_BY_KIND = frozenset("LLM TOOL AGENT RETRIEVER chat execute_tool invoke_agent retrieval tool agent".split())
"""Values of the kind attributes that our kind says as well; others (`CHAIN`, `embeddings`) are kept."""


def _models(draft: Draft, bag: Bag, exact: bool) -> None:
    """Model, provider, parameters and why it stopped."""
    answered = bag.take("gen_ai.response.model", "llm.response.model_name", "ai.response.model")
    asked = bag.take("gen_ai.request.model", "llm.request.model_name", "llm.model_name", "ai.model.id")
    draft.model = as_name(answered or asked or bag.take("model_name")) or None
    if asked and answered and asked != answered:
        bag.rest["gen_ai.request.model"] = asked
    provider = bag.take("gen_ai.provider.name", "gen_ai.system", "llm.provider", "llm.system", "ai.model.provider")
    draft.provider = as_name(provider) or None
    draft.prompt_version = (
        as_name(bag.take("ethogram.prompt_version", "gen_ai.prompt.version", "llm.prompt_template.version")) or None
    )
    stop = decoded(
        bag.take(
            "gen_ai.response.finish_reasons",
            "llm.finish_reason",
            "ai.response.finishReason",
            "llm.response.finish_reason",
            "llm.response.stop_reason",
        )
    )
    reasons = list(dict.fromkeys(as_name(s) for s in (stop if isinstance(stop, list) else [stop]) if s))
    draft.stop_reason = ",".join(reasons) or None
    params = {k: v for k, v in bag.under("ethogram.params.").items()}
    for name, value in bag.under("gen_ai.request.").items():
        if name == "model" or name.startswith("functions.") or (isinstance(value, list | dict) and not exact):
            bag.rest[f"gen_ai.request.{name}"] = value
        else:
            params[name] = value if exact else _number(name, value)
    given = as_dict(bag.take("llm.invocation_parameters"))
    short = {k: v for k, v in given.items() if _is_short(v) and not (k == "model" and v == draft.model)}
    params.update({k: v for k, v in short.items() if k not in params})
    left = {k: v for k, v in given.items() if k not in short and k != "model" and v not in (None, [], {})}
    if left:
        bag.rest["llm.invocation_parameters"] = left
    draft.params = params


def _number(name: str, value: Any) -> Any:
    """Parameters that were numbers before somebody wrote them as text."""
    known = as_float(value) if name in _NUMBERS else as_int(value) if name in _WHOLE_NUMBERS else None
    return value if known is None else known


def _is_short(value: Any) -> bool:
    return isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) <= _LONG)


def _words(
    draft: Draft, bag: Bag, events: list[RawEvent], lost: dict[str, int], exact: bool
) -> list[RawEvent]:
    """Messages of model spans; arguments and results of all others. Gives the events that were not used."""
    if exact:
        draft.input, _, _ = take_input(bag, [], deep=False)
        draft.output, _, _ = take_output(bag, [], deep=False)
        _call(draft, bag, exact)
        draft.truncated = bag.take("ethogram.truncated") is True
        return events
    if draft.kind != "model":
        _call(draft, bag, exact)
        return events
    definitions = [i for i in as_list(bag.rest.get("input.value")) if is_definition(i)]
    if definitions:
        bag.rest["tool.definitions"] = [as_dict(i.get("content")) for i in definitions]
    asked = bag.rest.get("input.value"), bag.rest.get("output.value")
    draft.input, events, twice_in = take_input(bag, events, deep=True)
    draft.output, events, twice_out = take_output(bag, events, deep=True)
    if twice_in + twice_out:
        lost["messages (the same in a second dialect)"] = twice_in + twice_out
    if draft.stop_reason is None:
        draft.stop_reason = bag.take("output.finish_reason")
    bag.rest.pop("output.finish_reason", None)
    for key, said in (("input.value", draft.input), ("output.value", draft.output)):
        _residue(bag, key, said)
    for key in [k for k, v in bag.rest.items() if isinstance(v, str) and len(v) > 1 and v in asked]:
        del bag.rest[key]  # some frameworks repeat the request under a name of their own
    bag.take("input.mime_type")
    bag.take("output.mime_type")
    return events


def _residue(bag: Bag, key: str, said: Any) -> None:
    """Keep of a raw request or response only what the messages do not say."""
    value = bag.rest.pop(key, None)
    whole = decoded(value)
    if isinstance(whole, dict):
        left = {k: v for k, v in whole.items() if k not in CARRIERS and v not in (None, [], {}, "")}
        if left:
            bag.rest[key] = left
    elif isinstance(whole, str) and whole and not any(m.text == whole for m in said if isinstance(m, Message)):
        bag.rest[key] = value


def _call(draft: Draft, bag: Bag, exact: bool) -> None:
    """The call of a tool, or what any other span was given and gave back."""
    tool = bag.take("gen_ai.tool.name", "tool.name", "ai.toolCall.name", "tool_call.function.name")
    if draft.kind in ("tool", "handoff") and not exact:
        tool = tool or (bag.take("traceloop.entity.name") if draft.kind == "tool" else None)
        tool = tool or draft.name.removeprefix("execute_tool ")
        if draft.kind == "tool" and draft.name != tool:
            if draft.name != f"execute_tool {tool}":
                bag.rest["otel.name"] = draft.name
            draft.name = as_name(tool)
    draft.tool = as_name(tool) or None
    draft.call_id = as_name(bag.take("gen_ai.tool.call.id", "tool_call.id", "ai.toolCall.id", "tool.id")) or None
    given = _first(bag, _GIVEN)
    if given is None and draft.kind == "tool":
        given = _first(bag, ("tool.parameters",))
    gave = _first(bag, _GAVE)
    documents = bag.indexed("retrieval.documents") or bag.indexed("reranker.output_documents")
    found = [as_dict(d).get("document", d) for d in documents]
    if found and gave is None:
        gave = found
    elif found:
        bag.rest["retrieval.documents"] = found
    draft.arguments = None if given is None else as_text(given)
    draft.result = None if gave is None else as_text(gave)


_GIVEN = (
    "ethogram.arguments",
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
    "ethogram.result",
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
    for key in keys:
        if key in bag and bag.rest[key] != "":
            value = bag.rest[key]
            for other in keys:
                if bag.rest.get(other) == value:
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


def _left(bag: Bag, exact: bool) -> dict[str, Any]:
    """What nobody asked for; JSON that our writer packed is unpacked."""
    packed = bag.rest.pop("ethogram.attributes", None)
    left = {k: v for k, v in bag.rest.items() if v is not None}
    if isinstance(packed, str) and isinstance(inner := from_json(packed), dict):
        left.update(inner)
    return left


def _event(event: RawEvent) -> dict[str, Any]:
    when = {} if event.time_ns is None else {"time_ns": event.time_ns}
    return {"name": event.name, **when, **({"attributes": event.attributes} if event.attributes else {})}
