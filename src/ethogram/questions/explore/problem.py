"""Exploring a grid: what is known, what is believed, what to buy next, and when to stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from ethogram.statistics._numeric import floats, hermite, log_beta
from ethogram.statistics.interval import Interval

from .grid import Grid
from .levels import chance_above, chance_to_miss, expected_scores, looks_needed, rate_moments, ruled_out
from .surface import REACH, Axis, Belief

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
FEW = 0.05
"""A class of which the posterior expects fewer points than this is taken to be empty."""
POCKET = 0.5
"""A single point that fails at least this often must be noticed, unless another rate is given."""
LONE = 3
"""This number of points may fail alone, among neighbours that do not, beyond those that were found."""
KEPT = 0.95
"""The share of explorations in which none of them is called safe."""
SURELY = 0.95


class Problem(NamedTuple):
    """The question of an exploration: which points of a grid fail more often than `tau`.

    Within `zone` of `tau` both answers count as right.

    No point that fails `pocket` of the time or more may be called safe, even if it fails alone among safe neighbours.
    """

    levels: Ints
    axes: tuple[Axis, ...]
    tau: float
    zone: float
    pocket: float = POCKET

    @property
    def points(self) -> int:
        """How many points."""
        return len(self.levels)

    @property
    def pocket_rate(self) -> float:
        """The failure rate of a lone point that must be noticed: never within the zone, where either answer will do."""
        return max(self.pocket, self.tau + self.zone)


def problem_of(grid: Grid, tau: float, zone: float, pocket: float = POCKET) -> Problem:
    """The question for a grid."""
    axes = tuple(Axis(len(p.values), p.ordered) for p in grid.parameters)
    return Problem(np.asarray(grid.levels(), dtype=np.int64).reshape(-1, len(axes)), axes, tau, zone, pocket)


class Tally(NamedTuple):
    """What is known: episodes with an outcome and failures at every point."""

    n: Ints
    fails: Ints

    @classmethod
    def empty(cls, points: int) -> Tally:
        """Before the first episode."""
        return cls(np.zeros(points, dtype=np.int64), np.zeros(points, dtype=np.int64))

    @property
    def spent(self) -> int:
        """Episodes with an outcome."""
        return int(self.n.sum())


class Posterior(NamedTuple):
    """What is believed of each point: mean and variance of its failure rate, and on which side of tau it lies."""

    mean: Floats
    variance: Floats
    unsafe: Floats
    """P(rate > tau)."""
    surely_unsafe: Floats
    """P(rate > tau + zone)."""
    surely_safe: Floats
    """P(rate < tau - zone)."""
    called: Bools
    """Whether each point would be called unsafe, had one to decide now."""
    odd: int
    """Points that are surely on the other side of tau than their surroundings; where points are taken one by one, all
    that are called unsafe."""


class Proposal(NamedTuple):
    """What to buy next: distinct points in order, and how many episodes at each."""

    points: Ints
    episodes: Ints

    @property
    def budget(self) -> int:
        """Episodes in all."""
        return int(self.episodes.sum())


class Strategy(Protocol):
    """A plug-in: it looks at the tally after every round, says what it believes, and what it would buy.

    Its answers depend on the sequence of tallies and on the generators it is given, on nothing else. It is resumed by
    showing it the tallies again, or by restoring the state of its last look and showing it those from there on.
    """

    name: str
    tally: Tally

    def look(self, tally: Tally) -> None:
        """Update from the tally at the end of a round."""
        ...

    def state(self) -> dict[str, Any]:
        """What the last look began from, beside the tally: arrays by name, or nothing."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Be as before a look whose state this is; nothing happens without any."""
        ...

    def posterior(self) -> Posterior:
        """What is believed now."""
        ...

    def intervals(self, level: float) -> Interval:
        """Intervals of the failure rates, for a map: each covers its point's rate at the level."""
        ...

    def propose(self, rng: np.random.Generator) -> Proposal:
        """What to buy next."""
        ...


class StopRule(msgspec.Struct, frozen=True, kw_only=True):
    """When enough is known. `undecided` is a share of the points, `balanced` an expected balanced accuracy.

    Whatever the bounds, every point must have been looked at, and every point that is called safe so often that its own
    outcomes rule out the rate of a pocket.
    """

    balanced: float | None = 0.985
    undecided: float | None = None
    misclassified: float | None = None
    in_a_row: int = 2
    level: float = 0.95


class ExploreProgress(NamedTuple):
    """The progress of an exploration, by its own posterior."""

    balanced: float | None
    """Expected balanced accuracy beyond the zone, with a cut at 1/2; None if nothing can be said."""
    misclassified: float
    """Expected share of points that are called wrongly by more than the zone."""
    undecided: int
    """Points whose posterior does not say safe or unsafe at the level of the rule."""
    unvisited: int
    """Points without an episode."""
    unproven: int
    """Points that are called safe and whose own episodes do not rule out the rate of a pocket."""


