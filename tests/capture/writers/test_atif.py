from __future__ import annotations

import io
import json
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
from ethogram.capture.writers import atif
from ethogram.traces import File, Message, Missing, Origin, Part, Reasoning, Scored, Text, ToolCall, ToolResult, Trace

DATA = Path(__file__).parents[4] / "shared" / "data"
here = pytest.mark.skipif(not DATA.exists(), reason="../shared/data is not here")

REAL = {
    "atif": "atif",
    "claude-code": "claude_code",
    "mini-swe-agent": "mini_swe_agent",
    "openclaw": "openclaw",
    "openhands": "openhands",
    "swe-agent": "swe_agent",
    "tau-bench": "tau_bench",
}


def make(build: Callable[[TraceBuilder], None], key: str = "k") -> Trace:
    done: list[Trace] = []
    intake = Intake(lambda trace: MemorySink(done), Origin("test", "log", "b2:0"), SourceReport(source="log"))
    with intake.trace(key) as trace:
        build(trace)
    return done[0]


def written(*traces: Trace) -> tuple[bytes, dict[str, int]]:
    stream = io.BytesIO()
    lost = atif.write(traces, stream)
    return stream.getvalue(), lost


def there_and_back(*traces: Trace) -> tuple[list[Trace], dict[str, int]]:
    data, lost = written(*traces)
    back, report = read_traces(bytes_source("out", data), "atif")
    assert not report.skipped
    assert not report.lost
    assert len(back) == len(traces)
    return back, lost


def same(before: Trace, after: Trace) -> None:
    """All that a trace says, but for the names that derive from the file it came from."""

    def spans(trace: Trace) -> list[Any]:
        found = sorted(trace.spans, key=lambda s: s.span_id)
        return [msgspec.to_builtins(s) | {"trace_id": ""} for s in found]

    def head(trace: Trace) -> dict[str, Any]:
        return {**msgspec.to_builtins(trace.head), "trace_id": "", "episode": "", "origin": None}

    assert spans(after) == spans(before)
    assert head(after) == head(before)
    assert after.messages == before.messages
    assert after.signatures() == before.signatures()
    assert after.totals == before.totals
    assert after.answer == before.answer
    assert [(x.name, x.value, x.by, x.source, x.why, x.span_id) for x in after.labels] == [
        (x.name, x.value, x.by, x.source, x.why, x.span_id) for x in before.labels
    ]


def says(role: Any, *parts: Part | str, name: str | None = None) -> Message:
    return Message(role, tuple(Text(p) if isinstance(p, str) else p for p in parts), name)


def a_run(trace: TraceBuilder) -> None:
    """A chat with a tool, in which everything that a span can say is said somewhere."""
    trace.task, trace.attempt, trace.condition, trace.seed = "feed the cat", 3, "dark", 11
    trace.agent, trace.answer = "butler", "fed"
    trace.outcome = Scored(0.5, "cat")
    trace.meta = {"agent_version": "9", "price": 1.5, "fast": True}
    ask, reply = says("user", "Feed it."), says("assistant", "Yes.", ToolCall("feed", '{"what": "fish"}', "c1"))
    root = trace.add(Draft(kind="agent", name="butler", agent="butler", start_ns=10**18, attributes={"a": [1]}))
    trace.add(Draft(kind="user", name="user", output=(ask,), parent_id=root, start_ns=10**18 + 5))
    model = Draft(
        kind="model",
        name="chat small",
        agent="butler",
        parent_id=root,
        start_ns=10**18 + 1_234_567,
        end_ns=10**18 + 9_000_000_000,
        model="m-1",
        provider="makers",
        prompt_version="v2",
        params={"temperature": 0.5},
        input=(says("system", "Be kind."), ask),
        output=(reply,),
        input_tokens=10,
        cache_read_tokens=20,
        cache_write_tokens=30,
        output_tokens=8,
        reasoning_tokens=2,
        cost_usd=0.125,
        stop_reason="tool_calls",
        attributes={"deep": {"er": None}},
    )
    spoken = trace.add(model)
    answer = says("tool", ToolResult("no fish", "feed", "c1", True))
    trace.add(
        Draft(
            kind="tool",
            name="feed",
            tool="feed",
            call_id="c1",
            arguments='{"what": "fish"}',
            result="no fish",
            status="error",
            error="empty",
            output=(answer,),
            parent_id=root,
            truncated=True,
        )
    )
    trace.add(Draft(kind="model", name="chat", model="m-2", input=(answer,), growing=True, output=(says("assistant"),)))
    trace.label("kind", 0.75, by="cat", source="judge", why="it purred", span_id=spoken)
    trace.label("loud", False, by="me", source="hand")
    trace.label("words", None, by="me")


