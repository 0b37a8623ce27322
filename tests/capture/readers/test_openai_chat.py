from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest

from ethogram.capture.intake import SourceReport
from ethogram.capture.memory import read_traces
from ethogram.capture.readers import openai_chat, reader
from ethogram.capture.source import bytes_source
from ethogram.traces import Message, Missing, Ref, Span, Text, Trace

# A last resort has no sample in ../shared/data, so expected.json has no figures for it.


def read(*values: Any, lines: bool = True) -> tuple[list[Trace], SourceReport]:
    data = b"\n".join(json.dumps(v).encode() for v in values) if lines else json.dumps(values[0]).encode()
    return read_traces(bytes_source("log", data), "openai-chat")


def attributes(trace: Trace, span: Span) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(trace.text(span.attributes)) if span.attributes else {}
    return found


def call(call_id: str, name: str = "ring", arguments: str = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


SYSTEM = {"role": "system", "content": "Be brief."}
ASK = {"role": "user", "content": "Ring the bell."}
CALL = {"role": "assistant", "content": None, "tool_calls": [call("c1", arguments='{"n": 1}')]}
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "ding"}
DONE = {"role": "assistant", "content": "Done."}
CHAT: list[dict[str, Any]] = [SYSTEM, ASK, CALL, RESULT, DONE]
USAGE = {
    "prompt_tokens": 100,
    "completion_tokens": 20,
    "total_tokens": 120,
    "prompt_tokens_details": {"cached_tokens": 60},
    "completion_tokens_details": {"reasoning_tokens": 8},
}


def response(message: dict[str, Any], reason: str = "stop", **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_767_323_040,
        "model": "m-2026",
        "choices": [choice],
        "usage": USAGE,
        **more,
    }


def pair(messages: list[Any], message: dict[str, Any], reason: str = "stop", **more: Any) -> dict[str, Any]:
    request = {"model": "m", "messages": messages, "temperature": 0.5, "tools": [{"type": "function"}]}
    return {"request": request, "response": response(message, reason), **more}


def test_a_conversation_written_down_whole() -> None:
    (trace,), report = read({"messages": CHAT, "tools": [{"type": "function"}], "split": "train"})
    assert not report.skipped
    assert not report.lost
    assert [(s.kind, s.name) for s in trace.steps] == [
        ("user", "user"),
        ("model", "chat"),
        ("tool", "ring"),
        ("model", "chat"),
    ]
    assert [m.role for m in trace.messages] == [m["role"] for m in CHAT]
    assert trace.outcome == Missing("unscored")
    assert trace.head.task == "Ring the bell."
    assert trace.head.meta == {"tools": '[{"type":"function"}]', "split": "train"}
    tool = next(s for s in trace.spans if s.kind == "tool")
    assert (trace.text(tool.arguments or Ref("")), trace.text(tool.result or Ref(""))) == ('{"n": 1}', "ding")


def test_what_stands_beside_messages_and_records() -> None:
    messages = [
        {**ASK, "timestamp": "2026-01-02T03:04:00Z", "weight": 0},
        {
            **DONE,
            "usage": {"prompt_tokens": 3, "completion_tokens": 1},
            "model": "other",
            "finish_reason": "length",
            "cost": 0.5,
        },
        ASK,
        {**DONE, "audio": {"id": "a"}},
    ]
    (trace,), report = read({"messages": messages, "model": "m", "usage": USAGE, "reward": 0.5, "id": "r1"})
    user, first, _, last = trace.spans
    assert user.start_ns == 1_767_323_040_000_000_000
    assert attributes(trace, user) == {"weight": 0}
    assert (first.model, first.stop_reason, first.input_tokens, first.cost_usd) == ("other", "length", 3, 0.5)
    assert (last.model, last.input_tokens, last.cache_read_tokens) == ("m", 40, 60)
    assert (last.output_tokens, last.reasoning_tokens) == (20, 8)
    assert [(x.name, x.value) for x in trace.labels] == [("reward", 0.5)]
    assert report.lost == {"audio": 1}


