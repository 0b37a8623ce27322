from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ethogram.capture.draft import Draft
from ethogram.capture.intake import Intake, SourceReport
from ethogram.capture.memory import MemorySink, read_traces
from ethogram.capture.readers import jsonl
from ethogram.capture.source import bytes_source
from ethogram.capture.writers.jsonl import write
from ethogram.traces import (
    File,
    Head,
    Label,
    Message,
    Missing,
    Origin,
    Reasoning,
    Ref,
    Scored,
    Span,
    Text,
    ToolCall,
    ToolResult,
    Trace,
    codec,
    text_ref,
)

DATA = Path(__file__).parents[4] / "shared" / "data"
here = pytest.mark.skipif(not DATA.exists(), reason="../shared/data is not here")
LONG = "a long text that is stored apart from the message that holds it, because it has more than 64 characters"


def user(text: str) -> Message:
    return Message("user", (Text(text),))


def assistant(text: str, *more: Any) -> Message:
    return Message("assistant", (Text(text), *more))


def built(fill: Callable[[Any], None], key: str = "k") -> Trace:
    """A trace made by the builder, as every reader makes them."""
    done: list[Trace] = []
    intake = Intake(lambda _: MemorySink(done), Origin("made", "up", "b2:0"), SourceReport(source="up"))
    with intake.trace(key) as trace:
        trace.attempt = 0
        fill(trace)
    return done[0]


def written(*traces: Trace) -> bytes:
    stream = io.BytesIO()
    assert write(traces, stream) == {}
    return stream.getvalue()


def read(data: bytes) -> tuple[list[Trace], SourceReport]:
    return read_traces(bytes_source("log", data), "jsonl")


def same(was: Trace, now: Trace) -> None:
    """Equal but for what names the source."""
    bare = {"trace_id": "", "episode": "", "origin": None}
    assert msgspec.structs.replace(was.head, **bare) == msgspec.structs.replace(now.head, **bare)
    assert len(was.spans) == len(now.spans)
    for old, new in zip(was.spans, now.spans, strict=True):
        assert msgspec.structs.replace(old, trace_id="") == msgspec.structs.replace(new, trace_id="")
    old_labels = [msgspec.structs.replace(label, trace_id="") for label in was.labels]
    assert old_labels == [msgspec.structs.replace(label, trace_id="") for label in now.labels]
    assert dict(was.texts) == dict(now.texts)


def everything(trace: Any) -> None:
    trace.task, trace.attempt, trace.condition, trace.agent, trace.seed = "t", 3, "clean", "ringer", 42
    trace.outcome = Scored(0.75, "verifier")
    trace.answer = "four"
    trace.meta = {"a": 1, "b": "two", "c": 0.5, "d": True}
    root = trace.add(Draft(kind="agent", name="root", span_id="root", input=[Message("system", (Text("policy"),))]))
    trace.add(Draft(kind="user", name="user", output=(user("hi"),), parent_id=root))
    call = ToolCall("ring", json.dumps({"why": LONG}), "c1")
    trace.add(
        Draft(
            kind="model",
            name="chat",
            span_id="m1",
            parent_id=root,
            agent="a",
            start_ns=10,
            end_ns=20,
            model="m",
            provider="p",
            prompt_version="v2",
            params={"temperature": 0.5, "stop": "x"},
            input=[Message("system", (Text("be brief"),)), user("hi")],
            output=(assistant("ringing", Reasoning("hm"), call, File("image/png", uri="x.png")),),
            input_tokens=5,
            cache_read_tokens=1,
            cache_write_tokens=2,
            output_tokens=3,
            reasoning_tokens=1,
            cost_usd=0.25,
            stop_reason="tool_calls",
            attributes={"b": [1, {"z": None}], "a": 1.5},
        )
    )
    result = Message("tool", (ToolResult(LONG, "ring", "c1", True),), "ring")
    trace.add(
        Draft(
            kind="tool",
            name="ring",
            tool="ring",
            call_id="c1",
            arguments=call.arguments,
            result=LONG,
            truncated=True,
            status="error",
            error="too loud",
            output=(result,),
        )
    )
    trace.add(Draft(kind="model", name="chat", input=[result], growing=True, output=(assistant("done"),)))
    trace.label("quality", 0.5, by="judge-1", source="judge", why="because", span_id="m1")
    trace.label("flag", True, by="me", source="hand")
    trace.label("empty", None, by="me")


