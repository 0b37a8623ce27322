"""One try at one episode: the agent acts within its caps, what it left is judged, and one trace is written.

Who is to blame for a failure is decided here; the rule stands at the head of `executor.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Set
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ethogram.capture.recorder import Recorder
from ethogram.cost import Amounts, Budget, CapReached, Unmetered
from ethogram.cost.budget import Resource
from ethogram.errors import BadInput, EthogramError, MachineFailure
from ethogram.judge import Evidence
from ethogram.plan import Blame, Condition
from ethogram.trace import UNMETERED, Label, Missing, Outcome, Scored

from .agents import AgentCrash, Answer
from .crashes import Crash, crash_of
from .disturb import Disturbed, disturb, disturbance_of, seen_by_agent
from .faults import Fault, OtherFault, fault_of, is_machine_failure
from .handle import EpisodeHandle
from .processes import clipped
from .threads import LARGE, in_thread
from .verifiers import JudgingFault
from .workspace import Workspace

if TYPE_CHECKING:
    from .executor import Executor, Work


class Attempt:
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
        try:
            await self._equip(handle, folder, condition)
            began = time.monotonic()
            self.meter.reserve(Amounts())
            answer = await self._within_time(handle)
        except CapReached as reached:
            self.stopped_by = f"cap.{reached.resource}"  # `meter.experiment` tells if it is not the episode's own
            blame = executor.world.suite.on_cap
        except (BadInput, MachineFailure):
            raise
        except Exception as error:
            if is_machine_failure(error):
                raise MachineFailure(f"this machine failed: {error}; what was committed is kept") from error
            if (fault := fault_of(error)) is not None:
                return Missing(fault.reason, str(fault)[:500]), fault
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

    async def _within_time(self, handle: EpisodeHandle) -> Answer:
        """What the agent answers; raises `CapReached` once its seconds are over."""
        seconds = self.budget.remaining().get("seconds")
        if seconds is None:
            return await self.executor.agent.act(handle.task, handle)
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                return await self.executor.agent.act(handle.task, handle)
        except TimeoutError:
            if limit.expired():
                raise CapReached("episode", "seconds", seconds, seconds) from None
            raise

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
