from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ethogram.capture import contexts
from ethogram.capture.intake import Intake, SourceReport
from ethogram.capture.memory import read_traces
from ethogram.capture.peek import peek_at
from ethogram.capture.readers import claude_code
from ethogram.capture.source import bytes_source, file_source
from ethogram.traces import File, Head, Missing, Origin, Reasoning, Ref, Span, SpanId, Text, ToolCall, Trace, text_ref

DATA = Path(__file__).parents[4] / "shared" / "data"
here = pytest.mark.skipif(not DATA.exists(), reason="../shared/data is not here")
FILES = (
    "scout_simple_conversation.jsonl",
    "scout_tool_call_conversation.jsonl",
    "ccl_representative_messages.jsonl",
    "cct_sample_session.jsonl",
)


class Session:
    """Writes lines the way the tool does: ids, parents and times follow one another."""

    def __init__(self, name: str = "11111111-2222-3333-4444-555555555555") -> None:
        self.name = name
        self.lines: list[Any] = []
        self.last: str | None = None
        self.second = 0

    def add(self, kind: str, message: Any = None, **fields: Any) -> str:
        self.second += 1
        uuid = fields.pop("uuid", f"{self.name[:4]}-{len(self.lines)}")
        line = {
            "type": kind,
            "uuid": uuid,
            "parentUuid": fields.pop("parentUuid", self.last),
            "isSidechain": False,
            "sessionId": self.name,
            "cwd": "/home/robin/nest",
            "gitBranch": "twigs",
            "version": "2.1.0",
            "timestamp": f"2026-02-03T04:05:{self.second:02d}.500Z",
            **({} if message is None else {"message": message}),
            **fields,
        }
        self.lines.append(line)
        self.last = uuid
        return str(uuid)

    def user(self, content: Any, **fields: Any) -> str:
        return self.add("user", {"role": "user", "content": content}, **fields)

    def assistant(self, message_id: str | None, *blocks: dict[str, Any], **fields: Any) -> str:
        usage = fields.pop("usage", {"input_tokens": 3, "output_tokens": 7})
        message = {"role": "assistant", "model": "claude-x", "content": list(blocks), "usage": usage}
        if message_id:
            message["id"] = message_id
        message |= fields.pop("message", {})
        return self.add("assistant", message, **fields)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def use(call_id: str, name: str = "Bash", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(call_id: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **fields}


def encode(*lines: Any) -> bytes:
    return b"\n".join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)


def read(*lines: Any) -> tuple[list[Trace], SourceReport]:
    return read_traces(bytes_source("log", encode(*lines)), "claude-code")


def attributes(trace: Trace, span: Span) -> dict[str, Any]:
    return {} if span.attributes is None else json.loads(trace.text(span.attributes))


def test_a_session() -> None:
    s = Session()
    s.user("Count the eggs.")
    thought = {"type": "thinking", "thinking": "Look first.", "signature": "c2ln"}
    s.assistant("m1", thought, text("I look."), use("t1", command="ls"), message={"stop_reason": "tool_use"})
    s.user([result("t1", "egg egg")], toolUseResult={"stdout": "egg egg", "exitCode": 0})
    s.assistant("m2", text("Two."), message={"stop_reason": "end_turn"}, requestId="req_1", slug="two-eggs")
    traces, report = read(*s.lines)
    (trace,) = traces
    assert not report.skipped
    assert report.lost == {"thinking signature": 1}
    assert trace.head.task == s.name
    assert trace.head.agent == "claude-code"
    assert trace.outcome == Missing("unscored")
    assert trace.head.meta == {
        "version": "2.1.0",
        "cwd": "/home/robin/nest",
        "gitBranch": "twigs",
        "slug": "two-eggs",
        "lines": 4,
    }
    assert trace.signatures() == ("user:user", "model:chat:tool_use:Bash", "tool:Bash", "model:chat:end_turn:-")
    assert [m.role for m in trace.messages] == ["user", "assistant", "tool", "assistant"]
    assert trace.messages[1].parts == (
        Reasoning("Look first."),
        Text("I look."),
        ToolCall("Bash", '{"command":"ls"}', "t1"),
    )
    user, first, tool, last = trace.steps
    assert trace.text(tool.result or Ref("")) == "egg egg"
    assert attributes(trace, tool)["toolUseResult"] == {"stdout": "egg egg", "exitCode": 0}
    assert tool.seconds == 1.0
    assert tool.status == "ok"
    assert first.model == "claude-x"
    assert attributes(trace, last)["requestId"] == "req_1"
    assert trace.conversation(last) == trace.messages[:3]
    assert user.span_id == "1111-0"
    assert trace.head.start_ns is not None
    assert trace.head.end_ns == trace.head.start_ns + 3 * 10**9


