from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ethogram.capture.intake import SourceReport
from ethogram.capture.memory import read_traces
from ethogram.capture.source import bytes_source
from ethogram.traces import Missing, Reasoning, Ref, Scored, Text, Trace

# No real AgentDojo log lies in ../shared/data, so expected.json has no figures for this format.


def read(value: Any) -> tuple[list[Trace], SourceReport]:
    return read_traces(bytes_source("log", json.dumps(value).encode()), "agentdojo")


def words(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "content": text}]


def call(name: str, call_id: str, **args: Any) -> dict[str, Any]:
    return {"function": name, "args": args, "id": call_id, "placeholder_args": None}


def answered(made: dict[str, Any], content: Any, error: str | None = None) -> dict[str, Any]:
    return {"role": "tool", "content": content, "tool_call_id": made["id"], "tool_call": made, "error": error}


RING, PULL = call("ring", "c1", times=1), call("pull", "c2", rope="left")
MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": words("Be brief.")},
    {"role": "user", "content": words("Ring the bell.")},
    {"role": "assistant", "content": None, "tool_calls": [RING, PULL]},
    answered(RING, words("ding")),
    answered(PULL, "", "ValueError: no rope"),
    {"role": "assistant", "content": [{"type": "thinking", "content": "hm"}, *words("Done.")], "tool_calls": None},
]
UPSTREAM: dict[str, Any] = {
    "suite_name": "tower",
    "pipeline_name": "m-with-tools",
    "user_task_id": "user_task_3",
    "injection_task_id": "injection_task_1",
    "attack_type": "important_instructions",
    "injections": {"note": "Ring all night."},
    "messages": MESSAGES,
    "error": None,
    "utility": True,
    "security": False,
    "duration": 2.5,
}
LUNA: dict[str, Any] = {
    "run_id": "tower_t01_poison_1",
    "suite_name": "tower",
    "pipeline_name": "m",
    "domain": "bells",
    "task_id": "t01",
    "condition": "poison_top1",
    "seed": 1,
    "system_prompt": "Be brief.",
    "user_prompt": "Ring it.",
    "available_tools": ["ring", "pull"],
    "messages": MESSAGES,
    "trace": [RING, PULL],
    "final_answer": "Rung.",
    "evaluation": {
        "utility": False,
        "security": True,
        "outcome": "safe",
        "tool_sequence": ["ring", "pull"],
        "notes": None,
        "steps": 2,
    },
    "duration": 1.0,
    "error": None,
    "metadata": {"x": 1},
}


def test_upstream() -> None:
    (trace,), report = read(UPSTREAM)
    assert not report.skipped
    assert not report.lost
    assert trace.head.task == "tower/user_task_3"
    assert trace.head.condition == "important_instructions/injection_task_1"
    assert trace.head.agent == "m-with-tools"
    assert trace.outcome == Scored(1.0, "utility")
    assert [(x.name, x.value) for x in trace.labels] == [("utility", True), ("security", False)]
    assert trace.head.meta["duration"] == 2.5
    assert json.loads(str(trace.head.meta["injections"])) == {"note": "Ring all night."}
    assert trace.answer == "Done."
    assert [(s.kind, s.name) for s in trace.steps] == [
        ("user", "user"),
        ("model", "chat"),
        ("tool", "ring"),
        ("tool", "pull"),
        ("model", "chat"),
    ]
    ring, pull = (s for s in trace.spans if s.kind == "tool")
    assert (ring.status, pull.status) == ("ok", "error")
    assert trace.text(ring.arguments or Ref("")) == '{"times":1}'
    assert trace.text(ring.result or Ref("")) == "ding"
    assert trace.text(pull.error or Ref("")) == "ValueError: no rope"
    assert trace.messages[-1].parts == (Reasoning("hm"), Text("Done."))
    assert [m.role for m in trace.messages] == [m["role"] for m in MESSAGES]


