"""The pictures of the laboratory: rows in, one chart out. They compute nothing that is not layout.

Every function takes rows as the results give them (`low` and `high` may be None: then there is a point and no bar).
Pictures of a field also take the field itself, its metrics, or a result of `ethogram.lab`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ethogram.display.chart import BLUE, GREY, INK, ORANGE, Chart, Spec
from ethogram.display.marks import Rows, chart_of_rows, grouped, intervals, rows_high, x_axis
from ethogram.errors import BadUsage
from ethogram.questions.field import chart_rows as field_rows
from ethogram.questions.field.chart_rows import OneField, Stages
from ethogram.questions.field.field import Field
from ethogram.questions.field.horizon import MembershipRule
from ethogram.questions.field.metrics import FieldMetrics
from ethogram.questions.field.results import CorridorCheck


def compare_variance_bar(
    first: Rows | Field | FieldMetrics,
    second: Field | FieldMetrics | None = None,
    *,
    label_a: str = "first",
    label_b: str = "second",
) -> Chart:
    """Variance per dimension of two fields or their metrics; or rows: dimension, field, value, low, high."""
    if isinstance(first, Field | FieldMetrics):
        if second is None:
            raise BadUsage("two fields are compared; give the second one too")
        first = field_rows.variance_rows({label_a: first, label_b: second})
    words = "how widely attempts differ, by dimension (variance, ddof 0)"
    return grouped(first, "dimension", "field", "variance", words)


def separation_bar(source: Rows | OneField) -> Chart:
    """Success minus failure per dimension, in standard deviations.

    Of a field, its metrics or a result; or rows: dimension, value, low, high, sure.
    """
    rows = field_rows.dimension_rows(source, "separation")
    words = "separation of successes and failures; filled where significant over all dimensions"
    return intervals(rows, "dimension", "successes − failures, in sd", zero=True, words=words)


def skew_bar(source: Rows | OneField) -> Chart:
    """Correlation of each dimension with the outcome.

    Of a field, its metrics or a result; or rows: dimension, value, low, high, sure.
    """
    rows = field_rows.dimension_rows(source, "skew")
    title, words = "correlation with the outcome", "direction of success; filled where significant over all dimensions"
    return intervals(rows, "dimension", title, zero=True, domain=[-1.0, 1.0], words=words)


def horizon_width(source: Stages, rule: MembershipRule | None = None) -> Chart:
    """Width at each stage of the runs that belong to it by `rule`.

    Of a field, several by name or a result; or rows: state, who, value, low, high, order.
    """
    rows, used = field_rows.stage_rows(source, "width", rule)
    rows = field_rows.drawable(rows, "its width")
    return _along(rows, "width, standardised", f"how wide behaviour is among attempts that {used} each stage")


def horizon_convergence(source: Stages, rule: MembershipRule | None = None) -> Chart:
    """Success rate of the runs that belong to each stage by `rule`; takes what `horizon_width` takes."""
    rows, used = field_rows.stage_rows(source, "pass_rate", rule)
    rows = field_rows.drawable(rows, "its success rate")
    return _along(rows, "success rate", f"how often attempts that {used} a stage succeed", domain=[0.0, 1.0])


def drift_lines(source: Stages, rule: MembershipRule | None = None) -> Chart:
    """Drift at each stage, one line per model; takes what `horizon_width` takes."""
    rows, used = field_rows.stage_rows(source, "drift", rule)
    rows = field_rows.drawable(rows, "drift")
    return _along(rows, "drift", f"where failures leave the corridor, among attempts that {used} each stage", zero=True)


def centroid_gap(source: Rows | CorridorCheck, rule: MembershipRule = "visited") -> Chart:
    """Distance from the centre of a corridor at each stage.

    Of the corridor check of a field; or rows: state, who, value, low, high, order.
    """
    used = source.rule if isinstance(source, CorridorCheck) else rule
    rows = field_rows.gap_rows(source) if isinstance(source, CorridorCheck) else source
    words = f"how far the centre lies from the corridor's, among attempts that {used} each stage"
    return _along(field_rows.drawable(rows, "the gap"), "centroid gap, in sd", words, zero=True)


def centroid_pair(
    first: Rows | Field, second: Field | None = None, *, label_a: str = "first", label_b: str = "second"
) -> Chart:
    """Two centres dimension by dimension, of two fields; or rows: dimension, who, value, low, high."""
    if isinstance(first, Field):
        if second is None:
            raise BadUsage("two centres are drawn; give the second field too")
        first = field_rows.centre_rows(first, second, (label_a, label_b))
    rows = first
    color = {"field": "who", "title": None}
    y = {"field": "dimension", "type": "nominal", "title": None, "sort": None}
    layers = [
        {
            "mark": {"type": "line", "color": GREY},
            "encoding": {"detail": {"field": "dimension"}, "x": x_axis("mean, in sd"), "y": y},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 70},
            "encoding": {"x": x_axis("mean, in sd"), "y": y, "color": color, "shape": {"field": "who", "title": None}},
        },
    ]
    return chart_of_rows(rows, {"layer": layers, "height": rows_high(rows, "dimension")}, "two centres side by side")


def point_cloud(source: Rows | Field, explained: Sequence[float] = (0.0, 0.0), *, of: int | None = None) -> Chart:
    """Runs in the plane of the two largest principal components, of a field; or rows: x, y, outcome, label.

    The axes say which share of the variance they carry: what a plane hides must not be guessed. `of` is the number of
    attempts that the rows were chosen from.
    """
    rows, explained = field_rows.cloud_rows(source) if isinstance(source, Field) else (source, explained)
    outcome = {"field": "outcome", "scale": {"domain": ["success", "failure"], "range": [BLUE, ORANGE]}, "title": None}
    first, second = (f"component {i + 1} ({share:.0%} of the variance)" for i, share in enumerate(explained[:2]))
    spec = {
        "mark": {"type": "point", "size": 60, "strokeWidth": 2},
        "encoding": {
            "x": {"field": "x", "type": "quantitative", "title": first},
            "y": {"field": "y", "type": "quantitative", "title": second},
            "color": outcome,
            "shape": {"field": "outcome", "scale": {"domain": ["success", "failure"], "range": ["circle", "cross"]}},
            "tooltip": [{"field": "label"}, {"field": "outcome"}],
        },
    }
    total = sum(explained[:2])
    return chart_of_rows(rows, spec, f"{_some(len(rows), of)} in two of their dimensions, {total:.0%} of the variance")


def parallel_coordinates(rows: Rows, *, of: int | None = None) -> Chart:
    """Runs as lines over all dimensions; rows: run, dimension, value, outcome. `of` is the number of all runs."""
    outcome = {"field": "outcome", "scale": {"domain": ["success", "failure"], "range": [BLUE, ORANGE]}, "title": None}
    spec = {
        "width": 560,
        "mark": {"type": "line", "opacity": 0.45},
        "encoding": {
            "x": {"field": "dimension", "type": "nominal", "title": None, "sort": None, "axis": {"labelAngle": -30}},
            "y": {"field": "value", "type": "quantitative", "title": "standardised"},
            "detail": {"field": "run"},
            "color": outcome,
            "strokeDash": {"field": "outcome", "scale": {"domain": ["success", "failure"]}, "title": None},
        },
    }
    drawn = len({row["run"] for row in rows})
    words = "every attempt" if of is None or drawn >= of else _some(drawn, of)
    return chart_of_rows(rows, spec, f"{words} over all dimensions")


def _some(drawn: int, of: int | None) -> str:
    """Attempts, and how many of how many where a picture holds a part of them."""
    return "attempts" if of is None or drawn >= of else f"{drawn:,} of {of:,} attempts"


def pareto(rows: Rows, noun: str = "failed attempts") -> Chart:
    """Classes of failure by the share of runs that show them, and what the first ones cover together.

    Rows, most frequent first: class, share, covered, owner.
    """
    y = {"field": "class", "type": "nominal", "title": None, "sort": None}
    axis = {"format": ".0%", "tickCount": 5}
    x = {"type": "quantitative", "title": f"share of {noun}", "scale": {"domain": [0, 1]}, "axis": axis}
    covered = {"x": {**x, "field": "covered"}, "y": y}
    layers = [
        {
            "mark": {"type": "bar", "color": BLUE, "opacity": 0.75, "height": {"band": 0.65}},
            "encoding": {"x": {**x, "field": "share"}, "y": y},
        },
        {
            "mark": {"type": "text", "align": "left", "dx": 5, "baseline": "middle", "fontSize": 10},
            "encoding": {"x": {"datum": 0, "type": "quantitative"}, "y": y, "text": {"field": "owner"}},
        },
        {
            "mark": {"type": "line", "color": ORANGE, "strokeWidth": 2, "orient": "vertical"},
            "encoding": {**covered, "order": {"field": "place", "type": "quantitative"}},
        },
        {"mark": {"type": "point", "color": ORANGE, "filled": True, "size": 45}, "encoding": covered},
    ]
    rows = [{**row, "place": i} for i, row in enumerate(rows)]
    words = f"classes of failure with their owner (bars: share of {noun}; line: share that this and those above cover)"
    return chart_of_rows(rows, {"layer": layers, "height": max(60, 30 * len(rows))}, words)


def curves(rows: Rows, x: str, title: str, words: str, domain: Sequence[float] | None = None) -> Chart:
    """Several lines with bands, such as learning curves; rows: x, who, value, low, high."""
    color = {"field": "who", "title": None}
    across = {"field": x, "type": "quantitative", "title": x.replace("_", " ")}
    up = {"type": "quantitative", **({"scale": {"domain": list(domain)}} if domain else {})}
    layers = [
        {
            "mark": {"type": "errorband", "opacity": 0.15},
            "encoding": {"x": across, "y": {"field": "low", "title": title, **up}, "y2": {"field": "high"}},
        },
        {
            "mark": {"type": "line", "strokeWidth": 2},
            "encoding": {"x": across, "y": {"field": "value", **up}, "strokeDash": {"field": "who", "legend": None}},
        },
    ]
    return chart_of_rows(rows, {"layer": layers, "encoding": {"color": color}}, words)


def points_and_band(rows: Rows, label: str, title: str, band: tuple[float, float] | None, words: str) -> Chart:
    """Every value of every row, from 0 to 1, over a band to hold them against; rows: label, value, beyond.

    Points that lie beyond the band are filled, the others hollow; they are spread a little, for many fall together.
    """
    y = {"field": label, "type": "nominal", "title": None, "sort": None}
    filled = {"condition": {"test": "datum.beyond", "value": ORANGE}, "value": "transparent"}
    points: Spec = {
        "mark": {"type": "point", "size": 45, "strokeWidth": 1.5, "opacity": 0.85},
        "encoding": {
            "x": {**x_axis(title, [0.0, 1.0]), "scale": {"domain": [0, 1]}},
            "y": y,
            "yOffset": {"field": "apart", "type": "quantitative"},
            "fill": filled,
            "stroke": {"condition": {"test": "datum.beyond", "value": ORANGE}, "value": BLUE},
        },
    }
    layers = [points]
    rows = [{**row, "apart": round(i * 0.618 % 1, 3)} for i, row in enumerate(rows)]
    if band is not None:
        edges = {"data": {"values": [{"low": band[0], "high": band[1]}]}}
        layers.insert(
            0,
            {
                **edges,
                "mark": {"type": "rect", "color": GREY, "opacity": 0.25},
                "encoding": {"x": {"field": "low", "type": "quantitative"}, "x2": {"field": "high"}},
            },
        )
        layers.append(
            {
                **edges,
                "mark": {"type": "rule", "strokeDash": [5, 4], "color": GREY},
                "encoding": {"x": {"field": "high", "type": "quantitative"}},
            }
        )
    return chart_of_rows(rows, {"layer": layers, "height": rows_high(rows, label)}, words)


def heat_map(rows: Rows, x: str, y: str, title: str, words: str, *, angle: int = 0) -> Chart:
    """A slice of a grid: colour is the value, the number is written into the cell; rows: x, y, value, text.

    Long names on the x axis need an `angle`.
    """
    place = {
        "x": {"field": x, "type": "ordinal", "title": x, "axis": {"labelAngle": angle}},
        "y": {"field": y, "type": "ordinal", "title": y},
    }
    layers = [
        {
            "mark": {"type": "rect"},
            "encoding": {
                **place,
                "color": {
                    "field": "value",
                    "type": "quantitative",
                    "title": title,
                    "scale": {"scheme": "cividis", "domain": [0, 1], "reverse": True},
                },
            },
        },
        {
            "mark": {"type": "text", "fontSize": 10},
            "encoding": {
                **place,
                "text": {"field": "text"},
                "color": {"condition": {"test": "datum.value < 0.5", "value": "black"}, "value": "white"},
            },
        },
    ]
    return chart_of_rows(rows, {"layer": layers, "width": {"step": 46}, "height": {"step": 30}}, words)


def _along(rows: Rows, title: str, words: str, domain: Sequence[float] | None = None, zero: bool = False) -> Chart:
    """Something at each state in the order of states, one line per `who`."""
    x = {"field": "state", "type": "ordinal", "title": None, "sort": {"field": "order"}, "axis": {"labelAngle": -25}}
    up: Spec = {"type": "quantitative", **({"scale": {"domain": list(domain)}} if domain else {})}
    many = len({r["who"] for r in rows}) > 1
    color: Spec = {"field": "who", "title": None, **({} if many else {"legend": None})}
    layers: list[Spec] = []
    if zero:
        layers.append({"mark": {"type": "rule", "color": INK, "opacity": 0.5}, "encoding": {"y": {"datum": 0}}})
    layers += [
        {
            "transform": [{"filter": "datum.low != null"}],
            "mark": {"type": "rule", "strokeWidth": 2, "opacity": 0.6},
            "encoding": {"x": x, "y": {"field": "low", "title": title, **up}, "y2": {"field": "high"}, "color": color},
        },
        {
            "mark": {"type": "line", "point": {"size": 55, "filled": True}},
            "encoding": {
                "x": x,
                "y": {"field": "value", "title": title, **up},
                "color": color,
                "strokeDash": {"field": "who", "legend": None},
            },
        },
    ]
    return chart_of_rows(rows, {"layer": layers}, words)
