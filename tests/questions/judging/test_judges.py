"""The rule judge on planted mistakes, known verdicts, and panels."""

from __future__ import annotations

from typing import Any

import pytest

from ethogram.findings.finding import Facts
from ethogram.findings.rubric import STANDARD, rubric_from, whole_trace
from ethogram.questions.judging.judges import Case, FixedJudge, PanelJudge
from ethogram.questions.judging.rulejudge import RuleJudge
from ethogram.traces import SUCCESS_AT, Trace


def judged(trace: Trace, item: str, facts: Facts | None = None) -> dict[int, bool | None]:
    found = RuleJudge().judge(Case(trace, SUCCESS_AT, facts), STANDARD)
    return {v.step: v.value for v in found.of(item)}


def test_calls_in_a_loop_are_no_defensible_choice_after_the_first(scene: Any) -> None:
    trace = scene()
    for _ in range(3):
        trace.calls("search", {"q": "seattle"}, "no results")
    assert judged(trace.says("Here it is.").done(), "tool_choice") == {2: True, 4: False, 6: False}


def test_a_tool_that_does_not_exist_or_was_not_offered_is_no_choice(scene: Any) -> None:
    trace = scene().calls("fly", {}, "Error: unknown tool fly", failed=True).calls("search", {"q": "x"}).done()
    assert judged(trace, "tool_choice") == {2: False, 4: True}
    assert judged(trace, "tool_choice", Facts(offered=frozenset({"fly"}))) == {2: False, 4: False}


def test_every_invented_argument_is_seen_not_only_the_first(scene: Any) -> None:
    trace = scene("Cancel order W1234567.")
    trace.calls("get_order", {"id": "W1234567"}, '{"user": "ada_lovelace_42"}')
    trace.calls("get_user", {"id": "bob_1234567"}, "no such user", failed=True)
    trace.calls("get_user", {"id": "ada_lovelace_42"}, "Ada")
    trace.calls("get_payment", {"id": "pay_7654321"}, "no such payment", failed=True)
    assert judged(trace.done(), "arguments_grounded") == {2: True, 4: False, 6: True, 8: False}


def test_arguments_that_a_tool_rejects_are_not_grounded(scene: Any) -> None:
    trace = scene().calls("search", {"q": 1}, "validation error: q should be a valid string", failed=True).done()
    assert judged(trace, "arguments_grounded") == {2: False}


def test_a_result_that_the_last_words_contradict_was_not_read(scene: Any) -> None:
    trace = scene().calls("search", {"q": "x"}, "found").calls("cancel_order", {"id": 1}, "Error: 500", failed=True)
    trace.says("Your order has been cancelled.")
    done = trace.done()
    assert judged(done, "result_read") == {2: True, 4: False}
    assert judged(done, "state_reverified") == {4: False}
    assert judged(done, "termination") == {5: False}


def test_an_error_that_is_answered_by_the_same_call_was_not_read(scene: Any) -> None:
    trace = scene()
    for _ in range(2):
        trace.calls("read", {"f": "a.txt"}, "Error: no such file", failed=True)
    assert judged(trace.says("I see.").done(), "result_read")[2] is False


def test_nothing_follows_the_last_result(scene: Any) -> None:
    found = (
        RuleJudge()
        .judge(Case(scene().calls("search", {"q": "x"}, "found").done(), SUCCESS_AT), STANDARD)
        .of("result_read")
    )
    assert [(v.value, v.applies) for v in found] == [(None, False)]


def test_a_change_must_be_read_back(scene: Any) -> None:
    trace = scene().calls("update_order", {"id": 1}).calls("get_order", {"id": 1}, "changed").calls("send_mail", {})
    assert judged(trace.says("Done.").done(), "state_reverified") == {2: True, 6: False}


def test_tools_that_a_suite_declares_go_before_their_names(scene: Any) -> None:
    trace = scene().calls("frob", {"id": 1}).calls("update_order", {"id": 1}).says("Done.").done()
    assert judged(trace, "state_reverified", Facts(changing=frozenset({"frob"}))) == {2: False}


@pytest.mark.parametrize(
    ("words", "stop", "value"),
    [
        ("The price is 4.", "stop", True),
        ("I am unable to complete this task.", "stop", False),
        ("The price is", "length", False),
    ],
)
def test_termination(scene: Any, words: str, stop: str, value: bool) -> None:
    assert judged(scene().calls("price", {"item": "x"}, "4").says(words, stop).done(), "termination") == {3: value}


def test_items_without_a_rule_stay_unknown_even_under_a_standard_name(scene: Any) -> None:
    own = rubric_from({"items": [{"name": "termination", "question": "Polite?", "applies_to": "end"}]})
    found = RuleJudge().judge(Case(scene().says("Bye.").done(), SUCCESS_AT), own)
    assert [(v.value, v.why) for v in found.verdicts] == [(None, "no rule answers this item")]


def test_known_verdicts_go_before_the_default(scene: Any) -> None:
    trace = scene().calls("search", {"q": "x"}).says("Done.").done()
    start = trace.head.trace_id.removeprefix("b2:")[:8]
    judge = FixedJudge(True, {(start, "tool_choice", 2): False, (start, "termination", None): False})
    found = judge.judge(Case(trace, SUCCESS_AT), STANDARD)
    assert [whole_trace(found.of(i)) for i in ("tool_choice", "arguments_grounded", "termination")] == [
        False,
        True,
        False,
    ]


def test_a_panel_takes_the_majority_and_knows_where_it_is_split(scene: Any) -> None:
    case = Case(scene().calls("search", {"q": "x"}).says("Done.").done(), SUCCESS_AT)
    yes, no = FixedJudge(True), FixedJudge(False)
    most = PanelJudge([yes, no, no]).judge(case, STANDARD)
    assert {v.value for v in most.verdicts} == {False}
    assert len(most.split) == len(most.verdicts)
    even = PanelJudge([yes, no]).judge(case, STANDARD)
    assert {(v.value, v.why) for v in even.verdicts} == {(None, "the panel is split 1 to 1")}
    assert PanelJudge([yes, yes]).judge(case, STANDARD).split == ()
    assert PanelJudge([yes, no]).by == "panel:fixed:yes+fixed:no"


def test_a_judge_that_looks_at_one_trace_prefers_the_higher_score(scene: Any) -> None:
    good = Case(scene().calls("search", {"q": "x"}, "found").says("It is here.").done(), SUCCESS_AT)
    bad = Case(scene().calls("search", {"q": "x"}, "found").says("I am unable to do that.").done(), SUCCESS_AT)
    judge = RuleJudge()
    choices = [judge.prefer(*pair, STANDARD).choice for pair in ((good, bad), (bad, good), (good, good))]
    assert choices == ["first", "second", "tie"]
