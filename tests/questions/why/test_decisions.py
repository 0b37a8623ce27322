"""Decision points: which choices are looked at, by hand, and how they are told."""

from __future__ import annotations

import numpy as np
import pytest

from ethogram.measures import contrasts
from ethogram.measures.contrasts import ContrastRuns
from ethogram.questions.why import decisions
from ethogram.traces import Span, SpanId, TraceId

PATHS = [("a", "b", "c")] * 3 + [("a", "d", "c")] * 3 + [("a", "b")] * 3


def span(**facts: object) -> Span:
    return Span(trace_id=TraceId("t"), span_id=SpanId("s"), seq=0, **{"kind": "tool", "name": "n", **facts})  # type: ignore[arg-type]


def test_every_way_on_from_a_prefix_is_a_choice() -> None:
    found = {(c.place.before, c.place.first_time, c.choice): c.event for c in decisions.choices(PATHS)}
    # at the beginning everybody does the same, so there is no choice
    assert not any(before == () for before, _, _ in found)
    ways = found[("a",), False, "b"]
    assert ways.rows.tolist() == [0, 1, 2, 6, 7, 8]
    assert ways.among is not None
    assert ways.among.tolist() == list(range(9))
    ends = found[("a", "b"), False, decisions.END]
    assert (ends.rows.tolist(), ends.among.tolist()) == ([6, 7, 8], [0, 1, 2, 6, 7, 8])  # type: ignore[union-attr]
    # the same runs at the same place are one choice, whether it is told as a prefix or as a first time
    assert (("a",), True, "b") not in found
    assert (("b",), True, decisions.END) not in found


def test_places_are_pooled_by_the_first_time_of_a_step() -> None:
    """Attempts that begin differently share the step 'm'; two of each begin so, too few for a prefix of their own."""
    paths = [("x", "m", "good"), ("x", "m", "bad"), ("y", "m", "good"), ("y", "m", "bad")] * 2
    found = {(c.place.before, c.choice): c for c in decisions.choices(paths) if c.place.first_time}
    bad = found[("m",), "bad"]
    assert bad.event.rows.tolist() == [1, 3, 5, 7]
    assert bad.place.step is None
    assert decisions.step_of(bad, paths[1]) == 2
    runs = ContrastRuns(np.array([False, True] * 4), np.array([0, 0, 1, 1] * 2), np.array([0, 0, 1, 1] * 2))
    told = decisions.branches(bad, paths, runs)
    assert [(b.choice, b.runs, b.failed) for b in told] == [("bad", 4, 4), ("good", 4, 0)]
    assert contrasts.fall(bad.event, runs, 0.025).value == pytest.approx(-1.0)


def test_rare_choices_and_single_runs_are_left_out() -> None:
    assert decisions.choices([("a", "b")] * 2 + [("a", "c")] * 2) == []
    assert decisions.choices([]) == []
    assert decisions.choices([()] * 5) == []


def test_long_traces_do_not_take_for_ever() -> None:
    paths = [tuple(f"s{i}" for i in range(5000))] * 4 + [tuple(f"t{i}" for i in range(5000))] * 4
    found = decisions.choices(paths)
    assert {c.choice for c in found} == {"s0", "t0"}


def test_steps_in_words() -> None:
    words = decisions.step_words
    assert words(span(kind="model", requested=("book", "book", "pay"))) == "asks for book, pay"
    assert words(span(kind="model", stop_reason="length")) == "answers (length)"
    assert words(span(kind="model", status="error")) == "answers, failed"
    assert words(span(tool="book", status="error")) == "book fails"
    assert words(span(kind="user")) == "the user speaks"
    assert words(span(kind="retrieval", name="docs", status="error")) == "retrieval docs fails"
