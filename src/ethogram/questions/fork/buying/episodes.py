"""The continuations of forked traces: their world, the episodes that are bought, and their outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ethogram.errors import BadInput, BadUsage
from ethogram.harness.agents import Agent
from ethogram.harness.environment import Environment
from ethogram.harness.options import ADDRESS, AllCaps, RunOptions
from ethogram.harness.planning import AgentSpec, SuiteSpec, agent_for, fresh_name, suite_of
from ethogram.harness.run_result import RunResult
from ethogram.harness.run_start import run_episodes
from ethogram.plans import Condition, Episode, derived_seed
from ethogram.prices import Caps, Metering
from ethogram.questions.fork.stored_forks import CHANGED, UNCHANGED
from ethogram.reading.traces import find_trace
from ethogram.store import Home, Run
from ethogram.store.lake import FORK
from ethogram.store.redact import Redactor, policy_from
from ethogram.suites.load import LoadedSuite, has_world, live_tools
from ethogram.traces import (
    REASON_FACTS,
    Missing,
    Scored,
    Trace,
    digest,
    episode_id,
    is_infrastructure,
    is_marked,
    short_id,
)
from ethogram.wire.gateway.episode_fork import EpisodeFork
from ethogram.wire.gateway.fork import ForkChange, fork_step

from .continuing import more_episodes

AGAIN = tuple(name for name, facts in REASON_FACTS.items() if facts.ended)
"""Why an outcome may be missing that a later session brings in."""
MOST_DEVIATIONS = 5
SEEDS = 1 << 31
"""Seeds that every provider takes."""


class ForkPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where a trace is forked: the start of its id, the step, what is changed there; `source` is the run to look in."""

    trace: str
    at: int
    change: ForkChange | None = None
    source: str | None = None


class ForkSource(NamedTuple):
    """A trace that is forked; `key` tells it apart from others of the same run of continuations."""

    key: str
    point: ForkPoint
    run: Run
    trace: Trace
    step: int
    redactor: Redactor
    arms: dict[str, str]
    """The names of the conditions of both arms."""


class ArmOutcomes(msgspec.Struct, frozen=True, kw_only=True):
    """How the continuations of one trace ended, attempt by attempt: 1, 0, or None where the outcome is missing."""

    unchanged: list[float | None] = []
    changed: list[float | None] = []
    reasons: dict[str, dict[str, int]] = {}
    deviations: list[str] = []

    @property
    def missing(self) -> dict[str, int]:
        """Missing outcomes of both arms, by reason."""
        return dict(sum((Counter(found) for found in self.reasons.values()), Counter[str]()))

    def missing_of(self, arm: str) -> dict[str, int]:
        """Missing outcomes of one arm, by reason."""
        return self.reasons.get(arm, {})


