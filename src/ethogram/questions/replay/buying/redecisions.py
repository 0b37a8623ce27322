"""Decisions of another prompt or another model at each step of recorded traces.

Each recorded request is sent again as it was (the control) and with the change, and both decisions are held against the
recorded one. What was observed stays what was recorded: nothing that the new decisions would have led to is guessed.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Literal

import msgspec

from ethogram.arguments import above_zero, at_least
from ethogram.capture.cleaning import clean_message
from ethogram.display.money import dollars
from ethogram.display.shorten import shortened
from ethogram.errors import BadUsage, NotFound
from ethogram.harness.call_budget import CHARACTERS_PER_TOKEN, CallBudget, CallLimits
from ethogram.harness.reply_cache import ReplyCache
from ethogram.prices import Amounts, CapReached, Metering
from ethogram.questions.replay.redecision import (
    Compared,
    StepDraws,
    TraceDraws,
    decision,
    departs,
    first_departure,
    moved,
    redecision,
)
from ethogram.questions.replay.results import RedecidedStep, RedecidedTrace, RedecideResult
from ethogram.reading.traces import find_trace
from ethogram.store import Home, Run, home_of
from ethogram.store.redact import Redactor, policy_from
from ethogram.store.stop import pulled
from ethogram.traces import Message, Trace, digest, is_marked
from ethogram.wire.gateway.call import ModelReply, ModelRequest, RequestEdits, Usage
from ethogram.wire.gateway.protocols import PROTOCOLS
from ethogram.wire.gateway.protocols.asking import request_body
from ethogram.wire.gateway.recorded_calls import RecordedModelCall, recorded_calls
from ethogram.wire.gateway.sent_again import ModelClient, Unanswered, recorded_request

RedecisionArm = Literal["control", "changed"]
STOPPED = {"cap.experiment": "the cap on dollars was reached", "killed": "the kill switch is on"}
"""Why a decision was not asked for."""
SHOWN = 160
"""Characters of a decision that are shown."""


class RedecideOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is changed, how often each decision is repeated, and limits of cost.

    Replies are kept with the run, so the same question costs nothing a second time; `again` asks anew.

    `compared` says what makes two decisions the same: `calls` are tools with their arguments, `names` tools alone.
    """

    prompt: str | None = None
    model: str | None = None
    k: int = 1
    compared: Compared = "calls"
    limit: int | None = None
    again: bool = False
    workers: int = 8
    max_usd: float | None = None
    metering: Metering = Metering()


