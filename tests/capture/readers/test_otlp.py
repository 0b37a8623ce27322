"""OTLP: JSON documents, JSON lines and protobuf give the same traces; nothing good is lost to something bad."""

from __future__ import annotations

import base64
import gzip
import json
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ethogram.capture.intake import Intake, SourceReport
from ethogram.capture.memory import read_traces
from ethogram.capture.peek import peek_at
from ethogram.capture.readers import otlp
from ethogram.capture.semconv import Understood, understand
from ethogram.capture.source import bytes_source, file_source
from ethogram.capture.telemetry import assemble
from ethogram.capture.telemetry import spans as spans_module
from ethogram.capture.telemetry.assemble import write_traces
from ethogram.capture.telemetry.kinds import OpenedSpan
from ethogram.capture.telemetry.spans import SpanBuffer
from ethogram.capture.telemetry.wire import any_value, hex_id, is_protobuf, key_values, nanos, status_of
from ethogram.traces import Message, Missing, Origin, Scored, Text, Trace

DATA = Path(__file__).parents[4] / "shared" / "data"
T1, T2 = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"
START = 1_700_000_000_000_000_000


def typed(value: Any) -> dict[str, Any]:
    """A value as OTLP types it."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [typed(v) for v in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": pairs(value)}}
    return {"stringValue": value}


def pairs(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": k, "value": typed(v)} for k, v in attributes.items()]


def span(
    number: int, attributes: dict[str, Any] | None = None, *, trace: str = T1, parent: int | None = None, **more: Any
) -> dict[str, Any]:
    """A span; its start follows from its number unless given."""
    made: dict[str, Any] = {
        "traceId": trace,
        "spanId": f"{number:016x}",
        "name": f"span {number}",
        "kind": 1,
        "startTimeUnixNano": str(START + number * 1000),
        "endTimeUnixNano": str(START + number * 1000 + 500),
        "attributes": pairs(attributes or {}),
        **more,
    }
    if parent is not None:
        made["parentSpanId"] = f"{parent:016x}"
    return made


def document(*spans: Any, resource: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": pairs(resource or {"service.name": "svc"})},
                "scopeSpans": [{"scope": {"name": "lib", "version": "1"}, "spans": list(spans)}],
            }
        ]
    }


def logs(*records: Any) -> dict[str, Any]:
    return {"resourceLogs": [{"resource": {}, "scopeLogs": [{"scope": {}, "logRecords": list(records)}]}]}


def read(*documents: Any) -> tuple[list[Trace], SourceReport]:
    data = b"\n".join(d if isinstance(d, bytes) else json.dumps(d).encode() for d in documents)
    return read_traces(bytes_source("t", data), "otlp")


def one(*documents: Any) -> Trace:
    traces, report = read(*documents)
    assert not report.skipped, report.skipped
    assert len(traces) == 1
    return traces[0]


def attributes(trace: Trace, number: int) -> dict[str, Any]:
    ref = trace.spans[number].attributes
    found: dict[str, Any] = {} if ref is None else json.loads(trace.text(ref))
    return found


CHAT = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "m",
    "gen_ai.provider.name": "openai",
    "gen_ai.usage.input_tokens": 100,
    "gen_ai.usage.cache_read.input_tokens": 40,
    "gen_ai.usage.output_tokens": 7,
    "gen_ai.response.finish_reasons": ["stop"],
    "gen_ai.input.messages": [{"role": "user", "parts": [{"type": "text", "content": "hi"}]}],
    "gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": "hello"}]}],
}
WHOLE = document(
    span(1, {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "bob", "gen_ai.output.messages": "done"}),
    span(
        3, {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "ring", "gen_ai.tool.call.id": "c"}, parent=1
    ),
    span(2, CHAT, parent=1),
)


def test_a_trace() -> None:
    trace = one(WHOLE)
    assert [(s.kind, s.name) for s in trace.spans] == [("agent", "span 1"), ("model", "span 2"), ("tool", "ring")]
    assert [s.name for s in trace.steps] == ["span 2", "ring"]
    agent, model, tool = trace.spans
    assert (model.parent_id, tool.parent_id, agent.parent_id) == (agent.span_id, agent.span_id, None)
    assert (model.start_ns, model.end_ns) == (START + 2000, START + 2500)
    assert (model.model, model.provider, model.stop_reason) == ("m", "openai", "stop")
    assert (model.input_tokens, model.cache_read_tokens, model.output_tokens) == (60, 40, 7)
    assert (tool.tool, tool.call_id) == ("ring", "c")
    assert {s.agent for s in trace.spans} == {"bob"}
    assert trace.messages == (Message("user", (Text("hi"),)), Message("assistant", (Text("hello"),)))
    assert (trace.head.agent, trace.answer) == ("bob", "done")
    assert trace.head.meta == {"service.name": "svc"}
    assert trace.outcome == Missing("unscored")
    assert trace.totals.input_tokens == 60
    assert attributes(trace, 1)["otel.scope"] == "lib 1"


def test_the_same_trace_in_every_dress() -> None:
    expected = [(s.span_id, s.parent_id, s.kind, s.name, s.start_ns, s.input_tokens) for s in one(WHOLE).spans]
    inner = WHOLE["resourceSpans"][0]
    resource, scope = inner["resource"], inner["scopeSpans"][0]
    late = {
        "resourceSpans": [{"scopeSpans": [{"spans": scope["spans"], "scope": scope["scope"]}], "resource": resource}]
    }
    old = {"resourceSpans": [{"resource": resource, "instrumentationLibrarySpans": inner["scopeSpans"]}]}
    snake = json.loads(
        json.dumps(WHOLE)
        .replace("resourceSpans", "resource_spans")
        .replace("scopeSpans", "scope_spans")
        .replace("traceId", "trace_id")
        .replace("parentSpanId", "parent_span_id")
        .replace("spanId", "span_id")
        .replace("startTimeUnixNano", "start_time_unix_nano")
        .replace("endTimeUnixNano", "end_time_unix_nano")
        .replace("stringValue", "string_value")
        .replace("intValue", "int_value")
    )
    packed = json.loads(json.dumps(WHOLE))
    for item in packed["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for key in ("traceId", "spanId", "parentSpanId"):
            if key in item:
                item[key] = base64.b64encode(bytes.fromhex(item[key])).decode()
        item["startTimeUnixNano"] = int(item["startTimeUnixNano"])
    upper = json.loads(json.dumps(WHOLE).replace(T1, T1.upper()))
    plain = json.loads(json.dumps(WHOLE))
    for item in plain["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        item["attributes"] = {p["key"]: any_value(p["value"]) for p in item["attributes"]}
    split = [document(s) for s in scope["spans"]]
    for shape in (
        [late],
        [old],
        [snake],
        [packed],
        [upper],
        [plain],
        split,
        [split],
        [json.dumps(WHOLE, indent=2).encode()],
        [b"\xef\xbb\xbf" + json.dumps(WHOLE).encode()],
        [
            json.dumps(split[0], indent=1).encode()
            + b"\n"
            + json.dumps(document(*scope["spans"][1:]), indent=1).encode()
        ],
    ):
        trace = one(*shape)
        found = [(s.span_id, s.parent_id, s.kind, s.name, s.start_ns, s.input_tokens) for s in trace.spans]
        assert found == expected
        assert trace.head.meta == {"service.name": "svc"}


def test_protobuf_plain_and_framed() -> None:
    trace_pb2 = pytest.importorskip("opentelemetry.proto.trace.v1.trace_pb2")
    json_format = pytest.importorskip("google.protobuf.json_format")
    packed = json.loads(json.dumps(WHOLE))
    for item in packed["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for key in ("traceId", "spanId", "parentSpanId"):
            if key in item:
                item[key] = base64.b64encode(bytes.fromhex(item[key])).decode()
    data = json_format.ParseDict(packed, trace_pb2.TracesData()).SerializeToString()
    other = json_format.ParseDict(document(span(1, trace=T2)), trace_pb2.TracesData())
    other.resource_spans[0].scope_spans[0].spans[0].trace_id = bytes.fromhex(T2)
    other.resource_spans[0].scope_spans[0].spans[0].span_id = bytes(7) + b"\x01"
    more = other.SerializeToString()
    framed = b"".join(struct.pack(">I", len(d)) + d for d in (data, more))
    expected = [(s.span_id, s.parent_id, s.kind, s.name, s.start_ns, s.input_tokens) for s in one(WHOLE).spans]
    for shape, count in ((data, 1), (data + more, 2), (framed, 2), (gzip.compress(data), 1)):
        source = bytes_source("t", shape)
        assert otlp.sniff(peek_at(source)) == 90
        traces, report = read_traces(source, "otlp")
        assert not report.skipped
        assert len(traces) == count
        found = [(s.span_id, s.parent_id, s.kind, s.name, s.start_ns, s.input_tokens) for s in traces[0].spans]
        assert found == expected
        assert traces[0].messages == one(WHOLE).messages
    for cut in range(20, len(more), 7):
        traces, report = read_traces(bytes_source("t", data + more[:cut]), "otlp")
        assert len(traces) == 1  # what came whole is kept
        assert report.skipped
        for start in (data[:cut], framed[:cut]):
            _, report = read_traces(bytes_source("t", start), "otlp")
            assert report.skipped
    _, report = read_traces(bytes_source("t", data + b"\x0a\x02\xff\xff"), "otlp")
    assert "not protobuf from here on" in report.skipped[0].why
    _, report = read_traces(bytes_source("t", data + b"\x0a\xff\xff\xff\xff\x0f"), "otlp")
    assert "one resource of more than" in report.skipped[0].why
    _, report = read_traces(bytes_source("t", data + b"\x12\x00"), "otlp")
    assert "unknown field" in report.skipped[0].why


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x0a",
        b"\x0a\x05hello",
        b"\x0a" * 200,
        b"\n\n\n text",
        bytes(range(256)) * 4,
        b"\x00\x00\x00\x20\x0a" + b"x" * 40,
        b"{}",
        b'{"resourceMetrics": []}',
        b'{"resourceSpans": 5}',
        b'{"spans": []}',
        b'{"trace": {"id": "x"}, "observations": []}',
    ],
)
def test_other_content_is_not_claimed(data: bytes) -> None:
    assert otlp.sniff(peek_at(bytes_source("t", data))) == 0
    assert not is_protobuf(data)


def test_spans_of_one_trace_may_lie_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans_module, "MEMORY", 10)
    lines = []
    for i in range(60):
        lines.append(document(span(i + 1, CHAT, trace=T1 if i % 3 else T2), resource={"service.name": f"s{i % 2}"}))
    traces, report = read(*reversed(lines))
    assert not report.skipped
    assert {len(t.spans) for t in traces} == {20, 40}
    for trace in traces:
        starts = [s.start_ns for s in trace.spans]
        assert starts == sorted(starts)  # type: ignore[type-var]
        assert [s.seq for s in trace.spans] == list(range(len(trace.spans)))
    assert traces[0].head.meta == {"service.name": "s1"}  # as its first span says
    assert attributes(traces[0], 1)["otel.resource"] == {"service.name": "s0"}


class Nowhere:
    """A sink that forgets."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *args, **kwargs: args[0] if name == "clean" else "b2:0"


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    def peak_of(count: int) -> tuple[int, int]:
        path = tmp_path / f"{count}.jsonl"
        with path.open("wb") as stream:
            for i in range(0, count, 4):
                inner = {**CHAT, "note": "w" * 4000 + str(i)}
                line = document(*(span(i + k + 1, inner, trace=f"{i + k + 1:032x}") for k in range(4)))
                stream.write(json.dumps(line).encode() + b"\n")
        report = SourceReport(source="big")
        intake = Intake(lambda trace: Nowhere(), Origin("otlp"), report)
        buffer = SpanBuffer(1 << 17)
        tracemalloc.start()
        otlp.OtlpFile(buffer, intake).take(file_source(path, "big"))
        write_traces(buffer, intake)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        buffer.close()
        assert (report.traces, report.spans) == (count, count)
        return peak, path.stat().st_size

    small, few = peak_of(400)
    large, many = peak_of(1600)
    assert large - small < (many - few) / 5


