"""ATIF steps as drafts: what the reader of ATIF makes of a step, and what the writer may rely on.

A field of a span that a step cannot say stands in `extra.ethogram` of the step, the call or the result: the
writer puts there what these functions would not have guessed, and nothing else.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ethogram.capture.chat import says_error
from ethogram.capture.draft import Draft
from ethogram.capture.pairing import OpenCalls
from ethogram.capture.parse import (
    as_dict,
    as_float,
    as_int,
    as_list,
    as_name,
    content_parts,
    flat_text,
    iso_ns,
    to_json,
)
from ethogram.traces import Message, Part, Reasoning, Role, ToolCall, ToolResult

from ._turns import rest_of

Step = dict[str, Any]

OURS = "ethogram"
ROLES: dict[str, Role] = {"system": "system", "user": "user", "agent": "assistant"}
HEAVY = ("logprobs", "prompt_token_ids", "completion_token_ids")
"""Per-token arrays that a trace does not hold."""

_STEP = ("step_id", "timestamp", "source", "message", "model_name", "reasoning_content", "tool_calls", "observation")
_METRICS = ("prompt_tokens", "completion_tokens", "cached_tokens", "cost_usd", *HEAVY)
PATCHABLE = frozenset(Draft.__struct_fields__) - {"input", "growing"}


def ours(item: Any) -> dict[str, Any]:
    """Our own notes on a step, a call, a result or a trajectory."""
    return as_dict(as_dict(as_dict(item).get("extra")).get(OURS))


def step_message(step: Step) -> Message:
    """The message of a step: its reasoning, its words and files, its calls."""
    parts: list[Part] = []
    reasoning = step.get("reasoning_content")
    if isinstance(reasoning, str) and reasoning:
        parts.append(Reasoning(reasoning))
    parts.extend(content_parts(step.get("message")))
    parts.extend(step_call(c) for c in as_list(step.get("tool_calls")))
    return Message(ROLES.get(as_name(step.get("source")), "other"), tuple(parts))


def step_call(item: Any) -> ToolCall:
    """A call; its arguments are JSON text, as the model wrote them where that is known."""
    if not isinstance(item, dict):
        raise TypeError(f"a tool call is a {type(item).__name__}, not an object")
    notes, arguments = ours(item), item.get("arguments")
    text = notes.get("arguments")
    if not isinstance(text, str):
        text = arguments if isinstance(arguments, str) else "" if arguments is None else to_json(arguments)
    call_id = as_name(notes.get("call_id", item.get("tool_call_id"))) or None
    return ToolCall(as_name(item.get("function_name")) or "unknown", text, call_id)


def paired_calls(step: Step) -> tuple[list[tuple[Step, Step | None]], list[Step]]:
    """Calls with their results, by id and then by position; and the results that answer no call."""
    calls = [c for c in as_list(step.get("tool_calls")) if isinstance(c, dict)]
    results = [r for r in as_list(as_dict(step.get("observation")).get("results")) if isinstance(r, dict)]
    waiting = OpenCalls()
    for position, item in enumerate(calls):
        waiting.add(ToolCall("", "", as_name(item.get("tool_call_id")) or None), position=position)
    answers: list[Step | None] = [None] * len(calls)
    rest: list[Step] = []
    for result in results:
        wanted = as_name(result.get("source_call_id")) or None
        found = waiting.take_id(wanted) if wanted is not None else None
        if found is None:
            rest.append(result)
        else:
            answers[found.details["position"]] = result
    left = waiting.take_all()
    for (_, details), result in zip(left, rest, strict=False):
        answers[details["position"]] = result
    return list(zip(calls, answers, strict=True)), rest[len(left) :]


def agent_span(item: dict[str, Any], agent: dict[str, Any], name: str, lane: str, parent: str | None) -> Draft:
    """The span of a whole trajectory, with all that it says of itself."""
    times = [t for s in item["steps"] if isinstance(s, dict) and (t := iso_ns(s.get("timestamp"))) is not None]
    attributes = {"agent": rest_of(agent, "name")} | rest_of(item, "agent", "steps", "subagent_trajectories")
    return Draft(
        kind="agent",
        name=name,
        agent=name,
        lane=lane,
        parent_id=parent,
        start_ns=min(times, default=None),
        end_ns=max(times, default=None),
        attributes=attributes,
        **model_facts(agent),
    )


def model_facts(agent: dict[str, Any]) -> dict[str, Any]:
    """What an agent says of its model, for every call of it."""
    params = {k: v for k, v in as_dict(agent.get("extra")).items() if k in ("temperature", "top_p", "seed")}
    return {"model": as_name(agent.get("model_name")) or None, "params": params}


def spoken(step: Step, base: dict[str, Any]) -> Draft:
    """The span of a step of a user or of the system; `base` holds the agent, the lane and the parent."""
    message, at = step_message(step), iso_ns(step.get("timestamp"))
    name = as_name(step.get("source")) or "other"
    draft = Draft(kind="user" if message.role == "user" else "other", name=name, start_ns=at, output=(message,), **base)
    draft.attributes = step_attributes(step)
    return patched(draft, ours(step))


def replied(step: Step, base: dict[str, Any], facts: dict[str, Any]) -> Draft:
    """The span of a step of the agent: one call of the model."""
    message, metrics = step_message(step), as_dict(step.get("metrics"))
    draft = Draft(kind="model", name="chat", start_ns=iso_ns(step.get("timestamp")), output=(message,), **base)
    draft.model = as_name(step.get("model_name")) or facts.get("model")
    draft.params = dict(facts.get("params") or {})
    draft.stop_reason = "tool_calls" if message.tool_calls else "stop"
    if step.get("reasoning_effort") is not None:
        draft.params["reasoning_effort"] = step["reasoning_effort"]
    for field, value in tokens(metrics).items():
        setattr(draft, field, value)
    draft.cost_usd = as_float(metrics.get("cost_usd"))
    draft.attributes = step_attributes(step)
    return patched(draft, ours(step))


def used(item: Step, result: Step | None, step: Step, base: dict[str, Any]) -> Draft:
    """The span of a call and its result."""
    call = step_call(item)
    draft = Draft(kind="tool", name=call.name, tool=call.name, call_id=call.call_id, **base)
    draft.arguments, draft.start_ns = call.arguments, iso_ns(step.get("timestamp"))
    extra = without_ours(item)
    if result is not None:
        words = flat_text(result.get("content"))
        answer = ToolResult(words, call.name, call.call_id)
        draft.result, draft.output = words, (Message("tool", (answer,)),)
        draft.status = "error" if says_error(answer) else "ok"
        extra |= without_ours(result)
    draft.attributes = extra
    return patched(draft, as_dict(ours(item).get("tool")))


def tokens(metrics: dict[str, Any]) -> dict[str, int]:
    """Token fields: `prompt_tokens` holds the cached ones, and those written to the cache where that adds up."""
    extra = as_dict(metrics.get("extra"))
    prompt, read = as_int(metrics.get("prompt_tokens")), as_int(metrics.get("cached_tokens"))
    write = next(
        (n for k in ("cache_write_tokens", "cache_creation_input_tokens") if (n := as_int(extra.get(k)))), None
    )
    if prompt is not None:
        rest = prompt - (read or 0)
        if write is not None and rest < write:
            write = None
        prompt = prompt if rest < 0 else rest - (write or 0)
    found = {
        "input_tokens": prompt,
        "cache_read_tokens": read,
        "cache_write_tokens": write,
        "output_tokens": as_int(metrics.get("completion_tokens")),
        "reasoning_tokens": as_int(extra.get("reasoning_tokens")),
    }
    return {k: v for k, v in found.items() if v is not None}


def step_attributes(step: Step) -> dict[str, Any]:
    """What a step says besides: its number, its extra, fields of later versions."""
    found = rest_of(step, *_STEP, "metrics", "extra", "is_copied_context", "reasoning_effort")
    if step.get("step_id") is not None:
        found["step_id"] = step["step_id"]
    metrics = rest_of(as_dict(step.get("metrics")), *_METRICS)
    if metrics:
        found["metrics"] = metrics
    return found | without_ours(step)


def without_ours(item: Step) -> dict[str, Any]:
    """The `extra` of others."""
    extra = item.get("extra")
    if isinstance(extra, dict):
        extra = {k: v for k, v in extra.items() if k != OURS}
    return {"extra": extra} if extra else {}


def patched(draft: Draft, notes: dict[str, Any]) -> Draft:
    """The draft with the fields that our own writer noted."""
    changes = {k: v for k, v in notes.items() if k in PATCHABLE}
    if not changes:
        return draft
    values = {k: v for k, v in msgspec.structs.asdict(draft).items() if k in PATCHABLE} | changes
    return msgspec.convert(msgspec.to_builtins(values), Draft)
