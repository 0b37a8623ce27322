"""Charts that results and the report share: rows in, one chart out. They compute nothing.

Rows are as results give them (`low` and `high` may be None: then there is a point and no bar).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .chart import BLUE, GREY, INK, ORANGE, Chart, Spec

WIDTH, HEIGHT = 420, 230

Rows = Sequence[dict[str, Any]]


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
    return chart_of_rows(rows, {"layer": layers, "encoding": {"color": color}}, words)


def bars(rows: Rows, label: str, value: str, title: str, words: str) -> Chart:
    """Plain horizontal bars in the order given; rows: label, value. Counts have whole numbers on their axis."""
    whole = {"tickMinStep": 1, "format": "d"} if all(isinstance(row[value], int) for row in rows) else {}
    spec = {
        "height": rows_high(rows, label),
        "mark": {"type": "bar", "color": BLUE, "height": {"band": 0.65}},
        "encoding": {
            "x": {"field": value, "type": "quantitative", "title": title, "axis": whole},
            "y": {"field": label, "type": "nominal", "title": None, "sort": None},
        },
    }
    return chart_of_rows(rows, spec, words)


def intervals(
    rows: Rows, label: str, title: str, *, zero: bool, words: str, domain: Sequence[float] | None = None
) -> Chart:
    """A dot with its interval per row; filled where something is established, hollow where not."""
    y = {"field": label, "type": "nominal", "title": None, "sort": None, "axis": {"labelLimit": 280}}
    across = x_axis(title, domain)
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
    return chart_of_rows(rows, {"layer": layers, "height": rows_high(rows, label)}, words)


def looks_chart(rows: Rows, margin: float) -> Chart:
    """A gate at work: the change at each look, at worst, and the margin; rows: runs, change, worst_case, decision."""
    x = {"field": "runs", "type": "quantitative", "title": "attempts of the candidate"}
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
    return chart_of_rows(
        rows, {"layer": layers}, "the change at every look, up to what is not ruled out; dashed: the margin"
    )


def grouped(rows: Rows, label: str, series: str, title: str, words: str) -> Chart:
    """Bars side by side, one of each series per label; rows: label, series, value."""
    many = len({r[series] for r in rows}) > 1
    y: Spec = {"field": label, "type": "nominal", "title": None, "sort": None}
    encoding: Spec = {
        "x": x_axis(title),
        "y": y,
        "color": {"field": series, "title": None, **({} if many else {"legend": None})},
    }
    if many:
        encoding["yOffset"] = {"field": series}
    spec = {"mark": {"type": "bar"}, "encoding": encoding, "height": rows_high(rows, label) * (2 if many else 1)}
    return chart_of_rows(rows, spec, words)


def x_axis(title: str, domain: Sequence[float] | None = None) -> Spec:
    """The encoding of the column `value` along x."""
    scale = {"scale": {"domain": list(domain)}} if domain else {}
    return {"field": "value", "type": "quantitative", "title": title, **scale}


def rows_high(rows: Rows, label: str) -> int:
    """The height of a chart with a line for each label."""
    return max(60, 22 * len({r[label] for r in rows}))


def chart_of_rows(rows: Rows, spec: Spec, words: str) -> Chart:
    """A chart of the usual size; `words` say what it shows."""
    return Chart({"data": {"values": list(rows)}, "width": WIDTH, "height": HEIGHT, **spec}, words)


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
