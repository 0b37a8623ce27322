from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ethogram.capture.intake import SourceReport
from ethogram.capture.memory import read_traces
from ethogram.capture.peek import peek_at
from ethogram.capture.readers.traxr import sniff
from ethogram.capture.source import bytes_source, file_source
from ethogram.traces import Missing, Ref, Scored, Span, Trace

DATA = Path(__file__).parents[4] / "shared" / "data"
here = pytest.mark.skipif(not DATA.exists(), reason="../shared/data is not here")


def read(value: Any) -> tuple[list[Trace], SourceReport]:
    return read_traces(bytes_source("log", json.dumps(value).encode()), "traxr")


def attributes(trace: Trace, span: Span) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(trace.text(span.attributes or Ref("")))
    return found


def event(position: int, kind: str, agent: str = "ringer", step: int = 1, **payload: Any) -> dict[str, Any]:
    return {
        "event_type": kind,
        "sequence_index": position,
        "step_num": step,
        "agent_name": agent,
        "payload": payload,
        "content_hash": f"h{position}",
        "timestamp": f"2026-01-02T03:04:{position:02d}+00:00",
    }


BUILT_IN = [
    event(0, "routing_decision", "router", chosen_agent="ringer", reasoning_hash="r"),
    event(
        1, "tool_invocation", tool_name="bell", operation="ring", arguments={"n": 1}, success=True, output_preview="din"
    ),
    event(2, "memory_write", entry_id="m", entry_type="note", content_hash="c"),
    event(3, "memory_read", entry_ids=["m"], entry_types=["note"]),
    event(4, "retrieval_shown", query="bells", item_count=2),
    event(5, "agent_output", action="report", is_final_answer=False),
    event(6, "tool_failure", tool_name="rope", error="torn"),
    event(7, "agent_halt", reason="budget"),
    event(8, "final_answer", step=2, answer="4", answer_hash="a"),
    event(9, "custom", step=2, anything=[1]),
]
EXTERNAL = [
    event(
        0,
        "llm_call",
        model="m",
        finish_reason="tool_calls",
        tool_call_names=["ring", "ring"],
        usage={"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11},
        content="Ringing.",
    ),
    event(1, "tool_request", tool_name="ring", call_id="c1", arguments='{"n": 1}'),
    event(2, "tool_request", tool_name="ring", call_id="c2", arguments={"n": 2}),
    event(3, "tool_result", tool_name="ring", call_id="c2", content="dong"),
    event(4, "tool_result", tool_name="ring", call_id="c1"),
    event(5, "agent_error", exc_type="KeyError", message="no rope"),
    event(6, "llm_call", model="m", finish_reason="stop", tool_call_names=[], usage=None),
]


def case(clean: Any, perturbed: Any, **more: Any) -> dict[str, Any]:
    return {
        "case": "quiet",
        "description": "One bell fails.",
        "input": {
            "task_id": "tower-1",
            "clean_trace": {"run_label": "baseline", "event_count": len(clean), "events": clean},
            "perturbed_trace": {"run_label": "quiet", "event_count": len(perturbed), "events": perturbed},
        },
        **more,
    }


def test_two_traces_of_one_task() -> None:
    output = {"summary": {"perturbation_type": "quiet", "answer_changed": True}, "detail": {"aligned_pairs": [1]}}
    (clean, perturbed), report = read(case(BUILT_IN, [], output=output))
    assert not report.skipped
    assert report.lost == {"output.detail (traxr's own alignment)": 1}
    assert [(t.head.task, t.head.condition, t.head.attempt) for t in (clean, perturbed)] == [
        ("tower-1", "clean", 0),
        ("tower-1", "perturbed", 0),
    ]
    assert (clean.answer, perturbed.answer) == ("4", None)
    assert (len(clean.spans), len(perturbed.spans)) == (10, 0)
    assert clean.head.meta["run_label"] == "baseline"
    assert perturbed.head.meta["perturbation_type"] == "quiet"
    assert json.loads(str(perturbed.head.meta["summary"]))["answer_changed"] is True
    assert "summary" not in clean.head.meta


def test_events_of_the_built_in_agents() -> None:
    (trace, _), _ = read(case(BUILT_IN, []))
    assert [(s.kind, s.name) for s in trace.spans] == [
        ("handoff", "ringer"),
        ("tool", "bell"),
        ("memory", "memory_write"),
        ("memory", "memory_read"),
        ("retrieval", "retrieval_shown"),
        ("model", "report"),
        ("other", "tool_failure"),
        ("other", "agent_halt"),
        ("handoff", "final_answer"),
        ("other", "custom"),
    ]
    tool, failure = trace.spans[1], trace.spans[6]
    assert (tool.status, tool.truncated) == ("ok", True)
    assert trace.text(tool.arguments or Ref("")) == '{"n":1}'
    assert trace.text(tool.result or Ref("")) == "din"
    assert (failure.status, failure.tool, trace.text(failure.error or Ref(""))) == ("error", "rope", "torn")
    assert trace.spans[0].agent == "router"
    for span, was in zip(trace.spans, BUILT_IN, strict=True):
        kept = attributes(trace, span)
        assert all(kept[k] == was[k] for k in ("event_type", "sequence_index", "step_num", "payload", "content_hash"))
    assert [m.text for m in trace.messages] == ["4"]
    assert trace.totals.tool_calls == 1


def test_events_of_wrapped_agents() -> None:
    (trace, _), report = read(case(EXTERNAL, []))
    assert not report.skipped
    assert [(s.kind, s.name) for s in trace.spans] == [
        ("model", "chat"),
        ("other", "tool_request"),
        ("other", "tool_request"),
        ("tool", "ring"),
        ("tool", "ring"),
        ("other", "agent_error"),
        ("model", "chat"),
    ]
    call, last = trace.spans[0], trace.spans[-1]
    assert (call.model, call.stop_reason, call.requested) == ("m", "tool_calls", ("ring", "ring"))
    assert (call.input_tokens, call.output_tokens) == (9, 2)
    assert (last.output, last.input_tokens) == ((), None)
    second, first = trace.spans[3:5]
    assert trace.text(second.arguments or Ref("")) == '{"n":2}'
    assert trace.text(second.result or Ref("")) == "dong"
    assert trace.text(first.arguments or Ref("")) == '{"n": 1}'
    assert first.result is None
    assert trace.totals.tool_calls == 2  # a request and its result are one call


def test_call_ids_that_repeat_are_paired_by_position() -> None:
    asked = [event(i, "tool_request", tool_name="ring", call_id="c", arguments={"n": i}) for i in range(2)]
    came = [event(i + 2, "tool_result", tool_name="ring", call_id="c") for i in range(3)]
    (trace, _), _ = read(case([*asked, *came], []))
    tools = [s for s in trace.spans if s.kind == "tool"]
    assert [trace.text(s.arguments) if s.arguments else None for s in tools] == ['{"n":0}', '{"n":1}', None]


def test_bad_events_and_sides_are_reported() -> None:
    broken = case([5, BUILT_IN[8], {"payload": "x"}], [])
    broken["input"]["clean_trace"]["event_count"] = 7
    del broken["input"]["perturbed_trace"]
    traces, report = read([broken, {"input": 5}, case(BUILT_IN[:1], []) | {"case": None}])
    assert [t.head.condition for t in traces] == ["clean", "clean", "perturbed"]
    assert [(s.kind, s.name) for s in traces[0].spans] == [("handoff", "final_answer"), ("other", "event")]
    assert [s.where for s in report.skipped] == [
        "element 0, clean_trace",
        "element 0, clean_trace, event 0",
        "element 0, perturbed_trace",
        "element 1",
    ]


def test_one_broken_side_keeps_the_other() -> None:
    traces, report = read(
        {"input": {"task_id": "t", "clean_trace": {"events": "no"}, "perturbed_trace": {"events": []}}}
    )
    assert [t.head.condition for t in traces] == ["perturbed"]
    assert [s.where for s in report.skipped] == ["the document, clean_trace"]


def results(**more: Any) -> dict[str, Any]:
    """A result file as traxr writes it: no times, answers apart, a pair per perturbation."""
    labels = ["baseline", "noise_floor_1", "sales.csv::column_swap", "sales.csv::null_content"]
    pair = {"item_id": "sales.csv", "delivery": "round_trip", "status_baseline": "ok", "status_perturbed": "ok"}
    bare = [{k: v for k, v in e.items() if k != "timestamp"} for e in EXTERNAL]
    return {
        "fingerprint": {"agent_kind": "external", "seed": 42, "files": ["sales.csv"], "question": "Which total?"},
        "noise_floor": 0.0,
        "noise_floor_runs": 1,
        "pairs": [
            {**pair, "perturbation": "column_swap", "task_success": False, "d_norm": 0.0},
            {**pair, "perturbation": "null_content", "status_perturbed": "crashed", "task_success": None},
            {**pair, "perturbation": "ocr_noise", "status_perturbed": "skipped", "warnings": ["no text in it"]},
        ],
        "answers": {
            "baseline": "4",
            "noise_floor_1": "4",
            "sales.csv::column_swap": "5",
            "sales.csv::null_content": None,
        },
        "aggregates": {},
        "traces": {n: {"run_label": n, "event_count": len(bare), "events": bare} for n in labels},
        **more,
    }


def test_a_result_file_is_an_experiment() -> None:
    written = json.dumps(results(), sort_keys=True, indent=2).encode()
    assert sniff(peek_at(bytes_source("x.json", written))) > 90
    traces, report = read_traces(bytes_source("x.json", written), None)
    assert [(t.head.condition, t.head.attempt, t.answer) for t in traces] == [
        ("clean", 0, "4"),
        ("clean", 1, "4"),
        ("sales.csv::column_swap", 0, "5"),
        ("sales.csv::null_content", 0, None),
    ]
    assert {t.head.task for t in traces} == {"Which total?"}
    assert [t.head.outcome for t in traces[:3]] == [Missing("unscored")] * 2 + [Scored(0.0, "task_success")]
    assert [[(label.name, label.value) for label in t.labels] for t in traces] == [
        [],
        [],
        [],
        [("stopped_by", "crash.traxr")],
    ]
    assert traces[2].head.meta["perturbation_type"] == "column_swap"
    assert json.loads(str(traces[2].head.meta["summary"]))["d_norm"] == 0.0
    assert [(s.where, s.why) for s in report.skipped] == [
        ("the document, sales.csv::ocr_noise", "traxr did not run it: no text in it")
    ]


def test_a_result_file_without_traces_says_so() -> None:
    given = results()
    del given["traces"]
    traces, report = read(given)
    assert traces == []
    assert "include_traces" in report.skipped[-1].why


def test_a_single_trace() -> None:
    (trace,), report = read({"run_label": "baseline", "event_count": 10, "events": BUILT_IN})
    assert (trace.head.task, trace.answer, len(trace.spans), report.skipped) == ("baseline", "4", 10, [])


def test_rough_handling(rough: Callable[[str, bytes], None], samples: dict[str, bytes]) -> None:
    rough("traxr", samples["traxr"])
    rough("traxr", json.dumps(case(EXTERNAL[:4], BUILT_IN[:2])).encode())
    few = {
        n: {"run_label": n, "event_count": 2, "events": EXTERNAL[:2]} for n in ("baseline", "sales.csv::column_swap")
    }
    rough("traxr", json.dumps(results(pairs=[], traces=few)).encode())


# The figures of expected.json; the analysis itself is not the reader's, but must be possible from its spans.


def by_rule(rules: dict[str, str], kept: dict[str, Any]) -> str:
    """The signature of an event, by the rules of expected.json, from what its span keeps."""
    payload = kept["payload"]
    fields = {
        **payload,
        "ok|fail": "ok" if payload.get("success", True) else "fail",
        "tool_call_names joined by , or -": ",".join(payload.get("tool_call_names") or []) or "-",
    }
    rule = rules[kept["event_type"]]
    for name, value in fields.items():
        rule = rule.replace("{" + name + "}", str(value))
    assert "{" not in rule
    return rule


def distance(a: list[str], b: list[str]) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        above, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (x != y))
    return row[-1]


