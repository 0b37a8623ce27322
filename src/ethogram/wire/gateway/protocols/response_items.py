"""The items of OpenAI's responses: input items into messages, output items into the parts of one message, and back."""

from __future__ import annotations

from typing import Any

from ethogram.capture.parse import as_dict, as_list, as_name, as_text, content_parts, flat_text, role, to_json
from ethogram.traces import Part, Reasoning, Role, Text, ToolCall, ToolResult
from ethogram.wire.gateway.call import ModelReply

from .document import DocumentPath, call_id, content_paths, made_id, reworded

_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
"""Items that call a tool of the client, and the member that holds the arguments."""
_RESULTS = frozenset(["function_call_output", "custom_tool_call_output"])
_OWN = frozenset(["type", "role", "status", "content", "summary", "name", "call_id", "arguments", "input"])
"""Members of an output item that its parts hold, or that follow from them."""

Details = dict[int, dict[str, Any]]


class Layout:
    """A message of a request while it is put together, with the place of each part in the document."""

    def __init__(self, role: Role, name: str | None = None) -> None:
        self.role = role
        self.name = name
        self.parts: list[Part] = []
        self.paths: list[DocumentPath] = []

    def change(self, document: dict[str, Any], position: int, words: str) -> tuple[DocumentPath, Any]:
        """The place of the value that holds the words of a part, and the new value; `ValueError` if it has none."""
        path = self.paths[position]
        item: Any = document
        for key in path:
            item = item[key]
        kind = as_dict(item).get("type")
        if kind in _CALLS:
            return (*path, _CALLS[kind]), words
        if kind in _RESULTS:
            return (*path, "output"), words
        if kind == "reasoning" and len(item.get("summary") or ()) == 1:
            return (*path, "summary", 0, "text"), words
        deeper, value = reworded(item, words)
        return (*path, *deeper), value


def layout_of(document: dict[str, Any]) -> list[Layout]:
    """The messages of a request: instructions, then the input; items of one answer are one message."""
    messages: list[Layout] = []
    if instructions := document.get("instructions"):
        _add_content(messages, Layout("system"), instructions, ("instructions",))
    given = document.get("input")
    if isinstance(given, str):
        _add_content(messages, Layout("user"), given, ("input",))
    for position, item in enumerate(given if isinstance(given, list) else ()):
        _add_item(messages, as_dict(item), ("input", position))
    return messages


def _add_content(messages: list[Layout], message: Layout, content: Any, path: DocumentPath) -> None:
    message.parts += content_parts(content)
    message.paths += [(*path, *p) for p in content_paths(content)]
    messages.append(message)


def _add_item(messages: list[Layout], item: dict[str, Any], path: DocumentPath) -> None:
    kind = as_name(item.get("type"))
    if "role" in item and kind in ("", "message"):
        speaker = role(item["role"])
        if speaker != "assistant":
            return _add_content(messages, Layout(speaker), item.get("content"), (*path, "content"))
        answer = _answer(messages)
        answer.parts += content_parts(item.get("content"))
        answer.paths += [(*path, "content", *p) for p in content_paths(item.get("content"))]
    elif kind.endswith("_output"):
        message = Layout("tool")
        output = item.get("output")
        words = output if isinstance(output, str) else flat_text(output)
        message.parts.append(ToolResult(words, None, as_name(item.get("call_id")) or None))
        message.paths.append(path)
        messages.append(message)
    elif kind == "reasoning" or kind.endswith("_call"):
        answer = _answer(messages)
        answer.parts.append(_read_item(item))
        answer.paths.append(path)
    else:
        message = Layout("other")
        message.parts.append(Text(to_json(item)))
        message.paths.append(path)
        messages.append(message)
    return None


def _answer(messages: list[Layout]) -> Layout:
    """The message that the next item of an answer belongs to."""
    if not messages or messages[-1].role != "assistant":
        messages.append(Layout("assistant"))
    return messages[-1]


