"""Results of a paired experiment, read from its stored run: nothing is run again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from ethogram.errors import BadUsage, Refused
from ethogram.measures.behaviour_test import Spread, spread_of
from ethogram.measures.divergence import repeat_distances, upper
from ethogram.measures.manifestation import NO_STEPS
from ethogram.measures.noise_floor import NoiseFloor, noise_floor, warning
from ethogram.measures.outcomes import NOT_RUN
from ethogram.questions.divergence.floors import own_distances
from ethogram.questions.divergence.question import PairRow, pair_row
from ethogram.questions.divergence.step_sequences import EpisodeReading, ReadingOptions, load_readings
from ethogram.reading.outcomes import load_outcomes
from ethogram.statistics.distance import Alphabet
from ethogram.store import Home, Run, run_of

from .aggregates import Attempts, aggregates_of, by_task, doses_of
from .records import ExperimentPair, ExperimentResults, NotApplied, Treatment, Undelivered

CLEAN = ""
"""The condition without a disturbance."""


def experiment_results(run: str | Run = "latest", *, home: Home | str | None = None) -> ExperimentResults:
    """The results of a paired experiment that is stored."""
    found = run_of(run, home)
    plan = found.info.plan.get("experiment")
    if plan is None:
        raise BadUsage(f"run {found.name!r} is not a paired experiment; make one with: ethogram perturb")
    treatments = msgspec.convert(plan["treatments"], list[Treatment])
    conditions = {e.head.condition for e in found.entries}
    if CLEAN not in conditions:
        raise Refused(
            f"no clean episode of the experiment {found.name!r} is done yet; continue with: {_go_on(found)}",
            have=0,
            need=1,
            of="clean episodes",
        )
    hurt = {t.condition: load_outcomes(found, condition=t.condition) for t in treatments if t.condition in conditions}
    clean = load_outcomes(found, condition=CLEAN)
    pairs, floor, first = _paired(found, treatments)
    attempts = Attempts(clean, hurt)
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
        delivered_pairs=sum(p.delivered for p in pairs),
        noise_floor=floor,
        noise_floor_runs=int(plan["reruns"]),
        floor_t_star=first,
        treatments=treatments,
        pairs=pairs,
        undelivered=[_undelivered(p) for p in pairs if not p.delivered],
        aggregates=aggregates_of(treatments, pairs, attempts),
        by_task=by_task(pairs),
        dose_response=doses_of(treatments, pairs, attempts),
        not_applicable=msgspec.convert(plan["not_applicable"], list[NotApplied]),
        missing={reason: n for reason, n in sorted(missing.items()) if n},
        warnings=_warnings(found, plan, floor, pairs, planned),
    )


def _go_on(run: Run) -> str:
    return f"ethogram run --resume {run.name}"


def _paired(run: Run, treatments: Sequence[Treatment]) -> tuple[list[ExperimentPair], NoiseFloor, Spread]:
    """Every disturbed attempt with the clean attempt of the same seed, and the floor of the clean ones.

    The traces are read once, whatever the number of conditions.
    """
    how = ReadingOptions()
    by_place: dict[tuple[str, str], list[EpisodeReading]] = {}
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
    return pairs, noise_floor(list(squares.values())), _floor_t_star(clean, how)


def _floor_t_star(clean: Mapping[str, Sequence[EpisodeReading]], how: ReadingOptions) -> Spread:
    """Where clean attempts at a task first differ from each other."""
    letters, parts = Alphabet(), []
    for episodes in clean.values():
        found = repeat_distances([e.reading for e in episodes], letters, by_lane=how.by_lane)
        if not np.isnan(found.d_norm).any():
            parts.append(np.array(list(upper(found.t_star_norm))))
    return spread_of(parts)


def _pair(treatment: Treatment, before: EpisodeReading, after: EpisodeReading, row: PairRow) -> ExperimentPair:
    one, two = before.entry.head, after.entry.head
    changed = two.meta.get("perturbed_calls")
    calls = changed if isinstance(changed, int) else None
    return ExperimentPair(
        operator=treatment.operator,
        condition=treatment.condition,
        intensity=treatment.intensity,
        file=treatment.file,
        attempt=two.attempt,
        score_clean=getattr(one.outcome, "value", None),
        score_perturbed=getattr(two.outcome, "value", None),
        calls_changed=calls,
        delivered=calls is None or calls > 0,  # a file or a prompt is changed before the agent begins
        pair=row,
    )


def _undelivered(p: ExperimentPair) -> Undelivered:
    return Undelivered(
        condition=p.condition,
        task=p.pair.task,
        attempt=p.attempt,
        trace=p.pair.trace,
        why="no call that the agent made was changed",
    )


def _warnings(
    run: Run, plan: Mapping[str, Any], floor: NoiseFloor, pairs: Sequence[ExperimentPair], planned: int
) -> list[str]:
    """What a reader must know before believing the figures."""
    told = []
    bare = sum(p.pair.d_norm is None for p in pairs)
    about = None if plan["deterministic"] and not floor.measured else warning(floor)
    if pairs and bare == len(pairs):
        told.append(
            f"distances and the noise floor are unavailable: {NO_STEPS}; pairs are compared by answer alone. Let the "
            "agent call episode.tools, use episode.record, or run it behind the gateway"
        )
    elif about is not None:
        told.append(about)
    if len(pairs) < planned:
        told.append(
            f"{planned - len(pairs)} of {planned} pairs lack one side or both; what was not run is run with: "
            f"{_go_on(run)}"
        )
    missed = Counter(p.condition for p in pairs if not p.delivered)
    every = Counter(p.condition for p in pairs)
    for condition, count in missed.items():
        what = (
            f"changed no call in any of its {count} pairs: the agent made no call that it could change"
            if count == every[condition]
            else f"reached the agent in {every[condition] - count} of {every[condition]} pairs only; the others are in "
            "no share"
        )
        told.append(f"{condition} {what}")
    crashed = sum(p.pair.baseline_crashed for p in pairs)
    if crashed:
        told.append(
            f"the agent crashed on clean input in {crashed} of {len(pairs)} pairs: nothing is known of the damage there"
        )
    if bare and bare < len(pairs):
        told.append(f"{bare} of {len(pairs)} pairs have no distance ({NO_STEPS}): they are compared by answer alone")
    sealed = sum(p.pair.answer_sealed for p in pairs)
    if sealed:
        told.append(f"{sealed} pairs have a sealed answer whose key is not at hand: answers are not compared there")
    return told
