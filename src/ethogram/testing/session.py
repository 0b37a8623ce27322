"""The attempts of one process: marked tests as tasks of one run, carried out by the harness of `ethogram run`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from ethogram.errors import BadUsage, EthogramError, NotFound
from ethogram.harness.environment import Environment
from ethogram.harness.executor import EpisodeReport, Executor, ExecutorSettings, Work
from ethogram.harness.live import LiveCapture
from ethogram.harness.options import ReplayOf
from ethogram.harness.recorded_answers import recorded_run, replay_of
from ethogram.harness.run_start import suite_record
from ethogram.plans import Episode, Suite, Task, plan_episodes
from ethogram.prices import Budget, Caps, Metering
from ethogram.store import Home, Run, open_home
from ethogram.store.lake import REPLAY, REPLAYED
from ethogram.store.redact import policy_from
from ethogram.store.stop import pulled
from ethogram.traces import PROVIDER_REASONS, REFUSED, Missing, Scored

from .settings import Marked, PluginSettings
from .turns import Loop, PlayedBody, TestBody, TestWorld, Turn

SUITE = "pytest"
REDACTION = "default"
BASELINE = "baseline:"
"""How the tag of a run begins that was recorded as a baseline; its name follows."""
DECLARED = "expected_to_fail"
"""In the plan of a run: the tests that are declared to pass in no attempt. Runs of older versions do not say."""


class MarkedTest(NamedTuple):
    """A marked test: its task, what it asks in words, its source, and its mark."""

    name: str
    words: str
    source: str
    mark: Marked


class PlayedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt; `passed` is None where it has no outcome, for `reason`. `recorded`: whether it passed then."""

    attempt: int
    passed: bool | None
    reason: str = ""
    why: str = ""
    trace: str = ""
    seconds: float = 0.0
    recorded: bool | None = None


class AttemptsSession:
    """Carries out the attempts of marked tests; close it."""

    def __init__(self, settings: PluginSettings, tests: Sequence[MarkedTest], uid: str) -> None:
        """Open or make the run `uid`, which other workers of the session may share.

        Raises `NotFound` for a replay without a baseline, `BadUsage` for a name that cannot be used.
        """
        self._settings = settings
        self.home = open_home(settings.home)
        self._name = settings.run or f"pytest-{uid[:8]}"
        self._baseline = baseline_of(self.home, settings.baseline, but=self._name)
        if not settings.live and self._baseline is None:
            raise NotFound(
                f"there is no baseline {settings.baseline!r} in {settings.home} to answer from; record one with: "
                "pytest --ethogram-live",
                where=str(settings.home),
                what="baseline",
                name=settings.baseline,
            )
        suite = Suite(name=SUITE, tasks=tuple(map(_task, tests)))
        self._attempts = {t.name: settings.k or t.mark.k for t in tests}
        self._declared = [t.name for t in tests if t.mark.fails]
        self.run = self._open(suite, uid)
        self._body = TestBody()
        self._recorded: dict[str, dict[int, bool | None]] = {}
        """Of a replay: which attempts of each task the baseline has, and whether they passed."""
        self._replay = None if settings.live else self._replayed()
        self._executor = self._make_executor(suite)
        self._loop = Loop()

    def episodes(self, task: str) -> tuple[Episode, ...]:
        """The attempts of a test; of a replay those that were recorded. Raises `NotFound` where none was."""
        planned = plan_episodes((task,), self._body.name, self._attempts[task], 0)
        if self._replay is None:
            return planned
        known = tuple(e for e in planned if self._recorded.get(task, {}).get(e.attempt) is not None)
        if not known:
            raise NotFound(
                f"the baseline {self._replay.run!r} has no attempt of {task}; record it with: pytest --ethogram-live "
                "--ethogram-update",
                where=f"run {self._replay.run!r}",
                what="attempt",
                name=task,
            )
        return known

    def carry_out(self, episode: Episode, play: Callable[[Turn], PlayedBody]) -> PlayedAttempt:
        """Carry out one attempt; `play` plays a turn in this thread, and is asked once for every try.

        Model calls are captured from here on: base URLs that fixtures have set by now are where they are forwarded to.
        """
        if pulled(self.run.files, self.run.path) is not None:
            return PlayedAttempt(attempt=episode.attempt, passed=None, reason="killed", why="the kill switch is on")
        turns, trace = self._body.turns, ""
        breaker = self._executor.breaker
        with LiveCapture(Environment(), in_process=True, run=self.run, replay=self._replay, breaker=breaker) as capture:
            self._executor.capture = capture
            going = self._loop.submit(self._executor.execute(Work(episode)))
            going.add_done_callback(lambda _: turns.put(None))
            while (turn := turns.get()) is not None:
                trace = turn.handle.record.trace.trace_id
                turn.played.set_result(turn.context.run(play, turn))
            report = going.result()
        return self._told(report, trace)

    def close(self) -> None:
        """Commit what is complete, and give up the run."""
        self._loop.close()
        self._executor.close()

    def _told(self, report: EpisodeReport, trace: str) -> PlayedAttempt:
        outcome, played = report.outcome, self._body.latest
        noted = [c for c in (played.episode.checks if played else ()) if c.required and not c.passed]
        why = played.why if played and played.why else "; ".join(f"{c.name}: {c.why or 'failed'}" for c in noted)
        if isinstance(outcome, Missing):
            why = outcome.detail or why
        return PlayedAttempt(
            attempt=report.attempt,
            passed=report.passed,
            reason=outcome.reason if isinstance(outcome, Missing) else "",
            why=why,
            trace=trace,
            seconds=report.seconds,
            recorded=None if self._replay is None else self._recorded[report.task][report.attempt],
        )

    def _open(self, suite: Suite, uid: str) -> Run:
        """The run of the session: the worker that comes first makes it."""
        settings = self._settings
        planned = sum(self._attempts.values())
        record = {**suite_record(suite, planned), "agent": TestBody.name, "captured": True, "session": uid}
        record[DECLARED] = self._declared
        if self._baseline is not None and not settings.live:
            record[REPLAYED] = self._baseline.name
        recording = settings.live and (settings.update or self._baseline is None)
        tags = (BASELINE + settings.baseline,) if recording else ()
        try:
            kind = "run" if settings.live else REPLAY
            return self.home.create(self._name, kind, redaction=REDACTION, tags=tags, plan=record)
        except BadUsage:
            if self._name not in self.home.names():
                raise
            run = self.home.run(self._name)
            if run.info.plan.get("session") != uid:
                raise
            return run

    def _replayed(self) -> ReplayOf:
        assert self._baseline is not None
        for entry in self._baseline.entries:
            outcome = entry.head.outcome
            passed = outcome.success(self._baseline.success_at) if isinstance(outcome, Scored) else None
            self._recorded.setdefault(entry.head.task, {})[entry.head.attempt or 0] = passed
        return replay_of(self._baseline, self._baseline.entries)

    def _make_executor(self, suite: Suite) -> Executor:
        """With a writer of its own; the workers of a session share the dollars of its cap."""
        dollars = self._settings.max_usd
        if dollars is not None:
            dollars /= int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
        return Executor(
            TestWorld(suite, self._body),
            self._body,
            self.run.writer(self.home.redactor(policy_from(REDACTION))),
            Budget("experiment", Caps(usd=dollars)),
            ExecutorSettings(metering=Metering(allow_unmetered=self._replay is not None)),
            answers_for=None if self._replay is None else recorded_run(self.home, self._replay.run),
        )


