"""Messages of a session: bytes pass unchanged, ids are kept apart, batches and damage are survived, answers change."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ethogram.capture.intake import Intake, SourceReport
from ethogram.capture.memory import MemorySink
from ethogram.perturbations.tools import ToolPerturbation, Unchanged
from ethogram.prices import Budget, Caps
from ethogram.traces import Origin, Trace
from ethogram.wire.clock import FrozenClock
from ethogram.wire.gateway.recorded_tools import RecordedTools
from ethogram.wire.mcp.calls import McpReply
from ethogram.wire.mcp.episode_calls import KEPT_CHARS, EpisodeCalls
from ethogram.wire.mcp.exchange import NOT_JSON, McpExchange
from ethogram.wire.mcp.lines import EventCutter, LineCutter, event_data, with_data
from ethogram.wire.mcp.recorded import RecordedSession
from ethogram.wire.mcp.results import altered, reply_of, words_and_shape
from ethogram.wire.recorder import Recorder


class Session:
    """An exchange whose trace is in memory."""

    def __init__(self, caps: Caps | None = None, **plan: Any) -> None:
        self._done: list[Trace] = []
        intake = Intake(lambda t: MemorySink(self._done), Origin("mcp"), SourceReport(source="mcp"))
        self._opened = intake.trace("one")
        budget = None if caps is None else Budget("episode", caps)
        self.calls = EpisodeCalls(Recorder(self._opened.__enter__(), budget, FrozenClock()), **plan)
        self.exchange = McpExchange("shop", self.calls)

    def trace(self) -> Trace:
        self.calls.close("over")
        self._opened.__exit__(None, None, None)
        return self._done[0]


def request(id: Any, method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n"


def call(id: Any, name: str, **arguments: Any) -> bytes:
    return request(id, "tools/call", name=name, arguments=arguments)


def reply(id: Any, text: str, **more: Any) -> bytes:
    result = {"content": [{"type": "text", "text": text}], **more}
    return json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode() + b"\n"


def tool_spans(trace: Trace) -> list[tuple[str | None, str, str | None, str]]:
    spans = [s for s in trace.spans if s.kind == "tool"]
    text = lambda ref: None if ref is None else trace.text(ref)  # noqa: E731
    return [(s.tool, text(s.arguments) or "", text(s.result), s.status) for s in spans]


def test_messages_pass_as_they_are_and_calls_become_spans() -> None:
    session = Session()
    odd = b'{ "method":"tools/call","id":7, "jsonrpc":"2.0","params":{"arguments":{"n":1.50},"name":"f"} }\r\n'
    assert session.exchange.from_client(odd)[:2] == (odd, None)
    answer = b'{"result":{"content":[{"type":"text","text":"caf\\u00e9"}]},"id":7,"jsonrpc":"2.0"}\n'
    assert session.exchange.from_server(answer) is answer
    failing = call("7", "g")
    assert session.exchange.from_client(failing).to_server is failing
    said_no = reply("7", "no", isError=True)
    assert session.exchange.from_server(said_no) is said_no
    trace = session.trace()
    assert tool_spans(trace) == [("f", '{"n":1.5}', "café", "ok"), ("g", "{}", "no", "error")]
    assert trace.message(trace.spans[1].output[0]).parts[0].failed  # type: ignore[union-attr]


def test_the_number_1_and_the_text_1_are_two_ids() -> None:
    session = Session()
    session.exchange.from_client(call(1, "number"))
    session.exchange.from_client(call("1", "text"))
    session.exchange.from_server(reply("1", "of the text"))
    session.exchange.from_server(reply(1, "of the number"))
    assert {name: result for name, _, result, _ in tool_spans(session.trace())} == {
        "number": "of the number",
        "text": "of the text",
    }


def test_requests_of_the_server_notifications_and_progress_pass() -> None:
    session = Session()
    session.exchange.from_client(call(1, "f"))
    for line in (
        request(1, "sampling/createMessage", messages=[]),
        request(2, "elicitation/create", message="sure?"),
        b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":0.5}}\n',
    ):
        assert session.exchange.from_server(line) is line
    mine = b'{"jsonrpc":"2.0","id":1,"result":{"role":"assistant"}}\n'
    assert session.exchange.from_client(mine).to_server is mine
    session.exchange.from_server(reply(1, "done"))
    assert tool_spans(session.trace()) == [("f", "{}", "done", "ok")]


def test_a_cancelled_call_ends_and_a_late_answer_passes() -> None:
    session = Session()
    session.exchange.from_client(call(3, "slow"))
    gone = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3,"reason":"too slow"}}\n'
    assert session.exchange.from_client(gone).to_server is gone
    late = reply(3, "late")
    assert session.exchange.from_server(late) is late
    trace = session.trace()
    assert tool_spans(trace) == [("slow", "{}", None, "error")]
    assert trace.text(trace.spans[0].error) == "McpError: cancelled by the client: too slow"  # type: ignore[arg-type]


def test_batches_are_read_and_changed_only_where_they_must_be() -> None:
    session = Session(Caps(steps=1))
    batch = b"[" + call(1, "f").strip() + b"," + call(2, "g").strip() + b"]"
    passage = session.exchange.from_client(batch)
    assert json.loads(passage.to_server or b"") == [json.loads(call(1, "f"))], "the second is above the cap"
    (refusal,) = json.loads(passage.to_client or b"")
    assert (refusal["id"], refusal["error"]["data"]["kind"]) == (2, "ethogram_cap_reached")
    assert "the episode's cap of 1 steps is reached" in refusal["error"]["message"]
    answers = b"[" + reply(1, "yes").strip() + b"]"
    assert session.exchange.from_server(answers) is answers
    assert tool_spans(session.trace()) == [("f", "{}", "yes", "ok")]


@given(st.binary(max_size=200))
def test_damage_passes_and_is_counted(data: bytes) -> None:
    session = Session()
    assert session.exchange.from_client(data).to_server == data
    assert session.exchange.from_server(data) == data


def test_what_is_damaged_is_counted_and_blank_lines_are_not() -> None:
    session = Session()
    for line in (b"Listening\n", b'{"id":\xff}\n', b"[1,2\n", b'{"method":5}\n', b"\n", b"[" * 100_000):
        assert session.exchange.from_server(line) is line
    assert session.exchange.unreadable == 5


def test_without_a_server_open_calls_are_answered_with_an_error() -> None:
    session = Session()
    session.exchange.from_client(call(1, "f"))
    (line,) = session.exchange.end("the MCP server ended with exit code 3 before it answered")
    error = json.loads(line)["error"]
    assert error["data"] == {"kind": "ethogram_server_ended"}
    assert "exit code 3" in error["message"]
    assert tool_spans(session.trace()) == [("f", "{}", None, "error")]


def test_the_kill_switch_and_caps_answer_instead_of_the_server() -> None:
    reached: list[str] = []
    session = Session(Caps(steps=1), capped=lambda cap: reached.append(cap.resource))
    session.exchange.from_client(call(1, "f"))
    assert session.exchange.from_client(call(2, "f")).to_server is None
    assert reached == ["steps"]
    killed = Session(killed=lambda: True)
    passage = killed.exchange.from_client(call(1, "f"))
    assert passage.to_server is None
    assert b"ethogram_killed" in (passage.to_client or b"")
    listing = request(3, "tools/list")
    assert killed.exchange.from_client(listing).to_server is listing, "listing tools costs nothing"


def test_a_huge_result_passes_whole_and_is_stored_in_part() -> None:
    session = Session()
    session.exchange.from_client(call(1, "dump"))
    line = reply(1, "x" * (KEPT_CHARS + 5))
    assert session.exchange.from_server(line) is line
    trace = session.trace()
    (span,) = (s for s in trace.spans if s.kind == "tool")
    assert span.truncated
    assert 0 <= KEPT_CHARS - len(trace.text(span.result)) < 5000  # type: ignore[arg-type]
    call_again = RecordedTools(trace).answer("dump", {})
    assert call_again is not None
    assert call_again.unusable == "its answer was too long to be stored whole"


def test_every_operator_changes_what_the_client_sees() -> None:
    words = "one\ntwo\nthree\n"
    seen = {}
    for name in ("tool_error", "tool_timeout", "truncated_result", "reordered_result", "irrelevant_result"):
        session = Session(perturbation=ToolPerturbation(name, 5))
        passage = session.exchange.from_client(call(1, "read"))
        assert (passage.to_server is None) == (name == "tool_error"), "only an error has no effect"
        line = passage.to_client or session.exchange.from_server(reply(1, words, structuredContent={"result": words}))
        seen[name] = json.loads(line or b"")["result"]
        stored = tool_spans(session.trace())[0]
        assert stored[2] == seen[name]["content"][0]["text"], "the trace has what the agent saw"
    assert seen["tool_error"]["isError"]
    assert seen["tool_timeout"] == {
        "content": [{"type": "text", "text": "read did not answer within 30 s"}],
        "isError": True,
    }
    for name in ("truncated_result", "reordered_result", "irrelevant_result"):
        text = seen[name]["content"][0]["text"]
        assert text != words
        assert seen[name]["structuredContent"] == {"result": text}, "both forms say the same"


def test_a_stale_result_is_one_of_an_earlier_call_and_only_chosen_tools_are_disturbed() -> None:
    session = Session(perturbation=ToolPerturbation("stale_result", 1, only=["read"]))
    for number, (name, text) in enumerate((("read", "old"), ("read", "new"), ("other", "a"), ("other", "b"))):
        session.exchange.from_client(call(number, name))
        session.exchange.from_server(reply(number, text))
    assert [result for _, _, result, _ in tool_spans(session.trace())] == ["old", "old", "a", "b"]


def test_lists_of_texts_are_changed_part_by_part_and_pictures_stay() -> None:
    picture = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    parts = [{"type": "text", "text": word} for word in ("a", "b")]
    changed = altered({"content": [*parts, picture]}, lambda texts: texts[::-1])
    assert [part.get("text") for part in changed["content"]] == ["b", "a", None]
    assert changed["content"][2] == picture
    with pytest.raises(Unchanged):
        altered({"content": [picture]}, lambda value: value)


@pytest.mark.parametrize(
    "result",
    [
        {"content": [{"type": "text", "text": "hi", "annotations": {"priority": 1}}], "structuredContent": {"n": [1]}},
        {"content": [{"type": "text", "text": "a"}, {"type": "image", "data": "aGk=", "mimeType": "image/png"}]},
        {"content": [], "_meta": {"x": None}},
        {"resultType": "input_required", "requestState": "abc"},
    ],
)
def test_a_result_comes_back_as_it_was(result: dict[str, Any]) -> None:
    session = Session()
    session.exchange.from_client(call(1, "f", deep={"b": [1, None], "a": "é"}))
    session.exchange.from_server(json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}).encode())
    recorded = RecordedTools(session.trace()).answer("f", {"deep": {"a": "é", "b": [1, None]}})
    assert recorded is not None
    assert reply_of(recorded) == McpReply(result=result)
    assert isinstance(words_and_shape(result)[0], str)


def test_a_replayed_session_needs_no_server() -> None:
    first = Session()
    hello = request(0, "initialize", protocolVersion="2025-11-25", clientInfo={"name": "one"})
    ready = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
    about = b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}\n'
    refused = b'{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"no such tool","data":[1]}}\n'
    for asked, answer in ((hello, about), (call(1, "f", x=1), reply(1, "one")), (call(2, "g"), refused)):
        first.exchange.from_client(asked)
        first.exchange.from_server(answer)
    trace = first.trace()
    assert first.calls.client == "one"

    again = Session(recorded=RecordedSession(trace))
    greeted = again.exchange.from_client(request("x", "initialize", clientInfo={"name": "another"}))
    assert greeted.to_server is None
    assert json.loads(greeted.to_client or b"") == {**json.loads(about), "id": "x"}
    assert again.exchange.from_client(ready) == (None, None, (), ()), "nobody is there to be told"
    assert json.loads(again.exchange.from_client(request(5, "ping")).to_client or b"")["result"] == {}
    assert json.loads(again.exchange.from_client(call(7, "f", x=1)).to_client or b"") == json.loads(reply(7, "one"))
    assert json.loads(again.exchange.from_client(call(8, "g")).to_client or b"")["error"]["data"] == [1]
    deviates = again.exchange.from_client(call(9, "f", x=2))
    assert deviates.to_server is None
    assert '+ "x": 2' in json.loads(deviates.to_client or b"")["error"]["message"]
    assert again.exchange.from_client(b"garbage\n").to_client == NOT_JSON
    unknown = again.exchange.from_client(request(10, "prompts/list"))
    assert b"the trace has no prompts/list; it has initialize" in (unknown.to_client or b"")
    assert again.calls.deviation is not None


def test_a_lenient_replay_greets_the_server_when_it_first_needs_it() -> None:
    first = Session()
    hello = request(0, "initialize", protocolVersion="2025-11-25")
    ready = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
    about = b'{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}\n'
    for asked, answer in ((hello, about), (call(1, "f"), reply(1, "one"))):
        first.exchange.from_client(asked)
        first.exchange.from_server(answer)

    again = Session(recorded=RecordedSession(first.trace()), lenient=True)
    again.exchange.from_client(hello)
    again.exchange.from_client(ready)
    assert again.exchange.from_client(call(1, "f")).to_server is None
    live = again.exchange.from_client(call(2, "f"))
    assert live.to_server == call(2, "f")
    assert [json.loads(line)["method"] for line in live.before] == ["initialize", "notifications/initialized"]
    assert again.exchange.from_server(about) is None, "the client was greeted from the trace"
    answer = reply(2, "two")
    assert again.exchange.from_server(answer) is answer
    assert again.exchange.from_client(call(3, "f")).before == ()
    assert again.calls.deviation == "f was recorded once with these arguments and is called once more"


@given(st.lists(st.binary(max_size=40), max_size=10), st.integers(1, 7))
def test_cut_lines_and_events_make_up_the_stream(parts: list[bytes], size: int) -> None:
    stream = b"\n".join(parts)
    chunks = [stream[i : i + size] for i in range(0, len(stream), size)]
    lines, events = LineCutter(longest=16), EventCutter()
    cut = [line for chunk in chunks for line, _ in lines.feed(chunk)]
    assert b"".join([*cut, lines.rest()]) == stream
    seen = [event for chunk in chunks for event in events.feed(chunk)]
    assert b"".join([*seen, events.rest()]) == stream


def test_a_line_that_is_too_long_passes_in_pieces_unread() -> None:
    lines = LineCutter(longest=4)
    assert list(lines.feed(b"abcdefgh")) == [(b"abcdefgh", False)]
    assert list(lines.feed(b"ij\nk\n")) == [(b"ij\n", False), (b"k\n", True)]


def test_the_data_of_an_event_is_read_and_replaced() -> None:
    event = b'id: 4\r\nevent: message\r\ndata: {"a":\r\ndata: 1}\r\n\r\n'
    assert event_data(event) == b'{"a":\n1}'
    assert with_data(event, b"{}") == b"id: 4\nevent: message\ndata: {}\n\n"
