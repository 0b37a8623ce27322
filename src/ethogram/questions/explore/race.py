"""A race of strategies on maps whose truth is known: learning curves over many seeds, with bands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ethogram.arguments import at_least
from ethogram.estimate import Estimate
from ethogram.result import Result
from ethogram.statistics.interval import wilson

from .acquisition import next_round
from .levels import score_calls
from .problem import ExploreProgress, Floats, Problem, StopRule, Strategy, Tally, is_enough, progress
from .strategies import SEEDS_OWN, RoundSizes, make_strategy
from .tube import MISLEADS, tube_metrics

SHIPPED = "-shipped"
"""A strategy of the first version with this ending buys 64 × 256 episodes a round, as it was shipped."""
USUAL = ("default", "uniform", "random", "variance", "boundary", "v1", "v1-shipped", "apt", "lsa", "straddle")
CHECKPOINTS = 48
METRICS = ("tube_var_sum", "recall_unsafe", "specificity", "balanced_accuracy")


class Band(msgspec.Struct, kw_only=True):
    """A figure against episodes: mean over seeds, and the band from the 10th to the 90th of a hundred."""

    mean: list[float]
    low: list[float]
    high: list[float]


class LearningCurve(msgspec.Struct, kw_only=True):
    """How one strategy learns."""

    strategy: str
    episodes: list[int]
    tube_var_sum: Band
    recall_unsafe: Band
    specificity: Band
    balanced_accuracy: Band


class RaceStanding(msgspec.Struct, kw_only=True):
    """How one strategy did: episodes until the mean over seeds reached a balanced accuracy; None: not in the budget.

    `certified` is the median of the episodes at which its own posterior said that enough is known, `valid` the share
    of those runs that were right.
    """

    strategy: str
    n95: int | None
    n99: int | None
    balanced_accuracy: float
    recall_unsafe: float
    specificity: float
    tube_var_sum: float
    visited: float
    certified: float | None
    valid: Estimate


class RaceResult(Result, kw_only=True):
    """Learning curves of strategies on one known map."""

    world: str
    points: int
    unsafe: int
    tau: float
    zone: float
    seeds: int
    max_episodes: int
    standings: list[RaceStanding]
    curves: list[LearningCurve]
    misleads: str = MISLEADS

    def rows(self) -> list[dict[str, Any]]:
        """One row per strategy and checkpoint."""
        return [
            {"strategy": c.strategy, "episodes": n, **{m: getattr(c, m).mean[i] for m in METRICS}}
            for c in self.curves
            for i, n in enumerate(c.episodes)
        ]

    def banded(self, metric: str) -> list[dict[str, Any]]:
        """One figure of every strategy at every checkpoint with its band, as a chart takes it."""
        return [
            {"strategy": c.strategy, "episodes": n, "value": band.mean[i], "low": band.low[i], "high": band.high[i]}
            for c in self.curves
            for band in (getattr(c, metric),)
            for i, n in enumerate(c.episodes)
        ]


class RacePosition(NamedTuple):
    """Where one run of a race stands after a round."""

    episodes: int
    tube_var_sum: float
    recall_unsafe: float
    specificity: float
    balanced_accuracy: float
    visited: int
    enough: bool


def race_on(
    name: str, truth: Floats, problem: Problem, strategies: Sequence[str], *, seeds: int, max_episodes: int
) -> RaceResult:
    """Race strategies on a map of known rates."""
    at_least("seeds", seeds, 1)
    at_least("max_episodes", max_episodes, 1)
    strict = score_calls(np.zeros(problem.points, dtype=bool), truth, problem.tau, 0.0)
    for strategy in strategies:
        entrant(strategy, problem)
    curves, standings = [], []
    for strategy in strategies:
        runs = [list(trial(name, strategy, truth, problem, seed, max_episodes)) for seed in range(seeds)]
        curves.append(_curve(strategy, runs, max_episodes))
        standings.append(_standing(strategy, runs, max_episodes))
    return RaceResult(
        world=name,
        points=problem.points,
        unsafe=strict.above,
        tau=problem.tau,
        zone=problem.zone,
        seeds=seeds,
        max_episodes=max_episodes,
        standings=standings,
        curves=curves,
    )


def entrant(name: str, problem: Problem) -> Strategy:
    """A strategy for a race: fine rounds for all, unless its name says that it runs as it was shipped."""
    plain = name.removesuffix(SHIPPED)
    if plain != name and plain in SEEDS_OWN:
        return make_strategy(plain, problem)
    return make_strategy(name, problem, RoundSizes())


def trial(name: str, strategy: str, truth: Floats, problem: Problem, seed: int, most: int) -> Iterator[RacePosition]:
    """One strategy, one seed: a look after every round."""
    key = blake2b(f"race:{name}:{strategy}:{seed}".encode(), digest_size=8).digest()
    rng = np.random.default_rng(int.from_bytes(key, "little"))
    player = entrant(strategy, problem)
    tally = Tally.empty(problem.points)
    rule, enough = StopRule(), False
    closing = None if player.name in SEEDS_OWN else rule  # those of the first version never buy what a stop needs
    seen: list[ExploreProgress] = []
    while tally.spent < most:
        proposal = next_round(player, problem, closing, seen, rng)
        n, fails = tally.n.copy(), tally.fails.copy()
        n[proposal.points] += proposal.episodes
        fails[proposal.points] += rng.binomial(proposal.episodes, truth[proposal.points])
        tally = Tally(n, fails)
        player.look(tally)
        posterior = player.posterior()
        found = score_calls(posterior.called, truth, problem.tau, problem.zone)
        seen.append(progress(posterior, tally, problem, rule.level))
        enough = enough or is_enough(rule, seen, problem.points)
        yield RacePosition(
            tally.spent,
            tube_metrics(tally, problem.tau, None, None).tube_var_sum,
            1.0 if found.recall is None else found.recall,
            1.0 if found.specificity is None else found.specificity,
            1.0 if found.balanced is None else found.balanced,
            int((tally.n > 0).sum()),
            enough,
        )


def episodes_to(runs: Sequence[Sequence[RacePosition]], level: float, most: int) -> int | None:
    """The first number of episodes at which the mean balanced accuracy over all runs reached a level."""
    places = sorted({look.episodes for run in runs for look in run if look.episodes <= most})
    mean = np.mean([_at(run, places, "balanced_accuracy") for run in runs], axis=0)
    reached = np.flatnonzero(mean >= level)
    return int(places[reached[0]]) if len(reached) else None


def _at(run: Sequence[RacePosition], places: Sequence[int], metric: str) -> Floats:
    """A figure of a run at given numbers of episodes: that of the last round before; nothing known counts as 0.5."""
    at = np.searchsorted([look.episodes for look in run], places, side="right") - 1
    first = 0.5 if metric == "balanced_accuracy" else 0.0 if metric in ("specificity", "tube_var_sum") else 1.0
    values = np.asarray([first, *(getattr(look, metric) for look in run)], dtype=float)
    return np.asarray(values[at + 1])


def _curve(strategy: str, runs: Sequence[Sequence[RacePosition]], most: int) -> LearningCurve:
    places = sorted({int(x) for x in np.geomspace(min(64, most), most, CHECKPOINTS)})
    bands = {}
    for metric in METRICS:
        values = np.stack([_at(run, places, metric) for run in runs])
        low, high = np.quantile(values, [0.1, 0.9], axis=0)
        bands[metric] = Band(mean=values.mean(axis=0).tolist(), low=low.tolist(), high=high.tolist())
    return LearningCurve(strategy=strategy, episodes=places, **bands)


def _standing(strategy: str, runs: Sequence[Sequence[RacePosition]], most: int) -> RaceStanding:
    ends = {m: float(np.mean([_at(run, [most], m)[0] for run in runs])) for m in METRICS}
    stops = [next((look for look in run if look.enough), None) for run in runs]
    stopped = [look for look in stops if look is not None]
    right = sum(look.balanced_accuracy >= 0.95 for look in stopped)
    return RaceStanding(
        strategy=strategy,
        n95=episodes_to(runs, 0.95, most),
        n99=episodes_to(runs, 0.99, most),
        visited=float(np.mean([run[-1].visited for run in runs])),
        certified=float(np.median([look.episodes for look in stopped])) if 2 * len(stopped) > len(runs) else None,
        valid=_share(right, len(stopped)),
        **ends,
    )


def _share(right: int, n: int) -> Estimate:
    if not n:
        return Estimate(value=None, n=0, of="certified runs", why="no run was certified within the budget")
    ends = wilson(right, n, 0.95)
    return Estimate(
        value=right / n, low=float(ends.low), high=float(ends.high), method="wilson", n=n, of="certified runs"
    )
