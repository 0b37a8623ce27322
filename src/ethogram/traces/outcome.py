"""Outcomes: a score, or the reason why there is none. Never a number that stands for absence."""

from __future__ import annotations

import math
from typing import Literal, get_args

import msgspec

Reason = Literal[
    "infrastructure.network",
    "infrastructure.rate_limit",
    "infrastructure.timeout",
    "infrastructure.sandbox",
    "infrastructure.verifier",
    "infrastructure.other",
    "cap.experiment",
    "killed",
    "cancelled",
    "unscored",
    "deviation",
]
"""Why an outcome is missing; `deviation`: the agent asked for what its record cannot answer.

The agent's own crash and its own caps are not here: they are scored.
"""

REASONS: tuple[str, ...] = get_args(Reason)
SUCCESS_AT = 0.5
"""From which score on an episode is a success, where no suite says otherwise."""


class Scored(msgspec.Struct, frozen=True, tag="scored", tag_field="outcome", omit_defaults=True, gc=False):
    """A verdict: `value` is finite, usually 0 to 1; `by` names the verifier, judge or log field."""

    value: float
    by: str = ""

    def __post_init__(self) -> None:
        """Refuse NaN and infinities: an absent score is `Missing`."""
        if not math.isfinite(self.value):
            raise ValueError(f"a score must be finite, not {self.value}; use Missing(reason) for an absent one")

    def success(self, threshold: float) -> bool:
        """Whether this counts as a success: `success_at` of its run is the threshold."""
        return self.value >= threshold


class Missing(msgspec.Struct, frozen=True, tag="missing", tag_field="outcome", omit_defaults=True, gc=False):
    """No verdict, and why."""

    reason: Reason
    detail: str = ""


Outcome = Scored | Missing
