"""Labels: scores, judgements and notes that are added to a stored trace, and never edited."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from .ids import Ref, SpanId, TraceId

LabelSource = Literal["import", "verifier", "heuristic", "judge", "hand"]
Layer = Literal["L0", "L1", "L2", "L3"]
"""What a verdict looks at: one answer, single tool calls, the way taken, the state that is left at the end."""
LAYERS: tuple[Layer, ...] = get_args(Layer)


class Label(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One statement about a trace, or about one of its spans; `why` is a text reference.

    In a store a long `value` is a text too, and `words` refers to it.
    """

    trace_id: TraceId
    name: str
    value: float | bool | str | None
    by: str
    source: LabelSource
    span_id: SpanId | None = None
    why: Ref | None = None
    version: str = "1"
    at_ns: int | None = None
    words: Ref | None = None
