"""Stored incidents: read into records, written redacted."""

from __future__ import annotations

from typing import Any

import msgspec

from ethogram.errors import Damaged
from ethogram.result import Result
from ethogram.store import Home, home_of
from ethogram.store.incidents import incident_events, incident_names, resolve_incident

from .incident import Incident, IncidentEvent, IncidentState, incident_of


class IncidentResult(Result, kw_only=True):
    """One incident; `next` is what to do with it now."""

    incident: Incident
    next: str


class IncidentList(Result, kw_only=True):
    """All incidents of a home, the newest first."""

    incidents: list[Incident]
    open: int

    def rows(self) -> list[dict[str, Any]]:
        """One row per incident."""
        return [
            {
                "incident": i.id,
                "state": i.state,
                "class": i.facts.class_,
                "owner": i.facts.owner,
                "task": i.facts.task,
                "guard": f"{i.guard.suite}/{i.guard.task}" if i.guard else None,
            }
            for i in self.incidents
        ]


def read_incident(home: Home, wanted: str) -> Incident:
    """An incident by its name or `latest`; raises `NotFound`, or `Damaged` where an event cannot be read."""
    name = resolve_incident(home, wanted)
    try:
        return incident_of(name, [msgspec.json.decode(e, type=IncidentEvent) for e in incident_events(home, name)])
    except msgspec.MsgspecError as error:
        raise Damaged(f"an event of incident {name!r} cannot be read: {error}", where=f"incidents/{name}") from None


def all_incidents(home: Home) -> list[Incident]:
    """All incidents, the oldest first."""
    return [read_incident(home, name) for name in incident_names(home)]


def stored_event(home: Home, event: IncidentEvent, redaction: str = "default") -> bytes:
    """An event as it is written: its words redacted, for people write anything into a reason."""
    return msgspec.json.format(msgspec.json.encode(home.as_stored(event, redaction)))


def list_incidents(*, state: IncidentState | None = None, home: Home | str | None = None) -> IncidentList:
    """All incidents of a home, the newest first; `state` leaves only open or closed ones.

    Example: `list_incidents(state="open").open`
    """
    found = all_incidents(home_of(home))
    chosen = [i for i in reversed(found) if state is None or i.state == state]
    return IncidentList(incidents=chosen, open=sum(i.state == "open" for i in found))
