"""Recording a live agent: each call reserves its budget, is timed, and becomes a span when it ends."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from hashlib import blake2b
from itertools import count
from threading import Lock
from typing import Any, Unpack

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.draft import Draft, PlacedFields, SpanFields, check_fields
from ethogram.capture.parse import to_json
from ethogram.prices import NOTHING, Amounts, CallPrices, CapReached, Meter, PriceList
from ethogram.prices.budget import Resource
from ethogram.prices.prices import RECORDED
from ethogram.prices.worst_case import CallSize, WorstCase, worst_case
from ethogram.traces import Kind, Message, Text, ToolCall, ToolResult, begins_as_error, tokens_of

from .clock import Clock, SystemClock
from .context import ForeignSpans, current_prompt_version, current_span, within_span

RETURNED = "returned"
"""The attribute of a tool span whose result was a value and not words: `json`."""
SEEN = "seen"
"""The attribute of a tool span that the agent carried out by itself, and that was seen at the `wire`."""
SYSTEM = "system:"
"""How the version of a prompt begins that nobody stated: the hash of the system prompt follows."""


class Unlimited:
    """A meter without limits."""

    def reserve(self, want: Amounts) -> None:
        """Anything goes."""

    def settle(self, want: Amounts, used: Amounts) -> None:
        """Nothing is counted."""

    def refused(self, reached: CapReached) -> None:
        """Nothing is refused."""

    def unmetered(self, resource: Resource, why: str) -> None:
        """Nothing is capped."""


class ModelCall:
    """A model call while it runs: fill in what came back."""

    def __init__(self, draft: Draft) -> None:
        self._draft = draft

    def done(
        self,
        output: Message | str,
        *,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        cache_read_tokens: int | None = None,
        cache_write_tokens: int | None = None,
        reasoning_tokens: int | None = None,
        cost_usd: float | None = None,
        stop_reason: str | None = None,
        model: str | None = None,
    ) -> None:
        """The answer, with its usage: `input_tokens` is fresh input only. Without `cost_usd` the model is priced."""
        message = Message("assistant", (Text(output),)) if isinstance(output, str) else output
        draft = self._draft
        draft.output = (message,)
        draft.input_tokens, draft.output_tokens = input_tokens, output_tokens
        draft.cache_read_tokens, draft.cache_write_tokens = cache_read_tokens, cache_write_tokens
        draft.reasoning_tokens, draft.cost_usd = reasoning_tokens, cost_usd
        draft.stop_reason = stop_reason or ("tool_calls" if message.tool_calls else "stop")
        draft.model = model or draft.model


class Recorder:
    """Writes one trace while it happens. Spans nest by context, also across `await` and threads of one episode."""

    def __init__(
        self,
        trace: TraceBuilder,
        meter: Meter | None = None,
        clock: Clock | None = None,
        prices: CallPrices | None = None,
    ) -> None:
        """`meter` is asked before each call; `prices` turn recorded tokens into dollars, by default the table's."""
        self.trace = trace
        self._prices = prices or CallPrices(PriceList())
        self.calls: list[ToolCall] = []
        self.stand_in: Callable[[str, Callable[..., Any]], Callable[..., Any]] | None = None
        """What to call in place of a tool, e.g. its recorded answers; None calls the tool itself."""
        self.served_aside = 0
        """Model calls that were answered from a record, and that the agent will record itself: they cost nothing."""
        self.own_tool: Callable[[str, Callable[..., Any]], Callable[..., Any]] = _as_it_is
        """What a tool that the agent brings by itself becomes, e.g. one that a condition disturbs."""
        self.foreign: ForeignSpans | None = None
        """Spans of the episode that instrumentors open, where there are any."""
        self.prompt_version: str | None = None
        """The version of the agent's prompt, for model calls around which nobody states another."""
        self._meter = meter or Unlimited()
        self._clock = clock or SystemClock()
        self._seqs = count()
        self._lanes: dict[str, str] = {}
        self._agents: dict[str, str] = {}
        self._systems: dict[str, str | None] = {}
        self._lock = Lock()

    def next_seq(self) -> int:
        """The position of the next span."""
        return next(self._seqs)

    def settle(self, used: Amounts) -> None:
        """Count use that was not reserved: it became known only afterwards."""
        self._meter.settle(NOTHING, used)

    def price(self, draft: Draft) -> dict[Resource, str]:
        """Fill in what a model call cost; gives the resources of which it used an unknown amount, and why.

        A call that failed and tells no usage is taken to have used none.
        """
        used = tokens_of(draft)
        if draft.status == "error" and used is None and draft.cost_usd is None:
            return {}
        gaps: dict[Resource, str] = {}
        name = f"model {draft.model!r}" if draft.model else "a model without a name"
        if used is None:
            gaps["tokens"] = f"a call of {name} tells no token counts; record them with call.done(…, input_tokens=…)"
        cost = self._prices.cost(draft)
        draft.cost_usd = None if isinstance(cost, str) else cost
        if isinstance(cost, str):
            helps = f"; give it with --price '{draft.model or '*'}=FRESH/OUTPUT'" if used is not None else ""
            gaps["usd"] = f"{name} has no price ({cost}){helps}"
        return gaps

    def worst_case(self, model: str | None, provider: str | None, size: CallSize) -> WorstCase:
        """The most that a model call can use by the prices of this trace."""
        return worst_case(self._prices, model, provider, self._clock.now_ns(), size)

    def check_budget(self) -> None:
        """Raise `CapReached` where nothing is left: for calls whose use cannot be reserved."""
        self._meter.reserve(NOTHING)

    def tell_gaps(self, gaps: dict[Resource, str]) -> None:
        """Tell the meter what could not be counted; it raises where that is capped."""
        for resource, why in gaps.items():
            self._meter.unmetered(resource, why)

    def lane_of(self, span: str | None) -> str:
        """The lane of a span that has one, such as the simulated user's: what happens in it belongs there too."""
        return self._lanes.get(span or "", "")

    def now_ns(self) -> int:
        """The time by the clock of this trace."""
        return self._clock.now_ns()

    def begin(self, kind: Kind, name: str, *, parent_id: str | None = None, **fields: Unpack[SpanFields]) -> Draft:
        """A span that begins now; `end` it. `parent_id` is for work seen from another thread, which has no context."""
        seq = self.next_seq()
        fields.setdefault("start_ns", self._clock.now_ns())
        parent = parent_id or current_span(self.foreign)
        draft = Draft(kind=kind, name=name, seq=seq, span_id=f"s{seq}", parent_id=parent, **fields)
        if not draft.agent and self._agents:
            draft.agent = self._agents.get(parent or "", "")
        if kind == "model" and draft.prompt_version is None:
            draft.prompt_version = current_prompt_version() or self.prompt_version or self._system(draft)
        return draft

    def _system(self, draft: Draft) -> str | None:
        """The hash of the system prompt; a call that goes on with a conversation has that of the call before it."""
        told = [m.text for m in draft.input if m.role in ("system", "developer")]
        if told or not draft.growing:
            self._systems[draft.lane] = prompt_hash("\n".join(told)) if told else None
        return self._systems.get(draft.lane)

    def end(self, draft: Draft, error: BaseException | str | None = None) -> None:
        """The span ends now, unless it says when it ended."""
        if draft.end_ns is None:
            draft.end_ns = self._clock.now_ns()
        if error is not None:
            draft.status = "error"
            draft.error = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        elif draft.status == "unset":
            draft.status = "ok"
        with self._lock:  # threads of one episode end their spans whenever they like
            draft.span_id = self.trace.add(draft)
            if self.foreign is not None:
                self.foreign.recorded(draft)

    @contextmanager
    def span(self, name: str, kind: Kind = "agent", **fields: Unpack[PlacedFields]) -> Iterator[Draft]:
        """A span around other work: an agent, a phase, a retrieval."""
        draft = self.begin(kind, name, **fields)
        assert draft.span_id is not None
        if draft.lane:
            self._lanes[draft.span_id] = draft.lane
        if kind == "agent" or draft.agent:
            draft.agent = self._agents[draft.span_id] = draft.agent or name
        failed: BaseException | None = None
        try:
            with self._within(draft):
                yield draft
        except BaseException as error:
            failed = error
            raise
        finally:
            self.end(draft, failed)

    def _within(self, draft: Draft) -> AbstractContextManager[None]:
        """What is called in this block belongs to a span that is open."""
        return within_span(draft.span_id, None if self.foreign is None else self.foreign.current())

    @contextmanager
    def model(
        self,
        *,
        input: Sequence[Message] = (),
        growing: bool = False,
        model: str | None = None,
        provider: str | None = None,
        params: dict[str, Any] | None = None,
        at_most_tokens: int = 0,
        at_most_usd: float = 0.0,
        name: str = "chat",
        agent: str = "",
        lane: str = "",
    ) -> Iterator[ModelCall]:
        """A model call. What it may use at most is reserved before the call, what it used is settled after."""
        want = Amounts(steps=1, tokens=at_most_tokens, usd=at_most_usd)
        draft = self.begin_model(
            want,
            name,
            input=input,
            growing=growing,
            model=model,
            provider=provider,
            params=params or {},
            agent=agent,
            lane=lane,
        )
        try:
            yield ModelCall(draft)
        except BaseException as error:
            self.end_model(draft, want, error)
            raise
        self.tell_gaps(self.end_model(draft, want))

    def begin_model(
        self, want: Amounts, name: str = "chat", *, waits: bool = False, **fields: Unpack[PlacedFields]
    ) -> Draft:
        """Reserve what a model call may use at most and begin its span; raises `CapReached` where it does not fit.

        Who `waits` tries again if it may fit later, so that the call is not refused yet.
        `model` is the way to call it around a block; this and `end_model` are for calls that other threads see pass.
        """
        check_fields("Recorder.begin_model", fields)  # before anything is reserved, which nobody would give back
        try:
            self._meter.reserve(want)
        except CapReached as reached:
            if not (waits and reached.may_pass):
                self._meter.refused(reached)
            raise
        return self.begin("model", name, **fields)

    def end_model(
        self, draft: Draft, want: Amounts, error: BaseException | str | None = None, *, uncertain: bool = False
    ) -> dict[Resource, str]:
        """Settle what a call used and end its span; gives what could not be counted of it, for `tell_gaps`.

        An `uncertain` call, whose provider did not say what it used, keeps all that was reserved for it.
        """
        draft.status = "unset" if error is None else "error"
        if self.served_aside:
            self.served_aside -= 1
            draft.cost_usd, draft.provider = 0.0, RECORDED
            gaps: dict[Resource, str] = {}
        else:
            gaps = self.price(draft)
        used = Amounts(steps=1, tokens=tokens_of(draft) or 0, usd=draft.cost_usd or 0.0)
        if uncertain:
            used = Amounts(steps=1, tokens=max(used.tokens, want.tokens), usd=max(used.usd, want.usd))
        self._meter.settle(want, used)
        self.end(draft, error)
        return gaps

    def end_served(self, draft: Draft, want: Amounts, error: str | None = None) -> None:
        """End a model call that was answered here: it counts as a step with its tokens, and cost nothing."""
        draft.cost_usd, draft.provider = 0.0, RECORDED
        self._meter.settle(want, Amounts(steps=1, tokens=tokens_of(draft) or 0))
        self.end(draft, error)

    def tool(self, name: str, function: Callable[..., Any], /, **arguments: Any) -> Any:
        """Call a tool and record it, with what it calls below it; an async tool gives an awaitable."""
        if self.stand_in is not None:
            function = self.stand_in(name, function)
        if inspect.iscoroutinefunction(function):
            return self._tool_later(name, function, arguments)
        draft = self.begin_tool(name, arguments)
        try:
            with self._within(draft):
                result = function(**arguments)
        except BaseException as error:
            self.end_tool(draft, None, error)
            raise
        self.end_tool(draft, result)
        return result

    async def _tool_later(self, name: str, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        draft = self.begin_tool(name, arguments)
        try:
            with self._within(draft):
                result = await function(**arguments)
        except BaseException as error:
            self.end_tool(draft, None, error)
            raise
        self.end_tool(draft, result)
        return result

    def begin_tool(self, name: str, arguments: dict[str, Any], *, parent_id: str | None = None) -> Draft:
        """A tool is called now; `end_tool` it. Raises `CapReached` where the budget has no step left."""
        self._meter.reserve(Amounts(steps=1))
        text = to_json(arguments)
        call_id = f"call_{len(self.calls)}"
        self.calls.append(ToolCall(name, text, call_id))
        return self.begin("tool", name, tool=name, call_id=call_id, arguments=text, parent_id=parent_id)

    def end_tool(self, draft: Draft, result: Any, error: BaseException | None = None) -> None:
        """A tool has answered, or failed with an error."""
        self._meter.settle(Amounts(steps=1), Amounts(steps=1))
        if error is None and not isinstance(result, str):
            draft.attributes = {**draft.attributes, RETURNED: "json"}
        draft.result = None if error is not None else result if isinstance(result, str) else to_json(result)
        if draft.result is not None:
            failed = draft.status == "error"
            draft.output = (Message("tool", (ToolResult(draft.result, draft.name, draft.call_id, failed),)),)
        self.end(draft, error)

    def seen_tool(self, call: ToolCall, result: ToolResult, *, start_ns: int, parent_id: str | None = None) -> None:
        """A tool call that somebody else carried out and whose result was just seen; it counts as a step.

        Nobody saw whether it failed: its first words tell, as in a log.
        """
        self.calls.append(call)
        self._meter.settle(NOTHING, Amounts(steps=1))
        draft = self.begin(
            "tool",
            call.name,
            parent_id=parent_id,
            start_ns=start_ns,
            tool=call.name,
            call_id=call.call_id,
            arguments=call.arguments,
            result=result.content,
            output=(Message("tool", (result,)),),
            attributes={SEEN: "wire"},
            status="error" if result.failed or begins_as_error(result.content) else "unset",
        )
        self.end(draft)


def _as_it_is(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def prompt_hash(text: str) -> str:
    """The version of a prompt of which nothing but its words is known."""
    return SYSTEM + blake2b(text.encode("utf-8", "replace"), digest_size=4).hexdigest()
