"""Carrying out one episode: a fresh workspace, the agent within its caps, the checks, one trace, one outcome.

The rule of blame. The world's fault (network, rate limit, time-out of the world, sandbox, a crashed verifier) is
retried, then a missing outcome with its reason. The agent's own crash and its own caps are scored: by default what
the checks say of what it left, and 0 where there is nothing to check. The experiment's cap and the kill switch
are missing outcomes. A suite may choose otherwise with `on_crash` and `on_cap`.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.clock import Clock, SystemClock
from ethogram.capture.intake import Intake, SourceReport
from ethogram.capture.recorder import Recorder
from ethogram.cost import Amounts, Budget, CapReached, Caps, Metering, Unmetered
from ethogram.cost.budget import Resource
from ethogram.errors import BadInput, EthogramError, MachineFailure
from ethogram.judge import Evidence
from ethogram.plan import Blame, Condition, Episode, Suite, Task, derived_seed
from ethogram.store import RunWriter
from ethogram.trace import UNMETERED, EpisodeId, Label, Missing, Origin, Outcome, Scored, TraceId, trace_id

from .agents import Agent, AgentCrash, Answer
from .crashes import Crash, crash_of
from .disturb import Disturbed, disturb, disturbance_of, seen_by_agent
from .environment import Environment
from .faults import Fault, OtherFault, RateLimited, fault_of, is_machine_failure
from .handle import EpisodeHandle
from .processes import clipped
from .threads import LARGE, in_thread, unless_stopped
from .verifiers import JudgingFault
from .workspace import Keep, Workspace

SPENT = frozenset({"tokens", "usd"})
"""What model calls use: known as far as an agent records them."""
T = TypeVar("T")
BACKOFF_SECONDS = 0.5
MAX_BACKOFF_SECONDS = 60.0


class Work(msgspec.Struct, frozen=True):
    """An episode to carry out; `supersedes` is the trace of a missing outcome that it replaces."""

    episode: Episode
    supersedes: TraceId | None = None

    @property
    def id(self) -> EpisodeId:
        """The id of the episode."""
        return self.episode.id


class EpisodeReport(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an episode: enough for a progress table, without its trace.

    `crash` is what the agent's crash said and `crash_at` its last frames, both redacted.
    """

    episode: str
    task: str
    attempt: int
    condition: str
    outcome: Outcome
    seconds: float
    tokens: float
    usd: float
    tries: int = 1
    stopped_by: str | None = None
    crash: str | None = None
    crash_at: tuple[str, ...] = ()
    success_at: float = 0.5
    unmetered: tuple[str, ...] = ()
    """Resources of which an unknown amount was used beside what is counted here."""

    @property
    def passed(self) -> bool | None:
        """Whether it succeeded; None if the outcome is missing."""
        return self.outcome.success(self.success_at) if isinstance(self.outcome, Scored) else None


Wrap = Callable[..., list[str]]


class World(Protocol):
    """What the executor needs to know of a loaded suite."""

    suite: Suite
    root: Path

    def tools(self, task: Task, handle: EpisodeHandle) -> Mapping[str, Callable[..., Any]]:
        """The tools of a task."""
        ...

    def simulator(self, task: Task) -> Callable[..., Any] | None:
        """Who plays the user of a task."""
        ...

    def judge(self, task: Task, evidence: Evidence, wrap: Wrap) -> tuple[Sequence[Label], Outcome]:
        """Labels of all checks (their trace id is filled in later), and the outcome; `wrap` isolates commands."""
        ...

    def judges_at_once(self, task: Task) -> bool:
        """Whether judging takes no time to speak of, so that it need not leave the event loop."""
        ...


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """How episodes are carried out."""

    caps: Caps = Caps()
    task_caps: Caps = Caps()
    retries: int = 2
    keep: Keep = "never"
    isolation: str = "none"
    home: str = ""
    """The folder of the home, which isolated agents must not see; empty where it is no folder."""
    meta: dict[str, Any] = {}
    conditions: dict[str, Condition] = {}
    environment: Environment = Environment()
    metering: Metering = Metering()