def test_order_is_by_start_then_parents_first_then_as_they_came() -> None:
    same: dict[str, Any] = {"startTimeUnixNano": str(START)}
    trace = one(
        document(span(4, parent=2, **same), span(3, parent=1, **same), span(2, parent=1, **same), span(1, **same))
    )
    assert [s.name for s in trace.spans] == ["span 1", "span 3", "span 2", "span 4"]
    untimed = one(document(span(1), span(2, parent=1, startTimeUnixNano="0"), span(3, startTimeUnixNano=None)))
    assert [s.name for s in untimed.spans] == ["span 3", "span 1", "span 2"]
    assert untimed.by_id[untimed.spans[2].span_id].start_ns is None


def test_orphans_cycles_and_repeats() -> None:
    traces, report = read(document(span(1, parent=9), span(2, parent=3), span(3, parent=2), span(4, parent=4)))
    assert len(traces[0].spans) == 4
    assert traces[0].spans[0].parent_id == f"{9:016x}"
    assert len(list(traces[0].walk())) == 4
    again = span(1, {"x": 1})
    traces, report = read(document(again, again, span(1, {"x": 2})))
    assert [s.span_id for s in traces[0].spans] == [f"{1:016x}", f"{1:016x}#2"]
    assert report.lost == {"span (delivered twice)": 1, "span_id (repeated)": 1}