class Continuations:
    """Buys the continuations of forked traces, all in one run."""

    def __init__(
        self,
        home: Home,
        points: Sequence[ForkPoint],
        *,
        agent: AgentSpec | None,
        suite: SuiteSpec | None,
        name: str | None,
        promise: Mapping[str, Any],
        workers: int,
        max_usd: float | None,
        metering: Metering,
        environment: Environment,
        capture: str,
        repeat_live: bool,
    ) -> None:
        """Everything is checked here; nothing is run. `promise` is what a run that goes on must have begun with."""
        self.home = home
        self.notes: list[str] = []
        self.sources = _sources(home, points)
        first = self.sources[0]
        spec = _suite(self.sources, suite)
        self.suite: SuiteSpec = spec
        self.loaded: LoadedSuite = suite_of(spec)
        self._check_suite(given=suite is not None)
        if not repeat_live:
            self._check_side_effects()
        acts = _agent(self.sources, agent)
        self.name = name or fresh_name(home, f"fork-{first.trace.head.task}")
        base = RunOptions.stored(first.run.info.plan) if "options" in first.run.info.plan else RunOptions()
        if capture == "off":
            raise BadUsage("recorded answers are given at the gateway; leave out --capture off")
        reached = next((c for c in (capture, base.capture) if c.startswith(ADDRESS)), "gateway")
        self.options = msgspec.structs.replace(
            base,
            k=1,
            name=self.name,
            engine="local",
            workers=workers,
            limit=None,
            tasks=tuple(dict.fromkeys(s.trace.head.task for s in self.sources)),
            tags=(),
            meta={},
            caps=AllCaps(experiment=Caps(usd=max_usd), episode=base.caps.episode),
            conditions=_conditions(self.sources),
            environment=environment.over(base.environment),
            metering=metering,
            capture=reached,
        )
        self.agent: Agent = agent_for(acts, self.options.resolved())
        self._spec = acts if isinstance(acts, str) else self.agent.name
        self._promise = dict(promise) | {"of": [_promised(s) for s in self.sources]}
        self._arms = {name: (s, arm) for s in self.sources for arm, name in s.arms.items()}
        self._bought: RunResult | None = None
        self._check_begun()

    @property
    def stopped(self) -> str | None:
        """What stopped it, if something did: the cap on dollars, or the kill switch."""
        return None if self._bought is None else self._bought.stopped

    @property
    def cost_usd(self) -> float | None:
        """What all continuations cost, where that is known."""
        return None if self._bought is None else self._bought.cost_usd

    @property
    def at_least_usd(self) -> float:
        """What is known to have been spent."""
        return 0.0 if self._bought is None else self._bought.at_least_usd

    def _lost(self) -> dict[Episode, str]:
        """Continuations that infrastructure spoiled in an earlier session, with the reason: these are run again."""
        found: dict[Episode, str] = {}
        for entry in self.home.run(self.name).entries:
            head, outcome = entry.head, entry.head.outcome
            if isinstance(outcome, Missing) and is_infrastructure(outcome.reason) and head.condition in self._arms:
                source, _ = self._arms[head.condition]
                found[self._episode(source, head.condition, head.attempt)] = outcome.reason
        return found

    def buy(self, counts: Mapping[str, int]) -> None:
        """Run what the ledger lacks of this many pairs of each trace, or continuations where nothing is changed."""
        episodes = [
            self._episode(source, name, attempt)
            for source in self.sources
            for attempt in range(counts.get(source.key, 0))
            for name in source.arms.values()
        ]
        if self.name in self.home.names():
            lost = self._lost() if self._bought is None else {}
            self._bought = more_episodes(
                self.name,
                self.suite,
                self.agent,
                list({e.id: e for e in (*episodes, *lost)}.values()),
                self.options,
                answers_for=self._answers,
                retry=(*AGAIN, *sorted(set(lost.values()))),
                resume=self._bought is None,
                home=self.home,
            )
        else:
            self._bought = run_episodes(
                self.suite,
                self.agent,
                episodes,
                self.options,
                answers_for=self._answers,
                kind=FORK,
                home=self.home,
                more={"agent": self._spec, FORK: self.home.as_stored(self._promise, self.options.redact)},
            )
        self._bought.check_caps_kept()

    def outcomes(self, source: ForkSource, count: int) -> ArmOutcomes:
        """How the first continuations of a trace ended; those after one that was not run are left out."""
        run = self.home.run(self.name)
        run.forget_cache()
        ended = {(e.head.condition, e.head.attempt): e for e in run.entries}
        found: dict[str, list[float | None]] = {}
        reasons: dict[str, dict[str, int]] = {}
        deviations: list[str] = []
        for arm, name in source.arms.items():
            there = [ended.get((name, attempt)) for attempt in range(count)]
            entries = [e for e in there[: there.index(None) if None in there else count] if e is not None]
            outcomes = [e.head.outcome for e in entries]
            threshold = self.loaded.suite.success_at
            found[arm] = [float(o.success(threshold)) if isinstance(o, Scored) else None for o in outcomes]
            reasons[arm] = dict(Counter(o.reason for o in outcomes if isinstance(o, Missing)))
            whole = [run.head(e).outcome for e in entries if isinstance(e.head.outcome, Missing)]
            deviations += [o.detail for o in whole if isinstance(o, Missing) and o.reason == "deviation"]
        return ArmOutcomes(
            unchanged=found[UNCHANGED],
            changed=found.get(CHANGED, []),
            reasons=reasons,
            deviations=list(dict.fromkeys(deviations))[:MOST_DEVIATIONS],
        )

    def world_difference(self, source: ForkSource) -> str | None:
        """How the first pair of a trace was not as recorded before the step, if so."""
        return next(iter(self.outcomes(source, 1).deviations), None)

    def check_world(self, source: ForkSource) -> None:
        """Refuse a trace whose first pair was not as recorded before the step; its run is removed again."""
        difference = self.world_difference(source)
        if difference is not None:
            run = self.home.run(self.name)
            if all(isinstance(e.head.outcome, Missing) for e in run.entries) and not self.at_least_usd:
                self.home.files.delete(run.path)
            raise self.refusal(source, difference)

    def refusal(self, source: ForkSource, difference: str) -> BadInput:
        """The error for a trace that cannot be forked."""
        why, line_break, diff = difference.partition("\n")
        return BadInput(
            f"trace {_short(source.trace)} cannot be forked at step {source.point.at}: when replayed, {why}; for tools "
            f"without side effects, list them under read_only in suite.yaml{line_break}{diff}",
            where=source.trace.head.trace_id,
        )

    def _episode(self, source: ForkSource, condition: str, attempt: int) -> Episode:
        head, agent = source.trace.head, self.agent.name
        return Episode(
            id=episode_id("plan", agent, condition, head.task, str(attempt)),
            task=head.task,
            agent=agent,
            attempt=attempt,
            seed=head.seed or 0,
            condition=condition,
        )

    def _answers(self, episode: Episode) -> EpisodeFork:
        source, arm = self._arms[episode.condition]
        change = source.point.change
        return EpisodeFork(
            source.trace,
            source.redactor,
            source.point.at,
            change if arm == CHANGED else None,
            seed=derived_seed(episode.seed, f"fork {episode.attempt}") % SEEDS,
            keep_answer=arm == UNCHANGED and change is not None and change.what == "answer",
            read_only=frozenset(self.loaded.suite.read_only),
        )

    def _check_suite(self, *, given: bool) -> None:
        known = {t.id for t in self.loaded.suite.tasks}
        for source in self.sources:
            task, plan = source.trace.head.task, source.run.info.plan
            if task not in known:
                raise BadUsage(
                    f"the suite {self.loaded.suite.name!r} has no task {task!r}, which trace {_short(source.trace)} is "
                    "of; give the suite that has it with --suite"
                )
            if plan.get("suite_digest") in (None, self.loaded.suite.digest):
                continue
            if not given:
                raise BadUsage(
                    f"the suite {plan['suite']!r} has changed since run {source.run.name!r} was made; restore it, or "
                    "give the one to use with --suite"
                )
            self.notes.append(f"the suite is not the one of run {source.run.name!r}; outcomes are those of the new one")

    def _check_side_effects(self) -> None:
        """Refuse to repeat what may change something outside the continuations, tools of the agent's own among it."""
        tasks = {t.id: t for t in self.loaded.suite.tasks}
        live: dict[str, None] = {}
        for source in self.sources:
            task = tasks[source.trace.head.task]
            live |= dict.fromkeys(live_tools(self.loaded, task))
            if task.fixture is None and not has_world(self.loaded):
                called = (span.name for span in source.trace.steps if span.kind == "tool")
                live |= dict.fromkeys(name for name in called if name not in self.loaded.suite.read_only)
        if live:
            raise BadUsage(
                f"the continuations would call {', '.join(map(repr, live))} again, which may do again what they did: "
                "list what changes nothing under read_only in suite.yaml, make the others anew for each episode with "
                "'def tools(task, episode)', or allow it with --live-tools"
            )

    def _check_begun(self) -> None:
        """A run may go on only as it began: with other plans its interval would not hold."""
        if self.name not in self.home.names():
            return
        run = self.home.run(self.name)
        if run.info.kind != FORK:
            raise BadUsage(f"run {self.name!r} exists and is not a fork; choose another name with --run")
        begun, ours = run.info.plan.get(FORK), self.home.as_stored(self._promise, self.options.redact)
        if begun != ours or run.info.plan.get("suite_digest") != self.loaded.suite.digest:
            raise BadUsage(
                f"run {self.name!r} was begun with another trace, step, change, -k, --level or suite; repeat it as it "
                "was, or choose another name with --run"
            )


