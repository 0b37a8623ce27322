"""Rubrics, verdicts and the labels that they become."""

from __future__ import annotations

from typing import Any

import pytest

from ethogram.errors import BadInput
from ethogram.findings.rubric import (
    STANDARD,
    ItemVerdict,
    TraceVerdict,
    rubric_from,
    rubric_score,
    verdict_labels,
    whole_trace,
)


def said(*values: bool | None, item: str = "tool_choice", applies: bool = True) -> list[ItemVerdict]:
    return [ItemVerdict(item=item, step=i, value=v, applies=applies) for i, v in enumerate(values)]


def test_the_five_items_ship_in_their_order() -> None:
    names = ["tool_choice", "arguments_grounded", "result_read", "state_reverified", "termination"]
    assert [item.name for item in STANDARD.items] == names
    assert STANDARD.items[0].label == "rubric/tool_choice"


@pytest.mark.parametrize(
    ("values", "whole"),
    [((True, True), True), ((True, False, None), False), ((), None), ((None,), None), ((True, None), None)],
)
def test_a_whole_trace_is_yes_only_if_every_step_is(values: tuple[bool | None, ...], whole: bool | None) -> None:
    assert whole_trace(said(*values)) is whole


def test_a_step_to_which_an_item_does_not_apply_plays_no_part() -> None:
    assert whole_trace([*said(True), *said(None, applies=False)]) is True
    assert whole_trace(said(None, applies=False)) is None


def test_the_score_is_the_share_of_known_items() -> None:
    verdicts = [*said(True, True), *said(False, item="result_read"), *said(None, item="termination")]
    assert rubric_score(STANDARD, TraceVerdict(verdicts=tuple(verdicts))) == 0.5
    assert rubric_score(STANDARD, TraceVerdict(verdicts=())) is None


def test_labels_follow_the_convention(scene: Any) -> None:
    trace = scene().calls("search", {"q": "x"}, "found").says("Done.").done()
    verdict = TraceVerdict(verdicts=(ItemVerdict(item="tool_choice", step=2, value=False, why="no need"),))
    labels = verdict_labels(trace, STANDARD, verdict, "rule", "v1")
    step, whole, *rest = labels
    assert (step.name, step.value, step.by, step.source) == ("rubric/tool_choice", False, "rule", "judge")
    assert (step.span_id, step.why, step.version) == (trace.steps[2].span_id, "no need", "v1")
    assert (whole.name, whole.value, whole.span_id, whole.why) == ("rubric/tool_choice", False, None, "step 2: no need")
    assert [x.value for x in rest] == [None, None, None, None, 0.0]
    assert (labels[-1].name, labels[-1].span_id) == ("rubric", None)
    assert labels[2].why == "the item applies to no step"


def test_a_verdict_on_a_step_that_does_not_exist_is_never_stored(scene: Any) -> None:
    trace = scene().says("Done.").done()
    verdict = TraceVerdict(verdicts=(ItemVerdict(item="termination", step=9, value=False),))
    with pytest.raises(ValueError, match="cites step 9, which does not exist"):
        verdict_labels(trace, STANDARD, verdict, "rule", "v1")


def test_own_items_stand_beside_standard_ones_and_change_the_digest() -> None:
    own = rubric_from(
        {"name": "mine", "items": ["termination", {"name": "polite", "question": "Polite?", "applies_to": "replies"}]}
    )
    assert [i.name for i in own.items] == ["termination", "polite"]
    assert own.digest != STANDARD.digest
    assert own.digest == rubric_from({"name": "mine", "items": list(own_items(own))}).digest


def own_items(rubric: Any) -> list[Any]:
    import msgspec

    return [msgspec.to_builtins(item) for item in rubric.items]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([], "a rubric is an object with a list of items"),
        ({"items": []}, "needs a list of items"),
        ({"items": ["nope"]}, "there is no standard item 'nope'; these are: tool_choice"),
        ({"items": [{"name": "a"}]}, "item 1: .*question"),
        ({"items": [{"name": "a", "question": "?", "applies_to": "mondays"}]}, "item 1: .*applies_to"),
        ({"items": [{"name": "A b", "question": "?", "applies_to": "calls"}]}, "'A b' is not a name"),
        ({"items": [{"name": "a", "question": " ", "applies_to": "calls"}]}, "'a' asks nothing"),
        ({"items": ["termination", "termination"]}, "asks 'termination' twice"),
        ({"items": ["termination"], "model": "x"}, "a rubric has no key 'model'"),
    ],
)
def test_what_is_no_rubric_gets_one_sentence(data: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words) as error:
        rubric_from(data)
    assert "\n" not in str(error.value)
