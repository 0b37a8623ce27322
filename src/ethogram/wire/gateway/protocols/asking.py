"""Build a request in the form of each API from what a trace holds of it, to send it again without the agent.

What a trace does not hold is left out: thinking, whose signatures only its own client has. Pictures and other files
cannot be sent, since a trace has no bytes of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ethogram.capture.parse import as_dict, from_json
from ethogram.traces import File, Message, Param, Text, ToolCall, ToolResult
from ethogram.wire.gateway.call import ModelRequest, ProtocolName

from .document import made_id

RequestDocument = dict[str, Any]


def request_body(request: ModelRequest) -> bytes:
    """The body of a request; raises `ValueError` for messages with files."""
    if any(isinstance(part, File) for message in request.messages for part in message.parts):
        raise ValueError("a message holds a file, whose bytes the trace does not have")
    document: RequestDocument = {"model": request.model, **_SPELLED[request.protocol](request.messages)}
    if request.tools:
        document["tools"] = list(request.tools)
    document |= {name: _value(value) for name, value in request.params.items()}
    if request.stream:
        document["stream"] = True
    return msgspec.json.encode(document)


def _value(param: Param) -> Any:
    """A parameter as it was sent: lists and objects were kept as JSON text."""
    if isinstance(param, str) and param[:1] in ("{", "["):
        decoded = from_json(param)
        return param if decoded is None else decoded
    return param


def _chat(messages: Sequence[Message]) -> RequestDocument:
    spelled: list[RequestDocument] = []
    for message in messages:
        results = [p for p in message.parts if isinstance(p, ToolResult)]
        spelled += [{"role": "tool", "tool_call_id": p.call_id or "", "content": p.content} for p in results]
        if results:
            continue
        role = "user" if message.role == "other" else message.role
        item: RequestDocument = {"role": role, "content": _words(message) or (None if message.tool_calls else "")}
        if message.name:
            item["name"] = message.name
        if message.tool_calls:
            item["tool_calls"] = [
                {"id": _id(c, i), "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
                for i, c in enumerate(message.tool_calls)
            ]
        spelled.append(item)
    return {"messages": spelled}


def _anthropic(messages: Sequence[Message]) -> RequestDocument:
    system = [m for m in messages if m.role == "system"]
    spelled: list[RequestDocument] = []
    for message in messages:
        if message.role == "system":
            continue
        blocks: list[RequestDocument] = []
        for position, part in enumerate(message.parts):
            match part:
                case Text() if part.text:
                    blocks.append({"type": "text", "text": part.text})
                case ToolCall():
                    named = {"id": _id(part, position), "name": part.name}
                    blocks.append({"type": "tool_use", **named, "input": as_dict(from_json(part.arguments or "{}"))})
                case ToolResult():
                    result = {"type": "tool_result", "tool_use_id": part.call_id or "", "content": part.content}
                    blocks.append({**result, "is_error": True} if part.failed else result)
        spelled.append({"role": "assistant" if message.role == "assistant" else "user", "content": blocks})
    found: RequestDocument = {"messages": spelled}
    return {"system": "\n".join(m.text for m in system), **found} if system else found


def _responses(messages: Sequence[Message]) -> RequestDocument:
    items: list[RequestDocument] = []
    for message in messages:
        words = _words(message)
        if words:
            kind = "output_text" if message.role == "assistant" else "input_text"
            role = "user" if message.role in ("other", "tool") else message.role
            items.append({"type": "message", "role": role, "content": [{"type": kind, "text": words}]})
        for position, part in enumerate(message.parts):
            if isinstance(part, ToolCall):
                called = {"call_id": _id(part, position), "name": part.name, "arguments": part.arguments}
                items.append({"type": "function_call", **called})
            elif isinstance(part, ToolResult):
                items.append({"type": "function_call_output", "call_id": part.call_id or "", "output": part.content})
    return {"input": items}


_SPELLED: dict[ProtocolName, Callable[[Sequence[Message]], RequestDocument]] = {
    "openai-chat": _chat,
    "anthropic-messages": _anthropic,
    "openai-responses": _responses,
}


def _words(message: Message) -> str:
    return "\n".join(p.text for p in message.parts if isinstance(p, Text))


def _id(call: ToolCall, position: int) -> str:
    return call.call_id or made_id("call_", position, call.name, call.arguments)
