"""OpenHands events as turns: `{action, args}` and `{observation, content}`, older pairs of them, and SDK events
with a `kind`."""

from __future__ import annotations

from typing import Any

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.parse import (
    as_dict,
    as_float,
    as_int,
    as_list,
    as_name,
    as_text,
    chat_message,
    content_parts,
    flat_text,
    iso_ns,
    media,
    to_json,
    tool_call,
    usage_tokens,
)
from ethogram.traces import Message, Part, Reasoning, Text, ToolCall, ToolResult

from ._turns import Turns, count_bytes, rest_of

OpenHandsEvent = dict[str, Any]

QUIET = {"change_agent_state", "recall", "null", "condensation", "condensation_request", "initialize", "start"}
"""Actions that are not the model's: the runtime speaks to itself."""
_COUNTED = ("prompt_tokens", "completion_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
_EVENT = ("id", "timestamp", "source", "message", "action", "observation", "args", "content", "tool_call_metadata")


def is_event(item: Any) -> bool:
    """Whether a value looks like an event of OpenHands."""
    if isinstance(item, list):
        return len(item) == 2 and all(isinstance(i, dict) for i in item) and is_event(item[0])
    if not isinstance(item, dict):
        return False
    if isinstance(item.get("kind"), str) and "source" in item and "role" not in item:
        return True
    acts = isinstance(item.get("action"), str) and ("args" in item or "source" in item)
    return acts or (isinstance(item.get("observation"), str) and ("content" in item or "extras" in item))


class Events:
    """The events of one run, in order."""

    def __init__(self, trace: TraceBuilder, turns: Turns, facts: dict[str, Any], metrics: OpenHandsEvent) -> None:
        """`facts` hold for every reply; `metrics` are those of the run, where some name the response they are of."""
        self._trace = trace
        self._turns = turns
        self._facts = facts
        self._usage = {
            as_name(u.get("response_id")): u
            for u in as_list(metrics.get("token_usages"))
            if isinstance(u, dict) and u.get("response_id")
        }
        self._so_far: dict[str, float] = {}
        self._seen: set[str] = set()
        self._group: list[OpenHandsEvent] = []
        self._causes: dict[Any, str] = {}
        self.count = 0
        self.finish: str | None = None
        self.last = 0
        self.whole: dict[str, Any] = {}
        self._replies = 0

    def add(self, event: OpenHandsEvent) -> None:
        """One event."""
        self.count += 1
        if isinstance(event.get("kind"), str):
            self._sdk(event["kind"], event)
        elif isinstance(event.get("action"), str):
            self._action(event["action"], event)
        elif isinstance(event.get("observation"), str):
            self._observation(event["observation"], event)
        else:
            raise ValueError("neither an action nor an observation")

    def close(self) -> None:
        """The run ends here."""
        self._turns.close()

    def _action(self, action: str, event: OpenHandsEvent) -> None:
        args, source = as_dict(event.get("args")), event.get("source")
        words = as_text(args.get("content") if args.get("content") is not None else event.get("message"))
        if action == "system":
            self._turns.system(Message("system", _parts(words)), **_details(event, args, "content"))
        elif action == "message" and source not in ("agent", None):
            pictures = tuple(media("image", as_text(u)) for u in as_list(args.get("image_urls")))
            message = Message("user", (*_parts(words), *pictures))
            count_bytes(self._trace, message)
            self._turns.user(message, **_details(event, args, "content", "image_urls"))
        elif action in QUIET or source not in ("agent", None):
            self._turns.event(action, **_details(event, args))
        elif action == "message":
            self._reply(event, Message("assistant", _parts(words)), args, "content", "image_urls")
        else:
            self._use(action, event, args)

    def _use(self, action: str, event: OpenHandsEvent, args: dict[str, Any]) -> None:
        """The agent acts: one reply of the model may ask for several actions, and each repeats it."""
        metadata = as_dict(event.get("tool_call_metadata"))
        response = as_dict(metadata.get("model_response"))
        thought = as_text(args.get("thought"))
        call_id = as_name(metadata.get("tool_call_id")) or as_name(event.get("id"))
        choice = as_dict((as_list(response.get("choices")) or [None])[0])
        said = choice.get("message")
        if not isinstance(said, dict):
            name = as_name(metadata.get("function_name")) or action
            call = ToolCall(name, to_json(rest_of(args, "thought")), call_id or None)
            self._reply(event, Message("assistant", (*_parts(thought), call)), {})
        elif self._is_new(as_name(response.get("id"))):
            stop = as_name(choice.get("finish_reason")) or None
            self._reply(event, chat_message({**said, "role": "assistant"}), {}, response=response, stop_reason=stop)
        if event.get("id") is not None:
            self._causes[as_name(event["id"])] = call_id
        for waiting in self._turns.open:
            if waiting.call.call_id == (call_id or None):
                noted = _details(event, args)
                noted["attributes"]["action"] = action
                waiting.details.update(noted | ({"kind": "handoff"} if action == "delegate" else {}))
        if action in ("finish", "reject"):
            outputs = as_dict(args.get("outputs"))
            found = (args.get("final_thought"), outputs.get("content"), thought, event.get("message"))
            self.finish = next((as_text(f) for f in found if f), None)

    def _observation(self, kind: str, event: OpenHandsEvent) -> None:
        metadata, extras = as_dict(event.get("tool_call_metadata")), as_dict(event.get("extras"))
        cause = as_name(event.get("cause"))
        call_id = as_name(metadata.get("tool_call_id")) or self._causes.pop(cause, "")
        words = as_text(event["content"] if event.get("content") is not None else event.get("message"))
        code = as_int(as_dict(extras.get("metadata")).get("exit_code", extras.get("exit_code")))
        failed = kind in ("error", "user_rejected") or event.get("success") is False or bool(code and code > 0)
        open_ids = [w.call.call_id for w in self._turns.open]
        answers = call_id in open_ids if call_id else bool(open_ids) and not cause
        details = _details(event, {})
        attributes = details["attributes"]
        if extras:
            attributes["extras"] = extras
        if not answers or kind in ("agent_state_changed", "null"):
            self._turns.event(kind, **details, **({"error": words} if kind == "error" else {"result": words or None}))
            return
        result = ToolResult(words, None, call_id or None, failed)
        attributes |= {"observation": kind, "observed": attributes.pop("event", None)}  # the action has its own number
        self._turns.result(result, end_ns=details["start_ns"], attributes=attributes)

    def _is_new(self, response_id: str) -> bool:
        if response_id and response_id in self._seen:
            return False
        self._seen.add(response_id)
        return True

    def _reply(
        self,
        event: OpenHandsEvent,
        message: Message,
        args: dict[str, Any],
        *known: str,
        response: OpenHandsEvent | None = None,
        calls: list[dict[str, Any]] | None = None,
        **more: Any,
    ) -> None:
        response = response or {}
        response_id = as_name(response.get("id") or event.get("llm_response_id"))
        details = {**self._facts, **_details(event, args, *known), **self._tokens(event, response, response_id), **more}
        details["model"] = as_name(response.get("model")) or details.get("model")
        details["attributes"] |= rest_of(response, "choices", "usage", "model", "object")
        self._replies += 1
        if self._replies == self.last:  # the usage of the whole run, where no reply has its own
            details |= self.whole
        self._turns.unanswered()
        self._turns.model(message, calls, **details)

    def _tokens(self, event: OpenHandsEvent, response: OpenHandsEvent, response_id: str) -> dict[str, Any]:
        """What this reply used: by the response itself, by the run's list of responses, or by what the totals grew."""
        metrics = as_dict(event.get("llm_metrics"))
        totals = as_dict(metrics.get("accumulated_token_usage"))
        found: dict[str, Any] = {}
        cost = self._grown("cost", metrics.get("accumulated_cost"))
        grown = {k: self._grown(k, totals.get(k)) for k in _COUNTED}
        if cost is not None:
            found["cost_usd"] = cost
        if isinstance(response.get("usage"), dict):
            return found | usage_tokens(response["usage"])
        listed = self._usage.get(response_id)
        return found | run_tokens(listed if listed is not None else grown)

    def _grown(self, name: str, value: Any) -> float | None:
        number = as_float(value)
        if number is None:
            return None
        before = self._so_far.get(name, 0.0)
        self._so_far[name] = max(before, number)
        return max(0.0, number - before)

    def _sdk(self, kind: str, event: OpenHandsEvent) -> None:
        """Events of the SDK; a reply that asks for several actions is spread over as many events."""
        if kind == "ActionEvent":
            if self._group and self._group[0].get("llm_response_id") != event.get("llm_response_id"):
                self.flush()
            self._group.append(event)
            return
        self.flush()
        said = as_dict(event.get("llm_message"))
        if kind == "MessageEvent" and said.get("role") == "assistant":
            self._reply(event, chat_message(said), {})
        elif kind == "MessageEvent":
            message = chat_message(said)
            count_bytes(self._trace, message)
            self._turns.user(message, **_details(event, {}))
        elif kind == "SystemPromptEvent":
            self._turns.system(
                Message("system", tuple(content_parts(event.get("system_prompt")))), **_details(event, {})
            )
        elif event.get("tool_call_id") or event.get("action_id"):
            seen = event.get("observation", event.get("error", event.get("rejection_reason")))
            body = as_dict(seen)
            words = flat_text(body.get("content", body.get("output"))) if body else as_text(seen)
            failed = kind != "ObservationEvent" or bool(body.get("is_error") or body.get("error"))
            call_id, name = as_name(event.get("tool_call_id")) or None, as_name(event.get("tool_name")) or None
            details = _details(event, rest_of(body, "content", "output"))
            self._turns.result(
                ToolResult(words, name, call_id, failed), end_ns=details["start_ns"], attributes=details["attributes"]
            )
        else:
            self._turns.event(kind, **_details(event, {}))

    def flush(self) -> None:
        """The reply whose events came in last is complete."""
        group, self._group = self._group, []
        if not group:
            return
        parts: list[Part] = []
        calls: list[Part] = []
        known = ("thought", "reasoning_content", "tool_call", "tool_name", "tool_call_id", "llm_response_id")
        for event in group:
            thinking = event.get("reasoning_content")
            if isinstance(thinking, str) and thinking and Reasoning(thinking) not in parts:
                parts.append(Reasoning(thinking))
            parts.extend(p for p in content_parts(event.get("thought")) if p not in parts)
            call = tool_call(event.get("tool_call"))
            name = as_name(event.get("tool_name")) or call.name
            calls.append(ToolCall(name, call.arguments, as_name(event.get("tool_call_id")) or call.call_id))
            if name == "finish":
                self.finish = as_text(as_dict(event.get("action")).get("message")) or self.finish
        first = {k: group[0].get(k) for k in ("timestamp", "llm_response_id", "source")}
        details = [_details(rest_of(e, *known), as_dict(e.get("action"))) for e in group]
        self._reply(first, Message("assistant", (*parts, *calls)), {}, calls=details)


def run_tokens(usage: dict[str, Any]) -> dict[str, int]:
    """Token fields from the sums that OpenHands keeps: prompt tokens include the cached ones."""
    counts = {k: as_int(usage.get(k)) for k in _COUNTED}
    prompt, read, write = counts["prompt_tokens"], counts["cache_read_tokens"], counts["cache_write_tokens"]
    if prompt is not None:
        prompt = max(0, prompt - (read or 0) - (write or 0))
    found = {
        "input_tokens": prompt,
        "cache_read_tokens": read,
        "cache_write_tokens": write,
        "output_tokens": counts["completion_tokens"],
        "reasoning_tokens": counts["reasoning_tokens"],
    }
    return {k: v for k, v in found.items() if v is not None}


def _details(event: OpenHandsEvent, args: dict[str, Any], *known: str) -> dict[str, Any]:
    """Time and all that a turn does not say itself."""
    attributes = rest_of(event, *_EVENT, "kind", "llm_message", "system_prompt", "llm_metrics", "extras", "cause")
    inner = rest_of(args, *known)
    if inner:
        attributes["args"] = inner
    if event.get("id") is not None:
        attributes["event"] = event["id"]
    if event.get("source") not in ("agent", "user", None):
        attributes["source"] = event["source"]
    return {"start_ns": iso_ns(event.get("timestamp")), "attributes": attributes}


def _parts(words: str) -> tuple[Part, ...]:
    return (Text(words),) if words else ()
