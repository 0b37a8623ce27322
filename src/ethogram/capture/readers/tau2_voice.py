"""Voice simulations of tau2-bench: `ticks` of a fraction of a second, in which both sides may speak at once.

An unbroken run of ticks in which one side speaks is one span. Ticks of silence hold nothing but the passing of
time and are counted as lost; what happens in them (a noise, a cough, a decision to stop) is kept.
"""

from __future__ import annotations

from typing import Any

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.draft import Draft
from ethogram.capture.intake import Intake
from ethogram.capture.pairing import OpenCalls
from ethogram.capture.parse import as_dict, as_list, as_name, as_text, iso_ns, tool_call
from ethogram.traces import File, Message, Part, Role, Text, ToolCall, ToolResult

from ._shared import add_tool, as_object

USER = "user"
_EFFECTS = ("speech_effects", "source_effects", "channel_effects")
_TICK = {"tick_id", "timestamp", "agent_chunk", "user_chunk", "user_transcript"} | {
    f"{side}_tool_{what}" for side in ("agent", USER) for what in ("calls", "results")
}


def read_ticks(ticks: list[Any], trace: TraceBuilder, intake: Intake, where: str, model: dict[str, Any]) -> None:
    """Add the spans of a voice simulation; `model` are fields of every span of the agent."""
    common = {"parent_id": model.get("parent_id")}
    sides = (_Side("agent", trace, model), _Side(USER, trace, common))
    for position, item in enumerate(ticks):
        with intake.record(f"{where}, tick {position}"):
            tick = as_object(item, "the tick")
            spoke = [side.tick(tick) for side in sides]
            if not any(spoke):
                trace.lose("tick (silence)")
            for field in tick.keys() - _TICK:
                trace.lose(f"tick.{field}")
    for side in sides:
        side.close()


class _Side:
    """One of the two who talk."""

    def __init__(self, name: str, trace: TraceBuilder, fields: dict[str, Any]) -> None:
        self._name = name
        self._trace = trace
        self._role: Role = "user" if name == USER else "assistant"
        self._fields = {**fields, "lane": USER if name == USER else "", "agent": USER if name == USER else ""}
        self._open = OpenCalls()
        self._ticks: list[Any] = []
        self._times: list[int] = []
        self._words: list[str] = []
        self._heard: list[str] = []
        self._sound: list[str] = []
        self._utterances: list[str] = []
        self._notes: list[dict[str, Any]] = []

    def tick(self, tick: dict[str, Any]) -> bool:
        """Take this side's part of a tick; says whether anything happened."""
        chunk = as_dict(tick.get(f"{self._name}_chunk"))
        calls = [tool_call(c) for c in as_list(tick.get(f"{self._name}_tool_calls") or chunk.get("tool_calls"))]
        results = as_list(tick.get(f"{self._name}_tool_results"))
        notes = _notes(tick.get("tick_id"), chunk)
        words = chunk.get("content")
        speaks = bool(words) or chunk.get("contains_speech") is True
        when = iso_ns(chunk.get("timestamp") or tick.get("timestamp"))
        for call in calls:
            self._open.add(call)
        if speaks or calls:
            self._take(tick, chunk, when, notes if speaks else [])
        if not speaks or calls:
            self.flush(calls)
        if notes and not speaks:
            self._trace.add(
                Draft(kind="other", name="sound", start_ns=when, attributes={"notes": notes}, **self._fields)
            )
        for result in results:
            self._result(as_dict(result), iso_ns(tick.get("timestamp")))
        return bool(speaks or calls or results or notes)

    def close(self) -> None:
        """The last words, and the calls that nothing answered."""
        self.flush()
        for call, _ in self._open.take_all():
            add_tool(self._trace, call, None, **{k: v for k, v in self._fields.items() if k != "model"})

    def flush(self, calls: list[ToolCall] | None = None) -> None:
        """Close the run of ticks that is open, as one span."""
        if not self._ticks:
            return
        parts: list[Part] = [Text("".join(self._words))] if self._words else []
        parts.extend(File("audio", uri=path) for path in dict.fromkeys(self._sound))
        if not parts and not calls:
            parts.append(File("audio"))  # speech whose words the log leaves out
        parts.extend(calls or ())
        attributes = {
            "ticks": [self._ticks[0], self._ticks[-1]],
            "notes": self._notes,
            "utterance_ids": list(dict.fromkeys(self._utterances)),
            "transcript": "".join(self._heard),
        }
        self._trace.add(
            Draft(
                kind="user" if self._name == USER else "model",
                name=USER if self._name == USER else "chat",
                start_ns=self._times[0] if self._times else None,
                end_ns=self._times[-1] if self._times else None,
                output=(Message(self._role, tuple(parts)),),
                stop_reason="tool_calls" if calls else "stop" if self._name != USER else None,
                attributes={k: v for k, v in attributes.items() if v},
                **self._fields,
            )
        )
        self._ticks, self._times, self._words, self._heard = [], [], [], []
        self._sound, self._utterances, self._notes = [], [], []

    def _take(self, tick: dict[str, Any], chunk: dict[str, Any], when: int | None, notes: list[dict[str, Any]]) -> None:
        self._ticks.append(tick.get("tick_id"))
        if when is not None:
            self._times.append(when)
        names = [as_name(u) for u in as_list(chunk.get("utterance_ids"))]
        words = as_text(chunk.get("content"))
        if words:
            if self._words and names and self._utterances and not set(names) & set(self._utterances):
                self._words.append(" ")  # a new utterance begins; inside one, chunks bring their own spaces
            self._words.append(words)
        self._utterances.extend(names)
        if self._name == USER and tick.get("user_transcript"):
            self._heard.append(as_text(tick["user_transcript"]))
        if chunk.get("audio_path"):
            self._sound.append(as_text(chunk["audio_path"]))
        if chunk.get("audio_content"):
            self._trace.lose("audio_content")
        for note in notes:
            last = self._notes[-1] if self._notes else {}
            if {**note, "tick": None} != {**last, "tick": None}:  # effects last for many ticks: note the changes
                self._notes.append(note)

    def _result(self, item: dict[str, Any], when: int | None) -> None:
        call_id = as_name(item.get("id") or item.get("tool_call_id")) or None
        result = ToolResult(as_text(item.get("content")), as_name(item.get("name")) or None, call_id)
        call = self._open.call_for(result)
        result = ToolResult(result.content, call.name, call_id, bool(item.get("error")))
        fields = {k: v for k, v in self._fields.items() if k != "model"}
        start = iso_ns(item.get("timestamp")) or when
        add_tool(self._trace, call, Message("tool", (result,)), start_ns=start, **fields)


def _notes(tick_id: Any, chunk: dict[str, Any]) -> list[dict[str, Any]]:
    """What a tick says beyond sound: effects, and any decision but to wait or to go on."""
    notes: dict[str, Any] = {k: chunk[k] for k in _EFFECTS if chunk.get(k)}
    action = chunk.get("turn_taking_action")
    name = as_dict(action).get("action")
    if action and (name not in ("wait", "keep_talking") or any(v for k, v in as_dict(action).items() if k != "action")):
        notes["turn_taking_action"] = action
    return [{"tick": tick_id, **notes}] if notes else []
