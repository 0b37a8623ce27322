"""Charts of a field: rows in, one chart out. They compute nothing that is not layout.

Every function takes rows as the results give them (`low` and `high` may be None: then there is a point and no bar), or
the field itself, its metrics or a result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ethogram.display.chart import BLUE, GREY, INK, ORANGE, Chart, Spec
from ethogram.display.charts import Rows, chart_of_rows, grouped, intervals, rows_high, x_axis
from ethogram.errors import BadUsage, Refused
from ethogram.estimate import Estimate
from ethogram.traces import SUCCESS_AT

from .chain import walk
from .field import Field
from .horizon import MembershipRule
from .metrics import DimensionReading, FieldMetrics
from .projection import centres, project
from .results import CorridorCheck, FieldResult


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
        first = variance_rows({label_a: first, label_b: second})
    words = "how widely attempts differ, by dimension (variance, ddof 0)"
    return grouped(first, "dimension", "field", "variance", words)


def separation_bar(source: Rows | OneField) -> Chart:
    """Success minus failure per dimension, in standard deviations.

    Of a field, its metrics or a result; or rows: dimension, value, low, high, sure.
    """
    rows = dimension_rows(source, "separation")
    words = "separation of successes and failures; filled where significant over all dimensions"
    return intervals(rows, "dimension", "successes − failures, in sd", zero=True, words=words)


def skew_bar(source: Rows | OneField) -> Chart:
    """Correlation of each dimension with the outcome.

    Of a field, its metrics or a result; or rows: dimension, value, low, high, sure.
    """
    rows = dimension_rows(source, "skew")
    title, words = "correlation with the outcome", "direction of success; filled where significant over all dimensions"
    return intervals(rows, "dimension", title, zero=True, domain=[-1.0, 1.0], words=words)


def horizon_width(source: Stages, rule: MembershipRule | None = None) -> Chart:
    """Width at each stage of the runs that belong to it by `rule`.

    Of a field, several by name or a result; or rows: state, who, value, low, high, order.
    """
    rows, used = stage_rows(source, "width", rule)
    rows = drawable(rows, "its width")
    return _along(rows, "width, standardised", f"how wide behaviour is among attempts that {used} each stage")


def horizon_convergence(source: Stages, rule: MembershipRule | None = None) -> Chart:
    """Success rate of the runs that belong to each stage by `rule`; takes what `horizon_width` takes."""
    rows, used = stage_rows(source, "pass_rate", rule)
    rows = drawable(rows, "its success rate")
    return _along(rows, "success rate", f"how often attempts that {used} a stage succeed", domain=[0.0, 1.0])


def drift_lines(source: Stages, rule: MembershipRule | None = None) -> Chart:
    """Drift at each stage, one line per model; takes what `horizon_width` takes."""
    rows, used = stage_rows(source, "drift", rule)
    rows = drawable(rows, "drift")
    return _along(rows, "drift", f"where failures leave the corridor, among attempts that {used} each stage", zero=True)


def centroid_gap(source: Rows | CorridorCheck, rule: MembershipRule = "visited") -> Chart:
    """Distance from the centre of a corridor at each stage.

    Of the corridor check of a field; or rows: state, who, value, low, high, order.
    """
    used = source.rule if isinstance(source, CorridorCheck) else rule
    rows = gap_rows(source) if isinstance(source, CorridorCheck) else source
    words = f"how far the centre lies from the corridor's, among attempts that {used} each stage"
    return _along(drawable(rows, "the gap"), "centroid gap, in sd", words, zero=True)


def centroid_pair(
    first: Rows | Field, second: Field | None = None, *, label_a: str = "first", label_b: str = "second"
) -> Chart:
    """Two centres dimension by dimension, of two fields; or rows: dimension, who, value, low, high."""
    if isinstance(first, Field):
        if second is None:
            raise BadUsage("two centres are drawn; give the second field too")
        first = centre_rows(first, second, (label_a, label_b))
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
    rows, explained = cloud_rows(source) if isinstance(source, Field) else (source, explained)
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


OneField = Field | FieldMetrics | FieldResult
"""A field, its metrics, or what `field` answered about it."""


Stages = Rows | Field | FieldResult | Mapping[str, Field]
"""Rows, one field, or several by name: then there is one line for each."""


def dimension_rows(source: Rows | OneField, metric: str) -> Rows:
    """One row per dimension that has this metric, those that are surest first."""
    if isinstance(source, Field):
        source = source.metrics()
    if isinstance(source, FieldMetrics):
        report = source.report()
        return _by_sureness({d.name: d for d in report.dimensions}, metric, 0.05)
    if isinstance(source, FieldResult):
        return _by_sureness(source.dimensions, metric, 1 - source.level)
    return source


def _by_sureness(dimensions: Mapping[str, Any], metric: str, alpha: float) -> Rows:
    def adjusted(row: DimensionReading) -> float:
        return row.adjusted if row.adjusted is not None else 2.0

    chosen = [(name, row) for name, row in dimensions.items() if _value(row.estimates, metric) is not None]
    return [
        {"dimension": name, "sure": adjusted(row) <= alpha, **ends(row.estimates[metric])}
        for name, row in sorted(chosen, key=lambda item: adjusted(item[1]))
    ]


def stage_rows(source: Stages, metric: str, rule: MembershipRule | None) -> tuple[Rows, MembershipRule]:
    """One row per stage and field, and the rule by which runs belong to a stage.

    A stage whose evidence is too thin for an interval has no row: a line through it would claim what the text refuses.
    """
    if isinstance(source, FieldResult):
        stages: list[tuple[str, Sequence[Any]]] = [(source.run, source.horizons)]
        used = source.rule
        if rule not in (None, used):
            raise BadUsage(f"this field was read by the rule {used!r}; ask for the field with rule={rule!r}")
    elif isinstance(source, Field | Mapping):
        used = rule or "visited"
        fields = {"all": source} if isinstance(source, Field) else source
        stages = [(who, walk(field, used)) for who, field in fields.items()]
    else:
        return source, rule or "visited"
    rows = [
        {"state": h.state, "order": i, "who": who, **ends(h.estimates[metric])}
        for who, horizons in stages
        for i, h in enumerate(horizons)
        if metric in h.estimates and h.estimates[metric].low is not None
    ]
    return rows, used


def drawable(rows: Rows, what: str) -> Rows:
    """The rows, or a refusal where there is none."""
    if not rows:
        raise Refused(
            f"no stage has enough attempts to draw {what}; run each task more often", have=0, need=1, of="stages"
        )
    return rows


def variance_rows(fields: Mapping[str, Field | FieldMetrics]) -> Rows:
    """The variance of every dimension of every field, as the essay defines it."""
    rows = []
    for name, source in fields.items():
        metrics = source.metrics() if isinstance(source, Field) else source
        for dimension, row in metrics.summary()["dimensions"].items():
            rows.append({"dimension": dimension, "field": name, "value": row["variance"]})
    return rows


def gap_rows(found: CorridorCheck) -> Rows:
    """The distance of the centre from that of the corridor at each stage."""
    return [
        {"state": g.state, "order": i, "who": found.name, **ends(g.distance)}
        for i, g in enumerate(found.gaps)
        if g.distance.value is not None
    ]


def centre_rows(first: Field, second: Field, names: tuple[str, str]) -> Rows:
    """Both centres dimension by dimension, in standard deviations, on the tasks that both have."""
    return [
        {"dimension": c.dimension, "who": who, "value": value}
        for c in centres(first, second)
        for who, value in zip(names, (c.first, c.second), strict=True)
    ]


def cloud_rows(field: Field) -> tuple[Rows, list[float]]:
    """Runs in the plane of two principal components, and the shares of the variance that its axes carry."""
    flat = project(field)
    two = [*flat.places.T, *([[0.0] * field.K] * 2)][:2]
    rows = [
        {"x": float(x), "y": float(y), "outcome": "success" if good else "failure", "label": episode}
        for x, y, good, episode in zip(*two, field.outcomes >= SUCCESS_AT, field.episodes, strict=True)
    ]
    return rows, [*(float(x) for x in flat.explained), 0.0, 0.0][:2]


def ends(estimate: Estimate) -> dict[str, Any]:
    """An estimate as a point and its interval; one without end is drawn as a point."""
    finite = estimate.low is not None and estimate.high is not None and abs(estimate.high) != float("inf")
    return {
        "value": estimate.value,
        "low": estimate.low if finite else None,
        "high": estimate.high if finite else None,
    }


def _value(estimates: Mapping[str, Estimate], metric: str) -> float | None:
    return estimates[metric].value if metric in estimates else None
