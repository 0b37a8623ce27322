"""Dollars in words: one way for screens, reports and pages, so that one amount reads the same everywhere."""

from __future__ import annotations

import math


def dollars(value: float | None) -> str:
    """Dollars for people: cents where they matter, more digits where they do not suffice.

    Example: `dollars(0.0000123)` is `$0.000012`.
    """
    if value is None:
        return "–"
    if value < 0:
        return f"-{dollars(-value)}"
    if value == float("inf"):
        return "∞"
    if value >= 1000:
        return f"${value:,.0f}"
    if value >= 1 or value == 0:
        return f"${value:.2f}"
    digits = 4 if value >= 0.01 else 1 - math.floor(math.log10(value))
    return f"${value:.{digits}f}"
