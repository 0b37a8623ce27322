"""A stored exploration, loaded again: the posterior of its strategy after the last committed round."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

import msgspec
import numpy as np

from ethogram.errors import Refused
from ethogram.estimate import Estimate
from ethogram.statistics.interval import Interval
from ethogram.store import Home

from .exploration import Metadata, RoundMetrics, Rounds, add_up, open_exploration
from .grid import Grid, Settings
from .problem import Floats, Ints, Posterior, Problem, Strategy, Tally, problem_of
from .shared_surface import GROWTH, SharedSurface
from .strategies import Shared, make_strategy
from .tube import Sets, sets

LEVEL = 0.95
"""Of all intervals of a map."""


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


class KnownMap:
    """A stored exploration with what is believed after its last committed round."""

    def __init__(self, run: str, home: Home | str | None) -> None:
        """Reads every committed round."""
        rounds = open_exploration(run, home=home)
        metadata = rounds.metadata()
        done = rounds.committed()
        if metadata is None or not done:
            raise Refused(
                f"{rounds.run.name!r} has no complete round yet; run: ethogram explore", have=0, need=1, of="rounds"
            )
        self.run, self.metadata, self.done = rounds.run.name, metadata, done
        self.grid: Grid = metadata.grid
        self.problem: Problem = problem_of(self.grid, metadata.tau, metadata.zone, done[-1].certainty.pocket_rate)
        self.tallies = _tallies(rounds, metadata, done, self.problem.points)
        self.tally = self.tallies[-1]
        self._rounds = rounds

    @cached_property
    def strategy(self) -> Strategy:
        """The exploration's own strategy as its last round left it.

        It is restored from the state that was stored with the last round; one of an earlier version stored none, so
        that it is shown every tally again.
        """
        strategy = make_strategy(self.metadata.strategy, self.problem)
        seen, state = self._rounds.strategy_state(self.tallies)
        strategy.restore(state)
        for tally in self.tallies[seen:]:
            strategy.look(tally)
        return strategy

    @cached_property
    def posterior(self) -> Posterior:
        """What the exploration's own strategy believes."""
        return self.strategy.posterior()

    @cached_property
    def intervals(self) -> Interval:
        """Intervals of the failure rates of all points."""
        return self.strategy.intervals(LEVEL)

    @cached_property
    def sets(self) -> Sets:
        """Safe, unsafe and undecided points at the level of the exploration."""
        return sets(self.posterior, self.metadata.level)

    @cached_property
    def surface(self) -> SharedSurface:
        """The shared surface, for any strategy."""
        if isinstance(self.strategy, Shared):
            return self.strategy.surface
        surface = SharedSurface(self.problem)
        seen = 0
        for tally in self.tallies:
            if tally.spent >= GROWTH * seen or tally is self.tally:  # the kernel is looked at again only then
                surface.look(tally)
                seen = tally.spent
        return surface

    def draws(self, rng: np.random.Generator, count: int, rows: Ints) -> Floats:
        """Joint draws (count × rows) of what the strategy believes; most take every point for itself."""
        if isinstance(self.strategy, Shared):
            return self.surface.draws(rng, count, rows)
        fails, n = self.tally.fails[rows], self.tally.n[rows]
        return rng.beta(fails + 1, n - fails + 1, size=(count, len(rows)))

    def point(self, i: int) -> PointRow:
        """A point of the map."""
        return PointRow(
            point=i,
            settings=self.grid.settings(i),
            episodes=int(self.tally.n[i]),
            failures=int(self.tally.fails[i]),
            rate=self.rate(i),
            unsafe=float(self.posterior.unsafe[i]),
            verdict=self.verdict(i),
        )

    def rate(self, i: int) -> Estimate:
        """What is believed of the failure rate of a point."""
        return Estimate(
            value=float(self.posterior.mean[i]),
            low=float(self.intervals.low[i]),
            high=float(self.intervals.high[i]),
            level=LEVEL,
            method=f"posterior-{self.metadata.strategy}",
            n=int(self.tally.n[i]),
            of="episodes",
        )

    def verdict(self, i: int) -> str:
        """safe, unsafe or undecided."""
        return "safe" if self.sets.safe[i] else "unsafe" if self.sets.unsafe[i] else "undecided"


def _tallies(rounds: Rounds, metadata: Metadata, done: Sequence[RoundMetrics], points: int) -> list[Tally]:
    """The tally after each committed round."""
    parts, _ = rounds.bought(metadata, done)
    return list(accumulate(parts, add_up, initial=Tally.empty(points)))[1:]


def drawn(values: Any, spent: int, value: float | None = None) -> Estimate:
    """An estimate from draws: where 95 % of them lie, and their mean, unless the value is known from elsewhere."""
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    value = float(np.mean(values)) if value is None else value
    return Estimate(
        value=value,
        low=min(float(low), value),
        high=max(float(high), value),
        level=LEVEL,
        method="posterior-draws",
        n=spent,
        of="episodes",
    )
