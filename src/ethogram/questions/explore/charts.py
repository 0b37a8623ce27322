"""Pictures of an exploration: slices with their uncertainty, what matters, and how it learned. They compute nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ethogram.display.chart import BLUE, GREY, ORANGE, PALETTE, PURPLE, Chart
from ethogram.display.charts import WIDTH, Rows, curves, heat_map

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
    drawn = heat_map(cells, x, y, "failure rate", words)
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
    drawn = curves(whole, "episodes", "share of the points", words, [0.0, 1.0])
    one_legend(drawn, {who: COLOURS[who] for who in dict.fromkeys(str(r["who"]) for r in rows)})
    return drawn


class Figure(NamedTuple):
    """What is drawn against episodes: its axis, what the picture shows, and where the axis ends."""

    title: str
    words: str
    domain: tuple[float, float] | None


FIGURES: dict[str, Figure] = {
    "balanced_accuracy": Figure(
        "balanced accuracy", "how fast each strategy learns which points are unsafe", (0.45, 1.0)
    ),
    "recall_unsafe": Figure(
        "recall of unsafe points", "recall of unsafe points is full before anybody has looked", (0.0, 1.0)
    ),
    "specificity": Figure("specificity", "how soon each strategy calls the safe points safe", (0.0, 1.0)),
    "tube_var_sum": Figure("tube_var_sum", "tube_var_sum is smallest where nothing was explored", None),
}
"""The figures of a race, by their name in its rows."""


DRAWN = ("balanced_accuracy", "tube_var_sum", "recall_unsafe")
"""What the picture of a race shows: the figure to read, then the two of the first version beside it."""


DASHES: tuple[tuple[int, ...], ...] = ((1, 0), (6, 3), (2, 2), (8, 3, 2, 3), (4, 4), (12, 4), (2, 5))
"""One more than there are colours: the seventh line has the first colour and a dash of its own."""


def learning_curves(rows: Rows, metric: str = "balanced_accuracy") -> Chart:
    """A figure of a race against episodes; rows: episodes, strategy, value, low, high (ends may be lacking).

    Episodes are on a logarithmic axis, for strategies differ by factors.
    """
    figure = FIGURES[metric]
    drawn = curves([_row(r) for r in rows], "episodes", figure.title, figure.words, figure.domain)
    names = list(dict.fromkeys(str(r["strategy"]) for r in rows))
    one_legend(drawn, {name: PALETTE[i % len(PALETTE)] for i, name in enumerate(names)})
    for layer in drawn.spec["layer"]:
        layer["encoding"]["x"].update(scale={"type": "log", "nice": False}, axis={"format": "~s"})
    return drawn


def race_picture(curves: Mapping[str, Rows]) -> Chart:
    """Several figures of one race below each other, each with its own axis; `curves` has the rows of each by name."""
    drawn = {metric: learning_curves(rows, metric) for metric, rows in curves.items()}
    panels = [{k: v for k, v in each.spec.items() if k not in ("$schema", "config")} for each in drawn.values()]
    return Chart({"vconcat": panels}, "; ".join(each.words for each in drawn.values()))


def one_legend(drawn: Chart, colours: Mapping[str, str]) -> None:
    """Give the lines of `curves` their colours and dashes in this order, told in one legend.

    Bands and lines would each add a legend: they get scales of their own, and only the lines tell of theirs.
    """
    order = list(colours)
    scale = {"domain": order, "range": list(colours.values())}
    dashes = {"domain": order, "range": [list(DASHES[i % len(DASHES)]) for i in range(len(order))]}
    band, line = drawn.spec["layer"]
    drawn.spec.pop("encoding", None)
    band["encoding"]["color"] = {"field": "who", "scale": scale, "legend": None}
    line["encoding"]["color"] = {"field": "who", "scale": scale, "title": None}
    line["encoding"]["strokeDash"] = {"field": "who", "scale": dashes, "title": None}
    drawn.spec["resolve"] = {"scale": {"color": "independent", "strokeDash": "independent"}}


def _row(row: dict[str, Any]) -> dict[str, Any]:
    value, low, high = row["value"], row.get("low"), row.get("high")
    return {
        "episodes": row["episodes"],
        "who": str(row["strategy"]),
        "value": value,
        "low": value if low is None else low,
        "high": value if high is None else high,
    }
