"""mini-swe-agent trajectories: a bare list of `{role, content}` (v1), or `{info, messages, trajectory_format}`.

The agent writes one shell command in a fenced block, and the next message is what it printed: that pair is a
tool span `bash`. The messages themselves stay as they are, in number, order and words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

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
    iso_ns,
    to_json,
    usage_tokens,
)
from ethogram.capture.peek import Peek, peek_at
from ethogram.capture.records import records
from ethogram.capture.source import Source
from ethogram.traces import Message, ToolCall, ToolResult

from ._shared import as_listing, as_object
from ._turns import Turns, add_whole, count_bytes, plain_meta, rest_of, stem

FORMAT = "mini-swe-agent"
TOOL = "bash"

_BLOCK = re.compile(r"```(?:mswea_bash_command|bash|sh)[ \t]*\r?\n(.*?)\r?\n?```", re.DOTALL)
_CODE = re.compile(r"<returncode>\s*(-?\d+)\s*</returncode>")
_STRONG = ("COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "mswea_bash_command", "MINI_SWE_AGENT")
_MESSAGE = ("role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content", "extra")
MARKS = frozenset(["info", "trajectory_format"])


def sniff(peek: Peek) -> int:
    """Documents name the format; a bare list is claimed only where its words show this agent's protocol."""
    if peek.shape == "array" and "role" in peek.first:
        words = [as_text(r.get("content")) for r in peek.records if isinstance(r, dict)]
        if any(mark in w for mark in _STRONG for w in words):
            return 90
        return 85 if any("```bash" in w for w in words) and any("<returncode>" in w for w in words) else 0
    return max((_score(r) for r in peek.records if isinstance(r, dict)), default=0)


def _score(item: dict[str, Any]) -> int:
    info = as_dict(item.get("info"))
    if as_name(item.get("trajectory_format")).startswith("mini-swe-agent") or "mini_version" in info:
        return 98
    if not info:
        return 0
    words = [as_text(m.get("content")) for m in as_list(item.get("messages"))[:20] if isinstance(m, dict)]
    return 88 if any(mark in w for mark in _STRONG for w in words) else 0


def read(source: Source, intake: Intake) -> None:
    """One trace per list of messages."""
    peek = peek_at(source)
    with intake.record("the rest of the file"):
        if peek.shape == "array" and "messages" not in peek.first:
            with intake.trace("run") as trace:
                trace.task, trace.agent = stem(source.name, ".traj.json", ".traj"), FORMAT
                _Run(trace, intake, None, {}).read(records(source, intake))
            return
        for where, item in records(source, intake):
            with intake.record(where):
                key = "run" if where == "the document" else where
                _read_document(as_object(item, "the document"), key, source, intake)


def _read_document(item: dict[str, Any], key: str, source: Source, intake: Intake) -> None:
    messages, info = as_listing(item.get("messages"), "`messages`"), as_dict(item.get("info"))
    config, stats = as_dict(info.get("config")), as_dict(info.get("model_stats"))
    model = as_dict(config.get("model"))
    facts: dict[str, Any] = {"model": as_name(model.get("model_name")) or None}
    facts["params"] = {k: v for k, v in as_dict(model.get("model_kwargs")).items() if isinstance(v, int | float | str)}
    with intake.trace(key) as trace:
        name = as_name(item.get("instance_id") or info.get("instance_id"))
        trace.task, trace.agent = name or stem(source.name, ".traj.json", ".traj"), FORMAT
        trace.answer = info["submission"] if isinstance(info.get("submission"), str) else None
        meta = rest_of(info, "submission", "config", "model_stats") | stats
        trace.meta = plain_meta(trace, meta | rest_of(item, "messages", "info", "instance_id"))
        root = Draft(kind="agent", name=FORMAT, agent=FORMAT, attributes={"info": rest_of(info, "submission")})
        run = _Run(trace, intake, add_whole(trace, intake, root), facts)
        run.whole(messages, as_float(stats.get("instance_cost")))
        run.read((f"message {i}", m) for i, m in enumerate(messages))


