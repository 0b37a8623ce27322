"""Messages in every dialect that telemetry writes: OpenTelemetry, OpenInference, and the raw requests and
responses of OpenAI, Anthropic, Gemini, LangChain and the Vercel AI SDK."""

from __future__ import annotations

from typing import Any

import msgspec

from ethogram.capture.parse import (
    as_dict,
    as_list,
    as_name,
    as_text,
    chat_message,
    content_parts,
    flat_text,
    from_json,
    media,
    role,
    to_json,
    tool_call,
)
from ethogram.traces import File, Message, Part, Reasoning, Text, ToolCall, ToolResult, cut_whole

CARRIERS = frozenset(
    [
        "messages",
        "contents",
        "input",
        "prompt",
        "prompts",
        "system",
        "system_instruction",
        "instructions",
        "choices",
        "candidates",
        "generations",
        "output",
        "content",
        "message",
        "text",
        "completion",
        "role",
        "parts",
        "tool_calls",
        "function_call",
    ]
)
"""Keys of a request or response that hold what the messages say."""

_LANGCHAIN = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "system": "system", "tool": "tool"}
_SPEAKERS = {"tool-call": "assistant", "tool_call": "assistant", "tool-response": "tool", "tool_response": "tool"}
"""Roles of smolagents, which speaks of calls and responses in words."""
_REMEMBERED_CHARS = 4 << 20
_URLS = ("image-url", "audio-url", "video-url", "document-url")


def decoded_json(value: Any) -> Any:
    """The value of JSON inside a string, also twice; other strings stay as they are."""
    for _ in range(2):
        if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "[", '"'):
            return value
        inner = from_json(value)
        if inner is None:
            return value
        value = inner
    return value


def messages_of(value: Any, speaker: str) -> list[Message]:
    """The messages in a value: a list of them, a request, a response, or plain words of `speaker`."""
    found = messages_in_json(value, speaker)
    if found is None:
        found = _gather(decoded_json(value), speaker)
    if found or value in (None, "", [], {}):
        return found
    return [] if is_definitions(decoded_json(value)) else [Message(role(speaker), (Text(as_text(value)),))]


class _Memory:
    """Messages that were read before, by their JSON: a context is sent again at every call, and grows."""

    def __init__(self) -> None:
        self._known: dict[bytes | tuple[str, bytes], list[Message]] = {}
        self._last: dict[str, tuple[str, list[Message]]] = {}
        self._chars = 0

    def listed(self, text: str, speaker: str) -> list[Message]:
        """The messages in the JSON of a list. One that begins as the last one did is read from there on."""
        start, known = self._last.get(speaker, ("", []))
        found: list[Message] = []
        if known and text.startswith(start) and text.startswith(",", len(start)):
            found = self._gathered(f"[{text[len(start) + 1 :]}", speaker)
        found = [*known, *found] if found else self._gathered(text, speaker)
        if text.endswith("]") and len(text) <= _REMEMBERED_CHARS:
            self._last[speaker] = (text[:-1], found)
        return found

    def _gathered(self, text: str, speaker: str) -> list[Message]:
        return [m for raw in _raw_list.decode(text) for m in self._gather(bytes(raw), speaker)]

    def _gather(self, raw: bytes, speaker: str) -> list[Message]:
        known = self._known.get(raw) or self._known.get((speaker, raw))
        if known is None:
            if self._chars > _REMEMBERED_CHARS:
                self._known, self._chars = {}, 0
            item = msgspec.json.decode(raw)
            known = _gather([item], speaker)
            self._known[raw if _names_speaker(item) else (speaker, raw)] = known
            self._chars += len(raw) + 100
        return known


def _names_speaker(item: Any) -> bool:
    """Whether a message says itself who speaks, so that it is the same wherever it stands."""
    return isinstance(item, dict) and isinstance(who := item.get("role"), str) and bool(who) and "type" not in item


_memory = _Memory()
_raw_list = msgspec.json.Decoder(list[msgspec.Raw])


def messages_in_json(value: Any, speaker: str) -> list[Message] | None:
    """The messages in the JSON of a list, each item of which is understood once; None if it is something else."""
    if not isinstance(value, str) or value[:1] != "[":
        return None
    try:
        return _memory.listed(value, speaker)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return None


def _gather(value: Any, speaker: str) -> list[Message]:
    if isinstance(value, str):
        return [Message(role(speaker), (Text(value),))] if value else []
    if isinstance(value, dict):
        return _from_object(value, speaker)
    if not isinstance(value, list):
        return []
    found: list[Message] = []
    for item in value:
        if isinstance(item, list):
            found.extend(_gather(item, speaker))
        elif isinstance(item, str):
            found.append(Message(role(speaker), (Text(item),)))
        elif isinstance(item, dict) and not is_definition(item):
            found.extend(_from_object(item, speaker) or [Message(role(speaker), (Text(to_json(item)),))])
    return found


