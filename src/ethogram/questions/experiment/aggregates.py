"""Pairs of an experiment taken together: by operator, by operator and task, by dose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from ethogram.estimate import Estimate
from ethogram.measures import comparison as decided
from ethogram.measures.manifestation import GROUPS, MANIFESTATIONS, prevalence
from ethogram.measures.outcomes import Outcomes

from .records import Aggregate, Dose, ExperimentPair, OperatorTask, Treatment


class Attempts(NamedTuple):
    """All outcomes of an experiment: of the clean attempts, and of the disturbed ones by condition."""

    clean: Outcomes
    disturbed: Mapping[str, Outcomes]


def aggregates_of(
    treatments: Sequence[Treatment], pairs: Sequence[ExperimentPair], attempts: Attempts
) -> list[Aggregate]:
    """One aggregate per operator, and one of all."""
    made = []
    for operator in dict.fromkeys(t.operator for t in treatments):
        conditions = [t.condition for t in treatments if t.operator == operator]
        made.append(_aggregate(operator, [p for p in pairs if p.operator == operator], attempts, conditions))
    return [*made, _aggregate("all", pairs, attempts, list(attempts.disturbed))]


def doses_of(treatments: Sequence[Treatment], pairs: Sequence[ExperimentPair], attempts: Attempts) -> list[Dose]:
    """Per operator and intensity, weakest first; only where an operator was given at several."""
    made = []
    strengths = Counter((t.operator, t.intensity) for t in treatments)
    swept = Counter(operator for operator, _ in strengths)
    for operator, intensity in sorted(strengths):
        if swept[operator] < 2:
            continue
        conditions = [t.condition for t in treatments if (t.operator, t.intensity) == (operator, intensity)]
        chosen = [p for p in pairs if p.condition in conditions]
        distances = _distances(chosen)
        made.append(
            Dose(
                operator=operator,
                intensity=intensity,
                accuracy_lost=_lost(attempts, conditions),
                accuracy_perturbed=_mean_score(chosen, "score_perturbed"),
                mean_d_norm=float(np.mean(distances)) if distances else None,
                pairs=len(chosen),
                delivered=sum(p.delivered for p in chosen),
            )
        )
    return made


def by_task(pairs: Sequence[ExperimentPair]) -> list[OperatorTask]:
    """One row per operator and task that have a pair."""
    places: dict[tuple[str, str], list[ExperimentPair]] = {}
    for p in pairs:
        places.setdefault((p.operator, p.pair.task), []).append(p)
    made = []
    for (operator, task), here in places.items():
        reached = [p for p in here if p.delivered]
        ends = [p.pair.crashed or p.pair.answer_changed for p in reached if not p.pair.baseline_crashed]
        lost = [
            p.score_clean - p.score_perturbed
            for p in reached
            if p.score_clean is not None and p.score_perturbed is not None
        ]
        made.append(
            OperatorTask(
                operator=operator,
                task=task,
                pairs=len(here),
                delivered=len(reached),
                comparable=sum(e is not None for e in ends),
                changed=sum(e is True for e in ends),
                score_lost=float(np.mean(lost)) if lost else None,
            )
        )
    return made


def _aggregate(name: str, pairs: Sequence[ExperimentPair], attempts: Attempts, conditions: Sequence[str]) -> Aggregate:
    reached = [p for p in pairs if p.delivered]
    distances = _distances(reached)
    judged = [
        (p.pair.task, "within" if p.pair.within_noise_floor else "above")
        for p in reached
        if p.pair.within_noise_floor is not None
    ]
    overheads = [p.pair.token_overhead for p in reached if isinstance(p.pair.token_overhead, float)]
    return Aggregate(
        name=name,
        pairs=len(pairs),
        delivered=len(reached),
        mean_d_norm=float(np.mean(distances)) if distances else None,
        max_d_norm=max(distances, default=None),
        within_noise_floor=prevalence(judged, ["within"])["within"] if judged else None,
        manifestations=prevalence([(p.pair.task, p.pair.manifestation) for p in reached], MANIFESTATIONS),
        manifestations_within_floor=_within(reached) if judged else {},
        groups=prevalence([(p.pair.task, p.pair.group) for p in reached], GROUPS),
        counts=dict(Counter(p.pair.manifestation for p in reached)),
        recovery_rate=_recovery(reached),
        token_overhead=float(np.mean(overheads)) if overheads else "unavailable",
        accuracy_clean=_mean_score(pairs, "score_clean"),
        accuracy_perturbed=_mean_score(pairs, "score_perturbed"),
        accuracy_lost=_lost(attempts, conditions),
        accuracy_lost_delivered=_lost(attempts, conditions, pairs),
    )


def _distances(pairs: Sequence[ExperimentPair]) -> list[float]:
    return [p.pair.d_norm for p in pairs if p.pair.d_norm is not None]


def _within(pairs: Sequence[ExperimentPair]) -> dict[str, Estimate]:
    rows = [(p.pair.task, p.pair.manifestation if p.pair.within_noise_floor else "above") for p in pairs]
    return prevalence(rows, MANIFESTATIONS)


def _recovery(pairs: Sequence[ExperimentPair]) -> Estimate:
    """Of the pairs that took another way and of which it is known, those that still arrived."""
    known = [(p.pair.task, "back" if p.pair.recovered else "lost") for p in pairs if p.pair.recovered is not None]
    if known:
        return prevalence(known, ["back"])["back"]
    if pairs and not _distances(pairs):
        return Estimate(value=None, n=0, of="pairs", why="no steps captured")
    moved = any(p.pair.d_norm or p.pair.control_flow_changes for p in pairs)
    why = "no pair that took another way has an outcome or an answer to go by" if moved else "no pair took another way"
    return Estimate(value=None, n=0, of="pairs", why=why)


def _mean_score(pairs: Sequence[ExperimentPair], side: str) -> float | None:
    known = [getattr(p, side) for p in pairs if getattr(p, side) is not None]
    return float(np.mean(known)) if known else None


def _lost(attempts: Attempts, conditions: Sequence[str], pairs: Sequence[ExperimentPair] | None = None) -> Estimate:
    """Clean minus disturbed success on the tasks that both have, every clean attempt used.

    With `pairs`, only the disturbed attempts that the damage reached.
    """
    none = Estimate(value=None, n=0, of="tasks", why="no attempt has a score on both sides")
    disturbed = {c: attempts.disturbed[c] for c in conditions if c in attempts.disturbed}
    if pairs is not None:
        disturbed = {c: _reached(outcomes, c, pairs) for c, outcomes in disturbed.items()}
    parts = [o for o in disturbed.values() if o.value.size]
    if not parts or not attempts.clean.scored.any():
        return none
    both = joined_outcomes(parts)
    if not both.scored.any() or not decided.shared_tasks(attempts.clean, both):
        return none
    found = decided.compare_outcomes(attempts.clean, both).difference
    if found.value is None or found.low is None or found.high is None:
        return found
    return msgspec.structs.replace(found, value=0.0 - found.value, low=0.0 - found.high, high=0.0 - found.low)


def _reached(outcomes: Outcomes, condition: str, pairs: Sequence[ExperimentPair]) -> Outcomes:
    missed = {(p.pair.task, p.attempt) for p in pairs if p.condition == condition and not p.delivered}
    places = zip(outcomes.task.tolist(), outcomes.attempt.tolist(), strict=True)
    return outcomes.where(np.array([(outcomes.tasks[t], a) not in missed for t, a in places], dtype=bool))


def joined_outcomes(parts: Sequence[Outcomes]) -> Outcomes:
    """Several sets of outcomes as one; attempts are renumbered so that none replaces another."""
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
        figures={name: np.concatenate([o.figures[name] for o in aligned]) for name in aligned[0].figures},
        success_at=parts[0].success_at,
    )