def contexts(trace: Any) -> None:
    """All ways in which an input can continue: whole contexts, rewritten ones, lanes, growing ones."""
    talk = [Message("system", (Text("s"),))]
    for i in range(5):
        talk = [*talk, user(f"q{i}")]
        answer = assistant(f"a{i}")
        trace.add(Draft(kind="model", name="chat", lane="main", input=talk, output=(answer,)))
        talk = [*talk, answer]
        trace.add(Draft(kind="model", name="chat", lane="sub", input=[user(f"sub {i}")], output=(answer,)))
    talk = [talk[0], user("summary"), *talk[-2:]]  # the context was compacted
    trace.add(Draft(kind="model", name="chat", lane="main", input=talk, output=(assistant("b"),)))
    trace.add(
        Draft(kind="model", name="chat", lane="main", input=[user("more")], growing=True, output=(assistant("c"),))
    )
    trace.add(Draft(kind="model", name="chat", lane="main", input=talk[:2], output=(assistant("d"),)))
    trace.add(Draft(kind="model", name="chat", lane="main", growing=True, output=(assistant("e"),)))


def ended_out_of_order(trace: Any) -> None:
    """As a recorder adds them: numbered when they begin, added when they end."""
    trace.add(Draft(kind="model", name="chat", seq=1, input=[user("a")], output=(assistant("b"),)))
    trace.add(Draft(kind="agent", name="root", seq=0))


def repeats(trace: Any) -> None:
    for _ in range(3):
        trace.add(Draft(kind="model", name="chat", input=[user("same")], growing=True, output=(assistant("same"),)))
        trace.add(Draft(kind="tool", name="t", tool="t", result="same", span_id="twice"))


@pytest.mark.parametrize("fill", [everything, contexts, repeats, ended_out_of_order, lambda trace: None])
def test_a_round_trip_changes_nothing(fill: Callable[[Any], None]) -> None:
    was = built(fill)
    (now,), report = read(written(was))
    assert not report.skipped
    assert report.lost == {}
    same(was, now)
    for old, new in zip(was.spans, now.spans, strict=True):
        assert was.conversation(old) == now.conversation(new)


def test_ids_come_from_the_episode_so_that_a_trace_that_grew_supersedes_its_former_self() -> None:
    was = built(lambda t: t.add(Draft(kind="tool", name="a")))
    grown = Trace(msgspec.structs.replace(was.head, trace_id="b2:other"), was.spans, was.texts)
    (one,), (two,) = read(written(was))[0], read(written(grown))[0]
    assert one.head.episode == two.head.episode
    assert one.head.trace_id != two.head.trace_id
    assert one.head.origin == Origin("jsonl", "log", bytes_source("log", written(was)).digest)


def test_many_traces_in_one_file() -> None:
    traces = [built(everything, f"k{i}") for i in range(4)]
    found, report = read(written(*traces))
    assert len(found) == 4
    assert not report.skipped
    for was, now in zip(traces, found, strict=True):
        same(was, now)


def test_words_wait_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "IN_MEMORY", 10)
    was = built(everything)
    same(was, read(written(was))[0][0])


def test_a_trace_without_its_end_is_kept_and_reported() -> None:
    one, two = built(everything, "one"), built(contexts, "two")
    lines = written(one, two).splitlines()
    ends = [i for i, line in enumerate(lines) if line.startswith(b'{"type":"end"')]
    del lines[ends[0]]
    found, report = read(b"\n".join(lines[:-1]))
    assert [len(t.spans) for t in found] == [len(one.spans), len(two.spans)]
    assert [s.where for s in report.skipped] == ["line 1", f"line {ends[0] + 1}"]
    assert all("cut off" in s.why for s in report.skipped)
    same(one, found[0])
    found, report = read(b"\n".join(lines)[:-40])  # cut inside the last span
    assert [len(t.spans) for t in found] == [len(one.spans), len(two.spans) - 1]
    assert [s.where for s in report.skipped][1] == f"line {len(lines) - 1}"


