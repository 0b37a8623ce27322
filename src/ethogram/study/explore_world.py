"""Episodes of a world that can be set to any point of a grid: batches on this machine's cores, or on Ray."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ethogram.capture.intake import Draft, Intake, SourceReport
from ethogram.lab.explore.exploration import Batch, Metadata, cell, round_id
from ethogram.plan.grid import Grid, Settings
from ethogram.store import Home, Run, RunWriter
from ethogram.trace import Message, Origin, Scored, Text

from .explore import Buyer, ExploreOptions, ExploreResult, Plan, Watch, explore_plan
from .explore_pools import Cores, Pool, RayPool
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
        """With more than one worker, or on Ray, episodes are played elsewhere."""
        self.rows = EpisodeRows(grid, run_uuid)
        self.stopped: str | None = None
        self._world, self._grid, self._uuid, self._options, self._writer = world, grid, run_uuid, options, writer
        self._pool = _pool(options)
        self._ahead: tuple[int, list[tuple[int, int]], list[Any]] | None = None

    def buy(self, number: int, wanted: Sequence[tuple[int, int]]) -> Iterator[list[Batch]]:
        """Batches, as many at a time as came in within the window."""
        group: list[Batch] = []
        began = time.monotonic()
        for played in self._play(number, wanted):
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

    def foresee(self, number: int, wanted: Sequence[tuple[int, int]]) -> None:
        """Let workers begin with a round that will be bought; whoever plays here has no time for that."""
        if self._pool is not None:
            self._ahead = (number, list(wanted), self._begin(self._pool, number, wanted))

    def close(self) -> None:
        """Let the workers go."""
        if self._pool is not None:
            self._pool.close()

    def _play(self, number: int, wanted: Sequence[tuple[int, int]]) -> Iterator[list[tuple[Batch, str]]]:
        if self._pool is None:
            for target in self._targets(wanted):
                yield play_job(self._world, self._uuid, number, [target])
            return
        ahead, self._ahead = self._ahead, None
        begun = ahead is not None and ahead[:2] == (number, list(wanted))
        yield from self._pool.results(ahead[2] if ahead and begun else self._begin(self._pool, number, wanted))

    def _begin(self, pool: Pool, number: int, wanted: Sequence[tuple[int, int]]) -> list[Any]:
        return pool.begin([(self._world, self._uuid, number, job) for job in _jobs(self._targets(wanted), JOB)])

    def _targets(self, wanted: Sequence[tuple[int, int]]) -> list[Target]:
        return [(point, self._grid.settings(point), count) for point, count in wanted]

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


def _pool(options: ExploreOptions) -> Pool | None:
    if options.engine == "ray":
        return RayPool(play_job)
    return Cores(play_job, options.workers) if options.workers > 1 else None


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
