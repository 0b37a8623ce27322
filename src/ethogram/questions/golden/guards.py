"""Incidents guarded by a golden task: they are reopened when the task is removed."""

from __future__ import annotations

from ethogram.questions.incident.incident import IncidentEvent
from ethogram.questions.incident.records import all_incidents, stored_event
from ethogram.reading.dates import now
from ethogram.store import Home, home_of
from ethogram.store.incidents import append_event


def guarded_by(suite: str, task: str, home: Home) -> list[str]:
    """Names of closed incidents that a task of a golden set guards."""
    return [
        found.id
        for found in all_incidents(home)
        if found.guard is not None and (found.guard.suite, found.guard.task) == (suite, task)
    ]


def lose_guard(suite: str, task: str, why: str, by: str, home: Home | str | None) -> list[str]:
    """Open the incidents of a removed task again; gives their names."""
    lake = home_of(home)
    names = guarded_by(suite, task, lake)
    for name in names:
        said = f"the golden task {task!r} of {suite} that guarded it was removed: {why}"
        append_event(lake, name, stored_event(lake, IncidentEvent(event="reopened", at=now(), by=by, why=said)))
    return names


def guards_of(suite: str, home: Home) -> dict[str, list[str]]:
    """Closed incidents by the task of a golden set that guards them."""
    found: dict[str, list[str]] = {}
    for one in all_incidents(home):
        if one.guard is not None and one.guard.suite == suite:
            found.setdefault(one.guard.task, []).append(one.id)
    return found
