"""Spans of OpenTelemetry in the trace of an episode: nested with ours, calls that are told twice, and damage."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from opentelemetry import trace as api
from opentelemetry.sdk.trace import SynchronousMultiSpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator

import ethogram as eth
from ethogram.harness.options import AllCaps
from ethogram.harness.run_result import RunResult
from ethogram.harness.suites import run as run_suite
from ethogram.plans import Check, Suite, Task
from ethogram.prices import Caps
from ethogram.store import Home
from ethogram.traces import Trace
from ethogram.wire.gateway.call import ModelReply, ModelRequest, Usage
from ethogram.worlds.model_server import ModelServer, serve_model, text_reply

CHAT = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o-mini", "gen_ai.provider.name": "openai"}
SPENT = {"gen_ai.usage.input_tokens": 1000, "gen_ai.usage.output_tokens": 100}


def told(text: str) -> dict[str, str]:
    """What a model answered, as telemetry says it."""
    message = {"role": "assistant", "parts": [{"type": "text", "content": text}]}
    return {"gen_ai.output.messages": json.dumps([message])}


def echo(request: ModelRequest) -> ModelReply:
    return text_reply(request.messages[-1].text, usage=Usage(input_tokens=1000, output_tokens=100))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    with serve_model(echo) as running:
        for name, value in running.variables().items():
            monkeypatch.setenv(name, value)
        yield running


def ask(text: str = "6") -> str:
    with openai.OpenAI(max_retries=0) as client:
        messages: Any = [{"role": "user", "content": text}]
        return client.chat.completions.create(model="gpt-4o-mini", messages=messages).choices[0].message.content or ""


def run(home: Home, solve: Any, tasks: int = 1, **options: Any) -> tuple[RunResult, list[Trace]]:
    check = (Check(kind="equals"),)
    suite = Suite(name="s", tasks=tuple(Task(id=f"t{i}", prompt=f"q{i}", checks=check) for i in range(tasks)))
    result = run_suite(suite, solve, home=home, run="a", **options)
    stored = home.run("a")
    return result, [stored.trace(entry) for entry in stored.entries]


def shape(trace: Trace) -> list[tuple[int, str, str]]:
    return [(depth, span.kind, span.name) for depth, span in trace.walk()]


def test_spans_of_an_agent_with_a_provider_of_its_own_nest_with_ours_and_with_calls(
    home: Home, server: ModelServer
) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("mine")

    @eth.tool
    def price(item: str) -> str:
        return "6"

    def solve(task: Task) -> str:
        with tracer.start_as_current_span("work", attributes={"openinference.span.kind": "AGENT"}):
            with eth.span("plan"):
                with tracer.start_as_current_span("look", attributes={"openinference.span.kind": "RETRIEVER"}):
                    price("tea")
                return ask()

    result, (trace,) = run(home, solve)
    assert shape(trace) == [
        (0, "agent", "work"),
        (1, "other", "plan"),
        (2, "retrieval", "look"),
        (3, "tool", "price"),
        (2, "model", "chat"),
    ]
    assert {span.agent for span in trace.spans} == {"work"}
    assert result.model_calls == 1
    assert [span.name for span in exporter.get_finished_spans()] == ["look", "work"], (
        "its own exporter is not disturbed"
    )


def test_instrumentors_need_no_provider(home: Home, server: ModelServer) -> None:
    tracer = api.get_tracer("mine")
    before = api.get_tracer_provider()

    def solve(task: Task) -> str:
        with tracer.start_as_current_span("work"):
            return ask()

    _, (trace,) = run(home, solve)
    assert shape(trace) == [(0, "other", "work"), (1, "model", "chat")]
    assert api.get_tracer_provider() is before


def test_many_episodes_in_one_trace_are_kept_apart(home: Home, server: ModelServer) -> None:
    tracer = TracerProvider().get_tracer("mine")
    gate = threading.Barrier(16)

    def solve(task: Task) -> str:
        gate.wait(60)
        with tracer.start_as_current_span(task.id) as span:
            worker = threading.Thread(target=lambda: tracer.start_span("in a thread").end())
            worker.start()
            worker.join()
            span.set_attributes({**CHAT, **SPENT, **told(task.id)})
            return ask(task.id)

    with tracer.start_as_current_span("around the run"):
        result, traces = run(home, solve, tasks=16, workers=16)
    assert result.model_calls == 16
    for trace in traces:
        assert sorted(shape(trace)) == [(0, "model", "chat"), (0, "other", "in a thread")], trace.head.task
        assert trace.answer == trace.head.task


@pytest.mark.parametrize("around", ["id", "words", "nothing"])
def test_callbacks_that_are_not_around_the_call_are_joined_with_it(
    home: Home, server: ModelServer, around: str
) -> None:
    """Frameworks tell of calls by callbacks, so that nothing is open when the request is sent."""
    tracer = TracerProvider().get_tracer("framework")

    def call(parent: Any, text: str, replies: list[str]) -> None:
        span = tracer.start_span("llm", context=parent, attributes=CHAT)
        with openai.OpenAI(max_retries=0) as client:
            messages: Any = [{"role": "user", "content": text}]
            reply = client.chat.completions.create(model="gpt-4o-mini", messages=messages)
        replies.append(reply.choices[0].message.content or "")
        about = {"id": {"gen_ai.response.id": reply.id}, "words": told(replies[-1]), "nothing": {}}[around]
        span.set_attributes({**about, "gen_ai.usage.output_tokens": 100})
        span.end()

    def solve(task: Task) -> str:
        replies: list[str] = []
        nodes = [tracer.start_span(f"node {i}", attributes={"gen_ai.agent.name": f"a{i}"}) for i in range(2)]
        places = [api.set_span_in_context(node) for node in nodes]
        if around == "nothing":  # nothing but its time tells which call it is
            for i, place in enumerate(places):
                call(place, f"x{i}", replies)
        else:
            workers = [threading.Thread(target=call, args=(place, f"x{i}", replies)) for i, place in enumerate(places)]
            [worker.start() for worker in workers]
            [worker.join() for worker in workers]
        [node.end() for node in nodes]
        return ",".join(sorted(replies))

    result, (trace,) = run(home, solve)
    assert (trace.answer, result.model_calls, len(server.calls)) == ("x0,x1", 2, 2)
    assert shape(trace) == [
        (0, "other", "node 0"),
        (1, "model", "chat"),
        (0, "other", "node 1"),
        (1, "model", "chat"),
    ]
    assert result.tokens == 2200


def test_calls_that_no_gateway_saw_are_counted_from_telemetry(home: Home, server: ModelServer) -> None:
    tracer = TracerProvider().get_tracer("mine")

    def solve(task: Task) -> str:
        answer = ask()
        with tracer.start_as_current_span("chat", attributes={**CHAT, **SPENT, **told("another answer")}):
            time.sleep(0.001)
        with tracer.start_as_current_span("execute_tool", attributes={"gen_ai.tool.name": "weigh"}):
            pass
        return answer

    result, (trace,) = run(home, solve, caps=AllCaps(experiment=Caps(usd=1.0)))
    assert (result.model_calls, result.tokens) == (2, 2200)
    costs = [span.cost_usd for span in trace.spans if span.kind == "model"]
    assert result.cost_usd == pytest.approx(sum(c or 0 for c in costs))
    assert None not in costs
    assert [span.name for span in trace.steps] == ["chat", "chat", "weigh"]


def test_a_client_that_tries_again_has_made_two_calls(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    from ethogram.worlds.model_server import ReplyError

    tracer = TracerProvider().get_tracer("mine")
    count = iter(range(9))

    def flaky(request: ModelRequest) -> ModelReply:
        if next(count) == 0:
            raise ReplyError(500, "once more")
        return echo(request)

    def solve(task: Task) -> str:
        with (
            tracer.start_as_current_span("node"),
            tracer.start_as_current_span("llm", attributes={**CHAT, **SPENT, **told("6")}),
            openai.OpenAI(max_retries=1) as client,
        ):
            messages: Any = [{"role": "user", "content": "6"}]
            reply = client.chat.completions.create(model="gpt-4o-mini", messages=messages)
            return reply.choices[0].message.content or ""

    with serve_model(flaky) as server:
        for name, value in server.variables().items():
            monkeypatch.setenv(name, value)
        _, (trace,) = run(home, solve)
    assert shape(trace) == [(0, "other", "node"), (1, "model", "chat"), (1, "model", "chat")]
    assert [span.status for span in trace.steps] == ["error", "ok"]


class OneId(IdGenerator):
    """Every trace and every span gets the same id."""

    def generate_span_id(self) -> int:
        return 7

    def generate_trace_id(self) -> int:
        return 9


def test_damage_is_kept_and_named(home: Home, server: ModelServer) -> None:
    """Spans of two providers with one id, of unknown dialects, with impossible times, without a parent, never ended."""
    first, second = TracerProvider(id_generator=OneId()), TracerProvider()
    far = api.SpanContext(11, 12, is_remote=True, trace_flags=api.TraceFlags(1))
    left_open: list[Any] = []

    def solve(task: Task) -> str:
        first.get_tracer("a").start_span("one").end()
        tracer = second.get_tracer("b", "9.9", schema_url="https://example.org/schemas/99.0.0")
        tracer.start_span("backwards", start_time=2_000_000_000_000_000_000).end(end_time=1)
        tracer.start_span("orphan", context=api.set_span_in_context(api.NonRecordingSpan(far))).end()
        tracer.start_span("unknown", attributes={"gen_ai.operation.name": "dream", "gen_ai.next.thing": 3}).end()
        left_open.append(tracer.start_span("open", attributes={"openinference.span.kind": "AGENT"}))
        return ask()

    result, (trace,) = run(home, solve)
    left_open[0].set_attribute("late", True)
    left_open[0].end()
    assert result.model_calls == 1
    spans = {span.name: span for span in trace.spans}
    assert set(spans) == {"one", "backwards", "orphan", "unknown", "open", "chat"}
    assert spans["backwards"].end_ns is None
    attributes = {name: json.loads(trace.text(span.attributes or "")) for name, span in spans.items()}
    assert attributes["orphan"]["otel.parent_id"] == f"{12:016x}"
    assert (attributes["unknown"]["gen_ai.next.thing"], attributes["unknown"]["gen_ai.operation.name"]) == (3, "dream")
    assert attributes["open"]["otel.unfinished"] is True
    assert spans["open"].end_ns is None
    assert "late" not in attributes["open"]


def test_ids_that_two_traces_share_stay_two_spans(home: Home, server: ModelServer) -> None:
    class OneSpan(OneId):
        traces = iter(range(1, 99))

        def generate_trace_id(self) -> int:
            return next(self.traces)

    tracer = TracerProvider(id_generator=OneSpan()).get_tracer("a")

    def solve(task: Task) -> str:
        with tracer.start_as_current_span("one"):
            return ask() + tracer.start_span("two", context=api.set_span_in_context(api.INVALID_SPAN)).end().__str__()

    _, (trace,) = run(home, solve)
    assert shape(trace) == [(0, "other", "one"), (1, "model", "chat"), (0, "other", "two")]
    assert len({span.span_id for span in trace.spans}) == 3


def test_a_span_that_is_told_twice_is_one_span(home: Home, server: ModelServer) -> None:
    provider = TracerProvider()
    provider.add_span_processor(
        SynchronousMultiSpanProcessor()
    )  # processors inside processors, as frameworks nest them
    tracer = provider.get_tracer("mine")

    def solve(task: Task) -> str:
        with tracer.start_as_current_span("work") as span:
            answer = ask()
        span.end()  # once more
        return answer

    _, (trace,) = run(home, solve)
    assert shape(trace) == [(0, "other", "work"), (1, "model", "chat")]


def test_spans_around_no_episode_cost_nothing_and_capture_off_is_off(home: Home, server: ModelServer) -> None:
    tracer = TracerProvider().get_tracer("mine")

    def solve(task: Task) -> str:
        with tracer.start_as_current_span("work"):
            return "6"

    _, (trace,) = run(home, solve, capture="off")
    assert trace.spans == ()
    processors = TracerProvider()._active_span_processor
    assert "ethogram" not in processors.on_start.__func__.__code__.co_filename
