"""Inspect logs: how samples, scores, events and messages become traces. Storage is in test_inspect_storage."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ethogram.capture.intake import SourceReport
from ethogram.capture.memory import read_traces
from ethogram.capture.peek import peek_at
from ethogram.capture.readers.inspect import sniff
from ethogram.capture.source import bytes_source
from ethogram.traces import File, Message, Missing, Reasoning, Ref, Scored, Span, Text, ToolCall, ToolResult, Trace

Json = dict[str, Any]

HEADER: Json = {
    "version": 2,
    "status": "success",
    "eval": {
        **{"eval_id": "ev1", "run_id": "run1", "created": "2026-01-02T03:04:05+00:00", "task": "sums"},
        **{"task_id": "t1", "task_version": 3, "task_args": {"level": 2}, "solver": "react", "model": "acme/m-1"},
        **{"dataset": {"name": "sums-small"}, "config": {}, "packages": {"inspect_ai": "0.3.9"}},
        "model_generate_config": {"temperature": 0.7, "seed": 11, "top_p": None},
    },
    "plan": {"name": "plan", "steps": [{"solver": "generate"}], "config": {"max_tokens": 50}},
    "results": {
        "total_samples": 1,
        "scores": [{"name": "exact", "scorer": "exact", "metrics": {"accuracy": {"name": "accuracy", "value": 1.0}}}],
    },
}


def sample(**changes: Any) -> Json:
    base: Json = {
        **{"id": "q1", "epoch": 1, "input": "two and two?", "target": "4", "uuid": "u-1", "metadata": {"level": 2}},
        **{"scores": {"exact": {"value": "C", "explanation": "it is four", "answer": "4"}}, "messages": []},
        **{"output": {"model": "m-1", "choices": [], "completion": "4"}, "events": []},
    }
    return {k: v for k, v in {**base, **changes}.items() if v is not ...}


def event(kind: str, second: float = 0, **fields: Any) -> Json:
    return {"event": kind, "timestamp": f"2026-01-02T03:04:{second:09.6f}+00:00", "working_start": second, **fields}


def said(text: Any, *calls: Json, **fields: Any) -> Json:
    return {"role": "assistant", "content": text, **({"tool_calls": list(calls)} if calls else {}), **fields}


def call(name: str, arguments: Json, call_id: str = "c1") -> Json:
    return {"id": call_id, "function": name, "arguments": arguments, "type": "function"}


def model(second: float, inputs: list[Json], output: Json | None, usage: Json | None = None, **fields: Any) -> Json:
    choices = [] if output is None else [{"message": output, "stop_reason": fields.pop("stop", "stop")}]
    body = {"model": "m-1-0131", "choices": choices, **({"usage": usage} if usage else {})}
    return event("model", second, **{"model": "acme/m-1", "input": inputs, "output": body, "config": {}, **fields})


def log(*samples: Json, **header: Any) -> bytes:
    return json.dumps({**HEADER, **header, "samples": list(samples)}).encode()


def read(*samples: Json, **header: Any) -> tuple[list[Trace], SourceReport]:
    return read_traces(bytes_source("log.json", log(*samples, **header)), "inspect")


def one(changed: Json, **header: Any) -> Trace:
    traces, report = read(changed, **header)
    assert report.skipped == []
    assert len(traces) == 1
    return traces[0]


def with_events(*events: Json, **changes: Any) -> Trace:
    return one(sample(events=list(events), **changes))


def named(trace: Trace, name: str) -> Span:
    return next(s for s in trace.spans if s.name == name)


def kept(trace: Trace, span: Span) -> Json:
    found: Json = json.loads(trace.text(span.attributes)) if span.attributes else {}
    return found


def words(trace: Trace, ref: Ref | None) -> str | None:
    return None if ref is None else trace.text(ref)


USER = {"role": "user", "content": "two and two?"}


def test_a_sample_is_a_trace_of_its_task_and_epoch() -> None:
    trace = one(sample(epoch=3, total_time=1.5, error_retries=[]))
    head = trace.head
    assert (head.task, head.attempt, head.agent, head.seed) == ("sums/q1", 2, "react", 11)
    assert head.outcome == Scored(1.0, "exact")
    assert trace.answer == "4"
    assert {k: head.meta[k] for k in ("task", "model", "dataset", "run_id", "eval_id", "solver", "status")} == {
        **{"task": "sums", "model": "acme/m-1", "dataset": "sums-small", "run_id": "run1", "eval_id": "ev1"},
        **{"solver": "react", "status": "success"},
    }
    assert (head.meta["temperature"], head.meta["max_tokens"], head.meta["task_version"]) == (0.7, 50, 3)
    assert (head.meta["task_args"], head.meta["metadata.level"]) == ('{"level":2}', 2)
    assert (head.meta["target"], head.meta["total_time"]) == ("4", 1.5)
    assert head.meta["results"] == '{"exact":{"accuracy":1.0}}'
    assert [(label.name, label.value, label.by, words(trace, label.why)) for label in trace.labels] == [
        ("exact", "C", "exact", "it is four")
    ]
    root = trace.spans[0]
    assert (root.kind, root.name, root.status) == ("agent", "sums", "ok")
    assert kept(trace, root)["scores"] == {"exact": {"answer": "4"}}


def test_the_agent_is_the_solver_or_the_steps_of_the_plan() -> None:
    spec = {k: v for k, v in HEADER["eval"].items() if k != "solver"}
    steps = [{"solver": "prompt"}, {"solver": "generate"}, {"wrong": 1}]
    assert one(sample(), eval=spec, plan={"steps": steps}).head.agent == "prompt+generate"


def test_a_uuid_names_a_sample_everywhere_and_run_and_sample_do_otherwise() -> None:
    def episode(name: str, changed: Json, **header: Any) -> str:
        traces, _ = read_traces(bytes_source(name, log(changed, **header)), "inspect")
        return traces[0].head.episode

    assert episode("a.json", sample()) == episode("b.json", sample(id="other"))
    anonymous = sample(uuid=None)
    assert episode("a.json", anonymous) == episode("b.json", anonymous)
    assert episode("a.json", anonymous) != episode("a.json", sample(uuid=None, epoch=2))
    unknown = {**HEADER["eval"], "eval_id": "", "run_id": "", "task_id": ""}
    assert episode("a.json", anonymous, eval=unknown) != episode("b.json", anonymous, eval=unknown)


@pytest.mark.parametrize(
    ("value", "number"),
    [
        *[("C", 1.0), ("I", 0.0), ("P", 0.5), ("N", 0.0), (True, 1.0), (False, 0.0), (0.25, 0.25), (3, 3.0)],
        *[("0.5", 0.5), ("yes", 1.0), ("FALSE", 0.0), ("c", None), ("maybe", None), (None, None), ("nan", None)],
    ],
)
def test_a_score_is_a_number_or_the_sample_is_unscored(value: Any, number: float | None) -> None:
    trace = one(sample(scores={"exact": {"value": value}}))
    assert trace.outcome == (Missing("unscored") if number is None else Scored(number, "exact"))
    assert [label.value for label in trace.labels] == [value]


def test_the_first_score_of_the_header_decides_and_all_become_labels() -> None:
    results = {"scores": [{"name": "b", "scorer": "b"}, {"name": "a", "scorer": "a"}]}
    trace = one(sample(scores={"a": {"value": "C"}, "b": {"value": "I"}}), results=results)
    assert trace.outcome == Scored(0.0, "b")
    assert {label.name: label.value for label in trace.labels} == {"a": "C", "b": "I"}


def test_scores_of_several_values_are_labels_only() -> None:
    scores = {"parts": {"value": {"x": 1, "y": None, "z": [1]}}, "list": {"value": ["C", 2]}, "whole": {"value": 0.4}}
    trace = one(sample(scores=scores), results=None)
    assert trace.outcome == Scored(0.4, "whole")
    found = {label.name: label.value for label in trace.labels}
    assert found == {"parts.x": 1, "parts.y": None, "parts.z": "[1]", "list.0": "C", "list.1": 2, "whole": 0.4}


def test_the_first_scorer_without_a_value_is_not_replaced_by_the_next() -> None:
    results = {"scores": [{"name": "first", "scorer": "first"}]}
    data = log(sample(scores={"first": {"value": "?"}, "second": {"value": 1}}), results=results)
    traces, report = read_traces(bytes_source("x", data.replace(b'"?"', b"NaN")), "inspect")
    assert report.skipped == []
    assert traces[0].outcome == Missing("unscored")
    assert {label.name: label.value for label in traces[0].labels} == {"first": None, "second": 1}


def test_old_logs_name_no_score() -> None:
    old = sample(scores=..., score={"value": "C"})
    assert one(old, results={"scorer": {"name": "match"}}).outcome == Scored(1.0, "match")
    assert one(old, results=None).outcome == Scored(1.0, "score")
    assert one(sample(scores={"88F74D2C": {"value": "I"}})).outcome == Scored(0.0, "exact")


def test_why_there_is_no_score() -> None:
    error = {"message": "connection lost", "traceback": "Traceback", "traceback_ansi": "x"}
    failed = one(sample(scores=None, error=error))
    assert failed.outcome == Missing("infrastructure.other", "connection lost")
    assert (failed.spans[0].status, words(failed, failed.spans[0].error)) == ("error", "connection lost")
    assert kept(failed, failed.spans[0])["traceback"] == "Traceback"
    assert one(sample(scores={}), status="cancelled").outcome == Missing("cancelled")
    assert one(sample(scores={}, limit={"type": "operator", "limit": 1})).outcome == Missing("cancelled")
    assert one(sample(scores={})).outcome == Missing("unscored")
    assert one(sample(error=error)).outcome == Scored(1.0, "exact")


def test_the_agents_own_limit_keeps_its_score() -> None:
    trace = one(sample(limit={"type": "token", "limit": 500, "reason": "too many"}))
    assert trace.outcome == Scored(1.0, "exact")
    assert [trace.head.meta[k] for k in ("limit", "limit_value", "limit_reason")] == ["token", 500.0, "too many"]
    assert one(sample(limit={"type": "time", "limit": 5}, scores={})).outcome == Missing("unscored")


def test_an_invalidated_sample_says_so() -> None:
    trace = one(sample(invalidation={"author": "mia", "reason": "wrong sandbox"}))
    label = trace.labels[-1]
    assert (label.name, label.value, label.by, words(trace, label.why)) == (
        *("invalidated", True, "mia", "wrong sandbox"),
    )


def test_model_calls_carry_tokens_times_settings_and_stop_reason() -> None:
    usage: Json = {"input_tokens": 10, "output_tokens": 7, "total_tokens": 22, "input_tokens_cache_read": 3}
    usage |= {"input_tokens_cache_write": 2, "reasoning_tokens": 4}
    usage["total_cost"] = 0.01
    first = model(1, [USER], said("4"), usage, config={"temperature": 0.1, "stop_seqs": ["x"], "seed": None})
    first |= {"uuid": "m1", "completed": "2026-01-02T03:04:03.500000+00:00", "retries": 2, "cache": "write"}
    trace = with_events({**first, "role": "grader", "request_ids": ["r1"]})
    span = trace.steps[0]
    assert (span.span_id, span.kind, span.name, span.model, span.provider) == ("m1", "model", "chat", "m-1", "acme")
    assert (span.seconds, span.status, span.stop_reason) == (2.5, "ok", "stop")
    assert (span.input_tokens, span.cache_read_tokens, span.cache_write_tokens) == (10, 3, 2)
    assert (span.output_tokens, span.reasoning_tokens, span.cost_usd) == (7, 4, 0.01)
    assert span.params == {"temperature": 0.1, "stop_seqs": '["x"]'}
    found = kept(trace, span)
    assert (found["retries"], found["role"], found["response_model"], found["request_ids"]) == (
        *(2, "grader", "m-1-0131", ["r1"]),
    )
    assert trace.messages == (Message("user", (Text("two and two?"),)), Message("assistant", (Text("4"),)))


BOTH = {"input_tokens": 9, "output_tokens": 5, "reasoning_tokens": 3, "input_tokens_cache_read": 2}


@pytest.mark.parametrize(
    ("counts", "fresh", "output"),
    [
        ({"input_tokens": 100, "output_tokens": 5, "total_tokens": 105, "input_tokens_cache_read": 60}, 40, 5),
        ({"input_tokens": 40, "output_tokens": 5, "total_tokens": 105, "input_tokens_cache_read": 60}, 40, 5),
        ({"input_tokens": 40, "output_tokens": 5, "input_tokens_cache_read": 60}, 40, 5),
        ({"input_tokens": 9, "output_tokens": 5, "total_tokens": 17, "reasoning_tokens": 3}, 9, 8),
        ({"input_tokens": 9, "output_tokens": 5, "total_tokens": 14, "reasoning_tokens": 3}, 9, 5),
        (
            {
                **{"input_tokens": 9, "output_tokens": 5, "total_tokens": 19, "reasoning_tokens": 3},
                "input_tokens_cache_read": 2,
            },
            *(9, 8),
        ),
        (
            {
                **{"input_tokens": 9, "output_tokens": 5, "total_tokens": 17, "reasoning_tokens": 3},
                "input_tokens_cache_read": 2,
            },
            *(7, 8),
        ),
        ({"input_tokens": 3, "output_tokens": 5, "total_tokens": 8, "input_tokens_cache_read": 60}, 3, 5),
        ({"input_tokens": "x", "output_tokens": None}, None, None),
        ({}, None, None),
    ],
)
def test_cached_and_reasoning_tokens_are_told_apart_by_the_total(counts: Json, fresh: Any, output: Any) -> None:
    span = with_events(model(1, [USER], said("4"), counts)).steps[0]
    assert (span.input_tokens, span.output_tokens) == (fresh, output)


def test_an_answer_from_the_local_cache_costs_nothing() -> None:
    trace = with_events(model(1, [USER], said("4"), {"input_tokens": 9, "output_tokens": 2}, cache="read"))
    assert trace.totals.input_tokens is None
    assert kept(trace, trace.steps[0])["cached_usage"] == {"input_tokens": 9, "output_tokens": 2}


def test_a_failed_call_keeps_its_error_and_what_a_call_cannot_hold_is_counted() -> None:
    broken = model(1, [USER], None, error="rate limit", call={"request": {}, "response": {}})
    odd = model(2, [USER], said("4"))
    odd["output"]["choices"][0] |= {"logprobs": {"content": []}, "stop_reason": "length", "stop_details": {"type": "x"}}
    odd["output"]["choices"].append({"message": said("five"), "stop_reason": "stop"})
    odd["output"]["time"] = 0.25
    traces, report = read(sample(events=[broken, odd]))
    first, second = traces[0].steps
    assert (first.status, words(traces[0], first.error), first.stop_reason) == ("error", "rate limit", None)
    assert (second.stop_reason, second.seconds) == ("max_tokens", 0.25)
    assert kept(traces[0], second)["other_choices"] == [said("five")]
    assert report.lost == {"model.call": 1, "logprobs": 1}


def test_a_growing_context_is_stored_once() -> None:
    calls = [call("add", {"x": 2}, "c1")]
    result = {"role": "tool", "content": "4", "tool_call_id": "c1", "function": "add"}
    chat = [USER, said("", *calls), result, said("so 4"), {"role": "user", "content": "sure?"}]
    trace = with_events(
        model(1, chat[:1], chat[1], stop="tool_calls"),
        model(2, chat[:3], chat[3]),
        model(3, chat, said("yes")),
        model(4, [chat[4]], said("forgot")),
    )
    spans = [s for s in trace.spans if s.kind == "model"]
    assert [(len(s.input), s.keep) for s in spans] == [(1, 0), (1, 2), (1, 4), (1, 0)]
    assert [len(trace.conversation(s)) for s in spans] == [1, 3, 5, 1]
    assert trace.conversation(spans[2])[1] == Message("assistant", (ToolCall("add", '{"x":2}', "c1"),))
    assert trace.conversation(spans[2])[2] == Message("tool", (ToolResult("4", "add", "c1"),))
    assert spans[0].requested == ("add",)


def test_contexts_that_grow_side_by_side_are_each_read_in_full() -> None:
    def turn(who: int, number: int) -> Json:
        return {"role": "user", "content": f"{who}:{number}"}

    talks = [[turn(who, n) for n in range(4)] for who in range(6)]
    shrunk, odd = talks[0][:2], [*talks[1][:1], turn(9, 9), *talks[1][1:]]
    inputs = [*[talk[:n] for n in range(5) for talk in talks], shrunk, odd, talks[0], [], talks[5]]
    events = [model(i, said_before, said(f"answer {i}")) for i, said_before in enumerate(inputs)]
    events.append(model(59, None, said("nothing was asked")))  # type: ignore[arg-type]
    trace = with_events(*events)
    read_back = [[m.text for m in trace.conversation(s)] for s in trace.steps]
    assert read_back == [[m["content"] for m in said_before] for said_before in inputs] + [[]]
    indented = json.dumps(json.loads(log(sample(events=events))), indent=2).encode()
    (same,), report = read_traces(bytes_source("indented", indented), "inspect")
    assert report.skipped == []
    assert [[m.text for m in same.conversation(s)] for s in same.steps] == read_back


def test_tool_definitions_are_kept_where_they_first_appear() -> None:
    tools = [{"name": "add", "description": "Adds.", "parameters": {}}, {"name": "look"}]
    trace = with_events(model(1, [USER], said("a"), tools=tools), model(2, [USER], said("b"), tools=tools[:1]))
    first, second = (kept(trace, s) for s in trace.steps)
    assert first["tools"] == ["add", "look"]
    assert first["tool_definitions"] == tools
    assert second["tools"] == ["add"]
    assert "tool_definitions" not in second


def tool(second: float, name: str, arguments: Any, result: Any, **fields: Any) -> Json:
    body = {"type": "function", "id": "c1", "function": name, "arguments": arguments, "result": result, "events": []}
    return event("tool", second, **{**body, **fields})


def begin(second: float, span: str, type_: str | None, name: str, parent: str | None = None, **fields: Any) -> Json:
    return event("span_begin", second, id=span, span_id=span, parent_id=parent, type=type_, name=name, **fields)


def end(second: float, span: str) -> Json:
    return event("span_end", second, id=span, span_id=span)


def test_tool_calls_carry_arguments_result_and_error() -> None:
    trace = with_events(
        tool(1, "add", {"x": 2}, "4", uuid="t1", completed="2026-01-02T03:04:02.000000+00:00"),
        tool(2, "add", {"x": 3}, "", error={"type": "timeout", "message": "too slow"}, truncated=[9, 3]),
        tool(3, "count", {}, 7, failed=True, agent="helper"),
        tool(
            4, "see", "not an object", [{"type": "text", "text": "a cat"}, {"type": "image", "image": "http://x/c.png"}]
        ),
        tool(5, "table", None, [[1, 2], {"a": 1}]),
    )
    spans = [s for s in trace.spans if s.kind == "tool"]
    first, second, third, fourth, fifth = spans
    assert (first.span_id, first.tool, first.call_id, first.status, first.seconds) == ("t1", "add", "c1", "ok", 1.0)
    assert (words(trace, first.arguments), words(trace, first.result)) == ('{"x":2}', "4")
    assert (second.status, second.truncated, words(trace, second.error)) == ("error", True, "too slow")
    assert (third.status, words(trace, third.result)) == ("error", "7")
    assert kept(trace, third)["agent"] == "helper"
    assert words(trace, fourth.arguments) == "not an object"
    assert "a cat" in (words(trace, fourth.result) or "")
    assert "c.png" in (words(trace, fourth.result) or "")
    assert (fifth.arguments, words(trace, fifth.result)) == (None, '[[1,2],{"a":1}]')


def test_the_span_around_a_tool_and_its_event_are_one_and_sub_agents_lie_below() -> None:
    trace = with_events(
        begin(0, "A", "agent", "lead"),
        model(1, [USER], said("", call("ask", {})), span_id="A"),
        begin(2, "T", "tool", "ask", "A"),
        tool(2, "ask", {}, "4", span_id="A", uuid="t1"),
        begin(3, "B", "agent", "helper", "T"),
        model(4, [USER], said("4"), {"output_tokens": 5}, span_id="B"),
        end(5, "B"),
        end(6, "T"),
        end(7, "A"),
    )
    ids: dict[str, Span] = {s.span_id: s for s in trace.spans}
    assert ids["T"].kind == "tool"
    assert (ids["T"].parent_id, ids["B"].parent_id, ids["A"].parent_id) == ("A", "T", "sample")
    assert "t1" not in ids
    assert [(s.kind, s.agent, s.lane) for s in trace.steps] == [("model", "lead", ""), ("model", "helper", "helper")]
    assert (ids["A"].kind, ids["A"].seconds, ids["B"].lane) == ("agent", 7.0, "helper")
    assert trace.totals.tool_calls == 0, "the steps of the sub-agent stand for its tool"
    assert trace.totals.output_tokens == 5


def test_parallel_calls_of_one_tool_and_agents_side_by_side() -> None:
    trace = with_events(
        begin(0, "A", "agent", "worker"),
        begin(0, "B", "agent", "worker"),
        begin(1, "T1", "tool", "look", "A"),
        begin(1, "T2", "tool", "look", "B"),
        tool(1, "look", {"n": 2}, "two", span_id="B", id="c2"),
        tool(1, "look", {"n": 1}, "one", span_id="A", id="c1"),
        tool(1, "look", {"n": 3}, "three", span_id="A", id="c3"),
        *[end(2, s) for s in ("T1", "T2", "A", "B")],
    )
    found: dict[str, str] = {s.span_id: words(trace, s.result) or "" for s in trace.spans if s.kind == "tool"}
    assert found["T1"] == "one"
    assert found["T2"] == "two"
    assert sorted(found.values()) == ["one", "three", "two"]
    assert {s.span_id: s.lane for s in trace.spans if s.kind == "agent"} == {"sample": "", "A": "", "B": "worker"}


def test_a_handoff_and_a_second_visit_have_their_own_places() -> None:
    visits = [
        [
            begin(i, f"H{i}", "handoff", "helper", "A"),
            begin(i, f"T{i}", "tool", "transfer", f"H{i}"),
            tool(i, "transfer", {}, "done", span_id="A", uuid=f"t{i}"),
            begin(i, f"B{i}", "agent", "helper", f"T{i}"),
            model(i, [USER], said("x"), span_id=f"B{i}"),
            *[end(i, f"{s}{i}") for s in "BTH"],
        ]
        for i in (1, 2)
    ]
    trace = with_events(begin(0, "A", "agent", "lead"), *visits[0], *visits[1], end(9, "A"))
    assert [s.kind for s in trace.spans if s.span_id in ("H1", "H2")] == ["handoff", "handoff"]
    assert [s.lane for s in trace.steps] == ["helper", "helper#2"]


def test_a_scorers_own_calls_are_no_steps_of_the_agent() -> None:
    grading = model(2, [USER], said("GRADE: C"), {"input_tokens": 100, "output_tokens": 9}, span_id="S")
    trace = with_events(
        model(1, [USER], said("4"), {"input_tokens": 5, "output_tokens": 1}),
        begin(2, "S", "scorer", "exact"),
        grading,
        tool(2, "check", {}, "ok", span_id="S"),
        event("score", 3, score={"value": "C"}, scorer="exact", target="4", intermediate=False, span_id="S"),
        end(3, "S"),
    )
    assert len(trace.steps) == 1
    assert (trace.totals.input_tokens, trace.totals.output_tokens) == (5, 1)
    judges = [s for s in trace.spans if s.kind == "judge"]
    assert [(s.name, s.output_tokens) for s in judges] == [
        ("chat", 9),
        ("check", None),
        ("exact", None),
        ("exact", None),
    ]
    assert words(trace, judges[2].result) == "C"
    assert kept(trace, judges[2])["target"] == "4"


def test_old_logs_nest_by_steps_and_keep_events_inside_tools_and_subtasks() -> None:
    inner = [event("step", 3, action="begin", type="solver", name="inner"), model(3, [USER], said("deep")), "no event"]
    traces, report = read(
        sample(
            events=[
                event("step", 0, action="begin", type="solver", name="generate"),
                tool(1, "ask", {}, "4", uuid="t1", events=inner),
                event("subtask", 4, name="plan", input={"q": 1}, result=5, events=[model(4, [USER], said("x"))]),
                event("step", 5, action="end", type="solver", name="generate"),
                event("step", 6, action="begin", type="scorer", name="match"),
                model(6, [USER], said("grade")),
                event("step", 7, action="end", type="scorer", name="match"),
                event("step", 8, action="end", type="scorer", name="match"),
                event("step", 9, action="begin", name="cut off"),
            ]
        )
    )
    trace = traces[0]
    above = {s.span_id: s.parent_id for s in trace.spans}
    assert above[named(trace, "ask").span_id] == named(trace, "generate").span_id
    assert above[named(trace, "inner").span_id] == "t1"
    assert above[named(trace, "plan").span_id] == named(trace, "generate").span_id
    assert [s.kind for s in trace.steps] == ["model", "model"]
    assert (named(trace, "match").kind, named(trace, "generate").seconds) == ("judge", 5.0)
    assert named(trace, "cut off").seconds is None
    assert words(trace, named(trace, "plan").arguments) == '{"q":1}'
    assert json.loads(str(trace.head.meta["events"])) == {"step": 7, "tool": 1, "subtask": 1, "model": 3, "?": 1}
    assert report.lost == {"step end (never begun)": 1}
    assert [s.where for s in report.skipped] == ["sample 0, event 2 inside ask"]


def test_what_was_under_way_when_the_log_ended_is_kept() -> None:
    waiting = model(2, [USER], None, uuid="m1", pending=True)
    trace = with_events(
        begin(0, "A", "agent", "lead"),
        begin(1, "T", "tool", "look", "A"),
        tool(1, "look", {}, "", span_id="A", uuid="t1", pending=True),
        waiting,
        begin(3, "U", "tool", "never called", "A"),
    )
    ids: dict[str, Span] = {s.span_id: s for s in trace.spans}
    assert [(ids[i].kind, ids[i].status, ids[i].end_ns) for i in ("A", "T", "m1", "U")] == [
        *(("agent", "unset", None), ("tool", "unset", None), ("model", "unset", None), ("other", "unset", None)),
    ]
    assert kept(trace, ids["m1"])["pending"] is True
    assert (ids["T"].result, ids["T"].parent_id) == (None, "A")


def test_an_event_that_is_logged_twice_counts_once() -> None:
    done = model(2, [USER], said("4"), {"output_tokens": 3}, uuid="m1")
    slow = tool(3, "look", {}, "seen", uuid="t1", span_id="A")
    traces, report = read(
        sample(
            events=[
                begin(0, "A", "agent", "lead"),
                {**done, "pending": True},
                done,
                {**done, "pending": True},
                done,
                begin(3, "T", "tool", "look", "A"),
                {**slow, "pending": True, "result": ""},
                slow,
                end(4, "T"),
                end(5, "A"),
                end(6, "never begun"),
            ]
        )
    )
    trace = traces[0]
    assert (trace.totals.model_calls, trace.totals.tool_calls, trace.totals.output_tokens) == (1, 1, 3)
    assert words(trace, named(trace, "look").result) == "seen"
    assert report.lost == {"event (repeated)": 2, "span_end (never begun)": 1}


@pytest.mark.parametrize(
    ("kind", "fields", "expected"),
    [
        ("info", {"source": "me", "data": {"a": 1}}, {"source": "me", "data": {"a": 1}}),
        ("logger", {"message": {"level": "info", "message": "hi"}}, {"message": {"level": "info", "message": "hi"}}),
        (
            "store",
            {"changes": [{"op": "add", "path": "/x", "value": 1}]},
            {"changes": [{"op": "add", "path": "/x", "value": 1}]},
        ),
        ("approval", {"approver": "human", "decision": "reject"}, {"approver": "human", "decision": "reject"}),
        ("review", {"reviewer": "r", "decision": "continue"}, {"reviewer": "r", "decision": "continue"}),
        ("sample_limit", {"type": "token", "message": "m", "limit": 5}, {"type": "token", "message": "m", "limit": 5}),
        ("compaction", {"tokens_before": 9, "tokens_after": 2}, {"tokens_before": 9, "tokens_after": 2}),
        ("checkpoint", {"checkpoint_id": 3, "new field": [1]}, {"checkpoint_id": 3, "new field": [1]}),
        ("branch", {"from_anchor": "a"}, {"from_anchor": "a"}),
        ("anchor", {"anchor_id": "a"}, {"anchor_id": "a"}),
        ("interrupt", {"source": "limit", "interrupted": "generate"}, {"source": "limit", "interrupted": "generate"}),
        ("from next year", {"metadata": {"a": 1}}, {"metadata": {"a": 1}}),
    ],
)
def test_other_events_become_spans_with_their_content(kind: str, fields: Json, expected: Json) -> None:
    trace = with_events(model(1, [USER], said("4")), event(kind, 2, uuid="e1", **fields))
    span = next(s for s in trace.spans if s.span_id == "e1")
    assert (span.kind, span.name, span.parent_id) == ("other", kind, "sample")
    assert kept(trace, span) == expected
    assert len(trace.steps) == 1


def test_judgements_inputs_sandbox_and_errors_have_their_own_shape() -> None:
    trace = with_events(
        event("sentinel", 1, factory="f", suspicion=0.5),
        event("score_edit", 2, score_name="exact", edit={"value": "I"}),
        event("input", 3, input="go on", input_ansi="[1mgo on", outcome="accepted"),
        event("sandbox", 4, action="exec", cmd="ls", result=2, output="a\nb", completed="2026-01-02T03:04:05+00:00"),
        event("sandbox", 4, action="read_file", file="/tmp/x"),
        event("error", 5, error={"message": "lost", "traceback": "tb"}),
        event("error", 6, error={"message": "another", "traceback": "tb"}),
        error={"message": "lost", "traceback": "tb", "traceback_ansi": ""},
    )
    assert (named(trace, "sentinel").kind, named(trace, "score_edit").kind) == ("judge", "judge")
    assert (named(trace, "input").kind, words(trace, named(trace, "input").result)) == ("user", "go on")
    assert kept(trace, named(trace, "input")) == {"outcome": "accepted"}
    run = named(trace, "sandbox exec")
    assert (run.kind, words(trace, run.arguments), words(trace, run.result), run.seconds) == (
        "other",
        "ls",
        "a\nb",
        1.0,
    )
    assert kept(trace, run) == {"action": "exec", "result": 2}
    assert words(trace, named(trace, "sandbox read_file").arguments) == "/tmp/x"
    assert [words(trace, s.error) for s in trace.spans if s.error] == ["lost", "another"]


def test_state_changes_do_not_repeat_messages() -> None:
    changes = [
        {"op": "add", "path": "/messages/2", "value": said("long words")},
        {"op": "replace", "path": "/output/model", "value": "m", "replaced": "n"},
        {"op": "add", "path": "/store/x", "value": 1},
        "odd",
    ]
    trace = with_events(event("state", 1, changes=changes))
    assert kept(trace, named(trace, "state"))["changes"] == [
        *({"op": "add", "path": "/messages/2"}, {"op": "replace", "path": "/output/model"}),
        *({"op": "add", "path": "/store/x", "value": 1}, "odd"),
    ]


PICTURE = "data:image/png;base64," + "A" * 400


def test_attachments_are_put_back_and_files_leave_their_hash() -> None:
    long = {"h1": "a long question", "h2": PICTURE, "h3": "deep"}
    parts = [{"type": "text", "text": "attachment://h1"}, {"type": "image", "image": "attachment://h2"}]
    asked = {"role": "user", "content": parts}
    traces, report = read(
        sample(
            input=[asked],
            events=[
                model(1, [asked, {"role": "user", "content": "attachment://gone"}], said("attachment://h1")),
                tool(2, "look", {"q": "attachment://h3"}, "attachment://h1"),
                event("info", 3, data={"x": ["attachment://h3", PICTURE, "http://a.b/c"]}),
            ],
            attachments=long,
        )
    )
    trace = traces[0]
    first = trace.messages[0]
    assert first.text == "a long question"
    picture = first.parts[1]
    assert isinstance(picture, File)
    assert (picture.media_type, picture.uri, picture.size) == ("image/png", "", len(PICTURE) * 3 // 4)
    assert trace.messages[2].text == "a long question"
    assert words(trace, named(trace, "look").result) == "a long question"
    assert words(trace, named(trace, "look").arguments) == '{"q":"deep"}'
    data = kept(trace, named(trace, "info"))["data"]["x"]
    assert data[0] == "deep"
    assert data[1].startswith("data:image/png;base64 (b2:")
    assert data[2] == "http://a.b/c"
    assert all("AAAA" not in body for body in trace.texts.values())
    assert report.lost == {"attachment (missing)": 1, "bytes of a file": 3}
    assert trace.head.meta["attachments"] == 3


def test_events_of_the_oldest_logs_stand_in_a_transcript() -> None:
    asked = {"role": "user", "content": "tc://h1"}
    transcript = {"events": [model(1, [asked], said("4"), {"output_tokens": 2})], "content": {"h1": "a question"}}
    trace = one(sample(events=..., transcript=transcript))
    assert trace.messages[0].text == "a question"
    assert trace.totals.output_tokens == 2
    assert trace.head.meta["attachments"] == 1


def test_pooled_messages_are_put_back() -> None:
    pool = [USER, said("3"), {"role": "user", "content": "attachment://h"}]
    events = [model(1, [], said("3"), input_refs=[[0, 1]]), model(2, [], said("4"), input_refs=[[0, 3]])]
    events.append(model(3, [], said("5"), input_refs=[[1, 2], [0, 1], [2, 9], "odd", [5], [-1, 2]]))
    data = {"messages": pool, "calls": [{"a": 1}]}
    traces, report = read(sample(events=events, events_data=data, attachments={"h": "no"}))
    trace = traces[0]
    assert [[m.text for m in trace.conversation(s)] for s in trace.steps] == [
        *(["two and two?"], ["two and two?", "3", "no"], ["3", "two and two?", "no"]),
    ]
    assert report.lost == {"message (not in the pool)": 6}


def test_every_part_of_a_message_finds_its_place() -> None:
    server = {"type": "tool_use", "tool_type": "web_search", "id": "w1", "name": "web", "arguments": "{}"}
    answer = said(
        [
            {"type": "reasoning", "reasoning": "hm", "signature": "s"},
            {"type": "reasoning", "reasoning": "secret", "redacted": True, "summary": "short"},
            {"type": "text", "text": "see", "citations": [{"a": 1}], "internal": {"b": 2}},
            {**server, "result": "found"},
            {**server, "result": "", "error": "no net"},
            {"type": "audio", "audio": "a.mp3", "format": "mp3"},
            {"type": "document", "document": "b.pdf", "mime_type": "application/pdf"},
            {"type": "data", "data": {"x": 1}},
            "bare",
        ],
        {"id": "c1", "function": "add", "arguments": {"a": 1}},
        metadata={"k": 1},
        reasoning="old way",
    )
    failed = {
        "role": "tool",
        "content": "",
        "function": "add",
        "tool_call_id": "c1",
        "error": {"type": "x", "message": "no"},
    }
    traces, report = read(sample(events=[model(1, [failed, {"role": "system", "content": ""}], answer)]))
    tool_said, system, written = traces[0].messages
    assert tool_said == Message("tool", (ToolResult("no", "add", "c1", True),))
    assert system == Message("system", ())
    assert written.parts == (
        *(Reasoning("old way"), Reasoning("hm"), Reasoning("short"), Text("see")),
        *(ToolCall("web", "{}", "w1"), ToolResult("found", "web", "w1")),
        *(ToolCall("web", "{}", "w1"), ToolResult("no net", "web", "w1", True)),
        *(File("audio/mp3", "a.mp3"), File("application/pdf", "b.pdf"), Text('{"x":1}'), Text("bare")),
        ToolCall("add", '{"a":1}', "c1"),
    )
    assert report.lost == {
        **{"content.signature": 1, "reasoning (redacted)": 1, "content.citations": 1, "content.internal": 1},
        "message.metadata": 1,
    }


def test_messages_that_no_call_read_are_kept_once() -> None:
    last = {"role": "tool", "content": "done", "tool_call_id": "c1", "function": "submit"}
    written = said("", call("submit", {}), id="a1")
    traces, report = read(
        sample(
            events=[model(1, [USER], written)],
            messages=[USER, {**written, "content": "edited later"}, last],
        )
    )
    trace = traces[0]
    assert [m.role for m in trace.messages] == ["user", "assistant", "tool"]
    assert named(trace, "unread").parent_id == "sample"
    assert report.lost == {"message (changed after the call that wrote it)": 1}


def test_a_log_without_events_is_read_from_its_messages() -> None:
    result = {"role": "tool", "content": "Error? no", "tool_call_id": "c1", "function": "add"}
    chat = [{"role": "system", "content": "Be brief."}, USER, said("", call("add", {"x": 1})), result, said("4")]
    usage = {"input_tokens": 30, "output_tokens": 4, "total_tokens": 34}
    output = {"choices": [{"message": said("4"), "stop_reason": "length"}], "usage": {"input_tokens": 9}}
    trace = one(sample(messages=chat, output=output, model_usage={"acme/m-1": usage, "acme/judge": usage}))
    assert [(s.kind, s.status) for s in trace.steps if s.kind != "user"] == [
        ("model", "unset"),
        ("tool", "ok"),
        ("model", "unset"),
    ]
    last = trace.steps[-1]
    assert (last.model, last.provider, last.stop_reason, last.input_tokens) == ("m-1", "acme", "max_tokens", 30)
    assert kept(trace, last) == {"usage_of": "2 calls"}
    assert (trace.totals.input_tokens, trace.totals.output_tokens, len(trace.messages)) == (30, 4, 5)
    assert trace.answer == "4"
    single = one(sample(messages=[USER, said("4")], output=output, events=None))
    assert single.totals.input_tokens == 9


def test_retried_attempts_leave_their_errors_only() -> None:
    retry = {"message": "flaky", "traceback": "tb", "traceback_ansi": "", "events": [model(0, [USER], said("x"))]}
    traces, report = read(sample(events=[model(1, [USER], said("4"))], error_retries=[retry, "odd"]))
    trace = traces[0]
    assert [words(trace, s.error) for s in trace.spans if s.name == "retry"] == ["flaky", "error"]
    assert (trace.totals.model_calls, trace.head.meta["retries"]) == (1, 2)
    assert report.lost == {"event of a retried attempt": 1}


def test_header_and_file_may_disagree() -> None:
    assert read(sample(), results={"total_samples": 5})[1].lost == {
        "sample (the header counts it, the file does not hold it)": 4
    }
    assert read(sample(timelines=[{"name": "t"}]))[1].lost == {"timelines": 1}
    traces, report = read(sample(), eval={**HEADER["eval"], "task_args": {"text": "x" * 3000}})
    assert "task_args" not in traces[0].head.meta
    assert report.lost == {"task_args (too long)": 1}
    assert read(status="error", error={"message": "crash"}) == ([], read()[1])


def test_a_malformed_event_is_reported_and_the_rest_is_kept() -> None:
    events = [model(1, [USER], said("4")), 5, {"no": "kind"}, event("model", 2, input=[7], model="m"), {"event": 3}]
    traces, report = read(sample(events=[*events, model(3, [USER], said("5"))]))
    assert [m.text for m in traces[0].messages] == ["two and two?", "4", "5"]
    assert [s.where for s in report.skipped] == [f"sample 0, event {i}" for i in (1, 2, 3, 4)]


@pytest.mark.parametrize(
    ("document", "least"),
    [
        ({"eval": HEADER["eval"], "plan": {}}, 90),
        ({"samples": [sample()], "eval": HEADER["eval"]}, 90),
        ({"samples": [sample()]}, 60),
        ({"eval": {"task": "x"}}, 0),
        ({"eval": "x", "samples": "y"}, 0),
        ({"samples": [{"id": 1, "messages": []}]}, 0),
        ([sample()], 0),
    ],
)
def test_documents_are_recognised_by_content(document: Any, least: int) -> None:
    score = sniff(peek_at(bytes_source("any.txt", json.dumps(document).encode())))
    assert score >= least
    assert bool(score) == bool(least)


def test_rough_handling(rough: Any, samples: dict[str, bytes]) -> None:
    rough("inspect", samples["inspect"])


def test_rough_handling_of_a_rich_sample(rough: Any) -> None:
    chat = [USER, said([{"type": "text", "text": "a"}], call("add", {"x": 1}))]
    rich = sample(
        messages=chat,
        attachments={"h": "x"},
        events_data={"messages": chat, "calls": []},
        limit={"type": "token", "limit": 3},
        events=[
            begin(0, "A", "agent", "lead"),
            model(1, chat, said("attachment://h"), {"input_tokens": 3}, input_refs=[[0, 1]], tools=[{"name": "t"}]),
            begin(1, "T", "tool", "add", "A"),
            tool(1, "add", {"x": 1}, "2", span_id="A", error={"message": "m"}),
            end(2, "T"),
        ],
    )
    rough("inspect", log(rich))


def _asks(number: int, before: list[dict[str, Any]], answer: dict[str, Any]) -> dict[str, Any]:
    """A model event: a request with all that was said before, and the answer to it."""
    return {
        "event": "model",
        "uuid": f"m{number}",
        "timestamp": f"2026-01-02T03:04:{number:02d}Z",
        "model": "none/m",
        "input": before,
        "tools": [],
        "output": {"model": "m", "choices": [{"message": answer, "stop_reason": "stop"}]},
    }


@pytest.mark.parametrize("told", [False, True])
def test_tools_of_an_agent_behind_the_bridge_are_found_in_its_next_request(
    told: bool, samples: dict[str, bytes]
) -> None:
    """No event tells of its tools; where an event does, the call is not counted twice."""
    calls = [{"id": f"c{n}", "type": "function", "function": "ring", "arguments": {"times": n}} for n in (1, 2, 3)]
    asked: list[dict[str, Any]] = [{"role": "user", "content": "Ring the bell."}]
    results = ["ding", "Error: no bell", "dong"]
    events: list[dict[str, Any]] = []
    for number, (call, result) in enumerate(zip(calls, results, strict=True)):
        answer = {"role": "assistant", "content": "", "tool_calls": [call], "id": f"a{number}"}
        events.append(_asks(10 * number, list(asked), answer))
        asked += [answer, {"role": "tool", "content": result, "tool_call_id": call["id"], "function": "ring"}]
        if told:
            event = {"event": "tool", "uuid": f"t{number}", "function": "ring", "id": call["id"]}
            events.append({**event, "arguments": call["arguments"], "result": result})
    document = json.loads(samples["inspect"])
    document["samples"][0] |= {"events": events, "messages": asked}
    (trace,) = read_traces(bytes_source("bridged.json", json.dumps(document).encode()))[0]
    tools = [s for s in trace.spans if s.kind == "tool"]
    assert [(s.tool, s.call_id, trace.texts[s.arguments], trace.texts[s.result]) for s in tools] == [
        ("ring", "c1", '{"times":1}', "ding"),
        ("ring", "c2", '{"times":2}', "Error: no bell"),
        ("ring", "c3", '{"times":3}', "dong"),
    ]
    if not told:
        assert [s.status for s in tools] == ["unset", "error", "unset"]
        assert [s.kind for s in trace.spans if s.kind in ("model", "tool")] == ["model", "tool"] * 3
