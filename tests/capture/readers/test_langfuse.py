"""Langfuse: attributes inside a string, observations in any order, usage in buckets."""

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
from ethogram.capture.readers import langfuse
from ethogram.capture.source import bytes_source, file_source
from ethogram.traces import Message, Text, ToolCall, ToolResult, Trace

DATA = Path(__file__).parents[4] / "shared" / "data"
KEY = "d" * 32


def observation(name: str, kind: str, second: int, parent: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "id": name,
        "traceId": KEY,
        "startTime": f"2026-01-02T03:04:{second:02d}.250Z",
        "endTime": f"2026-01-02T03:04:{second:02d}.750Z",
        "projectId": "p",
        "parentObservationId": parent,
        "type": kind,
        "environment": "default",
        "name": name,
        "level": "DEFAULT",
        "statusMessage": None,
        "input": None,
        "output": None,
        "model": None,
        "modelParameters": None,
        "usageDetails": {},
        "costDetails": {},
        "totalCost": 0,
        "inputUsage": 0,
        "outputUsage": 0,
        "totalUsage": 0,
        "metadata": "{}",
        **more,
    }


def metadata(attributes: dict[str, Any], **more: Any) -> str:
    return json.dumps(
        {
            "attributes": attributes,
            "resourceAttributes": {"service.name": "svc"},
            "scope": {"name": "lib", "version": "2", "attributes": {}},
            **more,
        }
    )


MODEL = observation(
    "chat m",
    "GENERATION",
    3,
    "root",
    input='[{"role": "user", "content": "hi"}]',
    output='{"role": "assistant", "content": "hello"}',
    model="m-2026",
    modelParameters={"temperature": 0.5, "model": "m-2026", "long": "x" * 300, "none": None},
    usageDetails={"input": 10, "output": 5, "total": 75, "input_cache_read": 60, "input_audio": 0},
    costDetails={"total": 0.25},
    totalCost=0.25,
    totalUsage=75,
    promptVersion=3,
    metadata=metadata({"gen_ai.request.model": "m", "gen_ai.usage.input_tokens": "70", "gen_ai.response.id": "r1"}),
)
TOOL = observation(
    "ring", "TOOL", 4, "root", input='{"times": 1}', output="ding", metadata=metadata({"gen_ai.tool.call.id": "c1"})
)
ROOT = observation("root", "AGENT", 2, output="hello", metadata=metadata({"gen_ai.agent.name": "bob"}, tags=["a"]))
HEAD = {
    "id": KEY,
    "projectId": "p",
    "name": "run",
    "timestamp": "2026-01-02T03:04:02.250Z",
    "sessionId": "s1",
    "tags": ["x", "y"],
    "public": True,
    "release": None,
    "input": None,
    "output": '"{\\"messages\\":[{\\"role\\":\\"assistant\\",\\"content\\":\\"hello\\"}]}"',
    "metadata": json.dumps({"email": "a@b.c", "scope": {}}),
    "latency": 2.5,
    "scores": [
        {"name": "tone", "value": 0.5, "source": "EVAL", "comment": "fine", "dataType": "NUMERIC",
         "observationId": "ring"},
        {"name": "class", "value": 0, "stringValue": "good", "source": "ANNOTATION", "dataType": "CATEGORICAL",
         "authorUserId": "u1", "observationId": None},
        {"name": "ok", "value": 1, "stringValue": "True", "source": "API", "dataType": "BOOLEAN"},
        "odd",
    ],
    "corrections": [{"name": "output", "value": 0, "source": "ANNOTATION", "longStringValue": "better"}],
}  # fmt: skip
WHOLE = {"trace": {**HEAD, "observations": [observation("root", "AGENT", 2)]}, "observations": [TOOL, MODEL, ROOT]}


def read(value: Any) -> tuple[list[Trace], SourceReport]:
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return read_traces(bytes_source("t", data), "langfuse")


def one(*observations: Any) -> Trace:
    traces, report = read({"trace": {**HEAD, "scores": []}, "observations": list(observations)})
    assert not report.skipped, report.skipped
    return traces[0]


def attributes(trace: Trace, number: int) -> dict[str, Any]:
    ref = trace.spans[number].attributes
    found: dict[str, Any] = {} if ref is None else json.loads(trace.text(ref))
    return found