def test_a_packed_file_that_breaks_off_keeps_its_open_trace() -> None:
    def fill(trace: Any) -> None:
        for i in range(3000):
            trace.add(Draft(kind="tool", name=f"{i}" + "x" * 500, result=str(i)))

    packed = gzip.compress(written(built(fill)))
    found, report = read(packed[:-2000])
    assert len(found) == 1
    assert 0 < len(found[0].spans) < 3000
    assert any("cut off" in s.why and s.where == "line 1" for s in report.skipped)
    assert any("compressed data" in s.why for s in report.skipped)


def test_a_wrong_count_of_spans_is_reported() -> None:
    data = written(built(everything)).replace(b'{"type":"end","spans":5}', b'{"type":"end","spans":9}')
    found, report = read(data)
    assert len(found) == 1
    assert [s.why for s in report.skipped] == ["the trace says 9 spans and has 5"]


@pytest.mark.parametrize(
    ("version", "words"),
    [(2, "upgrade Ethogram"), (99, "schema version 99"), (0, "never was"), (-3, "never was"), ("1", "not a number")],
)
def test_other_versions_are_named_and_skipped(version: Any, words: str) -> None:
    strange = written(built(everything, "strange")).replace(
        b'"schema_version":1', b'"schema_version":' + json.dumps(version).encode()
    )
    found, report = read(strange + written(built(contexts, "good")))
    assert len(found) == 1
    assert len(report.skipped) == 1
    assert report.skipped[0].where == "line 1"
    assert words in report.skipped[0].why


def test_old_lines_are_upgraded_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def rename(line: dict[str, Any]) -> dict[str, Any]:
        return {("tool" if k == "instrument" else k): v for k, v in line.items()}

    monkeypatch.setitem(codec.UPGRADES, 0, rename)
    was = built(everything)
    old = (
        written(was)
        .replace(b'"schema_version":1', b'"schema_version":0')
        .replace(b'"tool":"ring"', b'"instrument":"ring"')
    )
    (now,), report = read(old)
    assert not report.skipped
    same(was, now)


def test_lines_that_are_no_records_are_reported_and_the_rest_is_kept() -> None:
    lines = written(built(everything)).splitlines()
    strange = [b'{"type": "span"}', b'{"type": "song"}', b"17", b"{", b'{"type": ["span"]}', b'{"no": "type"}']
    data = b"\n".join([b'{"type": "text", "ref": "b2:1", "body": "early"}', lines[0], *strange, *lines[1:]])
    found, report = read(data)
    same(built(everything), found[0])
    assert sorted(s.where for s in report.skipped) == ["line 1", *(f"line {i}" for i in range(3, 9))]


def test_a_head_that_cannot_be_read_takes_only_its_own_trace() -> None:
    broken = b'{"type": "trace", "schema_version": 1, "head": {"task": 5}}\n{"type": "end", "spans": 0}\n'
    found, report = read(broken + written(built(contexts)))
    assert len(found) == 1
    assert [s.where for s in report.skipped] == ["line 1"]


def hand_made(spans: list[dict[str, Any]], texts: dict[str, str], labels: list[dict[str, Any]]) -> bytes:
    head = Head(trace_id="b2:1", episode="b2:2", task="t")  # type: ignore[arg-type]
    full = tuple(msgspec.convert({"trace_id": "b2:1", "kind": "model", "name": "chat", **s}, Span) for s in spans)
    marks = tuple(msgspec.convert({"trace_id": "b2:1", "by": "me", "source": "hand", **d}, Label) for d in labels)
    stream = io.BytesIO()
    write([Trace(head, full, {Ref(k): v for k, v in texts.items()}, marks)], stream)
    return stream.getvalue()


def test_what_a_draft_cannot_say_is_counted() -> None:
    data = hand_made(
        [
            {"span_id": "a", "seq": 5, "result_hash": "h", "requested": ["ring"], "output": ["b2:m", "b2:gone"]},
            {"span_id": "b", "seq": 1, "attributes": "b2:list", "error": "b2:gone"},
        ],
        {"b2:m": "not a stored message", "b2:list": "[1]"},
        [{"name": "x", "value": 1.0, "at_ns": 5, "version": "2"}],
    )
    (trace,), report = read(data)
    assert report.lost == {
        "text (missing)": 2,
        "message (not as we write it)": 1,
        "result_hash": 1,
        "requested (not in the output)": 1,
    }
    assert [(x.version, x.at_ns) for x in trace.labels] == [("2", 5)]
    assert trace.messages == (Message("other", (Text("not a stored message"),)),)
    assert trace.text(trace.spans[1].attributes or Ref("")) == '{"attributes":[1]}'
    assert trace.labels[0].value == 1.0
    assert [s.seq for s in trace.spans] == [5, 1]