def test_a_trajectory_that_others_can_read() -> None:
    data, lost = written(make(a_run))
    assert not lost
    assert data.startswith(b'{\n  "')
    item = json.loads(data)
    assert item["schema_version"] == "ATIF-v1.7"
    assert item["agent"] == {"name": "butler", "version": "9", "model_name": "m-1"}
    assert [s["step_id"] for s in item["steps"]] == [1, 2, 3, 4]
    assert [s["source"] for s in item["steps"]] == ["user", "system", "agent", "agent"]
    assert [s["message"] for s in item["steps"]] == ["Feed it.", "Be kind.", "Yes.", ""]
    step = item["steps"][2]
    assert step["timestamp"] == "2001-09-09T01:46:40.001234567Z"
    assert item["steps"][0]["timestamp"] == "2001-09-09T01:46:40.000000005Z"
    (call,) = step["tool_calls"]
    assert (call["tool_call_id"], call["function_name"], call["arguments"]) == ("c1", "feed", {"what": "fish"})
    assert step["observation"] == {"results": [{"source_call_id": "c1", "content": "no fish"}]}
    assert step["metrics"] == {
        "prompt_tokens": 60,
        "completion_tokens": 8,
        "cached_tokens": 20,
        "cost_usd": 0.125,
        "extra": {"cache_write_tokens": 30, "reasoning_tokens": 2},
    }
    assert item["steps"][3]["model_name"] == "m-2"
    assert item["final_metrics"] == {
        "total_prompt_tokens": 60,
        "total_completion_tokens": 8,
        "total_cached_tokens": 20,
        "total_cost_usd": 0.125,
        "total_steps": 4,
    }
    extra = item["extra"]
    assert (extra["task"], extra["attempt"]) == ("feed the cat", 3)
    assert extra["outcome"] == {"outcome": "scored", "value": 0.5, "by": "cat"}


def test_there_and_back() -> None:
    trace = make(a_run)
    (back,), lost = there_and_back(trace)
    assert not lost
    same(trace, back)
    assert back.outcome == Scored(0.5, "cat")
    assert back.totals.cache_write_tokens == 30


def test_one_trace_is_a_document_and_several_are_lines() -> None:
    def missing(trace: TraceBuilder) -> None:
        trace.task, trace.attempt = "b", 0
        trace.outcome = Missing("infrastructure.timeout", "slow")
        trace.add(Draft(kind="user", name="user", output=(says("user", "x"),)))

    a, b = make(a_run, "a"), make(missing, "b")
    data, _ = written(a, b)
    assert [json.loads(line)["extra"]["task"] for line in data.splitlines()] == ["feed the cat", "b"]
    back, _ = there_and_back(a, b)
    same(a, back[0])
    same(b, back[1])
    assert written() == (b"", {})


def test_kinds_that_have_no_step_of_their_own() -> None:
    def build(trace: TraceBuilder) -> None:
        trace.attempt = 0
        trace.add(Draft(kind="retrieval", name="search", result="three books", attributes={"k": 3}))
        trace.add(Draft(kind="memory", name="recall", output=(says("user", "you like fish", name="memory"),)))
        trace.add(Draft(kind="handoff", name="cook", status="ok"))
        trace.add(Draft(kind="judge", name="critic", output_tokens=4, model="j", output=(says("assistant", "4"),)))
        trace.add(Draft(kind="other", name="noise", error="pop"))
        trace.add(Draft(kind="tool", name="alarm", tool="alarm", arguments="not JSON", result="ring"))
        trace.add(Draft(kind="tool", name="silent", tool="silent"))
        trace.add(Draft(kind="user", name="nobody"))

    trace = make(build)
    (back,), lost = there_and_back(trace)
    assert not lost
    same(trace, back)
    steps = json.loads(written(trace)[0])["steps"]
    assert [s["source"] for s in steps] == ["system", "system", "system", "system", "agent", "agent", "user"]
    assert steps[0]["message"] == "three books"
    assert steps[4]["llm_call_count"] == 0
    assert steps[4]["tool_calls"][0]["arguments"] == {"input": "not JSON"}


