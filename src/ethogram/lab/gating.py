"""May it ship? The gate's verdict on two stored runs, and the plan of a comparison that is not yet run."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ethogram.decide import gate as decided
from ethogram.decide import planner
from ethogram.decide.compare import TaskChange, missing_bounds, shared_tasks, task_changes
from ethogram.decide.gate import GatePlan, Judgement, Verdict
from ethogram.decide.gate import GateSettings as GateSettings
from ethogram.decide.gate import Look as Look
from ethogram.decide.monitor import Watch, watch
from ethogram.decide.planner import PlanSettings, Simulated
from ethogram.errors import BadInput, BadUsage
from ethogram.estimate import Estimate
from ethogram.measure.floor import NoiseFloor
from ethogram.measure.noise import OutcomeFloor, noise_floor
from ethogram.measure.outcomes import Outcomes, outcomes_of
from ethogram.stats import exact, multiplicity
from ethogram.store import Home, Run

from .comparison import load_pair
from .divergence import divergence
from .outcomes import load_outcomes, run_of
from .result import Result


class Quarantined(msgspec.Struct, frozen=True, kw_only=True):
    """A task that does not count towards the verdict until a date; from then on it does again."""

    task: str
    until: datetime.date
    reason: str
    expired: bool = False


class Needed(msgspec.Struct, frozen=True, kw_only=True):
    """What it takes to decide: at most so many more runs, the next look after so many, and their price."""

    runs: int | None
    next_look_runs: int | None
    cost_usd: float | None
    baseline_runs: int | None = None
    why: str | None = None


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """What the verdict rests on."""

    why: str
    looks: list[Look]
    planned_looks: int
    decided_at: int | None
    power: float
    noise_floor: OutcomeFloor
    bounds: tuple[float, float] | None
    missing_base: dict[str, int]
    missing_candidate: dict[str, int]
    moved: list[TaskChange]
    watched: list[Watch] | None = None
    e_value: float | None = None
    anytime_p: float | None = None


class Confirmation(msgspec.Struct, frozen=True, kw_only=True):
    """A task that moved, attempted again: `confirmed` if fresh attempts alone show it too."""

    task: str
    base: float
    before: float
    again: float
    attempts: int
    p: float
    confirmed: bool


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """Did it also behave otherwise? The behavioural noise floor of the baseline, and the candidate against it.

    Information beside the verdict: a version may pass and still have changed its ways.
    """

    noise_floor: NoiseFloor
    distance: float | None
    verdict: str | None
    p_value: float | None
    evidence: str | None


class GateResult(Result, kw_only=True):
    """The verdict with its evidence; `difference` is candidate minus base."""

    base_run: str
    candidate_run: str
    verdict: Verdict
    settings: GateSettings
    margin: float
    difference: Estimate
    evidence: Evidence
    needed: Needed
    quarantined: list[Quarantined]
    confirmations: list[Confirmation] = []
    behaviour: Behaviour | None = None
    warnings: list[str] = []

    def rows(self) -> list[dict[str, Any]]:
        """One row per look."""
        return [msgspec.to_builtins(look) for look in self.evidence.looks]


def gate(
    base: str | Run,
    candidate: str | Run,
    settings: GateSettings | None = None,
    *,
    home: Home | str | None = None,
    quarantine: str | Path | Sequence[Quarantined] = (),
    monitor: bool = False,
    condition: str | None = None,
    **given: Any,
) -> GateResult:
    """The verdict on two stored runs: `gate("main", "new-prompt", margin=0.1).verdict`."""
    settings = msgspec.structs.replace(settings or GateSettings(), **given).checked()
    one, two, (before, after) = load_pair(base, candidate, home=home, condition=condition)
    shared = shared_tasks(before, after)
    resting = read_quarantine(quarantine) if isinstance(quarantine, str | Path) else list(quarantine)
    away = {q.task for q in resting if not q.expired}
    tasks = tuple(t for t in shared if t not in away)
    if not tasks:
        raise BadUsage(f"{one.name!r} and {two.name!r} have no task in common that is not in quarantine")
    if monitor:
        return _watched(one, two, before, after, settings, tasks, resting)
    settings = _as_begun(one, two, settings)
    if not settings.fresh and not before.only(tasks).attempts.any():
        return _without_baseline(one, two, (before.only(tasks), after.only(tasks)), settings, resting)
    plan = decided.plan_gate(planning_outcomes(settings, before, home), settings, tasks)
    found = decided.judge(before, after, plan, settings, closed=two.info.kind != "run")
    return gate_result(one.name, two.name, (before, after), settings, plan, found, resting)


def behaviour_of(base: str | Run, candidate: str | Run, *, home: Home | str | None = None) -> Behaviour:
    """The candidate's behaviour against the baseline's own restlessness, whatever the pass rates say."""
    found = divergence(candidate, base, home=home)
    return Behaviour(
        noise_floor=found.noise_floor,
        distance=found.mean_of_means,
        verdict=found.verdict,
        p_value=found.p_value,
        evidence=found.evidence,
    )


META = "gate"
"""Where a run that a gate bought keeps what was promised when it began."""


def promise(base: str, settings: GateSettings) -> str:
    """What a run that a gate buys remembers."""
    return msgspec.json.encode({"base": base, "settings": settings}).decode()


def planning_outcomes(settings: GateSettings, before: Outcomes | None, home: Home | str | None) -> Outcomes:
    """What the looks are planned from: the stored baseline, or the pilot of two fresh arms, or nothing."""
    if not settings.fresh and before is not None:
        return before
    return outcomes_of([]) if settings.pilot is None else load_outcomes(settings.pilot, home=home)


def _as_begun(one: Run, two: Run, settings: GateSettings) -> GateSettings:
    """Two arms that a gate ran afresh are judged as such, whatever else is asked of them now."""
    begun = [run.info.meta.get(META) for run in (one, two)]
    if begun[0] is None or begun[0] != begun[1]:
        return settings
    old = msgspec.json.decode(str(begun[1]))["settings"]
    return msgspec.structs.replace(settings, fresh=bool(old["fresh"]), pilot=old.get("pilot"))


def gate_result(
    base: str,
    candidate: str,
    outcomes: tuple[Outcomes, Outcomes],
    settings: GateSettings,
    plan: GatePlan,
    found: Judgement,
    resting: list[Quarantined],
) -> GateResult:
    """The judgement as it is shown and stored."""
    before, after = (o.only(plan.tasks) for o in outcomes)
    if found.looks:
        after = after.upto(plan.attempts()[found.looks[-1].look - 1])
    floor = noise_floor(before, settings.metric)
    warnings = [floor.why] if floor.why and plan.stored else []
    if not plan.reachable:
        warnings.append(
            f"with {plan.stored:.3g} attempts per task the baseline cannot show a change of {plan.margin:.3g} "
            f"with power {settings.power:g}; this plan has {plan.power:.2f}"
        )
    warnings += _about_quarantine(resting, outcomes, len(plan.tasks))
    return GateResult(
        base_run=base,
        candidate_run=candidate,
        verdict=found.verdict,
        settings=settings,
        margin=plan.margin,
        difference=found.difference,
        evidence=Evidence(
            why=found.why,
            looks=found.looks,
            planned_looks=len(plan.looks),
            decided_at=found.decided_at,
            power=plan.power,
            noise_floor=floor,
            bounds=missing_bounds(before, after) if settings.metric == "success" else None,
            missing_base=before.missing(),
            missing_candidate=after.missing(),
            moved=_moved(before, after, settings.metric),
        ),
        needed=_needed(before, after, plan, found, settings),
        quarantined=resting,
        warnings=warnings,
    )


def _about_quarantine(resting: list[Quarantined], outcomes: tuple[Outcomes, Outcomes], counted: int) -> list[str]:
    """What people should know of the list: that it names strangers, or most of the suite."""
    known = {t for o in outcomes for t in o.tasks}
    strange = sorted({q.task for q in resting} - known)
    told = [f"the quarantine list names {', '.join(strange[:5])}, which no run knows"] if strange else []
    away = len({q.task for q in resting if not q.expired} & known)
    share = away / max(counted + away, 1)
    if share > 0.2:
        told.append(f"{share:.0%} of the tasks are in quarantine: the verdict speaks only of the rest")
    return told


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
        difference=Estimate(value=None, of="tasks", missing=before.missing(), why=why),
        evidence=Evidence(
            why=why,
            looks=[],
            planned_looks=0,
            decided_at=None,
            power=0.0,
            noise_floor=noise_floor(before, settings.metric),
            bounds=missing_bounds(before, after) if settings.metric == "success" else None,
            missing_base=before.missing(),
            missing_candidate=after.missing(),
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
) -> GateResult:
    found = watch(before, after, settings, tasks)
    first, second = before.only(tasks), after.only(tasks)
    return GateResult(
        base_run=one.name,
        candidate_run=two.name,
        verdict=found.verdict,
        settings=settings,
        margin=settings.margin,
        difference=found.difference,
        evidence=Evidence(
            why=found.why,
            looks=[],
            planned_looks=0,
            decided_at=found.alarm_at,
            power=settings.power,
            noise_floor=noise_floor(first, settings.metric),
            bounds=missing_bounds(first, second) if settings.metric == "success" else None,
            missing_base=first.missing(),
            missing_candidate=second.missing(),
            moved=_moved(first, second, settings.metric),
            watched=found.history,
            e_value=found.history[-1].e if found.history else None,
            anytime_p=found.anytime_p,
        ),
        needed=Needed(runs=None, next_look_runs=len(tasks), cost_usd=None, why="watching has no planned end"),
        quarantined=resting,
    )


def confirm_moved(before: Outcomes, after: Outcomes, asked: Mapping[str, int], alpha: float) -> list[Confirmation]:
    """Tasks that moved, judged by the attempts from number `asked[task]` on alone, which chose nothing.

    The baseline's attempts are those that helped to choose the task, so a lucky baseline can still be confirmed.
    """
    tasks = tuple(asked)
    one, two = before.only(tasks), after.only(tasks)
    first = np.array([asked[t] for t in tasks], dtype=np.int64)
    early, fresh = two.upto(first), two.where(two.attempt >= first[two.task])
    tests = exact.task_tests(one.successes, one.attempts, fresh.successes, fresh.attempts).less
    adjusted = multiplicity.holm(tests)
    return [
        Confirmation(
            task=task,
            base=_share(one, i),
            before=_share(early, i),
            again=_share(fresh, i),
            attempts=int(fresh.attempts[i]),
            p=float(adjusted[i]),
            confirmed=bool(fresh.attempts[i] > 0 and adjusted[i] <= alpha),
        )
        for i, task in enumerate(tasks)
    ]


def _share(outcomes: Outcomes, task: int) -> float:
    return float(outcomes.successes[task]) / max(int(outcomes.attempts[task]), 1)


def _moved(before: Outcomes, after: Outcomes, metric: str) -> list[TaskChange]:
    return [t for t in task_changes(before, after, metric, "benjamini-hochberg") if t.moved]


def _needed(before: Outcomes, after: Outcomes, plan: GatePlan, found: Judgement, settings: GateSettings) -> Needed:
    if found.verdict != "undecided":
        return Needed(runs=0, next_look_runs=0, cost_usd=0.0)
    price = price_of(after) or price_of(before)
    baseline, why = None, None
    runs = found.remaining_runs
    if not plan.reachable and settings.metric == "success":
        enough = planner.baseline_needed(decided.planning_rates(before), settings)
        if enough is not None:
            have = int(before.attempts.sum())
            baseline = max(enough * len(plan.tasks) - have, 0)
            why = f"the baseline needs {enough} attempts per task for this margin"
    elif runs == 0:
        why = "the plan is used up: begin a new candidate run with more attempts, or widen the margin"
        runs = round(plan.looks[-1] * len(plan.tasks)) * (2 if settings.fresh else 1)
    return Needed(
        runs=runs,
        next_look_runs=found.next_runs,
        cost_usd=None if price is None else price * (runs + (baseline or 0)),
        baseline_runs=baseline,
        why=why,
    )


def price_of(outcomes: Outcomes) -> float | None:
    """The mean recorded cost of an episode, None where no log said."""
    known = outcomes.figures.get("cost")
    if known is None or np.all(np.isnan(known)):
        return None
    return float(np.nanmean(known))


def read_quarantine(path: str | Path, today: datetime.date | None = None) -> list[Quarantined]:
    """The quarantine list: YAML or JSON, each entry with `task`, `until` (a date) and `reason`."""
    import yaml

    place = Path(path)
    try:
        listed = yaml.safe_load(place.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"the quarantine list {place} cannot be read: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadInput(f"the quarantine list {place} is not YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(listed, list):
        raise BadInput(f"the quarantine list {place} must be a list of entries with task, until and reason")
    now = today or datetime.datetime.now(datetime.UTC).date()
    found = []
    for i, entry in enumerate(listed, start=1):
        try:
            if isinstance(entry, dict) and isinstance(entry.get("task"), int):
                entry = {**entry, "task": str(entry["task"])}  # tasks of many suites are numbers
            one = msgspec.convert(entry, Quarantined, strict=False)
        except msgspec.ValidationError as error:
            raise BadInput(f"entry {i} of {place}: {error}; write task, until (2026-12-31) and reason") from None
        found.append(msgspec.structs.replace(one, expired=one.until < now))
    return found


class PlanResult(Result, kw_only=True):
    """Runs and dollars of a comparison that is not yet run."""

    pilot: str | None
    drop: float
    alpha: float
    target_power: float
    stored: float
    tasks: int
    looks: list[float]
    attempts_per_task: int
    runs: int
    expected_if_dropped: float
    expected_if_unchanged: float
    fixed_runs: float | None
    power: float
    price: float | None
    cost_usd: float | None
    expected_cost_usd: float | None
    simulated: Simulated


def plan_runs(
    pilot: str | Run | None = None,
    settings: PlanSettings | None = None,
    *,
    home: Home | str | None = None,
    tasks: int = 50,
    rate: float = 0.7,
    spread: float = 0.25,
    seed: int = 0,
    **given: Any,
) -> PlanResult:
    """How many runs, what price: from a pilot run, or from assumptions about the tasks."""
    settings = msgspec.structs.replace(settings or PlanSettings(), **given)
    name = None
    if pilot is None:
        rates = planner.assumed_rates(tasks, rate, spread)
    else:
        found = run_of(pilot, home)
        outcomes = load_outcomes(found)
        rates, name = decided.planning_rates(outcomes), found.name
        if settings.price is None:
            settings = msgspec.structs.replace(settings, price=price_of(outcomes))
    made = planner.plan_runs(rates, settings, np.random.default_rng(seed))
    return PlanResult(
        pilot=name,
        alpha=settings.alpha,
        target_power=settings.power,
        stored=settings.stored,
        price=settings.price,
        **{f: getattr(made, f) for f in made.__struct_fields__},
    )
