"""Beta posteriors: of one rate, of one rate against another, and of the population that the tasks' rates come from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ._numeric import Floats, Numbers, beta_cdf, beta_quantile, floats, log_beta
from .interval import Interval
from .passk import Kind


class Beta(NamedTuple):
    """The two parameters of a Beta, arrays of one shape."""

    a: Floats
    b: Floats

    def mean(self) -> Floats:
        """The mean."""
        return floats(self.a / (self.a + self.b))

    def variance(self) -> Floats:
        """The variance."""
        total = self.a + self.b
        return floats(self.a * self.b / (total * total * (total + 1)))


class Population(NamedTuple):
    """A posterior over Betas from which the tasks' rates may come: points with weights that sum to one."""

    a: Floats
    b: Floats
    weights: Floats


def posterior(successes: Numbers, n: Numbers, a: float, b: float) -> Beta:
    """The conjugate update of a Beta(a, b) prior (Bayes 1763)."""
    c, n = np.broadcast_arrays(floats(successes), floats(n))
    return Beta(a + c, b + n - c)


def credible(beta: Beta, level: float) -> Interval:
    """The credible interval with equal tails (Gelman et al. 2013)."""
    tail = (1 - level) / 2
    return Interval(beta_quantile(tail, *beta), beta_quantile(1 - tail, *beta))


def quantile(beta: Beta, probability: Numbers) -> Floats:
    """The value that lies above this share of the law."""
    return beta_quantile(probability, beta.a, beta.b)


def above(beta: Beta, threshold: Numbers) -> Floats:
    """The probability that the rate exceeds a threshold."""
    return beta_cdf(1 - floats(threshold), beta.b, beta.a)


def greater(first: Beta, second: Beta, nodes: int) -> Floats:
    """The probability that the first rate exceeds the second, by Gauss and Legendre over the first one's quantiles.

    The integral of Thompson (1933).
    """
    u, w = np.polynomial.legendre.leggauss(nodes)
    x = beta_quantile((u + 1) / 2, first.a[..., None], first.b[..., None])
    return floats(beta_cdf(x, second.a[..., None], second.b[..., None]) @ (w / 2))


def population(successes: Numbers, attempts: Numbers) -> Population:
    """The Beta-binomial hierarchy on a grid (Gelman et al. 2013, section 5.3), flat in mean and in log(precision).

    A grid over the whole plane finds the mass, a second one over where it lies resolves it.
    """
    tables, counts = np.unique(
        np.stack([floats(successes).ravel(), floats(attempts).ravel()]), axis=1, return_counts=True
    )
    box = ((-7.0, 7.0), (-2.5, 6.5))
    for size in ((36, 30), (56, 44)):
        x, y = (np.linspace(*ends, n) for ends, n in zip(box, size, strict=True))
        logit, precision = (g.ravel() for g in np.meshgrid(x, y, indexing="ij"))
        mean = 1 / (1 + np.exp(-logit))
        a, b = mean * np.exp(precision), (1 - mean) * np.exp(precision)
        fit = log_beta(a[:, None] + tables[0], b[:, None] + tables[1] - tables[0]) - log_beta(a, b)[:, None]
        # a flat prior of the mean is m (1 - m) on the logit scale
        log_weight = fit @ counts + np.log(mean) + np.log1p(-mean)
        weights = np.exp(log_weight - log_weight.max())
        weights /= weights.sum()
        box = (_around(logit, weights, box[0]), _around(precision, weights, box[1]))
    return Population(a, b, weights)


def population_curve(found: Population, ks: Numbers, level: float, kind: Kind) -> tuple[Floats, Interval]:
    """pass^k or pass@k of the population with its interval: E p^k = Π (a + j) / (a + b + j).

    The moments of a Beta (Gelman et al. 2013). A second opinion: excellent if rates are Beta, silently too narrow if
    they are not.
    """
    orders = np.atleast_1d(np.asarray(ks, dtype=np.int64))
    top = found.a if kind == "hat" else found.b
    j = np.arange(int(orders.max()))
    all_of = np.cumprod((top[:, None] + j) / ((found.a + found.b)[:, None] + j), axis=1)[:, orders - 1]
    values = all_of if kind == "hat" else 1 - all_of
    tail = (1 - level) / 2
    ends = floats([[_quantile(v, found.weights, q) for v in values.T] for q in (tail, 1 - tail)])
    return found.weights @ values, Interval(ends[0], ends[1])


def population_rates(
    found: Population, successes: Numbers, attempts: Numbers, rng: np.random.Generator, draws: int
) -> Floats:
    """Draws (draws, tasks) of the tasks' own rates: a Beta of the population, then each task's posterior under it."""
    at = rng.choice(found.weights.size, size=draws, p=found.weights)
    c, n = floats(successes), floats(attempts)
    return rng.beta(found.a[at, None] + c, found.b[at, None] + n - c)


def _around(values: Floats, weights: Floats, ends: tuple[float, float]) -> tuple[float, float]:
    mean = float(weights @ values)
    reach = 5 * float(np.sqrt(weights @ (values - mean) ** 2)) + 0.05
    return max(mean - reach, ends[0]), min(mean + reach, ends[1])


def _quantile(values: Floats, weights: Floats, probability: float) -> float:
    order = np.argsort(values)
    mass = np.cumsum(weights[order]) - 0.5 * weights[order]
    return float(np.interp(probability, mass, values[order]))
