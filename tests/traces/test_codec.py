"""The one way a trace becomes bytes and back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from ethogram.capture.memory import read_traces
from ethogram.capture.source import bytes_source
from ethogram.traces import EpisodeId, Head, Label, Ref, Scored, Span, SpanId, Trace, TraceId, codec, text_ref
from ethogram.traces.codec import EndLine, HeadLine, TextLine, decode_line, encode


def small() -> Trace:
    body = "ding"
    head = Head(
        trace_id=TraceId("b2:t"), episode=EpisodeId("b2:e"), task="bell", outcome=Scored(1.0, "ear"), seed=2**63
    )
    span = Span(
        trace_id=head.trace_id,
        span_id=SpanId("s0"),
        seq=0,
        kind="tool",
        name="ring",
        tool="ring",
        params={"a": 1.5, "b": True, "c": None},
        result=text_ref(body),
    )
    label = Label(trace_id=head.trace_id, name="loud", value="very", by="ear", source="hand", why=text_ref(body))
    return Trace(head, (span,), {text_ref(body): body}, (label,))


def test_every_line_comes_back_as_the_record_it_was() -> None:
    trace = small()
    records = [decode_line(json.loads(line), codec.SCHEMA_VERSION) for line in encode(trace)]
    assert records == [
        HeadLine(1, trace.head),
        TextLine(text_ref("ding"), "ding"),
        trace.spans[0],
        trace.labels[0],
        EndLine(1),
    ]
    assert all(b"\n" not in line for line in encode(trace))


def test_lines_of_another_kind_are_refused() -> None:
    for line in ({"type": "poem"}, {}, {"type": None}):
        with pytest.raises(ValueError, match="unknown line type"):
            decode_line(line, 1)


@pytest.fixture
def second_version() -> Iterator[list[int]]:
    """A world in which the format has moved on: spans of version 1 called `name` what is now `title`, so to speak."""
    seen: list[int] = []

    def upgrade(line: dict[str, Any]) -> dict[str, Any]:
        seen.append(1)
        if line.get("type") == "span":
            return {**line, "name": line.get("name", "") + " (upgraded)"}
        return line

    codec.UPGRADES[1] = upgrade
    yield seen
    del codec.UPGRADES[1]


def test_old_lines_are_upgraded_one_version_at_a_time(
    second_version: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [json.loads(line) for line in encode(small())]
    monkeypatch.setattr(codec, "SCHEMA_VERSION", 2)
    span = decode_line(lines[2], 1)
    assert isinstance(span, Span)
    assert span.name == "ring (upgraded)"
    assert second_version == [1]
    unchanged = decode_line(lines[2], 2)
    assert isinstance(unchanged, Span)
    assert unchanged.name == "ring"


@pytest.mark.parametrize(("version", "why"), [(2, "upgrade Ethogram"), (0, "never was"), ("1", "not a number")])
def test_versions_that_cannot_be_read_are_named(version: Any, why: str) -> None:
    lines = [json.loads(line) for line in encode(small())]
    lines[0]["schema_version"] = version
    data = b"\n".join(json.dumps(line).encode() for line in lines)
    traces, report = read_traces(bytes_source("x", data), "jsonl")
    assert traces == []
    assert why in report.skipped[0].why


def test_a_trace_that_was_cut_off_says_so_and_keeps_its_start() -> None:
    lines = list(encode(small()))
    traces, report = read_traces(bytes_source("x", b"\n".join(lines[:-1])))
    assert [s.name for s in traces[0].spans] == ["ring"]
    assert "no end line" in report.skipped[0].why
    assert traces[0].text(Ref(text_ref("ding"))) == "ding"
