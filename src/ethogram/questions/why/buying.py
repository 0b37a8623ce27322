"""Experiments that test the causes of `ethogram why`.

Attempts that show a cause are continued from its step, half of them with what successful attempts chose there and half
unchanged; the difference is the effect of the choice. The causes to test are fixed before the first attempt is bought
and share one error rate. They are tested one after the other, each with an equal part of the remaining money.
"""

from __future__ import annotations

import math
import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from ethogram.arguments import above_zero
from ethogram.errors import BadInput, BadUsage
from ethogram.estimate import Estimate
from ethogram.harness.planning import AgentSpec, SuiteSpec
from ethogram.questions.fork.buying.episodes import ForkPoint
from ethogram.questions.fork.buying.fork import BuyOptions, ForkOptions, fork_traces
from ethogram.questions.fork.effect import fewest_traces
from ethogram.questions.fork.results import PooledForkResult
from ethogram.reading.attempt_prices import run_price
from ethogram.store import Home, home_of
from ethogram.traces import digest

from .alternatives import OtherWay, alternatives
from .experiments import runs_again
from .question import read_why
from .results import Cause, SettledCause, SettledStatus, WhyResult
from .scoring_ways import home_option

PAIRS, MOST_EACH = 40, 8
STATUS: dict[str, SettledStatus] = {
    "raises": "confirmed",
    "negligible": "struck_out",
    "lowers": "struck_out",
    "undecided": "not_settled",
}


class SettleOptions(BuyOptions, frozen=True, kw_only=True):
    """How far to go: at most this many dollars, the smallest effect that matters, how many of the first causes are
    tried, and how often each attempt goes on with the change and without it.

    Without `k` that is once where there are 40 attempts or more, since many attempts say more than many continuations
    of a few; and more often where there are fewer.
    """

    smallest: float = 0.10
    causes: int = 3
    k: int | None = None

    def checked(self) -> SettleOptions:
        """The options themselves; raises `BadUsage` where they make no sense."""
        if self.max_usd is not None:
            above_zero("max_usd", self.max_usd)
        if not 0 < self.smallest < 1:
            raise BadUsage(f"--smallest is an effect between 0 and 1, not {self.smallest:g}")
        if self.causes < 1 or (self.k is not None and self.k < 1) or self.every < 1:
            raise BadUsage("at least one cause is tried, with at least one continuation of each attempt")
        return self


class SettleContext(NamedTuple):
    """Who runs again in which world, and who hears of it."""

    agent: AgentSpec | None
    suite: SuiteSpec | None
    home: Home
    tell: Callable[[str], None]


def settle_causes(
    run: str = "latest",
    options: SettleOptions | None = None,
    *,
    task: str | None = None,
    agent: AgentSpec | None = None,
    suite: SuiteSpec | None = None,
    home: Home | str | None = None,
    progress: Callable[[str], None] | None = None,
) -> WhyResult:
    """What `why` answers, with what an experiment found of each of its first causes in `settled`.

    Args:
        run: the run; its suite and its agent run again, unless others are given as `suite` and `agent`.
        options: money, the smallest effect that matters, how many causes.
        task: only attempts at this task.
        agent: who acts, where it is not the agent of the run.
        suite: whose tools rebuild the world, where it is not the suite of the run.
        home: the home.
        progress: called with one sentence after each look.

    Raises:
        BadUsage: the run comes from no suite that is known here, or something cannot be measured as asked.

    Example: `settle_causes("night", SettleOptions(max_usd=2)).causes[0].settled.effect`
    """
    options = (options or SettleOptions()).checked()
    around = SettleContext(agent, suite, home_of(home), progress or (lambda text: None))
    found, gathered, tested, _, result = read_why(run, task=task, level=0.95, home=around.home)
    if not (runs_again(found) or (agent is not None and suite is not None)):
        raise BadUsage(
            f"run {found.name!r} names no suite and agent that could be run again; give --suite with a suite that has "
            "its tasks and tools, and --agent"
        )
    if not result.causes:
        result.notes.append("there is no cause to settle")
    tries = [
        (number, list(alternatives(found, gathered, group)))
        for number, group in enumerate(tested.causes[: options.causes])
    ]
    m = max(sum(bool(ways) for _, ways in tries), 1)
    level = 1 - (1 - options.level) / m
    price = run_price(found)
    spent, left = 0.0, m
    for number, ways in tries:
        cause = result.causes[number]
        if ways:
            share = None if options.max_usd is None else max(options.max_usd - spent, 0.0) / left
            around.tell(f"{number + 1}. {cause.what}")
            done = _tried(found.name, cause, ways, options, level, share, around)
            spent, left = spent + done.spent, left - 1
        else:
            done = _Tried(None, 0.0, "no successful attempt at the same task has another way at a step that can be set")
        told = _told(cause, ways, done, options, level, price, _again(found.name, task, options, around.home))
        result.causes[number] = msgspec.structs.replace(cause, settled=told)
        if done.found is not None and done.found.stopped == "killed":
            break
    return result


