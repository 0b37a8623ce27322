"""One session of OpenClaw telemetry: its runs, its conversation, and tool events that wait for their result."""

from __future__ import annotations

from collections import Counter
from hashlib import blake2b
from typing import Any

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.intake import Intake
from ethogram.capture.parse import (
    as_dict,
    as_float,
    as_int,
    as_list,
    as_name,
    as_text,
    content_parts,
    flat_text,
    iso_ns,
    to_json,
    tool_call,
)
from ethogram.traces import Message, Part, Text, ToolResult

from ._turns import Turns, count_bytes, rest_of

AGENT = "openclaw"
MAX_PENDING = 10_000

OpenClawLine = dict[str, Any]
_LINE = ("type", "ts", "timestamp", "content")
_TURN = ("role", "content", "usage", "model", "provider", "stopReason", "timestamp", "errorMessage")


class OpenClawLane:
    """One session: its runs, its conversation, its tool events that wait for a result."""

    def __init__(self, trace: TraceBuilder, intake: Intake, name: str) -> None:
        self.turns = Turns(trace, intake, lane=name, agent=AGENT, failed=lambda r: r.failed, stops=("toolUse", "stop"))
        self._trace = trace
        self._name = name or "main"
        self._runs = 0
        self._run: dict[str, Any] | None = None
        self._next: tuple[OpenClawLine, int | None] | None = None
        self._seen: set[bytes] = set()
        self._said: set[bytes] = set()
        self._heard: Counter[str] = Counter()
        self._pending: list[dict[str, Any]] = []

    def person(self, line: OpenClawLine, at: int | None) -> None:
        """A message that came in over a channel; the conversation will repeat it."""
        self._heard[line["content"]] += 1
        message = Message("user", (Text(line["content"]),))
        self._user(message, name="message.in", start_ns=at, end_ns=at, attributes=rest_of(line, *_LINE))

    def start(self, line: OpenClawLine, at: int | None) -> None:
        """A run begins. The log says so twice, first without and then with the conversation up to then, which is
        that of the runs before: it is read before the new run opens."""
        again = self._next is None and self._run is not None and self._run.get("prompt") == line.get("prompt")
        if again or "messages" in line:
            self._messages(line)
        if again:
            return
        if self._next is None or self._next[0].get("prompt") != line.get("prompt"):
            self._settle()
            self._next = (line, at)
        if "messages" in line:
            self._settle()

    def end(self, line: OpenClawLine, at: int | None) -> None:
        """A run is over."""
        self._settle()
        took = as_float(line.get("durationMs"))
        if self._run is None:
            self._begin({}, at if at is None or took is None else at - round(took * 1e6))
        self._messages(line)
        self._flush()
        self._finish(line, at)

    def tool(self, line: OpenClawLine, at: int | None) -> None:
        """A tool begins or ends; ends have no id, so they take the oldest open one of their name."""
        self._settle()
        name = as_name(line.get("toolName")) or "unknown"
        rest = rest_of(line, *_LINE, "toolName", "params", "agentId", "sessionKey")
        if line["type"] == "tool.start":
            if len(self._pending) >= MAX_PENDING:
                self._alone(self._pending.pop(0))
            self._pending.append({"name": name, "params": line.get("params"), "start_ns": at, "attributes": rest})
            return
        found = next((p for p in self._pending if p["name"] == name and "success" not in p), None)
        if found is None:
            found = {"name": name, "attributes": {}}
            self._pending.append(found)
        found |= {"success": line.get("success"), "end_ns": at, "error": line.get("error")}
        found["attributes"] = found["attributes"] | rest_of(rest, "success", "error")

    def close(self) -> None:
        """The file ends here."""
        self._settle()
        self._flush()
        self._finish({}, None)
        self.turns.close()

    def _settle(self) -> None:
        """The run that was announced takes the place of the one before."""
        if self._next is not None:
            self._finish({}, None)
            self._begin(*self._next)
            self._next = None

    def _begin(self, line: OpenClawLine, at: int | None) -> None:
        self._runs += 1
        self._run = rest_of(line, *_LINE, "messages") | {"start_ns": at}
        self.turns.parent = f"run:{self._name}:{self._runs}"

    def _finish(self, line: OpenClawLine, at: int | None) -> None:
        """The span of a run: it comes after its parts, which name it already."""
        run, self._run = self._run, None
        if run is None:
            return
        start, prompt = run.pop("start_ns"), run.get("prompt")
        if isinstance(prompt, str) and prompt and _digest(prompt) not in self._said:
            self._user(Message("user", (Text(prompt),)), start_ns=start)  # the conversation never came
        error = as_text(line.get("error")) or None
        self.turns.event(
            as_name(run.get("agentId") or line.get("agentId")) or AGENT,
            kind="agent",
            span_id=self.turns.parent,
            parent_id=None,
            start_ns=start,
            end_ns=at,
            status="error" if line.get("success") is False else "ok" if line.get("success") is True else "unset",
            error=error,
            attributes=run | rest_of(line, *_LINE, "messages", "success", "error"),
        )
        self.turns.parent = None

    def _messages(self, line: OpenClawLine) -> None:
        """The conversation so far: what is new in it."""
        for item in as_list(line.get("messages")):
            if not isinstance(item, dict):
                self._trace.lose("message (not an object)")
                continue
            mark = _mark(item)
            if mark not in self._seen:
                self._seen.add(mark)
                self._turn(item)

    def _turn(self, item: dict[str, Any]) -> None:
        role, at = as_name(item.get("role")), iso_ns(item.get("timestamp"))
        rest = rest_of(item, *_TURN)
        if role == "assistant":
            self._reply(item, rest, at)
        elif role == "toolResult":
            self._result(item, rest, at)
        elif role == "user":
            message = Message("user", tuple(content_parts(item.get("content"))))
            count_bytes(self._trace, message)
            if self._heard[message.text] > 0:
                self._heard[message.text] -= 1
                return
            self._user(message, start_ns=at, end_ns=at, attributes=rest)
        else:
            if role.endswith("Summary"):
                self.turns.cut()
            words = as_text(item.get("summary", item.get("content")))
            message = Message("other", (Text(words),), role or None)
            self.turns.system(message, role or "message", start_ns=at, attributes=rest_of(rest, "summary"))

    def _user(self, message: Message, **details: Any) -> None:
        self._said.add(_digest(message.text))
        self.turns.user(message, **details)

    def _reply(self, item: dict[str, Any], rest: dict[str, Any], at: int | None) -> None:
        usage, parts = as_dict(item.get("usage")), []
        for block in as_list(item.get("content")) or [item.get("content")]:
            parts.extend(self._part(block))
        self.turns.model(
            Message("assistant", tuple(parts)),
            [{"start_ns": at}] * len(parts),
            start_ns=at,
            model=as_name(item.get("model")) or None,
            provider=as_name(item.get("provider")) or None,
            stop_reason=as_name(item.get("stopReason")) or None,
            error=as_text(item.get("errorMessage")) or None,
            input_tokens=as_int(usage.get("input")),
            output_tokens=as_int(usage.get("output")),
            cache_read_tokens=as_int(usage.get("cacheRead")),
            cache_write_tokens=as_int(usage.get("cacheWrite")),
            cost_usd=as_float(as_dict(usage.get("cost")).get("total")),
            attributes=rest,
        )

    def _part(self, block: Any) -> list[Part]:
        if not isinstance(block, dict):
            return content_parts(block)
        if block.get("thinkingSignature") or block.get("textSignature"):
            self._trace.lose("thinking signature")
        return [tool_call(block)] if block.get("type") == "toolCall" else content_parts([block])

    def _result(self, item: dict[str, Any], rest: dict[str, Any], at: int | None) -> None:
        name, call_id = as_name(item.get("toolName")) or None, as_name(item.get("toolCallId")) or None
        result = ToolResult(flat_text(item.get("content")), name, call_id, item.get("isError") is True)
        rest = rest_of(rest, "toolName", "toolCallId", "isError")
        asked = next((w.call.arguments for w in self.turns.open if w.call.call_id == call_id), None)
        timed = self._timed(name or "", asked)
        start = timed.get("start_ns")
        end = timed.get("end_ns") or at
        self.turns.result(result, start_ns=start, end_ns=end, attributes=timed.get("attributes", {}) | rest)

    def _timed(self, name: str, arguments: str | None) -> dict[str, Any]:
        """The tool event of a result: with the same arguments if there is one, else the oldest of its name."""
        same = [p for p in self._pending if p["name"] == name]
        found = next((p for p in same if arguments is not None and to_json(p.get("params")) == arguments), None)
        found = found or (same[0] if same else None)
        if found is None:
            return {}
        self._pending.remove(found)
        return found

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        for event in pending:
            self._alone(event)

    def _alone(self, event: dict[str, Any]) -> None:
        """A tool whose result the log does not hold."""
        failed = event.get("success") is False or bool(event.get("error"))
        self._trace.lose("tool result (never came)")
        self.turns.event(
            event["name"],
            kind="tool",
            tool=event["name"],
            arguments=None if event.get("params") is None else to_json(event["params"]),
            start_ns=event.get("start_ns"),
            end_ns=event.get("end_ns"),
            status="error" if failed else "ok" if event.get("success") is True else "unset",
            error=as_text(event.get("error")) or None,
            attributes=event["attributes"],
        )


def _mark(item: dict[str, Any]) -> bytes:
    """What makes a turn the same turn when it is told again; call ids are re-spelt in later tellings."""
    content = item.get("content")
    if isinstance(content, list):
        content = [rest_of(b, "id") if isinstance(b, dict) and b.get("type") == "toolCall" else b for b in content]
    known = item.get("responseId") or [item.get("timestamp"), item.get("toolName"), item.get("summary"), content]
    return _digest(to_json([item.get("role"), known]))


def _digest(words: str) -> bytes:
    return blake2b(words.encode("utf-8", "replace"), digest_size=12).digest()
