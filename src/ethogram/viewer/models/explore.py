"""The page of an exploration: its claims, slices of the grid, the tube, and its progress over rounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from ethogram.errors import BadUsage
from ethogram.estimate import Estimate
from ethogram.questions.explore.effects import explain_exploration, slice_exploration
from ethogram.questions.explore.exploration import RoundMetrics, open_exploration
from ethogram.questions.explore.maps import ExplorationMap, map_exploration
from ethogram.questions.explore.posterior import PointRow
from ethogram.viewer.library import Library

MOST_POINTS = 400
"""How many points of the grid are drawn as the tube; of a larger grid each n-th in the order of their rates."""
MOST_NAMED = 12
MOST_BASELINES = 3


class ExploreQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which exploration."""

    run: str = "latest"


class GridPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One point: its settings in words, its rate and what is established of it."""

    point: int
    settings: dict[str, str]
    episodes: int
    failures: int
    rate: Estimate
    verdict: str


class ParameterEffect(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the variation of the failure rate one or two parameters explain."""

    parameters: list[str]
    share: Estimate


class RoundPoint(msgspec.Struct, frozen=True, kw_only=True):
    """What was known after a round; `balanced_accuracy` only where the truth is known."""

    round: int
    episodes: int
    safe: int
    unsafe: int
    undecided: int
    expected_balanced_accuracy: float | None
    balanced_accuracy: float | None
    tube_coverage: float
    status: str


class ExploreView(msgspec.Struct, frozen=True, kw_only=True):
    """An exploration as it stands. `tube` are points in the order of their failure rates, `of` that many; `rounds`
    say how what is known grew."""

    run: str
    world: str
    strategy: str
    parameters: dict[str, list[str]]
    tau: float
    zone: float
    level: float
    episodes: int
    safe: int
    unsafe: int
    undecided: int
    established: str
    missing: dict[str, int]
    main: list[ParameterEffect]
    interactions: list[ParameterEffect]
    tube: list[GridPoint]
    of: int
    worst: list[GridPoint]
    rounds: list[RoundPoint]
    live: bool


def explore_view(library: Library, query: ExploreQuery) -> ExploreView:
    """The map of an exploration with its rounds."""
    return library.answer(query.run, ("explore",), lambda run: _explore_view(library, run.name, bool(run.busy())))


