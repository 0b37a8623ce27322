"""Layer L1: the tools that were called, with which arguments."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ethogram.checks import CHECKS, CheckScore, Evidence, settings_of
from ethogram.store import Policy, Redactor
from ethogram.traces import ToolCall

A = {"name": "a", "arguments": {"x": 1}}
B = {"name": "b", "arguments": {"y": "2024-01-05", "z": [1, 2]}}


def made(*calls: Any) -> tuple[ToolCall, ...]:
    return tuple(
        c if isinstance(c, ToolCall) else ToolCall(c["name"], json.dumps(c.get("arguments", {}))) for c in calls
    )


def judge(expected: Any, *calls: Any, **settings: Any) -> CheckScore:
    return CHECKS["tool_calls"](Evidence(answer=None, calls=made(*calls)), {"calls": expected, **settings})


@pytest.mark.parametrize(
    ("mode", "calls", "wanted"),
    [
        ("strict", [A, B], 1),
        ("strict", [B, A], 0),
        ("strict", [A, B, A], 0),
        ("strict", [A], 0),
        ("unordered", [B, A], 1),
        ("unordered", [B, A, A], 0),
        ("unordered", [A, A], 0),
        ("superset", [B, {"name": "c"}, A], 1),
        ("superset", [A], 0),
        ("subset", [B], 1),
        ("subset", [], 1),
        ("subset", [A, A], 0),
        ("subset", [{"name": "c"}], 0),
    ],
)
def test_modes(mode: str, calls: list[Any], wanted: float) -> None:
    assert judge([A, B], *calls, mode=mode).score == wanted


def test_order_can_be_kept_among_other_calls() -> None:
    other = {"name": "c"}
    assert judge([A, B], other, A, other, B, mode="superset", ordered=True).score == 1
    assert judge([A, B], other, B, other, A, mode="superset", ordered=True).score == 0
    assert judge([A, B, A], B, A, mode="subset", ordered=True).score == 1
    assert judge([A, B], B, A, mode="subset", ordered=True).score == 0


def test_calls_that_do_not_matter_are_left_out() -> None:
    assert judge([A], {"name": "think"}, A, {"name": "think"}, ignore=["think"]).score == 1
    assert judge([A], {"name": "think"}, A).score == 0
    assert judge([A], {"name": "look"}, A, {"name": "think"}, only=["a", "b"]).score == 1
    assert judge([A], {"name": "look"}, A, B, only=["a", "b"]).score == 0


def test_a_call_that_does_not_matter_cannot_be_expected() -> None:
    settings = {"calls": [A, B], "only": ["a"]}
    assert "'b'" in str(settings_of("tool_calls", settings).problem(None))
    assert "'b'" in str(settings_of("tool_calls", {"calls": [A, B], "ignore": ["b"]}).problem(None))
    assert settings_of("tool_calls", {"calls": [A], "only": ["a"]}).problem(None) is None


@pytest.mark.parametrize(
    ("arguments", "given", "settings", "wanted"),
    [
        ({"x": 1}, {"x": "1.0"}, {}, 1),
        ({"x": 1}, {"x": 1, "y": 2}, {}, 0),
        ({"x": 1}, {"x": 1, "y": 2}, {"extra": True}, 1),
        ({"x": 1}, {"x": 1, "y": None}, {}, 1),
        ({"x": 1}, {}, {"extra": True}, 0),
        ({"q": "Paris"}, {"q": "paris"}, {}, 0),
        ({"q": "Paris"}, {"q": "paris"}, {"ignore_case": True}, 1),
        ({"q": "A", "r": "B"}, {"q": "a", "r": "B"}, {"ignore_case": ["q"]}, 1),
        ({"q": "A", "r": "B"}, {"q": "a", "r": "b"}, {"ignore_case": ["q"]}, 0),
        ({"t": [1, 2]}, {"t": [2, 1]}, {"unordered_lists": True}, 1),
        ({"t": [1, 2]}, {"t": [2, 1]}, {"unordered_lists": ["u"]}, 0),
        ({"t": [1, 2]}, {"t": [2, 1, 1]}, {"sets": ["t"]}, 1),
        ({"n": 3.14}, {"n": 3.15}, {"tolerance": 0.01}, 1),
        ({"d": "2024-01-05"}, {"d": "20240105"}, {}, 1),
        ({"q": {"$regex": "par"}, "n": {"$any": True}}, {"q": "paris", "n": 7}, {}, 1),
        ({"q": {"$absent": True}}, {"q": 1}, {}, 0),
        ({}, {}, {}, 1),
        ({}, {"x": 1}, {}, 0),
        ([1, 2], [1, 2], {}, 1),
    ],
)
def test_arguments_by_meaning(arguments: Any, given: Any, settings: dict[str, Any], wanted: float) -> None:
    assert judge([{"name": "f", "arguments": arguments}], {"name": "f", "arguments": given}, **settings).score == wanted


def test_a_name_alone_takes_any_arguments() -> None:
    assert judge(["f"], {"name": "f", "arguments": {"x": 1}}).score == 1
    assert judge([{"name": "f"}], ToolCall("f", "not json")).score == 1
    assert judge([{"name": "f", "arguments": {}}], ToolCall("f", "not json")).score == 0
    assert judge([{"name": "f", "arguments": {}}], ToolCall("f", "")).score == 1


def test_unordered_pairs_are_the_best_there_are() -> None:
    """A greedy pairing would spend the exact call on the pattern and find nothing for the rest."""
    loose = {"name": "f", "arguments": {"x": {"$any": True}}}
    exact = {"name": "f", "arguments": {"x": 1}}
    calls = [{"name": "f", "arguments": {"x": 1}}, {"name": "f", "arguments": {"x": 2}}]
    assert judge([loose, exact], *calls, mode="unordered").score == 1


def test_graded_gives_the_share_of_calls_that_fit() -> None:
    c = {"name": "c"}
    assert judge([A, B], A, c, mode="strict", graded=True).score == 0.5
    assert judge([A, B], B, A, mode="strict", graded=True).score == 0.5
    assert judge([A, B], B, A, c, c, mode="unordered", graded=True).score == 0.5
    assert judge([A, B], A, c, c, mode="superset", graded=True).score == 0.5
    assert judge([A, B], A, c, c, c, mode="subset", graded=True).score == 0.25
    assert judge([], c, mode="strict", graded=True).score == 0


def test_the_first_mismatch_is_named() -> None:
    wrong = {"name": "a", "arguments": {"x": 2}}
    assert judge([A], wrong).why.endswith(
        'expected call 1, a({"x":1}), was not made; call 1 differs: argument x: 2 is not 1'
    )
    assert judge([A, B], A).why.endswith("was not made")
    assert "call 2, c({}), was not expected" in judge([A], A, {"name": "c"}).why
    assert judge([A, B], B, A).why.startswith("1 of 2 expected calls were made, 2 calls in all")


def test_nothing_expected_is_nothing_to_tell() -> None:
    assert CHECKS["tool_calls"](Evidence(answer=None, expected=42), {}).score is None
    assert CHECKS["tool_calls"](Evidence(answer=None, expected=["f"], calls=made({"name": "f"})), {}).score == 1


NAMES = st.sampled_from(["f", "g"])
CALLS = st.lists(
    st.fixed_dictionaries({"name": NAMES, "arguments": st.dictionaries(st.sampled_from("xy"), st.integers(0, 2))}),
    max_size=5,
)


@given(CALLS)
def test_what_was_expected_is_what_was_expected(calls: list[Any]) -> None:
    shuffled = random.Random(0).sample(calls, len(calls))
    for mode in ("strict", "unordered", "subset", "superset"):
        assert judge(calls, *calls, mode=mode).score == 1
    for mode in ("unordered", "subset", "superset"):
        assert judge(calls, *shuffled, mode=mode).score == 1


@given(CALLS, CALLS)
def test_modes_imply_each_other(expected: list[Any], calls: list[Any]) -> None:
    score = {m: judge(expected, *calls, mode=m).score for m in ("strict", "unordered", "subset", "superset")}
    share = {m: judge(expected, *calls, mode=m, graded=True).score for m in score}
    assert score["strict"] <= score["unordered"]  # type: ignore[operator]
    assert (score["unordered"] == 1) == (score["subset"] == 1 and score["superset"] == 1)
    for mode, value in share.items():
        assert 0 <= value <= 1  # type: ignore[operator]
        assert (value == 1) == (score[mode] == 1)


def test_expected_arguments_are_redacted_like_the_calls_were() -> None:
    redactor = Redactor(b"a key for tests", Policy())

    def hide(text: str) -> str:
        return redactor.redact(text, "arguments").text

    given = {"to": "joe@example.org", "card": 4111111111111111, "password": "hunter2hunter2"}
    stored = ToolCall("send", hide(json.dumps(given)))
    assert "joe@example.org" not in stored.arguments

    def again(expected: dict[str, Any]) -> float | None:
        evidence = Evidence(answer=None, calls=(stored,), redact=hide)
        return CHECKS["tool_calls"](evidence, {"calls": [{"name": "send", "arguments": expected}]}).score

    assert again(given) == 1
    assert again({**given, "to": "ann@example.org"}) == 0
    assert again({**given, "to": {"$regex": "@example"}}) is None