class Executor:
    """Carries out episodes, one after the other or many at once, into one writer."""

    def __init__(
        self,
        world: World,
        agent: Agent,
        writer: RunWriter,
        experiment: Budget,
        settings: Settings,
        *,
        task_budget: Callable[[str], Budget] | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`experiment` is the budget above all episodes; `task_budget` gives the one of a task, which lies between."""
        self.world = world
        self.agent = agent
        self.writer = writer
        self.experiment = experiment
        self.settings = settings
        self.clock = clock or SystemClock()
        self.on_slow: Callable[[float | None], None] = lambda seconds: None
        self.stop: Callable[[], bool] = lambda: False
        self._task_budget = task_budget or (lambda task: Budget("task", settings.task_caps, experiment))
        self._tasks: dict[str, tuple[Caps, Budget]] = {}
        self.hidden = (Path(settings.home),) if settings.home else ()
        self._by_id = {t.id: t for t in world.suite.tasks}
        self._simulators: dict[str, Callable[..., Any] | None] = {}
        self._report = SourceReport(source="run")
        self.environment = settings.environment.variables()
        self.prices = settings.metering.calls()
        self.blind: Unmetered | None = None
        """The cap that could not be kept, once there is one: no further episode of the batch begins."""

    async def execute(self, work: Work) -> EpisodeReport:
        """Carry out an episode; the world's faults are retried, unless the run was stopped meanwhile."""
        started = time.monotonic()
        wasted = Amounts()
        unmetered: set[str] = set()
        for tries in range(1, self.settings.retries + 2):
            attempt = _Attempt(self, work)
            outcome, fault = await attempt.run()
            last = tries > self.settings.retries or not (fault is not None and fault.transient)
            if last or isinstance(outcome, Scored):
                break
            if not await self._pause(fault, tries, work.episode.seed):
                break
            wasted.add(attempt.budget.used)
            unmetered |= attempt.meter.unknown
            attempt.builder.abort()
        unmetered |= attempt.meter.unknown
        await _off_the_loop(attempt.builder.answer, attempt.finish, outcome, tries, wasted, unmetered)
        used = attempt.budget.used
        crash = None if attempt.crash is None else self._redacted(attempt.crash)
        return EpisodeReport(
            episode=work.episode.id,
            task=work.episode.task,
            attempt=work.episode.attempt,
            condition=work.episode.condition,
            outcome=outcome,
            seconds=time.monotonic() - started,
            tokens=used.tokens + wasted.tokens,
            usd=used.usd + wasted.usd,
            tries=tries,
            stopped_by=attempt.stopped_by,
            crash=None if crash is None else crash.message,
            crash_at=() if crash is None else crash.frames,
            success_at=self.world.suite.success_at,
            unmetered=tuple(sorted(unmetered | (SPENT - self.agent.meters))),
        )

    def commit(self) -> None:
        """Publish what is complete."""
        self.writer.commit()

    def close(self) -> None:
        """Publish what is complete and give up the writer."""
        self.writer.close()

    def _redacted(self, crash: Crash) -> Crash:
        """A crash as it may be shown; message and frames together, for a detector may need what stands beside."""
        message, *frames = self.writer.clean(str(crash), "error").split("\n  ")
        return Crash(message, tuple(frames))

    async def _pause(self, fault: Fault | None, tries: int, seed: int) -> bool:
        """Wait before trying again: as long as the provider wishes, else longer each time, with jitter by seed.

        A wish of more than a minute is cut to that. False when the run was stopped meanwhile.
        """
        wish = None if fault is None or fault.retry_after is None else min(fault.retry_after, MAX_BACKOFF_SECONDS)
        if isinstance(fault, RateLimited):
            self.on_slow(wish)
        jitter = random.Random(derived_seed(seed, f"retry-{tries}")).uniform(0.5, 1.0)
        wait = wish if wish is not None else min(MAX_BACKOFF_SECONDS, BACKOFF_SECONDS * 2 ** (tries - 1) * jitter)
        return await unless_stopped(wait, self.stop)

    def task(self, wanted: str) -> Task:
        """A task by its id."""
        return self._by_id[wanted]

    def simulator(self, task: Task) -> Callable[..., Any] | None:
        """Who plays the user, where the task names somebody."""
        if task.simulator is None:
            return None
        if task.simulator not in self._simulators:
            self._simulators[task.simulator] = self.world.simulator(task)
        return self._simulators[task.simulator]

    def budget(self, task: Task) -> Budget:
        """A fresh budget for one episode, below its task's and the experiment's."""
        if task.id not in self._tasks:
            self._tasks[task.id] = tightest(self.settings.caps, task.caps), self._task_budget(task.id)
        caps, above = self._tasks[task.id]
        return Budget("episode", caps, above)

    def builder(self, work: Work) -> TraceBuilder:
        """A trace to write into."""

        def open_sink(trace: TraceId) -> Any:
            return self.writer.trace(trace, work.supersedes)

        run = self.writer.path.rpartition("/")[2]
        wanted = trace_id("run", run, work.episode.id, work.supersedes or "")
        builder = TraceBuilder(Intake(open_sink, Origin("run"), self._report), wanted, work.episode.id)
        episode = work.episode
        builder.task, builder.attempt, builder.condition = episode.task, episode.attempt, episode.condition
        builder.agent, builder.seed = episode.agent, episode.seed
        builder.meta = dict(self.settings.meta)
        return builder


def tightest(caps: Caps, of_task: Mapping[str, float]) -> Caps:
    """The lower of each limit."""
    limits = dict(caps.named())
    for name, value in of_task.items():
        if name not in Caps.__struct_fields__:
            raise BadInput(f"a task caps {name!r}, which cannot be capped; caps are steps, tokens, usd and seconds")
        limits[name] = min(limits.get(name, value), value)  # type: ignore[index, call-overload]
    return Caps(**limits)  # type: ignore[arg-type]


async def _off_the_loop(text: str | None, function: Callable[..., T], *args: Any) -> T:
    """Call a function that works through a text; in a thread if the text is long."""
    return function(*args) if len(text or "") < LARGE else await in_thread(function, *args)


class _Attempt:
    """One try at one episode."""

    def __init__(self, executor: Executor, work: Work) -> None:
        self.executor = executor
        self.work = work
        self.task = executor.task(work.episode.task)
        self.budget = executor.budget(self.task)
        self.meter = _Watched(self.budget, executor.settings.metering.allow_unmetered)
        self.meter.experiment = executor.blind
        self.builder = executor.builder(work)
        self.record = Recorder(self.builder, self.meter, executor.clock, executor.prices)
        self.stopped_by: str | None = None
        self.crash: Crash | None = None
        self.labels: list[Label] = []
        self.disturbed: Disturbed | None = None

    async def run(self) -> tuple[Outcome, Fault | None]:
        """Carry out; gives the outcome, and the fault if the world was to blame."""
        executor = self.executor
        settings = executor.settings
        workspace = Workspace(
            self.task,
            executor.world.root,
            keep=settings.keep,
            isolation=settings.isolation,
            hide=executor.hidden,
        )
        try:
            async with workspace:
                outcome, fault = await self._act(workspace)
                workspace.failed = not (
                    isinstance(outcome, Scored) and outcome.success(executor.world.suite.success_at)
                )
            if workspace.kept is not None:
                self.builder.meta["workspace"] = str(workspace.kept)
            return outcome, fault
        except Fault as fault:
            return Missing(fault.reason, str(fault)[:500]), fault

    async def _act(self, workspace: Workspace) -> tuple[Outcome, Fault | None]:
        """Let the agent act, then judge what it left."""
        folder = workspace.path if workspace.needed else None
        episode, executor = self.work.episode, self.executor
        condition = executor.settings.conditions.get(episode.condition, Condition())
        handle = EpisodeHandle(
            self.task.for_agent(),
            episode.seed,
            self.record,
            self.budget,
            workspace=folder,
            condition=seen_by_agent(condition.settings),
            attempt=episode.attempt,
            environment=executor.environment,
            wrap=workspace.wrap_agent,
        )
        answer = Answer(None)
        blame: Blame = "verify"
        began, began_ns = time.monotonic(), executor.clock.now_ns()
        limit = asyncio.timeout(None)
        try:
            await self._equip(handle, folder, condition)
            began = time.monotonic()
            self.meter.reserve(Amounts())
            limit = asyncio.timeout(self.budget.remaining().get("seconds"))
            async with limit:
                answer = await executor.agent.act(handle.task, handle)
        except CapReached as reached:
            self.stopped_by = f"cap.{reached.resource}"  # `meter.experiment` tells if it is not the episode's own
            blame = executor.world.suite.on_cap
        except (BadInput, MachineFailure):
            raise
        except Exception as error:
            if is_machine_failure(error):
                raise MachineFailure(f"this machine failed: {error}; what was committed is kept") from error
            if isinstance(error, TimeoutError) and limit.expired():
                self.stopped_by = "cap.seconds"
                blame = executor.world.suite.on_cap
            elif (fault := fault_of(error)) is not None:
                return Missing(fault.reason, str(fault)[:500]), fault
            else:
                if isinstance(error, AgentCrash):
                    answer = Answer(error.left)
                self.stopped_by = f"crash.{type(error).__name__}"
                self.crash = crash_of(error)
                self.builder.meta["crash"] = self.crash.message
                blame = executor.world.suite.on_crash
        finally:
            self.meter.close()
            self.builder.lasted(began_ns, executor.clock.now_ns())
            self.budget.settle(Amounts(), Amounts(seconds=time.monotonic() - began))
        if self.meter.experiment is not None:
            if isinstance(self.meter.experiment, Unmetered):
                executor.blind = self.meter.experiment
                self.stopped_by = f"{UNMETERED}.{self.meter.experiment.resource}"
            return Missing("cap.experiment", str(self.meter.experiment)), None
        text, lost = clipped(answer.text or "")
        if lost:
            answer = Answer(text, {**answer.meta, "left_out": lost})
        self.builder.answer = answer.text
        self.builder.meta.update(answer.meta)
        self.builder.meta.update(handle.meta)
        if self.disturbed is not None:
            self.builder.meta.update(self.disturbed.told)
        return await self._judge(answer, workspace, blame)

    async def _equip(self, handle: EpisodeHandle, folder: Path | None, condition: Condition) -> None:
        """Give the agent its tools and its user; whatever goes wrong here is no fault of the agent."""
        try:
            tools = await self._tools(handle, folder, condition)
            handle.attach(tools, self._user())
        except (EthogramError, CapReached):
            raise
        except Exception as error:
            if is_machine_failure(error):
                raise
            said = f"the tools of task {self.task.id!r} could not be made: {type(error).__name__}: {error}"
            raise fault_of(error) or OtherFault(said) from error

    async def _tools(
        self, handle: EpisodeHandle, folder: Path | None, condition: Condition
    ) -> Mapping[str, Callable[..., Any]]:
        """The tools of the episode; a condition that disturbs changes them, the prompt or a file of its own copy.

        A file is damaged before the tools are made, for they may read it at once.
        """
        wanted = disturbance_of(condition.settings)
        if wanted is None:
            return self.executor.world.tools(self.task, handle)
        self.disturbed = await in_thread(disturb, wanted, self.task, handle.seed, folder)
        self.builder.meta.update(self.disturbed.told)
        handle.task = self.disturbed.task.for_agent()
        return self.disturbed.tools(self.executor.world.tools(self.task, handle))

    def _user(self) -> Callable[[EpisodeHandle, str], Any] | None:
        """Who plays the user: code of the suite, so it knows the whole task, which the agent does not."""
        simulator = self.executor.simulator(self.task)
        return None if simulator is None else partial(simulator, self.disturbed.task if self.disturbed else self.task)

    async def _judge(self, answer: Answer, workspace: Workspace, blame: Blame) -> tuple[Outcome, Fault | None]:
        if blame == "missing":
            return Missing("unscored", f"stopped by {self.stopped_by}; the suite does not score that"), None
        if blame == "zero":
            return Scored(0.0, "blame"), None
        evidence = Evidence(
            answer=answer.text,
            expected=self.task.expected,
            inputs=self.task.inputs,
            calls=tuple(self.record.calls),
            workspace=workspace.path if workspace.needed else None,
        )
        world = self.executor.world
        try:
            if world.judges_at_once(self.task) and len(answer.text or "") < LARGE:
                labels, outcome = world.judge(self.task, evidence, workspace.wrap)
            else:
                labels, outcome = await in_thread(world.judge, self.task, evidence, workspace.wrap)
        except JudgingFault as fault:
            self.labels = list(fault.labels)  # what the other checks found is still worth keeping
            return Missing(fault.reason, str(fault)[:500]), fault
        except Fault as fault:
            return Missing(fault.reason, str(fault)[:500]), fault
        self.labels = list(labels)
        if self.stopped_by is not None and isinstance(outcome, Missing):
            # nothing can be checked, and it was the agent's own doing
            return Scored(0.0, "blame"), None
        return outcome, None

    def finish(self, outcome: Outcome, tries: int, wasted: Amounts, unmetered: Set[str]) -> None:
        """Commit the trace with its outcome, and with what its figures do not cover."""
        builder = self.builder
        builder.outcome = outcome
        if tries > 1:
            builder.meta.update(tries=tries, wasted_usd=wasted.usd, wasted_tokens=int(wasted.tokens))
        if unmetered:
            builder.meta[UNMETERED] = ",".join(sorted(unmetered))
        if self.stopped_by is not None:
            why = None if self.crash is None else str(self.crash)
            builder.label("stopped_by", self.stopped_by, by="harness", source="verifier", why=why)
        for label in self.labels:
            builder.label(label.name, label.value, by=label.by, source=label.source, why=label.why)
        builder.close()


class _Watched:
    """The meter of one episode: remembers whether the experiment's cap was reached, and closes with the episode.

    An agent in a thread cannot be ended; once closed, its next call raises, and nothing it does counts any more.
    """

    def __init__(self, budget: Budget, allow_unmetered: bool) -> None:
        self._budget = budget
        self._allow_unmetered = allow_unmetered
        self._closed = False
        self.experiment: CapReached | None = None
        self.unknown: set[str] = set()

    def reserve(self, want: Amounts) -> None:
        if self._closed:
            raise CapReached("episode", "seconds", 0, 0)
        if isinstance(self.experiment, Unmetered):
            raise self.experiment
        try:
            self._budget.reserve(want)
        except CapReached as reached:
            if reached.level == "experiment":
                self.experiment = reached
            raise

    def settle(self, want: Amounts, used: Amounts) -> None:
        self._budget.settle(want, used)

    def unmetered(self, resource: Resource, why: str) -> None:
        self.unknown.add(resource)
        try:
            self._budget.unmetered(resource, why)
        except Unmetered as blind:
            if not self._allow_unmetered:
                self.experiment = blind  # at whatever level: more episodes would spend as blindly
                raise

    def close(self) -> None:
        self._closed = True
