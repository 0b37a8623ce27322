"""The Ray engine: the same executor in actors on a cluster, the same seeds, the same ledger.

Each actor writes its own segments straight into the home and commits before it reports, so the driver moves no
traces. When a node is lost, its actors' batches are looked up in the ledger and only what is not there is run again.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

from ethogram.cluster import Cluster
from ethogram.errors import EthogramError, MachineFailure
from ethogram.harness.scratch import sweep_scratch
from ethogram.prices import Amounts, Budget, CapReached, Caps

from .local import Stop, WorkExecutor

BATCH_SECONDS = 0.5
FIRST_BATCH = 8
MAX_BATCH = 512
NO_CAPS = Caps()
CLOSE_SECONDS = 10
ANSWER_SECONDS = 60
"""Seconds after which the actor that holds the budgets counts as lost; it answers at once."""


class _Identified(Protocol):
    """A work item that the ledger can be asked for."""

    @property
    def id(self) -> str: ...


class _Spent(Protocol):
    """A report that says what was used."""

    @property
    def tokens(self) -> float: ...
    @property
    def usd(self) -> float: ...
    @property
    def seconds(self) -> float: ...


W = TypeVar("W", bound=_Identified)
R = TypeVar("R", bound=_Spent)
MakeExecutor = Callable[[Budget, Callable[[str], Budget]], WorkExecutor[W, R]]
IsCommitted = Callable[[], set[str]]


class RemoteBudget(Budget):
    """The budget of the experiment or of a task, kept by one actor for all workers; without caps it costs no call."""

    def __init__(self, caps: Caps, actor: Any, task: str | None = None, parent: Budget | None = None) -> None:
        """`actor` is a handle on `BudgetActor`."""
        super().__init__("experiment" if task is None else "task", caps, parent)
        self._actor = actor
        self._task = task

    def take(self, want: Amounts) -> None:
        """Ask the actor."""
        if self.caps:
            reached = self._answer(self._actor.take.remote(self._task, want))
            if reached is not None:
                raise CapReached(*reached)

    def give_back(self, want: Amounts) -> None:
        """Tell the actor."""
        if self.caps:
            self._answer(self._actor.give_back.remote(self._task, want))

    def spend(self, want: Amounts, used: Amounts) -> None:
        """Tell the actor."""
        if self.caps:
            self._answer(self._actor.spend.remote(self._task, want, used))

    def _answer(self, ref: Any) -> Any:
        """What the actor answers; without it nobody knows what may be spent, so the run stops."""
        import ray

        try:
            return ray.get(ref, timeout=ANSWER_SECONDS)
        except ray.exceptions.RayError as error:
            raise MachineFailure(
                "the process that holds the budgets is lost; resume with: ethogram run --resume RUN"
            ) from error


class BudgetActor:
    """The actor that keeps the budgets of the experiment and of its tasks."""

    def __init__(self, caps: Caps, spent: Amounts, task_caps: Caps, task_spent: dict[str, Amounts]) -> None:
        """Begin where an earlier session ended."""
        self._experiment = Budget("experiment", caps, spent=spent)
        self._task_caps = task_caps
        self._task_spent = task_spent
        self._tasks: dict[str, Budget] = {}

    def _budget(self, task: str | None) -> Budget:
        if task is None:
            return self._experiment
        if task not in self._tasks:
            self._tasks[task] = Budget("task", self._task_caps, spent=self._task_spent.get(task))
        return self._tasks[task]

    def take(self, task: str | None, want: Amounts) -> tuple[Any, ...] | None:
        """Set aside, or say which cap is reached."""
        try:
            self._budget(task).take(want)
        except CapReached as reached:
            return reached.args
        return None

    def give_back(self, task: str | None, want: Amounts) -> None:
        """Undo `take`."""
        self._budget(task).give_back(want)

    def spend(self, task: str | None, want: Amounts, used: Amounts) -> None:
        """Settle."""
        self._budget(task).spend(want, used)


class Worker(Generic[W, R]):
    """The actor that carries out episodes."""

    def __init__(self, make: MakeExecutor[W, R], caps: Caps, task_caps: Caps, budgets: Any, concurrency: int) -> None:
        """Build the executor here, on the worker's own machine."""
        sweep_scratch()
        experiment = RemoteBudget(caps, budgets)
        self._executor = make(experiment, lambda task: RemoteBudget(task_caps, budgets, task, experiment))
        self._concurrency = concurrency

    def ready(self) -> bool:
        """The worker is built."""
        return True

    def execute(self, batch: list[W]) -> tuple[list[R], str | None]:
        """Carry out a batch and commit it; a failure of the machine is told, not raised."""
        reports: list[R] = []
        problem: str | None = None
        try:
            asyncio.run(_all(self._executor, deque(batch), self._concurrency, reports))
        except EthogramError as error:
            problem = str(error)
        self._executor.commit()
        return reports, problem

    def close(self) -> None:
        """Commit and give up the lease."""
        self._executor.close()


