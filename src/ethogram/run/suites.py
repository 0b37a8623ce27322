"""Running a suite: plan, execute, resume. The bill cannot run away, and nothing is run twice."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ethogram.cost import Amounts, Metering
from ethogram.errors import BadInput, BadUsage, NotFound
from ethogram.plan import Condition, Episode, Suite
from ethogram.store import Home, Run, home_of
from ethogram.store.lake import METERS
from ethogram.store.lease import check_idle
from ethogram.store.redact import is_marked, policy_from
from ethogram.store.stop import release
from ethogram.suite.load import LoadedSuite
from ethogram.trace import REASONS

from .agents import Agent, load_agent
from .environment import Environment
from .executor import EpisodeReport as EpisodeReport
from .options import AllCaps, RunOptions, changed
from .planning import (
    AgentSpec,
    SuiteSpec,
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
from .planning import RunPlan as RunPlan
from .session import Quiet as Quiet
from .session import RunInterrupted as RunInterrupted
from .session import RunResult as RunResult
from .session import Session, read_books, work_left
from .session import Watcher as Watcher

_DEFAULTS = RunOptions()


def plan_run(suite: SuiteSpec, agent: AgentSpec, options: RunOptions) -> RunPlan:
    """The plan of a run with an upper bound of its price; nothing is called."""
    loaded, acting = suite_of(suite), load_agent(agent)
    episodes = first_episodes(loaded, acting.name, options)
    check_meters(acting, options, loaded.suite)
    return describe(loaded, acting.name, options, episodes, len(episodes), Amounts())


def run_suite(
    suite: SuiteSpec,
    agent: AgentSpec,
    *,
    home: Home | str | None = None,
    watcher: Watcher | None = None,
    k: int = _DEFAULTS.k,
    seed: int = _DEFAULTS.seed,
    name: str | None = _DEFAULTS.name,
    engine: str = _DEFAULTS.engine,
    workers: int = _DEFAULTS.workers,
    limit: int | None = _DEFAULTS.limit,
    tasks: tuple[str, ...] = _DEFAULTS.tasks,
    tags: tuple[str, ...] = _DEFAULTS.tags,
    meta: dict[str, str] = _DEFAULTS.meta,
    caps: AllCaps = _DEFAULTS.caps,
    conditions: tuple[Condition, ...] = _DEFAULTS.conditions,
    retries: int = _DEFAULTS.retries,
    redact: str = _DEFAULTS.redact,
    seal: bool | None = _DEFAULTS.seal,
    keep: str = _DEFAULTS.keep,
    isolation: str = _DEFAULTS.isolation,
    environment: Environment = _DEFAULTS.environment,
    metering: Metering = _DEFAULTS.metering,
) -> RunResult:
    """Run `k` seeded attempts of every task of a suite, and store their traces and outcomes as a run.

    `suite` is a folder, a file or a `Suite`; `agent` a function, or a name such as `my.mod:agent`. `name` names the
    run; `tasks` and `limit` choose among the tasks, `conditions` are varied for each. `engine` is `local` or `ray`
    (`workers` episodes at once); `caps` limits steps, tokens, dollars and seconds, `metering` says how use is
    priced. `retries` counts attempts after a failure of the infrastructure; `isolation` and `keep` are about the folder
    in which each episode works, `environment` about the variables that the agent sees. Raises `BadInput` before
    anything is run if the suite, the agent or an option cannot be used; a run that is stopped can be resumed.

    Example: `run_suite("suite/", "my.mod:agent", k=5).scored`
    """
    options = RunOptions(
        k=k,
        seed=seed,
        name=name,
        engine=engine,
        workers=workers,
        limit=limit,
        tasks=tasks,
        tags=tags,
        meta=meta,
        caps=caps,
        conditions=conditions,
        retries=retries,
        redact=redact,
        seal=seal,
        keep=keep,
        isolation=isolation,
        environment=environment,
        metering=metering,
    )
    return start_run(suite, agent, options, home=home, watcher=watcher)


def start_run(
    suite: SuiteSpec,
    agent: AgentSpec,
    options: RunOptions,
    *,
    home: Home | str | None = None,
    watcher: Watcher | None = None,
    more: Mapping[str, Any] | None = None,
) -> RunResult:
    """`run_suite` with its options in one record; `more` is what a study keeps in `run.json` about its plan."""
    options = options.resolved()
    lake = home_of(home)
    loaded, acting = suite_of(suite), load_agent(agent)
    episodes = first_episodes(loaded, acting.name, options)
    check_meters(acting, options, loaded.suite)
    policy_from(options.redact)
    spec = agent if isinstance(agent, str) else acting.name
    record = {
        "suite": loaded.suite.name if isinstance(suite, Suite) else str(suite),
        "suite_name": loaded.suite.name,
        "suite_digest": loaded.suite.digest,
        "success_at": loaded.suite.success_at,
        "tasks": list(dict.fromkeys(e.task for e in episodes)),
        "agent": spec,
        METERS: sorted(acting.meters),
        "options": options.recorded(),
        "planned": len(episodes),
        "provenance": _provenance(),
        **(more or {}),
    }
    run = lake.create(
        options.name or fresh_name(lake, loaded.suite.name),
        "run",
        tags=options.tags,
        redaction=options.redact,
        meta=dict(options.meta),
        plan=record,
    )
    try:
        return Session(lake, run, loaded, acting, spec, options).go(episodes, (), watcher or Quiet())
    except BadInput:
        if not run.segments():  # it was refused before anything was done: there is no run to go on with
            lake.files.delete(run.path)
        raise


def resume_run(
    run: str,
    *,
    k: int | None = None,
    tasks: Sequence[str] = (),
    retry: Sequence[str] = (),
    engine: str | None = None,
    workers: int | None = None,
    caps: AllCaps | None = None,
    environment: Environment | None = None,
    metering: Metering | None = None,
    suite: SuiteSpec | None = None,
    agent: AgentSpec | None = None,
    home: Home | str | None = None,
    watcher: Watcher | None = None,
) -> RunResult:
    """Run exactly the episodes that the ledger lacks, with the same seeds; `retry` also those missing for a reason.

    `k` raises the attempts of all tasks, or of `tasks`: the episodes are those that a run with that k would have had.
    A suite or an agent that was made in Python must be given again.
    """
    changes = {"engine": engine, "workers": workers, "caps": caps}
    known = _reopen(run, suite, agent, home, {**changes, "environment": environment, "metering": metering})
    episodes = known.episodes
    _check_reasons(retry)
    check_idle(known.run.files, known.run.path)
    longer = _longer(known, k, tasks)
    if longer is not None:
        episodes = episodes_of(longer, known.agent.name, known.options)
        added = tasks or tuple(longer)
        record_extension(known.home, known.run, known.options, longer[added[0]], added, len(episodes))
    release(known.run.files, known.run.path)
    session = Session(known.home, known.run, known.loaded, known.agent, known.spec, known.options)
    return session.go(episodes, retry, watcher or Quiet())


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
    suite: SuiteSpec | None = None,
    agent: AgentSpec | None = None,
    home: Home | str | None = None,
) -> RunPlan:
    """What `resume_run` would run, with an upper bound of its price; nothing is called and nothing is written."""
    changes = {"engine": engine, "caps": caps, "environment": environment, "metering": metering}
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
    if found.info.kind != "run" or "suite" not in plan:
        raise BadUsage(f"{found.name!r} was not made by 'ethogram run'; there is no plan to resume")
    options = changed(RunOptions.stored(plan), changes).resolved()
    for what, given in (("suite", suite), ("agent", agent)):
        if given is None and is_marked(plan[what]):
            option = "name it again" if what == "suite" else "name it again with --agent"
            raise BadUsage(f"the {what} of run {found.name!r} was stored without the secret in its address; {option}")
    loaded = suite_of(suite or plan["suite"])
    if loaded.suite.digest != plan["suite_digest"]:
        raise BadUsage(
            f"the suite {plan['suite']!r} has changed since {found.name!r} began; restore it, or begin a new run"
        )
    acting = load_agent(agent or plan["agent"])
    check_meters(acting, options, loaded.suite)
    spec = agent if isinstance(agent, str) else plan["agent"]
    known = _Known(lake, found, loaded, acting, spec, options, planned_attempts(found, loaded, options))
    if found.entries and not {e.id for e in known.episodes} & {e.head.episode for e in found.entries}:
        raise BadUsage(
            f"run {found.name!r} is of the agent {plan['agent']!r}, not of {acting.name!r}; resume it with the same "
            "agent, or begin a new run"
        )
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
