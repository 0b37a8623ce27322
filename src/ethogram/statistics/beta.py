"""Beta posteriors of a rate."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ._numeric import Floats, Numbers, beta_cdf, beta_quantile, floats


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


def posterior(successes: Numbers, n: Numbers, a: float, b: float) -> Beta:
    """The conjugate update of a Beta(a, b) prior (Bayes 1763)."""
    c, n = np.broadcast_arrays(floats(successes), floats(n))
    return Beta(a + c, b + n - c)


def quantile(beta: Beta, probability: Numbers) -> Floats:
    """The value that lies above this share of the law."""
    return beta_quantile(probability, beta.a, beta.b)


def above(beta: Beta, threshold: Numbers) -> Floats:
    """The probability that the rate exceeds a threshold."""
    return beta_cdf(1 - floats(threshold), beta.b, beta.a)
