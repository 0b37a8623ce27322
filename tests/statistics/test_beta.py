"""Beta posteriors, against scipy."""

from __future__ import annotations

import numpy as np
from scipy import stats as reference

from ethogram.statistics import beta as b


def test_posterior_and_interval_against_scipy() -> None:
    found = b.posterior([0, 3, 10], [10, 10, 10], 1, 1)
    law = reference.beta([1, 4, 11], [11, 8, 1])
    np.testing.assert_allclose(found.mean(), law.mean())
    np.testing.assert_allclose(found.variance(), law.var())
    np.testing.assert_allclose(b.above(found, 0.2), law.sf(0.2))
