"""The essay's snippets, as they stand but for the import."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

import ethogram as aft
from ethogram import Field


class Run(NamedTuple):
    trajectory: dict[str, Any]
    score: float


def extract_tool_calls(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [call for m in messages for call in m.get("tool_calls", ())]


class CodeFixField(aft.Field):
    def dimensions(self) -> Any:
        return [
            aft.Dimension("num_tool_calls", "Total tool invocations"),
            aft.Dimension("num_edits", "File edit operations"),
            aft.Dimension("num_messages", "Total messages in the trajectory"),
        ]

    def measure(self, trajectory: Any) -> Any:
        calls = extract_tool_calls(trajectory["messages"])
        return np.array([len(calls), sum(c["name"] == "Edit" for c in calls), len(trajectory["messages"])])

    def trajectory_length(self, trajectory: Any) -> int:
        return len(trajectory["messages"])

    def state(self, trajectory: Any, t: int) -> str:
        tool_calls = extract_tool_calls(trajectory["messages"][: t + 1])
        if not any(tc["name"] == "Read" for tc in tool_calls):
            return "start"
        if not any(tc["name"] == "Edit" for tc in tool_calls):
            return "diagnosed"
        return "tested" if any(tc["name"] == "Bash" for tc in tool_calls) else "editing"


def run(names: str, score: float) -> Run:
    words = {"r": "Read", "e": "Edit", "b": "Bash"}
    said = [
        {"role": "assistant", "tool_calls": [{"name": words[n]}]} if n in words else {"role": "user"} for n in names
    ]
    return Run({"messages": said}, score)


RUNS = [
    run("..re e b.", 1.0),
    run(".reeb", 1.0),
    run(".reb", 1.0),
    run(".r.e.e.e.", 0.0),
    run(".r....", 0.0),
    run(".reeeeb..", 0.0),
]


@pytest.fixture
def field() -> Field:
    field = CodeFixField()
    for each in RUNS:
        field.add(each.trajectory, outcome=each.score)
    return field


def test_the_cloud(field: Field) -> None:
    assert field.K == 6
    assert field.d == 3
    assert field.points.shape == (6, 3)
    assert field.outcomes.shape == (6,)


def test_walking_the_horizons(field: Field, capsys: pytest.CaptureFixture[str]) -> None:
    for s in field.states:
        h = field.horizon(s)
        hm = h.metrics()
        print(f"{s:>12}: K={h.K:>2}  width={hm.width():.1f}  conv={hm.convergence():.2f}")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0].strip() for line in lines] == ["start", "diagnosed", "editing", "tested"]
    assert "K= 6" in lines[0]
    assert "K= 5" in lines[2]


def test_drift_is_a_difference_of_widths(field: Field) -> None:
    found = {}
    for s in field.states:
        h = field.horizon(s)
        w_all = h.metrics().width()
        sr = h.success_region()
        found[s] = w_all - (sr.metrics().width() if sr.K >= 2 else w_all)
    good = field.points[:3]
    assert found["start"] == pytest.approx(np.var(field.points, axis=0).sum() - np.var(good, axis=0).sum())
    readings = {r.state: r.drift for r in aft_walk(field)}
    assert readings == pytest.approx(found)


def aft_walk(field: Field) -> Any:
    from ethogram.questions.field.chain import walk

    return walk(field)


def test_a_baseline_as_a_ruler(field: Field) -> None:
    baseline = field.success_region()
    for s in field.states:
        gap = field.horizon(s).metrics().width() - baseline.metrics().width()
        assert np.isfinite(gap)
    dm = field.horizon("diagnosed").metrics()
    assert dm.separation() is not None
    assert dm.skew("num_edits") is not None
    assert field.horizon(["editing", "tested"]).K == 5


def test_two_measures_two_fields_same_runs() -> None:
    class Strategy(CodeFixField):
        def dimensions(self) -> Any:
            return [aft.Dimension("read_first", "0 or 1")]

        def measure(self, trajectory: Any) -> Any:
            return np.array([float(extract_tool_calls(trajectory["messages"])[0]["name"] == "Read")])

    effort, strategy = CodeFixField(), Strategy()
    for each in RUNS:
        effort.add(each.trajectory, each.score)
        strategy.add(each.trajectory, each.score)
    assert effort.metrics().width() > 0
    assert strategy.metrics().width() == 0.0