def test_one_api_message_over_several_lines_is_one_span_and_counted_once() -> None:
    s = Session()
    s.user("Go.")
    early = {
        "input_tokens": 4,
        "output_tokens": 1,
        "cache_creation_input_tokens": 100,
        "cache_read_input_tokens": 50,
    }
    s.assistant("m1", text("One."), usage=early)
    s.assistant("m1", use("t1", command="a"), usage=early)
    s.user([result("t1", "A")])  # the tool ran while the message was still coming in
    s.assistant("m1", use("t2", command="b"), usage={**early, "output_tokens": 31, "service_tier": "standard"})
    s.user([result("t2", "B", is_error=True)])
    s.assistant("m2", text("Done."), usage={"input_tokens": 1, "output_tokens": 2})
    (trace,), report = read(*s.lines)
    assert not report.skipped
    assert [s.kind for s in trace.steps] == ["user", "model", "tool", "tool", "model"]
    totals = trace.totals
    assert (totals.input_tokens, totals.cache_write_tokens, totals.cache_read_tokens) == (5, 100, 50)
    assert totals.output_tokens == 33
    model = trace.steps[1]
    assert model.requested == ("Bash", "Bash")
    assert attributes(trace, model)["uuids"] == ["1111-1", "1111-2", "1111-4"]
    assert attributes(trace, model)["usage"]["service_tier"] == "standard"
    assert model.seconds == 3.0
    assert [(t.call_id, t.status) for t in trace.steps[2:4]] == [("t1", "ok"), ("t2", "error")]
    assert len(trace.messages) == 5


def test_lines_of_a_message_that_stand_far_apart_do_not_count_twice() -> None:
    s = Session()
    s.assistant("m1", text("One."), usage={"input_tokens": 10, "output_tokens": 5})
    s.assistant("m2", text("Two."), usage={"input_tokens": 1, "output_tokens": 1})
    s.assistant("m1", text("One more."), usage={"input_tokens": 10, "output_tokens": 9})
    s.assistant("m3", text("Three."), usage={"input_tokens": 1, "output_tokens": 1})
    s.assistant("m1", text("Even more."), usage={"input_tokens": 10, "output_tokens": 2})
    (trace,), report = read(*s.lines)
    assert trace.totals.input_tokens == 12
    assert trace.totals.output_tokens == 11
    assert report.lost == {"usage (of a message that was counted)": 2}


def test_sidechains_are_lanes_under_the_call_that_started_them() -> None:
    s = Session()
    s.user("Ask the owl.")
    s.assistant("m1", use("t1", "Task", prompt="Hoot?", subagent_type="owl", description="d"))
    s.user("Hoot?", isSidechain=True, parentUuid=None, uuid="side-1")
    s.assistant("m2", use("t2", "Read", path="x"), isSidechain=True, parentUuid="side-1", uuid="side-2")
    s.user([result("t2", "y")], isSidechain=True, parentUuid="side-2", uuid="side-3")
    s.assistant("m3", text("Hoot."), isSidechain=True, parentUuid="side-3", uuid="side-4")
    s.user([result("t1", "Hoot.")], parentUuid="1111-1")
    s.user("Who?", isSidechain=True, parentUuid=None, uuid="side-9", agentId="a9")
    s.user("Still who?", isSidechain=True, parentUuid="gone", uuid="side-10", agentId="a9")
    s.assistant("m4", text("It hoots."))
    (trace,), report = read(*s.lines)
    assert not report.skipped
    lanes = Counter(span.lane for span in trace.spans)
    assert lanes == {"": 4, "sidechain:side-1": 5, "sidechain:side-9": 3}
    owl = trace.by_id[SpanId("sidechain:side-1")]
    assert (owl.kind, owl.name, owl.parent_id) == ("agent", "owl", "tool:t1")
    assert all(x.parent_id == owl.span_id for x in trace.spans if x.lane == owl.lane and x.kind != "agent")
    tool = trace.by_id[SpanId("tool:t1")]
    assert tool.tool == "Task"
    assert tool not in trace.steps  # what it started are the steps
    assert {x.agent for x in trace.spans if x.lane == owl.lane} == {"owl"}
    inside = next(x for x in trace.steps if x.tool == "Read")
    assert inside.parent_id == owl.span_id
    last = trace.steps[-1]
    assert [m.role for m in trace.conversation(last)] == ["user", "assistant", "tool"]


