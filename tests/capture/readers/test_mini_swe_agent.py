from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ethogram.capture.intake import SourceReport
from ethogram.capture.memory import read_traces
from ethogram.capture.peek import peek_at
from ethogram.capture.readers import mini_swe_agent
from ethogram.capture.source import bytes_source, file_source
from ethogram.traces import Missing, Ref, Span, Trace

DATA = Path(__file__).parents[4] / "shared" / "data"
here = pytest.mark.skipif(not DATA.exists(), reason="../shared/data is not here")

CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "One ```bash block a turn."},
    {"role": "user", "content": "Wake the hedgehog. Then echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"},
    {"role": "assistant", "content": "THOUGHT: knock.\n\n```bash\nknock --soft\n```"},
    {"role": "user", "content": "<returncode>1</returncode>\n<output>\nsnore\n</output>"},
    {"role": "assistant", "content": "No command."},
    {"role": "user", "content": "Please give exactly one command."},
    {"role": "assistant", "content": "```bash\na\n```\nor\n```bash\nb\n```"},
    {"role": "user", "content": "Please give exactly one command."},
    {"role": "assistant", "content": "```mswea_bash_command\r\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\r\n```"},
    {"role": "user", "content": ""},
]


def read(value: Any, name: str = "runs/den__den-3.traj.json") -> tuple[list[Trace], SourceReport]:
    return read_traces(bytes_source(name, json.dumps(value).encode()), "mini-swe-agent")


def document(messages: list[Any] | None = None, **info: Any) -> dict[str, Any]:
    return {
        "info": {
            "mini_version": "1.14.0",
            "exit_status": "Submitted",
            "submission": "diff --git",
            "model_stats": {"instance_cost": 0.75, "api_calls": 4},
            "config": {"model": {"model_name": "hog-1", "model_kwargs": {"temperature": 0.0, "drop": {"x": 1}}}},
            **info,
        },
        "messages": CHAT if messages is None else messages,
        "trajectory_format": "mini-swe-agent-1.1",
        "instance_id": "den__den-3",
    }


def attributes(trace: Trace, span: Span) -> dict[str, Any]:
    return {} if span.attributes is None else json.loads(trace.text(span.attributes))


def test_a_bare_list() -> None:
    (trace,), report = read(CHAT)
    assert not report.skipped
    assert not report.lost
    assert trace.head.task == "den__den-3"
    assert trace.head.agent == "mini-swe-agent"
    assert trace.outcome == Missing("unscored")
    assert [(m.role, m.text) for m in trace.messages] == [(m["role"], m["content"]) for m in CHAT]
    assert [(s.kind, s.name, s.status) for s in trace.steps] == [
        ("user", "user", "unset"),
        ("model", "chat", "unset"),
        ("tool", "bash", "error"),
        ("model", "chat", "unset"),
        ("user", "user", "unset"),
        ("model", "chat", "unset"),
        ("user", "user", "unset"),
        ("model", "chat", "unset"),
        ("tool", "bash", "ok"),
    ]
    first, last = (s for s in trace.spans if s.kind == "tool")
    assert trace.text(first.arguments or Ref("")) == '{"command":"knock --soft"}'
    assert trace.text(first.result or Ref("")) == CHAT[3]["content"]
    assert attributes(trace, first) == {"returncode": 1}
    assert trace.text(last.arguments or Ref("")) == '{"command":"echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}'
    assert [s.stop_reason for s in trace.spans if s.kind == "model"] == ["tool_calls", "stop", "stop", "tool_calls"]
    assert trace.conversation([s for s in trace.spans if s.kind == "model"][-1]) == trace.messages[:8]


def test_a_document() -> None:
    (trace,), report = read(document())
    assert not report.skipped
    assert trace.head.task == "den__den-3"
    assert trace.answer == "diff --git"
    meta = trace.head.meta
    assert (meta["exit_status"], meta["mini_version"], meta["api_calls"]) == ("Submitted", "1.14.0", 4)
    assert meta["trajectory_format"] == "mini-swe-agent-1.1"
    assert meta["usage_is_per_trace"] is True
    assert trace.totals.cost_usd == 0.75
    models = [s for s in trace.spans if s.kind == "model"]
    assert [s.cost_usd for s in models] == [None, None, None, 0.75]
    assert {s.model for s in models} == {"hog-1"}
    assert models[0].params == {"temperature": 0.0}
    assert trace.spans[0].kind == "agent"
    assert attributes(trace, trace.spans[0])["info"]["config"]["model"]["model_kwargs"]["drop"] == {"x": 1}
    assert len(trace.messages) == len(CHAT)


