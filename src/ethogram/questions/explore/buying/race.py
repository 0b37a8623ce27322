"""A race of strategies on a world whose rates are known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ethogram.questions.explore.grid import Grid
from ethogram.questions.explore.problem import problem_of
from ethogram.questions.explore.race import USUAL, RaceResult, race_on

from .grid import GridWorld, code_of
from .start import check_tau


def race(
    world: GridWorld,
    strategies: Sequence[str] = USUAL,
    *,
    grid: Grid | None = None,
    seeds: int = 20,
    max_episodes: int = 16384,
    tau: float = 0.2,
    zone: float = 0.02,
) -> RaceResult:
    """Race strategies on a world whose rates are known."""
    check_tau(tau, zone)
    with code_of(world):
        chosen = grid or world.grid()
        world.check(chosen)
        truth = np.asarray([world.rate(chosen.settings(i)) for i in range(len(chosen))])
    name = f"{world.name} ({'synthetic' if world.synthetic else 'real'})"
    return race_on(name, truth, problem_of(chosen, tau, zone), strategies, seeds=seeds, max_episodes=max_episodes)
