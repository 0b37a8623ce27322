"""Sums over model calls, as the rows of a cost report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from ethogram.estimate import Estimate
from ethogram.prices.resolved import OUTCOME_MISSING
from ethogram.prices.usage import TOKENS, Bools, Calls, Floats

from .records import CostStep, CostUsage

UNRECORDED = "the agent may have made calls that were not recorded"
"""Why a cost is unknown that no price would tell."""


def with_reasons(estimate: Estimate, reasons: Mapping[str, int]) -> Estimate:
    """An estimate whose missing outcomes are counted by reason."""
    told = {what: n for what, n in estimate.missing.items() if what != OUTCOME_MISSING}
    return msgspec.structs.replace(estimate, missing={**dict(sorted(reasons.items())), **told})


def name_of(names: list[str], code: int) -> str | None:
    """The name behind a code."""
    return names[code] if code >= 0 else None


def known_sum(cost: Floats) -> float | None:
    """The sum of what is known; None if nothing is."""
    known = cost[~np.isnan(cost)]
    return float(known.sum()) if known.size else None


def usage_of(calls: Calls, chosen: Any) -> CostUsage:
    """Tokens of some calls."""
    sums = {n: int(getattr(calls, n)[chosen].sum()) if np.any(calls.known[n][chosen]) else None for n in TOKENS}
    return CostUsage(calls=int(calls.at[chosen].size), **sums)


def step_row(name: str, calls: Calls, chosen: Bools, cost: Floats, dark: Bools, whole: float) -> CostStep:
    """One class of model calls."""
    money = known_sum(cost[chosen])
    return CostStep(
        step=name,
        kind="model",
        usage=usage_of(calls, chosen),
        cost_usd=money,
        share=money / whole if money is not None and whole > 0 else None,
        unpriced=int(np.sum(dark & chosen)),
    )


def mean_share(moved: Floats) -> float | None:
    """The share of all calls."""
    return float(moved.mean()) if moved.size else None


def unknown_costs(unknown: Bools, called: Bools, unseen: Bools) -> list[str]:
    """How many episodes have an unknown cost, by reason, from columns of all episodes."""
    reasons = {
        f"have no full cost: {UNRECORDED}": unseen,
        "have calls without a price: their cost is not known in full": called & ~unseen,
        "have no recorded model call: their cost is not known": ~called & ~unseen,
    }
    counts = {why: int(np.sum(unknown & those)) for why, those in reasons.items()}
    return [f"{count} of {unknown.size} episodes {why}" for why, count in counts.items() if count]
