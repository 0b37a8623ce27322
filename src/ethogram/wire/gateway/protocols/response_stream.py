"""Streams of OpenAI's responses: the events of a reply, and the reader that follows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ethogram.capture.parse import as_dict, as_list, as_name
from ethogram.wire.gateway.call import ModelReply, Usage

from .document import all_input, made_id, split_error
from .response_items import output_of
from .sse import ReplyReader, event

_INCOMPLETE = {"length": "max_output_tokens", "max_tokens": "max_output_tokens"}
_FINISHED = frozenset(["stop", "tool_calls", "refusal", "end_turn", "tool_use", "stop_sequence", "function_call"])
_FINAL = frozenset(["response.completed", "response.incomplete", "response.failed"])


def response_document(reply: ModelReply) -> dict[str, Any]:
    """A reply as the object that this API sends."""
    response_id = reply.response_id or made_id("resp_", reply.message, reply.model)
    document: dict[str, Any] = {
        "id": response_id,
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": reply.model or "unknown",
        "output": output_of(reply),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": None if reply.usage is None else _usage(reply.usage),
    }
    if reply.error is not None:
        kind, words = split_error(reply.error)
        document |= {"status": "failed", "error": {"code": kind, "message": words}}
    elif reply.stop_reason is not None and reply.stop_reason not in _FINISHED:
        reason = _INCOMPLETE.get(reply.stop_reason, reply.stop_reason)
        document |= {"status": "incomplete", "incomplete_details": {"reason": reason}}
    return document


def _usage(usage: Usage) -> dict[str, Any]:
    given, output = all_input(usage), usage.output_tokens or 0
    return {
        "input_tokens": given,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read_tokens or 0,
            "cache_write_tokens": usage.cache_write_tokens or 0,
        },
        "output_tokens": output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
        "total_tokens": given + output,
    }


def response_events(reply: ModelReply) -> Iterator[bytes]:
    """A reply as this API streams it; every event has the next number."""
    for number, data in enumerate(_event_data(reply)):
        yield event({**data, "sequence_number": number}, data["type"])


def _event_data(reply: ModelReply) -> Iterator[dict[str, Any]]:
    document = response_document(reply)
    started = {**document, "status": "in_progress", "output": [], "usage": None}
    started |= {"error": None, "incomplete_details": None}
    yield {"type": "response.created", "response": started}
    yield {"type": "response.in_progress", "response": started}
    for index, item in enumerate(document["output"]):
        yield {"type": "response.output_item.added", "output_index": index, "item": _empty(item)}
        for data in _item_data(item):
            yield {**data, "item_id": item["id"], "output_index": index}
        if reply.complete:
            yield {"type": "response.output_item.done", "output_index": index, "item": item}
    if reply.complete or reply.error is not None:
        yield {"type": f"response.{document['status']}", "response": document}


def _empty(item: dict[str, Any]) -> dict[str, Any]:
    """An item before anything of it was said."""
    bare: dict[str, dict[str, Any]] = {
        "message": {"content": []},
        "function_call": {"arguments": ""},
        "reasoning": {"summary": []},
    }
    return {**item, **bare[item["type"]], "status": "in_progress"} if item["type"] in bare else item


def _item_data(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What is said of an item between its first and its last event."""
    if item["type"] == "function_call":
        yield {"type": "response.function_call_arguments.delta", "delta": item["arguments"]}
        yield {"type": "response.function_call_arguments.done", "arguments": item["arguments"], "name": item["name"]}
    elif item["type"] == "reasoning":
        for k, part in enumerate(item["summary"]):
            place = {"summary_index": k}
            yield {"type": "response.reasoning_summary_part.added", **place, "part": {**part, "text": ""}}
            yield {"type": "response.reasoning_summary_text.delta", **place, "delta": part["text"]}
            yield {"type": "response.reasoning_summary_text.done", **place, "text": part["text"]}
            yield {"type": "response.reasoning_summary_part.done", **place, "part": part}
    elif item["type"] == "message":
        for k, content in enumerate(item["content"]):
            place = {"content_index": k}
            words = "refusal" if content["type"] == "refusal" else "text"
            kind = "response.refusal" if words == "refusal" else "response.output_text"
            extra: dict[str, Any] = {} if words == "refusal" else {"logprobs": []}
            yield {"type": "response.content_part.added", **place, "part": {**content, words: ""}}
            yield {"type": f"{kind}.delta", **place, "delta": content[words], **extra}
            yield {"type": f"{kind}.done", **place, words: content[words], **extra}
            yield {"type": "response.content_part.done", **place, "part": content}


