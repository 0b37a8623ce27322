from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ethogram.capture.intake import SourceReport
from ethogram.capture.memory import read_traces
from ethogram.capture.peek import peek_at
from ethogram.capture.readers import atif
from ethogram.capture.source import bytes_source, file_source
from ethogram.capture.writers import atif as writer
from ethogram.traces import File, Missing, Reasoning, Ref, Span, Text, ToolCall, Trace

DATA = Path(__file__).parents[4] / "shared" / "data"
here = pytest.mark.skipif(not DATA.exists(), reason="../shared/data is not here")
FILES = ("openhands__hello-world.trajectory.json", "terminus_2__hello-world-invalid-json.trajectory.json")
UUID = "01234567-89ab-cdef-0123-456789abcdef"


def trajectory(*steps: Any, version: str = "1.7", **fields: Any) -> dict[str, Any]:
    numbered = [{"step_id": i + 1, **s} if isinstance(s, dict) else s for i, s in enumerate(steps)]
    agent = {"name": "heron", "version": "3", "model_name": "fish/9", "extra": {"temperature": 0.5, "mood": "calm"}}
    return {
        "schema_version": f"ATIF-v{version}",
        "session_id": "pond",
        "agent": agent,
        "steps": numbered,
        **fields,
    }


def user(words: Any, **fields: Any) -> dict[str, Any]:
    return {"source": "user", "message": words, **fields}


def agent(words: Any = "", *calls: dict[str, Any], results: Any = None, **fields: Any) -> dict[str, Any]:
    step = {"source": "agent", "message": words, **fields}
    if calls:
        step["tool_calls"] = list(calls)
    if results is not None:
        step["observation"] = {"results": results}
    return step


def call(name: str, call_id: str | None = "c1", **arguments: Any) -> dict[str, Any]:
    return {"tool_call_id": call_id, "function_name": name, "arguments": arguments}


def read(*items: Any) -> tuple[list[Trace], SourceReport]:
    data = b"\n".join(json.dumps(i).encode() for i in items)
    return read_traces(bytes_source("log", data), "atif")


def attributes(trace: Trace, span: Span) -> dict[str, Any]:
    return {} if span.attributes is None else json.loads(trace.text(span.attributes))


def test_a_trajectory() -> None:
    metrics = {"prompt_tokens": 100, "cached_tokens": 60, "completion_tokens": 7, "cost_usd": 0.25}
    item = trajectory(
        {"source": "system", "message": "Stand still."},
        user("Catch a fish.", timestamp="2026-01-02T03:04:05Z"),
        agent(
            "I wait.",
            call("strike", speed=3),
            results=[{"source_call_id": "c1", "content": "splash"}],
            reasoning_content="It comes.",
            metrics=metrics,
            timestamp="2026-01-02T03:04:06.5Z",
            reasoning_effort="low",
        ),
        agent("Done.", metrics={"prompt_tokens": 9, "completion_tokens": 1}, model_name="fish/10", novelty=[1]),
        notes="a note",
        final_metrics={
            "total_prompt_tokens": 109,
            "total_completion_tokens": 8,
            "total_cached_tokens": 60,
            "total_cost_usd": 0.25,
        },
        continued_trajectory_ref="more.json",
        extra={"task_name": "fishing"},
    )
    (trace,), report = read(item)
    assert not report.skipped
    assert not report.lost
    assert trace.head.task == "fishing"
    assert trace.head.agent == "heron"
    assert trace.outcome == Missing("unscored")
    meta = trace.head.meta
    assert (meta["schema_version"], meta["agent_version"], meta["notes"]) == ("ATIF-v1.7", "3", "a note")
    assert meta["continued_trajectory_ref"] == "more.json"
    assert meta["total_prompt_tokens"] == 109
    assert "final_metrics_differ" not in meta
    assert "note" not in meta
    assert trace.signatures() == ("user:user", "model:chat:tool_calls:strike", "tool:strike", "model:chat:stop:-")
    assert [m.role for m in trace.messages] == ["system", "user", "assistant", "tool", "assistant"]
    assert trace.messages[2].parts == (
        Reasoning("It comes."),
        Text("I wait."),
        ToolCall("strike", '{"speed":3}', "c1"),
    )
    totals = trace.totals
    assert (totals.input_tokens, totals.cache_read_tokens, totals.output_tokens) == (49, 60, 8)
    assert totals.cost_usd == 0.25
    _, first, tool, last = trace.steps
    assert (first.model, last.model) == ("fish/9", "fish/10")
    assert first.params == {"temperature": 0.5, "reasoning_effort": "low"}
    assert trace.text(tool.result or Ref("")) == "splash"
    assert trace.text(tool.arguments or Ref("")) == '{"speed":3}'
    assert attributes(trace, last) == {"step_id": 4, "novelty": [1]}
    assert trace.conversation(last) == trace.messages[:4]
    root = trace.spans[0]
    assert (root.kind, root.name) == ("agent", "heron")
    assert root.seconds == 1.5
    assert all(s.parent_id == root.span_id for s in trace.spans[1:])
    assert attributes(trace, root)["agent"]["extra"]["mood"] == "calm"


