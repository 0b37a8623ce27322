"""Recorded episodes as answers: what a trace holds is given again to an agent that asks the same again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ethogram.capture.builder import TraceBuilder
from ethogram.errors import BadInput, BadUsage
from ethogram.plans import Episode
from ethogram.store import Entry, Home, Run
from ethogram.store.redact import policy_from
from ethogram.traces import Missing, Scored
from ethogram.wire.gateway.call import CallPolicy
from ethogram.wire.gateway.episode_replay import EpisodeReplay
from ethogram.wire.gateway.recorded_calls import recorded_calls
from ethogram.wire.gateway.upstreams import PROVIDERS
from ethogram.wire.mcp.recorded import RecordedSession

from .answers import SERVED_TOOLS, AnswersFor, Simulator
from .handle import EpisodeHandle
from .options import ReplayOf

if TYPE_CHECKING:
    from .live import EpisodeCapture

SERVED, RECORDED = "served", "replays"
"""Facts in the head of a replayed trace: how many model calls were answered, and the recorded trace."""
DEVIATION = "deviation"
"""The label of a replayed trace that deviated: its value is the step of the recorded trace, its words are why."""

UNKNOWN = ("anthropic", "openai")
"""Providers that are supposed where a record tells none, since its calls did not pass the gateway."""
LOOKED_AT = 20
"""Episodes that are read to learn which providers were called."""


class ReplayFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A replayed episode that did not pass: it deviated, failed its checks, or has no outcome for another reason."""

    task: str
    attempt: int
    condition: str
    trace: str
    reason: str
    """`checks`, or the reason why the outcome is missing."""
    why: str


class RecordedAnswers:
    """The answers of one recorded episode; a strict replay that deviates has no outcome."""

    def __init__(self, replay: EpisodeReplay) -> None:
        """`replay` is used for one try."""
        self.replay = replay
        self._capture: EpisodeCapture | None = None

    @property
    def policies(self) -> Sequence[CallPolicy]:
        """The recorded model calls."""
        return (self.replay.playback,)

    @property
    def over(self) -> bool:
        """Whether a strict replay has deviated."""
        return self.replay.mode == "strict" and (self.replay.deviation is not None or self._lost_tool is not None)

    def begin(self, episode: EpisodeHandle) -> None:
        """The seed is the recorded one; tools over MCP answer from the record too."""
        self._capture = episode.capture
        if self._capture is not None:
            session = RecordedSession(self.replay.trace, self.replay.redact)
            self._capture.answer_tools(session, self.replay.mode == "lenient")

    @property
    def _lost_tool(self) -> str | None:
        return None if self._capture is None else self._capture.tools_deviated

    def stand_in(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The recorded results of a tool."""
        return self.replay.stand_in(name, function)

    def reply(self, simulator: Simulator | None) -> Simulator | None:
        """The recorded user, where there was one."""
        return self.replay.reply(simulator) if simulator is not None or self.replay.has_user else None

    def close(self, trace: TraceBuilder) -> Missing | None:
        """Note what was served, and where the agent deviated; what it never asked for again is a deviation too."""
        replay = self.replay
        replay.end(self._lost_tool)
        over_mcp = 0 if self._capture is None else self._capture.tools_served
        trace.meta[RECORDED] = replay.trace.head.trace_id
        trace.meta[SERVED], trace.meta[SERVED_TOOLS] = len(replay.playback.served), replay.tools_served + over_mcp
        found = replay.deviation
        if found is None:
            return None
        words = f"{found.why}\n{found.diff}".rstrip()
        trace.label(DEVIATION, found.step, by="replay", source="verifier", why=words)
        return Missing("deviation", words) if replay.mode == "strict" else None


def failures_of(run: Run, recorded: Run, planned: Collection[str]) -> tuple[ReplayFailure, ...]:
    """The episodes of a replay that did not pass; one that nothing can check is not among them.

    An episode that failed its checks when it was recorded says nothing when it fails them again.
    """
    failed_before = {
        (head.task, head.condition, head.attempt)
        for head in (entry.head for entry in recorded.entries)
        if isinstance(head.outcome, Scored) and not head.outcome.success(recorded.success_at)
    }
    failures = []
    for entry in run.entries:
        head, outcome = entry.head, entry.head.outcome
        if head.episode not in planned or (isinstance(outcome, Missing) and outcome.reason == "unscored"):
            continue
        if isinstance(outcome, Scored):
            if outcome.success(run.success_at) or (head.task, head.condition, head.attempt) in failed_before:
                continue
            reason, why = "checks", f"score {outcome.value:g}"
        else:
            told = run.trace(entry).outcome
            reason, why = outcome.reason, told.detail if isinstance(told, Missing) else ""
        failures.append(
            ReplayFailure(
                task=head.task,
                attempt=head.attempt,
                condition=head.condition,
                trace=head.trace_id,
                reason=reason,
                why=why,
            )
        )
    return tuple(sorted(failures, key=lambda f: (f.task, f.attempt, f.condition)))


def replay_of(run: Run, entries: Sequence[Entry]) -> ReplayOf:
    """A run as what is replayed; the providers are those of these episodes, of the first few of them."""
    providers: set[str] = set()
    for call in (call for entry in entries[:LOOKED_AT] for call in recorded_calls(run.trace(entry))):
        named = call.span.provider or ""
        providers.add(named if named in PROVIDERS else (call.wire or "").partition("-")[0])
    return ReplayOf(run=run.name, providers=tuple(sorted(providers & set(PROVIDERS))) or UNKNOWN)


def recorded_run(home: Home, run: str) -> AnswersFor:
    """Answers for the episodes of a run, from an earlier one: found by task, attempt and condition.

    Raises `NotFound` for a run that does not exist and `BadUsage` for one without episodes; what it gives raises
    `BadInput` for an episode that the run lacks or that cannot be given again.
    """
    found = home.resolve(run)
    redactor = home.redactor(policy_from(found.info.redaction))
    entries: dict[tuple[str, int, str], Entry] = {
        (e.head.task, e.head.attempt, e.head.condition): e for e in found.entries
    }
    if not entries:
        raise BadUsage(f"run {found.name!r} has no episodes, so there is nothing to replay")

    def answers_for(episode: Episode) -> RecordedAnswers:
        entry = entries.get((episode.task, episode.attempt, episode.condition))
        if entry is None:
            under = f" under {episode.condition!r}" if episode.condition else ""
            raise BadInput(
                f"run {found.name!r} has no attempt {episode.attempt} of task {episode.task!r}{under}; record it with: "
                f"ethogram run --resume {found.name} -k {episode.attempt + 1}, or leave it out with --task or -k",
                where=f"run {found.name!r}",
            )
        return RecordedAnswers(EpisodeReplay(found.trace(entry), redactor))

    return answers_for
