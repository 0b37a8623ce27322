"""Seeds of the simulations: the same every time, unless ETHOGRAM_SEED draws them anew (as `make validity` does)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ethogram.measures.outcomes import Floats
from ethogram.statistics.stratified import Sums

SEED = int(os.environ.get("ETHOGRAM_SEED", "0"))


def two_proportion_z(first: Sums, second: Sums) -> Floats:
    """The two-proportion z-test (Pearson 1900), which forgets the tasks."""
    na, nb = np.sum(first.n, axis=-1), np.sum(second.n, axis=-1)
    a, b = np.sum(first.first, axis=-1), np.sum(second.first, axis=-1)
    rate = (a + b) / (na + nb)
    variance = rate * (1 - rate) * (1 / na + 1 / nb)
    return np.where(variance > 0, (b / nb - a / na) / np.sqrt(np.where(variance > 0, variance, 1.0)), 0.0)


@pytest.fixture(scope="session")
def pooled_z() -> Callable[[Sums, Sums], Floats]:
    """What simulations compare the stratified test with."""
    return two_proportion_z


def pytest_report_header() -> list[str]:
    return [f"simulations are drawn with ETHOGRAM_SEED={SEED}"] if SEED else []


@pytest.fixture(autouse=True)
def drawn_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mix the seed of this session into every seed that a simulation or the code under it names."""
    if not SEED:
        return
    named = np.random.default_rng

    def default_rng(seed: Any = None) -> np.random.Generator:
        if seed is None or isinstance(seed, np.random.Generator | np.random.BitGenerator | np.random.SeedSequence):
            return named(seed)
        return named([SEED, *np.atleast_1d(np.asarray(seed, dtype=object)).tolist()])

    monkeypatch.setattr(np.random, "default_rng", default_rng)
