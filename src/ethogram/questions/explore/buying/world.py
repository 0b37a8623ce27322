"""Exploring a world that can be set to any point of a grid: batches of episodes from an engine into the ledger."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ethogram.errors import BadUsage
from ethogram.harness.agents import Agent
from ethogram.harness.environment import Environment
from ethogram.harness.options import RunOptions, parse_caps
from ethogram.plans import Suite, hashed_seeds
from ethogram.prices import Metering
from ethogram.questions.explore.exploration import Metadata, csv_value
from ethogram.questions.explore.grid import Grid
from ethogram.questions.explore.point_outcomes import PointOutcomes, batch_outcomes
from ethogram.questions.explore.problem import StopRule
from ethogram.store import Home, Run, RunWriter
from ethogram.store.stop import POLL_SECONDS, pulled

from .grid import Cores, GridReport, GridWork, GridWorld, code_of, grid_engine, write_grid_traces
from .rounds import Buyer, ExploreResult, GridTarget, RoundWatcher, explore_plan
from .start import ExplorationPlan, ExploreOptions
from .suite import GridSpec, explore_suite, load_grid

WINDOW = 0.1
"""Batches that come in within this many seconds are committed together; a kill loses at most these."""


_DEFAULTS = ExploreOptions()
_RUNNING = RunOptions()


def explore(
    world: GridWorld | str | Path | Suite,
    *,
    agent: str | Agent | Callable[..., Any] | None = None,
    grid: GridSpec | None = None,
    max_usd: float | None = None,
    environment: Environment = _RUNNING.environment,
    metering: Metering = _RUNNING.metering,
    capture: str = _RUNNING.capture,
    strategy: str = _DEFAULTS.strategy,
    rounds: int | None = _DEFAULTS.rounds,
    until_round: int | None = _DEFAULTS.until_round,
    max_episodes: int | None = _DEFAULTS.max_episodes,
    seed: int = _DEFAULTS.seed,
    seed_mode: str = _DEFAULTS.seed_mode,
    run_uuid: str | None = _DEFAULTS.run_uuid,
    targets_per_round: int = _DEFAULTS.targets_per_round,
    episodes_per_budget_unit: int = _DEFAULTS.episodes_per_budget_unit,
    tau: float = _DEFAULTS.tau,
    zone: float = _DEFAULTS.zone,
    level: float = _DEFAULTS.level,
    pocket_rate: float = _DEFAULTS.pocket_rate,
    stop: StopRule | None = _DEFAULTS.stop,
    engine: str = _DEFAULTS.engine,
    workers: int = _DEFAULTS.workers,
    store_traces: bool = _DEFAULTS.store_traces,
    run: str | None = _DEFAULTS.name,
    run_dir: str | None = _DEFAULTS.run_dir,
    home: Home | str | None = None,
    progress: RoundWatcher | None = None,
) -> ExploreResult:
    """Find the settings in which an agent fails more often than `tau`, with few episodes.

    `world` is one that can be set to any point, such as `ethogram.worlds.toy_v1.ToyWorld()`; `grid` replaces its own
    settings. Or it is a suite, which is explored with an `agent` over a `grid` of conditions: `max_usd` is a hard stop,
    `environment`, `metering` and `capture` are as in `run`. Points nearer to tau than `zone` may be called either way,
    at the certainty `level`; no point that fails at least as often as `pocket_rate` is called safe. `strategy` chooses
    what is bought: `rounds` more rounds of `targets_per_round` points, or up to `until_round`, and never more than
    `max_episodes`; `stop` says when enough is known. `seed`, `seed_mode` and `run_uuid` fix what is drawn. `engine`
    and `workers` say where it runs, `store_traces` keeps a trace of each episode of a world, `run` or `run_dir` says
    where it is stored: one that is there goes on where it stopped. `progress` is called with the metrics of every
    round. The rest are options of `ethogram explore`.

    Gives the certified sets and the metrics of the last round. Raises `BadUsage` for options that make no sense or
    differ from those of the stored exploration, `Locked` while another process explores it.

    Example: `explore(ToyWorld(), max_episodes=4000).established`
    """
    options = ExploreOptions(
        strategy=strategy,
        rounds=rounds,
        until_round=until_round,
        max_episodes=max_episodes,
        seed=seed,
        seed_mode=seed_mode,
        run_uuid=run_uuid,
        targets_per_round=targets_per_round,
        episodes_per_budget_unit=episodes_per_budget_unit,
        tau=tau,
        zone=zone,
        level=level,
        pocket_rate=pocket_rate,
        stop=stop,
        engine=engine,
        workers=workers,
        store_traces=store_traces,
        name=run,
        run_dir=run_dir,
    )
    limits = parse_caps({"experiment.usd": max_usd}, ())
    running = RunOptions(caps=limits, environment=environment, metering=metering, capture=capture)
    if isinstance(world, str | Path | Suite) and (agent is not None or grid is not None):
        return explore_suite(world, agent, grid, options, running=running, home=home, progress=progress)
    if isinstance(world, str | Path | Suite) or not hasattr(world, "check"):
        raise BadUsage(
            f"world must be a world such as ethogram.worlds.toy_v1.ToyWorld(), not {world!r}; explore a suite with: "
            'explore("suite/", agent="agent.py:solve", grid="grid.yaml")',
            option="world",
            value=world,
        )
    if agent is not None or running != _RUNNING:
        raise BadUsage("a world has an agent of its own, which calls no model; leave out agent, max_usd and the like")
    chosen = None if grid is None else load_grid(grid)
    return begin_exploration(world, options, grid=chosen, home=home, progress=progress)


def begin_exploration(
    world: GridWorld,
    options: ExploreOptions,
    *,
    grid: Grid | None = None,
    home: Home | str | None = None,
    progress: RoundWatcher | None = None,
) -> ExploreResult:
    """`explore` with its options in one record."""
    with code_of(world):
        chosen = grid or world.grid()
        world.check(chosen)
        truth = np.asarray([world.rate(chosen.settings(i)) for i in range(len(chosen))])
    plan = ExplorationPlan(grid=chosen, world=world.name, synthetic=world.synthetic, truth=truth)

    def buyer(run: Run, metadata: Metadata, writer: RunWriter) -> Buyer:
        return WorldBuyer(world, chosen, metadata.run_uuid, options, run, writer)

    return explore_plan(plan, options, buyer, home=home, watch=progress)


class WorldRows:
    """Lines of `agent_results.csv`: what was played, with which seed, at which settings."""

    def __init__(self, buyer: WorldBuyer) -> None:
        self.columns = ("round_id", "grid_idx", "episode_idx", "episode_seed", "success", *buyer.grid.names)
        self._buyer = buyer
        self.seeds: dict[tuple[int, int], list[int]] = {}
        """By round and point, of what was just played; those of what an earlier session played are hashed again."""

    def __call__(self, identity: str, bought: PointOutcomes) -> Iterable[str]:
        """One line per episode; a missing outcome leaves `success` empty."""
        work = self._buyer.work(bought.round, GridTarget(bought.point, len(bought.outcomes), bought.first))
        head = f"{identity},{bought.point},"
        tail = "," + ",".join(csv_value(v) for v in work.settings.values())
        letters = bought.outcomes if not bought.missing else [x.strip("-") for x in bought.outcomes]
        seeds = self.seeds.pop((bought.round, bought.point), None) or hashed_seeds(work.seeds, work.count)
        return [f"{head}{i},{seed},{letter}{tail}" for i, (seed, letter) in enumerate(zip(seeds, letters, strict=True))]


class WorldBuyer:
    """Buys episodes of a world from an engine and commits them, as batches or, where traces are kept, one by one."""

    def __init__(
        self, world: GridWorld, grid: Grid, run_uuid: str, options: ExploreOptions, run: Run, writer: RunWriter
    ) -> None:
        """The engine lives as long as the exploration."""
        self.grid = grid
        self.rows = WorldRows(self)
        self.stopped: str | None = None
        self._world, self._uuid, self._traced = world, run_uuid, options.store_traces
        self._run, self._writer = run, writer
        several = options.engine == "local" and options.workers > 1
        self._cores = Cores(world, options.workers) if several else None
        self._engine = grid_engine(world, options.engine, self._cores)
        self._polled = self._committed = 0.0

    def work(self, number: int, target: GridTarget) -> GridWork:
        """A target as an engine takes it."""
        return GridWork(
            run_uuid=self._uuid,
            round=number,
            point=target.point,
            settings=self.grid.settings(target.point),
            count=target.episodes,
            first=target.first,
        )

    def buy(self, number: int, wanted: Sequence[GridTarget]) -> list[PointOutcomes]:
        """Let the engine play targets, and commit what has come in after every window."""
        bought: list[PointOutcomes] = []
        self._committed = time.monotonic()

        def report(done: GridReport) -> None:
            if self._traced and done.played.batch.missing is None:
                write_grid_traces(self._writer, self._world, done.work, done.played)
            else:
                self._writer.batch(done.played.batch)
            self.rows.seeds[number, done.work.point] = done.played.seeds
            bought.extend(filter(None, [batch_outcomes(done.played.batch)]))
            if time.monotonic() - self._committed >= WINDOW:
                self._writer.commit()
                self._committed = time.monotonic()

        self._engine.run((self.work(number, target) for target in wanted), report, self._stop)
        self._writer.commit()
        return bought

    def foresee(self, number: int, wanted: Sequence[GridTarget]) -> None:
        """Let worker processes begin with a round that will be bought; nothing is committed before it is."""
        if self._cores is not None:
            for target in wanted:
                self._cores.begin(self.work(number, target))

    def close(self) -> None:
        """Let the engine go."""
        self._engine.close()

    def _stop(self) -> bool:
        """Whether the kill switch was pulled, as of the last look at it."""
        now = time.monotonic()
        if self.stopped is None and now - self._polled >= POLL_SECONDS:
            self._polled = now
            if pulled(self._run.files, self._run.path) is not None:
                self.stopped = "killed"
        return self.stopped is not None
