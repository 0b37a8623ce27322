"""OpenAI's responses API.

What a model answered in one response is one message, also where a client sends it back item by item. With
`previous_response_id` or `conversation` a request holds only what is new: its messages are those alone, and
`continues` names the rest, which the provider keeps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ethogram.capture.parse import as_dict, as_name
from ethogram.traces import Message
from ethogram.wire.gateway.call import ModelReply, ModelRequest, ProtocolName, RequestEdits

from .document import (
    DocumentPath,
    definitions_of,
    error_text,
    json_object,
    params_of,
    reply_limit,
    setting_changes,
    spliced,
    split_error,
    usage_record,
)
from .response_items import Layout, layout_of, read_output
from .response_stream import ResponseReader, response_document, response_events

_KNOWN = ("input", "instructions", "model", "tools", "stream")


class OpenAIResponses:
    """The responses API."""

    name: ProtocolName = "openai-responses"

    def serves(self, method: str, path: str) -> bool:
        """Any address that ends in `/responses`, with Azure's prefix too."""
        return method == "POST" and path.endswith("/responses")

    def request(self, body: bytes) -> ModelRequest:
        """What is asked, instructions as the first message; raises `ValueError` for a body that is no request."""
        document = _request(body)
        conversation = document.get("conversation")
        named = conversation.get("id") if isinstance(conversation, dict) else conversation
        return ModelRequest(
            protocol=self.name,
            model=as_name(document.get("model")) or None,
            messages=tuple([Message(m.role, tuple(m.parts), m.name) for m in layout_of(document)]),
            tools=definitions_of(document),
            params=params_of(document, _KNOWN),
            stream=document.get("stream") is True,
            at_most_tokens=reply_limit(document, "max_output_tokens"),
            continues=as_name(document.get("previous_response_id") or named) or None,
        )

    def reply(self, body: bytes) -> ModelReply:
        """A whole answer, or the error in it; raises `ValueError` for a body that is neither."""
        document = json_object(body, "a response")
        if not isinstance(document.get("output"), list) and not document.get("error"):
            raise ValueError("the body of a response has neither output nor an error")
        return _reply_of(document)

    def reader(self) -> ResponseReader:
        """A reader for one streamed reply."""
        return ResponseReader(_reply_of)

    def edited(self, body: bytes, edits: RequestEdits) -> bytes:
        """The request with its changes; raises `ValueError` for a place that does not exist or holds no words."""
        document = _request(body)
        layout = layout_of(document)
        changes = setting_changes(document, edits, ("max_output_tokens",))
        for (position, part), words in edits.texts.items():
            if not (0 <= position < len(layout) and 0 <= part < len(layout[position].parts)):
                raise ValueError(f"the request has no part {part} in message {position}")
            path, value = layout[position].change(document, part, words)
            changes[path] = value
        if edits.system is not None:
            return _with_system(body, document, layout, changes, edits.system)
        return spliced(body, changes)

    def body_of(self, reply: ModelReply) -> bytes:
        """A reply as this API would send it; an error without an answer becomes an error body."""
        if reply.error is not None and not reply.message.parts and not reply.response_id:
            return self.error_body(*split_error(reply.error))
        return msgspec.json.encode(response_document(reply))

    def events_of(self, reply: ModelReply) -> Iterator[bytes]:
        """A reply as this API would stream it; one that broke off has no end."""
        return response_events(reply)

    def error_body(self, kind: str, message: str) -> bytes:
        """An error in the form that clients of this API expect."""
        return msgspec.json.encode({"error": {"message": message, "type": kind, "param": None, "code": kind}})


def _request(body: bytes) -> dict[str, Any]:
    document = json_object(body, "a responses request")
    given = document.get("input")
    if given is not None and not isinstance(given, str | list):
        raise ValueError(f"the input of a responses request is a {type(given).__name__}, not words or a list")
    if given is None and not any(name in document for name in ("instructions", "prompt", "previous_response_id")):
        raise ValueError("the body of a responses request has no input")
    return document


def _with_system(
    body: bytes, document: dict[str, Any], layout: list[Layout], changes: dict[DocumentPath, Any], words: str
) -> bytes:
    """The request with another system prompt: its instructions, else its first system message, else new ones."""
    first = next((m for m in layout if m.role == "system"), None)
    if document.get("instructions") or first is None:
        return spliced(body, {**changes, ("instructions",): words})
    place = first.paths[0][:2]
    changes = {path: value for path, value in changes.items() if path[:2] != place}
    return spliced(body, {**changes, (*place, "content"): words})


def _reply_of(document: dict[str, Any], ended: bool = True) -> ModelReply:
    """The reply in a response; one that failed, or that a stream left unfinished, is not complete."""
    parts, details, refused = read_output(document.get("output"))
    status = document.get("status")
    error = document.get("error")
    if error is None and status in ("failed", "cancelled"):
        error = status
    message = Message("assistant", tuple(parts))
    return ModelReply(
        message=message,
        model=as_name(document.get("model")) or None,
        response_id=as_name(document.get("id")) or None,
        stop_reason=_stop_reason(document, message, refused) if ended and not error else None,
        usage=usage_record(document.get("usage"), document.get("service_tier")),
        complete=ended and not error,
        error=error_text(error) if error else None,
        details=details,
    )


def _stop_reason(document: dict[str, Any], message: Message, refused: bool) -> str | None:
    """This API has a status instead of a stop reason; the words are those of chat completions, where they fit."""
    if document.get("status") == "incomplete":
        return as_name(as_dict(document.get("incomplete_details")).get("reason")) or "incomplete"
    return "refusal" if refused else "tool_calls" if message.tool_calls else "stop"
