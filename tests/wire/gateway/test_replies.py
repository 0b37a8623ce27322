"""Replies of each API as bytes: what is read from them, and that reading, writing and streaming agree."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ethogram.capture.parse import to_json
from ethogram.traces import Message, Reasoning, Text, ToolCall, ToolResult
from ethogram.wire.gateway.call import Alternative, ModelReply, RequestEdits, Usage, WireProtocol
from ethogram.wire.gateway.protocols import PROTOCOLS
from ethogram.wire.gateway.protocols.sse import event

CHAT = PROTOCOLS["openai-chat"]
RESPONSES = PROTOCOLS["openai-responses"]
ANTHROPIC = PROTOCOLS["anthropic-messages"]
EVERY = pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=list(PROTOCOLS))


def streamed(protocol: WireProtocol, *chunks: bytes) -> tuple[ModelReply, int]:
    reader = protocol.reader()
    for chunk in chunks:
        reader.feed(chunk)
    return reader.reply(), reader.malformed


def body(value: Any) -> bytes:
    return json.dumps(value).encode()


def lines(*events: dict[str, Any]) -> bytes:
    return b"".join(event(e) for e in events)


def test_a_chat_completion() -> None:
    reply = CHAT.reply(
        body(
            {
                "id": "chatcmpl-1",
                "model": "gpt-x-2026",
                "service_tier": "default",
                "choices": [
                    {"index": 1, "message": {"content": "two"}, "finish_reason": "length"},
                    {
                        "index": 0,
                        "message": {
                            "role": "assistant",
                            "content": "one",
                            "reasoning": "hm",
                            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}],
                        },
                        "finish_reason": "tool_calls",
                    },
                ],
                "usage": {
                    "prompt_tokens": 100,
                    "completion_tokens": 20,
                    "prompt_tokens_details": {"cached_tokens": 64},
                    "completion_tokens_details": {"reasoning_tokens": 8},
                },
            }
        )
    )
    assert reply.message == Message("assistant", (Reasoning("hm"), Text("one"), ToolCall("f", "", "c")))
    assert reply.alternatives == (Alternative(Message("assistant", (Text("two"),)), "length"),)
    assert (reply.model, reply.response_id, reply.stop_reason) == ("gpt-x-2026", "chatcmpl-1", "tool_calls")
    assert reply.usage == Usage(input_tokens=36, cache_read_tokens=64, output_tokens=20, reasoning_tokens=8)
    assert json.loads(CHAT.body_of(reply))["choices"][0]["message"]["reasoning"] == "hm"


def test_an_anthropic_message_counts_fresh_input_apart_from_the_cache() -> None:
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "sig=="},
        {"type": "redacted_thinking", "data": "secret"},
        {"type": "text", "text": "ok", "citations": [{"type": "page_location", "cited_text": "x"}]},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"type": "web_search_result", "url": "u"}]},
        {"type": "a_block_of_tomorrow", "x": 1},
        {"type": "tool_use", "id": "t1", "name": "f", "input": {"p": 1.5}},
    ]
    usage = {"input_tokens": 3, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20, "output_tokens": 9}
    document = {"id": "msg_1", "model": "c", "content": content, "stop_reason": "tool_use", "usage": usage}
    reply = ANTHROPIC.reply(body(document))
    assert reply.usage == Usage(input_tokens=3, cache_read_tokens=100, cache_write_tokens=20, output_tokens=9)
    assert reply.message.parts[0] == Reasoning("hm")
    assert reply.message.parts[3] == ToolCall("web_search", '{"query":"q"}', "s1")
    assert isinstance(reply.message.parts[4], ToolResult)
    assert reply.message.parts[6] == ToolCall("f", '{"p":1.5}', "t1")
    assert json.loads(ANTHROPIC.body_of(reply))["content"] == content
    assert streamed(ANTHROPIC, *ANTHROPIC.events_of(reply)) == (reply, 0)


def test_a_response_keeps_ids_and_sealed_reasoning() -> None:
    output = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "q"}},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [
                {"type": "output_text", "text": "a", "annotations": [{"type": "url_citation", "url": "u"}]},
                {"type": "output_text", "text": "b", "annotations": []},
            ],
        },
        {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "f", "arguments": "{}", "status": "completed"},
    ]
    usage = {"input_tokens": 50, "input_tokens_details": {"cached_tokens": 40}, "output_tokens": 5}
    document = {"id": "resp_1", "model": "m", "status": "completed", "output": output, "usage": usage}
    reply = RESPONSES.reply(body(document))
    assert reply.usage == Usage(input_tokens=10, cache_read_tokens=40, output_tokens=5)
    assert reply.stop_reason == "tool_calls"
    assert [type(p) for p in reply.message.parts] == [Reasoning, ToolCall, Text, Text, ToolCall]
    assert json.loads(RESPONSES.body_of(reply))["output"] == output
    again, malformed = streamed(RESPONSES, *RESPONSES.events_of(reply))
    assert (again.message, again.details, malformed) == (reply.message, reply.details, 0)


def test_a_response_that_ran_out_of_tokens_is_an_answer() -> None:
    document = {"id": "r", "status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}, "output": []}
    reply = RESPONSES.reply(body(document))
    assert (reply.complete, reply.stop_reason) == (True, "max_output_tokens")
    assert json.loads(RESPONSES.body_of(reply))["status"] == "incomplete"
    assert json.loads(CHAT.body_of(reply))["choices"][0]["finish_reason"] == "length"
    assert json.loads(ANTHROPIC.body_of(reply))["stop_reason"] == "max_tokens"


@EVERY
def test_errors_are_read_and_written(protocol: WireProtocol) -> None:
    reply = protocol.reply(protocol.error_body("rate_limit_error", "slow down: please"))
    assert (reply.complete, reply.error) == (False, "rate_limit_error: slow down: please")
    assert protocol.reply(protocol.body_of(reply)) == reply
    assert streamed(protocol, *protocol.events_of(reply))[0].error == reply.error
    plain = protocol.reply(body({"error": "upstream is away"}))
    assert plain.error == "upstream is away"


@EVERY
@pytest.mark.parametrize("bad", [b"", b"<html>", b"[1]", b"{}", b"3", b'"\xff"'])
def test_a_body_that_is_no_reply_is_refused_in_words(protocol: WireProtocol, bad: bytes) -> None:
    with pytest.raises(ValueError, match="the body of a"):
        protocol.reply(bad)


def test_chunks_of_other_servers() -> None:
    """No role, no usage, no end mark, calls without numbers, arguments in pieces, fields that nobody knows."""
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a"'}}
    reply, malformed = streamed(
        CHAT,
        lines(
            {"id": "x", "model": "m", "choices": [{"delta": {"content": "Hi"}, "tomorrow": 1}]},
            {"choices": [{"delta": {"content": None, "tool_calls": [call]}}]},
            {"choices": [{"delta": {"tool_calls": [{"function": {"arguments": ": 1}"}}]}}]},
            {"choices": [{"delta": {"tool_calls": [{"id": "c2", "function": {"name": "g", "arguments": "{}"}}]}}]},
            {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
        ),
    )
    assert malformed == 0
    assert reply.complete
    assert reply.usage is None
    assert reply.message.parts == (Text("Hi"), ToolCall("f", '{"a": 1}', "c1"), ToolCall("g", "{}", "c2"))


def test_usage_of_an_anthropic_stream_is_the_last_word() -> None:
    reply, _ = streamed(
        ANTHROPIC,
        lines(
            {
                "type": "message_start",
                "message": {"id": "m", "model": "c", "usage": {"input_tokens": 9, "output_tokens": 1}},
            },
            {"type": "ping"},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a"}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "delta_of_tomorrow", "x": 1}},
            {"type": "event_of_tomorrow"},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
            {"type": "message_stop"},
        ),
    )
    assert reply.usage == Usage(input_tokens=9, output_tokens=5)
    assert (reply.message, reply.stop_reason, reply.complete) == (Message("assistant", (Text("a"),)), "end_turn", True)


@EVERY
def test_malformed_events_are_counted_and_the_rest_is_read(protocol: WireProtocol) -> None:
    good = list(protocol.events_of(SIMPLE))
    bad = [b"data: {\n\n", b"data: [1]\n\n", b"data: \xff\n\n", b'data: "x"\n\n', b"data: " + b"[" * 5000 + b"\n\n"]
    reply, malformed = streamed(protocol, good[0], *bad, *good[1:])
    assert reply.message == SIMPLE.message
    assert reply.complete
    assert malformed == len(bad)


@EVERY
@given(data=st.data())
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_no_event_breaks_a_reader(protocol: WireProtocol, data: st.DataObject) -> None:
    """Real events with any member replaced by anything: read or counted, never raised."""
    values = st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda v: (
            st.lists(v, max_size=2)
            | st.dictionaries(st.sampled_from(["type", "index", "delta", "text", "content"]), v, max_size=2)
        ),
        max_leaves=4,
    )
    reader = protocol.reader()
    for chunk in protocol.events_of(SIMPLE):
        payload = chunk.partition(b"data: ")[2].strip()
        if payload.startswith(b"{"):
            value = json.loads(payload)
            place = value
            for _ in range(data.draw(st.integers(0, 3))):
                inner = [
                    v
                    for v in (place.values() if isinstance(place, dict) else place)
                    if isinstance(v, dict | list) and v
                ]
                if not inner:
                    break
                place = data.draw(st.sampled_from(inner))
            key = data.draw(st.sampled_from(list(place) if isinstance(place, dict) else list(range(len(place)))))
            place[key] = data.draw(values)
            chunk = b"data: " + json.dumps(value).encode() + b"\n\n"
        reader.feed(chunk)
        assert reader.reply().message.role == "assistant"


words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
ids = st.text("abcdef0123456789", min_size=1, max_size=8)
arguments = st.dictionaries(words, st.integers(-9, 9) | words | st.booleans() | st.lists(st.floats(-1, 1), max_size=2))
calls = st.builds(lambda n, a, i: ToolCall(n, to_json(a), i), words, arguments, ids)
counts = st.integers(0, 1000)
usages = st.builds(
    lambda f, r, w, o, t: Usage(
        input_tokens=f, cache_read_tokens=r, cache_write_tokens=w, output_tokens=o + t, reasoning_tokens=t
    ),
    *[counts] * 5,
)
SIMPLE = ModelReply(
    message=Message("assistant", (Reasoning("r"), Text("ok"), ToolCall("f", '{"a":1}', "c"))),
    model="m",
    response_id="i",
    stop_reason="tool_calls",
    usage=Usage(input_tokens=1, output_tokens=2),
)


@st.composite
def replies(draw: st.DrawFn) -> ModelReply:
    """Replies in the form that every API can say: reasoning, then words, then calls."""
    parts: list[Any] = [Reasoning(draw(words))] if draw(st.booleans()) else []
    parts += [Text(draw(words))] if draw(st.booleans()) else []
    parts += draw(st.lists(calls, max_size=3, unique_by=lambda c: c.call_id))
    if not parts:
        parts = [Text("x")]
    stop = "tool_calls" if any(isinstance(p, ToolCall) for p in parts) else draw(st.sampled_from(["stop", "length"]))
    message = Message("assistant", tuple(parts))
    return ModelReply(message=message, model="m", response_id=draw(ids), stop_reason=stop, usage=draw(usages))


@EVERY
@given(reply=replies())
@settings(max_examples=25, deadline=None)
def test_a_reply_survives_its_body_and_its_stream(protocol: WireProtocol, reply: ModelReply) -> None:
    read = protocol.reply(protocol.body_of(reply))
    assert (read.message, read.usage, read.model, read.response_id) == (
        *(reply.message, reply.usage),
        *(reply.model, reply.response_id),
    )
    assert protocol.reply(protocol.body_of(read)) == read
    again, malformed = streamed(protocol, b"".join(protocol.events_of(reply)))
    assert (again, malformed) == (read, 0)


@EVERY
@given(reply=replies(), data=st.data())
@settings(max_examples=10, deadline=None)
def test_cuts_of_a_stream_make_no_difference(protocol: WireProtocol, reply: ModelReply, data: st.DataObject) -> None:
    stream = b"".join(protocol.events_of(reply))
    whole, _ = streamed(protocol, stream)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=5)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert streamed(protocol, *pieces) == (whole, 0)


@EVERY
def test_every_cut_of_one_stream(protocol: WireProtocol) -> None:
    """At every cut: what came before is the beginning of the reply, and the rest completes it."""
    stream = b"".join(protocol.events_of(SIMPLE))
    whole, _ = streamed(protocol, stream)
    assert whole.complete
    for cut in range(len(stream) + 1):
        reader = protocol.reader()
        reader.feed(stream[:cut])
        begun = reader.reply()
        assert begun.message.text == "" or whole.message.text.startswith(begun.message.text)
        assert len(begun.message.parts) <= len(whole.message.parts)
        reader.feed(stream[cut:])
        assert (reader.reply(), reader.malformed) == (whole, 0)
    assert not streamed(protocol, stream[: len(stream) // 2])[0].complete


@EVERY
def test_a_reply_that_broke_off_streams_without_an_end(protocol: WireProtocol) -> None:
    broken = ModelReply(message=SIMPLE.message, model="m", response_id="i", complete=False)
    reply, malformed = streamed(protocol, *protocol.events_of(broken))
    assert (reply.message, reply.complete, reply.error, malformed) == (SIMPLE.message, False, None, 0)


@EVERY
@given(new=words, data=st.data())
@settings(max_examples=15, deadline=None)
def test_an_edited_request_reads_as_the_request_with_new_words(
    protocol: WireProtocol, new: str, data: st.DataObject
) -> None:
    document, request = _conversation(protocol, data)
    editable = [
        (i, j)
        for i, m in enumerate(request.messages)
        for j, p in enumerate(m.parts)
        if isinstance(p, Text | ToolResult | Reasoning)
    ]
    place = data.draw(st.sampled_from(editable))
    edited = protocol.request(protocol.edited(document, RequestEdits(texts={place: new})))
    for i, message in enumerate(request.messages):
        for j, part in enumerate(message.parts):
            changed = edited.messages[i].parts[j]
            if (i, j) == place:
                assert (changed.content if isinstance(changed, ToolResult) else changed.text) == new
            else:
                assert changed == part
    assert (edited.params, edited.model, edited.tools) == (request.params, request.model, request.tools)


def _conversation(protocol: WireProtocol, data: st.DataObject) -> tuple[bytes, Any]:
    """A request with a user's words, an answer as a client sends it back, and a result."""
    answer = json.loads(protocol.body_of(data.draw(replies())))
    user = {"role": "user", "content": [{"type": "text", "text": data.draw(words)}]}
    result = data.draw(words)
    if protocol is CHAT:
        messages = [user, answer["choices"][0]["message"], {"role": "tool", "tool_call_id": "c", "content": result}]
        document: dict[str, Any] = {"model": "m", "messages": messages, "seed": 1}
    elif protocol is ANTHROPIC:
        block = {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": result}]}
        messages = [user, {"role": "assistant", "content": answer["content"]}, {"role": "user", "content": [block]}]
        document = {"model": "m", "system": "s", "messages": messages, "max_tokens": 1}
    else:
        items = [user, *answer["output"], {"type": "function_call_output", "call_id": "c", "output": result}]
        document = {"model": "m", "instructions": "s", "input": items}
    raw = body(document)
    return raw, protocol.request(raw)