def test_results_are_paired_by_id_and_then_by_place() -> None:
    calls = (call("a", "c1"), call("b", "c2"), call("c", "c2"), call("d", "c4"))
    results = [
        {"source_call_id": "c2", "content": "for b"},
        {"content": "for a"},
        {"source_call_id": "c2", "content": "for c"},
        {"source_call_id": "nobody", "content": "Error: for d"},
        {"content": "the pond is quiet"},
    ]
    (trace,), report = read(trajectory(agent("x", *calls, results=results)))
    found = {s.tool: trace.text(s.result) for s in trace.spans if s.kind == "tool" and s.result}
    assert found == {"a": "for a", "b": "for b", "c": "for c", "d": "Error: for d"}
    assert [s.status for s in trace.spans if s.kind == "tool"] == ["ok", "ok", "ok", "error"]
    assert trace.steps[-1].name == "environment"
    assert trace.messages[-1].text == "the pond is quiet"
    assert not report.lost
    (trace,), report = read(trajectory(agent("x", call("a"))))
    assert trace.totals.tool_calls == 1
    assert report.lost == {"tool result (never came)": 1}


@pytest.mark.parametrize("call_id", [None, "", "same"])
def test_calls_of_one_step_with_one_id(call_id: str | None) -> None:
    calls = [call("a", call_id), call("b", call_id), call("c", "own")]
    results = [{"source_call_id": i, "content": words} for i, words in (("own", "C"), (call_id, "A"), (call_id, "B"))]
    (trace,), report = read(trajectory(agent("x", *calls, results=results)))
    assert [trace.text(s.result) for s in trace.spans if s.kind == "tool" and s.result] == ["A", "B", "C"]
    assert not report.lost
    (trace,), report = read(trajectory(agent("x", *calls, results=results[:2])))
    assert [s.result and trace.text(s.result) for s in trace.spans if s.kind == "tool"] == ["A", None, "C"]
    assert report.lost == {"tool result (never came)": 1}


def test_copied_context_is_read_and_not_counted() -> None:
    metrics = {"prompt_tokens": 100, "completion_tokens": 10, "cost_usd": 1.0}
    copied = {"is_copied_context": True}
    item = trajectory(
        user("Fish.", **copied),
        agent("Wait.", call("look"), results=[{"content": "weed"}], metrics=metrics, **copied),
        user("And now?"),
        agent("Now.", metrics=metrics),
        final_metrics={"total_prompt_tokens": 100, "total_completion_tokens": 10, "total_cost_usd": 1.0},
    )
    (trace,), report = read(item)
    assert not report.skipped
    assert not report.lost
    assert [s.kind for s in trace.steps] == ["user", "model"]
    assert trace.totals.input_tokens == 100
    assert trace.totals.cost_usd == 1.0
    assert trace.totals.tool_calls == 0
    assert [m.text for m in trace.messages] == ["Fish.", "Wait.", "weed", "And now?", "Now."]
    assert [m.text for m in trace.conversation(trace.steps[-1])] == ["Fish.", "Wait.", "weed", "And now?"]
    meta = trace.head.meta
    assert (meta["copied_steps"], meta["copied_prompt_tokens"], meta["copied_cost_usd"]) == (2, 100, 1.0)
    assert "final_metrics_differ" not in meta


