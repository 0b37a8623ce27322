"""How many looks rule out a lone failing setting: by hand, against simulated paths, and by property."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ethogram.questions.explore.levels import LOOKS, chance_to_miss, looks_needed, looks_to_come, ruled_out


def test_the_fewest_looks_by_hand():
    """(1 - r)^n <= 1 - .95^(1/3): six looks at .5, twelve at .3; five and nine for a single point."""
    three, one = chance_to_miss(0.95, 3), chance_to_miss(0.95, 1)
    assert three == pytest.approx(0.016952, abs=1e-6)
    assert [int(looks_needed(r, three)[0]) for r in (0.5, 0.3)] == [6, 12]
    assert [int(looks_needed(r, one)[0]) for r in (0.5, 0.3)] == [5, 9]
    assert ruled_out(np.array([5, 6, 6]), np.array([0, 0, 1]), 0.5, three).tolist() == [False, True, False]


def test_the_second_entry_by_hand():
    """Of the paths with one failure, those whose first six looks had none have ended; the rest are counted."""
    miss = chance_to_miss(0.95, 3)
    left = miss - 0.5**6
    n = next(n for n in itertools.count(7) if 6 * 0.5**n <= left / 2)  # the failure is among the first six looks
    assert int(looks_needed(0.5, miss)[1]) == n


@pytest.mark.parametrize("rate", [0.22, 0.3, 0.5, 0.8])
def test_every_path_together_keeps_the_promise(rate):
    """Simulated: a setting that fails at the rate, looked at after every single outcome, is hardly ever ruled out."""
    miss, rng = chance_to_miss(0.95, 3), np.random.default_rng(1)
    fails = np.zeros(20_000, dtype=np.int64)
    wrong = np.zeros(20_000, dtype=bool)
    for n in range(1, 400):
        fails += rng.random(20_000) < rate
        wrong |= ruled_out(np.full(20_000, n), fails, rate, miss)
    print(f"\n{rate}: {wrong.mean():.4f} of paths are ever ruled out, {miss:.4f} are allowed")
    assert wrong.mean() <= miss + 3 * np.sqrt(miss / 20_000)
    naive = rng.random((20_000, 60)) < rate  # the same looks, each read as if it were the only one
    from scipy.stats import binom

    counts = naive.cumsum(axis=1)
    peeked = (binom.cdf(counts, np.arange(1, 61), rate) <= miss).any(axis=1)
    assert peeked.mean() > 1.5 * miss


@given(st.floats(0.1, 0.9), st.sampled_from([1, 3, 8, 64, 1024]))
@settings(max_examples=20, deadline=None)
def test_more_failures_need_more_looks(rate, count):
    needed = looks_needed(rate, chance_to_miss(0.95, count))
    assert np.all(np.diff(needed) >= 1)
    assert (1 - rate) ** int(needed[0]) <= chance_to_miss(0.95, count)


def test_beyond_the_table():
    miss = chance_to_miss(0.95, 3)
    far = np.array([10 * LOOKS])
    assert ruled_out(far, far // 10, 0.5, miss).tolist() == [True]
    assert ruled_out(far, far // 2, 0.5, miss).tolist() == [False]


def test_looks_to_come():
    """Nothing where it is proven; six where nothing was seen; more where failures are to be expected."""
    n, fails, mean = np.array([6, 0, 0]), np.zeros(3, dtype=np.int64), np.array([0.01, 0.01, 0.15])
    found = looks_to_come(n, fails, mean, 0.5, chance_to_miss(0.95, 3))
    assert found[:2].tolist() == [0, 6]
    assert found[2] > 6
