"""Decisions of another prompt or another model at each step of recorded traces.

Each recorded request is sent again as it was (the control) and with the change, and both decisions are held against the
recorded one. What was observed stays what was recorded: nothing that the new decisions would have led to is guessed.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from ethogram.arguments import above_zero, at_least
from ethogram.capture.cleaning import clean_message
from ethogram.capture.draft import Draft
from ethogram.capture.wire.asking import ModelClient, Unanswered, recorded_request
from ethogram.capture.wire.call import ModelReply, ModelRequest, RequestEdits
from ethogram.capture.wire.protocols import PROTOCOLS
from ethogram.capture.wire.protocols.asking import request_body
from ethogram.capture.wire.recorded_calls import RecordedModelCall, recorded_calls
from ethogram.cost import Metering
from ethogram.cost.settings import price_list
from ethogram.display.shorten import shortened
from ethogram.errors import BadUsage, NotFound
from ethogram.lab.trace.traces import find_trace
from ethogram.measure.redecision import (
    Compared,
    Redecision,
    StepDraws,
    TraceDraws,
    decision,
    departs,
    first_departure,
    moved,
    redecision,
)
from ethogram.result import Result
from ethogram.store import Home, Run, home_of
from ethogram.store.redact import Redactor, is_marked, policy_from
from ethogram.trace import Message, Trace

RedecisionArm = Literal["control", "changed"]
SHOWN = 160
"""Characters of a decision that are shown."""


class RedecideOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is changed, how often each decision is repeated, and limits of cost.

    `compared` says what makes two decisions the same: `calls` are tools with their arguments, `names` tools alone.
    """

    prompt: str | None = None
    model: str | None = None
    k: int = 1
    compared: Compared = "calls"
    limit: int | None = None
    workers: int = 8
    max_usd: float | None = None
    metering: Metering = Metering()


class RedecidedStep(msgspec.Struct, frozen=True, kw_only=True):
    """One model step: what was decided when it was recorded, and how often the two policies now decide differently.

    `changed_to` and `control_to` show the first decision that departed; `moved` says that the change moved the step.
    """

    step: int
    recorded: str
    draws: int
    changed_departs: int
    control_departs: int
    moved: bool
    changed_to: str | None = None
    control_to: str | None = None
    unanswered: int = 0
    why: str | None = None


class RedecidedTrace(msgspec.Struct, frozen=True, kw_only=True):
    """One trace: the first step at which each policy departs, and the first that the change moved."""

    trace: str
    run: str
    task: str
    length: int
    first_divergence: int | None
    first_control: int | None
    first_moved: int | None
    steps: list[RedecidedStep]


class RedecideResult(Result, kw_only=True):
    """Repeated decisions; `first_divergence` is that of the only trace, None where there are several.

    `summary` holds the distribution over traces; `missing` counts steps that could not be decided anew, by reason, and
    `redacted` those whose request now holds marks where it had words.
    """

    run: str
    change: dict[str, str]
    k: int
    compared: str
    first_divergence: int | None
    traces: list[RedecidedTrace]
    summary: Redecision
    missing: dict[str, int]
    redacted: int
    calls: int
    cost_usd: float | None
    at_least_usd: float
    stopped: str | None
    control: str = (
        "the recorded prompt and model repeated every decision too, because models are random: only what departs "
        "beyond that is an effect of the change"
    )

    def rows(self) -> list[dict[str, Any]]:
        """One row per trace and step."""
        return [
            {"trace": t.trace, "task": t.task, **msgspec.to_builtins(step)} for t in self.traces for step in t.steps
        ]


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
    redeciding = _Redeciding(options, os.environ if environment is None else environment, progress or (lambda _: None))
    redactors = [lake.redactor(policy_from(found.info.redaction)) for found, _ in sources]
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
        self.replies: dict[RedecisionArm, list[ModelReply | str]] = {"control": [], "changed": []}
        self.requests: dict[RedecisionArm, ModelRequest] = {}
        self.problem: str | None = None
        if not call.reply.message.parts:
            self.problem = "its recorded decision is not known"
            return
        try:
            request = recorded_request(trace, call)
            protocol = PROTOCOLS[request.protocol]
            edits = RequestEdits(system=options.prompt, model=options.model)
            changed = protocol.request(protocol.edited(request_body(request), edits))
        except ValueError as error:
            self.problem = str(error)
            return
        self.requests = {"control": request, "changed": changed}
        self.redacted = any(is_marked(m.text) for m in request.messages)

    def draws(self, compared: Compared) -> StepDraws:
        wanted = decision(self.call.reply.message, compared)

        def of(arm: RedecisionArm) -> tuple[bool | None, ...]:
            said = self.replies[arm]
            return tuple(None if isinstance(r, str) else decision(self._stored(r), compared) != wanted for r in said)

        return StepDraws(step=self.call.step, control=of("control"), changed=of("changed"))

    def _stored(self, reply: ModelReply) -> Message:
        """A reply as it would have been stored: only so can it be compared with the recorded one."""
        return clean_message(reply.message, lambda words: self._redactor.redact(words, "output").text if words else "")