def test_copied_context_after_a_reply_starts_another_context() -> None:
    item = trajectory(user("A"), agent("B"), agent("Summary", is_copied_context=True), agent("C"))
    (trace,), _ = read(item)
    last = trace.steps[-1]
    assert last.continues is None
    assert [m.text for m in trace.conversation(last)] == ["Summary"]


def test_embedded_sub_agents_are_lanes_under_their_call() -> None:
    metrics = {"prompt_tokens": 5, "completion_tokens": 1}
    inner = trajectory(user("Dive."), agent("Cold.", metrics=metrics), trajectory_id="chick-1")
    inner["agent"] = {"name": "chick", "version": "1"}
    other = trajectory(agent("Alone.", metrics=metrics), trajectory_id="chick-2")
    old = trajectory(agent("Old.", metrics=metrics), session_id="by-session")
    refs = [{"trajectory_id": "chick-1"}, {"session_id": "by-session"}, {"trajectory_path": "far.json", "x": 1}]
    item = trajectory(
        agent(
            "Go.",
            call("delegate"),
            results=[{"source_call_id": "c1", "content": "ok", "subagent_trajectory_ref": refs}],
            metrics=metrics,
        ),
        {
            "source": "system",
            "message": "Handed over.",
            "observation": {"results": [{"subagent_trajectory_ref": [{"session_id": "elsewhere"}]}]},
        },
        subagent_trajectories=[inner, other, old],
        final_metrics={"total_prompt_tokens": 20, "total_completion_tokens": 4},
    )
    (trace,), report = read(item)
    assert not report.skipped
    assert Counter(s.lane for s in trace.spans if s.kind == "model") == {
        "": 1,
        "chick-1": 1,
        "chick-2": 1,
        "by-session": 1,
    }
    tool = next(s for s in trace.spans if s.tool == "delegate")
    parents = {s.lane: s.parent_id for s in trace.spans if s.kind == "agent"}
    assert parents == {
        "": None,
        "chick-1": tool.span_id,
        "by-session": tool.span_id,
        "chick-2": trace.spans[0].span_id,
    }
    assert tool not in trace.steps
    handoffs = [s for s in trace.spans if s.kind == "handoff"]
    assert [s.name for s in handoffs] == ["far.json", "elsewhere"]
    assert attributes(trace, handoffs[0])["subagent_trajectory_ref"]["x"] == 1
    assert trace.totals.input_tokens == 20
    assert "final_metrics_differ" not in trace.head.meta  # the final metrics include the sub-agents


def test_final_metrics_are_checked_against_the_steps() -> None:
    item = trajectory(
        agent("x", metrics={"prompt_tokens": 5, "completion_tokens": 1, "cost_usd": 0.1}),
        final_metrics={
            "total_prompt_tokens": 50,
            "total_completion_tokens": 1,
            "total_cost_usd": 0.1 + 1e-12,
            "total_steps": 1,
        },
    )
    (trace,), _ = read(item)
    meta = trace.head.meta
    assert meta["final_metrics_differ"] is True
    assert meta["steps_prompt_tokens"] == 5
    assert "steps_cost_usd" not in meta
    assert trace.totals.input_tokens == 5


