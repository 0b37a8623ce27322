"""Running a suite: plan, execute, resume. The bill cannot run away, and nothing is run twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ethogram.errors import BadUsage, NotFound
from ethogram.plans import Condition, Episode
from ethogram.prices import Amounts, Metering
from ethogram.store import Home, Run, home_of
from ethogram.store.lake import REPLAY, REPLAYED
from ethogram.store.lease import check_idle
from ethogram.store.stop import check_released, release
from ethogram.suites.load import LoadedSuite
from ethogram.traces import REASONS, Param, is_marked

from .agents import Agent, load_agent
from .environment import Environment
from .options import AllCaps, RunOptions, changed
from .planning import (
    AgentSpec,
    RunPlan,
    SuiteSpec,
    agent_for,
    check_meters,
    describe,
    episodes_of,
    extended,
    first_episodes,
    fresh_name,
    planned_attempts,
    record_extension,
    suite_of,
)
from .processes import CommandBounds
from .recorded_answers import replay_of
from .run_result import Quiet, RunResult, Watcher
from .run_start import begin_run
from .session import Session, work_left
from .spent import read_books

_DEFAULTS = RunOptions()


def plan_run(suite: SuiteSpec, agent: AgentSpec, options: RunOptions) -> RunPlan:
    """The plan of a run with an upper bound of its price; nothing is called."""
    loaded, acting = suite_of(suite), load_agent(agent)
    episodes = first_episodes(loaded, acting.name, options)
    check_meters(acting, options, loaded.suite)
    return describe(loaded, acting.name, options, episodes, len(episodes), Amounts())


def run(
    suite: SuiteSpec,
    agent: AgentSpec,
    *,
    home: Home | str | None = None,
    progress: Watcher | None = None,
    k: int = _DEFAULTS.k,
    seed: int = _DEFAULTS.seed,
    run: str | None = _DEFAULTS.name,
    engine: str = _DEFAULTS.engine,
    workers: int = _DEFAULTS.workers,
    limit: int | None = _DEFAULTS.limit,
    tasks: tuple[str, ...] = _DEFAULTS.tasks,
    tags: tuple[str, ...] = _DEFAULTS.tags,
    meta: Mapping[str, Param] = _DEFAULTS.meta,
    caps: AllCaps = _DEFAULTS.caps,
    conditions: tuple[Condition, ...] = _DEFAULTS.conditions,
    retries: int = _DEFAULTS.retries,
    breaker: int = _DEFAULTS.breaker,
    redact: str = _DEFAULTS.redact,
    seal: bool | None = _DEFAULTS.seal,
    keep: str = _DEFAULTS.keep,
    isolation: str = _DEFAULTS.isolation,
    bounds: CommandBounds = _DEFAULTS.bounds,
    environment: Environment = _DEFAULTS.environment,
    metering: Metering = _DEFAULTS.metering,
    capture: str = _DEFAULTS.capture,
) -> RunResult:
    """Run `k` seeded attempts of every task of a suite, and store their traces and outcomes as a run.

    `suite` is a folder, a file or a `Suite`; `agent` a function, or a name such as `my.mod:agent`. `run` names the
    run; `tasks` and `limit` choose among the tasks, `conditions` are varied for each. `engine` is `local` or `ray`
    (`workers` episodes at once); `caps` limits steps, tokens, dollars and seconds, `metering` says how use is
    priced. `retries` counts attempts after a failure of the infrastructure, `breaker` equal refusals of a provider that
    stop the run; `isolation` and `keep` are about the folder in which each episode works, `bounds` about what a command
    may use, `environment` about the variables that the agent sees, `capture` about its model calls
    (`auto`, `gateway` or `off`). Raises `BadInput` before anything is run if the suite, the agent or an option cannot
    be used; a run that is stopped can be resumed.

    Example: `run("suite/", "my.mod:agent", k=5).scored`
    """
    options = RunOptions(
        k=k,
        seed=seed,
        name=run,
        engine=engine,
        workers=workers,
        limit=limit,
        tasks=tasks,
        tags=tags,
        meta=meta,
        caps=caps,
        conditions=conditions,
        retries=retries,
        breaker=breaker,
        redact=redact,
        seal=seal,
        keep=keep,
        isolation=isolation,
        bounds=bounds,
        environment=environment,
        metering=metering,
        capture=capture,
    )
    return start_run(suite, agent, options, home=home, progress=progress)


def start_run(
    suite: SuiteSpec,
    agent: AgentSpec,
    options: RunOptions,
    *,
    home: Home | str | None = None,
    progress: Watcher | None = None,
    more: Mapping[str, Any] | None = None,
) -> RunResult:
    """`run` with its options in one record; `more` is what a question keeps in `run.json` about its plan."""
    return begin_run(suite, agent, options, home=home, progress=progress, more=more)


def replay_run(
    run: str,
    *,
    suite: SuiteSpec | None = None,
    agent: AgentSpec | None = None,
    changes: Mapping[str, Any] | None = None,
    home: Home | str | None = None,
    progress: Watcher | None = None,
) -> RunResult:
    """Run the episodes of a recorded run once more, answered from it: offline and free, and never samples.

    Suite, agent and options are those of the run, as far as `changes` (fields of `RunOptions`) does not say otherwise.
    The result's `failures` are the episodes that deviated, that no longer passed, or that the run has no record of.
    Raises `BadUsage` for a run that has no plan or no episodes, and for a suite or an agent that must be named again.

    Example: `replay_run("nightly", agent="agent.py:solve").failures`
    """
    lake = home_of(home)
    found = lake.resolve(run)
    stored = _stored(found)
    if not found.entries:
        raise BadUsage(f"run {found.name!r} has no episodes, so there is nothing to replay")
    given = {name: value for name, value in (changes or {}).items() if value is not None}
    kept = {"tags": (), "engine": "local", "capture": "auto", "caps": AllCaps(episode=stored.caps.episode)}
    fixed = {"replay": replay_of(found, found.entries), "redact": found.info.redaction}
    unpaid = {"metering": Metering(allow_unmetered=True), "name": fresh_name(lake, f"replay-{found.name}")}
    options = msgspec.structs.replace(stored, **{**kept, **unpaid, **given, **fixed})
    episodes = None
    if not {"k", "tasks", "limit", "conditions"} & given.keys():
        loaded = suite_of(_again(found, "suite", suite))
        episodes = episodes_of(planned_attempts(found, loaded, options), "", options)
    more = {REPLAYED: found.name}
    return begin_run(
        _again(found, "suite", suite),
        _again(found, "agent", agent),
        options,
        lake,
        progress,
        more,
        episodes=episodes,
        kind=REPLAY,
    )


def resume_run(
    run: str,
    *,
    k: int | None = None,
    tasks: Sequence[str] = (),
    retry: Sequence[str] = (),
    undo: bool = False,
    engine: str | None = None,
    workers: int | None = None,
    caps: AllCaps | None = None,
    environment: Environment | None = None,
    metering: Metering | None = None,
    capture: str | None = None,
    suite: SuiteSpec | None = None,
    agent: AgentSpec | None = None,
    home: Home | str | None = None,
    progress: Watcher | None = None,
) -> RunResult:
    """Run exactly the episodes that the ledger lacks, with the same seeds; `retry` also those missing for a reason.

    `k` raises the attempts of all tasks, or of `tasks`: the episodes are those that a run with that k would have had.
    A suite or an agent that was made in Python must be given again. A run whose kill switch is pulled goes on only with
    `undo`, which releases it; else `BadUsage` is raised.
    """
    changes = {"engine": engine, "workers": workers, "caps": caps, "capture": capture}
    known = _reopen(run, suite, agent, home, {**changes, "environment": environment, "metering": metering})
    episodes = known.episodes
    _check_reasons(retry)
    check_idle(known.run.files, known.run.path)
    if undo:
        release(known.run.files, known.run.path)
    check_released(known.run.files, known.run.path, known.run.name)
    longer = _longer(known, k, tasks)
    if longer is not None:
        episodes = episodes_of(longer, known.agent.name, known.options)
        added = tasks or tuple(longer)
        record_extension(known.home, known.run, known.options, longer[added[0]], added, len(episodes))
    session = Session(known.home, known.run, known.loaded, known.agent, known.spec, known.options)
    return session.go(episodes, retry, progress or Quiet())


def plan_resume(
    run: str,
    *,
    k: int | None = None,
    tasks: Sequence[str] = (),
    retry: Sequence[str] = (),
    engine: str | None = None,
    caps: AllCaps | None = None,
    environment: Environment | None = None,
    metering: Metering | None = None,
    capture: str | None = None,
    suite: SuiteSpec | None = None,
    agent: AgentSpec | None = None,
    home: Home | str | None = None,
) -> RunPlan:
    """What `resume_run` would run, with an upper bound of its price; nothing is called and nothing is written."""
    changes = {"engine": engine, "caps": caps, "environment": environment, "metering": metering, "capture": capture}
    known = _reopen(run, suite, agent, home, changes)
    _check_reasons(retry)
    longer = _longer(known, k, tasks)
    episodes = known.episodes if longer is None else episodes_of(longer, known.agent.name, known.options)
    books = read_books(known.run)
    left = len(work_left(books, episodes, retry))
    return describe(known.loaded, known.agent.name, known.options, episodes, left, books.total)


class _Known(NamedTuple):
    """A run as it was planned, with its suite and its agent at hand."""

    home: Home
    run: Run
    loaded: LoadedSuite
    agent: Agent
    spec: str
    options: RunOptions
    attempts: dict[str, int]

    @property
    def episodes(self) -> tuple[Episode, ...]:
        """The plan as it stands."""
        return episodes_of(self.attempts, self.agent.name, self.options)


def _reopen(
    run: str,
    suite: SuiteSpec | None,
    agent: AgentSpec | None,
    home: Home | str | None,
    changes: dict[str, Any],
) -> _Known:
    """A run with its suite and its agent; what does not fit to it is refused."""
    lake = home_of(home)
    found = lake.resolve(run)
    plan = found.info.plan
    options = changed(_stored(found), changes).resolved()
    loaded = suite_of(_again(found, "suite", suite))
    if loaded.suite.digest != plan["suite_digest"]:
        raise BadUsage(
            f"the suite {plan['suite']!r} has changed since {found.name!r} began; restore it, or begin a new run"
        )
    acting = agent_for(_again(found, "agent", agent), options)
    check_meters(acting, options, loaded.suite)
    spec = agent if isinstance(agent, str) else plan["agent"]
    known = _Known(lake, found, loaded, acting, spec, options, planned_attempts(found, loaded, options))
    if found.entries and not {e.id for e in known.episodes} & {e.head.episode for e in found.entries}:
        raise BadUsage(
            f"run {found.name!r} is of the agent {plan['agent']!r}, not of {acting.name!r}; resume it with the same "
            "agent, or begin a new run"
        )
    return known


def _stored(run: Run) -> RunOptions:
    """The options that a run began with; raises `BadUsage` for a run that was not planned."""
    if run.info.kind not in ("run", REPLAY) or "options" not in run.info.plan:
        raise BadUsage(f"{run.name!r} was not made by 'ethogram run'; there is no plan to continue")
    return RunOptions.stored(run.info.plan)


def _again(run: Run, what: str, given: Any) -> Any:
    """The suite or the agent of a run, unless another is given."""
    if given is not None:
        return given
    known = run.info.plan[what]
    if is_marked(known):
        option = "name it again" if what == "suite" else "name it again with --agent"
        raise BadUsage(f"the {what} of run {run.name!r} was stored without the secret in its address; {option}")
    return known


def _longer(known: _Known, k: int | None, tasks: Sequence[str]) -> dict[str, int] | None:
    """Attempts of each task if more are asked for than are planned; None if not."""
    if k is None:
        if tasks:
            raise BadUsage("tasks of a resume say which of them get more attempts; say how many with -k")
        return None
    longer = extended(known.run.name, known.attempts, k, tasks, [t.id for t in known.loaded.suite.tasks])
    return longer if longer != known.attempts else None


def _check_reasons(retry: Sequence[str]) -> None:
    for reason in retry:
        if reason not in REASONS:
            raise NotFound.named("reason", reason, list(REASONS))