def redecide(
    what: str,
    options: RedecideOptions,
    *,
    run: str | None = None,
    home: Home | str | None = None,
    environment: Mapping[str, str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> RedecideResult:
    """Repeat every model decision of a trace, or of all traces of a run, with another prompt or model.

    Args:
        what: the start of a trace's id, or a run.
        options: the change, and how far to go.
        run: where to look for the trace.
        home: the home.
        environment: where addresses and keys of providers are found; by default ours.
        progress: called with one sentence now and then.

    Raises:
        BadUsage: nothing is changed, or no key is at hand.
        NotFound: there is no such trace and no such run.

    Example: `redecide("4f1c22", RedecideOptions(model="small")).first_divergence`
    """
    if options.prompt is None and options.model is None:
        raise BadUsage("nothing is changed: give --prompt FILE, --model NAME, or both")
    at_least("k", options.k, 1)
    if options.max_usd is not None:
        above_zero("max_usd", options.max_usd)
    lake = home_of(home)
    sources = _sources(what, run, lake, options.limit)
    redactors = [lake.redactor(policy_from(found.info.redaction)) for found, _ in sources]
    redeciding = _Redeciding(
        options,
        os.environ if environment is None else environment,
        progress or (lambda _: None),
        sources[0][0],
        redactors[0],
    )
    asyncio.run(redeciding.go([trace for _, trace in sources], redactors))
    return redeciding.result(sources)


def _sources(what: str, run: str | None, home: Home, limit: int | None) -> list[tuple[Run, Trace]]:
    """The traces that are meant: one, or those of a run."""
    try:
        found, entry = find_trace(what, run=run, home=home)
    except NotFound:
        if run is not None:
            raise
        named = home.resolve(what)
        ordered = sorted(named.entries, key=lambda e: (e.head.task, e.head.attempt, e.head.condition))
        entries = ordered[:limit] if limit else ordered
        if not entries:
            raise BadUsage(f"run {named.name!r} has no traces") from None
        return [(named, named.trace(entry)) for entry in entries]
    return [(found, found.trace(entry))]


class _Step:
    """One model step while its decision is repeated."""

    def __init__(self, trace: Trace, call: RecordedModelCall, options: RedecideOptions, redactor: Redactor) -> None:
        self.call = call
        self._redactor = redactor
        self.redacted = False
        self.replies: dict[RedecisionArm, list[Message | str]] = {"control": [], "changed": []}
        self.requests: dict[RedecisionArm, ModelRequest] = {}
        self.problem: str | None = None
        self.at_most = Usage()
        """What a call may use, as far as its request tells."""
        if not call.reply.message.parts:
            self.problem = "its recorded decision is not known"
            return
        try:
            request = recorded_request(trace, call)
            protocol = PROTOCOLS[request.protocol]
            edits = RequestEdits(system=options.prompt, model=options.model)
            bodies = (body := request_body(request), protocol.edited(body, edits))
            changed = protocol.request(bodies[1])
        except ValueError as error:
            self.problem = str(error)
            return
        self.at_most = Usage(
            input_tokens=int(max(map(len, bodies)) / CHARACTERS_PER_TOKEN), output_tokens=changed.at_most_tokens
        )
        self.requests = {"control": request, "changed": changed}
        self.redacted = any(is_marked(m.text) for m in request.messages)

    def draws(self, compared: Compared) -> StepDraws:
        wanted = decision(self.call.reply.message, compared)

        def of(arm: RedecisionArm) -> tuple[bool | None, ...]:
            said = self.replies[arm]
            return tuple(None if isinstance(r, str) else decision(r, compared) != wanted for r in said)

        return StepDraws(step=self.call.step, control=of("control"), changed=of("changed"))

    def stored(self, reply: ModelReply) -> Message:
        """A reply as it would have been stored: only so can it be compared with the recorded one."""
        return clean_message(reply.message, lambda words: self._redactor.redact(words, "output").text if words else "")


class _Redeciding:
    """All steps of all traces, asked a few at a time until a cap or the kill switch ends it."""

    def __init__(
        self,
        options: RedecideOptions,
        environment: Mapping[str, str],
        tell: Callable[[str], None],
        run: Run,
        redactor: Redactor,
    ) -> None:
        self.options = options
        self.tell = tell
        self.environment = environment
        self.run = run
        self.cache = ReplyCache.of(run, redactor, "decision")
        self.kept = 0
        limits = CallLimits(max_usd=options.max_usd, metering=options.metering)
        self.budget = CallBudget("experiment", limits, "--allow-unmetered to cap only what is priced")
        self.steps: list[list[_Step]] = []
        self.stopped: str | None = None
        self._open = 0
        self._room = asyncio.Condition()
        self._longest = 0

    async def go(self, traces: Sequence[Trace], redactors: Sequence[Redactor]) -> None:
        self.steps = [
            [_Step(trace, call, self.options, redactor) for call in recorded_calls(trace)]
            for trace, redactor in zip(traces, redactors, strict=True)
        ]
        waiting = [
            (step, arm, draw)
            for draw in range(self.options.k)
            for steps in self.steps
            for step in steps
            if step.problem is None
            for arm in step.requests
        ]
        if not waiting:
            problems = Counter(s.problem for steps in self.steps for s in steps)
            why = next(iter(problems), None) or "there are no model calls"
            raise BadUsage(f"no decision can be repeated: {why}; record the agent with: ethogram run --capture gateway")
        for model in {step.requests[arm].model for step, arm, _ in waiting}:
            self.budget.check(model, None)
        self._longest = max(step.call.span.output_tokens or 0 for step, _, _ in waiting)
        todo = iter(waiting)
        async with ModelClient(self.environment) as client:
            workers = [
                asyncio.create_task(self._work(client, todo)) for _ in range(min(self.options.workers, len(waiting)))
            ]
            try:
                await asyncio.gather(*workers)
            finally:
                for worker in workers:
                    worker.cancel()

    async def _work(self, client: ModelClient, todo: Iterator[tuple[_Step, RedecisionArm, int]]) -> None:
        for step, arm, draw in todo:
            request = step.requests[arm]
            asked = digest("decision", client.address(request.protocol), request_body(request), str(draw))
            if (known := self._known(asked)) is not None:
                self.kept += 1
                step.replies[arm].append(known)
                continue
            reserved = await self._reserve(step, request.model)
            if reserved is None:
                step.replies[arm].append(STOPPED[self.stopped or "cap.experiment"])
                continue
            reply: ModelReply | None = None
            try:
                reply = await client.ask(request)
                stored = step.stored(reply)
                step.replies[arm].append(stored)
                if self.cache is not None:
                    self.cache.keep(asked, msgspec.json.encode(stored).decode())
            except Unanswered as error:
                step.replies[arm].append(str(error))
            finally:
                await self._settle(reserved, request, reply)
            if (use := self.budget.use()).calls % 50 == 0:
                self.tell(f"{use.calls} calls, {dollars(use.at_least_usd)}")

    def _known(self, asked: str) -> Message | None:
        """The reply that was bought for the same request, as the same draw."""
        text = None if self.cache is None or self.options.again else self.cache.find(asked)
        if text is None:
            return None
        with suppress(msgspec.MsgspecError):
            return msgspec.json.decode(text, type=Message)
        return None

    async def _reserve(self, step: _Step, model: str | None) -> Amounts | None:
        """Set aside what a call may cost at most; where others still hold the rest of the cap, wait for them.

        A request that does not limit its reply is taken to get one as long as the longest so far.
        """
        most = step.at_most
        if most.output_tokens is None:
            most = msgspec.structs.replace(most, output_tokens=self._longest)
        async with self._room:
            while True:
                if self.stopped is None and pulled(self.run.files, self.run.path) is not None:
                    self.stopped = "killed"
                if self.stopped is not None:
                    return None
                try:
                    reserved = self.budget.reserve(model, None, most)
                except CapReached:
                    if self._open == 0:
                        self.stopped = "cap.experiment"
                        return None
                    await self._room.wait()
                else:
                    self._open += 1
                    return reserved

    async def _settle(self, reserved: Amounts, request: ModelRequest, reply: ModelReply | None) -> None:
        if reply is None:
            self.budget.release(reserved)
        else:
            self.budget.settle(reserved, reply.model or request.model, None, reply.usage)
            self._longest = max(self._longest, reply.usage.output_tokens or 0 if reply.usage is not None else 0)
        async with self._room:
            self._open -= 1
            self._room.notify_all()

    def result(self, sources: Sequence[tuple[Run, Trace]]) -> RedecideResult:
        options = self.options
        draws = [
            TraceDraws(
                task=trace.head.task,
                length=len(trace.steps),
                steps=tuple(s.draws(options.compared) for s in steps if s.problem is None),
            )
            for (_, trace), steps in zip(sources, self.steps, strict=True)
        ]
        told = [_told(*source, steps, d, options) for source, steps, d in zip(sources, self.steps, draws, strict=True)]
        missing = Counter(s.problem for steps in self.steps for s in steps if s.problem is not None)
        missing.update(
            r for steps in self.steps for s in steps for a in s.replies.values() for r in a if isinstance(r, str)
        )
        use = self.budget.use()
        change = {"prompt": options.prompt, "model": options.model}
        return RedecideResult(
            run=sources[0][0].name,
            change={name: value for name, value in change.items() if value is not None},
            k=options.k,
            compared=options.compared,
            first_divergence=told[0].first_divergence if len(told) == 1 else None,
            traces=told,
            summary=redecision([d for d in draws if d.steps]),
            missing=dict(missing),
            redacted=sum(s.redacted for steps in self.steps for s in steps),
            calls=use.calls,
            kept=self.kept,
            cost_usd=use.cost_usd,
            at_least_usd=use.at_least_usd,
            stopped=self.stopped,
        )


def _told(
    run: Run, trace: Trace, steps: Sequence[_Step], draws: TraceDraws, options: RedecideOptions
) -> RedecidedTrace:
    by_step = {d.step: (d, went) for d, went in zip(draws.steps, moved(draws.steps), strict=True)}
    return RedecidedTrace(
        trace=trace.head.trace_id,
        run=run.name,
        task=trace.head.task,
        length=len(trace.steps),
        first_divergence=first_departure(draws.steps, "changed"),
        first_control=first_departure(draws.steps, "control"),
        first_moved=next((d.step for d, went in by_step.values() if went and departs(d.changed)), None),
        steps=[_row(s, by_step.get(s.call.step), options) for s in steps],
    )


def _row(step: _Step, found: tuple[StepDraws, bool] | None, options: RedecideOptions) -> RedecidedStep:
    recorded = _shown(step.call.reply.message)
    if found is None:
        return RedecidedStep(
            step=step.call.step,
            recorded=recorded,
            draws=0,
            changed_departs=0,
            control_departs=0,
            moved=False,
            why=step.problem,
        )
    draws, went = found

    def first(arm: RedecisionArm) -> str | None:
        said = zip(step.replies[arm], getattr(draws, arm), strict=True)
        return next((_shown(r) for r, off in said if off and not isinstance(r, str)), None)

    unanswered = sum(d is None for d in (*draws.control, *draws.changed))
    return RedecidedStep(
        step=draws.step,
        recorded=recorded,
        draws=options.k,
        changed_departs=sum(d is True for d in draws.changed),
        control_departs=sum(d is True for d in draws.control),
        moved=went,
        changed_to=first("changed"),
        control_to=first("control"),
        unanswered=unanswered,
    )


def _shown(message: Message) -> str:
    """A decision in a line: the calls, else the words."""
    calls = [f"{c.name}({c.arguments})" for c in message.tool_calls]
    line = " ".join((", ".join(calls) or message.text).split())
    return shortened(line, SHOWN)
