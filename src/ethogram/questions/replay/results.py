"""What `redecide` gives: per trace and step, what was decided when it was recorded and what is decided now."""

from __future__ import annotations

from typing import Any

import msgspec

from ethogram.result import Result

from .redecision import Redecision


class RedecidedStep(msgspec.Struct, frozen=True, kw_only=True):
    """One model step: what was decided when it was recorded, and how often the two policies now decide differently.

    `changed_to` and `control_to` show the first decision that departed; `moved` says that the change moved the step.
    """

    step: int
    recorded: str
    draws: int
    changed_departs: int
    control_departs: int
    moved: bool
    changed_to: str | None = None
    control_to: str | None = None
    unanswered: int = 0
    why: str | None = None


class RedecidedTrace(msgspec.Struct, frozen=True, kw_only=True):
    """One trace: the first step at which each policy departs, and the first that the change moved."""

    trace: str
    run: str
    task: str
    length: int
    first_divergence: int | None
    first_control: int | None
    first_moved: int | None
    steps: list[RedecidedStep]


class RedecideResult(Result, kw_only=True):
    """Repeated decisions; `first_divergence` is that of the only trace, None where there are several.

    `calls` were paid for now, and `kept` replies were bought before.
    `summary` holds the distribution over traces; `missing` counts steps that could not be decided anew, by reason, and
    `redacted` those whose request now holds marks where it had words.
    """

    run: str
    change: dict[str, str]
    k: int
    compared: str
    first_divergence: int | None
    traces: list[RedecidedTrace]
    summary: Redecision
    missing: dict[str, int]
    redacted: int
    calls: int
    kept: int
    cost_usd: float | None
    at_least_usd: float
    stopped: str | None
    control: str = (
        "the recorded prompt and model repeated every decision too, because models are random: only what differs "
        "beyond that is an effect of the change"
    )

    def rows(self) -> list[dict[str, Any]]:
        """One row per trace and step."""
        return [
            {"trace": t.trace, "task": t.task, **msgspec.to_builtins(step)} for t in self.traces for step in t.steps
        ]
