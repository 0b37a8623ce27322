"""The page of golden sets and incidents: the tasks that scores are based on, and failures in production."""

from __future__ import annotations

import msgspec

from ethogram.questions.golden.known_sets import KnownGolden, known_goldens
from ethogram.questions.incident.closing import incident as show_incident
from ethogram.questions.incident.incident import Incident
from ethogram.questions.incident.records import list_incidents
from ethogram.viewer.library import Library

MOST_INCIDENTS = 200
MOST_RUNS = 20


class GoldenQuery(msgspec.Struct, frozen=True, kw_only=True):
    """All golden sets and incidents of the home."""


class IncidentCard(msgspec.Struct, frozen=True, kw_only=True):
    """One incident, and what to do with it now; `gone` are runs of its evidence that the home no longer has."""

    incident: Incident
    next: str
    gone: list[str]


class GoldenView(msgspec.Struct, frozen=True, kw_only=True):
    """Golden sets by name, and incidents, the newest first, of `of_incidents`."""

    sets: list[KnownGolden]
    incidents: list[IncidentCard]
    of_incidents: int
    open: int


def golden_view(library: Library, query: GoldenQuery) -> GoldenView:
    """Golden sets with their history, and incidents with what guards against them."""
    listed = list_incidents(home=library.home)
    runs = set(library.home.names())
    sets = known_goldens(home=library.home).sets
    return GoldenView(
        sets=[msgspec.structs.replace(one, runs=one.runs[:MOST_RUNS]) for one in sets],
        incidents=[_card(library, one, runs) for one in listed.incidents[:MOST_INCIDENTS]],
        of_incidents=len(listed.incidents),
        open=listed.open,
    )


def _card(library: Library, incident: Incident, runs: set[str]) -> IncidentCard:
    pair = incident.facts.evidence
    return IncidentCard(
        incident=incident,
        next=show_incident(incident.id, home=library.home).next,
        gone=[name for name in (pair.failing_run, pair.passing_run) if name is not None and name not in runs],
    )
