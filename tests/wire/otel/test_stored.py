"""Spans of a program that no run starts: traces of a run, bounded, redacted, joined when late, safe from kill -9."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace as api
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider

from ethogram.errors import BadUsage, EthogramError
from ethogram.harness.suites import run
from ethogram.plans import Suite, Task
from ethogram.store import Home, open_home
from ethogram.traces import Trace
from ethogram.wire.otel import stored
from ethogram.wire.otel.stored import StoredSpans

AGENT = {"openinference.span.kind": "AGENT", "agent.name": "clerk"}
TOOL = {"openinference.span.kind": "TOOL", "tool.name": "price", "input.value": '{"item": "tea"}', "output.value": "6"}


def provider_of(home: Home, run: str = "live", settle: float = 0.2) -> tuple[TracerProvider, StoredSpans]:
    provider = TracerProvider(resource=Resource({"service.name": "shop"}), shutdown_on_exit=False)
    processor = StoredSpans(run, home=home, settle=settle)
    provider.add_span_processor(processor)
    return provider, processor


def traces(home: Home, run: str = "live") -> list[Trace]:
    found = home.run(run)
    found.forget_cache()
    return [found.trace(entry) for entry in found.entries]


def wait_for(what: Callable[[], Any], seconds: float = 20.0) -> Any:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if found := what():
            return found
        time.sleep(0.05)
    raise AssertionError("it did not happen in time")


def shape(trace: Trace) -> list[tuple[int, str, str]]:
    return [(depth, span.kind, span.name) for depth, span in trace.walk()]


def test_a_trace_is_stored_while_the_program_goes_on(home: Home) -> None:
    provider, processor = provider_of(home)
    tracer = provider.get_tracer("shop", "1.0")
    with tracer.start_as_current_span("work", attributes=AGENT):
        with tracer.start_as_current_span("price", attributes={**TOOL, "note": "AKIAIOSFODNN7EXAMPLE"}):
            pass
    (trace,) = wait_for(lambda: traces(home))
    assert shape(trace) == [(0, "agent", "work"), (1, "tool", "price")]
    assert trace.spans[1].agent == "clerk"
    assert trace.head.meta["service.name"] == "shop"
    assert "AKIA" not in trace.text(trace.spans[1].attributes or ""), "redacted before it is written"
    provider.shutdown()
    assert (processor.lost, len(traces(home))) == (0, 1)


def test_spans_that_come_late_are_joined(home: Home) -> None:
    provider, _ = provider_of(home)
    tracer = provider.get_tracer("shop")
    root = tracer.start_span("work", attributes=AGENT)
    late = tracer.start_span("late", context=api.set_span_in_context(root))
    root.end()
    (first,) = wait_for(lambda: traces(home))
    assert shape(first) == [(0, "agent", "work")]
    late.end()
    provider.shutdown()
    (both,) = traces(home)
    assert shape(both) == [(0, "agent", "work"), (1, "other", "late")]


def test_shutdown_writes_what_waits_and_what_comes_then_is_counted(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    provider, processor = provider_of(home, settle=60.0)
    tracer = provider.get_tracer("shop")
    left = tracer.start_span("never ends")
    tracer.start_span("child", context=api.set_span_in_context(left)).end()
    tracer.start_span("whole").end()
    assert provider.force_flush()
    provider.shutdown()
    processor.shutdown()
    assert sorted(trace.spans[0].name for trace in traces(home)) == ["child", "whole"]
    left.end()
    assert processor.lost == 1
    assert capsys.readouterr().err.startswith("ethogram: a span was lost: it came after shutdown")


def test_many_threads_lose_nothing_in_little_memory(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "MOST_SPANS", 20)
    provider, processor = provider_of(home)
    tracer = provider.get_tracer("shop")

    def work() -> None:
        for _ in range(30):
            with tracer.start_as_current_span("work"):
                for _ in range(3):
                    tracer.start_span("inside").end()
                assert len(processor._waiting) <= 20

    workers = [threading.Thread(target=work) for _ in range(8)]
    [worker.start() for worker in workers]
    [worker.join() for worker in workers]
    provider.shutdown()
    found = home.run("live")
    found.forget_cache()
    assert processor.lost == 0
    assert [entry.totals.spans for entry in found.entries] == [4] * 240


PROGRAM = """
import sys, time
from opentelemetry.sdk.trace import TracerProvider
from ethogram.wire.otel.stored import StoredSpans
provider = TracerProvider()
provider.add_span_processor(StoredSpans("live", home=sys.argv[1], settle=60.0))
tracer = provider.get_tracer("shop")
for i in range(20):
    tracer.start_span(f"span {i}").end()
provider.force_flush()
print("flushed", flush=True)
time.sleep(60)
"""


def test_what_was_flushed_survives_kill_9(tmp_path: Path) -> None:
    home = tmp_path / "home"
    child = subprocess.Popen([sys.executable, "-c", PROGRAM, str(home)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "flushed\n"
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    child.stdout.close()
    lake = open_home(str(home))
    provider, _ = provider_of(lake)
    provider.shutdown()
    assert sorted(trace.spans[0].name for trace in traces(lake)) == sorted(f"span {i}" for i in range(20))


def test_an_episode_keeps_its_own_spans(home: Home) -> None:
    provider, _ = provider_of(home, "production")
    tracer = provider.get_tracer("shop")

    def solve(task: Task) -> str:
        with tracer.start_as_current_span("work"):
            return "6"

    run(Suite(name="s", tasks=(Task(id="t", prompt="q"),)), solve, home=home, run="tests")
    provider.shutdown()
    assert traces(home, "production") == []
    assert shape(traces(home, "tests")[0]) == [(0, "other", "work")]


def test_a_run_of_another_kind_or_in_use_is_refused(home: Home) -> None:
    home.create("logs", "import")
    with pytest.raises(BadUsage, match="'logs' is a import run"):
        StoredSpans("logs", home=home)
    provider, _ = provider_of(home)
    with pytest.raises(EthogramError, match="live"):
        StoredSpans("live", home=home)
    provider.shutdown()
