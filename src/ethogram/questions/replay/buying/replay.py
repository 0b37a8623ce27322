"""Replay: one recorded episode executed again with the answers of its trace, and compared with it.

Models, tools and the simulated user answer from the record, so nothing is spent and nothing outside the agent happens.
What the agent itself does is done again: its code, its files, its own tools.
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from ethogram.arguments import above_zero
from ethogram.display import Drawing, Presentation
from ethogram.errors import BadInput, BadUsage, EthogramError, NotFound
from ethogram.harness.answers import SERVED_TOOLS
from ethogram.harness.options import AllCaps, RunOptions
from ethogram.harness.planning import AgentSpec, SuiteSpec, fresh_name, suite_of
from ethogram.harness.recorded_answers import DEVIATION, SERVED, RecordedAnswers, replay_of
from ethogram.harness.run_result import RunResult
from ethogram.harness.run_start import again, run_episodes
from ethogram.plans import Episode, Suite, Task
from ethogram.prices import Caps, Metering
from ethogram.questions.divergence.diff import diff
from ethogram.reading.traces import find_trace
from ethogram.result import Result
from ethogram.store import Entry, Home, Run, home_of
from ethogram.store.lake import REPLAY, REPLAYED
from ethogram.store.redact import policy_from
from ethogram.traces import Missing, Outcome, Scored, Trace, is_marked
from ethogram.wire.gateway.episode_replay import EpisodeReplay
from ethogram.wire.gateway.playback import Mode

PLANNED = ("run", REPLAY)
"""Kinds of runs whose plan names a suite and an agent."""


class Deviated(msgspec.Struct, frozen=True, kw_only=True):
    """Where the agent first asked for something that is not in the record, and how that differs."""

    step: int
    why: str
    diff: str = ""


class ReplayResult(Result, kw_only=True):
    """One episode replayed: `trace` of `run` beside the recorded one, `replays` of `recorded_run`.

    `first_divergence` is the step of the recorded trace at which the agent deviated, None if it did not; `t_star` the
    first step of the two traces that differs. `served` and `served_tools` count model calls and tool calls that were
    answered from the record, of `recorded_calls` and `recorded_tools`; `own_tools` are calls of tools of the agent's
    own, which it carried out again. `unusable` are recorded answers that cannot be given again. `cost_usd` is what was
    spent live, after a lenient replay deviated.
    """

    presentation: ClassVar[Presentation] = Presentation(
        headline="{task}: the replay is the same: {same}",
        facts=(
            "mode",
            "answer_changed",
            "first_divergence",
            "d_norm",
            "t_star",
            "served",
            "recorded_calls",
            "score",
            "recorded_score",
            "missing",
            "crash",
            "cost_usd",
        ),
        drawing=Drawing("which", "score", "score", fields=("recorded_score", "score")),
    )

    run: str
    trace: str
    replays: str
    recorded_run: str
    task: str
    mode: str
    same: bool
    answer_changed: bool | None
    answer: str | None
    recorded_answer: str | None
    first_divergence: int | None
    deviation: Deviated | None
    d_norm: float | None
    t_star: int | None
    served: int
    recorded_calls: int
    served_tools: int
    recorded_tools: int
    own_tools: int
    score: float | None
    missing: str | None
    recorded_score: float | None
    cost_usd: float | None
    crash: str | None = None
    unusable: list[Deviated] = []
    warnings: list[str] = []


class ReplayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a trace is replayed; `max_usd` limits what a lenient replay may spend after it deviated.

    `given` is what a command reads on stdin where no suite is known that tells the prompt.
    """

    mode: Mode = "strict"
    capture: str = "auto"
    max_usd: float | None = None
    metering: Metering = Metering()
    given: str = ""


_DEFAULTS = ReplayOptions()


def replay(
    trace: str,
    agent: AgentSpec | None = None,
    *,
    suite: SuiteSpec | None = None,
    run: str | None = None,
    options: ReplayOptions = _DEFAULTS,
    home: Home | str | None = None,
) -> ReplayResult:
    """Run an agent once more on the task of a recorded trace, answered from that trace.

    Args:
        trace: the start of the trace's id.
        agent: by default that of the recorded run.
        suite: by default that of the recorded run; a command needs none, but is then not scored.
        run: where to look for the trace.
        options: strict or lenient, and limits.
        home: the home.

    Raises:
        NotFound: there is no such trace, or its suite or agent is gone.
        BadInput: the trace holds nothing to serve, or (strict) an answer that cannot be given again.

    Example: `replay("4f1c22", "agent.py:solve").same`
    """
    if options.max_usd is not None:
        above_zero("max_usd", options.max_usd)
    lake = home_of(home)
    found, entry = find_trace(trace, run=run, home=lake)
    recorded = found.trace(entry)
    redactor = lake.redactor(policy_from(found.info.redaction))
    first = EpisodeReplay(recorded, redactor, options.mode)  # refuses what cannot be served before anything runs
    acting = _agent(found, agent)
    chosen, episode, warnings = _place(found, entry, suite, acting, options)

    def answers_for(_: Episode) -> RecordedAnswers:
        return RecordedAnswers(EpisodeReplay(recorded, redactor, options.mode))

    name = fresh_name(lake, f"replay-{recorded.head.trace_id.removeprefix('b2:')[:12]}")
    bought = run_episodes(
        chosen,
        acting,
        [episode],
        _options(found, entry, options, name),
        answers_for=answers_for,
        kind=REPLAY,
        home=lake,
        more={REPLAYED: found.name, "replays_trace": recorded.head.trace_id},
    )
    return _result(lake, found, recorded, first, bought, options, warnings)


