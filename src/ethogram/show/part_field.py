"""Why does it fail? The chain of a behaviour field with its pictures, as a part of the report."""

from __future__ import annotations

from typing import Any

from ethogram.estimate import Estimate
from ethogram.lab.field.cloud import Cloud, field_cloud
from ethogram.lab.field.fields import field_of
from ethogram.lab.field.results import FieldResult
from ethogram.store import Run

from . import charts
from .chart import Chart
from .views import Card, Section, TableView, clean_condition, picture, said

MOST_POINTS = 2000
"""How many trajectories are drawn, at most: more cannot be told apart."""
MOST_LINES = 150


def field_part(run: Run) -> tuple[Section, list[Card]] | None:
    """The chain, read aloud, and what it looks like."""
    found = field_of(run, condition=clean_condition(run))
    paragraphs = [step.text for step in found.chain.steps] + [found.advice_text]
    drawn = field_charts(found) + cloud_charts(field_cloud(run, condition=clean_condition(run)))
    notes = [
        "Pictures and text use the default reading: standardised log features, within tasks; "
        "the essay's own definitions are in the JSON of ethogram field.",
        *found.notes,
    ]
    cards = [Card(label="advice", value=found.advice, detail=f"{found.K} traces, {found.d} dimensions")]
    if clean_condition(run) is not None:
        # advice on clean attempts must not stand among the headlines of an experiment about damage
        cards = []
        notes.insert(0, "Only the clean attempts are read here; what the damage did stands in a part of its own.")
    section = Section(
        id="field",
        title="Why does it fail?",
        paragraphs=paragraphs,
        pictures=[picture(c) for c in drawn],
        tables=[_table(found)],
        notes=notes,
    )
    return section, cards


def field_charts(found: FieldResult) -> list[Chart]:
    """Where success and failure part, which way, and along the stages."""
    drawn = []
    parting = _rows(found, "separation")
    if parting:
        drawn.append(charts.separation_bar(parting))
    leaning = _rows(found, "skew")
    if leaning:
        drawn.append(charts.skew_bar(leaning))
    stages = found.horizons
    if len(stages) > 1:
        for name, chart in (
            ("width", charts.horizon_width),
            ("pass_rate", charts.horizon_convergence),
            ("drift", charts.drift_lines),
        ):
            # what the evidence is too thin for has no interval, and a line through it would claim what the text refuses
            rows = [
                {"state": h.state, "order": i, "who": found.run, **_ends(h.estimates[name])}
                for i, h in enumerate(stages)
                if name in h.estimates and h.estimates[name].low is not None
            ]
            if rows:
                drawn.append(chart(rows, found.rule))
    return drawn


def cloud_charts(cloud: Cloud) -> list[Chart]:
    """The runs themselves: in a plane that says what it hides, and over all dimensions."""
    if len(cloud.points) < 2 or not cloud.dimensions:
        return []
    shown = cloud.points[:MOST_POINTS]
    places: list[dict[str, Any]] = [
        {"x": p.x, "y": p.y, "outcome": p.outcome, "label": f"{p.task}, {p.trace_id[:15]}"} for p in shown
    ]
    lines = [
        {"run": p.trace_id, "dimension": name, "value": value, "outcome": p.outcome}
        for p in shown[:MOST_LINES]
        for name, value in p.values.items()
    ]
    drawn = [charts.point_cloud(places, cloud.explained)]
    return [*drawn, charts.parallel_coordinates(lines)] if len(cloud.dimensions) > 2 else drawn


def _rows(found: FieldResult, name: str) -> list[dict[str, Any]]:
    """One row per dimension that has this estimate, those that are surest first."""
    chosen = [
        (row.adjusted if row.adjusted is not None else 2.0, dimension, row.estimates[name])
        for dimension, row in found.dimensions.items()
        if name in row.estimates and row.estimates[name].value is not None
    ]
    alpha = 1 - found.level
    return [
        {"dimension": dimension, "sure": adjusted <= alpha, **_ends(estimate)}
        for adjusted, dimension, estimate in sorted(chosen, key=lambda c: c[0])
    ]


def _ends(estimate: Estimate) -> dict[str, Any]:
    finite = estimate.low is not None and estimate.high is not None and abs(estimate.high) != float("inf")
    return {
        "value": estimate.value,
        "low": estimate.low if finite else None,
        "high": estimate.high if finite else None,
    }


def _table(found: FieldResult) -> TableView:
    rows = []
    for name, row in found.dimensions.items():
        parting = row.estimates.get("separation")
        center = row.estimates.get("center")
        rows.append(
            [
                name,
                said(center, 2) if center is not None else f"{row.mean:.3g}",
                said(parting, 2) if parting is not None else "–",
                "–" if row.adjusted is None else f"{row.adjusted:.3f}",
            ]
        )
    return TableView(
        columns=["dimension", "mean over tasks", "successes − failures, in sd", "p, adjusted"],
        rows=rows,
        caption=f"{found.K} traces of {found.tasks} tasks: {found.successes} succeeded, {found.failures} failed",
    )
