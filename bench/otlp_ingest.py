"""Claims: spans over OTLP/HTTP cost a twentieth of the CPU that arize-phoenix takes for the same spans, from the request to
the stored trace; of what was acknowledged nothing is lost by SIGKILL.

    python bench/otlp_ingest.py [--quick]

Two sets of spans in protobuf with gzip, 512 a request as exporters send them: traces of agents whose context grows, and
small traces of light spans. Both servers run as processes of their own on the same requests; CPU seconds are counted from the moment that
a server answers until every span is stored. For the loss both are killed right after the last acknowledgement and started
again. Where arize-phoenix is not installed (see `_phoenix.py`) only our side is measured.
"""

from __future__ import annotations

import gzip
import http.client
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
from _common import QUICK, table, verdict
from _phoenix import LEFT_OUT, PHOENIX, phoenix_command
from imports import agent_trace

from ethogram.store import open_home

TRACES = 200 if QUICK else 1500
LIGHT = 2_000 if QUICK else 10_000
THEIR_SHARE = 4
"""Phoenix gets every fourth request only: it would take minutes otherwise, and what is compared is CPU per span."""
AT_LEAST = 20.0
BATCH = 512


def span_message(span: Any, wire: dict[str, Any]) -> None:
    """One span of JSON as protobuf."""
    span.trace_id, span.span_id = bytes.fromhex(wire["traceId"]), bytes.fromhex(wire["spanId"])
    span.parent_span_id = bytes.fromhex(wire.get("parentSpanId", ""))
    span.name, span.kind = wire["name"], 1
    span.start_time_unix_nano, span.end_time_unix_nano = int(wire["startTimeUnixNano"]), int(wire["endTimeUnixNano"])
    for pair in wire["attributes"]:
        span.attributes.add(key=pair["key"]).value.string_value = pair["value"]["stringValue"]