def test_a_bare_list_of_messages_is_one_trace() -> None:
    for traces, report in (read(CHAT, lines=False), read(*CHAT)):
        (trace,) = traces
        assert not report.skipped
        assert [m.role for m in trace.messages] == [m["role"] for m in CHAT]


def test_lists_of_conversations() -> None:
    traces, report = read([CHAT, [ASK, DONE]], lines=False)
    assert [len(t.messages) for t in traces] == [5, 2]
    assert not report.skipped
    assert [len(t.messages) for t in read([{"messages": CHAT}, {"messages": [ASK, DONE]}], lines=False)[0]] == [5, 2]
    assert len(read({"messages": CHAT}, lines=False)[0]) == 1


def test_a_logged_call() -> None:
    record = pair([SYSTEM, ASK], CALL, "tool_calls", timestamp="2026-01-02T03:05:00Z", latency_ms=7)
    (trace,), report = read(record)
    assert not report.skipped
    assert not report.lost
    assert [(s.kind, s.name) for s in trace.spans] == [("other", "system"), ("user", "user"), ("model", "chat")]
    span = trace.spans[2]
    assert (span.model, span.stop_reason, span.requested) == ("m-2026", "tool_calls", ("ring",))
    assert span.params == {"temperature": 0.5}
    assert (span.input_tokens, span.cache_read_tokens, span.output_tokens, span.reasoning_tokens) == (40, 60, 20, 8)
    assert span.start_ns == 1_767_323_100_000_000_000
    assert attributes(trace, span) == {"id": "chatcmpl-1", "latency_ms": 7}
    assert [m.role for m in trace.conversation(span)] == ["system", "user"]
    assert trace.head.meta == {"tools": '[{"type":"function"}]', "timestamp": "2026-01-02T03:05:00Z", "latency_ms": 7}


def test_calls_are_traces_of_their_own_unless_they_name_their_conversation() -> None:
    first, second = pair([SYSTEM, ASK], CALL), pair([SYSTEM, ASK, CALL, RESULT], DONE)
    traces, _ = read(first, second)
    assert [t.totals.model_calls for t in traces] == [1, 1]
    assert [t.totals.tool_calls for t in traces] == [0, 1]
    assert [(s.kind, s.name) for s in traces[1].spans] == [("other", "history"), ("tool", "ring"), ("model", "chat")]
    assert traces[1].text(traces[1].spans[1].arguments or Ref("")) == '{"n": 1}'  # its call is in the history
    assert [m.role for m in traces[1].messages] == [m["role"] for m in CHAT]
    other = pair([ASK], DONE, session_id="b")
    traces, report = read({**first, "session_id": "a"}, other, {**second, "metadata": {"session_id": "a"}})
    assert not report.skipped
    one, two = traces
    assert (one.totals.model_calls, two.totals.model_calls) == (2, 1)
    assert [(s.kind, s.name) for s in one.steps] == [
        ("user", "user"),
        ("model", "chat"),
        ("tool", "ring"),
        ("model", "chat"),
    ]
    assert [m.role for m in one.messages] == [m["role"] for m in CHAT]
    last = one.spans[-1]
    assert (last.continues, last.keep) == (one.spans[2].span_id, 3)  # the context is stored once
    assert [m.role for m in one.conversation(last)] == ["system", "user", "assistant", "tool"]


def test_another_system_prompt_is_another_lane_and_a_retry_asks_only_once() -> None:
    other = {"role": "system", "content": "You are a helper."}
    records = [
        pair([SYSTEM, ASK], DONE, conversation_id="a"),
        pair([other, {"role": "user", "content": "Help."}], DONE, conversation_id="a"),
        pair([SYSTEM, ASK], DONE, conversation_id="a"),
    ]
    (trace,), _ = read(*records)
    assert [(s.kind, s.lane) for s in trace.steps] == [
        ("user", ""),
        ("model", ""),
        ("user", "agent 1"),
        ("model", "agent 1"),
        ("model", ""),
    ]


def test_more_conversations_than_are_kept_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_chat, "MAX_OPEN", 2)
    records = [pair([ASK], DONE, session_id=name) for name in "abcab"]
    traces, report = read(*records)
    assert sum(t.totals.model_calls for t in traces) == 5
    assert report.lost == {"trace key (repeated)": 2}


