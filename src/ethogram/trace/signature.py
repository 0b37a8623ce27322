"""The structural signature of a step: what kind of thing was done, never with which words."""

from __future__ import annotations

from collections.abc import Callable

from .span import Span

SignatureFunction = Callable[[Span], str]
SIGNATURE_VERSION = "1"


def signature(span: Span) -> str:
    """`kind:name`, an error mark, and for model steps the stop reason and the tools asked for.

    Arguments, ids, times and content never enter, so that wording alone is no divergence.
    """
    parts = [span.kind, span.tool or span.name]
    if span.status == "error":
        parts.append("error")
    if span.kind == "model":
        parts.append(span.stop_reason or "-")
        parts.append(",".join(span.requested) or "-")
    return ":".join(parts)
