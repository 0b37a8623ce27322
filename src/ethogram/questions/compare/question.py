"""Comparison of two stored runs on the same tasks."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, ClassVar

import msgspec

from ethogram.arguments import check_level, choice_of
from ethogram.display import Drawing, Presentation
from ethogram.measures import comparison as decided
from ethogram.measures.comparison import DESIGNS, Comparison, Design
from ethogram.measures.layer_changes import LayerComparison, compare_layers
from ethogram.measures.outcomes import Outcomes, refused_words, turned
from ethogram.reading.layers import load_layers
from ethogram.reading.outcomes import facts_of, load_outcomes
from ethogram.reading.samples import sampled_run
from ethogram.reading.suite_versions import SuiteVersions, comparable_tasks, refuse_itself, suite_versions
from ethogram.store import Home, Run
from ethogram.store.ledger import gc_paused

from .moved_tasks import Arm, MovedTask, moved_tasks, with_traces


class CompareResult(Comparison, kw_only=True):
    """Candidate minus base; `facts` names what else differs between the runs, `agent` whose episodes were chosen.

    `tasks` are all of them, `moved` those that moved, each with a failing attempt. `layers` says which layer moved and
    where to look, for the metric `success`. `suite` tells which versions of the suite were run, where they are known,
    and `refused` what providers refused, which leaves a verdict undecided where it could turn it.
    """

    presentation: ClassVar[Presentation] = Presentation(
        headline="{verdict}: {candidate_run} against {base_run} by {metric}",
        facts=("unit", "better", "p", "method", "base_agent", "agent"),
        columns=("task", "base", "candidate", "difference", "n_base", "n_candidate", "p", "q"),
        hidden=("only_base", "only_candidate", "bounds"),
        drawing=Drawing("task", "difference", "candidate − base"),
    )

    base_run: str
    candidate_run: str
    moved: list[MovedTask]
    facts: dict[str, list[str]]
    base_agent: str | None = None
    agent: str | None = None
    layers: LayerComparison | None = None
    suite: SuiteVersions | None = None
    refused: str | None = None

    def rows(self) -> list[dict[str, Any]]:
        """One row per task."""
        return [msgspec.to_builtins(t) for t in self.tasks]


def compare(
    base: str | Run,
    candidate: str | Run,
    *,
    home: Home | str | None = None,
    metric: str = "success",
    level: float = 0.95,
    design: Design = "within",
    condition: str | None = None,
    agent: str | None = None,
    base_agent: str | None = None,
    common_tasks: bool = False,
) -> CompareResult:
    """Compare two stored runs on the tasks that both have, paired and stratified by task.

    `base` and `candidate` are runs, names, directories or `latest`. `metric` is a metric of the catalogue. `design` is
    `within` for a claim about exactly these tasks, `between` for one about the population they come from. `condition`
    and `agent` choose where runs hold several, `base_agent` is the agent of the base if it has another name. Runs of
    different versions of a suite are refused, unless `common_tasks` keeps only tasks that are the same in both.

    Gives the difference (candidate minus base) with its interval, a verdict, and the tasks that moved; `difference.low`
    is None where nothing can be claimed. Raises `NotFound` for a run that does not exist, `BadUsage` for a bad value.

    Example: `compare("main", "new-prompt").verdict`
    """
    check_level(level)
    choice_of("design", design, DESIGNS)
    with gc_paused():
        one, two, arms = load_pair(
            base,
            candidate,
            home=home,
            condition=condition,
            agents=(base_agent or agent, agent),
            metrics=[metric],
            common_tasks=common_tasks,
        )
        found = decided.compare_outcomes(*arms, name=metric, level=level, design=design)
        refused = refused_words(arms, (one.name, two.name))
        other = turned(*arms, found.verdict, metric)
        if other is not None and found.verdict != "undecided":
            again = decided.compare_outcomes(*other, name=metric, level=level, design=design)
            if again.verdict != found.verdict:
                refused = f"{refused}; they could turn the verdict, which without them is: {found.verdict}"
                found.verdict = "undecided"
        theirs = facts_of(one), facts_of(two)
        moved = moved_tasks(found.tasks, metric, regression=found.verdict == "regression")
        ours = Arm(one, condition, base_agent or agent), Arm(two, condition, agent)
        moved = with_traces(moved, *ours, metric)
        shared = {*arms[0].tasks, *arms[1].tasks} if common_tasks else None
        layers = None
        if metric == "success":
            layers = layers_between(ours, arms, tasks=shared, level=level, design=design)
    return CompareResult(
        **msgspec.structs.asdict(found),
        base_run=one.name,
        candidate_run=two.name,
        base_agent=base_agent or agent,
        agent=agent,
        moved=moved,
        facts={name: [theirs[0][name], theirs[1][name]] for name in theirs[0]},
        layers=layers,
        suite=suite_versions(one, two),
        refused=refused or None,
    )


def layers_between(
    arms: tuple[Arm, Arm],
    outcomes: tuple[Outcomes, Outcomes],
    *,
    tasks: Collection[str] | None = None,
    level: float = 0.95,
    design: Design = "within",
) -> LayerComparison:
    """Which layer moved between two arms whose outcomes are these; `tasks` leaves the others out."""
    one, two = (
        load_layers(arm.run, own, condition=arm.condition, agent=arm.agent)
        for arm, own in zip(arms, outcomes, strict=True)
    )
    return compare_layers(one, two, tasks=tasks, level=level, design=design)


def load_pair(
    base: str | Run,
    candidate: str | Run,
    *,
    home: Home | str | None = None,
    condition: str | None = None,
    agents: tuple[str | None, str | None] = (None, None),
    metrics: Sequence[str],
    common_tasks: bool = False,
) -> tuple[Run, Run, tuple[Outcomes, Outcomes]]:
    """Two runs and their outcomes; runs of different versions of a suite are refused, or with `common_tasks` cut to
    the tasks that are the same in both."""
    one, two = sampled_run(base, home), sampled_run(candidate, home)
    if agents[0] == agents[1]:
        refuse_itself(one, two)
    only = comparable_tasks(one, two, common_tasks=common_tasks)
    before, after = (
        load_outcomes(run, condition=condition, agent=agent, metrics=metrics)
        for run, agent in zip((one, two), agents, strict=True)
    )
    if only is not None:
        before, after = (found.only([t for t in found.tasks if t in only]) for found in (before, after))
    return one, two, (before, after)