class _Tried(NamedTuple):
    """What forks of one cause gave, what that cost, and why there is nothing, if so."""

    found: PooledForkResult | None
    spent: float
    why: str = ""


def _tried(
    run: str,
    cause: Cause,
    ways: Sequence[OtherWay],
    options: SettleOptions,
    level: float,
    max_usd: float | None,
    around: SettleContext,
) -> _Tried:
    fewest = fewest_traces(level)
    if len(ways) < fewest:
        return _Tried(None, 0.0, f"{len(ways)} attempts can be continued, and fewer than {fewest} cannot settle it")
    points = [ForkPoint(trace=w.trace, at=w.at, change=w.change, source=run) for w in ways]
    shared = {name: getattr(options, name) for name in BuyOptions.__struct_fields__}
    shared |= {"level": level, "max_usd": max_usd}
    own = ForkOptions(**shared, k=_each(options, len(ways)), smallest=options.smallest)
    # the same question goes on where it stood; another number of causes, or other attempts, make it another one
    of = [
        cause.cause,
        f"{own.k} {options.every} {level} {options.smallest}",
        *(f"{w.trace}:{w.at}:{w.other}" for w in ways),
    ]
    name = f"settle-{run[:60]}-{digest('settle', *of).removeprefix('b2:')[:8]}"
    try:
        found = fork_traces(
            points, own, agent=around.agent, suite=around.suite, name=name, home=around.home, progress=around.tell
        )
    except BadInput as refused:
        return _Tried(None, 0.0, str(refused))
    return _Tried(found, found.at_least_usd)


def _told(
    cause: Cause,
    ways: Sequence[OtherWay],
    done: _Tried,
    options: SettleOptions,
    level: float,
    price: float | None,
    command: str,
) -> SettledCause:
    found = done.found
    if found is None:
        nothing = Estimate(value=None, level=level, of="traces", why=done.why)
        needed = fewest_traces(level)
        return SettledCause(
            status="not_settled",
            what=_swap(ways),
            effect=nothing,
            from_=nothing,
            to=nothing,
            attempts=0,
            runs=0,
            usd=0.0,
            run=None,
            command=command,
            why=done.why,
            needed=needed,
            needed_usd=None if price is None else price * needed * 2 * _each(options, needed),
        )
    runs = sum(2 * t.pairs for t in found.traces)
    each = price if not runs or found.cost_usd is None else found.cost_usd / runs
    more = None if found.needed is None else max(found.needed - (found.effect.n or 0), 0)
    return SettledCause(
        status=STATUS[found.verdict],
        what=_swap(ways),
        effect=found.effect,
        from_=found.unchanged,
        to=found.changed,
        attempts=found.effect.n or 0,
        runs=runs,
        usd=found.cost_usd,
        run=found.run,
        command=command,
        why=found.why,
        needed=found.needed,
        needed_usd=None if more is None or each is None else each * more * 2 * found.k,
    )


def _each(options: SettleOptions, attempts: int) -> int:
    """How often each attempt goes on either way."""
    return options.k if options.k is not None else min(max(math.ceil(PAIRS / max(attempts, 1)), 1), MOST_EACH)


def _swap(ways: Sequence[OtherWay]) -> str:
    """What is changed, in words: the commonest."""
    if not ways:
        return ""
    ((chosen, instead), _), *rest = Counter((w.chosen, w.instead) for w in ways).most_common()
    told = chosen if ways[0].change.what == "result" else f"it {chosen}"
    return f"{told} (now: {instead})" + (", or the like" if rest else "")


def _again(run: str, task: str | None, options: SettleOptions, home: Home) -> str:
    parts = ["ethogram", "why", run, "--settle"]
    if options.max_usd is not None:
        parts += ["--max-usd", f"{options.max_usd:g}"]
    parts += [] if options.smallest == SettleOptions().smallest else ["--smallest", f"{options.smallest:g}"]
    parts += [] if options.k == SettleOptions().k else ["-k", str(options.k)]
    return shlex.join([*parts, *(["--task", task] if task is not None else [])]) + home_option(home)
