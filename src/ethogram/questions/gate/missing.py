"""Bounds on what missing attempts may hide: a version must not pass because its failures were never scored."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from ethogram.measures.metrics import Metric
from ethogram.measures.outcomes import Floats, Ints, Outcomes

MissingRule = Literal["bounds", "failure", "ignore"]
MISSING_RULES = ("bounds", "failure", "ignore")
"""`bounds`: a pass must also hold with the candidate's missing attempts beyond the baseline's rate taken at their
worst. `failure`: missing attempts of both versions are taken at their worst throughout. `ignore`: they are left out."""


class Gone(NamedTuple):
    """Attempts without a known value, per task, of those that were due."""

    missing: Floats
    due: Floats

    @property
    def rate(self) -> float:
        """Over the whole suite."""
        return float(self.missing.sum() / max(float(self.due.sum()), 1.0))


def gone(outcomes: Outcomes, due: Ints, kind: Metric) -> Gone:
    """What is missing of the attempts that were due."""
    known = ~np.isnan(outcomes.metric(kind.name))
    there = np.bincount(outcomes.task[known], minlength=len(outcomes.tasks))
    wanted = due.astype(np.float64)
    return Gone(np.maximum(wanted - there, 0.0), wanted)


def excess(base: Gone, candidate: Gone) -> Floats:
    """The candidate's missing attempts beyond the baseline's rate over the suite, charged where they are missing."""
    total = float(candidate.missing.sum())
    beyond = max(total - base.rate * float(candidate.due.sum()), 0.0)
    return np.asarray(candidate.missing * (beyond / total if total else 0.0), dtype=np.float64)
