"""Bad bodies, large bodies, full queues: every request gets a clear answer, and the server keeps serving."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
import threading
import time
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from ethogram.errors import BadUsage
from ethogram.store import Home, Run, open_home
from ethogram.wire.receiver import ingest
from ethogram.wire.receiver.ingest import Ingest, OtlpRequest
from ethogram.wire.receiver.live_run import LiveRun

BOMB = gzip.compress(b"\0" * (ingest.MAX_BODY + 1))
JSON = {"content_type": "application/json"}
GZIP = {"content_encoding": "gzip"}
BAD = [
    (b"\xff\xff not protobuf", {}, 400, "not OTLP protobuf"),
    (b"\xfa\x3f\x03abc", {}, 400, "no resource in it"),
    (b"{", JSON, 400, "not JSON"),
    (b"\xff", JSON, 400, "not JSON"),
    (b"[" * 100_000, JSON, 400, "not JSON"),
    (b"[1]", JSON, 400, "not an object"),
    (b'{"spans": []}', JSON, 400, "no resourceSpans"),
    (b"not gzip", GZIP, 400, "damaged"),
    (gzip.compress(b"x" * 999)[:-9], GZIP, 400, "cut off"),
    (BOMB, GZIP, 400, "unpacks to more than"),
    (b"x", {"content_type": "text/plain"}, 415, "content type"),
    (b"x", {"content_encoding": "br"}, 415, "content encoding"),
    (b"x", {"host": "evil.example"}, 403, "not called evil.example"),
    (b"x", {"origin": "https://evil.example"}, 403, "pages of other sites"),
]


def test_bad_requests_are_answered_in_a_sentence_and_the_next_good_one_is_kept(opened: Any, wire: Any) -> None:
    with opened() as receiver:
        for body, headers, status, words in BAD:
            reply = receiver.post(body, **headers)
            assert reply.status == status, words
            assert words in reply.body.decode("utf-8", "replace")
        assert receiver.post(b"", path="/v1/nothing").status == 404
        for path in ("/v1/logs", "/v1/metrics"):
            assert receiver.post(b"\xff\xff\xff", path).status == 400
            assert receiver.post(b"nonsense", path, **JSON).status == 400
        receiver.send(*wire.agent())
    assert receiver.result.traces == 1
    assert receiver.result.malformed == sum(status == 400 for *_, status, _ in BAD) + 4


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_no_body_ends_the_server(tmp_path_factory: pytest.TempPathFactory, wire: Any, data: Any) -> None:
    """Bodies with a few bytes changed, cut or doubled: each is answered, and the thread that reads them goes on."""
    home = open_home(str(tmp_path_factory.mktemp("home")))
    live = LiveRun(home, "live", settle=60.0, redact="default", say=print)
    answers: list[int] = []
    for is_json in (False, True):
        whole = json.dumps(wire.document(*wire.agent())).encode() if is_json else wire.protobuf(*wire.agent())
        body = bytearray(whole)
        for at in data.draw(st.lists(st.integers(0, len(body) - 1), max_size=4)):
            body[at % len(body)] = data.draw(st.sampled_from([*b'{}[]",:0', 0xFF, 0x0A]))
        cut = bytes(body[: data.draw(st.integers(0, len(body)))])
        for what in ("traces", "logs", "metrics"):
            request = OtlpRequest(what, cut, False, is_json, lambda reply: answers.append(reply.status))
            live.ingest._handle([request])
    live.give_up()
    assert len(answers) == 6
    assert set(answers) <= {200, 400}


class Overtaken(Home):
    """A home in which another process makes every run just before this one does."""

    def create(self, name: str, kind: str, **details: Any) -> Run:
        """Too late."""
        Home(self.files).create(name, kind, **details)
        return super().create(name, kind, **details)


def test_a_run_that_another_process_made_meanwhile_is_taken(home: Home) -> None:
    live = LiveRun(Overtaken(home.files), "live", settle=60.0, redact="default", say=print)
    live.give_up()
    assert live.run.info.kind == "serve"


def test_answers_have_the_encoding_of_the_request(opened: Any) -> None:
    with opened() as receiver:
        as_json = receiver.post(b"{", **JSON)
        assert as_json.headers["content-type"] == "application/json"
        assert json.loads(as_json.body)["code"] == 3
        as_protobuf = receiver.post(b"\xff")
        assert as_protobuf.headers["content-type"] == "application/x-protobuf"
        assert as_protobuf.body.startswith(b"\x08\x03\x12")
        for empty in (receiver.post(b""), receiver.post(b"{}", **JSON)):
            assert empty.status == 200


def test_a_body_that_is_too_large_is_refused(opened: Any, wire: Any) -> None:
    with opened() as receiver:
        connection = http.client.HTTPConnection("127.0.0.1", receiver.port, timeout=20)
        connection.putrequest("POST", "/v1/traces")
        connection.putheader("content-type", "application/x-protobuf")
        connection.putheader("content-length", str(ingest.MAX_BODY + 1))
        connection.endheaders()
        reply = connection.getresponse()
        assert (reply.status, b"64 MiB" in reply.read()) == (413, True)
        connection.close()
        receiver.send(*wire.agent())


def test_clients_that_go_away_in_mid_request(opened: Any, wire: Any) -> None:
    with opened() as receiver:
        for part in (b"POST /v1/tr", b"POST /v1/traces HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 99\r\n"
                     b"content-type: application/x-protobuf\r\n\r\nabc"):  # fmt: skip
            with socket.create_connection(("127.0.0.1", receiver.port)) as client:
                client.sendall(part)
        receiver.send(*wire.agent())
    assert (receiver.result.requests, receiver.result.traces) == (1, 1)


def test_a_large_trace(opened: Any, wire: Any) -> None:
    """Three megabytes in one span, three thousand spans in one trace."""
    words = "a long observation " * 160_000
    spans = [wire.span(i + 2, "step", parent=1, start=i, end=i + 1) for i in range(3000)]
    with opened() as receiver:
        receiver.post(
            zlib.compress(wire.protobuf(wire.span(1, "root", input__value=words), *spans)), content_encoding="deflate"
        )
    (trace,) = receiver.run.traces()
    assert len(trace.spans) == 3001
    assert trace.text(trace.spans[0].arguments or "") == words


def test_a_full_queue_asks_to_come_back_and_nothing_is_lost(
    opened: Any, wire: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The thread that handles requests starts late: until then a second one finds no room. The exporter retries."""
    with opened() as receiver:
        service = receiver.service
        live = service._live
        live.ingest.close()
        slow = Ingest(live._spool, live._writing._joining, live._writer.redactor, waiting=100)
        live.ingest = service.receiver._ingest = slow
        first = threading.Thread(target=receiver.send, args=wire.agent())
        first.start()
        while not slow._requests:
            time.sleep(0.01)
        refused = receiver.post(wire.protobuf(wire.span(99)))
        assert (refused.status, refused.headers["retry-after"]) == (503, "1")
        assert b"later" in refused.body
        threading.Timer(0.5, slow.start).start()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{receiver.address}/v1/traces")))
        provider.get_tracer("test").start_span("patient").end()
        provider.shutdown()
        first.join()
    assert sorted(len(t.spans) for t in receiver.run.traces()) == [1, 4]
    assert receiver.result.busy >= 2


def test_what_cannot_be_served_is_refused_at_the_start(opened: Any, tmp_path: Any) -> None:
    with opened() as receiver:
        for settings, words in (
            ({"run": "live"}, "another process holds the spool"),
            ({"run": "other", "redact": "default,arguments=drop"}, "cannot name single fields"),
            ({"run": "no/name"}, "cannot name a run"),
        ):
            with pytest.raises(BadUsage, match=words), opened(**settings):
                pass
        open_home(str(receiver.home)).create("imported", "import")
        with pytest.raises(BadUsage, match="is a import run"), opened(run="imported"):
            pass
