"""Small, forgiving conversions: clean values out, or None, and never an error."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ethogram.capture import parse
from ethogram.traces import File, Message, Reasoning, Text, ToolCall, ToolResult

QUICK = settings(max_examples=200, deadline=None, derandomize=True, database=None)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
digits = st.text("0123456789+-.eEPTDHMSZ: ²٣_nafi", max_size=24)


@QUICK
@given(anything | digits)
def test_nothing_is_raised_and_types_hold(value: Any) -> None:
    assert isinstance(parse.as_int(value), int | None)
    number = parse.as_float(value)
    assert number is None or math.isfinite(number)
    assert isinstance(parse.iso_ns(value), int | None)
    assert isinstance(parse.duration_ns(value), int | None)
    assert isinstance(parse.as_dict(value), dict)
    assert isinstance(parse.as_list(value), list)
    assert isinstance(parse.role(value), str)
    assert isinstance(parse.flat_text(value), str)
    assert isinstance(parse.tool_call(value), ToolCall)
    assert isinstance(
        parse.chat_message({"role": value, "content": value, "tool_calls": value, "name": value}), Message
    )
    assert isinstance(parse.as_text(value), str)
    assert isinstance(parse.as_name(value), str)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (7, 7),
        ("7", 7),
        (" -7 ", -7),
        ("7.9", 7),
        (7.0, 7),
        ("18446744073709551615", 2**64 - 1),
        ("٣", 3),
        (True, None),
        (None, None),
        ("", None),
        ("seven", None),
        ("+-5", None),
        ("--5", None),
        ("²", None),
        (10**30, None),
        (math.nan, None),
        ("inf", None),
        ("1e400", None),
        ([1], None),
    ],
)
def test_whole_numbers(value: Any, expected: int | None) -> None:
    assert parse.as_int(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [("1.5", 1.5), (2, 2.0), ("nan", None), (math.inf, None), (10**400, None), (True, None), ({}, None)],
)
def test_numbers(value: Any, expected: float | None) -> None:
    assert parse.as_float(value) == expected


SECOND = 1_767_323_045


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-01-02T03:04:05Z", SECOND * 10**9),
        ("2026-01-02 03:04:05 UTC", SECOND * 10**9),
        ("2026-01-02T03:04:05.123456789Z", SECOND * 10**9 + 123_456_789),
        ("2026-01-02T03:04:05.1", SECOND * 10**9 + 100_000_000),
        ("2026-01-02T04:04:05+01:00", SECOND * 10**9),
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), SECOND * 10**9),
        (SECOND, SECOND * 10**9),
        (SECOND * 1000, SECOND * 10**9),
        (SECOND * 10**6, SECOND * 10**9),
        (SECOND * 10**9, SECOND * 10**9),
        (str(SECOND), SECOND * 10**9),
        (SECOND + 0.5, SECOND * 10**9 + 500_000_000),
        (f"{SECOND}.5", SECOND * 10**9 + 500_000_000),
        (0, None),
        (-5, None),
        (math.nan, None),
        (True, None),
        ("yesterday", None),
        ("²", None),
        ("1.2.3", None),
        ("9" * 5000, None),
        ("2026-13-45T99:99:99Z", None),
        ("", None),
    ],
)
def test_times(value: Any, expected: int | None) -> None:
    assert parse.iso_ns(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("PT24.688187S", 24_688_187_000),
        ("P1DT2H3M4S", (((24 + 2) * 60 + 3) * 60 + 4) * 10**9),
        ("-PT1S", -(10**9)),
        ("PT.5S", 500_000_000),
        ("PT1.2.3S", None),
        ("P99999999999999D", None),
        ("24 s", None),
        (24, None),
    ],
)
def test_durations(value: Any, expected: int | None) -> None:
    assert parse.duration_ns(value) == expected


def test_objects_and_lists_also_inside_strings() -> None:
    assert parse.as_dict(' {"a": 1}') == {"a": 1}
    assert parse.as_list("[1, 2]") == [1, 2]
    assert [parse.as_dict(v) for v in ("{", "[1]", 5, None, "x")] == [{}] * 5
    assert [parse.as_list(v) for v in ("[", '{"a": 1}', 5, None)] == [[]] * 4
    assert parse.from_json("[" * 100_000) is None


def test_parts_in_the_common_spellings() -> None:
    parts = parse.content_parts(
        [
            {"type": "text", "text": "one"},
            "two",
            {"type": "thinking", "thinking": "hm"},
            {"type": "reasoning", "summary": [{"text": "a"}, "b"]},
            {"type": "tool_use", "id": "c1", "name": "ring", "input": {"n": 1}},
            {
                "type": "tool_result",
                "tool_use_id": "c1",
                "content": [{"type": "text", "text": "ding"}],
                "is_error": True,
            },
            {"type": "image", "source": {"media_type": "image/png", "data": "A" * 400}},
            {"type": "image_url", "image_url": {"url": "https://example.org/x.png"}},
            {"strange": 1},
            None,
        ]
    )
    assert parts[:6] == [
        Text("one"),
        Text("two"),
        Reasoning("hm"),
        Reasoning("a\nb"),
        ToolCall("ring", '{"n":1}', "c1"),
        ToolResult("ding", None, "c1", True),
    ]
    picture, address = parts[6], parts[7]
    assert isinstance(picture, File)
    assert (picture.media_type, picture.uri, picture.size, bool(picture.digest)) == ("image/png", "", 300, True)
    assert isinstance(address, File)
    assert address.uri == "https://example.org/x.png"
    assert parts[8:] == [Text('{"strange":1}'), Text("")]
    assert parse.content_parts(["a", "b"]) == [Text("a\nb")]
    assert parse.content_parts(None) == parse.content_parts("") == []


@pytest.mark.parametrize(
    "item",
    [
        {"id": "c1", "type": "function", "function": {"name": "ring", "arguments": '{"n":1}'}},
        {"id": "c1", "name": "ring", "input": {"n": 1}},
        {"id": "c1", "function": "ring", "args": {"n": 1}},
        {"call_id": "c1", "function_name": "ring", "kwargs": {"n": 1}},
    ],
)
def test_calls_in_the_common_spellings(item: dict[str, Any]) -> None:
    assert parse.tool_call(item) == ToolCall("ring", '{"n":1}', "c1")


def test_chat_messages() -> None:
    said = parse.chat_message({"role": "AI", "content": "hi", "reasoning_content": "hm", "name": "Ada"})
    assert said == Message("assistant", (Reasoning("hm"), Text("hi")), "Ada")
    back = parse.chat_message({"role": "function", "name": "ring", "content": [{"type": "text", "text": "ding"}]})
    assert back == Message("tool", (ToolResult("ding", "ring"),), "ring")
    old = parse.chat_message(
        {"role": "assistant", "content": None, "function_call": {"name": "ring", "arguments": "{}"}}
    )
    assert old.tool_calls == (ToolCall("ring", "{}"),)
    assert parse.chat_message({}) == Message("other")


def test_half_of_a_surrogate_pair_stays_escaped() -> None:
    assert parse.to_json({"a": "\ud800"}) == '{"a": "\\ud800"}'
    assert parse.as_name(["\udfff"]) == '["\\udfff"]'
