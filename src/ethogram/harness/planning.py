"""From a suite and options to episodes, and what they can cost at most. A plan may grow later; it never shrinks."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ethogram.arguments import at_least
from ethogram.cluster import check_engine
from ethogram.errors import BadUsage, Damaged, NotFound
from ethogram.plans import Episode, Suite, plan_episodes
from ethogram.prices import Amounts
from ethogram.result import Result
from ethogram.store import Home, Run
from ethogram.store.redact import policy_from
from ethogram.store.stored_run import EXTENSIONS
from ethogram.suites.load import LoadedSuite, load_suite

from .agents import SPENT, Agent, PythonAgent, load_agent
from .options import ADDRESS, LEVELS, RunOptions
from .outside_agents import HttpAgent

SuiteSpec = str | Path | Suite
AgentSpec = str | Agent | Callable[..., Any]


class RunPlan(Result, kw_only=True):
    """What would be run, and the most that it can cost."""

    suite: str
    suite_digest: str
    agent: str
    tasks: list[str]
    attempts: int  # the most of any task: some may have been given more than others
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


class Extension(msgspec.Struct, frozen=True, kw_only=True):
    """More attempts than the run began with: kept in the run, under the ledger's hash; `run.json` never changes."""

    k: int
    tasks: tuple[str, ...]
    planned: int
    at_ns: int


def suite_of(suite: SuiteSpec) -> LoadedSuite:
    """A suite from where it lies, or one that was made in Python."""
    if isinstance(suite, Suite):
        return LoadedSuite(suite=suite, root=Path.cwd(), module=None)
    return load_suite(suite)


def agent_for(agent: AgentSpec, options: RunOptions) -> Agent:
    """An agent that is about to run here: clients that it makes while it is imported find the gateway already."""
    imported = isinstance(agent, str) and not agent.startswith(("cmd:", *ADDRESS))
    if not imported or options.capture == "off" or options.engine == "ray":
        return load_agent(agent)
    from .live import LiveCapture

    with LiveCapture(options.environment, in_process=True, replay=options.replay):
        return load_agent(agent)


def is_captured(agent: Agent, options: RunOptions) -> bool:
    """Whether the model calls of an agent pass through a gateway. Raises `BadUsage` where that cannot be."""
    at_address = options.capture.startswith(ADDRESS)
    if options.replay is not None and options.capture == "off":
        raise BadUsage("recorded answers are given at the gateway; leave out --capture off")
    if isinstance(agent, HttpAgent):
        if options.replay is not None and not at_address:
            raise BadUsage(
                f"{agent.name} is a process of its own, so recorded answers cannot reach it from here; start it under "
                "'ethogram gateway' and give the gateway's address with --capture http://127.0.0.1:PORT"
            )
        if options.capture == "gateway":
            raise BadUsage(
                f"{agent.name} is a process of its own, so its calls cannot be captured from here; start it under "
                "'ethogram gateway' and give the gateway's address with --capture http://127.0.0.1:PORT"
            )
        return at_address
    if at_address:
        raise BadUsage(f"--capture {options.capture} is for agents behind an address; choose auto, gateway or off")
    wanted = options.capture == "gateway" or options.replay is not None
    return wanted or (options.capture == "auto" and not agent.meters >= SPENT)


def meters_of(agent: Agent, options: RunOptions) -> frozenset[str]:
    """The resources whose use can be counted while an agent runs: those of its own, and what model calls use."""
    return agent.meters | SPENT | {"steps"} if is_captured(agent, options) else agent.meters


_FLAGS = {
    ("experiment", "usd"): "--max-usd",
    ("episode", "tokens"): "--max-tokens",
    ("episode", "steps"): "--max-steps",
}
_COUNTED = {"usd": "cost", "tokens": "token use", "steps": "number of steps"}


def _cap_name(resource: str, options: RunOptions) -> str:
    """A cap as it was given: its option, else what it is on."""
    for (level, capped), flag in _FLAGS.items():
        if capped == resource and resource in getattr(options.caps, level).named():
            return flag
    return f"the cap on {resource}"


def check_meters(agent: Agent, options: RunOptions, suite: Suite) -> None:
    """Refuse a cap on what cannot be metered, before anything runs; the tasks of a suite may have caps too."""
    meters = meters_of(agent, options)
    if options.metering.allow_unmetered:
        return
    capped = options.caps.limited() | {resource for task in suite.tasks for resource in task.caps}
    blind = sorted(capped - meters)
    if not blind:
        return
    helps = "remove it"
    if isinstance(agent, HttpAgent):
        helps = "start it under 'ethogram gateway' and give the gateway's address with --capture"
    elif not SPENT.isdisjoint(blind):
        helps = "use --capture auto"
    elif isinstance(agent, PythonAgent):
        helps = (
            "if it records every model call (episode.record.model), declare it with "
            f"{agent.name.rpartition(':')[2]}.meters = {tuple(blind)!r} beside it"
        )
    raise BadUsage(
        f"{_cap_name(blind[0], options)} cannot be enforced: the {_COUNTED.get(blind[0], blind[0])} of {agent.name!r} "
        f"is not recorded in full; {helps}, or --allow-unmetered to cap only what is recorded"
    )


