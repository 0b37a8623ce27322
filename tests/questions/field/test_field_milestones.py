"""Milestones as a YAML file gives them, compiled to states."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from ethogram.errors import BadInput, NotFound
from ethogram.measures.dimension import Dimension
from ethogram.measures.milestones import Milestones, milestones_from
from ethogram.questions.field.field import Field
from ethogram.traces import Head, Scored, Span, SpanId, Trace, episode_id, trace_id

TEXT = """
start: start
writes: [book_*, cancel_reservation]
milestones:
  - state: identified
    when: {tool: get_user_details}
  - state: looked_up
    when: {tool: [get_reservation_details, "search_*"]}
  - state: acted
    when: {write: true, after: identified}
  - state: closed
    when: {last: true}
"""


def steps(*names: str) -> tuple[Span, ...]:
    """`model` is a model step, `x!` a call of x that failed."""
    return tuple(
        Span(
            trace_id=trace_id("test", "1"),
            span_id=SpanId(f"s{i}"),
            seq=i,
            kind="model" if name.startswith("model") else "tool",
            name="chat" if name.startswith("model") else name.rstrip("!"),
            tool=None if name.startswith("model") else name.rstrip("!"),
            status="error" if name.endswith("!") else "ok",
            requested=tuple(name.split(":")[1:]),
        )
        for i, name in enumerate(names)
    )


def labels(data: Any, *names: str) -> list[str]:
    return milestones_from(data).labels(steps(*names))


def test_states_by_tools_writes_and_the_last_step() -> None:
    stones = milestones_from(yaml.safe_load(TEXT))
    assert stones.states == ("start", "identified", "looked_up", "acted", "closed")
    assert stones.terminal == "closed"
    walked = stones.labels(steps("model", "get_user_details", "search_direct", "book_flight", "model"))
    assert walked == ["start", "identified", "looked_up", "acted", "closed"]
    assert stones.labels(()) == []


def test_after_means_a_later_step() -> None:
    stones = milestones_from(yaml.safe_load(TEXT))
    assert stones.labels(steps("book_flight", "get_user_details", "model", "model"))[:3] == [
        "start",
        "identified",
        "identified",
    ]
    after = {"state": "b", "when": {"tool": "write", "after": {"tool": "read", "count": 2}}}
    assert labels([after], "read", "write", "read", "write") == ["start", "start", "start", "b"]


def test_states_only_move_forward_and_may_jump() -> None:
    data = [{"state": "one", "when": {"tool": "a"}}, {"state": "two", "when": {"tool": "b"}}]
    assert labels(data, "b", "a", "a") == ["two", "two", "two"]
    strict = {"milestones": data, "strict": True}
    assert labels(strict, "b", "a", "b") == ["start", "one", "two"]


def test_errors_counts_kinds_requests_and_any() -> None:
    assert labels([{"state": "stuck", "when": {"error": True, "count": 2}}], "a!", "a", "b!") == [
        "start",
        "start",
        "stuck",
    ]
    assert labels([{"state": "x", "when": {"kind": "model", "requested": "sea*"}}], "model", "model:search") == [
        "start",
        "x",
    ]
    either = [{"state": "x", "when": {"any": [{"tool": "a"}, {"error": True}]}}]
    assert labels(either, "b", "c!") == ["start", "x"]
    fine = [{"state": "x", "when": {"tool": "a", "error": False}}]
    assert labels(fine, "a!", "a") == ["start", "x"]


def test_a_field_with_milestones() -> None:
    class Steps(Field):
        def dimensions(self) -> list[Dimension]:
            return [Dimension("steps")]

        def measure(self, trajectory: Trace) -> list[float]:
            return [len(trajectory.steps)]

    stones = milestones_from(yaml.safe_load(TEXT))
    field = stones.on(Steps)()
    for number, names in enumerate([("get_user_details", "model"), ("model", "search_x", "model"), ("model", "model")]):
        tid = trace_id("test", "1")
        head = Head(trace_id=tid, episode=episode_id("test", str(number)), task="t", outcome=Scored(1.0))
        field.add(Trace(head, steps(*names), {}))
    assert field.states == ["start", "identified", "looked_up", "closed"]
    assert field.terminal == "closed"
    assert [field.horizon(s, rule="reached").K for s in ("start", "identified", "looked_up")] == [3, 2, 1]
    assert [field.horizon(s).K for s in ("start", "identified", "looked_up", "acted")] == [2, 1, 1, 0]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("text", "a list of"),
        ({"milestones": "x"}, "a list of"),
        ([{"state": "a"}], "milestone 1 .* 'when'"),
        ([{"state": "a", "when": {}}], "give a mapping"),
        ([{"state": "a", "when": {"tol": "x"}}], "unknown key 'tol'"),
        ([{"state": "a", "when": {"error": "yes"}}], "give true or false"),
        ([{"state": "a", "when": {"tool": 3}}], "a name or a list of names"),
        ([{"state": "a", "when": {"tool": "x", "count": 0}}], "at least 1"),
        ([{"state": "a", "when": {"tool": "x"}}] * 2, "'a' occurs twice"),
        ([{"state": "a", "when": {"write": True}}], "under 'writes'"),
        ([{"state": "a", "when": {"last": True, "tool": "x"}}], "use 'last' alone"),
        ([{"state": "a", "when": {"last": True}}, {"state": "b", "when": {"last": True}}], "only one"),
        ({"milestones": [], "stric": True}, "unknown key 'stric'"),
    ],
)
def test_mistakes_are_named(data: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        milestones_from(data)


def test_after_a_milestone_that_is_not_there() -> None:
    with pytest.raises(NotFound, match="did you mean 'read'"):
        milestones_from(
            [{"state": "read", "when": {"tool": "x"}}, {"state": "b", "when": {"tool": "y", "after": "raed"}}]
        )


def test_a_milestones_object_is_inert() -> None:
    assert milestones_from(yaml.safe_load(TEXT)) == milestones_from(yaml.safe_load(TEXT))
    assert isinstance(milestones_from([]), Milestones)
    assert labels([], "a", "b") == ["start", "start"]