def test_rules_cover_every_event() -> None:
    rules = {
        "routing_decision": "route:{chosen_agent}",
        "tool_invocation": "tool:{tool_name}:{operation}:{ok|fail}",
        "llm_call": "llm:{model}:{finish_reason}:{tool_call_names joined by , or -}",
    }
    (clean, perturbed), _ = read(case(BUILT_IN[:2], EXTERNAL[:1]))
    assert [by_rule(rules, attributes(clean, s)) for s in clean.spans] == ["route:ringer", "tool:bell:ring:ok"]
    assert [by_rule(rules, attributes(perturbed, s)) for s in perturbed.spans] == ["llm:m:tool_calls:ring,ring"]


@here
def test_real_cases() -> None:
    expected = json.loads((DATA / "expected.json").read_text())
    rules = expected["traxr_signature_rules"]
    assert {p.name for p in (DATA / "traxr").iterdir()} == expected["traxr"].keys()
    for name, figures in expected["traxr"].items():
        (clean, perturbed), report = read_traces(file_source(DATA / "traxr" / name, name), "traxr")
        assert not report.skipped
        sides = {"baseline": clean, "perturbed": perturbed}
        for side, trace in sides.items():
            assert len(trace.spans) == figures[f"{side}_events"]
            assert len({attributes(trace, s)["step_num"] for s in trace.spans}) == figures[f"{side}_steps"]
            assert len(trace.steps) == figures["edit_distance"][f"{side}_length"]
        a, b = ([by_rule(rules, attributes(t, s)) for s in t.steps] for t in (clean, perturbed))
        edits = figures["edit_distance"]
        assert (len(a), len(b)) == (edits["baseline_length"], edits["perturbed_length"])
        assert distance(a, b) == edits["distance"]
        assert distance(a, b) / max(len(a), len(b)) == edits["normalized"]
        assert (clean.answer != perturbed.answer) == figures["answer_changed"]
        changes = figures["control_flow_changes"]
        failed = [sum(s.kind == "tool" and s.status == "error" for s in t.spans) for t in (clean, perturbed)]
        assert max(0, failed[1] - failed[0]) == changes["tool_failures_introduced"]
        calls = clean.totals.tool_calls - perturbed.totals.tool_calls
        assert max(0, calls) == changes["tool_calls_removed"]
