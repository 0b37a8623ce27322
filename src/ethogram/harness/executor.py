"""Carrying out one episode: a fresh workspace, the agent within its caps, the checks, one trace, one outcome.

The rule of blame. The world's fault (a provider's refusal, network, rate limit, time-out of the world, sandbox, a
crashed verifier) is retried where that may help, then a missing outcome with its reason; a call that could not be
recorded is missing too. The agent's own crash and its own caps are scored: by default what the checks say of what it
left, and 0 where there is nothing to check. The experiment's cap and the kill switch are missing outcomes. A suite may
choose otherwise with `on_crash` and `on_cap`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.intake import Intake, SourceReport
from ethogram.checks import Evidence
from ethogram.errors import BadInput
from ethogram.plans import Condition, Episode, Suite, Task, derived_seed
from ethogram.prices import Amounts, Budget, Caps, Metering, Unmetered
from ethogram.store import RunWriter
from ethogram.traces import (
    PROVIDER_REASONS,
    SILENT,
    UNSEEN,
    EpisodeId,
    Label,
    Missing,
    Origin,
    Outcome,
    Scored,
    TraceId,
    trace_id,
)
from ethogram.wire.clock import Clock, SystemClock
from ethogram.wire.gateway.breaker import Breaker

from .agents import SPENT, Agent
from .answers import AnswersFor
from .attempt import Attempt
from .crashes import Crash
from .environment import Environment
from .faults import Fault, ProviderFault, RateLimited
from .handle import EpisodeHandle
from .outside_agents import CommandAgent
from .processes import CommandBounds
from .threads import LARGE, in_thread, unless_stopped
from .workspace import KeepWorkspace

if TYPE_CHECKING:
    from .live import LiveCapture

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
    success_at: float
    tries: int = 1
    stopped_by: str | None = None
    crash: str | None = None
    crash_at: tuple[str, ...] = ()
    answered: bool = True
    """Whether the agent left an answer, if only an empty one."""
    halted: str | None = None
    """What a provider refused so often that the run is to stop; redacted."""
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
    files: Sequence[Path]

    def check_unchanged(self, task: str | None = None) -> None:
        """Raise `BadUsage` if files were edited since they were loaded: before an attempt at a task, or at the end."""
        ...

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
        """Whether judging is fast enough to stay on the event loop."""
        ...


class ExecutorSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How episodes are carried out."""

    caps: Caps = Caps()
    task_caps: Caps = Caps()
    retries: int = 2
    keep: KeepWorkspace = "never"
    isolation: str = "none"
    bounds: CommandBounds = CommandBounds()
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
        settings: ExecutorSettings,
        *,
        task_budget: Callable[[str], Budget] | None = None,
        capture: LiveCapture | None = None,
        answers_for: AnswersFor | None = None,
        clock: Clock | None = None,
        breaker: Breaker | None = None,
    ) -> None:
        """`experiment` is the budget above all episodes; `task_budget` gives the one of a task, which lies between.

        `capture` is where model calls of the agent are seen, if they are; `answers_for` gives what answers an episode
        in place of models, tools and users. `breaker` is that of `capture`.
        """
        self.breaker = breaker or Breaker()
        self.world = world
        self.agent = agent
        self.writer = writer
        self.experiment = experiment
        self.settings = settings
        self.capture = capture
        self.answers_for: AnswersFor = answers_for or (lambda episode: None)
        self.clock = clock or SystemClock()
        self.on_slow: Callable[[float | None], None] = lambda seconds: None
        self.stop: Callable[[], bool] = lambda: False
        self._task_budget = task_budget or (lambda task: Budget("task", settings.task_caps, experiment))
        self._tasks: dict[str, tuple[Caps, Budget]] = {}
        self.hidden = (Path(settings.home),) if settings.home else ()
        self._by_id = {t.id: t for t in world.suite.tasks}
        self._simulators: dict[str, Callable[..., Any] | None] = {}
        self._run = writer.path.rpartition("/")[2]
        self._intake = Intake(writer.trace, Origin("run"), SourceReport(source="run"))
        self._shown: dict[str, Task] = {}
        self.environment = settings.environment.variables()
        self.prices = settings.metering.calls()
        stated = getattr(agent, "prompt_version", None) or settings.meta.get("prompt_version")
        self.prompt_version = None if stated is None else str(stated)
        """The version of the agent's prompt, where the agent or the run states it."""
        self.dearest = Amounts()
        """The most that an attempt is known to have used: what is counted where nobody saw what one used."""
        closed = isinstance(agent, CommandAgent) and settings.isolation == "bwrap"
        self.sees_connections = closed or (capture is not None and capture.in_process)
        """Whether an agent that called a model would have been seen."""
        self.blind: Unmetered | None = None
        """The cap that could not be kept, once there is one: no further episode of the batch begins."""

    async def execute(self, work: Work) -> EpisodeReport:
        """Carry out an episode; the world's faults are retried, unless the run was stopped meanwhile."""
        started = time.monotonic()
        wasted = Amounts()
        unmetered: set[str] = set()
        for tries in range(1, self.settings.retries + 2):
            self.world.check_unchanged(work.episode.task)
            attempt = Attempt(self, work)
            outcome, fault = await attempt.run()
            last = tries > self.settings.retries or not (fault is not None and fault.transient)
            if last or isinstance(outcome, Scored):
                break
            if self.breaker.opened_by is not None or not await self._pause(fault, tries, work.episode.seed):
                break
            wasted.add(attempt.budget.used)
            unmetered |= attempt.meter.unknown
            attempt.builder.abort()
        unmetered |= attempt.meter.unknown
        if isinstance(outcome, Missing) and outcome.reason in PROVIDER_REASONS:
            self.breaker.spent()
        elif self.capture is None and isinstance(outcome, Scored):
            self.breaker.answered()
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
            tokens=used.tokens - attempt.assumed.tokens + wasted.tokens,
            usd=used.usd - attempt.assumed.usd + wasted.usd,
            tries=tries,
            stopped_by=attempt.stopped_by,
            crash=None if crash is None else crash.message,
            crash_at=() if crash is None else crash.frames,
            success_at=self.world.suite.success_at,
            answered=attempt.builder.answer is not None,
            halted=None if self.breaker.opened_by is None else self.writer.clean(str(self.breaker.opened_by), "error"),
            unmetered=tuple(
                sorted((unmetered if self.capture else unmetered | (SPENT - self.agent.meters)) - {UNSEEN, SILENT})
            ),
        )

    def commit(self) -> None:
        """Publish what is complete."""
        self.writer.commit()

    def close(self) -> None:
        """Publish what is complete and give up the writer. Raises `BadUsage` if the suite was edited meanwhile."""
        self.writer.close()
        self.world.check_unchanged()

    def _redacted(self, crash: Crash) -> Crash:
        """A crash as it may be shown; message and frames together, for a detector may need what stands beside."""
        message, *frames = self.writer.clean(str(crash), "error").split("\n  ")
        return Crash(message, tuple(frames))

    async def _pause(self, fault: Fault | None, tries: int, seed: int) -> bool:
        """Wait before trying again: as long as the provider wishes, else longer each time, with jitter by seed.

        A wish of more than a minute is cut to that. False when the run was stopped meanwhile.
        """
        wish = None if fault is None or fault.retry_after is None else min(fault.retry_after, MAX_BACKOFF_SECONDS)
        if isinstance(fault, RateLimited | ProviderFault):
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

    def shown(self, task: Task) -> Task:
        """A task as an agent may see it: the same for all its attempts."""
        if task.id not in self._shown:
            self._shown[task.id] = task.for_agent()
        return self._shown[task.id]

    def builder(self, work: Work) -> TraceBuilder:
        """A trace to write into."""
        episode = work.episode
        wanted = trace_id("run", self._run, episode.id, work.supersedes or "")
        builder = TraceBuilder(self._intake, wanted, episode.id, self.writer.trace(wanted, work.supersedes))
        builder.task, builder.attempt, builder.condition = episode.task, episode.attempt, episode.condition
        builder.agent, builder.seed = episode.agent, episode.seed
        builder.meta = dict(self.settings.meta)
        return builder


def tightest(caps: Caps, of_task: Mapping[str, float]) -> Caps:
    """The lower of each limit."""
    limits = dict(caps.named())
    for name, value in of_task.items():
        if name not in Caps.__struct_fields__:
            raise BadInput(
                f"a task caps {name!r}, which cannot be capped; caps are steps, tokens, usd and seconds",
                where=f"the cap {name!r}",
            )
        limits[name] = min(limits.get(name, value), value)  # type: ignore[index, call-overload]
    return Caps(**limits)  # type: ignore[arg-type]


async def _off_the_loop(text: str | None, function: Callable[..., T], *args: Any) -> T:
    """Call a function that works through a text; in a thread if the text is long."""
    return function(*args) if len(text or "") < LARGE else await in_thread(function, *args)
