"""Anthropic's messages API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ethogram.capture.parse import as_dict, as_list, as_name, chat_message, content_parts, from_json, to_json
from ethogram.traces import Message, Part, Reasoning, Text, ToolCall, ToolResult
from ethogram.wire.gateway.call import ModelReply, ModelRequest, ProtocolName, RequestEdits, Usage

from .document import (
    DocumentPath,
    call_id,
    content_paths,
    definitions_of,
    error_text,
    json_object,
    made_id,
    params_of,
    reply_limit,
    reworded,
    setting_changes,
    spliced,
    split_error,
    usage_record,
)
from .sse import ReplyReader, event

_KNOWN = ("messages", "model", "tools", "stream", "system")
_STOP = {"stop": "end_turn", "length": "max_tokens", "max_output_tokens": "max_tokens"}
_STOP |= {"tool_calls": "tool_use", "function_call": "tool_use", "content_filter": "refusal"}
"""Stop reasons of the other APIs in the words of this one."""
_RECORDED = {
    "text": frozenset(["type", "text"]),
    "thinking": frozenset(["type", "thinking"]),
    "tool_use": frozenset(["type", "id", "name", "input"]),
}
"""Members of a block that its record holds, for the kinds of blocks that have one."""
_GROWING = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
_GROWING |= {"signature_delta": "signature"}


class AnthropicMessages:
    """The messages API."""

    name: ProtocolName = "anthropic-messages"

    def serves(self, method: str, path: str) -> bool:
        """Any address that ends in `/v1/messages`."""
        return method == "POST" and path.endswith("/v1/messages")

    def request(self, body: bytes) -> ModelRequest:
        """What is asked, the system prompt as the first message; raises `ValueError` for a body without messages."""
        document = _request(body)
        return ModelRequest(
            protocol=self.name,
            model=as_name(document.get("model")) or None,
            messages=(*_system(document), *[_message(as_dict(m)) for m in document["messages"]]),
            tools=definitions_of(document),
            params=params_of(document, _KNOWN),
            stream=document.get("stream") is True,
            at_most_tokens=reply_limit(document, "max_tokens"),
        )

    def reply(self, body: bytes) -> ModelReply:
        """A whole answer, or the error in it; raises `ValueError` for a body that is neither."""
        document = json_object(body, "a message")
        if not isinstance(document.get("content"), list) and not document.get("error"):
            raise ValueError("the body of a message has neither content nor an error")
        return _reply_of(document)

    def reader(self) -> MessageReader:
        """A reader for one streamed reply."""
        return MessageReader()

    def edited(self, body: bytes, edits: RequestEdits) -> bytes:
        """The request with its changes; raises `ValueError` for a place that does not exist or holds no words."""
        document = _request(body)
        changes = setting_changes(document, edits, ("max_tokens",))
        before = len(_system(document))
        for (position, part), words in edits.texts.items():
            if before and position == 0:
                path: DocumentPath = ("system",)
                content = document["system"]
            else:
                path = ("messages", position - before, "content")
                content = _content(document["messages"], position - before)
            paths = content_paths(content)
            if not 0 <= part < len(paths):
                raise ValueError(f"the request has no part {part} in message {position}")
            item = content[paths[part][0]] if paths[part] else content
            deeper, value = _reworded(item, words)
            changes[(*path, *paths[part], *deeper)] = value
        if edits.system is not None:
            changes = {p: v for p, v in changes.items() if p[0] != "system"}
            changes["system",] = _new_system(document.get("system"), edits.system)
        return spliced(body, changes)

    def body_of(self, reply: ModelReply) -> bytes:
        """A reply as this API would send it; usage that nobody knows is written as 0, which clients ask for."""
        if reply.error is not None and not reply.message.parts:
            return self.error_body(*split_error(reply.error))
        return msgspec.json.encode({**_envelope(reply), "content": _blocks(reply), "usage": _usage(reply.usage)})

    def events_of(self, reply: ModelReply) -> Iterator[bytes]:
        """A reply as this API would stream it; one that broke off has no end."""
        if reply.message.parts or reply.error is None:
            usage = _usage(reply.usage)
            start = {**_envelope(reply), "stop_reason": None, "content": [], "usage": {**usage, "output_tokens": 0}}
            yield _named({"type": "message_start", "message": start})
            for index, block in enumerate(_blocks(reply)):
                yield from _block_events(index, block)
            if reply.complete:
                delta = {"stop_reason": _stop(reply), "stop_sequence": None}
                yield _named({"type": "message_delta", "delta": delta, "usage": usage})
                yield _named({"type": "message_stop"})
        if reply.error is not None:
            kind, words = split_error(reply.error)
            yield _named({"type": "error", "error": {"type": kind, "message": words}})

    def error_body(self, kind: str, message: str) -> bytes:
        """An error in the form that clients of this API expect."""
        return msgspec.json.encode({"type": "error", "error": {"type": kind, "message": message}})


def _request(body: bytes) -> dict[str, Any]:
    document = json_object(body, "a messages request")
    if not isinstance(document.get("messages"), list):
        raise ValueError("the body of a messages request has no list of messages")
    return document


def _system(document: dict[str, Any]) -> tuple[Message, ...]:
    parts = content_parts(document.get("system"))
    return (Message("system", tuple(parts)),) if parts else ()


def _message(item: dict[str, Any]) -> Message:
    """A message of a request; one of the user that holds nothing but results is a tool's."""
    message = chat_message(item)
    if message.role == "user" and message.parts and all(isinstance(p, ToolResult) for p in message.parts):
        return Message("tool", message.parts, message.name)
    return message