def test_an_export() -> None:
    traces, report = read(WHOLE)
    assert (len(traces), report.skipped, report.lost) == (1, [], {"score (malformed)": 1})
    trace = traces[0]
    assert [(s.kind, s.name) for s in trace.spans] == [("agent", "root"), ("model", "chat m"), ("tool", "ring")]
    agent, model, tool = trace.spans
    assert (model.model, model.cost_usd, model.prompt_version) == ("m-2026", 0.25, "3")
    assert (model.input_tokens, model.cache_read_tokens, model.output_tokens) == (10, 60, 5)
    assert model.params == {"temperature": 0.5}
    assert (agent.input_tokens, agent.cost_usd, tool.cost_usd) == (None, None, None)
    assert (tool.call_id, tool.seconds) == ("c1", 0.5)
    assert trace.text(tool.result or "") == "ding"  # type: ignore[arg-type]
    assert trace.messages == (Message("user", (Text("hi"),)), Message("assistant", (Text("hello"),)))
    assert (trace.answer, trace.head.agent) == ("hello", "bob")
    assert trace.head.meta["sessionId"] == "s1"
    assert trace.head.meta["tags"] == '["x","y"]'
    assert trace.head.meta["metadata"] == '{"email":"a@b.c"}'
    assert trace.head.meta["service.name"] == "svc"
    assert trace.head.meta["latency"] == 2.5
    labels = [(n.name, n.value, n.source, n.by, n.span_id) for n in trace.labels]
    assert labels == [
        ("tone", 0.5, "judge", "EVAL", "ring"),
        ("class", "good", "hand", "u1", None),
        ("ok", True, "import", "API", None),
        ("correction.output", None, "hand", "ANNOTATION", None),
    ]
    assert trace.text(trace.labels[3].why or "") == "better"  # type: ignore[arg-type]
    left = attributes(trace, 1)
    assert left["langfuse.type"] == "GENERATION"
    assert left["langfuse.modelParameters"] == {"long": "x" * 300}
    assert left["gen_ai.request.model"] == "m"
    assert left["otel.scope"] == "lib 2"
    assert attributes(trace, 0)["langfuse.metadata"] == {"tags": ["a"]}


def test_other_shapes_of_the_same() -> None:
    expected = [(s.span_id, s.parent_id, s.kind, s.input_tokens) for s in read(WHOLE)[0][0].spans]
    inside = {**HEAD, "observations": [TOOL, MODEL, ROOT]}
    for value in (
        [WHOLE],
        inside,
        [inside],
        [TOOL, MODEL, ROOT],
        b"\n".join(json.dumps(o).encode() for o in (TOOL, MODEL, ROOT)),
        {"trace": inside},
    ):
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        assert langfuse.sniff(peek_at(bytes_source("t", data))) >= 85
        traces, report = read(value)
        assert not report.skipped
        assert [(s.span_id, s.parent_id, s.kind, s.input_tokens) for s in traces[0].spans] == expected


def test_usage_in_its_many_forms() -> None:
    def tokens(**more: Any) -> tuple[Any, ...]:
        span = one(observation("g", "GENERATION", 1, **more)).spans[0]
        return span.input_tokens, span.cache_read_tokens, span.output_tokens, span.reasoning_tokens

    assert tokens() == (None, None, None, None)
    assert tokens(inputUsage=4, outputUsage=2, totalUsage=6) == (4, None, 2, None)
    assert tokens(usage={"input": 4, "output": 2, "total": 6, "unit": "TOKENS"}) == (4, None, 2, None)
    thinking = {"input": 4, "output": 2, "output_reasoning_tokens": 10, "total": 16}
    assert tokens(usageDetails=thinking) == (4, None, 12, 10)
    attrs = metadata({"gen_ai.usage.input_tokens": "7", "gen_ai.usage.output_tokens": "1"})
    assert tokens(metadata=attrs) == (7, None, 1, None)
    exceeding = one(observation("g", "GENERATION", 1, usageDetails={"input": 4, "output": 2, "total": 60}))
    assert attributes(exceeding, 0)["langfuse.usageDetails"] == {"total": 60}


def test_types_and_what_attributes_add_to_a_plain_span() -> None:
    kinds = {"SPAN": "other", "CHAIN": "other", "EVENT": "other", "RETRIEVER": "retrieval", "EVALUATOR": "judge",
             "GUARDRAIL": "judge", "EMBEDDING": "other", "tool": "tool", "NEW": "other"}  # fmt: skip
    for name, kind in kinds.items():
        assert one(observation("o", name, 1)).spans[0].kind == kind
    named = metadata({"gen_ai.tool.name": "bye", "gen_ai.operation.name": "execute_tool"})
    span = one(observation("tool.Bye", "SPAN", 1, metadata=named)).spans[0]
    assert (span.kind, span.name) == ("tool", "bye")


