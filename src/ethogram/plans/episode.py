"""Episodes, conditions and plans: which runs are to be bought. Inert."""

from __future__ import annotations

from typing import Any

import msgspec

from ethogram.traces import EpisodeId, episode_id

from .seeds import episode_seed


class Condition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A named difference from the baseline: a perturbation, a grid point, an agent version.

    It may concern some `tasks` only (none named: all), and want fewer `attempts` than the plan gives to others.
    """

    name: str = ""
    settings: dict[str, Any] = {}
    tasks: tuple[str, ...] = ()
    attempts: int | None = None

    def wants(self, task: str, attempt: int) -> bool:
        """Whether this attempt at this task is to be made under the condition."""
        return (not self.tasks or task in self.tasks) and (self.attempts is None or attempt < self.attempts)


class Episode(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One planned run: task × agent × condition × attempt, with its seed."""

    id: EpisodeId
    task: str
    agent: str
    attempt: int
    seed: int
    condition: str = ""


def plan_episodes(
    tasks: tuple[str, ...], agent: str, attempts: int, base: int, conditions: tuple[Condition, ...] = (Condition(),)
) -> tuple[Episode, ...]:
    """K attempts of every task under every condition; attempts vary slowest, so that a cut-off plan is balanced."""
    return tuple(
        Episode(
            id=episode_id("plan", agent, condition.name, task, str(attempt)),
            task=task,
            agent=agent,
            attempt=attempt,
            seed=episode_seed(base, task, attempt),
            condition=condition.name,
        )
        for attempt in range(attempts)
        for condition in conditions
        for task in tasks
        if condition.wants(task, attempt)
    )
