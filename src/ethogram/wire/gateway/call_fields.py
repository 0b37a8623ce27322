"""The span of a model call from its request, its reply and what it used."""

from __future__ import annotations

from typing import Any

from ethogram.capture.draft import Draft
from ethogram.prices.metering import HOUR_WRITES, TIER
from ethogram.traces import Param

from .call import ModelReply, ModelRequest, Usage
from .reply_passage import ReplyPassage
from .reply_rest import reply_rest


def fill_draft(
    draft: Draft, request: ModelRequest, reply: ModelReply, usage: Usage | None, passage: ReplyPassage, note: str
) -> None:
    """Write into the draft what was asked, answered and used; `note` is what a policy said of the call."""
    if reply.message.parts:
        draft.output = (reply.message,)
    draft.model = reply.model or request.model
    draft.stop_reason = reply.stop_reason
    draft.params = _params(request, reply)
    if usage is not None:
        draft.input_tokens, draft.output_tokens = usage.input_tokens, usage.output_tokens
        draft.cache_read_tokens, draft.cache_write_tokens = usage.cache_read_tokens, usage.cache_write_tokens
        draft.reasoning_tokens = usage.reasoning_tokens
    draft.attributes = _attributes(request, usage, passage, note)
    draft.result = reply_rest(reply)


def _params(request: ModelRequest, reply: ModelReply) -> dict[str, Param]:
    """What the client set, and what the reply says of itself."""
    params = dict(request.params)
    if request.model != reply.model and reply.model is not None:
        params["request_model"] = request.model
    if request.stream:
        params["stream"] = True
    if reply.response_id is not None:
        params["response_id"] = reply.response_id
    return params


def _attributes(request: ModelRequest, usage: Usage | None, passage: ReplyPassage, note: str) -> dict[str, Any]:
    """Facts that are the same for most calls of an agent, definitions of tools among them: one text for all."""
    attributes: dict[str, Any] = {"wire": request.protocol}
    if request.tools:
        attributes["tools"] = request.tools
    if usage is not None:
        facts: dict[str, Any] = {"usage_estimated": usage.estimated, TIER: usage.service_tier}
        facts[HOUR_WRITES] = usage.cache_write_1h_tokens
        attributes |= {name: fact for name, fact in facts.items() if fact}
    if passage.status is not None and passage.status >= 400:
        attributes["status"] = passage.status
    if passage.copy is not None and passage.copy.malformed:
        attributes["malformed_events"] = passage.copy.malformed
    if note:
        attributes["note"] = note
    return attributes
