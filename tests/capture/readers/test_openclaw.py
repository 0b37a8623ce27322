from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ethogram.capture.intake import SourceReport
from ethogram.capture.memory import read_traces
from ethogram.capture.peek import peek_at
from ethogram.capture.readers import _openclaw_lane, openclaw
from ethogram.capture.source import bytes_source, file_source
from ethogram.traces import Missing, Reasoning, Ref, Span, Text, ToolCall, Trace

DATA = Path(__file__).parents[4] / "shared" / "data"
here = pytest.mark.skipif(not DATA.exists(), reason="../shared/data is not here")

MAIN = "agent:main:main"
CHAT = "agent:main:telegram:default:direct:[REMOVED]"
CRAB = "agent:main:subagent:crab-1"
START = 1_780_000_000_000


def event(kind: str, at: int | None = None, key: str | None = MAIN, **fields: Any) -> dict[str, Any]:
    line: dict[str, Any] = {"type": kind, "agentId": "main", **fields}
    if key is not None:
        line["sessionKey"] = key
    if at is not None:
        line |= {"ts": START + at, "seq": at}
    return line


def user(words: str, at: int) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": words}], "timestamp": START + at}


def assistant(at: int, *content: dict[str, Any], **fields: Any) -> dict[str, Any]:
    cost = {"input": 0.1, "output": 0.2, "cacheRead": 0, "cacheWrite": 0, "total": 0.25}
    return {
        "role": "assistant",
        "content": list(content),
        "api": "messages",
        "provider": "anthropic",
        "model": "claw-1",
        "usage": {"input": 3, "output": 5, "cacheRead": 7, "cacheWrite": 11, "totalTokens": 26, "cost": cost},
        "stopReason": "toolUse" if any(c["type"] == "toolCall" for c in content) else "stop",
        "timestamp": START + at,
        **fields,
    }


def call(call_id: str, name: str = "exec", **arguments: Any) -> dict[str, Any]:
    return {"type": "toolCall", "id": call_id, "name": name, "arguments": arguments}


