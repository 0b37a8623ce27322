"""What happened: frozen spans, messages, outcomes, labels; stable ids; one codec. No clock, no files."""

from .ids import EpisodeId, Ref, SpanId, TraceId, digest, episode_id, text_ref, trace_id
from .label import Label, LabelSource
from .message import (
    File,
    Message,
    Part,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
    detached_refs,
    pack_message,
    unpack_message,
)
from .outcome import REASONS, SUCCESS_AT, Missing, Outcome, Reason, Scored
from .signature import signature
from .span import KINDS, STATUSES, STEP_KINDS, Kind, Param, Span, Status
from .steps import inner_ids, step_order
from .trace import TOKEN_FIELDS, UNMETERED, Head, Origin, Totals, Trace, message_order, total

__all__ = [
    "KINDS",
    "REASONS",
    "STATUSES",
    "STEP_KINDS",
    "SUCCESS_AT",
    "TOKEN_FIELDS",
    "UNMETERED",
    "EpisodeId",
    "File",
    "Head",
    "Kind",
    "Label",
    "LabelSource",
    "Message",
    "Missing",
    "Origin",
    "Outcome",
    "Param",
    "Part",
    "Reason",
    "Reasoning",
    "Ref",
    "Role",
    "Scored",
    "Span",
    "SpanId",
    "Status",
    "Text",
    "ToolCall",
    "ToolResult",
    "Totals",
    "Trace",
    "TraceId",
    "detached_refs",
    "digest",
    "episode_id",
    "inner_ids",
    "message_order",
    "pack_message",
    "signature",
    "step_order",
    "text_ref",
    "total",
    "trace_id",
    "unpack_message",
]
