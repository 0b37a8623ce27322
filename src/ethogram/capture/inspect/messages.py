"""Messages and token counts of Inspect logs: references resolved, each distinct message read once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from ethogram.capture.inspect.body import Body, RawJson, ranges, raw_array
from ethogram.capture.inspect.places import OWN
from ethogram.capture.parse import (
    as_dict,
    as_float,
    as_int,
    as_list,
    as_name,
    as_text,
    content_parts,
    media,
    role,
    to_json,
    tool_call,
    words_of_parts,
)
from ethogram.traces import File, Message, Part, Reasoning, Text, ToolCall, ToolResult, digest, pack_message, text_ref

Lose = Callable[..., None]

_REFERENCE = re.compile(rb"://")  # quick to find, and no reference is without it
_PREFIXES = ("attachment://", "tc://")
_LONG_DATA = 200
_RECENT = 4  # contexts of agents that work side by side


class Messages:
    """Turns what a sample says into messages; content that was pooled or attached is put back."""

    def __init__(self, body: Body, lose: Lose) -> None:
        """`lose` counts what a message cannot hold."""
        self._body = body
        self._lose = lose
        self._known: dict[bytes, Message] = {}
        self._contexts: list[tuple[bytes, list[Message]]] = []
        self._pool: list[Message] | None = None
        self._keyed: dict[str, Message] | None = None

    def one(self, raw: RawJson) -> Message:
        """A message; the same bytes give the same object, so that long contexts compare quickly."""
        key = bytes(raw)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self.read(self.value(key))
        return known

    def inputs(self, raw: Any, refs: Any) -> list[Message]:
        """The input of a model call, inline (raw or already decoded) or as ranges of the pool."""
        if isinstance(raw, list):
            found = [self.read(m) for m in raw]
        else:
            found = [] if raw is None or bytes(raw) == b"null" else self._inline(bytes(raw))
        if found or not refs:
            return found
        if self._pool is None:
            self._pool = [self.one(m) for m in self._body.pool]
        for start, end in ranges(refs):
            if end > len(self._pool):
                self._lose("message (not in the pool)", end - max(start, len(self._pool)))
            found.extend(self._pool[start:end])
        return found

    def _inline(self, raw: bytes) -> list[Message]:
        """A context in full; where it begins with the bytes of a recent one, only the rest is read."""
        for i, (start, before) in enumerate(self._contexts):
            if raw.startswith(start):
                rest = raw[len(start) :].lstrip()
                if rest[:1] in (b",", b"]"):
                    del self._contexts[i]
                    new = raw_array(b"[" + rest[1:]) if rest[:1] == b"," else []
                    found = [*before, *(self.one(m) for m in new)]
                    break
        else:
            found = [self.one(m) for m in raw_array(raw)]
        if found:
            self._contexts.insert(0, (raw[: raw.rindex(b"]")].rstrip(), found))
            del self._contexts[_RECENT:]
        return found

    def by_key(self, keys: Any) -> list[Message]:
        """Messages that our own writer named by their content."""
        if self._keyed is None:
            self._keyed = {}
            for raw in (*self._body.messages, *self._body.pool):
                message = self.one(raw)
                self._keyed[message_key(message)] = message
        found = [self._keyed[key] for key in as_list(keys) if isinstance(key, str) and key in self._keyed]
        self._lose("message (named, but not in the log)", len(as_list(keys)) - len(found))
        return found

    def value(self, raw: RawJson) -> Any:
        """A JSON value with its references resolved."""
        value = msgspec.json.decode(raw)
        return self.resolve(value) if _REFERENCE.search(raw) else value

    def resolve(self, value: Any) -> Any:
        """A decoded value with its references resolved."""
        if isinstance(value, str):
            return self._attached(value) if value.startswith(_PREFIXES) else value
        if isinstance(value, list):
            return [self.resolve(v) for v in value]
        if isinstance(value, dict):
            return {k: self.resolve(v) for k, v in value.items()}
        return value

    def plain(self, value: Any) -> Any:
        """A value fit to be kept as an attribute: the bytes of pictures and sounds become their hash."""
        if isinstance(value, str):
            value = self.resolve(value)
            if len(value) > _LONG_DATA and value.startswith("data:") and ";base64," in value[:100]:
                self._lose("bytes of a file")
                return f"{value.partition(',')[0]} ({digest(value)}, {len(value) * 3 // 4} bytes)"
            return value
        if isinstance(value, list):
            return [self.plain(v) for v in value]
        if isinstance(value, dict):
            return {k: self.plain(v) for k, v in value.items()}
        return value

    def read(self, item: Any) -> Message:
        """A message from its decoded JSON, whose references were resolved."""
        if not isinstance(item, dict):
            raise TypeError(f"a message that is a {type(item).__name__}, not an object")
        speaker = role(item.get("role"))
        parts = self.parts(item.get("content"))
        if isinstance(item.get("reasoning"), str) and item["reasoning"]:
            parts.insert(0, Reasoning(item["reasoning"]))
        own = as_dict(as_dict(item.get("metadata")).get(OWN))
        if item.get("metadata") and not own:
            self._lose("message.metadata")
        named = as_name(own.get("name")) or None
        files = iter(as_list(own.get("files")))
        parts = [msgspec.convert(next(files, p), File) if isinstance(p, File) else p for p in parts]
        if speaker == "tool":
            error = failure(item.get("error") or item.get("tool_error"))
            words = words_of_parts(parts) or error or ""
            name = as_name(item.get("function")) or None
            result = ToolResult(words, name, as_name(item.get("tool_call_id")) or None, bool(error))
            return Message("tool", (result,), named)
        calls = [tool_call(c) for c in as_list(item.get("tool_calls"))]
        texts = as_list(own.get("arguments"))
        if len(texts) == len(calls):
            calls = [msgspec.structs.replace(c, arguments=as_text(t)) for c, t in zip(calls, texts, strict=True)]
        return Message(role(own["role"]) if "role" in own else speaker, (*parts, *calls), named)

    def parts(self, content: Any) -> list[Part]:
        """Parts of a content value."""
        if isinstance(content, dict):
            content = [content]
        if not isinstance(content, list):
            return content_parts(content)
        parts: list[Part] = []
        for item in content:
            parts.extend(self._part(item) if isinstance(item, dict) else content_parts([item]))
        return parts

    def result(self, value: Any) -> str:
        """The words of a tool's return value, which may be a number or parts with pictures."""
        if isinstance(value, dict | list):
            typed = [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, dict) and "type" in v]
            return words_of_parts(self.parts(value)) if typed else to_json(value)
        return as_text(value)

    def _part(self, item: dict[str, Any]) -> list[Part]:
        kind = item.get("type")
        for extra in ("internal", "citations", "signature"):
            if item.get(extra):
                self._lose(f"content.{extra}")
        if kind == "reasoning":
            if item.get("redacted"):
                self._lose("reasoning (redacted)")
                return [Reasoning(as_text(item.get("summary")))]
            return [Reasoning(as_text(item.get("reasoning") or item.get("summary")))]
        if kind == "tool_use":  # run by the provider: the call and its result are one part
            call = ToolCall(as_name(item.get("name")), as_text(item.get("arguments")), as_name(item.get("id")) or None)
            words = as_text(item.get("error")) or as_text(item.get("result"))
            return [call, ToolResult(words, call.name, call.call_id, bool(item.get("error")))]
        if kind in ("image", "audio", "video", "document"):
            return [self._file(kind, item)]
        if kind == "data":
            return [Text(to_json(self.plain(item.get("data"))))]
        return content_parts([item])

    def _file(self, kind: str, item: dict[str, Any]) -> File:
        data = as_text(item.get(kind))
        stated = as_name(item.get("mime_type")) or (f"{kind}/{item['format']}" if item.get("format") else kind)
        if data.startswith("data:"):
            stated = data[5:].partition(",")[0].partition(";")[0] or stated
        file = media(stated, data)
        if file.digest is not None:
            self._lose("bytes of a file")
        return file

    def _attached(self, text: str) -> str:
        found = self._body.attachment(text.partition("://")[2])
        if found is None:
            self._lose("attachment (missing)")
            return text
        return found


