"""Episodes that no run planned: calls to a gateway of its own, separated by name or by conversation."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from ethogram.capture.chat import task_asked
from ethogram.prices import Budget, CallPrices, Caps
from ethogram.traces import UNMETERED, UNSEEN
from ethogram.wire.conversations import Conversations
from ethogram.wire.gateway.call import CallPolicy, Decision, ModelReply, ModelRequest
from ethogram.wire.gateway.gateway import Gateway
from ethogram.wire.gateway.registered_episode import Joined
from ethogram.wire.session_remote import RemoteSession, RemoteSessions

from .episode_meter import EpisodeMeter

Per = Literal["conversation", "process"]
REST_SECONDS = 3600.0
"""A conversation that rests for longer is over; what goes on with it then begins a new trace."""
SWEEP_SECONDS = 5.0
MOST_OPEN = 2000
"""Of more conversations, those that rest longest are over."""
OTHER_CALLS = "calls that are not read"


class OpenRules(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for every episode: its caps below the budget of the run, its prices, and what is done to its calls."""

    budget: Budget
    caps: Caps
    prices: CallPrices
    allow_unmetered: bool
    stop: Callable[[], object]
    policies: Callable[[str, int], tuple[CallPolicy, ...]]
    per: Per = "conversation"
    agent: str = ""


class OpenEpisode:
    """One trace while it grows; also the policy that follows its calls."""

    def __init__(self, session: RemoteSession, meter: EpisodeMeter, talks: Conversations[OpenEpisode]) -> None:
        self.session = session
        self.meter = meter
        self.seen_at = time.monotonic()
        self.joined: Joined | None = None
        self._talks = talks

    def decide(self, request: ModelRequest) -> Decision | None:
        """Nothing is decided here."""
        return None

    def done(self, request: ModelRequest, reply: ModelReply | None) -> None:
        """Keep what the trace is to say of itself."""
        self._talks.answered(request, reply, self)
        trace = self.session.trace
        if reply is not None and not reply.message.tool_calls and reply.message.text:
            trace.answer = reply.message.text

    def facts(self) -> dict[str, str]:
        """What the figures of the trace do not cover, and why calls were refused."""
        unknown = set(self.meter.unknown)
        if self.joined is not None and self.joined.unread:
            unknown.add(UNSEEN)
        refused = None if self.joined is None else self.joined.refused
        facts = {} if refused is None else {"refused": refused.kind}
        return facts | ({UNMETERED: ",".join(sorted(unknown))} if unknown else {})

    @property
    def stopped(self) -> bool:
        """Whether its calls are refused."""
        return self.joined is not None and self.joined.refused is not None


class OpenEpisodes:
    """Gives every call of a gateway its episode; called in the gateway's thread."""

    def __init__(self, gateway: Gateway, store: RemoteSessions, rules: OpenRules) -> None:
        """Nothing is open yet."""
        self.traces = 0
        self._gateway = gateway
        self._store = store
        self._rules = rules
        self._talks: Conversations[OpenEpisode] = Conversations(lambda episode: episode.stopped)
        self._open: list[OpenEpisode] = []
        self._calls = self._unread = 0
        self._by_name: dict[str, OpenEpisode] = {}
        self._attempts: dict[str, int] = {}
        for entry in store.run.entries:
            self._attempts[entry.head.task] = self._attempts.get(entry.head.task, 0) + 1
        self._swept = time.monotonic()

    def __call__(self, name: str | None, request: ModelRequest | None) -> Joined | None:
        """The episode of a call: by its name, else by its conversation; what cannot be read has one of its own."""
        self._sweep()
        key = name
        if key is None and (self._rules.per == "process" or request is None):
            key = "" if self._rules.per == "process" else OTHER_CALLS
        if key is not None:
            episode = self._by_name.get(key)
            if episode is None:
                task = key or self._rules.agent or "calls"
                episode = self._by_name[key] = self._begin(task, token=name)
        else:
            assert request is not None
            episode = self._talks.find(request) or self._begin(self._named(task_asked(request.messages)))
            self._talks.asked(request, episode)
        episode.seen_at = episode.session.trace.touched = time.monotonic()
        return episode.joined

    def totals(self) -> tuple[int, int]:
        """Calls that were read, and calls that could not be, so far."""
        every = [e.joined for e in self._open if e.joined is not None]
        return self._calls + sum(j.calls for j in every), self._unread + sum(j.unread for j in every)

    def _named(self, asked: str) -> str:
        return self._store.named(asked) if asked else "calls"

    def _begin(self, task: str, token: str | None = None) -> OpenEpisode:
        rules = self._rules
        attempt = self._attempts.get(task, 0)
        self._attempts[task] = attempt + 1
        meter = EpisodeMeter(Budget("episode", rules.caps, rules.budget), rules.allow_unmetered)
        session = self._store.session(task, attempt=attempt, meter=meter, prices=rules.prices)
        session.trace.agent = rules.agent
        episode = OpenEpisode(session, meter, self._talks)
        session.facts = episode.facts
        policies: Sequence[CallPolicy] = (episode, *rules.policies(task, attempt))
        episode.joined = self._gateway.join(session.record, policies=policies, stop=rules.stop, token=token)
        self._open.append(episode)
        self.traces += 1
        return episode

    def _sweep(self) -> None:
        """End what rests for long; what it says then is stored with it."""
        now = time.monotonic()
        if now - self._swept < SWEEP_SECONDS:
            return
        self._swept = now
        resting = [e for e in self._open if e.joined is not None and not e.joined.in_flight]
        resting.sort(key=lambda e: e.seen_at)
        too_many = max(0, len(self._open) - MOST_OPEN)
        over = [e for n, e in enumerate(resting) if n < too_many or now - e.seen_at > REST_SECONDS]
        for episode in over:
            assert episode.joined is not None
            episode.joined.leave()  # none of its calls is open, so this does not wait
            self._talks.forget(episode)
            episode.session.over = True
            self._calls += episode.joined.calls
            self._unread += episode.joined.unread
        gone = set(map(id, over))
        self._by_name = {name: e for name, e in self._by_name.items() if id(e) not in gone}
        self._open = [e for e in self._open if id(e) not in gone]
