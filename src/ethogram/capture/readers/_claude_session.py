"""One Claude Code session: lanes, API messages put together from their lines, usage counted once."""

from __future__ import annotations

from contextlib import ExitStack
from hashlib import blake2b
from typing import Any

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.intake import Intake
from ethogram.capture.parse import as_float, as_int, as_name, as_text, content_parts, from_json, iso_ns, to_json
from ethogram.traces import Message, Part, Text, ToolCall, ToolResult

from ._turns import Turns, count_bytes, rest_of

ClaudeLine = dict[str, Any]

_ONCE = ("version", "cwd", "gitBranch", "slug", "userType")
_USAGE = {
    "input_tokens": "input_tokens",
    "cache_creation_input_tokens": "cache_write_tokens",
    "cache_read_input_tokens": "cache_read_tokens",
    "output_tokens": "output_tokens",
}


class ClaudeSession:
    """One session: its trace, its lanes, and what was counted already."""

    def __init__(self, intake: Intake, key: str, *, worldwide: bool) -> None:
        self._stack = ExitStack()
        self.intake = intake
        self.trace: TraceBuilder = self._stack.enter_context(intake.trace(key, worldwide=worldwide))
        self.trace.task = key
        self.trace.agent = "claude-code"
        self.counted: dict[str, dict[str, int]] = {}
        self._lines = 0
        self._seen: set[bytes] = set()
        self._lanes: dict[str, ClaudeLane] = {"": ClaudeLane(self, "", None)}
        self._chains: dict[str, str] = {}

    def line(self, number: int, line: ClaudeLine) -> None:
        """One line: read now, or when the API message before it is complete."""
        self._lines += 1
        uuid = as_name(line.get("uuid"))
        if uuid and self._repeated(uuid, line):
            self.trace.lose("line (repeated)")
            return
        for name in _ONCE:
            value = line.get(name)
            if isinstance(value, str) and value:
                self.trace.meta.setdefault(name, value)
        lane = self._lane(line, uuid)
        if line["type"] == "assistant":
            lane.assistant(number, line)
        elif lane.reply is not None:
            lane.held.append((number, line))
        else:
            lane.other(line)

    def attributes(self, line: ClaudeLine, *known: str) -> dict[str, Any]:
        """What the line holds besides its words; the session's own facts only where they changed."""
        rest = rest_of(line, "type", "message", "sessionId", "timestamp", "isSidechain", *known)
        return {k: v for k, v in rest.items() if k not in _ONCE or v != self.trace.meta.get(k)}

    def close(self) -> None:
        """The file ends: complete what is open and commit the trace."""
        with self._stack:
            for lane in self._lanes.values():
                lane.flush()
                lane.turns.close()
            self.trace.meta["lines"] = self._lines
            if not self.trace.spans:
                raise ValueError("none of its lines could be read")

    def _repeated(self, uuid: str, line: ClaudeLine) -> bool:
        """Whether this very line was read before; only the id being the same is not enough."""
        mark = f"{uuid}\n{line.get('timestamp')}\n{to_json(line.get('message'))}".encode("utf-8", "replace")
        known = blake2b(mark, digest_size=12).digest()
        if known in self._seen:
            return True
        self._seen.add(known)
        return False

    def _lane(self, line: ClaudeLine, uuid: str) -> ClaudeLane:
        """A sidechain is named by its first line, which later lines reach through their parents."""
        if line.get("isSidechain") is not True:
            return self._lanes[""]
        agent = as_name(line.get("agentId"))
        name = self._chains.get(as_name(line.get("parentUuid")))
        if name is None and agent:
            name = self._chains.get(f"agent:{agent}")
        name = name or f"sidechain:{uuid or len(self._lanes)}"
        if uuid:
            self._chains[uuid] = name
        if agent:
            self._chains.setdefault(f"agent:{agent}", name)
        if name not in self._lanes:
            self._lanes[""].flush()  # the call that started the sub-agent comes before what it did
            self._lanes[name] = self._start_lane(name, line, agent)
        return self._lanes[name]

    def _start_lane(self, name: str, line: ClaudeLine, agent: str) -> ClaudeLane:
        """A sub-agent hangs under the open call whose prompt is its first message."""
        prompt = _words(line.get("message"))
        main = self._lanes[""].turns
        parent, label = None, "sidechain"
        for waiting in main.open:
            asked = from_json(waiting.call.arguments)
            if isinstance(asked, dict) and asked.get("prompt") and asked["prompt"] == prompt:
                parent = waiting.details.get("span_id")
                label = as_name(asked.get("subagent_type")) or label
                break
        span_id = main.event(
            label,
            kind="agent",
            span_id=name,
            parent_id=parent,
            lane=name,
            agent=label,
            start_ns=iso_ns(line.get("timestamp")),
            attributes={"agentId": agent} if agent else {},
        )
        return ClaudeLane(self, name, span_id, label)


