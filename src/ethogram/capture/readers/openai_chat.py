"""Chats in the OpenAI spelling, as a last resort: anything that holds `messages` or logged calls.

Read are: `{messages}` (fine-tuning files), pairs `{request, response}`, batch input and output lines, bare
responses, and a bare list of messages; as JSON lines, as an array or as one document. A conversation that was
written down whole is one trace with a model span per answer. A logged call is one model span with its full
input and a trace of its own, unless records name their conversation or session: those are put together.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.chat import ChatBuilder, task_asked
from ethogram.capture.draft import Draft
from ethogram.capture.intake import Intake
from ethogram.capture.pairing import OpenCalls
from ethogram.capture.parse import (
    as_dict,
    as_float,
    as_int,
    as_list,
    as_name,
    as_text,
    chat_message,
    iso_ns,
    to_json,
    usage_tokens,
)
from ethogram.capture.peek import Peek
from ethogram.capture.records import records
from ethogram.capture.source import Source
from ethogram.traces import Message, Text, ToolResult

from ._shared import as_listing, as_object, feed

FORMAT = "openai-chat"
MAX_OPEN = 500
"""How many conversations wait for their next call; one that stays silent for longer goes on as a new trace."""

_CONVERSATION = ("conversation_id", "session_id", "thread_id", "chat_id")
_CONVERSATION_NAMES = frozenset(_CONVERSATION)
_SCORES = ("reward", "score", "rating")
_STARTS = ("start_time", "timestamp", "created_at", "time", "created")
_TOOLS = ("tools", "functions")
_CALL = {"request", "response", "body", "messages", "error", "choices", "usage", "completion", "model", *_TOOLS}
_MESSAGE = {
    *("role", "content", "name", "tool_calls", "function_call", "tool_call_id", "reasoning_content", "reasoning"),
    *("usage", "model", "cost", "finish_reason", "refusal", "audio", *_STARTS),
}
_SPOKEN = frozenset(["role", "content", "name", "tool_calls", "tool_call_id"])
"""All that most messages have: beside them stands nothing."""
MARKS = frozenset(["messages", "request", "body", "choices", "response", "completion"])


def sniff(peek: Peek) -> int:
    """Never sure: every other format that holds chats is more specific."""
    if not peek.records:
        return 0
    first = peek.records[0]
    if _is_message(first) or (isinstance(first, list) and first and _is_message(first[0])):
        return 0 if peek.shape == "object" else 15
    if not isinstance(first, dict):
        return 0
    if _request(first) is not None:
        return 25
    return 20 if _response(first) is not None or {"custom_id", "response", "error"} <= first.keys() else 0


def _is_message(item: Any) -> bool:
    return isinstance(item, dict) and isinstance(item.get("role"), str) and ("content" in item or "tool_calls" in item)


def _request(item: dict[str, Any]) -> dict[str, Any] | None:
    """The request in a record: an object with messages."""
    inner: tuple[Any, ...] = ()
    if "request" in item or "body" in item:
        inner = (item.get("request"), as_dict(item.get("request")).get("body"), item.get("body"))
    for candidate in (*inner, item):
        candidate = as_dict(candidate)
        messages = as_list(candidate.get("messages"))
        if messages and _is_message(messages[0]):
            return candidate
    return None


def _response(item: dict[str, Any]) -> dict[str, Any] | None:
    """The response in a record: an object with choices."""
    inner: tuple[Any, ...] = ()
    if "response" in item or "completion" in item:
        inner = (item.get("response"), as_dict(item.get("response")).get("body"), item.get("completion"))
    for candidate in (*inner, item):
        candidate = as_dict(candidate)
        if isinstance(candidate.get("choices"), list):
            return candidate
    return None


def read(source: Source, intake: Intake) -> None:
    """One trace per conversation or per call."""
    bare: list[Any] = []
    conversations = _Conversations(intake)
    try:
        for where, item in records(source, intake):
            with intake.record(where):
                if _is_message(item) and where != "the document":
                    bare.append(item)
                elif isinstance(item, list):
                    _read_chat({"messages": item}, where, intake)
                else:
                    _read_record(as_object(item, "the record"), where, intake, conversations)
    finally:  # bytes that break off must not take along what came before
        conversations.close()
        if bare:
            with intake.record("the messages"):
                _read_chat({"messages": bare}, "the messages", intake)


def _read_record(item: dict[str, Any], where: str, intake: Intake, conversations: _Conversations) -> None:
    request, response = _request(item), _response(item)
    called = response is not None or any(k in item for k in ("request", "response", "custom_id"))
    if request is None and response is None and not (called and (item.get("error") or item.get("response"))):
        raise ValueError("no messages, no request and no response in it")
    if not called:
        _read_chat(item, where, intake)
    elif name := _conversation(item, request or {}):
        conversations.get(name).add(item, request or {}, response or {})
    else:
        with intake.trace(_own_name(item, response or {}) or where) as trace:
            _Calls(trace).add(item, request or {}, response or {})


def _conversation(item: dict[str, Any], request: dict[str, Any]) -> str:
    for place in (item, as_dict(item.get("metadata")), request, as_dict(request.get("metadata"))):
        for name in () if _CONVERSATION_NAMES.isdisjoint(place) else _CONVERSATION:
            if place.get(name):
                return as_name(place[name])
    return ""


def _own_name(item: dict[str, Any], response: dict[str, Any]) -> str:
    return as_name(item.get("custom_id") or item.get("request_id") or item.get("id") or response.get("id"))


def _task(item: dict[str, Any], messages: Iterable[Message]) -> str:
    """What the log calls it, else the words that were asked first: equal questions are repeats of one task."""
    named = as_name(item.get("task_id") or item.get("task") or item.get("custom_id"))
    return named or task_asked(messages)


def _read_chat(item: dict[str, Any], where: str, intake: Intake) -> None:
    """A conversation that was written down whole; the record's own totals belong to its last answer."""
    messages = as_listing(item.get("messages"), "messages")
    roles = [as_dict(m).get("role") for m in messages]
    last = len(roles) - 1 - roles[::-1].index("assistant") if "assistant" in roles else -1
    with intake.trace(_conversation(item, {}) or _own_name(item, {}) or where) as trace:

        def details(position: int, message: dict[str, Any]) -> dict[str, Any]:
            found = _beside(message, trace)
            if position == last:
                tokens = {} if message.get("usage") else usage_tokens(item.get("usage"))
                found = {"model": as_name(item.get("model")) or None, **found, **tokens}
            return found

        asked = (chat_message(as_dict(m)) for m, speaker in zip(messages, roles, strict=True) if speaker == "user")
        trace.task = _task(item, islice(asked, 1))
        _set_meta(trace, item, item)
        chat = ChatBuilder(trace)
        feed(chat, messages, intake, where, details)
        chat.close()


