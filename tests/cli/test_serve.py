"""`ethogram serve`: what people see, what scripts read, what bad input says."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from ethogram.viewer.viewing import VIEW_PORT

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


def test_a_second_view_names_the_port_and_a_free_one(call, env):
    with socket.socket() as first:
        with suppress(OSError):  # another program has it already: that is as well
            first.bind(("127.0.0.1", VIEW_PORT))
            first.listen()
        command = [str(COMMAND), "view", "--no-open"]
        second = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        address = second.stdout.readline().strip()
        told = second.stderr.readline()
        second.send_signal(signal.SIGINT)
        second.communicate(timeout=30)
    assert told == f"port {VIEW_PORT} is taken, perhaps by another viewer, so this one has a free port\n"
    assert f":{VIEW_PORT}/" not in address
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        said = call("view", "--no-open", "--port", str(port))
    assert said.code == 64
    free = re.fullmatch(
        rf"ethogram view: the viewer cannot listen on port {port}, which is taken; --port (\d+) is free\n", said.err
    )
    assert free is not None, said.err
    assert int(free[1]) != port