def progress(posterior: Posterior, tally: Tally, problem: Problem, level: float) -> ExploreProgress:
    """The progress of an exploration."""
    # the blunt cut asks more of the rare side than the calls do: a model that missed a pocket is too sure of itself,
    # and a claim of having seen enough must survive that
    expected = expected_scores(posterior.unsafe > 0.5, posterior.surely_unsafe, posterior.surely_safe, FEW)
    errors = np.where(posterior.called, posterior.surely_safe, posterior.surely_unsafe)
    undecided = (posterior.unsafe >= 1 - level) & (posterior.unsafe <= level)
    return ExploreProgress(
        expected.balanced,
        float(errors.mean()),
        int(undecided.sum()),
        int((tally.n == 0).sum()),
        int(unproven(posterior, tally, problem, level).sum()),
    )


def may_hide(posterior: Posterior) -> int:
    """How many points may fail alone: a few, and as many as were found, to the next power of two."""
    return LONE if not posterior.odd else 1 << (LONE + posterior.odd - 1).bit_length()


def unproven(posterior: Posterior, tally: Tally, problem: Problem, level: float) -> Bools:
    """Points that are called safe although their own episodes do not rule out the rate of a pocket.

    Neighbours cannot rule it out: a lone point is one about which they are wrong. Where the map says undecided, it does
    not say safe; but it must not say so for want of looks.
    """
    rate, miss = problem.pocket_rate, chance_to_miss(KEPT, may_hide(posterior))
    safe = posterior.unsafe < 1 - level
    few = ~posterior.called & (tally.n < looks_needed(rate, miss)[0])
    return np.asarray((safe & ~ruled_out(tally.n, tally.fails, rate, miss)) | few, dtype=bool)


def is_content(rule: StopRule, seen: Sequence[ExploreProgress], points: int) -> bool:
    """Whether the bounds of the rule hold in all these rounds; looks may be lacking."""
    asked = [
        [p.balanced is None or p.balanced >= rule.balanced for p in seen] if rule.balanced is not None else None,
        [p.undecided <= rule.undecided * points for p in seen] if rule.undecided is not None else None,
        [p.misclassified <= rule.misclassified for p in seen] if rule.misclassified is not None else None,
    ]
    set_bounds = [a for a in asked if a is not None]
    return bool(seen) and bool(set_bounds) and all(all(a) for a in set_bounds)


def is_enough(rule: StopRule, seen: Sequence[ExploreProgress], points: int) -> bool:
    """Whether the rule has held in the last rounds and no look is lacking.

    Expected error alone never stops: on a map with a rare pocket it is small before anybody looked. Every point must
    have been looked at, the expected balanced accuracy weighs the rare side as much as the common one, and no point is
    called safe on the word of its neighbours alone.
    """
    last = seen[-rule.in_a_row :]
    if len(last) < rule.in_a_row or last[-1].unvisited or last[-1].unproven:
        return False
    return is_content(rule, last, points)


def posterior_of(
    beliefs: Sequence[Belief],
    problem: Problem,
    tally: Tally,
    surroundings: Floats | None = None,
    shares: Sequence[float] | None = None,
) -> Posterior:
    """Opinions about logits as one posterior of rates.

    Each point's own data weigh the opinions there; where they are foretold by none, they speak for themselves.
    `surroundings` are the logits that the rest of the map suggests for each point, `shares` what each opinion weighs
    before (the same, unless told).
    """
    before = shares or [1 / len(beliefs)] * len(beliefs)
    each, alone = opinion_weights(beliefs, before, tally.n, tally.fails, min(LONE / problem.points, 0.5))
    mean, square = np.zeros(problem.points), np.zeros(problem.points)
    above = [np.zeros(problem.points) for _ in _cuts(problem)]
    for belief, share in zip(beliefs, each, strict=True):
        first, second = rate_moments(belief)
        mean, square = mean + share * first, square + share * second
        above = [a + share * chance_above(belief, x) for a, x in zip(above, _cuts(problem), strict=True)]
    found = Posterior(
        mean, np.maximum(square - mean * mean, 0.0), above[0], above[1], 1 - above[2], np.zeros(0, dtype=bool), 0
    )
    lone = np.flatnonzero(alone > 0.5)
    if len(lone):
        own = beta_posterior(Tally(tally.n[lone], tally.fails[lone]), problem)
        for field in ("mean", "variance", "unsafe", "surely_unsafe", "surely_safe"):
            getattr(found, field)[lone] = getattr(own, field)
    odd = 0
    if surroundings is not None:
        around = surroundings > np.log(problem.tau / (1 - problem.tau))
        odd = int((around & (found.unsafe < 1 - SURELY) | ~around & (found.unsafe > SURELY)).sum())
    return found._replace(called=call_unsafe(found.unsafe), odd=odd)


