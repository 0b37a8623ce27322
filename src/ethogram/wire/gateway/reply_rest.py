"""What a reply holds beyond its message, as one text: kept as the `result` of the model's span, for replay."""

from __future__ import annotations

from typing import Any

import msgspec

from .call import Alternative, ModelReply


class _Rest(msgspec.Struct, frozen=True, omit_defaults=True):
    alternatives: tuple[Alternative, ...] = ()
    details: dict[int, dict[str, Any]] = {}


_decoder = msgspec.json.Decoder(_Rest)


def reply_rest(reply: ModelReply) -> str | None:
    """Further answers and the provider's details of a reply; None where there are none."""
    if not reply.alternatives and not reply.details:
        return None
    return msgspec.json.encode(_Rest(reply.alternatives, reply.details)).decode()


def with_rest(reply: ModelReply, rest: str | None) -> ModelReply:
    """A reply with what `reply_rest` gave for it; a text that cannot be read is left out."""
    if rest is None:
        return reply
    try:
        told = _decoder.decode(rest)
    except msgspec.MsgspecError:
        return reply
    return msgspec.structs.replace(reply, alternatives=told.alternatives, details=told.details)
