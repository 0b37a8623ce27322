"""Grid worlds behind the engines' port: a work item is many episodes of one grid point, its report one batch.

Outcomes depend on settings and seeds alone, so every engine gives the same batch. Playing writes nothing: the process
that asked for a batch commits it, and a batch that is lost on the way is played again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.draft import Draft
from ethogram.capture.intake import Intake, SourceReport
from ethogram.errors import BadInput, EthogramError, MachineFailure
from ethogram.harness.engines.local import Engine, LocalEngine
from ethogram.harness.exits import exits_raised
from ethogram.harness.faults import Fault, fault_of, is_machine_failure
from ethogram.loading import raised_words
from ethogram.plans import hashed_seeds
from ethogram.prices import Amounts, Budget, Caps
from ethogram.questions.explore.grid import ROUND, Grid, Settings, point_name
from ethogram.store import Batch, RunWriter
from ethogram.store.batch import MISSING
from ethogram.traces import EpisodeId, Message, Origin, Reason, Scored, Text, episode_id, trace_id

RETRIES = 2
AT_ONCE = 8
"""Work items that travel together to a worker of a cluster: all targets of a round must not go to one of them."""


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


class GridWork(msgspec.Struct, frozen=True, kw_only=True):
    """Episodes of one point to play in one round; `first` were bought at the point in earlier rounds."""

    run_uuid: str
    round: int
    point: int
    settings: Settings
    count: int
    first: int = 0

    @property
    def id(self) -> EpisodeId:
        """The id of the batch that this becomes."""
        return episode_id("explore", self.run_uuid, str(self.round), str(self.point))

    @property
    def seeds(self) -> str:
        """The recipe of the seeds, as the first version had it."""
        return f"{self.run_uuid}:{self.round}:{self.point}"

    def batch(self, world: str, outcomes: str, missing: Reason | None = None) -> Batch:
        """The batch of these episodes with their outcomes."""
        return Batch(
            id=self.id,
            task=point_name(self.point),
            outcomes=outcomes,
            first=self.first,
            agent=world,
            by=world,
            seeds=self.seeds,
            meta={**self.settings, ROUND: self.round},
            missing=missing,
        )


class Played(msgspec.Struct, frozen=True):
    """A batch that was played, and the seeds of its episodes: hashing them again would take as long as some worlds."""

    batch: Batch
    seeds: list[int]


class GridReport(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a work item; a world's episodes use no tokens and no dollars."""

    work: GridWork
    played: Played
    seconds: float
    tokens: float = 0.0
    usd: float = 0.0


@contextmanager
def code_of(world: GridWorld) -> Iterator[None]:
    """Around calls of a world: an exception of its own is told with its line, and it cannot end this process."""
    try:
        with exits_raised():
            yield
    except (Exception, SystemExit) as error:
        ours = isinstance(error, EthogramError | MemoryError)
        if ours or (isinstance(error, Exception) and (is_machine_failure(error) or fault_of(error) is not None)):
            raise
        raise BadInput(f"the world {world.name} raised {raised_words(error)}", where=world.name) from error


def play_batch(world: GridWorld, work: GridWork) -> Played:
    """Play the episodes of a work item: the same outcomes wherever and whenever this runs."""
    seeds = hashed_seeds(work.seeds, work.count)
    with code_of(world):
        success = world.episodes(work.settings, seeds)
    letters = (np.asarray(success, dtype=np.uint8) + ord("0")).tobytes().decode()
    return Played(work.batch(world.name, letters), seeds)


class GridExecutor:
    """Plays work items in this process, or in worker processes that it is given."""

    def __init__(self, world: GridWorld, cores: Cores | None = None) -> None:
        """`cores` are worker processes, which `close` ends."""
        self.world = world
        self.cores = cores
        self.on_slow: Callable[[float | None], None] = lambda seconds: None
        self.stop: Callable[[], bool] = lambda: False

    async def execute(self, work: GridWork) -> GridReport:
        """Play a work item; the world's faults are retried, then its outcomes are missing."""
        began = time.monotonic()
        for tries in range(RETRIES + 1):
            try:
                played = play_batch(self.world, work) if self.cores is None else await self.cores.result(work)
                break
            except Exception as error:
                fault = fault_of(error)
                if fault is None:
                    raise
                if tries == RETRIES or not fault.transient:
                    played = self._missing(work, fault)
                    break
        return GridReport(work=work, played=played, seconds=time.monotonic() - began)

    def _missing(self, work: GridWork, fault: Fault) -> Played:
        batch = work.batch(self.world.name, MISSING * work.count, missing=fault.reason)
        return Played(batch, hashed_seeds(work.seeds, work.count))

    def commit(self) -> None:
        """Nothing is written here."""

    def close(self) -> None:
        """End the worker processes."""
        if self.cores is not None:
            self.cores.close()


