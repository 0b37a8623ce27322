"""Gate: a pass / regression / undecided verdict on a candidate run, from two stored runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from ethogram.errors import BadUsage
from ethogram.estimate import Estimate
from ethogram.measures.comparison import missing_bounds, shared_tasks, task_changes
from ethogram.measures.metrics import OUTCOME, metric
from ethogram.measures.outcomes import Outcomes, outcomes_of, turned
from ethogram.questions.compare.moved_tasks import Arm, moved_tasks, with_traces
from ethogram.questions.compare.question import layers_between, load_pair
from ethogram.reading.attempt_prices import attempt_price
from ethogram.reading.outcomes import load_outcomes
from ethogram.reading.suite_versions import refuse_unrecorded, suite_versions
from ethogram.store import Home, Run

from . import allocation, planner
from . import verdict as decided
from .buying_terms import as_promised, promise_of
from .confirmation import Confirmation, asked_again, blocking, check_allowed, confirm_moved, without_fresh
from .judged_outcomes import outcome_judge
from .missing import MissingRule
from .monitor import watch
from .noise import outcome_floor
from .plan import GatePlan, GateSettings, planning_rates
from .quarantine import Quarantined, about_quarantine, read_quarantine
from .refusals import if_not_turned, name_refusals
from .results import GateEvidence, GateResult, Needed
from .verdict import Judgement

_DEFAULTS = GateSettings()


def gate(
    base: str | Run,
    candidate: str | Run,
    *,
    home: Home | str | None = None,
    quarantine: str | Path | Sequence[Quarantined] = (),
    monitor: bool = False,
    condition: str | None = None,
    agent: str | None = None,
    base_agent: str | None = None,
    allow_tasks: Sequence[str] = (),
    trust_judge: bool = False,
    common_tasks: bool = False,
    metric: str = _DEFAULTS.metric,
    margin: float = _DEFAULTS.margin,
    alpha: float = _DEFAULTS.alpha,
    power: float = _DEFAULTS.power,
    every: float | None = _DEFAULTS.every,
    min_coverage: float = _DEFAULTS.min_coverage,
    fresh: bool = _DEFAULTS.fresh,
    pilot: str | None = _DEFAULTS.pilot,
    missing: MissingRule = _DEFAULTS.missing,
    confirm: int = _DEFAULTS.confirm,
    session_sd: float | None = _DEFAULTS.session_sd,
    ahead: int = _DEFAULTS.ahead,
) -> GateResult:
    """The verdict on a candidate run against a base run, both stored.

    Which episodes count: `condition` and `agent` choose where runs hold several, `base_agent` is the agent of the base
    if it has another name; tasks in `quarantine` (a YAML file, or a list) do not count. `allow_tasks` may be
    confirmed to have broken without blocking. Runs of different versions of a suite are refused, unless `common_tasks`
    keeps only tasks that are the same in both. `trust_judge` takes outcomes that a judge gave as they are. `monitor`
    tests after every episode, without planned looks.

    What is promised of `metric`: `alpha` is how often an unchanged version is called a regression, `margin` the drop
    that must not slip through (a share of the mean, but for success and score), `power` how often it is found. `every`
    is the passes between looks; below `min_coverage` nothing is decided; a `missing` attempt is `bounds`, `failure` or
    `ignore`. `fresh` plans two new versions from the rates of `pilot`; `confirm` tries tasks that moved again;
    `session_sd` is by how much sessions differ; `ahead` passes are put in order together, informative tasks first.

    Raises `BadUsage` for a value that makes no sense and `NotFound` for a run that does not exist. Too few attempts are
    not an error: the verdict is then `undecided`, and `needed` says how many more runs would decide.

    Example: `gate("main", "new-prompt", margin=0.1).verdict`
    """
    settings = GateSettings(
        metric=metric,
        margin=margin,
        alpha=alpha,
        power=power,
        every=every,
        min_coverage=min_coverage,
        fresh=fresh,
        pilot=pilot,
        missing=missing,
        confirm=confirm,
        session_sd=session_sd,
        ahead=ahead,
    )
    return gate_runs(
        base,
        candidate,
        settings,
        home=home,
        quarantine=quarantine,
        monitor=monitor,
        condition=condition,
        agents=(base_agent or agent, agent),
        allow_tasks=allow_tasks,
        trust_judge=trust_judge,
        common_tasks=common_tasks,
    )


def needed_metrics(settings: GateSettings) -> list[str]:
    """What a verdict reads of each episode: the metric that is judged, and the cost, which prices the runs to come."""
    return [settings.metric, "cost"]


def gate_runs(
    base: str | Run,
    candidate: str | Run,
    settings: GateSettings,
    *,
    home: Home | str | None = None,
    quarantine: str | Path | Sequence[Quarantined] = (),
    monitor: bool = False,
    condition: str | None = None,
    agents: tuple[str | None, str | None] = (None, None),
    allow_tasks: Sequence[str] = (),
    trust_judge: bool = False,
    common_tasks: bool = False,
) -> GateResult:
    """`gate` with its settings in one record; `agents` are those of the base and of the candidate."""
    settings = settings.checked()
    one, two, (before, after) = load_pair(
        base,
        candidate,
        home=home,
        condition=condition,
        agents=agents,
        metrics=needed_metrics(settings),
        common_tasks=common_tasks,
    )
    versions = suite_versions(one, two)
    if versions is not None:
        refuse_unrecorded(versions)
    shared = shared_tasks(before, after)
    resting = read_quarantine(quarantine) if isinstance(quarantine, str | Path) else list(quarantine)
    away = {q.task for q in resting if not q.expired}
    begun = promise_of(one, two)
    planned = begun.tasks if begun is not None and begun.tasks is not None and not common_tasks else shared
    tasks = tuple(t for t in planned if t not in away)
    if not tasks:
        raise BadUsage(f"{one.name!r} and {two.name!r} have no task in common that is not in quarantine")
    check_allowed(allow_tasks, before.tasks)
    absent = [t for t in before.tasks if t not in {*planned, *away}]
    settings = settings if monitor or begun is None else as_promised(one, begun, settings)
    if monitor:
        result = _watched(one, two, before, after, settings, tasks, resting, absent)
    elif not settings.fresh and not _is_attempted(before.only(tasks), settings.metric):
        result = _without_baseline(one, two, (before.only(tasks), after.only(tasks)), settings, resting)
    else:
        plan = allocation.plan_gate(planning_outcomes(settings, before, home), settings, tasks)
        asked = {t: n for t, n in asked_again(two).items() if t in tasks}
        looked = without_fresh(after, asked)
        judge = partial(
            decided.judgement, plan=plan, settings=settings, closed=_closed(two), take_all=begun is None, absent=absent
        )
        found = if_not_turned(judge(before, looked), before, looked, settings.metric, judge)
        result = gate_result(one.name, two.name, (before, looked), settings, plan, found, resting)
        lenient = turned(before, after, "regression", settings.metric) or (before, after)
        block(result, confirm_moved(*lenient, asked, settings.confirm_alpha, allow_tasks))
    result.base_agent, result.agent = agents
    result.suite = versions
    arms = Arm(one, condition, agents[0]), Arm(two, condition, agents[1])
    result.tasks = with_traces(result.tasks, *arms, settings.metric)
    if settings.metric == "success":
        result.layers = layers_between(arms, (before, after), tasks=tasks, level=1 - settings.alpha)
    name_refusals(result, before.only(tasks), after.only(tasks))
    hold_back(result, (two, one), trust_judge=trust_judge)
    return result


def block(result: GateResult, confirmations: list[Confirmation]) -> None:
    """Add confirmations to a result: a drop that new attempts confirm is a regression, whatever the looks say."""
    result.confirmations = confirmations
    broken = blocking(confirmations)
    if broken is not None:
        call_regression(result, broken)


def call_regression(result: GateResult, broken: str) -> None:
    """Turn a result into a regression, even if its looks do not say so; `broken` says why."""
    result.evidence = msgspec.structs.replace(result.evidence, why=f"{broken}; the looks: {result.evidence.why}")
    result.verdict = "regression"
    result.needed = Needed(runs=0, next_look_runs=0, cost_usd=0.0)


def hold_back(result: GateResult, runs: Sequence[Run], *, trust_judge: bool) -> None:
    """Turn a verdict that relies on an uncalibrated judge into `undecided`, and keep the verdict that it replaces.

    A pass needs proof that the judge is right; a regression stands unless the judge is known to be bad.
    """
    found = outcome_judge(runs, result.settings.metric)
    if found is None:
        return
    result.judge = msgspec.structs.replace(found, trusted_by_user=trust_judge)
    if found.standing == "trusted":
        return
    result.warnings.insert(0, found.why)
    kept = result.verdict == "regression" and found.standing != "refused"
    if trust_judge or kept or result.verdict == "undecided":
        return
    held = f"not decided: {found.why}. By raw verdicts: {result.verdict}, {result.evidence.why}"
    result.evidence = msgspec.structs.replace(result.evidence, why=held)
    result.verdict = "undecided"
    labels = f"label a sample and run ethogram calibrate, or give --trust-judge: {found.why}"
    result.needed = Needed(runs=None, next_look_runs=None, cost_usd=None, why=labels)


def _closed(run: Run) -> bool:
    """Whether no more will come: an imported log that nobody is adding to at this moment."""
    return run.info.kind != "run" and not run.busy()


def planning_outcomes(settings: GateSettings, before: Outcomes | None, home: Home | str | None) -> Outcomes:
    """What the looks are planned from: the stored baseline, or the pilot of two fresh arms, or nothing."""
    if not settings.fresh and before is not None:
        return before
    if settings.pilot is None:
        return outcomes_of([])
    return load_outcomes(settings.pilot, home=home, metrics=[settings.metric])


def gate_result(
    base: str,
    candidate: str,
    outcomes: tuple[Outcomes, Outcomes],
    settings: GateSettings,
    plan: GatePlan,
    found: Judgement,
    resting: list[Quarantined],
) -> GateResult:
    """The judgement as it is shown and stored; the tasks that moved are named by all recorded attempts."""
    before, after = (o.only(plan.tasks) for o in outcomes)
    recorded = task_changes(before, after, settings.metric)
    if found.looks:
        after = after.upto(np.array(found.attempts, dtype=np.int64))
    changes = task_changes(before, after, settings.metric)
    floor = outcome_floor(before, settings.metric)
    told = found.assumes is not None and floor.swing is not None  # the verdict's own note says it, and what it assumes
    warnings = [floor.why] if floor.why and plan.stored and not told else []
    if not plan.reachable:
        few = "attempt per task is" if plan.stored == 1 else "attempts per task are"
        word = "drop" if metric(settings.metric).better == "more" else "rise"
        warnings.append(
            f"{plan.stored:.3g} baseline {few} too few to detect a {word} of {plan.margin:.3g}: "
            f"power {plan.power:.2f}, {settings.power:g} wanted"
        )
    warnings += [found.assumes] if found.assumes is not None else []
    warnings += about_quarantine(resting, outcomes, len(plan.tasks))
    return GateResult(
        base_run=base,
        candidate_run=candidate,
        verdict=found.verdict,
        settings=settings,
        margin=plan.margin,
        difference=found.difference,
        evidence=GateEvidence(
            why=found.why,
            looks=found.looks,
            planned_looks=len(plan.looks),
            decided_at=found.decided_at,
            power=plan.power,
            noise_floor=floor,
            bounds=missing_bounds(before, after) if settings.metric == "success" else None,
            missing_base=before.missing(settings.metric),
            missing_candidate=after.missing(settings.metric),
            moved=[t for t in changes if t.moved],
        ),
        needed=_needed(before, after, plan, found, settings),
        quarantined=resting,
        tasks=moved_tasks(recorded, settings.metric, regression=found.verdict == "regression"),
        warnings=warnings,
    )


def _is_attempted(base: Outcomes, name: str) -> bool:
    """Whether the baseline has attempts to hold a candidate against: scored ones, where the metric needs a score."""
    return bool((base.scored if name in OUTCOME else base.ended).any())


def _without_baseline(
    one: Run, two: Run, outcomes: tuple[Outcomes, Outcomes], settings: GateSettings, resting: list[Quarantined]
) -> GateResult:
    """Nothing was scored in the baseline, so there is nothing to hold the candidate against."""
    before, after = outcomes
    why = "no attempt of the baseline has a score"
    return GateResult(
        base_run=one.name,
        candidate_run=two.name,
        verdict="undecided",
        settings=settings,
        margin=settings.margin,
        difference=Estimate(value=None, of="tasks", missing=before.missing(settings.metric), why=why),
        evidence=GateEvidence(
            why=why,
            looks=[],
            planned_looks=0,
            decided_at=None,
            power=0.0,
            noise_floor=outcome_floor(before, settings.metric),
            bounds=missing_bounds(before, after) if settings.metric == "success" else None,
            missing_base=before.missing(settings.metric),
            missing_candidate=after.missing(settings.metric),
            moved=[],
        ),
        needed=Needed(runs=None, next_look_runs=None, cost_usd=None, why="run the baseline first"),
        quarantined=resting,
    )


def _watched(
    one: Run,
    two: Run,
    before: Outcomes,
    after: Outcomes,
    settings: GateSettings,
    tasks: tuple[str, ...],
    resting: list[Quarantined],
    absent: list[str],
) -> GateResult:
    found = watch(before, after, settings, tasks)
    objection = decided.not_attempted(absent)
    if found.verdict == "pass" and objection is not None:
        found = msgspec.structs.replace(found, verdict="undecided", why=f"{found.why}; but {objection}")
    first, second = before.only(tasks), after.only(tasks)
    changes = task_changes(first, second, settings.metric)
    return GateResult(
        base_run=one.name,
        candidate_run=two.name,
        verdict=found.verdict,
        settings=settings,
        margin=settings.margin,
        difference=found.difference,
        evidence=GateEvidence(
            why=found.why,
            looks=[],
            planned_looks=0,
            decided_at=found.alarm_at,
            power=settings.power,
            noise_floor=outcome_floor(first, settings.metric),
            bounds=missing_bounds(first, second) if settings.metric == "success" else None,
            missing_base=first.missing(settings.metric),
            missing_candidate=second.missing(settings.metric),
            moved=[t for t in changes if t.moved],
            watched=found.history,
            e_value=found.history[-1].e if found.history else None,
            anytime_p=found.anytime_p,
        ),
        needed=Needed(runs=None, next_look_runs=len(tasks), cost_usd=None, why="watching has no planned end"),
        quarantined=resting,
        tasks=moved_tasks(changes, settings.metric, regression=found.verdict == "regression"),
    )


def _needed(before: Outcomes, after: Outcomes, plan: GatePlan, found: Judgement, settings: GateSettings) -> Needed:
    if found.verdict != "undecided":
        return Needed(runs=0, next_look_runs=0, cost_usd=0.0)
    price = attempt_price(after)
    if price is None:
        price = attempt_price(before)
    baseline, why = None, None
    runs = found.remaining_runs
    if not plan.reachable and settings.metric == "success":
        enough = planner.baseline_needed(planning_rates(before), settings)
        if enough is not None:
            have = int(before.attempts.sum())
            baseline = max(enough * len(plan.tasks) - have, 0)
            why = f"the baseline needs {enough} attempts per task for this margin"
        else:
            most = planner.STORED_TRIED[-1]
            why = f"even {most} baseline attempts per task are too few for this margin: choose a larger --margin"
    elif runs == 0:
        why = "the plan is used up: begin a new candidate run with more attempts, or widen the margin"
        runs = plan.runs[-1] * (2 if settings.fresh else 1)
    return Needed(
        runs=runs,
        next_look_runs=found.next_runs,
        cost_usd=None if price is None else price * (runs + (baseline or 0)),
        baseline_runs=baseline,
        why=why,
    )
