"""Blame: what becomes of an episode that the agent spoiled itself, by a crash or at a cap of its own.

When an episode runs and when a stored one is scored again, the same two functions decide: else a run would change its
outcomes by being scored again with the suite that it was made with.
"""

from __future__ import annotations

from ethogram.plans import Blame, Suite
from ethogram.traces import Missing, Outcome, Scored

BLAMED = Scored(0.0, "blame")


def outcome_without_checks(suite: Suite, stopped_by: str | None) -> Outcome | None:
    """What the suite says of a stop before a check is asked; None where its checks decide.

    `stopped_by` is the value of that label: `crash.…` and `cap.…` are the agent's own doing. About any other stop, such
    as the kill switch, the suite has no rule.
    """
    rule = _rule(suite, stopped_by)
    if rule == "zero":
        return BLAMED
    if rule == "missing":
        return Missing("unscored", f"stopped by {stopped_by}; the suite does not score that")
    return None


def outcome_after_stop(suite: Suite, stopped_by: str | None, verdict: Outcome) -> Outcome:
    """The outcome of an episode whose checks gave `verdict`; 0 where an agent that spoiled it left nothing to check.

    A check that crashed itself stays missing: that is not the agent's fault.
    """
    settled = outcome_without_checks(suite, stopped_by)
    if settled is not None:
        return settled
    if _rule(suite, stopped_by) is not None and isinstance(verdict, Missing) and verdict.reason == "unscored":
        return BLAMED
    return verdict


def _rule(suite: Suite, stopped_by: str | None) -> Blame | None:
    rules: dict[str, Blame] = {"cap": suite.on_cap, "crash": suite.on_crash}
    return rules.get((stopped_by or "").partition(".")[0])
