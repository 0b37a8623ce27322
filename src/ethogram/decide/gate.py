"""May it ship? A verdict at planned looks, however often it is asked for.

The looks are planned from the baseline and the settings alone, and so is the order of the attempts. Look k judges the
first n_k of that order, never whatever happens to be there: asking early, asking often, a crash and a resume change
nothing, and no task is left for last because of its place in a file.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import msgspec
import numpy as np

from ethogram.errors import BadUsage
from ethogram.estimate import Estimate
from ethogram.measure.catalogue import Metric, metric
from ethogram.measure.noise import OutcomeFloor, noise_floor
from ethogram.measure.outcomes import Floats, Ints, Outcomes
from ethogram.stats import power, sequential, stratified

from .compare import sums
from .order import attempts_by_look, passes, runs_by_look

Verdict = Literal["pass", "regression", "undecided"]
WORST_RATE = 0.5
"""The pass rate that is assumed where nothing is known: it needs the most runs."""
BOUND_SHAPE = 0.25
"""Between O'Brien-Fleming (0) and Pocock (0.5): near the fewest runs."""


class GateSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is promised.

    `alpha`: how often an unchanged version is called a regression. `margin`: the drop that must not slip through, in
    the metric's unit for success and score, as a share of the baseline's mean for all others. `power`: how often a drop
    of that size is found, and one minus it is how often such a drop may pass. `every`: passes between looks (`pace`).
    `fresh`: both versions are run anew, planned from the rates of the run `pilot`, or from the worst case without one.
    """

    metric: str = "success"
    margin: float = 0.05
    alpha: float = 0.05
    power: float = 0.8
    every: float | None = None
    min_coverage: float = 0.8
    fresh: bool = False
    pilot: str | None = None

    def checked(self) -> GateSettings:
        """Itself, or one sentence about what makes no sense."""
        metric(self.metric)
        if not self.margin > 0:
            raise BadUsage(f"--margin must be more than 0, not {self.margin:g}")
        for name, low, high in (("alpha", 0.0, 0.5), ("power", 0.5, 1.0), ("min_coverage", 0.0, 1.0)):
            value = getattr(self, name)
            if not low < value < high and not (name == "min_coverage" and value in (low, high)):
                raise BadUsage(f"--{name.replace('_', '-')} must lie between {low:g} and {high:g}, not {value:g}")
        if self.every is not None and not 0.05 <= self.every <= 10:
            raise BadUsage(f"--every must lie between 0.05 and 10 passes, not {self.every:g}")
        return self


class GatePlan(msgspec.Struct, frozen=True, kw_only=True):
    """Which attempts every look judges, and how z is judged there; all of it is fixed before the first look.

    `order` lists tasks by index: attempt after attempt of the candidate. Look k judges the first `runs[k]` of them,
    `looks[k]` in passes. `margin` is in the metric's unit. `reachable` says whether the promised power can be had with
    this baseline.
    """

    tasks: tuple[str, ...]
    order: tuple[int, ...]
    runs: tuple[int, ...]
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

    def attempts(self) -> Ints:
        """Attempts of each task by each look, (looks, tasks)."""
        return attempts_by_look(self.order, self.runs, len(self.tasks))


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """One planned look: `z` of a change for the worse against `bound`, and the largest change not ruled out."""

    look: int
    passes: float
    runs: int
    scored: int
    coverage: float
    z: float
    bound: float
    change: float
    worst_case: float
    margin: float
    decision: Verdict


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict, the looks that led to it, and what is left to do if it is undecided."""

    verdict: Verdict
    why: str
    difference: Estimate
    looks: list[Look]
    decided_at: int | None
    next_runs: int
    remaining_runs: int


def pace(every: float | None, tasks: int) -> float:
    """Passes between looks: as asked, else a quarter of a pass where that is ten runs or more, else half of one."""
    return every if every is not None else 0.25 if tasks >= 40 else 0.5


def plan_gate(base: Outcomes, settings: GateSettings, tasks: tuple[str, ...]) -> GatePlan:
    """The looks, from what the baseline says of its tasks; for two fresh arms `base` may be a pilot, or empty."""
    settings.checked()
    kind = metric(settings.metric)
    known = base.only(tasks)
    effect, margin = _effect(known, kind, settings, len(tasks))
    stored = 0.0 if settings.fresh else _per_task(known, kind)
    if not settings.fresh and stored == 0:
        raise BadUsage(f"the baseline has no attempt with a known {kind.name}; run it first, or gate two fresh arms")
    every = pace(settings.every, len(tasks))
    plan = power.sequential_plan(effect, settings.alpha, settings.power, every=every, delta=BOUND_SHAPE, stored=stored)
    reachable = plan is not None
    if plan is None:
        # the baseline is too small for this margin: twice its passes bring most of what it can ever tell
        most = max(round(2 * (stored or 50) / every), 1)
        looks = power.spaced_looks(effect, every, min(most, 400), stored)
        plan = power.staged(effect, settings.alpha, settings.power, looks, BOUND_SHAPE, stored)
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
        reachable=reachable,
    )


