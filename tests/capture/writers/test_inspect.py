"""Traces as an Inspect log: Inspect opens it, and what comes back is what went out."""

from __future__ import annotations

import importlib.util
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.draft import Draft
from ethogram.capture.intake import Intake, SourceReport
from ethogram.capture.memory import MemorySink, read_traces
from ethogram.capture.source import bytes_source, file_source
from ethogram.capture.writers.inspect import write
from ethogram.traces import File, Message, Missing, Origin, Reasoning, Scored, Span, Text, ToolCall, ToolResult, Trace

DATA = Path(__file__).parents[4] / "shared" / "data"
SECOND = 1_000_000_000
NOON = 1_767_268_800 * SECOND

Json = dict[str, Any]

needs_inspect = pytest.mark.skipif(
    importlib.util.find_spec("inspect_ai") is None, reason="inspect_ai is not installed: it cannot open what we write"
)


def made(fill: Callable[[TraceBuilder], None], key: str = "k") -> Trace:
    done: list[Trace] = []
    intake = Intake(lambda trace: MemorySink(done), Origin("test", "made up", "b2:0"), SourceReport(source="made up"))
    with intake.trace(key, worldwide=True) as trace:
        trace.task, trace.attempt = "q1", 0
        fill(trace)
    return done[0]


def draft(kind: Any, name: str, span_id: str | None = None, **fields: Any) -> Draft:
    return Draft(kind=kind, name=name, span_id=span_id, **fields)


def there_and_back(*traces: Trace, **names: str) -> tuple[list[Trace], dict[str, int]]:
    out = io.BytesIO()
    lost = write(traces, out, **names)
    back, report = read_traces(bytes_source("back.eval", out.getvalue()), "inspect")
    assert report.skipped == []
    assert report.lost == {}
    return back, lost


def shown(trace: Trace) -> dict[str, Any]:
    """Everything that must survive, by span; only places of texts may differ."""

    def text(ref: Any) -> Any:
        return None if ref is None else trace.text(ref)

    spans: Json = {}
    for s in trace.spans:
        plain = {k: v for k, v in msgspec.structs.asdict(s).items() if k not in _OWN_WAY}
        plain |= {k: text(getattr(s, k)) for k in ("error", "arguments", "result", "attributes")}
        plain |= {"input": trace.conversation(s), "output": [trace.message(r) for r in s.output]}
        spans[s.span_id] = plain
    return spans


_OWN_WAY = ("trace_id", "seq", "continues", "keep", "input", "output", "error", "arguments", "result", "attributes")
HEAD = ("task", "attempt", "condition", "agent", "seed", "outcome", "meta")


def same(before: Trace, after: Trace) -> None:
    assert {k: getattr(before.head, k) for k in HEAD} == {k: getattr(after.head, k) for k in HEAD}
    assert shown(before) == shown(after)
    assert before.messages == after.messages
    assert before.totals == after.totals
    assert before.signatures() == after.signatures()
    assert before.answer == after.answer
    assert labels(before) == labels(after)


def labels(trace: Trace) -> list[tuple[Any, ...]]:
    found = [(x.name, x.value, x.by, x.source, x.span_id, trace.text(x.why) if x.why else None) for x in trace.labels]
    return sorted(found, key=str)