def test_a_sub_agents_own_file_is_not_a_new_telling_of_its_session() -> None:
    s = Session()
    s.user("Hoot?", isSidechain=True, agentId="a1")
    s.assistant("m1", text("Hoot."), isSidechain=True, agentId="a1")
    (alone,), _ = read(*s.lines)
    main = Session()
    main.user("Hi.")
    (session,), _ = read(*main.lines)
    assert alone.head.task == f"{s.name}/a1"
    assert alone.head.episode != session.head.episode
    assert {x.lane for x in alone.spans} == {"sidechain:1111-0"}


def test_two_sessions_in_one_file_are_two_traces() -> None:
    a, b = Session("aaaa-1"), Session("bbbb-2")
    a.user("A1")
    b.user("B1")
    a.assistant("m", text("A2"))
    b.assistant("m", text("B2"))
    summary = {"type": "summary", "summary": "Both.", "leafUuid": "bbbb-1"}
    lines = [a.lines[0], b.lines[0], a.lines[1], b.lines[1], summary]
    traces, report = read(*lines)
    assert not report.skipped
    assert [t.head.task for t in traces] == ["aaaa-1", "bbbb-2"]
    assert [[m.text for m in t.messages] for t in traces] == [["A1", "A2"], ["B1", "B2"]]
    assert [t.totals.output_tokens for t in traces] == [7, 7]
    assert [s.name for s in traces[1].spans if s.kind == "other"] == ["summary"]
    again, _ = read_traces(bytes_source("other name", encode(*lines)), "claude-code")
    assert [t.head.episode for t in again] == [t.head.episode for t in traces]


def test_lines_beside_the_conversation_are_kept() -> None:
    s = Session()
    before = [
        {"type": "summary", "summary": "Eggs.", "leafUuid": "x"},
        {"type": "file-history-snapshot", "messageId": "1", "snapshot": {"files": {}}},
    ]
    s.user("Go.")
    s.add("system", subtype="api_error", content="busy", level="warn")
    s.add("queue-operation", operation="enqueue", content="later")
    s.add("hiccup", strength=3)
    (trace,), report = read(*before, *s.lines)
    assert not report.skipped
    names = [x.name for x in trace.spans if x.kind == "other"]
    assert names == ["summary", "file-history-snapshot", "system:api_error", "queue-operation", "hiccup"]
    by_name = {x.name: attributes(trace, x) for x in trace.spans}
    assert by_name["summary"] == {"summary": "Eggs.", "leafUuid": "x"}
    assert by_name["system:api_error"]["content"] == "busy"
    assert by_name["hiccup"]["strength"] == 3
    assert trace.totals.steps == 1


def test_after_a_compaction_the_context_starts_anew() -> None:
    s = Session()
    s.user("Long talk.")
    s.assistant("m1", text("Yes."))
    s.add("system", subtype="compact_boundary", content="Conversation compacted", compactMetadata={"preTokens": 9})
    s.user("Summary: a long talk.", isCompactSummary=True)
    s.user("Go on.")
    s.assistant("m2", text("On."))
    s.assistant("m3", text("And on."))
    (trace,), _ = read(*s.lines)
    first, second, third = (x for x in trace.spans if x.kind == "model")
    assert [m.text for m in trace.conversation(second)] == ["Summary: a long talk.", "Go on."]
    assert second.continues is None
    assert [m.text for m in trace.conversation(third)] == ["Summary: a long talk.", "Go on.", "On."]
    assert first.continues is None
    assert len(trace.messages) == 6


