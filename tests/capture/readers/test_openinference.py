"""Span lists of Phoenix and of the console exporter."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ethogram.capture.intake import SourceReport
from ethogram.capture.memory import read_traces
from ethogram.capture.peek import peek_at
from ethogram.capture.readers import openinference
from ethogram.capture.source import bytes_source
from ethogram.traces import Message, Text, Trace

T1, T2 = "a" * 32, "b" * 32


def span(number: int, kind: str, attributes: dict[str, Any], *, trace: str = T1, **more: Any) -> dict[str, Any]:
    return {
        "id": f"U3Bhbjo{number}",
        "name": f"span {number}",
        "context": {"trace_id": trace, "span_id": f"{number:016x}"},
        "span_kind": kind,
        "parent_id": None,
        "start_time": f"2026-01-02T03:04:{number:02d}.000001+00:00",
        "end_time": f"2026-01-02T03:04:{number:02d}.500001+00:00",
        "status_code": "OK",
        "status_message": "",
        "attributes": attributes,
        "events": [],
        **more,
    }


NESTED = {
    "llm": {
        "model_name": "m",
        "token_count": {"prompt": 10, "completion": 2, "total": 12, "prompt_details": {"cache_read": 4}},
        "input_messages": [{"message": {"role": "user", "content": "hi"}}],
        "output_messages": [{"message": {"role": "assistant", "content": "hello"}}],
        "invocation_parameters": '{"temperature": 0.5}',
        "tools": [{"tool": {"json_schema": {"name": "ring"}}}],
    },
    "input": {"value": '{"messages": []}', "mime_type": "application/json"},
    "metadata": {"team": "x"},
}
FLAT = {
    "llm.model_name": "m",
    "llm.token_count.prompt": 10,
    "llm.token_count.completion": 2,
    "llm.token_count.total": 12,
    "llm.token_count.prompt_details.cache_read": 4,
    "llm.input_messages.0.message.role": "user",
    "llm.input_messages.0.message.content": "hi",
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.content": "hello",
    "llm.invocation_parameters": '{"temperature": 0.5}',
    "llm.tools.0.tool.json_schema": {"name": "ring"},
    "metadata": {"team": "x"},
}
WHOLE = [
    span(3, "TOOL", {"tool": {"name": "ring"}, "output": {"value": "ding"}}, parent_id=f"{1:016x}"),
    span(2, "LLM", NESTED, parent_id=f"{1:016x}"),
    span(1, "AGENT", {"agent": {"name": "bob"}, "output": {"value": "done"}}),
]


def read(data: bytes) -> tuple[list[Trace], SourceReport]:
    return read_traces(bytes_source("t", data), "openinference")


def attributes(trace: Trace, number: int) -> dict[str, Any]:
    ref = trace.spans[number].attributes
    found: dict[str, Any] = {} if ref is None else json.loads(trace.text(ref))
    return found


@pytest.mark.parametrize("inner", [NESTED, FLAT])
def test_array_lines_and_documents(inner: dict[str, Any]) -> None:
    spans = [WHOLE[0], span(2, "LLM", inner, parent_id=f"{1:016x}"), WHOLE[2]]
    for data in (
        json.dumps(spans).encode(),
        json.dumps(spans, indent=2).encode(),
        b"\n".join(json.dumps(s).encode() for s in spans),
        b"\n".join(json.dumps(s, indent=2).encode() for s in spans),
    ):
        assert openinference.sniff(peek_at(bytes_source("t", data))) == 90
        traces, report = read(data)
        assert (len(traces), report.skipped, report.lost) == (1, [], {})
        trace = traces[0]
        assert [(s.kind, s.name) for s in trace.spans] == [("agent", "span 1"), ("model", "span 2"), ("tool", "ring")]
        model = trace.spans[1]
        assert (model.model, model.params, model.status) == ("m", {"temperature": 0.5}, "ok")
        assert (model.input_tokens, model.cache_read_tokens, model.output_tokens) == (6, 4, 2)
        assert model.seconds == 0.5
        assert trace.messages == (Message("user", (Text("hi"),)), Message("assistant", (Text("hello"),)))
        assert (trace.answer, trace.head.agent, trace.spans[2].agent) == ("done", "bob", "bob")
        assert attributes(trace, 1)["llm.tools.0.tool.json_schema"] == {"name": "ring"}
        assert attributes(trace, 1)["metadata"] == {"team": "x"}
        assert attributes(trace, 1)["id"] == "U3Bhbjo2"


def test_the_console_exporter() -> None:
    printed = {
        "name": "chat m",
        "context": {"trace_id": f"0x{T1}", "span_id": f"0x{1:016x}", "trace_state": "[]"},
        "kind": "SpanKind.CLIENT",
        "parent_id": f"0x{9:016x}",
        "start_time": "2026-01-02T03:04:05.000000Z",
        "end_time": "2026-01-02T03:04:06.000000Z",
        "status": {"status_code": "ERROR", "description": "broke"},
        "attributes": {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 3},
        "events": [{"name": "exception", "timestamp": "2026-01-02T03:04:06Z", "attributes": {"exception.type": "E"}}],
        "links": [{"context": {}}],
        "resource": {"attributes": {"service.name": "svc"}, "schema_url": ""},
    }
    traces, report = read(json.dumps(printed, indent=4).encode())
    assert not report.skipped
    found = traces[0].spans[0]
    assert (found.span_id, found.parent_id, found.kind) == (f"{1:016x}", f"{9:016x}", "model")
    assert (found.status, traces[0].text(found.error or "")) == ("error", "broke")  # type: ignore[arg-type]
    assert traces[0].head.meta == {"service.name": "svc"}
    left = attributes(traces[0], 0)
    assert (left["otel.kind"], left["otel.links"]) == ("client", [{"context": {}}])
    assert left["otel.events"][0]["attributes"] == {"exception.type": "E"}


def test_rows_of_the_spans_table() -> None:
    row = {
        "name": "llm",
        "span_kind": "LLM",
        "parent_id": None,
        "start_time": 1_700_000_000_000,
        "end_time": 1_700_000_001_000,
        "status_code": "OK",
        "context.trace_id": T1,
        "context.span_id": f"{1:016x}",
        "attributes.llm.model_name": "m",
        "attributes.llm.token_count.prompt": 5.0,
        "attributes.tool.name": None,
        "attributes.llm.input_messages": [{"message": {"role": "user", "content": "hi"}}],
    }
    data = json.dumps([row]).encode()
    assert openinference.sniff(peek_at(bytes_source("t", data))) == 85
    traces, report = read(data)
    assert not report.skipped
    found = traces[0].spans[0]
    assert (found.kind, found.model, found.input_tokens, found.tool) == ("model", "m", 5, None)
    assert found.start_ns == 1_700_000_000_000_000_000


def test_annotations_evaluations_and_lifted_exceptions() -> None:
    event = {"name": "exception", "timestamp": "2026-01-02T03:04:05Z", "message": "bad", "type": "ValueError"}
    item = span(
        1,
        "CHAIN",
        {"evaluations.0.evaluation.name": "tone", "evaluations.0.evaluation.score": 0.5},
        status_code="ERROR",
        events=[event, 5],
        annotations=[{"name": "ok", "annotator_kind": "HUMAN", "result": {"label": "good", "score": 1}}, "odd"],
        cumulative_error_count=1,
    )
    traces, report = read(json.dumps([item]).encode())
    assert not report.skipped
    trace = traces[0]
    assert [(n.name, n.value, n.source) for n in trace.labels] == [
        ("tone", 0.5, "import"),
        ("ok", 1.0, "hand"),
        ("ok.label", "good", "hand"),
    ]
    assert {n.span_id for n in trace.labels} == {f"{1:016x}"}
    assert trace.text(trace.spans[0].error or "") == "ValueError: bad"  # type: ignore[arg-type]
    assert attributes(trace, 0)["cumulative_error_count"] == 1
    assert attributes(trace, 0)["openinference.span.kind"] == "CHAIN"


def test_a_retriever_and_traces_that_interleave() -> None:
    documents = {"documents": [{"document": {"content": "a", "score": 0.1}}, {"document": {"content": "b"}}]}
    spans = [
        span(1, "CHAIN", {}),
        span(1, "RETRIEVER", {"input": {"value": "q"}, "retrieval": documents}, trace=T2),
        span(2, "UNKNOWN", {}),
    ]
    traces, report = read(json.dumps(spans).encode())
    assert [len(t.spans) for t in traces] == [2, 1]
    found = traces[1].spans[0]
    assert (found.kind, traces[1].text(found.arguments or "")) == ("retrieval", "q")  # type: ignore[arg-type]
    assert json.loads(traces[1].text(found.result or "")) == [{"content": "a", "score": 0.1}, {"content": "b"}]  # type: ignore[arg-type]
    assert report.lost == {}


def test_bad_spans_are_reported_and_good_ones_kept() -> None:
    spans = [WHOLE[2], 5, {"context": {}}, {**WHOLE[1], "attributes": "x", "events": 7, "start_time": []}, None]
    traces, report = read(json.dumps(spans).encode())
    assert [s.name for s in traces[0].spans] == ["span 1", "span 2"]
    assert [s.where for s in report.skipped] == ["element 1", "element 2", "element 4"]
    strict = json.dumps(spans).replace('"U3Bhbjo1"', "NaN").encode()
    again, report = read(strict)
    assert [s.name for s in again[0].spans] == ["span 1", "span 2"]
    assert len(report.skipped) == 3


def test_a_cut_array_keeps_what_came_whole() -> None:
    data = json.dumps(WHOLE).encode()
    counts = set()
    for cut in (*range(1, len(data) - 1, 31), len(data) - 1):
        traces, report = read(data[:cut])
        assert report.skipped
        counts.add(sum(len(t.spans) for t in traces))
    assert counts == {0, 1, 2, 3}


@pytest.mark.parametrize(
    "data",
    [b"[]", b"{}", b'[{"context": "words"}]', b'[{"context": {"trace_id": 1}}]', b'{"resourceSpans": []}', b"\x00\x01"],
)
def test_other_content_is_not_claimed(data: bytes) -> None:
    assert openinference.sniff(peek_at(bytes_source("t", data))) == 0


def test_rough_handling(rough: Callable[[str, bytes], None]) -> None:
    rough("openinference", json.dumps(WHOLE).encode())


def test_rough_handling_of_lines(rough: Callable[[str, bytes], None]) -> None:
    rough("openinference", b"\n".join(json.dumps(s).encode() for s in WHOLE[1:]))
