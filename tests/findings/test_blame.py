"""The one step that rules blame, on small traces where it is known."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.draft import Draft
from ethogram.capture.intake import Intake, SourceReport
from ethogram.capture.memory import MemorySink
from ethogram.findings.findings import Blamed, blamed_step, findings
from ethogram.traces import SUCCESS_AT, Message, Origin, Text, ToolResult, Trace, episode_id, trace_id

TASK = "What did the two homes on Komo Drive sell for? Name the higher price."


def blamed(trace: Trace) -> Blamed | None:
    return blamed_step(trace, findings(trace, SUCCESS_AT))


def test_a_call_that_differs_from_the_reference_is_blamed_on_the_step_that_asked_for_it(scene: Any) -> None:
    actions = [{"name": "cancel_order", "kwargs": {"id": "W1"}}]
    trace = scene("Cancel W1.", "tau-bench", task=json.dumps({"actions": actions}))
    trace.calls("get_order", {"id": "W1"}, '{"id": "W1"}').calls("cancel_order", {"id": "W2"}).says("Done.")
    found = blamed(trace.done())
    assert found is not None
    assert (found.step, found.finding and found.finding.name) == (3, "wrong_arguments:cancel_order.id")


def test_the_step_that_brought_the_answer_is_blamed(scene: Any) -> None:
    trace = (
        scene(TASK)
        .says("I will ask the expert for prices.", agent="lead")
        .says("One sold for $850,000, the other for $950,000.", agent="expert")
        .says("Thank you, that settles it.", agent="lead")
        .says("The higher price is **950000**. TERMINATE", agent="lead")
        .done()
    )
    assert blamed(trace) == Blamed(step=2, agent="expert")


def test_an_answer_that_a_call_returned_is_blamed_on_who_made_the_call(scene: Any) -> None:
    trace = (
        scene(TASK).says("Let me look.").calls("search", {"q": "Komo Drive"}, "sold for 950000").says("It is 950000.")
    )
    assert blamed(trace.done()) == Blamed(step=2)


def test_data_that_was_made_up_is_blamed_before_the_answer_that_rests_on_it(scene: Any) -> None:
    trace = (
        scene(TASK)
        .says("Let me begin.", agent="lead")
        .says("There is no file, so I use a simulated dataset for demonstration.", agent="expert")
        .says("The result is 950000.", agent="expert")
        .says("The answer is 950000. TERMINATE", agent="lead")
        .done()
    )
    assert blamed(trace) == Blamed(step=2, agent="expert")


def test_without_an_answer_the_decision_before_the_first_error_is_blamed(scene: Any) -> None:
    trace = scene(TASK).calls("search", {"q": "a"}).calls("open", {"url": "x"}, "Error: gone", failed=True)
    trace.calls("open", {"url": "y"}, "Error: gone", failed=True)
    assert blamed(trace.done()) == Blamed(step=3)


def test_the_reply_to_a_request_that_had_to_be_made_again_is_blamed(scene: Any) -> None:
    built = scene(TASK)

    def add(kind: Any, name: str, agent: str, words: str) -> None:
        said = Message("assistant", (Text(words),))
        built.builder.add(Draft(kind=kind, name=name, agent=agent, lane=agent, output=(said,)))

    add("handoff", "surfer", "lead", "Please find the list of homes on that street.")
    add("model", "chat", "surfer", "Here is a page about the town.")
    add("handoff", "surfer", "lead", "Please open the page of sales of the year and read its table.")
    add("model", "chat", "surfer", "I typed the address into the bar.")
    add("handoff", "surfer", "lead", "Please open the page of sales of the year and read the table.")
    add("model", "chat", "surfer", "I typed the address into the bar again.")
    assert blamed(built.done()) == Blamed(step=4, agent="surfer")


def test_nobody_is_blamed_where_no_agent_did_anything(scene: Any) -> None:
    assert blamed(scene(TASK).done()) is None
    assert blamed(scene(TASK).says("TERMINATE").done()) is None


def test_errors_that_a_model_only_reads_belong_to_the_step_that_they_answer(scene: Any) -> None:
    built = scene(TASK)
    answered: tuple[Message, ...] = ()
    for number in range(4):
        said = Message("assistant", (Text(f"Code number {number}"),))
        built.builder.add(Draft(kind="model", name="chat", input=answered, growing=True, output=(said,)))
        answered = (
            Message("tool", (ToolResult(f"Call id: c{number}\nError:\nCode parsing failed on line {number}"),)),
        )
    found = {
        f.name.partition(":")[0]: f for f in findings(built.done(), SUCCESS_AT) if f.source in ("class", "template")
    }
    assert (found["error"].step, found["error"].detail["count"]) == (1, 3)
    assert found["error"].detail["words"] == "Error: Code parsing failed on line <n>"
    assert (found["bad_args"].step, found["loop"].detail["times"]) == (1, 3)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.text(max_size=60), st.booleans()), max_size=8))
def test_the_blamed_step_is_a_step_of_an_agent(steps: list[tuple[str, str, bool]]) -> None:
    done: list[Trace] = []
    intake = Intake(lambda _: MemorySink(done), Origin("run"), SourceReport(source="test"))
    builder = TraceBuilder(intake, trace_id("test", "any"), episode_id("t", "0"))
    for agent, words, is_tool in steps:
        message = Message("assistant", (Text(words),))
        if is_tool:
            builder.add(Draft(kind="tool", name=agent, tool=agent, arguments=words, result=words, status="ok"))
        else:
            builder.add(Draft(kind="model", name="chat", agent=agent, lane=agent, output=(message,)))
    builder.close()
    found = blamed(done[0])
    kinds = [s.kind for s in done[0].steps]
    assert found is None or kinds[found.step] == "model" or "model" not in kinds[: found.step]
