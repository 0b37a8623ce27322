"""Gate: a pass / regression / undecided verdict on a candidate, at planned looks.

The looks are planned from the baseline and the settings alone, and so is the order of the attempts. Look k uses the
first n_k of that order, not all attempts that exist: early or repeated calls, a crash and a resume change nothing, and
no task comes last because of its place in a file.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import msgspec
import numpy as np

from ethogram.estimate import Estimate
from ethogram.measures.comparison import one_look, sums
from ethogram.measures.metrics import Metric, metric
from ethogram.measures.outcomes import Floats, Ints, Outcomes
from ethogram.statistics import stratified

from . import informative_order, sequential
from .missing import Gone, excess, gone
from .noise import outcome_floor
from .plan import EVERY_TASK, GatePlan, GateSettings, session_variance

Verdict = Literal["pass", "regression", "undecided"]


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """One planned look: `z` of a change for the worse against `bound`, and the largest change not ruled out.

    `tasks` have a known attempt on both sides. `charged` missing attempts were taken at their worst for `worst_case`.
    """

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
    tasks: int = 0
    charged: float = 0.0


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict, the looks that led to it, and what is left to do if it is undecided.

    `attempts` are those of each task that the latest look judged. `assumes` is what a decision rests on that the
    baseline does not show.
    """

    verdict: Verdict
    why: str
    difference: Estimate
    looks: list[Look]
    decided_at: int | None
    next_runs: int
    remaining_runs: int
    attempts: tuple[int, ...]
    assumes: str | None = None


class _Arms:
    """Both versions on the tasks of a plan, and which of their attempts are due at which look."""

    def __init__(self, base: Outcomes, candidate: Outcomes, plan: GatePlan, settings: GateSettings) -> None:
        self.plan, self.settings, self.kind = plan, settings, metric(settings.metric)
        self.one, self.two = base.only(plan.tasks), candidate.only(plan.tasks)
        self.due = plan.attempts()
        self.floor = outcome_floor(self.one, self.kind.name) if plan.stored else None

    def reached(self, closed: bool) -> int:
        """How many looks have their attempts."""
        enough = self.settings.min_coverage if closed else 1.0
        for k, wanted in enumerate(self.due):
            for arm in (self.two, self.one) if self.settings.fresh else (self.two,):
                there = float(np.minimum(_present(arm.upto(wanted)), wanted).sum())
                if there < enough * float(wanted.sum()):
                    return k
        return len(self.due)

    def take_all(self) -> None:
        """Let the last look judge every attempt that is recorded."""
        most = np.zeros(len(self.plan.tasks), dtype=np.int64)
        np.maximum.at(most, self.two.task, self.two.attempt + 1)
        self.due = np.vstack([self.due[:-1], np.maximum(self.due[-1], most)])

    def seen(self, k: int) -> tuple[Outcomes, Outcomes]:
        """Both versions as look k judges them."""
        return (self.one.upto(self.due[k]) if self.settings.fresh else self.one), self.two.upto(self.due[k])

    def gone(self, k: int) -> tuple[Gone, Gone]:
        """What is missing of both at look k."""
        one, two = self.seen(k)
        # attempts of a stored baseline that were never run are not missing
        wanted = self.due[k] if self.settings.fresh else _present(one)
        return gone(one, wanted, self.kind), gone(two, self.due[k], self.kind)

    def mean(self, k: int, charged: tuple[Floats, Floats] | None = None) -> stratified.Score:
        """The difference that a pass is about at look k: tasks have equal weights, for any number of attempts."""
        return self.score(k, charged, equal=bool(self.plan.spread))

    def sizes(self, k: int, found: stratified.Score) -> tuple[float, float]:
        """The information of look k for its test, and for what a pass is about."""
        if not self.plan.spread:
            return float(found.size), float(found.size)
        one, two = self.seen(k)
        size, mean = informative_order.information(one.attempts, two.attempts, self.plan.spread)
        return float(size), float(mean)

    def score(self, k: int, charged: tuple[Floats, Floats] | None = None, *, equal: bool = False) -> stratified.Score:
        """The statistic of look k; `charged` missing attempts of both are taken at their worst."""
        if charged is None and self.settings.missing == "failure":
            charged = tuple(side.missing for side in self.gone(k))  # type: ignore[assignment]
        arms = sums(*self.seen(k), self.kind.name, charged)
        bias = 0.0 if equal or not self.plan.bias else self.plan.bias[k]

        def score(extra: float) -> stratified.Score:
            return stratified.score(
                *arms,
                equal=equal,
                step=self.kind.step,
                reach=self.plan.upper[-1],
                extra=extra,
                bias=bias,
                sampled=True,
            )

        plain = score(0.0)
        bound = self.plan.upper[k]
        extra = session_variance(self.floor, self.settings, self.plan, float(plain.variance), bound)
        return score(extra) if extra else plain

    def worst(self, found: stratified.Score, reach: float) -> float:
        """The largest change for the worse that a look does not rule out; adding 0 turns -0 into 0."""
        if not np.isfinite(reach):
            return 1.0 if self.kind.unit == "rate" else float("inf")
        end = stratified.lower_end(found, reach) if self.kind.better == "more" else stratified.upper_end(found, reach)
        worst = self.kind.worse_sign * float(end) + 0.0
        return min(worst, 1.0) if self.kind.unit == "rate" else worst


