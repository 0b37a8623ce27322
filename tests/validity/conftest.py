"""Seeds of the simulations: the same every time, unless ETHOGRAM_SEED draws them anew (as `make validity` does)."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

SEED = int(os.environ.get("ETHOGRAM_SEED", "0"))


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
