"""Tables of results whose verdicts are words, and whose rows are ratings."""

from __future__ import annotations

from typing import Any

import pytest

from ethogram.capture.intake import SourceReport
from ethogram.capture.memory import read_traces
from ethogram.capture.source import bytes_source
from ethogram.traces import Missing, Scored, Trace

HEADER = "annotator_name,benchmark,task_id,model_name,trajectory_success,trajectory_side_effect"
"""Columns of AgentRewardBench."""


def read(*rows: str, header: str = HEADER) -> tuple[list[Trace], SourceReport]:
    return read_traces(bytes_source("annotations.csv", "\n".join((header, *rows)).encode()))


@pytest.mark.parametrize(
    ("word", "outcome"),
    [
        ("Successful", Scored(1.0, "trajectory_success")),
        ("Unsuccessful", Scored(0.0, "trajectory_success")),
        ("Unsure", Missing("unscored", "trajectory_success: Unsure")),
    ],
)
def test_words_of_verdicts_are_outcomes(word: str, outcome: Any) -> None:
    rows = ("A,webarena,t1,m,Successful,No", "A,webarena,t2,m,Unsuccessful,No", f"A,webarena,t3,m,{word},No")
    traces, report = read(*rows)
    assert report.skipped == []
    assert [t.head.task for t in traces] == ["t1", "t2", "t3"]
    assert traces[2].outcome == outcome


def test_raters_of_one_attempt_are_labels_of_one_episode() -> None:
    traces, report = read(
        "A,webarena,t1,m,Successful,No",
        "B,webarena,t1,m,Successful,No",
        "A,webarena,t2,m,Successful,No",
        "B,webarena,t2,m,Unsuccessful,No",
        "C,webarena,t3,m,nonsense,No",
        "A,webarena,t3,m,Unsuccessful,No",
        "A,webarena,t1,other,Unsuccessful,No",
        "A,webarena,t1,other,Successful,No",
        header=HEADER.replace("trajectory_success", "success"),
    )
    assert [s.where for s in report.skipped] == ["line 6"]
    assert "nonsense" in report.skipped[0].why
    assert [(t.head.task, t.head.agent, t.head.attempt, t.outcome) for t in traces] == [
        ("t1", "m", 0, Scored(1.0, "success")),
        ("t2", "m", 0, Missing("unscored", "success: raters disagree")),
        ("t3", "m", 0, Scored(0.0, "success")),
        ("t1", "other", 1, Scored(0.0, "success")),
        ("t1", "other", 2, Scored(1.0, "success")),
    ]
    assert [(x.name, x.value, x.by, x.source) for x in traces[1].labels] == [
        ("success", 1.0, "A", "hand"),
        ("success", 0.0, "B", "hand"),
    ]
