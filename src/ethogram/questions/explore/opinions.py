"""Several estimates of the same rates, weighted at each point by how well they predict its data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ethogram.statistics._numeric import Floats, Ints, floats, hermite, log_beta

from .surface import REACH, Belief

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
