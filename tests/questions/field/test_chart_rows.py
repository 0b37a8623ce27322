"""Pictures of a field are drawn from the field itself, and hold the numbers that its metrics give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ethogram.display.chart import Chart
from ethogram.errors import BadUsage, NotFound, Refused
from ethogram.measures.dimension import Dimension
from ethogram.questions.field import charts
from ethogram.questions.field.field import Field
from ethogram.questions.field.projection import centres
from ethogram.questions.field.question import field
from ethogram.store import Home
from ethogram.viewer.report.parts import report_view
from ethogram.viewer.report.report import report

ORDER = ("start", "editing", "done")


def made(shift: float = 0.0, K: int = 40, seed: int = 3) -> Field:
    """Two tasks; failures edit more; everybody starts, most edit, successes are done."""
    rng = np.random.default_rng(seed)
    good = np.arange(K) % 3 > 0
    points = np.column_stack([rng.poisson(8 + shift + 6 * ~good), rng.poisson(5, K)]).astype(float)
    states = [("start", "editing", *(["done"] if g else [])) for g in good]
    return Field.from_arrays(
        points,
        good.astype(float),
        [Dimension("edits"), Dimension("reads")],
        tasks=[f"t{i % 2}" for i in range(K)],
        states=states,
        state_order=ORDER,
    )


def values(chart: Chart) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = chart.spec["data"]["values"]
    return rows


def test_separation_and_skew_of_a_field_are_those_of_its_metrics() -> None:
    field = made()
    for draw, name in ((charts.separation_bar, "separation"), (charts.skew_bar, "skew")):
        rows = {r["dimension"]: r for r in values(draw(field))}
        assert values(draw(field.metrics())) == list(rows.values())
        for dimension in ("edits", "reads"):
            told = field.metrics().estimate(name, dimension)
            assert (rows[dimension]["value"], rows[dimension]["low"]) == (told.value, told.low)
        assert (rows["edits"]["sure"], rows["reads"]["sure"]) == (True, False)
        assert next(iter(rows)) == "edits", "the surest first"


def test_stages_follow_the_rule_that_the_caption_names() -> None:
    field = made()
    by_visit, by_reach = charts.horizon_width(field), charts.horizon_width(field, "reached")
    assert "visited each stage" in by_visit.words
    assert "reached each stage" in by_reach.words
    assert [r["state"] for r in values(by_visit)] == list(ORDER)
    assert values(by_visit)[1]["value"] == field.horizon("editing").metrics().estimate("width").value
    rates = values(charts.horizon_convergence(field))
    assert rates[0]["value"] == pytest.approx(np.mean(np.arange(40) % 3 > 0), abs=0.02)
    lines = charts.drift_lines({"small": field, "large": made(4)})
    assert {r["who"] for r in values(lines)} == {"small", "large"}


def test_two_fields_side_by_side() -> None:
    one, two = made(), made(20, seed=4)
    bars = charts.compare_variance_bar(one.metrics(), two.metrics(), label_a="vague", label_b="concise")
    rows = {(r["field"], r["dimension"]): r["value"] for r in values(bars)}
    assert rows["vague", "edits"] == pytest.approx(np.var(one.points[:, 0]))
    assert rows["concise", "reads"] == pytest.approx(np.var(two.points[:, 1]))
    pair = {(r["who"], r["dimension"]): r["value"] for r in values(charts.centroid_pair(one, two))}
    assert pair["second", "edits"] - pair["first", "edits"] > 2
    assert abs(pair["second", "reads"] - pair["first", "reads"]) < 1
    logs = [np.log1p(f.points[:, 0]) for f in (one, two)]
    far = np.mean(logs[1]) - np.mean(logs[0])
    within = [x[t::2] - x[t::2].mean() for x in logs for t in (0, 1)]
    sd = np.sqrt(sum(float(np.sum(w**2)) for w in within) / (80 - 4))
    assert centres(one, two)[0].second - centres(one, two)[0].first == pytest.approx(far / sd)
    with pytest.raises(BadUsage, match="give the second"):
        charts.compare_variance_bar(one)
    with pytest.raises(BadUsage, match="give the second"):
        charts.centroid_pair(one)


def test_a_cloud_says_what_its_axes_carry() -> None:
    chart = charts.point_cloud(made())
    assert len(values(chart)) == 40
    assert "100% of the variance" in chart.words


def test_what_cannot_be_drawn_is_refused() -> None:
    few = made(K=2)
    with pytest.raises(Refused, match="run each task more often"):
        charts.drift_lines(few)


@pytest.fixture
def shop(home: Home, tmp_path: Path) -> Home:
    from ...viewer.test_part_why import BAD, GOOD, attempt, put  # noqa: TID252

    put(
        home,
        tmp_path,
        "shop",
        [attempt(t, k, float(k < 5), GOOD if k < 5 else BAD) for t in range(3) for k in range(8)],
    )
    return home


MINE = """
from ethogram.questions.field.field import Dimension, Field

class Talk(Field):
    def dimensions(self):
        return [Dimension("messages"), Dimension("letters")]

    def measure(self, talk):
        return [len(talk), sum(len(str(m.get("content"))) for m in talk)]
"""


def test_a_field_states_and_a_corridor_reach_the_report(shop: Home, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    stages = [{"state": "looked", "when": {"tool": "look"}}, {"state": "booked", "when": {"tool": "book"}}]
    (tmp_path / "states.yaml").write_text(json.dumps({"milestones": stages}))
    field("shop", home=shop, save_corridor=tmp_path / "c.json")
    made = report("shop", tmp_path / "r.html", field=f"{tmp_path}/mine.py:Talk", reading="messages", home=shop)
    assert "field" in made.sections
    assert "letters" in (tmp_path / "r.html").read_text()
    states = tmp_path / "states.yaml"
    report("shop", tmp_path / "c.html", states=states, corridor=tmp_path / "c.json", rule="reached", home=shop)
    text = (tmp_path / "c.html").read_text()
    assert "Against the corridor shop (15 attempts)" in text
    assert "an attempt counts at every state that it reached" in text
    assert "<td>booked</td>" in text


def test_a_field_that_cannot_be_had_is_told_and_nothing_is_written(shop: Home, tmp_path: Path) -> None:
    with pytest.raises((NotFound, BadUsage)):
        report("shop", tmp_path / "r.html", states=tmp_path / "no.yaml", home=shop)
    assert not (tmp_path / "r.html").exists()
    assert report_view("shop", home=shop).sections
