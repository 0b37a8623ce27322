"""Recording a live agent: budgets before, times around, spans after; nested, concurrent and failing."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ethogram.capture.intake import Intake, SourceReport
from ethogram.capture.memory import MemorySink
from ethogram.prices import Amounts, Budget, CapReached, Caps
from ethogram.traces import Message, Origin, Text, ToolCall, ToolResult, Trace
from ethogram.wire.clock import FrozenClock, SystemClock
from ethogram.wire.context import current_span
from ethogram.wire.recorder import Recorder

START = 1_700_000_000_000_000_000


@contextmanager
def recording(done: list[Trace], budget: Budget | None = None) -> Iterator[Recorder]:
    intake = Intake(lambda t: MemorySink(done), Origin("run", "live"), SourceReport(source="live"))
    with intake.trace("one") as builder:
        yield Recorder(builder, budget, FrozenClock(START, 1000))


def asks(text: str) -> Message:
    return Message("user", (Text(text),))


def test_an_agent_s_work_becomes_a_tree() -> None:
    done: list[Trace] = []
    with recording(done) as record, record.span("agent"):
        with record.span("user", "user") as span:
            span.output = (asks("Ring the bell."),)
        with record.model(input=[asks("Ring the bell.")], model="m", params={"temperature": 0}) as call:
            call.done(Message("assistant", (ToolCall("ring", "{}", "c"),)), input_tokens=5, output_tokens=2)
        assert record.tool("ring", lambda times: "ding" * times, times=2) == "dingding"
        with record.span("look", "retrieval"):
            pass
        with record.model(growing=True) as call:
            call.done("Done.", cost_usd=0.5, stop_reason="end_turn")
    trace = done[0]
    assert [(d, s.kind, s.name) for d, s in trace.walk()] == [
        (0, "agent", "agent"),
        (1, "user", "user"),
        (1, "model", "chat"),
        (1, "tool", "ring"),
        (1, "retrieval", "look"),
        (1, "model", "chat"),
    ]
    assert [s.seq for s in trace.steps] == [1, 2, 3, 4, 5], "numbered when they begin"
    assert [s.seconds for s in trace.steps] == [1e-6] * 5
    assert {s.status for s in trace.spans} == {"ok"}
    assert [s.stop_reason for s in trace.spans if s.kind == "model"] == ["tool_calls", "end_turn"]
    tool = next(s for s in trace.spans if s.kind == "tool")
    assert trace.text(tool.arguments or "") == '{"times":2}'  # type: ignore[arg-type]
    assert trace.messages[-2] == Message("tool", (ToolResult("dingding", "ring", "call_0"),))
    assert (trace.totals.input_tokens, trace.totals.output_tokens, trace.totals.cost_usd) == (5, 2, 0.5)
    assert current_span() is None


def test_failures_are_recorded_and_travel_on() -> None:
    done: list[Trace] = []

    def breaks() -> None:
        raise OSError("no bell")

    with recording(done) as record:
        with pytest.raises(OSError, match="no bell"), record.span("agent"):
            record.tool("ring", breaks)
        with pytest.raises(KeyboardInterrupt), record.model():
            raise KeyboardInterrupt
        assert current_span() is None
    errors = {s.name: done[0].text(s.error) for s in done[0].spans if s.error}
    assert errors == {"agent": "OSError: no bell", "ring": "OSError: no bell", "chat": "KeyboardInterrupt: "}
    assert done[0].totals.errors == 2, "the span around a step repeats its error"


def test_the_arguments_of_a_tool_may_have_any_name() -> None:
    done: list[Trace] = []
    with recording(done) as record:
        assert record.tool("note", lambda **given: sorted(given), name="a", function="b", self="c") == [
            "function",
            "name",
            "self",
        ]
    assert done[0].messages[0].text == '["function","name","self"]'


def test_async_tools_keep_their_own_parents() -> None:
    done: list[Trace] = []

    async def ring(bell: str) -> str:
        await asyncio.sleep(0)
        return bell

    async def worker(record: Recorder, name: str) -> None:
        with record.span(name):
            for _ in range(3):
                assert await record.tool("ring", ring, bell=name) == name

    async def both(record: Recorder) -> None:
        await asyncio.gather(worker(record, "left"), worker(record, "right"))

    with recording(done) as record:
        asyncio.run(both(record))
    trace = done[0]
    for span in (s for s in trace.spans if s.kind == "tool"):
        assert trace.text(span.result or "") == trace.by_id[span.parent_id or ""].name  # type: ignore[arg-type,index]
    assert trace.totals.tool_calls == 6


def test_threads_of_one_episode() -> None:
    done: list[Trace] = []

    def work(record: Recorder) -> None:
        for step in range(100):
            with record.model(input=[asks(f"{step}")], lane=threading.current_thread().name) as call:
                call.done("ok", input_tokens=1)
            record.tool("ring", lambda: "ding")

    with recording(done) as record, record.span("agent"):
        contexts = [contextvars.copy_context() for _ in range(6)]
        threads = [threading.Thread(target=c.run, args=(work, record), daemon=True) for c in contexts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
    trace = done[0]
    assert len({s.seq for s in trace.spans}) == len({s.span_id for s in trace.spans}) == 1201
    assert trace.totals.input_tokens == 600
    assert {s.parent_id for s in trace.steps} == {"s0"}


def test_a_call_is_reserved_before_and_settled_after() -> None:
    done: list[Trace] = []
    budget = Budget("episode", Caps(steps=3, tokens=100, usd=1.0))
    seen: list[Any] = []
    with recording(done, budget) as record:
        with record.model(at_most_tokens=60) as call:
            seen.append(budget.remaining())
            call.done("ok", input_tokens=10, output_tokens=5, cache_read_tokens=5, cost_usd=0.25)
        seen.append(budget.remaining())
        with pytest.raises(CapReached, match="tokens"), record.model(at_most_tokens=90):
            pytest.fail("the call must not begin")
        record.tool("ring", lambda: "ding")
        record.tool("ring", lambda: "ding")
        with pytest.raises(CapReached, match="steps"):
            record.tool("ring", lambda: pytest.fail("the tool must not run"))
    assert seen == [{"steps": 2, "tokens": 40, "usd": 1.0}, {"steps": 2, "tokens": 80, "usd": 0.75}]
    assert done[0].totals.spans == 3, "what was refused left no span"


def test_a_failed_call_gives_back_what_it_did_not_use() -> None:
    budget = Budget("episode", Caps(tokens=100))
    with recording([], budget) as record, pytest.raises(ValueError, match="no"), record.model(at_most_tokens=60):
        raise ValueError("no")
    assert budget.remaining() == {"tokens": 100}


def test_clocks() -> None:
    clock = FrozenClock(START, 5)
    assert [clock.now_ns() - START for _ in range(3)] == [5, 10, 15]
    real = SystemClock()
    looks = [real.now_ns() for _ in range(100)]
    assert looks == sorted(looks)


def test_what_is_no_field_of_a_span_is_refused_and_reserves_nothing() -> None:
    done: list[Trace] = []
    budget = Budget("episode", Caps(steps=1))
    with recording(done, budget) as record:
        with pytest.raises(TypeError, match="'modle'"):
            record.begin("model", "chat", modle="m")  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="'modle'"), record.span("agent", modle="m"):  # type: ignore[call-arg]
            pass
        with pytest.raises(TypeError, match=r"unexpected keyword argument 'modle'; did you mean 'model'\?"):
            record.begin_model(Amounts(steps=1), modle="m")  # type: ignore[call-arg]
        record.end(record.begin_model(Amounts(steps=1), model="m"))
    assert [s.model for s in done[0].spans] == ["m"]
