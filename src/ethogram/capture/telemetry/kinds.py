"""The kind of work of a span, its agent, and what must be known of it before its trace is written."""

from __future__ import annotations

import re
from typing import cast

import msgspec

from ethogram.capture.parse import as_int, as_name
from ethogram.traces import KINDS, Kind

from .span_attributes import Bag
from .spans import RawEvent, RawSpan
from .usage import USAGE_KEYS

_KINDS: dict[str, Kind] = {
    **dict.fromkeys(
        [
            "llm",
            "chat",
            "chat_model",
            "generate_content",
            "text_completion",
            "completion",
            "generation",
            "generate_text",
            "stream_text",
        ],
        "model",
    ),
    **dict.fromkeys(["tool", "execute_tool"], "tool"),
    **dict.fromkeys(["agent", "invoke_agent", "invoke_workflow", "workflow"], "agent"),
    **dict.fromkeys(["retriever", "retrieval", "reranker", "rerank"], "retrieval"),
    **dict.fromkeys(["guardrail", "evaluator", "judge"], "judge"),
    **dict.fromkeys(
        [
            "chain",
            "task",
            "span",
            "event",
            "prompt",
            "embedding",
            "embeddings",
            "create_agent",
            "plan",
            "parser",
            "unknown",
        ],
        "other",
    ),
    "memory": "memory",
    "handoff": "handoff",
}
KIND_KEYS = (
    "openinference.span.kind",
    "gen_ai.operation.name",
    "traceloop.span.kind",
    "langfuse.observation.type",
    "mlflow.spanType",
    "langsmith.span.kind",
    "llm.request.type",
)
_AI_SDK: dict[str, Kind] = {"doGenerate": "model", "doStream": "model", "toolCall": "tool", "doEmbed": "other"}
_AGENT_NAME = re.compile(r"^(invoke_agent|agent_run)\b")
AGENT_KEYS = ("gen_ai.agent.name", "agent.name", "agent_name")
_SAYING = ("gen_ai.input", "gen_ai.output", "gen_ai.prompt", "gen_ai.completion", "llm.input", "llm.output")
_RESPONSE_KEYS = ("gen_ai.response.id", "ai.response.id", "llm.response.id")
_RESPONSE_NAMES = frozenset(_RESPONSE_KEYS)
_AGENT_NAMES = frozenset(AGENT_KEYS)
OWN = "ethogram."
"""How names of attributes begin that our own writer gives."""


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
    """How much a span says of its response; asked where several name the same one."""
    error: str = ""
    """Why a tool failed: a model call that is open around it ends with the same words."""


class OpenedSpan(msgspec.Struct):
    """A span with its attributes in one spelling, those included that came as an event; `events` are the others."""

    span: RawSpan
    bag: Bag
    events: list[RawEvent]
    kind: Kind
    agent: str
    named: bool
    """Whether the agent's name is more than the name of the span."""


def open_span(span: RawSpan, apart: list[RawEvent]) -> OpenedSpan:
    """A raw span and the events that came apart from it, ready to be understood."""
    bag = Bag(span.attributes)
    events = []
    for event in (*span.events, *apart):
        if event.name == "gen_ai.client.inference.operation.details":
            bag.add(event.attributes)
        else:
            events.append(event)
    kind = kind_of(bag, span)
    return OpenedSpan(span, bag, events, kind, *agent_of(bag, span, kind))


def outline(opened: OpenedSpan) -> Outline:
    """The place of a span in its trace; takes nothing out of its attributes."""
    span, bag, kind = opened.span, opened.bag, opened.kind
    found = Outline(
        span_id=span.span_id,
        parent_id=span.parent_id,
        kind=kind,
        start_ns=span.start_ns,
        end_ns=span.end_ns,
        agent=opened.agent,
        named=opened.named,
    )
    if bag.shape.has(OWN):
        get = bag.rest.get
        found.span_id = as_name(get("ethogram.span_id")) or span.span_id
        found.parent_id = as_name(get("ethogram.parent_id")) or span.parent_id
        found.seq = as_int(get("ethogram.seq"))
    if kind == "tool" and span.status == "error":
        raised = [as_name(e.attributes.get("exception.message")) for e in opened.events if e.name == "exception"]
        found.error = span.message or next(iter(raised), "")
    if kind == "model" and bag.shape.has(_RESPONSE_NAMES):
        found.response = next((as_name(bag.rest[k]) for k in _RESPONSE_KEYS if k in bag), "")
        said = any(map(bag.shape.has, _SAYING)) or any(e.name.startswith("gen_ai.") for e in opened.events)
        found.weight = 2 * len(USAGE_KEYS & bag.shape.names) + said
    return found


def kind_of(bag: Bag, span: RawSpan) -> Kind:
    """What kind of work a span is, by what it calls itself, then by what it carries."""
    own = bag.rest.get("ethogram.kind")
    if own is not None and as_name(own) in KINDS:
        return cast(Kind, own)
    if span.hint is not None and span.hint != "other":
        return span.hint
    if operation := as_name(bag.rest.get("ai.operationId")):
        return _AI_SDK.get(operation.rpartition(".")[2], "other")
    for key in KIND_KEYS:
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
    if any(key in bag for key in ("gen_ai.tool.name", "tool.name", "gen_ai.tool.call.id", "tool_call.id")):
        return "tool"
    if any(key.startswith("gen_ai.aggregated_usage.") for key in bag.rest) or "agent_name" in bag:
        return "agent"
    if span.hint is not None:
        return span.hint
    if any(key in bag for key in ("gen_ai.request.model", "gen_ai.response.model", "llm.model_name")):
        told = ("gen_ai.system", "gen_ai.provider.name", "llm.provider", "llm.system")
        return "model" if USAGE_KEYS & bag.rest.keys() or any(key in bag for key in told) else "other"
    spoken = any(e.name in ("gen_ai.choice", "gen_ai.user.message", "gen_ai.assistant.message") for e in span.events)
    return "model" if spoken else "other"


def agent_of(bag: Bag, span: RawSpan, kind: Kind) -> tuple[str, bool]:
    """The agent that a span names, and whether it is more than the name of the span."""
    for key in AGENT_KEYS if bag.shape.has(_AGENT_NAMES) else ():
        if key in bag:
            return as_name(bag.rest[key]), True
    if kind != "agent" or "ethogram.seq" in bag:
        return "", False
    node = bag.rest.get("graph.node.name") or bag.rest.get("graph.node.id") or bag.rest.get("traceloop.entity.name")
    if isinstance(node, str) and node:
        return node, True
    return _AGENT_NAME.sub("", span.name).strip("[] ") or span.name, False
