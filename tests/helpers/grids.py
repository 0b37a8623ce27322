"""Outcomes from plain arrays, as tests draw them; `pythonpath` of pyproject.toml lets every test import this."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ethogram.measures.outcomes import Outcomes


def grid_outcomes(
    values: Any,
    *,
    tasks: Sequence[str] = (),
    reason: str = "infrastructure.timeout",
    at_ns: Any = None,
    figures: Mapping[str, Any] | None = None,
) -> Outcomes:
    """Outcomes from scores (attempts, tasks), NaN where missing for this reason; other columns have that shape too."""
    x = np.asarray(values, dtype=np.float64)
    attempts, wide = x.shape
    told = np.full(x.size, None, dtype=object)
    told[np.isnan(x.ravel())] = reason
    return Outcomes(
        tasks=tuple(tasks) or tuple(f"t{i:02d}" for i in range(wide)),
        task=np.tile(np.arange(wide), attempts),
        attempt=np.repeat(np.arange(attempts), wide),
        value=x.ravel(),
        reason=told,
        planned=np.full(wide, attempts, dtype=np.int64),
        figures={name: np.asarray(c, dtype=np.float64).ravel() for name, c in (figures or {}).items()},
        at_ns=None if at_ns is None else np.asarray(at_ns).ravel(),
    )
