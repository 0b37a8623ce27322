"""Every chart is one valid specification that draws, says in words what it shows, and does without colour."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from ethogram.display import chart
from ethogram.display import charts as marks
from ethogram.display.chart import BLUE, INK, Chart, can_draw
from ethogram.display.charts import curves, heat_map, pareto, points_and_band
from ethogram.errors import BadUsage
from ethogram.questions.field import charts

pytestmark = pytest.mark.skipif(not can_draw(), reason="vl-convert is not installed (pip install 'ethogram[charts]')")

DIMENSIONS = ("steps", "errors", "tokens")
PER_DIMENSION = [{"dimension": d, "value": i - 1.0, "low": i - 1.5, "high": i - 0.5} for i, d in enumerate(DIMENSIONS)]
PER_STATE = [
    {"state": s, "order": i, "who": who, "value": 1.0 + i, "low": 0.5 + i, "high": 1.5 + i}
    for i, s in enumerate(("start", "found", "done"))
    for who in ("all", "successes")
]
CASES: dict[str, Chart] = {
    "reliability_curve": marks.reliability_curve(
        [{"k": k, "kind": kind, "value": 0.5, "low": 0.3, "high": 0.7} for k in (1, 2) for kind in ("pass@k", "pass^k")]
    ),
    "compare_variance_bar": charts.compare_variance_bar(
        [{"dimension": d, "field": f, "value": 1.0} for d in DIMENSIONS for f in ("A", "B")]
    ),
    "separation_bar": charts.separation_bar(PER_DIMENSION),
    "skew_bar": charts.skew_bar(PER_DIMENSION),
    "horizon_width": charts.horizon_width(PER_STATE),
    "horizon_convergence": charts.horizon_convergence(PER_STATE),
    "drift_lines": charts.drift_lines(PER_STATE),
    "centroid_gap": charts.centroid_gap(PER_STATE),
    "centroid_pair": charts.centroid_pair([{"dimension": d, "who": w, "value": 1.0} for d in DIMENSIONS for w in "AB"]),
    "point_cloud": charts.point_cloud(
        [{"x": 1.0, "y": 2.0, "outcome": o, "label": "t"} for o in ("success", "failure")], [0.6, 0.2]
    ),
    "parallel_coordinates": charts.parallel_coordinates(
        [{"run": r, "dimension": d, "value": 1.0, "outcome": "success"} for r in "ab" for d in DIMENSIONS]
    ),
    "pareto": pareto(
        [
            {"class": "bad_args", "share": 0.6, "covered": 0.6, "owner": "tools"},
            {"class": "loop", "share": 0.4, "covered": 0.8, "owner": "agent"},
        ]
    ),
    "looks_chart": marks.looks_chart([{"runs": 10, "change": 0.1, "worst_case": 0.3, "decision": "undecided"}], 0.05),
    "bars": marks.bars([{"reason": "killed", "attempts": 3}], "reason", "attempts", "attempts", "what is missing"),
    "curves": curves(
        [{"episodes": e, "who": w, "value": 0.5, "low": 0.4, "high": 0.6} for e in (1, 2) for w in "ab"],
        "episodes",
        "balanced accuracy",
        "learning curves",
    ),
    "points_and_band": points_and_band(
        [{"who": "a", "value": 0.2, "beyond": False}, {"who": "a", "value": 0.9, "beyond": True}],
        "who",
        "d_norm",
        (0.0, 0.4),
        "points over a band",
    ),
    "heat_map": heat_map([{"a": 0, "b": 1, "value": 0.2, "text": "0.20"}], "a", "b", "p", "a slice"),
}


@pytest.mark.parametrize("name", CASES)
def test_draws_and_speaks(name: str) -> None:
    drawn = CASES[name]
    svg = drawn.svg()
    assert svg.startswith("<svg")
    assert "NaN" not in svg
    assert "undefined" not in svg
    assert drawn.words
    assert drawn.spec["description"] == drawn.words
    json.dumps(drawn.spec, allow_nan=False)


def test_no_chart_is_left_out() -> None:
    shared = {"curves", "heat_map", "pareto", "points_and_band"}
    public = {
        name
        for name, value in vars(charts).items()
        if inspect.isfunction(value)
        and value.__module__ == charts.__name__
        and value.__annotations__["return"] == "Chart"
        and not name.startswith("_")
    }
    assert public | shared | {"reliability_curve", "bars", "looks_chart"} == set(CASES)


def test_ink_follows_the_page() -> None:
    drawn = CASES["separation_bar"]
    assert INK in drawn.svg()
    assert INK not in drawn.svg(inline=True)
    assert "currentColor" in drawn.svg(inline=True)


def test_series_differ_without_colour() -> None:
    """Two series get different dashes or shapes, so that a grey print can be read."""
    for name in (
        "reliability_curve",
        "horizon_width",
        "point_cloud",
        "centroid_pair",
        "parallel_coordinates",
        "curves",
    ):
        text = json.dumps(CASES[name].spec)
        assert "strokeDash" in text or '"shape"' in text, name


def test_missing_interval_leaves_the_point() -> None:
    rows: list[dict[str, Any]] = [{"dimension": "steps", "value": 1.0, "low": None, "high": None, "sure": False}]
    svg = charts.separation_bar(rows).svg()
    assert f'stroke="{BLUE}"' in svg, "the point is there"
    assert f'fill="{BLUE}"' not in svg, "and hollow, because nothing is established"


def test_saves_by_suffix(tmp_path: Path) -> None:
    drawn = CASES["bars"]
    assert drawn.save(tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in drawn.save(tmp_path / "c.svg").read_text()
    assert json.loads(drawn.save(tmp_path / "c.json").read_text()) == drawn.spec
    with pytest.raises(BadUsage, match=r"\.svg, \.png"):
        drawn.save(tmp_path / "c.jpeg")


def test_shows_itself_in_a_notebook() -> None:
    bundle = CASES["bars"]._repr_mimebundle_()
    assert bundle["text/html"].startswith("<svg")
    assert INK not in bundle["text/html"], "it has the ink of the page, light or dark"
    assert bundle["text/plain"] == "what is missing"


def test_without_the_extra_a_notebook_gets_the_specification_and_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chart, "can_draw", lambda: False)
    bundle = CASES["bars"]._repr_mimebundle_()
    assert bundle["application/vnd.vegalite.v5+json"]["mark"]["type"] == "bar"
    assert "pip install 'ethogram[charts]'" in bundle["text/plain"]


def test_altair_accepts_every_specification() -> None:
    """An independent reader of Vega-Lite validates each of them against its schema."""
    altair = pytest.importorskip("altair", reason="altair validates the specifications")
    for case in CASES.values():
        assert altair.Chart.from_dict(case.spec, validate=True).to_dict(), (
            "it raises where a specification is not of the schema"
        )


def test_captions_name_the_rule_that_runs_belong_by() -> None:
    for rule in ("visited", "reached"):
        for draw in (charts.horizon_width, charts.horizon_convergence, charts.drift_lines):
            assert f"attempts that {rule} " in draw(PER_STATE, rule).words