def _explore_view(library: Library, name: str, live: bool) -> ExploreView:
    found = map_exploration(name, home=library.home)
    effects = explain_exploration(name, home=library.home)
    rounds = open_exploration(name, home=library.home).committed()
    ordered = sorted(found.points, key=lambda point: (point.rate.value or 0.0, point.point))
    each = -(-len(ordered) // MOST_POINTS) or 1
    return ExploreView(
        run=found.run,
        world=found.world,
        strategy=found.strategy,
        parameters=_words(found),
        tau=found.tau,
        zone=found.zone,
        level=found.level,
        episodes=found.episodes,
        safe=found.safe,
        unsafe=found.unsafe,
        undecided=found.undecided,
        established=found.established,
        missing=found.metrics.counts.missing,
        main=[ParameterEffect(parameters=e.parameters, share=e.share) for e in effects.main],
        interactions=[ParameterEffect(parameters=e.parameters, share=e.share) for e in effects.interactions][
            :MOST_NAMED
        ],
        tube=[_point(point) for point in ordered[::each]],
        of=len(ordered),
        worst=[_point(point) for point in ordered[::-1][:MOST_NAMED]],
        rounds=[_round(one) for one in rounds],
        live=live,
    )


class BaselinesQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The exploration that others are held beside; not `run`, for the answer changes with other runs too."""

    exploration: str


class BaselineCurve(msgspec.Struct, frozen=True, kw_only=True):
    """Another exploration of the same grid: how it learned over its rounds."""

    run: str
    strategy: str
    rounds: list[RoundPoint]


class BaselinesView(msgspec.Struct, frozen=True, kw_only=True):
    """Other strategies on the same map, and what to type to buy one where there is none."""

    curves: list[BaselineCurve]
    command: str


def baselines_view(library: Library, query: BaselinesQuery) -> BaselinesView:
    """Stored explorations of the same world, grid and limit, each with another strategy, newest first."""
    own = library.answer(query.exploration, ("learned",), lambda run: _learned(library, run.name))
    names = [name for name in reversed(library.states()) if name != query.exploration]
    others = [library.answer(name, ("learned",), lambda run: _learned(library, run.name)) for name in names]
    found: dict[str, BaselineCurve] = {}
    for other in others:
        if (
            own is not None
            and other is not None
            and other.map == own.map
            and other.curve.strategy != own.curve.strategy
        ):
            found.setdefault(other.curve.strategy, other.curve)
    command = "" if own is None else f"{own.command} --strategy uniform --run {own.curve.run}-uniform"
    return BaselinesView(curves=list(found.values())[:MOST_BASELINES], command=command)


class _Learned(NamedTuple):
    """The curve of an exploration, of which map it is, and the start of the command that would buy another."""

    curve: BaselineCurve
    map: tuple[str, str, float, float]
    command: str


def _learned(library: Library, name: str) -> _Learned | None:
    if library.run(name).info.kind != "explore":
        return None
    held = open_exploration(name, home=library.home)
    about = held.metadata()
    if about is None:
        return None
    curve = BaselineCurve(run=name, strategy=about.strategy, rounds=[_round(one) for one in held.committed()])
    command = f"ethogram explore run --world {about.world}" + (" --synthetic" if about.synthetic else "")
    if about.tasks:
        command = "ethogram explore run SUITE --agent AGENT --grid GRID"
    return _Learned(curve, (about.world, about.grid_digest, about.tau, about.zone), command)


def _words(found: ExplorationMap) -> dict[str, list[str]]:
    return {name: [str(value) for value in values] for name, values in found.parameters.items()}


def _point(point: PointRow) -> GridPoint:
    return GridPoint(
        point=point.point,
        settings={name: str(value) for name, value in point.settings.items()},
        episodes=point.episodes,
        failures=point.failures,
        rate=point.rate,
        verdict=point.verdict,
    )


def _round(metrics: RoundMetrics) -> RoundPoint:
    certainty = metrics.certainty
    return RoundPoint(
        round=metrics.round_num,
        episodes=metrics.counts.trajectories_total,
        safe=certainty.safe,
        unsafe=certainty.unsafe,
        undecided=certainty.undecided,
        expected_balanced_accuracy=certainty.expected_balanced_accuracy,
        balanced_accuracy=metrics.truth.balanced_accuracy if metrics.truth else None,
        tube_coverage=metrics.tube.tube_coverage,
        status=metrics.status,
    )


class SliceQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Two parameters against each other; `fixed` is a JSON object from other parameters to values in words."""

    run: str = "latest"
    x: str = ""
    y: str = ""
    fixed: str = ""


class GridCell(msgspec.Struct, frozen=True, kw_only=True):
    """One cell: the positions of its values, and the mean failure rate over its points."""

    x: int
    y: int
    rate: Estimate
    episodes: int
    points: int


class SliceView(msgspec.Struct, frozen=True, kw_only=True):
    """A slice of the grid; parameters that are not fixed are averaged over."""

    x: str
    y: str
    x_values: list[str]
    y_values: list[str]
    tau: float
    cells: list[GridCell]


def slice_view(library: Library, query: SliceQuery) -> SliceView:
    """Two parameters against the failure rate."""
    key = ("slice", query.x, query.y, query.fixed)
    return library.answer(query.run, key, lambda run: _slice_view(library, run.name, query))


def _slice_view(library: Library, name: str, query: SliceQuery) -> SliceView:
    metadata = open_exploration(name, home=library.home).metadata()
    values: Mapping[str, tuple[Any, ...]] = (
        {} if metadata is None else {p.name: tuple(p.values) for p in metadata.grid.parameters}
    )
    fixed = {parameter: _value(values, parameter, words) for parameter, words in _fixed(query.fixed).items()}
    found = slice_exploration(query.x, query.y or None, fixed, name, home=library.home)
    across, up = values[found.x], values[found.y] if found.y else (None,)
    return SliceView(
        x=found.x,
        y=found.y or "",
        x_values=[str(value) for value in across],
        y_values=[str(value) for value in up] if found.y else [""],
        tau=found.tau,
        cells=[
            GridCell(x=across.index(c.x), y=up.index(c.y), rate=c.rate, episodes=c.episodes, points=c.points)
            for c in found.cells
        ],
    )


def _fixed(words: str) -> dict[str, str]:
    try:
        return msgspec.json.decode(words, type=dict[str, str]) if words else {}
    except msgspec.MsgspecError:
        raise BadUsage('fixed parameters are a JSON object from names to values, such as {"model": "a"}') from None


def _value(values: Mapping[str, tuple[Any, ...]], parameter: str, words: str) -> Any:
    """The value that these words stand for; others are refused by the slice itself."""
    return next((value for value in values.get(parameter, ()) if str(value) == words), words)
