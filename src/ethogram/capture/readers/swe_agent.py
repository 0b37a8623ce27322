"""SWE-agent trajectories (`.traj`): steps of action and observation, and the history of messages behind them.

The history gives the words, the steps give actions, raw observations and states; they are aligned in order.
Tokens and cost are totals of the whole run: they stand on its last model span, and `usage_is_per_trace` says so.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.draft import Draft
from ethogram.capture.intake import Intake
from ethogram.capture.parse import (
    as_dict,
    as_float,
    as_int,
    as_list,
    as_name,
    as_text,
    chat_message,
    flat_text,
    to_json,
)
from ethogram.capture.peek import Peek
from ethogram.capture.records import records
from ethogram.capture.source import Source
from ethogram.traces import Message, Reasoning, Text, ToolCall, ToolResult

from ._shared import as_object
from ._turns import Turns, add_whole, plain_meta, rest_of, stem

FORMAT = "swe-agent"

_STEP = ("action", "observation", "response", "state", "thought", "messages", "query")
_HISTORY = ("role", "content", "name", "thought", "action", "tool_calls", "tool_call_ids", "thinking_blocks")
_PARAMS = ("temperature", "top_p", "max_output_tokens", "max_input_tokens")
MARKS = frozenset(["trajectory", "history", "attempts"])


def sniff(peek: Peek) -> int:
    """Steps of action and observation, or a history whose messages name their agent or type."""
    if peek.shape != "object":
        return 0
    steps, history = _first(peek.first.get("trajectory")), _first(peek.first.get("history"))
    if "action" in steps and "observation" in steps:
        return 95
    if "role" in history and ({"agent", "message_type"} & history.keys()) and "question" not in peek.first:
        return 85
    attempt = _first(peek.first.get("attempts"))
    return 90 if {"trajectory", "history"} <= attempt.keys() else 0


def read(source: Source, intake: Intake) -> None:
    """One trace per run; where an agent tried several times, one per attempt."""
    with intake.record("the rest of the file"):
        for where, item in records(source, intake):
            with intake.record(where):
                document = as_object(item, "the document")
                attempts = as_list(document.get("attempts"))
                for i, attempt in enumerate(attempts):
                    with intake.record(f"attempt {i}"):
                        shared = {k: v for k, v in document.items() if k in ("environment", "replay_config")}
                        _read_one(shared | as_object(attempt, "the attempt"), f"attempt {i}", source, intake, i)
                if not attempts:
                    _read_one(document, "run" if where == "the document" else where, source, intake)


def _read_one(item: dict[str, Any], key: str, source: Source, intake: Intake, attempt: int | None = None) -> None:
    steps, history = item.get("trajectory"), item.get("history")
    if not isinstance(steps, list) and not isinstance(history, list):
        raise ValueError("neither a trajectory nor a history")
    info, config = as_dict(item.get("info")), as_dict(item.get("replay_config"))
    stats = as_dict(info.get("model_stats"))
    with intake.trace(key) as trace:
        asked = as_dict(config.get("problem_statement"))
        names = (item.get("instance_id"), info.get("instance_id"), asked.get("id"))
        trace.task = next((n for v in names if (n := as_name(v))), stem(source.name, ".traj"))
        trace.attempt = attempt
        trace.agent = "swe-agent"
        trace.answer = info["submission"] if isinstance(info.get("submission"), str) else None
        meta = rest_of(info, "submission", "model_stats") | stats | rest_of({"environment": item.get("environment")})
        trace.meta = plain_meta(trace, meta)
        model = as_dict(as_dict(config.get("agent")).get("model"))
        facts = {"model": as_name(model.get("name")) or None, "params": {k: model[k] for k in _PARAMS if k in model}}
        run = _Run(trace, intake, add_whole(trace, intake, _root(item, info)), facts)
        run.walk(as_list(steps), as_list(history), _usage(stats))
        trace.meta["steps"], trace.meta["history"] = len(as_list(steps)), len(as_list(history))


def _root(item: dict[str, Any], info: dict[str, Any]) -> Draft:
    """The span of the whole run."""
    ended = as_name(info.get("exit_status"))
    return Draft(
        kind="agent",
        name="swe-agent",
        agent="swe-agent",
        status="ok" if ended.startswith("submitted") else "error" if ended.startswith("exit") else "unset",
        error=ended if ended.startswith("exit") else None,
        attributes=rest_of(item, "trajectory", "history", "info", "attempts") | {"info": rest_of(info, "submission")},
    )


def _usage(stats: dict[str, Any]) -> dict[str, Any]:
    found = {
        "input_tokens": as_int(stats.get("tokens_sent")),
        "output_tokens": as_int(stats.get("tokens_received")),
        "cost_usd": as_float(stats.get("instance_cost")),
    }
    return {k: v for k, v in found.items() if v is not None}


class _Run:
    """Steps and history of one run, walked side by side."""

    def __init__(self, trace: TraceBuilder, intake: Intake, root: str, facts: dict[str, Any]) -> None:
        self._trace = trace
        self._intake = intake
        self._facts = facts
        self._turns = Turns(trace, intake, agent="swe-agent", parent=root)
        self._step: dict[str, Any] | None = None

    def walk(self, steps: list[Any], history: list[Any], usage: dict[str, Any]) -> None:
        """Each reply of the history takes the next step that fits; without steps the history stands alone."""
        messages = [(i, h) for i, h in enumerate(history)]
        own = [i for i, h in messages if _is_reply(h)]
        in_order = len(own) == len(steps)
        last = len(steps) - 1 if steps else own[-1] if own else -1
        if usage and last >= 0:
            self._trace.meta["usage_is_per_trace"] = True
        at = 0
        for n, step in enumerate(steps):
            with self._intake.record(f"step {n}"):
                step = as_object(step, "the step")
                reply = next((i for i in own if i >= at), None)
                if reply is not None and (in_order or _fits(history[reply], step)):
                    for i in range(at, reply):
                        self._say(i, history[i])
                    at = reply + 1
                    self._reply(history[reply], step, usage if n == last else {})
                    if at < len(history) and _is_answer(history[at]):
                        self._say(at, history[at])
                        at += 1
                else:
                    self._reply(
                        {"role": "assistant", "content": step.get("response")}, step, usage if n == last else {}
                    )
                self._observe(None)
        for i, item in messages[at:]:
            with self._intake.record(f"history {i}"):
                if _is_reply(item) and not steps:
                    self._reply(as_object(item, "the message"), None, usage if i == last else {})
                else:
                    self._say(i, item)
        self._turns.close()

    def _say(self, position: int, item: Any) -> None:
        """A message of the history that is no reply: an observation if an action waits for one."""
        with self._intake.record(f"history {position}"):
            message, rest = _message(as_object(item, "the message")), rest_of(item, *_HISTORY)
            if self._step is not None and not self._turns.open:  # no action was taken: the words are feedback
                rest |= rest_of({"observation": self._step.get("observation")})
                self._step = None
            details: dict[str, Any] = {"attributes": rest} if rest else {}
            if item.get("is_demo") or message.role == "assistant":
                self._turns.system(message, "demonstration" if item.get("is_demo") else "reply", **details)
            elif message.role == "system":
                self._turns.system(message, **details)
            elif self._turns.open:
                self._observe(message)
            elif message.role == "tool":
                self._turns.result(ToolResult(message.text), message)
            else:
                self._turns.user(message, **details)

    def _reply(self, item: dict[str, Any], step: dict[str, Any] | None, usage: dict[str, Any]) -> None:
        self._turns.unanswered()
        message, known = _message(item), step if step is not None else item
        attributes = rest_of(item, *_HISTORY)
        thought = as_text(known.get("thought"))
        if thought.strip() and thought.strip() not in message.text:
            attributes["thought"] = thought
        if step is not None:
            attributes |= rest_of(step, *_STEP, "execution_time")
            self._trace.lose("trajectory.query", int(bool(step.get("query") or step.get("messages"))))
        action = as_text(known.get("action"))
        noted = {"action": action} | rest_of(
            step or {}, *(k for k in (step or {}) if k not in ("state", "execution_time"))
        )
        calls = [{"attributes": noted}] if message.tool_calls else None
        facts = {**self._facts, **usage, "attributes": attributes}
        self._step = step
        if action.strip() and not message.tool_calls:
            facts["stop_reason"] = "tool_calls"
        self._turns.model(message, calls, **facts)
        if action.strip() and not message.tool_calls:
            self._turns.call(ToolCall(action.split()[0], to_json({"action": action})), attributes=noted)

    def _observe(self, message: Message | None) -> None:
        """What the action brought; the step has it raw, the history as the model read it."""
        step, self._step = self._step, None
        raw = as_text(step["observation"]) if step is not None and step.get("observation") is not None else None
        if not self._turns.open:
            if raw:
                self._turns.event("observation", result=raw)
            return
        if message is None and raw is None:
            return
        call_id = next((p.call_id for p in message.parts if isinstance(p, ToolResult)), None) if message else None
        words = raw if raw is not None else message.text if message else ""
        silent: dict[str, Any] = {} if message is not None else {"output": ()}
        self._turns.result(ToolResult(words, None, call_id), message, **silent)


def _message(item: dict[str, Any]) -> Message:
    """A message of the history, with its thinking and the call that it answers."""
    message = chat_message(item)
    thinking = [Reasoning(as_text(as_dict(b).get("thinking"))) for b in as_list(item.get("thinking_blocks"))]
    parts = (*thinking, *message.parts)
    answered = as_list(item.get("tool_call_ids"))
    if message.role == "tool" and answered:
        parts = tuple(
            msgspec.structs.replace(p, call_id=as_name(answered[0])) if isinstance(p, ToolResult) else p for p in parts
        )
    return Message(message.role, parts, message.name)


def _first(value: Any) -> dict[str, Any]:
    return value[0] if isinstance(value, list) and value and isinstance(value[0], dict) else {}


def _is_reply(item: Any) -> bool:
    return isinstance(item, dict) and item.get("role") == "assistant" and not item.get("is_demo")


def _is_answer(item: Any) -> bool:
    return isinstance(item, dict) and item.get("role") in ("user", "tool") and not item.get("is_demo")


def _fits(item: dict[str, Any], step: dict[str, Any]) -> bool:
    """Whether a message and a step are the same turn."""
    action = step.get("action")
    if isinstance(action, str) and action.strip() and item.get("action") == action:
        return True
    words = [p.text for p in chat_message(item).parts if isinstance(p, Text)]
    return "\n".join(words).strip() == flat_text(step.get("response")).strip()
