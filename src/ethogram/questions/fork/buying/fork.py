"""Counterfactual forks: a recorded trace up to a step, one change there, and its effect on success.

Continuations with the change and without it are bought in pairs, looked at as they come, until the interval of the
effect excludes 0, the pairs that are left could not change that, or the money is spent. They are kept in a run of
their own; its name given again goes on where it stood.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from ethogram.errors import BadUsage
from ethogram.harness.environment import Environment
from ethogram.harness.planning import AgentSpec, SuiteSpec
from ethogram.prices import Metering
from ethogram.questions.fork.changes import blamed_in, change_of
from ethogram.questions.fork.effect import (
    ForkFinding,
    ForkLook,
    ForkPlan,
    PooledPlan,
    can_settle,
    find_effect,
    find_pooled_effect,
)
from ethogram.questions.fork.results import ForkResult, PooledForkResult, result_of_fork, result_of_forks
from ethogram.store import Home, home_of
from ethogram.wire.gateway.fork import ForkChange

from .episodes import ArmOutcomes, Continuations, ForkPoint, ForkSource


class BuyOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How continuations are bought: how many between looks, the level of the interval, the cost, where they run."""

    every: int = 4
    level: float = 0.95
    workers: int = 8
    max_usd: float | None = None
    metering: Metering = Metering()
    environment: Environment = Environment()
    capture: str = "gateway"
    live_tools: bool = False


class ForkOptions(BuyOptions, frozen=True, kw_only=True):
    """How many pairs at most (of each trace), how many between looks, the level of the interval, and the cost.

    Where several traces are forked, `every` counts traces, and an effect that is surely below `smallest` ends it too.
    """

    k: int = 20
    smallest: float | None = None


class ForkInterrupted(KeyboardInterrupt):
    """Ctrl-C: continuations that were complete are committed in `run`, which goes on when the fork is repeated."""

    def __init__(self, run: str) -> None:
        """It is a `KeyboardInterrupt`, so that loops around a fork end too."""
        super().__init__(f"fork {run} was interrupted")
        self.run = run


_DEFAULTS = ForkOptions()


def fork(
    trace: str,
    at: int | str,
    change: ForkChange | str | None = None,
    *,
    k: int = _DEFAULTS.k,
    every: int = _DEFAULTS.every,
    level: float = _DEFAULTS.level,
    workers: int = _DEFAULTS.workers,
    max_usd: float | None = _DEFAULTS.max_usd,
    metering: Metering = _DEFAULTS.metering,
    environment: Environment = _DEFAULTS.environment,
    capture: str = _DEFAULTS.capture,
    live_tools: bool = _DEFAULTS.live_tools,
    agent: AgentSpec | None = None,
    suite: SuiteSpec | None = None,
    source: str | None = None,
    run: str | None = None,
    home: Home | str | None = None,
    progress: Callable[[str], None] | None = None,
) -> ForkResult:
    """Continue a trace from a step on, with one thing changed there and without, and compare how often that succeeds.

    Args:
        trace: the start of its id.
        at: the step, as `ethogram trace` counts; `"auto"` takes the one that `ethogram why` names as the cause.
        change: what is changed, such as `"prompt=Answer briefly."`, or what another trace has at one of its steps:
            `"answer_of=7c01aa:3"`, `"result_of=7c01aa:4"`; None only measures how often it succeeds.
        k: at most this many continuations with the change, and as many without it; `every` of them between looks.
        level: that of the interval.
        workers: continuations at once.
        max_usd: never more dollars than this; `metering` says how use is priced.
        environment: the variables that the agent sees; `capture` is about its model calls.
        live_tools: whether tools may be called that are not declared read-only, simulated or recorded.
        agent: the agent, where it is not the one of the run; so too the `suite`.
        source: where to look for the trace.
        run: names the run of the continuations; one that was stopped goes on.
        home: the home.
        progress: called with one sentence after each look.

    Raises:
        BadInput: the world up to the step could not be rebuilt, with the difference; or the trace has no suite.
        BadUsage: there is no such step, nothing there that could be changed so, or tools that may do harm again.

    Example: `fork("4f1c22", 3, "answer=9", k=20, max_usd=2).effect`
    """
    options = ForkOptions(
        k=k,
        every=every,
        level=level,
        workers=workers,
        max_usd=max_usd,
        metering=metering,
        environment=environment,
        capture=capture,
        live_tools=live_tools,
    )
    return fork_trace(
        trace, at, change, options, agent=agent, suite=suite, source=source, name=run, home=home, progress=progress
    )


def fork_trace(
    trace: str,
    at: int | str,
    change: ForkChange | str | None = None,
    options: ForkOptions | None = None,
    *,
    agent: AgentSpec | None = None,
    suite: SuiteSpec | None = None,
    source: str | None = None,
    name: str | None = None,
    home: Home | str | None = None,
    progress: Callable[[str], None] | None = None,
) -> ForkResult:
    """`fork` with its options in one record."""
    options = options or ForkOptions()
    step = at if isinstance(at, int) else blamed_in(trace, source, home_of(home))
    made = change_of(change, home_of(home)) if isinstance(change, str) else change
    point = ForkPoint(trace=trace, at=step, change=made, source=source)
    plan = ForkPlan(pairs=options.k, every=min(options.every, max(options.k, 1)), level=options.level).checked()
    bought = _continuations([point], options, agent, suite, name, home)
    (forked,) = bought.sources
    if step != at:
        bought.notes.append(f"step {step} is the one that ethogram why names as the cause")
    if made is not None and not can_settle(plan.pairs, plan.level):
        bought.notes.append(f"even if all {plan.pairs} pairs agreed, the interval would contain 0; give a larger -k")
    say = progress or (lambda text: None)
    with _going_on(bought):
        finding, seen = _looked(bought, forked, plan, say)
    return result_of_fork(bought, forked, plan, finding, seen)