class ClaudeReply:
    """One API message while its lines come in."""

    def __init__(self, number: int, message_id: str, attributes: dict[str, Any]) -> None:
        self.number = number
        self.message_id = message_id
        self.attributes = attributes
        self.uuids: list[str] = []
        self.parts: list[Part] = []
        self.calls: list[dict[str, Any]] = []
        self.details: dict[str, Any] = {}
        self.usage: dict[str, Any] = {}


class ClaudeLane:
    """One conversation of a session."""

    def __init__(self, session: ClaudeSession, name: str, parent: str | None, agent: str = "") -> None:
        self._session = session
        self.turns = Turns(
            session.trace,
            session.intake,
            lane=name,
            agent=agent,
            parent=parent,
            failed=lambda result: result.failed,
            stops=("tool_use", "end_turn"),
        )
        self.reply: ClaudeReply | None = None
        self.held: list[tuple[int, ClaudeLine]] = []

    def assistant(self, number: int, line: ClaudeLine) -> None:
        """A line of an API message; the message is complete when another one begins."""
        message = _message(line)
        message_id = as_name(message.get("id"))
        parts = content_parts(message.get("content"))
        if self.reply is None or not message_id or self.reply.message_id != message_id:
            self.flush()
            attributes = self._session.attributes(line, "uuid", "costUSD", "durationMs")
            self.reply = ClaudeReply(number, message_id, attributes)
        reply, at = self.reply, iso_ns(line.get("timestamp"))
        reply.uuids.append(as_name(line.get("uuid")))
        for part in parts:
            if part in reply.parts:
                self._session.trace.lose("content block (repeated)")
                continue
            reply.parts.append(part)
            if isinstance(part, ToolCall):
                reply.calls.append({"start_ns": at, "span_id": f"tool:{part.call_id}" if part.call_id else None})
        self._describe(reply, line, message, at)

    def _describe(self, reply: ClaudeReply, line: ClaudeLine, message: dict[str, Any], at: int | None) -> None:
        """Facts of the message; those of later lines win, because earlier ones are written while it streams."""
        took, known = as_float(line.get("durationMs")), reply.details
        if "start_ns" not in known:
            known["start_ns"] = at if at is None or took is None else at - round(took * 1e6)
        if at is not None:
            known["end_ns"] = max(at, known.get("end_ns") or at)
        facts = {
            "model": as_name(message.get("model")) or None,
            "stop_reason": as_name(message.get("stop_reason")) or None,
            "cost_usd": as_float(line.get("costUSD")),
        }
        known.update({k: v for k, v in facts.items() if v is not None})
        if isinstance(message.get("usage"), dict):
            reply.usage = message["usage"]
        reply.attributes.update(rest_of(message, "id", "type", "role", "model", "content", "stop_reason", "usage"))
        for block in message["content"] if isinstance(message.get("content"), list) else []:
            if isinstance(block, dict) and (block.get("signature") or block.get("type") == "redacted_thinking"):
                self._session.trace.lose("thinking signature")
        if line.get("isApiErrorMessage"):
            known["error"] = _words(message)

    def flush(self) -> None:
        """The message is complete: its span, then what was said since."""
        reply, self.reply = self.reply, None
        if reply is not None:
            with self._session.intake.record(f"line {reply.number}"):
                self._speak(reply)
        held, self.held = self.held, []
        for number, line in held:
            with self._session.intake.record(f"line {number}"):
                self.other(line)

    def _speak(self, reply: ClaudeReply) -> None:
        message = Message("assistant", tuple(reply.parts))
        count_bytes(self._session.trace, message)
        attributes = {**reply.attributes, "uuids": reply.uuids}
        if reply.message_id:
            attributes["message_id"] = reply.message_id
        if reply.usage.keys() - _USAGE.keys():
            attributes["usage"] = reply.usage
        span_id = next((u for u in reply.uuids if u), None)
        details = {**reply.details, **self._tokens(reply), "attributes": attributes, "span_id": span_id}
        self.turns.model(message, reply.calls, **details)

    def _tokens(self, reply: ClaudeReply) -> dict[str, int]:
        """The usage; of a message that was counted already (its lines stand far apart) only what is new."""
        usage = {ours: n for theirs, ours in _USAGE.items() if (n := as_int(reply.usage.get(theirs))) is not None}
        if not reply.message_id:
            return usage
        before = self._session.counted.get(reply.message_id)
        if before is None:
            self._session.counted[reply.message_id] = usage
            return usage
        self._session.trace.lose("usage (of a message that was counted)")
        self._session.counted[reply.message_id] = {k: max(n, before.get(k, 0)) for k, n in {**before, **usage}.items()}
        return {k: n - before.get(k, 0) for k, n in usage.items() if n > before.get(k, 0)}

    def other(self, line: ClaudeLine) -> None:
        """A line of anyone but the model."""
        at = iso_ns(line.get("timestamp"))
        if line["type"] == "user":
            self._user(line, at)
            return
        attributes = self._session.attributes(line, "uuid")
        name = line["type"] if not line.get("subtype") else f"{line['type']}:{as_name(line['subtype'])}"
        span_id = as_name(line.get("uuid")) or None
        self.turns.event(name, span_id=span_id, start_ns=at, end_ns=at, attributes=attributes)
        if line.get("subtype") == "compact_boundary":
            self.turns.cut()

    def _user(self, line: ClaudeLine, at: int | None) -> None:
        """A person's words, or the results of tools, or both in one line."""
        parts = content_parts(_message(line).get("content"))
        attributes = self._session.attributes(line, "toolUseResult")
        outcome = line.get("toolUseResult")
        if line.get("isCompactSummary"):
            self.turns.cut()
        results = [p for p in parts if isinstance(p, ToolResult)]
        for i, result in enumerate(results):
            extra = dict(attributes)
            if i == 0 and outcome is not None and outcome != result.content:
                extra["toolUseResult"] = outcome
            self.turns.result(result, end_ns=at, attributes=extra)
        rest = tuple(p for p in parts if not isinstance(p, ToolResult))
        if rest or not results:
            message = Message("user", rest)
            count_bytes(self._session.trace, message)
            span_id = as_name(attributes.pop("uuid", None)) or None
            self.turns.user(message, span_id=span_id, start_ns=at, end_ns=at, attributes=attributes)


def _message(line: ClaudeLine) -> dict[str, Any]:
    """The message of a line, also where it is a plain string."""
    message = line.get("message")
    if isinstance(message, str):
        return {"content": message}
    if not isinstance(message, dict):
        raise TypeError(f"the message is a {type(message).__name__}, not an object")
    return message


def _words(message: Any) -> str:
    content = message.get("content") if isinstance(message, dict) else message
    return "\n".join(p.text for p in content_parts(content) if isinstance(p, Text)) or as_text(content)