def test_langchain_tools_are_plain_spans_that_answer_with_a_tool_message() -> None:
    output = json.dumps({"content": "found", "type": "tool", "name": "Web", "tool_call_id": "c1", "status": "error"})
    inputs = json.dumps({"inputs": {"q": "x"}})
    trace = one(observation("Web", "SPAN", 1, input="{'q': 'x'}", output=output, metadata=inputs))
    span = trace.spans[0]
    assert (span.kind, span.tool, span.call_id, span.status) == ("tool", "Web", "c1", "error")
    assert trace.text(span.arguments or "") == '{"q":"x"}'  # type: ignore[arg-type]
    assert trace.text(span.result or "") == "found"  # type: ignore[arg-type]


def test_descriptions_of_tools_among_the_messages_are_no_messages() -> None:
    definition = {"type": "function", "function": {"name": "f"}}
    calls = {"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]}
    asked = [
        {"role": "user", "content": "hi"},
        {"role": "tool", "content": definition},
        {"role": "assistant", "content": "", "additional_kwargs": calls},
        {"role": "tool", "content": "ok", "tool_call_id": "c"},
    ]
    trace = one(observation("g", "GENERATION", 1, input=json.dumps(asked), output="done"))
    assert trace.messages == (
        Message("user", (Text("hi"),)),
        Message("assistant", (ToolCall("f", "{}", "c"),)),
        Message("tool", (ToolResult("ok", None, "c"),)),
        Message("assistant", (Text("done"),)),
    )
    assert attributes(trace, 0)["tool.definitions"] == [definition]


def test_errors_levels_and_disagreeing_words() -> None:
    trace = one(
        observation("a", "SPAN", 1, level="ERROR", statusMessage="broke"),
        observation("b", "SPAN", 2, level="WARNING", statusMessage="hm", endTime=None),
        observation("c", "TOOL", 3, output="{}", metadata=metadata({"output.value": '{"x": 1}'})),
        observation("d", "TOOL", 4, output='{"x":1}', metadata=metadata({"output.value": '{"x": 1}'})),
        observation("e", "SPAN", 5, metadata="not json"),
    )
    first, second, third, fourth, _ = trace.spans
    assert (first.status, trace.text(first.error or "")) == ("error", "broke")  # type: ignore[arg-type]
    assert (second.status, second.end_ns) == ("unset", None)
    assert attributes(trace, 1)["langfuse.level"] == "WARNING"
    assert attributes(trace, 1)["otel.status_message"] == "hm"
    assert trace.text(third.result or "") == '{"x": 1}'  # type: ignore[arg-type]
    assert attributes(trace, 2)["langfuse.output"] == "{}"
    assert "langfuse.output" not in attributes(trace, 3)
    assert fourth.result == third.result
    assert attributes(trace, 4)["langfuse.metadata"] == "not json"


def test_orphans_duplicates_and_two_traces() -> None:
    again = observation("x", "GENERATION", 5, "gone", usageDetails={"input": 1, "output": 1},
                        metadata=metadata({"gen_ai.response.id": "r1"}))  # fmt: skip
    traces, report = read(
        [WHOLE, {"trace": {"id": "other"}, "observations": [{**TOOL, "parentObservationId": "gone"}]}]
    )
    assert [len(t.spans) for t in traces] == [3, 1]
    assert traces[1].spans[0].parent_id == "gone"
    traces, report = read({**WHOLE, "observations": [TOOL, MODEL, ROOT, again]})
    assert report.lost["duplicate model span"] == 1
    assert traces[0].totals.model_calls == 1


def test_bad_records_are_reported_and_good_ones_kept() -> None:
    traces, report = read({"trace": HEAD, "observations": [5, MODEL, None, {"type": "SPAN"}]})
    assert len(traces[0].spans) == 2
    assert [s.where for s in report.skipped] == ["the document, observation 0", "the document, observation 2"]
    for value in ({"trace": {"id": ""}}, {"trace": {"name": "x"}, "observations": [MODEL]}, {"trace": HEAD}, {"a": 1}):
        traces, report = read(value)
        assert not traces
        assert report.skipped
    traces, report = read([{**MODEL, "traceId": None}, MODEL])
    assert (len(traces), len(report.skipped)) == (1, 1)


def test_a_cut_export_keeps_the_observations_before_the_cut() -> None:
    data = json.dumps({"trace": HEAD, "observations": [TOOL, MODEL, ROOT]}, indent=1).encode()
    counts = set()
    for cut in range(1, len(data) - 2, 41):
        traces, report = read(data[:cut])
        assert report.skipped
        counts.add(sum(len(t.spans) for t in traces))
    assert counts == {0, 1, 2, 3}


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"trace": "x", "observations": []},
        {"abc": {"input": {"success": True, "data": []}, "output": {"success": True, "data": []}}},
        {"observations": []},
        {"trace_id": "x", "spans": []},
        [{"id": "x", "type": "SPAN"}],
    ],
)
def test_other_content_is_not_claimed(value: Any) -> None:
    assert langfuse.sniff(peek_at(bytes_source("t", json.dumps(value).encode()))) == 0


