"""Understanding an exploration: the map, which parameters matter, a setting's neighbours, slices, export."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ethogram.decide.explore import Posterior, Problem, Tally, problem_of
from ethogram.decide.shared import GROWTH, SharedSurface
from ethogram.decide.strategies import Shared, make_strategy
from ethogram.decide.tube import Sets, established, sets
from ethogram.errors import BadInput, BadUsage, NotFound, Refused
from ethogram.estimate import Estimate
from ethogram.plan.grid import Grid, Settings
from ethogram.stats.effects import level_means, shares
from ethogram.store import Home
from ethogram.store.arrays import table

from .exploration import Metadata, RoundMetrics, Rounds, add_up, open_exploration
from .result import Result

DRAWS = 400
MOST_DRAWN = 4096
"""Points of a larger grid from which effects are estimated."""


class PointRow(msgspec.Struct, kw_only=True):
    """One point of a map: its settings, its own data, and what is believed of its failure rate."""

    point: int
    settings: Settings
    episodes: int
    failures: int
    rate: Estimate
    unsafe: float
    """P(rate > tau)."""
    verdict: str
    """safe, unsafe or undecided, at the level of the map."""


class ExplorationMap(Result, kw_only=True):
    """All points of an exploration, with uncertainty."""

    run: str
    world: str
    strategy: str
    parameters: dict[str, list[Any]]
    tau: float
    zone: float
    level: float
    episodes: int
    safe: int
    unsafe: int
    undecided: int
    established: str
    metrics: RoundMetrics
    points: list[PointRow]

    def rows(self) -> list[dict[str, Any]]:
        """One row per point, flat."""
        return [_flat(p) for p in self.points]


class LevelRow(msgspec.Struct, kw_only=True):
    """The mean failure rate over all points with one value of a parameter."""

    parameter: str
    value: Any
    rate: Estimate


class EffectRow(msgspec.Struct, kw_only=True):
    """How much of the variation of the failure rate over the grid an effect explains by itself."""

    parameters: list[str]
    share: Estimate
    spread: Estimate | None = None
    """Highest less lowest mean rate over the values of the parameter."""


class Effects(Result, kw_only=True):
    """Which parameters matter: main effects, interactions, and the mean rate at every value."""

    run: str
    episodes: int
    main: list[EffectRow]
    interactions: list[EffectRow]
    levels: list[LevelRow]

    def rows(self) -> list[dict[str, Any]]:
        """One row per effect."""
        return [
            {"effect": " × ".join(e.parameters), "share": e.share.value, "low": e.share.low, "high": e.share.high}
            for e in (*self.main, *self.interactions)
        ]


class NeighbourRow(msgspec.Struct, kw_only=True):
    """A point one step away: what changes, its rate, and the difference from where one stands."""

    point: int
    change: dict[str, Any]
    rate: Estimate
    difference: Estimate
    episodes: int
    verdict: str


class Neighbours(Result, kw_only=True):
    """The settings one step away from a current one, safest first."""

    run: str
    here: PointRow
    neighbours: list[NeighbourRow]
    safest: NeighbourRow | None
    most_dangerous: NeighbourRow | None

    def rows(self) -> list[dict[str, Any]]:
        """One row per neighbour."""
        return [
            {
                "point": n.point,
                **n.change,
                "rate": n.rate.value,
                "low": n.rate.low,
                "high": n.rate.high,
                "verdict": n.verdict,
            }
            for n in self.neighbours
        ]


class SliceCell(msgspec.Struct, kw_only=True):
    """One cell of a slice: mean failure rate over the points in it."""

    x: Any
    y: Any
    rate: Estimate
    episodes: int
    points: int


class Slice(Result, kw_only=True):
    """Two parameters against each other; the others are fixed, or averaged over where they are not."""

    run: str
    x: str
    y: str | None
    fixed: Settings
    tau: float
    cells: list[SliceCell]

    def rows(self) -> list[dict[str, Any]]:
        """One row per cell."""
        return [
            {"x": c.x, "y": c.y, "rate": c.rate.value, "low": c.rate.low, "high": c.rate.high, "episodes": c.episodes}
            for c in self.cells
        ]


class MapFile(Result, kw_only=True):
    """Where a map was written."""

    run: str
    file: str
    format: str
    points: int


class _Known:
    """A stored exploration with what is believed after its last committed round."""

    def __init__(self, run: str, home: Home | str | None) -> None:
        rounds = open_exploration(run, home=home)
        metadata = rounds.metadata()
        done = rounds.committed()
        if metadata is None or not done:
            raise Refused(f"{rounds.run.name!r} has no complete round yet; run: ethogram explore")
        self.run, self.metadata, self.done = rounds.run.name, metadata, done
        self.grid: Grid = metadata.grid
        self.problem: Problem = problem_of(self.grid, metadata.tau, metadata.zone)
        self.tallies = _tallies(rounds, metadata, done, self.problem.points)
        self.tally = self.tallies[-1]

    def posterior(self) -> Posterior:
        """What the exploration's own strategy believes: it is shown every tally again."""
        strategy = make_strategy(self.metadata.strategy, self.problem)
        for tally in self.tallies if isinstance(strategy, Shared) else self.tallies[-1:]:
            strategy.look(tally)
        return strategy.posterior()

    def surface(self) -> SharedSurface:
        """The shared surface, whatever strategy chose the points."""
        surface = SharedSurface(self.problem)
        seen = 0
        for tally in self.tallies:
            if tally.spent >= GROWTH * seen or tally is self.tally:  # the kernel is looked at again only then
                surface.look(tally)
                seen = tally.spent
        return surface

    def point(self, i: int, posterior: Posterior, found: Sets) -> PointRow:
        """A point of the map."""
        return PointRow(
            point=i,
            settings=self.grid.settings(i),
            episodes=int(self.tally.n[i]),
            failures=int(self.tally.fails[i]),
            rate=_believed(posterior, i, self.metadata, self.tally),
            unsafe=float(posterior.unsafe[i]),
            verdict=_verdict(found, i),
        )


