"""Classes of failure, events and what the verifier said, each planted in a small trace."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ethogram.capture.draft import Draft
from ethogram.capture.memory import read_traces
from ethogram.capture.source import file_source
from ethogram.checks import CheckResult, CheckScore
from ethogram.findings.findings import Facts, Finding, findings, known_facts
from ethogram.traces import SUCCESS_AT, Message, Missing, Scored, Text, ToolCall, ToolResult, Trace

DATA = Path(__file__).parents[3] / "shared" / "data"
here = pytest.mark.skipif(not DATA.exists(), reason="../shared/data is not here")


def by_name(trace: Trace, facts: Facts | None = None) -> dict[str, Finding]:
    return {f.name: f for f in findings(trace, SUCCESS_AT, facts)}


def classes(trace: Trace) -> dict[str, str | None]:
    return {f.name: f.cls for f in findings(trace, SUCCESS_AT) if f.cls is not None}


# ---- loops ----


def test_three_near_identical_calls_without_news_are_a_loop(scene: Any) -> None:
    trace = scene()
    for word in ("flights to Seattle", "flights to seattle", "flight to Seattle"):
        trace.calls("search", {"q": word}, "no results")
    found = by_name(trace.done())["loop:search"]
    assert (found.cls, found.step, found.detail["calls"]) == ("loop", 4, 3)


@pytest.mark.parametrize(
    "calls",
    [
        [("list_items", {"page": n}, f"item {n}") for n in range(5)],  # every page is new
        [("search", {"q": "a"}, "x"), ("search", {"q": "a"}, "x")],  # twice is a repeat
        [("read", {"f": "a"}, "1"), ("edit_file", {"f": "a"}, "ok"), ("read", {"f": "a"}, "2")],  # reads what it wrote
        [("search", {"q": q}, "no results") for q in ("hotels in Rome", "trains from Bari", "weather")],
    ],
)
def test_calls_that_bring_something_new_are_no_loop(scene: Any, calls: list[Any]) -> None:
    trace = scene()
    for call in calls:
        trace.calls(*call)
    assert not [name for name in by_name(trace.done()) if name.startswith("loop:")]


def test_a_cycle_of_two_calls_is_a_loop(scene: Any) -> None:
    looked = (
        scene()
        .calls("get_order", {"id": 7}, "open")
        .calls("get_user", {"id": 1}, "ann")
        .calls("get_order", {"id": 7}, "open")
    )
    assert by_name(looked.done())["loop:get_order>get_user"].detail["calls"] == 3
    acted = scene()
    for _ in range(2):
        acted.calls("edit", {"f": "a.py"}, "failed", failed=True).calls("run", {"c": "pytest"}, "1 failed")
    assert by_name(acted.done())["loop:edit>run"].cls == "loop"


def test_an_agent_that_says_the_same_three_times_loops(scene: Any) -> None:
    trace = scene()
    for n in range(3):
        trace.says(f"Let me try again to open the page and read its table, attempt {n}.", agent="surfer")
    assert by_name(trace.done())["loop:said_again"].step == 2


# ---- classes ----


@pytest.mark.parametrize(
    ("error", "cls"),
    [
        ("missing 1 required positional argument: 'to'", "bad_args"),
        ("ValidationError: field required", "bad_args"),
        ("Error: order not found", "bad_args"),
        ("Error: payment amount does not add up", "bad_args"),
        ("Unknown tool: fly", "wrong_tool"),
        ("Tool fly is not available", "wrong_tool"),
        ("RateLimitError: Error code: 429", "infrastructure"),
        ("ConnectionError: connection reset by peer", "infrastructure"),
        ("something odd", None),
    ],
)
def test_the_error_of_a_call_tells_its_class(scene: Any, error: str, cls: str | None) -> None:
    trace = scene().calls("fly", {"to": "SEA"}, error, failed=True).done()
    assert {c for n, c in classes(trace).items() if n.endswith(":fly")} == ({cls} if cls else set())


def test_errors_of_code_that_the_agent_wrote_are_no_bad_arguments(scene: Any) -> None:
    trace = scene().calls("python", {"code": "1/0"}, "ValueError: invalid literal", failed=True).done()
    assert classes(trace) == {}


def test_a_tool_that_was_not_offered_is_the_wrong_one(scene: Any) -> None:
    trace = scene().calls("fly", {"to": "SEA"}).calls("walk", {"to": "SEA"}).done()
    found = by_name(trace, Facts(offered=frozenset({"walk", "swim"})))
    assert found["wrong_tool:fly"].step == 2
    assert "wrong_tool:walk" not in found


def test_an_invented_id_is_hallucinated_state(scene: Any) -> None:
    trace = scene().calls("get_order", {"order_id": "W2230795"}, "no").done()
    found = by_name(trace)["hallucinated_state:get_order"]
    assert (found.step, found.detail["value"]) == (2, "W2230795")


@pytest.mark.parametrize(
    ("words", "gave_up"),
    [
        ("I'm sorry, but I am unable to find the order.", True),
        ("I cannot do that.", True),
        ("It was not possible to open the page.", True),
        ("Your order is on its way.", False),
        ("You cannot return it later.", False),
    ],
)
def test_the_last_words_tell_whether_it_gave_up(scene: Any, words: str, gave_up: bool) -> None:
    assert ("gave_up:said" in by_name(scene().says("I cannot see it yet.").says(words).done())) is gave_up


def test_limits_and_faults_of_the_world_have_classes_of_their_own(scene: Any) -> None:
    capped = scene(termination_reason="max_steps").says("a").done()
    assert classes(capped) == {"budget:max_steps": "budget"}
    ours = scene().says("a")
    ours.builder.label("stopped_by", "cap.steps", by="harness", source="verifier")
    assert classes(ours.done()) == {"budget:cap.steps": "budget"}
    cut = scene().says("a").done(Missing("infrastructure.rate_limit", "429"))
    assert classes(cut) == {"infrastructure:rate_limit": "infrastructure"}


# ---- events ----


def test_calls_pairs_and_how_it_ended_are_events(scene: Any) -> None:
    found = by_name(scene().calls("a", {}).calls("b", {}).calls("a", {}).says("Bye.").done())
    assert found["called:a"].step == 2
    assert {"pair:a>b", "pair:b>a", "ended:stop"} <= found.keys()


def test_a_write_that_nobody_read_back(scene: Any) -> None:
    wrote = scene().calls("get_order", {}).calls("cancel_order", {"id": 1}).calls("think", {"a": 1})
    assert by_name(wrote.done())["write_not_read_back:cancel_order"].step == 4
    read = scene().calls("cancel_order", {"id": 1}).calls("get_order", {})
    assert not [n for n in by_name(read.done()) if n.startswith("write_not_read_back")]


@pytest.mark.parametrize("tool", ["submit", "submit_patch", "finishTask", "complete_order"])
def test_a_call_that_ends_the_episode_needs_no_reading_back(scene: Any, tool: str) -> None:
    ended = scene().calls("get_order", {}).calls(tool, {"id": 1})
    assert not [n for n in by_name(ended.done()) if n.startswith("write_not_read_back")]


def test_what_only_sounds_like_an_end_is_read_back(scene: Any) -> None:
    went_on = scene().calls("submit_patch", {"id": 1}).calls("think", {"a": 1})
    assert by_name(went_on.done())["write_not_read_back:submit_patch"].step == 2
    cut_off = scene().calls("get_order", {}).calls("cancel_order", {"id": 1})
    assert "write_not_read_back:cancel_order" in by_name(cut_off.done())


def test_refusals_and_length_stops(scene: Any) -> None:
    found = by_name(scene().says("I can't help with that.").says("It was", stop="length").done())
    assert (found["refusal"].step, found["length_stop"].step) == (1, 2)


def test_success_that_is_claimed_after_an_error(scene: Any) -> None:
    failed = scene().calls("cancel_order", {"id": 1}, "Error: timeout", failed=True)
    found = by_name(failed.says("Your order has been cancelled.").done())["success_claimed_after_error"]
    assert (found.step, found.detail["error_step"]) == (3, 2)
    fine = scene().calls("cancel_order", {"id": 1}).says("Your order has been cancelled.")
    assert "success_claimed_after_error" not in by_name(fine.done())


def test_calls_that_never_returned_and_calls_that_were_abandoned(scene: Any) -> None:
    trace = (
        scene()
        .calls("pay", {"a": 1}, "declined", failed=True)
        .calls("book", {"a": 1}, "full", failed=True)
        .calls("book", {"a": 2})
        .calls("search", {"a": 1}, None)
        .done()
    )
    found = by_name(trace)
    assert found["abandoned:pay"].step == 2
    assert "abandoned:book" not in found
    assert found["no_return:search"].step == 8


def test_a_last_call_that_gives_the_work_in_need_not_return(scene: Any) -> None:
    ended = scene().calls("search", {"a": 1}).calls("finish", {"message": "done"}, None)
    assert "no_return:finish" not in by_name(ended.done())
    went_on = scene().calls("finish", {"message": "done"}, None).calls("search", {"a": 1})
    assert by_name(went_on.done())["no_return:finish"].step == 2


def test_a_template_is_counted_over_its_steps(scene: Any) -> None:
    trace = scene()
    for number in range(3):
        trace.calls("get", {"id": number}, f"Error: no item {number}", failed=True)
    (found,) = [f for f in findings(trace.done(), SUCCESS_AT) if f.source == "template"]
    assert (found.step, found.detail["last_step"], found.detail["count"]) == (2, 6, 3)
    assert found.detail["words"] == "Error: no item <n>"


def test_an_error_that_a_model_only_read_is_of_the_tool_that_was_asked_for(scene: Any) -> None:
    """No step tells of a call that somebody else carried out; its words reach the model with the id of the call."""
    made = scene("What does it cost?")
    builder = made.builder
    asked = Message("assistant", (ToolCall("price", '{"item": "lamp"}', "c1"),))
    builder.add(Draft(kind="model", name="chat", input=(), output=(asked,), stop_reason="tool_calls"))
    read = Message("tool", (ToolResult("Error: the shop has no lamp", None, "c1"),))
    said = Message("assistant", (Text("It is free."),))
    builder.add(Draft(kind="model", name="chat", input=(asked, read), output=(said,), stop_reason="stop"))
    trace = made.done()
    (found,) = [f for f in findings(trace, SUCCESS_AT) if f.source == "template"]
    assert (found.detail["of"], found.step) == ("price", 1)


# ---- what the verifier said ----


def said(trace: Trace) -> dict[str, Finding]:
    return {f.name: f for f in findings(trace, SUCCESS_AT) if f.source == "verifier"}


def labelled(scene: Any, *results: CheckResult) -> Trace:
    built = scene().says("5")
    for result in results:
        label = result.label()
        built.builder.label(label.name, label.value, by=label.by, source=label.source, why=label.why)
    return built.done(Scored(0.0, "equals"))


def result(name: str, score: float, why: str) -> CheckResult:
    return CheckResult(name=name, kind=name, definition="0", required=True, verdict=CheckScore(score, why))


def test_failed_checks_say_what_was_expected_and_what_was_there(scene: Any) -> None:
    found = said(labelled(scene, result("equals", 0, "'5' is not '6'"), result("contains", 1, "fine")))
    assert found.keys() == {"check:equals"}
    assert found["check:equals"].detail == {"got": "'5'", "expected": "'6'"}


def test_failed_tests_are_named(scene: Any) -> None:
    why = "FAIL_TO_PASS 0/1\nfailed tests/test_a.py::test_b: assert 1 == 2\npassed tests/test_a.py::test_c"
    found = said(labelled(scene, result("tests", 0, why)))
    assert found.keys() == {"test:tests/test_a.py::test_b"}
    assert "assert 1 == 2" in found["test:tests/test_a.py::test_b"].text


def test_rewards_reports_and_crashes_are_read(scene: Any) -> None:
    reward = {"info": {"r_outputs": 0.0, "outputs": {"23": False, "7": True}}}
    found = said(scene(reward_info=json.dumps(reward)).done(Scored(0.0, "reward")))
    assert found["check:outputs"].detail == {"expected": "23"}
    report = {"report": {"FAIL_TO_PASS": {"success": [], "failure": ["test_x"]}}}
    assert "test:test_x" in said(scene(test_result=json.dumps(report)).done(Scored(0.0, "resolved")))
    crashed = scene()
    crashed.builder.add(Draft(kind="other", name="crash", error="Traceback\nKeyError: 'x'"))
    (found_crash,) = said(crashed.done()).values()
    assert found_crash.text == "KeyError: 'x'"


def test_a_score_alone_is_shown_with_its_target(scene: Any) -> None:
    found = said(scene(target="6").says("5").done(Scored(0.0, "match")))
    assert found["score:match"].detail == {"expected": "6"}
    assert said(scene().says("5").done(Scored(1.0, "match"))) == {}


def test_a_low_number_of_a_foreign_log_is_bad_only_where_it_is_known_to_be(scene: Any) -> None:
    def scored(outcome: Any, **scores: float) -> set[str]:
        built = scene().says("5")
        for name, value in scores.items():
            built.builder.label(name, value, by="evaluator", why="so it is")
        return set(said(built.done(outcome)))

    assert scored(Missing("unscored"), toxicity=0.0, quality=0.0) == set()
    assert scored(Scored(0.0, "quality"), toxicity=0.0, quality=0.0) == {"check:quality"}


def test_a_part_of_the_score_fails_where_more_is_wanted(scene: Any) -> None:
    trace = labelled(scene, result("close", 0.6, "6 of 10"), result("equals", 1, "fine"))
    trace = Trace(
        msgspec.structs.replace(trace.head, outcome=Scored(0.6, "close")), trace.spans, trace.texts, trace.labels
    )
    named = {at: [f.name for f in findings(trace, at) if f.source == "verifier"] for at in (0.5, 0.8)}
    assert named == {0.5: [], 0.8: ["check:close"]}
    bare = scene().says("5").done(Scored(0.6, "match"))
    assert [f.name for f in findings(bare, 0.8) if f.source == "verifier"] == ["score:match"]


# ---- all of it ----


def test_only_what_the_verifier_said_depends_on_the_outcome(scene: Any) -> None:
    trace = scene().calls("cancel_order", {"id": 1}, "Error: no", failed=True).says("I cannot.").done(Scored(0.0, "x"))
    won = Trace(msgspec.structs.replace(trace.head, outcome=Scored(1.0, "x")), trace.spans, trace.texts, trace.labels)

    def rest(t: Trace) -> list[Finding]:
        return [f for f in findings(t, SUCCESS_AT) if f.source != "verifier"]

    assert rest(trace) == rest(won)
    assert findings(trace, SUCCESS_AT) != findings(won, SUCCESS_AT)


@here
@pytest.mark.parametrize(
    "folder", ["tau_bench", "trail", "who_and_when", "inspect", "swe_agent", "openhands", "langfuse"]
)
def test_real_logs_give_findings_whose_steps_and_words_are_there(folder: str) -> None:
    paths = [p for p in sorted((DATA / folder).rglob("*")) if p.is_file() and "annotation" not in p.name]
    assert paths
    found = 0
    for path in paths:
        for trace in read_traces(file_source(path, path.name))[0]:
            for finding in findings(trace, SUCCESS_AT, known_facts(trace)):
                found += 1
                assert finding.step is None or 0 <= finding.step < len(trace.steps)
                assert len(finding.text) <= 300
                assert msgspec.json.decode(msgspec.json.encode(finding), type=Finding) == finding
    assert found


@here
def test_a_trace_of_twenty_steps_takes_milliseconds() -> None:
    path = DATA / "tau_bench" / "gpt-4o-airline.dev_5tasks.json.gz"
    traces, _ = read_traces(file_source(path, path.name))
    for trace in traces:
        findings(trace, SUCCESS_AT)
    before = time.process_time()
    for trace in traces:
        findings(trace, SUCCESS_AT)
    assert (time.process_time() - before) / len(traces) < 0.005  # 0.001 measured; the machine may be busy