def test_batches() -> None:
    good = {"id": "b1", "custom_id": "q1", "response": {"status_code": 200, "body": response(DONE)}, "error": None}
    bad = {
        "id": "b2",
        "custom_id": "q2",
        "response": {"status_code": 429, "body": {"error": {"message": "slow"}}},
        "error": None,
    }
    gone = {"id": "b3", "custom_id": "q3", "response": None, "error": {"code": "expired"}}
    asked = {
        "custom_id": "q4",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"model": "m", "messages": [ASK]},
    }
    traces, report = read(good, bad, gone, asked)
    assert not report.skipped
    assert [t.head.task for t in traces] == ["q1", "q2", "q3", "q4"]
    assert [t.spans[-1].status for t in traces] == ["unset", "error", "error", "unset"]
    assert traces[0].spans[0].input_tokens == 40
    assert traces[1].text(traces[1].spans[0].error or Ref("")) == '{"message":"slow"}'
    assert [s.kind for s in traces[3].spans] == ["user", "model"]
    assert traces[3].spans[1].output == ()


def test_bare_responses_and_answers_without_envelope() -> None:
    refused = response({"role": "assistant", "content": None, "refusal": "No."})
    traces, report = read(
        response(DONE, system_fingerprint="f"),
        refused,
        {"messages": [ASK], "response": "Plain."},
        {"messages": [ASK], "response": DONE},
        {"messages": [ASK], "model": "m", "temperature": 1, "choices": response(DONE)["choices"], "usage": USAGE},
    )
    assert not report.skipped
    assert [t.messages[-1].text for t in traces] == ["Done.", "No.", "Plain.", "Done.", "Done."]
    assert attributes(traces[0], traces[0].spans[0]) == {"id": "chatcmpl-1", "system_fingerprint": "f"}
    assert traces[4].spans[-1].input_tokens == 40
    assert traces[4].head.meta == {"temperature": 1}


def test_what_cannot_be_held_is_counted() -> None:
    many = response(DONE)
    many["choices"][0]["logprobs"] = {"content": []}
    many["choices"].append({"index": 1, "message": {"role": "assistant", "content": "Or not."}})
    traces, report = read(
        {"request": {"messages": [ASK, 7]}, "response": many},
        {"request": {"messages": [ASK]}, "response": [{"chunk": 1}]},
    )
    assert report.lost == {"logprobs": 1, "message (not an object)": 1, "response (of another kind)": 1}
    kept = attributes(traces[0], traces[0].spans[-1])
    assert kept["other_choices"][0]["message"]["content"] == "Or not."


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 9}}, (0, 9, None, None)),
        ({"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 3}}, (4, 2, 3, None)),
        (
            {"input_tokens": 5, "cache_read_input_tokens": 7, "cache_creation_input_tokens": 2, "output_tokens": 1},
            (5, 7, 2, 1),
        ),
        ({"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": "3"}, (5, 4, None, 3)),
        ({"prompt_tokens": "many"}, (None, None, None, None)),
        ([1], (None, None, None, None)),
    ],
)
def test_fresh_input_is_counted_apart(usage: Any, tokens: tuple[int | None, ...]) -> None:
    (trace,), _ = read({**response(DONE), "usage": usage})
    span = trace.spans[0]
    assert (span.input_tokens, span.cache_read_tokens, span.cache_write_tokens, span.output_tokens) == tokens


def test_cost_and_errors() -> None:
    traces, _ = read(
        {**pair([ASK], DONE), "cost": 0.25},
        {"request": {"messages": [ASK]}, "response": response(DONE, usage={"prompt_tokens": 1, "cost": 0.5})},
        {"request": {"messages": [ASK]}, "error": "timeout"},
    )
    assert [t.totals.cost_usd for t in traces] == [0.25, 0.5, None]
    assert [t.totals.errors for t in traces] == [0, 0, 1]


