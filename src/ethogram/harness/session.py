"""One session of a run: from a plan and a ledger to a longer ledger."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING

from ethogram.errors import BadUsage, EthogramError, Sealed
from ethogram.harness.engines.local import Engine, LocalEngine
from ethogram.plans import Episode
from ethogram.prices import Amounts, Budget
from ethogram.prices.worst_case import promise
from ethogram.store import Entry, Home, Run, compact, lease
from ethogram.store.stop import POLL_SECONDS, lay_down, pulled
from ethogram.suites.load import LoadedSuite
from ethogram.traces import (
    CUT_OFF,
    PROVIDER_REASONS,
    SILENT,
    UNMETERED,
    UNSEEN,
    Missing,
    Scored,
    TraceId,
)
from ethogram.wire.gateway.breaker import Breaker

from .account import experiment_budget
from .agents import SPENT, Agent
from .answers import AnswersFor
from .executor import EpisodeReport, Work
from .executors import make_executor
from .forewarned import after_first, before_start
from .isolation import isolation_here, why_not_isolated
from .options import RunOptions
from .outside_agents import CommandAgent
from .planning import is_captured, meters_of
from .recorded_answers import ReplayFailure, failures_of
from .run_result import PROVIDER, RunInterrupted, RunResult, Watcher
from .spent import Books, check_spent, paid_amounts, price_gaps, read_books, unmetered
from .unseen import unseen_calls

if TYPE_CHECKING:
    from .live import LiveCapture


def work_left(books: Books, episodes: Sequence[Episode], retry: Sequence[str] = ()) -> list[Work]:
    """What the ledger lacks, what a provider refused, and what is missing for one of these reasons."""
    before = {e.head.episode: e.head for e in books.live}
    return [
        Work(e, before[e.id].trace_id if e.id in before else None)
        for e in episodes
        if e.id not in before or _is_retried(before[e.id].outcome, retry)
    ]


class Session:
    """One session of a run."""

    def __init__(
        self,
        home: Home,
        run: Run,
        loaded: LoadedSuite,
        agent: Agent,
        spec: str,
        options: RunOptions,
        answers_for: AnswersFor | None = None,
    ) -> None:
        """`spec` is how another process finds the agent; `answers_for` cannot travel there, so it needs `local`."""
        if answers_for is not None and options.engine != "local":
            raise BadUsage(f"recorded answers are given on this machine only, not on the engine {options.engine!r}")
        self._answers_for = answers_for
        self._breaker = Breaker(options.breaker)
        self.home = home
        self.run = run
        self.loaded = loaded
        self.agent = agent
        self.spec = spec
        self.options = options
        self.stopped: str | None = None
        self.crashed = 0
        self.first_crash: EpisodeReport | None = None
        self.why: str | None = None
        self.warnings: list[str] = []
        self._polled = 0.0

    def go(self, episodes: Sequence[Episode], retry: Sequence[str], watcher: Watcher) -> RunResult:
        """Run what is left to run; one session at a time."""
        started = time.monotonic()
        with lease.session(self.run.files, self.run.path):
            lay_down(self.run.files, self.run.path)
            executed = self._buy(episodes, retry, watcher)
        if executed and self.stopped != "interrupted":
            with suppress(EthogramError):  # many small files are a nuisance, not a failure of the run
                compact(self.run)
        result = self._result(episodes, executed, time.monotonic() - started)
        if self.stopped == "interrupted":
            raise RunInterrupted(result)
        return result

    def _buy(self, episodes: Sequence[Episode], retry: Sequence[str], watcher: Watcher) -> int:
        """Run what the ledger lacks; gives how many episodes that were."""
        self.run.forget_cache()
        books = read_books(self.run)
        work = work_left(books, episodes, retry)
        check_spent(self.run, books, self.options.caps, self.options.metering)
        redone = {w.episode.id for w in work}
        threshold = self.run.success_at
        watcher.started(
            self.run.name,
            len(episodes),
            [_old_report(e, threshold, self.run) for e in books.live if e.head.episode not in redone],
            self.options.caps.experiment.usd,
        )
        count = 0
        tasks = {t.id: t for t in self.loaded.suite.tasks}
        asked = {w.episode.task for w in work}
        self._warn(watcher, before_start([t for t in tasks.values() if t.id in asked], self.agent))

        def report(done: EpisodeReport) -> None:
            nonlocal count
            count += 1
            if count == 1 and (silent := after_first(tasks[done.task], done)) and not self.warnings:
                self._warn(watcher, [silent])
            if done.crash is not None:
                self.crashed += 1
                self.first_crash = self.first_crash or done
            if isinstance(done.outcome, Missing) and done.outcome.reason == "cap.experiment":
                blind = (done.stopped_by or "").startswith(UNMETERED)
                self.stopped, self.why = (UNMETERED, done.outcome.detail) if blind else ("cap.experiment", self.why)
            if done.halted is not None and self.stopped is None:
                self.stopped, self.why = PROVIDER, f"the provider goes on refusing: {done.halted}"
            watcher.done(done)

        if work:
            for level in ("experiment", "episode") if is_captured(self.agent, self.options) else ():
                told = self._promise(level)
                if told is not None:
                    watcher.warn(told)
            with self._budget(books.total) as budget, self._capture() as capture:
                engine = self._engine(budget, books.tasks, capture)
                del books
                try:
                    engine.run(iter(work), report, lambda: self._stop(budget))
                except KeyboardInterrupt:
                    self.stopped = "interrupted"
                finally:
                    engine.close()
        return count

    def _warn(self, watcher: Watcher, notes: Sequence[str]) -> None:
        self.warnings += notes
        for words in notes:
            watcher.warn(words)

    def _promise(self, level: str) -> str | None:
        """What a cap promises, for the models of which the options speak."""
        metering, stated = self.options.metering, self.options.meta.get("model")
        own = [p.model for p in metering.prices or () if "*" not in p.model and "?" not in p.model]
        models = [stated] if isinstance(stated, str) else own
        return promise(level, getattr(self.options.caps, level), metering.calls(), models, time.time_ns())

    def _budget(self, spent: Amounts) -> AbstractContextManager[Budget]:
        """The budget of the run; on a cluster an actor keeps it for all machines."""
        caps = self.options.caps.experiment
        if self.options.engine == "ray":
            return nullcontext(Budget("experiment", caps, spent=spent))
        return experiment_budget(self.run, caps, spent)

    def _capture(self) -> AbstractContextManager[LiveCapture | None]:
        """Where model calls of this process are seen; workers elsewhere have gateways of their own."""
        if self.options.engine == "ray" or not is_captured(self.agent, self.options):
            return nullcontext()
        from .live import live_capture

        return live_capture(self.agent, self.options, self.run, self._breaker)

    def _engine(
        self, budget: Budget, tasks: dict[str, Amounts], capture: LiveCapture | None
    ) -> Engine[Work, EpisodeReport]:
        """The engine; `tasks` is what earlier sessions spent on each."""
        options = self.options
        if options.engine == "ray":
            from .on_ray import ray_engine

            return ray_engine(self.home, self.run, self.run.info.plan["suite"], self.spec, options, budget, tasks)

        def task_budget(task: str) -> Budget:
            return Budget("task", options.caps.task, budget, tasks.get(task))

        executor = make_executor(
            self.home,
            self.run,
            self.loaded,
            self.agent,
            options,
            budget,
            task_budget,
            capture,
            self._answers_for,
            self._breaker,
        )
        return LocalEngine(executor, options.workers)

    def _stop(self, budget: Budget) -> bool:
        """Whether to start nothing more: the switch was pulled, or the experiment's budget is used up."""
        if self.stopped is not None:
            return True
        now = time.monotonic()
        if now - self._polled >= POLL_SECONDS:
            self._polled = now
            self._check_there()
            if pulled(self.run.files, self.run.path) is not None:
                self.stopped = "killed"
        if self.stopped is None and budget.exhausted() is not None:
            self.stopped = "cap.experiment"
        return self.stopped is not None

    def _check_there(self) -> None:
        """A home that vanished keeps nothing: to go on would be to pay for nothing."""
        if not self.run.files.exists(f"{self.run.path}/run.json"):
            raise lease.vanished(self.run.files, self.run.path)

    def _result(self, episodes: Sequence[Episode], executed: int, seconds: float) -> RunResult:
        self._check_there()
        self.run.forget_cache()
        books = read_books(self.run)
        planned = {e.id for e in episodes}
        entries = [e for e in books.live if e.head.episode in planned]
        missing = Counter(e.head.outcome.reason for e in entries if isinstance(e.head.outcome, Missing))
        threshold = self.run.success_at
        price_gaps(self.run, books, self.options.metering)
        unknown = books.unmetered | (SPENT - meters_of(self.agent, self.options))
        return RunResult(
            run=self.run.name,
            planned=len(episodes),
            scored=len(entries) - missing.total(),
            missing=dict(sorted(missing.items())),
            not_run=len(episodes) - len(entries),
            successes=sum(_succeeded(e, threshold) for e in entries),
            cut_off=sum(CUT_OFF in e.head.meta for e in entries),
            cut_off_successes=sum(CUT_OFF in e.head.meta and _succeeded(e, threshold) for e in entries),
            cost_usd=None if "usd" in unknown else books.kept.usd,
            tokens=None if "tokens" in unknown else int(books.kept.tokens),
            seconds=seconds,
            at_least_usd=books.kept.usd,
            at_least_tokens=int(books.kept.tokens),
            repeated_usd=max(0.0, round(books.total.usd - books.kept.usd, 12)),
            model_calls=sum(e.totals.model_calls or 0 for e in entries),
            stopped=self.stopped,
            why=self.why,
            executed=executed,
            crashed=self.crashed,
            crash=None if self.first_crash is None else self.first_crash.crash,
            crash_at=() if self.first_crash is None else self.first_crash.crash_at,
            replays=None if self.options.replay is None else self.options.replay.run,
            failures=self._failures(planned),
            warnings=(*self.warnings, *self._openness()),
            missing_details=_missing_details(self.run, entries),
            unseen=unseen_calls(self.run, entries, self.agent, self.options),
        )

    def _openness(self) -> tuple[str, ...]:
        """What to know of a command that was not isolated."""
        if not isinstance(self.agent, CommandAgent) or isolation_here(self.options.isolation) != "none":
            return ()
        why = why_not_isolated() or "--isolation none"
        return (f"the agent was not isolated ({why}): it could read the suite and this home, and write anywhere",)

    def _failures(self, planned: Collection[str]) -> tuple[ReplayFailure, ...]:
        if self.options.replay is None:
            return ()
        return failures_of(self.run, self.home.resolve(self.options.replay.run), planned)