def test_a_clean_run_has_no_condition_and_old_content_is_a_string() -> None:
    messages = [{"role": "user", "content": "Ring."}, {"role": "assistant", "content": "No.", "tool_calls": []}]
    clean = {**UPSTREAM, "attack_type": None, "injection_task_id": None, "messages": messages, "utility": False}
    (trace,), _ = read(clean)
    assert trace.head.condition == ""
    assert trace.outcome == Scored(0.0, "utility")
    assert [m.text for m in trace.messages] == ["Ring.", "No."]


def test_a_relative_with_an_evaluation() -> None:
    (trace,), report = read(LUNA)
    assert not report.skipped
    assert (trace.head.task, trace.head.condition, trace.head.seed) == ("tower/t01", "poison_top1", 1)
    assert trace.outcome == Scored(0.0, "utility")
    assert trace.answer == "Rung."
    assert [(x.name, x.value) for x in trace.labels] == [
        ("utility", False),
        ("security", True),
        ("outcome", "safe"),
        ("steps", 2),
    ]
    meta = trace.head.meta
    assert meta["evaluation.tool_sequence"] == '["ring","pull"]'
    assert meta["user_prompt"] == "Ring it."  # not among the messages
    assert "system_prompt" not in meta
    assert "trace" not in meta  # the same two calls
    assert meta["available_tools"] == '["ring","pull"]'


def test_calls_that_the_messages_do_not_show_are_kept() -> None:
    (trace,), _ = read({**LUNA, "trace": [RING, PULL, RING]})
    assert len(json.loads(str(trace.head.meta["trace"]))) == 3
    (trace,), _ = read({**LUNA, "messages": []})
    assert [s.tool for s in trace.spans] == ["ring", "pull"]


@pytest.mark.parametrize(
    ("error", "utility", "outcome"),
    [
        ("openai.RateLimitError: slow down", False, "infrastructure.rate_limit"),
        ("Overloaded", None, "infrastructure.other"),
        ("context_length_exceeded", False, None),
        ("openai.RateLimitError: slow down", True, None),
    ],
)
def test_errors(error: str, utility: bool | None, outcome: str | None) -> None:
    (trace,), _ = read({**UPSTREAM, "error": error, "utility": utility})
    if outcome is None:
        assert trace.outcome == Scored(float(bool(utility)), "utility")
    else:
        assert isinstance(trace.outcome, Missing)
        assert trace.outcome.reason == outcome
    crash = trace.spans[-1]
    assert (crash.name, crash.status) == ("crash", "error")
    assert trace.text(crash.error or Ref("")) == error


def test_placeholders_are_kept() -> None:
    held = {**RING, "placeholder_args": {"times": "<n>"}}
    messages = [{"role": "assistant", "content": None, "tool_calls": [held]}, answered(held, "ding")]
    (trace,), _ = read({**UPSTREAM, "messages": messages})
    kept = [json.loads(trace.text(s.attributes)) for s in trace.spans if s.attributes]
    assert kept == [{"placeholder_args": {"c1": {"times": "<n>"}}}, {"placeholder_args": {"times": "<n>"}}]


def test_arrays_lines_and_bad_records() -> None:
    traces, report = read([UPSTREAM, 5, {**UPSTREAM, "messages": "no"}, {**LUNA, "messages": [3, MESSAGES[1]]}])
    assert [t.head.agent for t in traces] == ["m-with-tools", "m"]
    assert [s.where for s in report.skipped] == ["element 1", "element 2", "element 3, message 0"]
    lines = b"\n".join(json.dumps(v).encode() for v in (UPSTREAM, LUNA))
    assert len(read_traces(bytes_source("log", lines), "agentdojo")[0]) == 2


def test_a_cut_document_keeps_its_start() -> None:
    data = json.dumps(UPSTREAM).encode()
    (trace,), report = read_traces(bytes_source("log", data[: data.index(b"no rope")]), "agentdojo")
    assert trace.head.task == "tower/user_task_3"
    assert trace.outcome == Missing("unscored")
    assert next(s.tool for s in trace.spans if s.kind == "tool") == "ring"
    assert report.skipped[0].where == "the rest of the document"


def test_rough_handling(rough: Callable[[str, bytes], None]) -> None:
    rough("agentdojo", json.dumps(UPSTREAM).encode())
    rough("agentdojo", json.dumps(LUNA).encode())
