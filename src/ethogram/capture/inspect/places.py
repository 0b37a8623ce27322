"""Where events of an Inspect sample happened: the spans that were begun, and the older nested steps."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from ethogram.capture.parse import as_name
from ethogram.traces import Kind

ROOT = "sample"
"""The id of the span that stands for the whole sample."""
OWN = "ethogram"
"""Key in the metadata of events, messages and samples for what only our own writer says."""

_KINDS: dict[str, Kind] = {
    **{"agent": "agent", "handoff": "handoff", "scorer": "judge", "scorers": "judge", "sentinel": "judge"},
    **{"retrieval": "retrieval", "memory": "memory", "user": "user", "judge": "judge"},
}


class OpenSpan(msgspec.Struct):
    """A span that was begun: who works in it, and the tool event that it is about."""

    id: str
    name: str
    type: str
    kind: Kind
    above: OpenSpan | None
    agent: str
    lane: str
    judge: bool
    event: dict[str, Any]
    tool: dict[str, Any] | None = None

    def inner(self, span_id: str, name: str, event: dict[str, Any]) -> OpenSpan:
        """A place inside this one, with the same people in it."""
        return OpenSpan(span_id, name, "", "other", self, self.agent, self.lane, self.judge, event)

    def line(self) -> set[str]:
        """Ids of this place and all above it."""
        found: set[str] = set()
        at: OpenSpan | None = self
        while at is not None and at.id not in found:
            found.add(at.id)
            at = at.above
        return found


class EventScope(msgspec.Struct):
    """A list of events: the sample's own, or the one inside an old tool or subtask event."""

    base: OpenSpan
    steps: list[OpenSpan] = []

    @property
    def here(self) -> OpenSpan:
        """The innermost step."""
        return self.steps[-1] if self.steps else self.base


class Places:
    """All spans of a sample that were begun, and those that are still open."""

    def __init__(self, agent: str, root: str) -> None:
        """`agent` names the agent wherever the log does not; `root` is the id of the span above all."""
        self.root = OpenSpan(root, root, "", "agent", None, agent, "", False, {})
        self.open: dict[str, OpenSpan] = {}
        self._known: dict[str, OpenSpan] = {}
        self._lanes: Counter[str] = Counter()

    def of(self, event: dict[str, Any], scope: EventScope) -> OpenSpan:
        """The span in which an event happened."""
        return self._known.get(as_name(event.get("span_id"))) or scope.here

    def begin(self, event: dict[str, Any], scope: EventScope) -> None:
        """A span begins."""
        span_id = as_name(event.get("id"))
        above = event.get("parent_id") or event.get("span_id")
        parent = self._known.get(as_name(above)) if above != span_id else None
        self._known[span_id] = self.open[span_id] = self.new(span_id, event, parent or scope.here)

    def new(self, span_id: str, event: dict[str, Any], above: OpenSpan) -> OpenSpan:
        """A place for a span or a step. An agent that starts while another one works has a lane of its own."""
        type_, name = as_name(event.get("type")), as_name(event.get("name"))
        kind = _KINDS.get(type_, "other")
        agent, lane = above.agent, above.lane
        if kind == "agent":
            agent = name
            if any(p.kind == "agent" for p in self.open.values()):
                self._lanes[name] += 1
                lane = name if self._lanes[name] == 1 else f"{name}#{self._lanes[name]}"
        judge = above.judge or kind == "judge"
        return OpenSpan(span_id, name or type_ or "span", type_, kind, above, agent, lane, judge, event)

    def waiting(self, event: dict[str, Any]) -> OpenSpan | None:
        """The open span that was begun for this tool call: the oldest of its name without another call."""
        above = event.get("span_id")
        for place in self.open.values():
            if place.type != "tool" or place.name != event.get("function"):
                continue
            taken = place.tool is not None and not (
                place.tool.get("pending") and place.tool.get("uuid") == event.get("uuid")
            )
            if not taken and (above is None or above in place.line()):
                return place
        return None
