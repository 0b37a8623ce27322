"""`ethogram cost`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from ethogram.display.money import dollars
from ethogram.errors import BadUsage
from ethogram.estimate import Estimate
from ethogram.prices.settings import price_list
from ethogram.questions.cost.call_sums import UNRECORDED
from ethogram.questions.cost.question import CostReport, assumed_cost, cost

from .printing import (
    HomeOption,
    JsonOption,
    LimitOption,
    first,
    known,
    plural,
    print_json,
    print_rest,
    stderr,
    stdout,
    table,
)
from .running import PriceOption, PricesOption


def command(
    run: Annotated[
        str | None, typer.Argument(help="A run directory, a run's name, or latest.", show_default="latest")
    ] = None,
    prices: PricesOption = None,
    price: PriceOption = None,
    reprice: Annotated[
        bool, typer.Option("--reprice", help="Compute prices even where the log recorded a cost.")
    ] = False,
    as_of: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d"], help="Prices of this day instead of each call's own.")
    ] = None,
    volume: Annotated[float | None, typer.Option(help="Attempts per month.", show_default=False)] = None,
    route: Annotated[
        list[str] | None,
        typer.Option(
            help="What if: CLASS=MODEL, after-tool:NAME=MODEL, N=MODEL (steps of an attempt), P%=MODEL; repeatable."
        ),
    ] = None,
    routed_resolution: Annotated[
        list[float] | None, typer.Option(help="What routed attempts might resolve, e.g. 0.6; repeatable.")
    ] = None,
    assume: Annotated[
        str | None,
        typer.Option(help="No run: steps=20,input=12000,output=700,cached=0.6 (also written, reasoning)."),
    ] = None,
    model: Annotated[str | None, typer.Option(help="With --assume: the model; by default the first --price.")] = None,
    resolution: Annotated[
        float | None, typer.Option(help="The share that is resolved, where it is not measured.", show_default=False)
    ] = None,
    level: Annotated[float, typer.Option(help="The confidence level of intervals.")] = 0.95,
    condition: Annotated[str | None, typer.Option(help="Which condition, where a run has several.")] = None,
    agent: Annotated[str | None, typer.Option(help="Which agent, where a run has several.")] = None,
    limit: LimitOption = 12,
    json: JsonOption = False,
    home: HomeOption = None,
) -> int:
    """Show what a run cost: per attempt, step, tool and resolved task, with intervals; a month; what routing saves.

    Classes of step, by what came before a model call: first, after-tool, after-error, after-user, after-model,
    after-other.

    Example: `ethogram cost latest --volume 10000 --route after-tool=gpt-4o-mini --routed-resolution 0.6`
    """
    if assume is not None and run is not None:
        raise BadUsage("give a run or --assume, not both")
    if assume is None and model is not None:
        raise BadUsage("--model belongs to --assume; to try another model on a run use --route 100%=MODEL")
    listed = price_list(prices, tuple(price or ()))
    day = as_of.date() if as_of else None
    if assume is not None:
        result = assumed_cost(
            assume,
            prices=listed,
            model=model,
            as_of=day,
            level=level,
            volume=volume,
            routes=tuple(route or ()),
            resolution=resolution,
            routed_resolution=tuple(routed_resolution or ()),
        )
    else:
        result = cost(
            run or "latest",
            home=home,
            prices=listed,
            reprice=reprice,
            as_of=day,
            level=level,
            volume=volume,
            routes=tuple(route or ()),
            resolution=resolution,
            routed_resolution=tuple(routed_resolution or ()),
            condition=condition,
            agent=agent,
        )
    if json:
        print_json(result)
    else:
        _print(result, limit)
    if result.per_run.value is not None:
        return 0
    _refuse(result)
    return 2


def _refuse(result: CostReport) -> None:
    """Nothing is priced: say what to give."""
    named = ", ".join(sorted({u.model for u in result.unpriced if u.model and u.usage.input is not None}))
    hint = "the logs hold neither token counts nor costs, so it cannot be priced"
    if any(u.usage.input is not None or u.usage.output is not None for u in result.unpriced):
        hint = (
            f"give prices with --prices FILE or --price NAME=FRESH/OUTPUT (models: {named or 'not named in the log'})"
        )
    if not result.usage.calls:
        hint = "there is no model call in it"
    if result.per_run.why == UNRECORDED:
        hint = UNRECORDED
    stderr().print(
        f"ethogram cost: the cost of an attempt of {result.run!r} is not known: {hint}", markup=False, soft_wrap=True
    )


def money(estimate: Estimate) -> str:
    """An estimate in dollars, with what it rests on."""
    if estimate.value is None and estimate.low is None:
        return f"unknown ({estimate.why})" if estimate.why else "unknown"
    shown = dollars(estimate.value) if estimate.value is not None else f"at least {dollars(estimate.low)}"
    facts = []
    if estimate.value is not None and estimate.low is not None:
        shown += f" [{dollars(estimate.low)}, {dollars(estimate.high)}]"
        facts.append(f"{100 * estimate.level:g} %, {estimate.method}")
    if estimate.n:
        facts.append(f"n = {estimate.n} {estimate.of}")
    facts += [f"{n} {what}" for what, n in estimate.missing.items()]
    facts += [estimate.why] if estimate.why else []
    return f"{shown} ({', '.join(facts)})" if facts else shown


def share(value: float | None) -> str:
    """A share as a percentage."""
    return "–" if value is None else f"{100 * value:.3g} %"


def _rate(estimate: Estimate) -> str:
    """A share with its interval."""
    if estimate.value is None:
        return f"unknown ({estimate.why})"
    ends = "" if estimate.low is None else f" [{share(estimate.low)}, {share(estimate.high)}]"
    facts = [estimate.method or estimate.why or "", *([f"n = {estimate.n} {estimate.of}"] if estimate.n else [])]
    return f"{share(estimate.value)}{ends} ({', '.join(f for f in facts if f)})"


SOURCES = {"own": "priced by --price"}
"""Where a price comes from, in words where the word of the JSON says too little."""


def _print(result: CostReport, limit: int) -> None:
    out = stdout()
    _head(out, result)
    _estimates(out, result)
    if result.missing and (words := _spent_on_missing(result)):
        out.print(f"missing outcomes: {words}", style="dim", markup=False, soft_wrap=True)
    if result.repeated_usd:
        each = (
            ""
            if result.paid_per_resolved is None
            else f"; {dollars(result.paid_per_resolved)} per resolved task with it"
        )
        out.print(f"repeated attempts: {dollars(result.repeated_usd)} more{each}", style="dim", markup=False)
    _tables(out, result, limit)
    if result.routing is not None:
        _routing(out, result)
    notes = stderr()
    for note in result.notes:
        notes.print(f"note: {note}", markup=False, soft_wrap=True)


def _spent_on_missing(result: CostReport) -> str:
    """What episodes without an outcome cost; nothing where there is nothing to say."""
    spent, each = sum(result.missing_usd.values()), result.paid_per_resolved
    if each is not None:
        return f"{dollars(spent)} spent on them; {dollars(each)} per resolved task with that included"
    return f"at least {dollars(spent)} spent on them" if spent and result.cost_usd is None else ""


def _estimates(out: Console, result: CostReport) -> None:
    """Values with their intervals, then what each rests on or why it is unknown."""
    estimates = {
        "per resolved task": (result.per_resolved, dollars),
        "per attempt": (result.per_run, dollars),
        "resolution": (result.resolution, share),
    }
    if result.monthly is not None:
        estimates[f"a month, {result.monthly.runs:,.0f} attempts"] = (result.monthly.cost, dollars)
    rows = [[name, *_cells(*estimate)] for name, estimate in estimates.items()]
    out.print()
    out.print(table(["", "value", f"{100 * result.per_run.level:g} %", "n", "method"], rows))
    reasons: dict[str, list[str]] = {}
    for name, (estimate, _) in estimates.items():
        others = [f"{n} {what}" for what, n in estimate.missing.items() if what not in result.missing]
        told = [*others, *([estimate.why] if estimate.why else [])]
        if estimate is result.per_resolved and estimate.value is None and estimate.low is None:
            continue  # the first line says why
        if told and (result.basis == "run" or estimate.value is None):  # the method says that it is assumed
            reasons.setdefault(", ".join(told), []).append(name)
    for reason, names in reasons.items():
        out.print(f"{', '.join(names)}: {reason}", style="dim", markup=False, soft_wrap=True)


def _cells(estimate: Estimate, shown: Callable[[float | None], str]) -> list[str | None]:
    """Value, interval, what was counted, method."""
    n = plural(estimate.n, estimate.of.removesuffix("s")) if estimate.n else None
    if estimate.value is None:
        return [None if estimate.low is None else f"at least {shown(estimate.low)}", None, n, None]
    ends = None if estimate.low is None else f"{shown(estimate.low)}–{shown(estimate.high)}"
    return [shown(estimate.value), ends, n, estimate.method or None]


def _answer(result: CostReport) -> str:
    """What a resolved task costs."""
    each = result.per_resolved
    if each.value is not None:
        return f"{dollars(each.value)} per resolved task"
    if each.low is not None:
        return f"at least {dollars(each.low)} per resolved task"
    return f"per resolved task: unknown{f', because {each.why}' if each.why else ''}"


def _head(out: Console, result: CostReport) -> None:
    use = result.usage
    tokens = ", ".join(
        f"{name} {value:,}"
        for name, value in (
            ("fresh", use.fresh),
            ("cached", use.cached),
            ("cache write", use.cache_write),
            ("output", use.output),
            ("reasoning", use.reasoning),
        )
        if value
    )
    if result.basis == "assumed":
        out.print(f"[bold]assumed[/bold]  {dollars(result.per_run.value)} per attempt, {escape(_answer(result))}")
        out.print(f"{use.calls:,} steps per attempt; tokens per attempt: {tokens}", soft_wrap=True)
        return
    total = known(result.cost_usd, result.at_least_usd, lambda usd: f"{dollars(usd)} in all", "cost")
    between = "," if result.per_resolved.value is not None else ";"  # a reason may hold a comma
    out.print(f"[bold]{escape(str(result.run))}[/bold]  {escape(_answer(result))}{between} {total}", soft_wrap=True)
    missing = ", ".join(f"{reason} {count}" for reason, count in result.missing.items())
    out.print(
        f"{plural(result.episodes, 'episode')}: {result.scored} scored, "
        f"{result.resolved} resolved, {sum(result.missing.values())} missing{f' ({missing})' if missing else ''}",
        soft_wrap=True,
    )
    by = ", ".join(f"{count:,} {SOURCES.get(name, name)}" for name, count in result.sources.items() if count)
    calls = f"{use.calls:,} model calls" + (f" ({by})" if by else "")
    out.print(f"{calls}; tokens: {tokens or 'unknown'}")
    cache = result.cache
    if cache.hit_rate is not None:
        idle = f", {cache.idle} of them after more than five idle minutes" if cache.idle else ""
        times = "1 prefix break" if cache.breaks == 1 else f"{cache.breaks:,} prefix breaks"
        broken = f"; {times} lost {cache.lost_tokens:,} tokens, {dollars(cache.cost_usd)}{idle}"
        out.print(f"cache hit rate {share(cache.hit_rate)}{broken if cache.breaks else '; no prefix breaks'}")


def _tables(out: Console, result: CostReport, limit: int) -> None:
    if result.basis == "run":
        steps = [
            [
                s.step,
                s.usage.calls,
                *(
                    (s.usage.fresh, s.usage.cached, s.usage.cache_write, s.usage.output)
                    if s.kind == "model"
                    else [None] * 4
                ),
                dollars(s.cost_usd),
                share(s.share),
                s.unpriced or None,
            ]
            for s in result.by_step
        ]
        names = ["step", "calls", "fresh", "cached", "cache write", "output", "cost", "share", "unpriced"]
        _table(out, "by step", names, steps, limit)
    tools = [
        [t.tool, t.calls, t.tokens, t.largest, t.read_tokens, dollars(t.cost_usd), t.after_calls, dollars(t.after_usd)]
        for t in result.by_tool
    ]
    columns = [
        "tool",
        "calls",
        "result tokens",
        "largest",
        "result tokens read",
        "cost of reads",
        "next calls",
        "cost of next calls",
    ]
    _table(out, "by tool: tokens of tool results, and what it cost to read them again", columns, tools, limit)
    models = [
        [
            m.model or "–",
            SOURCES.get(m.source, m.source),
            m.usage.calls,
            dollars(m.cost_usd),
            *((m.rates.fresh, m.rates.cached, m.rates.cache_write, m.rates.output) if m.rates else [None] * 4),
        ]
        for m in result.by_model
    ]
    rates = ["$/M fresh", "$/M cached", "$/M cache write", "$/M output"]
    _table(out, "by model", ["model", "source", "calls", "cost", *rates], models, limit)
    dark = [[u.model or "–", u.usage.calls, u.usage.input, u.usage.output, u.why] for u in result.unpriced]
    _table(out, "unpriced", ["model", "calls", "input", "output", "why"], dark, limit)


def _table(out: Console, title: str, columns: list[str], rows: list[list[Any]], limit: int) -> None:
    if not rows:
        return
    out.print()
    out.print(table(columns, first(rows, limit), title=title))
    print_rest(out, rows, limit, "row")


def _routing(out: Console, result: CostReport) -> None:
    routing = result.routing
    assert routing is not None
    routes = ", ".join(f"{r.what} to {r.model} ({share(r.share)} of steps)" for r in routing.routes)
    out.print()
    out.print(f"[bold]routed[/bold]  {escape(routes)}", soft_wrap=True)
    rows = [["per attempt", money(routing.per_run)], ["share of the cost", _rate(routing.share_of_cost)]]
    if routing.monthly_usd is not None:
        rows.append(["a month", dollars(routing.monthly_usd)])
    never = "; above 100 %: it cannot pay" if (routing.break_even.value or 0) > 1 else ""
    rows.append(["break-even resolution", _rate(routing.break_even) + never])
    for at in routing.at:
        words = {True: "pays", False: "does not pay", None: "cannot be compared"}[at.pays]
        rows.append(
            [f"at {share(at.resolution)} resolved", f"{dollars(at.per_resolved.value)} per resolved task: {words}"]
        )
    for name, value in rows:
        out.print(f"{name:<26}{value}", markup=False, soft_wrap=True)
    stderr().print(
        "note: routing takes tokens and cache shares as they are; measure what routed attempts resolve", soft_wrap=True
    )