def test_inputs_that_continue_an_older_call_or_each_other_are_read_whole() -> None:
    bodies = {
        n: json.dumps({"parts": [{"type": "text", "text": n}], "role": "user"}, separators=(",", ":")) for n in "pqrs"
    }
    refs = {n: text_ref(body) for n, body in bodies.items()}
    data = hand_made(
        [
            {"span_id": "a", "seq": 0, "input": [refs["p"]], "output": [refs["q"]]},
            {"span_id": "b", "seq": 1, "continues": "a", "keep": 2, "input": [refs["r"]]},
            {"span_id": "c", "seq": 2, "continues": "a", "keep": 1, "input": [refs["s"]]},
            {"span_id": "d", "seq": 3, "kind": "tool", "continues": "b", "keep": 3, "input": [refs["s"]]},
            {"span_id": "e", "seq": 4, "continues": "nobody", "keep": 3, "input": [refs["s"]]},
            {"span_id": "f", "seq": 5, "continues": "f", "keep": 3, "input": [refs["r"]]},
        ],
        {refs[n]: body for n, body in bodies.items()},
        [],
    )
    (trace,), report = read(data)
    told = ["".join(m.text for m in trace.conversation(s)) for s in trace.spans]
    assert told == ["p", "pqr", "ps", "pqrs", "s", "r"]
    assert not report.skipped


def test_missing_outcomes_survive() -> None:
    def fill(trace: Any) -> None:
        trace.outcome = Missing("cap.experiment", "too dear")

    assert read(written(built(fill)))[0][0].outcome == Missing("cap.experiment", "too dear")


def test_the_writer_counts_texts_that_are_not_there() -> None:
    was = built(everything)
    kept = {k: v for k, v in was.texts.items() if v not in (LONG, "because", "four")}
    assert write([Trace(was.head, was.spans, kept, was.labels)], io.BytesIO()) == {"text (missing)": 3}


def test_redaction_applies_to_our_own_files_too() -> None:
    class Discreet(MemorySink):
        idle = False

        def text(self, body: str, field: str, original: str | None = None) -> Ref:
            return super().text(self.clean(body, field) if field else body, field, original)

        def clean(self, value: str, field: str) -> str:
            return value.replace("bell", "[REMOVED]")

    def fill(trace: Any) -> None:
        trace.task = trace.answer = "bell"
        trace.meta = {"where": "bell"}
        call = ToolCall("ring", '{"what": "bell, a very long argument that is stored apart from its message"}', "c")
        trace.add(Draft(kind="model", name="chat", input=[user("the bell")], output=(assistant("my bell", call),)))
        trace.add(Draft(kind="tool", name="bell", tool="bell", result="bell", error="bell", attributes={"a": "bell"}))
        trace.label("x", "bell", by="me", why="bell")

    source = bytes_source("log", written(built(fill)))
    done: list[Trace] = []
    jsonl.read(source, Intake(lambda _: Discreet(done), Origin("jsonl"), SourceReport(source="log")))
    (trace,) = done
    assert trace.messages[0].text == "the [REMOVED]"
    assert b"bell" not in b"".join(codec.encode(trace))
    assert b"".join(codec.encode(trace)).count(b"[REMOVED]") >= 10


def test_rough_handling(rough: Callable[[str, bytes], None], samples: dict[str, bytes]) -> None:
    rough("jsonl", samples["jsonl"])


@here
def test_real_logs_survive_a_round_trip() -> None:
    for name, format in (
        ("tau_bench/gpt-4o-airline.dev_5tasks.json.gz", "tau-bench"),
        ("tau2_bench/voice_sim_49b22f0c-4a56-41c5-922f-bc2a56e53a23.json.gz", "tau2"),
        ("who_and_when/Hand-Crafted/30.json.gz", "who-and-when"),
        ("traxr/single_edit.json", "traxr"),
    ):
        traces, _ = read_traces(bytes_source(name, (DATA / name).read_bytes()), format)
        again, report = read(written(*traces))
        assert traces
        assert not report.skipped
        assert not report.lost
        for was, now in zip(traces, again, strict=True):
            same(was, now)
