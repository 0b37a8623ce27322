"""Did the damage do something? Results of a paired experiment, from its stored run: nothing is run again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from ethogram.decide import compare as decided
from ethogram.errors import BadUsage
from ethogram.estimate import Estimate
from ethogram.measure.floor import NoiseFloor
from ethogram.measure.manifestation import GROUPS, MANIFESTATIONS, prevalence
from ethogram.measure.outcomes import Outcomes
from ethogram.store import Home, Run

from .diffs import Overhead
from .divergence import PairRow, divergence
from .outcomes import load_outcomes, run_of
from .result import Result

CLEAN = ""
"""The condition without a disturbance."""


class Treatment(msgspec.Struct, frozen=True, kw_only=True):
    """A condition of an experiment: which operator, on what, how strongly, and what it changed in words."""

    condition: str
    operator: str
    intensity: float
    file: str | None
    tasks: list[str]
    summary: str = ""


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """An operator that was not applied to a task, and why: known before anything ran."""

    operator: str
    task: str
    why: str


class ExperimentPair(msgspec.Struct, frozen=True, kw_only=True):
    """A clean and a disturbed attempt with the same seed."""

    operator: str
    condition: str
    intensity: float
    file: str | None
    attempt: int
    score_clean: float | None
    score_perturbed: float | None
    pair: PairRow


class Aggregate(msgspec.Struct, frozen=True, kw_only=True):
    """Pairs taken together: of one operator, or of all.

    `recovery_rate` is the share of pairs that took another way and still gave the same answer; `accuracy_lost` is clean
    minus disturbed.
    """

    name: str
    pairs: int
    mean_d_norm: float | None
    max_d_norm: float | None
    within_noise_floor: Estimate | None
    manifestations: dict[str, Estimate]
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
    """A paired experiment: every pair, what they show together, and the noise floor they are held against."""

    run: str
    agent: str
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
            flat.append({**{k: v for k, v in built.items() if k != "pair"}, **built["pair"]})
        return flat

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
    treatments = [msgspec.convert(t, Treatment) for t in plan["treatments"]]
    refused = [msgspec.convert(r, Refused) for r in plan["not_applicable"]]
    clean = load_outcomes(found, condition=CLEAN)
    pairs, missing, warnings = [], Counter(clean.missing()), []
    floor: NoiseFloor | None = None
    hurt: dict[str, Outcomes] = {}
    done = {e.head.condition for e in found.entries}
    for treatment in treatments:
        if treatment.condition not in done:
            missing["not_run"] += len(treatment.tasks)
            continue
        told = divergence(found, found, condition=treatment.condition, baseline_condition=CLEAN, draws=99)
        hurt[treatment.condition] = load_outcomes(found, condition=treatment.condition)
        missing.update(hurt[treatment.condition].missing())
        floor = floor or told.noise_floor
        warnings += [w for w in told.warnings if w not in warnings and "in one of the runs only" not in w]
        pairs += _pairs(found, treatment, told.pairs)
    every = _every(treatments, pairs, clean, hurt)
    return ExperimentResults(
        run=found.name,
        agent=str(found.info.plan.get("agent", "")),
        noise_floor=floor or NoiseFloor(runs=int(clean.task.size), tasks=len(clean.tasks), pairs=0, reruns=0),
        treatments=treatments,
        pairs=pairs,
        aggregates=every,
        dose_response=_doses(treatments, pairs, clean, hurt),
        not_applicable=refused,
        missing=dict(sorted(missing.items())),
        warnings=warnings,
    )


def _pairs(run: Run, treatment: Treatment, rows: Sequence[PairRow]) -> list[ExperimentPair]:
    by_trace = {e.head.trace_id: e.head for e in run.entries}
    made = []
    for row in rows:
        before, after = by_trace[row.baseline_trace], by_trace[row.trace]  # type: ignore[index]
        made.append(
            ExperimentPair(
                operator=treatment.operator,
                condition=treatment.condition,
                intensity=treatment.intensity,
                file=treatment.file,
                attempt=after.attempt,
                score_clean=getattr(before.outcome, "value", None),
                score_perturbed=getattr(after.outcome, "value", None),
                pair=row,
            )
        )
    return made


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
        groups=prevalence([(p.pair.task, p.pair.group) for p in pairs], GROUPS),
        recovery_rate=prevalence(moved, ["same"])["same"]
        if moved
        else Estimate(value=None, n=0, of="pairs", why="no pair took another way"),
        token_overhead=float(np.mean(overheads)) if overheads else "unavailable",
        accuracy_clean=before,
        accuracy_perturbed=after,
        accuracy_lost=_lost(clean, hurt),
    )


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
        reason=tuple(r for o in parts for r in o.reason),
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