def test_words_of_every_shape() -> None:
    def build(trace: TraceBuilder) -> None:
        trace.attempt = 0
        picture = File("image/png", "a.png")
        heard = (
            says("system", "S", name="boss"),
            says("user", "look", picture, File("audio/wav", "b.wav"), File("image/png", "", "b2:1", 4)),
            says("assistant", "before", ToolCall("old", "{}", "c0")),
            says("tool", ToolResult("older", "old", "c0")),
            says("other", "?"),
            says("user"),
        )
        odd = says("assistant", "a", Reasoning("r1"), ToolCall("t", "", None), "b", Reasoning("r2"))
        trace.add(Draft(kind="model", name="chat", input=heard, output=(odd, says("assistant", "second choice"))))
        trace.add(Draft(kind="tool", name="t", tool="t", output=(says("user", "as a user"),)))
        trace.add(Draft(kind="user", name="user", output=(says("user", "1"), says("user", "2"))))

    trace = make(build)
    (back,), lost = there_and_back(trace)
    assert not lost
    same(trace, back)
    steps = json.loads(written(trace)[0])["steps"]
    assert steps[1]["message"][1] == {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}}
    assert steps[1]["message"][2] == {"type": "text", "text": "[audio/wav]"}
    assert steps[2]["is_copied_context"] is True
    assert steps[6]["reasoning_content"] == "r1\nr2"


def test_calls_that_no_tool_answered_and_ids_that_repeat() -> None:
    def build(trace: TraceBuilder) -> None:
        trace.attempt = 0
        calls = [ToolCall("a", "{}", "same"), ToolCall("b", "{}", "same"), ToolCall("c", "{}", "gone")]
        trace.add(Draft(kind="model", name="chat", output=(says("assistant", *calls),)))
        for name in ("a", "b"):
            output = (says("tool", ToolResult(name.upper(), name, "same")),)
            trace.add(Draft(kind="tool", name=name, tool=name, call_id="same", result=name.upper(), output=output))
        trace.add(Draft(kind="model", name="chat", growing=True, output=(says("assistant", ToolCall("a")),)))
        trace.add(Draft(kind="tool", name="a", tool="a", arguments="", result="late"))

    trace = make(build)
    (back,), lost = there_and_back(trace)
    assert not lost
    same(trace, back)
    assert back.totals.tool_calls == 3  # the call without a span did not become one


def test_a_tool_is_written_with_the_call_of_its_id_and_never_with_one_of_another_name() -> None:
    def build(trace: TraceBuilder) -> None:
        trace.attempt = 0
        calls = [ToolCall("a", '{"n":0}'), ToolCall("a", '{"n":1}', "x"), ToolCall("b", "{}", "y")]
        trace.add(Draft(kind="model", name="chat", output=(says("assistant", *calls),)))
        trace.add(Draft(kind="tool", name="a", tool="a", call_id="x", arguments='{"n":1}', result="one"))
        trace.add(Draft(kind="tool", name="c", tool="c", arguments="{}", result="nobody asked"))
        trace.add(Draft(kind="tool", name="a", tool="a", arguments='{"n":0}', result="zero"))

    trace = make(build)
    data, _ = written(trace)
    asked, alone = json.loads(data)["steps"]
    results = [(r["source_call_id"], r["content"]) for r in asked["observation"]["results"]]
    assert results == [("call_1_0", "zero"), ("x", "one")]
    assert alone["tool_calls"][0]["function_name"] == "c"
    (back,), lost = there_and_back(trace)
    assert not lost
    assert {(s.arguments and back.text(s.arguments), s.result and back.text(s.result)) for s in back.spans[1:]} == {
        ('{"n":0}', "zero"),
        ('{"n":1}', "one"),
        ("{}", "nobody asked"),
    }