def result(call_id: str, words: str, at: int, name: str = "exec", **fields: Any) -> dict[str, Any]:
    return {
        "role": "toolResult",
        "toolCallId": call_id,
        "toolName": name,
        "content": [{"type": "text", "text": words}],
        "isError": False,
        "timestamp": START + at,
        **fields,
    }


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def encode(*lines: Any) -> bytes:
    return b"".join((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines)


def read(*lines: Any) -> tuple[list[Trace], SourceReport]:
    return read_traces(bytes_source("beach.jsonl", encode(*lines)), "openclaw")


def attributes(trace: Trace, span: Span) -> dict[str, Any]:
    return {} if span.attributes is None else json.loads(trace.text(span.attributes))


def a_run() -> list[dict[str, Any]]:
    thinking = {"type": "thinking", "thinking": "Dig.", "thinkingSignature": "c2ln"}
    talk = [
        user("Dig a hole.", 1),
        assistant(2, thinking, text("Digging."), call("c_1", command="dig"), call("c_2", command="rest")),
        result("c_1", "sand", 6, details={"exitCode": 0}),
        result("c_2", "zzz", 7, isError=True),
        assistant(8, text("Done.")),
    ]
    return [
        event("message.in", 0, None, channel="shell", content="Dig a hole.", timestamp=START),
        event("agent.start", 1, prompt="Dig a hole.", promptLength=11),
        event("agent.start", 1, prompt="Dig a hole.", promptLength=11, messages=[]),
        event("tool.start", 3, CHAT, toolName="exec", params={"command": "dig"}),
        event("tool.start", 4, CHAT, toolName="exec", params={"command": "rest"}),
        event("tool.end", 5, CHAT, toolName="exec", durationMs=2, success=True),
        event("tool.end", 6, CHAT, toolName="exec", durationMs=2, success=True),
        event("agent.end", 9, messages=talk, success=True, durationMs=8, markdown=[{"filename": "A.md"}]),
    ]


def test_a_run() -> None:
    (trace,), report = read(*a_run())
    assert not report.skipped
    assert report.lost == {"thinking signature": 1}
    assert trace.head.task == "beach"
    assert trace.head.agent == "openclaw"
    assert trace.outcome == Missing("unscored")
    meta = trace.head.meta
    assert json.loads(str(meta["events"])) == {
        "message.in": 1,
        "agent.start": 2,
        "tool.start": 2,
        "tool.end": 2,
        "agent.end": 1,
    }
    assert (meta["events_without_time"], meta["lanes"]) == (0, 1)
    assert trace.signatures() == (
        "user:message.in",
        "model:chat:toolUse:exec,exec",
        "tool:exec",
        "tool:exec:error",
        "model:chat:stop:-",
    )
    assert [m.role for m in trace.messages] == ["user", "assistant", "tool", "tool", "assistant"]
    assert trace.messages[1].parts == (
        Reasoning("Dig."),
        Text("Digging."),
        ToolCall("exec", '{"command":"dig"}', "c_1"),
        ToolCall("exec", '{"command":"rest"}', "c_2"),
    )
    totals = trace.totals
    assert (totals.input_tokens, totals.cache_read_tokens, totals.cache_write_tokens) == (6, 14, 22)
    assert (totals.output_tokens, totals.cost_usd) == (10, 0.5)
    first, second = (s for s in trace.spans if s.kind == "tool")
    assert [trace.text(s.result or Ref("")) for s in (first, second)] == ["sand", "zzz"]
    assert first.start_ns == (START + 3) * 10**6  # its own event knows when it began
    assert attributes(trace, first)["details"] == {"exitCode": 0}
    assert attributes(trace, first)["durationMs"] == 2
    run = next(s for s in trace.spans if s.kind == "agent")
    assert (run.span_id, run.status) == ("run:main:1", "ok")
    assert attributes(trace, run)["markdown"] == [{"filename": "A.md"}]
    assert all(s.parent_id == run.span_id for s in trace.spans if s.kind in ("model", "tool"))
    model = trace.steps[1]
    assert (model.model, model.provider) == ("claw-1", "anthropic")
    assert trace.conversation(trace.steps[-1]) == trace.messages[:4]


def test_a_conversation_that_is_told_again_and_again_is_read_once() -> None:
    first = [user("a", 1), assistant(2, text("b"), call("toolu_1")), result("toolu_1", "x", 3)]
    later = [user("a", 1), assistant(2, text("b"), call("toolu1")), result("toolu1", "x", 3)]  # ids re-spelt
    again = [*later, user("c", 4), assistant(5, text("d"), responseId="r1")]
    more = [*again[:-1], assistant(5, text("D"), responseId="r1"), user("e", 6), assistant(7, text("f"))]
    lines = [
        event("agent.end", 3, messages=first, success=True),
        event("agent.start", 4, prompt="c"),
        event("agent.start", 4, prompt="c", messages=later),
        event("agent.end", 5, messages=again, success=True),
        event("agent.end", 7, messages=more, success=False, error="tide"),
    ]
    (trace,), report = read(*lines)
    assert not report.skipped
    assert not report.lost
    assert [m.text for m in trace.messages] == ["a", "b", "x", "c", "d", "e", "f"]
    assert trace.totals.output_tokens == 15
    runs = [s for s in trace.spans if s.kind == "agent"]
    assert [s.span_id for s in runs] == ["run:main:1", "run:main:2", "run:main:3"]
    assert [s.status for s in runs] == ["ok", "ok", "error"]
    assert trace.text(runs[2].error or Ref("")) == "tide"


def test_sub_agents_are_lanes() -> None:
    inner = [user("Pinch.", 2), assistant(3, text("Pinched."))]
    lines = [
        event("agent.start", 1, prompt="Go."),
        event("agent.start", 2, CRAB, prompt="Pinch."),
        event("agent.end", 4, CRAB, messages=inner, success=True),
        event("agent.end", 5, messages=[user("Go.", 1), assistant(5, text("Gone."))], success=True),
        event("agent.start", 6, "agent:guard:main", prompt="Watch."),
        event("tool.start", 7, "agent:guard:main", toolName="look", params={"far": True}),
    ]
    (trace,), report = read(*lines)
    assert not report.skipped
    lanes = {s.lane for s in trace.spans}
    assert lanes == {"", "subagent:crab-1", "agent:guard"}
    crab = [s for s in trace.spans if s.lane == "subagent:crab-1"]
    assert [s.kind for s in crab] == ["user", "model", "agent"]
    assert {s.parent_id for s in crab[:2]} == {"run:subagent:crab-1:1"}
    guard = [s for s in trace.spans if s.lane == "agent:guard"]
    assert [(s.kind, s.name) for s in guard] == [("tool", "look"), ("user", "user"), ("agent", "main")]
    assert report.lost == {"tool result (never came)": 1}
    model = next(s for s in trace.spans if s.kind == "model" and s.lane == "")
    assert [m.text for m in trace.conversation(model)] == ["Go."]


def test_only_tool_events() -> None:
    lines = [
        event("agent.start", None, CRAB, prompt="Dig."),
        event("tool.start", None, CRAB, toolName="exec", params={"command": "dig"}),
        event("tool.start", None, CRAB, toolName="exec"),
        event("tool.end", None, CRAB, toolName="exec", success=False, error="rock"),
        event("tool.end", None, CRAB, toolName="swim", success=True, durationMs=4),
    ]
    (trace,), report = read(*lines)
    assert not report.skipped
    assert [(s.name, s.status) for s in trace.spans if s.kind == "tool"] == [
        ("exec", "error"),
        ("exec", "unset"),
        ("swim", "ok"),
    ]
    first = trace.spans[0]
    assert trace.text(first.error or Ref("")) == "rock"
    assert trace.text(first.arguments or Ref("")) == '{"command":"dig"}'
    assert [m.text for m in trace.messages] == ["Dig."]  # the prompt is all the words there are
    assert trace.head.meta["events_without_time"] == 5
    assert report.lost == {"tool result (never came)": 3}


def test_a_log_without_ends_keeps_tools_for_the_next_telling() -> None:
    """As the raw dump writes it: the results stand only in the conversation that the next run starts with."""
    talk = [user("hi", 1), assistant(2, call("c1", command="dig")), result("c1", "sand", 3)]
    lines = [
        event("message.in", None, None, channel="c", content="hi"),
        event("agent.start", None, prompt="hi"),
        event("agent.start", None, prompt="hi", messages=[]),
        event("tool.start", None, CHAT, toolName="exec", params={"command": "dig"}),
        event("tool.end", None, CHAT, toolName="exec", durationMs=5, success=True),
        event("message.in", None, None, channel="c", content="and?"),
        event("agent.start", None, prompt="and?"),
        event("agent.start", None, prompt="and?", messages=talk),
        event("message.out", None, None, channel="c", content="bye", success=True),
    ]
    (trace,), report = read(*lines)
    assert not report.skipped
    assert not report.lost
    assert [s.kind for s in trace.steps if s.kind == "tool"] == ["tool"]
    tool = next(s for s in trace.spans if s.kind == "tool")
    assert tool.parent_id == "run:main:1"  # the run that it belongs to, not the one that told of it
    assert attributes(trace, tool)["durationMs"] == 5
    assert sorted(m.text for m in trace.messages if m.role == "user") == ["and?", "hi"]
    assert [s.name for s in trace.spans if s.kind == "other"] == ["message.out"]
    assert [s.span_id for s in trace.spans if s.kind == "agent"] == ["run:main:1", "run:main:2"]


def test_a_start_that_is_told_again_in_the_middle_of_a_run_is_no_new_run() -> None:
    lines = [
        event("agent.start", 1, prompt="hi"),
        event("tool.start", 2, toolName="exec", params={"command": "dig"}),
        event("agent.start", 3, prompt="hi", messages=[user("hi", 1), assistant(2, call("c1", command="dig"))]),
        event("agent.end", 4, messages=[result("c1", "sand", 3)], success=True),
    ]
    (trace,), report = read(*lines)
    assert not report.lost
    assert [s.span_id for s in trace.spans if s.kind == "agent"] == ["run:main:1"]
    assert trace.signatures() == ("user:user", "model:chat:toolUse:exec", "tool:exec")


def test_a_compaction_starts_the_context_anew() -> None:
    summary = {"role": "compactionSummary", "summary": "It was sandy.", "tokensBefore": 9, "timestamp": START + 3}
    talk = [user("a", 1), assistant(2, text("b")), summary, user("c", 4), assistant(5, text("d"))]
    (trace,), _ = read(event("agent.end", 6, messages=talk, success=True))
    last = [s for s in trace.spans if s.kind == "model"][-1]
    assert [m.text for m in trace.conversation(last)] == ["It was sandy.", "c"]
    assert [m.text for m in trace.messages] == ["a", "b", "It was sandy.", "c", "d"]


def test_tool_events_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_openclaw_lane, "MAX_PENDING", 3)
    lines = [event("tool.start", i, toolName=f"t{i}", params={}) for i in range(5)]
    (trace,), report = read(*lines)
    assert [s.name for s in trace.spans] == [f"t{i}" for i in range(5)]
    assert report.lost == {"tool result (never came)": 5}