def rich(trace: TraceBuilder) -> None:
    """A trace with something of everything."""
    trace.agent, trace.condition, trace.seed = "lead", "noisy", 7
    trace.meta = {"model": "m", "note": "x", "share": 0.5, "ok": True}
    trace.outcome, trace.answer = Scored(0.25, "checks"), "four"
    trace.label("checks", 0.25, by="checks", why="one of four")
    trace.label("rude", False, by="judge:m", source="judge")
    trace.label("parts.a", 1, by="parts")
    trace.label("parts.b", None, by="parts")
    trace.label("style", None, by="style")
    trace.label("fault", "loop", by="mia", source="hand", span_id="t1", why="twice")
    trace.label("fault", "typo", by="mia", source="hand", span_id="m3")
    trace.label("parts.a", 0, by="parts")
    system, asked = Message("system", (Text("Be brief."),)), Message("user", (Text("two and two?"),), "mia")
    calls = Message("assistant", (Reasoning("hm"), ToolCall("add", '{"x": 2}', "c1"), ToolCall("look", "", None)))
    answers = (
        Message("tool", (ToolResult("4", "add", "c1"),)),
        Message("tool", (ToolResult("gone", "look", None, True),), "look"),
    )
    final = Message("assistant", (Text("four"), Text("!"), ToolCall("web", "{}", "w"), ToolResult("ok", "web", "w")))
    lead: Json = {"agent": "lead", "parent_id": "A"}
    model: Json = {**lead, "provider": "acme", "model": "m", "status": "ok"}
    spent: Json = {"input_tokens": 10, "cache_read_tokens": 5, "cache_write_tokens": 2, "output_tokens": 8}
    spent |= {"reasoning_tokens": 3, "cost_usd": 0.25, "attributes": {"deep": {"list": [1, None]}}}
    timed: Json = {"start_ns": NOON + 1, "end_ns": NOON + SECOND, "prompt_version": "v2", "stop_reason": "tool_use"}
    params = {"temperature": 0.5, "max_tokens": 9, "stop": "x", "top_p": True}
    added: Json = {"arguments": '{"x": 2}', "result": "4", "status": "ok", "truncated": True}
    broken: Json = {"arguments": "not json", "result": "gone", "error": "no file", "status": "error"}
    inner: Json = {"agent": "helper", "lane": "helper"}
    graded = Message("assistant", (Text("C"),))
    for one in (
        draft("agent", "run", "A", agent="lead", start_ns=NOON, end_ns=NOON + 9 * SECOND),
        draft("user", "mia", "u1", output=(asked,), **lead),
        draft("model", "chat", "m1", input=(system, asked), output=(calls,), params=params, **model, **spent, **timed),
        draft("tool", "adds", "t1", tool="add", call_id="c1", output=answers[:1], **added, **lead),
        draft("agent", "helper", "B", parent_id="t2", **inner),
        draft("model", "inner", "m2", parent_id="B", status="error", error="rate limit", input=(asked,), **inner),
        draft("tool", "look", "t2", tool="look", output=answers[1:], **broken, **lead),
        draft("retrieval", "search", "r1", arguments='{"q":1}', result="[]", **lead),
        draft("model", "chat", "m3", input=answers, growing=True, output=(final,), stop_reason="stop", **model),
        draft("judge", "grade", "j1", model="judge", output_tokens=4, status="ok", input=(final,), output=(graded,)),
        draft("judge", "rule", "j2", result="0.25", status="ok"),
        draft("handoff", "to human", "h1", tool="transfer", call_id="c9", stop_reason="x"),
    ):
        trace.add(one)
    pictures = (File("image/png", "http://x/a.png"), File("image/gif", "data:", "b2:9", 5), File("text/csv", "b.csv"))
    odd = Message("other", (Text("beep"), *pictures))
    trace.add(Draft(kind="other", name="last words", span_id="o1", input=(odd,), output=(odd, final)))


def test_a_rich_trace_comes_back_as_it_was() -> None:
    before = made(rich)
    (after,), lost = there_and_back(before)
    same(before, after)
    assert lost == {}


