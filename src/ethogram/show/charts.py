"""The pictures of the laboratory: rows in, one chart out. They compute nothing that is not layout.

Every function takes rows as the results give them (`low` and `high` may be None: then there is a point and no bar).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .chart import BLUE, GREY, INK, ORANGE, Chart, Spec

Rows = Sequence[dict[str, Any]]
WIDTH, HEIGHT = 420, 230


def reliability_curve(rows: Rows, same_tasks: bool = True) -> Chart:
    """pass@k and pass^k against k with bands; rows: k, kind, value, low, high.

    Where k do not share their tasks, points are not joined, for they are no curve.
    """
    kinds = ["pass@k", "pass^k"]
    color = {"field": "kind", "scale": {"domain": kinds, "range": [BLUE, ORANGE]}, "title": None}
    x = {"field": "k", "type": "quantitative", "title": "k attempts", "axis": {"tickMinStep": 1, "format": "d"}}
    share = {"type": "quantitative", "scale": {"domain": [0, 1]}, "axis": {"format": ".0%"}}
    layers = [
        {
            "mark": {"type": "errorband", "opacity": 0.18},
            "encoding": {"x": x, "y": {"field": "low", "title": "share of tasks", **share}, "y2": {"field": "high"}},
        },
        {
            "mark": {"type": "line", "strokeWidth": 2 if same_tasks else 0},
            "encoding": {"x": x, "y": {"field": "value", **share}, "strokeDash": {**color, "scale": {"domain": kinds}}},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 55},
            "encoding": {"x": x, "y": {"field": "value", **share}, "shape": {"field": "kind", "legend": None}},
        },
    ]
    words = "pass@k rises and pass^k falls with k" if same_tasks else "pass@k and pass^k, each k over other tasks"
    return _chart(rows, {"layer": layers, "encoding": {"color": color}}, words)


def task_rates(rows: Rows) -> Chart:
    """Pass rate per task with interval; rows: task, value, low, high."""
    return _intervals(rows, "task", "pass rate", zero=False, domain=[0.0, 1.0], words="pass rate of every task")


def compare_variance_bar(rows: Rows) -> Chart:
    """Variance per dimension of two or more fields; rows: dimension, field, value, low, high."""
    return _grouped(rows, "dimension", "field", "variance, standardised", "how widely runs differ, by dimension")


def separation_bar(rows: Rows) -> Chart:
    """Success minus failure per dimension, in standard deviations; rows: dimension, value, low, high, sure."""
    return _intervals(
        rows, "dimension", "successes − failures, in sd", zero=True, words="where success and failure part"
    )


def skew_bar(rows: Rows) -> Chart:
    """Correlation of each dimension with the outcome; rows: dimension, value, low, high, sure."""
    return _intervals(
        rows, "dimension", "correlation with the outcome", zero=True, domain=[-1.0, 1.0], words="which way success lies"
    )


def horizon_width(rows: Rows, rule: str = "visited") -> Chart:
    """Width at each state of the runs that belong to it by `rule`; rows: state, who, value, low, high, order."""
    return _along(rows, "width, standardised", f"how wide behaviour is among runs that {rule} each stage")


def horizon_convergence(rows: Rows, rule: str = "visited") -> Chart:
    """Success rate of the runs that belong to each state by `rule`; rows: state, who, value, low, high, order."""
    return _along(rows, "success rate", f"how often runs that {rule} a stage succeed", domain=[0.0, 1.0])


def drift_lines(rows: Rows, rule: str = "visited") -> Chart:
    """Drift at each state, one line per model; rows: state, who, value, low, high, order."""
    return _along(rows, "drift", f"where failures leave the corridor, among runs that {rule} each stage", zero=True)


def centroid_gap(rows: Rows) -> Chart:
    """Distance between two centres at each state; rows: state, who, value, low, high, order."""
    return _along(rows, "centroid gap, in sd", "how far the centre lies from the corridor's", zero=True)


def centroid_pair(rows: Rows) -> Chart:
    """Two centres dimension by dimension; rows: dimension, who, value, low, high."""
    color = {"field": "who", "title": None}
    y = {"field": "dimension", "type": "nominal", "title": None, "sort": None}
    layers = [
        {
            "mark": {"type": "line", "color": GREY},
            "encoding": {"detail": {"field": "dimension"}, "x": _x("mean, in sd"), "y": y},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 70},
            "encoding": {"x": _x("mean, in sd"), "y": y, "color": color, "shape": {"field": "who", "title": None}},
        },
    ]
    return _chart(rows, {"layer": layers, "height": _rows_high(rows, "dimension")}, "two centres side by side")


def point_cloud(rows: Rows, explained: Sequence[float]) -> Chart:
    """Runs in the plane of the two largest principal components; rows: x, y, outcome, label.

    The axes say which share of the variance they carry: what a plane hides must not be guessed.
    """
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
    return _chart(rows, spec, f"runs in two of their dimensions, {total:.0%} of the variance")


def parallel_coordinates(rows: Rows) -> Chart:
    """Every run as a line over all dimensions; rows: run, dimension, value, outcome."""
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
    return _chart(rows, spec, "every run over all dimensions")


def looks_chart(rows: Rows, margin: float) -> Chart:
    """A gate at work: the change at each look, at worst, and the margin; rows: runs, change, worst_case, decision."""
    x = {"field": "runs", "type": "quantitative", "title": "runs of the candidate"}
    layers: list[Spec] = [
        {
            "mark": {"type": "rule", "strokeDash": [5, 4], "color": ORANGE},
            "encoding": {"y": {"datum": margin, "type": "quantitative"}},
        },
        {
            "mark": {"type": "area", "opacity": 0.15, "color": BLUE},
            "encoding": {"x": x, "y": {"field": "change", "type": "quantitative"}, "y2": {"field": "worst_case"}},
        },
        {
            "mark": {"type": "line", "point": True, "color": BLUE},
            "encoding": {"x": x, "y": {"field": "change", "type": "quantitative", "title": "change for the worse"}},
        },
    ]
    return _chart(rows, {"layer": layers}, "the change at every look, up to what is not ruled out; dashed: the margin")


def bars(rows: Rows, label: str, value: str, title: str, words: str) -> Chart:
    """Plain horizontal bars, largest first as given; rows: label, value."""
    spec = {
        "height": _rows_high(rows, label),
        "mark": {"type": "bar", "color": BLUE, "height": {"band": 0.65}},
        "encoding": {
            "x": {"field": value, "type": "quantitative", "title": title},
            "y": {"field": label, "type": "nominal", "title": None, "sort": None},
        },
    }
    return _chart(rows, spec, words)


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
    return _chart(rows, {"layer": layers, "encoding": {"color": color}}, words)


def points_and_band(rows: Rows, label: str, title: str, band: tuple[float, float] | None, words: str) -> Chart:
    """Every value of every row, from 0 to 1, over a band to hold them against; rows: label, value, beyond.

    Points that lie beyond the band are filled, the others hollow; they are spread a little, for many fall together.
    """
    y = {"field": label, "type": "nominal", "title": None, "sort": None}
    filled = {"condition": {"test": "datum.beyond", "value": ORANGE}, "value": "transparent"}
    points: Spec = {
        "mark": {"type": "point", "size": 45, "strokeWidth": 1.5, "opacity": 0.85},
        "encoding": {
            "x": {**_x(title, [0.0, 1.0]), "scale": {"domain": [0, 1]}},
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
    return _chart(rows, {"layer": layers, "height": _rows_high(rows, label)}, words)


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
    return _chart(rows, {"layer": layers, "width": {"step": 46}, "height": {"step": 30}}, words)


def _intervals(
    rows: Rows, label: str, title: str, *, zero: bool, words: str, domain: Sequence[float] | None = None
) -> Chart:
    """A dot with its interval per row; filled where something is established, hollow where not."""
    y = {"field": label, "type": "nominal", "title": None, "sort": None}
    across = _x(title, domain)
    whole = [r for r in rows if r.get("low") is not None and r.get("high") is not None]
    layers: list[Spec] = []
    if zero:
        layers.append({"mark": {"type": "rule", "color": INK, "opacity": 0.5}, "encoding": {"x": {"datum": 0}}})
    if whole:
        layers.append(
            {
                "transform": [{"filter": "datum.low != null"}],
                "mark": {"type": "rule", "strokeWidth": 2, "color": BLUE},
                "encoding": {"x": {**across, "field": "low"}, "x2": {"field": "high"}, "y": y},
            }
        )
    layers.append(
        {
            "mark": {"type": "point", "size": 70, "strokeWidth": 2, "color": BLUE, "stroke": BLUE},
            "encoding": {
                "x": across,
                "y": y,
                "fill": {"condition": {"test": "datum.sure !== false", "value": BLUE}, "value": "transparent"},
            },
        }
    )
    return _chart(rows, {"layer": layers, "height": _rows_high(rows, label)}, words)


def _grouped(rows: Rows, label: str, series: str, title: str, words: str) -> Chart:
    many = len({r[series] for r in rows}) > 1
    y: Spec = {"field": label, "type": "nominal", "title": None, "sort": None}
    encoding: Spec = {
        "x": _x(title),
        "y": y,
        "color": {"field": series, "title": None, **({} if many else {"legend": None})},
    }
    if many:
        encoding["yOffset"] = {"field": series}
    spec = {"mark": {"type": "bar"}, "encoding": encoding, "height": _rows_high(rows, label) * (2 if many else 1)}
    return _chart(rows, spec, words)


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
    return _chart(rows, {"layer": layers}, words)


def _x(title: str, domain: Sequence[float] | None = None) -> Spec:
    scale = {"scale": {"domain": list(domain)}} if domain else {}
    return {"field": "value", "type": "quantitative", "title": title, **scale}


def _rows_high(rows: Rows, label: str) -> int:
    return max(60, 22 * len({r[label] for r in rows}))


def _chart(rows: Rows, spec: Spec, words: str) -> Chart:
    return Chart({"data": {"values": list(rows)}, "width": WIDTH, "height": HEIGHT, **spec}, words)
