"""Outcomes from plain arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ethogram.measure.outcomes import Outcomes

GONE = "infrastructure.timeout"


def outcomes(values: Any, **more: Any) -> Outcomes:
    """Attempts by tasks, NaN where missing; further columns have the same shape."""
    x = np.asarray(values, dtype=float)
    attempts, tasks = x.shape
    at_ns = more.pop("at_ns", None)
    return Outcomes(
        tasks=tuple(f"t{i:02d}" for i in range(tasks)),
        task=np.tile(np.arange(tasks), attempts),
        attempt=np.repeat(np.arange(attempts), tasks),
        value=x.ravel(),
        reason=tuple(GONE if np.isnan(v) else None for v in x.ravel()),
        planned=np.full(tasks, attempts, dtype=np.int64),
        figures={name: np.asarray(c, dtype=float).ravel() for name, c in more.items()},
        at_ns=None if at_ns is None else np.asarray(at_ns).ravel(),
    )


@pytest.fixture(scope="session")
def made() -> Callable[..., Outcomes]:
    return outcomes
