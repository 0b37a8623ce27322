"""The page of two versions: the verdict, the tasks that moved, the price of more attempts."""

from __future__ import annotations

import msgspec

from ethogram.estimate import Estimate, json_number
from ethogram.measures.comparison import TaskChange
from ethogram.measures.layer_changes import LayerComparison
from ethogram.measures.metrics import metrics
from ethogram.questions.compare.moved_tasks import MovedTask
from ethogram.questions.compare.question import compare
from ethogram.questions.gate.question import gate
from ethogram.questions.gate.results import Needed
from ethogram.questions.gate.verdict import Look, Verdict
from ethogram.viewer.library import Library

MOST_TASKS = 300


class GateQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The candidate `run` and the baseline `against`; which metric, and the drop that must not slip through."""

    run: str = "latest"
    against: str = ""
    metric: str = "success"
    margin: float = 0.05


class LookRow(msgspec.Struct, frozen=True, kw_only=True):
    """One planned look; `z` and `bound` may be infinite, which is a word then."""

    look: int
    runs: int
    z: float | str | None
    bound: float | str | None
    worst_case: float | str | None


class GateView(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict with its evidence. `moved` names tasks with a failing attempt, `tasks` has all of them.

    `difference` is that of all recorded attempts; `at_look` that of the looks which the verdict rests on. `metrics`
    are all that can be asked for.
    """

    base: str
    candidate: str
    metric: str
    metrics: list[str]
    unit: str
    better: str
    margin: float
    verdict: Verdict
    why: str
    difference: Estimate
    at_look: Estimate
    decided_at: int | None
    base_mean: Estimate
    candidate_mean: Estimate
    looks: list[LookRow]
    planned_looks: int
    power: float
    needed: Needed
    moved: list[MovedTask]
    tasks: list[TaskChange]
    of_tasks: int
    layers: LayerComparison | None
    missing_base: dict[str, int]
    missing_candidate: dict[str, int]
    only_base: list[str]
    only_candidate: list[str]
    facts: dict[str, list[str]]
    warnings: list[str]


def gate_view(library: Library, query: GateQuery) -> GateView:
    """The verdict of `ethogram gate` beside the differences of `ethogram compare`."""
    key = ("gate", query.against, library.state(query.against), query.metric, query.margin)
    return library.answer(query.run, key, lambda run: _gate_view(library, query))


def _gate_view(library: Library, query: GateQuery) -> GateView:
    judged = gate(query.against, query.run, metric=query.metric, margin=query.margin, home=library.home)
    beside = compare(query.against, query.run, metric=query.metric, home=library.home)
    worst_first = sorted(beside.tasks, key=lambda task: task.difference or 0.0, reverse=beside.better == "less")
    evidence = judged.evidence
    return GateView(
        base=judged.base_run,
        candidate=judged.candidate_run,
        metric=beside.metric,
        metrics=list(metrics()),
        unit=beside.unit,
        better=beside.better,
        margin=judged.margin,
        verdict=judged.verdict,
        why=evidence.why,
        difference=beside.difference,
        at_look=judged.difference,
        decided_at=evidence.decided_at,
        base_mean=beside.base,
        candidate_mean=beside.candidate,
        looks=[_look(look) for look in evidence.looks],
        planned_looks=evidence.planned_looks,
        power=evidence.power,
        needed=judged.needed,
        moved=judged.tasks,
        tasks=worst_first[:MOST_TASKS],
        of_tasks=len(worst_first),
        layers=judged.layers,
        missing_base=evidence.missing_base,
        missing_candidate=evidence.missing_candidate,
        only_base=beside.only_base[:20],
        only_candidate=beside.only_candidate[:20],
        facts=beside.facts,
        warnings=judged.warnings,
    )


def _look(look: Look) -> LookRow:
    return LookRow(
        look=look.look,
        runs=look.runs,
        z=json_number(look.z),
        bound=json_number(look.bound),
        worst_case=json_number(look.worst_case),
    )