def chosen_tasks(suite: Suite, options: RunOptions) -> tuple[str, ...]:
    """The tasks that options ask for, in the order of the suite."""
    at_least("k", options.k, 1)
    at_least("workers", options.workers, 1)
    at_least("seed", options.seed)
    at_least("retries", options.retries)
    if options.limit is not None:
        at_least("limit", options.limit, 1)
    check_engine(options.engine)
    known = [t.id for t in suite.tasks]
    for wanted in options.tasks:
        if wanted not in known:
            raise NotFound.named("task", wanted, known, where=f"suite {suite.name}")
    return tuple([t for t in known if not options.tasks or t in options.tasks][: options.limit])


def first_episodes(loaded: LoadedSuite, agent: str, options: RunOptions) -> tuple[Episode, ...]:
    """The plan that a run begins with."""
    return plan_episodes(chosen_tasks(loaded.suite, options), agent, options.k, options.seed, options.conditions)


def episodes_of(attempts: Mapping[str, int], agent: str, options: RunOptions) -> tuple[Episode, ...]:
    """Episodes of tasks with these numbers of attempts: those of the longest plan, less what was not asked for."""
    longest = max(attempts.values(), default=0)
    every = plan_episodes(tuple(attempts), agent, longest, options.seed, options.conditions)
    return tuple(e for e in every if e.attempt < attempts[e.task])


def planned_attempts(run: Run, loaded: LoadedSuite, options: RunOptions) -> dict[str, int]:
    """Attempts of each task as they are planned now: what the run began with, and what was added since."""
    attempts = dict.fromkeys(chosen_tasks(loaded.suite, options), options.k)
    for name, line in run.notes(EXTENSIONS):
        try:
            added = msgspec.json.decode(line, type=Extension)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise Damaged(
                f"{name} of run {run.name!r} cannot be read; run: ethogram verify", where=f"{run.path}/{name}"
            ) from None
        for task in added.tasks:
            attempts[task] = max(attempts.get(task, 0), added.k)
    return attempts


def extended(
    run: str, attempts: Mapping[str, int], k: int, tasks: Sequence[str], known: Sequence[str]
) -> dict[str, int]:
    """Attempts after some tasks (by default all that are planned) were given `k`; fewer than are planned is refused.

    A task of the suite that the run left out so far may join.
    """
    for wanted in tasks:
        if wanted not in known:
            raise NotFound.named("task", wanted, list(known), where=f"the suite of run {run}")
    longer = dict(attempts)
    for task in tasks or attempts:
        if k < attempts.get(task, 0):
            raise BadUsage(
                f"a resume cannot reduce the number of attempts: {attempts[task]} are already planned for task "
                f"{task!r} of run {run!r}; give -k {attempts[task]} or more"
            )
        longer[task] = k
    return longer


def record_extension(home: Home, run: Run, options: RunOptions, k: int, tasks: Sequence[str], planned: int) -> None:
    """Commit an extension before the first of its episodes runs, so that every later resume knows of it."""
    added = Extension(k=k, tasks=tuple(tasks), planned=planned, at_ns=time.time_ns())
    with run.writer(home.redactor(policy_from(options.redact)), seal=False, window=None) as writer:
        writer.note(EXTENSIONS, [msgspec.json.encode(added)])
    run.forget_cache()


def describe(
    loaded: LoadedSuite, agent: str, options: RunOptions, episodes: Sequence[Episode], left: int, spent: Amounts
) -> RunPlan:
    """A plan for people and scripts; `left` of its episodes are still to run, and earlier sessions spent `spent`."""
    bound, why = _price_bound(options, len({e.task for e in episodes}), left, spent)
    return RunPlan(
        suite=loaded.suite.name,
        suite_digest=loaded.suite.digest,
        agent=agent,
        tasks=list(dict.fromkeys(e.task for e in episodes)),
        attempts=max((e.attempt + 1 for e in episodes), default=0),
        conditions=[c.name for c in options.conditions],
        planned=len(episodes),
        remaining=left,
        seed=options.seed,
        engine=options.engine,
        caps={level: {str(k): v for k, v in getattr(options.caps, level).named().items()} for level in LEVELS},
        cost_usd_at_most=bound,
        why=why,
    )


def _price_bound(options: RunOptions, tasks: int, left: int, spent: Amounts) -> tuple[float | None, str | None]:
    """The most that what is left can cost: the lowest bound that the caps give."""
    caps = options.caps
    bounds = []
    if caps.experiment.usd is not None:
        bounds.append(max(0.0, caps.experiment.usd - spent.usd))
    if caps.episode.usd is not None:
        bounds.append(caps.episode.usd * left)
    if caps.task.usd is not None:
        bounds.append(max(0.0, caps.task.usd * tasks - spent.usd))
    if bounds:
        return min(bounds), None
    return None, "no cap on dollars is set, so there is no upper bound; set one with --max-usd"


def fresh_name(home: Home, suite: str) -> str:
    """A name for a run of a suite that nobody has yet."""
    base = re.sub(r"[^A-Za-z0-9._-]+", "-", suite).strip("-._")[:80] or "run"
    taken = set(home.names())
    return next(name for i in range(1, 10**6) if (name := f"{base}-{i:03d}") not in taken)
