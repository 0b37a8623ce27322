"""What the OTLP writer says, the OTLP reader gives back."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.chat import ChatBuilder
from ethogram.capture.draft import Draft
from ethogram.capture.intake import Intake, SourceReport
from ethogram.capture.memory import MemorySink, read_traces
from ethogram.capture.peek import peek_at
from ethogram.capture.readers import otlp as reader
from ethogram.capture.source import bytes_source, file_source
from ethogram.capture.telemetry.wire import key_values
from ethogram.capture.writers import otlp as writer
from ethogram.traces import (
    KINDS,
    REASONS,
    File,
    Message,
    Missing,
    Origin,
    Reasoning,
    Ref,
    Scored,
    Span,
    Text,
    ToolCall,
    ToolResult,
    Trace,
)

DATA = Path(__file__).parents[4] / "shared" / "data"


def build(fill: Callable[[TraceBuilder], object], key: str = "k") -> Trace:
    """A trace, as a reader or recorder would make it."""
    done: list[Trace] = []
    intake = Intake(lambda trace: MemorySink(done), Origin("test", "t", "d"), SourceReport(source="t"))
    with intake.trace(key) as trace:
        trace.attempt = 0
        fill(trace)
    return done[0]


def written(*traces: Trace) -> tuple[bytes, dict[str, int]]:
    stream = io.BytesIO()
    lost = writer.write(traces, stream)
    return stream.getvalue(), lost


def again(*traces: Trace) -> list[Trace]:
    data, _ = written(*traces)
    found, report = read_traces(bytes_source("t", data), "otlp")
    assert (report.skipped, report.lost) == ([], {})
    return found


SAME = tuple(f for f in Span.__struct_fields__ if f not in ("trace_id", "continues", "keep", "input"))


def assert_same(left: Trace, right: Trace) -> None:
    """Everything but where the trace came from."""
    about = ("task", "attempt", "condition", "agent", "seed", "outcome", "meta", "start_ns", "end_ns")
    assert [getattr(left.head, f) for f in about] == [getattr(right.head, f) for f in about]
    assert left.answer == right.answer
    assert len(left.spans) == len(right.spans)
    for a, b in zip(left.spans, right.spans, strict=True):
        assert {f: getattr(a, f) for f in SAME} == {f: getattr(b, f) for f in SAME}
        assert left.conversation(a) == right.conversation(b)
        assert [left.message(r) for r in a.output] == [right.message(r) for r in b.output]
        for ref in (a.error, a.arguments, a.result, a.attributes):
            assert ref is None or left.text(ref) == right.text(ref)
    assert left.totals == right.totals
    assert [s.span_id for s in left.steps] == [s.span_id for s in right.steps]

    def labels(trace: Trace) -> list[str]:
        why = {n.why: "" if n.why is None else trace.text(n.why) for n in trace.labels}
        return sorted(
            repr((n.name, n.value, n.by, n.source, n.span_id, why[n.why], n.version, n.at_ns)) for n in trace.labels
        )

    assert labels(left) == labels(right)


def test_a_whole_run() -> None:
    def fill(trace: TraceBuilder) -> None:
        trace.task, trace.attempt, trace.condition, trace.agent = "t/1", 3, "clean", "bob"
        trace.seed = 2**64 - 1
        trace.outcome = Scored(0.5, "verifier")
        trace.answer = "done"
        trace.meta = {"cost": 0.5, "n": 3, "ok": False, "note": "x", "tags": ["a"]}
        root = trace.add(
            Draft(kind="agent", name="run", agent="bob", start_ns=10**18, end_ns=10**18 + 5, result="done")
        )
        asked = Message(
            "user", (Text("hi"), File("image/png", "https://x/y.png"), File("image/png", digest="b2:1", size=9))
        )
        called = Message(
            "assistant", (Reasoning("hm"), ToolCall("ring", '{"times": 1}', "c1"), ToolCall("ring", '{"n":2}'))
        )
        trace.add(
            Draft(
                kind="model",
                name="chat m",
                parent_id=root,
                agent="bob",
                lane="side",
                start_ns=10**18 + 1,
                end_ns=10**18 + 2,
                status="ok",
                model="m",
                provider="openai",
                prompt_version="v1",
                params={"temperature": 1, "top_p": 0.5, "effort": "high", "stream": True, "seed": 7},
                input=(Message("system", (Text("Be kind."),)), asked),
                output=(called,),
                input_tokens=10,
                cache_read_tokens=5,
                cache_write_tokens=2,
                output_tokens=9,
                reasoning_tokens=30,
                cost_usd=0.25,
                stop_reason="tool_calls",
                attributes={
                    "http.route": "/x",
                    "gen_ai.request.model": "asked",
                    "otel.events": [{"a": None}],
                    "n.o": 1.5,
                },
            )
        )
        answered = Message("user", (ToolResult("ding", "ring", "c1", failed=True), Text("and?")), "eve")
        tool = trace.add(
            Draft(
                kind="tool",
                name="ring",
                tool="ring",
                call_id="c1",
                arguments='{"times": 1}',
                result="",
                status="error",
                error="too loud",
                truncated=True,
                parent_id="gone",
                output=(answered,),
            )
        )
        trace.add(Draft(kind="user", name="user", output=(Message("other", (), "crowd"),), status="ok", error="odd"))
        trace.label("tone", 0.5, by="judge-1", source="judge", why="because", span_id=tool)
        trace.label("ok", True, by="me", source="hand")
        trace.label("class", "good", by="me")
        trace.label("nothing", None, by="me", source="verifier")

    trace = build(fill)
    data, lost = written(trace)
    assert lost == {}
    assert_same(trace, again(trace)[0])
    assert reader.sniff(peek_at(bytes_source("t", data))) == 95


def test_the_wire_speaks_the_conventions() -> None:
    said = (Message("assistant", (ToolCall("f", '{"a":1}', "c"), Text("so"))),)
    trace = build(
        lambda t: t.add(
            Draft(
                kind="model",
                name="chat m",
                model="m",
                input=(Message("user", (Text("hi"),)),),
                output=said,
                input_tokens=10,
                cache_read_tokens=5,
                cache_write_tokens=2,
                output_tokens=9,
                reasoning_tokens=3,
                stop_reason="stop",
            )
        )
    )
    lines = written(trace)[0].splitlines()
    assert len(lines) == 1
    inner = json.loads(lines[0])["resourceSpans"][0]
    span = inner["scopeSpans"][0]["spans"][0]
    assert (len(span["traceId"]), len(span["spanId"]), span["startTimeUnixNano"]) == (32, 16, "0")
    found, bad = key_values(span["attributes"])
    assert bad == 0
    assert found["gen_ai.operation.name"] == "chat"
    assert found["gen_ai.usage.input_tokens"] == 17
    assert found["gen_ai.usage.cache_read.input_tokens"] == 5
    assert found["gen_ai.usage.cache_write.input_tokens"] == 2
    assert found["gen_ai.usage.output_tokens"] == 9
    assert found["gen_ai.usage.reasoning.output_tokens"] == 3
    assert found["gen_ai.response.finish_reasons"] == ["stop"]
    assert json.loads(found["gen_ai.input.messages"]) == [
        {"role": "user", "parts": [{"type": "text", "content": "hi"}]}
    ]
    assert json.loads(found["gen_ai.output.messages"]) == [
        {
            "role": "assistant",
            "parts": [
                {"type": "tool_call", "id": "c", "name": "f", "arguments": {"a": 1}},
                {"type": "text", "content": "so"},
            ],
            "finish_reason": "stop",
        }
    ]
    assert span["attributes"][-1]["value"]  # nothing is null on the wire
    resource, _ = key_values(inner["resource"]["attributes"])
    assert resource["ethogram.outcome.missing"] == "unscored"


def test_protobuf_accepts_what_is_written() -> None:
    json_format = pytest.importorskip("google.protobuf.json_format")
    trace_pb2 = pytest.importorskip("opentelemetry.proto.trace.v1.trace_pb2")
    trace = build(lambda t: t.add(Draft(kind="tool", name="f", tool="f", start_ns=5, arguments="{}")))
    data = written(trace)[0]
    message = json_format.Parse(data, trace_pb2.TracesData())
    found, _ = read_traces(bytes_source("t", data), "otlp")
    assert message.resource_spans[0].scope_spans[0].spans[0].name == "f"
    assert_same(trace, found[0])


def test_a_chat_reads_the_same_by_messages() -> None:
    def fill(trace: TraceBuilder) -> None:
        chat = ChatBuilder(trace)
        chat.add(Message("system", (Text("Be kind."),)))
        for turn in range(4):
            chat.add(Message("user", (Text(f"turn {turn}"),)))
            chat.add(Message("assistant", (ToolCall("f", f'{{"n": {turn}}}', "same id"),)))
            chat.add(Message("tool", (ToolResult("x" * 100, "f", "same id"),), "f"))
            chat.add(Message("assistant", (Text("so"),)))
        chat.close()

    trace = build(fill)
    found = again(trace)[0]
    assert_same(trace, found)
    assert found.messages == trace.messages
    assert found.signatures() == trace.signatures()
    assert [(s.keep, s.input) for s in found.spans] == [(s.keep, s.input) for s in trace.spans]


def test_spans_of_different_traces_have_different_ids_on_the_wire() -> None:
    def fill(trace: TraceBuilder) -> None:
        chat = ChatBuilder(trace)
        chat.add(Message("user", (Text("hello"),)))
        chat.add(Message("assistant", (Text("good day"),)))
        chat.close()

    stream = io.BytesIO()
    writer.write([build(fill, "one"), build(fill, "two")], stream)
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    spans = [s for line in lines for r in line["resourceSpans"] for scope in r["scopeSpans"] for s in scope["spans"]]
    assert len(spans) > 2
    assert len({span["spanId"] for span in spans}) == len(spans), "some receivers keep one span of an id in all traces"


def test_many_traces_in_their_order() -> None:
    traces = [build(lambda t, n=n: t.add(Draft(kind="other", name=f"n{n}")), str(n)) for n in range(5)]  # type: ignore[misc]
    data, _ = written(*traces)
    assert data.count(b"\n") == 5
    assert [t.spans[0].name for t in again(*traces)] == [f"n{n}" for n in range(5)]


def test_what_cannot_be_said_is_counted() -> None:
    trace = build(lambda t: t.add(Draft(kind="model", name="m", result="r", output=(Message("user"),))))
    hashed = msgspec.structs.replace(trace.spans[0], result_hash="b2:1", error=Ref("b2:gone"))
    empty = Trace(trace.head, (), {})
    data, lost = written(Trace(trace.head, (hashed,), trace.texts), empty)
    assert data.count(b"\n") == 1
    assert lost == {"result_hash": 1, "text (missing)": 1, "trace without spans": 1}
    broken = msgspec.structs.replace(trace.spans[0], output=(Ref("b2:gone"),))
    odd = msgspec.structs.replace(trace.spans[0], span_id="s2", attributes=trace.spans[0].result)
    assert written(Trace(trace.head, (broken, odd), trace.texts))[1] == {
        "text (missing)": 1,
        "attributes (no object)": 1,
    }

    def elsewhere(trace: TraceBuilder) -> None:
        trace.add(Draft(kind="other", name="n"))
        trace.label("l", 1.0, by="x", span_id="elsewhere")

    labelled = build(elsewhere)
    versioned = Trace(
        labelled.head,
        labelled.spans,
        labelled.texts,
        tuple(msgspec.structs.replace(n, version="2", at_ns=5) for n in labelled.labels),
    )
    data, lost = written(versioned)
    assert lost == {"label.span_id (no such span)": 1}
    found = read_traces(bytes_source("t", data), "otlp")[0][0].labels[0]
    assert (found.span_id, found.version, found.at_ns) == (None, "2", 5)


def test_numbers_with_gaps_are_kept() -> None:
    def fill(trace: TraceBuilder) -> None:
        trace.add(Draft(kind="tool", name="inner", seq=4))
        trace.add(Draft(kind="agent", name="outer", seq=2))

    trace = build(fill)
    assert [(s.seq, s.name) for s in again(trace)[0].spans] == [(2, "outer"), (4, "inner")]


def test_ids_of_the_wire() -> None:
    shape = writer._HEX_SPAN
    assert writer.wire_id("00f067aa0ba902b7", shape) == "00f067aa0ba902b7"
    made = {writer.wire_id(name, shape) for name in ("s0", "s1", "S0", "00f067aa0ba902b7#2", "0" * 16, "")}
    assert len(made) == 6
    assert all(shape.fullmatch(m) for m in made)


@pytest.mark.skipif(not DATA.exists(), reason="../shared/data is not here")
@pytest.mark.parametrize(
    ("format", "pattern"),
    [("trail", "trail/*.json.gz"), ("langfuse", "langfuse/*.trace.json"), ("tau-bench", "tau_bench/*.json.gz")],
)
def test_real_traces_come_back(format: str, pattern: str) -> None:
    paths = sorted(DATA.glob(pattern))
    assert paths
    for path in paths:
        traces, _ = read_traces(file_source(path, path.name), format)
        data, lost = written(*traces)
        assert (lost, len(traces)) == ({}, data.count(b"\n"))
        for left, right in zip(traces, again(*traces), strict=True):
            assert_same(left, right)
            assert left.messages == right.messages


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
names = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=12)
maybe_names = st.none() | names
counts = st.none() | st.integers(0, 10**6)
calls = st.builds(ToolCall, names, words | st.sampled_from(['{"a":1}', '{"a": 1}', "[1,2]", '"x"', "{"]), maybe_names)
results = st.builds(ToolResult, words, maybe_names, maybe_names, st.booleans())
links = st.builds(lambda m, u: File(m, f"https://{u}"), names, words)
files = links | st.builds(File, names, words, names, st.integers(0, 9))
parts = st.builds(Text, words) | st.builds(Reasoning, words) | calls | results | files
roles = st.sampled_from(["system", "user", "assistant", "tool", "other"])
messages = st.builds(Message, roles, st.lists(parts, max_size=3).map(tuple), maybe_names)
talks = st.lists(messages, max_size=3).map(tuple)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)
known_names = st.sampled_from(
    ["gen_ai.usage.input_tokens", "session.id", "llm.model_name", "events", "tool", "input.value", "a.b", "error.type"]
)
scalars = st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | words
params = st.dictionaries(names | st.sampled_from(["temperature", "top_k", "max_tokens"]), scalars, max_size=3)
times = st.none() | st.integers(1, 10**15)


@st.composite
def drafts(draw: st.DrawFn) -> Draft:
    start = draw(times)
    end = None if start is None else draw(st.none() | st.integers(start, start + 100))
    return Draft(
        kind=draw(st.sampled_from(KINDS)),
        name=draw(words),
        span_id=draw(st.none() | st.sampled_from(["a", "b", "00f067aa0ba902b7"])),
        parent_id=draw(st.none() | st.sampled_from(["a", "b", "s0", "gone", "00f067aa0ba902b7"])),
        agent=draw(words),
        lane=draw(st.sampled_from(["", "x"])),
        start_ns=start,
        end_ns=end,
        status=draw(st.sampled_from(["ok", "error", "unset"])),
        error=draw(st.none() | words),
        model=draw(maybe_names),
        provider=draw(maybe_names),
        prompt_version=draw(maybe_names),
        params=draw(params),
        input=draw(talks),
        output=draw(talks),
        tool=draw(maybe_names),
        call_id=draw(maybe_names),
        arguments=draw(st.none() | words),
        result=draw(st.none() | words),
        truncated=draw(st.booleans()),
        input_tokens=draw(counts),
        cache_read_tokens=draw(counts),
        cache_write_tokens=draw(counts),
        output_tokens=draw(counts),
        reasoning_tokens=draw(counts),
        cost_usd=draw(st.none() | st.floats(0, 100)),
        stop_reason=draw(maybe_names),
        attributes=draw(st.dictionaries(words | known_names, json_values, max_size=3)),
    )


outcomes = st.builds(Scored, st.floats(-1, 2), words) | st.builds(Missing, st.sampled_from(REASONS), words)
label_values = st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | words
notes = st.lists(
    st.tuples(names, label_values, words, st.sampled_from(["hand", "judge", "import"]), st.booleans()), max_size=3
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    st.lists(drafts(), min_size=1, max_size=4),
    outcomes,
    st.tuples(words, words, words, st.none() | words, st.none() | st.integers(0, 2**64 - 1), st.integers(0, 99)),
    st.dictionaries(names, scalars, max_size=3),
    notes,
)
def test_any_trace_comes_back(
    spans: Sequence[Draft],
    outcome: Any,
    head: tuple[str, str, str, str | None, int | None, int],
    meta: dict[str, Any],
    labels: list[tuple[str, Any, str, Any, bool]],
) -> None:
    def fill(trace: TraceBuilder) -> None:
        trace.task, trace.condition, trace.agent, trace.answer, trace.seed, trace.attempt = head
        trace.outcome, trace.meta = outcome, meta
        ids = [trace.add(d) for d in spans]
        for name, value, by, source, placed in labels:
            trace.label(name, value, by=by, source=source, why=by or None, span_id=ids[-1] if placed else None)

    trace = build(fill)
    assert_same(trace, again(trace)[0])