def test_repeated_lines_are_dropped_and_repeated_ids_kept() -> None:
    s = Session()
    s.user("One.", uuid="same")
    s.assistant("m1", text("Two."))
    s.user("Three.", uuid="same")
    (trace,), report = read(*s.lines, s.lines[0], s.lines[1])
    assert [m.text for m in trace.messages] == ["One.", "Two.", "Three."]
    assert report.lost["line (repeated)"] == 2
    assert report.lost["span_id (repeated)"] == 1
    assert trace.totals.output_tokens == 7


def test_the_same_block_twice_in_a_message_is_one_block() -> None:
    s = Session()
    s.assistant("m1", text("Hm."), use("t1"))
    s.assistant("m1", use("t1"))
    (trace,), report = read(*s.lines)
    assert report.lost == {"content block (repeated)": 1, "tool result (never came)": 1}
    assert trace.totals.tool_calls == 1


def test_odd_lines_are_reported_with_their_place() -> None:
    s = Session()
    s.user("One.")
    s.add("user", message="Plain words.")
    s.add("assistant", message="Plain reply.")
    bad = [
        b"[1]",
        b"3",
        b"{cut",
        {"typ": "user", "message": {}},
        {"type": 3},
        {"type": "user", "sessionId": s.name, "message": 7},
        {"type": "assistant", "sessionId": s.name},
    ]
    (trace,), report = read(*s.lines, *bad)
    why = {x.where: x.why for x in report.skipped}
    assert why.keys() == {f"line {n}" for n in (4, 5, 6, 7, 8, 9, 10)}
    assert "not an object" in why["line 4"]
    assert "no type" in why["line 7"]
    assert "the message is a int" in why["line 9"]
    assert [m.text for m in trace.messages] == ["One.", "Plain words.", "Plain reply."]


def test_results_without_a_call_and_calls_without_a_result() -> None:
    s = Session()
    s.user([result("gone", "late"), text("And more.")])
    s.assistant(None, use("t1", "Edit"), text("?"))
    (trace,), report = read(*s.lines)
    assert [(x.kind, x.name, x.status) for x in trace.steps] == [
        ("tool", "unknown", "ok"),
        ("user", "user", "unset"),
        ("model", "chat", "unset"),
        ("tool", "Edit", "unset"),
    ]
    assert report.lost == {"tool call (never seen)": 1, "tool result (never came)": 1}


def test_pictures_keep_a_digest_and_lose_their_bytes() -> None:
    s = Session()
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD" * 200}}
    s.user([text("See:"), picture])
    s.assistant("m1", use("t1"))
    s.user([result("t1", [text("shot"), picture])])
    (trace,), report = read(*s.lines)
    part = trace.messages[0].parts[1]
    assert isinstance(part, File)
    assert (part.media_type, part.size) == ("image/png", 600)
    assert part.digest
    assert report.lost == {"file bytes": 1}
    assert "QUJDQUJD" not in json.dumps(trace.texts)


def test_cost_time_and_errors_of_the_api() -> None:
    s = Session()
    s.assistant("m1", text("Paid."), costUSD=0.25, durationMs=1500)
    s.assistant("m2", text("API Error: 529"), isApiErrorMessage=True, message={"model": "<synthetic>"})
    (trace,), _ = read(*s.lines)
    paid, failed = trace.steps
    assert trace.totals.cost_usd == 0.25
    assert paid.seconds == 1.5
    assert failed.status == "error"
    assert trace.text(failed.error or Ref("")) == "API Error: 529"


def test_unsorted_and_missing_times() -> None:
    s = Session()
    s.user("One.", timestamp="2026-02-03T05:00:00Z")
    s.assistant("m1", use("t1"), timestamp="2026-02-03T04:00:00Z")
    s.user([result("t1", "x")], timestamp="2026-02-03T03:00:00Z")
    (trace,), report = read(*s.lines)
    assert [x.kind for x in trace.steps] == ["model", "tool", "user"]  # by time
    assert [m.role for m in trace.messages] == ["user", "assistant", "tool"]  # by place
    assert report.lost == {"end time (before start)": 1}
    for line in s.lines:
        line["timestamp"] = "yesterday"
    (trace,), _ = read(*s.lines)
    assert trace.head.start_ns is None