def judge(
    base: Outcomes, candidate: Outcomes, plan: GatePlan, settings: GateSettings, *, closed: bool = False
) -> Judgement:
    """Look where it was planned, in order, until a look decides.

    A look counts once all of its attempts are there, scored or missing. `closed` says that no more will come (an
    imported log): then it counts with what there is, if coverage allows.
    """
    kind = metric(settings.metric)
    one, two = base.only(plan.tasks), candidate.only(plan.tasks)
    due = plan.attempts()
    reached = _reached(one if settings.fresh else None, two, due, closed, settings.min_coverage)
    floor = noise_floor(one, kind.name) if plan.stored else None
    scores = [_score(one, two, due[k], plan, settings, floor, plan.upper[k]) for k in range(reached)]
    sizes = np.array([float(s.size) for s in scores])
    grown = np.flatnonzero(np.diff(sizes, prepend=0.0) > 0)
    upper, reach = np.full(reached, np.inf), np.full(reached, np.inf)
    if grown.size:
        last = reached == len(plan.looks)
        met = _bounds(plan.fractions, plan.upper, _tuple(sizes[grown]), tuple(map(int, grown)), last, settings.power)
        upper[grown], reach[grown] = met
    looks: list[Look] = []
    for k in grown:
        score = scores[k]
        looks.append(_look(int(k), score, two.upto(due[k]), due[k], float(upper[k]), float(reach[k]), plan, settings))
        if looks[-1].decision != "undecided":
            break
    decided = looks[-1].look if looks and looks[-1].decision != "undecided" else None
    done = int(np.sum(np.minimum(_present(two), due[-1])))
    upcoming = due[min(reached, len(due) - 1)]
    arms = 2 if settings.fresh else 1
    return Judgement(
        verdict=looks[-1].decision if looks else "undecided",
        why=_why(looks, reached, plan, settings, kind),
        difference=_difference(scores[: looks[-1].look if looks else 0], upper, kind, two, settings.alpha),
        looks=looks,
        decided_at=decided,
        next_runs=0 if decided else arms * max(int(upcoming.sum()) - done, 0),
        remaining_runs=0 if decided else arms * max(int(due[-1].sum()) - done, 0),
    )


def session_variance(floor: OutcomeFloor | None, plain: float, bound: float) -> float:
    """What other sessions than the candidate's one add to the variance of the difference to a stored baseline.

    A few sessions tell little of how far they differ. That doubt is paid for at the look's bound by Student's t, so
    false alarms stay as promised from two sessions on; a baseline of one session cannot tell, and the floor says so.
    """
    if floor is None or floor.session is None or floor.session_error is None:
        return 0.0
    share = 1 + 1 / floor.sessions
    whole = power.student_variance(plain + share * floor.session, share * floor.session_error, bound)
    return float(whole) - plain


def _effect(base: Outcomes, kind: Metric, settings: GateSettings, tasks: int) -> tuple[power.Effect, float]:
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
    return power.Effect(margin, margin**2, within, within, lopsided, lopsided, tasks), margin


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


def _per_task(base: Outcomes, kind: Metric) -> float:
    """Attempts per task that a stored baseline is worth: the harmonic mean, for the weakest task limits most."""
    known = ~np.isnan(base.metric(kind.name))
    n = np.bincount(base.task[known], minlength=len(base.tasks)).astype(np.float64)
    n = n[n > 0]
    return float(n.size / np.sum(1 / n)) if n.size else 0.0


def _present(outcomes: Outcomes) -> Ints:
    return np.bincount(outcomes.task, minlength=len(outcomes.tasks)).astype(np.int64)


def _reached(base: Outcomes | None, candidate: Outcomes, due: Ints, closed: bool, coverage: float) -> int:
    """How many looks have their attempts."""
    for k, wanted in enumerate(due):
        for arm in (candidate, base):
            if arm is None:
                continue
            there = float(np.minimum(_present(arm.upto(wanted)), wanted).sum())
            if there < (coverage if closed else 1.0) * float(wanted.sum()):
                return k
    return len(due)


def _score(
    one: Outcomes,
    two: Outcomes,
    due: Ints,
    plan: GatePlan,
    settings: GateSettings,
    floor: OutcomeFloor | None,
    bound: float,
) -> stratified.Score:
    first = one.upto(due) if settings.fresh else one
    kind = metric(settings.metric)
    arms = sums(first, two.upto(due), kind.name)

    def score(extra: float) -> stratified.Score:
        return stratified.score(*arms, equal=False, step=kind.step, reach=plan.upper[-1], extra=extra)

    plain = score(0.0)
    extra = session_variance(floor, float(plain.variance), bound)
    return score(extra) if extra else plain