def _looked(
    bought: Continuations, forked: ForkSource, plan: ForkPlan, say: Callable[[str], None]
) -> tuple[ForkFinding | None, ArmOutcomes]:
    """Buy pairs and look at them until the effect is settled, hopeless, or all pairs are there."""
    finding: ForkFinding | None = None
    seen, made = ArmOutcomes(), forked.point.change
    for count in dict.fromkeys((1, *(plan.looks if made is not None else (plan.pairs,)))):
        bought.buy({forked.key: count})
        if count == 1:
            bought.check_world(forked)
        seen = bought.outcomes(forked, count)
        if made is not None:
            ended = bought.stopped is not None
            finding = find_effect(seen.unchanged, seen.changed, plan, seen.missing, ended=ended)
        if finding is not None and finding.looks:
            say(_look_told(finding.looks[-1]))
        if bought.stopped is not None or (finding is not None and finding.done):
            break
    return finding, seen


@contextmanager
def _going_on(bought: Continuations) -> Iterator[None]:
    """Say of a fork that is interrupted, also between two sessions of its run, how to go on with it."""
    try:
        yield
    except KeyboardInterrupt as stopped:
        if bought.name not in bought.home.names():
            raise
        raise ForkInterrupted(bought.name) from stopped


def fork_traces(
    points: Sequence[ForkPoint],
    options: ForkOptions | None = None,
    *,
    agent: AgentSpec | None = None,
    suite: SuiteSpec | None = None,
    name: str | None = None,
    home: Home | str | None = None,
    progress: Callable[[str], None] | None = None,
) -> PooledForkResult:
    """Fork several traces, each at a step of its own with a change of its own: the mean effect on such traces.

    Traces are taken one after the other, in an order that has nothing to do with how they ended, each with `options.k`
    pairs (by default 2); a look comes after each `options.every` of them. One whose world cannot be rebuilt is left out
    and named.

    Raises:
        BadUsage: no trace, one twice, or traces of several suites or agents.
        BadInput: none of them can be rebuilt.

    Example: `fork_traces([ForkPoint(trace="4f1c22", at=3, change=parse_change("answer", "9"))]).effect`
    """
    options = options or ForkOptions(k=2)
    if any(point.change is None for point in points):
        raise BadUsage("every trace needs a change; without one there is nothing to compare")
    plan = PooledPlan(
        traces=len(points),
        each=options.k,
        every=min(options.every, max(len(points), 1)),
        level=options.level,
        smallest=options.smallest,
    ).checked()
    bought = _continuations(points, options, agent, suite, name, home)
    if not can_settle(plan.traces, plan.level):
        bought.notes.append(f"even if all {plan.traces} traces agreed, the interval would contain 0; fork more of them")
    say = progress or (lambda text: None)
    refused: dict[str, str] = {}
    finding = find_pooled_effect([], plan)
    waiting = list(bought.sources)
    counts: dict[str, int] = {}
    missing: dict[str, int] = {}
    with _going_on(bought):
        while waiting and bought.stopped is None:
            room = plan.every - len(counts) % plan.every
            batch, waiting = waiting[:room], waiting[room:]
            bought.buy(counts | dict.fromkeys((s.key for s in batch), 1))
            for one in batch:
                if (why := bought.world_difference(one)) is not None:
                    refused[one.key] = why
            counts |= {s.key: plan.each for s in batch if s.key not in refused}
            if bought.stopped is None and counts:
                bought.buy(counts)
            kept = [s for s in bought.sources if s.key in counts]
            if not kept:
                continue
            seen = [bought.outcomes(s, plan.each) for s in kept]
            missing = {r: sum(o.missing.get(r, 0) for o in seen) for o in seen for r in o.missing}
            ended = not waiting or bought.stopped is not None
            finding = find_pooled_effect([(o.unchanged, o.changed) for o in seen], plan, missing, ended=ended)
            if finding.looks:
                say(_look_told(finding.looks[-1]))
            if finding.done:
                break
    if refused and not counts:
        raise bought.refusal(bought.sources[0], next(iter(refused.values())))
    return result_of_forks(bought, plan, finding, refused, counts, missing)


def _continuations(
    points: Sequence[ForkPoint],
    options: ForkOptions,
    agent: AgentSpec | None,
    suite: SuiteSpec | None,
    name: str | None,
    home: Home | str | None,
) -> Continuations:
    return Continuations(
        home_of(home),
        points,
        agent=agent,
        suite=suite,
        name=name,
        promise={"k": options.k, "every": options.every, "level": options.level, "smallest": options.smallest},
        workers=options.workers,
        max_usd=options.max_usd,
        metering=options.metering,
        environment=options.environment,
        capture=options.capture,
        repeat_live=options.live_tools,
    )


def _look_told(look: ForkLook) -> str:
    of = f"{look.traces} traces, " if look.traces > 1 else ""
    return (
        f"look {look.look}: {of}{look.pairs} pairs, {look.gained} gained, {look.lost} lost; "
        f"effect between {look.low:+.3f} and {look.high:+.3f}"
    )