@pytest.mark.parametrize(
    "outcome",
    [
        *[
            Missing("infrastructure.timeout", "slow"),
            Missing("cancelled"),
            Missing("cap.experiment"),
            Missing("unscored"),
        ],
        *[Missing("unscored"), Scored(1.0, ""), Scored(-3.5, "points"), Scored(0.0, "checks")],
    ],
)
@pytest.mark.parametrize("labelled", [True, False])
def test_outcomes_come_back_whatever_else_was_scored(outcome: Any, labelled: bool) -> None:
    def fill(trace: TraceBuilder) -> None:
        trace.outcome = outcome
        if labelled:
            trace.label("a first", "C", by="a first")
            trace.label("checks", 0.5, by="checks")

    first, second = made(rich, "other"), made(fill)
    back, lost = there_and_back(first, renamed(second, "q2"))
    assert back[1].outcome == outcome
    assert labels(back[1]) == labels(second)
    assert lost == {}


def renamed(trace: Trace, task: str, **changes: Any) -> Trace:
    return Trace(msgspec.structs.replace(trace.head, task=task, **changes), trace.spans, trace.texts, trace.labels)


def test_what_cannot_be_said_is_counted() -> None:
    def fill(trace: TraceBuilder) -> None:
        trace.label("good", 1, by="me")
        results = (ToolResult("a", "t", "1"), ToolResult("b", "t", "2"), Text("and so on"))
        picture = Message("user", (File("image/png", digest="b2:1", size=5), ToolCall("x"), Text("late")))
        mixed = Message("assistant", (ToolCall("x", "{}"), Text("after the call")))
        trace.add(
            Draft(kind="model", name="chat", span_id="m0", input=(picture, Message("user", results)), output=(mixed,))
        )
        trace.add(Draft(kind="model", name="chat", span_id="m1", parent_id="m0", output_tokens=5))

    trace = made(fill)
    torn = {ref: body for ref, body in trace.texts.items() if "after the call" not in body}
    hashed = tuple(msgspec.structs.replace(s, result_hash="h") if s.span_id == "m1" else s for s in trace.spans)
    late = tuple(msgspec.structs.replace(x, at_ns=5, version="2") for x in trace.labels)
    lost = write([trace, renamed(trace, "q1"), Trace(trace.head, hashed, torn, late)], io.BytesIO())
    assert lost == {
        **{"label.at_ns": 1, "label.version": 1},
        **{"message (split: one tool result each)": 3, "file (only its hash is known)": 3},
        **{"tool call (not by the assistant)": 3, "order of parts (calls come last)": 5, "text (missing)": 1},
        **{"model span with spans inside (messages, tokens)": 3, "attempt (the epoch was taken)": 2, "result_hash": 1},
    }


def test_a_message_that_carries_several_results_is_split_and_loses_no_words() -> None:
    def fill(trace: TraceBuilder) -> None:
        results = (ToolResult("a", "t", "1"), ToolResult("b", "t", "2"), Text("and so on"))
        trace.add(Draft(kind="model", name="chat", input=(Message("user", results),), output=(Message("assistant"),)))

    (after,), lost = there_and_back(made(fill))
    assert [(m.role, m.text) for m in after.messages] == [
        ("tool", "a"),
        ("tool", "b"),
        ("user", "and so on"),
        ("assistant", ""),
    ]
    assert lost == {"message (split: one tool result each)": 1}


def test_parents_that_are_unknown_or_go_in_a_circle_do_no_harm() -> None:
    def fill(trace: TraceBuilder) -> None:
        for name, parent in (("a", "b"), ("b", "a"), ("c", "c"), ("d", "nowhere"), ("e", "a")):
            trace.add(Draft(kind="tool", name=name, tool=name, span_id=name, parent_id=parent, result=name))

    before = made(fill)
    (after,), lost = there_and_back(before)
    assert sorted(s.name for s in after.spans) == ["a", "b", "c", "d", "e"]
    assert {trace_text(after, s) for s in after.spans} == {"a", "b", "c", "d", "e"}
    assert next(s for s in after.spans if s.name == "e").parent_id == "a"
    assert lost == {}


def trace_text(trace: Trace, span: Span) -> str | None:
    return trace.text(span.result) if span.result else None