def test_one_call_told_by_two_spans_counts_once() -> None:
    inner = {**CHAT, "gen_ai.response.id": "r1"}
    thin = {"openinference.span.kind": "LLM", "gen_ai.response.id": "r1", "llm.token_count.prompt": 100}
    thin.update({f"llm.input_messages.{i}.message.content": "x" for i in range(50)})
    traces, report = read(document(span(1), span(2, thin, parent=1), span(3, inner, parent=1)))
    assert report.lost == {"duplicate model span": 1}
    assert (traces[0].totals.input_tokens, traces[0].totals.model_calls) == (60, 1)
    assert [s.name for s in traces[0].steps] == ["span 3"]
    assert len(traces[0].messages) == 2
    assert attributes(traces[0], 1)["otel.same_call_as"] == f"{3:016x}"
    traces, report = read(document(span(1, thin), span(2, inner, parent=1)))  # nested: the leaf rule does it
    assert report.lost == {}
    assert (traces[0].totals.input_tokens, traces[0].totals.model_calls) == (60, 1)
    traces, report = read(document(span(1, inner)), document(span(2, inner, trace=T2)))  # other traces are other calls
    assert report.lost == {}
    assert [t.totals.input_tokens for t in traces] == [60, 60]


def test_tools_inside_a_model_call_hang_beside_it() -> None:
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "ring"}
    trace = one(document(span(1), span(2, CHAT, parent=1), span(3, parent=2), span(4, tool, parent=3)))
    assert [s.name for s in trace.steps] == ["span 2", "ring"]
    assert trace.spans[3].parent_id == f"{1:016x}"
    assert attributes(trace, 3)["otel.parent_id"] == f"{3:016x}"
    sub = {"gen_ai.operation.name": "invoke_agent"}
    trace = one(
        document(span(1, CHAT), span(2, tool, parent=1), span(3, sub, parent=2), span(4, CHAT, parent=3))
    )  # the outer call is a call of its own, not a wrapper of the inner one
    assert trace.totals.input_tokens == 120
    wrapped = one(document(span(1, CHAT), span(2, CHAT, parent=1), span(3, tool, parent=1)))
    assert wrapped.spans[2].parent_id == f"{1:016x}"
    assert wrapped.totals.input_tokens == 60