def map_exploration(run: str = "latest", *, home: Home | str | None = None) -> ExplorationMap:
    """The map of an exploration: every point with its rate, interval and verdict."""
    known = _Known(run, home)
    posterior = known.posterior()
    found = sets(posterior, known.metadata.level)
    last = known.done[-1]
    return ExplorationMap(
        run=known.run,
        world=known.metadata.world,
        strategy=known.metadata.strategy,
        parameters={p.name: list(p.values) for p in known.grid.parameters},
        tau=known.metadata.tau,
        zone=known.metadata.zone,
        level=known.metadata.level,
        episodes=known.tally.spent,
        safe=int(found.safe.sum()),
        unsafe=int(found.unsafe.sum()),
        undecided=int(found.undecided.sum()),
        established=established(last.certainty, known.problem.points, known.metadata.tau),
        metrics=last,
        points=[known.point(i, posterior, found) for i in range(known.problem.points)],
    )


def explain_exploration(run: str = "latest", *, home: Home | str | None = None) -> Effects:
    """Which parameters matter, from joint draws of the shared surface."""
    known = _Known(run, home)
    rng = np.random.default_rng(0)
    rows = np.arange(known.problem.points)
    if len(rows) > MOST_DRAWN:
        rows = np.sort(rng.permutation(len(rows))[:MOST_DRAWN])
    rates = known.surface().draws(rng, DRAWS, rows)
    levels, sizes = known.problem.levels[rows], [a.size for a in known.problem.axes]
    names, spent = known.grid.names, known.tally.spent
    main, by_level = [], []
    for d, parameter in enumerate(known.grid.parameters):
        means = level_means(rates, levels[:, d], sizes[d])
        spread = _drawn(means.max(axis=1) - means.min(axis=1), spent)
        main.append(
            EffectRow(parameters=[names[d]], share=_drawn(shares(rates, levels, sizes, (d,)), spent), spread=spread)
        )
        by_level += [
            LevelRow(parameter=names[d], value=value, rate=_drawn(means[:, i], spent))
            for i, value in enumerate(parameter.values)
        ]
    pairs = [
        EffectRow(parameters=[names[a], names[b]], share=_drawn(shares(rates, levels, sizes, (a, b)), spent))
        for a, b in combinations(range(len(names)), 2)
    ]
    return Effects(
        run=known.run,
        episodes=spent,
        main=sorted(main, key=lambda e: -(e.share.value or 0)),
        interactions=sorted(pairs, key=lambda e: -(e.share.value or 0)),
        levels=by_level,
    )


def near_setting(settings: Mapping[str, Any], run: str = "latest", *, home: Home | str | None = None) -> Neighbours:
    """The safest and the most dangerous settings one step away from a current one."""
    known = _Known(run, home)
    here = known.grid.find(settings)
    around = list(known.grid.neighbours(here))
    posterior = known.posterior()
    found = sets(posterior, known.metadata.level)
    draws = known.surface().draws(np.random.default_rng(0), DRAWS, np.asarray([here, *around], dtype=np.int64))
    mine = known.grid.settings(here)
    rows = []
    for i, point in enumerate(around):
        theirs = known.grid.settings(point)
        rows.append(
            NeighbourRow(
                point=point,
                change={k: v for k, v in theirs.items() if mine[k] != v},
                rate=_believed(posterior, point, known.metadata, known.tally),
                difference=_drawn(draws[:, i + 1] - draws[:, 0], known.tally.spent),
                episodes=int(known.tally.n[point]),
                verdict=_verdict(found, point),
            )
        )
    rows.sort(key=lambda r: (r.difference.value or 0.0, r.point))
    return Neighbours(
        run=known.run,
        here=known.point(here, posterior, found),
        neighbours=rows,
        safest=rows[0] if rows else None,
        most_dangerous=rows[-1] if rows else None,
    )


