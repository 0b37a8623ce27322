from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ethogram.capture.intake import SourceReport
from ethogram.capture.memory import read_traces
from ethogram.capture.source import bytes_source
from ethogram.traces import Missing, Ref, Scored, Trace

# No real MAST log lies in ../shared/data, so expected.json has no figures for this format.


def read(value: Any) -> tuple[list[Trace], SourceReport]:
    return read_traces(bytes_source("log", json.dumps(value).encode()), "mast")


CASE: dict[str, Any] = {
    "instance_id": "sum-1",
    "problem_statement": ["Two bells,", "each rings twice."],
    "other_data": {
        "correct": True,
        "answer": "4",
        "given": "4.0",
        "perturbation_type": "none",
        "seed_question": "Bells?",
        "seed_solution": ["2*2"],
        "seed_answer": "4",
    },
    "trajectory": [
        {"content": ["Two bells,", "each rings twice."], "role": "assistant", "name": "mathproxyagent"},
        {"content": ["Run this:", "print(2 * 2)"], "role": "user", "name": "assistant"},
        {"content": ["4\n", "\n"], "role": "assistant", "name": "mathproxyagent"},
        {"content": ["The answer is 4."], "role": "user", "name": "assistant"},
    ],
    "note": {"text": [], "options": {"1.1": "no", "2.3": "no"}},
}


def test_roles_are_turned_round_and_lines_are_joined() -> None:
    (trace,), report = read(CASE)
    assert not report.skipped
    assert not report.lost
    assert [(s.kind, s.name, s.agent) for s in trace.spans] == [
        ("user", "mathproxyagent", ""),
        ("model", "chat", "assistant"),
        ("user", "mathproxyagent", ""),
        ("model", "chat", "assistant"),
    ]
    assert [(m.role, m.name) for m in trace.messages] == [
        ("user", "mathproxyagent"),
        ("assistant", "assistant"),
        ("user", "mathproxyagent"),
        ("assistant", "assistant"),
    ]
    assert [m.text for m in trace.messages][:3] == ["Two bells,\neach rings twice.", "Run this:\nprint(2 * 2)", "4\n\n"]
    assert [m.role for m in trace.conversation(trace.spans[3])] == ["user", "assistant", "user"]
    assert json.loads(trace.text(trace.spans[0].attributes or Ref(""))) == {"role": "assistant"}


def test_head() -> None:
    (trace,), _ = read(CASE)
    assert (trace.head.task, trace.head.agent, trace.outcome) == (
        "sum-1",
        "assistant",
        Scored(1.0, "other_data.correct"),
    )
    assert trace.answer == "4.0"
    assert trace.head.meta == {
        "expected": "4",
        "problem_statement": "Two bells,\neach rings twice.",
        "perturbation_type": "none",
        "seed_question": "Bells?",
        "seed_solution": '["2*2"]',
        "seed_answer": "4",
        "annotated": False,
    }
    assert trace.head.seed is None


@pytest.mark.parametrize(
    ("correct", "outcome"), [(False, Scored(0.0, "other_data.correct")), (None, Missing("unscored"))]
)
def test_outcomes(correct: Any, outcome: Any) -> None:
    assert read({**CASE, "other_data": {"correct": correct}})[0][0].outcome == outcome


def test_seeds_make_attempts_of_one_task() -> None:
    traces, _ = read([{**CASE, "seed": 41}, {**CASE, "other_data": {"seed": "42"}}])
    assert [(t.head.task, t.head.seed, t.head.attempt) for t in traces] == [("sum-1", 41, 0), ("sum-1", 42, 1)]


def test_notes() -> None:
    marked = {"text": ["It stops", "too soon."], "options": {"1.1": "no", "2.3": "Yes"}}
    (trace,), _ = read({**CASE, "note": marked})
    assert [(x.name, x.value, x.source) for x in trace.labels] == [("1.1", False, "hand"), ("2.3", True, "hand")]
    assert trace.text(trace.labels[0].why or Ref("")) == "It stops\ntoo soon."
    (trace,), _ = read({**CASE, "note": {"text": ["Odd."], "options": {"1.1": "no"}}})
    assert [(x.name, x.value) for x in trace.labels] == [("note", None)]


def test_bad_steps_are_reported_and_a_string_is_no_trajectory() -> None:
    steps = [
        *CASE["trajectory"],
        5,
        {"role": "system", "content": "Be brief."},
        {"role": None, "content": {"text": "hm"}},
    ]
    traces, report = read([{**CASE, "trajectory": steps}, {**CASE, "trajectory": "no"}])
    (trace,) = traces
    assert [s.where for s in report.skipped] == ["element 0, step 4", "element 1"]
    assert [m.role for m in trace.messages][-2:] == ["system", "user"]


def test_a_cut_document_keeps_its_start() -> None:
    data = json.dumps(CASE).encode()
    (trace,), report = read_traces(bytes_source("log", data[: data.index(b"The answer")]), "mast")
    assert trace.outcome == Scored(1.0, "other_data.correct")
    assert [m.text for m in trace.messages][2] == "4\n\n"
    assert report.skipped[0].where == "the rest of the document"


def test_rough_handling(rough: Callable[[str, bytes], None], samples: dict[str, bytes]) -> None:
    rough("mast", samples["mast"])


def test_code_that_was_run_is_a_tool_call_and_its_traceback_an_error() -> None:
    """The proxy runs the solver's code: what it answers is no speech of a user."""

    def proxy(*lines: str) -> dict[str, Any]:
        return {"content": list(lines), "role": "assistant", "name": "mathproxyagent"}

    def solver(*lines: str) -> dict[str, Any]:
        return {"content": list(lines), "role": "user", "name": "assistant"}

    code = ("Run this:", "```python", "print(2 * 2)", "```")
    steps = [
        *(proxy("How many?"), solver(*code), proxy("4")),
        *(solver(*code), proxy("Error: Traceback (most recent call last):", "NameError: name 'x' is not defined")),
        *(solver(*code), proxy("exitcode: 1 (execution failed)")),
        *(solver("Let me think."), proxy("Continue. Please keep solving the problem until you need to query.")),
        *(solver(*code), proxy("Continue. Please keep solving the problem.")),
        *(solver("The answer is 4."), proxy("Thanks.")),
    ]
    (trace,), report = read({**CASE, "trajectory": steps})
    assert (report.skipped, report.lost) == ([], {})
    tools = [s for s in trace.spans if s.kind == "tool"]
    assert [(s.tool, s.status, trace.text(s.arguments or Ref(""))) for s in tools] == [
        ("python", status, "print(2 * 2)") for status in ("ok", "error", "error")
    ]
    assert trace.text(tools[0].result or Ref("")) == "4"
    assert [s.kind for s in trace.spans].count("user") == 4
    assert [m.role for m in trace.conversation(trace.spans[3])][-2:] == ["assistant", "tool"]