def baseline_of(home: Home, name: str, but: str = "") -> Run | None:
    """The run of that name, else the newest one that was recorded as that baseline and can be one; never `but`."""
    if name != but and name in home.names():
        return home.run(name)
    tagged = [run for run in home.runs() if BASELINE + name in run.info.tags and run.name != but]
    return next((run for run in reversed(tagged) if can_be_baseline(run) and not never_passed(run)), None)


def can_be_baseline(run: Run) -> bool:
    """Whether there are scores to compare with, and no provider refused any call of the attempts."""
    outcomes = [entry.head.outcome for entry in run.entries]
    refused = any(isinstance(o, Missing) and o.reason in PROVIDER_REASONS for o in outcomes)
    partly = any(REFUSED in entry.head.meta for entry in run.entries)
    return any(isinstance(o, Scored) for o in outcomes) and not refused and not partly


def never_passed(run: Run) -> list[str]:
    """Tests that passed in none of their attempts and are not declared to: held against them, nothing gets worse."""
    declared = run.info.plan.get(DECLARED)
    if declared is None:
        return []
    passed: dict[str, bool] = {}
    for entry in run.entries:
        if isinstance(entry.head.outcome, Scored):
            task = entry.head.task
            passed[task] = passed.get(task, False) or entry.head.outcome.success(run.success_at)
    return [task for task, ever in passed.items() if not ever and task not in declared]


def capture_early(settings: PluginSettings) -> LiveCapture | None:
    """Capture for a session that replays, from before its tests are imported: clients that are made there need a key.

    None where there is no baseline; the tests will say so.
    """
    try:
        base = baseline_of(open_home(settings.home), settings.baseline)
    except EthogramError:
        return None
    if base is None:
        return None
    return LiveCapture(Environment(), in_process=True, replay=replay_of(base, base.entries))


def is_baseline(run: Run) -> bool:
    """Whether a run was recorded as a baseline."""
    return any(tag.startswith(BASELINE) for tag in run.info.tags)


def _task(test: MarkedTest) -> Task:
    """A test whose source changes is another task: its outcomes are not compared with the earlier ones."""
    caps: dict[str, Any] = dict(test.mark.caps)
    return Task(id=test.name, prompt=test.words, caps=caps, meta={"source": test.source})
