"""Money per attempt and per resolved task, with intervals: tasks are clusters, and the ratio is a ratio estimate.

From 20 tasks on, the estimates are about the population of tasks; below 20, about exactly these tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ethogram.display.money import dollars
from ethogram.estimate import Estimate
from ethogram.statistics import passk, positive, ratio
from ethogram.statistics.interval import Interval

from .usage import Bools, Floats, Ints

POPULATION_TASKS = 20
"""With fewer tasks nothing is claimed about tasks that were not run."""
WIDEST = 20.0
"""An interval that ends above this number of times the estimate says nothing about money."""
MOST_REPEATS = 256
OUTCOME_MISSING = "outcome missing"
"""How estimates here count episodes without an outcome; code that knows the reasons names them instead."""


class PricedEpisodes(NamedTuple):
    """Episodes as columns: the index of the task, dollars (NaN: unknown), whether it was resolved (NaN: missing)."""

    task: Ints
    cost: Floats
    resolved: Floats

    def where(self, mask: Bools) -> PricedEpisodes:
        """Some of them, with tasks numbered anew."""
        _, task = np.unique(self.task[mask], return_inverse=True)
        return PricedEpisodes(task.astype(np.int64), self.cost[mask], self.resolved[mask])

    @property
    def tasks(self) -> int:
        """How many tasks they are of."""
        return int(self.task.max()) + 1 if self.task.size else 0

    def mean(self, values: Floats) -> Floats:
        """The mean of each task's attempts."""
        n = np.bincount(self.task, minlength=self.tasks)
        return np.bincount(self.task, weights=values, minlength=self.tasks) / np.maximum(n, 1)


def mean_per_run(episodes: PricedEpisodes) -> float | None:
    """Mean dollars of a run, tasks weighing equally, of the episodes whose cost is known; None where there is none."""
    used = episodes.where(~np.isnan(episodes.cost))
    return float(used.mean(used.cost).mean()) if used.tasks else None


def per_run(episodes: PricedEpisodes, level: float) -> Estimate:
    """Mean dollars of a run, tasks weighing equally; episodes whose cost is unknown are left out and counted."""
    used = episodes.where(~np.isnan(episodes.cost))
    missing = _counted(cost_unknown=int(np.isnan(episodes.cost).sum()))
    value = mean_per_run(used)
    if value is None:
        return Estimate(value=None, level=level, of="tasks", missing=missing, why="no episode is priced")
    if used.task.size < positive.LEAST_VALUES:
        return Estimate(value=value, level=level, n=used.tasks, of="tasks", missing=missing, why=_few(used))
    (low, high), name = _run_interval(used, level)
    if high > WIDEST * value:
        why = _wide(used, high, lambda more: _run_interval(more, level)[0][1] <= WIDEST * value)
        return Estimate(value=value, level=level, n=used.tasks, of="tasks", missing=missing, why=why)
    return Estimate(
        value=value,
        low=low,
        high=high,
        level=level,
        method=f"t and Cox {name}",
        n=used.tasks,
        of="tasks",
        missing=missing,
    )


def _run_interval(used: PricedEpisodes, level: float) -> tuple[tuple[float, float], str]:
    spent, _, name = _spent(used, level)
    return (max(float(spent.low), 0.0), float(spent.high)), name


def resolution(episodes: PricedEpisodes, level: float) -> Estimate:
    """The share of runs that resolve their task, tasks weighing equally."""
    used = episodes.where(~np.isnan(episodes.resolved))
    missing = _counted(outcome_missing=int(np.isnan(episodes.resolved).sum()))
    if not used.tasks:
        return Estimate(value=None, level=level, of="tasks", missing=missing, why="no outcome is scored")
    achieved, name = _achieved(used, level)
    value = float(used.mean(used.resolved).mean())
    return Estimate(
        value=value,
        low=min(float(achieved.low), value),
        high=max(float(achieved.high), value),
        level=level,
        method=name,
        n=used.tasks,
        of="tasks",
        missing=missing,
    )


def per_resolved(episodes: PricedEpisodes, level: float) -> Estimate:
    """Mean dollars of an attempt over the mean share that is resolved, from episodes where both are known."""
    dark, unscored = np.isnan(episodes.cost), np.isnan(episodes.resolved)
    missing = _counted(outcome_missing=int(unscored.sum()), cost_unknown=int((dark & ~unscored).sum()))
    used = episodes.where(~dark & ~unscored)
    if not used.tasks:
        dark_scored = int((~unscored).sum())
        all_ = "the only scored episode" if dark_scored == 1 else f"all {dark_scored:,} scored episodes"
        why = f"the cost of {all_} is unknown" if dark_scored else "no outcome is scored"
        return Estimate(value=None, level=level, of="tasks", missing=missing, why=why)
    x, y = float(used.mean(used.cost).mean()), float(used.mean(used.resolved).mean())
    value = x / y if y > 0 else None
    if used.task.size < positive.LEAST_VALUES:
        why = _few(used) if y > 0 else "nothing was resolved"
        return Estimate(value=value, level=level, n=used.tasks, of="tasks", missing=missing, why=why)
    (low, high), name = _resolved_interval(used, level)
    if value is not None and high > WIDEST * value:
        most = WIDEST * value
        why = _wide(used, high, lambda more: _resolved_interval(more, level)[0][1] <= most)
        return Estimate(value=value, level=level, n=used.tasks, of="tasks", missing=missing, why=why)
    return Estimate(
        value=value,
        low=low if value is None else min(low, value),
        high=high if value is None else max(high, value),
        level=level,
        method=f"mover-r {name}",
        n=used.tasks,
        of="tasks",
        missing=missing,
        why=None
        if y > 0
        else f"nothing was resolved in {used.task.size} attempts; the low end is what it costs at least",
    )


