"""From a flat list of messages to spans: calls and results find each other even where ids repeat."""

from __future__ import annotations

from typing import Any

import pytest

from ethogram.capture.chat import ChatBuilder, says_error
from ethogram.capture.draft import Draft
from ethogram.capture.intake import Intake, SourceReport
from ethogram.capture.memory import MemorySink
from ethogram.findings.step_words import TraceWords
from ethogram.traces import (
    Head,
    Message,
    Origin,
    Span,
    SpanId,
    Text,
    ToolCall,
    ToolResult,
    Trace,
    episode_id,
    text_ref,
    trace_id,
)
from ethogram.wire.recorder import Recorder


def build(*messages: Message | tuple[Message, dict[str, Any]], **options: Any) -> tuple[Trace, SourceReport]:
    done: list[Trace] = []
    report = SourceReport(source="x")
    with Intake(lambda t: MemorySink(done), Origin("chat", "x"), report).trace("one") as trace:
        chat = ChatBuilder(trace, **options)
        for entry in messages:
            message, details = entry if isinstance(entry, tuple) else (entry, {})
            chat.add(message, **details)
        chat.close()
    return done[0], report


def user(text: str) -> Message:
    return Message("user", (Text(text),))


def says(text: str = "", *calls: ToolCall, name: str | None = None) -> Message:
    return Message("assistant", (*((Text(text),) if text else ()), *calls), name)


def result(text: str, name: str | None = None, call_id: str | None = None, failed: bool = False) -> Message:
    return Message("tool", (ToolResult(text, name, call_id, failed),))


def tools(trace: Trace) -> list[tuple[str, str | None, str | None]]:
    return [
        (s.name, trace.text(s.arguments) if s.arguments else None, trace.text(s.result) if s.result else None)
        for s in trace.spans
        if s.kind == "tool"
    ]


def test_a_chat_becomes_its_spans_and_reads_back_as_itself() -> None:
    talk = [
        Message("system", (Text("Be brief."),)),
        user("Ring."),
        says("", ToolCall("ring", '{"n":1}', "c1")),
        result("ding", "ring", "c1"),
        says("Done."),
    ]
    trace, report = build(*talk, agent="bell-boy")
    assert [s.kind for s in trace.spans] == ["other", "user", "model", "tool", "model"]
    assert [s.kind for s in trace.steps] == ["user", "model", "tool", "model"]
    assert list(trace.messages) == talk
    assert trace.conversation(trace.spans[-1]) == tuple(talk[:-1])
    assert {s.agent for s in trace.steps} == {"bell-boy"}
    assert [s.stop_reason for s in trace.spans if s.kind == "model"] == ["tool_calls", "stop"]
    assert report.lost == {}


@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
def test_what_is_no_field_of_a_span_is_refused_for_every_role(role: Any) -> None:
    message = result("ding") if role == "tool" else Message(role, (Text("Ring."),))
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'modle'; did you mean 'model'\?"):
        build((message, {"start_ns": 1, "modle": "m"}))


def test_a_result_takes_the_oldest_open_call_of_its_id_then_of_its_name_then_any_without_an_id() -> None:
    calls = (ToolCall("a", "1", "same"), ToolCall("b", "2", "same"), ToolCall("b", "3", None), ToolCall("c", "4", "x"))
    back = (result("r1", "b", "same"), result("r2", None, "same"), result("r3", "b", "unknown"), result("r4"))
    trace, report = build(says("", *calls), *back)
    assert tools(trace) == [("a", "1", "r1"), ("b", "2", "r2"), ("b", "3", "r3"), ("c", "4", "r4")]
    assert report.lost == {}


def test_a_result_that_nobody_asked_for_and_a_call_that_nobody_answered() -> None:
    trace, report = build(says("", ToolCall("ring", "{}", "c1")), result("dong", "other", "c9"), says("?"))
    assert tools(trace) == [("other", None, "dong"), ("ring", "{}", None)]
    assert report.lost == {"tool result (never came)": 1}


