"""Departures from recorded decisions: what counts as one, the first of them, and what goes beyond the control."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ethogram.questions.replay.redecision import StepDraws, TraceDraws, decision, first_departure, moved, redecision
from ethogram.traces import Message, Text, ToolCall


def calls(*named: tuple[str, str]) -> Message:
    return Message("assistant", tuple(ToolCall(name, arguments) for name, arguments in named))


def step(number: int, control: list[bool | None], changed: list[bool | None]) -> StepDraws:
    return StepDraws(step=number, control=tuple(control), changed=tuple(changed))


def trace(task: str, *steps: StepDraws) -> TraceDraws:
    return TraceDraws(task=task, length=2 * len(steps), steps=steps)


def test_a_decision_is_what_is_called_and_not_what_is_said() -> None:
    assert decision(Message("assistant", (Text("4"),))) == decision(Message("assistant", (Text("four"),)))
    assert decision(calls(("f", '{"a": 1, "b": 2}'))) == decision(calls(("f", '{"b":2,"a":1}')))
    assert decision(calls(("f", "{}"), ("g", "{}"))) == decision(calls(("g", "{}"), ("f", "")))
    assert decision(calls(("f", '{"a":1}'))) != decision(calls(("f", '{"a":2}')))
    assert decision(calls(("f", '{"a":1}')), "names") == decision(calls(("f", '{"a":2}')), "names")
    assert decision(calls(("f", "{}"))) != decision(Message("assistant", (Text("f"),)))
    assert decision(calls(("f", "no json"))) == decision(calls(("f", "no json")))


def test_the_first_departure_and_the_step_that_moved() -> None:
    steps = [step(0, [False], [False]), step(2, [True], [True]), step(4, [False], [True]), step(6, [None], [True])]
    assert first_departure(steps, "changed") == 2
    assert first_departure(steps, "control") == 2
    assert moved(steps) == [False, False, True, False]
    assert first_departure([step(0, [None], [None])], "changed") is None


def test_with_several_draws_a_step_moves_where_the_exact_test_says_so() -> None:
    steps = [step(0, [False] * 8, [True] * 8), step(2, [True] * 4 + [False] * 4, [False] * 4 + [True] * 4)]
    assert moved(steps) == [True, False]
    assert first_departure(steps, "control") == 2


def test_shares_and_the_difference_over_tasks() -> None:
    traces = [
        trace("a", step(0, [False], [True]), step(2, [False], [True])),
        trace("b", step(0, [False], [False]), step(2, [True], [True])),
        trace("c", step(0, [False], [False]), step(2, [False], [True])),
    ]
    found = redecision(traces)
    assert found.changed.value == pytest.approx(1.0)
    assert found.control.value == pytest.approx(1 / 3)
    apart = np.array([1.0, 0.0, 0.5])
    assert found.difference.value == pytest.approx(apart.mean())
    half = 4.302653 * apart.std(ddof=1) / np.sqrt(3)  # Student's quantile with two degrees of freedom
    assert found.difference.low == pytest.approx(apart.mean() - half, abs=1e-5)
    assert found.difference.high == 1.0
    assert (found.first.pairs, found.first.never, found.first.median) == (3, 0, 0.5)
    assert (found.first_control.never, found.first_control.median) == (2, 0.5)
    by = [(row.decision, row.changed.value, row.control.value) for row in found.departed_by]
    assert by == [(1, pytest.approx(1 / 3), 0.0), (2, 1.0, pytest.approx(1 / 3))]


def test_one_task_has_no_interval_and_nothing_known_no_value() -> None:
    assert redecision([trace("a", step(0, [False], [True]))]).difference.why == "one task has no spread to measure by"
    alike = redecision([trace(task, step(0, [False], [True])) for task in "ab"]).difference
    assert (alike.value, alike.low, alike.why) == (1.0, None, "all tasks are alike: there is no spread to measure by")
    assert redecision([trace("a", step(0, [None], [True]))]).difference.why == "no step was decided by both"


def test_a_control_that_departs_as_often_is_no_effect() -> None:
    rng = np.random.default_rng(7)
    covered = 0
    for _ in range(60):
        drawn = [
            trace(f"t{i}", *(step(j, [bool(rng.random() < 0.3)], [bool(rng.random() < 0.3)]) for j in range(4)))
            for i in range(12)
        ]
        found = redecision(drawn).difference
        covered += (found.low or 0.0) <= 0 <= (found.high or 0.0)
    assert covered >= 60 * 0.95 - 3 * np.sqrt(60 * 0.05 * 0.95)


DRAWN = st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=3)


@given(st.lists(st.lists(st.tuples(DRAWN, DRAWN), min_size=1, max_size=4), min_size=1, max_size=6))
@settings(deadline=None, max_examples=40, derandomize=True)
def test_properties(drawn: list[list[tuple[list[bool | None], list[bool | None]]]]) -> None:
    traces = [trace(f"t{i % 3}", *(step(j, *both) for j, both in enumerate(s))) for i, s in enumerate(drawn)]
    found = redecision(traces)
    swapped = redecision([trace(t.task, *(step(s.step, [*s.changed], [*s.control]) for s in t.steps)) for t in traces])
    if found.difference.value is not None:
        assert swapped.difference.value == pytest.approx(-found.difference.value)
    shares = [row.changed.value or 0.0 for row in found.departed_by]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(found.changed.value)
