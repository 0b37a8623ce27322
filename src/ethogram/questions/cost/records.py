"""What a cost report holds: one record per question, all of them plain data."""

from __future__ import annotations

from datetime import date
from typing import Any, ClassVar

import msgspec

from ethogram.arguments import at_least, check_level
from ethogram.display import Drawing, Presentation
from ethogram.errors import BadUsage
from ethogram.estimate import Estimate
from ethogram.prices.prices import Rates
from ethogram.result import Result


class CostOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to price and what to imagine; `routes` are `WHAT=MODEL`, `routed_resolution` what they might resolve.

    `condition` and `agent` choose episodes of a run that holds several.
    """

    reprice: bool = False
    as_of: date | None = None
    level: float = 0.95
    volume: float | None = None
    routes: tuple[str, ...] = ()
    resolution: float | None = None
    routed_resolution: tuple[float, ...] = ()
    condition: str | None = None
    agent: str | None = None

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        check_level(self.level)
        if self.volume is not None:
            at_least("volume", self.volume)
        for rate in (*self.routed_resolution, *([] if self.resolution is None else [self.resolution])):
            if not 0 < rate <= 1:
                raise BadUsage(f"a resolution of {rate:g} makes no sense; give a share above 0 and up to 1")


class CostUsage(msgspec.Struct, kw_only=True):
    """Tokens of leaf model calls; all input is fresh + cached + cache write, output includes reasoning.

    None means that the log never says, which is not zero.
    """

    calls: int = 0
    fresh: int | None = None
    cached: int | None = None
    cache_write: int | None = None
    output: int | None = None
    reasoning: int | None = None

    @property
    def input(self) -> int | None:
        """All input tokens that are known."""
        told = [n for n in (self.fresh, self.cached, self.cache_write) if n is not None]
        return sum(told) if told else None


class CostStep(msgspec.Struct, kw_only=True):
    """A class of model call by what went before it, or another kind of step; `unpriced` calls are not in the cost."""

    step: str
    kind: str
    usage: CostUsage
    cost_usd: float | None = None
    share: float | None = None
    unpriced: int = 0


class CostTool(msgspec.Struct, kw_only=True):
    """What a tool's results put into contexts: tokens, tokens as often as they were read, and what reading cost.

    `unmeasured` results have no text, `unpriced` ones were read by a model without a price; neither is in the figures.
    `after_usd` is what the model calls right after it cost: what `--route after-tool:NAME=MODEL` would move.
    """

    tool: str
    calls: int
    errors: int
    tokens: int | None
    largest: int | None
    read_tokens: int | None
    cost_usd: float | None
    unmeasured: int
    unpriced: int
    after_calls: int
    after_usd: float | None


class CostModel(msgspec.Struct, kw_only=True):
    """A model and the price it has: `source` is recorded, priced (the table) or own."""

    model: str | None
    provider: str | None
    source: str
    matched: str | None
    rates: Rates | None
    usage: CostUsage
    cost_usd: float


class CostUnpriced(msgspec.Struct, kw_only=True):
    """Calls that nothing prices, why, and their tokens."""

    model: str | None
    provider: str | None
    why: str
    usage: CostUsage


class CostEpisode(msgspec.Struct, kw_only=True):
    """One episode; `cost_usd` is unknown unless all its calls are priced, `at_least_usd` is what is known of it."""

    trace_id: str
    task: str
    attempt: int
    resolved: bool | None
    missing: str | None
    cost_usd: float | None
    at_least_usd: float
    calls: int
    unpriced: int


class CostBreak(msgspec.Struct, kw_only=True):
    """A call that read again what had been cached."""

    trace_id: str
    step: int
    tokens: int
    cost_usd: float | None
    idle: bool


class CostCache(msgspec.Struct, kw_only=True):
    """The share of input that was read from the cache, and what broken prefixes cost; `idle` ones ran out of time."""

    hit_rate: float | None
    why: str | None = None
    breaks: int = 0
    idle: int = 0
    lost_tokens: int = 0
    cost_usd: float | None = None
    worst: list[CostBreak] = []


class CostMonthly(msgspec.Struct, kw_only=True):
    """A month of `volume` runs."""

    runs: float
    cost: Estimate
    resolved: Estimate


class CostAt(msgspec.Struct, kw_only=True):
    """Cost per resolved task if routed runs resolved this share; `pays` says whether that is less than before."""

    resolution: float
    per_resolved: Estimate
    pays: bool | None


class CostRoute(msgspec.Struct, kw_only=True):
    """One route, and the share of all steps that takes it."""

    what: str
    model: str
    share: float | None


class CostRouting(msgspec.Struct, kw_only=True):
    """Routing as a what-if: the same tokens at other prices; at `break_even` resolution nothing is won or lost."""

    routes: list[CostRoute]
    moved: float
    per_run: Estimate
    share_of_cost: Estimate
    break_even: Estimate
    at: list[CostAt]
    monthly_usd: float | None = None


class CostReport(Result, kw_only=True):
    """What it cost, in dollars. `basis` is run or assumed; an unknown cost is None, never 0.

    `cost_usd` is that of `ethogram show`: None unless every call is priced; `at_least_usd` is what is known of it.
    `repeated_usd` was paid besides: for tries that were repeated after a failure, and for attempts that were replaced.
    `paid_per_resolved` divides both, and is None with `cost_usd`.
    """

    presentation: ClassVar[Presentation] = Presentation(
        title="Costs",
        headline="{run}: {episodes} episodes, {resolved} resolved",
        facts=("basis", "cost_usd", "at_least_usd", "paid_per_resolved", "scored", "missing", "missing_usd", "sources"),
        columns=("task", "attempt", "resolved", "missing", "cost_usd", "calls", "unpriced"),
        drawing=Drawing("step", "cost_usd", "US dollars", "bars", source="by_step"),
    )

    run: str | None
    basis: str
    episodes: int
    scored: int
    resolved: int
    missing: dict[str, int]
    missing_usd: dict[str, float]
    cost_usd: float | None
    at_least_usd: float = 0.0
    repeated_usd: float = 0.0
    paid_per_resolved: float | None
    sources: dict[str, int]
    usage: CostUsage
    per_run: Estimate
    resolution: Estimate
    per_resolved: Estimate
    by_step: list[CostStep]
    by_tool: list[CostTool]
    by_model: list[CostModel]
    by_episode: list[CostEpisode]
    cache: CostCache
    monthly: CostMonthly | None
    routing: CostRouting | None
    unpriced: list[CostUnpriced]
    notes: list[str]

    def rows(self) -> list[dict[str, Any]]:
        """One row per episode."""
        return [msgspec.to_builtins(e) for e in self.by_episode]
