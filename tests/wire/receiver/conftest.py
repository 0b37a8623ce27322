"""A receiver with a home of its own, requests in both encodings, and the spans that agents send."""

from __future__ import annotations

import gzip
import http.client
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ethogram.store import Run, open_home
from ethogram.traces import Trace, TraceId
from ethogram.wire.receiver.serving import OtlpService, ServeSettings

T1, T2 = "1" * 32, "2" * 32
BASE = 1_760_000_000_000_000_000
Opened = Callable[..., Any]


def span(
    number: int,
    name: str = "work",
    *,
    trace: str = T1,
    parent: int | None = None,
    start: int = 0,
    end: int = 1,
    **attributes: Any,
) -> dict[str, Any]:
    """A span as OTLP writes it in JSON; `gen_ai__request__model` is the attribute `gen_ai.request.model`."""
    made = {
        "traceId": trace,
        "spanId": f"{number:016x}",
        "name": name,
        "kind": 1,
        "startTimeUnixNano": str(BASE + start * 10**9),
        "endTimeUnixNano": str(BASE + end * 10**9),
        "attributes": [{"key": k.replace("__", "."), "value": value(v)} for k, v in attributes.items()],
    }
    return made | ({"parentSpanId": f"{parent:016x}"} if parent else {})


def value(plain: Any) -> dict[str, Any]:
    if isinstance(plain, int):
        return {"intValue": str(plain)}
    return {"arrayValue": {"values": [value(v) for v in plain]}} if isinstance(plain, list) else {"stringValue": plain}


def agent(number: int = 1, trace: str = T1) -> list[dict[str, Any]]:
    """An agent that asks a model, calls a tool and asks again, in the order in which its spans end."""
    asked = [{"role": "user", "parts": [{"type": "text", "content": "how many pears?"}]}]
    call = {"type": "tool_call", "id": "c1", "name": "stock", "arguments": {"item": "pear"}}
    first = {"role": "assistant", "parts": [call], "finish_reason": "tool_call"}
    seen = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "12"}]}
    last = {"role": "assistant", "parts": [{"type": "text", "content": "There are 12."}], "finish_reason": "stop"}
    chat = {"gen_ai__operation__name": "chat", "gen_ai__request__model": "m-1", "gen_ai__provider__name": "openai"}
    used = {"gen_ai__usage__input_tokens": 20, "gen_ai__usage__output_tokens": 5}
    root = {"gen_ai__operation__name": "invoke_agent", "gen_ai__agent__name": "clerk", "ethogram__task": "pears"}
    tool = {"gen_ai__operation__name": "execute_tool", "gen_ai__tool__name": "stock", "gen_ai__tool__call__id": "c1"}
    given = {"gen_ai__tool__call__arguments": '{"item": "pear"}', "gen_ai__tool__call__result": "12"}
    said = {"gen_ai__input__messages": json.dumps(asked), "gen_ai__output__messages": json.dumps([first])}
    then = {
        "gen_ai__input__messages": json.dumps([*asked, first, seen]),
        "gen_ai__output__messages": json.dumps([last]),
    }
    n = number
    return [
        span(n + 1, "chat m-1", trace=trace, parent=n, start=1, end=2, **chat, **used, **said),
        span(n + 2, "execute_tool stock", trace=trace, parent=n, start=3, end=4, **tool, **given),
        span(n + 3, "chat m-1", trace=trace, parent=n, start=5, end=6, **chat, **used, **then),
        span(n, "invoke_agent clerk", trace=trace, start=0, end=7, **root),
    ]


def document(*spans: dict[str, Any], service: str = "shop") -> dict[str, Any]:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    scope = {"scope": {"name": "test", "version": "1"}, "spans": list(spans)}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}


def protobuf(*spans: dict[str, Any], service: str = "shop") -> bytes:
    """The same request in protobuf."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = service
    scope = resource.scope_spans.add()
    scope.scope.name, scope.scope.version = "test", "1"
    for wire in spans:
        made = scope.spans.add(trace_id=bytes.fromhex(wire["traceId"]), span_id=bytes.fromhex(wire["spanId"]))
        made.parent_span_id = bytes.fromhex(wire.get("parentSpanId", ""))
        made.name, made.kind = wire["name"], wire["kind"]
        made.start_time_unix_nano = int(wire["startTimeUnixNano"])
        made.end_time_unix_nano = int(wire["endTimeUnixNano"])
        for pair in wire["attributes"]:
            held = made.attributes.add(key=pair["key"]).value
            for kind, inner in pair["value"].items():
                if kind == "intValue":
                    held.int_value = int(inner)
                else:
                    held.string_value = inner
    return request.SerializeToString()


def summary(trace: Trace) -> tuple[Any, ...]:
    """All that a trace says, apart from the ids of its own."""
    spans = [msgspec.structs.replace(s, trace_id=TraceId("")) for s in trace.spans]
    texts = {ref: trace.texts[ref] for s in trace.spans for ref in s.refs}
    return trace.head.task, trace.head.agent, trace.answer, trace.head.meta, spans, texts


class Reply:
    """What the server answered."""

    def __init__(self, found: http.client.HTTPResponse) -> None:
        self.status = found.status
        self.headers = {k.lower(): v for k, v in found.getheaders()}
        self.body = found.read()


class Receiver:
    """A running receiver, and a client of it."""

    def __init__(self, service: OtlpService, home: Path) -> None:
        self.service = service
        self.home = home
        self.address = service.start().address
        self.port = int(self.address.rpartition(":")[2])

    def post(self, body: bytes, path: str = "/v1/traces", **headers: str) -> Reply:
        return post(self.port, body, path, **headers)

    def send(self, *spans: dict[str, Any], packed: bool = False, service: str = "shop") -> None:
        body = protobuf(*spans, service=service)
        named = {"content_encoding": "gzip"} if packed else {}
        reply = self.post(gzip.compress(body) if packed else body, **named)
        assert (reply.status, reply.body) == (200, b"")

    def send_json(self, document: dict[str, Any], path: str = "/v1/traces") -> Reply:
        return self.post(json.dumps(document).encode(), path, content_type="application/json")

    @property
    def run(self) -> Run:
        return open_home(str(self.home)).resolve(self.service.run.name)


def post(port: int, body: bytes, path: str = "/v1/traces", **headers: str) -> Reply:
    given = {"content_type": "application/x-protobuf", **headers}
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("POST", path, body, {k.replace("_", "-"): v for k, v in given.items()})
        return Reply(connection.getresponse())
    finally:
        connection.close()


@pytest.fixture(scope="session")
def wire() -> SimpleNamespace:
    """What makes requests: test modules cannot import this one."""
    return SimpleNamespace(
        span=span,
        agent=agent,
        document=document,
        protobuf=protobuf,
        post=post,
        summary=summary,
        T1=T1,
        T2=T2,
        BASE=BASE,
    )


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    """Opens a receiver with the same home each time; leaving it stops it."""

    @contextmanager
    def open_one(**settings: Any) -> Iterator[Receiver]:
        said: list[str] = []
        service = OtlpService(open_home(str(tmp_path / "home")), ServeSettings(port=0, **settings), said.append)
        receiver = Receiver(service, tmp_path / "home")
        try:
            yield receiver
        finally:
            receiver.result = service.close()
            receiver.said = said

    return open_one
