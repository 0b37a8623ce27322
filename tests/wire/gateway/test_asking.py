"""Recorded requests spelled for each API again: what was read from them is what is read from the new body."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ethogram.traces import File, Message, Reasoning, Text, ToolCall, ToolResult
from ethogram.wire.gateway.call import ModelRequest, ProtocolName
from ethogram.wire.gateway.protocols import PROTOCOLS
from ethogram.wire.gateway.protocols.asking import request_body

NAMES: tuple[ProtocolName, ...] = get_args(ProtocolName)
CALL = ToolCall("price", '{"item":"tea"}', "call_1")
TALK = (
    Message("system", (Text("Answer with a number."),)),
    Message("user", (Text("What does tea cost?"),)),
    Message("assistant", (Text("Let me look."), CALL)),
    Message("tool", (ToolResult("3.50", None, "call_1"),)),
)


@pytest.mark.parametrize("name", NAMES)
def test_a_request_is_read_as_it_was_recorded(name: ProtocolName) -> None:
    tool = {"type": "function", "name": "price", "parameters": {"type": "object"}}
    params = {"temperature": 0.5, "max_tokens": 100, "tool_choice": '{"type":"auto"}'}
    asked = ModelRequest(protocol=name, model="m-1", messages=TALK, tools=(tool,), params=params)
    read = PROTOCOLS[name].request(request_body(asked))
    assert (read.model, read.messages, read.tools, read.params) == (asked.model, TALK, asked.tools, params)


@pytest.mark.parametrize("name", NAMES)
def test_thinking_is_left_out_and_files_are_refused(name: ProtocolName) -> None:
    thought = Message("assistant", (Reasoning("Hm."), Text("Tea."), CALL))
    asked = ModelRequest(protocol=name, model="m", messages=(TALK[1], thought))
    read = PROTOCOLS[name].request(request_body(asked))
    assert read.messages[1] == Message("assistant", (Text("Tea."), CALL))
    picture = Message("user", (File("image/png", digest="b2:1"),))
    with pytest.raises(ValueError, match="holds a file"):
        request_body(ModelRequest(protocol=name, model="m", messages=(picture,)))


def test_params_that_were_structures_are_structures_again() -> None:
    params: dict[str, Any] = {"response_format": '{"type":"json_object"}', "stop": '["a"]', "user": "{not json"}
    asked = ModelRequest(protocol="openai-chat", model="m", messages=TALK[:2], params=params)
    sent = msgspec.json.decode(request_body(asked))
    assert (sent["response_format"], sent["stop"], sent["user"]) == ({"type": "json_object"}, ["a"], "{not json")


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1, max_size=20)
TURNS = st.lists(
    st.one_of(
        WORDS.map(lambda w: (Message("user", (Text(w),)),)),
        st.tuples(WORDS, WORDS).map(
            lambda w: (
                Message("assistant", (Text(w[0]), ToolCall("f", "{}", "id"))),
                Message("tool", (ToolResult(w[1], None, "id"),)),
            )
        ),
    ),
    min_size=1,
    max_size=5,
)


@given(TURNS, st.sampled_from(NAMES))
@settings(deadline=None, max_examples=60, derandomize=True)
def test_any_conversation_survives(turns: list[tuple[Message, ...]], name: ProtocolName) -> None:
    messages = tuple(m for turn in turns for m in turn)
    read = PROTOCOLS[name].request(request_body(ModelRequest(protocol=name, model="m", messages=messages)))
    assert read.messages == messages