def _succeeded(entry: Entry, threshold: float) -> bool:
    outcome = entry.head.outcome
    return isinstance(outcome, Scored) and outcome.success(threshold)


def _is_retried(outcome: Scored | Missing, retry: Sequence[str]) -> bool:
    return isinstance(outcome, Missing) and (outcome.reason in retry or outcome.reason in PROVIDER_REASONS)


def _old_report(entry: Entry, threshold: float, run: Run) -> EpisodeReport:
    head, amounts = entry.head, paid_amounts(entry.totals, entry.head.meta.items())
    return EpisodeReport(
        episode=head.episode,
        task=head.task,
        attempt=head.attempt,
        condition=head.condition,
        outcome=head.outcome,
        seconds=0.0,
        tokens=amounts.tokens,
        usd=amounts.usd,
        success_at=threshold,
        unmetered=tuple(sorted(unmetered(entry.totals, head.meta, run) - {UNSEEN, SILENT})),
    )


def _missing_details(run: Run, entries: Sequence[Entry]) -> dict[str, str]:
    """What the first missing outcome of each reason says; nothing of a sealed run, whose words need a key."""
    first: dict[str, TraceId] = {}
    for entry in entries:
        if isinstance(entry.head.outcome, Missing):
            first.setdefault(entry.head.outcome.reason, entry.head.trace_id)
    details = {}
    for reason, trace in first.items():
        with suppress(Sealed):
            outcome = run.head(run.find(trace)).outcome
            details[reason] = outcome.detail if isinstance(outcome, Missing) else ""
    return {reason: detail for reason, detail in details.items() if detail}
