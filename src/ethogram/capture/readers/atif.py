"""ATIF trajectories 1.0–1.8 (Harbor and others): a document, an array or JSON lines of trajectories.

A step of the agent is a model span, with a tool span for each of its calls. Steps that were copied from an
earlier trajectory are read by the next reply and counted nowhere. Embedded sub-agents are lanes of their own.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.draft import Draft
from ethogram.capture.intake import Intake
from ethogram.capture.parse import as_dict, as_float, as_int, as_list, as_name, content_parts, iso_ns
from ethogram.capture.peek import Peek
from ethogram.capture.records import records
from ethogram.capture.source import Source
from ethogram.traces import Message, Outcome

from ._atif_steps import HEAVY, Step, agent_span, model_facts, ours, paired_calls, replied, spoken, step_message, used
from ._shared import as_listing, as_object
from ._turns import add_whole, count_bytes, plain_meta, rest_of

FORMAT = "atif"
NEWEST = (1, 8)
MAX_DEPTH = 20

_VERSION = re.compile(r"ATIF-v(\d+)\.(\d+)")
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ROOT = ("schema_version", "agent", "steps", "final_metrics", "subagent_trajectories", "extra")
_TASK = ("task", "task_id", "task_name", "instance_id")
_SUMS = {
    "total_prompt_tokens": "prompt_tokens",
    "total_completion_tokens": "completion_tokens",
    "total_cached_tokens": "cached_tokens",
    "total_cost_usd": "cost_usd",
}
MARKS = frozenset(["schema_version", "steps"])


def sniff(peek: Peek) -> int:
    """Trajectories name their schema; without it, an agent with a name and steps with a source."""
    first = peek.first
    return max(_score(first), *(_score(r) for r in peek.records if isinstance(r, dict) and r is not first), 0)


def _score(item: dict[str, Any]) -> int:
    if as_name(item.get("schema_version")).startswith("ATIF-"):
        return 99
    steps = item.get("steps")
    first = steps[0] if isinstance(steps, list) and steps else None
    return 60 if isinstance(item.get("agent"), dict) and isinstance(first, dict) and "source" in first else 0


def read(source: Source, intake: Intake) -> None:
    """One trace per trajectory."""
    with intake.record("the rest of the file"):
        for position, (where, item) in enumerate(records(source, intake)):
            with intake.record(where):
                _read_one(as_object(item, "the trajectory"), position, where, intake)


def _read_one(item: dict[str, Any], position: int, where: str, intake: Intake) -> None:
    as_listing(item.get("steps"), "`steps`")
    name = as_name(item.get("trajectory_id"))
    key = name or as_name(item.get("session_id")) or f"trajectory {position}"
    with intake.trace(key, worldwide=bool(_UUID.fullmatch(name))) as trace:
        walk = _Walk(trace, intake, "" if where == "the document" else f"{where}, ")
        _describe(trace, item, key)
        walk.trajectory(item, "", None, 0)
        walk.compare(as_dict(item.get("final_metrics")))


def _describe(trace: TraceBuilder, item: dict[str, Any], key: str) -> None:
    """Task, outcome and meta; of a trajectory that we wrote, exactly those of the trace."""
    extra, agent = as_dict(item.get("extra")), as_dict(item.get("agent"))
    trace.task = next((t for k in _TASK if (t := as_name(extra.get(k)))), key)
    trace.agent = as_name(agent.get("name"))
    notes = ours(item)
    if "spans" in notes:
        _restore(trace, {**extra, **notes})
        return
    meta = rest_of(item, *_ROOT)
    meta |= {f"agent_{k}": v for k, v in rest_of(agent, "name", "tool_definitions").items()}
    meta |= {"schema_version": as_name(item.get("schema_version"))}
    meta |= rest_of(as_dict(item.get("final_metrics")), "extra")
    version = _VERSION.fullmatch(meta["schema_version"])
    if version is None or (int(version[1]), int(version[2])) > NEWEST:
        meta["note"] = f"schema {meta['schema_version'] or 'not named'}: read as ATIF-v{NEWEST[0]}.{NEWEST[1]}"
    if extra:
        meta["extra"] = extra
    trace.meta = plain_meta(trace, meta)


def _restore(trace: TraceBuilder, notes: dict[str, Any]) -> None:
    """What the writer noted of the trace itself."""
    trace.task = as_name(notes.get("task"))
    trace.attempt = as_int(notes.get("attempt"))
    trace.condition = as_name(notes.get("condition"))
    trace.agent = as_name(notes.get("agent"))
    trace.seed = as_int(notes.get("seed"))
    trace.answer = notes["answer"] if isinstance(notes.get("answer"), str) else None
    trace.meta = as_dict(notes.get("meta"))
    trace.outcome = msgspec.convert(notes.get("outcome"), Outcome)
    for span in as_list(notes.get("spans")):
        trace.add(msgspec.convert(span, Draft))
    for label in as_list(notes.get("labels")):
        trace.label(**{k: label.get(k) for k in ("name", "value", "by", "source", "why", "span_id")})


class _Lane:
    """One agent's conversation: what its next reply will read."""

    def __init__(self, trace: TraceBuilder, name: str, agent: str, parent: str | None) -> None:
        self.base: dict[str, Any] = {"lane": name, "agent": agent, "parent_id": parent}
        self._trace = trace
        self._unread: list[Message] = []
        self._silent: list[Message] = []
        self._replied = False
        self._anew = False

    def hear(self, *messages: Message) -> None:
        """Words that are read and are no turn of this trajectory."""
        self._unread.extend(messages)
        self._silent.extend(messages)

    def copy(self, draft: Draft) -> None:
        """Copied context: not a step, but it has its place; after a reply it is the start of another context."""
        if self._replied and not self._anew:
            self._anew, self._unread = True, []
        self.say(draft)

    def say(self, draft: Draft) -> str:
        """A span whose words the next reply reads."""
        self._unread.extend(draft.output)
        return self._trace.add(draft)

    def reply(self, draft: Draft, notes: dict[str, Any]) -> str:
        """A model span; our own notes say where its input is not simply what is unread."""
        chosen, unread = notes.get("input"), self._unread
        if isinstance(chosen, list):
            unread = [unread[i] for i in chosen if isinstance(i, int) and 0 <= i < len(unread)]
        draft.input = tuple(unread)
        draft.growing = not self._anew and not notes.get("anew")
        self._unread, self._silent, self._anew, self._replied = [], [], False, True
        return self._trace.add(draft)

    def close(self) -> None:
        """What no reply has read keeps its place among the messages."""
        if self._silent:
            self._trace.add(Draft(kind="other", name="unread", output=tuple(self._silent), **self.base))