def test_usage_times_and_tool_calls_of_newer_files() -> None:
    usage = {
        "prompt_tokens": 100,
        "completion_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": 60},
        "completion_tokens_details": {"reasoning_tokens": 4},
    }
    response = {
        "id": "r1",
        "model": "hog-2",
        "usage": usage,
        "choices": [{"finish_reason": "tool_calls", "message": {}}],
    }
    call = {"id": "c1", "type": "function", "function": {"name": "bash", "arguments": '{"command": "ls"}'}}
    messages = [
        {"role": "user", "content": "Go.", "extra": {"timestamp": 1_700_000_000.25}},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [call],
            "extra": {"response": response, "cost": 0.125, "timestamp": 1_700_000_001.0, "mood": "sleepy"},
        },
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": "gone",
            "extra": {"returncode": 2, "timestamp": 1_700_000_003.0},
        },
        {
            "role": "assistant",
            "content": "two at once",
            "extra": {"actions": [{"command": "a"}, "b"], "cost": 0.25},
        },
        {"role": "user", "content": "A"},
        {"role": "user", "content": "B"},
        {"role": "exit", "content": "", "extra": {"exit_status": "Submitted"}},
    ]
    (trace,), report = read(document(messages))
    assert not report.skipped
    assert len(trace.messages) == 7
    totals = trace.totals
    assert (totals.input_tokens, totals.cache_read_tokens, totals.output_tokens) == (40, 60, 9)
    assert totals.reasoning_tokens == 4
    assert totals.cost_usd == 0.375
    assert "usage_is_per_trace" not in trace.head.meta
    model, tool = trace.steps[1:3]
    assert (model.model, model.stop_reason) == ("hog-2", "tool_calls")
    assert attributes(trace, model)["mood"] == "sleepy"
    assert attributes(trace, model)["response_id"] == "r1"
    assert (tool.tool, tool.call_id, tool.status, tool.seconds) == ("bash", "c1", "error", 2.0)
    commands = [json.loads(trace.text(s.arguments))["command"] for s in trace.spans if s.kind == "tool" and s.arguments]
    assert commands == ["ls", "a", "b"]
    assert trace.spans[-1].name == "exit"


def test_a_command_that_was_never_run() -> None:
    (trace,), report = read(CHAT[:3])
    assert report.lost == {"tool result (never came)": 1}
    assert trace.totals.tool_calls == 1
    (trace,), report = read([*CHAT[:3], CHAT[2]])
    assert [s.kind for s in trace.steps] == ["user", "model", "tool", "model", "tool"]
    assert report.lost == {"tool result (never came)": 2}


def test_lines_of_documents_and_bad_messages() -> None:
    data = b"\n".join(json.dumps(document()).encode() for _ in range(2))
    traces, report = read_traces(bytes_source("log", data), "mini-swe-agent")
    assert len(traces) == 2
    assert [t.head.attempt for t in traces] == [0, 1]
    (trace,), report = read([CHAT[0], 3, "x", CHAT[1]])
    assert [x.where for x in report.skipped] == ["element 1", "element 2"]
    assert len(trace.messages) == 2
    traces, report = read([1, 2])
    assert not traces
    assert "no message" in report.skipped[-1].why
    traces, report = read({"messages": 3, "info": {}})
    assert not traces
    assert report.skipped


def test_a_cut_list_keeps_its_messages() -> None:
    data = json.dumps(CHAT, indent=2).encode()
    (trace,), report = read_traces(bytes_source("log", data[: data.index(b"No command")]), "mini-swe-agent")
    assert len(trace.messages) == 4
    assert report.skipped


def test_what_is_recognised() -> None:
    def score(value: Any) -> int:
        return mini_swe_agent.sniff(peek_at(bytes_source("log", json.dumps(value).encode())))

    assert score(CHAT) == 90
    assert score(document()) == 98
    assert score({"info": {"mini_version": "1"}, "messages": []}) == 98
    assert score({"info": {"exit_status": "x"}, "messages": CHAT}) == 88
    weak = [{"role": "user", "content": "```bash\nls\n```"}, {"role": "user", "content": "<returncode>0</returncode>"}]
    assert score(weak) == 85
    assert score(weak[:1]) == 0
    assert score([{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hi."}]) == 0
    assert score({"messages": [{"role": "user", "content": "Hello."}]}) == 0
    assert score({"info": 3, "messages": [3]}) == 0


def test_rough_handling(rough: Callable[[str, bytes], None]) -> None:
    rough("mini-swe-agent", json.dumps(CHAT[:5]).encode())
    usage = {"prompt_tokens": 3, "completion_tokens": 1}
    extra = {"response": {"usage": usage, "choices": [{}]}, "cost": 1.0, "timestamp": 1.7e9, "actions": ["ls"]}
    rough("mini-swe-agent", json.dumps(document([*CHAT[:2], {**CHAT[2], "extra": extra}, CHAT[3]])).encode())


@here
def test_the_real_file() -> None:
    expected = json.loads((DATA / "expected.json").read_text())["mini_swe_agent"]["local.traj.json"]
    path = DATA / "mini_swe_agent" / "local.traj.json"
    source = file_source(path, path.name)
    assert mini_swe_agent.sniff(peek_at(source)) == 90
    (trace,), report = read_traces(source, "mini-swe-agent")
    assert not report.skipped
    raw = json.loads(path.read_text())
    assert type(raw).__name__ == expected["top_level"]
    assert len(trace.messages) == expected["n_messages"]
    assert Counter(m.role for m in trace.messages) == expected["roles"]
    assert [(m.role, m.text) for m in trace.messages] == [(m["role"], m["content"]) for m in raw]
    assert expected["info"] is None
    assert trace.head.meta == {}
    assert [s.name for s in trace.spans if s.kind == "tool"] == ["bash", "bash"]
