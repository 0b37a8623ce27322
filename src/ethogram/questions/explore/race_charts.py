"""Learning curves: a figure against episodes, one line per strategy. Rows in, one chart out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ethogram.display.chart import PALETTE, Chart
from ethogram.display.marks import Rows
from ethogram.viewer.report import charts


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
    drawn = charts.curves([_row(r) for r in rows], "episodes", figure.title, figure.words, figure.domain)
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
    """Give the lines of `charts.curves` their colours and dashes in this order, told in one legend.

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