class _Walk:
    """Through one trajectory and the sub-agents inside it; keeps the sums that its final metrics are checked by."""

    def __init__(self, trace: TraceBuilder, intake: Intake, where: str) -> None:
        self._trace = trace
        self._intake = intake
        self._where = where
        self._sums: dict[str, float] = {}
        self._copied: dict[str, float] = {}

    def trajectory(self, item: dict[str, Any], name: str, parent: str | None, depth: int) -> None:
        """One agent's steps; sub-agents that no step refers to follow at the end."""
        if depth > MAX_DEPTH:
            raise ValueError(f"sub-agents nested more than {MAX_DEPTH} deep")
        agent, steps = as_dict(item.get("agent")), as_listing(item.get("steps"), "`steps`")
        label, notes = as_name(agent.get("name")) or "agent", ours(item)
        if notes:  # our own writer says of each span where it hangs
            root, name = None, as_name(notes.get("lane"))
        else:
            root = add_whole(self._trace, self._intake, agent_span(item, agent, label, name, parent))
        lane = _Lane(self._trace, name, label, root)
        below = _by_name(item)
        facts = model_facts(agent)
        whole = self._per_trace(item, steps) if depth == 0 else -1
        for i, step in enumerate(steps):
            with self._intake.record(f"{self._where}step {i}"):
                step = as_object(step, "the step")
                if i == whole:
                    final = as_dict(item.get("final_metrics"))
                    step = step | {"metrics": {field: final.get(total) for total, field in _SUMS.items()}}
                for span_id, ref in self._step(step, lane, facts):
                    self._delegate(ref, span_id, below, lane, depth)
        lane.close()
        for key, left in below.items():
            with self._intake.record(f"{self._where}sub-agent {key}"):
                self.trajectory(as_object(left, "the sub-agent"), key, root, depth + 1)

    def compare(self, final: dict[str, Any]) -> None:
        """Note where the steps do not add up to the final metrics (sub-agents in other files are one reason)."""
        meta = self._trace.meta
        for total, field in _SUMS.items():
            said, found = as_float(final.get(total)), self._sums.get(field)
            if said is not None and found is not None and abs(said - found) > 1e-6 * max(1.0, abs(said)):
                meta[f"steps_{field}"] = found
                meta["final_metrics_differ"] = True
        meta |= {f"copied_{field}": value for field, value in self._copied.items()}

    def _per_trace(self, item: dict[str, Any], steps: list[Any]) -> int:
        """The last reply, where only the trajectory as a whole has metrics: they are counted there."""
        final = as_dict(item.get("final_metrics"))
        if all(final.get(total) is None for total in _SUMS) or item.get("subagent_trajectories"):
            return -1
        if any(isinstance(s, dict) and s.get("metrics") for s in steps):
            return -1
        replies = [i for i, s in enumerate(steps) if isinstance(s, dict) and _is_reply(s)]
        if replies:
            self._trace.meta["usage_is_per_trace"] = True
        return replies[-1] if replies else -1

    def _step(self, step: Step, lane: _Lane, facts: dict[str, Any]) -> list[tuple[str | None, dict[str, Any]]]:
        """The spans of a step; gives the sub-agents it refers to, with the span that called them."""
        notes, metrics = ours(step), as_dict(step.get("metrics"))
        heard = notes.get("heard")
        if heard:
            lane.hear(msgspec.convert(heard, Message) if isinstance(heard, dict) else step_message(step))
            return []
        if step.get("is_copied_context") is True:
            pairs, _ = paired_calls(step)
            answers = [m for call, result in pairs for m in used(call, result, step, lane.base).output]
            said, at = (step_message(step), *answers), iso_ns(step.get("timestamp"))
            lane.copy(Draft(kind="other", name="copied", start_ns=at, output=said, **lane.base))
            _add_up(self._copied, metrics)
            self._copied["steps"] = self._copied.get("steps", 0) + 1
            return []
        _add_up(self._sums, metrics)
        for field in HEAVY:
            self._trace.lose(f"metrics.{field}", int(bool(metrics.get(field))))
        count_bytes(self._trace, step_message(step))
        if _is_reply(step):
            lane.reply(replied(step, lane.base, facts), notes)
        elif step.get("message") or step.get("source") != "agent":
            lane.say(spoken(step, lane.base))
        return self._use(step, lane)

    def _use(self, step: Step, lane: _Lane) -> list[tuple[str | None, dict[str, Any]]]:
        """A tool span for each call; what came back without a call is the environment speaking."""
        pairs, free = paired_calls(step)
        refs: list[tuple[str | None, dict[str, Any]]] = []
        for call, result in pairs:
            notes = ours(call)
            if notes.get("span") is False:
                continue
            span_id = lane.say(used(call, result, step, lane.base))
            if result is None and not notes:
                self._trace.lose("tool result (never came)")
            refs.extend((span_id, as_dict(r)) for r in as_list((result or {}).get("subagent_trajectory_ref")))
        for result in free:
            parts = content_parts(result.get("content"))
            if parts:
                message = Message("user", tuple(parts), "environment")
                at = iso_ns(step.get("timestamp"))
                lane.say(Draft(kind="user", name="environment", start_ns=at, output=(message,), **lane.base))
            refs.extend((None, as_dict(r)) for r in as_list(result.get("subagent_trajectory_ref")))
        return refs

    def _delegate(
        self, ref: dict[str, Any], span_id: str | None, below: dict[str, Any], lane: _Lane, depth: int
    ) -> None:
        """An embedded sub-agent hangs under its call; one in another file is a hand-off."""
        wanted, session = as_name(ref.get("trajectory_id")), as_name(ref.get("session_id"))
        for key, item in below.items():
            found = as_dict(item)
            if wanted == as_name(found.get("trajectory_id")) if wanted else session == as_name(found.get("session_id")):
                del below[key]
                self.trajectory(found, key, span_id or lane.base["parent_id"], depth + 1)
                return
        name = as_name(ref.get("trajectory_path")) or wanted or session or "sub-agent"
        self._trace.add(Draft(kind="handoff", name=name, attributes={"subagent_trajectory_ref": ref}, **lane.base))


def _is_reply(step: Step) -> bool:
    """Whether the model spoke: agents also take steps without it."""
    return (
        step.get("source") == "agent"
        and step.get("is_copied_context") is not True
        and as_int(step.get("llm_call_count")) != 0
    )


def _add_up(sums: dict[str, float], metrics: dict[str, Any]) -> None:
    for field in _SUMS.values():
        value = as_float(metrics.get(field))
        if value is not None:
            sums[field] = sums.get(field, 0) + value


def _by_name(item: dict[str, Any]) -> dict[str, Any]:
    """Embedded sub-agents by the name that their lane gets."""
    found: dict[str, Any] = {}
    for i, sub in enumerate(as_list(item.get("subagent_trajectories"))):
        known = as_dict(sub)
        name = as_name(known.get("trajectory_id")) or as_name(known.get("session_id")) or f"sub-agent {i}"
        found[name if name not in found else f"{name}#{i}"] = sub
    return found
