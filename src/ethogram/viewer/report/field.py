"""The part of a report about behaviour: the summary of a behaviour field with its pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from ethogram.display.chart import Chart
from ethogram.questions.field import charts
from ethogram.questions.field.charts import dimension_rows, gap_rows, stage_rows
from ethogram.questions.field.cloud import Cloud, field_cloud
from ethogram.questions.field.field import Field
from ethogram.questions.field.horizon import MembershipRule
from ethogram.questions.field.question import field
from ethogram.questions.field.results import FieldResult
from ethogram.reading.outcomes import clean_condition
from ethogram.store import Run

from .views import Card, Section, TableView, picture, said

TITLE = "How does behaviour differ?"
MOST_POINTS = 2000
"""How many trajectories are drawn, at most: more cannot be distinguished."""
MOST_LINES = 150


class FieldReading(msgspec.Struct, frozen=True, kw_only=True):
    """How behaviour is read: as the options of `ethogram field` say."""

    field: str | type[Field] | None = None
    states: str | Path | None = None
    corridor: str | Path | None = None
    rule: MembershipRule = "visited"
    reading: str = "steps"
    preset: str | None = None


def field_part(how: FieldReading, run: Run) -> tuple[Section, list[Card]] | None:
    """The summary in words, its tables and its pictures."""
    clean = clean_condition(run)
    found = field(run, condition=clean, **msgspec.structs.asdict(how))
    cloud = field_cloud(run, condition=clean, field=how.field, reading=how.reading, preset=how.preset or "standard")
    notes = [
        "Standardised log features, within tasks; the plain metrics are in the JSON of ethogram field.",
        *found.notes,
    ]
    cards = [Card(label="advice", value=found.advice, detail=f"{found.K} traces, {found.d} dimensions")]
    if clean is not None:
        # advice on clean attempts is no headline of an experiment about damage
        cards = []
        notes.insert(0, "Only the clean attempts are read here; the effect of the damage has its own part.")
    section = Section(
        id="field",
        title=TITLE,
        lead=found.advice_text,
        paragraphs=_against_corridor(found),
        pictures=[picture(c) for c in field_charts(found) + cloud_charts(cloud)],
        tables=[_chain(found), _table(found), *_corridor(found), *_stages(found)],
        notes=notes,
    )
    return section, cards


def field_charts(found: FieldResult) -> list[Chart]:
    """Separation, skew and the stages; nothing is drawn that the summary refuses."""
    drawn = []
    for metric, bar in (("separation", charts.separation_bar), ("skew", charts.skew_bar)):
        if dimension_rows(found, metric):
            drawn.append(bar(found))
    if len(found.horizons) > 1:
        for metric, line in (
            ("width", charts.horizon_width),
            ("pass_rate", charts.horizon_convergence),
            ("drift", charts.drift_lines),
        ):
            if stage_rows(found, metric, None)[0]:
                drawn.append(line(found))
    if found.corridor is not None and len(gap_rows(found.corridor)) > 1:
        drawn.append(charts.centroid_gap(found.corridor))
    return drawn


def cloud_charts(cloud: Cloud) -> list[Chart]:
    """The attempts as points: in a plane with its share of the spread, and over all dimensions."""
    if len(cloud.points) < 2 or not cloud.dimensions:
        return []
    shown = cloud.thinned(MOST_POINTS)
    places: list[dict[str, Any]] = [
        {"x": p.x, "y": p.y, "outcome": p.outcome, "label": f"{p.task}, {p.trace_id[:15]}"} for p in shown.points
    ]
    few = cloud.thinned(MOST_LINES)
    lines = [
        {"run": p.trace_id, "dimension": name, "value": value, "outcome": p.outcome}
        for p in few.points
        for name, value in p.values.items()
    ]
    drawn = [charts.point_cloud(places, cloud.explained, of=len(cloud.points))]
    if len(cloud.dimensions) > 2:
        drawn.append(charts.parallel_coordinates(lines, of=len(cloud.points)))
    return drawn


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


def _chain(found: FieldResult) -> TableView:
    """The summary question by question, folded."""
    rows = [[step.question, step.answer, step.text] for step in found.chain.steps]
    return TableView(
        columns=["question", "answer", "in words"], rows=rows, caption="The field, question by question", folded=True
    )


def _against_corridor(found: FieldResult) -> list[str]:
    """Whether the attempts left the corridor that they are compared with."""
    check = found.corridor
    if check is None:
        return []
    outside = sum(a.inside is False for a in check.adherence)
    if check.alarm.raised is None:
        told = f"no verdict: {check.alarm.why}"
    else:
        p = "" if check.alarm.p is None else f" (p = {check.alarm.p:.2g})"
        told = f"{'left the corridor' if check.alarm.raised else 'within the corridor'}{p}"
    return [
        f"Against the corridor {check.name} ({check.K} attempts): {told}; {outside} of {len(check.adherence)} outside."
    ]


def _corridor(found: FieldResult) -> list[TableView]:
    check = found.corridor
    if check is None:
        return []
    rows = [
        [g.state, str(g.K), said(g.width_ratio, 2), said(g.distance, 2), "–" if g.p is None else f"{g.p:.3f}"]
        for g in check.gaps
    ]
    columns = ["state", "attempts", "width ratio", "centre distance", "p of no distance"]
    caption = f"Against the corridor {check.name}: an attempt counts at every state that it {check.rule}"
    return [TableView(columns=columns, rows=rows, caption=caption)]


def _stages(found: FieldResult) -> list[TableView]:
    """Every stage with its estimates, or why there is none."""
    if len(found.horizons) < 2:
        return []
    names = ("width", "pass_rate", "drift")
    rows = [
        [h.state, str(h.K), *(said(h.estimates[n], 2) if n in h.estimates else "–" for n in names)]
        for h in found.horizons
    ]
    caption = f"Stages: an attempt counts at every state that it {found.rule}"
    columns = ["stage", "attempts", "width", "success rate", "drift"]
    return [TableView(columns=columns, rows=rows, caption=caption, folded=True)]
