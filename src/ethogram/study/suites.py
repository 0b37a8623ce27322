"""Running a suite: plan, execute, resume. The bill cannot run away, and nothing is run twice."""

from __future__ import annotations

import platform
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec

from ethogram.cost import Amounts, Budget
from ethogram.errors import BadUsage, NotFound
from ethogram.lab.result import Result
from ethogram.lab.suites import LoadedSuite, load_suite
from ethogram.plan import Episode, Suite, plan_episodes
from ethogram.run.agents import Agent, load_agent
from ethogram.run.engines.local import Engine, LocalEngine
from ethogram.run.executor import EpisodeReport as EpisodeReport
from ethogram.run.executor import Executor, Work
from ethogram.store import Home, Run, open_home
from ethogram.store.redact import policy_from
from ethogram.store.stop import POLL_SECONDS, pulled, release
from ethogram.trace import REASONS, Missing, Scored

from .executors import make_executor
from .options import RunOptions


class RunPlan(Result, kw_only=True):
    """What would be run, and the most that it can cost."""

    suite: str
    suite_digest: str
    agent: str
    tasks: list[str]
    attempts: int
    conditions: list[str]
    planned: int
    remaining: int
    seed: int
    engine: str
    caps: dict[str, dict[str, float]]
    cost_usd_at_most: float | None
    why: str | None = None

    def rows(self) -> list[dict[str, Any]]:
        """One row per task."""
        return [{"task": t, "attempts": self.attempts, "conditions": len(self.conditions)} for t in self.tasks]


class RunResult(Result, kw_only=True):
    """What a run did; `missing` counts outcomes by reason, `not_run` what is still to do."""

    run: str
    planned: int
    scored: int
    missing: dict[str, int]
    not_run: int
    successes: int
    cost_usd: float
    tokens: int
    seconds: float
    stopped: str | None = None
    executed: int = 0


class Watcher(Protocol):
    """Follows a run while it goes."""

    def started(self, run: str, planned: int, done: Sequence[EpisodeReport], cap_usd: float | None) -> None:
        """The run begins; `done` is what an earlier session did."""
        ...

    def done(self, report: EpisodeReport) -> None:
        """An episode ended."""
        ...


class Quiet:
    """A watcher that says nothing."""

    def started(self, run: str, planned: int, done: Sequence[EpisodeReport], cap_usd: float | None) -> None:
        """Nothing."""

    def done(self, report: EpisodeReport) -> None:
        """Nothing."""


SuiteSpec = str | Path | Suite


def _load(suite: SuiteSpec) -> LoadedSuite:
    """A suite from where it lies, or one that was made in Python."""
    if isinstance(suite, Suite):
        return LoadedSuite(suite=suite, root=Path.cwd(), module=None)
    return load_suite(suite)


def plan_run(
    suite: SuiteSpec, agent: str | Agent | Callable[..., Any], options: RunOptions | None = None, **given: Any
) -> RunPlan:
    """The plan of a run with an upper bound of its price; nothing is called."""
    options = msgspec.structs.replace(options or RunOptions(), **given)
    loaded, acting = _load(suite), load_agent(agent)
    episodes = _episodes(loaded, acting.name, options)
    check_meters(acting, options)
    return _plan(loaded, acting.name, options, episodes, len(episodes))


def run_suite(
    suite: SuiteSpec,
    agent: str | Agent | Callable[..., Any],
    options: RunOptions | None = None,
    *,
    home: Home | str | None = None,
    watcher: Watcher | None = None,
    **given: Any,
) -> RunResult:
    """Run K seeded attempts of every task: `run_suite("suite/", "my.mod:agent", k=5)`."""
    options = msgspec.structs.replace(options or RunOptions(), **given)
    lake = home if isinstance(home, Home) else open_home(home)
    loaded, acting = _load(suite), load_agent(agent)
    episodes = _episodes(loaded, acting.name, options)
    check_meters(acting, options)
    policy_from(options.redact)
    spec = agent if isinstance(agent, str) else acting.name
    record = {
        "suite": loaded.suite.name if isinstance(suite, Suite) else str(suite),
        "suite_name": loaded.suite.name,
        "suite_digest": loaded.suite.digest,
        "agent": spec,
        "options": msgspec.to_builtins(options),
        "planned": len(episodes),
        "provenance": _provenance(),
    }
    run = lake.create(
        options.name or _fresh_name(lake, loaded.suite.name),
        "run",
        tags=options.tags,
        redaction=options.redact,
        meta=dict(options.meta),
        plan=record,
    )
    return _Session(lake, run, loaded, acting, spec, options).go(episodes, (), watcher or Quiet())


