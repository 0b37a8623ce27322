"""Distances between all repeats of each task, or between a run and a baseline run, compared with the noise floor.

The noise floor is a function of the stored baseline run. It is kept with that run under the hash of what it was
computed from (`floors.py`), so that it can neither grow stale nor disagree with the traces; the gate uses the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import isnan
from typing import Any, ClassVar

import msgspec
import numpy as np

from ethogram.arguments import at_least
from ethogram.display import Drawing, Presentation
from ethogram.errors import BadUsage
from ethogram.estimate import Estimate
from ethogram.measures.behaviour_test import DRAWS, DifferenceVerdict, KbyK, k_by_k
from ethogram.measures.divergence import distances, upper
from ethogram.measures.manifestation import (
    GROUPS,
    MANIFESTATIONS,
    NO_STEPS,
    Manifestation,
    ManifestationGroup,
    prevalence,
)
from ethogram.measures.noise_floor import NoiseFloor, against_floor, noise_floor, warning
from ethogram.reading.samples import traced_run
from ethogram.reading.suite_versions import comparable_tasks
from ethogram.result import Result
from ethogram.statistics.distance import Alphabet
from ethogram.store import Home, Run, home_of
from ethogram.traces import metered

from .floors import floor_of, own_distances
from .pair import PairSide, compare_pair
from .pair_fields import EditCounts, Overhead, pair_fields
from .step_sequences import (
    UNKNOWN_TASK,
    EpisodeReading,
    LoadedReadings,
    ReadingOptions,
    by_version,
    final_answer,
    load_readings,
    passed,
    usual_signature,
)

NOTHING_SHARED = "the two runs have no task in common"


class TaskDivergence(msgspec.Struct, frozen=True, kw_only=True):
    """One task: distances over its pairs. `runs` are the run's, `baseline_runs` the baseline's, if there is one."""

    runs: int
    baseline_runs: int
    pairs: int
    mean: float | None
    max: float | None
    min: float | None


class PairRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run against the baseline run of the same attempt (by order where attempts do not match).

    Where neither run recorded a step, distance, edits and control flow are null: they are unavailable, not 0.
    """

    task: str
    baseline_trace: str
    trace: str
    d_norm: float | None
    t_star: int | None
    t_star_norm: float | None
    edits: EditCounts | None
    control_flow_changes: int | None
    answer_changed: bool | None
    answer_sealed: bool
    baseline_crashed: bool
    crashed: bool
    recovered: bool | None
    manifestation: Manifestation
    group: ManifestationGroup
    rule: str
    token_overhead: Overhead
    within_noise_floor: bool | None
    tail_probability: float | None


class DivergenceResult(Result, kw_only=True):
    """Distances by task and the floor; with a baseline also pairs, prevalence and the test of K against K.

    `prevalence_within_floor` is the part of each prevalence that lies within the noise floor: same denominator.
    """

    presentation: ClassVar[Presentation] = Presentation(
        headline="{run}: the mean distance between two attempts at a task is {mean_of_means}",
        facts=("baseline", "verdict", "evidence", "p_value", "reading", "signature", "missing"),
        columns=(
            "task",
            "runs",
            "pairs",
            "mean",
            "max",
            "trace",
            "d_norm",
            "t_star",
            "manifestation",
            "within_noise_floor",
        ),
        drawing=Drawing("task", "mean", "mean distance between two attempts", source="tasks"),
    )

    run: str
    baseline: str | None
    reading: str
    signature: str
    by_lane: bool
    tasks: dict[str, TaskDivergence]
    mean_of_means: float | None
    noise_floor: NoiseFloor
    missing: dict[str, int]
    unpaired: list[str]
    warnings: list[str]
    p_value: float | None = None
    verdict: DifferenceVerdict | None = None
    evidence: str | None = None
    comparison: KbyK | None = None
    pairs: list[PairRow] = []
    prevalence: dict[str, Estimate] = {}
    groups: dict[str, Estimate] = {}
    prevalence_within_floor: dict[str, Estimate] = {}
    within_noise_floor: Estimate | None = None

    def rows(self) -> list[dict[str, Any]]:
        """One row per pair with the baseline, or one per task."""
        if self.pairs:
            return [msgspec.to_builtins(p) for p in self.pairs]
        return [{"task": name, **msgspec.to_builtins(t)} for name, t in self.tasks.items()]


