"""Recording a live agent: each call reserves its budget, is timed, and becomes a span when it ends."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from threading import Lock
from typing import Any

from ethogram.cost import Amounts, CallPrices, Meter, PriceList
from ethogram.cost.budget import Resource
from ethogram.cost.metering import tokens_of
from ethogram.trace import Kind, Message, Text, ToolCall, ToolResult

from .builder import TraceBuilder
from .clock import Clock, SystemClock
from .draft import Draft
from .parse import to_json

_current: ContextVar[str | None] = ContextVar("ethogram_span", default=None)


def current_span() -> str | None:
    """The id of the span that work now belongs to."""
    return _current.get()


class Unlimited:
    """A meter without limits."""

    def reserve(self, want: Amounts) -> None:
        """Anything goes."""

    def settle(self, want: Amounts, used: Amounts) -> None:
        """Nothing is counted."""

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
        self._meter = meter or Unlimited()
        self._clock = clock or SystemClock()
        self._seqs = count()
        self._lock = Lock()

    def next_seq(self) -> int:
        """The position of the next span."""
        return next(self._seqs)

    def settle(self, used: Amounts) -> None:
        """Count use that was not reserved: it became known only afterwards."""
        self._meter.settle(Amounts(), used)

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

    def tell_gaps(self, gaps: dict[Resource, str]) -> None:
        """Tell the meter what could not be counted; it raises where that is capped."""
        for resource, why in gaps.items():
            self._meter.unmetered(resource, why)

    def begin(self, kind: Kind, name: str, **fields: Any) -> Draft:
        """A span that begins now; `end` it."""
        seq = self.next_seq()
        parent = _current.get()
        return Draft(
            kind=kind, name=name, seq=seq, span_id=f"s{seq}", parent_id=parent, start_ns=self._clock.now_ns(), **fields
        )

    def end(self, draft: Draft, error: BaseException | None = None) -> None:
        """The span ends now."""
        draft.end_ns = self._clock.now_ns()
        if error is not None:
            draft.status, draft.error = "error", f"{type(error).__name__}: {error}"
        elif draft.status == "unset":
            draft.status = "ok"
        with self._lock:  # threads of one episode end their spans whenever they like
            self.trace.add(draft)

    @contextmanager
    def span(self, name: str, kind: Kind = "agent", **fields: Any) -> Iterator[Draft]:
        """A span around other work: an agent, a phase, a retrieval."""
        draft = self.begin(kind, name, **fields)
        token = _current.set(draft.span_id)
        failed: BaseException | None = None
        try:
            yield draft
        except BaseException as error:
            failed = error
            raise
        finally:
            _current.reset(token)
            self.end(draft, failed)

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
        self._meter.reserve(want)
        draft = self.begin(
            "model",
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
            self._end_model(draft, want, error)
            raise
        self.tell_gaps(self._end_model(draft, want, None))

    def _end_model(self, draft: Draft, want: Amounts, error: BaseException | None) -> dict[Resource, str]:
        """Settle what a call used and end its span; gives what could not be counted of it."""
        draft.status = "unset" if error is None else "error"
        gaps = self.price(draft)
        used = Amounts(steps=1, tokens=tokens_of(draft) or 0, usd=draft.cost_usd or 0.0)
        self._meter.settle(want, used)
        self.end(draft, error)
        return gaps

    def tool(self, name: str, function: Callable[..., Any], /, **arguments: Any) -> Any:
        """Call a tool and record it; an async tool gives an awaitable."""
        if inspect.iscoroutinefunction(function):
            return self._tool_later(name, function, arguments)
        draft = self._begin_tool(name, arguments)
        try:
            result = function(**arguments)
        except BaseException as error:
            self._end_tool(draft, None, error)
            raise
        self._end_tool(draft, result, None)
        return result

    async def _tool_later(self, name: str, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        draft = self._begin_tool(name, arguments)
        try:
            result = await function(**arguments)
        except BaseException as error:
            self._end_tool(draft, None, error)
            raise
        self._end_tool(draft, result, None)
        return result

    def _begin_tool(self, name: str, arguments: dict[str, Any]) -> Draft:
        self._meter.reserve(Amounts(steps=1))
        text = to_json(arguments)
        call_id = f"call_{len(self.calls)}"
        self.calls.append(ToolCall(name, text, call_id))
        return self.begin("tool", name, tool=name, call_id=call_id, arguments=text)

    def _end_tool(self, draft: Draft, result: Any, error: BaseException | None) -> None:
        self._meter.settle(Amounts(steps=1), Amounts(steps=1))
        draft.result = None if error is not None else result if isinstance(result, str) else to_json(result)
        if draft.result is not None:
            draft.output = (Message("tool", (ToolResult(draft.result, draft.name, draft.call_id),)),)
        self.end(draft, error)

    def user(self, text: str, name: str = "user") -> None:
        """A turn of the user, real or simulated."""
        draft = self.begin("user", name, output=(Message("user", (Text(text),)),))
        self.end(draft)