def _resolved_interval(used: PricedEpisodes, level: float) -> tuple[tuple[float, float], str]:
    spent, means, name = _spent(used, level)
    low, high = ratio.mover_ratio(means, spent, _achieved(used, level)[0])
    return (float(low), float(high)), name


def product(share: Estimate, part: Estimate, level: float) -> Estimate:
    """A product of two estimates, from their intervals on the logarithm (MOVER: Zou and Donner 2008)."""
    if not share.value or not part.value:
        return Estimate(
            value=None, level=level, n=share.n, of=share.of, why=share.why or part.why or "nothing resolved"
        )
    value = share.value * part.value
    ends = [share.low, part.low, share.high, part.high]
    if any(end is None or end <= 0 for end in ends):
        why = share.why or part.why or "an end of its parts is unknown or 0"
        return Estimate(value=value, level=level, n=share.n, of=share.of, why=why)
    a, b, c, d = (float(e or 0) for e in ends)
    down = np.hypot(np.log(share.value / a), np.log(part.value / b))
    up = np.hypot(np.log(c / share.value), np.log(d / part.value))
    return Estimate(
        value=value,
        low=float(value * np.exp(-down)),
        high=float(value * np.exp(up)),
        level=level,
        method="mover-log",
        n=share.n,
        of=share.of,
        missing=share.missing,
    )


def cost_share(base: PricedEpisodes, other: Floats, level: float) -> Estimate:
    """Mean dollars of the same runs with other prices, as a share of what they cost.

    Below 20 tasks there is no interval: where the share takes two values, few attempts of few tasks do not show both,
    and Fieller's interval within tasks covered .34 to .92 instead of .95.
    """
    known = ~np.isnan(base.cost) & ~np.isnan(other)
    used = base.where(known)
    missing = _counted(cost_unknown=int((~known).sum()))
    if not used.tasks or used.cost.sum() <= 0:
        return Estimate(value=None, level=level, of="tasks", missing=missing, why="no attempt has both costs")
    own_x, own_y = used.mean(other[known]), used.mean(used.cost)
    value = float(own_x.mean() / own_y.mean())
    if used.tasks < POPULATION_TASKS:
        have = f"{used.tasks} task{'s' * (used.tasks > 1)}"
        why = f"{have} cannot show how far the share reaches; an interval needs {POPULATION_TASKS} tasks"
        return Estimate(value=value, level=level, n=used.tasks, of="tasks", missing=missing, why=why)
    low, high = ratio.fieller(ratio.cluster_means(own_x, own_y), level)
    return Estimate(
        value=value,
        low=min(float(low), value),
        high=max(float(high), value),
        level=level,
        method="fieller population",
        n=used.tasks,
        of="tasks",
        missing=missing,
    )


def _spent(used: PricedEpisodes, level: float) -> tuple[Interval, ratio.Means, str]:
    """The interval of mean dollars, with the means and covariances behind it."""
    if used.tasks >= POPULATION_TASKS:
        x = used.mean(used.cost)
        resolved = used.mean(np.nan_to_num(used.resolved))
        return positive.population_mean(x, level), ratio.cluster_means(x, resolved), "population"
    means = ratio.task_means(used.cost, np.nan_to_num(used.resolved), used.task, used.tasks)
    return positive.suite_mean(used.cost, used.task, used.tasks, level), means, "suite"


def _achieved(used: PricedEpisodes, level: float) -> tuple[Interval, str]:
    n = np.bincount(used.task, minlength=used.tasks)
    passed = np.bincount(used.task, weights=used.resolved, minlength=used.tasks)
    target: passk.Target = "population" if used.tasks >= POPULATION_TASKS else "suite"
    found = passk.curve(passed, n, [1], level, kind="at", target=target)
    return Interval(found.low[0], found.high[0]), f"wilson-neff {target}"


def _few(used: PricedEpisodes) -> str:
    runs = used.task.size
    have = "one attempt is" if runs == 1 else f"{runs} attempts are"
    return f"{have} too few for an interval: {positive.LEAST_VALUES} are needed, ideally 3 per task"


def _wide(used: PricedEpisodes, high: float, is_narrow: Callable[[PricedEpisodes], bool]) -> str:
    """Why there is no interval: where it would end, and how many tasks like these would give a useful one."""
    have = f"{used.task.size} attempts at {used.tasks} task{'s' * (used.tasks != 1)}"
    end = "nowhere" if np.isinf(high) else f"at {dollars(high)}"
    repeats = 2
    while repeats <= MOST_REPEATS and not is_narrow(_repeated(used, repeats)):
        repeats *= 2
    needed = f"about {repeats * used.tasks} tasks" if repeats <= MOST_REPEATS else "far more tasks"
    return (
        f"{have} cannot show how far costs reach: an interval would end {end}; a useful one needs {needed} like these"
    )


def _repeated(used: PricedEpisodes, times: int) -> PricedEpisodes:
    """As many times the tasks, each copy a task of its own: what more tasks with the same spread would show."""
    shift = np.repeat(np.arange(times), used.task.size) * used.tasks
    return PricedEpisodes(np.tile(used.task, times) + shift, np.tile(used.cost, times), np.tile(used.resolved, times))


def _counted(**counts: int) -> dict[str, int]:
    return {name.replace("_", " "): n for name, n in counts.items() if n}