def test_what_changes_during_a_session_is_noted_where_it_changes() -> None:
    s = Session()
    s.user("One.")
    s.user("Two.", cwd="/home/robin/sea")
    (trace,), _ = read(*s.lines)
    assert trace.head.meta["cwd"] == "/home/robin/nest"
    assert [attributes(trace, x).get("cwd") for x in trace.spans] == [None, "/home/robin/sea"]


def test_files_without_a_session_say_so() -> None:
    for lines in ([], [{"type": "summary", "summary": "s", "leafUuid": "u"}]):
        traces, report = read(*lines)
        assert not traces
        assert report.skipped
    traces, report = read({"type": "user", "sessionId": "s", "message": 3})
    assert not traces
    assert [x.where for x in report.skipped] == ["line 1", "the end of session s"]
    (nameless,), _ = read({"type": "user", "message": {"role": "user", "content": "Hi."}})
    assert nameless.head.task == "session"


def test_lines_before_any_session_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claude_code, "MAX_HELD", 2)
    summaries = [{"type": "summary", "summary": f"{i}", "leafUuid": "u"} for i in range(4)]
    s = Session()
    s.user("Hi.")
    (trace,), report = read(*summaries, *s.lines)
    assert [x.where for x in report.skipped] == ["line 3", "line 4"]
    assert [x.name for x in trace.spans] == ["summary", "summary", "user"]


