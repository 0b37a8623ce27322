"""The page of one run: why it fails, how reliable it is, what is missing, what it cost, every attempt."""

from __future__ import annotations

from typing import Literal

import msgspec

from ethogram.estimate import Estimate, json_number
from ethogram.measures.reliability import Bounds, Compounding, EpisodeCounts
from ethogram.questions.cost.question import cost
from ethogram.questions.cost.records import CostStep, CostTool
from ethogram.questions.home.overview import RunOverview, run_overview
from ethogram.questions.reliability.question import stats
from ethogram.questions.why.question import why
from ethogram.questions.why.reading_order import ReadFirst, read_first
from ethogram.questions.why.results import Cause, ClassRow, Example, SettledCause, SettlingExperiment, WhyResult
from ethogram.reading.outcomes import clean_condition, facts_of
from ethogram.store import Run
from ethogram.traces import Layer, is_outcome_only
from ethogram.viewer.library import Library

MOST_REASONS = 12
MOST_EXAMPLES = 3


class RunQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which run: its name, or `latest`."""

    run: str = "latest"


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """What stands at the head of a run's page. `facts` are model, temperature and scaffold; `experiment` says that it
    pairs clean and disturbed attempts; without `traces` only outcomes are known."""

    overview: RunOverview
    version: str
    facts: dict[str, str]
    meta: dict[str, str | int | float | bool | None]
    conditions: list[str]
    experiment: bool
    traces: int


def run_view(library: Library, query: RunQuery) -> RunView:
    """The head of a run."""

    def answer(run: Run) -> RunView:
        return run_answer(run, library.answer(run.name, ("overview",), run_overview))

    return library.answer(query.run, ("run",), answer)


def run_answer(run: Run, overview: RunOverview) -> RunView:
    """The head of a run, whose line in the list is known."""
    rows = run.episodes()
    return RunView(
        overview=overview,
        version=run.info.version,
        facts=facts_of(run),
        meta=run.info.meta,
        conditions=sorted(set(rows.names["condition"])),
        experiment="experiment" in run.info.plan,
        traces=sum(not is_outcome_only(entry.head) for entry in run.entries),
    )


class ReasonView(msgspec.Struct, frozen=True, kw_only=True):
    """A cause or a lead: what happens, in how many failed and successful runs, where to read it, what to try."""

    what: str
    kind: Literal["cause", "lead"]
    class_: str | None = msgspec.field(name="class")
    failed_with: int
    succeeded_with: int
    runs_with: int
    share: Estimate
    lift: float | str | None
    adjusted: float | None
    owner: str | None
    try_: str = msgspec.field(name="try")
    also: list[str]
    tasks: dict[str, int]
    examples: list[Example]
    experiment: SettlingExperiment | None
    settled: SettledCause | None


class WhyView(msgspec.Struct, frozen=True, kw_only=True):
    """Why a run fails. `failed` is None in a run without scores; then everything is a lead."""

    headline: str
    runs: int
    scored: int
    failed: int | None
    explained: int | None
    unexplained: int | None
    reasons: list[ReasonView]
    more_reasons: int
    read: list[ReadFirst]
    classes: list[ClassRow]
    layers: dict[Layer, Estimate]
    look: str
    contrast: str
    score_with: list[str]
    notes: list[str]


def why_view(library: Library, query: RunQuery) -> WhyView:
    """The answer of `ethogram why`."""
    told = library.answer(query.run, ("told", ""), lambda run: why(run, home=library.home))
    return library.answer(query.run, ("why",), lambda run: why_answer(run, told))


def why_answer(run: Run, told: WhyResult) -> WhyView:
    """What the page shows of why a run fails."""
    reasons = [_reason(c, "cause") for c in told.causes] + [_reason(c, "lead") for c in told.leads]
    return WhyView(
        headline=told.headline,
        runs=told.runs,
        scored=told.scored,
        failed=told.failed,
        explained=told.explained,
        unexplained=told.unexplained,
        reasons=reasons[:MOST_REASONS],
        more_reasons=max(len(reasons) - MOST_REASONS, 0),
        read=read_first(run, told),
        classes=told.classes,
        layers=told.layers,
        look=told.look,
        contrast=told.contrast,
        score_with=told.score_with,
        notes=told.notes,
    )


def _reason(cause: Cause, kind: Literal["cause", "lead"]) -> ReasonView:
    return ReasonView(
        what=cause.what,
        kind=kind,
        class_=cause.class_,
        failed_with=cause.failed_with,
        succeeded_with=cause.succeeded_with,
        runs_with=cause.runs_with,
        share=cause.share,
        lift=json_number(cause.lift),
        adjusted=cause.adjusted,
        owner=cause.owner,
        try_=cause.try_,
        also=cause.also,
        tasks=cause.tasks,
        examples=cause.examples[:MOST_EXAMPLES],
        experiment=cause.experiment,
        settled=cause.settled,
    )


class ReliabilityView(msgspec.Struct, frozen=True, kw_only=True):
    """pass@k and pass^k along k, what is missing, and what would be if it were not."""

    episodes: EpisodeCounts
    scored: int
    passed: int
    target: str
    level: float
    pass_at: dict[str, Estimate]
    pass_hat: dict[str, Estimate]
    bounds: Bounds
    same_tasks: bool
    compounding: Compounding | None
    notes: list[str]


def reliability_view(library: Library, query: RunQuery) -> ReliabilityView:
    """The answer of `ethogram stats`."""
    return library.answer(query.run, ("reliability",), reliability_answer)


def reliability_answer(run: Run) -> ReliabilityView:
    """What the page shows of how reliable a run is."""
    found = stats(run, condition=clean_condition(run))
    return ReliabilityView(
        episodes=found.episodes,
        scored=found.n,
        passed=found.c,
        target=found.target,
        level=found.level,
        pass_at=found.pass_at,
        pass_hat=found.pass_hat,
        bounds=found.bounds,
        same_tasks=found.same_tasks,
        compounding=found.compounding,
        notes=found.notes,
    )


class CostView(msgspec.Struct, frozen=True, kw_only=True):
    """What a run cost, by kind of step and by tool; `unpriced` calls are in no dollar figure."""

    cost_usd: float | None
    per_run: Estimate
    per_resolved: Estimate
    by_step: list[CostStep]
    by_tool: list[CostTool]
    unpriced: int
    cache_hit_rate: float | None
    notes: list[str]


def cost_view(library: Library, query: RunQuery) -> CostView:
    """The answer of `ethogram cost`."""
    return library.answer(query.run, ("cost",), cost_answer)


def cost_answer(run: Run) -> CostView:
    """What the page shows of what a run cost."""
    found = cost(run, condition=clean_condition(run))
    return CostView(
        cost_usd=found.cost_usd,
        per_run=found.per_run,
        per_resolved=found.per_resolved,
        by_step=found.by_step,
        by_tool=found.by_tool,
        unpriced=sum(u.usage.calls for u in found.unpriced),
        cache_hit_rate=found.cache.hit_rate,
        notes=found.notes,
    )
