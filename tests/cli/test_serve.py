"""`ethogram serve`: what people see, what scripts read, what bad input says."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

COMMAND = Path(sys.executable).with_name("ethogram")


def serve(env: dict[str, str], *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(COMMAND), "serve", "--port", "0", *args],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def one_trace(address: str) -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{address}/v1/traces")))
    provider.get_tracer("test").start_span("invoke_agent", attributes={"gen_ai.operation.name": "invoke_agent"}).end()
    provider.shutdown()


def test_people_see_the_address_and_what_was_stored(env, call):
    process = serve(env, "--run", "shop")
    address = process.stdout.readline().strip()
    assert address.startswith("http://127.0.0.1:")
    one_trace(address)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "")
    assert "1 span in 1 request" in err
    assert "1 trace stored; next: ethogram show shop" in err
    shown = json.loads(call("show", "shop", "--json").out)
    assert shown["episodes"] == 1


def test_scripts_read_one_document(env, checked):
    process = serve(env, "--json")
    told = checked("serve", process.stdout.readline())
    assert told["run"] == "live"
    one_trace(told["address"])
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, out.strip()) == (0, "")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--store-after", "-1"), "--store-after takes seconds"),
        (("--run", "no/name"), "cannot name a run"),
        (("--redact", "default,arguments=drop"), "cannot name single fields"),
    ],
)
def test_bad_input_is_one_sentence(call, args, words):
    said = call("serve", "--port", "0", *args)
    assert said.code == 64
    assert words in said.err
    assert said.err.count("\n") == 1


def test_a_port_that_is_taken(call):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        said = call("serve", "--port", str(taken.getsockname()[1]))
    assert (said.code, "cannot listen on port" in said.err, "--port" in said.err) == (64, True, True)
