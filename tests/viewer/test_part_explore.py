"""The part of a report about an exploration, and its pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from ethogram.display.chart import PALETTE, Chart, can_draw
from ethogram.harness.suites import run
from ethogram.plans import Check, Suite, Task
from ethogram.questions.explore.buying.start import ExploreOptions
from ethogram.questions.explore.buying.suite import explore_suite
from ethogram.questions.explore.buying.world import begin_exploration
from ethogram.questions.explore.charts import FIGURES, learning_curves, rate_map
from ethogram.questions.explore.effects import explain_exploration
from ethogram.questions.explore.grid import grid
from ethogram.questions.explore.maps import map_exploration
from ethogram.questions.explore.tube import MISLEADS
from ethogram.store import Home
from ethogram.viewer.report.explore import explore_part
from ethogram.viewer.report.parts import report_view
from ethogram.worlds.named import known_world

SUITE = Suite(name="yes", tasks=(Task(id="a", prompt="say yes", expected="yes", checks=(Check(kind="equals"),)),))


def answer(task: Task, episode: Any) -> str:
    """Fails the more often, the louder it is."""
    return "yes" if episode.rng.random() > episode.condition["noise"] else "no"


def toy(home: Home, **options: Any) -> None:
    begin_exploration(known_world("toy_v1", synthetic=True), ExploreOptions(max_episodes=200, **options), home=home)


def test_every_figure_of_the_part_is_a_figure_of_the_map(home: Home) -> None:
    toy(home, name="toy")
    made = explore_part(home.run("toy"))
    assert made is not None
    section, cards = made
    found, effects = map_exploration("toy", home=home), explain_exploration("toy", home=home)
    assert (section.id, section.title) == ("explore", "Where is it unsafe?")
    assert {c.label: c.value for c in cards[:3]} == {
        "safe": f"{found.safe:,}",
        "unsafe": f"{found.unsafe:,}",
        "undecided": f"{found.undecided:,}",
    }
    assert cards[-1].value == "200"
    assert section.lead == found.established
    assert "recall of unsafe points" in section.paragraphs[1]
    assert MISLEADS in section.notes
    at_safest, averaged, matter, learned = section.pictures
    x, y = (e.parameters[0] for e in effects.main[:2])
    safest = min(found.points, key=lambda p: (p.rate.value, p.point))
    others = {k: v for k, v in safest.settings.items() if k not in (x, y)}
    assert all(f"{k} {v}" in at_safest.words for k, v in others.items())
    drawn = {(c[x], c[y]): c["value"] for c in at_safest.spec["data"]["values"]}
    meant = {
        (str(p.settings[x]), str(p.settings[y])): p.rate.value
        for p in found.points
        if all(p.settings[k] == v for k, v in others.items())
    }
    assert drawn == meant
    assert len(drawn) == len(averaged.spec["data"]["values"]) == 16
    shares = [r["share"] for r in matter.spec["data"]["values"]]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == effects.main[0].share.value
    last = {r["who"]: r["value"] for r in learned.spec["data"]["values"] if r["episodes"] == 200}
    assert last["safe"] + last["unsafe"] + last["undecided"] == pytest.approx(1)
    assert last["unsafe"] == found.unsafe / len(found.points)
    assert [t.caption.split(" ")[0] for t in section.tables] == ["The", "Mean"]
    assert all(len(row) == len(t.columns) for t in section.tables for row in t.rows)
    assert msgspec.json.decode(msgspec.json.encode(section))["id"] == "explore"
    if can_draw():
        for shown in section.pictures:
            assert "<svg" in Chart(shown.spec, shown.words).svg()


def test_a_small_grid_of_a_suite_in_words(home: Home) -> None:
    places = grid({"noise": [0.0, 0.5], "style": ["curt", "kind"]}, categories=["style"])
    explore_suite(SUITE, answer, places, ExploreOptions(max_episodes=64, name="small"), home=home)
    made = explore_part(home.run("small"))
    assert made is not None
    section, cards = made
    assert len(section.paragraphs) == 1, "no truth is known, so none is told"
    (slice_,) = [p for p in section.pictures if "failure rate, its" in p.words]
    layer = slice_.spec["layer"][0]["encoding"]
    assert {tuple(layer[a]["sort"]) for a in "xy"} in (
        {("0.0", "0.5"), ("kind", "curt")},
        {("curt", "kind"), ("0.5", "0.0")},
    )
    texts = [c["text"].split("\n") for c in slice_.spec["data"]["values"]]
    assert all(len(t) == 3 and t[2] in ("safe", "unsafe", "undecided") for t in texts)
    assert "4 of 4 points visited" in cards[-1].detail


def test_a_report_asks_an_exploration_what_it_can_answer(home: Home) -> None:
    toy(home, name="toy")
    explore_suite(SUITE, answer, grid({"noise": [0.0, 0.5]}), ExploreOptions(max_episodes=20, name="one"), home=home)
    assert [s.id for s in report_view("toy", home=home).sections] == ["explore"]
    assert [s.id for s in report_view("one", home=home).sections] == ["explore", "cost"]


def test_one_parameter_has_effects_but_no_map(home: Home) -> None:
    explore_suite(SUITE, answer, grid({"noise": [0.0, 0.5]}), ExploreOptions(max_episodes=20, name="one"), home=home)
    made = explore_part(home.run("one"))
    assert made is not None
    assert [p.words for p in made[0].pictures] == [
        "which settings matter, alone and two together",
        "how the map was decided, round by round",
    ]


def test_an_exploration_outside_of_the_home(home: Home, tmp_path: Path) -> None:
    toy(home, run_dir=str(tmp_path / "elsewhere"))
    made = explore_part(home.resolve(str(tmp_path / "elsewhere")))
    assert made is not None
    assert made[1][-1].value == "200"


def test_nothing_complete_yet_is_said(home: Home) -> None:
    home.create("begun", "explore")
    made = explore_part(home.run("begun"))
    assert made is not None
    assert made[0].notes == ["no round is complete yet; continue with the same command: ethogram explore"]
    assert made[1] == []


def test_other_runs_have_no_such_part(home: Home) -> None:
    run(SUITE, lambda task, episode: "yes", run="plain", home=home)
    assert explore_part(home.run("plain")) is None


def test_a_map_keeps_the_order_of_the_grid_and_leaves_gaps() -> None:
    rows = [
        {"x": v, "y": w, "rate": 0.5 if v != "low" else None, "low": None, "high": None}
        for v in ("low", "high")
        for w in (10, 9)
    ]
    drawn = rate_map(rows, "level", "size", [["low", "high"], [9, 10]], "words")
    assert [c["level"] for c in drawn.spec["data"]["values"]] == ["high", "high"]
    assert drawn.spec["layer"][0]["encoding"]["x"]["sort"] == ["low", "high"]
    assert drawn.spec["layer"][0]["encoding"]["y"]["sort"] == ["10", "9"]
    assert {c["text"] for c in drawn.spec["data"]["values"]} == {"0.50\n"}


@pytest.mark.parametrize("metric", list(FIGURES))
def test_learning_curves_keep_lines_apart(metric: str) -> None:
    names = [f"s{i}" for i in range(8)]
    rows = [{"strategy": s, "episodes": n, "value": 0.5, "low": 0.4, "high": 0.6} for s in names for n in (64, 128)]
    drawn = learning_curves(rows, metric)
    line = drawn.spec["layer"][1]["encoding"]
    pairs = list(zip(line["color"]["scale"]["range"], map(tuple, line["strokeDash"]["scale"]["range"]), strict=True))
    assert len(set(pairs)) == len(names) > len(PALETTE)
    assert line["x"]["scale"]["type"] == "log"
    if can_draw():
        svg = drawn.svg()
        assert svg.count(">s0<") == 1, "one legend"


def test_a_curve_without_ends_has_no_band() -> None:
    drawn = learning_curves([{"strategy": "s", "episodes": n, "value": 0.7} for n in (1, 2)])
    assert [(r["low"], r["high"]) for r in drawn.spec["data"]["values"]] == [(0.7, 0.7)] * 2
