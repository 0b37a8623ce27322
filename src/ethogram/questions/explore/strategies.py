"""Strategies of exploration: small plug-ins that say what to buy next. `make_strategy` finds one by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import NormalDist
from typing import Any

import msgspec
import numpy as np

from ethogram.errors import BadInput, NotFound
from ethogram.statistics._numeric import floats, normal_cdf, special
from ethogram.statistics.interval import Interval, clopper_pearson

from .acquisition import (
    EPISODES_PER_UNIT,
    TARGETS,
    V1Weights,
    apt_score,
    least_sampled,
    lsa_score,
    shared_out,
    straddle_score,
    top,
    v1_score,
)
from .problem import Floats, Posterior, Problem, Proposal, Strategy, Tally, beta_posterior, posterior_of
from .shared_surface import SharedSurface
from .surface import Belief

AHEAD = (4, 16, 64, 256)
"""Numbers of further episodes that the look-ahead considers."""
COVERAGE = 0.2
"""The share of every round that goes to the least sampled points; without it a pocket can be missed for ever."""
MOST_SHARED = 250_000
"""Points of the largest grid that the default explores."""
CAUTION = 1.1
"""Intervals of the shared surface are so much wider than its fits, which take their kernel to be known, would have."""


class RoundSizes(msgspec.Struct, frozen=True, kw_only=True):
    """How large rounds are: fixed (`episodes` at each target, as in v1), or growing with what was spent."""

    targets: int = TARGETS
    episodes: int | None = None
    first: int = 64
    least: int = 24
    growth: float = 0.05

    def budget(self, spent: int, points: int) -> int:
        """Episodes of the next round; a small grid has fewer targets."""
        if self.episodes is not None:
            return min(self.targets, points) * self.episodes
        return self.first if spent == 0 else max(self.least, int(self.growth * spent))


class PerPoint:
    """Every point for itself: a score, the highest first. The posterior is v1's Beta."""

    def __init__(self, name: str, problem: Problem, rounds: RoundSizes, score: Callable[[Tally], Floats]) -> None:
        """`score` ranks points; ties go to the lowest index."""
        self.name = name
        self.problem = problem
        self.rounds = rounds
        self.score = score
        self.look(Tally.empty(problem.points))

    def look(self, tally: Tally) -> None:
        """Remember the tally."""
        self.tally = tally
        self._posterior: Posterior | None = None

    def state(self) -> dict[str, Any]:
        """Nothing but the tally."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Nothing is needed."""

    def posterior(self) -> Posterior:
        """Beta(1 + failures, 1 + successes)."""
        if self._posterior is None:
            self._posterior = beta_posterior(self.tally, self.problem)
        return self._posterior

    def intervals(self, level: float) -> Interval:
        """Clopper and Pearson's, from each point's own episodes."""
        return clopper_pearson(self.tally.fails, self.tally.n, level)

    def propose(self, rng: np.random.Generator) -> Proposal:
        """The highest scores, equally many episodes at each."""
        budget = self.rounds.budget(self.tally.spent, self.problem.points)
        chosen = top(self.score(self.tally), min(self.rounds.targets, budget))
        return Proposal(chosen, shared_out(budget, len(chosen)))


class Uniform(PerPoint):
    """Passive: the least sampled points, in random order."""

    def propose(self, rng: np.random.Generator) -> Proposal:
        """Every point as often as every other."""
        budget = self.rounds.budget(self.tally.spent, self.problem.points)
        targets = self.rounds.targets if self.rounds.episodes is not None else budget
        chosen = least_sampled(self.tally.n, min(targets, budget), rng)
        return Proposal(chosen, shared_out(budget, len(chosen)))


class RandomTargets(PerPoint):
    """A random choice of targets each round."""

    def propose(self, rng: np.random.Generator) -> Proposal:
        """Any points."""
        budget = self.rounds.budget(self.tally.spent, self.problem.points)
        chosen = rng.permutation(self.problem.points)[: min(self.rounds.targets, budget)].astype(np.int64)
        return Proposal(chosen, shared_out(budget, len(chosen)))


