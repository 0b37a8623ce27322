"""How a change showed up: every rule in its order, control flow, answers, tokens and prevalence."""

from __future__ import annotations

from typing import Any

import pytest

from ethogram.measures.divergence import diverge
from ethogram.measures.manifestation import (
    GROUP_OF,
    GROUPS,
    MANIFESTATIONS,
    ControlFlow,
    Ends,
    answer_changed,
    classify,
    control_flow,
    prevalence,
    recovered,
    same_answer,
    token_overhead,
    turns,
)
from ethogram.measures.sequence import Reading
from ethogram.questions.divergence.pair import PairSide, compare_pair
from ethogram.traces import Totals

Step = tuple[str, str] | tuple[str, str, bool] | tuple[str, str, bool, str]


def reading(*steps: Step, own: tuple[int, ...] | None = None) -> Reading:
    rows = [(s[0], s[1], s[2] if len(s) > 2 else False, s[3] if len(s) > 3 else "") for s in steps]
    return Reading(
        signatures=tuple(f"{k}:{n}{':error' if f else ''}{'@' + a if a else ''}" for k, n, f, a in rows),
        kinds=tuple(r[0] for r in rows),
        names=tuple(r[1] for r in rows),
        failed=tuple(r[2] for r in rows),
        agents=tuple(r[3] for r in rows),
        lanes=("",) * len(rows),
        turns=own,
    )


def flow(first: Reading, second: Reading) -> ControlFlow:
    return control_flow(first, second, diverge(first, second))


def longer(**more: int) -> ControlFlow:
    return ControlFlow(extended_execution=True, **more)  # type: ignore[arg-type]


NONE = ControlFlow()
EARLY, LATE = ControlFlow(early_termination=True), ControlFlow(extended_execution=True)


@pytest.mark.parametrize(
    ("d_norm", "changes", "changed", "null", "want"),
    [
        (0.5, NONE, True, True, "catastrophic_failure"),
        (0.1, EARLY, True, True, "catastrophic_failure"),
        (0.49, NONE, True, True, "structural_divergence_with_outcome_change"),
        (0.9, EARLY, True, False, "early_termination"),
        (0.9, ControlFlow(early_termination=True, reroutes=4), False, False, "early_termination"),
        (0.2, LATE, False, False, "loop_or_extended_execution"),
        (0.1, ControlFlow(extended_execution=True, tool_calls_added=2), True, False, "loop_or_extended_execution"),
        (
            0.1,
            ControlFlow(extended_execution=True, tool_calls_added=1),
            False,
            False,
            "structural_divergence_recovered",
        ),
        (0.0, NONE, True, False, "silent_semantic_corruption"),
        (0.0, NONE, True, True, "silent_semantic_corruption"),
        (0.1, ControlFlow(reroutes=1), True, False, "strategy_reroute"),
        (0.0, ControlFlow(tool_failures_introduced=1), True, False, "structural_divergence_with_outcome_change"),
        (0.3, NONE, True, False, "structural_divergence_with_outcome_change"),
        (0.3, NONE, False, False, "structural_divergence_recovered"),
        (0.3, NONE, None, False, "structural_divergence"),
        (None, NONE, True, False, "answer_changed"),
        (None, NONE, True, True, "answer_changed"),
        (None, NONE, False, False, "answer_same"),
        (None, NONE, None, False, "not_comparable"),
        (0.0, NONE, False, False, "no_observable_effect"),
        (0.0, NONE, None, False, "no_observable_effect"),
    ],
)
def test_rules_in_order(
    d_norm: float | None, changes: ControlFlow, changed: bool | None, null: bool, want: str
) -> None:
    shown = classify(d_norm, changes, changed, null_answer=null)
    assert shown.manifestation == want
    assert shown.group == GROUP_OF[shown.manifestation]
    assert shown.rule


