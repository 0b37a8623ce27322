"""OpenAI's chat completions, which most other providers and local servers speak as well."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ethogram.capture.parse import as_dict, as_list, as_name, chat_message, role
from ethogram.traces import Message, Reasoning, Text, ToolCall
from ethogram.wire.gateway.call import Alternative, ModelReply, ModelRequest, ProtocolName, RequestEdits, Usage

from .document import (
    DocumentPath,
    all_input,
    call_id,
    content_paths,
    definitions_of,
    error_text,
    json_object,
    made_id,
    params_of,
    prepended,
    reply_limit,
    result_content,
    reworded,
    setting_changes,
    spliced,
    split_error,
    usage_record,
)
from .sse import ReplyReader, event

_KNOWN = ("messages", "model", "tools", "stream")
_SYSTEM = ("system", "developer")
_STOP = {"end_turn": "stop", "stop_sequence": "stop", "refusal": "stop", "tool_use": "tool_calls"}
_STOP |= {"max_tokens": "length", "max_output_tokens": "length"}
"""Stop reasons of the other APIs in the words of this one."""


class OpenAIChat:
    """The chat completions API."""

    name: ProtocolName = "openai-chat"

    def serves(self, method: str, path: str) -> bool:
        """Any address that ends in `/chat/completions`, with Azure's and other providers' prefixes."""
        return method == "POST" and path.endswith("/chat/completions")

    def request(self, body: bytes) -> ModelRequest:
        """What is asked; raises `ValueError` for a body without messages."""
        document = _request(body)
        limit = reply_limit(document, "max_completion_tokens", "max_tokens")
        choices = document.get("n")
        return ModelRequest(
            protocol=self.name,
            model=as_name(document.get("model")) or None,
            messages=tuple([chat_message(as_dict(m)) for m in document["messages"]]),
            tools=definitions_of(document),
            params=params_of(document, _KNOWN),
            stream=document.get("stream") is True,
            at_most_tokens=None if limit is None else limit * (max(choices, 1) if isinstance(choices, int) else 1),
        )

    def reply(self, body: bytes) -> ModelReply:
        """A whole answer, or the error in it; raises `ValueError` for a body that is neither."""
        document = json_object(body, "a chat completion")
        if not isinstance(document.get("choices"), list) and not document.get("error"):
            raise ValueError("the body of a chat completion has neither choices nor an error")
        return _reply_of(document)

    def reader(self) -> ChatReader:
        """A reader for one streamed reply."""
        return ChatReader()

    def edited(self, body: bytes, edits: RequestEdits) -> bytes:
        """The request with its changes; raises `ValueError` for a place that does not exist or holds no words."""
        document = _request(body)
        messages = document["messages"]
        changes = setting_changes(document, edits, ("max_completion_tokens", "max_tokens"))
        for (position, part), words in edits.texts.items():
            path, value = _change(messages, position, part, words)
            changes[("messages", position, *path)] = value
        system = next((i for i, m in enumerate(messages) if as_dict(m).get("role") in _SYSTEM), None)
        if edits.system is not None and system is not None:
            changes = {p: v for p, v in changes.items() if p[:2] != ("messages", system)}
            changes["messages", system, "content"] = edits.system
        body = spliced(body, changes)
        if edits.system is not None and system is None:
            body = prepended(body, "messages", {"role": "system", "content": edits.system})
        return body

    def body_of(self, reply: ModelReply) -> bytes:
        """A reply as this API would send it; an error without an answer becomes an error body."""
        if reply.error is not None and not reply.message.parts:
            return self.error_body(*split_error(reply.error))
        response_id = _response_id(reply)
        choices = [
            {"index": i, "message": _message(m, stop, response_id, details), "logprobs": None, "finish_reason": finish}
            for i, (m, stop, finish, details) in enumerate(_choices(reply))
        ]
        document = {**_envelope(reply, "chat.completion"), "choices": choices}
        if reply.usage is not None:
            document["usage"] = _usage(reply.usage)
        return msgspec.json.encode(document)

    def events_of(self, reply: ModelReply) -> Iterator[bytes]:
        """A reply as this API would stream it; one that broke off has no end."""
        head = {**_envelope(reply, "chat.completion.chunk"), "usage": None}
        if reply.message.parts or reply.error is None:
            yield from _choice_events(reply, head)
        if reply.error is not None:
            kind, words = split_error(reply.error)
            yield event({"error": {"message": words, "type": kind, "param": None, "code": kind}})
        elif reply.complete:
            if reply.usage is not None:
                yield event({**head, "choices": [], "usage": _usage(reply.usage)})
            yield b"data: [DONE]\n\n"

    def error_body(self, kind: str, message: str) -> bytes:
        """An error in the form that clients of this API expect."""
        return msgspec.json.encode({"error": {"message": message, "type": kind, "param": None, "code": kind}})


def _request(body: bytes) -> dict[str, Any]:
    document = json_object(body, "a chat completion request")
    if not isinstance(document.get("messages"), list):
        raise ValueError("the body of a chat completion request has no list of messages")
    return document


def _change(messages: list[Any], position: int, part: int, words: str) -> tuple[DocumentPath, Any]:
    """The value inside a message that holds the words of a part, and what to put there."""
    paths = _part_paths(as_dict(messages[position])) if 0 <= position < len(messages) else []
    if not 0 <= part < len(paths):
        raise ValueError(f"the request has no part {part} in message {position}")
    path = paths[part]
    item = messages[position]
    for key in path:
        item = item[key]
    if path[0] in ("tool_calls", "function_call"):
        inner: DocumentPath = ("function", "arguments") if "function" in as_dict(item) else ("arguments",)
        return (*path, *inner), words
    if messages[position].get("role") in ("tool", "function") and path == ("content",):
        return path, result_content(item, words)
    deeper, value = reworded(item, words)
    return (*path, *deeper), value


def _part_paths(item: dict[str, Any]) -> list[DocumentPath]:
    """Where the parts of `chat_message(item)` stand in it, in the same order."""
    content = item.get("content")
    paths: list[DocumentPath] = [("content", *p) for p in content_paths(content)]
    if role(item.get("role")) == "tool":
        typed = any(as_dict(c).get("type") == "tool_result" for c in as_list(content))
        paths = paths if typed else [("content",)]
    elif not paths and item.get("refusal"):
        paths = [("refusal",)]
    for name in ("reasoning_content", "reasoning"):
        if isinstance(item.get(name), str) and item[name]:
            paths.insert(0, (name,))
            break
    paths += [("tool_calls", k) for k in range(len(as_list(item.get("tool_calls"))))]
    if isinstance(item.get("function_call"), dict):
        paths.append(("function_call",))
    return paths


def _reply_of(document: dict[str, Any], ended: bool = True) -> ModelReply:
    """The reply in a completion; one with an error, or that a stream left unfinished, is not complete."""
    choices = sorted((as_dict(c) for c in as_list(document.get("choices"))), key=_index)
    answers = [_answer(c) for c in choices] or [Alternative(Message("assistant"))]
    error = document.get("error")
    spelled = bool(choices) and not as_dict(choices[0].get("message")).get("reasoning_content")
    reasons = answers[0].message.parts[:1] and isinstance(answers[0].message.parts[0], Reasoning)
    return ModelReply(
        message=answers[0].message,
        model=as_name(document.get("model")) or None,
        response_id=as_name(document.get("id")) or None,
        stop_reason=answers[0].stop_reason,
        usage=usage_record(document.get("usage"), document.get("service_tier")),
        complete=ended and not error,
        error=error_text(error) if error else None,
        alternatives=tuple(answers[1:]),
        details={0: {"field": "reasoning"}} if spelled and reasons else {},
    )


def _index(choice: dict[str, Any]) -> int:
    index = choice.get("index")
    return index if isinstance(index, int) else 0


def _answer(choice: dict[str, Any]) -> Alternative:
    message = as_dict(choice.get("message"))
    stop = "refusal" if message.get("refusal") else as_name(choice.get("finish_reason")) or None
    return Alternative(chat_message({**message, "role": "assistant"}), stop)


_Choice = tuple[Message, str | None, str | None, dict[int, dict[str, Any]]]


def _choices(reply: ModelReply) -> list[_Choice]:
    """Each answer with its stop reason, that in the words of this API, and its details."""
    answers = [Alternative(reply.message, reply.stop_reason), *reply.alternatives]
    return [
        (a.message, a.stop_reason, _finish(a, reply.complete), reply.details if i == 0 else {})
        for i, a in enumerate(answers)
    ]


def _finish(answer: Alternative, complete: bool) -> str | None:
    if answer.stop_reason is None:
        return ("tool_calls" if answer.message.tool_calls else "stop") if complete else None
    return _STOP.get(answer.stop_reason, answer.stop_reason)


def _response_id(reply: ModelReply) -> str:
    return reply.response_id or made_id("chatcmpl-", reply.message, reply.model)


def _envelope(reply: ModelReply, kind: str) -> dict[str, Any]:
    return {"id": _response_id(reply), "object": kind, "created": 0, "model": reply.model or "unknown"}


def _message(
    message: Message, stop: str | None, response_id: str, details: dict[int, dict[str, Any]]
) -> dict[str, Any]:
    """An answer in the spelling of this API."""
    text = "".join(p.text for p in message.parts if isinstance(p, Text))
    reasoning = "".join(p.text for p in message.parts if isinstance(p, Reasoning))
    refused = stop == "refusal"
    spelled: dict[str, Any] = {"role": "assistant", "content": None if refused else text or None}
    spelled["refusal"] = text if refused else None
    if reasoning:
        spelled["reasoning" if details.get(0, {}).get("field") == "reasoning" else "reasoning_content"] = reasoning
    calls = [_call(p, i, response_id) for i, p in enumerate(message.parts) if isinstance(p, ToolCall)]
    return {**spelled, "tool_calls": calls} if calls else spelled


def _call(call: ToolCall, position: int, response_id: str) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call_id(call, "call_", response_id, position), "type": "function", "function": function}


def _usage(usage: Usage) -> dict[str, Any]:
    prompt, completion = all_input(usage), usage.output_tokens or 0
    spelled: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": completion}
    spelled["total_tokens"] = prompt + completion
    details = {"cached_tokens": usage.cache_read_tokens, "cache_write_tokens": usage.cache_write_tokens}
    if known := {k: v for k, v in details.items() if v is not None}:
        spelled["prompt_tokens_details"] = known
    if usage.reasoning_tokens is not None:
        spelled["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return spelled


def _choice_events(reply: ModelReply, head: dict[str, Any]) -> Iterator[bytes]:
    """The chunks of every answer: one for each part, arguments apart from the name of their tool."""
    for index, (message, stop, finish, details) in enumerate(_choices(reply)):
        whole = _message(message, stop, _response_id(reply), details)
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": "", "refusal": None}]
        deltas += [{n: whole[n]} for n in ("reasoning", "reasoning_content", "content", "refusal") if whole.get(n)]
        for position, call in enumerate(whole.get("tool_calls", ())):
            function = call["function"]
            deltas.append({"tool_calls": [{**call, "index": position, "function": {**function, "arguments": ""}}]})
            if arguments := function["arguments"]:
                deltas.append({"tool_calls": [{"index": position, "function": {"arguments": arguments}}]})
        for delta in deltas:
            yield _chunk(head, index, delta)
        if finish is not None and reply.complete:
            yield _chunk(head, index, {}, finish)


def _chunk(head: dict[str, Any], index: int, delta: dict[str, Any], finish: str | None = None) -> bytes:
    return event({**head, "choices": [{"index": index, "delta": delta, "logprobs": None, "finish_reason": finish}]})


class _GrowingChoice:
    """One answer while it is streamed."""

    def __init__(self) -> None:
        self.texts: dict[str, list[str]] = {}
        self.calls: dict[int, tuple[dict[str, str], list[str]]] = {}
        self.finish: str | None = None

    def add(self, delta: dict[str, Any]) -> None:
        for name in ("content", "refusal", "reasoning_content", "reasoning"):
            if isinstance(text := delta.get(name), str) and text:
                self.texts.setdefault(name, []).append(text)
        for call in as_list(delta.get("tool_calls")):
            self._add_call(as_dict(call))
        if isinstance(legacy := delta.get("function_call"), dict):
            self._add_call({"index": -1, "function": legacy})

    def _add_call(self, call: dict[str, Any]) -> None:
        index = call.get("index")
        if not isinstance(index, int):  # some servers number nothing: an id opens the next call
            index = max(self.calls, default=-1) + (1 if call.get("id") or not self.calls else 0)
        named, arguments = self.calls.setdefault(index, ({}, []))
        function = as_dict(call.get("function"))
        for name, value in (("id", call.get("id")), ("name", function.get("name"))):
            if isinstance(value, str) and value:
                named.setdefault(name, value)
        if isinstance(function.get("arguments"), str):
            arguments.append(function["arguments"])

    def document(self) -> dict[str, Any]:
        message: dict[str, Any] = {name: "".join(texts) for name, texts in self.texts.items()}
        calls = [
            {"id": named.get("id"), "function": {"name": named.get("name"), "arguments": "".join(arguments)}}
            for _, (named, arguments) in sorted(self.calls.items())
        ]
        return {"message": {**message, "tool_calls": calls}, "finish_reason": self.finish}


class ChatReader(ReplyReader):
    """Follows the chunks of a streamed chat completion."""

    def __init__(self) -> None:
        super().__init__()
        self._choices: dict[int, _GrowingChoice] = {}
        self._document: dict[str, Any] = {}

    def take(self, value: dict[str, Any]) -> None:
        """One chunk."""
        for name in ("id", "model", "usage", "error", "service_tier"):
            if value.get(name):
                self._document[name] = value[name]
        for choice in as_list(value.get("choices")):
            if not isinstance(choice, dict):
                continue
            grown = self._choices.setdefault(_index(choice), _GrowingChoice())
            grown.add(as_dict(choice.get("delta")))
            grown.finish = as_name(choice.get("finish_reason")) or grown.finish

    def reply(self) -> ModelReply:
        """What has arrived so far; complete if the stream ended or every answer has its stop reason."""
        choices = [{**c.document(), "index": i} for i, c in sorted(self._choices.items())]
        finished = bool(self._choices) and all(c.finish for c in self._choices.values())
        return _reply_of({**self._document, "choices": choices}, self.ended or finished)
