"""The real exporters of OpenTelemetry send to a real receiver, and the traces are those that an import would give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace as api
from opentelemetry._logs import LogRecord
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from ethogram.capture.memory import read_traces
from ethogram.capture.source import file_source

CHAT = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.provider.name": "openai",
    "gen_ai.usage.input_tokens": 12,
    "gen_ai.usage.output_tokens": 3,
}


@pytest.mark.parametrize("compression", list(Compression))
def test_the_exporter_of_opentelemetry(opened: Any, wire: Any, compression: Compression) -> None:
    with opened() as receiver:
        exporter = OTLPSpanExporter(f"{receiver.address}/v1/traces", compression=compression)
        provider = TracerProvider(resource=Resource.create({"service.name": "shop", "ethogram.task": "pears"}))
        provider.add_span_processor(BatchSpanProcessor(exporter))
        tracer = provider.get_tracer("test")
        with tracer.start_as_current_span("invoke_agent clerk", attributes={"gen_ai.operation.name": "invoke_agent"}):
            with tracer.start_as_current_span("chat gpt-4o", attributes=CHAT) as call:
                call.record_exception(ValueError("no pears"))
                call.set_status(api.Status(api.StatusCode.ERROR, "no pears"))
        provider.shutdown()
    (trace,) = receiver.run.traces()
    assert [(s.kind, s.name, s.status, s.input_tokens) for s in trace.spans] == [
        ("agent", "invoke_agent clerk", "unset", None),
        ("model", "chat gpt-4o", "error", 12),
    ]
    assert trace.texts[trace.spans[1].error or ""] == "no pears"
    assert (trace.head.task, trace.head.agent, trace.head.meta["service.name"]) == ("pears", "clerk", "shop")
    assert (receiver.result.spans, receiver.result.traces, receiver.result.rejected) == (2, 1, 0)


def test_live_spans_give_the_trace_that_an_import_of_the_same_spans_gives(
    opened: Any, wire: Any, tmp_path: Path
) -> None:
    spans = [*wire.agent(), *wire.agent(64, wire.T2)]
    (tmp_path / "spans.pb").write_bytes(wire.protobuf(*spans))
    (tmp_path / "spans.json").write_text(json.dumps(wire.document(*spans)))
    wanted = [read_traces(file_source(tmp_path / name, name))[0] for name in ("spans.pb", "spans.json")]
    with opened(redact="none") as receiver:
        receiver.send(*spans, packed=True)
    assert [wire.summary(t) for t in wanted[0]] == [wire.summary(t) for t in wanted[1]]
    assert sorted(map(repr, map(wire.summary, receiver.run.traces()))) == sorted(
        map(repr, map(wire.summary, wanted[0]))
    )


def test_json_and_protobuf_are_the_same_spans(opened: Any, wire: Any) -> None:
    with opened() as receiver:
        receiver.send(*wire.agent())
        reply = receiver.send_json(wire.document(*wire.agent()))
    assert (reply.status, reply.body) == (200, b"{}")
    assert receiver.result.lost == {"span (delivered twice)": 4}
    (trace,) = receiver.run.traces()
    assert len(trace.spans) == 4


def test_log_records_join_their_span(opened: Any, wire: Any) -> None:
    """GenAI events come as log records: the words of a call beside its span."""
    with opened() as receiver:
        tracing = TracerProvider()
        tracing.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{receiver.address}/v1/traces")))
        logging = LoggerProvider()
        logging.add_log_record_processor(SimpleLogRecordProcessor(OTLPLogExporter(f"{receiver.address}/v1/logs")))
        with tracing.get_tracer("test").start_as_current_span("chat gpt-4o", attributes=CHAT) as call:
            about = call.get_span_context()
            for name, body in (("gen_ai.user.message", {"content": "hello"}), ("gen_ai.choice", CHOICE)):
                logging.get_logger("test").emit(
                    LogRecord(timestamp=1, trace_id=about.trace_id, span_id=about.span_id, event_name=name, body=body)
                )
        logging.get_logger("test").emit(LogRecord(timestamp=1, body="of no trace"))
        tracing.shutdown()
        logging.shutdown()
    (trace,) = receiver.run.traces()
    (model,) = trace.spans
    assert [m.text for m in (*trace.conversation(model), *map(trace.message, model.output))] == ["hello", "hi there"]
    assert receiver.result.log_records == 2
    assert receiver.result.rejected == 1


CHOICE = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hi there"}}


def test_metrics_are_counted_and_refused_in_words(opened: Any, wire: Any, caplog: pytest.LogCaptureFixture) -> None:
    with opened() as receiver:
        reader = PeriodicExportingMetricReader(OTLPMetricExporter(f"{receiver.address}/v1/metrics"))
        provider = MeterProvider([reader])
        provider.get_meter("test").create_counter("calls").add(1)
        assert provider.force_flush()
        provider.shutdown()
    assert receiver.result.data_points >= 1
    assert receiver.result.traces == 0


def test_spans_without_usable_ids_are_a_partial_success(opened: Any, wire: Any) -> None:
    good, bad = wire.span(1), wire.span(2) | {"traceId": "sk-proj-" + "a1B2" * 8}
    with opened() as receiver:
        reply = receiver.send_json(wire.document(good, bad))
        assert reply.status == 200
        part = json.loads(reply.body)["partialSuccess"]
        assert part["rejectedSpans"] == "1"
        assert "trace id" in part["errorMessage"]
        broken = wire.protobuf(wire.span(3)).replace(bytes.fromhex(wire.T1), b"\0" * 16)
        answer = ExportTraceServiceResponse.FromString(receiver.post(broken).body)
        assert answer.partial_success.rejected_spans == 1
        assert answer.partial_success.error_message.startswith("span 1: ")
    assert (receiver.result.spans, receiver.result.rejected) == (1, 2)


def test_fields_of_versions_to_come_are_passed_over(opened: Any, wire: Any) -> None:
    request = wire.protobuf(*wire.agent())
    unknown = b"\xfa\x3f\x03abc"  # field 1023
    strange = [one | {"kind": 77, "newField": {"a": 1}, "status": {"code": 9}} for one in wire.agent(64, wire.T2)]
    with opened() as receiver:
        assert receiver.post(request + unknown).status == 200
        assert receiver.send_json({**wire.document(*strange), "newTop": []}).status == 200
    assert sorted(len(t.spans) for t in receiver.run.traces()) == [4, 4]