def test_attempts_become_epochs_and_names_come_from_the_traces() -> None:
    traces = [renamed(made(rich, f"k{i}"), "q1", attempt=i) for i in range(3)]
    out = io.BytesIO()
    assert write(traces, out) == {}
    back, _ = read_traces(bytes_source("x", out.getvalue()), "inspect")
    assert [t.head.attempt for t in back] == [0, 1, 2]
    with zipfile.ZipFile(out) as archive:
        header = json.loads(archive.read("header.json"))
        assert archive.namelist()[0] == "samples/q1_epoch_1.json"
    assert (header["eval"]["task"], header["eval"]["model"]) == ("ethogram", "m")
    assert header["results"]["total_samples"] == 3
    assert header["results"]["scores"][0]["metrics"]["mean"]["value"] == 0.25
    assert header["stats"]["model_usage"]["acme/m"]["output_tokens"] == 24
    assert header["stats"]["model_usage"]["acme/m"]["total_tokens"] == 75
    write(traces, named := io.BytesIO(), task="mine", model="acme/m")
    with zipfile.ZipFile(named) as archive:
        spec = json.loads(archive.read("header.json"))["eval"]
    assert (spec["task"], spec["model"]) == ("mine", "acme/m")


def test_two_conditions_of_one_attempt_take_two_epochs_and_come_back() -> None:
    traces = [renamed(made(rich, name), "q1", condition=name) for name in ("clean", "noisy")]
    back, lost = there_and_back(*traces)
    assert lost == {"attempt (the epoch was taken)": 1}
    assert [(t.head.condition, t.head.attempt) for t in back] == [("clean", 0), ("noisy", 0)]


def test_the_same_traces_give_the_same_bytes_to_a_path_or_a_stream(tmp_path: Path) -> None:
    out = io.BytesIO()
    write([made(rich)], out)
    write([made(rich)], tmp_path / "x.eval")
    assert (tmp_path / "x.eval").read_bytes() == out.getvalue()
    assert write([], tmp_path / "empty.eval") == {}
    assert read_traces(file_source(tmp_path / "empty.eval", "e"), "inspect")[0] == []


def long_chat(turns: int) -> Trace:
    def fill(trace: TraceBuilder) -> None:
        for turn in range(turns):
            asked = Message("user", (Text(f"question {turn} " + "word " * 40),))
            said = Message("assistant", (Text(f"answer {turn} " + "word " * 40),))
            trace.add(draft("model", "chat", input=(asked,), growing=True, output=(said,)))

    return made(fill)


def test_a_growing_context_is_written_once() -> None:
    def size(trace: Trace) -> int:
        write([trace], out := io.BytesIO())
        with zipfile.ZipFile(out) as archive:
            return archive.getinfo("samples/q1_epoch_1.json").file_size

    assert size(long_chat(200)) < 2.1 * size(long_chat(100))
    (after,), _ = there_and_back(long_chat(50))
    same(long_chat(50), after)


@pytest.mark.skipif(not DATA.exists(), reason="../shared/data is not here")
@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("tau_bench/gpt-4o-airline.dev_5tasks.json.gz", "tau-bench"),
        ("inspect/log_streaming.eval", "inspect"),
        ("inspect/log_formats.json", "inspect"),
        ("inspect/2025-05-12T20-28-13-04-00_popularity.json", "inspect"),
    ],
)
def test_public_logs_come_back_as_they_were(name: str, format: str) -> None:
    before, _ = read_traces(file_source(DATA / name, name), format)
    after, lost = there_and_back(*before)
    assert lost == {}
    for one, other in zip(before, after, strict=True):
        for field in HEAD:
            assert getattr(one.head, field) == getattr(other.head, field)
        assert one.messages == other.messages
        assert one.totals == other.totals
        assert one.signatures() == other.signatures()
        assert labels(one) == labels(other)


