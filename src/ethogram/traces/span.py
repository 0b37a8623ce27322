"""Spans: units of work. They hold metadata and references; the words themselves are texts."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from .ids import Ref, SpanId, TraceId

Kind = Literal["agent", "model", "tool", "retrieval", "memory", "handoff", "user", "judge", "other"]
KINDS: tuple[str, ...] = get_args(Kind)
STEP_KINDS: frozenset[str] = frozenset({"model", "tool", "retrieval", "memory", "handoff", "user"})
Status = Literal["ok", "error", "unset"]
STATUSES: tuple[str, ...] = get_args(Status)
Param = str | int | float | bool | None


class Span(msgspec.Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """One unit of work.

    `input` holds only the messages that are new: the full input of a model span is the first `keep`
    messages of the conversation that `continues` names (its input and its output), then `input`.
    So a context that grows is stored once, not once per call.
    `input_tokens` is fresh input only; all input is fresh + cache read + cache write.
    `output_tokens` includes `reasoning_tokens`.
    """

    trace_id: TraceId
    span_id: SpanId
    seq: int
    kind: Kind
    name: str
    parent_id: SpanId | None = None
    agent: str = ""
    lane: str = ""
    start_ns: int | None = None
    end_ns: int | None = None
    status: Status = "unset"
    error: Ref | None = None
    model: str | None = None
    provider: str | None = None
    prompt_version: str | None = None
    params: dict[str, Param] = {}
    continues: SpanId | None = None
    keep: int = 0
    input: tuple[Ref, ...] = ()
    output: tuple[Ref, ...] = ()
    requested: tuple[str, ...] = ()
    tool: str | None = None
    call_id: str | None = None
    arguments: Ref | None = None
    result: Ref | None = None
    result_hash: str | None = None
    truncated: bool = False
    input_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost_usd: float | None = None
    stop_reason: str | None = None
    attributes: Ref | None = None

    @property
    def seconds(self) -> float | None:
        """How long it took, where both ends are known and in order."""
        if self.start_ns is None or self.end_ns is None or self.end_ns < self.start_ns:
            return None
        return (self.end_ns - self.start_ns) / 1e9

    @property
    def refs(self) -> tuple[Ref, ...]:
        """Every text that this span refers to."""
        single = (self.error, self.arguments, self.result, self.attributes)
        return (*self.input, *self.output, *(r for r in single if r is not None))
