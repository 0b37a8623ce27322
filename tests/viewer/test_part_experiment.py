"""The part of a report about a paired experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from ethogram.display.chart import Chart, can_draw
from ethogram.harness.suites import run
from ethogram.plans import Task
from ethogram.questions.experiment.buying.experiment import Experiment
from ethogram.questions.why.question import why
from ethogram.questions.why.side_by_side import BesideReader
from ethogram.store import Home
from ethogram.viewer.report.experiment import experiment_part
from ethogram.viewer.report.parts import report_view


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
        expected=15,
        score="numeric",
        operators=["row_duplicate", "tool_error", "irrelevant_columns"],
        intensities=[0.3, 1],
        k=3,
        home=home,
        run="x",
    ).run()
    made = experiment_part(home.run("x"))
    assert made is not None
    section, cards = made
    assert (section.id, section.title) == ("experiment", "Did the damage do something?")
    assert "18 of 18 pairs" in section.paragraphs[0]
    cells, bars, distances, first, curves = section.pictures
    assert [(r["operator"], r["text"]) for r in cells.spec["data"]["values"]] == [
        (c.operator, f"{c.score_lost:.2f}") for c in found.by_task
    ]
    drawn = {row["showing"].replace(" ", "_"): row["pairs"] for row in bars.spec["data"]["values"]}
    assert drawn == found.overall.counts
    reached = [p for p in found.pairs if p.delivered]
    assert [r["value"] for r in distances.spec["data"]["values"]] == [p.pair.d_norm for p in reached]
    band = distances.spec["layer"][0]["data"]["values"]
    assert band == [{"low": 0.0, "high": found.noise_floor.max}]
    parted = [p.pair.t_star_norm for p in reached if p.pair.t_star_norm is not None]
    assert [r["value"] for r in first.spec["data"]["values"]] == parted
    assert [(r["who"], r["intensity"], r["value"]) for r in curves.spec["data"]["values"]] == [
        (d.operator, d.intensity, d.accuracy_lost.value) for d in found.dose_response
    ]
    assert {t.caption.split(".")[0] for t in section.tables} == {
        "What was changed",
        "How the changes showed",
        "Pairs taken together, by operator",
        "Dose and response, over all attempts at an intensity, reached by the damage or not",
        "Pair by pair",
        "Pairs whose damage never reached the agent",
    }
    assert all(len(row) == len(t.columns) for t in section.tables for row in t.rows)
    assert [c.label for c in cards] == ["accuracy lost to damage", "silent corruptions", "pairs above the floor"]
    assert msgspec.json.decode(msgspec.json.encode(section))["id"] == "experiment"
    if can_draw():
        for shown in section.pictures:
            assert "<svg" in Chart(shown.spec, shown.words).svg()


def test_other_runs_have_no_such_part(home: Home, table: Path) -> None:
    (table.parent / "tasks.yaml").write_text("- {id: a, prompt: 'Say yes.', expected: yes, checks: [equals]}")
    run(str(table.parent / "tasks.yaml"), lambda task, episode: "yes", run="plain", home=home)
    assert experiment_part(home.run("plain")) is None


def corrupted(task: Task, episode: Any) -> str:
    """Adds up whatever it finds: damage changes the answer and never the steps."""
    return str(episode.tools["total"](name="t.csv", column="price"))


def test_the_headlines_say_what_the_damage_cost(home: Home, table: Path) -> None:
    about: dict[str, Any] = {"files": table, "question": "Sum?", "expected": 15, "score": "numeric"}
    found = Experiment(
        agent=corrupted, operators=["row_duplicate", "unit_change"], k=3, home=home, run="x", **about
    ).run()
    assert found.overall.counts == {"silent_semantic_corruption": 6}
    cards = {c.label: c.value for c in report_view(home.run("x")).cards}
    assert list(cards)[:3] == ["accuracy lost to damage", "silent corruptions", "pairs above the floor"]
    assert (cards["accuracy lost to damage"], cards["silent corruptions"]) == ("+100%", "6")
    assert "nothing to fix" not in cards.values()
    assert cards["pass@1, clean attempts"] == "100%"  # a rate of clean attempts is named as one
    made = experiment_part(home.run("x"))
    assert made is not None
    assert made[0].lead.startswith("Accuracy lost to the damage: 1.00")
    assert "In 6 of 6 pairs the answer or the outcome changed and the steps did not." in made[0].lead
    attempts = next(s for s in report_view(home.run("x")).sections if s.id == "attempts")
    assert {row.task: row.rate for row in attempts.matrix if " · " in row.task} == {
        "t-csv · row_duplicate": "0/3",
        "t-csv · unit_change": "0/3",
    }
    reader = BesideReader(home.run("x"), why(home.run("x"), home=home))
    besides = [(entry.head.condition, reader.of(entry)) for entry in reader.run.entries]
    failed = [(under != "", one.passing) for under, one in besides if one.state == "failed"]
    beside = {(damaged, passing.condition) for damaged, passing in failed if passing is not None}
    assert beside == {(True, "")}, "beside a clean attempt"
    assert all(passing is not None for _, passing in failed)


def test_an_agent_without_steps_has_no_distances_to_show(home: Home, table: Path) -> None:
    clean = table.read_text()

    def mute(task: Task, episode: Any) -> str:
        return "15" if (episode.workspace / "t.csv").read_text() == clean else "16"

    about: dict[str, Any] = {"files": table, "question": "Sum?", "expected": 15, "score": "numeric"}
    Experiment(agent=mute, operators=["row_duplicate"], k=2, home=home, run="x", **about).run()
    made = experiment_part(home.run("x"))
    assert made is not None
    section, cards = made
    assert {c.label: c.value for c in cards} == {
        "accuracy lost to damage": "+100%",
        "answers that changed": "2",
        "pairs above the floor": "unavailable",
    }
    assert "no steps captured" in section.paragraphs[1]
    assert not any("d_norm" in p.words for p in section.pictures)