def _here(ray: Any) -> Any:
    """The driver's own node: an actor that all workers need must not be lost with one of theirs."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)


async def _all(executor: WorkExecutor[W, R], queue: deque[W], concurrency: int, reports: list[R]) -> None:
    """Carry out a queue. Not a method: an actor with an async method runs in Ray's own event loop."""

    async def one() -> None:
        while queue:
            reports.append(await executor.execute(queue.popleft()))

    await asyncio.gather(*(one() for _ in range(min(concurrency, len(queue)))))


class RayEngine(Generic[W, R]):
    """Episodes on a Ray cluster; `run` may be called again, with the same workers."""

    def __init__(
        self,
        make: MakeExecutor[W, R],
        budget: Budget,
        committed: IsCommitted,
        *,
        concurrency: int | None = None,
        task_caps: Caps = NO_CAPS,
        spent: Mapping[str, Amounts] = MappingProxyType({}),
        at_once: int = MAX_BATCH,
        again: str = "resume with: ethogram run --resume RUN",
    ) -> None:
        """`make` builds an executor on a worker; `committed` reads the ledger; `concurrency` is over all workers (as
        many as the cluster has CPUs, unless given); `spent` is what earlier sessions used, by task; at most `at_once`
        work items go to a worker together; `again` says how to go on after a failure of the cluster."""
        self._cluster = Cluster()
        self._ray = self._cluster.ray
        self._make = make
        self._caps = Caps(**budget.caps)  # type: ignore[arg-type]
        self._task_caps = task_caps
        self._committed = committed
        self._driver = budget
        cpus = int(self._ray.cluster_resources().get("CPU", 1)) or 1
        self._workers_wanted = max(1, min(cpus, concurrency or cpus))
        self._each = max(1, (concurrency or cpus) // self._workers_wanted)
        self._budgets: Any = None
        if self._caps.named() or task_caps.named():
            budgets = self._ray.remote(num_cpus=0, scheduling_strategy=_here(self._ray))(BudgetActor)
            self._budgets = budgets.remote(self._caps, budget.used, task_caps, dict(spent) if task_caps.named() else {})
        self._workers: dict[Any, Any] = {}
        self._starting: dict[Any, Any] = {}
        self._idle: list[Any] = []
        self._at_once, self._again = at_once, again
        self._batch = min(FIRST_BATCH, at_once)
        self.patience = self._cluster.patience

    def run(self, work: Iterable[W], report: Callable[[R], None], stop: Stop) -> None:
        """Carry out work until it ends or `stop` says so; lost batches are run again elsewhere."""
        queue = iter(work)
        again: deque[W] = deque()
        flying: dict[Any, tuple[Any, list[W], float]] = {}
        starting, idle = self._starting, self._idle
        self._start_workers(self._workers_wanted - len(self._workers))
        batch: list[W] = []
        alive = time.monotonic()
        while True:
            halted = stop()
            while not halted and (batch := batch or self._next(queue, again)) and idle:
                worker = idle.pop()
                flying[worker.execute.remote(batch)] = (worker, batch, time.monotonic())
                batch = []
            if not flying and (halted or not batch):
                return
            # a worker that the cluster has no room for may never start: it gets no work before it answers
            ready, _ = self._ray.wait([*flying, *starting], timeout=0.25)
            if ready or flying:
                alive = time.monotonic()
            elif time.monotonic() - alive > self.patience:
                raise MachineFailure(
                    f"the cluster has given no worker for {self.patience:.0f} s; free a CPU of it, then {self._again}"
                )
            for ref in ready:
                if ref in starting:
                    worker = starting.pop(ref)
                    if self._answers(ref):
                        idle.append(worker)
                    continue
                worker, sent, began = flying.pop(ref)
                reports, problem = self._collect(ref)
                if reports is None:
                    # end it for certain: one that only seemed lost would keep the CPU that its successor waits for
                    self._ray.kill(worker)
                    self._workers.pop(worker._actor_id, None)
                    again.extend(self._unfinished(sent))
                    self._start_workers(1)
                    continue
                self._adapt(len(sent), time.monotonic() - began)
                for done in reports:
                    self._note(done)
                    report(done)
                if problem is not None:
                    raise EthogramError(problem)
                idle.append(worker)

    def close(self) -> None:
        """Let the workers commit, and go."""
        for worker in self._workers.values():
            # one that was lost, or that never started, has nothing to commit
            with suppress(self._ray.exceptions.RayActorError, self._ray.exceptions.GetTimeoutError):
                self._ray.get(worker.close.remote(), timeout=CLOSE_SECONDS)
            self._ray.kill(worker)
        self._workers.clear()
        self._cluster.close()

    def _start_workers(self, count: int) -> None:
        """Ask the cluster for workers; each counts once it answers."""
        actor = self._ray.remote(num_cpus=1, max_restarts=0)(Worker)
        for _ in range(count):
            made = actor.remote(self._make, self._caps, self._task_caps, self._budgets, self._each)
            self._workers[made._actor_id] = made
            self._starting[made.ready.remote()] = made

    def _answers(self, ref: Any) -> bool:
        """Whether a new worker is ready; one that could not be built says why, one that was lost does not count."""
        try:
            self._ray.get(ref)
        except self._ray.exceptions.ActorDiedError as error:
            if "creation task failed" in str(error) or "Error" in str(error).splitlines()[-1]:
                raise EthogramError(f"a worker could not be built: {str(error).strip().splitlines()[-1]}") from None
            return False
        except self._ray.exceptions.RayActorError:
            return False
        return True

    def _collect(self, ref: Any) -> tuple[list[R] | None, str | None]:
        """The reports of a batch; None if its worker was lost."""
        try:
            reports, problem = self._ray.get(ref)
        except self._ray.exceptions.RayTaskError as error:  # also of an actor's loss, if it was another actor
            raise MachineFailure(f"a worker failed: {str(error).strip().splitlines()[-1]}") from error
        except self._ray.exceptions.RayActorError:
            return None, None
        return reports, problem

    def _next(self, queue: Iterator[W], again: deque[W]) -> list[W]:
        batch: list[W] = []
        while len(batch) < self._batch:
            one = again.popleft() if again else next(queue, None)
            if one is None:
                break
            batch.append(one)
        return batch

    def _adapt(self, size: int, seconds: float) -> None:
        """Batches of about half a second: long enough to be cheap, short enough to stop and to spread."""
        per = max(seconds / size, 1e-6)
        self._batch = max(self._each, min(self._at_once, int(BATCH_SECONDS / per) or 1))

    def _unfinished(self, batch: list[W]) -> list[W]:
        """Of a lost batch, what the ledger lacks."""
        known = self._committed()
        return [w for w in batch if w.id not in known]

    def _note(self, done: R) -> None:
        """Keep the driver's copy of the budget, which decides whether to start more."""
        self._driver.used.add(Amounts(tokens=done.tokens, usd=done.usd, seconds=done.seconds))