def _agent(run: Run, given: AgentSpec | None) -> AgentSpec:
    """The agent that was named, or that of the run."""
    if given is not None:
        return given
    known = run.info.plan.get("agent") if run.info.kind in PLANNED else None
    if not isinstance(known, str) or is_marked(known):
        raise BadUsage(f"run {run.name!r} does not name its agent; give it with --agent, or give its command after --")
    return known


def _place(
    run: Run, entry: Entry, given: SuiteSpec | None, agent: AgentSpec, options: ReplayOptions
) -> tuple[SuiteSpec, Episode, list[str]]:
    """The suite, the episode in it, and what a reader should know; a command may do without a suite."""
    plan, head = run.info.plan, entry.head
    known = plan.get("suite") if run.info.kind in PLANNED else None
    wanted = given if given is not None else known
    if wanted is not None:
        try:
            loaded = suite_of(wanted)
        except EthogramError as error:
            if given is not None:
                raise
            raise NotFound(
                f"the suite {wanted!r} of run {run.name!r} cannot be loaded from here ({error}); name it with --suite",
                where=f"run {run.name!r}",
                what="suite",
                name=str(wanted),
            ) from None
        told = []
        if known is not None and loaded.suite.digest != plan.get("suite_digest"):
            told.append(f"the suite {wanted!r} has changed since {run.name!r} was recorded")
        return wanted, again(head), told
    if not (isinstance(agent, str) and agent.startswith("cmd:")):
        raise BadUsage(f"run {run.name!r} does not name the suite of the trace; give it with --suite")
    task = head.task or "replayed"
    made = Suite(name="replay", tasks=(Task(id=task, prompt=options.given),))
    return made, msgspec.structs.replace(again(head), task=task, condition=""), []


def _options(run: Run, entry: Entry, options: ReplayOptions, name: str) -> RunOptions:
    """As the recorded run was carried out, but for what concerns money, names and where it ran."""
    stored = RunOptions()
    if run.info.kind in PLANNED and "options" in run.info.plan:
        stored = RunOptions.stored(run.info.plan)
    return msgspec.structs.replace(
        stored,
        name=name,
        k=1,
        limit=None,
        tasks=(),
        tags=(),
        engine="local",
        workers=1,
        caps=AllCaps(experiment=Caps(usd=options.max_usd), episode=stored.caps.episode),
        redact=run.info.redaction,
        metering=options.metering if options.max_usd is not None else Metering(allow_unmetered=True),
        capture=options.capture,
        replay=replay_of(run, [entry]),
    )


def _result(
    home: Home,
    run: Run,
    recorded: Trace,
    read: EpisodeReplay,
    bought: RunResult,
    options: ReplayOptions,
    warnings: list[str],
) -> ReplayResult:
    made = home.run(bought.run)
    (entry,) = made.entries
    replayed = made.trace(entry)
    facts, compared = replayed.head.meta, diff(recorded, replayed)
    deviation = _deviation(replayed)
    if deviation is None and isinstance(replayed.outcome, Missing) and replayed.outcome.reason == DEVIATION:
        raise BadInput(replayed.outcome.detail)
    changed = recorded.answer != replayed.answer
    return ReplayResult(
        run=made.name,
        trace=replayed.head.trace_id,
        replays=recorded.head.trace_id,
        recorded_run=run.name,
        task=recorded.head.task,
        mode=options.mode,
        same=deviation is None and not changed,
        answer_changed=changed,
        answer=replayed.answer,
        recorded_answer=recorded.answer,
        first_divergence=None if deviation is None else deviation.step,
        deviation=deviation,
        d_norm=compared.d_norm,
        t_star=compared.t_star,
        served=_count(facts.get(SERVED)),
        recorded_calls=sum(s.kind == "model" for s in recorded.steps),
        served_tools=_count(facts.get(SERVED_TOOLS)),
        recorded_tools=read.recorded_tools,
        own_tools=read.own_tools,
        score=_score(replayed.outcome),
        missing=replayed.outcome.reason if isinstance(replayed.outcome, Missing) else None,
        recorded_score=_score(recorded.outcome),
        cost_usd=bought.cost_usd,
        crash=bought.crash,
        unusable=[Deviated(step=step, why=why) for step, why in read.playback.problems],
        warnings=warnings,
    )


def _deviation(trace: Trace) -> Deviated | None:
    label = next((x for x in trace.labels if x.name == DEVIATION), None)
    if label is None or not isinstance(label.value, int | float):
        return None
    why, _, shown = (trace.text(label.why) if label.why is not None else "").partition("\n")
    return Deviated(step=int(label.value), why=why, diff=shown)


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) else 0


def _score(outcome: Outcome) -> float | None:
    return outcome.value if isinstance(outcome, Scored) else None
