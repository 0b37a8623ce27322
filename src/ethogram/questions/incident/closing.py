"""Closing an incident: needs a golden task that fails the recorded failure."""

from __future__ import annotations

from ethogram.errors import BadUsage, EthogramError, NotFound
from ethogram.plans import Task
from ethogram.questions.scoring.question import score_trace
from ethogram.reading.dates import now, person
from ethogram.reading.traces import find_trace
from ethogram.store import Home, home_of
from ethogram.store.incidents import append_event
from ethogram.suites.frozen import unchanged_golden
from ethogram.suites.load import LoadedSuite
from ethogram.traces import Outcome, Scored, cut_whole

from .incident import Incident, IncidentEvent, IncidentGuard, guard_problem
from .opening import what_next
from .records import IncidentResult, read_incident, stored_event

PROMOTED = "promoted_from"
"""Where a task keeps the trace that it was made of."""


def incident(incident: str = "latest", *, home: Home | str | None = None) -> IncidentResult:
    """One incident with its whole history.

    Example: `incident("2026-01-02-001").incident.facts.rollback`
    """
    return _result(read_incident(home_of(home), incident))


def close_incident(
    name: str,
    *,
    task: str | None,
    suite: str | None,
    why: str = "",
    by: str | None = None,
    home: Home | str | None = None,
) -> IncidentResult:
    """Close an incident with the golden task that guards against it from now on.

    The task stands in a golden set without unrecorded changes, is made of the incident's trace or is the task that
    failed, fails the recorded failure, and passes the passing attempt of the evidence where that can be asked. Raises
    `BadUsage` for anything less, `NotFound` for an incident or a task that does not exist.

    Example: `close_incident("2026-01-02-001", task="wrong-price", suite="suite").incident.state`
    """
    lake = home_of(home)
    found = read_incident(lake, name)
    if found.state == "closed":
        guard = found.guard.task if found.guard else "a task"
        raise BadUsage(f"incident {found.id!r} is closed already, guarded by {guard!r}")
    if task is None or suite is None:
        raise BadUsage(
            f"incident {found.id!r} is closed by the golden task that guards against it: give --task TASK --suite "
            f"SUITE; make one with: {what_next(found.facts, found.id)}"
        )
    loaded, golden = unchanged_golden(suite)
    if task not in golden.tasks:
        raise NotFound.named("task", task, list(golden.tasks), where=f"the golden set {golden.suite!r}")
    wanted = loaded.suite.task(task)
    score, said = _guarding(lake, found, wanted, loaded)
    event = IncidentEvent(
        event="closed",
        at=now(),
        by=person(by),
        why=why.strip() or f"guarded by {golden.suite} {golden.version}, task {task}",
        guard=IncidentGuard(
            suite=golden.suite,
            version=golden.version,
            task=task,
            digest=golden.tasks[task].digest,
            failure_score=score,
            said=said,
        ),
    )
    append_event(lake, found.id, stored_event(lake, event))
    return _result(read_incident(lake, found.id))


def _result(stored: Incident) -> IncidentResult:
    """An incident with what to do next."""
    if stored.guard is None:
        return IncidentResult(incident=stored, next=what_next(stored.facts, stored.id))
    return IncidentResult(incident=stored, next=f"ethogram run SUITE --task {stored.guard.task} tells whether it holds")


def _guarding(home: Home, found: Incident, task: Task, loaded: LoadedSuite) -> tuple[float, str]:
    """What the task says of the recorded failure; raises `BadUsage` where it does not guard against it."""
    pair = found.facts.evidence
    if task.meta.get(PROMOTED) != pair.failing and task.id != found.facts.task:
        raise BadUsage(
            f"task {task.id!r} was not made of trace {pair.failing[3:15]} and is not the task that failed "
            f"({found.facts.task}): any task fails a trace of another one; promote the trace first"
        )
    run, entry = find_trace(pair.failing, run=pair.failing_run, home=home)
    failure, said = score_trace(task, loaded, run, entry, home)
    problem = guard_problem(failure, _of_passing(home, found, task, loaded), loaded.suite.success_at, task.id)
    if problem is not None:
        raise BadUsage(f"{problem}; incident {found.id!r} stays open")
    assert isinstance(failure, Scored)
    return failure.value, cut_whole(said, 500)


def _of_passing(home: Home, found: Incident, task: Task, loaded: LoadedSuite) -> Outcome | None:
    pair = found.facts.evidence
    if pair.passing is None:
        return None
    try:
        run, entry = find_trace(pair.passing, run=pair.passing_run, home=home)
        return score_trace(task, loaded, run, entry, home)[0]
    except EthogramError:  # what is no longer kept cannot be asked
        return None