def test_errors_of_the_model() -> None:
    talk = [assistant(1, stopReason="error", errorMessage="overloaded"), 3]
    (trace,), report = read(event("agent.end", 2, messages=talk, success=False))
    model = trace.steps[0]
    assert (model.status, model.stop_reason) == ("error", "error")
    assert trace.text(model.error or Ref("")) == "overloaded"
    assert report.lost == {"message (not an object)": 1}


def test_odd_lines() -> None:
    lines = [
        b"[1]",
        b"{cut",
        {"typ": 1},
        event("llm.usage", 1, tokens=5),
        event("message.in", 2, None, contentLength=4),
    ]
    (trace,), report = read(*lines)
    assert [x.where for x in report.skipped] == ["line 1", "line 2", "line 3"]
    assert [(s.kind, s.name) for s in trace.spans] == [("other", "llm.usage"), ("other", "message.in")]
    assert attributes(trace, trace.spans[0])["tokens"] == 5
    traces, report = read({"typ": 1})
    assert not traces
    assert report.skipped


def test_what_is_recognised() -> None:
    def score(*lines: Any) -> int:
        return openclaw.sniff(peek_at(bytes_source("log", encode(*lines))))

    assert score(*a_run()) == 92
    assert score(a_run()[0]) == 92
    assert score({"type": "agent.start"}) == 70
    assert score({"type": "tool", "sessionKey": "x"}) == 0
    assert score({"type": ["agent.start"]}) == 0
    assert openclaw.sniff(peek_at(bytes_source("log", json.dumps(a_run()).encode()))) == 0