class Cores:
    """Worker processes on this machine, for worlds that compute."""

    def __init__(self, world: GridWorld, workers: int) -> None:
        """Workers are copies of one process that has imported what they need."""
        from concurrent.futures import Future, ProcessPoolExecutor
        from multiprocessing import forkserver, get_context

        context = get_context("forkserver")
        context.set_forkserver_preload([__name__])
        forkserver.ensure_running()
        self.workers = workers
        self._world = world
        self._pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_end_with_parent)
        self._begun: dict[tuple[EpisodeId, int], Future[Played]] = {}

    def begin(self, work: GridWork) -> None:
        """Let a worker begin with what will be asked for soon."""
        self._begun[work.id, work.count] = self._pool.submit(play_batch, self._world, work)

    async def result(self, work: GridWork) -> Played:
        """A work item, played."""
        from concurrent.futures.process import BrokenProcessPool

        begun = self._begun.pop((work.id, work.count), None)
        try:
            return await asyncio.wrap_future(begun or self._pool.submit(play_batch, self._world, work))
        except BrokenProcessPool:
            raise MachineFailure(
                "a worker process was ended from outside; what was recorded is kept, repeat the command to continue"
            ) from None

    def close(self) -> None:
        """End the workers; what nobody asked for is dropped."""
        self._pool.shutdown(cancel_futures=True)


def _end_with_parent() -> None:
    """A worker whose driver was killed would wait for work for ever."""
    from multiprocessing import parent_process
    from multiprocessing.connection import wait
    from os import _exit as end
    from threading import Thread

    parent = parent_process()
    if parent is not None:
        Thread(target=lambda: (wait([parent.sentinel]), end(1)), daemon=True).start()


class BuildGridExecutor:
    """Builds an executor on a worker of a cluster; it travels there."""

    def __init__(self, world: GridWorld) -> None:
        """The world must pickle."""
        self.world = world

    def __call__(self, budget: Budget, task_budget: Callable[[str], Budget]) -> GridExecutor:
        """Build it here; a world's episodes have no budget but their number."""
        return GridExecutor(self.world)


def grid_engine(world: GridWorld, engine: str, cores: Cores | None) -> Engine[GridWork, GridReport]:
    """The engine for a world: this process, with worker processes if there are any, or a Ray cluster."""
    if engine == "ray":
        from ethogram.harness.engines.ray import RayEngine

        cluster: RayEngine[GridWork, GridReport] = RayEngine(
            BuildGridExecutor(world),
            Budget("experiment", Caps(), spent=Amounts()),
            set,
            concurrency=None,
            at_once=AT_ONCE,
            again="repeat the command",
        )
        return cluster
    return LocalEngine(GridExecutor(world, cores), 1 if cores is None else 2 * cores.workers)


def write_grid_traces(writer: RunWriter, world: GridWorld, work: GridWork, played: Played) -> None:
    """Write the episodes of a batch as entries of their own with span traces, played once more step by step."""
    batch = played.batch
    for i, seed in enumerate(played.seeds):
        steps: list[tuple[str, Any]] = []
        with code_of(world):
            success = world.play(work.settings, seed, partial(_add_step, steps))
        origin = Origin("explore", work.run_uuid, batch.episode(i))
        intake = Intake(writer.trace, origin, SourceReport(source=batch.task))
        trace = TraceBuilder(intake, trace_id("explore", batch.episode(i)), batch.episode(i))
        trace.task, trace.attempt, trace.agent, trace.seed = batch.task, batch.first + i, batch.agent, seed
        trace.meta, trace.outcome = dict(batch.meta), Scored(float(success), batch.by)
        root = trace.add(Draft(kind="agent", name=world.name))
        for what, value in steps:
            shown = Message("tool", (Text(str(value)),))
            trace.add(Draft(kind="tool", name=what, tool=what, parent_id=root, result=str(value), output=(shown,)))
        trace.close()


def _add_step(steps: list[tuple[str, Any]], what: str, value: Any) -> None:
    steps.append((what, value))
