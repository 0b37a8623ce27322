"""The page of a behaviour field: the summary in words, its dimensions and horizons, a corridor, and the cloud."""

from __future__ import annotations

import msgspec

from ethogram.estimate import Estimate
from ethogram.measures.standard import PRESETS
from ethogram.questions.field.chain import Chain
from ethogram.questions.field.cloud import Cloud, CloudPoint, field_cloud
from ethogram.questions.field.files import run_corridor
from ethogram.questions.field.horizon import MembershipRule
from ethogram.questions.field.question import field
from ethogram.questions.field.results import CorridorCheck, DimensionRow, FieldResult, HorizonRow
from ethogram.store import Run
from ethogram.viewer.library import Library

MOST_POINTS = 2000
"""How many trajectories are sent as points; of a larger cloud a part of every outcome and task."""


class FieldQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A field of a run: which dimensions, which runs belong to a state, and a run whose successes are the corridor."""

    run: str = "latest"
    rule: MembershipRule = "visited"
    preset: str = "standard"
    against: str = ""


class FieldView(msgspec.Struct, frozen=True, kw_only=True):
    """A field, summarised in words; `presets` says what each choice of dimensions is for."""

    run: str
    field: str
    rule: MembershipRule
    level: float
    K: int
    tasks: int
    successes: int
    failures: int
    estimates: dict[str, Estimate]
    chain: Chain
    dimensions: dict[str, DimensionRow]
    horizons: list[HorizonRow]
    corridor: CorridorCheck | None
    presets: dict[str, str]
    missing: dict[str, int]
    left_out: dict[str, str]
    test_method: str
    notes: list[str]


def field_view(library: Library, query: FieldQuery) -> FieldView:
    """The answer of `ethogram field`."""
    key = ("field", query.rule, query.preset, query.against, library.state(query.against) if query.against else "")
    return library.answer(query.run, key, lambda run: _field_view(library, run, query))


def _field_view(library: Library, run: Run, query: FieldQuery) -> FieldView:
    ruler = None
    if query.against:
        ruler = run_corridor(library.run(query.against), preset=query.preset, home=library.home)
    found: FieldResult = field(run, home=library.home, rule=query.rule, preset=query.preset, corridor=ruler)
    return FieldView(
        run=found.run,
        field=found.field,
        rule=found.rule,
        level=found.level,
        K=found.K,
        tasks=found.tasks,
        successes=found.successes,
        failures=found.failures,
        estimates=found.estimates,
        chain=found.chain,
        dimensions=found.dimensions,
        horizons=found.horizons,
        corridor=found.corridor,
        presets=dict(PRESETS),
        missing=found.missing,
        left_out=found.left_out,
        test_method=found.test_method,
        notes=found.notes,
    )


class CloudQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The points of a run's field."""

    run: str = "latest"
    preset: str = "standard"


class CloudView(msgspec.Struct, frozen=True, kw_only=True):
    """Trajectories as points, `of` that many; `explained` are the shares of the variance that both axes carry."""

    explained: list[float]
    dimensions: list[str]
    points: list[CloudPoint]
    of: int


def cloud_view(library: Library, query: CloudQuery) -> CloudView:
    """The point cloud."""
    cloud: Cloud = library.answer(
        query.run, ("cloud", query.preset), lambda run: field_cloud(run, home=library.home, preset=query.preset)
    )
    return CloudView(
        explained=cloud.explained,
        dimensions=cloud.dimensions,
        points=cloud.thinned(MOST_POINTS).points,
        of=len(cloud.points),
    )
