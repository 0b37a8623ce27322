"""One model call through the gateway: decide, reserve its budget, forward, record."""

from __future__ import annotations

import asyncio
import functools
from contextlib import nullcontext
from typing import Any
from urllib.parse import unquote

import msgspec

from ethogram.capture.draft import Draft
from ethogram.prices import Amounts, CapReached
from ethogram.wire.asgi import Headers

from .call import (
    BUDGET_REFUSED,
    CAP_REACHED,
    ENDED,
    Decision,
    Forward,
    ModelReply,
    ModelRequest,
    Refuse,
    Serve,
    WireProtocol,
)
from .call_fields import fill_draft
from .call_size import call_size, what_fits
from .client import ClientSide
from .connections import Connections
from .deferred import Later
from .forwarding import forwarded
from .protocols import settled_usage
from .refusals import NO_RETRY, ProviderRefusal, held_call, held_headers
from .registered_episode import ABOUT_THE_EPISODE, Joined
from .reply_passage import ReplyPassage
from .upstream_http import UpstreamFailed
from .upstreams import Upstream

WANT = Amounts(steps=1)
"""What is reserved for a call that costs nothing, or that nothing can refuse."""
MOST_WAIT_SECONDS, LONGEST_PAUSE_SECONDS = 120.0, 0.1
"""How long a call waits for open ones to settle, where it may fit then, and how long between two looks at most."""
LARGE = 1 << 20
"""Bodies above this size are worked through in another thread."""
ASIDE = 1 << 17
"""Calls above this size are recorded in another thread: to look for secrets in what is new takes milliseconds."""
NO_MORE: Headers = []
UNREACHED = "ethogram_upstream_failed"