def test_contexts_that_start_anew_or_leave_words_out() -> None:
    a, b, c = says("user", "a"), says("user", "b"), says("user", "c")
    x, y = says("assistant", "x"), says("assistant", "y")

    def build(trace: TraceBuilder) -> None:
        trace.attempt = 0
        trace.add(Draft(kind="user", name="user", output=(a,)))
        trace.add(Draft(kind="user", name="user", output=(b,)))
        trace.add(Draft(kind="model", name="chat", input=(b,), output=(x,)))  # a was never read
        trace.add(Draft(kind="model", name="chat", input=(c, a), output=(y,)))  # another context

    trace = make(build)
    (back,), lost = there_and_back(trace)
    assert not lost
    same(trace, back)

    def shortened(trace: TraceBuilder) -> None:
        trace.add(Draft(kind="model", name="chat", input=(a, b), output=(x,)))
        trace.add(Draft(kind="model", name="chat", input=(a, c), output=(y,)))

    _, lost = there_and_back(make(shortened))
    assert lost == {"input (shortened context)": 1}


def test_lanes_become_sub_agents() -> None:
    def build(trace: TraceBuilder) -> None:
        trace.attempt = 0
        call = says("assistant", ToolCall("ask", "{}", "c1"))
        trace.add(Draft(kind="model", name="chat", output=(call,), span_id="m", input_tokens=1))
        trace.add(Draft(kind="agent", name="owl", lane="owl", parent_id="t", span_id="o", agent="owl"))
        inner = says("user", "hoot?")
        trace.add(Draft(kind="user", name="user", lane="owl", parent_id="o", output=(inner,)))
        hoot = says("assistant", "hoot")
        trace.add(Draft(kind="model", name="chat", lane="owl", parent_id="o", input=(inner,), output=(hoot,)))
        trace.add(Draft(kind="tool", name="ask", tool="ask", call_id="c1", span_id="t", result="hoot"))
        trace.add(Draft(kind="user", name="user", lane="elsewhere", output=(says("user", "z"),)))

    trace = make(build)
    (back,), lost = there_and_back(trace)
    assert not lost
    same(trace, back)
    item = json.loads(written(trace)[0])
    assert [s["trajectory_id"] for s in item["subagent_trajectories"]] == ["owl", "elsewhere"]
    assert item["steps"][0]["observation"]["results"][0]["subagent_trajectory_ref"] == [{"trajectory_id": "owl"}]
    assert item["subagent_trajectories"][0]["agent"]["name"] == "owl"


def test_a_trace_in_one_named_lane_and_an_empty_one() -> None:
    def named(trace: TraceBuilder) -> None:
        trace.attempt = 0
        trace.add(Draft(kind="user", name="user", lane="left", output=(says("user", "x"),)))

    trace = make(named)
    (back,), _ = there_and_back(trace)
    same(trace, back)
    empty = make(lambda trace: setattr(trace, "attempt", 0))
    data, lost = written(empty)
    assert lost == {"trace without steps": 1}
    (back,), _ = read_traces(bytes_source("x", data), "atif")
    assert not back.spans


def test_notes_of_ours_that_were_damaged_are_reported() -> None:
    item = json.loads(written(make(a_run))[0])
    item["steps"][2]["extra"]["ethogram"]["start_ns"] = "late"
    item["steps"][1]["extra"]["ethogram"]["heard"] = {"role": "nobody"}
    traces, report = read_traces(bytes_source("x", json.dumps(item).encode()), "atif")
    assert len(traces) == 1
    assert [x.where for x in report.skipped] == ["step 1", "step 2"]
    item["steps"] = [item["steps"][0], {"source": "system", "message": "m", "extra": {"ethogram": {"heard": True}}}]
    (cut,), _ = read_traces(bytes_source("x", json.dumps(item).encode()), "atif")
    assert [m.text for m in cut.messages] == ["Feed it.", "m"]  # what no reply reads any more keeps its place
    item["extra"]["outcome"] = {"outcome": "scored", "value": "much"}
    traces, report = read_traces(bytes_source("x", json.dumps(item).encode()), "atif")
    assert not traces
    assert report.skipped


@here
@pytest.mark.parametrize("format", REAL)
def test_real_traces_there_and_back(format: str) -> None:
    paths = sorted((DATA / REAL[format]).iterdir())
    assert paths
    for path in paths:
        traces, _ = read_traces(file_source(path, path.name), format)
        assert traces
        back, lost = there_and_back(*traces)
        assert not lost
        for before, after in zip(traces, back, strict=True):
            same(before, after)