def _from_object(value: dict[str, Any], speaker: str) -> list[Message]:
    """One object: a message, or a request or response that carries messages."""
    if _is_message(value):
        return [message_of(value, speaker)]
    for key in ("choices", "candidates", "generations"):
        if isinstance(value.get(key), list) and value[key]:
            return _gather(value[key], "assistant")
    for key in ("messages", "contents"):
        if isinstance(value.get(key), list) and value[key]:
            return [*_system(value), *_gather(value[key], speaker)]
    for key in ("message", "content", "input", "output", "prompt", "prompts", "completion", "text"):
        inner = decoded_json(value.get(key))
        if key == "content" and isinstance(inner, list):
            return [message_of({"role": speaker, **value}, speaker)]
        if isinstance(inner, dict | list | str) and inner:
            found = _gather(inner, speaker)
            if found:
                return [*_system(value), *found]
    return []


def _is_message(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    if "parts" in value or "toolName" in value or isinstance(value.get("role"), str):
        return True
    if isinstance(kind, str) and kind in _LANGCHAIN:
        return "content" in value
    if kind in ("function_call", "function_call_output", "reasoning", "tool_call", "tool_use", "tool_result"):
        return True
    return kind == "constructor" and isinstance(value.get("kwargs"), dict)


def _system(value: dict[str, Any]) -> list[Message]:
    """The system prompt that stands beside the messages of a request."""
    inner = (
        value.get("system")
        or value.get("system_instruction")
        or value.get("instructions")
        or as_dict(value.get("config")).get("system_instruction")
    )
    parts = message_parts(inner.get("parts") if isinstance(inner, dict) and "parts" in inner else inner)
    return [Message("system", tuple(parts))] if parts else []


def is_definition(item: Any) -> bool:
    """Whether a list of messages holds the description of a tool here (Langfuse's LangChain handler does this)."""
    content = item.get("content") if isinstance(item, dict) and item.get("role") == "tool" else None
    return isinstance(content, dict) and content.get("type") == "function" and isinstance(content.get("function"), dict)


def is_definitions(value: Any) -> bool:
    """Whether a list holds nothing but descriptions of tools."""
    return isinstance(value, list) and bool(value) and all(is_definition(v) for v in value)


def message_of(item: dict[str, Any], speaker: str = "other") -> Message:
    """One message in any dialect."""
    kind = item.get("type")
    if kind == "constructor":  # LangChain's serialised objects
        inner = as_dict(item.get("kwargs"))
        path = as_list(item.get("id"))
        made = as_name(path[-1]).removesuffix("Chunk").removesuffix("Message").lower() if path else ""
        return message_of({"type": made if made in _LANGCHAIN else "ai", **inner}, speaker)
    if kind in ("function_call", "tool_call", "tool_use") or "toolName" in item:
        return Message("assistant", (call_of(item),))
    if kind == "function_call_output":
        call_id = as_name(item.get("call_id")) or None
        return Message("tool", (ToolResult(_words(item.get("output")), None, call_id),))
    if kind == "reasoning" and "role" not in item:
        return Message("assistant", tuple(message_parts([item])))
    who = item.get("role") or (_LANGCHAIN.get(kind) if isinstance(kind, str) else None) or speaker
    who = _SPEAKERS.get(who, who) if isinstance(who, str) else who
    name = as_name(item.get("name")) or None
    if "parts" in item:
        parts = message_parts(item["parts"])
        results = bool(parts) and all(isinstance(p, ToolResult) for p in parts)
        return Message("tool" if results else role(who), tuple(parts), name)
    calls = item.get("tool_calls") or as_dict(item.get("additional_kwargs")).get("tool_calls")
    content = decoded_parts(item.get("content"))
    plain = chat_message({**item, "role": who, "content": None, "tool_calls": None})
    if role(who) == "tool":
        return _tool_message(item, content, name)
    parts = [*(p for p in plain.parts if isinstance(p, Reasoning)), *message_parts(content)]
    asked = [call_of(c) for c in as_list(calls)]
    known = {(p.name, p.call_id) for p in parts if isinstance(p, ToolCall)}
    parts.extend(c for c in asked if (c.name, c.call_id) not in known)
    parts.extend(p for p in plain.parts if isinstance(p, ToolCall))
    return Message(plain.role, tuple(parts), name)


def _tool_message(item: dict[str, Any], content: Any, name: str | None) -> Message:
    parts = message_parts(content)
    if not any(isinstance(p, ToolResult) for p in parts):
        call_id = as_name(item.get("tool_call_id") or item.get("id")) or None
        failed = bool(item.get("error")) or item.get("status") == "error"
        parts = [ToolResult(_words(content), name, call_id, failed)]
    return Message("tool", tuple(parts), name)


def decoded_parts(content: Any) -> Any:
    """Content that is a JSON list of typed parts in a string; other content is left alone."""
    if isinstance(content, str) and content.lstrip()[:2] in ("[{", "[ "):
        inner = from_json(content)
        if isinstance(inner, list) and inner and all(isinstance(i, dict) and "type" in i for i in inner):
            return inner
    return content


def message_parts(value: Any) -> list[Part]:
    """Parts of a message; the kinds that only telemetry has are turned here, all others as everywhere."""
    if isinstance(value, dict):
        value = [value]
    if not isinstance(value, list):
        return content_parts(value)
    parts: list[Part] = []
    for item in value:
        parts.append(_part(item)) if isinstance(item, dict) else parts.extend(content_parts(item))
    return parts


def _part(item: dict[str, Any]) -> Part:
    item = as_dict(item.get("message_content")) or item
    kind = as_name(item.get("type"))
    call = item.get("function_call") or item.get("functionCall")
    answer = item.get("function_response") or item.get("functionResponse")
    if isinstance(call, dict):
        return call_of(call)
    if isinstance(answer, dict):
        return ToolResult(_words(answer.get("response")), as_name(answer.get("name")) or None, _id(answer))
    text = item.get("text", item.get("content"))
    if kind in ("", "text") and isinstance(text, str) and item.get("thought") is not True:
        return Text(text)
    if kind in ("tool_use", "tool_call", "tool-call", "server_tool_call", "server_tool_use"):
        return call_of(item)
    if kind in ("tool_result", "tool_call_response", "tool-result", "server_tool_call_response"):
        return _result(item)
    if kind == "uri" or kind in _URLS:
        uri = as_text(item.get("uri") or item.get("url"))
        mime = as_name(item.get("mime_type") or item.get("media_type")) or as_name(item.get("modality")) or kind[:-4]
        known = isinstance(item.get("digest"), str) or isinstance(item.get("size"), int)
        return (
            File(mime, cut_whole(uri, 2000), item.get("digest"), item.get("size"))
            if known
            else media(mime or "uri", uri)
        )
    if kind in ("blob", "binary"):
        mime = as_name(item.get("mime_type") or item.get("media_type") or item.get("modality")) or kind
        return media(mime, as_text(item.get("content") or item.get("data")))
    if kind == "image" and isinstance(item.get("image"), dict):
        return media("image", as_text(as_dict(item["image"].get("image") or item["image"]).get("url")))
    if item.get("thought") is True and isinstance(item.get("text"), str):
        return Reasoning(item["text"])
    found = content_parts([{**item, "type": kind}])
    return found[0] if len(found) == 1 else Text(to_json(item))


def _result(item: dict[str, Any]) -> ToolResult:
    keys = ("response", "result", "content", "output", "server_tool_call_response")
    body = next((item[k] for k in keys if item.get(k) is not None), None)
    if isinstance(body, dict) and body.get("type") in ("text", "json") and "value" in body:
        body = body["value"]  # the Vercel AI SDK wraps results
    known = as_name(item.get("name") or item.get("toolName")) or None
    return ToolResult(_words(body), known, _id(item), bool(item.get("is_error")))


def _words(body: Any) -> str:
    """What a tool answered, as text: typed parts become their words, other structures JSON."""
    if isinstance(body, list) and body and all(isinstance(b, dict) and "type" in b for b in body):
        return flat_text(body)
    return as_text(body)


def _id(item: dict[str, Any]) -> str | None:
    keys = ("id", "tool_use_id", "tool_call_id", "call_id", "toolCallId")
    return next((as_name(item[k]) for k in keys if item.get(k)), None)


def call_of(item: Any) -> ToolCall:
    """A tool call in any dialect."""
    item = as_dict(item)
    item = as_dict(item.get("tool_call")) or item
    name = item.get("toolName")
    if name is None and item.get("type") not in ("server_tool_call", "function_call"):
        return tool_call(item)
    inner = next((item[k] for k in ("arguments", "input", "args", "server_tool_call") if item.get(k) is not None), None)
    call_id = item.get("call_id") or item.get("toolCallId") or item.get("id")
    return ToolCall(as_name(name or item.get("name")) or "unknown", as_text(inner), as_name(call_id) or None)


def last_words(value: Any) -> str:
    """The text of the last assistant message in a value, or the value itself as text."""
    said = [m.text for m in messages_of(value, "assistant") if m.role == "assistant" and m.text]
    return said[-1] if said else as_text(decoded_json(value))
