"""The part of a report about a paired experiment: the effect of the damage, its manifestation, its dose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ethogram.display import charts as marks
from ethogram.display.charts import curves, heat_map, points_and_band
from ethogram.estimate import Estimate
from ethogram.questions.experiment.question import experiment_results
from ethogram.questions.experiment.records import CRASH, SILENT, Aggregate, Dose, ExperimentResults
from ethogram.store import Run

from .views import Card, Picture, Section, TableView, picture, said

ID, TITLE = "experiment", "Did the damage do something?"
MOST_PAIRS = 60
"""How many pairs are listed one by one; the rest is counted."""
MOST_TASKS = 30
"""How many tasks are drawn beside the operators, those that lost most first."""


def experiment_part(run: Run) -> tuple[Section, list[Card]] | None:
    """The section about a paired experiment; None where the run is none."""
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
        lead=_harm(found),
        paragraphs=[_lead(found), _floor(found)],
        pictures=_pictures(found),
        tables=[
            _showings(found.overall),
            _aggregates(found.aggregates),
            *_doses(found.dose_response),
            _changes(found),
            _pairs(found),
            *_undelivered(found),
        ],
        notes=notes,
    )
    return section, _cards(found)


def _lead(found: ExperimentResults) -> str:
    operators = len({t.operator for t in found.treatments})
    tasks = len({p.pair.task for p in found.pairs})
    missed = len(found.undelivered)
    left = f" In {missed} of them the damage never reached the agent: they are in no share." if missed else ""
    return (
        f"{len(found.pairs)} of {found.planned_pairs} pairs of a clean and a disturbed attempt with the same seed: "
        f"{operators} kind{'s' * (operators != 1)} of change on {tasks} task{'s' * (tasks != 1)}.{left}"
    )


def _harm(found: ExperimentResults) -> str:
    """What the damage cost, before anything is said of distances."""
    whole = found.overall
    told = []
    if whole.accuracy_lost.value is not None:
        told.append(f"Accuracy lost to the damage: {said(whole.accuracy_lost, 2)}.")
    kinds = [(CRASH, "the agent crashed"), (SILENT, "the answer or the outcome changed and the steps did not")]
    kinds.append(("answer_changed", "the answer changed (no steps captured)"))
    told += [f"In {whole.counts[n]} of {whole.delivered} pairs {what}." for n, what in kinds if whole.counts.get(n)]
    return " ".join(told) or "No pair has a score, and no answer changed."


def _floor(found: ExperimentResults) -> str:
    floor = found.noise_floor
    if found.overall.mean_d_norm is None:
        return "Distances are unavailable: no steps captured. Pairs are compared by their answers alone."
    if floor.measured and floor.mean is not None and floor.max is not None:
        return (
            f"Run-to-run variation (noise floor): clean attempts at a task are {floor.mean:.3f} apart on average, at "
            f"most {floor.max:.3f} ({floor.pairs} pairs, {floor.reruns} re-runs of each). A pair is above the floor "
            "where it is further apart than its clean attempt is from any of its re-runs. A distance sees other steps; "
            "it does not see a wrong answer that was reached by the same steps."
        )
    if found.deterministic:
        return "The agent is scripted: with the same seed it does the same, so every difference is due to the change."
    return "The agent's run-to-run variation was not measured, so no distance here can be compared with it."


def _pictures(found: ExperimentResults) -> list[Picture]:
    counts = sorted(found.overall.counts.items(), key=lambda x: -x[1])
    rows: list[dict[str, Any]] = [{"showing": name.replace("_", " "), "pairs": n} for name, n in counts]
    words = "how the changes showed, delivered pairs"
    drawn = [*_by_task(found), picture(marks.bars(rows, "showing", "pairs", "pairs", words)), *_distances(found)]
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
        drawn.append(picture(curves(curve, "intensity", "accuracy lost", words)))
    return drawn


def _by_task(found: ExperimentResults) -> list[Picture]:
    """Operators × tasks: the score lost in delivered pairs, or how many answers changed where there are no scores."""
    scored = any(c.score_lost is not None for c in found.by_task)
    cells = {
        (c.operator, c.task): c.score_lost if scored else c.changed / c.comparable if c.comparable else None
        for c in found.by_task
    }
    worst: dict[str, float] = {}
    for (_, task), value in cells.items():
        worst[task] = max(worst.get(task, 0.0), value or 0.0)
    shown = sorted(worst, key=lambda t: -worst[t])[:MOST_TASKS]
    rows: list[dict[str, Any]] = [
        {"operator": operator, "task": task, "value": max(value, 0.0), "text": f"{value + 0.0:.2f}"}
        for (operator, task), value in cells.items()
        if value is not None and task in shown
    ]
    if not rows:
        return []
    what = "mean score lost" if scored else "share of answers that changed"
    words = f"{what} by operator and task, delivered pairs; blank where no damage arrived"
    words += "" if len(shown) == len(worst) else f"; the {len(shown)} tasks of {len(worst)} that lost most"
    return [picture(heat_map(rows, "task", "operator", what, words, angle=-40))]


def _distances(found: ExperimentResults) -> list[Picture]:
    """d_norm and t*/T of every delivered pair, each over what clean attempts differ by."""
    floor, first = found.noise_floor, found.floor_t_star
    pairs = [p for p in found.pairs if p.delivered and p.pair.d_norm is not None]
    if not pairs:
        return []
    apart = [
        {"operator": p.operator, "value": p.pair.d_norm, "beyond": p.pair.within_noise_floor is False} for p in pairs
    ]
    band = None if floor.max is None else (0.0, floor.max)
    held = "; grey: up to the largest distance between clean attempts" if band else "; the noise floor was not measured"
    words = f"d_norm of every delivered pair, filled where above its own floor{held}"
    drawn = [picture(points_and_band(apart, "operator", "d_norm", band, words))]
    parted = [
        {"operator": p.operator, "value": p.pair.t_star_norm, "beyond": p.pair.within_noise_floor is False}
        for p in pairs
        if p.pair.t_star_norm is not None
    ]
    if parted:
        band = None if first.q10 is None or first.q90 is None else (first.q10, first.q90)
        never = len(pairs) - len(parted)
        held = (
            f"grey: where clean attempts diverge from each other, 10 to 90 % ({first.never} of {first.pairs} never do)"
            if band
            else "clean attempts never diverge"
            if first.pairs
            else "the noise floor was not measured"
        )
        words = f"t*/T, the first step that differs, filled where above the floor; {never} pairs never differ; {held}"
        drawn.append(picture(points_and_band(parted, "operator", "t*/T", band, words)))
    return drawn


def _changes(found: ExperimentResults) -> TableView:
    rows = [
        [t.condition, ", ".join(t.tasks[:3]) + (", …" if len(t.tasks) > 3 else ""), t.summary] for t in found.treatments
    ]
    return TableView(columns=["change", "tasks", "what it does"], rows=rows, caption="What was changed.")


def _showings(whole: Aggregate) -> TableView:
    inside = whole.manifestations_within_floor
    rows = [
        [
            name.replace("_", " "),
            str(whole.counts[name]),
            said(e, 2),
            f"{inside[name].value or 0:.2f}" if name in inside else "–",
        ]
        for name, e in whole.manifestations.items()
        if whole.counts.get(name)
    ]
    columns = ["manifestation", "pairs", "share of delivered pairs", "within the floor"]
    return TableView(columns=columns, rows=rows, caption="How the changes showed.")


def _aggregates(aggregates: Sequence[Aggregate]) -> TableView:
    rows = [
        [
            a.name,
            str(a.pairs),
            str(a.delivered),
            _number(a.mean_d_norm),
            _number(a.max_d_norm),
            _rest(a.within_noise_floor),
            said(a.recovery_rate, 2),
            a.token_overhead if isinstance(a.token_overhead, str) else f"{a.token_overhead:.2f}",
            said(a.accuracy_lost, 2),
            said(a.accuracy_lost_delivered, 2),
        ]
        for a in aggregates
    ]
    columns = ["operator", "pairs", "delivered", "mean d", "max d", "above the floor", "recovered", "tokens ×"]
    columns += ["accuracy lost, as planned", "accuracy lost, delivered"]
    caption = "Pairs taken together, by operator. Distances, floor and recovery are of delivered pairs."
    return TableView(columns=columns, rows=rows, caption=caption)


def _doses(doses: Sequence[Dose]) -> list[TableView]:
    rows = [
        [
            d.operator,
            f"{d.intensity:g}",
            str(d.pairs),
            str(d.delivered),
            _number(d.mean_d_norm),
            said(d.accuracy_lost, 2),
        ]
        for d in doses
    ]
    columns = ["operator", "intensity", "pairs", "delivered", "mean d", "accuracy lost, as planned"]
    caption = "Dose and response, over all attempts at an intensity, reached by the damage or not."
    return [TableView(columns=columns, rows=rows, caption=caption)] if rows else []


def _pairs(found: ExperimentResults) -> TableView:
    floor = {True: "within", False: "above", None: "–"}
    shown = found.pairs[:MOST_PAIRS]
    rows = [
        [
            p.condition,
            p.pair.task,
            str(p.attempt),
            _number(p.pair.d_norm),
            "–" if p.pair.t_star is None else str(p.pair.t_star),
            p.pair.manifestation.replace("_", " ") if p.delivered else "(not delivered)",
            floor[p.pair.within_noise_floor],
            f"{_score(p.score_clean)} → {_score(p.score_perturbed)}",
        ]
        for p in shown
    ]
    more = "" if len(shown) == len(found.pairs) else f" The first {len(shown)} of {len(found.pairs)}."
    columns = ["change", "task", "attempt", "d_norm", "t*", "manifestation", "floor", "score"]
    return TableView(columns=columns, rows=rows, caption=f"Pair by pair.{more}")


def _undelivered(found: ExperimentResults) -> list[TableView]:
    rows = [[u.condition, u.task, str(u.attempt), u.why] for u in found.undelivered[:MOST_PAIRS]]
    more = "" if len(rows) == len(found.undelivered) else f" The first {len(rows)} of {len(found.undelivered)}."
    caption = f"Pairs whose damage never reached the agent.{more}"
    return [TableView(columns=["change", "task", "attempt", "why"], rows=rows, caption=caption)] if rows else []


def _cards(found: ExperimentResults) -> list[Card]:
    """What the damage cost comes first; distances, which do not see wrong answers, come last."""
    whole = found.overall
    missed = f"; {len(found.undelivered)} not delivered" if found.undelivered else ""
    of = f"of {whole.delivered} pairs{missed}"
    cards = []
    lost = whole.accuracy_lost
    if lost.value is not None:
        between = "no interval" if lost.low is None or lost.high is None else f"{lost.low:+.0%} to {lost.high:+.0%}"
        cards.append(Card(label="accuracy lost to damage", value=f"{lost.value:+.0%}", detail=between))
    if whole.counts.get(CRASH):
        cards.append(Card(label="crashes on damage", value=str(whole.counts[CRASH]), detail=of))
    broken = sum(p.pair.baseline_crashed for p in found.pairs)
    if broken:
        detail = f"of {len(found.pairs)} pairs: nothing is known of the damage there"
        cards.append(Card(label="crashes on clean input", value=str(broken), detail=detail))
    if whole.mean_d_norm is None:
        changed = whole.counts.get("answer_changed", 0)
        cards.append(Card(label="answers that changed", value=str(changed), detail=of))
        cards.append(Card(label="pairs above the floor", value="unavailable", detail="no steps captured"))
        return cards
    cards.append(Card(label="silent corruptions", value=str(whole.counts.get(SILENT, 0)), detail=of))
    within = whole.within_noise_floor
    if within is not None and within.value is not None:
        detail = f"of {within.n} pairs; other steps, not wrong answers"
        cards.append(Card(label="pairs above the floor", value=f"{1 - within.value:.0%}", detail=detail))
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
