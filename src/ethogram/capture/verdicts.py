"""Words and numbers that say whether an attempt succeeded."""

from __future__ import annotations

import math

from ethogram.traces import Outcome, Scored

PASS = frozenset(
    {
        *("true", "pass", "passed", "success", "successful", "succeeded", "resolved", "solved", "correct", "accepted"),
        *("yes", "c"),
    }
)
FAIL = frozenset(
    {
        *("false", "fail", "failed", "failure", "unsuccessful", "unresolved", "unsolved", "incorrect", "wrong"),
        *("rejected", "no", "i"),
    }
)
UNSCORED = frozenset(
    {
        *("error", "errored", "skipped", "n/a", "na", "none", "null", "nan", "-", "timeout", "unscored"),
        *("unsure", "uncertain", "unknown", "undecided"),
    }
)
"""Words in the place of a verdict that give none."""


def outcome_of(value: str | None, by: str) -> Outcome | None:
    """A verdict from a word or a number; None if it is neither."""
    if value is None:
        return None
    word = value.strip().lower()
    if word in PASS or word in FAIL:
        return Scored(1.0 if word in PASS else 0.0, by)
    try:
        number = float(word)
    except ValueError:
        return None
    return Scored(number, by) if math.isfinite(number) else None