def test_results_inside_a_user_message() -> None:
    parts = (ToolResult("one", None, "c1"), ToolResult("two", None, "c2", True), Text("and hurry"))
    trace, _ = build(says("", ToolCall("a", "1", "c1"), ToolCall("b", "2", "c2")), Message("user", parts), says("ok"))
    assert tools(trace) == [("a", "1", "one"), ("b", "2", "two")]
    assert [s.status for s in trace.spans if s.kind == "tool"] == ["ok", "error"]
    assert [m.role for m in trace.messages] == ["assistant", "user", "user", "user", "assistant"]
    assert trace.messages[3] == user("and hurry")


def test_what_counts_as_a_failure_can_be_said() -> None:
    assert says_error(ToolResult(" Error: no"))
    assert not says_error(ToolResult("No error"))
    assert says_error(ToolResult("fine", failed=True))
    assert not says_error(ToolResult("Errors: 0"))
    talk = (says("", ToolCall("a", "", "c1")), result("exit code 1", "a", "c1"))
    assert build(*talk)[0].totals.errors == 0
    assert build(*talk, failed=lambda r: "exit code 1" in r.content)[0].totals.errors == 1


def span_statuses(**fields: Any) -> tuple[str, bool, int | None]:
    """The status of a span that a reader gives without one, whether judges say that it failed, and the errors."""
    done: list[Trace] = []
    with Intake(lambda t: MemorySink(done), Origin("x", "x"), SourceReport(source="x")).trace("one") as trace:
        trace.add(Draft(**{"kind": "tool", "name": "look", **fields}))
    (step,) = TraceWords(done[0]).steps
    return done[0].spans[0].status, step.failed, done[0].totals.errors


@pytest.mark.parametrize(
    "words", ["Error: no", "  Error", "Exception: no", "ValueError: no", "Traceback (most recent call last):\n"]
)
def test_a_tool_call_without_a_status_fails_by_its_first_words_as_in_a_chat(words: str) -> None:
    """One rule for every format, so that judges and the metric count the same."""
    assert says_error(ToolResult(words))
    assert span_statuses(result=words) == ("error", True, 1)
    assert span_statuses(output=(Message("tool", (ToolResult(words),)),)) == ("error", True, 1)
    assert span_statuses(result=words, status="ok") == ("ok", False, 0)
    assert span_statuses(result=words, kind="retrieval") == ("unset", False, 0)
    assert span_statuses(result=f"no {words}") == ("unset", False, 0)


@pytest.mark.parametrize("words", ["Error: no", "Traceback (most recent call last):\n", "fine"])
def test_what_is_seen_live_fails_as_in_a_log(words: str) -> None:
    """Nobody told the status of a call that was seen at the wire; one that was carried out here returned."""
    done: list[Trace] = []
    with Intake(lambda t: MemorySink(done), Origin("run", "x"), SourceReport(source="x")).trace("one") as trace:
        record = Recorder(trace)
        record.seen_tool(ToolCall("look", "{}", "c"), ToolResult(words, "look", "c"), start_ns=1)
        record.tool("look", lambda: words)
    assert [s.status for s in done[0].spans] == ["error" if says_error(ToolResult(words)) else "ok", "ok"]


def test_a_trace_of_an_earlier_version_fails_by_its_status_alone() -> None:
    """What was stored without a status is no error for judges either, as for the metric."""
    fields = {"trace_id": trace_id("x", "x"), "span_id": SpanId("s"), "seq": 0, "kind": "tool", "name": "look"}
    words = "Error: no"
    ref = text_ref(words)
    head = Head(trace_id=fields["trace_id"], episode=episode_id("x", "x"), task="t")
    trace = Trace(head, (Span(**fields, result=ref),), {ref: words})
    assert (trace.totals.errors, TraceWords(trace).steps[0].failed) == (0, False)


def test_details_win_over_what_the_turn_itself_says() -> None:
    trace, _ = build(
        (user("hi"), {"name": "caller", "start_ns": 5}),
        (says("ho", name="Ada"), {"input_tokens": 3, "stop_reason": "length", "model": "m"}),
    )
    assert (trace.spans[0].name, trace.spans[0].start_ns) == ("caller", 5)
    model = trace.spans[1]
    assert (model.input_tokens, model.stop_reason, model.model, model.agent) == (3, "length", "m", "Ada")
