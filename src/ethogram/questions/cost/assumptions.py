"""Hypothetical costs: a month of attempts, routing, and a report from assumptions alone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime

import msgspec

from ethogram.errors import BadUsage, NotFound
from ethogram.estimate import Estimate
from ethogram.prices.prices import PriceList, Quote
from ethogram.prices.settings import PriceSource, as_prices

from .records import (
    CostAt,
    CostCache,
    CostModel,
    CostMonthly,
    CostOptions,
    CostReport,
    CostRoute,
    CostRouting,
    CostStep,
    CostUsage,
)
from .routing import Assumed, Route, break_even, parse_assumed, parse_route, routed_assumed, step_cost


def given_resolution(run: Estimate, rate: float) -> tuple[Estimate, Estimate]:
    """A resolution that was given, and the cost per resolved task that follows."""
    given = Estimate(value=rate, level=run.level, method="given", why="the resolution is given, not measured")
    return given, _over(run, rate)


def _scaled(estimate: Estimate, factor: float, why: str | None = None) -> Estimate:
    ends = [None if e is None else e * factor for e in (estimate.value, estimate.low, estimate.high)]
    return msgspec.structs.replace(estimate, value=ends[0], low=ends[1], high=ends[2], why=why or estimate.why)


def _over(run: Estimate, rate: float) -> Estimate:
    return _scaled(run, 1 / rate, f"at a resolution of {100 * rate:g} %, which is given, not measured")


def monthly_at(options: CostOptions, run: Estimate, rate: Estimate) -> CostMonthly | None:
    """A month at the volume, if one is given."""
    if options.volume is None:
        return None
    return CostMonthly(runs=options.volume, cost=_scaled(run, options.volume), resolved=_scaled(rate, options.volume))


def routing_report(
    options: CostOptions,
    routes: Sequence[Route],
    shares: Sequence[float | None],
    moved: float,
    routed: Estimate,
    share: Estimate,
    even: Estimate,
    rate: Estimate,
    each: Estimate,
) -> CostRouting:
    """The what-if at every resolution that was asked for, or at the one that was measured."""
    at = []
    for given in options.routed_resolution or ((rate.value,) if rate.value else ()):
        cost = _over(routed, given)
        pays = cost.value < each.value if cost.value is not None and each.value is not None else None
        at.append(CostAt(resolution=given, per_resolved=cost, pays=pays))
    return CostRouting(
        routes=[CostRoute(what=r.what, model=r.model, share=s) for r, s in zip(routes, shares, strict=True)],
        moved=moved,
        per_run=routed,
        share_of_cost=share,
        break_even=even,
        at=at,
        monthly_usd=None if options.volume is None or routed.value is None else routed.value * options.volume,
    )


_DEFAULTS = CostOptions()


def assumed_cost(
    assume: Assumed | str,
    *,
    prices: PriceSource = None,
    model: str | None = None,
    as_of: date | None = _DEFAULTS.as_of,
    level: float = _DEFAULTS.level,
    volume: float | None = _DEFAULTS.volume,
    routes: tuple[str, ...] = _DEFAULTS.routes,
    resolution: float | None = _DEFAULTS.resolution,
    routed_resolution: tuple[float, ...] = _DEFAULTS.routed_resolution,
) -> CostReport:
    """The report of `cost` from assumptions, without a run.

    `model` is where steps go unless they are routed; by default the first of your own prices. The other keywords are
    those of `cost`. Raises `BadUsage` where no model is named, `NotFound` for one that has no price.

    Example: `assumed_cost("steps=20,input=12000,output=700,cached=0.6", model="gpt-4o").per_run`
    """
    wanted = CostOptions(
        as_of=as_of,
        level=level,
        volume=volume,
        routes=routes,
        resolution=resolution,
        routed_resolution=routed_resolution,
    )
    assumed = parse_assumed(assume) if isinstance(assume, str) else assume
    known = as_prices(prices)
    base_name = model or (known.own[0].model if known.own else None)
    if base_name is None:
        raise BadUsage(
            "--assume needs a model: name one with --model, or give its price with --price NAME=FRESH/OUTPUT"
        )
    base = _assumed_quote(known, base_name, wanted)
    money = step_cost(assumed, base.rates) * assumed.steps
    why = "assumed, not measured"
    run = Estimate(value=money, level=wanted.level, method="assumed", why=why)
    rate = Estimate(value=wanted.resolution, level=wanted.level, method="assumed", why=why)
    each = Estimate(value=None, level=wanted.level, why="no resolution is given; add --resolution")
    if wanted.resolution is not None:
        each = msgspec.structs.replace(run, value=money / wanted.resolution)
    report = _assumed_report(assumed, base_name, base, run, rate, each)
    report.monthly = monthly_at(wanted, run, rate)
    parsed = [parse_route(text) for text in routes]
    if parsed:
        there = [(r, _assumed_quote(known, r.model, wanted).rates) for r in parsed]
        cost = routed_assumed(assumed, base.rates, there)
        shares = [r.share if r.steps is None else r.steps / assumed.steps for r in parsed]
        even = break_even(money, wanted.resolution, cost) if wanted.resolution and money else None
        parts = [
            Estimate(value=v, level=wanted.level, method="assumed", why=why)
            for v in (cost, cost / money if money else None, even)
        ]
        moved = sum(s or 0.0 for s in shares)
        report.routing = routing_report(wanted, parsed, shares, moved, parts[0], parts[1], parts[2], rate, each)
    return report


def _assumed_quote(prices: PriceList, model: str, options: CostOptions) -> Quote:
    day = options.as_of
    when = datetime.now(UTC) if day is None else datetime(day.year, day.month, day.day, tzinfo=UTC)
    found = prices.quote(model, None, when)
    if isinstance(found, str):
        raise NotFound(
            f"{model!r} cannot be priced: {found}; give its price with --price {model}=FRESH/OUTPUT",
            what="price",
            name=model,
        )
    return found


def _assumed_report(
    assumed: Assumed, model: str, quote: Quote, run: Estimate, rate: Estimate, each: Estimate
) -> CostReport:
    cached, written = (round(assumed.steps * assumed.input * s) for s in (assumed.cached, assumed.written))
    usage = CostUsage(
        calls=round(assumed.steps),
        fresh=round(assumed.steps * assumed.input) - cached - written,
        cached=cached,
        cache_write=written,
        output=round(assumed.steps * assumed.output),
        reasoning=round(assumed.steps * assumed.reasoning),
    )
    assert run.value is not None
    row = CostModel(
        model=model,
        provider=None,
        source=quote.source,
        matched=quote.matched,
        rates=quote.rates,
        usage=usage,
        cost_usd=run.value,
    )
    return CostReport(
        run=None,
        basis="assumed",
        episodes=0,
        scored=0,
        resolved=0,
        missing={},
        missing_usd={},
        cost_usd=None,
        paid_per_resolved=None,
        sources={},
        usage=usage,
        per_run=run,
        resolution=rate,
        per_resolved=each,
        by_step=[CostStep(step="every", kind="model", usage=usage, cost_usd=run.value, share=1.0)],
        by_tool=[],
        by_model=[row],
        by_episode=[],
        cache=CostCache(hit_rate=assumed.cached),
        monthly=None,
        routing=None,
        unpriced=[],
        notes=[],
    )
