"""OpenClaw telemetry: JSON lines of `message.*`, `agent.*` and `tool.*` events; one trace a file.

`agent.*` events repeat the whole conversation so far: a turn is read the first time it appears. Sub-agents are
lanes. A tool's time stands in `tool.*` events and its result in the conversation, later: tool events wait for it
(at most 10 000 a lane); those that never find it are tool spans without a result.
"""

from __future__ import annotations

from collections import Counter

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.intake import Intake
from ethogram.capture.parse import as_name, iso_ns
from ethogram.capture.peek import Peek
from ethogram.capture.source import Source

from ._openclaw_lane import OpenClawLane, OpenClawLine
from ._turns import rest_of, stem

FORMAT = "openclaw"
TYPES = {"message.in", "message.out", "message.sending", "agent.start", "agent.end", "tool.start", "tool.end"}

MARKS = frozenset(["type"])


def sniff(peek: Peek) -> int:
    """Events of an agent or a tool name their session; messages name their channel."""
    return max((_score(r) for r in peek.records if isinstance(r, dict)), default=0) if peek.shape != "array" else 0


def _score(line: OpenClawLine) -> int:
    kind = line.get("type")
    if not isinstance(kind, str) or kind not in TYPES:
        return 0
    return 92 if "sessionKey" in line or "channel" in line else 70


def read(source: Source, intake: Intake) -> None:
    """One trace, with a lane for each sub-agent."""
    with intake.record("the file"), intake.trace("telemetry") as trace:
        trace.task, trace.agent = stem(source.name), FORMAT
        log = _Log(trace, intake)
        with intake.record("the rest of the file"):
            for number, line in source.objects(intake.skip):
                with intake.record(f"line {number}"):
                    log.line(line)
        log.close()


class _Log:
    """All lanes of one file."""

    def __init__(self, trace: TraceBuilder, intake: Intake) -> None:
        self._trace = trace
        self._intake = intake
        self._lanes: dict[str, OpenClawLane] = {}
        self._kinds: Counter[str] = Counter()
        self._untimed = 0

    def line(self, line: OpenClawLine) -> None:
        kind = line.get("type")
        if not isinstance(kind, str) or not kind:
            raise ValueError("the line has no type")
        self._kinds[kind] += 1
        at = iso_ns(line.get("ts")) or iso_ns(line.get("timestamp"))
        self._untimed += at is None
        lane = self._lane(line)
        if kind == "agent.start":
            lane.start(line, at)
        elif kind == "agent.end":
            lane.end(line, at)
        elif kind in ("tool.start", "tool.end"):
            lane.tool(line, at)
        elif kind == "message.in" and isinstance(line.get("content"), str):
            lane.person(line, at)
        else:
            lane.turns.event(kind, start_ns=at, attributes=rest_of(line, "type", "ts"))

    def close(self) -> None:
        for name, lane in self._lanes.items():
            with self._intake.record(f"the end of lane {name or 'main'}"):
                lane.close()
        if not self._trace.spans:
            raise ValueError("no telemetry event in it")
        self._trace.meta |= {"events": dict(self._kinds), "events_without_time": self._untimed}
        self._trace.meta["lanes"] = len(self._lanes)

    def _lane(self, line: OpenClawLine) -> OpenClawLane:
        """Sub-agents and further agents have lanes; all channels of the main agent are one conversation."""
        key = as_name(line.get("sessionKey"))
        parts = key.split(":")
        name = ""
        if "subagent" in parts:
            name = ":".join(parts[parts.index("subagent") :])
        elif len(parts) > 1 and parts[0] == "agent" and parts[1] != "main":
            name = f"agent:{parts[1]}"
        if name not in self._lanes:
            self._lanes[name] = OpenClawLane(self._trace, self._intake, name)
        return self._lanes[name]
