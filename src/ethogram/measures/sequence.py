"""A trace as a sequence for divergence: one signature per position, and facts about control flow."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import msgspec

from ethogram.errors import BadInput, BadUsage, NotFound
from ethogram.traces import Message, Span, ToolResult, Trace
from ethogram.traces.signature import (
    SIGNATURES,
    SignatureFunction,
    TraceSignature,
    event_facts,
    message_signature,
    signature,
    traxr_signature,
)

ReadingName = Literal["steps", "messages"]
READINGS: tuple[str, ...] = get_args(ReadingName)
ANSWER_HANDED_OVER = "final_answer"
"""A handoff of this name is the end of the work, not a choice of who works next."""


class Reading(msgspec.Struct, frozen=True):
    """Parallel columns, one entry per position; `turns` is the log's own numbering of turns, where it has one."""

    signatures: tuple[str, ...]
    kinds: tuple[str, ...]
    names: tuple[str, ...]
    failed: tuple[bool, ...]
    agents: tuple[str, ...]
    lanes: tuple[str, ...]
    turns: tuple[int, ...] | None = None

    def __len__(self) -> int:
        """How many positions."""
        return len(self.signatures)

    @property
    def lane_names(self) -> tuple[str, ...]:
        """The lanes in order of appearance."""
        return tuple(dict.fromkeys(self.lanes))

    @property
    def places_by_lane(self) -> dict[str, list[int]]:
        """The positions of each lane's steps in the linear reading, lanes in order of appearance."""
        places = defaultdict[str, list[int]](list)
        for i, name in enumerate(self.lanes):
            places[name].append(i)
        return places

    def count(self, kind: str) -> int:
        """How many positions of a kind; a handoff of the answer is not one."""
        if kind != "handoff":
            return self.kinds.count(kind)
        return sum(k == kind and n != ANSWER_HANDED_OVER for k, n in zip(self.kinds, self.names, strict=True))


def read_positions(trace: Trace, reading: str = "steps", function: Callable[..., str] | None = None) -> Reading:
    """A trace by steps or by messages. A signature function of one's own goes with steps; messages have their own."""
    if reading not in READINGS:
        raise BadUsage(f"there is no reading {reading!r}; readings are: {', '.join(READINGS)}")
    if reading == "messages":
        if function is not None and function is not signature:
            raise BadUsage("the reading by messages has its own signature; leave out the signature, or read by steps")
        return of_messages(trace.messages)
    if function is traxr_signature:
        return _of_events(trace)
    sign = signer(function or signature, trace)
    return of_spans(trace.steps, [sign(s) for s in trace.steps])


def of_spans(steps: Sequence[Span], signatures: Sequence[str]) -> Reading:
    """The columns of spans."""
    return Reading(
        signatures=tuple(signatures),
        kinds=tuple(s.kind for s in steps),
        names=tuple(s.tool or s.name for s in steps),
        failed=tuple(s.status == "error" for s in steps),
        agents=tuple(s.agent for s in steps),
        lanes=tuple(s.lane for s in steps),
    )


def of_messages(messages: Sequence[Message]) -> Reading:
    """The columns of messages: an assistant's message is a model's work, a tool's message a tool call."""
    kinds = {"assistant": "model", "tool": "tool", "user": "user"}
    return Reading(
        signatures=tuple(message_signature(m) for m in messages),
        kinds=tuple(kinds.get(m.role, "other") for m in messages),
        names=tuple(_message_name(m) for m in messages),
        failed=tuple(any(isinstance(p, ToolResult) and p.failed for p in m.parts) for m in messages),
        agents=tuple(m.name or "" for m in messages),
        lanes=("",) * len(messages),
    )


def _message_name(message: Message) -> str:
    answered = next((p.name for p in message.parts if isinstance(p, ToolResult)), None)
    return answered or message.name or message.role


def _of_events(trace: Trace) -> Reading:
    """Every event of an imported log in its order, those that are no steps included, with the log's own turns."""
    events = sorted(trace.spans, key=lambda s: s.seq)
    columns = of_spans(events, [traxr_signature(s, trace) for s in events])
    numbers = [event_facts(s, trace).get("step_num") for s in events]
    numbered = [n for n in numbers if isinstance(n, int)]
    return msgspec.structs.replace(columns, turns=tuple(numbered) if len(numbered) == len(numbers) else None)


def named_signature(name: str) -> SignatureFunction | TraceSignature:
    """A built-in signature by its name."""
    if name not in SIGNATURES:
        raise NotFound.named("signature", name, list(SIGNATURES))
    return SIGNATURES[name]


def signer(function: Callable[..., Any], trace: Trace) -> Callable[[Span], str]:
    """A signature function bound to a trace; it takes the span, or the span and the trace, and must give text."""
    wants_trace = takes_trace(function)

    def sign(span: Span) -> str:
        name = getattr(function, "__name__", "the signature function")
        try:
            given = function(span, trace) if wants_trace else function(span)
        except Exception as error:  # it is the user's code
            raise BadInput(
                f"{name} failed on a {span.kind} step: {type(error).__name__}: {error}", where=name
            ) from error
        if not isinstance(given, str):
            raise BadUsage(f"{name} gave {type(given).__name__} for a {span.kind} step; a signature is text")
        return given

    return sign


def takes_trace(function: Callable[..., Any]) -> bool:
    """Whether a signature function needs the trace beside the span."""
    try:
        given = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in places and p.default is inspect.Parameter.empty for p in given) >= 2
