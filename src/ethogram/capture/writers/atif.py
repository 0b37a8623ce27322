"""ATIF-v1.7 trajectories: a plain document for one trace, JSON lines for several.

What ATIF has a field for stands there, so that any reader of ATIF understands it. What it has none for stands
in `extra.ethogram`, and only where our own reader would not guess it; so a trace that is written and read again
keeps its steps, messages, tokens, cost, tree, labels and outcome. Lanes become embedded sub-agents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, BinaryIO

import msgspec

from ethogram.capture.draft import Draft
from ethogram.capture.parse import from_json, to_json
from ethogram.capture.readers._atif_steps import OURS, ROLES, Step, replied, spoken, step_message, used
from ethogram.traces import Message, Reasoning, Ref, Span, SpanId, ToolCall, Trace

from ._atif_fields import atif_metrics, content, differences, draft_of, iso, pair, total_of, without_unknown

FORMAT = "atif"
VERSION = "ATIF-v1.7"

_STRUCTURE = ("agent", "judge")
"""Kinds that are no step of a trajectory; they are kept beside the steps."""
_SOURCES = {role: source for source, role in ROLES.items()}


def write(traces: Iterable[Trace], stream: BinaryIO) -> dict[str, int]:
    """Write trajectories and give how often something could not be said."""
    lost: Counter[str] = Counter()
    first: bytes | None = None
    several = False
    for trace in traces:
        data = msgspec.json.encode(_Document(trace, lost).build())
        if first is None:
            first = data
            continue
        if not several:
            stream.write(first + b"\n")
            several = True
        stream.write(data + b"\n")
    if first is not None and not several:
        stream.write(msgspec.json.format(first, indent=2) + b"\n")
    return dict(lost)


class _Document:
    """One trace as one trajectory."""

    def __init__(self, trace: Trace, lost: Counter[str]) -> None:
        self._trace = trace
        self._lost = lost
        self._lanes: dict[str, list[Span]] = {}
        for span in sorted(trace.spans, key=lambda s: s.seq):
            if span.kind not in _STRUCTURE:
                self._lanes.setdefault(span.lane, []).append(span)

    def build(self) -> dict[str, Any]:
        """The document; the main lane is the nameless one, else the first."""
        head, totals = self._trace.head, self._trace.totals
        main = "" if "" in self._lanes else next(iter(self._lanes), "")
        if not self._lanes:
            self._lost["trace without steps"] += 1
        document = self._trajectory(main)
        document |= {"session_id": head.trace_id, "trajectory_id": head.trace_id}
        below = [self._trajectory(lane) for lane in self._lanes if lane != main]
        if below:
            document["subagent_trajectories"] = below
        document["final_metrics"] = without_unknown(
            total_prompt_tokens=total_of(totals.input_tokens, totals.cache_read_tokens, totals.cache_write_tokens),
            total_completion_tokens=totals.output_tokens,
            total_cached_tokens=totals.cache_read_tokens,
            total_cost_usd=totals.cost_usd,
            total_steps=len(document["steps"]),
        )
        document["extra"] = {
            "task": head.task,
            "attempt": head.attempt,
            "outcome": msgspec.to_builtins(head.outcome),
            OURS: self._notes(main),
        }
        return document

    def _notes(self, main: str) -> dict[str, Any]:
        """What belongs to the trace as a whole and has no field in ATIF."""
        trace, head = self._trace, self._trace.head
        labels = [
            without_unknown(name=x.name, by=x.by, source=x.source, span_id=x.span_id, why=x.why and trace.text(x.why))
            | {"value": x.value}
            for x in trace.labels
        ]
        notes = without_unknown(
            condition=head.condition or None, seed=head.seed, answer=trace.answer, lane=main or None
        )
        spans = [draft_of(trace, s) for s in trace.spans if s.kind in _STRUCTURE]
        plain = Draft(kind="other", name="")
        return notes | {
            "agent": head.agent,
            "meta": head.meta,
            "labels": labels,
            "spans": [{"kind": s.kind, "name": s.name} | differences(plain, s) for s in spans],
        }

    def _trajectory(self, lane: str) -> dict[str, Any]:
        spans, head = self._lanes.get(lane, []), self._trace.head
        names = Counter(s.agent for s in self._trace.spans if s.lane == lane and s.agent)
        models = Counter(s.model for s in spans if s.model)
        agent = {
            "name": names.most_common(1)[0][0] if names else head.agent or "agent",
            "version": str(head.meta.get("agent_version") or head.meta.get("version") or "unknown"),
        }
        if models:
            agent["model_name"] = models.most_common(1)[0][0]
        steps = _Lane(self._trace, lane, agent, self._lost, self._below()).steps(spans)
        return {
            "schema_version": VERSION,
            "trajectory_id": lane or "main",
            "agent": agent,
            "steps": steps,
            "extra": {OURS: {"lane": lane}},
        }

    def _below(self) -> dict[str, list[str]]:
        """Lanes by the span that their first span hangs under."""
        found: dict[str, list[str]] = {}
        seen = {""}
        for span in sorted(self._trace.spans, key=lambda s: s.seq):
            if span.lane not in seen and span.lane in self._lanes:
                found.setdefault(span.parent_id or "", []).append(span.lane)
            seen.add(span.lane)
        return found


class _Lane:
    """The steps of one lane, in the order in which our reader will make spans of them."""

    def __init__(
        self, trace: Trace, name: str, agent: dict[str, str], lost: Counter[str], below: dict[str, list[str]]
    ) -> None:
        self._trace = trace
        self._base: dict[str, Any] = {"lane": name, "agent": agent["name"], "parent_id": None}
        self._facts: dict[str, Any] = {"model": agent.get("model_name")}
        self._lost = lost
        self._below = below
        self._steps: list[Step] = []
        self._unread: list[Ref] = []
        self._last: tuple[SpanId, int] | None = None

    def steps(self, spans: list[Span]) -> list[Step]:
        """All steps of the lane."""
        answers = pair(self._trace, spans)
        taken = {t.span_id for tools in answers.values() for t in tools.values()}
        for span in spans:
            if span.kind == "model":
                self._reply(span, answers.get(span.span_id, {}))
            elif span.kind != "tool":
                self._speak(span)
            elif span.span_id not in taken:
                self._lone(span)
        return self._steps

    def _add(self, step: Step, notes: dict[str, Any]) -> None:
        extra = {"extra": {OURS: notes}} if notes else {}
        self._steps.append({"step_id": len(self._steps) + 1} | step | extra)

    def _speak(self, span: Span) -> None:
        """A user, or a span of a kind that ATIF has no step for."""
        real = draft_of(self._trace, span)
        words = content(real.output[0].parts) if real.output else real.result or span.name
        step = without_unknown(source="user" if span.kind == "user" else "system", timestamp=iso(span.start_ns))
        step["message"] = words
        guess = spoken({"step_id": len(self._steps) + 1} | step, self._base)
        self._add(step, differences(guess, real))
        self._unread.extend(span.output)

    def _lone(self, span: Span) -> None:
        """A tool that no reply asked for: a step without the model."""
        step: Step = without_unknown(source="agent", timestamp=iso(span.start_ns)) | {
            "message": "",
            "llm_call_count": 0,
        }
        call = ToolCall(span.tool or span.name, "" if span.arguments is None else self._trace.text(span.arguments))
        self._tools(step, (msgspec.structs.replace(call, call_id=span.call_id),), {0: span})
        self._add(step, {})

    def _reply(self, span: Span, tools: dict[int, Span]) -> None:
        notes = self._read(span)
        real = draft_of(self._trace, span)
        message = real.output[0] if real.output else Message("assistant")
        reasoning = "\n".join(p.text for p in message.parts if isinstance(p, Reasoning))
        step: Step = without_unknown(
            source="agent",
            timestamp=iso(span.start_ns),
            model_name=span.model if span.model != self._facts["model"] else None,
            reasoning_content=reasoning or None,
            metrics=atif_metrics(span) or None,
        )
        step["message"] = content(message.parts)
        self._tools(step, message.tool_calls, tools)
        guess = replied({"step_id": len(self._steps) + 1} | step, self._base, self._facts)
        self._add(step, notes | differences(guess, real))

    def _read(self, span: Span) -> dict[str, Any]:
        """Write down what the reply reads and nobody said, and note where it does not read all that was said."""
        pool, chosen = list(self._unread), []
        free = list(range(len(pool)))
        for ref in span.input:
            at = next((i for i in free if pool[i] == ref), None)
            if at is None:
                self._hear(self._trace.message(ref))
                at = len(pool)
                pool.append(ref)
            else:
                free.remove(at)
            chosen.append(at)
        self._unread = []
        notes: dict[str, Any] = {} if chosen == list(range(len(pool))) else {"input": chosen}
        if self._last is not None and span.continues is None:
            notes["anew"] = True
        elif self._last is not None and (span.continues, span.keep) != self._last:
            self._lost["input (shortened context)"] += 1
        self._last = (span.span_id, (span.keep if span.continues else 0) + len(span.input) + len(span.output))
        return notes

    def _hear(self, message: Message) -> None:
        step: Step = {"source": _SOURCES.get(message.role, "system"), "message": content(message.parts)}
        if message.role == "assistant":
            step["is_copied_context"] = True
        same = step_message(step) == message
        self._add(step, {"heard": True if same else msgspec.to_builtins(message)})

    def _tools(self, step: Step, calls: tuple[ToolCall, ...], tools: dict[int, Span]) -> None:
        """Calls and results of a step."""
        if not calls:
            return
        step["tool_calls"], results = [], []
        for i, call in enumerate(calls):
            item = self._call(call, i)
            step["tool_calls"].append(item)
            span = tools.get(i)
            if span is None:
                item.setdefault("extra", {}).setdefault(OURS, {})["span"] = False
                continue
            self._unread.extend(span.output)
            result = self._result(span, item["tool_call_id"])
            if result:
                results.append(result)
            guess = used(item, result, step, self._base)
            notes = differences(guess, draft_of(self._trace, span))
            item.setdefault("extra", {}).setdefault(OURS, {})["tool"] = notes
        if results:
            step["observation"] = {"results": results}

    def _call(self, call: ToolCall, position: int) -> Step:
        arguments = from_json(call.arguments)
        call_id = call.call_id or f"call_{len(self._steps) + 1}_{position}"
        item: Step = {"tool_call_id": call_id, "function_name": call.name}
        item["arguments"] = arguments if isinstance(arguments, dict) else {"input": call.arguments}
        notes: dict[str, Any] = {}
        if to_json(item["arguments"]) != call.arguments:
            notes["arguments"] = call.arguments
        if call.call_id is None:
            notes["call_id"] = None
        if notes:
            item["extra"] = {OURS: notes}
        return item

    def _result(self, span: Span, call_id: str) -> Step | None:
        refs = [{"trajectory_id": lane} for lane in self._below.get(span.span_id, [])]
        if span.result is None and not span.output and not refs:
            return None
        words = self._trace.message(span.output[0]).text if span.result is None and span.output else ""
        result: Step = {"source_call_id": call_id}
        result["content"] = words if span.result is None else self._trace.text(span.result)
        return result | ({"subagent_trajectory_ref": refs} if refs else {})
