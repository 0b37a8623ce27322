"""What came of a run, and who follows it while it goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

from ethogram.display import Drawing, Presentation
from ethogram.errors import BadUsage
from ethogram.result import Result
from ethogram.traces import PROVIDER_REASONS, UNMETERED, is_infrastructure, refusal_words

from .executor import EpisodeReport
from .recorded_answers import ReplayFailure

PROVIDER = "provider"
"""Why a run stopped that a provider goes on refusing."""


class RunResult(Result, kw_only=True):
    """What a run did; `missing` counts outcomes by reason, `not_run` what is still to do.

    `cost_usd` and `tokens` are unknown unless the agent records all its use and every call is priced; `at_least_usd`
    and `at_least_tokens` are what was recorded. `repeated_usd` was paid besides: for tries that were repeated after an
    infrastructure failure, and for attempts that `--retry` replaced. `why` says more about `stopped`. `executed` counts
    episodes of this session, `crashed` those of them that ended by the agent's own fault; `crash` is what the first of
    these said and `crash_at` where, its last frames; both are redacted. `replays` is the run that answered, if one did,
    and `failures` are then the episodes that deviated from it, or no longer pass. `warnings` tell what makes its scores
    worthless or incomparable: nothing that decides, no answers, a frozen suite that was edited without a new version.
    """

    presentation: ClassVar[Presentation] = Presentation(
        headline="{run}: {scored} of {planned} episodes scored, {successes} succeeded",
        facts=(
            "missing",
            "not_run",
            "cost_usd",
            "tokens",
            "model_calls",
            "seconds",
            "stopped",
            "why",
            "crash",
            "replays",
        ),
        hidden=("crash_at",),
        drawing=Drawing("reason", "episodes", "episodes without an outcome", "bars", source="missing"),
    )

    run: str
    planned: int
    scored: int
    missing: dict[str, int]
    not_run: int
    successes: int
    cost_usd: float | None
    tokens: int | None
    seconds: float
    at_least_usd: float = 0.0
    at_least_tokens: int = 0
    repeated_usd: float = 0.0
    model_calls: int = 0
    stopped: str | None = None
    why: str | None = None
    executed: int = 0
    crashed: int = 0
    crash: str | None = None
    crash_at: tuple[str, ...] = ()
    replays: str | None = None
    failures: tuple[ReplayFailure, ...] = ()
    warnings: tuple[str, ...] = ()
    missing_details: dict[str, str] = {}
    """What the first missing outcome of each reason says."""
    cut_off: int = 0
    cut_off_successes: int = 0
    """Attempts of which a cap refused a call, and those of them that succeeded all the same."""
    unseen: tuple[str, ...] = ()
    """Where model calls went that nobody counted, and what caps make of attempts in which none was seen."""

    @property
    def measurable(self) -> bool:
        """Whether something was scored, and not every episode of this session crashed."""
        return self.scored > 0 and not (self.executed and self.crashed == self.executed)

    @property
    def refused(self) -> str:
        """What providers refused, in words; empty where they refused nothing."""
        return refusal_words(self.missing, self.planned)

    @property
    def again(self) -> str | None:
        """The command that makes what infrastructure spoiled again; None where it spoiled nothing."""
        broken = [reason for reason in self.missing if is_infrastructure(reason)]
        retry = "".join(f" --retry {reason}" for reason in broken if reason not in PROVIDER_REASONS)
        return f"ethogram run --resume {self.run}{retry}" if broken else None

    def check_caps_kept(self) -> None:
        """Raise if a cap could not be kept: for loops that would otherwise go on buying."""
        if self.stopped == UNMETERED:
            raise BadUsage(f"{self.why}; what was run so far is in run {self.run!r}")


class RunInterrupted(KeyboardInterrupt):
    """Ctrl-C: what was complete is committed, and `result` says what that is."""

    def __init__(self, result: RunResult) -> None:
        """It is a `KeyboardInterrupt`, so that loops around a run end too."""
        super().__init__(f"run {result.run} was interrupted")
        self.result = result


class Watcher(Protocol):
    """Follows a run while it goes."""

    def started(self, run: str, planned: int, done: Sequence[EpisodeReport], cap_usd: float | None) -> None:
        """The run begins; `done` is what an earlier session did."""
        ...

    def done(self, report: EpisodeReport) -> None:
        """An episode ended."""
        ...

    def warn(self, words: str) -> None:
        """What should be known before more is bought."""
        ...


class Quiet:
    """A watcher that says nothing."""

    def started(self, run: str, planned: int, done: Sequence[EpisodeReport], cap_usd: float | None) -> None:
        """Nothing."""

    def done(self, report: EpisodeReport) -> None:
        """Nothing."""

    def warn(self, words: str) -> None:
        """Nothing: the result has it too."""
