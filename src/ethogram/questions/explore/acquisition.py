"""Acquisition: a score for every point, and the points with the highest scores."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from .levels import chance_to_miss, looks_needed
from .problem import (
    KEPT,
    ExploreProgress,
    Floats,
    Ints,
    Problem,
    Proposal,
    StopRule,
    Strategy,
    Tally,
    is_content,
    may_hide,
    unproven,
)

TARGETS = 64
EPISODES_PER_UNIT = 256


class V1Weights(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the v1 score."""

    variance: float = 1.0
    boundary: float = 0.5
    tau: float = 0.2
    sigma: float = 0.05


def v1_score(tally: Tally, weights: V1Weights) -> Floats:
    """w1 · variance + w2 · exp(-|mean - tau| / sigma) of Beta(1 + failures, 1 + successes)."""
    alpha, beta = (tally.fails + 1).astype(np.float64), (tally.n - tally.fails + 1).astype(np.float64)
    total = alpha + beta
    mean = alpha / total
    variance = (alpha * beta) / (total**2 * (total + 1))
    return variance * weights.variance + np.exp(-np.abs(mean - weights.tau) / weights.sigma) * weights.boundary


def apt_score(tally: Tally, tau: float, zone: float) -> Floats:
    """Anytime parameter-free thresholding (Locatelli et al. 2016): least sqrt(T) (|mean - tau| + zone) first."""
    mean = tally.fails / np.maximum(tally.n, 1)
    return -np.sqrt(tally.n) * (np.abs(mean - tau) + zone)


def lsa_score(tally: Tally, tau: float, alpha: float) -> Floats:
    """Logarithmic-sample thresholding (Tao et al. 2019): least alpha T d² + ln(T) / 2 first."""
    mean = tally.fails / np.maximum(tally.n, 1)
    with np.errstate(divide="ignore"):
        needed: Floats = alpha * tally.n * (mean - tau) ** 2 + 0.5 * np.log(tally.n)
    scores: Floats = -needed
    return scores


def straddle_score(tally: Tally, tau: float, width: float) -> Floats:
    """How far each point's own interval reaches over tau (Bryan et al. 2005), point by point."""
    alpha, beta = tally.fails + 1.0, tally.n - tally.fails + 1.0
    total = alpha + beta
    deviation = np.sqrt(alpha * beta / (total**2 * (total + 1)))
    scores: Floats = width * deviation - np.abs(alpha / total - tau)
    return scores


def top(scores: Floats, count: int) -> Ints:
    """The highest scores, ties by lowest index."""
    return np.lexsort((np.arange(len(scores)), -scores))[: min(count, len(scores))].astype(np.int64)


def shared_out(budget: int, count: int) -> Ints:
    """A budget over points in order: as even as can be, the first ones get what is left over."""
    each, more = divmod(budget, count)
    return np.asarray([each + (i < more) for i in range(count)], dtype=np.int64)


def least_sampled(n: Ints, count: int, rng: np.random.Generator) -> Ints:
    """The points with the fewest episodes; of equal ones, any."""
    return np.lexsort((rng.random(len(n)), n))[: min(count, len(n))].astype(np.int64)


def next_round(
    strategy: Strategy,
    problem: Problem,
    rule: StopRule | None,
    seen: Sequence[ExploreProgress],
    rng: np.random.Generator,
) -> Proposal:
    """What a strategy proposes; once the rule is content, only the looks that a stop still needs.

    These looks are bought last: they prove what is known already, and would delay looks that still teach something.
    """
    proposal = strategy.propose(rng)
    if rule is None or not is_content(rule, seen[-1:], problem.points):
        return proposal
    lacking = _lacking(strategy, problem, rule.level)
    return _looks(lacking, min(proposal.budget, int(lacking.sum())), rng) if lacking.any() else proposal


def _lacking(strategy: Strategy, problem: Problem, level: float) -> Ints:
    """For every point the looks that it lacks, if none of them is a failure."""
    posterior, tally = strategy.posterior(), strategy.tally
    needed = looks_needed(problem.pocket_rate, chance_to_miss(KEPT, may_hide(posterior)))
    more = np.maximum(needed[np.minimum(tally.fails, len(needed) - 1)] - tally.n, 1)
    return np.asarray(np.where(unproven(posterior, tally, problem, level), more, tally.n == 0), dtype=np.int64)


def _looks(lacking: Ints, budget: int, rng: np.random.Generator) -> Proposal:
    """A round of looks: one each in turn, points that lack most first, up to what each of them lacks."""
    where = np.flatnonzero(lacking)
    order = where[np.lexsort((rng.random(len(where)), -lacking[where]))][:budget]
    episodes = np.zeros(len(lacking), dtype=np.int64)
    while (left := budget - int(episodes.sum())) > 0:
        episodes[order[episodes[order] < lacking[order]][:left]] += 1
    return Proposal(order, episodes[order])
