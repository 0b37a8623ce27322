from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ethogram.capture.intake import SourceReport
from ethogram.capture.memory import read_traces
from ethogram.capture.source import bytes_source
from ethogram.traces import Message, Missing, Reasoning, Ref, Scored, Span, Text, Trace

DATA = Path(__file__).parents[4] / "shared" / "data"
here = pytest.mark.skipif(not DATA.exists(), reason="../shared/data is not here")


def read(value: Any) -> tuple[list[Trace], SourceReport]:
    return read_traces(bytes_source("log", json.dumps(value).encode()), "who-and-when")


def attributes(trace: Trace, span: Span) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(trace.text(span.attributes or Ref("")))
    return found


GENERATED: dict[str, Any] = {
    "is_correct": False,
    "question": "How many bells?",
    "question_ID": "q-1",
    "level": "2",
    "ground_truth": "4",
    "history": [
        {"content": "Count them.", "role": "assistant", "name": "Planner_Expert"},
        {"content": "exitcode: 1 (execution failed)\nCode output: ?", "role": "user", "name": "Computer_terminal"},
        {"content": "exitcode: 0 (execution succeeded)", "role": "user", "name": "Computer_terminal"},
        {"content": "There is no code.", "role": "user", "name": "Computer_terminal"},
        {"content": "There are 5.", "role": "user", "name": "Counting_Expert"},
        {"content": "TERMINATE", "role": "assistant", "name": "Planner_Expert"},
    ],
    "mistake_agent": "Counting_Expert",
    "mistake_step": "4",
    "mistake_reason": "It guessed.",
    "system_prompt": {"planner_expert": "Plan.", "Counting_Expert": "Count.", "Silent_Expert": "Wait."},
}
CRAFTED: dict[str, Any] = {
    "question": "How many bells?",
    "ground_truth": "4",
    "is_corrected": False,
    "question_ID": "q-2",
    "level": 3,
    "history": [
        {"content": "How many bells?", "role": "human"},
        {"content": "Plan: look.", "role": "Orchestrator (thought)"},
        {"content": "Please look.", "role": "Orchestrator (-> WebSurfer)"},
        {"content": "I see 5.", "role": "WebSurfer"},
        {"content": "No agent selected.", "role": "Orchestrator (termination condition)"},
    ],
    "mistake_agent": "WebSurfer",
    "mistake_step": "1",
    "mistake_reason": "It looked away.",
    "mistake_type": "perception",
}


def test_generated() -> None:
    (trace,), report = read(GENERATED)
    assert not report.skipped
    assert not report.lost
    assert (trace.head.task, trace.outcome) == ("q-1", Scored(0.0, "is_correct"))
    assert trace.head.meta == {"question": "How many bells?", "level": "2", "ground_truth": "4"}
    assert [(s.kind, s.agent, s.lane, s.status) for s in trace.spans] == [
        ("model", "Planner_Expert", "Planner_Expert", "unset"),
        ("tool", "Computer_terminal", "Computer_terminal", "error"),
        ("tool", "Computer_terminal", "Computer_terminal", "ok"),
        ("tool", "Computer_terminal", "Computer_terminal", "unset"),
        ("model", "Counting_Expert", "Counting_Expert", "unset"),
        ("model", "Planner_Expert", "Planner_Expert", "unset"),
        ("agent", "Silent_Expert", "Silent_Expert", "unset"),
    ]
    first, *_, last, silent = trace.spans
    assert [m.text for m in trace.conversation(first)] == ["Plan."]  # its name is written in another case
    assert [m.text for m in trace.conversation(last)] == ["Plan.", "Count them."]
    assert [m.text for m in trace.conversation(silent)] == ["Wait."]
    said = [m.text for m in trace.messages if m.role != "system"]
    assert said == [h["content"] for h in GENERATED["history"]]
    assert [attributes(trace, s)["step"] for s in trace.spans[:-1]] == [0, 1, 2, 3, 4, 5]
    assert attributes(trace, first) == {"step": 0, "speaker": "Planner_Expert", "role": "assistant"}


def test_mistakes_are_labels_on_their_step() -> None:
    (trace,), _ = read(GENERATED)
    assert [(x.name, x.value, x.span_id, x.source) for x in trace.labels] == [
        ("mistake_agent", "Counting_Expert", trace.spans[4].span_id, "hand"),
        ("mistake_step", 4, trace.spans[4].span_id, "hand"),
    ]
    assert trace.text(trace.labels[0].why or Ref("")) == "It guessed."


