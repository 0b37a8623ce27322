"""The plan of a gate: settings, looks, the order of attempts, and the power."""

from __future__ import annotations

import math

import msgspec
import numpy as np

from ethogram.arguments import above_zero, at_least, between, choice_of
from ethogram.errors import BadUsage
from ethogram.measures.metrics import Metric, metric
from ethogram.measures.outcomes import Floats, Ints, Outcomes

from . import power
from .missing import MISSING_RULES, MissingRule
from .noise import OutcomeFloor, outcome_floor
from .order import attempts_by_look, passes, runs_by_look

WORST_RATE = 0.5
"""The pass rate that is assumed where nothing is known: it needs the most runs."""
BOUND_SHAPE = 0.25
"""Between O'Brien-Fleming (0) and Pocock (0.5): near the fewest runs."""
EVERY_TASK = 100
"""Up to this number of tasks a pass needs an attempt at each; larger suites may be sampled."""
CONFIRM_SHARE = 0.1
"""The share of alpha that confirmations may spend."""
PLAYED = 2000
"""The number of candidates that are simulated, at most, to find the power that is promised."""


class GateSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is promised.

    `alpha`: how often an unchanged version is called a regression. `margin`: the drop that must not slip through, in
    the metric's unit for success and score, as a share of the baseline's mean for all others. `power`: how often a drop
    of that size is found, and one minus it is how often such a drop may pass. `every`: passes between looks (`pace`).
    `fresh`: both versions are run anew, planned from the rates of the run `pilot`, or from the worst case without one.
    `missing`: what a missing attempt may hide. `confirm`: attempts by which tasks that moved are tried again, on a
    share of alpha. `session_sd`: by how much sessions differ, where that is known, as `margin` is given. `ahead`:
    passes that are put in order together, informative tasks first; 0 for equal passes.
    """

    metric: str = "success"
    margin: float = 0.05
    alpha: float = 0.05
    power: float = 0.8
    every: float | None = None
    min_coverage: float = 0.8
    fresh: bool = False
    pilot: str | None = None
    missing: MissingRule = "bounds"
    confirm: int = 0
    session_sd: float | None = None
    ahead: int = 0

    @property
    def looks_alpha(self) -> float:
        """The share of alpha that the looks spend; the rest is for confirmations, so that the total stays alpha."""
        return self.alpha - self.confirm_alpha

    @property
    def confirm_alpha(self) -> float:
        """The share of alpha that confirmations spend, all tasks together."""
        return CONFIRM_SHARE * self.alpha if self.confirm else 0.0

    def checked(self) -> GateSettings:
        """Itself, or one sentence about what makes no sense."""
        kind = metric(self.metric)
        above_zero("margin", self.margin)
        if self.margin > 1 and kind.unit != "score":
            share = "a success rate" if kind.name == "success" else f"the mean of {kind.name}, as a share of it"
            raise BadUsage.about(
                "margin", f"must be at most 1, not {self.margin:g}: it is a change of {share}; 5 % is 0.05", self.margin
            )
        between("alpha", self.alpha, 0.0, 0.5)
        between("power", self.power, 0.5, 1.0)
        if not 0 <= self.min_coverage <= 1:
            between("min_coverage", self.min_coverage, 0.0, 1.0)
        if self.every is not None and not 0.05 <= self.every <= 10:
            raise BadUsage.about("every", f"must lie between 0.05 and 10 passes, not {self.every:g}", self.every)
        choice_of("missing", self.missing, MISSING_RULES)
        at_least("confirm", self.confirm)
        if self.session_sd is not None:
            at_least("session_sd", self.session_sd)
        return self


class GatePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Which attempts every look judges, and how z is judged there; all of it is fixed before the first look.

    `order` lists tasks by index: attempt after attempt of the candidate. Look k judges the first `runs[k]` of them,
    `looks[k]` in passes. `margin` is in the metric's unit. `reachable` says whether the promised power can be had with
    this baseline. Where informative tasks come first, `spread` is the variance of an attempt at each task, `bias` what
    the weighted difference shows at each look though nothing changed, and `whole` the last look's information of the
    plain mean; else all tasks are alike.
    """

    tasks: tuple[str, ...]
    order: tuple[int, ...]
    runs: tuple[int, ...]
    # what `power.StagedPlan` holds as arrays: a record holds values, so that two plans can be compared
    looks: tuple[float, ...]
    fractions: tuple[float, ...]
    upper: tuple[float, ...]
    reach: tuple[float, ...]
    margin: float
    stored: float
    power: float
    expected_without: float
    expected_with: float
    reachable: bool
    spread: tuple[float, ...] = ()
    bias: tuple[float, ...] = ()
    whole: float = 0.0

    def attempts(self) -> Ints:
        """Attempts of each task by each look, (looks, tasks)."""
        return attempts_by_look(self.order, self.runs, len(self.tasks))