def test_rough_handling(rough: Callable[[str, bytes], None]) -> None:
    rough("openclaw", encode(*a_run()))


@here
def test_the_real_file() -> None:
    expected = json.loads((DATA / "expected.json").read_text())["openclaw"]["crux1-sample-telemetry"]
    path = DATA / "openclaw" / "crux1-sample-telemetry.jsonl"
    source = file_source(path, path.name)
    assert openclaw.sniff(peek_at(source)) == 92
    (trace,), report = read_traces(source, "openclaw")
    assert not report.skipped
    kinds = json.loads(str(trace.head.meta["events"]))
    assert kinds == expected["types"]
    assert sum(kinds.values()) == expected["n_lines"]
    assert trace.head.meta["events_without_time"] == expected["n_without_any_timestamp"]
    raw = [json.loads(line) for line in path.read_text().splitlines()]
    told = [m for line in raw if line["type"] == "agent.end" for m in line["messages"]]
    assert len(trace.messages) == len(told) + 1  # the message that came in is told in no conversation
    replies = [m for m in told if m["role"] == "assistant"]
    totals = trace.totals
    assert totals.model_calls == len(replies)
    assert totals.output_tokens == sum(m["usage"]["output"] for m in replies)
    assert totals.cache_write_tokens == sum(m["usage"]["cacheWrite"] for m in replies)
    assert totals.cost_usd == pytest.approx(sum(m["usage"]["cost"]["total"] for m in replies), rel=1e-9)
    assert totals.tool_calls == sum(m["role"] == "toolResult" for m in told)
