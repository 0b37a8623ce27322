"""Messages of a trace as Inspect writes them: a pool that holds each distinct message once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from ethogram.capture.inspect.messages import message_key
from ethogram.capture.inspect.places import OWN
from ethogram.capture.parse import from_json, to_json
from ethogram.traces import File, Message, Part, Reasoning, Ref, Text, ToolCall, ToolResult, Trace

JsonObject = dict[str, Any]

_ROLES = ("system", "user", "assistant", "tool")


class MessagePool:
    """The distinct messages of a trace, each written once."""

    def __init__(self, trace: Trace, lost: Counter[str]) -> None:
        """`lost` counts what a message of Inspect cannot say."""
        self.messages: list[JsonObject] = []
        self._trace = trace
        self._lost = lost
        self._places: dict[Ref, range] = {}

    def ranges(self, refs: Sequence[Ref]) -> list[list[int]]:
        """Half-open ranges of the pool that hold these messages, in order."""
        found: list[list[int]] = []
        for ref in refs:
            place = self.place(ref)
            if found and found[-1][1] == place.start:
                found[-1][1] = place.stop
            elif place:
                found.append([place.start, place.stop])
        return found

    def written(self, refs: Sequence[Ref]) -> list[JsonObject]:
        """The messages themselves."""
        return [self.messages[i] for ref in refs for i in self.place(ref)]

    def keys(self, refs: Sequence[Ref]) -> list[str] | None:
        """Addresses of messages that hold wherever they are stored: Inspect numbers its pool anew."""
        for ref in refs:
            self.place(ref)
        return [message_key(self._trace.message(ref)) for ref in refs if ref in self._trace.texts] or None

    def place(self, ref: Ref) -> range:
        """Where a message stands in the pool; one that Inspect would split stands in several places."""
        if ref not in self._places:
            start = len(self.messages)
            if ref in self._trace.texts:
                self.messages.extend(self._message(self._trace.message(ref)))
            else:
                self._lost["text (missing)"] += 1
            self._places[ref] = range(start, len(self.messages))
        return self._places[ref]

    def _message(self, message: Message) -> Iterator[JsonObject]:
        results = [p for p in message.parts if isinstance(p, ToolResult)]
        if message.role == "assistant" or not results:
            yield self._one(message, message.parts)
            return
        rest = tuple(p for p in message.parts if not isinstance(p, ToolResult))
        if len(results) > 1 or rest or message.role != "tool":
            self._lost["message (split: one tool result each)"] += 1
        for result in results:
            own = {"name": message.name} if message.name else {}
            written: JsonObject = {"role": "tool", "content": result.content, "tool_call_id": result.call_id}
            written |= {"function": result.name, "metadata": {OWN: own} if own else None}
            if result.failed:
                written["error"] = {"type": "unknown", "message": result.content}
            yield {k: v for k, v in written.items() if v is not None}
        if rest:
            yield self._one(Message("user", rest, message.name), rest)

    def _one(self, message: Message, parts: Sequence[Part]) -> JsonObject:
        own: JsonObject = {"name": message.name} if message.name else {}
        role = message.role if message.role in _ROLES else "user"
        if role != message.role or role == "tool":
            own["role"] = message.role
            role = "user"
        content, calls = self._content(parts)
        texts = [c.arguments for c in calls]
        if texts != [to_json(arguments_of(t)) for t in texts]:
            own["arguments"] = texts
        files = [msgspec.to_builtins(p) for p in parts if isinstance(p, File)]
        if files:
            own["files"] = files
        written: JsonObject = {"role": role, "content": content}
        if calls and role == "assistant":
            written["tool_calls"] = [
                {"id": c.call_id or "", "function": c.name, "arguments": arguments_of(c.arguments), "type": "function"}
                for c in calls
            ]
        elif calls:
            self._lost["tool call (not by the assistant)"] += len(calls)
        if own:
            written["metadata"] = {OWN: own}
        return written

    def _content(self, parts: Sequence[Part]) -> tuple[str | list[JsonObject], list[ToolCall]]:
        """Content and calls; a call with its result in the same message was run by the provider."""
        content: list[JsonObject] = []
        calls: list[ToolCall] = []
        skip = False
        for part, after in zip(parts, (*parts[1:], None), strict=False):
            if skip:
                skip = False
            elif isinstance(part, ToolCall):
                if isinstance(after, ToolResult) and (after.call_id, after.name) == (part.call_id, part.name):
                    skip = True
                    content.append(_provider_call(part, after))
                else:
                    calls.append(part)
            else:
                if calls:
                    self._lost["order of parts (calls come last)"] += 1
                content.append(self._part(part))
        if len(content) == 1 and content[0]["type"] == "text":
            return content[0]["text"], calls
        return content or "", calls

    def _part(self, part: Part) -> JsonObject:
        if isinstance(part, Reasoning):
            return {"type": "reasoning", "reasoning": part.text}
        if isinstance(part, File):
            self._lost["file (only its hash is known)"] += not part.uri
            address = part.uri or part.digest or part.media_type
            if part.media_type.startswith("image"):
                return {"type": "image", "image": address}
            return {"type": "document", "document": address, "filename": "file", "mime_type": part.media_type}
        return {"type": "text", "text": part.text if isinstance(part, Text) else to_json(part)}


def _provider_call(call: ToolCall, result: ToolResult) -> JsonObject:
    written = {"type": "tool_use", "tool_type": "mcp_call", "id": call.call_id or "", "name": call.name}
    outcome = {"result": "", "error": result.content} if result.failed else {"result": result.content}
    return {**written, "arguments": call.arguments, **outcome}


def arguments_of(text: str) -> JsonObject:
    """The object that arguments are; empty where they are none."""
    value = from_json(text)
    return value if isinstance(value, dict) else {}