def judgement(
    base: Outcomes,
    candidate: Outcomes,
    plan: GatePlan,
    settings: GateSettings,
    *,
    closed: bool = False,
    take_all: bool = False,
    absent: Sequence[str] = (),
) -> Judgement:
    """Evaluate the planned looks in order. A regression at any look is final; a pass must hold at the latest look.

    The bound of a pass is not binding, so to go on after it costs no error and no recorded failure is left out. A look
    counts once all of its attempts are there, scored or missing. `closed` says that no more will come (an imported
    log): then it counts with what there is, if coverage allows. With `take_all` the last look judges all that is
    recorded: for runs that no gate bought. `absent` are tasks of the baseline that the candidate never attempted.
    """
    arms = _Arms(base, candidate, plan, settings)
    reached = arms.reached(closed)
    if take_all and reached == len(arms.due):
        arms.take_all()
    scores = [arms.score(k) for k in range(reached)]
    sizes, means = np.array([arms.sizes(k, s) for k, s in enumerate(scores)]).reshape(-1, 2).T
    grown = np.flatnonzero(np.diff(sizes, prepend=0.0) > 0)
    looks: list[Look] = []
    upper = reach = np.empty(0)
    if grown.size:
        last = reached == len(plan.looks)
        upper, reach = _bounds(
            plan.fractions, plan.upper, _tuple(sizes[grown]), tuple(map(int, grown)), last, settings.power
        )
        if plan.spread:
            reach = informative_order.reaches(means[grown], plan.whole, settings.power)
    for i, k in enumerate(grown):
        looks.append(_look(arms, int(k), scores[k], float(upper[i]), float(reach[i])))
        if looks[-1].decision == "regression":
            break
    objection = None
    if looks and looks[-1].decision != "regression":
        looks[-1], objection = _may_pass(arms, looks[-1], float(reach[len(looks) - 1]), absent)
    decided = looks[-1].look if looks and looks[-1].decision != "undecided" else None
    done = int(np.sum(np.minimum(_present(arms.two), arms.due[-1])))
    upcoming = arms.due[min(reached, len(arms.due) - 1)]
    sides = 2 if settings.fresh else 1
    at = looks[-1].look - 1 if looks else None
    return Judgement(
        verdict=looks[-1].decision if looks else "undecided",
        why=_why(looks, reached, arms, objection),
        assumes=_assumed(arms) if decided else None,
        difference=_difference(arms, _shown(arms, looks, scores), float(upper[len(looks) - 1]) if looks else 0.0),
        looks=looks,
        decided_at=decided,
        next_runs=0 if decided else sides * max(int(upcoming.sum()) - done, 0),
        remaining_runs=0 if decided else sides * max(int(arms.due[-1].sum()) - done, 0),
        attempts=tuple(arms.due[at].tolist()) if at is not None else (0,) * len(plan.tasks),
    )


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


