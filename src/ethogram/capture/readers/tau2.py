"""tau2-bench results: `results.json` with `{info, tasks, simulations}`, or one file per simulation (`dir` format).

The agent's calls are model spans; the simulated user has a lane of its own, and both may run tools. A user
span carries the simulator's tokens and cost, so that totals, which count model spans, are the agent's own.
Voice simulations (`ticks`) are read by `tau2_voice`.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import ijson

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.chat import ChatBuilder
from ethogram.capture.draft import Draft
from ethogram.capture.intake import Intake
from ethogram.capture.pairing import OpenCalls
from ethogram.capture.parse import (
    as_dict,
    as_float,
    as_int,
    as_list,
    as_name,
    as_text,
    chat_message,
    iso_ns,
    media,
    to_json,
    usage_tokens,
)
from ethogram.capture.peek import Peek, peek_at
from ethogram.capture.records import records
from ethogram.capture.source import Source
from ethogram.traces import File, Message, Missing, Outcome, Text, ToolResult, cut_whole

from . import tau2_voice
from ._shared import add_crash, add_tool, as_object, verdict

FORMAT = "tau2"
USER = tau2_voice.USER
_REVIEWS = ("review", "user_only_review", "hallucination_check", "auth_classification")
_CHECKS = {
    "env_assertions": ("met", "env_assertion"),
    "action_checks": ("action_match", "action"),
    "nl_assertions": ("met", "justification"),
    "communicate_checks": ("met", "justification"),
}
_ELSEWHERE = {
    *("id", "task_id", "trial", "seed", "reward_info", "messages", "ticks", "start_time", "end_time", "info"),
    *("policy", *_REVIEWS),
}
_INFO_ELSEWHERE = {"user_info", "agent_info", "environment_info"}
_OWN_FIELDS = {
    *("role", "content", "tool_calls", "id", "requestor", "error", "timestamp", "cost", "usage", "tool_messages"),
    *("generation_time_seconds", "audio_path", "audio_content", "audio_script_gold"),
}
MARKS = frozenset(["info", "termination_reason"])


def sniff(peek: Peek) -> int:
    """A run names its agent and its environment; a simulation names its task and why it ended."""
    first = peek.first
    info = as_dict(first.get("info"))
    if peek.shape == "object" and {"agent_info", "user_info"} <= info.keys():
        return 95
    return 92 if _is_simulation(first) else 0


def read(source: Source, intake: Intake) -> None:
    """One trace per simulation."""
    first = peek_at(source).first
    if _is_simulation(first):
        for where, item in records(source, intake):
            with intake.record(where):
                _Simulation(as_object(item, "the simulation"), where, intake).read()
        return
    info = {}
    tasks: dict[str, Any] = {}
    with suppress(ijson.JSONError, ValueError):  # the pass over the simulations reports what is wrong with the JSON
        info = as_dict(next(source.items("info"), {}))
    with suppress(ijson.JSONError, ValueError):
        tasks = {as_name(t.get("id")): t for t in source.items("tasks.item") if isinstance(t, dict)}
    count = 0
    with intake.record("the rest of the file"):
        for item in source.items("simulations.item"):
            where = f"simulation {count}"
            count += 1
            with intake.record(where):
                _Simulation(as_object(item, "the simulation"), where, intake, info, tasks).read()
    if count == 0:
        intake.skip(source.name, "no simulations here: in the dir format each is a file of its own")
        intake.lose("info (of a run without simulations)")


def _is_simulation(item: dict[str, Any]) -> bool:
    return {"task_id", "termination_reason"} <= item.keys() and ("messages" in item or "ticks" in item)


class _Simulation:
    """One run of one task."""

    def __init__(
        self,
        item: dict[str, Any],
        where: str,
        intake: Intake,
        info: dict[str, Any] | None = None,
        tasks: dict[str, Any] | None = None,
    ) -> None:
        self.item = item
        self.where = where
        self.intake = intake
        self.info = info or {}
        self.task = (tasks or {}).get(as_name(item.get("task_id")))
        self.agent_info = as_dict(self.info.get("agent_info"))
        self.user_info = as_dict(self.info.get("user_info"))

    def read(self) -> None:
        item = self.item
        name = as_name(item.get("id"))
        key = name or f"{as_name(item.get('task_id'))}/{as_name(item.get('trial'))}"
        with self.intake.trace(key, worldwide=bool(name)) as trace:
            trace.task = as_name(item.get("task_id"))
            trace.attempt = as_int(item.get("trial"))
            trace.seed = as_int(item.get("seed"))
            trace.agent = as_name(self.agent_info.get("implementation"))
            trace.outcome = self._outcome()
            trace.meta = self._meta()
            root = trace.add(self._root())
            if as_list(item.get("messages")) or not as_list(item.get("ticks")):
                self._messages(trace, root)
                trace.lose("tick (its messages are kept)", len(as_list(item.get("ticks"))))
            else:
                model = {"model": as_name(self.agent_info.get("llm")) or None, "parent_id": root}
                tau2_voice.read_ticks(as_list(item["ticks"]), trace, self.intake, self.where, model)
            error = as_text(as_dict(item.get("info")).get("error"))
            if error:
                add_crash(trace, error, parent_id=root)
            self._labels(trace)

    def _outcome(self) -> Outcome:
        reason = as_name(self.item.get("termination_reason"))
        if reason == "infrastructure_error":
            return Missing("infrastructure.other", cut_whole(as_text(as_dict(self.item.get("info")).get("error")), 300))
        outcome = verdict(as_dict(self.item.get("reward_info")).get("reward"), "reward")
        return Missing("unscored", reason) if isinstance(outcome, Missing) else outcome

    def _meta(self) -> dict[str, Any]:
        environment = as_dict(self.info.get("environment_info"))
        return {
            **{k: v for k, v in self.item.items() if k not in _ELSEWHERE},
            "domain": environment.get("domain_name"),
            "agent_llm": self.agent_info.get("llm"),
            "user_llm": self.user_info.get("llm"),
            "user": self.user_info.get("implementation"),
            "info": to_json(self.item["info"]) if self.item.get("info") else None,
            "reward_info": to_json(self.item["reward_info"]) if self.item.get("reward_info") else None,
            "task": to_json(self.task) if self.task else None,
        }

    def _root(self) -> Draft:
        """The whole simulation: its times, what its two sides were told, and how the run was set up."""
        policy = self.item.get("policy") or as_dict(self.info.get("environment_info")).get("policy")
        told = (("policy", policy), ("user_guidelines", self.user_info.get("global_simulation_guidelines")))
        setup: dict[str, Any] = {k: v for k, v in self.info.items() if k not in _INFO_ELSEWHERE and v is not None}
        for side, part in (("agent", self.agent_info), ("user", self.user_info)):
            setup[side] = {k: v for k, v in part.items() if v is not None and k != "global_simulation_guidelines"}
        tools = as_dict(self.info.get("environment_info")).get("tool_defs")
        return Draft(
            kind="agent",
            name=as_name(self.agent_info.get("implementation")) or "simulation",
            start_ns=iso_ns(self.item.get("start_time")),
            end_ns=iso_ns(self.item.get("end_time")),
            input=[Message("system", (Text(text),), name) for name, text in told if isinstance(text, str) and text],
            attributes={k: v for k, v in {**setup, "tools": tools}.items() if v},
        )

    def _messages(self, trace: TraceBuilder, root: str) -> None:
        chat = _Dialogue(trace, root, self.agent_info, self.user_info)
        for position, item in enumerate(as_list(self.item.get("messages"))):
            with self.intake.record(f"{self.where}, message {position}"):
                chat.add(as_object(item, "the message"))
        chat.close()

    def _labels(self, trace: TraceBuilder) -> None:
        reward = as_dict(self.item.get("reward_info"))
        matched = as_dict(reward.get("db_check")).get("db_match")
        if isinstance(matched, bool):
            trace.label("db_match", matched, by=FORMAT)
        for name, value in as_dict(reward.get("reward_breakdown")).items():
            trace.label(f"reward.{name}", as_float(value), by=FORMAT)
        for kind, (field, reason) in _CHECKS.items():
            for check in as_list(reward.get(kind)):
                check = as_dict(check)
                met = check.get(field)
                why = as_text(check.get(reason)) or to_json(check)
                trace.label(kind, met if isinstance(met, bool) else None, by=FORMAT, why=why)
        for kind in _REVIEWS:
            if self.item.get(kind):
                trace.label(kind, None, by=FORMAT, source="judge", why=to_json(self.item[kind]))


class _Dialogue:
    """Feeds the messages of a text simulation; what the user does with tools never reaches the agent."""

    def __init__(self, trace: TraceBuilder, root: str, agent: dict[str, Any], user: dict[str, Any]) -> None:
        self._trace = trace
        self._root = root
        self._chat = ChatBuilder(trace, failed=lambda result: result.failed)
        self._models = {"assistant": agent, USER: user}
        self._open = OpenCalls()
        self._clock: int | None = None

    def add(self, item: dict[str, Any]) -> None:
        """Add one message of either side, or the results of several tools."""
        if isinstance(item.get("tool_messages"), list):
            for single in item["tool_messages"]:
                self.add({**as_dict(single), "role": "tool"})
            return
        message = _message(item, self._trace)
        details = self._details(item)
        if message.role == "tool" and item.get("requestor") == USER:
            self._user_tool(message, details)
        elif message.role == "user":
            details |= {"lane": USER, "agent": USER}
            if message.tool_calls:  # the agent does not see what the user does on their own device
                for call in message.tool_calls:
                    self._open.add(call)
                self._trace.add(Draft(kind="user", name=USER, output=(message,), stop_reason="tool_calls", **details))
            else:
                self._chat.add(message, **details)
        else:
            self._chat.add(message, **details)

    def close(self) -> None:
        """Report what never got a result."""
        self._chat.close()
        for call, _ in self._open.take_all():
            add_tool(self._trace, call, None, parent_id=self._root, lane=USER, agent=USER)

    def _user_tool(self, message: Message, details: dict[str, Any]) -> None:
        result = next(p for p in message.parts if isinstance(p, ToolResult))
        add_tool(self._trace, self._open.call_for(result), message, **details, lane=USER, agent=USER)

    def _details(self, item: dict[str, Any]) -> dict[str, Any]:
        """Times, tokens, cost and the rest; a message is stamped when it is finished."""
        end = iso_ns(item.get("timestamp"))
        took = as_float(item.get("generation_time_seconds"))
        start = end
        if end is not None and took is not None:
            start = max(end - round(took * 1e9), self._clock or 0)
        if end is not None:
            start, self._clock = min(start or end, end), end
        kept = {k: v for k, v in item.items() if k not in _OWN_FIELDS and v is not None}
        details: dict[str, Any] = {"parent_id": self._root, "start_ns": start, "end_ns": end, "attributes": kept}
        side = self._models.get(as_name(item.get("role")))
        if side is not None:
            raw = as_dict(item.get("raw_data"))
            details |= usage_tokens(item.get("usage"))
            details["cost_usd"] = as_float(item.get("cost"))
            details["model"] = as_name(side.get("llm") or raw.get("model")) or None
            details["params"] = as_dict(side.get("llm_args"))
        return details


def _message(item: dict[str, Any], trace: TraceBuilder) -> Message:
    """A message; a tool's answer names its call by `id`, and spoken words may come as sound."""
    if item.get("role") == "tool":
        return chat_message({**item, "tool_call_id": item.get("tool_call_id") or item.get("id")})
    script = item.get("audio_script_gold")
    content = item.get("content")
    sound: tuple[File, ...] = ()
    if item.get("is_audio") and isinstance(content, str) and len(content) > 200 and " " not in content:
        sound = (media("audio", content),)  # the bytes themselves, in base64
        item = {**item, "content": script}
    elif item.get("audio_path"):
        sound = (File("audio", uri=as_text(item["audio_path"])),)
    if item.get("audio_content"):
        trace.lose("audio_content")
    message = chat_message(item)
    return Message(message.role, (*message.parts, *sound), message.name) if sound else message