def pace(every: float | None, tasks: int) -> float:
    """Passes between looks: as asked, else a quarter of a pass where that is ten runs or more, else half of one."""
    return every if every is not None else 0.25 if tasks >= 40 else 0.5


def plan_looks(base: Outcomes, settings: GateSettings, tasks: tuple[str, ...]) -> GatePlan:
    """The looks, from what the baseline says of its tasks; for two fresh arms `base` may be a pilot, or empty."""
    settings.checked()
    kind = metric(settings.metric)
    known = base.only(tasks)
    effect, margin = _effect(known, kind, settings, len(tasks))
    stored = 0.0 if settings.fresh else _per_task(known, kind)
    if not settings.fresh and stored == 0:
        raise BadUsage(f"the baseline has no attempt with a known {kind.name}; run it first, or gate two fresh arms")
    every = pace(settings.every, len(tasks))
    # a pass needs every task, so a plan that ends before one pass could never say it
    least = math.ceil(1 / every) if len(tasks) <= EVERY_TASK else 1
    alpha = settings.looks_alpha

    def staged(count: int) -> power.StagedPlan:
        looks = power.spaced_looks(effect, every, count, stored)
        return power.staged(effect, alpha, settings.power, looks, BOUND_SHAPE, stored)

    found = power.sequential_plan(effect, alpha, settings.power, every=every, delta=BOUND_SHAPE, stored=stored)
    # where the baseline is too small for this margin: twice its passes bring most of what it can ever tell
    most = min(max(round(2 * (stored or 50) / every), least), 400)
    count = most if found is None else max(round(float(found.looks[-1]) / every), least)
    plan = _with_order(staged(count), tasks, margin, stored)
    if kind.name == "success":
        suite = believed_suites(known, margin)
        plan = _promised(plan, suite, known, settings)
        while plan.power < settings.power and count < most:
            count = min(max(count + 1, round(1.15 * count)), most)
            plan = _promised(_with_order(staged(count), tasks, margin, stored), suite, known, settings)
    return msgspec.structs.replace(plan, reachable=plan.power >= settings.power)


def _with_order(plan: power.StagedPlan, tasks: tuple[str, ...], margin: float, stored: float) -> GatePlan:
    """A staged comparison with the attempts that its looks judge."""
    runs = runs_by_look(list(plan.looks), len(tasks))
    return GatePlan(
        tasks=tasks,
        order=tuple(passes(tasks, runs[-1]).tolist()),
        runs=tuple(runs),
        looks=_tuple(plan.looks),
        fractions=_tuple(plan.fractions),
        upper=_tuple(plan.upper),
        reach=_tuple(plan.reach),
        margin=margin,
        stored=stored,
        power=plan.power,
        expected_without=plan.expected_without,
        expected_with=plan.expected_with,
        reachable=True,
    )