def test_crafted() -> None:
    (trace,), report = read(CRAFTED)
    assert not report.skipped
    assert trace.outcome == Scored(0.0, "is_corrected")
    assert trace.head.meta["level"] == "3"
    assert [(s.kind, s.name, s.lane) for s in trace.spans] == [
        ("user", "human", ""),
        ("model", "chat", "Orchestrator"),
        ("handoff", "WebSurfer", "Orchestrator"),
        ("model", "chat", "WebSurfer"),
        ("other", "termination condition", "Orchestrator"),
    ]
    assert trace.messages[1] == Message("assistant", (Reasoning("Plan: look."),), "Orchestrator")
    assert trace.messages[3] == Message("assistant", (Text("I see 5."),), "WebSurfer")
    # the speaker at the step is not the agent that is blamed: both are kept
    blamed = {x.name: (x.value, x.span_id) for x in trace.labels}
    assert blamed["mistake_agent"] == ("WebSurfer", trace.spans[1].span_id)
    assert blamed["mistake_type"] == ("perception", trace.spans[1].span_id)
    assert trace.spans[1].agent == "Orchestrator"


@pytest.mark.parametrize("step", ["99", "soon", -1, 5])
def test_a_step_that_is_not_there(step: Any) -> None:
    (trace,), report = read({**CRAFTED, "mistake_step": step})
    assert report.lost == {"mistake_step (no such step)": 1}
    assert trace.head.meta["mistake_step"] == step
    assert all(x.span_id is None for x in trace.labels)


def test_a_bad_step_does_not_shift_the_others() -> None:
    history = [CRAFTED["history"][0], 5, *CRAFTED["history"][2:]]
    (trace,), report = read({**CRAFTED, "history": history, "mistake_step": "3"})
    assert [s.where for s in report.skipped] == ["the document, step 1"]
    marked = trace.labels[0].span_id
    assert marked is not None
    assert trace.by_id[marked].agent == "WebSurfer"


def test_outcomes_and_repeated_questions() -> None:
    right = {**CRAFTED, "is_corrected": True}
    unknown = {k: v for k, v in CRAFTED.items() if k != "is_corrected"}
    traces, report = read([CRAFTED, right, unknown, {**CRAFTED, "history": None}])
    assert [t.outcome for t in traces] == [
        Scored(0.0, "is_corrected"),
        Scored(1.0, "is_corrected"),
        Missing("unscored"),
    ]
    assert [t.head.attempt for t in traces] == [0, 1, 2]
    assert report.lost == {"trace key (repeated)": 2}
    assert [s.where for s in report.skipped] == ["element 3"]


def test_a_cut_document_keeps_its_start() -> None:
    data = json.dumps(GENERATED).encode()
    (trace,), report = read_traces(bytes_source("log", data[: data.index(b"There are 5")]), "who-and-when")
    assert trace.totals.tool_calls == 3
    assert report.skipped[0].where == "the rest of the document"


def test_rough_handling(rough: Callable[[str, bytes], None], samples: dict[str, bytes]) -> None:
    rough("who-and-when", samples["who-and-when"])
    rough("who-and-when", json.dumps(CRAFTED).encode())


@here
def test_real_runs() -> None:
    wanted = json.loads((DATA / "expected.json").read_text())["who_and_when"]
    files = {f"{p.parent.name}/{p.name.split('.')[0]}": p for p in (DATA / "who_and_when").glob("*/*") if p.is_file()}
    assert files.keys() == wanted.keys()
    for name, figures in wanted.items():
        data = files[name].read_bytes()
        (trace,), report = read_traces(bytes_source(name, data), "who-and-when")
        assert not report.skipped
        assert not report.lost
        raw = json.loads(gzip.decompress(data) if files[name].suffix == ".gz" else data)
        steps = [s for s in trace.spans if s.kind != "agent"]
        assert len(steps) == figures["n_history"]
        assert [
            m.parts[0].text if isinstance(m.parts[0], Text | Reasoning) else m.text
            for m in trace.messages
            if m.role != "system"
        ] == [h["content"] for h in raw["history"]]
        assert len({attributes(trace, s)["speaker"] for s in steps}) == figures["n_speakers"]
        labels = {x.name: x for x in trace.labels}
        assert labels["mistake_agent"].value == figures["mistake_agent"]
        assert labels["mistake_step"].value == figures["mistake_step"]
        assert labels["mistake_step"].span_id == steps[figures["mistake_step"]].span_id
        assert isinstance(trace.outcome, Scored)
        assert trace.outcome.value == 0.0
