"""Upper bounds of a call, read from its request: what may be spent is set aside before anything is sent."""

from __future__ import annotations

from ethogram.prices import CapReached
from ethogram.prices.worst_case import CallSize, WorstCase
from ethogram.traces import File

from .call import ModelRequest

FRAME_TOKENS = 64
"""Tokens that a provider may put around a conversation."""
TOOLS_TOKENS = 1_024
"""What it may add where there are tools: instructions, and definitions of those that it knows by name."""
PICTURE_TOKENS = {
    "claude": 5_000,
    "gemini": 5_000,
    "gpt-4": 4_000,
    "gpt-4o-mini": 50_000,
    "o1": 4_000,
    "o3": 4_000,
    "o4": 4_000,
}
"""The most tokens that a picture counts, by how names of models begin; the longest beginning that fits."""
ANY_PICTURE_TOKENS = 20_000
_OWN_TOOLS = ("function", "custom", "bash_", "text_editor_", "computer_", "memory_")
"""How types of tools begin that the client carries out; what others put into the context nobody can tell before."""


def call_size(request: ModelRequest, body: bytes) -> CallSize:
    """What bounds a call. A token has a byte at least, so the bytes of the body bound what is written in it."""
    return CallSize(
        _input_tokens(request, len(body)),
        request.at_most_tokens,
        _answers(request),
        cache_write=b"cache_control" in body or request.protocol != "anthropic-messages",
        cache_write_1h=b'"1h"' in body,
        tier=_tier(request),
    )


def what_fits(reached: CapReached, most: WorstCase, request: ModelRequest) -> str:
    """What would let a call through that may use more than is left."""
    name = "max_output_tokens" if request.protocol == "openai-responses" else "max_tokens"
    if reached.resource == "usd":
        room = (reached.left - most.input_usd) / most.per_output if most.per_output else 0.0
    else:
        room = reached.left - most.input_tokens
    each = int(room / _answers(request))
    if each < 1:
        return ", most of it for its input"
    return f"; set {name} to {each} or less, or raise the cap"


def _answers(request: ModelRequest) -> int:
    answers = request.params.get("n")
    return max(answers, 1) if isinstance(answers, int) else 1


def _tier(request: ModelRequest) -> str | None:
    tier = request.params.get("service_tier")
    return tier if isinstance(tier, str) else None


def _input_tokens(request: ModelRequest, size: int) -> int | None:
    """An upper bound of the input; None where something counts that is not in the request."""
    if request.continues is not None or any(not _is_own(tool.get("type")) for tool in request.tools):
        return None
    tokens = size + FRAME_TOKENS + (TOOLS_TOKENS if request.tools else 0)
    for message in request.messages:
        for part in message.parts:
            if not isinstance(part, File):
                continue
            if not part.media_type.startswith(("image", "audio")) or (part.media_type[:1] == "a" and part.uri):
                return None  # a document is read by the provider: its bytes say little about its pages
            if part.media_type.startswith("image"):
                tokens += _picture_tokens(request.model or "") - (part.size or 0)
    return tokens


def _is_own(kind: object) -> bool:
    return kind is None or (isinstance(kind, str) and kind.startswith(_OWN_TOOLS))


def _picture_tokens(model: str) -> int:
    name = model.rpartition("/")[2]
    fitting = [beginning for beginning in PICTURE_TOKENS if name.startswith(beginning)]
    return PICTURE_TOKENS[max(fitting, key=len)] if fitting else ANY_PICTURE_TOKENS
