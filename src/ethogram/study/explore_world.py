"""Episodes of a world that can be set to any point of a grid: batches on this machine's cores, or on Ray."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ethogram.capture.intake import Draft, Intake, SourceReport
from ethogram.errors import NotFound
from ethogram.lab.exploration import Batch, Metadata, cell, round_id
from ethogram.plan.grid import Grid, Settings
from ethogram.store import Home, Run, RunWriter
from ethogram.trace import Message, Origin, Scored, Text

from .explore import Buyer, ExploreOptions, ExploreResult, Plan, Watch, explore_plan
from .explore_v1 import episode_seeds

WINDOW = 0.1
"""Batches that come in within this many seconds are committed together; a kill loses at most these."""
JOB = 2048
"""Episodes that travel together to another process."""

Target = tuple[int, Settings, int]


class GridWorld(Protocol):
    """A world to explore. It must pickle, and its outcomes must depend on settings and seed alone."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def synthetic(self) -> bool:
        """Whether a closed form stands in for the simulation."""
        ...

    def grid(self) -> Grid:
        """Its own grid, used when none is given."""
        ...

    def check(self, grid: Grid) -> None:
        """Refuse a grid that it cannot be set to."""
        ...

    def rate(self, given: Mapping[str, Any]) -> float:
        """The true failure rate of a point."""
        ...

    def episodes(self, given: Mapping[str, Any], seeds: Sequence[int]) -> npt.NDArray[np.bool_]:
        """Which episodes succeeded."""
        ...

    def play(self, given: Mapping[str, Any], seed: int, told: Callable[[str, Any], None]) -> bool:
        """One episode, told step by step."""
        ...


def explore(
    world: GridWorld,
    options: ExploreOptions | None = None,
    *,
    grid: Grid | None = None,
    home: Home | str | None = None,
    watch: Watch | None = None,
) -> ExploreResult:
    """Find where a world makes its agent fail more often than tau: `explore(ToyWorld(), ExploreOptions(…))`."""
    options = options or ExploreOptions()
    chosen = grid or world.grid()
    world.check(chosen)
    truth = np.asarray([world.rate(chosen.settings(i)) for i in range(len(chosen))])
    plan = Plan(grid=chosen, world=world.name, synthetic=world.synthetic, truth=truth)

    def buyer(run: Run, metadata: Metadata, writer: RunWriter) -> Buyer:
        return WorldBuyer(world, chosen, metadata.run_uuid, options, writer)

    return explore_plan(plan, options, buyer, home=home, watch=watch)


class EpisodeRows:
    """Lines of `agent_results.csv`: what was played, with which seed, at which settings."""

    def __init__(self, grid: Grid, run_uuid: str) -> None:
        self.columns = ("round_id", "grid_idx", "episode_idx", "episode_seed", "success", *grid.names)
        self._grid = grid
        self._uuid = run_uuid
        self.ready: dict[tuple[int, int], str] = {}

    def __call__(self, identity: str, batch: Batch) -> Iterable[str]:
        """One line per episode; lines that a worker made already are used as they are."""
        made = self.ready.pop((batch.round, batch.point), None)
        return [made] if made is not None else [episode_lines(self._uuid, batch, self._grid.settings(batch.point))]


def episode_lines(run_uuid: str, batch: Batch, settings: Settings, seeds: Sequence[int] | None = None) -> str:
    """The lines of a batch, joined."""
    seeds = seeds or episode_seeds(run_uuid, batch.round, batch.point, 0, len(batch.outcomes))
    head = f"{round_id(batch.round, run_uuid)},{batch.point},"
    tail = "," + ",".join(cell(v) for v in settings.values())
    return "\n".join([f"{head}{i},{seed},{batch.outcomes[i]}{tail}" for i, seed in enumerate(seeds)])


def play_job(world: GridWorld, run_uuid: str, number: int, targets: Sequence[Target]) -> list[tuple[Batch, str]]:
    """Play the targets of a job: the same numbers wherever and whenever it runs."""
    played = []
    for point, settings, count in targets:
        seeds = episode_seeds(run_uuid, number, point, 0, count)
        success = world.episodes(settings, seeds)
        letters = (success.astype(np.uint8) + 48).tobytes().decode()
        batch = Batch(round=number, point=point, outcomes=letters)
        played.append((batch, episode_lines(run_uuid, batch, settings, seeds)))
    return played