class _Run:
    """One list of messages, read in order."""

    def __init__(self, trace: TraceBuilder, intake: Intake, root: str | None, facts: dict[str, Any]) -> None:
        self._trace = trace
        self._intake = intake
        self._facts = facts
        self._turns = Turns(trace, intake, agent=FORMAT, parent=root, failed=_failed)
        self._first = trace.spans
        self._last: Any = None
        self._cost: float | None = None

    def whole(self, messages: list[Any], cost: float | None) -> None:
        """Where no message has its own cost, the run's cost is counted at its last reply."""
        replies = [m for m in messages if isinstance(m, dict) and m.get("role") == "assistant"]
        if cost is not None and replies and all(as_dict(m.get("extra")).get("cost") is None for m in replies):
            self._last, self._cost = replies[-1], cost
            self._trace.meta["usage_is_per_trace"] = True

    def read(self, items: Iterable[tuple[str, Any]]) -> None:
        """All messages, as far as the file goes."""
        with self._intake.record("the rest of the file"):
            for where, item in items:
                with self._intake.record(where):
                    self._add(as_object(item, "the message"))
        self._turns.close()
        if self._trace.spans == self._first:
            raise ValueError("no message in it")

    def _add(self, item: dict[str, Any]) -> None:
        message, extra = chat_message(item), as_dict(item.get("extra"))
        count_bytes(self._trace, message)
        rest = rest_of(item, *_MESSAGE) | rest_of(extra, "response", "cost", "timestamp")
        at = iso_ns(extra.get("timestamp"))
        if message.role == "assistant":
            self._reply(item, message, extra, rest, at)
        elif message.role == "system":
            self._turns.system(message, start_ns=at, attributes=rest)
        elif message.role == "other":
            self._turns.system(message, as_name(item.get("role")) or "other", start_ns=at, attributes=rest)
        elif self._turns.open or message.role == "tool":
            self._answer(message, rest, at)
        else:
            self._turns.user(message, start_ns=at, attributes=rest)

    def _reply(
        self, item: dict[str, Any], message: Message, extra: dict[str, Any], rest: dict[str, Any], at: int | None
    ) -> None:
        self._turns.unanswered()
        response = as_dict(extra.get("response"))
        choice = as_dict((as_list(response.get("choices")) or [None])[0])
        rest |= {f"response_{k}": v for k, v in rest_of(response, "choices").items()}
        commands = [] if message.tool_calls else _commands(message.text, extra)
        details: dict[str, Any] = {**self._facts, **usage_tokens(response.get("usage")), "start_ns": at}
        details["model"] = as_name(response.get("model")) or details.get("model")
        details["cost_usd"] = self._cost if item is self._last else as_float(extra.get("cost"))
        details["stop_reason"] = as_name(choice.get("finish_reason")) or ("tool_calls" if commands else None)
        calls = [{"start_ns": at} for _ in message.tool_calls]
        self._turns.model(message, calls, attributes=rest, **details)
        for command in commands:
            self._turns.call(ToolCall(TOOL, to_json({"command": command})), start_ns=at)

    def _answer(self, message: Message, rest: dict[str, Any], at: int | None) -> None:
        """What the command printed; its return code says whether it failed."""
        found = _CODE.search(message.text[:2000])
        code = as_int(rest.get("returncode")) if found is None else int(found[1])
        if code is not None:
            rest = {**rest, "returncode": code}
        known = next((p for p in message.parts if isinstance(p, ToolResult)), None)
        result = ToolResult(message.text, known.name if known else None, known.call_id if known else None, bool(code))
        self._turns.result(result, message, end_ns=at, attributes=rest)


def _commands(words: str, extra: dict[str, Any]) -> list[str]:
    """The command of a reply: what the agent itself parsed, else the one fenced block (two are a format error)."""
    actions = extra.get("actions")
    if isinstance(actions, list):
        return [as_text(a.get("command", a) if isinstance(a, dict) else a) for a in actions]
    blocks: list[str] = _BLOCK.findall(words)
    return blocks if len(blocks) == 1 else []


def _failed(result: ToolResult) -> bool:
    return result.failed