def looks_bounds(plan: GatePlan, power: float, stored: float) -> tuple[Floats, Floats]:
    """How z is judged and how far the drop's bound lies at every look of a plan, if no attempt goes missing."""
    due = plan.attempts().astype(np.float64)
    other = np.full(due.shape, stored) if stored else due
    sizes = np.sum(due * other / np.maximum(due + other, 1.0), axis=1)
    return _bounds(plan.fractions, plan.upper, _tuple(sizes), tuple(range(len(plan.looks))), True, power)


@lru_cache(maxsize=256)
def _bounds(
    fractions: tuple[float, ...],
    planned: tuple[float, ...],
    sizes: tuple[float, ...],
    at: tuple[int, ...],
    last: bool,
    power: float,
) -> tuple[Floats, Floats]:
    """How z is judged at the information really met, and how far out the drop's bound lies."""
    upper = sequential.rebound(fractions, planned, sizes, last=last)
    spend = (1 - power) * np.minimum(np.array(fractions)[list(at)], 1.0) ** 2
    return upper, sequential.bounds_from_spending(sizes, spend)


def _look(
    k: int,
    score: stratified.Score,
    seen: Outcomes,
    due: Ints,
    bound: float,
    reach: float,
    plan: GatePlan,
    settings: GateSettings,
) -> Look:
    kind = metric(settings.metric)
    known = int(np.sum(~np.isnan(seen.metric(kind.name))))
    coverage = known / float(due.sum())
    # adding 0 turns -0 into 0, which is how people write it
    z = kind.worse_sign * float(score.z) + 0.0
    end = stratified.lower_end(score, reach) if kind.better == "more" else stratified.upper_end(score, reach)
    worst = kind.worse_sign * float(end) + 0.0
    if kind.unit == "rate":
        worst = min(worst, 1.0)
    decision: Verdict = "undecided"
    if coverage >= settings.min_coverage and int(score.tasks) > 0:
        if z >= bound:
            decision = "regression"
        elif worst < plan.margin:
            decision = "pass"
    return Look(
        look=k + 1,
        passes=plan.looks[k],
        runs=int(due.sum()),
        scored=known,
        coverage=coverage,
        z=z,
        bound=bound,
        change=kind.worse_sign * float(score.difference) + 0.0,
        worst_case=worst,
        margin=plan.margin,
        decision=decision,
    )


def _why(looks: list[Look], reached: int, plan: GatePlan, settings: GateSettings, kind: Metric) -> str:
    known = "score" if kind.name == "success" else f"known {kind.name}"
    if not looks and reached:
        return f"no attempt that is due has a {known} on both sides"
    if not looks:
        return "the attempts of the first planned look are not all there yet"
    at, word = looks[-1], "drop" if kind.better == "more" else "rise"
    if at.decision == "regression":
        return f"a {word} above 0 is established at look {at.look}: z {at.z:.2f} reaches its bound {at.bound:.2f}"
    if at.decision == "pass":
        return f"a {word} of {plan.margin:.3g} is ruled out at look {at.look}: at worst it is {at.worst_case:.3g}"
    if at.coverage < settings.min_coverage:
        return f"only {at.coverage:.0%} of the attempts due have a {known}; {settings.min_coverage:.0%} are needed"
    if at.look == len(plan.looks):
        return f"the plan is used up and a {word} between 0 and {at.worst_case:.3g} is still possible"
    return f"neither a {word} is established (z {at.z:.2f} of {at.bound:.2f}) nor one of {plan.margin:.3g} ruled out"


def _difference(scores: list[stratified.Score], upper: Floats, kind: Metric, two: Outcomes, alpha: float) -> Estimate:
    """Candidate minus base at the last look, with an interval that knows of the looks before it.

    The gate's error is one-sided, so the two-sided level is 1 - 2 alpha: 0 lies outside exactly when it alarms.
    """
    level = max(1 - 2 * alpha, 0.5)
    if not scores or int(scores[-1].tasks) == 0:
        return Estimate(value=None, level=level, of="tasks", missing=two.missing(), why="no look has its attempts yet")
    last = scores[-1]
    value = float(last.difference)
    made = Estimate(value=value, level=level, method="stagewise", n=int(last.tasks), of="tasks", missing=two.missing())
    if not np.isfinite(float(last.information)) or float(last.size) <= 0:
        return msgspec.structs.replace(made, why="the values have no spread to measure by")
    sizes = np.array([float(s.size) for s in scores])
    grown = np.flatnonzero(np.diff(sizes, prepend=0.0) > 0)
    information = sizes[grown] / float(last.size) * float(last.information)
    z = kind.worse_sign * float(last.z)
    found = sequential.stagewise(information, upper[grown], z, level)
    ends = sorted((kind.worse_sign * found.low, kind.worse_sign * found.high))
    low, high = min(ends[0], value), max(ends[1], value)
    if kind.unit == "rate":
        low, high = max(low, -1.0), min(high, 1.0)
    return msgspec.structs.replace(made, low=low, high=high)


def _tuple(values: Floats) -> tuple[float, ...]:
    return tuple(float(v) for v in values)