def call_unsafe(unsafe: Floats) -> Bools:
    """Which points to call unsafe, so that both sides of tau are served.

    A cut at 1/2 serves accuracy and forgets a rare side; a cut at the prevalence serves balanced accuracy, if only
    the prevalence were known. The cut is half-way between the two, in log odds.
    """
    prevalence = float(np.clip(unsafe.mean(), 1e-4, 1 - 1e-4))
    odds = np.sqrt(prevalence / (1 - prevalence))
    return np.asarray(unsafe > odds / (1 + odds), dtype=bool)


def beta_posterior(tally: Tally, problem: Problem) -> Posterior:
    """Every point for itself: Beta(1 + failures, 1 + successes), called unsafe where its mean exceeds tau."""
    from ethogram.statistics import beta

    # P(p > x) for Beta(a, b); few distinct tables need to be computed on a large grid
    pairs, place = np.unique(np.stack([tally.n, tally.fails]), axis=1, return_inverse=True)
    place = place.reshape(-1)
    own = beta.posterior(pairs[1], pairs[0], 1.0, 1.0)
    above = [beta.above(own, x) if 0 < x < 1 else np.full(len(own.a), float(x <= 0)) for x in _cuts(problem)]
    called = own.mean()[place] > problem.tau
    return Posterior(
        own.mean()[place],
        own.variance()[place],
        above[0][place],
        above[1][place],
        1 - above[2][place],
        called,
        int(called.sum()),
    )


def _cuts(problem: Problem) -> tuple[float, float, float]:
    return problem.tau, problem.tau + problem.zone, problem.tau - problem.zone


NODES = 7


LEAST_SHARE = 1e-12


LEAST_PRECISION = 0.04
"""Of an opinion without the point's own data: a deviation of five logits is no opinion at all."""


def without_own(belief: Belief, n: Floats, fails: Floats) -> Belief:
    """An opinion without the point's own data, as far as Laplace's approximation can take them out again."""
    p = 1 / (1 + np.exp(-belief.mean))
    precision = np.maximum(1 / belief.variance - n * p * (1 - p), LEAST_PRECISION)
    mean = belief.mean - (fails - n * p) / precision
    return Belief(np.clip(mean, -REACH, REACH), 1 / precision)


def log_evidence(belief: Belief, n: Floats, fails: Floats) -> Floats:
    """How well an opinion foretold each point's own data: log of the chance of this sequence of outcomes.

    By Gauss and Hermite around the opinion that has seen them, where nearly all of the integral lies.
    """
    before = without_own(belief, n, fails)
    terms = []
    for x, w in zip(*hermite(NODES), strict=True):
        logit = belief.mean + x * np.sqrt(belief.variance)
        told = fails * logit - n * np.logaddexp(0, logit)
        prior = -0.5 * (logit - before.mean) ** 2 / before.variance - 0.5 * np.log(before.variance)
        terms.append(np.log(w) + told + prior + 0.5 * x * x + 0.5 * np.log(belief.variance))
    return floats(np.logaddexp.reduce(terms, axis=0))


def opinion_weights(
    beliefs: Sequence[Belief], shares: Sequence[float], n: Ints, fails: Ints, lone: float
) -> tuple[Floats, Floats]:
    """The weight of each opinion at each point (opinions × points), and the chance that none of them applies there.

    Opinions weigh as much as `shares` say before a point's own data are seen, and `lone` is the chance that a point
    has nothing to do with its surroundings: any rate is then as likely as any other.
    """
    before = np.maximum(np.asarray(shares, dtype=float), LEAST_SHARE)[:, None]
    found = np.repeat(before, len(n), axis=1)
    alone = np.full(len(n), lone)
    seen = np.flatnonzero(n)
    own_n, own_fails = n[seen].astype(float), fails[seen].astype(float)
    told = np.stack([log_evidence(Belief(b.mean[seen], b.variance[seen]), own_n, own_fails) for b in beliefs])
    told += np.log(before)
    whole = np.logaddexp.reduce(told, axis=0)
    found[:, seen] = np.exp(told - whole)
    gap = log_beta(own_fails + 1, own_n - own_fails + 1) - whole
    alone[seen] = 1 / (1 + (1 - lone) / lone * np.exp(np.clip(-gap, -700, 700)))
    return found, alone
