"""AgentDojo results: one document per run with `{suite_name, pipeline_name, messages, utility, security, …}`.

Upstream has the verdicts at the top and names the attack by `attack_type` and `injection_task_id`; relatives
have an `evaluation`, a `condition` and a `seed`. Utility is the outcome; security, whatever its sense in the
suite at hand, stays a label.
"""

from __future__ import annotations

from typing import Any

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.chat import ChatBuilder
from ethogram.capture.draft import Draft
from ethogram.capture.intake import Intake
from ethogram.capture.parse import as_dict, as_int, as_list, as_name, as_text, chat_message, to_json, tool_call
from ethogram.capture.peek import Peek
from ethogram.capture.records import records
from ethogram.capture.source import Source
from ethogram.traces import SUCCESS_AT, Message, Missing, Outcome, ToolResult

from ._shared import add_crash, as_listing, as_object, infrastructure, verdict

FORMAT = "agentdojo"
_ELSEWHERE = {
    *("suite_name", "pipeline_name", "user_task_id", "task_id", "messages", "trace", "final_answer", "evaluation"),
    *("utility", "security", "seed", "error", "system_prompt", "user_prompt"),
}
MARKS = frozenset(["suite_name"])


def sniff(peek: Peek) -> int:
    """Every run names its suite and its pipeline beside its messages."""
    return 96 if {"suite_name", "pipeline_name"} <= peek.first.keys() and _has_talk(peek.first) else 0


def _has_talk(item: dict[str, Any]) -> bool:
    return "messages" in item or "trace" in item


def read(source: Source, intake: Intake) -> None:
    """One trace per document, element or line."""
    for where, item in records(source, intake):
        with intake.record(where):
            _read_one(as_object(item, "the run"), where, intake)


def _read_one(item: dict[str, Any], where: str, intake: Intake) -> None:
    messages = as_listing(item.get("messages") or [], "messages")
    evaluation = as_dict(item.get("evaluation"))
    run = as_name(item.get("run_id"))
    parts = ("suite_name", "pipeline_name", "user_task_id", "task_id", "attack_type", "injection_task_id", "condition")
    key = run or "/".join(as_name(item.get(p)) for p in (*parts, "seed") if item.get(p) is not None)
    with intake.trace(key) as trace:
        task = as_name(item.get("user_task_id", item.get("task_id")))
        suite = as_name(item.get("suite_name"))
        trace.task = f"{suite}/{task}" if suite else task
        trace.condition = _condition(item)
        trace.agent = as_name(item.get("pipeline_name"))
        trace.seed = as_int(item.get("seed"))
        trace.outcome = _outcome(item, evaluation)
        trace.answer = as_text(item["final_answer"]) if item.get("final_answer") is not None else None
        trace.meta = {k: v for k, v in item.items() if k not in _ELSEWHERE}
        talk = _Talk(trace)
        for position, message in enumerate(messages):
            with intake.record(f"{where}, message {position}"):
                talk.add(as_object(message, "the message"))
        talk.close()
        _add_repeated(trace, item, talk)
        error = as_text(item.get("error"))
        if error:
            add_crash(trace, error)
        _add_labels(trace, item, evaluation)


def _condition(item: dict[str, Any]) -> str:
    """The attack and what it injects; nothing for a clean run."""
    named = as_name(item.get("condition"))
    attack = "/".join(as_name(item.get(k)) for k in ("attack_type", "injection_task_id") if item.get(k))
    return named or attack


def _outcome(item: dict[str, Any], evaluation: dict[str, Any]) -> Outcome:
    """Utility; a run that a fault of the provider ended is written down as 0 and was never judged."""
    outcome = verdict(item.get("utility", evaluation.get("utility")), "utility")
    fault = infrastructure(as_text(item.get("error")))
    if fault is not None and (isinstance(outcome, Missing) or not outcome.success(SUCCESS_AT)):
        return fault
    return outcome


class _Talk:
    """Feeds the messages; a tool's message repeats its call and carries its error apart."""

    def __init__(self, trace: TraceBuilder) -> None:
        self._trace = trace
        self._chat = ChatBuilder(trace, failed=lambda result: result.failed)
        self.calls = 0
        self.words: set[str] = set()
        self.last = ""

    def add(self, item: dict[str, Any]) -> None:
        """Add one message."""
        call = as_dict(item.get("tool_call"))
        if call and not item.get("name"):
            item = {**item, "name": call.get("function")}
        message = chat_message(item)
        details: dict[str, Any] = {}
        if any(isinstance(p, ToolResult) for p in message.parts):
            details["error"] = as_text(item["error"]) if item.get("error") else None
            placeholders = call.get("placeholder_args")
        else:
            calls = [as_dict(c) for c in as_list(item.get("tool_calls"))]
            placeholders = {as_name(c.get("id")): c["placeholder_args"] for c in calls if c.get("placeholder_args")}
        if placeholders:
            details["attributes"] = {"placeholder_args": placeholders}
        self._chat.add(message, **details)
        self._note(message)

    def close(self) -> None:
        """Report calls that nothing answered."""
        self._chat.close()

    def _note(self, message: Message) -> None:
        self.calls += len(message.tool_calls)
        self.words.add(message.text.strip())
        if message.role == "assistant" and message.text:
            self.last = message.text


def _add_repeated(trace: TraceBuilder, item: dict[str, Any], talk: _Talk) -> None:
    """Prompts, calls and the answer stand in the messages too; where they do not, they are kept."""
    for name in ("system_prompt", "user_prompt"):
        if item.get(name) and as_text(item[name]).strip() not in talk.words:
            trace.meta[name] = item[name]
    calls = as_list(item.get("trace"))
    if not talk.words:
        for call in map(tool_call, calls):
            trace.add(
                Draft(kind="tool", name=call.name, tool=call.name, call_id=call.call_id, arguments=call.arguments)
            )
    elif len(calls) not in (0, talk.calls):
        trace.meta["trace"] = to_json(calls)
    if trace.answer is None and talk.last:
        trace.answer = talk.last


def _add_labels(trace: TraceBuilder, item: dict[str, Any], evaluation: dict[str, Any]) -> None:
    for name in ("utility", "security"):
        if isinstance(item.get(name), bool | int | float):
            trace.label(name, item[name], by=FORMAT)
    for name, value in evaluation.items():
        if isinstance(value, bool | int | float | str):
            trace.label(name, value, by=FORMAT)
        elif value is not None:
            trace.meta[f"evaluation.{name}"] = value