def _look(arms: _Arms, k: int, score: stratified.Score, bound: float, reach: float) -> Look:
    plan, settings, kind = arms.plan, arms.settings, arms.kind
    due = arms.due[k]
    known = int(np.sum(~np.isnan(arms.seen(k)[1].metric(kind.name))))
    coverage = known / float(due.sum())
    z = kind.worse_sign * float(score.z) + 0.0
    alarm = z >= bound and coverage >= settings.min_coverage and int(score.tasks) > 0
    return Look(
        look=k + 1,
        passes=plan.looks[k],
        runs=int(due.sum()),
        scored=known,
        coverage=coverage,
        z=z,
        bound=bound,
        change=kind.worse_sign * float(score.difference) + 0.0,
        worst_case=arms.worst(arms.mean(k), reach),
        margin=plan.margin,
        decision="regression" if alarm else "undecided",
        tasks=int(score.tasks),
    )


def _may_pass(arms: _Arms, look: Look, reach: float, absent: Sequence[str]) -> tuple[Look, str | None]:
    """The latest look as a pass where it is one; else as it is, and what stands against it if its bound allowed one."""
    if look.coverage < arms.settings.min_coverage or look.worst_case >= arms.plan.margin or look.tasks == 0:
        return look, None
    k = look.look - 1
    for objection in (not_attempted(absent), _not_attempted(arms, k), _missing(arms, k, reach), _compared(arms)):
        if objection is not None:
            return look, objection
    return msgspec.structs.replace(look, decision="pass"), None


def not_attempted(absent: Sequence[str]) -> str | None:
    """What tasks of the baseline that the candidate left out say against a pass."""
    if not absent:
        return None
    named = ", ".join(absent[:3]) + (", …" if len(absent) > 3 else "")
    has = "task of the baseline has" if len(absent) == 1 else "tasks of the baseline have"
    return f"{len(absent):,} {has} no attempt by the candidate ({named}), and a pass needs every task"


def _not_attempted(arms: _Arms, k: int) -> str | None:
    """A pass needs every task; on large suites a random part of them will do, whose choice the bound carries."""
    untried = int(np.sum(arms.due[k] == 0))
    if untried == 0 or len(arms.plan.tasks) > EVERY_TASK:
        return None
    return f"{untried} of {len(arms.plan.tasks)} tasks have no attempt yet, and a pass needs every task"


def _missing(arms: _Arms, k: int, reach: float) -> str | None:
    """A pass must also hold with the missing attempts that the baseline does not explain taken at their worst."""
    if arms.settings.missing != "bounds":
        return None
    one, two = arms.gone(k)
    charged = excess(one, two)
    if not np.any(charged):
        return None
    worst = arms.worst(arms.mean(k, (np.zeros(charged.shape), charged)), reach)
    if worst < arms.plan.margin:
        return None
    taken = "failures" if arms.kind.unit in ("rate", "score") else "the worst seen"
    return (
        f"the candidate misses {two.rate:.0%} of its attempts where the baseline misses {one.rate:.0%}, and with the "
        f"{float(charged.sum()):.3g} beyond that taken as {taken} a {_word(arms.kind)} of {worst:.3g} is possible "
        "(--missing bounds)"
    )


def _compared(arms: _Arms) -> str | None:
    """A pass must not stand beside a regression that one look at all that is recorded establishes."""
    found = one_look(arms.one, arms.two, name=arms.kind.name)
    if found.verdict != "regression":
        return None
    value, p = found.difference.value or 0.0, found.p or 0.0
    return f"compare on all recorded attempts calls it a regression ({value:+.3g}, p {p:.2g})"


