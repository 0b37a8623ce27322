"""Did my change break it? Two stored runs on the same tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ethogram.decide import compare as decided
from ethogram.decide.compare import Comparison, Design
from ethogram.errors import BadUsage
from ethogram.lab.outcomes.columns import facts_of, load_outcomes
from ethogram.measure.outcomes import Outcomes
from ethogram.store import Home, Run, run_of
from ethogram.store.ledger import gc_paused

from .moved import Arm, MovedTask, moved_tasks, with_traces


class CompareResult(Comparison, kw_only=True):
    """Candidate minus base; `facts` names what else differs between the runs, `agent` whose episodes were chosen.

    `tasks` are all of them, `moved` those that moved, each with a failing attempt.
    """

    base_run: str
    candidate_run: str
    moved: list[MovedTask]
    facts: dict[str, list[str]]
    base_agent: str | None = None
    agent: str | None = None

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
) -> CompareResult:
    """Compare two stored runs on the tasks that both have, paired and stratified by task.

    `base` and `candidate` are runs, names, directories or `latest`. `metric` is a metric of the catalogue. `design` is
    `within` for a claim about exactly these tasks, `between` for one about the population they come from. `condition`
    and `agent` choose where runs hold several, `base_agent` is the agent of the base if it has another name.

    Gives the difference (candidate minus base) with its interval, a verdict, and the tasks that moved; `difference.low`
    is None where nothing can be claimed. Raises `NotFound` for a run that does not exist, `BadUsage` for a bad value.

    Example: `compare("main", "new-prompt").verdict`
    """
    with gc_paused():
        one, two, arms = load_pair(
            base,
            candidate,
            home=home,
            condition=condition,
            agents=(base_agent or agent, agent),
            metrics=[metric],
        )
        found = decided.compare_outcomes(*arms, name=metric, level=level, design=design)
        theirs = facts_of(one), facts_of(two)
        moved = moved_tasks(found.tasks, metric, regression=found.verdict == "regression")
        ours = Arm(one, condition, base_agent or agent), Arm(two, condition, agent)
        moved = with_traces(moved, *ours, metric)
    return CompareResult(
        **msgspec.structs.asdict(found),
        base_run=one.name,
        candidate_run=two.name,
        base_agent=base_agent or agent,
        agent=agent,
        moved=moved,
        facts={name: [theirs[0][name], theirs[1][name]] for name in theirs[0]},
    )


def load_pair(
    base: str | Run,
    candidate: str | Run,
    *,
    home: Home | str | None = None,
    condition: str | None = None,
    agents: tuple[str | None, str | None] = (None, None),
    metrics: Sequence[str],
) -> tuple[Run, Run, tuple[Outcomes, Outcomes]]:
    """Two runs and their outcomes; runs of different versions of a suite are refused."""
    one, two = run_of(base, home), run_of(candidate, home)
    refuse_mixed_suites(one, two)
    before, after = (
        load_outcomes(run, condition=condition, agent=agent, metrics=metrics)
        for run, agent in zip((one, two), agents, strict=True)
    )
    return one, two, (before, after)


def refuse_mixed_suites(one: Run, two: Run) -> None:
    """Scores of different versions of a suite mean different things."""
    digests = [run.info.plan.get("suite_digest") for run in (one, two)]
    if all(digests) and digests[0] != digests[1]:
        names = [run.info.plan.get("suite_name", "a suite") for run in (one, two)]
        raise BadUsage(
            f"{one.name!r} ran {names[0]} at {str(digests[0])[:15]} and {two.name!r} ran {names[1]} at "
            f"{str(digests[1])[:15]}: scores of different versions are not compared; run one of them again"
        )