def _sources(home: Home, points: Sequence[ForkPoint]) -> list[ForkSource]:
    """The traces with their words. Several are put into the order of a hash, which no outcome has to do with."""
    if not points:
        raise BadUsage("there is no trace to fork")
    found: list[ForkSource] = []
    for point in points:
        run, entry = find_trace(point.trace, run=point.source, home=home)
        trace = run.trace(entry)
        key = _short(trace)
        several = f" {key}" if len(points) > 1 else ""
        arms = {UNCHANGED: f"{UNCHANGED}{several}"}
        if point.change is not None:
            arms[CHANGED] = f"{CHANGED}{several}"
        redactor = home.redactor(policy_from(run.info.redaction))
        found.append(ForkSource(key, point, run, trace, fork_step(trace, point.at, point.change), redactor, arms))
    twice = next((s.key for s in found if sum(o.key == s.key for o in found) > 1), None)
    if twice is not None:
        raise BadUsage(f"trace {twice} is named twice; fork a trace at one step at a time")
    return sorted(found, key=lambda s: digest("fork order", s.trace.head.trace_id))


def _suite(sources: Sequence[ForkSource], given: SuiteSpec | None) -> SuiteSpec:
    """The suite whose tools the world is rebuilt with."""
    if given is not None:
        return given
    named = {s.run.info.plan.get("suite_digest"): str(s.run.info.plan.get("suite") or "") for s in sources}
    if len(named) > 1:
        raise BadUsage("these traces are of several suites; fork those of one suite at a time")
    ((_, suite),) = named.items()
    if not suite or is_marked(suite):
        head, run = sources[0].trace.head, sources[0].run
        raise BadUsage(
            f"trace {_short(sources[0].trace)} of run {run.name!r} comes from no suite that is known here: its tools "
            f"cannot be run again; give --suite with a suite that has its task {head.task!r} and tools, and --agent"
        )
    return suite