def test_metrics_of_the_whole_only_are_counted_at_the_last_reply() -> None:
    item = trajectory(
        user("a"),
        agent("b"),
        agent("c", call("t"), results=[{"content": "r"}]),
        final_metrics={"total_prompt_tokens": 90, "total_completion_tokens": 4, "total_cost_usd": 0.5},
    )
    (trace,), _ = read(item)
    assert trace.head.meta["usage_is_per_trace"] is True
    assert (trace.totals.input_tokens, trace.totals.output_tokens, trace.totals.cost_usd) == (90, 4, 0.5)
    assert [s.input_tokens for s in trace.spans if s.kind == "model"] == [None, 90]
    nobody = trajectory(user("a"), final_metrics={"total_prompt_tokens": 90})
    (trace,), _ = read(nobody)
    assert trace.totals.input_tokens is None


@pytest.mark.parametrize(
    ("metrics", "fresh", "read_tokens", "written"),
    [
        ({"prompt_tokens": 10}, 10, None, None),
        ({"prompt_tokens": 10, "cached_tokens": 4}, 6, 4, None),
        ({"prompt_tokens": 10, "cached_tokens": 4, "extra": {"cache_creation_input_tokens": 5}}, 1, 4, 5),
        ({"prompt_tokens": 10, "cached_tokens": 4, "extra": {"cache_creation_input_tokens": 50}}, 6, 4, None),
        ({"prompt_tokens": 3, "cached_tokens": 40}, 3, 40, None),
        ({"prompt_tokens": "12", "cached_tokens": "2"}, 10, 2, None),
        ({"prompt_tokens": [], "cached_tokens": {}}, None, None, None),
    ],
)
def test_fresh_input(metrics: Any, fresh: int | None, read_tokens: int | None, written: int | None) -> None:
    (trace,), _ = read(trajectory(agent("x", metrics={**metrics, "completion_tokens": 2})))
    totals = trace.totals
    assert (totals.input_tokens, totals.cache_read_tokens, totals.cache_write_tokens) == (fresh, read_tokens, written)
    assert totals.output_tokens == 2


def test_token_arrays_are_lost_and_other_extras_kept() -> None:
    metrics = {
        "prompt_tokens": 1,
        "completion_tokens": 5,
        "logprobs": [-0.5],
        "prompt_token_ids": [1],
        "completion_token_ids": [2],
        "extra": {"reasoning_tokens": 3, "speed": 9},
    }
    (trace,), report = read(trajectory(agent("x", metrics=metrics, extra={"mood": "calm"}, llm_call_count=2)))
    assert report.lost == {
        "metrics.logprobs": 1,
        "metrics.prompt_token_ids": 1,
        "metrics.completion_token_ids": 1,
    }
    assert trace.totals.reasoning_tokens == 3
    noted = attributes(trace, trace.steps[0])
    assert noted["metrics"] == {"extra": {"reasoning_tokens": 3, "speed": 9}}
    assert noted["extra"] == {"mood": "calm"}
    assert noted["llm_call_count"] == 2


def test_pictures_and_sounds() -> None:
    parts = [
        {"type": "text", "text": "Look:"},
        {"type": "image", "source": {"media_type": "image/png", "path": "shots/1.png"}},
        {"type": "audio", "source": {"media_type": "audio/wav", "path": "cries/1.wav"}},
        {"type": "image", "source": {"media_type": "image/png", "path": "data:image/png;base64," + "QUJD" * 99}},
    ]
    (trace,), report = read(trajectory(user(parts), agent("?", call("t"), results=[{"content": parts}]), version="1.8"))
    message = trace.messages[0]
    assert message.text == "Look:"
    assert message.parts[1:3] == (File("image/png", "shots/1.png"), File("audio/wav", "cries/1.wav"))
    last = message.parts[3]
    assert isinstance(last, File)
    assert last.digest
    assert report.lost == {"file bytes": 1}
    assert "shots/1.png" in trace.messages[2].text
    assert "note" not in trace.head.meta


