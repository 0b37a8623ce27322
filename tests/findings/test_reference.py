"""Expected calls against the calls that change the world."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ethogram.capture.memory import read_traces
from ethogram.capture.source import file_source
from ethogram.checks.settings import ToolCallsCheck
from ethogram.findings.changing_tools import changes_by_name
from ethogram.findings.findings import Finding, category_of, findings, known_facts
from ethogram.questions.logs.imports import import_logs
from ethogram.store import Home
from ethogram.traces import SUCCESS_AT, Scored, Trace

DATA = Path(__file__).parents[3] / "shared" / "data"
here = pytest.mark.skipif(not DATA.exists(), reason="../shared/data is not here")

CANCEL = {"name": "cancel_reservation", "kwargs": {"reservation_id": "Z7GOZK"}}
BOOK = {"name": "book_reservation", "kwargs": {"user_id": "ann_1", "flights": ["HAT1", "HAT2"], "insurance": "no"}}


def log(scene: Any, *actions: Any, prompt: str = "Please help.") -> Any:
    """A trace of tau-bench whose task expects these actions."""
    return scene(prompt, "tau-bench", task=json.dumps({"actions": actions, "outputs": []}))


def compared(trace: Trace) -> list[Finding]:
    return [f for f in findings(trace, SUCCESS_AT, known_facts(trace)) if f.source == "reference"]


def names(trace: Trace) -> list[str]:
    return [f.name for f in compared(trace)]


def test_calls_that_mean_the_same_are_the_same(scene: Any) -> None:
    trace = log(scene, BOOK).calls("book_reservation", {**BOOK["kwargs"], "note": None}).done()
    assert names(trace) == ["same_calls"]
    assert category_of(compared(trace)) == "same_calls"


def test_the_shop_of_tau_bench_does_not_mind_the_order_of_items(scene: Any) -> None:
    back = {"name": "return_delivered_order_items", "kwargs": {"order_id": "#W1", "item_ids": ["11", "22"]}}
    turned = {"order_id": "#W1", "item_ids": ["22", "11"]}
    assert names(log(scene, back).calls("return_delivered_order_items", turned).done()) == ["same_calls"]
    flown = {**BOOK["kwargs"], "flights": ["HAT2", "HAT1"]}
    assert names(log(scene, BOOK).calls("book_reservation", flown).done()) == [
        "wrong_arguments:book_reservation.flights"
    ]


def test_reads_hand_overs_and_failed_calls_do_not_count(scene: Any) -> None:
    moved = {"name": "transfer_to_human_agents", "kwargs": {"summary": "x"}}
    look = {"name": "get_user_details", "kwargs": {"user_id": "ann_1"}}
    trace = (
        log(scene, moved, look)
        .calls("search_direct_flight", {"to": "SEA"})
        .calls("cancel_reservation", {"reservation_id": "AAAAAA"}, "Error: not found", failed=True)
        .calls("transfer_to_human_agents", {"summary": "y"})
        .done()
    )
    assert names(trace) == ["same_calls"]


def test_a_wrong_argument_is_named_with_its_values_and_where_it_came_from(scene: Any) -> None:
    trace = (
        log(scene, CANCEL)
        .calls("get_user_details", {"user_id": "ann_1"}, '{"reservations": ["Z7GOZK", "QQ2222"]}')
        .says("I cancel QQ2222.")
        .calls("cancel_reservation", {"reservation_id": "QQ2222"})
        .done()
    )
    (found,) = compared(trace)
    assert (found.name, found.cls, found.step) == ("wrong_arguments:cancel_reservation.reservation_id", "bad_args", 5)
    assert (found.detail["expected"], found.detail["got"]) == ("Z7GOZK", "QQ2222")
    assert (found.detail["from"], found.detail["from_step"]) == ("get_user_details", 2)
    assert found.detail["decided_at"] == 4
    said = "reservation_id: QQ2222, expected Z7GOZK; QQ2222 appears in step 2, get_user_details; cancel_reservation("
    assert found.text.startswith(said)


def test_a_short_value_or_one_that_was_not_given_says_no_more_than_is_known(scene: Any) -> None:
    few = log(scene, {"name": "book_reservation", "kwargs": {"user_id": "u", "bags": 0, "insurance": "no"}})
    bags, insurance = compared(few.calls("book_reservation", {"user_id": "u", "bags": 1}).done())
    assert bags.text.startswith("bags: 1, expected 0; book_reservation(")
    assert insurance.text.startswith("insurance: not given, expected no; book_reservation(")
    made_up = log(scene, CANCEL).calls("cancel_reservation", {"reservation_id": "NOWHERE", "x": 1})
    wrong, extra = compared(made_up.done())
    assert wrong.text.startswith("reservation_id: NOWHERE, expected Z7GOZK; NOWHERE appears nowhere before; cancel_")
    assert extra.text.startswith("x: 1, not expected; cancel_")


@pytest.mark.parametrize(
    ("value", "who", "step"),
    [("USER11", "user", 0), ("SAID22", "agent", 1), ("NOWHERE", "nowhere", None), ("ZZ", "nowhere", None)],
)
def test_where_a_value_came_from(scene: Any, value: str, who: str, step: int | None) -> None:
    trace = (
        log(scene, CANCEL, prompt="My reservation is USER11, or ZZTOP.")
        .says("It may be SAID22.")
        .calls("cancel_reservation", {"reservation_id": value})
        .done()
    )
    (found,) = compared(trace)
    assert (found.detail["from"], found.detail["from_step"]) == (who, step)


def test_every_argument_that_differs_is_named(scene: Any) -> None:
    made = {"user_id": "ann_1", "flights": ["HAT1", "HAT3"], "extra": 1}
    found = {f.detail["argument"]: f.detail for f in compared(log(scene, BOOK).calls("book_reservation", made).done())}
    assert found.keys() == {"flights", "insurance", "extra"}
    assert "HAT3" in found["flights"]["difference"]
    assert found["insurance"]["got"] == "not given"
    assert found["extra"]["expected"] == "not expected"


def test_one_category_for_each_run(scene: Any) -> None:
    wrong = {"reservation_id": "QQ2222"}
    cases = {
        "missing_call": log(scene, CANCEL).says("No.").done(),
        "extra_call": log(scene).calls("cancel_reservation", wrong).done(),
        "other_call": log(scene, CANCEL).calls("send_certificate", {"amount": 5}).done(),
        "wrong_arguments": log(scene, CANCEL, BOOK)
        .calls("cancel_reservation", wrong)
        .calls("send_certificate", {})
        .done(),
        "same_calls": log(scene).says("Hello.").done(),
    }
    assert {name: category_of(compared(trace)) for name, trace in cases.items()} == {name: name for name in cases}
    other = compared(cases["other_call"])
    assert {f.name: f.cls for f in other} == {
        "other_call:send_certificate": "wrong_tool",
        "missing_call:cancel_reservation": None,
    }


def test_the_nearest_call_of_the_tool_is_the_one_with_other_arguments(scene: Any) -> None:
    far = {"user_id": "bob_2", "flights": ["HAT9"], "insurance": "yes"}
    near = {**BOOK["kwargs"], "insurance": "yes"}
    trace = log(scene, BOOK).calls("book_reservation", far).calls("book_reservation", near).done()
    assert names(trace) == ["wrong_arguments:book_reservation.insurance", "extra_call:book_reservation"]


def test_a_log_without_a_reference_has_no_category(scene: Any) -> None:
    trace = scene().calls("cancel_order", {"id": 1}).done()
    assert compared(trace) == []
    assert category_of(findings(trace, SUCCESS_AT, known_facts(trace))) is None


def test_a_suite_gives_the_reference_and_declares_what_changes_the_world(scene: Any) -> None:
    trace = scene().calls("look_up", {"q": "a"}).calls("frobnicate", {"x": 2}).done()
    expected = [{"name": "look_up", "arguments": {"q": "b"}}, "frobnicate"]
    given = findings(trace, SUCCESS_AT, known_facts(trace, expected=expected, compare=ToolCallsCheck()))
    assert category_of(given) == "wrong_arguments"  # a check that asks for a read means it
    declared = findings(trace, SUCCESS_AT, known_facts(trace, expected=expected, changing=["frobnicate"]))
    assert category_of(declared) == "same_calls"
    only = known_facts(trace, expected=["frobnicate"], compare=ToolCallsCheck(only=["frobnicate"]))
    assert only.changing == {"frobnicate"}
    assert category_of(findings(trace, SUCCESS_AT, only)) == "same_calls"
    more = known_facts(
        trace, expected=["frobnicate"], compare=ToolCallsCheck(mode="superset"), changing=["look_up", "frobnicate"]
    )
    assert category_of(findings(trace, SUCCESS_AT, more)) == "same_calls"  # this check allows further calls


@pytest.mark.parametrize(
    ("tool", "changes"),
    [
        ("get_update_history", False),
        ("cancelOrder", True),
        ("transfer_to_human_agents", False),
        ("send_email", True),
        ("frobnicate", None),
        ("searchFlights", False),
        ("mark_task_complete", False),
        ("submit_order", True),
    ],
)
def test_names_tell_whether_a_tool_changes_the_world(tool: str, changes: bool | None) -> None:
    assert changes_by_name(tool) is changes


@here
@pytest.mark.parametrize("redact", ["default", "none"])
def test_redaction_keeps_calls_comparable(home: Home, redact: str) -> None:
    path = DATA / "tau_bench" / "gpt-4o-airline.dev_5tasks.json.gz"
    import_logs(path, home=home, run=redact, redact=redact)
    counted: Counter[tuple[bool, bool]] = Counter()
    for trace in home.run(redact).traces():
        assert isinstance(trace.outcome, Scored)
        counted[trace.outcome.success(SUCCESS_AT), category_of(compared(trace)) == "same_calls"] += 1
    assert counted == {(True, True): 10, (False, False): 10}


def test_tau2_keeps_actions_in_its_task_or_in_its_checks(scene: Any) -> None:
    action = {"name": "resume_line", "arguments": {"line_id": "L1", "note": "x"}, "compare_args": ["line_id"]}
    kept = (
        {"task": json.dumps({"id": "1", "evaluation_criteria": {"actions": [action]}})},
        {"reward_info": json.dumps({"action_checks": [{"action": action, "action_match": False}]})},
    )
    for meta in kept:
        made = scene("Help.", "tau2", **meta).calls("resume_line", {"line_id": "L1", "note": "y"}).done()
        assert category_of(compared(made)) == "same_calls"
        wrong = scene("Help.", "tau2", **meta).calls("resume_line", {"line_id": "L2", "note": "x"}).done()
        assert names(wrong) == ["wrong_arguments:resume_line.line_id"]


@here
def test_of_the_real_log_every_failure_differs_from_the_reference_and_no_success_does() -> None:
    path = DATA / "tau_bench" / "gpt-4o-airline.dev_5tasks.json.gz"
    traces, _ = read_traces(file_source(path, path.name))
    counted: Counter[tuple[float, str | None]] = Counter()
    for trace in traces:
        assert isinstance(trace.outcome, Scored)
        counted[trace.outcome.value, category_of(compared(trace))] += 1
    assert counted == {
        (1.0, "same_calls"): 10,
        (0.0, "wrong_arguments"): 4,
        (0.0, "missing_call"): 3,
        (0.0, "extra_call"): 3,
    }
    first = next(t for t in traces if (t.head.task, t.head.attempt) == ("0", 1))
    named = {f.detail["argument"] for f in compared(first)}
    assert named == {"payment_methods", "nonfree_baggages"}