def _content(messages: list[Any], position: int) -> Any:
    return as_dict(messages[position]).get("content") if 0 <= position < len(messages) else None


def _reworded(item: Any, words: str) -> tuple[DocumentPath, Any]:
    if isinstance(item, dict) and item.get("type") == "tool_use":
        return ("input",), as_dict(words)
    return reworded(item, words)


def _new_system(system: Any, words: str) -> Any:
    """The new system prompt; where the old one was a list of blocks, cache marks of the first one stay."""
    first = system[0] if isinstance(system, list) and system else None
    return [{**first, "text": words}] if isinstance(first, dict) else words


def _reply_of(document: dict[str, Any], ended: bool = True) -> ModelReply:
    parts: list[Part] = []
    details: dict[int, dict[str, Any]] = {}
    for block in as_list(document.get("content")):
        part, rest = _read_block(as_dict(block))
        if rest:
            details[len(parts)] = rest
        parts.append(part)
    error = document.get("error")
    return ModelReply(
        message=Message("assistant", tuple(parts)),
        model=as_name(document.get("model")) or None,
        response_id=as_name(document.get("id")) or None,
        stop_reason=as_name(document.get("stop_reason")) or None,
        usage=usage_record(document.get("usage")),
        complete=ended and not error,
        error=error_text(error) if error else None,
        details=details,
    )


def _read_block(block: dict[str, Any]) -> tuple[Part, dict[str, Any]]:
    """A block of a reply, and what its record does not hold: the whole block where it is of another kind."""
    kind = as_name(block.get("type"))
    if known := _RECORDED.get(kind):
        rest = {name: value for name, value in block.items() if name not in known and value is not None}
        return content_parts([block])[0], rest
    if kind.endswith("_tool_result"):
        return ToolResult(to_json(block.get("content")), None, as_name(block.get("tool_use_id")) or None), block
    return content_parts([block])[0], block


def _envelope(reply: ModelReply) -> dict[str, Any]:
    return {
        "id": reply.response_id or made_id("msg_", reply.message, reply.model),
        "type": "message",
        "role": "assistant",
        "model": reply.model or "unknown",
        "stop_reason": _stop(reply),
        "stop_sequence": None,
    }


def _stop(reply: ModelReply) -> str | None:
    if reply.stop_reason is None:
        return ("tool_use" if reply.message.tool_calls else "end_turn") if reply.complete else None
    return _STOP.get(reply.stop_reason, reply.stop_reason)


def _usage(usage: Usage | None) -> dict[str, Any]:
    usage = usage or Usage()
    spelled: dict[str, Any] = {"input_tokens": usage.input_tokens or 0, "output_tokens": usage.output_tokens or 0}
    spelled["cache_creation_input_tokens"] = usage.cache_write_tokens
    spelled["cache_read_input_tokens"] = usage.cache_read_tokens
    if usage.reasoning_tokens is not None:
        spelled["output_tokens_details"] = {"thinking_tokens": usage.reasoning_tokens}
    return spelled


