"""An episode that is registered at the gateway: where its calls are recorded, and which were refused."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Protocol

import msgspec

from ethogram.perturbations.tools import ToolPerturbation
from ethogram.prices import CapReached
from ethogram.wire.recorder import Recorder

from .call import (
    CAP_REACHED,
    DEVIATION,
    ENDED,
    KILLED,
    CallPolicy,
    Decision,
    Forward,
    ModelRequest,
    OfflinePolicy,
    Refuse,
    Serve,
)
from .refusals import CallBreaker, CallOutcomes
from .tool_results import AskedTools

if TYPE_CHECKING:
    from ethogram.wire.fixture import FixturePlayer
    from ethogram.wire.mcp.episode_calls import EpisodeCalls
    from ethogram.wire.mcp.recorded import RecordedSession

    from .exchange import Exchange

ABOUT_THE_EPISODE = frozenset({CAP_REACHED, KILLED, DEVIATION, ENDED})
"""Kinds of refusals that end an episode; all others are errors that an agent may live with."""


_naming = Lock()


class Refusal(msgspec.Struct, frozen=True):
    """Why calls of an episode are refused: its kind (`ethogram_cap_reached`, …), in words, and the cap if it is one."""

    kind: str
    message: str
    cap: CapReached | None = None


class JoinedAt(Protocol):
    """What an episode needs of its gateway."""

    def variables(self, token: str) -> dict[str, str]:
        """Environment variables that lead clients there, for one episode."""
        ...

    def named(self, token: str, joined: Joined) -> None:
        """An episode has a name from now on."""
        ...

    def let_go(self, joined: Joined) -> None:
        """End an episode."""
        ...


class Joined:
    """One episode at the gateway. Counters are written by the gateway's thread and may be read by any."""

    def __init__(
        self,
        gateway: JoinedAt,
        record: Recorder,
        *,
        parent: str | None = None,
        policies: Sequence[CallPolicy] = (),
        stop: Callable[[], object] | None = None,
        token: str | None = None,
        breaker: CallBreaker | None = None,
    ) -> None:
        """Made by `Gateway.join`, which explains the parameters."""
        self.record = record
        self.parent = parent
        self.policies = tuple(policies)
        self.faults: tuple[CallPolicy, ...] = ()
        """What disturbs its calls. They come before `policies`: what a trace holds is what was asked once disturbed."""
        self.disturbed_tools: ToolPerturbation | None = None
        """Disturbs calls of tools over MCP."""
        self.in_flight: set[Exchange] = set()
        self.calls = 0
        """Calls of models that were read, also those that failed."""
        self.unread = 0
        """Calls that may have cost something and could not be read: what the episode cost is then unknown."""
        self.outside_hosts: set[str] = set()
        """Providers that were called beside the gateway."""
        self.outcomes = CallOutcomes(breaker)
        """Which calls of models were answered, and which only the world refused."""
        self.refused: Refusal | None = None
        """The first refusal that ends the episode."""
        self.failure: Exception | None = None
        """Why a call could not be recorded, where that failed: the trace is not complete then."""
        self.left = False
        self.recorded_tools: RecordedSession | None = None
        """Answers calls of tools over MCP, in a replay."""
        self.lenient = False
        self.fixture: FixturePlayer | None = None
        """Answers those calls of tools over MCP that a task has observations of."""
        self.records_itself = False
        """Whether the agent records its model calls by itself: those that are answered here would stand twice."""
        self._calls: EpisodeCalls | None = None
        self._stop = stop
        self._gateway = gateway
        self._token = token

    @property
    def token(self) -> str:
        """Its name at the gateway, which nobody can guess; made when it is first asked for: not all episodes call."""
        if self._token is None:
            with _naming:
                if self._token is None:
                    token = f"e{secrets.token_hex(8)}"
                    self._gateway.named(token, self)
                    self._token = token
        return self._token

    @property
    def is_named(self) -> bool:
        """Whether something has asked for its token."""
        return self._token is not None

    @cached_property
    def asked(self) -> AskedTools:
        """Tools that models asked for, until their results are seen."""
        return AskedTools(self.record)

    def variables(self) -> dict[str, str]:
        """Environment variables that lead clients to the gateway, as calls of this episode."""
        return self._gateway.variables(self.token)

    def leave(self) -> None:
        """End the episode: calls still in flight are closed, and every span is recorded when this returns.

        Call it from any thread but the gateway's own.
        """
        self._gateway.let_go(self)

    def tool_calls(self) -> EpisodeCalls:
        """The calls of tools over MCP: proxies that programs of the episode start record into it."""
        from ethogram.wire.mcp.episode_calls import EpisodeCalls

        if self._calls is None:
            self._calls = EpisodeCalls(
                self.record,
                parent=self.parent,
                perturbation=self.disturbed_tools,
                recorded=self.recorded_tools,
                lenient=self.lenient,
                fixture=self.fixture,
                killed=lambda: self.ended() is not None,
                capped=self.refuse_cap,
            )
        return self._calls

    @property
    def tools_deviated(self) -> str | None:
        """The first call of a tool over MCP that the record could not answer, and why."""
        return None if self._calls is None else self._calls.deviation

    @property
    def tools_served(self) -> int:
        """Calls of tools over MCP that were answered from the record."""
        return 0 if self._calls is None else self._calls.served

    def ended(self) -> Refuse | None:
        """Why no call may be made any more, if so: the episode is over, or the kill switch was pulled."""
        if self.left:
            return refusal(ENDED, "the episode is over; its calls are no longer forwarded")
        if self._stop is not None and self._stop():
            return self.refuse(KILLED, "the kill switch was pulled: ethogram kill")
        return None

    def over_budget(self) -> Refuse | None:
        """Why a call that cannot be read may not be made, if its budget has nothing left or cannot be kept."""
        try:
            self.record.check_budget()
        except CapReached as reached:
            return self.refuse_cap(reached)
        return None

    def decide(self, request: ModelRequest, fault: Decision | None = None) -> Decision | None:
        """What the first policy with an opinion says; `fault` is what disturbs the call, where it is made."""
        decision = _first(self.policies, request)
        if isinstance(decision, Serve | Refuse) or fault is None:
            return decision
        if decision is None or not isinstance(fault, Forward):
            return fault
        both = msgspec.structs.replace(decision, delay_seconds=fault.delay_seconds, cut_after=fault.cut_after)
        return msgspec.structs.replace(both, note="; ".join(filter(None, (decision.note, fault.note))))

    def fault(self, request: ModelRequest) -> Decision | None:
        """What disturbs a call, if anything does."""
        return _first(self.faults, request)

    def outside(self, method: str, path: str, costly: bool) -> Refuse | None:
        """Why a call that is not read may not be forwarded, if so."""
        ended = self.ended() or (self.over_budget() if costly else None)
        if ended is not None:
            return ended
        for policy in self.policies:
            refused = policy.outside(method, path, costly) if isinstance(policy, OfflinePolicy) else None
            if refused is not None:
                return self.refuse(refused.kind, refused.message) if refused.kind in ABOUT_THE_EPISODE else refused
        return None

    def refuse(self, kind: str, message: str, cap: CapReached | None = None) -> Refuse:
        """An answer that ends the episode, remembered for the harness."""
        if self.refused is None:
            self.refused = Refusal(kind, message, cap)
        return refusal(kind, message)

    def refuse_cap(self, reached: CapReached) -> Refuse:
        """The answer to a call that a budget does not allow."""
        return self.refuse(CAP_REACHED, str(reached), reached)

    def count_unread(self, why: str) -> None:
        """A call that may have cost something could not be read."""
        self.unread += 1
        self.outcomes.spoiled()
        try:
            self.record.tell_gaps({"tokens": why, "usd": why})
        except CapReached as reached:
            self.refuse_cap(reached)

    def seen_unread(self, name: str, started_ns: int) -> None:
        """A call that cannot be read was forwarded: kept as a span that is no step, for its use is not known."""
        facts = {"wire": "unread"}
        draft = self.record.begin("other", name, parent_id=self.parent, start_ns=started_ns, attributes=facts)
        self.record.end(draft)
        self.count_unread("a call of a model was in a form that is not read here")

    def end_complete(self) -> None:
        """Record calls whose replies are complete, though their connections are still open."""
        for exchange in [e for e in self.in_flight if e.complete]:
            exchange.end()

    async def finish_complete(self) -> None:
        """`end_complete`, and wait for calls that are being recorded in another thread: the next request may answer
        what they asked for."""
        self.end_complete()
        for exchange in [e for e in self.in_flight if e.in_thread]:
            await exchange.over.wait()


def _first(policies: Sequence[CallPolicy], request: ModelRequest) -> Decision | None:
    for policy in policies:
        decision = policy.decide(request)
        if decision is not None:
            return decision
    return None


def refusal(kind: str, message: str) -> Refuse:
    """A refusal that clients do not retry."""
    return Refuse(status=403, kind=kind, message=message)