def test_steps_without_the_model() -> None:
    item = trajectory(
        agent("", call("reflex"), results=[{"content": "kick"}], llm_call_count=0),
        agent("By rote.", llm_call_count=0),
        agent("Thinking.", llm_call_count=1),
        {"source": "umpire", "message": "Out!"},
    )
    (trace,), report = read(item)
    assert not report.skipped
    assert trace.totals.model_calls == 1
    assert [(s.kind, s.name) for s in trace.spans[1:]] == [
        ("tool", "reflex"),
        ("other", "agent"),
        ("model", "chat"),
        ("other", "umpire"),
    ]
    assert [m.role for m in trace.messages] == ["tool", "assistant", "assistant", "other"]


@pytest.mark.parametrize("version", [f"1.{n}" for n in range(9)])
def test_known_versions_are_read_without_a_note(version: str) -> None:
    (trace,), _ = read(trajectory(user("x"), version=version))
    assert "note" not in trace.head.meta


@pytest.mark.parametrize("version", ["1.9", "1.10", "2.0", "x"])
def test_newer_versions_are_read_with_a_note(version: str) -> None:
    (trace,), report = read(trajectory(user("x"), version=version))
    assert not report.skipped
    assert trace.head.meta["note"] == f"schema ATIF-v{version}: read as ATIF-v1.8"


def test_lines_arrays_and_names() -> None:
    items = [trajectory(user(f"{i}"), session_id=f"s{i}") for i in range(3)]
    for data in (
        b"\n".join(json.dumps(i).encode() for i in items),
        json.dumps(items).encode(),
    ):
        traces, report = read_traces(bytes_source("log", data), "atif")
        assert [t.head.task for t in traces] == ["s0", "s1", "s2"]
        assert not report.skipped
    (here_,), _ = read_traces(bytes_source("a", json.dumps(trajectory(user("x"), trajectory_id=UUID)).encode()), "atif")
    (there,), _ = read_traces(bytes_source("b", json.dumps(trajectory(user("x"), trajectory_id=UUID)).encode()), "atif")
    assert here_.head.episode == there.head.episode
    (a,), _ = read_traces(bytes_source("a", json.dumps(items[0]).encode()), "atif")
    (b,), _ = read_traces(bytes_source("b", json.dumps(items[0]).encode()), "atif")
    assert a.head.episode != b.head.episode
    (nameless,), _ = read({"schema_version": "ATIF-v1.7", "steps": []})
    assert nameless.head.task == "trajectory 0"


def test_bad_parts_are_reported_and_good_ones_kept() -> None:
    item = trajectory(user("one"), 3, agent("x", 7), user("two"))  # type: ignore[arg-type]
    item["subagent_trajectories"] = [5, {"agent": {"name": "chick"}}]
    (trace,), report = read(item)
    assert [m.text for m in trace.messages] == ["one", "two"]
    assert [x.where for x in report.skipped] == ["step 1", "step 2", "sub-agent sub-agent 0", "sub-agent sub-agent 1"]
    traces, report = read({"schema_version": "ATIF-v1.7", "steps": "none"}, trajectory(user("x")), [1])
    assert len(traces) == 1
    assert [x.where for x in report.skipped] == ["line 1", "line 3"]
    deep = trajectory(user("x"))
    for _ in range(30):
        deep = trajectory(user("x"), subagent_trajectories=[deep])
    (trace,), report = read(deep)
    assert len(trace.messages) == atif.MAX_DEPTH + 1
    assert "nested" in report.skipped[0].why


def test_what_is_nested_too_deeply_is_reported_and_the_run_kept() -> None:
    deep = b'{"a":' * 3000 + b"1" + b"}" * 3000
    item = trajectory(user("one"), agent("two", call("t", x="@@")), user("three"), notes="@@")
    data = json.dumps(item).encode().replace(b'"@@"', deep)
    (trace,), report = read_traces(bytes_source("log", data), "atif")
    assert report.lost["notes (nested too deeply)"] == 1
    assert {"what the run says of itself", "step 1"} <= {x.where for x in report.skipped}
    assert [m.text for m in trace.messages] == ["one", "three"]