CRASHED_LATER, CRASHED_BOTH, CRASHED_CLEAN = (Ends(crashed=c) for c in ((False, True), (True, True), (True, False)))
PASS, LOST, WON, FAILED = (Ends(passed=p) for p in ((True, True), (True, False), (False, True), (False, False)))


@pytest.mark.parametrize(
    ("d_norm", "changed", "ends", "want", "back"),
    [
        # a crash comes first, whatever else is known, and says nothing where the clean run crashed too
        (0.0, None, CRASHED_LATER, "crash", False),
        (None, None, CRASHED_LATER, "crash", False),
        (0.9, True, CRASHED_LATER, "crash", False),
        (0.0, None, CRASHED_BOTH, "baseline_crash", None),
        (0.0, None, CRASHED_CLEAN, "baseline_crash", None),
        # another way: outcomes decide where both exist
        (0.3, True, PASS, "structural_divergence_recovered", True),
        (0.3, None, PASS, "structural_divergence_recovered", True),
        (0.3, False, LOST, "structural_divergence_with_outcome_change", False),
        (0.3, None, LOST, "structural_divergence_with_outcome_change", False),
        (0.3, False, WON, "structural_divergence_with_outcome_change", None),
        (0.3, True, FAILED, "structural_divergence_with_outcome_change", None),
        (0.3, False, FAILED, "structural_divergence", None),
        # the same steps
        (0.0, True, PASS, "silent_semantic_corruption", True),
        (0.0, False, LOST, "silent_semantic_corruption", False),
        (0.0, None, LOST, "silent_semantic_corruption", False),
        (0.0, False, PASS, "no_observable_effect", True),
        # one side without an outcome: the answers decide
        (0.3, False, Ends(passed=(True, None)), "structural_divergence_recovered", True),
    ],
)
def test_crashes_and_outcomes(d_norm: float | None, changed: bool | None, ends: Ends, want: str, back: Any) -> None:
    shown = classify(d_norm, NONE, changed, null_answer=False, ends=ends)
    assert shown.manifestation == want
    assert shown.group == GROUP_OF[shown.manifestation]
    assert recovered(changed, ends) is back


def test_what_a_crashed_run_left_is_no_answer() -> None:
    one = PairSide(reading(("tool", "a")), "4", Totals())
    two = PairSide(reading(("tool", "a")), "partial output", Totals(), crashed=True)
    facts = compare_pair(one, two)
    assert (facts.answer_changed, facts.showing.manifestation, facts.showing.group) == (None, "crash", "crash")
    both = compare_pair(one._replace(crashed=True), two)
    assert both.showing.manifestation == "baseline_crash"
    assert "both runs crashed" in both.showing.rule


def test_groups_cover_everything() -> None:
    assert set(GROUP_OF) == set(MANIFESTATIONS)
    assert set(GROUP_OF.values()) == set(GROUPS)
    assert GROUP_OF["catastrophic_failure"] == GROUP_OF["early_termination"] == "combined_disruption"


def test_the_rule_names_its_facts() -> None:
    assert "d_norm 0.75" in classify(0.75, NONE, True, null_answer=True).rule
    assert "stopped early" in classify(0.1, EARLY, True, null_answer=True).rule
    assert "no answer on either side" in classify(0.3, NONE, None, null_answer=False).rule


def test_tools_that_fail_and_recover() -> None:
    good = reading(("model", "chat"), ("tool", "read"), ("tool", "add"))
    bad = reading(("model", "chat"), ("tool", "read", True), ("tool", "add"))
    assert flow(good, bad) == ControlFlow(tool_failures_introduced=1)
    assert flow(bad, good) == ControlFlow(tool_failures_avoided=1)
    assert flow(good, bad).total == 1