AGENT = {"gen_ai.operation.name": "invoke_agent"}


def named(name: str) -> dict[str, Any]:
    return {**AGENT, "gen_ai.agent.name": name}


def test_lanes() -> None:
    long: dict[str, Any] = {"endTimeUnixNano": str(START + 90_000)}
    side = one(
        document(
            span(1, named("boss"), **long),
            span(2, named("a"), parent=1, **long),
            span(3, named("b"), parent=1, **long),
            span(4, CHAT, parent=2),
            span(5, CHAT, parent=3),
            span(6, named("a"), parent=1, **long),
        )
    )
    assert [s.lane for s in side.spans] == ["", "a", "b", "a", "b", "a#2"]
    after = one(
        document(span(1, AGENT, **long), span(2, AGENT, parent=1), span(3, CHAT, parent=2), span(4, AGENT, parent=1))
    )
    assert {s.lane for s in after.spans} == {""}
    tool = {"gen_ai.tool.name": "ask"}
    below = one(
        document(
            span(1, named("boss"), **long),
            span(2, CHAT, parent=1),
            span(3, tool, parent=1),
            span(4, named("sub"), parent=3),
            span(5, CHAT, parent=4),
            span(6, CHAT, parent=1),
        )
    )
    assert [s.lane for s in below.spans] == ["", "", "", "sub", "sub", ""]
    assert [s.agent for s in below.spans] == ["boss", "boss", "boss", "sub", "sub", "boss"]


