"""From requests to the spool: decoded, redacted, synced in groups, and only then acknowledged.

One thread does it, so that the loop that speaks HTTP never waits for a disk: while a group is synced the next one
gathers. When more waits than there is room for, clients are told to come back.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable
from typing import Any

import msgspec

from ethogram.capture.intake import RECORD_ERRORS
from ethogram.result import Result
from ethogram.store import Redactor
from ethogram.store.spool import Spool

from .batch import CleanPieces, RequestBatch, protobuf_message, spool_lines
from .joining import Joining

MAX_BODY = 64 << 20
"""Bytes of a request, packed or unpacked."""
MAX_WAITING = 128 << 20
"""Bytes of requests that wait in memory."""
MAX_SPOOL = 4 << 30
"""Bytes that wait on disk to be written as traces."""
GROUP_BYTES = 8 << 20
RETRY_SECONDS = 1


class OtlpReply(msgspec.Struct, frozen=True):
    """What a request is answered: a status and, for errors, one sentence."""

    status: int = 200
    why: str = ""
    rejected: int = 0


class IngestCounts(Result, kw_only=True):
    """What came in since the server began."""

    requests: int = 0
    spans: int = 0
    log_records: int = 0
    data_points: int = 0
    rejected: int = 0
    malformed: int = 0
    busy: int = 0
    redactions: dict[str, int] = {}
    lost: dict[str, int] = {}


class OtlpRequest(msgspec.Struct):
    """One request on its way; `reply` is called once, from the thread that handled it."""

    what: str
    body: bytes
    packed: bool
    is_json: bool
    reply: Callable[[OtlpReply], None]


class Ingest:
    """Takes requests, and acknowledges what is durable."""

    def __init__(self, spool: Spool, joining: Joining, redactor: Redactor, *, waiting: int = MAX_WAITING) -> None:
        """Nothing happens before `start`; `waiting` is how many bytes of requests may wait in memory."""
        self.counts = IngestCounts()
        self._spool = spool
        self._joining = joining
        self._redactor = redactor
        self._clean = CleanPieces()
        self._most = waiting
        self._requests: list[OtlpRequest] = []
        self._bytes = 0
        self._ready = threading.Condition()
        self._over = False
        self._thread = threading.Thread(target=self._run, name="otlp ingest", daemon=True)

    def start(self) -> None:
        """Begin to handle requests."""
        self._thread.start()

    def has_room(self, size: int) -> bool:
        """Whether a request of this size may come now; an empty queue takes any."""
        room = self._bytes == 0 or self._bytes + size <= self._most
        if not room or self._spool.held > MAX_SPOOL:
            self.counts.busy += 1
            return False
        return True

    def offer(self, request: OtlpRequest) -> None:
        """A request with all of its body."""
        with self._ready:
            self._requests.append(request)
            self._bytes += len(request.body)
            self._ready.notify()

    def close(self) -> None:
        """Handle what has come, and end."""
        with self._ready:
            self._over = True
            self._ready.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._ready:
                while not self._requests and not self._over:
                    self._ready.wait()
                group, size = self._next_group()
            if not group:
                return
            self._handle(group)
            with self._ready:
                self._bytes -= size

    def _next_group(self) -> tuple[list[OtlpRequest], int]:
        size = count = 0
        for request in self._requests:
            count, size = count + 1, size + len(request.body)
            if size >= GROUP_BYTES:
                break
        group, self._requests = self._requests[:count], self._requests[count:]
        return group, size

    def _handle(self, group: list[OtlpRequest]) -> None:
        """One group: every request is answered, those that were kept after the sync."""
        replies: list[tuple[OtlpRequest, OtlpReply]] = []
        batches: list[RequestBatch] = []
        for request in group:
            self.counts.requests += 1
            batch = RequestBatch()
            try:
                reply = self._read(request, batch)
                batches.append(batch)
            except RECORD_ERRORS as error:
                self.counts.malformed += 1
                reply = OtlpReply(400, self._redactor.redact(str(error), "error").text)
            replies.append((request, reply))
        try:
            self.keep(batches)
        except OSError as error:
            self.counts.busy += len(batches)
            full = OtlpReply(503, f"the spool cannot be written: {error.strerror or error}; free some space there")
            replies = [(request, full if reply.status == 200 else reply) for request, reply in replies]
        for request, reply in replies:
            request.reply(reply)

    def _read(self, request: OtlpRequest, batch: RequestBatch) -> OtlpReply:
        body = unpacked_body(request.body) if request.packed else request.body
        if request.what == "metrics":
            points = _data_points(body, request.is_json)
            self.counts.data_points += points
            return OtlpReply(rejected=points, why="metrics are not kept here; set OTEL_METRICS_EXPORTER=none")
        batch.gather(request.what, body, is_json=request.is_json)
        return OtlpReply(rejected=batch.rejected, why=self._redactor.redact(batch.why, "error").text)

    def keep(self, batches: list[RequestBatch]) -> None:
        """Redact what came, sync it, and let it wait for the rest of its traces."""
        for batch in batches:
            batch.redact(self._redactor, self._clean)
        number_of = self._joining.number_of
        lines = [line for batch in batches if batch.filled for line in spool_lines(batch, number_of)]
        if lines:
            position = self._spool.add([line for _, _, line, _, _ in lines])
            self._joining.add(lines, position, time.monotonic())
        for batch in batches:
            self.counts.spans += len(batch.spans)
            self.counts.log_records += len(batch.events)
            self.counts.rejected += batch.rejected
            _add(self.counts.redactions, batch.redactions)
            _add(self.counts.lost, batch.report.lost)


def unpacked_body(body: bytes) -> bytes:
    """A body that was sent with gzip or deflate; raises `ValueError` where it is damaged or too large."""
    stream = zlib.decompressobj(47)
    try:
        data = stream.decompress(body, MAX_BODY + 1)
    except zlib.error as error:
        raise ValueError(f"the compression of the body is damaged: {error}") from None
    if len(data) > MAX_BODY:
        raise ValueError(f"the body unpacks to more than {MAX_BODY >> 20} MiB; send smaller batches")
    if not stream.eof:
        raise ValueError("the compressed body is cut off")
    return data


def _data_points(body: bytes, is_json: bool) -> int:
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    if is_json:
        try:
            return len(msgspec.json.decode(body).get("resourceMetrics", ()))
        except (msgspec.DecodeError, AttributeError, TypeError) as error:
            raise ValueError(f"the body is not OTLP in JSON: {error}") from None
    points = 0
    for resource in protobuf_message(ExportMetricsServiceRequest, body).resource_metrics:
        for metric in (m for scope in resource.scope_metrics for m in scope.metrics):
            kind = metric.WhichOneof("data")
            points += len(getattr(metric, kind).data_points) if kind else 0
    return points


def _add(counts: dict[str, int], more: dict[str, Any]) -> None:
    for name, count in more.items():
        counts[name] = counts.get(name, 0) + count
