"""Pictures of an exploration: slices with their uncertainty, what matters, and how it learned. They compute nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ethogram.display.chart import BLUE, GREY, ORANGE, PURPLE, Chart
from ethogram.display.marks import WIDTH, Rows
from ethogram.viewer.report import charts

from .race_charts import one_legend

CELL_WIDE, CELL_LINE, LINE = 78, 14, 12
COLOURS = {"safe": BLUE, "unsafe": ORANGE, "undecided": GREY, "visited": PURPLE}


def rate_map(rows: Rows, x: str, y: str, values: Sequence[Sequence[Any]], words: str) -> Chart:
    """Failure rates of a slice: rate, interval and verdict in each cell; rows: x, y, rate, low, high, verdict.

    `values` are those of x and of y in the order of the grid. A row without a verdict has two lines.
    """
    lines = 3 if any(r.get("verdict") for r in rows) else 2
    cells = [
        {x: str(r["x"]), y: str(r["y"]), "value": r["rate"], "text": "\n".join(_cell_lines(r))}
        for r in rows
        if r["rate"] is not None
    ]
    drawn = charts.heat_map(cells, x, y, "failure rate", words)
    drawn.spec["width"], drawn.spec["height"] = {"step": CELL_WIDE}, {"step": CELL_LINE * lines + 8}
    across, up = ([str(v) for v in each] for each in values)
    for layer in drawn.spec["layer"]:
        layer["encoding"]["x"]["sort"] = across
        layer["encoding"]["y"]["sort"] = up[::-1]  # larger values lie higher
    write = drawn.spec["layer"][1]["mark"]
    write.update(lineBreak="\n", lineHeight=LINE, baseline="middle", dy=-LINE * (lines - 1) / 2)
    return drawn


def _cell_lines(row: dict[str, Any]) -> list[str]:
    told = [f"{row['rate']:.2f}"]
    told.append("" if row["low"] is None or row["high"] is None else f"{row['low']:.2f}–{row['high']:.2f}")
    return [*told, str(row["verdict"])] if row.get("verdict") else told


def effect_intervals(rows: Rows) -> Chart:
    """How much each effect explains, with its interval; rows: effect, share, low, high."""
    y = {"field": "effect", "type": "nominal", "title": None, "sort": None, "axis": {"labelLimit": 320}}
    title = "share of the variation of the failure rate"
    scale = {
        "type": "quantitative",
        "title": title,
        "scale": {"domain": [0, 1]},
        "axis": {"format": ".0%", "tickCount": 5},
    }
    layers = [
        {
            "transform": [{"filter": "datum.low != null"}],
            "mark": {"type": "rule", "strokeWidth": 2, "color": BLUE},
            "encoding": {"x": {"field": "low", **scale}, "x2": {"field": "high"}, "y": y},
        },
        {
            "mark": {"type": "point", "size": 70, "filled": True, "opacity": 1, "color": BLUE},
            "encoding": {"x": {"field": "share", **scale}, "y": y},
        },
    ]
    height = max(60, 22 * len(rows))
    spec = {"data": {"values": list(rows)}, "width": WIDTH, "height": height, "layer": layers}
    return Chart(spec, "which settings matter, alone and two together")


def rounds_curve(rows: Rows) -> Chart:
    """What was known after each round; rows: episodes, who (safe, unsafe, …), value."""
    whole = [{**r, "low": r["value"], "high": r["value"]} for r in rows if r["value"] is not None]
    words = "how the map was decided, round by round"
    drawn = charts.curves(whole, "episodes", "share of the points", words, [0.0, 1.0])
    one_legend(drawn, {who: COLOURS[who] for who in dict.fromkeys(str(r["who"]) for r in rows)})
    return drawn