def test_log_records_join_their_span() -> None:
    def record(name: str, body: Any, number: int = 2, **more: Any) -> dict[str, Any]:
        return {
            "timeUnixNano": str(START),
            "traceId": T1,
            "spanId": f"{number:016x}",
            "eventName": name,
            "body": typed(body),
            **more,
        }

    model = {"gen_ai.operation.name": "chat", "gen_ai.system": "openai", "gen_ai.usage.input_tokens": 5}
    choice = pairs({"event.name": "gen_ai.choice"})
    chat = logs(
        record("gen_ai.user.message", {"content": "hi"}),
        record("", {"message": {"content": "hello"}, "finish_reason": "stop"}, attributes=choice),
        record("app.note", "words", severityText="INFO"),
    )
    for order in ([chat, document(span(1), span(2, model, parent=1))], [document(span(1), span(2, model)), chat]):
        trace = one(*order)
        assert trace.messages == (Message("user", (Text("hi"),)), Message("assistant", (Text("hello"),)))
        assert trace.spans[1].stop_reason == "stop"
        left = attributes(trace, 1)["otel.events"]
        assert [(e["name"], e["attributes"]) for e in left] == [("app.note", {"body": "words", "severity": "INFO"})]
    alone = one(chat)
    assert [(s.kind, s.name, s.start_ns) for s in alone.spans] == [("model", "chat", START)]
    assert len(alone.messages) == 2
    traces, report = read(
        logs(record("app.note", "x", 7), {"body": typed("no trace")}, record("gen_ai.evaluation.result", {}, 8)),
        document(span(1)),
    )
    assert report.lost == {"log record (its span is not here)": 1, "log record (no trace id)": 1}
    assert [s.kind for s in traces[0].spans] == ["judge", "other"]


def test_a_span_that_only_its_details_event_explains() -> None:
    details = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 5, "gen_ai.output.messages": "words"}
    record = {
        "traceId": T1,
        "spanId": f"{1:016x}",
        "eventName": "gen_ai.client.inference.operation.details",
        "attributes": pairs(details),
    }
    trace = one(document(span(1), span(2, {"gen_ai.tool.name": "ring"}, parent=1)), logs(record))
    assert [s.kind for s in trace.spans] == ["model", "tool"]
    assert trace.totals.input_tokens == 5
    assert trace.spans[1].parent_id is None  # it hung below the model call


def test_labels_facts_and_outcomes() -> None:
    event = {
        "name": "gen_ai.evaluation.result",
        "attributes": pairs({"gen_ai.evaluation.name": "ok", "gen_ai.evaluation.score.value": 0.5}),
    }
    resource = {"service.name": "svc", "ethogram.task": "task 7", "ethogram.attempt": 2, "ethogram.seed": 2**63 - 1}
    scored = {"ethogram.outcome.value": 1.0, "ethogram.outcome.by": "tests", "session.id": "s1", "ethogram.meta.k": "v"}
    trace = one(
        document(
            span(1, {**AGENT, **scored}, events=[event]), span(2, {"session.id": "s2"}, parent=1), resource=resource
        )
    )
    assert (trace.head.task, trace.head.attempt, trace.head.seed) == ("task 7", 2, 2**63 - 1)
    assert trace.outcome == Scored(1.0, "tests")
    assert trace.head.meta == {"service.name": "svc", "session.id": "s1", "k": "v"}
    assert attributes(trace, 1)["session.id"] == "s2"
    assert [(label.name, label.value, label.span_id) for label in trace.labels] == [("ok", 0.5, f"{1:016x}")]
    assert trace.head.agent == "span 1"
    missing = one(document(span(1, {"ethogram.outcome.missing": "cancelled", "ethogram.outcome.detail": "ctrl-c"})))
    assert missing.outcome == Missing("cancelled", "ctrl-c")
    odd = one(document(span(1, {"ethogram.outcome.missing": "whim", "ethogram.seed": "x"})))
    assert (odd.outcome, odd.head.seed) == (Missing("unscored"), None)