def divergence(
    run: str | Run = "latest",
    against: str | Run | None = None,
    *,
    condition: str | None = None,
    against_condition: str | None = None,
    common_tasks: bool = False,
    reading: str = "steps",
    signature: str | Callable[..., str] | None = None,
    lanes: bool = True,
    draws: int = DRAWS,
    seed: int = 0,
    home: Home | str | None = None,
) -> DivergenceResult:
    """How far repeats of each task are apart, or those of one run from those of another run of the same tasks.

    `against` is the other run; without it, repeats within `run` are compared. Runs of different versions of a suite are
    refused, unless `common_tasks` keeps only tasks that are the same in both. One run can be both: `condition` and
    `against_condition` then say which of its episodes are compared with which. `reading` is `steps` or `messages`,
    `lanes` aligns concurrent agents lane by lane; `draws` and `seed` are those of the permutation test. Logs of traxr
    are compared by its own signature unless another is named, all others by the structural one.

    Gives distances by task and the noise floor; with `against` also pairs, prevalences and a test. Raises `NotFound`
    for a run that does not exist, `BadUsage` for a run that would be compared with itself.

    Example: `divergence("candidate", "main").verdict`
    """
    at_least("draws", draws, 99)
    at_least("seed", seed)
    if against_condition is not None and against is None:
        raise BadUsage("--against-condition needs the other run; name it with --against (it may be the same run)")
    lake = home_of(home)
    found = traced_run(run, lake, "divergence")
    base = None if against is None else traced_run(against, lake, "divergence")
    usual = usual_signature([*found.entries, *(base.entries if base is not None else ())], reading)
    how = ReadingOptions(reading=reading, signature=usual if signature is None else signature, by_lane=lanes)
    mine = load_readings(found, how, condition=condition)
    if base is None:
        return _repeats(found, mine, how)
    if base.path == found.path and base.files.address == found.files.address and condition == against_condition:
        raise BadUsage(
            f"run {found.name!r} would be compared with itself; name another run with --against, or conditions"
        )
    same = comparable_tasks(base, found, common_tasks=common_tasks)
    theirs = load_readings(base, how, condition=against_condition)
    return _versus(found, _only(mine, same), base, _only(theirs, same), how, draws, seed)


def _only(loaded: LoadedReadings, tasks: Collection[str] | None) -> LoadedReadings:
    """The readings of these tasks, or of all."""
    if tasks is None:
        return loaded
    kept = {name: episodes for name, episodes in loaded.tasks.items() if name in tasks}
    return LoadedReadings(kept, loaded.missing)


def _groups(loaded: LoadedReadings) -> list[list[EpisodeReading]]:
    """Repeats of each task, version by version."""
    return [repeats for episodes in loaded.tasks.values() for repeats in by_version(episodes)]


def _repeats(run: Run, mine: LoadedReadings, how: ReadingOptions) -> DivergenceResult:
    """Every pair of repeats of each task."""
    groups = _groups(mine)
    squares = own_distances(run, groups, how)
    inside: dict[str, list[float]] = {name: [] for name in mine.tasks}
    for group, square in zip(groups, squares, strict=True):
        inside[group[0].entry.head.task].extend(x for x in upper(square) if not isnan(x))
    tasks = {name: _task(inside[name], len(episodes), 0) for name, episodes in mine.tasks.items()}
    floor = floor_of(groups, squares)
    told = _nameless(mine.missing)
    if not floor.measured:
        alone = "no task has two attempts by one agent under one condition: there is no pair"
        told.append((warning(floor) or alone) if floor.without_steps else alone)
    return DivergenceResult(
        run=run.name,
        baseline=None,
        reading=how.reading,
        signature=how.name,
        by_lane=how.by_lane,
        tasks=tasks,
        mean_of_means=_mean_of_means(tasks),
        noise_floor=floor,
        missing=mine.missing,
        unpaired=[name for name, t in tasks.items() if not t.pairs],
        warnings=told,
    )


def _versus(
    run: Run, mine: LoadedReadings, base: Run, theirs: LoadedReadings, how: ReadingOptions, draws: int, seed: int
) -> DivergenceResult:
    letters = Alphabet()
    shared = [t for t in theirs.tasks if t in mine.tasks]
    tasks, pairs = {}, []
    squares = dict(zip(theirs.tasks, own_distances(base, list(theirs.tasks.values()), how), strict=True))
    for name in shared:
        one, two, square = theirs.tasks[name], mine.tasks[name], squares[name]
        runs, others = [e.reading for e in one], [e.reading for e in two]
        across = distances(runs, others, letters, by_lane=how.by_lane).d_norm
        tasks[name] = _task(list(map(float, across[~np.isnan(across)])), len(two), len(one))
        for i, j in _matched(one, two):
            own = np.delete(square[i], i)
            pairs.append(pair_row(name, (base, one[i]), (run, two[j]), own, how))
    floor = noise_floor([squares[name] for name in shared])
    tested = k_by_k(
        {t: [e.reading for e in theirs.tasks[t]] for t in shared},
        {t: [e.reading for e in mine.tasks[t]] for t in shared},
        seed=seed,
        draws=draws,
        by_lane=how.by_lane,
    )
    judged = [(p.task, p.within_noise_floor) for p in pairs if p.within_noise_floor is not None]
    return DivergenceResult(
        run=run.name,
        baseline=base.name,
        reading=how.reading,
        signature=how.name,
        by_lane=how.by_lane,
        tasks=tasks,
        mean_of_means=_mean_of_means(tasks),
        noise_floor=floor,
        missing=_sum(mine.missing, theirs.missing),
        unpaired=sorted(set(mine.tasks) ^ set(theirs.tasks)),
        warnings=_told(shared, mine, theirs, floor, sum(p.answer_sealed for p in pairs)),
        p_value=tested.p_value if tested else None,
        verdict=tested.verdict if tested else "undecided",
        evidence=tested.evidence if tested else f"unavailable: {NO_STEPS}" if shared else NOTHING_SHARED,
        comparison=tested,
        pairs=pairs,
        prevalence=prevalence([(p.task, p.manifestation) for p in pairs], MANIFESTATIONS),
        groups=prevalence([(p.task, p.group) for p in pairs], GROUPS),
        prevalence_within_floor=prevalence(
            [(p.task, p.manifestation if p.within_noise_floor else "above") for p in pairs], MANIFESTATIONS
        )
        if floor.measured
        else {},
        within_noise_floor=prevalence([(t, "within" if w else "above") for t, w in judged], ["within"])["within"]
        if judged
        else None,
    )


