"""Phoenix beside our viewer: a server of its own, traces sent to it by OTLP, and the addresses of its pages.

It is not among what this project installs. Where `phoenix` is on the path, or `ETHOGRAM_PHOENIX` names it (in a scratch
environment: `pip install arize-phoenix`), it is measured; else a sentence says that it was left out.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PHOENIX = os.environ.get("ETHOGRAM_PHOENIX") or shutil.which("phoenix")
LEFT_OUT = "Phoenix was left out: it is not installed (pip install arize-phoenix, and name it in ETHOGRAM_PHOENIX)"
IDS = ("traceId", "spanId", "parentSpanId")
BATCH = 2_000
"""Spans of one request."""


def phoenix_command(folder: Path, port: int, grpc_port: int) -> tuple[list[str], dict[str, str]]:
    """How it is started over a folder of its own, and what it is told by the environment."""
    settings = {
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(grpc_port),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    return [str(PHOENIX), "serve"], settings


def send(address: str, log: Path) -> str:
    """Send an OTLP log, its spans a moment ago, for the lists show the last days; gives the first trace's id."""
    from google.protobuf import json_format
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    first, number, begun = "", 0, time.time_ns() - 600_000_000_000
    for line in log.read_text(encoding="utf-8").splitlines():
        for resource, scope, spans in _batches(json.loads(line)):
            first = first or str(spans[0]["traceId"])
            for span in spans:
                span["startTimeUnixNano"] = str(begun + number * 1_000_000)
                span["endTimeUnixNano"] = str(begun + (number + 1) * 1_000_000)
                number += 1
            message = ExportTraceServiceRequest()
            held = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}]}
            json_format.ParseDict(_with_bytes(held), message)
            headers = {"content-type": "application/x-protobuf"}
            request = urllib.request.Request(f"{address}/v1/traces", message.SerializeToString(), headers)
            urllib.request.urlopen(request, timeout=60).read()
    return first


def _batches(log: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]]:
    for resource in log["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            spans = scope["spans"]
            for at in range(0, len(spans), BATCH):
                yield resource.get("resource", {}), scope.get("scope", {}), spans[at : at + BATCH]


def _with_bytes(value: Any) -> Any:
    """OTLP writes ids in hexadecimal, protobuf's JSON in base64."""
    if isinstance(value, dict):
        return {
            name: base64.b64encode(bytes.fromhex(one)).decode() if name in IDS else _with_bytes(one)
            for name, one in value.items()
        }
    return [_with_bytes(one) for one in value] if isinstance(value, list) else value


def project(address: str) -> str:
    """The address of the project that traces are sent to."""
    found = json.loads(urllib.request.urlopen(f"{address}/v1/projects", timeout=60).read())["data"]
    return f"{address}/projects/{next(one['id'] for one in found if one['name'] == 'default')}"


def wait_for_spans(address: str, wanted: int, patience: float = 180.0) -> int:
    """It stores what it was sent later on; gives how many spans it has at last."""
    query = json.dumps({"query": "{ projects { edges { node { name recordCount } } } }"}).encode()
    known, until = 0, time.monotonic() + patience
    while known < wanted and time.monotonic() < until:
        headers = {"content-type": "application/json"}
        reply = json.loads(
            urllib.request.urlopen(urllib.request.Request(f"{address}/graphql", query, headers), timeout=60).read()
        )
        nodes = [edge["node"] for edge in reply["data"]["projects"]["edges"]]
        known = next((int(node["recordCount"]) for node in nodes if node["name"] == "default"), 0)
        time.sleep(0.5)
    return known