def test_status_links_kinds_and_dropped_counts() -> None:
    traces, report = read(
        document(
            span(1, status={"code": "STATUS_CODE_ERROR", "message": "broke"}, kind="SPAN_KIND_CLIENT"),
            span(2, status={"code": 1}, kind=2, traceState="a=b", droppedAttributesCount=3, droppedEventsCount="2"),
            span(3, links=[{"traceId": T2, "spanId": "00" * 8, "attributes": pairs({"why": "x"})}]),
            span(4, parentSpanId="0" * 16),
        )
    )
    first, second, third, fourth = traces[0].spans
    assert (first.status, traces[0].text(first.error or "")) == ("error", "broke")  # type: ignore[arg-type]
    assert (second.status, third.status, fourth.parent_id) == ("ok", "unset", None)
    assert attributes(traces[0], 0)["otel.kind"] == "client"
    assert attributes(traces[0], 1)["otel.trace_state"] == "a=b"
    assert attributes(traces[0], 2)["otel.links"] == [{"trace_id": T2, "span_id": "00" * 8, "why": "x"}]
    assert report.lost == {"attributes (dropped by the exporter)": 3, "events (dropped by the exporter)": 2}


def test_good_spans_survive_bad_neighbours() -> None:
    traces, report = read(
        b"not json",
        document(span(1), 5, {"spanId": "x"}, None, {**span(2), "attributes": [7, {"key": "a"}, {"value": 1}, None]}),
        {"resourceSpans": [3, {"scopeSpans": [4]}]},
        {"something": "else"},
        {"resourceMetrics": [{}]},
        logs(5),
        b"[1]",
        document(span(3)),
    )
    assert [s.name for s in traces[0].spans] == ["span 1", "span 2", "span 3"]
    assert [s.where for s in report.skipped] == [
        "line 1",
        "line 2, span 2",
        "line 2, span 3",
        "line 2, span 4",
        "line 3",
        "line 3",
        "line 4",
        "line 6, log 6",
        "line 7",
    ]
    assert "without a trace id" in report.skipped[2].why
    assert report.lost == {"attribute (malformed)": 3, "resourceMetrics": 1}


def test_what_cannot_be_understood_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    traces, report = read(document(span(1, {**CHAT, "llm.output_messages.0.message.content": "hello"})))
    assert report.lost == {"messages (the same in a second dialect)": 1}

    def fail(opened: OpenedSpan) -> Understood:
        if opened.span.name == "span 2" or opened.span.parent_id:
            raise TypeError("odd")
        return understand(opened)

    monkeypatch.setattr(assemble, "understand", fail)
    traces, report = read(document(span(1), span(2), span(3, trace=T2, parent=9)))
    assert [[s.name for s in t.spans] for t in traces] == [["span 1"]]
    assert [s.where for s in report.skipped] == [
        f"trace {T1}, span {2:016x}",
        f"trace {T2}, span {3:016x}",
        f"trace {T2}",
    ]