def _beside(message: dict[str, Any], trace: TraceBuilder) -> dict[str, Any]:
    """Fields of a draft that stand beside the words of a message."""
    if _SPOKEN.issuperset(message):
        return {}
    found: dict[str, Any] = {"start_ns": _when(message), "attributes": _rest(message, _MESSAGE)}
    if message.get("audio"):
        trace.lose("audio")
    if message.get("role") == "assistant":
        found |= usage_tokens(message.get("usage"))
        found["cost_usd"] = as_float(message.get("cost"))
        if message.get("model"):
            found["model"] = as_name(message["model"])
        if message.get("finish_reason"):
            found["stop_reason"] = as_name(message["finish_reason"])
    return found


def _when(item: dict[str, Any]) -> int | None:
    for name in _STARTS:
        if (value := item.get(name)) is not None and (when := iso_ns(value)) is not None:
            return when
    return None


def _rest(item: dict[str, Any], known: set[str]) -> dict[str, Any]:
    return {k: v for k, v in item.items() if k not in known and v is not None}


def _set_meta(trace: TraceBuilder, item: dict[str, Any], request: dict[str, Any]) -> None:
    """Scores become labels: which of them is the verdict, only the user knows."""
    for name, value in item.items():
        if name in _SCORES and isinstance(value, bool | int | float):
            trace.label(name, value, by=FORMAT)
        elif name not in _CALL and value is not None:
            trace.meta.setdefault(name, value)
    for name in _TOOLS:
        if request.get(name):
            trace.meta.setdefault(name, to_json(request[name]))


