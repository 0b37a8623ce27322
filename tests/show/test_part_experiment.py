"""The part of a report about a paired experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from ethogram.plan import Task
from ethogram.show.chart import Chart, can_draw
from ethogram.show.part_experiment import experiment_part
from ethogram.store import Home
from ethogram.study.experiment import Experiment
from ethogram.study.suites import run_suite


def agent(task: Task, episode: Any) -> str:
    for _ in range(2):
        try:
            return str(episode.tools["total"](name="t.csv", column="price"))
        except (RuntimeError, LookupError, ValueError):
            continue
    return "unknown"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t.csv"
    path.write_text("item,price\napple,3\nbread,4\nmilk,2\ntea,6\n")
    return path


def test_every_figure_of_the_part_is_a_figure_of_the_result(home: Home, table: Path) -> None:
    found = Experiment(
        agent=agent,
        files=table,
        question="Sum?",
        expected_answer=15,
        scorer="numeric",
        operators=["row_duplicate", "tool_error", "irrelevant_columns"],
        intensities=[0.3, 1],
        k=3,
        home=home,
        name="x",
    ).run()
    made = experiment_part(home.run("x"))
    assert made is not None
    section, cards = made
    assert (section.id, section.title) == ("experiment", "Did the damage do something?")
    assert "18 of 18 pairs" in section.paragraphs[0]
    bars, curves = section.pictures
    drawn = {row["showing"].replace(" ", "_"): row["share"] for row in bars.spec["data"]["values"]}
    assert drawn == {name: e.value for name, e in found.overall.manifestations.items() if e.value}
    assert [(r["who"], r["intensity"], r["value"]) for r in curves.spec["data"]["values"]] == [
        (d.operator, d.intensity, d.accuracy_lost.value) for d in found.dose_response
    ]
    assert {t.caption.split(".")[0] for t in section.tables} == {
        "What was changed",
        "How the changes showed",
        "Pairs taken together, by operator",
        "Dose and response",
        "Pair by pair",
    }
    assert all(len(row) == len(t.columns) for t in section.tables for row in t.rows)
    assert [c.label for c in cards] == ["pairs above the floor", "accuracy lost to damage"]
    assert msgspec.json.decode(msgspec.json.encode(section))["id"] == "experiment"
    if can_draw():
        for shown in section.pictures:
            assert "<svg" in Chart(shown.spec, shown.words).svg()


def test_other_runs_have_no_such_part(home: Home, table: Path) -> None:
    (table.parent / "tasks.yaml").write_text("- {id: a, prompt: 'Say yes.', expected: yes, checks: [equals]}")
    run_suite(str(table.parent / "tasks.yaml"), lambda task, episode: "yes", name="plain", home=home)
    assert experiment_part(home.run("plain")) is None
