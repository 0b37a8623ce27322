"""Effects in an exploration: which parameters matter, neighbours of a setting, slices along parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, ClassVar

import msgspec
import numpy as np

from ethogram.display import Drawing, Presentation
from ethogram.errors import BadInput, BadUsage, NotFound
from ethogram.estimate import Estimate
from ethogram.result import Result
from ethogram.store import Home

from .grid import Settings
from .posterior import KnownMap, PointRow, drawn
from .surface import level_means, shares

DRAWS = 400
NEAR_DRAWS = 4000
MOST_DRAWN = 4096
"""Points of a larger grid from which effects are estimated."""


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

    presentation: ClassVar[Presentation] = Presentation(drawing=Drawing("effect", "share", "share of the variance"))

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
    """A point one step away: what changes, its rate, and the difference from the setting."""

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


def explain_exploration(run: str = "latest", *, home: Home | str | None = None) -> Effects:
    """Which parameters matter, from joint draws of the shared surface."""
    known = KnownMap(run, home)
    rng = np.random.default_rng(0)
    rows = np.arange(known.problem.points)
    if len(rows) > MOST_DRAWN:
        rows = np.sort(rng.permutation(len(rows))[:MOST_DRAWN])
    rates = known.surface.draws(rng, DRAWS, rows)
    levels, sizes = known.problem.levels[rows], [a.size for a in known.problem.axes]
    names, spent = known.grid.names, known.tally.spent
    main, by_level = [], []
    for d, parameter in enumerate(known.grid.parameters):
        means = level_means(rates, levels[:, d], sizes[d])
        spread = drawn(means.max(axis=1) - means.min(axis=1), spent)
        main.append(
            EffectRow(parameters=[names[d]], share=drawn(shares(rates, levels, sizes, (d,)), spent), spread=spread)
        )
        by_level += [
            LevelRow(parameter=names[d], value=value, rate=drawn(means[:, i], spent))
            for i, value in enumerate(parameter.values)
        ]
    pairs = [
        EffectRow(parameters=[names[a], names[b]], share=drawn(shares(rates, levels, sizes, (a, b)), spent))
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
    known = KnownMap(run, home)
    here = known.grid.find(settings)
    around = list(known.grid.neighbours(here))
    rows = _steps(known, here, around) if around else []
    rows.sort(key=lambda r: (r.difference.value or 0.0, r.point))
    return Neighbours(
        run=known.run,
        here=known.point(here),
        neighbours=rows,
        safest=rows[0] if rows else None,
        most_dangerous=rows[-1] if rows else None,
    )


def _steps(known: KnownMap, here: int, around: Sequence[int]) -> list[NeighbourRow]:
    """Rates and differences from one belief: a difference is that of the two rates, its ends come from joint draws."""
    draws = known.draws(np.random.default_rng(0), NEAR_DRAWS, np.asarray([here, *around], dtype=np.int64))
    mine, mean = known.grid.settings(here), known.posterior.mean
    rows = []
    for i, point in enumerate(around):
        difference = drawn(draws[:, i + 1] - draws[:, 0], known.tally.spent, float(mean[point] - mean[here]))
        rows.append(
            NeighbourRow(
                point=point,
                change={k: v for k, v in known.grid.settings(point).items() if mine[k] != v},
                rate=known.rate(point),
                difference=difference,
                episodes=int(known.tally.n[point]),
                verdict=known.verdict(point),
            )
        )
    return rows


def slice_exploration(
    x: str,
    y: str | None = None,
    fixed: Mapping[str, Any] | None = None,
    run: str = "latest",
    *,
    home: Home | str | None = None,
) -> Slice:
    """One or two parameters against the failure rate; the others fixed, or averaged over."""
    known = KnownMap(run, home)
    grid, fixed = known.grid, dict(fixed or {})
    for name in (x, *([y] if y else []), *fixed):
        if name not in grid.names:
            raise NotFound.named("parameter of the grid", name, list(grid.names))
    if x == y or x in fixed or (y and y in fixed):
        raise BadUsage("a slice needs different parameters for --x and --y, and neither may be fixed")
    keep = np.ones(known.problem.points, dtype=bool)
    for name, value in fixed.items():
        d = grid.names.index(name)
        meant = grid.parameters[d].meant(value)
        if meant is None:
            raise BadInput(
                f"{name} = {value!r} is not in the grid; see: ethogram explore map",
                where=f"the parameter {name!r}",
            )
        keep &= known.problem.levels[:, d] == grid.parameters[d].values.index(meant)
    rows = np.flatnonzero(keep)
    if not len(rows):
        raise BadInput("no point of the grid has these settings; fix fewer of them")
    axes = [grid.names.index(n) for n in (x, y) if n]
    draws = known.surface.draws(np.random.default_rng(0), DRAWS, rows)
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
                rate=known.rate(int(inside[0])) if len(inside) == 1 else drawn(means[:, cell], bought),
                episodes=bought,
                points=len(inside),
            )
        )
    return Slice(run=known.run, x=x, y=y, fixed=fixed, tau=known.metadata.tau, cells=built)
