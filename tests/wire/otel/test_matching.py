"""Which telemetry tells of a call that was seen: by the span around it, by its id, or by time and words together."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ethogram.wire.otel.matching import Matches, Told, same_model_call, same_tool_call

MS = 1_000_000
BASE = 1_700_000_000_000 * MS


def told(span_id: str, start: int = 0, end: int = 100, *, kind: str = "model", **more: Any) -> Told:
    fields: dict[str, Any] = {"parent_id": None, "name": "chat", "failed": False, "model": "m", **more}
    return Told(span_id=span_id, kind=kind, start_ns=BASE + start * MS, end_ns=BASE + end * MS, **fields)


@pytest.mark.parametrize(
    ("telemetry", "seen", "sure"),
    [
        (told("t", response="r1"), told("w", 5000, response="r1"), 3),  # clocks apart: the id decides
        (told("t", response="r1"), told("w", 10, response="r2", words=("six",)), 0),
        (told("t", words=("six",)), told("w", 10, words=("six",)), 2),
        (told("t", words=("six",)), told("w", 10, words=("two",)), 0),
        (told("t", words=("six",)), told("w", 151, words=("six",)), 0),  # it began after the telemetry had ended
        (told("t", words=("six",)), told("w", -51, words=("six",)), 0),
        (told("t", output_tokens=7), told("w", 10, output_tokens=7), 1),
        (told("t", output_tokens=7), told("w", 10, output_tokens=8), 0),
        (told("t", model="gpt-4o"), told("w", 10, model="openai/gpt-4o-2024-08-06"), 1),
        (told("t", model="gpt-4o"), told("w", 10, model="claude"), 0),
        (told("t", failed=True), told("w", 10, failed=True), 1),
    ],
)
def test_how_sure_it_is_that_two_sources_tell_of_one_model_call(telemetry: Told, seen: Told, sure: int) -> None:
    assert same_model_call(telemetry, seen) == sure


TOOL = {"kind": "tool", "name": "price"}


@pytest.mark.parametrize(
    ("telemetry", "seen", "sure"),
    [
        (told("t", **TOOL, call_id="c1"), told("w", 9000, **TOOL, call_id="c1", from_wire=True), 3),
        (told("t", **TOOL, arguments='{"a": 1}'), told("w", 10, **TOOL, arguments='{"a":1}'), 2),
        (told("t", **TOOL, arguments='{"a": 1}'), told("w", 10, **TOOL, arguments='{"a":2}'), 0),
        (told("t", **TOOL, arguments="{'a': 1}"), told("w", 10, **TOOL, arguments='{"a":1}'), 1),
        (told("t", kind="tool", name="stock"), told("w", 10, **TOOL), 0),
        (told("t", 10, 20, **TOOL), told("w", 0, 50, **TOOL, from_wire=True), 2),
        (told("t", 10, 20, **TOOL), told("w", 5000, 5050, **TOOL, from_wire=True), 0),
        (told("t", kind="handoff", name="to x"), told("w", kind="tool", name="transfer_to_x", from_wire=True), 1),
    ],
)
def test_how_sure_it_is_that_two_sources_tell_of_one_tool_call(telemetry: Told, seen: Told, sure: int) -> None:
    assert same_tool_call(telemetry, seen) == sure


def test_telemetry_around_a_call_is_the_call_unless_other_work_lies_between() -> None:
    chain = told("t1", kind="other", name="node")
    around = told("t2", parent_id="t1", scope="a")
    seen = told("w", 10, parent_id="t2", words=("six",))
    assert Matches([chain, around], [seen]).same == {"t2": ["w"]}
    work = told("t3", kind="tool", name="ask", parent_id="t2", scope="a")
    inside = told("w", 10, parent_id="t3", words=("six",))
    outer = around._replace(words=("two",))
    assert Matches([outer, work], [inside]).same == {}


def test_a_wrapper_of_one_call_is_that_call_and_a_wrapper_of_two_is_not() -> None:
    outer = told("t1", 0, 300, scope="a")
    inner = [told("t2", 0, 100, parent_id="t1", scope="a"), told("t3", 150, 250, parent_id="t1", scope="a")]
    seen = [told("w1", 10, parent_id="t2"), told("w2", 160, parent_id="t3")]
    assert Matches([outer, inner[0]], seen[:1]).same == {"t2": ["w1"], "t1": ["w1"]}
    assert Matches([outer, *inner], seen).same == {"t2": ["w1"], "t3": ["w2"]}


def test_each_source_tells_of_a_call_once_and_two_sources_of_one() -> None:
    seen = [told("w1", 10, words=("six",)), told("w2", 20, words=("six",))]
    twice = [told("t1", words=("six",), scope="a"), told("t2", 5, words=("six",), scope="a")]
    found = Matches(twice, seen).same
    assert sorted(itertools.chain(*found.values())) == ["w1", "w2"]
    other = told("t3", words=("six",), scope="b")
    assert len(Matches([*twice, other], seen).same) == 3


def test_parents_in_a_circle_end() -> None:
    one, two = told("t1", parent_id="t2"), told("t2", parent_id="t1")
    assert Matches([one, two], [told("w", 10, parent_id="t1")]).same["t1"] == ["w"]


CALLS = st.lists(st.tuples(st.integers(0, 50), st.integers(1, 80), st.sampled_from("abc")), max_size=12)


@given(CALLS, st.randoms(use_true_random=False))
def test_calls_that_both_tell_are_all_found_whatever_overlaps(calls: list[tuple[int, int, str]], rng: Any) -> None:
    """With ids nothing else counts; no recorded call is taken twice by one source."""
    telemetry = [told(f"t{i}", s, s + d, response=f"r{i}", scope="a") for i, (s, d, _) in enumerate(calls)]
    seen = [told(f"w{i}", s + 1, s + d, response=f"r{i}") for i, (s, d, _) in enumerate(calls)]
    rng.shuffle(seen)
    assert Matches(telemetry, seen).same == {f"t{i}": [f"w{i}"] for i in range(len(calls))}


@given(CALLS)
def test_words_never_join_two_different_calls(calls: list[tuple[int, int, str]]) -> None:
    telemetry = [told(f"t{i}", s, s + d, words=(w,), scope="a") for i, (s, d, w) in enumerate(calls)]
    seen = [told(f"w{i}", s + 1, s + d, words=(w,)) for i, (s, d, w) in enumerate(calls)]
    found = Matches(telemetry, seen).same
    taken = list(itertools.chain(*found.values()))
    assert len(taken) == len(set(taken))
    for one, (other,) in found.items():
        assert calls[int(one[1:])][2] == calls[int(other[1:])][2]