def test_a_cut_file_keeps_what_came_before_the_cut() -> None:
    s = Session()
    s.user("One.")
    s.assistant("m1", text("Two."))
    s.user("Three.")
    data = encode(*s.lines)
    (trace,), report = read_traces(bytes_source("log", data[:-20]), "claude-code")
    assert [m.text for m in trace.messages] == ["One.", "Two."]
    assert report.skipped[0].where == "line 3"
    packed = gzip.compress(encode(*s.lines, *({**s.lines[0], "uuid": f"{i}"} for i in range(20_000))))
    (trace,), report = read_traces(bytes_source("log", packed[: len(packed) // 2]), "claude-code")
    assert len(trace.messages) > 3
    assert "damaged or cut off" in report.skipped[-1].why


class _Nowhere:
    """A sink that keeps nothing."""

    idle = True

    def text(self, body: str, field: str, original: str | None = None) -> Ref:
        return text_ref(body)

    def clean(self, value: str, field: str) -> str:
        return value

    def span(self, span: Span) -> None:
        pass

    def finish(self, head: Head, labels: Any) -> None:
        pass

    def abort(self) -> None:
        pass


def test_a_long_session_is_not_held_in_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import tracemalloc

    # the builder remembers messages of its own accord; here it is the reader that is measured
    monkeypatch.setattr(contexts, "REMEMBERED_CHARS", 1000)
    path = tmp_path / "long.jsonl"
    with path.open("w") as file:
        for i in range(400):
            s = Session()
            pad = f"{i} " + "x" * 20_000
            s.user(pad, uuid=f"u{i}")
            s.assistant(f"m{i}", use(f"t{i}", command=pad), uuid=f"a{i}")
            s.user([result(f"t{i}", pad)], uuid=f"r{i}")
            file.writelines(json.dumps(line) + "\n" for line in s.lines)
    source = file_source(path, "long")
    report = SourceReport(source="long")
    intake = Intake(lambda trace: _Nowhere(), Origin("claude-code", "long", "d"), report)
    tracemalloc.start()
    try:
        claude_code.read(source, intake)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert report.spans == 1200
    assert source.size > 24_000_000
    assert peak < 5_000_000


def test_what_is_recognised() -> None:
    def score(*lines: Any) -> int:
        return claude_code.sniff(peek_at(bytes_source("log", encode(*lines))))

    s = Session()
    s.user("Hi.")
    assert score(*s.lines) == 95
    assert score(*s.lines, *s.lines) == 95
    assert score({"type": "user", "parentUuid": None, "message": {}}) == 90
    assert score({"type": "summary", "summary": "s", "leafUuid": "u"}) == 80
    assert score({"type": "user", "text": "hi"}) == 0
    assert score({"type": ["user"], "sessionId": "s", "message": {}}) == 0
    assert score({"type": "trace", "sessionId": "s", "uuid": "u"}) == 0
    assert claude_code.sniff(peek_at(bytes_source("log", json.dumps(s.lines).encode()))) == 0


def test_rough_handling(rough: Callable[[str, bytes], None]) -> None:
    s = Session()
    s.user([text("Go.")])
    s.assistant("m1", {"type": "thinking", "thinking": "t", "signature": "s"}, use("t1", "Task", prompt="P"))
    s.user("P", isSidechain=True, parentUuid=None, agentId="a")
    s.user([result("t1", [text("x")])], toolUseResult={"a": 1})
    s.add("system", subtype="compact_boundary", content="c")
    rough("claude-code", encode(*s.lines, {"type": "summary", "summary": "s", "leafUuid": "u"}))


@here
@pytest.mark.parametrize("name", FILES)
def test_the_real_files(name: str) -> None:
    expected = json.loads((DATA / "expected.json").read_text())["claude_code"][name]
    source = file_source(DATA / "claude_code" / name, name)
    assert claude_code.sniff(peek_at(source)) == 95
    traces, report = read_traces(source, "claude-code")
    assert len(traces) == expected["session_ids"]
    assert len(report.skipped) == expected["n_unparsable_lines"] + expected["n_non_object_lines"]
    assert report.lost.get("line (repeated)", 0) == expected["n_duplicate_uuid"]
    (trace,) = traces
    assert trace.head.meta["lines"] == expected["n_lines"]
    models = [s for s in trace.spans if s.kind == "model"]
    tools = [s for s in trace.spans if s.kind == "tool"]
    users = [s for s in trace.spans if s.kind == "user"]
    noted = {s.span_id: attributes(trace, s) for s in trace.spans}
    # a line of type `user` is a turn of a person or carries the result of a tool
    assert len(users) + len(tools) == expected["types"]["user"]
    assert sum(len(noted[s.span_id]["uuids"]) for s in models) == expected["types"]["assistant"]
    others = Counter(s.name for s in trace.spans if s.kind == "other")
    assert others == {k: n for k, n in expected["types"].items() if k not in ("user", "assistant")}
    calls = Counter(c.name for m in trace.messages for c in m.tool_calls)
    assert calls == expected["tools"]
    assert calls.total() == expected["tool_uses"]
    assert Counter(s.status for s in tools) == expected["tool_results"]
    assert Counter(s.tool for s in tools) == expected["tools"]
    ids = {noted[s.span_id].get("message_id") for s in models} - {None}
    assert len(ids) == expected["n_assistant_message_ids"]
    totals = trace.totals
    found = {
        "input_tokens": totals.input_tokens,
        "output_tokens": totals.output_tokens,
        "cache_creation_input_tokens": totals.cache_write_tokens,
        "cache_read_input_tokens": totals.cache_read_tokens,
    }
    for figure in ("usage_dedup_last_per_message_id", "usage_dedup_max_per_message_id", "usage_sum_over_lines"):
        # in these files no message is spread over lines, so the three agree; summaries of nothing are empty
        assert {k: v or 0 for k, v in found.items()} == (expected[figure] or dict.fromkeys(found, 0))
    told = [noted[s.span_id] for s in (*models, *users, *tools)]
    lines = {
        u for s in trace.spans for u in (noted[s.span_id].get("uuids") or [noted[s.span_id].get("uuid") or s.span_id])
    }
    parents = [t["parentUuid"] for t in told if "parentUuid" in t]
    assert len(told) - len(parents) == expected["n_roots"]
    assert sum(p not in lines for p in parents) == expected["n_orphan_parent"]
    assert sum(s.lane != "" for s in trace.spans) == expected["n_sidechain"]
    starts = [s.start_ns for s in sorted(trace.spans, key=lambda s: s.seq) if s.start_ns is not None]
    assert (starts == sorted(starts)) is expected["timestamps_sorted"]
    assert sorted({s.model for s in models if s.model}) == expected["models"]
