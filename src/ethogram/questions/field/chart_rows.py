"""Fields and their metrics as rows of a picture, so that a chart takes what the laboratory gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ethogram.display.marks import Rows
from ethogram.errors import BadUsage, Refused
from ethogram.estimate import Estimate
from ethogram.traces import SUCCESS_AT

from .field import Field
from .horizon import MembershipRule
from .metrics import DimensionReading, FieldMetrics
from .projection import centres, project
from .results import CorridorCheck, FieldResult
from .stages import walk

OneField = Field | FieldMetrics | FieldResult
"""A field, its metrics, or what `ethogram.lab` answered about it."""
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
