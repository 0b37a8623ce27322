"""One try at one episode: the agent acts within its caps, what it left is judged, and one trace is written.

Who is to blame for a failure is decided here; the rule stands at the head of `executor.py`, what
a suite says about it in `suites/blame.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Set
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ethogram.checks import Evidence
from ethogram.errors import BadInput, EthogramError, MachineFailure
from ethogram.plans import Condition
from ethogram.prices import NOTHING, Amounts, CapReached, Unmetered
from ethogram.suites.blame import outcome_after_stop, outcome_without_checks
from ethogram.traces import (
    CUT_OFF,
    END_STATE,
    OUTSIDE,
    REFUSED,
    SILENT,
    UNMETERED,
    UNSEEN,
    Label,
    Missing,
    Outcome,
    Reason,
    Scored,
)
from ethogram.wire.context import recording
from ethogram.wire.gateway.refusals import ProviderRefusal
from ethogram.wire.recorder import Recorder

from .agents import SPENT, AgentCrash, Answer
from .answers import SERVED_TOOLS, Answers
from .crashes import Crash, crash_of, is_of_recorder
from .disturbance import Disturbed, disturb, disturbance_of, seen_by_agent
from .episode_meter import EpisodeMeter
from .faults import Fault, OtherFault, ProviderFault, RecorderFault, fault_of, is_machine_failure
from .fixtures import FixtureAnswers
from .handle import EpisodeHandle
from .processes import clipped
from .threads import LARGE, in_thread
from .verifiers import JudgingFault
from .workspace import Workspace

if TYPE_CHECKING:
    from .executor import Executor, Work
    from .live import EpisodeCapture


DEVIATION: Reason = "deviation"
PLAIN = Condition()


class Attempt:
    """One try at one episode."""

    def __init__(self, executor: Executor, work: Work) -> None:
        self.executor = executor
        self.work = work
        self.task = executor.task(work.episode.task)
        self.budget = executor.budget(self.task)
        self.meter = EpisodeMeter(self.budget, executor.settings.metering.allow_unmetered)
        self.meter.experiment = executor.blind
        self.builder = executor.builder(work)
        self.record = Recorder(self.builder, self.meter, executor.clock, executor.prices)
        self.record.prompt_version = executor.prompt_version
        self.stopped_by: str | None = None
        self.crash: Crash | None = None
        self.labels: list[Label] = []
        self.disturbed: Disturbed | None = None
        self.capture: EpisodeCapture | None = None
        self.answers: Answers | None = None
        self.acted = False
        self.assumed = Amounts()
        """What its caps count for calls that nobody saw."""

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
            suite_files=executor.world.files,
        )
        try:
            self.answers = executor.answers_for(self.work.episode)
            if self.answers is None and self.task.fixture is not None:
                self.answers = FixtureAnswers(self.task, executor.world.root)
        except BadInput as error:
            self.stopped_by = DEVIATION
            return Missing(DEVIATION, str(error)), None
        try:
            async with workspace:
                outcome, fault = await self._act(workspace)
                workspace.failed = not self._succeeded(outcome)
            if workspace.kept is not None:
                self.builder.meta["workspace"] = str(workspace.kept)
            return outcome, fault
        except Fault as fault:
            return fault.missing, fault

    async def _act(self, workspace: Workspace) -> tuple[Outcome, Fault | None]:
        """Let the agent act, then judge what it left."""
        folder = workspace.path if workspace.needed else None
        episode, executor = self.work.episode, self.executor
        condition = executor.settings.conditions.get(episode.condition, PLAIN)
        wrap: Callable[..., list[str]] = workspace.wrap_agent
        if executor.capture is not None:
            self.capture = executor.capture.join(self.record, () if self.answers is None else self.answers.policies)
            wrap = partial(wrap, door=self.capture.door)
        if self.answers is not None:
            self.record.stand_in = self.answers.stand_in
        handle = EpisodeHandle(
            executor.shown(self.task),
            episode.seed,
            self.record,
            self.budget,
            workspace=folder,
            condition=seen_by_agent(condition.settings),
            attempt=episode.attempt,
            environment=executor.environment,
            wrap=wrap,
            bounds=executor.settings.bounds,
            capture=self.capture,
        )
        if self.answers is not None:
            self.answers.begin(handle)
        answer = Answer(None)
        began, began_ns = time.monotonic(), executor.clock.now_ns()
        try:
            await self._equip(handle, folder, condition)
            began = time.monotonic()
            self.meter.reserve(NOTHING)
            self.acted = True
            with recording(self.record):
                answer = await self._answer(handle)
        except CapReached as reached:
            if isinstance(reached.__cause__, AgentCrash):
                answer = Answer(reached.__cause__.left)
            self.stopped_by = f"cap.{reached.resource}"  # `meter.experiment` tells if it is not the episode's own
        except (BadInput, MachineFailure):
            raise
        except Exception as error:
            if is_machine_failure(error):
                raise MachineFailure(f"this machine failed: {error}; what was committed is kept") from error
            fault = await self._fault(error)
            if fault is not None:
                return fault.missing, fault
            if isinstance(error, AgentCrash):
                answer = Answer(error.left)
            self.stopped_by = f"crash.{type(error).__name__}"
            self.crash = crash_of(error)
            self.builder.meta["crash"] = self.crash.message
        finally:
            if self.capture is not None:
                await self.capture.leave()
            if self.record.foreign is not None:
                await self._join_telemetry()
            if self.capture is not None:
                self._count_unseen(self.capture)
            self.meter.close()
            self.builder.lasted(began_ns, executor.clock.now_ns())
            self.budget.settle(NOTHING, Amounts(seconds=time.monotonic() - began))
        return await self._outcome(answer, handle, workspace)

    async def _fault(self, error: Exception) -> Fault | None:
        """The fault behind an exception, where it is not the agent's; the recorder's and a refused call's are not."""
        if self.capture is not None:
            await self.capture.leave()  # then it is known what became of its last call
        if is_of_recorder(error):
            return RecorderFault(f"the call could not be recorded: {crash_of(error)}")
        refusal = self._refusal()
        if refusal is not None:
            return ProviderFault(refusal, repr(error))
        bears = self.disturbed is not None and self.disturbed.breaks_calls  # broken calls are the agent's to bear
        fault = None if bears else fault_of(error)
        if isinstance(fault, ProviderFault):  # a call that did not pass the gateway
            self.executor.breaker.refused(fault.refusal)
        return fault

    def _refusal(self) -> ProviderRefusal | None:
        """What of the world ended the agent: nothing was answered, or its last call was refused."""
        outcomes = None if self.capture is None else self.capture.outcomes
        return None if outcomes is None else outcomes.unanswered or outcomes.last

    async def _outcome(
        self, answer: Answer, handle: EpisodeHandle, workspace: Workspace
    ) -> tuple[Outcome, Fault | None]:
        """What became of an agent that has ended: missing where something else ended it, else what the checks say."""
        if self.meter.experiment is not None:
            if isinstance(self.meter.experiment, Unmetered):
                self.executor.blind = self.meter.experiment
                self.stopped_by = f"{UNMETERED}.{self.meter.experiment.resource}"
            return Missing("cap.experiment", str(self.meter.experiment)), None
        if self.capture is not None and self.capture.killed:
            self.stopped_by = "killed"
            return Missing("killed", "the kill switch was pulled while it ran"), None
        text, lost = clipped(answer.text or "")
        if lost:
            answer = Answer(text, {**answer.meta, "left_out": lost})
        self.builder.answer = answer.text
        self.builder.meta.update(answer.meta)
        self.builder.meta.update(handle.meta)
        if self.disturbed is not None:
            self.builder.meta.update(self.disturbed.told)
        if self.capture is not None:
            refusal = self.capture.outcomes.unanswered
            if refusal is not None:
                refused = ProviderFault(refusal)
                return refused.missing, refused
            self.builder.meta.update({REFUSED: self.capture.outcomes.lost} if self.capture.outcomes.lost else {})
        missing = None if self.answers is None else self.answers.close(self.builder)
        if missing is not None:
            self.stopped_by = self.stopped_by or missing.reason
            return missing, None
        if workspace.needed:
            with suppress(OSError):  # what cannot be read is not known
                state = await in_thread(workspace.end_state)
                self.builder.meta.update({} if state is None else {END_STATE: state})
        self.executor.world.check_unchanged(self.task.id)
        outcome, fault = await self._judge(answer, workspace)
        if workspace.looked_at and self.builder.meta.get(SERVED_TOOLS) and not self._succeeded(outcome):
            return Missing(
                "unscored", "its checks look at files, and tools that were not carried out wrote none"
            ), fault
        return outcome, fault

    def _succeeded(self, outcome: Outcome) -> bool:
        return isinstance(outcome, Scored) and outcome.success(self.executor.world.suite.success_at)

    async def _answer(self, handle: EpisodeHandle) -> Answer:
        """What the agent answers. Where a call of its was refused, that ended it, whatever its client raised then."""
        try:
            with nullcontext() if self.capture is None else self.capture.marked():
                return await self._within_time(handle)
        except (CapReached, BadInput, MachineFailure):
            raise
        except Exception as error:
            if (self.capture is not None and self.capture.killed) or (self.answers is not None and self.answers.over):
                return Answer(error.left if isinstance(error, AgentCrash) else None)
            refused = None if self.capture is None else self.capture.refused
            if refused is None or refused.cap is None:
                raise
            raise refused.cap from error

    async def _join_telemetry(self) -> None:
        """What the agent's instrumentors told of the episode becomes part of its trace."""
        from ethogram.wire.otel.episode_spans import finish_spans

        with suppress(CapReached):  # the meter remembers it
            await in_thread(finish_spans, self.record)

    def _count_unseen(self, capture: EpisodeCapture) -> None:
        """Where no call passed the gateway, nobody knows what the agent used.

        Its caps count it as nothing where its connections are seen or its network is closed, else as the dearest
        attempt so far, else as its own cap.
        """
        executor, used = self.executor, self.budget.used
        if capture.refused is not None and capture.refused.cap is not None:
            self.builder.meta[CUT_OFF] = f"cap.{capture.refused.cap.resource}"
        if capture.outside_hosts:
            self.builder.meta[OUTSIDE] = ", ".join(sorted(capture.outside_hosts))
        if capture.unread:
            self.meter.unknown.add(UNSEEN)
        if not self.acted or capture.calls or capture.unread or capture.refused is not None:
            executor.dearest.usd = max(executor.dearest.usd, used.usd)
            executor.dearest.tokens = max(executor.dearest.tokens, used.tokens)
            return
        self.meter.unknown |= {UNSEEN, SILENT, *SPENT}
        if executor.sees_connections:
            return
        caps, dearest = self.budget.caps, executor.dearest
        for name in ("usd", "tokens"):
            counted = getattr(dearest, name) or caps.get(name, 0)
            setattr(self.assumed, name, max(0.0, counted - getattr(used, name)))
        self.budget.settle(NOTHING, self.assumed)

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
            return self._own_tools(handle)
        disturbed = self.disturbed = await in_thread(disturb, wanted, self.task, handle.seed, folder)
        if self.capture is not None:
            self.capture.disturb(disturbed.policies(), disturbed.around)
        elif disturbed.needs_calls:
            raise BadInput(
                f"{wanted.operator} changes model calls, and those of this agent are not captured; "
                "leave out --capture off",
                where=f"the operator {wanted.operator!r}",
            )
        self.builder.meta.update(disturbed.told)
        handle.task = disturbed.task.for_agent()
        self.record.own_tool = disturbed.own_tool
        if self.answers is not None:
            self.record.stand_in = disturbed.left_alone(self.answers.stand_in)
        return disturbed.tools(self._own_tools(handle), others=self.capture is not None)

    def _own_tools(self, handle: EpisodeHandle) -> Mapping[str, Callable[..., Any]]:
        """The tools of the suite; a fixture adds those that it has observations of."""
        own = self.executor.world.tools(self.task, handle)
        return self.answers.tools(own) if isinstance(self.answers, FixtureAnswers) else own

    def _user(self) -> Callable[[EpisodeHandle, str], Any] | None:
        """Who plays the user: code of the suite, so it knows the whole task, which the agent does not."""
        simulator = self.executor.simulator(self.task)
        if simulator is not None:
            simulator = partial(simulator, self.disturbed.task if self.disturbed else self.task)
        return simulator if self.answers is None else self.answers.reply(simulator)

    async def _judge(self, answer: Answer, workspace: Workspace) -> tuple[Outcome, Fault | None]:
        settled = outcome_without_checks(self.executor.world.suite, self.stopped_by)
        if settled is not None:
            return settled, None
        evidence = Evidence(
            answer=answer.text,
            expected=self.task.expected,
            inputs=self.task.inputs,
            calls=tuple(self.record.calls),
            workspace=workspace.path if workspace.needed else None,
        )
        world = self.executor.world
        aside = nullcontext() if self.executor.capture is None else self.executor.capture.aside()
        try:
            with aside:
                if world.judges_at_once(self.task) and len(answer.text or "") < LARGE:
                    labels, outcome = world.judge(self.task, evidence, workspace.wrap)
                else:
                    labels, outcome = await in_thread(world.judge, self.task, evidence, workspace.wrap)
        except JudgingFault as fault:
            self.labels = list(fault.labels)  # what the other checks found is still worth keeping
            return fault.missing, fault
        except Fault as fault:
            return fault.missing, fault
        self.labels = list(labels)
        return outcome_after_stop(world.suite, self.stopped_by, outcome), None

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
