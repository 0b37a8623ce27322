"""Did the damage do something? Results of a paired experiment, from its stored run: nothing is run again."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from ethogram.decide import compare as decided
from ethogram.errors import BadUsage
from ethogram.errors import Refused as Refusal
from ethogram.estimate import Estimate
from ethogram.measure.floor import NoiseFloor, noise_floor, warning
from ethogram.measure.manifestation import GROUPS, MANIFESTATIONS, prevalence
from ethogram.measure.outcomes import NOT_RUN, Outcomes
from ethogram.store import Home, Run

from .diffs import EditCounts, Overhead
from .divergence import PairRow, pair_row
from .floors import own_distances
from .outcomes import load_outcomes, run_of
from .readings import Episode, How, load_readings
from .result import Result

CLEAN = ""
"""The condition without a disturbance."""


class Treatment(msgspec.Struct, frozen=True, kw_only=True):
    """A condition of an experiment: which operator, on what, how strongly, and what it changed in words."""

    condition: str
    operator: str
    kind: str
    intensity: float
    file: str | None
    tasks: list[str]
    summary: str = ""


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """An operator that was not applied to a task, and why: known before anything ran."""

    operator: str
    task: str
    why: str
    file: str | None = None


class ExperimentPair(msgspec.Struct, frozen=True, kw_only=True):
    """A clean and a disturbed attempt with the same seed; `calls_changed` is known where tools were disturbed."""

    operator: str
    condition: str
    intensity: float
    file: str | None
    attempt: int
    score_clean: float | None
    score_perturbed: float | None
    calls_changed: int | None
    pair: PairRow


class Aggregate(msgspec.Struct, frozen=True, kw_only=True):
    """Pairs taken together: of one operator, or of all.

    `recovery_rate`: of the pairs that took another way, the share that still gave the same answer; `accuracy_lost` is
    clean minus disturbed. `manifestations_within_floor` is the part of each prevalence that lies within the noise
    floor, of the same pairs; empty where the floor was not measured.
    """

    name: str
    pairs: int
    mean_d_norm: float | None
    max_d_norm: float | None
    within_noise_floor: Estimate | None
    manifestations: dict[str, Estimate]
    manifestations_within_floor: dict[str, Estimate]
    groups: dict[str, Estimate]
    recovery_rate: Estimate
    token_overhead: Overhead
    accuracy_clean: float | None
    accuracy_perturbed: float | None
    accuracy_lost: Estimate


class Dose(msgspec.Struct, frozen=True, kw_only=True):
    """One operator at one intensity: what it cost and how far behaviour moved."""

    operator: str
    intensity: float
    accuracy_lost: Estimate
    accuracy_perturbed: float | None
    mean_d_norm: float | None
    pairs: int


class ExperimentResults(Result, kw_only=True):
    """A paired experiment: every pair, what they show together, and the noise floor they are held against.

    `planned_pairs` counts what was to be compared; `missing` counts episodes without a score by reason. An agent that
    is `deterministic` does the same with the same seed, so that its floor need not be measured.
    """

    run: str
    agent: str
    deterministic: bool
    planned_pairs: int
    noise_floor: NoiseFloor
    treatments: list[Treatment]
    pairs: list[ExperimentPair]
    aggregates: list[Aggregate]
    dose_response: list[Dose]
    not_applicable: list[Refused]
    missing: dict[str, int]
    warnings: list[str]

    def rows(self) -> list[dict[str, Any]]:
        """One flat row per pair."""
        flat = []
        for row in self.pairs:
            built = msgspec.to_builtins(row)
            pair = built.pop("pair")
            edits = pair.pop("edits")
            flat.append({**built, **pair, **edits})
        return flat

    def to_csv(self) -> str:
        """The rows as CSV; unlike a data frame it needs nothing installed."""
        out = io.StringIO()
        names = [*ExperimentPair.__struct_fields__[:-1], *PairRow.__struct_fields__, *EditCounts.__struct_fields__]
        writer = csv.DictWriter(out, [n for n in names if n != "edits"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows())
        return out.getvalue()

    @property
    def overall(self) -> Aggregate:
        """All pairs together."""
        return self.aggregates[-1]


def experiment_results(run: str | Run = "latest", *, home: Home | str | None = None) -> ExperimentResults:
    """The results of a paired experiment that is stored."""
    found = run_of(run, home)
    plan = found.info.plan.get("experiment")
    if plan is None:
        raise BadUsage(f"run {found.name!r} is no paired experiment; make one with: ethogram perturb")
    treatments = msgspec.convert(plan["treatments"], list[Treatment])
    conditions = {e.head.condition for e in found.entries}
    if CLEAN not in conditions:
        raise Refusal(f"no clean episode of the experiment {found.name!r} is done yet; go on with: {_go_on(found)}")
    hurt = {t.condition: load_outcomes(found, condition=t.condition) for t in treatments if t.condition in conditions}
    clean = load_outcomes(found, condition=CLEAN)
    pairs, floor = _paired(found, treatments)
    planned = int(plan["k"]) * sum(len(t.tasks) for t in treatments)
    missing: Counter[str] = Counter(clean.missing())
    for outcomes in hurt.values():
        missing.update(outcomes.missing())
    unbegun = [t for t in treatments if t.condition not in hurt]
    missing[NOT_RUN] += int(plan["k"]) * sum(len(t.tasks) for t in unbegun)
    return ExperimentResults(
        run=found.name,
        agent=str(found.info.plan.get("agent", "")),
        deterministic=bool(plan["deterministic"]),
        planned_pairs=planned,
        noise_floor=floor,
        treatments=treatments,
        pairs=pairs,
        aggregates=_every(treatments, pairs, clean, hurt),
        dose_response=_doses(treatments, pairs, clean, hurt),
        not_applicable=msgspec.convert(plan["not_applicable"], list[Refused]),
        missing={reason: n for reason, n in sorted(missing.items()) if n},
        warnings=_warnings(found, plan, floor, pairs, planned),
    )


def _go_on(run: Run) -> str:
    return f"ethogram run --resume {run.name}"


def _paired(run: Run, treatments: Sequence[Treatment]) -> tuple[list[ExperimentPair], NoiseFloor]:
    """Every disturbed attempt with the clean attempt of the same seed, and the floor of the clean ones.

    The traces are read once, whatever the number of conditions.
    """
    how = How()
    by_place: dict[tuple[str, str], list[Episode]] = {}
    for task, episodes in load_readings(run, how).tasks.items():
        for episode in episodes:
            by_place.setdefault((episode.entry.head.condition, task), []).append(episode)
    clean = {task: found for (condition, task), found in by_place.items() if condition == CLEAN}
    squares = dict(zip(clean, own_distances(run, list(clean.values()), how), strict=True))
    pairs = []
    for treatment in treatments:
        for task in treatment.tasks:
            place = {e.entry.head.attempt: i for i, e in enumerate(clean.get(task, ()))}
            for after in by_place.get((treatment.condition, task), ()):
                i = place.get(after.entry.head.attempt)
                if i is not None:
                    before, own = clean[task][i], np.delete(squares[task][i], i)
                    row = pair_row(task, (run, before), (run, after), own, how)
                    pairs.append(_pair(treatment, before, after, row))
    return pairs, noise_floor(list(squares.values()))


def _pair(treatment: Treatment, before: Episode, after: Episode, row: PairRow) -> ExperimentPair:
    one, two = before.entry.head, after.entry.head
    changed = two.meta.get("perturbed_calls")
    return ExperimentPair(
        operator=treatment.operator,
        condition=treatment.condition,
        intensity=treatment.intensity,
        file=treatment.file,
        attempt=two.attempt,
        score_clean=getattr(one.outcome, "value", None),
        score_perturbed=getattr(two.outcome, "value", None),
        calls_changed=changed if isinstance(changed, int) else None,
        pair=row,
    )


def _warnings(
    run: Run, plan: Mapping[str, Any], floor: NoiseFloor, pairs: Sequence[ExperimentPair], planned: int
) -> list[str]:
    """What a reader must know before believing the figures."""
    told = []
    about = None if plan["deterministic"] and not floor.measured else warning(floor)
    if about is not None:
        told.append(about)
    if len(pairs) < planned:
        told.append(
            f"{planned - len(pairs)} of {planned} pairs lack one side or both; what was not run is run with: "
            f"{_go_on(run)}"
        )
    for condition in dict.fromkeys(p.condition for p in pairs if p.calls_changed is not None):
        changed = [p.calls_changed for p in pairs if p.condition == condition]
        if not any(changed):
            told.append(
                f"{condition} changed no call in any of its {len(changed)} pairs: the agent called no tool that it "
                "could change"
            )
    sealed = sum(p.pair.answer_sealed for p in pairs)
    if sealed:
        told.append(f"{sealed} pairs have a sealed answer whose key is not at hand: answers are not compared there")
    return told


def _every(
    treatments: Sequence[Treatment], pairs: Sequence[ExperimentPair], clean: Outcomes, hurt: dict[str, Outcomes]
) -> list[Aggregate]:
    """One aggregate per operator, and one of all."""
    made = []
    for operator in dict.fromkeys(t.operator for t in treatments):
        conditions = [t.condition for t in treatments if t.operator == operator]
        chosen = [p for p in pairs if p.operator == operator]
        made.append(_aggregate(operator, chosen, clean, [hurt[c] for c in conditions if c in hurt]))
    return [*made, _aggregate("all", pairs, clean, list(hurt.values()))]


def _aggregate(name: str, pairs: Sequence[ExperimentPair], clean: Outcomes, hurt: Sequence[Outcomes]) -> Aggregate:
    distances = [p.pair.d_norm for p in pairs]
    judged = [
        (p.pair.task, "within" if p.pair.within_noise_floor else "above")
        for p in pairs
        if p.pair.within_noise_floor is not None
    ]
    moved = [
        (p.pair.task, "same" if p.pair.answer_changed is False else "other")
        for p in pairs
        if p.pair.d_norm > 0 and p.pair.answer_changed is not None
    ]
    overheads = [p.pair.token_overhead for p in pairs if isinstance(p.pair.token_overhead, float)]
    before, after = _mean_score(pairs, "score_clean"), _mean_score(pairs, "score_perturbed")
    return Aggregate(
        name=name,
        pairs=len(pairs),
        mean_d_norm=float(np.mean(distances)) if distances else None,
        max_d_norm=max(distances, default=None),
        within_noise_floor=prevalence(judged, ["within"])["within"] if judged else None,
        manifestations=prevalence([(p.pair.task, p.pair.manifestation) for p in pairs], MANIFESTATIONS),
        manifestations_within_floor=_within(pairs) if judged else {},
        groups=prevalence([(p.pair.task, p.pair.group) for p in pairs], GROUPS),
        recovery_rate=prevalence(moved, ["same"])["same"]
        if moved
        else Estimate(value=None, n=0, of="pairs", why="no pair took another way"),
        token_overhead=float(np.mean(overheads)) if overheads else "unavailable",
        accuracy_clean=before,
        accuracy_perturbed=after,
        accuracy_lost=_lost(clean, hurt),
    )


def _within(pairs: Sequence[ExperimentPair]) -> dict[str, Estimate]:
    rows = [(p.pair.task, p.pair.manifestation if p.pair.within_noise_floor else "above") for p in pairs]
    return prevalence(rows, MANIFESTATIONS)


def _mean_score(pairs: Sequence[ExperimentPair], side: str) -> float | None:
    known = [getattr(p, side) for p in pairs if getattr(p, side) is not None]
    return float(np.mean(known)) if known else None


def _lost(clean: Outcomes, hurt: Sequence[Outcomes]) -> Estimate:
    """Clean minus disturbed success on the tasks that both have, every clean attempt used."""
    none = Estimate(value=None, n=0, of="tasks", why="no attempt has a score on both sides")
    if not hurt or not clean.scored.any():
        return none
    both = joined(hurt)
    if not both.scored.any() or not decided.shared_tasks(clean, both):
        return none
    found = decided.compare(clean, both).difference
    if found.value is None or found.low is None or found.high is None:
        return found
    return msgspec.structs.replace(found, value=0.0 - found.value, low=0.0 - found.high, high=0.0 - found.low)


def joined(parts: Sequence[Outcomes]) -> Outcomes:
    """Several sets of outcomes as one; attempts are numbered on, so that none stands for another."""
    tasks = tuple(dict.fromkeys(t for o in parts for t in o.tasks))
    aligned = [o.only(tasks) for o in parts]
    offsets = np.cumsum([0, *(int(o.attempt.max(initial=-1)) + 1 for o in aligned[:-1])])
    return Outcomes(
        tasks=tasks,
        task=np.concatenate([o.task for o in aligned]),
        attempt=np.concatenate([o.attempt + int(k) for o, k in zip(aligned, offsets, strict=True)]),
        value=np.concatenate([o.value for o in aligned]),
        reason=np.concatenate([o.reason for o in aligned]),
        planned=np.sum([o.planned for o in aligned], axis=0),
        figures={name: np.concatenate([o.figures[name] for o in parts]) for name in parts[0].figures},
        success_at=parts[0].success_at,
    )


def _doses(
    treatments: Sequence[Treatment], pairs: Sequence[ExperimentPair], clean: Outcomes, hurt: dict[str, Outcomes]
) -> list[Dose]:
    """Per operator and intensity, weakest first; only where an operator was given at several."""
    made = []
    strengths = Counter((t.operator, t.intensity) for t in treatments)
    swept = Counter(operator for operator, _ in strengths)
    for operator, intensity in sorted(strengths):
        if swept[operator] < 2:
            continue
        conditions = [t.condition for t in treatments if (t.operator, t.intensity) == (operator, intensity)]
        chosen = [p for p in pairs if p.condition in conditions]
        distances = [p.pair.d_norm for p in chosen]
        made.append(
            Dose(
                operator=operator,
                intensity=intensity,
                accuracy_lost=_lost(clean, [hurt[c] for c in conditions if c in hurt]),
                accuracy_perturbed=_mean_score(chosen, "score_perturbed"),
                mean_d_norm=float(np.mean(distances)) if distances else None,
                pairs=len(chosen),
            )
        )
    return made
