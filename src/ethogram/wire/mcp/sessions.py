"""Choose what handles the calls of a client session: the proxy's episode, a run of its own, or nothing."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.intake import Intake, SourceReport
from ethogram.perturbations.tools import ToolPerturbation
from ethogram.traces import Head, Label, Origin, Ref, Span, Trace, episode_id, text_ref, trace_id
from ethogram.wire.gateway.recorded_tools import Redact
from ethogram.wire.recorder import Recorder
from ethogram.wire.session_store import SessionStore, StoredSession

from .calls import CallHandler
from .episode import RemoteCalls
from .episode_calls import EpisodeCalls
from .recorded import RecordedSession


class CallPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to the calls of a session that belongs to no episode: an operator, or a trace that answers."""

    operator: str | None = None
    seed: int = 0
    intensity: float = 1.0
    tools: tuple[str, ...] = ()
    trace: Trace | None = None
    redact: Redact | None = None
    lenient: bool = False

    @property
    def idle(self) -> bool:
        """Whether calls pass as they are."""
        return self.operator is None and self.trace is None

    def calls(self, record: Recorder) -> EpisodeCalls:
        """The calls of one session under this plan; every session gets the same one."""
        disturb = None
        if self.operator is not None:
            disturb = ToolPerturbation(self.operator, self.seed, self.intensity, only=self.tools or None)
        recorded = None if self.trace is None else RecordedSession(self.trace, self.redact)
        return EpisodeCalls(record, perturbation=disturb, recorded=recorded, lenient=self.lenient)


class CallTotals(msgspec.Struct):
    """How many calls of tools there were, and what became of them."""

    sessions: int = 0
    calls: int = 0
    failed: int = 0
    served: int = 0
    refused: int = 0
    deviation: str | None = None


class Sessions:
    """Opens a handler for each session of a client."""

    def __init__(self, server: str, plan: CallPlan, store: SessionStore | None, episode: RemoteCalls | None) -> None:
        """`server` names the server in traces; without a store, an episode and a plan nothing is kept."""
        self.server = server
        self.totals = CallTotals()
        self._plan = plan
        self._store = store
        self._episode = episode
        self._stored: dict[int, StoredSession] = {}
        if not plan.idle:
            plan.calls(_unstored())  # an operator that does not exist is refused before anything starts

    @property
    def offline(self) -> bool:
        """Whether sessions begin with answers from a trace, so that the server is not needed yet."""
        return self._plan.trace is not None or (self._episode is not None and self._episode.offline)

    def open(self) -> CallHandler | None:
        """Who handles the calls of a new session; None where they only pass."""
        self.totals.sessions += 1
        if self._episode is not None:
            return self._episode
        if self._store is not None:
            session = self._store.session(self.server)
            calls = self._plan.calls(session.record)
            self._stored[id(calls)] = session
            return calls
        return None if self._plan.idle else self._plan.calls(_unstored())

    def close(self, handler: CallHandler | None) -> None:
        """A session is over: what is still open in it ends, and its trace is stored."""
        if not isinstance(handler, EpisodeCalls):
            return
        handler.close("the session ended before the server answered")
        totals = self.totals
        totals.calls += handler.calls
        totals.failed += handler.failed
        totals.served += handler.served
        totals.refused += handler.refused
        totals.deviation = totals.deviation or handler.deviation
        session = self._stored.pop(id(handler), None)
        if session is not None and self._store is not None:
            session.trace.agent = handler.client
            if handler.deviation is not None:
                session.trace.meta["deviation"] = handler.deviation
            self._store.end(session)


class _NoSink:
    """Stores nothing."""

    idle = True

    def text(self, body: str, field: str, original: str | None = None) -> Ref:
        """The address that the text would have."""
        return text_ref(body)

    def clean(self, value: str, field: str) -> str:
        """Nothing is stored, so nothing is redacted."""
        return value

    def named(self, words: str) -> str:
        """Nothing is stored, so nothing is redacted."""
        return words

    def span(self, span: Span) -> None:
        """Forget it."""

    def finish(self, head: Head, labels: Sequence[Label]) -> None:
        """Forget it."""

    def abort(self) -> None:
        """There is nothing to forget."""


def _unstored() -> Recorder:
    """A recorder that keeps nothing."""
    intake = Intake(lambda trace: _NoSink(), Origin("mcp"), SourceReport(source="mcp"))
    return Recorder(TraceBuilder(intake, trace_id("mcp", ""), episode_id("mcp", "")))