def _read_item(item: dict[str, Any]) -> Part:
    """An item of an answer that is no message; calls of tools that the provider runs have their item as arguments."""
    kind = as_name(item.get("type"))
    if kind == "reasoning":
        texts = [*as_list(item.get("summary")), *as_list(item.get("content"))]
        return Reasoning("\n".join(as_text(as_dict(t).get("text")) for t in texts))
    if kind in _CALLS:
        arguments = as_text(item.get(_CALLS[kind]))
        return ToolCall(as_name(item.get("name")) or "unknown", arguments, as_name(item.get("call_id")) or None)
    if kind.endswith("_call"):
        given = {name: value for name, value in item.items() if name not in ("type", "id", "status", "result")}
        name = as_name(item.get("name")) or kind.removesuffix("_call")
        return ToolCall(name, to_json(given), as_name(item.get("call_id") or item.get("id")) or None)
    return Text(to_json(item))


def read_output(output: Any) -> tuple[list[Part], Details, bool]:
    """The parts of an answer, what their records do not hold, and whether the model refused."""
    parts: list[Part] = []
    details: Details = {}
    refused = False
    for item in map(as_dict, as_list(output)):
        if item.get("type") == "message":
            for content in map(as_dict, as_list(item.get("content"))):
                refused = refused or content.get("type") == "refusal"
                rest = {"id": item.get("id"), "annotations": content.get("annotations")}
                details[len(parts)] = rest
                parts += content_parts([content])
        elif item:
            details[len(parts)] = _rest(item)
            parts.append(_read_item(item))
    details = {i: {k: v for k, v in rest.items() if v} for i, rest in details.items()}
    return parts, {i: rest for i, rest in details.items() if rest}, refused


def _rest(item: dict[str, Any]) -> dict[str, Any]:
    """What the record of an item does not hold: all of it where the item could not be made from its record."""
    simple = item.get("type") == "function_call" or (
        item.get("type") == "reasoning" and len(as_list(item.get("summary"))) <= 1 and not item.get("content")
    )
    return {name: value for name, value in item.items() if name not in _OWN} if simple else item


def output_of(reply: ModelReply) -> list[dict[str, Any]]:
    """The parts of a reply as output items; texts in a row are one message unless their ids differ."""
    items: list[dict[str, Any]] = []
    response_id = reply.response_id or made_id("resp_", reply.message, reply.model)
    status = "completed" if reply.complete else "incomplete"
    for position, part in enumerate(reply.message.parts):
        rest = reply.details.get(position, {})
        made = made_id("item_", response_id, position)
        if rest.get("type") and "id" in rest:
            items.append(rest)
        elif isinstance(part, Text):
            _add_text(items, part, rest, reply, made)
        elif isinstance(part, Reasoning):
            summary = [{"type": "summary_text", "text": part.text}] if part.text else []
            items.append({"id": made, "type": "reasoning", "summary": summary, **rest})
        elif isinstance(part, ToolCall):
            named = {"name": part.name, "call_id": call_id(part, "call_", response_id, position)}
            call = {"id": made, "type": "function_call", "status": status, **named, "arguments": part.arguments}
            items.append({**call, **rest})
    return items


def _add_text(items: list[dict[str, Any]], part: Text, rest: dict[str, Any], reply: ModelReply, made: str) -> None:
    content: dict[str, Any] = {"type": "output_text", "text": part.text, "annotations": rest.get("annotations", [])}
    if reply.stop_reason == "refusal":
        content = {"type": "refusal", "refusal": part.text}
    last = items[-1] if items and items[-1]["type"] == "message" else None
    if last is not None and ("id" not in rest or rest["id"] == last["id"]):
        last["content"].append(content)
        return
    status = "completed" if reply.complete else "incomplete"
    message = {"id": rest.get("id", made), "type": "message", "role": "assistant", "status": status}
    items.append({**message, "content": [content]})