def test_equal_questions_are_repeats_of_one_task() -> None:
    long = "Ring the bell " * 20
    traces, _ = read(*({"messages": [{"role": "user", "content": t}, DONE]} for t in (long, "Hi", long, long + "!")))
    assert [t.head.attempt for t in traces] == [0, 0, 1, 0]
    assert len({t.head.task for t in traces}) == 3


def test_bad_records_are_reported_and_the_rest_is_kept() -> None:
    good = b'{"messages": [{"role": "user", "content": "a"}, 5]}'
    data = good + b'\n{"x": 1}\n17\n{"messages": []}\n{oops\n{"messages": "no"}\n'
    traces, report = read_traces(bytes_source("log", data), "openai-chat")
    assert [[m.text for m in t.messages] for t in traces] == [["a"]]
    assert [s.where for s in report.skipped] == ["line 1, message 1", "line 2", "line 3", "line 4", "line 5", "line 6"]


def test_a_packed_file_that_breaks_off_keeps_its_conversations() -> None:
    filler = [{"messages": [ASK, DONE], "note": "x" * 3000, "n": i} for i in range(600)]
    data = b"\n".join(json.dumps(r).encode() for r in [pair([ASK], DONE, session_id="a"), *filler])
    packed = gzip.compress(data)
    traces, report = read_traces(bytes_source("log", packed[: len(packed) * 3 // 4]), "openai-chat")
    assert len(traces) > 100
    assert any(t.totals.input_tokens == 40 for t in traces)  # the conversation that was still open
    assert "compressed data" in report.skipped[-1].why


def test_nan_and_long_numbers_are_read() -> None:
    data = b'{"messages": [{"role": "user", "content": "a"}], "score": NaN, "seed": 123456789012345678901234567890}'
    (trace,), report = read_traces(bytes_source("log", data), "openai-chat")
    assert not report.skipped
    assert [x.value for x in trace.labels] == [None]
    traces, _ = read_traces(bytes_source("log", data + b"\n" + data), "openai-chat")
    assert len(traces) == 2


def test_a_first_line_longer_than_the_first_look() -> None:
    long = {"messages": [{"role": "user", "content": "x" * (1 << 21)}, DONE]}
    traces, report = read(long, {"messages": CHAT})
    assert [len(t.messages) for t in traces] == [2, 5]
    assert not report.skipped


def test_roles_and_parts_of_other_spellings() -> None:
    messages = [
        {"role": "developer", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look:"},
                {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
            ],
        },
        {
            "role": "assistant",
            "content": "",
            "reasoning_content": "hm",
            "function_call": {"name": "ring", "arguments": "{}"},
        },
        {"role": "function", "name": "ring", "content": "ding"},
    ]
    (trace,), report = read({"messages": messages})
    assert not report.skipped
    assert [m.role for m in trace.messages] == ["system", "user", "assistant", "tool"]
    assert [s.tool for s in trace.spans if s.kind == "tool"] == ["ring"]
    assert trace.messages[0] == Message("system", (Text("Be brief."),))


def test_never_surer_than_a_format_of_its_own(samples: dict[str, bytes]) -> None:
    from ethogram.capture.peek import peek_at

    sniff = reader("openai-chat").sniff
    shapes = [
        pair([ASK], DONE),
        response(DONE),
        {"messages": CHAT},
        CHAT,
        [CHAT],
        {"custom_id": "a", "response": None, "error": {}},
    ]
    for shape in shapes:
        assert 0 < sniff(peek_at(bytes_source("log", json.dumps(shape).encode()))) <= 30
    for data in (b"{}", b"[]", b'{"messages": []}', b'{"messages": "x"}', b"[[]]", b'{"role": "user", "content": "x"}'):
        assert sniff(peek_at(bytes_source("log", data))) == 0


def test_rough_handling(rough: Callable[[str, bytes], None], samples: dict[str, bytes]) -> None:
    rough("openai-chat", samples["openai-chat"])
    lines = (pair([SYSTEM, ASK], CALL, session_id="a"), pair([SYSTEM, ASK, CALL, RESULT], DONE, session_id="a"))
    rough("openai-chat", b"\n".join(json.dumps(v).encode() for v in lines))
