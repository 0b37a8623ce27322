"""Traces straight into memory: the same readers, no store, and never an error."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from ethogram.capture.memory import read_traces
from ethogram.capture.readers import MODULES, Reader, reader, recognise
from ethogram.capture.source import bytes_source
from ethogram.errors import NotFound

CHAT = [{"role": "user", "content": "Ring."}, {"role": "assistant", "content": "ding"}]


def lines(*values: Any) -> bytes:
    return b"".join(json.dumps(v).encode() + b"\n" for v in values)


def test_traces_and_their_report() -> None:
    traces, report = read_traces(bytes_source("log", lines({"messages": CHAT}, 5, {"messages": CHAT[:1]})))
    assert (report.source, report.format, report.traces, report.spans) == ("log", "openai-chat", 2, 3)
    assert [s.where for s in report.skipped] == ["line 2"]
    assert traces[0].head.origin is not None
    assert (
        traces[0].head.origin.digest == bytes_source("x", lines({"messages": CHAT}, 5, {"messages": CHAT[:1]})).digest
    )
    assert traces[0].messages[1].text == "ding"


def test_attempts_are_numbered_within_each_task() -> None:
    runs = [{"task_id": task, "reward": 1.0, "info": {}, "traj": CHAT} for task in ("a", "b", "a", "a")]
    traces, _ = read_traces(bytes_source("log", json.dumps(runs).encode()), "tau-bench")
    assert [(t.head.task, t.head.attempt) for t in traces] == [("a", 0), ("b", 0), ("a", 1), ("a", 2)]


@pytest.mark.parametrize(
    "data", [b"", b"words", b"\x1f\x8bjunk", gzip.compress(b"x" * 9999, mtime=0)[:-20], b"PK\x03\x04junk"]
)
def test_nothing_is_raised_whatever_the_bytes(data: bytes) -> None:
    for format in (None, *MODULES):
        traces, report = read_traces(bytes_source("log", data), format)
        assert traces == []
        assert report.skipped


def test_formats_have_names() -> None:
    assert {reader(name).format for name in MODULES} == set(MODULES)
    with pytest.raises(NotFound, match="did you mean 'openai-chat'"):
        read_traces(bytes_source("log", b"{}"), "openai-chta")


def test_a_sniff_that_stumbles_does_not_know_the_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    from ethogram.capture.readers import mini_swe_agent

    def stumbles(peek: object) -> int:
        raise RecursionError("deep")

    monkeypatch.setattr(mini_swe_agent, "sniff", stumbles)
    found = recognise(bytes_source("log", lines({"messages": CHAT})))
    assert isinstance(found, Reader)
    assert found.format == "openai-chat"