def resume_run(
    run: str,
    *,
    retry: Sequence[str] = (),
    engine: str | None = None,
    max_concurrency: int | None = None,
    caps: Any = None,
    suite: SuiteSpec | None = None,
    agent: str | Agent | Callable[..., Any] | None = None,
    home: Home | str | None = None,
    watcher: Watcher | None = None,
) -> RunResult:
    """Run exactly the episodes that the ledger lacks, with the same seeds; `retry` also those missing for a reason.

    A suite or an agent that was made in Python must be given again.
    """
    lake = home if isinstance(home, Home) else open_home(home)
    found = lake.resolve(run)
    plan = found.info.plan
    if found.info.kind != "run" or "suite" not in plan:
        raise BadUsage(f"{found.name!r} was not made by 'ethogram run'; there is no plan to resume")
    for reason in retry:
        if reason not in REASONS:
            raise NotFound.named("reason", reason, list(REASONS))
    changes = {"engine": engine, "max_concurrency": max_concurrency, "caps": caps}
    options = msgspec.convert(plan["options"], RunOptions)
    options = msgspec.structs.replace(options, **{k: v for k, v in changes.items() if v is not None})
    loaded = _load(suite or plan["suite"])
    if loaded.suite.digest != plan["suite_digest"]:
        raise BadUsage(
            f"the suite {plan['suite']!r} has changed since {found.name!r} began; restore it, or begin a new run"
        )
    acting = load_agent(agent or plan["agent"])
    check_meters(acting, options)
    release(found.files, found.path)
    session = _Session(lake, found, loaded, acting, plan["agent"], options)
    return session.go(_episodes(loaded, acting.name, options), retry, watcher or Quiet())


def check_meters(agent: Agent, options: RunOptions) -> None:
    """Refuse a cap on what cannot be metered, before anything runs."""
    blind = sorted(options.caps.limited() - agent.meters)
    if blind:
        raise BadUsage(
            f"{agent.name} does not let us count its {blind[0]} while it runs, so a cap on it could not be kept; "
            f"remove the cap, or use an agent that reports {blind[0]} (a Python agent, or one behind the gateway)"
        )


def _episodes(loaded: LoadedSuite, agent: str, options: RunOptions) -> tuple[Episode, ...]:
    if options.k < 1:
        raise BadUsage(f"-k must be at least 1, not {options.k}")
    if options.max_concurrency < 1:
        raise BadUsage(f"--max-concurrency must be at least 1, not {options.max_concurrency}")
    known = [t.id for t in loaded.suite.tasks]
    for wanted in options.tasks:
        if wanted not in known:
            raise NotFound.named(f"task in suite {loaded.suite.name}", wanted, known)
    chosen = [t for t in known if not options.tasks or t in options.tasks][: options.limit]
    return plan_episodes(tuple(chosen), agent, options.k, options.seed, options.conditions)


def _plan(loaded: LoadedSuite, agent: str, options: RunOptions, episodes: Sequence[Episode], remaining: int) -> RunPlan:
    bound, why = _price_bound(loaded, options, remaining)
    return RunPlan(
        suite=loaded.suite.name,
        suite_digest=loaded.suite.digest,
        agent=agent,
        tasks=list(dict.fromkeys(e.task for e in episodes)),
        attempts=options.k,
        conditions=[c.name for c in options.conditions],
        planned=len(episodes),
        remaining=remaining,
        seed=options.seed,
        engine=options.engine,
        caps={
            level: {str(k): v for k, v in getattr(options.caps, level).named().items()}
            for level in ("experiment", "task", "episode")
        },
        cost_usd_at_most=bound,
        why=why,
    )


def _price_bound(loaded: LoadedSuite, options: RunOptions, remaining: int) -> tuple[float | None, str | None]:
    """The most that a run can cost: the lowest bound that the caps give."""
    bounds = []
    caps = options.caps
    if caps.experiment.usd is not None:
        bounds.append(caps.experiment.usd)
    if caps.episode.usd is not None:
        bounds.append(caps.episode.usd * remaining)
    if caps.task.usd is not None:
        bounds.append(caps.task.usd * len(loaded.suite.tasks))
    if bounds:
        return min(bounds), None
    return None, "no cap on dollars is set, so there is no upper bound; set one with --max-usd"


def _fresh_name(home: Home, suite: str) -> str:
    import re

    base = re.sub(r"[^A-Za-z0-9._-]+", "-", suite).strip("-._")[:80] or "run"
    taken = set(home.names())
    return next(name for i in range(1, 10**6) if (name := f"{base}-{i:03d}") not in taken)


def _provenance() -> dict[str, str]:
    """Which code ran: enough to run it again."""
    facts = {"python": platform.python_version(), "system": platform.system()}
    try:
        asked = subprocess.run(
            ["git", "rev-parse", "HEAD"],  # noqa: S607 - the user's own git
            capture_output=True,
            text=True,
            timeout=5,
            check=False,
            cwd=Path.cwd(),
        )
        if asked.returncode == 0:
            facts["git_commit"] = asked.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        pass
    return facts