def test_routing() -> None:
    base = reading(("handoff", "critic"), ("tool", "read"), ("handoff", "writer"), ("handoff", "final_answer"))
    other = reading(("handoff", "coder"), ("tool", "read"), ("handoff", "writer"), ("handoff", "final_answer"))
    assert flow(base, other) == ControlFlow(reroutes=1)
    more = reading(*zip(base.kinds, base.names, strict=True), ("handoff", "critic"))
    assert flow(base, more).extra_routing_cycles == 1
    assert flow(more, base).missing_routing_cycles == 1
    silent = reading(("handoff", "critic"), ("tool", "read"), ("handoff", "writer"))
    assert flow(base, silent).missing_routing_cycles == 0  # the answer handed over is no cycle


def test_without_handoffs_another_agent_is_a_reroute() -> None:
    one = reading(("model", "chat", False, "planner"), ("model", "chat", False, "coder"))
    two = reading(("model", "chat", False, "planner"), ("model", "chat", False, "tester"))
    assert flow(one, two).reroutes == 1
    lone = reading(("model", "chat", False, "v1"))
    assert flow(lone, reading(("model", "chat", False, "v2"))).reroutes == 0  # a version's name is no route


def test_turns_are_the_logs_own_or_model_calls_or_steps() -> None:
    chat = reading(("model", "c"), ("tool", "a"), ("tool", "b"), ("model", "c"))
    assert turns(chat, chat) == 2
    tools = reading(("tool", "a"), ("tool", "b"))
    assert turns(tools, tools) == 2
    assert turns(tools, chat) == 0
    numbered = reading(("tool", "a"), ("tool", "b"), ("tool", "c"), own=(1, 1, 2))
    assert turns(numbered, numbered) == 2
    assert turns(numbered, reading()) == 2
    assert flow(chat, reading(("model", "c"), ("tool", "a"), ("tool", "b"))).early_termination
    extra_tool = reading(("model", "c"), ("tool", "a"), ("tool", "b"), ("tool", "b"), ("model", "c"))
    assert flow(chat, extra_tool) == ControlFlow(tool_calls_added=1)  # more tools in a turn are no extension


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("4", "4.0", True),
        ("4", 4, True),
        (4, 4.0, True),
        ("Paris ", "paris", True),
        ("a\n b", "a b", True),
        ("4", "5", False),
        ("four", 4, False),
        (True, 1, False),
        (True, "true", True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ([1, 2], [2, 1], False),
        (None, None, True),
        (None, "", False),
        ("nan", "nan", True),
        ("1e999", "1e999", True),
    ],
)
def test_answers_of_any_type(one: Any, two: Any, same: bool) -> None:
    assert same_answer(one, two) is same
    assert same_answer(two, one) is same


def test_no_answer_on_either_side_is_unknown() -> None:
    assert answer_changed(None, None) is None
    assert answer_changed("4", None) is True
    assert answer_changed("4", "4") is False


def test_tokens_are_compared_or_unavailable() -> None:
    some = Totals(input_tokens=80, cache_read_tokens=10, output_tokens=10, reasoning_tokens=5)
    assert token_overhead(some, Totals(output_tokens=150)) == 1.5
    assert token_overhead(some, Totals()) is None
    assert token_overhead(Totals(), some) is None
    assert token_overhead(Totals(input_tokens=0), some) is None


def test_prevalence_is_a_mean_over_tasks() -> None:
    rows = [("a", "x"), ("a", "x"), ("a", "x"), ("a", "y"), ("b", "y")]
    found = prevalence(rows, ["x", "y", "z"])
    assert found["x"].value == pytest.approx((0.75 + 0) / 2)
    assert found["z"].value == 0.0
    for estimate in found.values():
        assert estimate.low is not None
        assert estimate.high is not None
        assert 0 <= estimate.low <= estimate.high <= 1
        assert estimate.high > estimate.low
        assert (estimate.n, estimate.of) == (5, "pairs")
    alone = prevalence([("a", "x")] * 4, ["x"])["x"]
    assert alone.method == "wilson"
    assert alone.low == pytest.approx(0.510, abs=1e-3)
    assert prevalence([], ["x"])["x"].value is None
    assert prevalence([], ["x"])["x"].why