class _Redeciding:
    """All steps of all traces, asked a few at a time until the money is spent."""

    def __init__(self, options: RedecideOptions, environment: Mapping[str, str], tell: Callable[[str], None]) -> None:
        self.options = options
        self.tell = tell
        self.environment = environment
        own = options.metering.prices
        self.prices = Metering(prices=price_list().own if own is None else own).calls()
        self.steps: list[list[_Step]] = []
        self.calls = 0
        self.spent = 0.0
        self.unpriced: str | None = None
        self.stopped: str | None = None

    async def go(self, traces: Sequence[Trace], redactors: Sequence[Redactor]) -> None:
        self.steps = [
            [_Step(trace, call, self.options, redactor) for call in recorded_calls(trace)]
            for trace, redactor in zip(traces, redactors, strict=True)
        ]
        waiting = [
            (step, arm)
            for _ in range(self.options.k)
            for steps in self.steps
            for step in steps
            if step.problem is None
            for arm in step.requests
        ]
        if not waiting:
            problems = Counter(s.problem for steps in self.steps for s in steps)
            why = next(iter(problems), None) or "there are no model calls"
            raise BadUsage(f"no decision can be repeated: {why}; record the agent with: ethogram run --capture gateway")
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

    async def _work(self, client: ModelClient, todo: Any) -> None:
        for step, arm in todo:
            if self.stopped is None and self.options.max_usd is not None and self.spent >= self.options.max_usd:
                self.stopped = "cap.experiment"
            if self.stopped is not None:
                step.replies[arm].append("the cap on dollars was reached")
                continue
            self.calls += 1
            try:
                reply = await client.ask(step.requests[arm])
            except Unanswered as error:
                step.replies[arm].append(str(error))
                continue
            step.replies[arm].append(reply)
            self._pay(step.requests[arm], reply)
            if self.calls % 50 == 0:
                self.tell(f"{self.calls} calls, ${self.spent:.4f}")

    def _pay(self, request: ModelRequest, reply: ModelReply) -> None:
        draft = Draft(kind="model", name="chat", model=reply.model or request.model, start_ns=time.time_ns())
        if reply.usage is not None:
            for name in (
                "input_tokens",
                "cache_read_tokens",
                "cache_write_tokens",
                "output_tokens",
                "reasoning_tokens",
            ):
                setattr(draft, name, getattr(reply.usage, name))
        cost = self.prices.cost(draft)
        if not isinstance(cost, str):
            self.spent += cost
            return
        self.unpriced = cost
        if self.options.max_usd is not None and not self.options.metering.allow_unmetered:
            raise BadUsage(
                f"a call of model {draft.model!r} has no price ({cost}), so the cap on dollars cannot be kept; give "
                f"--price '{draft.model or '*'}=FRESH/OUTPUT', or --allow-unmetered"
            )

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
            calls=self.calls,
            cost_usd=None if self.unpriced is not None else self.spent,
            at_least_usd=self.spent,
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
        return next((_shown(r.message) for r, off in said if off and not isinstance(r, str)), None)

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