def bodies(spans: list[dict[str, Any]]) -> list[tuple[bytes, int]]:
    """Requests as an exporter sends them: packed, with how many spans each holds."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    made = []
    for start in range(0, len(spans), BATCH):
        request = ExportTraceServiceRequest()
        resource = request.resource_spans.add()
        resource.resource.attributes.add(key="service.name").value.string_value = "bench"
        scope = resource.scope_spans.add()
        scope.scope.name = "bench"
        for wire in spans[start : start + BATCH]:
            span_message(scope.spans.add(), wire)
        made.append((gzip.compress(request.SerializeToString(), 6), len(scope.spans)))
    return made


def agents() -> list[dict[str, Any]]:
    """Spans of agents in the order in which they end, eight agents at a time."""
    rng = random.Random(2)
    traces = []
    for _ in range(TRACES):
        root, *rest = agent_trace(rng)["resourceSpans"][0]["scopeSpans"][0]["spans"]
        traces.append([*rest, root])
    spans = []
    for start in range(0, TRACES, 8):
        group = traces[start : start + 8]
        spans += [span for together in zip(*group, strict=True) for span in together]
    return spans


def light() -> list[dict[str, Any]]:
    """Traces of an agent and three model calls that do not repeat each other."""
    rng = random.Random(3)
    spans = []
    for _ in range(LIGHT // 4):
        root, *_ = agent_trace(rng)["resourceSpans"][0]["scopeSpans"][0]["spans"]
        calls = [root]
        for _ in range(3):
            _, call, *_ = agent_trace(rng)["resourceSpans"][0]["scopeSpans"][0]["spans"]
            calls.insert(0, call | {"traceId": root["traceId"], "parentSpanId": root["spanId"]})
        spans += calls
    return spans


def cpu_of(pid: int) -> float:
    """CPU seconds of a process and of those of its children that ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def send(port: int, requests: list[tuple[bytes, int]]) -> int:
    """Send all requests over one connection; gives how many spans were acknowledged."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    headers = {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}
    acknowledged = 0
    for body, count in requests:
        while True:
            connection.request("POST", "/v1/traces", body, headers)
            reply = connection.getresponse()
            reply.read()
            if reply.status == 200:
                break
            if reply.status not in (429, 503):
                raise SystemExit(f"status {reply.status}")
            time.sleep(float(reply.getheader("Retry-After", "0.2")))
        acknowledged += count
    connection.close()
    return acknowledged


class Ours:
    """`ethogram serve`."""

    name = "ethogram"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> int:
        command = [sys.executable, "-m", "ethogram.cli.main", "serve", "--port", "0", "--home", str(self.folder)]
        command += ["--store-after", "1"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        return int(self.process.stdout.readline().strip().rpartition(":")[2])

    def stored(self) -> int:
        if not (self.folder / "runs" / "live").exists():
            return 0
        return sum(entry.totals.spans for entry in open_home(str(self.folder)).resolve("live").entries)

    def stop(self, kind: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(kind)
        self.process.wait()


class Phoenix(Ours):
    """arize-phoenix with its SQLite."""

    name = "arize-phoenix"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        folder.mkdir(parents=True, exist_ok=True)

    def start(self) -> int:
        port = free_port()
        command, settings = phoenix_command(self.folder, port, free_port())
        env = {**os.environ, **settings, "PHOENIX_HOST": "127.0.0.1"}
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env, text=True
        )
        for _ in range(1500):
            if self.process.poll() is not None:
                raise SystemExit(f"arize-phoenix ended with {self.process.returncode}")
            try:
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                connection.request("GET", "/healthz")
                connection.getresponse().read()
                time.sleep(2.0)
                return port
            except OSError:
                time.sleep(0.2)
        self.process.kill()
        raise SystemExit("arize-phoenix did not answer within five minutes")

    def stored(self) -> int:
        base = sqlite3.connect(f"file:{self.folder / 'phoenix.db'}?mode=ro", uri=True, timeout=60)
        try:
            return int(base.execute("SELECT count(*) FROM spans").fetchone()[0])
        finally:
            base.close()


def free_port() -> int:
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def cost(side: Ours, requests: list[tuple[bytes, int]]) -> tuple[int, float]:
    """How many spans were stored, and the CPU seconds that it took."""
    port = side.start()
    assert side.process is not None
    before = cpu_of(side.process.pid)
    sent = send(port, requests)
    deadline = time.monotonic() + 600
    while side.stored() < sent and time.monotonic() < deadline:
        time.sleep(0.5)
    spent = cpu_of(side.process.pid) - before
    stored = side.stored()
    side.stop(signal.SIGTERM)
    return stored, spent


def loss(side: Ours, requests: list[tuple[bytes, int]]) -> tuple[int, int]:
    """How many spans were acknowledged, and how many of them are there after SIGKILL and a new start."""
    port = side.start()
    sent = send(port, requests)
    side.stop(signal.SIGKILL)
    side.start()
    seen, calm = -1, 0
    while calm < 6:  # until nothing more appears
        now = side.stored()
        calm, seen = (calm + 1 if now == seen else 0), now
        time.sleep(1.0)
    side.stop(signal.SIGTERM)
    return sent, side.stored()


def sides(top: Path) -> Iterator[Ours]:
    yield Ours(top / "ours")
    if PHOENIX:
        yield Phoenix(top / "theirs")


def main() -> bool:
    """Measure, print, and say what held."""
    if not PHOENIX:
        print(LEFT_OUT)
    rows: list[list[Any]] = []
    claims = []
    for make in (agents, light):
        requests = bodies(make())
        size = sum(len(gzip.decompress(body)) for body, _ in requests) / sum(count for _, count in requests)
        rates = {}
        for number, place in enumerate(("cost", "loss")):
            with tempfile.TemporaryDirectory(prefix="ethogram-bench-") as top:
                for side in sides(Path(top)):
                    part = requests if side.name == Ours.name else requests[::THEIR_SHARE]
                    if number == 0:
                        stored, spent = cost(side, part)
                        rates[side.name] = stored / spent
                        rows.append([f"{make.__name__}, {side.name}", size, stored, spent, stored / spent, "–"])
                    elif make is agents:
                        sent, there = loss(side, part[:10])
                        rows.append([f"{place}, {side.name}", size, sent, "–", "–", sent - there])
                        if side.name == Ours.name:
                            claims.append(
                                (f"{sent - there} of {sent} acknowledged spans lost by SIGKILL", sent == there)
                            )
        if Phoenix.name in rates:
            times = rates[Ours.name] / rates[Phoenix.name]
            claims.append((f"{make.__name__}: {times:.1f} times the spans per CPU second", times >= AT_LEAST))
    table("otlp ingest", ["what", "bytes/span", "spans", "CPU s", "spans/CPU s", "lost"], rows)
    return all([verdict(claim, held) for claim, held in claims])


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
