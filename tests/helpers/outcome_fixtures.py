"""Outcomes from plain arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from grids import grid_outcomes

from ethogram.measures.outcomes import Outcomes

GONE = "infrastructure.timeout"


def outcomes(values: Any, **more: Any) -> Outcomes:
    """Attempts by tasks, NaN where missing; further columns have the same shape."""
    at_ns = more.pop("at_ns", None)
    return grid_outcomes(values, reason=GONE, at_ns=at_ns, figures=more)


@pytest.fixture(scope="session")
def made() -> Callable[..., Outcomes]:
    return outcomes