def test_rough_handling(rough: Callable[[str, bytes], None]) -> None:
    head = {**HEAD, "scores": HEAD["scores"][:1]}  # type: ignore[index]
    rough("langfuse", json.dumps({"trace": head, "observations": [ROOT, MODEL]}).encode())


EXPECTED: dict[str, Any] = json.loads((DATA / "expected.json").read_text())["langfuse"] if DATA.exists() else {}


@pytest.mark.skipif(not DATA.exists(), reason="../shared/data is not here")
@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_real_exports(name: str) -> None:
    expected = EXPECTED[name]
    path = DATA / "langfuse" / f"{name}.trace.json"
    source = file_source(path, path.name)
    assert langfuse.sniff(peek_at(source)) == 95
    traces, report = read_traces(source, "langfuse")
    assert (len(traces), report.skipped, report.lost) == (1, [], {})
    trace = traces[0]
    left = [attributes(trace, s.seq) for s in trace.spans]
    # the figures count every observation; our totals count leaf model calls, so they are summed over all spans here
    counted = [
        {
            "input": (s.input_tokens or 0) + (s.cache_read_tokens or 0) + (s.cache_write_tokens or 0),
            "output": s.output_tokens or 0,
            "more": a.get("langfuse.usageDetails", {}).get("total"),
        }
        for s, a in zip(trace.spans, left, strict=True)
    ]
    found = {
        "n_observations": len(trace.spans),
        "types": dict(Counter(a["langfuse.type"] for a in left)),
        "n_roots": sum(s.parent_id is None for s in trace.spans),
        "n_orphans": sum(s.parent_id is not None and s.parent_id not in trace.by_id for s in trace.spans),
        "input_tokens": sum(c["input"] for c in counted),
        "output_tokens": sum(c["output"] for c in counted),
        "total_tokens": sum(c["more"] or c["input"] + c["output"] for c in counted),
        "models": sorted({s.model for s in trace.spans if s.model}),
        "trace_latency_s": trace.head.meta["latency"],
    }
    assert found == {key: expected[key] for key in found}
    assert sum(s.cost_usd or 0 for s in trace.spans) == pytest.approx(expected["total_cost"], rel=1e-9)
    assert ((trace.head.end_ns or 0) - (trace.head.start_ns or 0)) / 1e9 == pytest.approx(expected["trace_latency_s"])
    parents = [s for s in trace.spans if s.kind == "agent" and s.input_tokens]
    assert trace.totals.input_tokens == expected["input_tokens"] - sum(s.input_tokens or 0 for s in parents)
    # what is said of the bytes themselves is read off the bytes; the reader has put the spans in order
    raw = json.loads(path.read_text())["observations"]
    starts = [o["startTime"] for o in raw]
    assert (starts != sorted(starts)) is expected["out_of_order_by_start"]
    assert [s.start_ns for s in trace.spans] == sorted(s.start_ns or 0 for s in trace.spans)
    spaces = Counter(k.partition(".")[0] for o in raw for k in json.loads(o["metadata"]).get("attributes", {}))
    assert dict(spaces) == expected["attribute_namespaces"]
    known = {s.span_id: s for s in trace.spans}
    assert all(known[o["id"]].parent_id or not o["parentObservationId"] for o in raw)


@pytest.mark.skipif(not DATA.exists(), reason="../shared/data is not here")
def test_real_normalised_messages_are_not_claimed() -> None:
    paths = sorted((DATA / "langfuse").glob("*.chatml.json"))
    assert paths
    for path in paths:
        assert langfuse.sniff(peek_at(file_source(path, path.name))) == 0


@pytest.mark.skipif(not DATA.exists(), reason="../shared/data is not here")
@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_real_conversations_read_as_a_chat(name: str) -> None:
    """A question, a call, its answer, the last word: the three frameworks that send whole contexts agree."""
    path = DATA / "langfuse" / f"{name}.trace.json"
    trace = read_traces(file_source(path, path.name), "langfuse")[0][0]
    assert [m.role for m in trace.messages][-3:] == ["assistant", "tool", "assistant"]
    assert [s.kind for s in trace.steps] == ["model", "tool", "model"]
    assert trace.steps[0].requested == (trace.steps[1].tool,)
    assert trace.messages[-1].text == (trace.answer or trace.messages[-1].text)
