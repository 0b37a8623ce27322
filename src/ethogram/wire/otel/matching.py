"""Match spans of telemetry with work that a recorder has seen as well: the same model call, the same tool call.

What passed the gateway or went through the recorder is kept, with its words and its usage; telemetry adds where it
belongs. In this order: telemetry that was open around the call, the id of the response, then time together with what
was said. Two sources that disagree about a call's words are two calls.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ethogram.capture.draft import Draft
from ethogram.capture.parse import from_json
from ethogram.traces import Message, ToolCall

SLACK_NS = 50_000_000
"""How far clocks may differ inside one machine."""
LATE_NS = 2_000_000_000
"""How much later than it ends a reply may be recorded on a busy machine."""
HANDED_OVER = "transfer_to_"
"""How tools are named that hand over to another agent."""


class Told(NamedTuple):
    """What two sources that tell of one call both know of it."""

    span_id: str
    parent_id: str | None
    kind: str
    name: str
    start_ns: int
    end_ns: int
    failed: bool
    response: str = ""
    model: str = ""
    words: tuple[str, ...] = ()
    output_tokens: int | None = None
    call_id: str = ""
    arguments: str = ""
    result: str = ""
    scope: str = ""
    from_wire: bool = False


def told_by(draft: Draft) -> Told:
    """The facts of a span that matter here."""
    start = draft.start_ns or 0
    scope = draft.attributes.get("otel.scope")
    return Told(
        span_id=draft.span_id or "",
        parent_id=draft.parent_id,
        kind=draft.kind,
        name=draft.name,
        start_ns=start,
        end_ns=start if draft.end_ns is None else draft.end_ns,
        failed=draft.status == "error",
        response=response_of(draft),
        model=draft.model or "",
        words=words_said(draft.output) if draft.kind == "model" else (),
        output_tokens=draft.output_tokens,
        call_id=draft.call_id or _answered(draft.result),
        arguments=draft.arguments or "",
        result=draft.result or "",
        scope=scope if isinstance(scope, str) else "",
        from_wire=draft.attributes.get("seen") == "wire",
    )


def _answered(result: str | None) -> str:
    """The call that a result of LangChain answers: a message of a tool, written as JSON."""
    if result is None or '"tool_call_id"' not in result:
        return ""
    message = from_json(result)
    inner = message.get("data", message) if isinstance(message, dict) else None
    found = inner.get("tool_call_id") if isinstance(inner, dict) else None
    return found if isinstance(found, str) else ""


def response_of(draft: Draft) -> str:
    """The id that a provider gave to its response, wherever a dialect keeps it."""
    found = draft.params.get("response_id")
    for key in ("gen_ai.response.id", "llm.response.id"):
        found = found or draft.attributes.get(key)
    whole = draft.attributes.get("output.value")
    if not found and isinstance(whole, dict):
        inner = whole.get("llm_output")
        found = whole.get("id") or (inner.get("id") if isinstance(inner, dict) else None)
    return found if isinstance(found, str) else ""


def words_said(output: Iterable[Message]) -> tuple[str, ...]:
    """What a model said, and which tools it asked for, without white space around it."""
    found: list[str] = []
    for message in output:
        found += [message.text.strip()] if message.text.strip() else []
        found += [f"{part.name}()" for part in message.parts if isinstance(part, ToolCall)]
    return tuple(found)


def same_model_call(telemetry: Told, seen: Told) -> int:
    """How sure it is that both tell of one call of a model: 0 if they cannot, 3 by the id of the response."""
    if telemetry.response and seen.response:
        return 3 if telemetry.response == seen.response else 0
    if not telemetry.start_ns - SLACK_NS <= seen.start_ns <= telemetry.end_ns + SLACK_NS:
        return 0
    if telemetry.words and seen.words:
        return 2 if telemetry.words == seen.words else 0
    if telemetry.words and not seen.failed:
        return 0
    counted = (telemetry.output_tokens, seen.output_tokens)
    if None not in counted and counted[0] != counted[1]:
        return 0
    return int(_like(telemetry.model, seen.model))


def _like(one: str, other: str) -> bool:
    """Whether two names may mean one model: with a date or without, with the provider before it or not."""
    a, b = sorted((one.rpartition("/")[2], other.rpartition("/")[2]), key=len)
    return not a or b.startswith(a)


def same_tool_call(telemetry: Told, seen: Told) -> int:
    """How sure it is that both tell of one call of a tool: 0 if they cannot, 3 by the id of the call."""
    handoff = telemetry.kind == "handoff" and seen.name.startswith(HANDED_OVER)
    if telemetry.name != seen.name and not handoff:
        return 0
    if seen.from_wire and telemetry.call_id and telemetry.call_id == seen.call_id:
        return 3
    if seen.from_wire:  # its times are those of the model's question and of the next request
        inside = seen.start_ns - LATE_NS <= telemetry.start_ns <= seen.end_ns + SLACK_NS
    else:
        inside = telemetry.start_ns - SLACK_NS <= seen.start_ns <= telemetry.end_ns + SLACK_NS
    if not inside:
        return 0
    if handoff:
        return 1
    ours, theirs = from_json(seen.arguments or "{}"), from_json(telemetry.arguments or "{}")
    alike = ours == theirs
    # what is no JSON, such as a printed dictionary, tells nothing
    if telemetry.arguments and seen.arguments and not alike and theirs is not None:
        return 0
    return 2 if alike else 1


class Matches:
    """The telemetry of an episode beside what its recorder has seen."""

    def __init__(self, telemetry: Sequence[Told], seen: Sequence[Told]) -> None:
        """Telemetry in the order in which it began."""
        self._telemetry = {one.span_id: one for one in telemetry}
        self._seen = {one.span_id: one for one in seen}
        self._taken: set[tuple[str, str]] = set()
        self.same: dict[str, list[str]] = {}
        """Spans of telemetry that tell of recorded work, each with the recorded spans (a client tries again)."""
        inside = self._models_inside()
        self._around()
        self._models_apart([one for one in telemetry if one.kind == "model" and one.span_id not in inside])
        self._tools_apart([one for one in telemetry if one.kind in ("tool", "handoff")])
        self._wrappers(inside)

    def _above(self, one: Told) -> Iterator[Told]:
        """Spans of telemetry above a span, through those of the recorder, with no other work in between."""
        known: set[str] = set()
        parent = one.parent_id
        while parent is not None and parent not in known:
            known.add(parent)
            above = self._telemetry.get(parent)
            if above is not None:
                yield above
                if above.kind not in ("model", "other") and above.kind != one.kind:
                    return
            found = above or self._seen.get(parent)
            parent = None if found is None else found.parent_id

    def _models_inside(self) -> dict[str, set[str]]:
        """Models of telemetry that wrap others, each with those inside it."""
        inside: dict[str, set[str]] = {}
        for one in self._telemetry.values():
            if one.kind == "model":
                for above in self._above(one):
                    if above.kind == "model":
                        inside.setdefault(above.span_id, set()).add(one.span_id)
        return inside

    def _around(self) -> None:
        """Telemetry that was open when a recorded call began."""
        for one in self._seen.values():
            if one.kind in ("model", "tool"):
                same = (up for up in self._above(one) if up.kind == one.kind and one.name in (up.name, "chat"))
                above = next(same, None)
                if above is not None:
                    self._join(above, one)

    def _join(self, telemetry: Told, seen: Told) -> None:
        self.same.setdefault(telemetry.span_id, []).append(seen.span_id)
        self._taken.add((telemetry.scope, seen.span_id))

    def _models_apart(self, telemetry: list[Told]) -> None:
        """Telemetry that is not around the call, as callbacks of a framework give it."""
        seen = sorted((one for one in self._seen.values() if one.kind == "model"), key=lambda one: one.start_ns)
        starts = [one.start_ns for one in seen]
        named = {one.response: one for one in seen if one.response}
        for one in telemetry:
            if one.response in named:
                near = [named[one.response]]
            else:
                first = bisect_left(starts, one.start_ns - SLACK_NS)
                near = seen[first : bisect_right(starts, one.end_ns + SLACK_NS)]
            self._best(one, near, same_model_call)

    def _tools_apart(self, telemetry: list[Told]) -> None:
        seen = [one for one in self._seen.values() if one.kind == "tool"]
        for one in telemetry:
            self._best(one, seen, same_tool_call)

    def _best(self, one: Told, near: Iterable[Told], sureness: Callable[[Told, Told], int]) -> None:
        """Join it with the likeliest; each source of telemetry tells of a recorded span once."""
        if one.span_id in self.same:
            return
        free = [seen for seen in near if (one.scope, seen.span_id) not in self._taken]
        rated = [(sureness(one, seen), -abs(seen.start_ns - one.start_ns), seen.span_id) for seen in free]
        sure, _, best = max(rated, default=(0, 0, ""))
        if sure:
            self._join(one, self._seen[best])

    def _wrappers(self, inside: Mapping[str, set[str]]) -> None:
        """A model of telemetry around exactly one that tells of a recorded call tells of that call too."""
        for span_id in sorted(inside, key=lambda s: len(inside[s])):
            told = {tuple(self.same[one]) for one in inside[span_id] if one in self.same}
            if span_id not in self.same and len(told) == 1 and inside[span_id] <= self.same.keys():
                self.same[span_id] = list(told.pop())
