"""Requests of each API as bytes: what is read from them, and what an edit leaves alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ethogram.traces import File, Message, Reasoning, Text, ToolCall, ToolResult, digest
from ethogram.wire.gateway.call import RequestEdits
from ethogram.wire.gateway.protocols import PROTOCOLS, protocol_for

CHAT = PROTOCOLS["openai-chat"]
RESPONSES = PROTOCOLS["openai-responses"]
ANTHROPIC = PROTOCOLS["anthropic-messages"]
PICTURE = "data:image/png;base64," + "A" * 400


def body(value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("POST", "/v1/chat/completions", "openai-chat"),
        ("POST", "/token/openai/v1/chat/completions/", "openai-chat"),
        ("POST", "/openai/deployments/mine/chat/completions?api-version=2024-10-21", "openai-chat"),
        ("post", "/v1/responses", "openai-responses"),
        ("POST", "/openai/v1/responses?api-version=preview", "openai-responses"),
        ("POST", "/v1/messages?beta=true", "anthropic-messages"),
        ("GET", "/v1/chat/completions", None),
        ("GET", "/v1/responses/resp_1", None),
        ("POST", "/v1/responses/resp_1/cancel", None),
        ("POST", "/v1/completions", None),
        ("POST", "/v1/embeddings", None),
        ("POST", "/v1/messages/count_tokens", None),
        ("POST", "/v1/threads/t/messages", None),
        ("POST", "/v1/messages/batches", None),
        ("POST", "/model/anthropic.claude/invoke", None),
    ],
)
def test_an_address_belongs_to_one_api_or_none(method: str, path: str, name: str | None) -> None:
    protocol = protocol_for(method, path)
    assert (protocol.name if protocol else None) == name


CHAT_REQUEST = {
    "model": "gpt-x",
    "temperature": 0.10,
    "max_completion_tokens": 100,
    "n": 2,
    "stream": True,
    "response_format": {"type": "json_object"},
    "tools": [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}],
    "messages": [
        {"role": "developer", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?", "new_field": 1.50},
                {"type": "image_url", "image_url": {"url": PICTURE}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "reasoning_content": "hm",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"p": 1}'}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "a cat"}]},
        {"role": "assistant", "content": None, "refusal": "No."},
    ],
}


def test_a_chat_request() -> None:
    request = CHAT.request(body(CHAT_REQUEST))
    assert request.model == "gpt-x"
    assert request.stream
    assert request.at_most_tokens == 200
    assert [t["function"]["name"] for t in request.tools] == ["read"]
    assert request.params["temperature"] == 0.1
    assert request.params["response_format"] == '{"type":"json_object"}'
    system, user, assistant, tool, refusal = request.messages
    assert system == Message("system", (Text("Be brief."),))
    assert user.parts[0] == Text("What is this?")
    assert isinstance(user.parts[1], File)
    assert user.parts[1].digest is not None
    assert assistant == Message("assistant", (Reasoning("hm"), ToolCall("read", '{"p": 1}', "c1")))
    assert tool == Message("tool", (ToolResult("a cat", None, "c1"),))
    assert refusal == Message("assistant", (Text("No."),))


def test_a_responses_request() -> None:
    document = {
        "model": "gpt-x",
        "instructions": "Be brief.",
        "max_output_tokens": 50,
        "store": False,
        "input": [
            {
                "role": "user",
                "content": [{"type": "input_text", "text": "hi"}, {"type": "input_image", "file_id": "f"}],
            },
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]},
            {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}", "id": "fc_1"},
            {"type": "function_call_output", "call_id": "c1", "output": "a cat"},
            {"type": "custom_tool_call", "call_id": "c2", "name": "sh", "input": "ls"},
            {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "f"}]},
            {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"query": "cats"}},
            {"type": "item_reference", "id": "msg_9"},
        ],
    }
    request = RESPONSES.request(body(document))
    assert request.continues is None
    assert request.at_most_tokens == 50
    assert [m.role for m in request.messages] == [
        *("system", "user", "assistant", "tool", "assistant", "tool", "assistant", "other")
    ]
    assert request.messages[1].parts == (Text("hi"), File("image", "f"))
    assert request.messages[2].parts == (Reasoning("hm"), Text("ok"), ToolCall("read", "{}", "c1"))
    assert request.messages[3].parts == (ToolResult("a cat", None, "c1"),)
    assert request.messages[4].parts == (ToolCall("sh", "ls", "c2"),)
    assert request.messages[5].parts == (ToolResult("f", None, "c2"),)
    assert request.messages[6].parts == (ToolCall("web_search", '{"action":{"query":"cats"}}', "ws"),)


def test_a_conversation_that_the_provider_keeps_is_named_and_not_made_up() -> None:
    request = RESPONSES.request(body({"model": "m", "input": "more", "previous_response_id": "resp_1"}))
    assert request.continues == "resp_1"
    assert request.messages == (Message("user", (Text("more"),)),)
    assert RESPONSES.request(body({"input": "x", "conversation": {"id": "conv_1"}})).continues == "conv_1"


def test_an_anthropic_request() -> None:
    document = {
        "model": "claude-x",
        "max_tokens": 64,
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": "hi"},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "sig"},
                    {"type": "text", "text": "ok"},
                    {"type": "tool_use", "id": "t1", "name": "read", "input": {"p": 1}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "t1",
                        "is_error": True,
                        "content": [{"type": "text", "text": "no file"}],
                    }
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "t2", "content": "x"},
                    {"type": "text", "text": "and?"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 400}},
                ],
            },
        ],
    }
    request = ANTHROPIC.request(body(document))
    assert request.at_most_tokens == 64
    assert [m.role for m in request.messages] == ["system", "user", "assistant", "tool", "user"]
    assert request.messages[2].parts == (Reasoning("hm"), Text("ok"), ToolCall("read", '{"p":1}', "t1"))
    assert request.messages[3].parts == (ToolResult("no file", None, "t1", True),)
    assert request.messages[4].parts[:2] == (ToolResult("x", None, "t2"), Text("and?"))
    assert request.messages[4].parts[2].media_type == "image/png"


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
@pytest.mark.parametrize("bad", [b"", b"{", b"[]", b"null", b'{"model": 1}', b"\xff", b'{"messages": 3, "input": 3}'])
def test_a_body_of_another_kind_is_refused_in_words(protocol: Any, bad: bytes) -> None:
    with pytest.raises(ValueError, match=r"the (body|input) of a"):
        protocol.request(bad)


def test_a_long_parameter_is_kept_as_its_digest() -> None:
    params = CHAT.request(body({"messages": [], "response_format": {"schema": "x" * 2000}})).params
    assert params["response_format"] == digest('{"schema":"' + "x" * 2000 + '"}')


def test_credentials_inside_a_setting_are_left_out() -> None:
    source = {
        "type": "azure_search",
        "parameters": {"index_name": "i", "authentication": {"type": "api_key", "key": "k"}},
    }
    params = CHAT.request(body({"messages": [], "data_sources": [source]})).params
    assert params["data_sources"] == '[{"type":"azure_search","parameters":{"index_name":"i"}}]'


def test_an_edit_changes_the_words_and_nothing_else() -> None:
    raw = body(CHAT_REQUEST).replace(b"0.1,", b"0.10,").replace(b"1.5}", b"1.50}")
    edited = CHAT.edited(raw, RequestEdits(texts={(1, 0): "New?", (3, 0): "a dog", (2, 1): '{"p": 2}'}, model="other"))
    expected = json.loads(raw)
    expected["model"] = "other"
    expected["messages"][1]["content"][0]["text"] = "New?"
    expected["messages"][2]["tool_calls"][0]["function"]["arguments"] = '{"p": 2}'
    expected["messages"][3]["content"] = "a dog"
    assert json.loads(edited) == expected
    assert b"0.10" in edited
    assert b"1.50" in edited
    assert CHAT.edited(raw, RequestEdits()) == raw


def test_the_system_prompt_is_replaced_or_added() -> None:
    replaced = CHAT.request(CHAT.edited(body(CHAT_REQUEST), RequestEdits(system="New.", texts={(0, 0): "Lost."})))
    assert replaced.messages[0] == Message("system", (Text("New."),))
    assert len(replaced.messages) == 5
    bare = body({"messages": [{"role": "user", "content": "hi"}]})
    added = CHAT.request(CHAT.edited(bare, RequestEdits(system="New.", texts={(0, 0): "ho"})))
    assert [m.text for m in added.messages] == ["New.", "ho"]

    blocks = {"system": [{"type": "text", "text": "Old", "cache_control": {"type": "ephemeral"}}], "messages": []}
    edited = json.loads(ANTHROPIC.edited(body(blocks), RequestEdits(system="New.")))
    assert edited["system"] == [{"type": "text", "text": "New.", "cache_control": {"type": "ephemeral"}}]
    assert json.loads(ANTHROPIC.edited(body({"messages": []}), RequestEdits(system="New.")))["system"] == "New."

    assert json.loads(RESPONSES.edited(body({"input": "x"}), RequestEdits(system="New.")))["instructions"] == "New."
    items = {"input": [{"role": "developer", "content": "Old"}, {"role": "user", "content": "x"}]}
    edited = json.loads(RESPONSES.edited(body(items), RequestEdits(system="New.")))
    assert edited == {"input": [{"role": "developer", "content": "New."}, {"role": "user", "content": "x"}]}


def test_results_are_edited_in_every_api() -> None:
    with_picture = [{"type": "text", "text": "a"}, {"type": "image", "source": {}}, {"type": "text", "text": "b"}]
    message = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": with_picture}]}
    edited = ANTHROPIC.edited(body({"system": "s", "messages": [message]}), RequestEdits(texts={(1, 0): "new"}))
    assert json.loads(edited)["messages"][0]["content"][0]["content"] == [
        {"type": "text", "text": "new"},
        {"type": "image", "source": {}},
    ]
    items = {"input": [{"type": "function_call_output", "call_id": "c", "output": "old"}]}
    edited = RESPONSES.edited(body(items), RequestEdits(texts={(0, 0): "new"}))
    assert json.loads(edited)["input"][0] == {"type": "function_call_output", "call_id": "c", "output": "new"}


@pytest.mark.parametrize("place", [(0, 1), (9, 0), (-1, 0), (0, -1)])
def test_a_place_that_does_not_exist_is_an_error(place: tuple[int, int]) -> None:
    raw = body({"messages": [{"role": "user", "content": "x"}], "input": "x"})
    for protocol in PROTOCOLS.values():
        with pytest.raises(ValueError, match="has no part"):
            protocol.edited(raw, RequestEdits(texts={place: "y"}))


def test_a_picture_has_no_words_to_replace() -> None:
    with pytest.raises(ValueError, match="image_url has no words"):
        CHAT.edited(body(CHAT_REQUEST), RequestEdits(texts={(1, 1): "y"}))
