"""A model as a function of the request, and short ways to write its replies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ethogram.traces import Message, Text, ToolCall
from ethogram.wire.gateway.call import ModelReply, ModelRequest, Usage

ReplyFunction = Callable[[ModelRequest], ModelReply]
"""What a model answers to a request. It is called from several threads at once."""


class ReplyError(Exception):
    """Raised by a scripted model to answer with an error instead: HTTP status, kind and message.

    `retry_after` sets the header of that name, in seconds.
    """

    def __init__(
        self, status: int, message: str, *, kind: str = "server_error", retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.retry_after = retry_after


def text_reply(text: str, *, usage: Usage | None = None) -> ModelReply:
    """An answer in words."""
    return ModelReply(message=Message("assistant", (Text(text),)), usage=usage)


def tool_reply(*calls: tuple[str, dict[str, Any]], text: str = "") -> ModelReply:
    """A reply that asks for tools, each as its name and arguments, perhaps after some words."""
    parts = [ToolCall(name, msgspec.json.encode(arguments).decode()) for name, arguments in calls]
    return ModelReply(message=Message("assistant", (*((Text(text),) if text else ()), *parts)))


def in_turn(*replies: ModelReply) -> ReplyFunction:
    """A model that gives these replies in order within each conversation, and stays with the last.

    The position is the number of the model's messages in the request, so concurrent conversations do not mix.
    """

    def reply(request: ModelRequest) -> ModelReply:
        said = sum(message.role == "assistant" for message in request.messages)
        return replies[min(said, len(replies) - 1)]

    return reply