def test_a_cut_document_gives_what_stood_before_the_cut() -> None:
    data = json.dumps(document(*(span(i, CHAT) for i in range(1, 9))), indent=1).encode()
    counts = set()
    for cut in (*range(0, len(data) - 2, 97), len(data) - 3):
        traces, report = read_traces(bytes_source("t", data[:cut]), "otlp")
        assert report.skipped
        counts.add(sum(len(t.spans) for t in traces))
    assert counts == set(range(9))
    packed = gzip.compress(b"\n".join(json.dumps(document(span(i, {"x": "y" * 5000}))).encode() for i in range(1, 400)))
    traces, report = read_traces(bytes_source("t", packed[: len(packed) * 2 // 3]), "otlp")
    assert report.skipped
    assert sum(len(t.spans) for t in traces) > 0


def test_large_documents_are_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = one(WHOLE)
    monkeypatch.setattr(otlp, "_WHOLE", 64)
    for shape in ([WHOLE], [[WHOLE]], [json.dumps(WHOLE, indent=1).encode()]):
        streamed = one(*shape)
        assert [s.name for s in streamed.spans] == [s.name for s in whole.spans]
        assert streamed.totals == whole.totals
        assert streamed.head.meta == whole.head.meta
    late = {"resourceSpans": [dict(reversed(list(WHOLE["resourceSpans"][0].items())))]}
    assert one(late).head.meta == {"service.name": "svc"}
    traces, report = read(json.dumps({**logs({"traceId": T1, "body": typed("x")}), "resourceMetrics": [{}]}).encode())
    assert not traces
    assert report.lost == {"resourceMetrics": 1, "log record (its span is not here)": 1}


def test_python_json_is_read_too() -> None:
    text = json.dumps(document(span(1, {"big": 5, "half": "x\ud83dy"}), span(2))).replace('"5"', str(10**30))
    traces, report = read(text.encode())
    assert not report.skipped
    assert len(traces[0].spans) == 2
    assert attributes(traces[0], 0)["half"] == "x\ufffdy"
    traces, report = read(text.encode(), document(span(3)))
    assert [s.name for s in traces[0].spans] == ["span 1", "span 2", "span 3"]


def test_wire_values() -> None:
    assert any_value({"arrayValue": {"values": [{"intValue": "1"}, {"doubleValue": "NaN"}]}})[0] == 1
    assert any_value({"kvlistValue": {"values": pairs({"a": [1, "b", {"c": True}]})}}) == {"a": [1, "b", {"c": True}]}
    assert any_value({}) is None
    assert any_value({"odd": 1}) == {"odd": 1}
    assert any_value({"bytesValue": "AAE="}) == "AAE="
    assert any_value({"arrayValue": {}}) == []
    assert key_values([{"key": "a", "value": {"intValue": "x"}}]) == ({}, 1)
    assert hex_id("0x0A", 1) == "0a"
    assert hex_id("not hex", 8) == "not hex"
    assert hex_id(None, 8) == ""
    assert nanos("1700000000000000001") == 1_700_000_000_000_000_001
    assert nanos("2023-11-14T22:13:20Z") == START
    nothing: list[Any] = ["0", 0, None, "", True, []]
    assert [nanos(v) for v in nothing] == [None] * 6
    codes: dict[Any, str] = {0: "unset", 1: "ok", 2: "error", "Error": "error", "STATUS_CODE_OK": "ok", None: "unset"}
    assert {code: status_of(code) for code in codes} == codes
    assert status_of("StatusCode.ERROR") == "error"


def test_rough_handling(rough: Callable[[str, bytes], None]) -> None:
    event = {"name": "exception", "timeUnixNano": "5", "attributes": pairs({"exception.message": "x"})}
    rough("otlp", json.dumps(document(span(1, AGENT, events=[event]), span(2, CHAT, parent=1))).encode())


def test_rough_handling_of_lines(rough: Callable[[str, bytes], None]) -> None:
    record = {"traceId": T1, "spanId": f"{1:016x}", "eventName": "gen_ai.user.message", "body": typed({"content": "x"})}
    rough(
        "otlp",
        json.dumps(document(span(1, {"llm.model_name": "m"}))).encode() + b"\n" + json.dumps(logs(record)).encode(),
    )


@pytest.mark.skipif(not DATA.exists(), reason="../shared/data is not here")
def test_the_canonical_example() -> None:
    """expected.json has no figures for this file; corpora.md says what it holds."""
    path = DATA / "otlp" / "opentelemetry-proto_trace.json"
    source = file_source(path, path.name)
    assert otlp.sniff(peek_at(source)) == 95
    traces, report = read_traces(source, "otlp")
    assert (len(traces), report.skipped, report.lost) == (1, [], {})
    found = traces[0].spans[0]
    assert len(traces[0].spans) == 1
    assert (found.span_id, found.parent_id) == ("eee19b7ec3c1b174", "eee19b7ec3c1b173")
    assert found.seconds == 1.0
    assert attributes(traces[0], 0)["my.span.attr"] == "some value"
    assert traces[0].head.meta == {"service.name": "my.service"}
