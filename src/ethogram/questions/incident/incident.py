"""Incidents: the record of a failure in production, and the condition for closing it.

An incident is a list of events that only grows; its state follows from them. It is closed by a golden task that fails
the recorded failure, and open again once that task is gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from ethogram.errors import BadInput
from ethogram.traces import Missing, Outcome, Scored

IncidentState = Literal["open", "closed"]
EventKind = Literal["opened", "closed", "reopened", "noted"]


class EvidencePair(msgspec.Struct, frozen=True, kw_only=True):
    """The failing attempt beside a passing one of the same task; `t_star` is the first step that differs.

    Where there is no passing attempt, or no step differs, `why` says so.
    """

    failing: str
    failing_run: str
    passing: str | None = None
    passing_run: str | None = None
    t_star: int | None = None
    t_star_norm: float | None = None
    failing_step: str | None = None
    passing_step: str | None = None
    why: str | None = None


class FailureCost(msgspec.Struct, frozen=True, kw_only=True):
    """What the failed attempt used; None where the log does not say."""

    usd: float | None
    tokens: int | None
    seconds: float | None


class IncidentFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a failure when its incident is opened.

    `class` is None where no detector recognised one. `rollback` is the command of the playbook, and `rollback_why` says
    where it comes from or why there is none.
    """

    task: str
    agent: str
    class_: str | None = msgspec.field(name="class")
    classes: list[str]
    owner: str | None
    try_: str = msgspec.field(name="try")
    step: int | None
    said: str
    outcome: str
    evidence: EvidencePair
    cost: FailureCost
    rollback: str | None
    rollback_why: str


class IncidentGuard(msgspec.Struct, frozen=True, kw_only=True):
    """The golden task that guards against the failure from now on, and its score of the recorded failure."""

    suite: str
    version: str
    task: str
    digest: str
    failure_score: float
    said: str = ""


class IncidentEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that happened to an incident: dated, with who and why."""

    event: EventKind
    at: str
    by: str
    why: str = ""
    facts: IncidentFacts | None = None
    guard: IncidentGuard | None = None


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """An incident as its events make it."""

    id: str
    state: IncidentState
    opened: str
    closed: str | None
    title: str
    facts: IncidentFacts
    guard: IncidentGuard | None
    history: list[IncidentEvent]


def incident_of(name: str, events: Sequence[IncidentEvent]) -> Incident:
    """An incident from its events, the oldest first; raises `BadInput` for a history that does not begin with facts."""
    if not events or events[0].facts is None or events[0].event != "opened":
        raise BadInput(f"the history of incident {name!r} does not begin with its opening", where=f"incident {name!r}")
    closed: str | None = None
    guard: IncidentGuard | None = None
    for event in events[1:]:
        if event.event == "closed" and event.guard is not None:
            closed, guard = event.at, event.guard
        elif event.event == "reopened":
            closed, guard = None, None
    return Incident(
        id=name,
        state="closed" if closed is not None else "open",
        opened=events[0].at,
        closed=closed,
        title=events[0].why,
        facts=events[0].facts,
        guard=guard,
        history=list(events),
    )


def guard_problem(failure: Outcome, passing: Outcome | None, success_at: float, task: str) -> str | None:
    """Why a task does not guard against a recorded failure; None where it does.

    It must fail the failure, and where a passing attempt is known, pass that one: a check that fails everything proves
    nothing.
    """
    if isinstance(failure, Missing):
        return f"task {task!r} cannot be asked of the recorded failure ({failure.detail or failure.reason})"
    if failure.success(success_at):
        return f"the recorded failure passes task {task!r} (score {failure.value:g}), so it guards against nothing"
    if isinstance(passing, Scored) and not passing.success(success_at):
        return f"task {task!r} fails the passing attempt too (score {passing.value:g}), so it does not distinguish them"
    return None
