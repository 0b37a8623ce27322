"""Who&When: failed runs of groups of agents, with the agent and the step at fault marked by hand.

Algorithm-generated logs name the speaker in `name`; hand-crafted ones in `role`, with a remark in brackets:
`Orchestrator (thought)`, `Orchestrator (-> WebSurfer)`. Each agent is a lane. What an agent had read when it
spoke is not recorded, so spans have no input but the agent's own system prompt.
"""

from __future__ import annotations

import re
from typing import Any

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.draft import Draft
from ethogram.capture.intake import Intake
from ethogram.capture.parse import as_dict, as_int, as_name, as_text, flat_text
from ethogram.capture.peek import Peek
from ethogram.capture.records import records
from ethogram.capture.source import Source
from ethogram.traces import Message, Reasoning, SpanId, Text, ToolResult

from ._shared import as_listing, as_object, verdict

FORMAT = "who-and-when"
_SPEAKER = re.compile(r"^\s*(.*?)\s*(?:\((.*)\))?\s*$", re.DOTALL)
_TERMINALS = {"computer_terminal", "computerterminal", "computer terminal"}
_PEOPLE = {"human", "user", "human_user", "user_proxy"}
_ELSEWHERE = {
    *("history", "question_ID", "mistake_agent", "mistake_step", "mistake_reason", "mistake_type"),
    *("is_correct", "is_corrected", "system_prompt"),
}
MARKS = frozenset(["mistake_agent"])


def sniff(peek: Peek) -> int:
    """A history whose first mistake somebody found."""
    return 97 if {"history", "mistake_agent", "mistake_step"} <= peek.first.keys() else 0


def read(source: Source, intake: Intake) -> None:
    """One trace per document, element or line."""
    for where, item in records(source, intake):
        with intake.record(where):
            _read_one(as_object(item, "the case"), where, intake)


def _read_one(item: dict[str, Any], where: str, intake: Intake) -> None:
    history = as_listing(item.get("history"), "history")
    name = as_name(item.get("question_ID"))
    judged = "is_correct" if "is_correct" in item else "is_corrected"
    with intake.trace(name or where) as trace:
        trace.task = name
        trace.outcome = verdict(item.get(judged), judged)
        trace.meta = {k: v for k, v in item.items() if k not in _ELSEWHERE}
        if isinstance(trace.meta.get("level"), int):
            trace.meta["level"] = str(trace.meta["level"])  # a word in one half of the data, a number in the other
        group = _Group(trace, as_dict(item.get("system_prompt")))
        ids: dict[int, SpanId] = {}
        for position, step in enumerate(history):
            with intake.record(f"{where}, step {position}"):
                ids[position] = group.add(as_object(step, "the step"), position)
        group.close()
        _add_mistake(trace, item, ids)


class _Group:
    """The agents of one run."""

    def __init__(self, trace: TraceBuilder, prompts: dict[str, Any]) -> None:
        self._trace = trace
        self._prompts = {agent.lower(): (agent, flat_text(text)) for agent, text in prompts.items()}

    def add(self, step: dict[str, Any], position: int) -> SpanId:
        """Add what one speaker said; its name decides what kind of step it is."""
        speaker = as_name(step.get("name")) or as_name(step.get("role"))
        match = _SPEAKER.match(speaker)
        agent, remark = (match.group(1), match.group(2) or "") if match else (speaker, "")
        content = flat_text(step.get("content"))
        known = {k: v for k, v in step.items() if k not in ("content", "name") and v is not None}
        attributes = {**known, "step": position, "speaker": speaker}
        if agent.lower() in _PEOPLE:
            words = Message("user", (Text(content),), agent)
            draft = Draft(kind="user", name=agent, output=(words,), attributes=attributes)
        elif agent.lower() in _TERMINALS:
            result = Message("tool", (ToolResult(content, agent),), agent)
            failed = _exit_code(content)
            draft = Draft(kind="tool", name=agent, tool=agent, result=content, output=(result,), attributes=attributes)
            draft.status = "unset" if failed is None else "error" if failed else "ok"
        else:
            draft = self._spoken(agent, remark, content, attributes)
        if draft.kind != "user":
            draft.agent = draft.lane = agent
        return self._trace.add(draft)

    def _spoken(self, agent: str, remark: str, content: str, attributes: dict[str, Any]) -> Draft:
        thought = remark.lower() == "thought"
        words = Message("assistant", (Reasoning(content) if thought else Text(content),), agent)
        if remark.startswith("->"):
            return Draft(kind="handoff", name=remark[2:].strip(), output=(words,), attributes=attributes)
        if remark and not thought:  # the frame's own remark, such as why it ended
            return Draft(kind="other", name=remark, output=(words,), attributes=attributes)
        _, prompt = self._prompts.pop(agent.lower(), ("", ""))
        told = (Message("system", (Text(prompt),), agent),) if prompt else ()
        return Draft(kind="model", name="chat", input=told, growing=True, output=(words,), attributes=attributes)

    def close(self) -> None:
        """Agents that were there and never spoke."""
        for agent, prompt in self._prompts.values():
            told = (Message("system", (Text(prompt),), agent),)
            self._trace.add(Draft(kind="agent", name=agent, agent=agent, lane=agent, input=told))


def _exit_code(content: str) -> bool | None:
    """Whether a terminal reports failure: `exitcode: 1 (…)`; None where it does not say."""
    match = re.match(r"\s*exitcode:\s*(-?\d+)", content)
    return None if match is None else int(match.group(1)) != 0


def _add_mistake(trace: TraceBuilder, item: dict[str, Any], ids: dict[int, SpanId]) -> None:
    """Who failed first, at which step and why; the speaker there is not always the agent that is blamed."""
    step = as_int(item.get("mistake_step"))
    where = ids.get(step) if step is not None else None
    why = as_text(item.get("mistake_reason")) or None
    if where is None and item.get("mistake_step") is not None:
        trace.lose("mistake_step (no such step)")
        trace.meta["mistake_step"] = item["mistake_step"]
    marks: dict[str, float | str | None] = {
        "mistake_agent": as_name(item.get("mistake_agent")) or None,
        "mistake_step": step,
        "mistake_type": as_name(item.get("mistake_type")) or None,
    }
    for name, value in marks.items():
        if value is not None:
            trace.label(name, value, by=FORMAT, source="hand", why=why, span_id=where)