def _why(looks: list[Look], reached: int, arms: _Arms, objection: str | None) -> str:
    plan, settings, kind = arms.plan, arms.settings, arms.kind
    known = "score" if kind.name == "success" else f"known value of {kind.name}"
    if not looks and reached:
        return f"no attempt that is due has a {known} on both sides"
    if not looks:
        return "the attempts of the first planned look are not all there yet"
    at, word = looks[-1], _word(kind)
    if at.decision == "regression":
        test = f"look {at.look} of {len(plan.looks)} (z {at.z:.2f}, bound {at.bound:.2f})"
        return f"{_change(kind, at.change)}; a {word} above 0 is established at {test}"
    untried = int(np.sum(arms.due[at.look - 1] == 0))
    part = f"; {untried:,} of {len(plan.tasks):,} tasks were not attempted, which it allows for" if untried else ""
    ruled = (
        f"a {word} of {plan.margin:.3g} is ruled out at look {at.look} of {len(plan.looks)}: at worst "
        f"{_change(kind, at.worst_case)}, with an error of {1 - settings.power:.2g} (1 − power)"
    )
    if at.decision == "pass":
        return ruled + part
    if objection is not None:
        return f"{ruled}; but {objection}"
    if at.coverage < settings.min_coverage:
        return f"only {at.coverage:.0%} of the attempts due have a {known}; {settings.min_coverage:.0%} are needed"
    if at.look == len(plan.looks):
        return f"the plan is used up and a {word} between 0 and {at.worst_case:.3g} is still possible"
    open_ = f"a {word} of {plan.margin:.3g} is not ruled out"
    return f"no {word} is established (z {at.z:.2f}, bound {at.bound:.2f}), and {open_}"


def _assumed(arms: _Arms) -> str | None:
    """What the verdict assumes about differences between sessions that the baseline does not show."""
    if arms.floor is None:
        return None
    if arms.settings.session_sd is not None:
        return f"the verdict assumes that sessions differ by {arms.settings.session_sd:g} (--session-sd)"
    if arms.floor.sessions > 1:
        return None
    return (
        "the baseline has one session, so differences between sessions are unknown; "
        "the verdict assumes none (state a value with --session-sd)"
    )


def _change(kind: Metric, worse: float) -> str:
    """A change for the worse by this much, in words."""
    fell = (kind.better == "more") == (worse >= 0)
    return f"{kind.name} {'fell' if fell else 'rose'} by {abs(worse):.3g}"


def _word(kind: Metric) -> str:
    return "drop" if kind.better == "more" else "rise"


def _shown(arms: _Arms, looks: list[Look], scores: list[stratified.Score]) -> stratified.Score | None:
    """The difference that is shown: what established a regression, else what a pass is about."""
    if not looks:
        return None
    k = looks[-1].look - 1
    return scores[k] if looks[-1].decision == "regression" else arms.mean(k)


def _difference(arms: _Arms, score: stratified.Score | None, bound: float) -> Estimate:
    """Candidate minus base at the latest look, with the repeated confidence interval of Jennison and Turnbull (1989).

    It is as far as the look's own bound on either side, so it holds at all looks together and wherever one stops, and
    0 lies outside exactly when the look alarms. The gate's error is one-sided, so its two-sided level is 1 - 2 alpha.
    """
    level = max(1 - 2 * arms.settings.looks_alpha, 0.5)
    gone_ = arms.two.missing(arms.kind.name)
    if score is None or int(score.tasks) == 0:
        return Estimate(value=None, level=level, of="tasks", missing=gone_, why="no look has its attempts yet")
    value = float(score.difference)
    made = Estimate(
        value=value, level=level, method="repeated over looks", n=int(score.tasks), of="tasks", missing=gone_
    )
    if not np.isfinite(float(score.information)) or float(score.size) <= 0:
        return msgspec.structs.replace(made, why="the values have no spread to measure by")
    low, high = float(stratified.lower_end(score, bound)), float(stratified.upper_end(score, bound))
    if arms.kind.unit == "rate":
        low, high = max(low, -1.0), min(high, 1.0)
    return msgspec.structs.replace(made, low=low, high=high)


def _present(outcomes: Outcomes) -> Ints:
    return np.bincount(outcomes.task, minlength=len(outcomes.tasks)).astype(np.int64)


def _tuple(values: Floats) -> tuple[float, ...]:
    return tuple(float(v) for v in values)
