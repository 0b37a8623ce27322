"""The effect of one change: continuations with it and without it, in pairs, tested while they come in.

Attempt i of both arms begins at the same step with the same seed: together they are a pair, and the effect is the mean
of its differences. The interval is a betting confidence sequence (`anytime`): it covers the effect at every look
at once with its level, whatever the number of pairs, so one may stop whenever it has said enough. A missing outcome is
taken at its worst for each end: the interval then holds whatever the outcome would have been, and whyever it is gone.

Forks of several traces are pooled by trace. Pairs of one trace share their beginning, so together they are one
observation of what the change does to such traces: the mean of their differences. As many traces as there are, as many
observations; the order of the traces must have nothing to do with how they end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from ethogram.arguments import check_level
from ethogram.errors import BadUsage
from ethogram.estimate import Estimate
from ethogram.measures.outcomes import Bools, Floats, Ints
from ethogram.statistics import anytime
from ethogram.statistics.interval import clopper_pearson
from ethogram.traces import is_infrastructure

METHOD = "betting confidence sequence"
MOST_STEPS = 32
"""Numbers of traces that are tried to say how many would settle it, each a quarter above the one before."""

EffectVerdict = Literal["raises", "lowers", "negligible", "undecided"]
"""`negligible`: the interval lies below the smallest effect that matters, where one is stated."""
KnownOutcome = float | None
"""An outcome: 1 success, 0 failure, None missing."""


class ForkPlan(msgspec.Struct, frozen=True, kw_only=True):
    """At most this many pairs, with a look after each `every` of them and after the last."""

    pairs: int
    every: int = 1
    level: float = 0.95

    def checked(self) -> ForkPlan:
        """The plan itself; raises `BadUsage` where it is none."""
        if self.pairs < 1 or self.every < 1:
            raise BadUsage(f"a fork needs at least one continuation, and one between looks; not {self.pairs} pairs")
        check_level(self.level)
        return self

    @property
    def looks(self) -> tuple[int, ...]:
        """How many pairs each look has."""
        return _looks(self.pairs, self.every)


class PooledPlan(msgspec.Struct, frozen=True, kw_only=True):
    """At most this many traces with `each` pairs, one trace after the other, a look after each `every` of them.

    Where a `smallest` effect is stated, an interval that lies below it settles the matter too.
    """

    traces: int
    each: int = 1
    every: int = 1
    level: float = 0.95
    smallest: float | None = None

    def checked(self) -> PooledPlan:
        """The plan itself; raises `BadUsage` where it is none."""
        if min(self.traces, self.each, self.every) < 1:
            raise BadUsage(
                f"forks need at least one trace, and one continuation of each; not {self.traces} with {self.each}"
            )
        if self.smallest is not None and not 0 < self.smallest < 1:
            raise BadUsage(f"the smallest effect that matters lies between 0 and 1, not at {self.smallest:g}")
        check_level(self.level)
        return self

    @property
    def looks(self) -> tuple[int, ...]:
        """How many traces each look has."""
        return _looks(self.traces, self.every)


def can_settle(most: int, level: float) -> bool:
    """Whether the interval can exclude 0 at all, if this many pairs, or traces, all have the same result."""
    bets = anytime.bets_within(most, level)
    return bool(anytime.log_e(anytime.pair_capital(most, 0, bets), bets) >= np.log(2 / (1 - level)))


def fewest_traces(level: float) -> int:
    """The smallest number of traces, or pairs, with which the interval could exclude 0."""
    return next(n for n in range(1, 10_000) if can_settle(n, level))


def _looks(most: int, every: int) -> tuple[int, ...]:
    return (*range(every, most, every), most)


class ForkLook(msgspec.Struct, frozen=True, kw_only=True):
    """One look: pairs that the change gained, lost and left alike, those with a missing outcome, and the interval."""

    look: int
    traces: int = 1
    pairs: int
    gained: int
    lost: int
    same: int
    missing: int
    low: float
    high: float


class ForkFinding(msgspec.Struct, frozen=True, kw_only=True):
    """What the change does to success; `done` says that no further pair is needed, and `why` why."""

    verdict: EffectVerdict
    effect: Estimate
    looks: list[ForkLook]
    done: bool
    why: str


def find_effect(
    unchanged: Sequence[KnownOutcome],
    changed: Sequence[KnownOutcome],
    plan: ForkPlan,
    missing: dict[str, int] | None = None,
    *,
    ended: bool = False,
) -> ForkFinding:
    """Test the pairs at every look that they reach, up to the first look that decides.

    `unchanged` and `changed` hold the outcomes of attempts 0, 1, … of each arm; `missing` says why some are not there.
    Once it has `ended`, all pairs that are there get a look too, which the interval allows at any time.
    """
    plan = plan.checked()
    there = min(len(unchanged), len(changed), plan.pairs)
    pairs = [([one], [two]) for one, two in zip(unchanged[:there], changed[:there], strict=True)]
    return _judged(pairs, _Units(plan.looks, "pairs", 1, plan.level), missing or {}, ended)


def find_pooled_effect(
    traces: Sequence[tuple[Sequence[KnownOutcome], Sequence[KnownOutcome]]],
    plan: PooledPlan,
    missing: dict[str, int] | None = None,
    *,
    ended: bool = False,
) -> ForkFinding:
    """Judge forks of several traces at every look that they reach: the mean effect on traces such as these.

    `traces` holds the outcomes of both arms (unchanged, changed) for each trace, in the order in which they were
    forked; one that has not all its pairs yet, and those after it, wait. `missing` says why some outcomes are not
    there. Once it has `ended`, all whole traces get a look too, which the interval allows at any time.
    """
    plan = plan.checked()
    whole = [min(len(one), len(two)) >= plan.each for one, two in traces[: plan.traces]]
    there = whole.index(False) if False in whole else len(whole)
    each = [(one[: plan.each], two[: plan.each]) for one, two in traces[:there]]
    return _judged(each, _Units(plan.looks, "traces", plan.each, plan.level, plan.smallest), missing or {}, ended)


def traces_needed(
    traces: Sequence[tuple[Sequence[KnownOutcome], Sequence[KnownOutcome]]], plan: PooledPlan
) -> int | None:
    """How many traces would settle it if all went as those that are there did; None where no such number would.

    A plan and no promise: that further traces go on like these is an assumption.
    """
    whole = [(one, two) for one, two in traces if min(len(one), len(two)) >= plan.each]
    if not whole:
        return None
    for times in (1.25**step for step in range(MOST_STEPS)):
        count = math.ceil(len(whole) * times)
        units = _Units((count,), "traces", plan.each, plan.level, plan.smallest)
        arms = _Arms([(one[: plan.each], two[: plan.each]) for one, two in whole], units)
        low, high = arms.ends(np.array([len(whole)]), times)
        if units.settled(low, high)[0]:
            return count
    return None


class _Units(NamedTuple):
    """What counts as one observation: a pair, or `each` pairs of one trace; `looks` says after how many one looks."""

    looks: tuple[int, ...]
    of: str
    each: int
    level: float
    smallest: float | None = None

    def settled(self, low: Floats, high: Floats) -> Bools:
        """Whether an interval says enough."""
        return np.asarray((low > 0) | (high < (0.0 if self.smallest is None else self.smallest)))


def _judged(
    seen: Sequence[tuple[Sequence[KnownOutcome], Sequence[KnownOutcome]]],
    units: _Units,
    missing: dict[str, int],
    ended: bool,
) -> ForkFinding:
    planned = {n for n in units.looks if n <= len(seen)}
    at = np.array(sorted(planned | {len(seen)} - {0} if ended else planned), dtype=np.int64)
    if at.size == 0:
        why = f"the first look needs {units.looks[0]} {units.of}, and {len(seen)} are there"
        nothing = Estimate(value=None, level=units.level, method=METHOD, n=0, of=units.of, why=why)
        return ForkFinding(verdict="undecided", effect=nothing, looks=[], done=False, why=why)
    arms = _Arms(seen[: at[-1]], units)
    low, high = arms.ends(at)
    settled, hopeless = units.settled(low, high), arms.hopeless(at)
    last = int(np.argmax(settled | hopeless)) if np.any(settled | hopeless) else at.size - 1
    looks = [arms.look(i, int(at[i]), float(low[i]), float(high[i])) for i in range(last + 1)]
    found, count, most = looks[-1], int(at[last]), units.looks[-1]
    verdict: EffectVerdict = "raises" if found.low > 0 else "lowers" if found.high < 0 else "undecided"
    why = f"the interval excludes 0 after {count} {units.of}"
    if verdict == "undecided" and units.smallest is not None and settled[last]:
        verdict, why = "negligible", f"the interval lies below {units.smallest:g} after {count} {units.of}"
    if verdict == "undecided":
        why = f"the interval contains 0 after {count} of {most} {units.of}"
        if hopeless[last] and count < most:
            why = f"{why}, and the {units.of} that are left could not change that"
        if lost := {reason: n for reason, n in missing.items() if is_infrastructure(reason)}:
            told = ", ".join(f"{reason} {n}" for reason, n in lost.items())
            why = f"{why}; continuations without an outcome: {told}; the same command runs them again"
    return ForkFinding(
        verdict=verdict,
        effect=arms.estimate(count, found, missing),
        looks=looks,
        done=bool(settled[last] or hopeless[last]),
        why=why,
    )


class _Arms:
    """The outcomes of a fork and what they say after any number of observations.

    A bet that the effect is above a mean grows with every difference. So with missing outcomes at their worst its
    capital is at most what it would have been, and the low end too: whatever was lost, each end holds as it would have.
    """

    def __init__(self, seen: Sequence[tuple[Sequence[KnownOutcome], Sequence[KnownOutcome]]], units: _Units) -> None:
        one, two = (
            np.array([[np.nan if x is None else x for x in arms[i]] for arms in seen], dtype=np.float64) for i in (0, 1)
        )
        self.one, self.two, self.units = one, two, units
        self.apart = two - one
        self.bets = anytime.bets_within(units.looks[-1], units.level)
        self.values = np.arange(-units.each, units.each + 1) / units.each
        self.worst = _counts(np.nan_to_num(two, nan=0.0) - np.nan_to_num(one, nan=1.0), units.each)
        self.best = _counts(np.nan_to_num(two, nan=1.0) - np.nan_to_num(one, nan=0.0), units.each)

    def ends(self, at: Ints, times: float = 1.0) -> tuple[Floats, Floats]:
        """Both ends of the interval after these numbers of observations, or if each had been made this many times."""
        low, high = (
            anytime.mean_interval(self.values, times * course[at], self.units.level, self.bets)
            for course in (self.worst, self.best)
        )
        return np.maximum(low.low, -1.0), np.minimum(high.high, 1.0)

    def hopeless(self, at: Ints) -> Bools:
        """Whether the interval would not say enough after the last one even if all that are left went the same way."""
        left = (self.units.looks[-1] - at)[:, None] * (self.values == 1)
        up = anytime.log_e(anytime.mean_capital(self.values, self.worst[at] + left, self.bets), self.bets)
        down = anytime.log_e(anytime.mean_capital(self.values, self.best[at][:, ::-1] + left, self.bets), self.bets)
        lost = np.asarray(np.maximum(up, down) < np.log(2 / (1 - self.units.level)))
        if self.units.smallest is not None:
            most = anytime.mean_interval(self.values, self.best[at] + left[:, ::-1], self.units.level, self.bets).high
            lost &= most >= self.units.smallest
        return lost

    def look(self, index: int, count: int, low: float, high: float) -> ForkLook:
        """What one look saw."""
        apart = self.apart[:count]
        return ForkLook(
            look=index + 1,
            traces=count if self.units.of == "traces" else 1,
            pairs=apart.size,
            gained=int(np.sum(apart > 0)),
            lost=int(np.sum(apart < 0)),
            same=int(np.sum(apart == 0)),
            missing=int(np.sum(np.isnan(apart))),
            low=low,
            high=high,
        )

    def estimate(self, count: int, at: ForkLook, missing: dict[str, int]) -> Estimate:
        """Changed minus unchanged: the difference of the rates of known outcomes, which is always possible."""
        one, two = self.one[:count], self.two[:count]
        made = Estimate(
            value=None,
            low=at.low,
            high=at.high,
            level=self.units.level,
            method=METHOD,
            n=count,
            of=self.units.of,
            missing=missing,
        )
        if np.isnan(one).all() or np.isnan(two).all():
            return msgspec.structs.replace(made, why="one arm has no known outcome")
        value = float(np.nanmean(two) - np.nanmean(one))
        why = f"{at.missing} pairs with a missing outcome are taken at their worst for each end" if at.missing else None
        return msgspec.structs.replace(made, value=value, low=min(at.low, value), high=max(at.high, value), why=why)


def _counts(apart: Floats, each: int) -> Floats:
    """How often each mean difference, from -1 to 1 in steps of 1 / each, was seen after 0, 1, … observations."""
    sums = np.rint(apart.sum(axis=1))[:, None]
    course = np.cumsum(sums == np.arange(-each, each + 1), axis=0, dtype=np.float64)
    return np.concatenate([np.zeros((1, 2 * each + 1)), course])


def rate_of(outcomes: Sequence[KnownOutcome], level: float, missing: dict[str, int], *, fixed: bool) -> Estimate:
    """The success rate of one arm. Its interval is that of a number of attempts fixed beforehand, where it is fixed.

    Missing outcomes widen the interval: its low end counts them as failures, its high end as successes.
    """
    known = [x for x in outcomes if x is not None]
    made = Estimate(value=None, level=level, n=len(known), of="continuations", missing=missing)
    if not known:
        return msgspec.structs.replace(made, why="no continuation has an outcome")
    passed = sum(known)
    value = passed / len(known)
    if not fixed:
        why = "its uncertainty is in the effect: the number of pairs depended on what was seen"
        return msgspec.structs.replace(made, value=value, why=why)
    gone = len(outcomes) - len(known)
    low = float(clopper_pearson(passed, len(outcomes), level).low)
    high = float(clopper_pearson(passed + gone, len(outcomes), level).high)
    return msgspec.structs.replace(made, value=value, low=low, high=high, method="clopper-pearson")