class Shared:
    """The default: strength shared between neighbours, look-ahead on the boundary, a share for coverage."""

    def __init__(self, name: str, problem: Problem, rounds: RoundSizes, *, ahead: bool = True) -> None:
        """`ahead` chooses the look-ahead; without it the straddle decides."""
        if problem.points > MOST_SHARED:
            raise BadInput(
                f"the strategy {name!r} holds at most {MOST_SHARED:,} points in memory and the grid has "
                f"{problem.points:,}; use fewer values, or a strategy that takes every point for itself, such as lsa",
                where=f"the strategy {name!r}",
            )
        self.name = name
        self.problem = problem
        self.rounds = rounds
        self.ahead = ahead
        self.surface = SharedSurface(problem)
        self.tally = Tally.empty(problem.points)
        self._posterior: Posterior | None = None

    def look(self, tally: Tally) -> None:
        """Fit the surface to all data."""
        self.tally = tally
        self.surface.look(tally)
        self._posterior = None

    def state(self) -> dict[str, Any]:
        """That of the surface."""
        return self.surface.state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Give the surface the state of an earlier look."""
        self.surface.restore(state)

    def posterior(self) -> Posterior:
        """What the surface says."""
        if self._posterior is None:
            surface = self.surface
            around = surface.surroundings()
            self._posterior = posterior_of(surface.beliefs, self.problem, self.tally, around, surface.shares)
        return self._posterior

    def intervals(self, level: float) -> Interval:
        """Of the cautious surface; towards 0 and 1 they reach as far as each point's own episodes allow.

        A surface pulls what is extreme towards the middle, so only own data can say how near to 0 or to 1 a rate lies.
        """
        belief = self.surface.cautious(self.tally)
        reach = CAUTION * NormalDist().inv_cdf((1 + level) / 2) * np.sqrt(belief.variance)
        low, high = (1 / (1 + np.exp(-(belief.mean + side * reach))) for side in (-1, 1))
        own, mean = clopper_pearson(self.tally.fails, self.tally.n, level), self.posterior().mean
        low = np.where(mean < 0.5, np.minimum(low, own.low), low)
        high = np.where(mean > 0.5, np.maximum(high, own.high), high)
        return Interval(np.minimum(low, mean), np.maximum(high, mean))

    def propose(self, rng: np.random.Generator) -> Proposal:
        """Four fifths of the episodes where they are most valuable, one fifth at points with few own episodes."""
        budget = self.rounds.budget(self.tally.spent, self.problem.points)
        if self.tally.spent == 0:
            chosen = least_sampled(self.tally.n, budget, rng)
            return Proposal(chosen, shared_out(budget, len(chosen)))
        cover = least_sampled(self.tally.n, int(COVERAGE * budget), rng)
        rest = budget - len(cover)
        worth = self._worth()
        chosen = top(np.round(worth, 12), min(self.rounds.targets, rest))
        extra = np.zeros(self.problem.points, dtype=np.int64)
        extra[chosen] += shared_out(rest, len(chosen))
        extra[cover] += 1
        points = np.concatenate([chosen, cover[~np.isin(cover, chosen)]])
        return Proposal(points, extra[points])

    def _worth(self) -> Floats:
        if self.ahead:
            # within the zone either answer will do: a call counts as much as it is likely to lie beyond it
            counts = self.posterior().surely_unsafe + self.posterior().surely_safe
            return most_gain(self.surface.belief, self.surface.offset, AHEAD, self.rounds.targets, counts)
        return straddle(self.surface.belief, self.surface.offset, 1.96)


def _v1(name: str, variance: float, boundary: float) -> Callable[[Problem, RoundSizes], Strategy]:
    def made(problem: Problem, rounds: RoundSizes) -> Strategy:
        weights = V1Weights(variance=variance, boundary=boundary, tau=problem.tau)
        return PerPoint(name, problem, rounds, lambda tally: v1_score(tally, weights))

    return made


STRATEGIES: dict[str, Callable[[Problem, RoundSizes], Strategy]] = {
    "default": lambda problem, rounds: Shared("default", problem, rounds),
    "v1": _v1("v1", 1.0, 0.5),
    "uniform": lambda problem, rounds: Uniform("uniform", problem, rounds, lambda tally: -tally.n.astype(float)),
    "random": lambda problem, rounds: RandomTargets("random", problem, rounds, lambda tally: -tally.n.astype(float)),
    "variance": _v1("variance", 1.0, 0.0),
    "boundary": _v1("boundary", 0.0, 0.5),
    "apt": lambda problem, rounds: PerPoint(
        "apt", problem, rounds, lambda tally: apt_score(tally, problem.tau, problem.zone)
    ),
    "lsa": lambda problem, rounds: PerPoint("lsa", problem, rounds, lambda tally: lsa_score(tally, problem.tau, 4.0)),
    "straddle": lambda problem, rounds: PerPoint(
        "straddle", problem, rounds, lambda tally: straddle_score(tally, problem.tau, 1.96)
    ),
    "shared-straddle": lambda problem, rounds: Shared("shared-straddle", problem, rounds, ahead=False),
}
"""By name. `variance` and `boundary` are v1 with one of its two terms; `apt` and `lsa` are thresholding bandits."""

SEEDS_OWN = ("v1", "uniform", "random", "variance", "boundary")
"""Strategies of the first version: 64 targets a round with 256 episodes each, unless told otherwise."""


def make_strategy(name: str, problem: Problem, rounds: RoundSizes | None = None) -> Strategy:
    """A strategy by its name."""
    if name not in STRATEGIES:
        raise NotFound.named("strategy", name, list(STRATEGIES))
    usual = RoundSizes(episodes=EPISODES_PER_UNIT) if name in SEEDS_OWN else RoundSizes()
    return STRATEGIES[name](problem, rounds or usual)


def expected_gain(belief: Belief, threshold: float, more: Sequence[int]) -> Floats:
    """The most that an episode at each point is worth: max over r of gain(r) / r (Letham et al. 2022, in closed form).

    With d the distance of the mean from the threshold and s its deviation, r episodes bring s to s'; the expected
    error then is 2 T(d / s, s' / sqrt(s² - s'²)), with Owen's T.
    """
    d = belief.mean - threshold
    s = np.sqrt(belief.variance)
    p = 1 / (1 + np.exp(-belief.mean))
    now = normal_cdf(-np.abs(d / s))
    best = np.zeros_like(d)
    for r in more:
        after = 1 / (1 / belief.variance + r * p * (1 - p))
        told = np.maximum(belief.variance - after, 1e-300)
        gain = now - 2 * special().owens_t(d / s, np.sqrt(after / told))
        best = np.maximum(best, gain / r)
    return floats(best)


def most_gain(belief: Belief, threshold: float, more: Sequence[int], count: int, counts: Floats) -> Floats:
    """The same times how much a call of each point `counts`; exact for the `count` best points, 0 for others.

    No point gains more than its chance to be called wrongly now, shared over the fewest episodes: on a large grid few
    need to be looked at.
    """
    most = counts * wrong(belief, threshold) / min(more)
    looked = 16 * count
    while looked < len(most):
        near = np.argpartition(-most, looked)[:looked]
        found = np.zeros_like(most)
        found[near] = counts[near] * expected_gain(Belief(belief.mean[near], belief.variance[near]), threshold, more)
        rest = np.ones(len(most), dtype=bool)
        rest[near] = False
        if np.partition(found[near], -count)[-count] >= most[rest].max():
            return found
        looked *= 4
    return counts * expected_gain(belief, threshold, more)


def straddle(belief: Belief, threshold: float, width: float) -> Floats:
    """How far the interval reaches over the threshold (Bryan et al. 2005)."""
    return floats(width * np.sqrt(belief.variance) - np.abs(belief.mean - threshold))


def wrong(belief: Belief, threshold: float) -> Floats:
    """The chance that the likelier side of the threshold is the wrong one."""
    return normal_cdf(-np.abs(belief.mean - threshold) / np.sqrt(belief.variance))