class Exchange:
    """One call of a joined episode whose request was read."""

    def __init__(
        self,
        joined: Joined,
        protocol: WireProtocol,
        request: ModelRequest,
        started_ns: int,
        span: bytes | None = None,
        prompt: bytes | None = None,
        later: Later | None = None,
    ) -> None:
        """`started_ns` is when the request arrived; where the client told, `span` is the span in which it was made and
        `prompt` the version of its prompt. With `later`, the call is recorded when no bytes are on their way."""
        self.joined = joined
        self.protocol = protocol
        self.request = request
        self.started_ns = started_ns
        self.parent = span.decode("latin-1") if span is not None else joined.parent
        self.prompt_version = unquote(prompt.decode("latin-1")) if prompt else None
        self.over = asyncio.Event()
        self._task = asyncio.current_task()
        self.ended_ns: int | None = None
        """When the reply was over, where that is not now."""
        self.closed_because: str | None = None
        """Why it was ended from outside, if it was."""
        self._later = later
        self._draft: Draft | None = None
        self._passage = ReplyPassage(protocol, later)
        self._ended = self._waits = False
        self.in_thread = False
        """Whether it is being recorded in another thread, or was."""
        self._watcher: asyncio.Task[None] | None = None
        self._note = ""
        self._want = WANT
        self._upstream: Upstream

    @property
    def complete(self) -> bool:
        """Whether the reply is complete, though not recorded yet."""
        copy = self._passage.copy
        return self._draft is not None and copy is not None and not self._ended and copy.complete

    def close(self, why: str) -> None:
        """End the call from outside; `over` is set once it is recorded."""
        if self.complete:
            self.end()
        self.closed_because = why
        if self._task is not None and not self.in_thread:  # what is being recorded is over soon
            self._task.cancel()

    async def carry(
        self, client: ClientSide, connections: Connections, upstream: Upstream, path: bytes, body: bytes
    ) -> None:
        """Carry out the call. A reply that breaks off is left unfinished, so that the client sees it as broken."""
        joined = self.joined
        await joined.finish_complete()
        if self._later is not None:
            self._later.drain()  # what other calls used counts before this one is allowed
        joined.in_flight.add(self)
        self._watcher = client.watch()
        try:
            joined.asked.seen(self.request.messages, self.parent)
            decision: Decision | None = joined.ended() or self._capped()
            if decision is None:
                decision, body = self._decided(body)
            delay = getattr(decision, "delay_seconds", 0.0)
            if delay:
                await asyncio.sleep(delay)
            if isinstance(decision, Serve):
                await self._serve(client, decision, upstream)
            elif isinstance(decision, Refuse):
                await self._refuse(client, decision, upstream)
            else:
                await self._forward(client, connections, upstream, path, body, decision or Forward())
        except asyncio.CancelledError:
            if not client.gone and self.closed_because is None:
                raise
            # clients close a stream as soon as its last event is there
            told = "the client closed the connection" if client.gone else self.closed_because
            self.end(None if self.complete else told)
            if not client.started and not client.gone:
                await self.tell_closed(client)
        finally:
            self._watcher.cancel()
            if not self._waits:
                self.let_go()

    def begin_under_way(self, upstream: Upstream, passage: ReplyPassage, task: asyncio.Task[Any] | None) -> None:
        """Begin the span of a call that `task` has sent already; `passage` is its reply, as far as there is one."""
        self._passage, self._task = passage, task
        self.joined.end_complete()
        self.joined.asked.seen(self.request.messages, self.parent)
        self._draft = self.joined.record.begin_model(WANT, **self._fields(upstream))
        self.joined.calls += 1
        self.joined.in_flight.add(self)  # last: what is in flight is waited for until it is recorded

    def let_go(self) -> None:
        """The call is over and recorded."""
        self.joined.in_flight.discard(self)
        self.over.set()

    async def tell_closed(self, client: ClientSide) -> None:
        """Answer a client whose call was ended from outside before its reply began."""
        await self._answer(client, 403, ENDED, self.closed_because or "")

    def _capped(self) -> Refuse | None:
        """Why the budget allows no further call, asked before policies are: they may count what they decide."""
        return self.joined.over_budget() if self.joined.policies or self.joined.faults else None

    def _decided(self, body: bytes) -> tuple[Decision | None, bytes]:
        """What is done with the call, and its body: what is disturbed in it is changed before anybody reads it."""
        fault = self.joined.fault(self.request)
        if isinstance(fault, Forward) and fault.edits is not None:
            body = self.protocol.edited(body, fault.edits)
            self.request = self.protocol.request(body)
            fault = msgspec.structs.replace(fault, edits=None)
        return self.joined.decide(self.request, fault), body

    async def _forward(
        self,
        client: ClientSide,
        connections: Connections,
        upstream: Upstream,
        path: bytes,
        body: bytes,
        decision: Forward,
    ) -> None:
        if decision.edits is not None:
            body = self.protocol.edited(body, decision.edits)
            self.request = self.protocol.request(body)
        self._note = decision.note
        held = self.joined.outcomes.instead()
        if held is not None:
            await self._refuse(client, held_call(held), upstream, held)
            return
        if self._later is not None:
            self._later.drain()
            self._later.busy()
        try:
            self._draft = await self._reserved(upstream, body)
        except CapReached as reached:
            await self._refuse(client, self.joined.ended() or self.joined.refuse_cap(reached), upstream)
            return
        self.joined.calls += 1
        try:
            response = await connections.send(forwarded(client, upstream, path, body), upstream.origin)
        except UpstreamFailed as error:
            why = f"the upstream {upstream.origin} failed: {error}"
            self.end(why, failed=error)
            await self._answer(client, 502, UNREACHED, why)
            return
        try:
            failure = await self._passage.pass_on(client, response, decision.cut_after)
        finally:
            await response.aclose()
        await self._record(failure, len(body))

    async def _reserved(self, upstream: Upstream, body: bytes) -> Draft:
        """Set aside the most that the call can use, and begin its span. Where that does not fit while other calls are
        open, wait for them; raises `CapReached` where it does not fit then either."""
        record, request = self.joined.record, self.request
        most = record.worst_case(request.model, upstream.provider, call_size(request, body))
        self._want = most.amounts
        clock = asyncio.get_running_loop().time
        until, pause = clock() + MOST_WAIT_SECONDS, 0.001
        while True:
            waits = clock() < until and self.joined.ended() is None
            try:
                return record.begin_model(self._want, waits=waits, **self._fields(upstream))
            except CapReached as reached:
                if not (waits and reached.may_pass):
                    reached.advice = what_fits(reached, most, request)
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            if self._later is not None:
                self._later.drain()  # what is over, but not recorded yet, gives back what it reserved

    async def _record(self, failure: str | None, size: int) -> None:
        """Record the call that is over; where it is large, in another thread, which nothing interrupts."""
        copy, later = self._passage.copy, self._later
        size += copy.received if copy is not None else 0
        if later is not None and size < LARGE:
            self.ended_ns = self.joined.record.now_ns()
            self._waits = True
            later.add(functools.partial(self._end_later, failure), size)
            return
        if later is None and size < ASIDE:
            for _ in range(2):  # replies that have arrived meanwhile are passed on first: one turn reads, one writes
                await asyncio.sleep(0)
            self.end(failure)
            return
        if self._watcher is not None:
            self._watcher.cancel()
        self.in_thread = True
        with later.beside() if later is not None else nullcontext():
            await asyncio.to_thread(self.end, failure)

    def _end_later(self, failure: str | None) -> None:
        self.end(failure)
        self.let_go()

    async def _serve(self, client: ClientSide, decision: Serve, upstream: Upstream) -> None:
        """Answer in place of the upstream."""
        self._note = decision.note
        try:
            self._record_served(decision.reply, upstream)
        except CapReached as reached:
            await self._refuse(client, self.joined.refuse_cap(reached), upstream)
            return
        if not self.request.stream:
            await client.answer(200, self.protocol.body_of(decision.reply))
            return
        await client.start(200, [(b"content-type", b"text/event-stream; charset=utf-8")])
        for event in self.protocol.events_of(decision.reply):
            await client.send(event)
        await client.finish()

    def _record_served(self, reply: ModelReply, upstream: Upstream) -> None:
        """A call that is answered here is a step of the episode, which cost nothing."""
        if not self.joined.records_itself:
            record = self.joined.record
            draft = record.begin_model(WANT, **self._fields(upstream))
            fill_draft(draft, self.request, reply, reply.usage, self._passage, self._note)
            record.end_served(draft, WANT, reply.error)
            self._done(reply, draft)
        else:
            self.joined.record.served_aside += 1
        self.joined.calls += 1
        self._ended = True

    async def _refuse(
        self, client: ClientSide, decision: Refuse, upstream: Upstream, held: ProviderRefusal | None = None
    ) -> None:
        """Answer with an error; one that is not about the episode as a whole is a failed call of the model, and so is
        one that a budget refused, though it was not made.

        `held` is the refusal for which the breaker does not forward it.
        """
        capped = decision.kind == CAP_REACHED
        if decision.kind in ABOUT_THE_EPISODE:
            self.joined.refuse(decision.kind, decision.message)
        elif held is not None:
            self.joined.outcomes.refused(held, (self.request.model, self.request.messages), forwarded=False)
        else:
            self.joined.outcomes.spoiled()
        if (capped or decision.kind not in ABOUT_THE_EPISODE) and not self.joined.records_itself:
            record = self.joined.record
            self.joined.calls += not capped
            self._note = decision.note
            self._passage.status = decision.status
            draft = record.begin("model", "chat", **self._fields(upstream))
            fill_draft(draft, self.request, ModelReply(), None, self._passage, self._note)
            beginning = BUDGET_REFUSED if capped else f"HTTP {decision.status}: "
            record.end(draft, beginning + decision.message)
            self._done(None, draft)
        self._ended = True
        more = [] if held is None else held_headers(held)
        await self._answer(client, decision.status, decision.kind, decision.message, retry=decision.retry, more=more)

    async def _answer(
        self,
        client: ClientSide,
        status: int,
        kind: str,
        message: str,
        *,
        retry: bool | None = None,
        more: Headers = NO_MORE,
    ) -> None:
        headers = [NO_RETRY] if status == 403 and not retry else [*more]
        await client.answer(status, self.protocol.error_body(kind, message), headers)

    def _fields(self, upstream: Upstream) -> dict[str, Any]:
        self._upstream = upstream
        return {
            "parent_id": self.parent,
            "lane": self.joined.record.lane_of(self.parent),
            "start_ns": self.started_ns,
            "input": self.request.messages,
            "model": self.request.model,
            "provider": upstream.provider,
            "prompt_version": self.prompt_version,
        }

    def end(self, failure: str | None = None, *, failed: UpstreamFailed | None = None) -> None:
        """Record the call as far as it came; a second time does nothing. Errors of recording stay with the episode.

        `failed` is why no reply came.
        """
        if self._ended or self._draft is None:
            return
        self._ended = True
        try:
            self._end(self._draft, failure, failed)
        except Exception as error:
            self.joined.failure = self.joined.failure or error

    def _end(self, draft: Draft, failure: str | None, failed: UpstreamFailed | None) -> None:
        joined, copy, status = self.joined, self._passage.copy, self._passage.status
        draft.end_ns = self.ended_ns
        reply = ModelReply(complete=False) if copy is None else copy.reply()
        failed_status = status is not None and status >= 400
        if failed_status:
            told = reply.error if reply is not None else None
            failure = f"HTTP {status}: {told}" if told else f"HTTP {status}"
        elif failure is None and reply is not None:
            failure = reply.error or (None if reply.complete else "the reply broke off")
        usage = None
        paid = not failed_status and not (failed is not None and failed.unsent)
        if reply is not None and paid:
            usage = settled_usage(self.request, reply)
        self._tell_whose(reply, failed)
        fill_draft(draft, self.request, reply or ModelReply(), usage, self._passage, self._note)
        unread = reply is None and not failed_status
        gaps = joined.record.end_model(
            draft,
            self._want,
            failure or ("the reply could not be read" if unread else None),
            uncertain=paid and (usage is None or usage.estimated),
        )
        if unread:
            joined.count_unread("a reply of a model could not be read")
        try:
            joined.record.tell_gaps(gaps)
        except CapReached as reached:
            joined.refuse_cap(reached)
        self._done(reply, draft)

    def _tell_whose(self, reply: ModelReply | None, failed: UpstreamFailed | None) -> None:
        """Whether a model answered, the agent asked wrongly, or the world refused the call."""
        outcomes, asked = self.joined.outcomes, (self.request.model, self.request.messages)
        refusal = self._passage.refusal(self._upstream, reply, failed)
        if refusal is not None:
            outcomes.refused(refusal, asked)
        elif self._passage.copy is None:
            outcomes.spoiled()  # the client did not wait for a reply
        else:
            outcomes.reached(asked)

    def _done(self, reply: ModelReply | None, draft: Draft) -> None:
        """The call is over: tell the policies, and remember which tools were asked for."""
        if reply is not None:
            self.joined.asked.add(reply.message, draft.end_ns or self.started_ns)
        for policy in (*self.joined.faults, *self.joined.policies):
            policy.done(self.request, reply)
