"""The page of a paired experiment: what the damage cost by operator and task, how it showed, and every pair."""

from __future__ import annotations

import msgspec

from ethogram.measures.noise_floor import NoiseFloor
from ethogram.questions.experiment.question import experiment_results
from ethogram.questions.experiment.records import Aggregate, Dose, ExperimentPair, NotApplied, OperatorTask, Treatment
from ethogram.viewer.library import Library

MOST_PAIRS = 300


class PerturbationQuery(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment, and which of its pairs are listed: of one operator, of one task, or of one manifestation."""

    run: str = "latest"
    operator: str = ""
    task: str = ""
    showed: str = ""


class PerturbationView(msgspec.Struct, frozen=True, kw_only=True):
    """A paired experiment. `aggregates` has one row per operator and `overall` all pairs; `pairs` are those that were
    asked for, the furthest apart first, `of_pairs` that many."""

    run: str
    agent: str
    deterministic: bool
    planned_pairs: int
    all_pairs: int
    delivered_pairs: int
    noise_floor: NoiseFloor
    noise_floor_runs: int
    treatments: list[Treatment]
    aggregates: list[Aggregate]
    overall: Aggregate
    by_task: list[OperatorTask]
    doses: list[Dose]
    not_applicable: list[NotApplied]
    missing: dict[str, int]
    warnings: list[str]
    pairs: list[ExperimentPair]
    of_pairs: int


def perturbation_view(library: Library, query: PerturbationQuery) -> PerturbationView:
    """The answer of `ethogram perturb`, from the stored run."""
    found = library.answer(query.run, ("perturbation",), lambda run: experiment_results(run, home=library.home))
    chosen = [
        p
        for p in found.pairs
        if (not query.operator or p.operator == query.operator)
        and (not query.task or p.pair.task == query.task)
        and (not query.showed or (p.delivered and p.pair.manifestation == query.showed))
    ]
    furthest = sorted(chosen, key=lambda p: -(p.pair.d_norm if p.pair.d_norm is not None else -1.0))
    return PerturbationView(
        run=found.run,
        agent=found.agent,
        deterministic=found.deterministic,
        planned_pairs=found.planned_pairs,
        all_pairs=len(found.pairs),
        delivered_pairs=found.delivered_pairs,
        noise_floor=found.noise_floor,
        noise_floor_runs=found.noise_floor_runs,
        treatments=found.treatments,
        aggregates=found.aggregates[:-1],
        overall=found.overall,
        by_task=found.by_task,
        doses=found.dose_response,
        not_applicable=found.not_applicable,
        missing=found.missing,
        warnings=found.warnings,
        pairs=furthest[:MOST_PAIRS],
        of_pairs=len(chosen),
    )
