"""Incidents in the home: one folder each, one numbered JSON file per event; a file is created and never changed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ethogram.errors import BadUsage, NotFound

from .lake import Home

FOLDER = "incidents"
_NAME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9]{3,9}")
_EVENT = re.compile(r"[0-9]{4}\.json")
MOST = 10**6


def incident_names(home: Home) -> list[str]:
    """Names of all incidents, the oldest first."""
    return sorted(name for name in home.files.names(FOLDER) if _NAME.fullmatch(name))


def new_incident(home: Home, day: str, data: bytes) -> str:
    """Store the first event of a new incident under the next free name of a day; gives the name."""
    for number in range(1, MOST):
        name = f"{day}-{number:03d}"
        if home.files.create(f"{FOLDER}/{name}/0001.json", data):
            return name
    raise BadUsage(f"there are too many incidents on {day}")


def incident_events(home: Home, wanted: str) -> Iterator[bytes]:
    """The events of an incident in their order, by its name or `latest`; raises `NotFound`."""
    name = resolve_incident(home, wanted)
    for file in sorted(f for f in home.files.names(f"{FOLDER}/{name}") if _EVENT.fullmatch(f)):
        yield home.files.read(f"{FOLDER}/{name}/{file}")


def resolve_incident(home: Home, wanted: str) -> str:
    """The name of an incident, or of the newest one for `latest`; raises `NotFound`."""
    known = incident_names(home)
    if wanted == "latest" and known:
        return known[-1]
    if wanted not in known:
        raise NotFound.named("incident", wanted, known)
    return wanted


def append_event(home: Home, name: str, data: bytes) -> None:
    """Add an event to an incident; two at once get two numbers."""
    taken = len([f for f in home.files.names(f"{FOLDER}/{name}") if _EVENT.fullmatch(f)])
    for number in range(taken + 1, 10_000):
        if home.files.create(f"{FOLDER}/{name}/{number:04d}.json", data):
            return
    raise BadUsage(f"incident {name!r} has too many events")