class WorldBuyer:
    """Buys episodes from a world."""

    def __init__(self, world: GridWorld, grid: Grid, run_uuid: str, options: ExploreOptions, writer: RunWriter) -> None:
        """Workers are started when the first round needs them."""
        self.rows = EpisodeRows(grid, run_uuid)
        self.stopped: str | None = None
        self._world, self._grid, self._uuid, self._options, self._writer = world, grid, run_uuid, options, writer
        self._pool: _Pool | None = None
        if options.engine not in ("local", "ray"):
            raise NotFound.named("engine", options.engine, ["local", "ray"])

    def buy(self, number: int, wanted: Sequence[tuple[int, int]]) -> Iterator[list[Batch]]:
        """Batches, as many at a time as came in within the window."""
        targets = [(point, self._grid.settings(point), count) for point, count in wanted]
        group: list[Batch] = []
        began = time.monotonic()
        for played in self._play(number, targets):
            for batch, lines in played:
                self.rows.ready[batch.round, batch.point] = lines
                if self._options.trace:
                    self._trace(batch)
                group.append(batch)
            if time.monotonic() - began >= WINDOW:
                yield group
                group, began = [], time.monotonic()
        if group:
            yield group

    def close(self) -> None:
        """Let the workers go."""
        if self._pool is not None:
            self._pool.close()

    def _play(self, number: int, targets: Sequence[Target]) -> Iterator[list[tuple[Batch, str]]]:
        together = self._options.engine == "ray" or self._options.workers > 1
        if not together:
            for target in targets:
                yield play_job(self._world, self._uuid, number, [target])
            return
        if self._pool is None:
            self._pool = (
                _RayPool(self._options.workers) if self._options.engine == "ray" else _Cores(self._options.workers)
            )
        calls = [(self._world, self._uuid, number, job) for job in _jobs(targets, JOB)]
        yield from self._pool.map(calls)

    def _trace(self, batch: Batch) -> None:
        """Span traces of a batch's episodes."""
        settings = self._grid.settings(batch.point)
        seeds = episode_seeds(self._uuid, batch.round, batch.point, 0, len(batch.outcomes))
        for i, seed in enumerate(seeds):
            key = f"{batch.round}:{batch.point}:{i}"
            origin = Origin("explore", self._uuid, key)
            intake = Intake(self._writer.trace, origin, SourceReport(source=key))
            with intake.trace(key) as trace:
                steps = _Steps()
                success = self._world.play(settings, seed, steps.tell)
                trace.task, trace.attempt = self._world.name, i
                trace.condition, trace.agent = f"g{batch.point:04d}", self._world.name
                trace.meta = {"round": batch.round, "seed": str(seed), **settings}
                trace.outcome = Scored(float(success), self._world.name)
                root = trace.add(Draft(kind="agent", name=self._world.name))
                for what, value in steps.told:
                    said = Message("tool", (Text(str(value)),))
                    trace.add(
                        Draft(kind="tool", name=what, tool=what, parent_id=root, result=str(value), output=(said,))
                    )


class _Steps:
    """What an episode did, step by step."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []

    def tell(self, what: str, value: Any) -> None:
        self.told.append((what, value))


def _jobs(targets: Sequence[Target], most: int) -> Iterator[list[Target]]:
    job: list[Target] = []
    size = 0
    for target in targets:
        if job and size + target[2] > most:
            yield job
            job, size = [], 0
        job.append(target)
        size += target[2]
    if job:
        yield job


class _Pool(Protocol):
    def map(self, calls: Sequence[tuple[Any, ...]]) -> Iterator[list[tuple[Batch, str]]]: ...

    def close(self) -> None: ...


class _Cores:
    """Worker processes on this machine."""

    def __init__(self, workers: int) -> None:
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        self._pool = ProcessPoolExecutor(workers, mp_context=get_context("forkserver"))

    def map(self, calls: Sequence[tuple[Any, ...]]) -> Iterator[list[tuple[Batch, str]]]:
        from concurrent.futures import as_completed

        for future in as_completed([self._pool.submit(play_job, *call) for call in calls]):
            yield future.result()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


class _RayPool:
    """Tasks on the cluster that Ray finds (`RAY_ADDRESS`), or on a new local one; a lost task is run again."""

    def __init__(self, workers: int) -> None:
        from ethogram.run.engines.ray import ray_module

        self._ray = ray_module()
        self._own = not self._ray.is_initialized()
        if self._own:
            self._ray.init(
                address=os.environ.get("RAY_ADDRESS", "local"),  # None would try clusters that are long gone
                include_dashboard=False,
                log_to_driver=False,
                logging_level="ERROR",
            )
        self._task = self._ray.remote(num_cpus=1, max_retries=-1)(play_job)

    def map(self, calls: Sequence[tuple[Any, ...]]) -> Iterator[list[tuple[Batch, str]]]:
        waiting = [self._task.remote(*call) for call in calls]
        while waiting:
            ready, waiting = self._ray.wait(waiting)
            for ref in ready:
                yield self._ray.get(ref)

    def close(self) -> None:
        if self._own:
            self._ray.shutdown()