OPEN = """
import json, os, sys
os.environ.update(INSPECT_DISPLAY="none", NO_COLOR="1")
from inspect_ai.event import event_tree
from inspect_ai.log import read_eval_log, read_eval_log_sample, read_eval_log_sample_summaries, write_eval_log
path = sys.argv[1]
log = read_eval_log(path, resolve_attachments="full")
summaries = read_eval_log_sample_summaries(path)
read_eval_log_sample(path, id=log.samples[0].id, epoch=1)
found = {"status": log.status, "summaries": len(summaries), "samples": []}
found["means"] = {s.name: s.metrics["mean"].value for s in log.results.scores if "mean" in s.metrics}
for s in log.samples:
    event_tree(s.events)
    calls = [e for e in s.events if e.event == "model"]
    found["samples"].append({
        "id": s.id, "epoch": s.epoch, "messages": [[m.role, m.text] for m in s.messages], "answer": s.output.completion,
        "scores": {k: v.value if v.value == v.value else None for k, v in s.scores.items()},
        "error": s.error.message if s.error else None, "usage": {k: v.model_dump() for k, v in s.model_usage.items()},
        "inputs": [len(e.input) for e in calls], "stops": [e.output.stop_reason for e in calls if e.output.choices],
        "errors": [e.error for e in calls if e.error], "config": [e.config.temperature for e in calls],
        "tools": [[e.function, e.arguments, e.error and e.error.message] for e in s.events if e.event == "tool"],
        "spans": [[e.type, e.name] for e in s.events if e.event == "span_begin"],
    })
write_eval_log(log, sys.argv[2])
print(json.dumps(found))
"""


@needs_inspect
def test_inspect_opens_what_we_write(tmp_path: Path) -> None:
    def failed(trace: TraceBuilder) -> None:
        trace.task, trace.outcome = "q/2", Missing("infrastructure.network", "no route")
        trace.add(Draft(kind="model", name="chat", output=(Message("assistant", (Text("?"),)),)))

    before = [made(rich), made(failed, "k2")]
    assert write(before, tmp_path / "ours.eval") == {}
    command = [sys.executable, "-c", OPEN, str(tmp_path / "ours.eval"), str(tmp_path / "theirs.eval")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["status"], found["summaries"], found["means"]["checks"]) == ("success", 2, 0.25)
    by_id = {s["id"]: s for s in found["samples"]}
    first, second = by_id["q1"], by_id["q/2"]
    assert first["scores"] == {
        **{"checks": 0.25, "rude": False, "parts": {"a": 1, "b": None}, "style": None},
        **{"fault": "loop", "fault 2": "typo", "parts.a": 0},
    }
    assert (first["answer"], first["error"], second["error"]) == ("four", None, "no route")
    assert first["messages"][:3] == [["user", "two and two?"], ["system", "Be brief."], ["assistant", ""]]
    assert (first["inputs"], first["stops"]) == ([2, 1, 5, 1], ["tool_calls", "stop", "unknown"])
    assert (first["errors"], first["config"]) == (["rate limit"], [0.5, None, None, None])
    assert first["tools"] == [["add", {"x": 2}, None], ["look", {}, "no file"]]
    usage = first["usage"]["acme/m"]
    assert [usage[k] for k in ("input_tokens", "output_tokens", "total_tokens", "total_cost")] == [10, 8, 25, 0.25]
    assert [t for t, _ in first["spans"]][:3] == ["agent", "tool", "agent"]
    # Inspect reads our log and writes it in its own way; what comes back is still what went out
    after, report = read_traces(file_source(tmp_path / "theirs.eval", "theirs"), "inspect")
    assert report.skipped == []
    for one, other in zip(before, sorted(after, key=lambda t: t.head.task != "q1"), strict=True):
        assert {k: getattr(one.head, k) for k in HEAD} == {k: getattr(other.head, k) for k in HEAD}
        assert one.messages == other.messages
        assert one.totals == other.totals
        assert labels(one) == labels(other)
