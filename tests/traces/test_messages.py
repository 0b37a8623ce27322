"""Messages: long arguments and results stand apart, and come back as they were."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ethogram.traces import (
    File,
    Message,
    Part,
    Reasoning,
    Ref,
    Text,
    ToolCall,
    ToolResult,
    arguments_value,
    canonical_json,
    detached_refs,
    pack_message,
    text_ref,
    unpack_message,
)
from ethogram.traces.message import INLINE

QUICK = settings(max_examples=80, deadline=None, derandomize=True, database=None)
words = st.text(st.characters(codec="utf-8"), max_size=120)
names = st.none() | st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
parts: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, words),
    st.builds(Reasoning, words),
    st.builds(ToolCall, st.text(max_size=8), words, names),
    st.builds(ToolResult, words, names, names, st.booleans()),
    st.builds(File, st.just("image/png"), words, names, st.none() | st.integers(0, 2**40)),
)
roles = st.sampled_from(["system", "user", "assistant", "tool", "other"])
messages = st.builds(Message, roles, st.lists(parts, max_size=5).map(tuple), names)


class Shelf:
    """Texts by their address."""

    def __init__(self) -> None:
        self.texts: dict[Ref, str] = {}

    def put(self, body: str) -> Ref:
        ref = text_ref(body)
        self.texts[ref] = body
        return ref


@QUICK
@given(messages)
def test_what_is_packed_comes_back(message: Message) -> None:
    shelf = Shelf()
    body = pack_message(message, shelf.put)
    assert unpack_message(body, shelf.texts.__getitem__) == message
    assert set(detached_refs(body)) == set(shelf.texts)
    assert pack_message(message, text_ref) == body
    long = [text for text in map(_payload, message.parts) if len(text) > INLINE]
    assert sorted(shelf.texts.values()) == sorted(set(long))
    assert not any(text in body for text in long if text.isalnum())


def _payload(part: Part) -> str:
    if isinstance(part, ToolCall):
        return part.arguments
    return part.content if isinstance(part, ToolResult) else ""


def test_the_limit_of_what_stays_inline() -> None:
    for length, apart in ((INLINE, 0), (INLINE + 1, 1)):
        shelf = Shelf()
        pack_message(Message("assistant", (ToolCall("ring", "a" * length),)), shelf.put)
        pack_message(Message("tool", (ToolResult("a" * length),)), shelf.put)
        assert len(shelf.texts) == apart


def test_arguments_and_the_span_of_their_tool_share_one_text() -> None:
    shelf = Shelf()
    arguments = '{"times": ' + "1" * 100 + "}"
    pack_message(Message("assistant", (ToolCall("ring", arguments, "c1"),)), shelf.put)
    assert list(shelf.texts) == [text_ref(arguments)]


def test_a_missing_text_is_an_error_and_not_an_empty_message() -> None:
    body = pack_message(Message("tool", (ToolResult("x" * 200),)), text_ref)
    with pytest.raises(KeyError):
        unpack_message(body, Shelf().texts.__getitem__)
    with pytest.raises(msgspec.ValidationError):
        unpack_message('{"role":"stranger"}', Shelf().texts.__getitem__)


@pytest.mark.parametrize("body", ["", "tool_call_ref", '{"role":"user","parts":[{"type":"tool_call_ref"}]}', "[1]"])
def test_other_texts_lean_on_nothing(body: str) -> None:
    assert detached_refs(body) == ()


def test_the_words_of_a_message() -> None:
    message = Message(
        "assistant", (Reasoning("hm"), Text("one"), ToolCall("ring", "{}", "c1"), ToolResult("two"), File("image/png"))
    )
    assert message.text == "one\ntwo"
    assert [c.name for c in message.tool_calls] == ["ring"]
    assert Message("user").text == ""


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ("", {}),
        (" \n", {}),
        (' {"a": [1, null]}', {"a": [1, None]}),
        ("null", None),
        ("{'a': 1} ", "{'a': 1}"),
        ('{"a": "\ud800"}', '{"a": "\ud800"}'),
        ('"\\ud800 half of a pair"', '"\\ud800 half of a pair"'),
        ("[" * 5000 + "]" * 5000, "[" * 5000 + "]" * 5000),
    ],
)
def test_arguments_as_a_value(arguments: str, value: Any) -> None:
    assert arguments_value(arguments) == value


@pytest.mark.parametrize("text", ["", "{'a': 1} ", '{"a": "\ud800"}', "[" * 5000 + "]" * 5000, "abc", '"abc"'])
def test_what_is_canonical_already_or_no_json_stays(text: str) -> None:
    assert canonical_json(text) == text


def test_json_whatever_its_spacing_and_the_order_of_its_names() -> None:
    assert canonical_json(' {"b": {"d": 1, "c": 2.0},\n"a": "é"}') == '{"a":"é","b":{"c":2.0,"d":1}}'