class _GrowingItem:
    """One output item while it is streamed: its last whole form, and the words that came since."""

    def __init__(self) -> None:
        self._item: dict[str, Any] = {}
        self._whole = False
        self._texts: dict[tuple[str, int], list[str]] = {}

    def start(self, item: dict[str, Any], whole: bool) -> None:
        self._item, self._whole = item, whole

    def add(self, field: str, position: int, delta: Any) -> None:
        if isinstance(delta, str):
            self._texts.setdefault((field, position), []).append(delta)

    def document(self) -> dict[str, Any]:
        if self._whole:
            return self._item
        item = dict(self._item)
        for (field, _), texts in sorted(self._texts.items(), key=lambda entry: entry[0]):
            text = "".join(texts)
            if field in ("arguments", "input"):
                item[field] = text
            elif field == "summary":
                item["summary"] = [*as_list(item.get("summary")), {"type": "summary_text", "text": text}]
            else:
                words = "refusal" if field == "refusal" else "text"
                item["content"] = [*as_list(item.get("content")), {"type": field, words: text}]
        return item


_DELTAS = {
    "response.output_text.delta": ("output_text", "content_index"),
    "response.refusal.delta": ("refusal", "content_index"),
    "response.reasoning_text.delta": ("reasoning_text", "content_index"),
    "response.reasoning_summary_text.delta": ("summary", "summary_index"),
    "response.function_call_arguments.delta": ("arguments", ""),
    "response.custom_tool_call_input.delta": ("input", ""),
}
"""Events that bring more words: the field that they add to, and what numbers it."""


class ResponseReader(ReplyReader):
    """Follows the events of a streamed response; its last event repeats the whole of it."""

    def __init__(self, reply_of: Callable[[dict[str, Any], bool], ModelReply]) -> None:
        super().__init__()
        self._reply_of = reply_of
        self._document: dict[str, Any] = {}
        self._items: dict[int, _GrowingItem] = {}

    def take(self, value: dict[str, Any]) -> None:
        """One event."""
        kind = as_name(value.get("type"))
        if place := _DELTAS.get(kind):
            field, number = place
            self._item(value).add(field, _number(value, number), value.get("delta"))
        elif kind in ("response.output_item.added", "response.output_item.done"):
            self._item(value).start(as_dict(value.get("item")), kind.endswith("done"))
        elif isinstance(value.get("response"), dict):
            self._document.update({k: v for k, v in value["response"].items() if v is not None})
            self.ended = self.ended or kind in _FINAL
        elif kind == "error" or value.get("error"):
            self._document["error"] = value.get("error") or {"code": value.get("code"), "message": value.get("message")}

    def _item(self, value: dict[str, Any]) -> _GrowingItem:
        return self._items.setdefault(_number(value, "output_index"), _GrowingItem())

    def reply(self) -> ModelReply:
        """What has arrived so far; complete if the stream said that the response ends."""
        output = as_list(self._document.get("output"))
        if not (self.ended and output):
            output = [item.document() for _, item in sorted(self._items.items())]
        return self._reply_of({**self._document, "output": output}, self.ended)


def _number(value: dict[str, Any], name: str) -> int:
    number = value.get(name)
    return number if isinstance(number, int) else 0