def believed_suites(base: Outcomes, margin: float) -> tuple[Floats, Floats]:
    """Suites that may lie behind a baseline, (draws, tasks): their pass rates, and those after a drop of the margin."""
    tasks = max(len(base.tasks), 1)
    rng = np.random.default_rng(PLAYED)
    draws = int(np.clip(2_000_000 // (30 * tasks), 100, PLAYED))
    rates = believed_rates(base.successes, base.attempts, draws, rng)
    able = rates.mean(axis=1) > 1.02 * margin
    if not np.any(able):
        rates, able = np.broadcast_to(planning_rates(base), (draws, tasks)), np.ones(draws, dtype=bool)
    return rates[able], power.shifted(rates[able], margin)


def _promised(plan: GatePlan, suite: tuple[Floats, Floats], base: Outcomes, settings: GateSettings) -> GatePlan:
    """The plan with the power and the length that it has when it is played, not those of a formula.

    A stored baseline stays what it is and the candidate is drawn from each of the suites that may lie behind it; so
    what a noisy baseline leaves open is in the promise. As many attempts go missing as did of the baseline's.
    """
    due = plan.attempts()
    floor = outcome_floor(base, "success") if plan.stored else None
    extra = session_variance(floor, settings, plan, 0.0, plan.upper[-1])
    lost = missing_share(base)
    rates, dropped = suite
    rng = np.random.default_rng(PLAYED)
    apart = np.sqrt(extra) * rng.standard_normal((rates.shape[0], 1))
    attempts = (due if plan.stored == 0 else np.broadcast_to(base.attempts, due.shape), due)
    looks, fractions, upper, reach = (np.array(x) for x in (plan.looks, plan.fractions, plan.upper, plan.reach))
    design = power.StagedPlan(looks, fractions, upper, reach, plan.power, plan.expected_without, plan.expected_with)
    met = [
        power.simulate(
            rates,
            np.clip(q + apart, 0.0, 1.0),
            attempts,
            design,
            plan.margin,
            rng,
            stored=base.successes if plan.stored else None,
            extra=extra,
            every_task=len(plan.tasks) <= EVERY_TASK,
            missing=lost,
        )
        for q in (rates, dropped)
    ]
    per = len(plan.tasks)
    return msgspec.structs.replace(
        plan, power=met[1].found, expected_without=met[0].second / per, expected_with=met[1].second / per
    )


def missing_share(base: Outcomes) -> float:
    """The share of a baseline's recorded attempts without an outcome, as far as a plan can bear it."""
    return min(float(np.mean(~base.scored)), 0.9) if base.task.size else 0.0


def session_variance(
    floor: OutcomeFloor | None, settings: GateSettings, plan: GatePlan, plain: float, bound: float
) -> float:
    """What other sessions than the candidate's one add to the variance of the difference to a stored baseline.

    A stated `session_sd` is taken as known. Else it is measured: a few sessions tell little of how far they differ, and
    that doubt is paid for at the look's bound by Student's t, so false alarms stay as promised from two sessions on. A
    baseline of one session cannot tell, and the verdict says so.
    """
    if floor is None:
        return 0.0
    share = 1 + 1 / max(floor.sessions, 1)
    if settings.session_sd is not None:
        # in the unit of the metric, as the margin of the plan is
        return share * (settings.session_sd * plan.margin / settings.margin) ** 2
    if floor.session is None or floor.session_error is None:
        return 0.0
    whole = power.student_variance(plain + share * floor.session, share * floor.session_error, bound)
    return float(whole) - plain


def _effect(base: Outcomes, kind: Metric, settings: GateSettings, tasks: int) -> tuple[power.DropMoments, float]:
    """The drop to be found as the planner needs it, and the margin in the metric's unit."""
    if kind.name == "success":
        rates = planning_rates(base)
        if settings.margin >= float(rates.mean()):
            raise BadUsage(
                f"the baseline passes {rates.mean():.3g} of the time, so no drop of {settings.margin:g} is possible; "
                "choose a smaller --margin"
            )
        return power.effect_on(rates, settings.margin, tasks), settings.margin
    values = base.metric(kind.name)
    known = ~np.isnan(values)
    if not np.any(known):
        raise BadUsage(f"the baseline says nothing of {kind.name}; choose a metric that its log records")
    n = np.bincount(base.task[known], minlength=tasks)
    mean = np.bincount(base.task[known], weights=values[known], minlength=tasks) / np.maximum(n, 1)
    margin = settings.margin if kind.unit == "score" else settings.margin * float(mean[n > 0].mean())
    off = values[known] - mean[base.task[known]]
    many = n > 1
    if not np.any(many) or margin <= 0:
        raise BadUsage(f"the baseline's {kind.name} has no spread to plan by; it needs two attempts at some task")
    second = np.bincount(base.task[known], weights=off**2, minlength=tasks)[many] / (n[many] - 1)
    third = np.bincount(base.task[known], weights=off**3, minlength=tasks)[many] / n[many]
    within, lopsided = max(float(second.mean()), (margin / 100) ** 2), float(third.mean())
    # a change for the worse is a drop of the metric turned round, and so is its skewness
    lopsided *= -kind.worse_sign
    return power.DropMoments(margin, margin**2, within, within, lopsided, lopsided, tasks), margin


def planning_rates(base: Outcomes) -> Floats:
    """Pass rates to plan by: drawn together so that they spread as the true ones do, not as a few attempts make them.

    With one attempt each nothing is known of the spread: all tasks alike is the case that needs the most runs.
    """
    n, c = base.attempts, base.successes
    used = n > 0
    if not np.any(used):
        return np.full(max(len(base.tasks), 1), WORST_RATE)
    rates = c[used] / n[used]
    mean = float(rates.mean())
    edge = 0.5 / (float(n[used].sum()) + 1)
    mean = min(max(mean, edge), 1 - edge)
    many = n[used] > 1
    if not np.any(many):
        return np.full(rates.shape, mean)
    noise = np.where(many, rates * (1 - rates) / np.maximum(n[used] - 1, 1), mean * (1 - mean))
    seen = float(np.mean((rates - mean) ** 2))
    true = max(seen - float(noise.mean()), 0.0)
    drawn = mean + (rates - mean) * np.sqrt(true / seen) if seen > 0 else np.full(rates.shape, mean)
    return np.asarray(np.clip(drawn, edge, 1 - edge), dtype=np.float64)


def believed_rates(successes: Ints, attempts: Ints, draws: int, rng: np.random.Generator) -> Floats:
    """Pass rates that may lie behind counts, (draws, tasks): drawn from each task's posterior.

    A task's prior is what the other tasks of the suite show together: a distribution over a grid of rates, both ends
    included, by maximum likelihood (Kiefer and Wolfowitz 1956) with the weight of one task spread over all rates. So
    tasks that always or never pass are believed to, as far as the suite has such tasks, and a task attempted seldom is
    not. Were a task part of its own prior, its counts would be used twice, and a few tasks taken as known.
    """
    n, c = attempts.astype(np.float64)[:, None], successes.astype(np.float64)[:, None]
    if not np.any(n):
        return np.full((draws, max(n.size, 1)), WORST_RATE)
    inner = np.sin(np.linspace(0, np.pi / 2, 43)[1:-1]) ** 2
    grid = np.concatenate([[0.0], inner, [1.0]])
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(c > 0, c * np.log(grid), 0.0) + np.where(n > c, (n - c) * np.log1p(-grid), 0.0)
    likelihood = np.exp(logs - logs.max(axis=1, keepdims=True))
    flat = np.full(grid.size, 1 / grid.size)
    weights, posterior = flat, likelihood
    for _ in range(60):
        posterior = likelihood * weights
        posterior /= posterior.sum(axis=1, keepdims=True)
        weights = (posterior.sum(axis=0) - posterior + flat) / n.size
    places = np.sum(rng.random((draws, n.size, 1)) > np.cumsum(posterior, axis=1)[None, :, :-1], axis=2)
    return np.asarray(grid[places])


def _per_task(base: Outcomes, kind: Metric) -> float:
    """Attempts per task that a stored baseline is worth: the harmonic mean, for the weakest task limits most."""
    known = ~np.isnan(base.metric(kind.name))
    n = np.bincount(base.task[known], minlength=len(base.tasks)).astype(np.float64)
    n = n[n > 0]
    return float(n.size / np.sum(1 / n)) if n.size else 0.0


def _tuple(values: Floats) -> tuple[float, ...]:
    return tuple(float(v) for v in values)