class _Conversations:
    """Traces that wait for further calls of their conversation."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._open: OrderedDict[str, tuple[int, AbstractContextManager[TraceBuilder], _Calls]] = OrderedDict()
        self._count = 0

    def get(self, name: str) -> _Calls:
        """The trace of a conversation, opened if it is new."""
        if name not in self._open:
            if len(self._open) >= MAX_OPEN:
                self._open.popitem(last=False)[1][1].__exit__(None, None, None)
            opened = self._intake.trace(name)
            self._open[name] = (self._count, opened, _Calls(opened.__enter__()))
            self._count += 1
        self._open.move_to_end(name)
        return self._open[name][2]

    def close(self) -> None:
        """Finish all that are still open, in the order in which they began."""
        for _, opened, _ in sorted(self._open.values(), key=lambda entry: entry[0]):
            opened.__exit__(None, None, None)
        self._open.clear()


class _Calls:
    """Logged calls of one trace. Calls with another system prompt are another agent and have another lane."""

    def __init__(self, trace: TraceBuilder) -> None:
        self._trace = trace
        self._lanes: dict[Message | None, tuple[str, ChatBuilder]] = {}
        self._asked: dict[str, list[Message]] = {}

    def add(self, item: dict[str, Any], request: dict[str, Any], response: dict[str, Any]) -> None:
        """Add one call: what came in since the last answer, then the answer."""
        trace = self._trace
        messages = [chat_message(m) for m in as_list(request.get("messages")) if isinstance(m, dict)]
        trace.lose("message (not an object)", len(as_list(request.get("messages"))) - len(messages))
        trace.task = trace.task or _task(item, messages)
        beside = {} if item is response and item is not request else item
        _set_meta(trace, beside, request)
        head = messages[0] if messages and messages[0].role == "system" else None
        lane, chat = self._lanes.setdefault(
            head, (f"agent {len(self._lanes)}" if self._lanes else "", ChatBuilder(trace))
        )
        if self._asked.get(lane) != messages:  # a retry sends the same again
            self._incoming(messages, chat, lane)
        self._asked[lane] = messages
        details = _call_details(item, request, response, trace)
        for name in _TOOLS:  # the trace has the first list; a call with another one keeps its own
            if request.get(name) and trace.meta[name] != to_json(request[name]):
                details["attributes"][name] = request[name]
        if beside is not request:
            details["attributes"] |= _rest(beside, _CALL | set(_SCORES) | set(_STARTS))
        answer = _answer(item, response)
        if answer is None:
            trace.lose("response (of another kind)", 1 if item.get("response") and not details["error"] else 0)
            trace.add(Draft(kind="model", name="chat", input=messages, lane=lane, **details))
        else:
            chat.add(answer, input=tuple(messages), growing=False, lane=lane, **details)

    def _incoming(self, messages: list[Message], chat: ChatBuilder, lane: str) -> None:
        last = max((i for i, m in enumerate(messages) if m.role == "assistant"), default=-1)
        calls = OpenCalls(messages[last].tool_calls if last >= 0 else ())
        if last >= 0 and lane not in self._asked:  # what was said before the log begins is no step of it
            self._trace.add(Draft(kind="other", name="history", lane=lane, output=messages[: last + 1]))
        for message in messages[last + 1 :]:
            results = [p for p in message.parts if isinstance(p, ToolResult)]
            if results and calls and len(results) == 1:
                call = calls.call_for(results[0])
                chat.add(message, lane=lane, name=call.name, tool=call.name, arguments=call.arguments)
            else:
                chat.add(message, lane=lane)


def _answer(item: dict[str, Any], response: dict[str, Any]) -> Message | None:
    """The message of the first choice, or an answer that was logged without its envelope."""
    choices = as_list(response.get("choices"))
    if choices:
        return chat_message({**as_dict(as_dict(choices[0]).get("message")), "role": "assistant"})
    plain = item.get("response")
    if isinstance(plain, str) and plain:
        return Message("assistant", (Text(plain),))
    return chat_message({**as_dict(plain), "role": "assistant"}) if _is_message(plain) else None


def _call_details(
    item: dict[str, Any], request: dict[str, Any], response: dict[str, Any], trace: TraceBuilder
) -> dict[str, Any]:
    """Fields of the model span of a logged call."""
    choices = [as_dict(c) for c in as_list(response.get("choices"))]
    trace.lose("logprobs", sum(bool(c.get("logprobs")) for c in choices))
    trace.lose("audio", sum(bool(as_dict(c.get("message")).get("audio")) for c in choices))
    envelope = as_dict(item.get("response"))
    status = as_int(envelope.get("status_code"))
    error = (
        item.get("error")
        or response.get("error")
        or envelope.get("error")
        or as_dict(envelope.get("body")).get("error")
    )
    if error is None and status is not None and status >= 400:
        error = f"status {status}"
    usage = response.get("usage") or item.get("usage")
    start = _when({} if item is request or item is response else item)
    details: dict[str, Any] = {
        **usage_tokens(usage),
        "cost_usd": as_float(item.get("cost"))
        if item.get("cost") is not None
        else as_float(as_dict(usage).get("cost")),
        "model": as_name(response.get("model") or request.get("model") or item.get("model")) or None,
        "provider": as_name(response.get("provider") or item.get("provider")) or None,
        "params": {} if item is request else _rest(request, _CALL),
        "start_ns": start if start is not None else iso_ns(response.get("created")),
        "end_ns": iso_ns(item.get("end_time")),
        "error": as_text(error) if error else None,
        "attributes": _rest(response, _CALL | {"created", "object", "provider"}),
    }
    if choices and choices[0].get("finish_reason"):
        details["stop_reason"] = as_name(choices[0]["finish_reason"])
    if len(choices) > 1:
        details["attributes"]["other_choices"] = choices[1:]
    return details