def message_key(message: Message) -> str:
    """The address of a message: the hash of its canonical text."""
    return text_ref(pack_message(message, text_ref))


def failure(error: Any) -> str | None:
    """The words of an error, in any of its spellings."""
    if not error:
        return None
    if isinstance(error, dict):
        return as_text(error.get("message")) or as_name(error.get("type")) or to_json(error)
    return as_text(error)


def token_fields(counts: Any) -> dict[str, Any]:
    """Token fields of a draft: fresh input apart from cached, output with reasoning.

    Inspect's `input_tokens` excludes cached tokens today and included them for some providers before;
    `total_tokens` tells which, and whether reasoning stands inside `output_tokens`.
    """
    counts = as_dict(counts)
    if not counts:
        return {}
    fresh, output = as_int(counts.get("input_tokens")), as_int(counts.get("output_tokens"))
    read, write = as_int(counts.get("input_tokens_cache_read")), as_int(counts.get("input_tokens_cache_write"))
    reasoning = as_int(counts.get("reasoning_tokens"))
    cached = (read or 0) + (write or 0)
    total = as_int(counts.get("total_tokens"))
    if total and fresh is not None and output is not None:
        beyond = total - fresh - output
        if beyond == 0 and 0 < cached <= fresh:
            fresh -= cached
        elif reasoning and beyond in (reasoning, reasoning + cached) and beyond != cached:
            output += reasoning
            fresh -= cached if beyond == reasoning and cached <= fresh else 0
    return {
        "input_tokens": fresh,
        "output_tokens": output,
        "cache_read_tokens": read,
        "cache_write_tokens": write,
        "reasoning_tokens": reasoning,
        "cost_usd": as_float(counts.get("total_cost")),
    }