class _Session:
    """One session of a run: from a plan and a ledger to a longer ledger."""

    def __init__(self, home: Home, run: Run, loaded: LoadedSuite, agent: Agent, spec: str, options: RunOptions) -> None:
        self.home = home
        self.run = run
        self.loaded = loaded
        self.agent = agent
        self.spec = spec
        self.options = options
        self.stopped: str | None = None
        self._polled = 0.0

    def go(self, episodes: Sequence[Episode], retry: Sequence[str], watcher: Watcher) -> RunResult:
        """Run what is left to run."""
        started = time.monotonic()
        before = {e.head.episode: e for e in self.run.entries}
        spent = self._spent()
        work = [
            Work(e, before[e.id].head.trace_id if e.id in before else None)
            for e in episodes
            if e.id not in before or _is_retried(before[e.id].head.outcome, retry)
        ]
        redone = {w.episode.id for w in work}
        watcher.started(
            self.run.name,
            len(episodes),
            [_old_report(e) for e in before.values() if e.head.episode not in redone],
            self.options.caps.experiment.usd,
        )
        budget = Budget("experiment", self.options.caps.experiment, spent=spent)
        count = 0

        def report(done: EpisodeReport) -> None:
            nonlocal count
            count += 1
            if isinstance(done.outcome, Missing) and done.outcome.reason == "cap.experiment":
                self.stopped = "cap.experiment"
            watcher.done(done)

        if work:
            engine = self._engine(budget)
            try:
                engine.run(iter(work), report, lambda: self._stop(budget))
            finally:
                engine.close()
        return self._result(episodes, count, time.monotonic() - started)

    def _engine(self, budget: Budget) -> Engine:
        options = self.options
        if options.engine == "ray":
            from ethogram.study.on_ray import ray_engine

            return ray_engine(self.home, self.run, self.run.info.plan["suite"], self.spec, options, budget)
        if options.engine != "local":
            raise NotFound.named("engine", options.engine, ["local", "ray"])
        return LocalEngine(self.executor(budget), options.max_concurrency)

    def executor(self, budget: Budget) -> Executor:
        """An executor with a writer of its own."""
        return make_executor(self.home, self.run, self.loaded, self.agent, self.options, budget)

    def _stop(self, budget: Budget) -> bool:
        """Whether to start nothing more: the switch was pulled, or the experiment's budget is used up."""
        if self.stopped is not None:
            return True
        now = time.monotonic()
        if now - self._polled >= POLL_SECONDS:
            self._polled = now
            if pulled(self.run.files, self.run.path) is not None:
                self.stopped = "killed"
        if self.stopped is None and budget.exhausted() is not None:
            self.stopped = "cap.experiment"
        return self.stopped is not None

    def _spent(self) -> Amounts:
        """What earlier sessions used, wasted tries included."""
        spent = Amounts()
        for segment in self.run.segments():
            for entry in segment.entries:
                totals, meta = entry.totals, entry.head.meta
                spent.usd += (totals.cost_usd or 0.0) + _number(meta.get("wasted_usd"))
                spent.tokens += sum(
                    getattr(totals, f) or 0
                    for f in ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
                ) + _number(meta.get("wasted_tokens"))
                spent.steps += totals.model_calls + totals.tool_calls
        return spent

    def _result(self, episodes: Sequence[Episode], executed: int, seconds: float) -> RunResult:
        self.run.forget_cache()
        planned = {e.id for e in episodes}
        entries = [e for e in self.run.entries if e.head.episode in planned]
        missing = Counter(e.head.outcome.reason for e in entries if isinstance(e.head.outcome, Missing))
        threshold = self.loaded.suite.success_at
        spent = self._spent()
        return RunResult(
            run=self.run.name,
            planned=len(episodes),
            scored=len(entries) - missing.total(),
            missing=dict(sorted(missing.items())),
            not_run=len(episodes) - len(entries),
            successes=sum(isinstance(e.head.outcome, Scored) and e.head.outcome.success(threshold) for e in entries),
            cost_usd=spent.usd,
            tokens=int(spent.tokens),
            seconds=seconds,
            stopped=self.stopped,
            executed=executed,
        )


def _is_retried(outcome: Scored | Missing, retry: Sequence[str]) -> bool:
    return isinstance(outcome, Missing) and outcome.reason in retry


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _old_report(entry: Any) -> EpisodeReport:
    head, totals = entry.head, entry.totals
    return EpisodeReport(
        episode=head.episode,
        task=head.task,
        attempt=head.attempt,
        condition=head.condition,
        outcome=head.outcome,
        seconds=0.0,
        tokens=(totals.input_tokens or 0) + (totals.output_tokens or 0),
        usd=totals.cost_usd or 0.0,
    )
