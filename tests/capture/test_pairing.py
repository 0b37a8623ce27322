"""Which call a result answers, where ids are absent, shared, or of a call that never got a result."""

from __future__ import annotations

import pytest

from ethogram.capture.pairing import OpenCalls, answered_calls
from ethogram.traces import Message, ToolCall, ToolResult


def calls(*ids: str | None, name: str = "look") -> list[ToolCall]:
    return [ToolCall(name, f'{{"n": {n}}}', call_id) for n, call_id in enumerate(ids)]


def taken(waiting: OpenCalls, *results: ToolResult) -> list[str | None]:
    return [found.call.arguments if (found := waiting.take(result)) else None for result in results]


@pytest.mark.parametrize("call_id", [None, "same"])
def test_calls_of_one_id_are_answered_in_their_order(call_id: str | None) -> None:
    waiting = OpenCalls(calls(call_id, call_id))
    results = [ToolResult(words, None, call_id) for words in "abc"]
    assert taken(waiting, *results) == ['{"n": 0}', '{"n": 1}', None]
    assert not waiting


def test_results_out_of_order_and_one_that_is_missing() -> None:
    waiting = OpenCalls(calls("a", "b", "c"))
    assert taken(waiting, ToolResult("", None, "c"), ToolResult("", None, "a")) == ['{"n": 2}', '{"n": 0}']
    assert [call.call_id for call, _ in waiting.take_all()] == ["b"]


def test_what_fits_can_be_said() -> None:
    waiting = OpenCalls(calls("a", None, "a"), at_ns=7)
    found = waiting.take_first(lambda call: call.arguments == '{"n": 2}')
    assert found is not None
    assert (found.call.call_id, found.details) == ("a", {"at_ns": 7})
    assert waiting.take_first(lambda call: call.name == "other") is None
    without = waiting.take_id(None)
    assert without is not None
    assert without.call.arguments == '{"n": 1}'
    assert waiting.take_id("b") is None
    assert len(waiting) == 1


@pytest.mark.parametrize("call_id", [None, "same"])
def test_the_results_of_a_request(call_id: str | None) -> None:
    one, two = calls(call_id, call_id)
    results = [ToolResult(words, None, call_id) for words in "abc"]
    messages = [
        Message("user"),
        Message("assistant", (one, two)),
        *(Message("tool", (result,)) for result in results),
    ]
    assert list(answered_calls(messages)) == [
        ((2, 0), one, results[0]),
        ((3, 0), two, results[1]),
        ((4, 0), None, results[2]),
    ]
