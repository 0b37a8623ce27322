"""Exploring a grid: what is known, what is believed, what to buy next, and when to stop."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from ethogram.plan.grid import Grid
from ethogram.stats.levelset import chance_above, expected_scores
from ethogram.stats.surface import Axis, Belief

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
FEW = 0.05
"""A class of which the posterior expects fewer points than this is taken to be empty."""


class Problem(NamedTuple):
    """Which points of a grid fail more often than `tau`? Nearer than `zone` to it, either answer will do."""

    levels: Ints
    axes: tuple[Axis, ...]
    tau: float
    zone: float

    @property
    def points(self) -> int:
        """How many points."""
        return len(self.levels)


def problem_of(grid: Grid, tau: float, zone: float) -> Problem:
    """The question for a grid."""
    axes = tuple(Axis(len(p.values), p.ordered) for p in grid.parameters)
    return Problem(np.asarray(grid.levels(), dtype=np.int64).reshape(-1, len(axes)), axes, tau, zone)


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
    low: Floats
    high: Floats
    called: Bools
    """Whether each point would be called unsafe, had one to decide now."""


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

    Its answers depend on the sequence of tallies and on the generators it is given, on nothing else; whoever resumes
    shows it the tallies again.
    """

    name: str

    def look(self, tally: Tally) -> None:
        """See the tally as it stands at the end of a round."""
        ...

    def posterior(self) -> Posterior:
        """What is believed now."""
        ...

    def propose(self, rng: np.random.Generator) -> Proposal:
        """What to buy next."""
        ...


class StopRule(msgspec.Struct, frozen=True, kw_only=True):
    """When enough is known. `undecided` is a share of the points, `balanced` an expected balanced accuracy."""

    balanced: float | None = 0.985
    undecided: float | None = None
    misclassified: float | None = None
    in_a_row: int = 2
    level: float = 0.95


class Progress(NamedTuple):
    """Where an exploration stands, by its own posterior."""

    balanced: float | None
    """Expected balanced accuracy beyond the zone, with a cut at 1/2; None if nothing can be said."""
    misclassified: float
    """Expected share of points that are called wrongly by more than the zone."""
    undecided: int
    """Points whose posterior does not say safe or unsafe at the level of the rule."""
    unvisited: int
    """Points without an episode."""


def progress(posterior: Posterior, tally: Tally, level: float) -> Progress:
    """Where an exploration stands."""
    # the blunt cut asks more of the rare side than the calls do: a model that missed a pocket is too sure of itself,
    # and a claim of having seen enough must survive that
    expected = expected_scores(posterior.unsafe > 0.5, posterior.surely_unsafe, posterior.surely_safe, FEW)
    errors = np.where(posterior.called, posterior.surely_safe, posterior.surely_unsafe)
    undecided = (posterior.unsafe >= 1 - level) & (posterior.unsafe <= level)
    return Progress(expected.balanced, float(errors.mean()), int(undecided.sum()), int((tally.n == 0).sum()))


def is_enough(rule: StopRule, seen: list[Progress], points: int) -> bool:
    """Whether the rule has held in the last rounds.

    Expected error alone never stops: on a map with a rare pocket it is small before anybody looked. Every point must
    have been looked at, and the expected balanced accuracy weighs the rare side as much as the common one.
    """
    last = seen[-rule.in_a_row :]
    if len(last) < rule.in_a_row or last[-1].unvisited:
        return False
    asked = [
        [p.balanced is None or p.balanced >= rule.balanced for p in last] if rule.balanced is not None else None,
        [p.undecided <= rule.undecided * points for p in last] if rule.undecided is not None else None,
        [p.misclassified <= rule.misclassified for p in last] if rule.misclassified is not None else None,
    ]
    set_bounds = [a for a in asked if a is not None]
    return bool(set_bounds) and all(all(a) for a in set_bounds)


def posterior_of(belief: Belief, problem: Problem, level: float = 0.95) -> Posterior:
    """A belief about logits as a posterior of rates; mean and variance by Gauss and Hermite."""
    from scipy.special import ndtri

    sd = np.sqrt(belief.variance)
    nodes, weights = np.polynomial.hermite_e.hermegauss(9)
    weights = weights / weights.sum()
    mean, square = np.zeros_like(sd), np.zeros_like(sd)
    for x, w in zip(nodes, weights, strict=True):
        p = 1 / (1 + np.exp(-(belief.mean + x * sd)))
        mean += w * p
        square += w * p * p
    reach = float(ndtri((1 + level) / 2)) * sd
    unsafe = chance_above(belief, problem.tau)
    return Posterior(
        mean,
        np.maximum(square - mean * mean, 0.0),
        unsafe,
        chance_above(belief, problem.tau + problem.zone),
        1 - chance_above(belief, problem.tau - problem.zone),
        1 / (1 + np.exp(-(belief.mean - reach))),
        1 / (1 + np.exp(-(belief.mean + reach))),
        call_unsafe(unsafe),
    )


def call_unsafe(unsafe: Floats) -> Bools:
    """Which points to call unsafe, so that both sides of tau are served.

    A cut at 1/2 serves accuracy and forgets a rare side; a cut at the prevalence serves balanced accuracy, if only
    the prevalence were known. The cut is half-way between the two, in log odds.
    """
    prevalence = float(np.clip(unsafe.mean(), 1e-4, 1 - 1e-4))
    odds = np.sqrt(prevalence / (1 - prevalence))
    return np.asarray(unsafe > odds / (1 + odds), dtype=bool)


def beta_posterior(tally: Tally, problem: Problem, level: float = 0.95) -> Posterior:
    """Every point for itself: Beta(1 + failures, 1 + successes), called unsafe where its mean exceeds tau."""
    from ethogram.stats import beta

    # P(p > x) for Beta(a, b); few distinct tables need to be computed on a large grid
    pairs, place = np.unique(np.stack([tally.n, tally.fails]), axis=1, return_inverse=True)
    place = place.reshape(-1)
    own = beta.posterior(pairs[1], pairs[0], 1.0, 1.0)
    ends = beta.credible(own, level)
    above = [beta.above(own, x) if 0 < x < 1 else np.full(len(own.a), float(x <= 0)) for x in _cuts(problem)]
    return Posterior(
        own.mean()[place],
        own.variance()[place],
        above[0][place],
        above[1][place],
        1 - above[2][place],
        np.asarray(ends.low)[place],
        np.asarray(ends.high)[place],
        own.mean()[place] > problem.tau,
    )


def _cuts(problem: Problem) -> tuple[float, float, float]:
    return problem.tau, problem.tau + problem.zone, problem.tau - problem.zone
