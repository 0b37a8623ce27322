"""The linear reading, the tree, the messages and the sums of a trace."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ethogram.traces import (
    STEP_KINDS,
    EpisodeId,
    Head,
    Message,
    Ref,
    Span,
    SpanId,
    Text,
    Trace,
    TraceId,
    message_order,
    pack_message,
    signature,
    step_order,
    text_ref,
    total,
)

QUICK = settings(max_examples=100, deadline=None, derandomize=True, database=None)


def span(id: str, seq: int = 0, kind: Any = "tool", parent: str | None = None, **fields: Any) -> Span:
    return Span(
        **{
            "trace_id": TraceId("t"),
            "span_id": SpanId(id),
            "seq": seq,
            "kind": kind,
            "name": "x",
            "parent_id": parent,
            **fields,
        }
    )


def trace(*spans: Span, texts: dict[Ref, str] | None = None) -> Trace:
    return Trace(Head(trace_id=TraceId("t"), episode=EpisodeId("e"), task="x"), spans, texts or {})


def order(*spans: Span) -> list[str]:
    return [s.span_id for s in step_order(spans)]


def test_steps_are_leaves_of_step_kinds_in_order_of_time() -> None:
    spans = [
        span("late", 0, start_ns=30),
        span("early", 1, "model", start_ns=10),
        span("judge", 2, "judge", start_ns=5),
        span("root", 3, "agent", start_ns=1),
        span("tie-b", 5, start_ns=20),
        span("tie-a", 4, start_ns=20),
    ]
    assert order(*spans) == ["early", "tie-a", "tie-b", "late"]


def test_a_tool_that_runs_an_agent_is_not_a_step_but_what_it_did_is() -> None:
    outer = span("outer", 0, start_ns=1)
    inner = [span("agent", 1, "agent", "outer", start_ns=2), span("call", 2, "model", "agent", start_ns=3)]
    assert order(outer, *inner) == ["call"]
    assert order(outer, span("note", 1, "other", "outer")) == ["outer"]


def test_one_step_without_a_time_puts_all_in_the_order_of_the_log() -> None:
    assert order(span("a", 0, start_ns=99), span("b", 1), span("c", 2, start_ns=1)) == ["a", "b", "c"]
    assert order(span("a", 0, start_ns=99), span("b", 1, "other"), span("c", 2, start_ns=1)) == ["c", "a"]


def test_a_circle_of_parents_is_cut_at_its_first_span() -> None:
    """Its spans stay: the first is the top, the last a step whose tokens count."""
    circle = trace(
        span("tail", 0, "model", "a", input_tokens=1),
        span("a", 1, "model", "b", input_tokens=10),
        span("b", 2, "model", "a", input_tokens=100),
        span("self", 3, "model", "self", input_tokens=1000),
        span("lost", 4, "model", "nobody", input_tokens=10_000),
    )
    assert [(d, s.span_id) for d, s in circle.walk()] == [(0, "a"), (1, "tail"), (1, "b"), (0, "self"), (0, "lost")]
    assert [s.span_id for s in circle.steps] == ["tail", "b", "self", "lost"]
    assert circle.totals.input_tokens == 11_101


@st.composite
def tangles(draw: st.DrawFn) -> list[Span]:
    """Spans whose parents are anybody: themselves, each other, nobody."""
    count = draw(st.integers(0, 12))
    ids = [f"s{i}" for i in range(count)]
    kinds = st.sampled_from(sorted({"agent", "other", *STEP_KINDS}))
    parents = st.none() | st.sampled_from([*ids, "nobody"])
    times = st.none() | st.integers(1, 5)
    seqs = draw(st.permutations(range(count)))
    return [
        span(i, q, draw(kinds), draw(parents), start_ns=draw(times), input_tokens=draw(st.none() | st.integers(0, 9)))
        for i, q in zip(ids, seqs, strict=True)
    ]


@QUICK
@given(tangles())
def test_every_tangle_is_walked_once_and_has_steps(spans: list[Span]) -> None:
    tangle = trace(*spans)
    walked = [s.span_id for _, s in tangle.walk()]
    assert sorted(walked) == sorted(s.span_id for s in spans)
    for position, (depth, one) in enumerate(tangle.walk()):
        above = next((s for d, s in reversed(list(tangle.walk())[:position]) if d == depth - 1), None)
        assert depth == 0 or (above is not None and above.span_id == one.parent_id)
    steps = tangle.steps
    assert all(s.kind in STEP_KINDS for s in steps)
    assert bool(steps) == any(s.kind in STEP_KINDS for s in spans)
    inner = {s.parent_id for s in steps}
    assert not any(s.span_id in inner and s.span_id != s.parent_id for s in steps if s.parent_id != s.span_id)
    assert tangle.totals == total(iter(spans), spans), "a stream with its places gives the same sums"


def test_sums_count_each_token_once_and_unknown_is_not_zero() -> None:
    spans = [
        span("root", 0, "agent", input_tokens=500, cost_usd=9.0),
        span("wrap", 1, "model", "root", input_tokens=300, output_tokens=5, cost_usd=3.0),
        span("one", 2, "model", "wrap", input_tokens=100, output_tokens=0, cost_usd=1.0),
        span("two", 3, "model", "wrap", input_tokens=200, status="error"),
        span("ring", 4, "tool", "root", input_tokens=7, status="error"),
    ]
    sums = total(spans)
    assert (sums.spans, sums.steps, sums.model_calls, sums.tool_calls, sums.errors) == (5, 3, 2, 1, 2)
    assert (sums.input_tokens, sums.output_tokens, sums.cost_usd) == (300, 0, 1.0)
    assert (sums.cache_read_tokens, sums.reasoning_tokens) == (None, None)
    assert total(()).input_tokens is None


def test_the_signature_knows_structure_and_never_words() -> None:
    call = span("m", 0, "model", name="chat", stop_reason="tool_calls", requested=("ring", "stop"))
    assert signature(call) == "model:chat:tool_calls:ring,stop"
    assert signature(span("m", 0, "model", name="chat")) == "model:chat:-:-"
    assert signature(span("r", 0, name="span name", tool="ring", status="error")) == "tool:ring:error"
    other = span(
        "other", 9, name="span name", tool="ring", status="error", start_ns=5, call_id="c", arguments=Ref("b2:1")
    )
    assert signature(other) == "tool:ring:error"


# --- messages: each once, contexts rebuilt -----------------------------------------------------------------------


def refs(*names: str) -> tuple[Ref, ...]:
    return tuple(Ref(n) for n in names)


def test_each_message_is_told_once_in_the_order_of_the_log() -> None:
    spans = [
        span("u", 0, "user", output=refs("ask")),
        span("m1", 1, "model", input=refs("system", "ask"), output=refs("call")),
        span("t", 2, output=refs("ding")),
        span("m2", 3, "model", continues=SpanId("m1"), keep=3, input=refs("ding"), output=refs("done")),
    ]
    told = ["ask", "system", "call", "ding", "done"]
    assert list(message_order(spans)) == told
    assert list(message_order(reversed(spans))) == told


def test_the_same_words_twice_are_two_messages() -> None:
    spans = [
        span("u1", 0, "user", output=refs("yes")),
        span("u2", 1, "user", output=refs("yes")),
        span("m", 2, "model", input=refs("yes", "yes", "yes"), output=refs("ok")),
    ]
    assert list(message_order(spans)) == ["yes", "yes", "yes", "ok"]


def test_a_context_is_what_it_continues_and_what_is_new() -> None:
    spans = [
        span("m1", 0, "model", input=refs("s", "u"), output=refs("a1")),
        span("m2", 1, "model", continues=SpanId("m1"), keep=3, input=refs("t1"), output=refs("a2")),
        span("m3", 2, "model", continues=SpanId("m2"), keep=2, input=refs("other"), output=refs("a3")),
        span("m4", 3, "model", continues=SpanId("m3"), keep=4, output=refs("a4")),
    ]
    made = trace(*spans)
    assert made.input_refs(spans[0]) == refs("s", "u")
    assert made.input_refs(spans[1]) == refs("s", "u", "a1", "t1")
    assert made.input_refs(spans[2]) == refs("s", "u", "other")
    assert made.input_refs(spans[3]) == refs("s", "u", "other", "a3")


def test_contexts_that_continue_each_other_or_nobody_end() -> None:
    spans = [
        span("a", 0, "model", continues=SpanId("b"), keep=5, input=refs("1")),
        span("b", 1, "model", continues=SpanId("a"), keep=5, input=refs("2")),
        span("c", 2, "model", continues=SpanId("nobody"), keep=9, input=refs("3")),
    ]
    made = trace(*spans)
    assert made.input_refs(spans[0]) == refs("2", "1")
    assert made.input_refs(spans[2]) == refs("3")


def test_words_are_found_behind_their_addresses() -> None:
    message = Message("user", (Text("Ring the bell."),))
    body = pack_message(message, text_ref)
    made = trace(span("u", 0, "user", output=(text_ref(body),)), texts={text_ref(body): body})
    assert made.messages == (message,)
    assert made.message(text_ref(body)) == message
    assert made.answer is None
    assert repr(made) == "Trace(t, task='x', 1 spans)"


def test_facts_of_a_span_are_an_object_or_unknown() -> None:
    written = {text_ref(t): t for t in ('{"a": 1}', "[1]", '{"a": [redacted')}
    made = trace(*(span(str(i), attributes=ref) for i, ref in enumerate(written)), span("bare"), texts=written)
    assert [made.facts(s) for s in made.spans] == [{"a": 1}, {}, None, {}], "None where redaction left no JSON"
