"""The structural signature of a step: what kind of thing was done, never with which words.

A signature is chosen by name (`SIGNATURES`) or is a function of the user's own. It gets the span, and the trace too if
it takes two arguments: what a log says beyond the fields of a span is a text of the trace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from .message import Message, ToolResult
from .span import Span

if TYPE_CHECKING:
    from .trace import Trace

SignatureFunction = Callable[[Span], str]
TraceSignature = Callable[[Span, "Trace"], str]


def signature(span: Span) -> str:
    """`kind:name`, an error mark, and for model steps the stop reason and the tools asked for.

    Arguments, ids, times and content never enter, so that wording alone is no divergence.
    """
    parts = [span.kind, span.tool or span.name]
    if span.status == "error":
        parts.append("error")
    if span.kind == "model":
        parts.append(span.stop_reason or "-")
        parts.append(",".join(span.requested) or "-")
    return ":".join(parts)


def name_signature(span: Span) -> str:
    """`kind:name` alone: neither failures nor what a model asked for make a difference."""
    return f"{span.kind}:{span.tool or span.name}"


def kind_signature(span: Span) -> str:
    """The kind alone: the coarsest reading there is."""
    return span.kind


def message_signature(message: Message) -> str:
    """For the reading by messages: the role, the tools that are asked for, the tool that answers."""
    if message.tool_calls:
        return f"{message.role}:{','.join(c.name for c in message.tool_calls)}"
    if message.role == "tool":
        answered = next((p.name for p in message.parts if isinstance(p, ToolResult)), None)
        return f"tool:{answered or message.name or '-'}"
    return message.role


_TRAXR: Mapping[str, tuple[str, tuple[str, ...]]] = MappingProxyType(
    {
        "routing_decision": ("route", ("chosen_agent",)),
        "tool_invocation": ("tool", ("tool_name", "operation", "success")),
        "memory_write": ("mem_write", ("entry_type",)),
        "memory_read": ("mem_read", ()),
        "retrieval_shown": ("retrieval", ()),
        "agent_output": ("output", ("action", "is_final_answer")),
        "final_answer": ("final_answer", ()),
        "tool_failure": ("tool_failure", ("tool_name",)),
        "agent_halt": ("agent_halt", ("reason",)),
        "llm_call": ("llm", ("model", "finish_reason", "tool_call_names")),
        "tool_request": ("tool_req", ("tool_name",)),
        "tool_result": ("tool_res", ("tool_name",)),
        "agent_error": ("agent_error", ("exc_type",)),
    }
)


def event_facts(span: Span, trace: Trace) -> dict[str, Any]:
    """The event that an imported span keeps under its attributes; empty where it keeps none."""
    return trace.facts(span) or {}


def traxr_signature(span: Span, trace: Trace) -> str:
    """The signature that traxr gives to its own events; a span that is none of them keeps the structural one."""
    event = event_facts(span, trace)
    known = _TRAXR.get(str(event.get("event_type")))
    if known is None:
        return signature(span)
    payload = event.get("payload")
    facts = payload if isinstance(payload, dict) else {}
    return ":".join([known[0], *(_fact(facts, name) for name in known[1])])


def _fact(payload: Mapping[str, Any], name: str) -> str:
    if name == "success":
        return "ok" if payload.get(name, True) else "fail"
    if name == "is_final_answer":
        return str(bool(payload.get(name, False)))
    if name == "tool_call_names":
        return ",".join(map(str, payload.get(name) or ())) or "-"
    return str(payload.get(name, "?"))


SIGNATURES: Mapping[str, SignatureFunction | TraceSignature] = MappingProxyType(
    {"structural": signature, "name": name_signature, "kind": kind_signature, "traxr": traxr_signature}
)
"""Signatures by name; `structural` is what is meant where none is named."""