def slice_exploration(
    x: str,
    y: str | None = None,
    fixed: Mapping[str, Any] | None = None,
    run: str = "latest",
    *,
    home: Home | str | None = None,
) -> Slice:
    """One or two parameters against the failure rate; the others fixed, or averaged over."""
    known = _Known(run, home)
    grid, fixed = known.grid, dict(fixed or {})
    for name in (x, *([y] if y else []), *fixed):
        if name not in grid.names:
            raise NotFound.named("parameter of the grid", name, list(grid.names))
    if x == y or x in fixed or (y and y in fixed):
        raise BadUsage("a slice needs different parameters for --x and --y, and neither may be fixed")
    keep = np.ones(known.problem.points, dtype=bool)
    for name, value in fixed.items():
        d = grid.names.index(name)
        if value not in grid.parameters[d].values:
            raise BadInput(f"{name} = {value!r} is not in the grid; see: ethogram explore map")
        keep &= known.problem.levels[:, d] == grid.parameters[d].values.index(value)
    rows = np.flatnonzero(keep)
    if not len(rows):
        raise BadInput("no point of the grid has these settings; fix fewer of them")
    axes = [grid.names.index(n) for n in (x, y) if n]
    draws = known.surface().draws(np.random.default_rng(0), DRAWS, rows)
    sizes = [known.problem.axes[d].size for d in axes]
    cells = np.ravel_multi_index(tuple(known.problem.levels[rows][:, d] for d in axes), sizes)
    means = level_means(draws, cells, int(np.prod(sizes)))
    built = []
    for cell in np.unique(cells):
        at = np.unravel_index(int(cell), sizes)
        inside = rows[cells == cell]
        values = [grid.parameters[d].values[int(i)] for d, i in zip(axes, at, strict=True)]
        bought = int(known.tally.n[inside].sum())
        built.append(
            SliceCell(
                x=values[0],
                y=values[1] if y else None,
                rate=_drawn(means[:, cell], bought),
                episodes=bought,
                points=len(inside),
            )
        )
    return Slice(run=known.run, x=x, y=y, fixed=fixed, tau=known.metadata.tau, cells=built)


def export_exploration(file: str | Path, run: str = "latest", *, home: Home | str | None = None) -> MapFile:
    """Write the map as CSV or Parquet, by the file's ending."""
    path = Path(file)
    kind = path.suffix.lower().lstrip(".")
    if kind not in ("csv", "parquet"):
        raise BadUsage(f"{path.name!r} ends neither in .csv nor in .parquet; name the format by the ending")
    if path.exists():
        raise BadUsage(f"{path} exists already; remove it, or choose another name")
    found = map_exploration(run, home=home)
    rows = found.rows()
    if kind == "csv":
        import csv

        with path.open("w", newline="", encoding="utf-8") as out:
            writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    else:
        import pyarrow.parquet as pq

        pq.write_table(_arrow(rows), path)
    return MapFile(run=found.run, file=str(path), format=kind, points=len(rows))


def _arrow(rows: Sequence[dict[str, Any]]) -> Any:
    import pyarrow as pa

    kinds = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
    fields = []
    for name in rows[0]:
        seen = {type(row[name]) for row in rows if row[name] is not None}
        kind = float if seen == {int, float} else next(iter(seen)) if len(seen) == 1 else str
        fields.append(pa.field(name, kinds.get(kind, pa.string())))
    columns = {f.name: [str(r[f.name]) if f.type == pa.string() else r[f.name] for r in rows] for f in fields}
    return table(columns, pa.schema(fields))


def _flat(point: PointRow) -> dict[str, Any]:
    return {
        "point": point.point,
        **point.settings,
        "episodes": point.episodes,
        "failures": point.failures,
        "rate": point.rate.value,
        "low": point.rate.low,
        "high": point.rate.high,
        "unsafe": point.unsafe,
        "verdict": point.verdict,
    }


def _tallies(rounds: Rounds, metadata: Metadata, done: Sequence[RoundMetrics], points: int) -> list[Tally]:
    """The tally after each committed round."""
    batches = rounds.batches()
    tally, found = Tally.empty(points), []
    for metrics in done:
        plan = rounds.plan(metrics.round_num, metadata.run_uuid)
        tally = add_up(tally, (batches[metrics.round_num, int(p)] for p in plan.points))
        found.append(tally)
    return found


def _believed(posterior: Posterior, i: int, metadata: Metadata, tally: Tally) -> Estimate:
    return Estimate(
        value=float(posterior.mean[i]),
        low=float(posterior.low[i]),
        high=float(posterior.high[i]),
        level=0.95,
        method=f"posterior-{metadata.strategy}",
        n=int(tally.n[i]),
        of="episodes",
    )


def _drawn(values: Any, spent: int) -> Estimate:
    low, high = np.quantile(values, [0.025, 0.975])
    return Estimate(
        value=float(np.mean(values)),
        low=float(low),
        high=float(high),
        level=0.95,
        method="posterior-draws",
        n=spent,
        of="episodes",
    )


def _verdict(found: Sets, i: int) -> str:
    return "safe" if found.safe[i] else "unsafe" if found.unsafe[i] else "undecided"