def test_a_cut_document_keeps_its_steps() -> None:
    data = json.dumps(trajectory(user("one"), user("two"), user("three"), agent("four")), indent=1).encode()
    cut = data[: data.index(b"three") + 2]
    (trace,), report = read_traces(bytes_source("log", cut), "atif")
    assert [m.text for m in trace.messages if m.text] == ["one", "two"]
    assert report.skipped


def test_what_is_recognised() -> None:
    def score(value: Any) -> int:
        return atif.sniff(peek_at(bytes_source("log", json.dumps(value).encode())))

    whole = trajectory(user("x"))
    assert score(whole) == 99
    assert score([whole]) == 99
    del whole["schema_version"]
    assert score(whole) == 60
    assert score({"schema_version": "1", "agent": "x", "steps": [1]}) == 0
    assert score({"schema_version": ["ATIF-v1.0"]}) == 0


def test_rough_handling(rough: Callable[[str, bytes], None]) -> None:
    item = trajectory(
        user([{"type": "text", "text": "x"}]),
        agent(
            "y",
            call("t", a=1),
            results=[{"source_call_id": "c1", "content": "r", "subagent_trajectory_ref": [{"trajectory_id": "sub"}]}],
            metrics={"prompt_tokens": 3, "cached_tokens": 1, "extra": {"reasoning_tokens": 1}},
        ),
        user("copied", is_copied_context=True),
        final_metrics={"total_prompt_tokens": 3},
        subagent_trajectories=[trajectory(agent("z"), trajectory_id="sub")],
        extra={"task": "t"},
    )
    rough("atif", json.dumps(item).encode())


def test_rough_handling_of_what_we_wrote(rough: Callable[[str, bytes], None]) -> None:
    step = agent("y", call("t", a=1), results=[{"content": "r"}], reasoning_content="z", extra={"b": 2})
    (trace,), _ = read(trajectory({"source": "system", "message": "s"}, user("x"), step, agent("done")))
    stream = io.BytesIO()
    writer.write([trace], stream)
    rough("atif", stream.getvalue())


@here
@pytest.mark.parametrize("name", FILES)
def test_the_real_files(name: str) -> None:
    expected = json.loads((DATA / "expected.json").read_text())["atif"][name]
    source = file_source(DATA / "atif" / name, name)
    assert atif.sniff(peek_at(source)) == 99
    (trace,), report = read_traces(source, "atif")
    assert not report.skipped
    meta = trace.head.meta
    assert meta["schema_version"] == expected["schema_version"]
    assert trace.head.agent == expected["agent"]
    steps = [s for s in trace.spans if "step_id" in attributes(trace, s) or s.name == "copied"]
    assert len(steps) == expected["n_steps"]
    sources = Counter({"model": "agent", "user": "user", "other": "system"}[s.kind] for s in steps)
    assert sources == expected["sources"]
    assert trace.totals.tool_calls == expected["n_tool_calls"]
    assert sum(len(m.tool_calls) for m in trace.messages) == expected["n_tool_calls"]
    assert meta.get("copied_steps", 0) == expected["n_copied_context_steps"]
    assert {k: v for k, v in meta.items() if k.startswith("total_")} == expected["final_metrics"]
    assert "final_metrics_differ" not in meta
    totals = trace.totals
    prompt = sum(n or 0 for n in (totals.input_tokens, totals.cache_read_tokens, totals.cache_write_tokens))
    counted = {"prompt_tokens": prompt, "completion_tokens": totals.output_tokens, "cost_usd": totals.cost_usd}
    assert counted == pytest.approx(expected["sum_step_metrics_without_copied"], rel=1e-9)
    everything = {k: (v or 0) + float(meta.get(f"copied_{k}") or 0) for k, v in counted.items()}
    assert everything == pytest.approx(expected["sum_step_metrics_all"], rel=1e-9)
    assert meta.get("continued_trajectory_ref") == expected["continued_trajectory_ref"]
    assert sum(s.kind == "handoff" for s in trace.spans) == expected["subagent_refs"]
    assert sum(s.kind == "agent" for s in trace.spans) == 1