def _blocks(reply: ModelReply) -> list[dict[str, Any]]:
    """The parts of a reply as blocks of this API."""
    response_id = reply.response_id or ""
    blocks = []
    for position, part in enumerate(reply.message.parts):
        rest = reply.details.get(position, {})
        if rest.get("type") and rest["type"] not in _RECORDED:
            blocks.append(rest)
        elif isinstance(part, Text):
            blocks.append({"type": "text", "text": part.text, **rest})
        elif isinstance(part, Reasoning):
            blocks.append({"type": "thinking", "thinking": part.text, "signature": "", **rest})
        elif isinstance(part, ToolCall):
            identity = {"id": call_id(part, "toolu_", response_id, position), "name": part.name}
            blocks.append({"type": "tool_use", **identity, "input": as_dict(part.arguments), **rest})
    return blocks


def _named(data: dict[str, Any]) -> bytes:
    return event(data, data["type"])


def _block_events(index: int, block: dict[str, Any]) -> Iterator[bytes]:
    """The start of a block without its words, the words, and its end."""
    deltas: list[dict[str, Any]] = []
    match block["type"]:
        case "text":
            start = {**block, "text": ""}
            deltas = [{"type": "text_delta", "text": block["text"]}]
        case "thinking":
            start = {**block, "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": block["thinking"]}]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        case "tool_use":
            start = {**block, "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": to_json(block["input"])}]
        case _:
            start = block
    yield _named({"type": "content_block_start", "index": index, "content_block": start})
    for delta in deltas:
        yield _named({"type": "content_block_delta", "index": index, "delta": delta})
    yield _named({"type": "content_block_stop", "index": index})


class _GrowingBlock:
    """One block of a reply while it is streamed."""

    def __init__(self, block: dict[str, Any]) -> None:
        self._block = block
        self._texts: dict[str, list[str]] = {}
        self._citations: list[Any] = list(as_list(block.get("citations")))

    def add(self, delta: dict[str, Any]) -> None:
        name = _GROWING.get(as_name(delta.get("type")), "")
        if isinstance(text := delta.get(name), str):
            self._texts.setdefault(name, []).append(text)
        elif delta.get("type") == "citations_delta":
            self._citations.append(delta.get("citation"))

    def document(self) -> dict[str, Any]:
        block = dict(self._block)
        for name, texts in self._texts.items():
            if name == "partial_json":
                text = "".join(texts)
                value = from_json(text) if text else None
                block["input"] = block.get("input") if not text else text if value is None else value
            else:
                block[name] = as_name(block.get(name)) + "".join(texts)
        return {**block, "citations": self._citations} if self._citations else block


class MessageReader(ReplyReader):
    """Follows the events of a streamed message."""

    def __init__(self) -> None:
        super().__init__()
        self._document: dict[str, Any] = {}
        self._blocks: dict[int, _GrowingBlock] = {}
        self._usage: dict[str, Any] = {}

    def take(self, value: dict[str, Any]) -> None:
        """One event."""
        match value.get("type"):
            case "content_block_delta":
                if block := self._blocks.get(_index(value)):
                    block.add(as_dict(value.get("delta")))
                else:
                    self._malformed += 1
            case "content_block_start":
                self._blocks[_index(value)] = _GrowingBlock(as_dict(value.get("content_block")))
            case "message_start":
                self._document.update(as_dict(value.get("message")))
                self._count(self._document.get("usage"))
            case "message_delta":
                self._document.update({k: v for k, v in as_dict(value.get("delta")).items() if v is not None})
                self._count(value.get("usage"))
            case "message_stop":
                self.ended = True
            case "error":
                self._document["error"] = value.get("error") or "error"

    def _count(self, usage: Any) -> None:
        """Counts are totals so far: a later one replaces an earlier one, and absent ones stay."""
        self._usage.update({k: v for k, v in as_dict(usage).items() if v is not None})

    def reply(self) -> ModelReply:
        """What has arrived so far; complete if the stream said that the message ends."""
        content = [block.document() for _, block in sorted(self._blocks.items())]
        return _reply_of({**self._document, "content": content, "usage": self._usage}, self.ended)


def _index(value: dict[str, Any]) -> int:
    index = value.get("index")
    return index if isinstance(index, int) else -1
