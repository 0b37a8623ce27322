"""Claude Code sessions: JSON lines, of one session or of several.

One API message is spread over several lines that share `message.id` and repeat its usage: together they are one
model span, whose usage is that of the last line. Sub-agents (`isSidechain`) are lanes of their own.

Memory: of each lane only the API message being put together, what was said after it and before the next one,
and the calls without a result; of each session the ids of its lines and messages (about 150 bytes a line), so
that copies are noticed. Lines are never kept.
"""

from __future__ import annotations

from typing import Any

from ethogram.capture.intake import Intake
from ethogram.capture.parse import as_name
from ethogram.capture.peek import Peek
from ethogram.capture.source import Source

from ._claude_session import ClaudeSession

FORMAT = "claude-code"
TYPES = {"user", "assistant", "system", "summary", "file-history-snapshot", "queue-operation", "progress"}
MAX_HELD = 1000
MARKS = frozenset(["type"])


def sniff(peek: Peek) -> int:
    """Lines have a type, a session and a message with a role, or they are summaries that point at a leaf."""
    return max((_score(r) for r in peek.records if isinstance(r, dict)), default=0) if peek.shape != "array" else 0


def _score(line: dict[str, Any]) -> int:
    kind = line.get("type")
    if not isinstance(kind, str) or kind not in TYPES:
        return 0
    if "sessionId" in line and ("message" in line or "uuid" in line):
        return 95
    if "parentUuid" in line and "message" in line:
        return 90
    return 80 if {"summary", "leafUuid"} <= line.keys() else 0


def read(source: Source, intake: Intake) -> None:
    """One trace per session."""
    log = _Log(intake)
    with intake.record("the rest of the file"):
        for number, line in source.objects(intake.skip):
            with intake.record(f"line {number}"):
                log.line(number, line)
    log.close()


class _Log:
    """The sessions of one file, all open until its end: lines of several sessions may alternate."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._sessions: dict[str, ClaudeSession] = {}
        self._last: ClaudeSession | None = None
        self._early: list[tuple[int, dict[str, Any]]] = []

    def line(self, number: int, line: dict[str, Any]) -> None:
        if not isinstance(line.get("type"), str) or not line["type"]:
            raise ValueError("the line has no type")
        session = self._session(line)
        if session is not None:
            session.line(number, line)
        elif len(self._early) < MAX_HELD:
            self._early.append((number, line))
        else:
            raise ValueError("no session has begun")

    def _session(self, line: dict[str, Any]) -> ClaudeSession | None:
        """The session of a line; one that names none (a summary) belongs to the session before it, or the first."""
        name = as_name(line.get("sessionId"))
        if not name and (self._last is not None or line["type"] not in ("user", "assistant")):
            return self._last
        key, known = name or "session", self._sessions
        agent = as_name(line.get("agentId"))
        if line.get("isSidechain") is True and agent and key not in known:
            key = f"{key}/{agent}"  # a sub-agent's own file: not a new telling of the session that started it
        if key not in known:
            known[key] = ClaudeSession(self._intake, key, worldwide=bool(name))
            early, self._early = self._early, []
            for number, held in early:
                with self._intake.record(f"line {number}"):
                    known[key].line(number, held)
        self._last = known[key]
        return self._last

    def close(self) -> None:
        if not self._sessions and not self._early:
            self._intake.skip("the file", "no session in it")
        for number, _ in self._early:
            self._intake.skip(f"line {number}", "belongs to no session: the file has none")
        for key, session in self._sessions.items():
            with self._intake.record(f"the end of session {key}"):
                session.close()