def _nameless(missing: Mapping[str, int]) -> list[str]:
    if UNKNOWN_TASK not in missing:
        return []
    return [
        f"left out, because they do not name their task and so may not be repeats of each other: "
        f"{missing[UNKNOWN_TASK]} of the traces; ethogram import --task-from names tasks"
    ]


def _told(
    shared: Sequence[str], mine: LoadedReadings, theirs: LoadedReadings, floor: NoiseFloor, sealed: int
) -> list[str]:
    told = _nameless(_sum(mine.missing, theirs.missing))
    alone = len(set(mine.tasks) ^ set(theirs.tasks))
    if not shared:
        told.append(f"{NOTHING_SHARED}: nothing can be compared")
    elif alone:
        told.append(f"{alone} tasks are in one of the runs only, and are left out")
    for side, loaded, option in (("baseline", theirs, "--against-condition"), ("run", mine, "--condition")):
        versions = {(e.entry.head.condition, e.entry.head.agent) for v in loaded.tasks.values() for e in v}
        if len(versions) > 1:
            told.append(
                f"the {side} holds {len(versions)} versions (conditions or agents), taken for one here; choose "
                f"one with {option}"
            )
    if sealed:
        told.append(f"{sealed} pairs have a sealed answer whose key is not at hand: answers are not compared there")
    if shared and (about := warning(floor)):
        told.append(about)
    return told


def _matched(base: Sequence[EpisodeReading], mine: Sequence[EpisodeReading]) -> list[tuple[int, int]]:
    """Which run goes with which: the same attempt, since attempts share their seed; by order where that fails."""
    place = {e.entry.head.attempt: i for i, e in enumerate(base)}
    attempts = [e.entry.head.attempt for e in mine]
    if len(place) == len(base) and len(set(attempts)) == len(attempts) and set(attempts) <= place.keys():
        return [(place[a], j) for j, a in enumerate(attempts)]
    return [(j % len(base), j) for j in range(len(mine))]


def pair_row(
    task: str,
    first: tuple[Run, EpisodeReading],
    second: tuple[Run, EpisodeReading],
    own: np.ndarray[Any, np.dtype[np.float64]],
    how: ReadingOptions,
) -> PairRow:
    """All facts about one pair: a baseline episode and the other, and `own`, the floor of the first."""
    (base, one), (run, two) = first, second
    (before, one_known), (after, two_known) = final_answer(base, one.entry), final_answer(run, two.entry)
    facts = compare_pair(
        PairSide(
            one.reading,
            before,
            metered(one.entry.head, one.entry.totals),
            one_known,
            one.crashed,
            passed(base, one.entry.head.outcome),
        ),
        PairSide(
            two.reading,
            after,
            metered(two.entry.head, two.entry.totals),
            two_known,
            two.crashed,
            passed(run, two.entry.head.outcome),
        ),
        by_lane=how.by_lane,
    )
    return PairRow(
        task=task,
        baseline_trace=one.entry.head.trace_id,
        trace=two.entry.head.trace_id,
        answer_sealed=not (one_known and two_known),
        baseline_crashed=one.crashed,
        crashed=two.crashed,
        **pair_fields(facts, against_floor(facts.divergence.d_norm, own)),
    )


def _task(values: Sequence[float], runs: int, baseline_runs: int) -> TaskDivergence:
    return TaskDivergence(
        runs=runs,
        baseline_runs=baseline_runs,
        pairs=len(values),
        mean=float(np.mean(values)) if values else None,
        max=max(values, default=None),
        min=min(values, default=None),
    )


def _mean_of_means(tasks: Mapping[str, TaskDivergence]) -> float | None:
    means = [t.mean for t in tasks.values() if t.mean is not None]
    return float(np.mean(means)) if means else None


def _sum(one: Mapping[str, int], two: Mapping[str, int]) -> dict[str, int]:
    return {name: one.get(name, 0) + two.get(name, 0) for name in sorted({*one, *two})}