def _agent(sources: Sequence[ForkSource], given: AgentSpec | None) -> AgentSpec:
    """Who acts."""
    if given is not None:
        return given
    named = {str(s.run.info.plan.get("agent") or "") for s in sources}
    if len(named) > 1:
        raise BadUsage("these traces are of several agents; fork those of one agent at a time")
    (agent,) = named
    if not agent or is_marked(agent):
        raise BadUsage(f"the agent of run {sources[0].run.name!r} is not known here; name it with --agent")
    return agent


def _conditions(sources: Sequence[ForkSource]) -> tuple[Condition, ...]:
    """Both arms of each trace, with the settings of the condition that it was recorded under."""
    made = []
    for source in sources:
        plan, head = source.run.info.plan, source.trace.head
        known = {c.name: c.settings for c in RunOptions.stored(plan).conditions} if "options" in plan else {}
        settings = known.get(head.condition, {})
        made += [Condition(name=name, settings=settings, tasks=(head.task,)) for name in source.arms.values()]
    return tuple(made)


def _promised(source: ForkSource) -> dict[str, Any]:
    change = source.point.change
    told = None if change is None else {"what": change.what, "digest": digest("change", msgspec.json.encode(change))}
    return {"trace": source.trace.head.trace_id, "at": source.point.at, "change": told}


def _short(trace: Trace) -> str:
    return short_id(trace.head.trace_id)
