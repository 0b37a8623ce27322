"""The part of a report that a paired experiment has: what the damage did, how it showed, and at which dose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ethogram.estimate import Estimate
from ethogram.lab.experiments import Aggregate, Dose, ExperimentResults, experiment_results
from ethogram.store import Run

from . import charts
from .views import Card, Picture, Section, TableView, picture, said

ID, TITLE = "experiment", "Did the damage do something?"
MOST_PAIRS = 60
"""So many pairs are listed one by one; the rest is counted."""


def experiment_part(run: Run) -> tuple[Section, list[Card]] | None:
    """Did the damage do something? Nothing where the run is no paired experiment."""
    if "experiment" not in run.info.plan:
        return None
    found = experiment_results(run)
    notes = [
        *found.warnings,
        *(f"not applicable: {r.operator} on {r.task}: {r.why}" for r in found.not_applicable),
    ]
    if not found.pairs:
        return Section(id=ID, title=TITLE, paragraphs=["No pair is complete yet."], notes=notes), []
    section = Section(
        id=ID,
        title=TITLE,
        paragraphs=[_lead(found), _floor(found)],
        pictures=_pictures(found),
        tables=[
            _changes(found),
            _showings(found.overall),
            _aggregates(found.aggregates),
            *_doses(found.dose_response),
            _pairs(found),
        ],
        notes=notes,
    )
    return section, _cards(found)


def _lead(found: ExperimentResults) -> str:
    operators = len({t.operator for t in found.treatments})
    tasks = len({p.pair.task for p in found.pairs})
    return (
        f"{len(found.pairs)} of {found.planned_pairs} pairs of a clean and a disturbed attempt with the same seed: "
        f"{operators} kind{'s' * (operators != 1)} of change on {tasks} task{'s' * (tasks != 1)}. A pair shows what "
        "the agent did otherwise; score and answer say whether it mattered."
    )


def _floor(found: ExperimentResults) -> str:
    floor = found.noise_floor
    if floor.measured and floor.mean is not None and floor.max is not None:
        return (
            f"The agent's own restlessness: clean attempts at a task are {floor.mean:.3f} apart on average and at most "
            f"{floor.max:.3f} ({floor.pairs} pairs, {floor.reruns} re-runs of each). A pair is above the floor where "
            "it is further apart than its clean attempt is from any of its re-runs."
        )
    if found.deterministic:
        return "The agent is scripted: with the same seed it does the same, so every difference is due to the change."
    return "The agent's own restlessness was not measured, so no distance here can be told from it."


def _pictures(found: ExperimentResults) -> list[Picture]:
    shares = [(name, e) for name, e in found.overall.manifestations.items() if e.value]
    rows: list[dict[str, Any]] = [
        {"showing": name.replace("_", " "), "share": e.value}
        for name, e in sorted(shares, key=lambda x: -(x[1].value or 0))
    ]
    drawn = [picture(charts.bars(rows, "showing", "share", "share of pairs", "how the changes showed, over all pairs"))]
    curve = [
        {
            "intensity": d.intensity,
            "who": d.operator,
            "value": d.accuracy_lost.value,
            "low": d.accuracy_lost.low,
            "high": d.accuracy_lost.high,
        }
        for d in found.dose_response
        if d.accuracy_lost.value is not None
    ]
    if curve:
        words = "accuracy lost against the intensity of the change, with intervals"
        drawn.append(picture(charts.curves(curve, "intensity", "accuracy lost", words)))
    return drawn


def _changes(found: ExperimentResults) -> TableView:
    rows = [
        [t.condition, ", ".join(t.tasks[:3]) + (", …" if len(t.tasks) > 3 else ""), t.summary] for t in found.treatments
    ]
    return TableView(columns=["change", "tasks", "what it does"], rows=rows, caption="What was changed.")


def _showings(whole: Aggregate) -> TableView:
    inside = whole.manifestations_within_floor
    rows = [
        [name.replace("_", " "), said(e, 2), f"{inside[name].value or 0:.2f}" if name in inside else "–"]
        for name, e in whole.manifestations.items()
        if e.value
    ]
    columns = ["what pairs showed as", "share of pairs", "of which within the floor"]
    return TableView(columns=columns, rows=rows, caption="How the changes showed.")


def _aggregates(aggregates: Sequence[Aggregate]) -> TableView:
    rows = [
        [
            a.name,
            str(a.pairs),
            _number(a.mean_d_norm),
            _number(a.max_d_norm),
            _rest(a.within_noise_floor),
            said(a.recovery_rate, 2),
            a.token_overhead if isinstance(a.token_overhead, str) else f"{a.token_overhead:.2f}",
            said(a.accuracy_lost, 2),
        ]
        for a in aggregates
    ]
    columns = ["operator", "pairs", "mean d", "max d", "above the floor", "recovered", "tokens ×", "accuracy lost"]
    return TableView(columns=columns, rows=rows, caption="Pairs taken together, by operator.")


def _doses(doses: Sequence[Dose]) -> list[TableView]:
    rows = [
        [d.operator, f"{d.intensity:g}", str(d.pairs), _number(d.mean_d_norm), said(d.accuracy_lost, 2)] for d in doses
    ]
    columns = ["operator", "intensity", "pairs", "mean d", "accuracy lost"]
    return [TableView(columns=columns, rows=rows, caption="Dose and response.")] if rows else []


def _pairs(found: ExperimentResults) -> TableView:
    floor = {True: "within", False: "above", None: "–"}
    shown = found.pairs[:MOST_PAIRS]
    rows = [
        [
            p.condition,
            p.pair.task,
            str(p.attempt),
            f"{p.pair.d_norm:.3f}",
            "–" if p.pair.t_star is None else str(p.pair.t_star),
            p.pair.manifestation.replace("_", " "),
            floor[p.pair.within_noise_floor],
            f"{_score(p.score_clean)} → {_score(p.score_perturbed)}",
        ]
        for p in shown
    ]
    more = "" if len(shown) == len(found.pairs) else f" The first {len(shown)} of {len(found.pairs)}."
    columns = ["change", "task", "attempt", "d_norm", "t*", "what it showed as", "floor", "score"]
    return TableView(columns=columns, rows=rows, caption=f"Pair by pair.{more}")


def _cards(found: ExperimentResults) -> list[Card]:
    whole = found.overall
    cards = []
    within = whole.within_noise_floor
    if within is not None and within.value is not None:
        cards.append(
            Card(label="pairs above the floor", value=f"{1 - within.value:.0%}", detail=f"of {whole.pairs} pairs")
        )
    lost = whole.accuracy_lost
    if lost.value is not None:
        between = "no interval" if lost.low is None or lost.high is None else f"{lost.low:+.0%} to {lost.high:+.0%}"
        cards.append(Card(label="accuracy lost to damage", value=f"{lost.value:+.0%}", detail=between))
    return cards


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _score(value: float | None) -> str:
    return "–" if value is None else f"{value:g}"


def _rest(within: Estimate | None) -> str:
    """What is left of a share, with its interval."""
    if within is None or within.value is None:
        return "–"
    if within.low is None or within.high is None:
        return f"{1 - within.value:.2f} (no interval)"
    return f"{1 - within.value:.2f} [{1 - within.high:.2f}, {1 - within.low:.2f}]"
