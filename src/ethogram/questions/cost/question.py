"""Cost of a run: per episode, step, tool and resolved task, per month, and what routing would save.

Columns of the lake are priced, no trace is opened. The same questions can be asked of assumptions, without a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import date
from functools import cached_property

import msgspec
import numpy as np

from ethogram.arrays import plain_numbers
from ethogram.errors import BadUsage, NotFound, Sealed
from ethogram.estimate import Estimate
from ethogram.prices.prices import PriceList, Quote, moment
from ethogram.prices.resolved import PricedEpisodes, cost_share, per_resolved, per_run, product, resolution
from ethogram.prices.settings import PriceSource, as_prices
from ethogram.prices.usage import CLASSES, SOURCES, Bools, Floats, price_as
from ethogram.reading.call_columns import is_resolved, read_steps, result_chars
from ethogram.reading.episode_costs import is_free, run_cost
from ethogram.reading.priced_run import PricedRun
from ethogram.reading.samples import sampled_run
from ethogram.reading.task_names import task_name
from ethogram.store import Entry, Home, Run
from ethogram.store.paid_attempts import repeated_usd
from ethogram.traces import Missing

from .assumptions import assumed_cost, given_resolution, monthly_at, routing_report
from .call_sums import UNRECORDED, known_sum, mean_share, name_of, step_row, unknown_costs, usage_of, with_reasons
from .contexts import CHARS_PER_TOKEN, ContextChain, breaks_of, chain_of, tool_use
from .records import (
    CostBreak,
    CostCache,
    CostEpisode,
    CostModel,
    CostOptions,
    CostReport,
    CostRouting,
    CostStep,
    CostTool,
    CostUnpriced,
    CostUsage,
)
from .routing import parse_route, routed_calls

__all__ = ["CostOptions", "CostReport", "assumed_cost", "cost"]

WORST = 10
"""How many prefix breaks are listed."""


_DEFAULTS = CostOptions()


def cost(
    run: str | Run = "latest",
    *,
    home: Home | str | None = None,
    prices: PriceSource = None,
    reprice: bool = _DEFAULTS.reprice,
    as_of: date | None = _DEFAULTS.as_of,
    level: float = _DEFAULTS.level,
    volume: float | None = _DEFAULTS.volume,
    routes: tuple[str, ...] = _DEFAULTS.routes,
    resolution: float | None = _DEFAULTS.resolution,
    routed_resolution: tuple[float, ...] = _DEFAULTS.routed_resolution,
    condition: str | None = _DEFAULTS.condition,
    agent: str | None = _DEFAULTS.agent,
) -> CostReport:
    """What a run cost: per episode, step, tool, model and resolved task.

    `prices` are your own (dollars per million tokens), before those of the public table; `reprice` prices what the log
    recorded a cost for, `as_of` takes the prices of one day. `volume` is attempts a month. `routes` (`WHAT=MODEL`) ask
    what another model would cost, at the shares `routed_resolution` of resolved tasks; `resolution` is the share of
    resolved tasks where the run has no outcomes. `condition` and `agent` choose episodes. What nothing prices is listed
    under `unpriced`, never taken as free. Raises `BadUsage` for a value that makes no sense.

    Example: `cost("night", prices={"m": {"fresh": 3, "output": 15}}, volume=10_000).per_resolved`
    """
    options = CostOptions(
        reprice=reprice,
        as_of=as_of,
        level=level,
        volume=volume,
        routes=routes,
        resolution=resolution,
        routed_resolution=routed_resolution,
        condition=condition,
        agent=agent,
    )
    return _Costing(sampled_run(run, home), as_prices(prices), options).report()


class _Costing(PricedRun):
    """One run while its report is made: its chosen episodes, priced, and what must be said of them."""

    def __init__(self, run: Run, prices: PriceList, options: CostOptions) -> None:
        self.options, self.notes = options, list[str]()
        entries = self._chosen(run)
        super().__init__(run, entries, read_steps(run, entries), prices, reprice=options.reprice, as_of=options.as_of)

    @cached_property
    def chain(self) -> ContextChain:
        """Which call's context each call carries on."""
        return chain_of(self.steps, self.calls)

    def _chosen(self, run: Run) -> list[Entry]:
        """The episodes that are meant; several agents or conditions together are told."""
        entries = list(run.entries)
        for field in ("agent", "condition"):
            wanted = getattr(self.options, field)
            there = sorted({getattr(e.head, field) for e in entries})
            if wanted is None and len(there) > 1:
                self.notes.append(f"{len(there)} {field}s are taken together; choose one with --{field}")
            elif wanted is not None and wanted not in there:
                raise NotFound.named(field, wanted, there, where=f"run {run.name!r}")
            elif wanted is not None:
                entries = [e for e in entries if getattr(e.head, field) == wanted]
        return entries

    @cached_property
    def columns(self) -> PricedEpisodes:
        """The episodes by task, with cost and outcome."""
        tasks: dict[str, int] = {}
        task = [tasks.setdefault(task_name(e.head), len(tasks)) for e in self.entries]
        resolved = [is_resolved(e, self.run.success_at) for e in self.entries]
        return PricedEpisodes(
            np.asarray(task, dtype=np.int64),
            self.known,
            np.asarray([np.nan if r is None else float(r) for r in resolved], dtype=np.float64),
        )

    def report(self) -> CostReport:
        level = self.options.level
        cost = self.charged.cost
        free = any(is_free(self.run, entry) for entry in self.entries)
        any_priced = free or bool(np.any(~np.isnan(cost)) or np.any(~np.isnan(self.known) & (self.known > 0)))
        total = run_cost(self.run, self.by_trace(), self.entries)
        # of a part of a run it is not known which attempts of it were repeated
        repeated = repeated_usd(self.run) if len(self.entries) == len(self.run.entries) else 0.0
        reasons: Counter[str] = Counter()
        reasons.update(e.head.outcome.reason for e in self.entries if isinstance(e.head.outcome, Missing))
        rate = with_reasons(resolution(self.columns, level), reasons)
        run = per_run(self.columns, level)
        if not any_priced:
            run = Estimate(value=None, level=level, of="tasks", why="no model call is priced")
        each = with_reasons(per_resolved(self.columns, level), reasons) if any_priced else msgspec.structs.replace(run)
        if run.value is None and self.entries and self.unseen[np.isnan(self.known)].all():  # no price would help
            run, each = (msgspec.structs.replace(e, why=UNRECORDED) for e in (run, each))
        gone = sum(bool(e.forgotten) and np.isnan(cost) for e, cost in zip(self.entries, self.known, strict=True))
        if gone:
            why = (
                f"retention deleted {gone} traces by their outcome and their cost is not known: the rest would mislead"
            )
            each = Estimate(value=None, level=level, of="tasks", missing=each.missing, why=why)
        if rate.value is None and self.options.resolution is not None:
            rate, each = given_resolution(run, self.options.resolution)
        elif self.options.resolution is not None:
            raise BadUsage("this run has outcomes, so its resolution is measured; vary it with --routed-resolution")
        resolved = int(np.nansum(self.columns.resolved))
        spent: dict[str, float] = dict.fromkeys(sorted(reasons), 0.0)
        for entry, dollars in zip(self.entries, self.at_least.tolist(), strict=True):
            if isinstance(entry.head.outcome, Missing):
                spent[entry.head.outcome.reason] += dollars
        self._tell()
        return CostReport(
            run=self.run.name,
            basis="run",
            episodes=len(self.entries),
            scored=len(self.entries) - sum(reasons.values()),
            resolved=resolved,
            missing=dict(sorted(reasons.items())),
            missing_usd=spent,
            cost_usd=total,
            at_least_usd=float(self.at_least.sum()),
            repeated_usd=repeated,
            paid_per_resolved=(total + repeated) / resolved if total is not None and resolved else None,
            sources={name: int(np.sum(self.charged.source == i)) for i, name in enumerate(SOURCES)},
            usage=usage_of(self.calls, slice(None)),
            per_run=run,
            resolution=rate,
            per_resolved=each,
            by_step=self._by_step(),
            by_tool=self._by_tool(),
            by_model=self._by_model(),
            by_episode=self._by_episode(),
            cache=self._cache(),
            monthly=monthly_at(self.options, run, rate),
            routing=self._routing(run, rate, each) if self.options.routes else None,
            unpriced=self._unpriced(),
            notes=self.notes,
        )

    def _tell(self) -> None:
        """What a reader of the figures must know."""
        undated = int(np.sum((self.calls.time_ns < 0) & (self.charged.source > 1)))
        if undated and self.as_of_ns is None:
            day = moment(self.run.info.created_ns).date()
            self.notes.append(f"{undated} calls have no date and are priced as of {day}, when the run was stored")
        zero = int(np.sum((self.calls.recorded == 0) & (self.calls.total_input + self.calls.output > 0)))
        if zero and not self.options.reprice:
            self.notes.append(f"{zero} calls have a recorded cost of 0 for tokens they used, which is not believed")
        if np.any(self.whole):
            self.notes.append("some traces give only the usage of the whole trace: it is counted at their last call")
        called = np.bincount(self.episode, minlength=len(self.entries)) > 0
        self.notes += unknown_costs(np.isnan(self.known), called[: len(self.entries)], self.unseen)

    def _by_step(self) -> list[CostStep]:
        cost = self.charged.cost
        whole = float(np.nansum(cost))
        rows = []
        for i, name in enumerate(CLASSES):
            chosen = self.calls.kind == i
            if np.any(chosen):
                rows.append(step_row(name, self.calls, chosen, cost, self.dark, whole))
        counts = np.bincount(self.steps.kind, minlength=len(self.steps.kinds))
        for kind, count in sorted(zip(self.steps.kinds, counts.tolist(), strict=True)):
            if kind != "model" and count:
                rows.append(CostStep(step=kind, kind=kind, usage=CostUsage(calls=count)))
        return rows

    def _by_tool(self) -> list[CostTool]:
        chars = self._result_chars()
        found = tool_use(self.steps, self.calls, self.chain, self.charged, chars)
        if any(t.tokens for t in found):
            self.notes.append(f"tokens of tool results are their characters / {CHARS_PER_TOKEN:g}: logs count none")
        after: dict[str, tuple[int, float | None]] = {}
        for n, name in enumerate(self.steps.tools):
            chosen = self.calls.after == n
            if np.any(chosen):
                after[name] = (int(chosen.sum()), known_sum(self.charged.cost[chosen]))
        return [
            CostTool(
                tool=t.tool,
                calls=t.calls,
                errors=t.errors,
                tokens=int(t.tokens) if t.unmeasured < t.calls else None,
                largest=int(t.largest) if t.unmeasured < t.calls else None,
                read_tokens=int(t.read_tokens) if t.unmeasured < t.calls else None,
                cost_usd=t.cost if t.unmeasured < t.calls and (t.cost or not t.unpriced) else None,
                unmeasured=t.unmeasured,
                unpriced=t.unpriced,
                after_calls=after.get(t.tool, (0, None))[0],
                after_usd=after.get(t.tool, (0, None))[1],
            )
            for t in found
        ]

    def _result_chars(self) -> Floats:
        try:
            return result_chars(self.run, self.steps)
        except Sealed as error:
            self.notes.append(f"results of tools cannot be measured: {error}")
            return np.full(len(self.steps.rows), np.nan)

    def _by_model(self) -> list[CostModel]:
        rows = []
        for (model, provider, source, quote), chosen in self._groups(self.charged.source > 0):
            price: Quote | None = self.charged.quotes[quote] if source > 1 else None
            rows.append(
                CostModel(
                    model=name_of(self.steps.models, model),
                    provider=name_of(self.steps.providers, provider),
                    source=SOURCES[source],
                    matched=price.matched if price else None,
                    rates=price.rates if price else None,
                    usage=usage_of(self.calls, chosen),
                    cost_usd=float(self.charged.cost[chosen].sum()),
                )
            )
        return sorted(rows, key=lambda r: -r.cost_usd)

    def _unpriced(self) -> list[CostUnpriced]:
        rows = []
        for (model, provider, _, _, reason), chosen in self._groups(np.isnan(self.charged.cost), reason=True):
            rows.append(
                CostUnpriced(
                    model=name_of(self.steps.models, model),
                    provider=name_of(self.steps.providers, provider),
                    why=self.charged.reasons[reason],
                    usage=usage_of(self.calls, chosen),
                )
            )
        return sorted(rows, key=lambda r: (-r.usage.calls, r.model or ""))

    def _groups(self, mask: Bools, *, reason: bool = False) -> Iterable[tuple[tuple[int, ...], Bools]]:
        calls, charged = self.calls, self.charged
        quote = np.where(charged.source > 1, charged.quote, -1)
        columns = [calls.model, calls.provider, charged.source, quote, *([charged.reason] if reason else [])]
        flat = np.zeros(calls.at.size, dtype=np.int64)
        for column in columns:
            flat = flat * (int(column.max(initial=-1)) + 2) + column + 1
        for value in np.unique(flat[mask]).tolist():
            chosen = mask & (flat == value)
            first = int(np.argmax(chosen))
            yield tuple(int(c[first]) for c in columns), chosen

    def _by_episode(self) -> list[CostEpisode]:
        """One row per episode."""
        unpriced = np.bincount(self.episode, weights=self.dark, minlength=len(self.entries)).astype(int).tolist()
        return [
            CostEpisode(
                trace_id=e.head.trace_id,
                task=e.head.task,
                attempt=e.head.attempt,
                resolved=is_resolved(e, self.run.success_at),
                missing=e.head.outcome.reason if isinstance(e.head.outcome, Missing) else None,
                cost_usd=cost.cost_usd,
                at_least_usd=cost.at_least_usd,
                calls=cost.calls,
                unpriced=dark,
            )
            for e, cost, dark in zip(self.entries, self.episode_costs(), unpriced, strict=True)
        ]

    def _cache(self) -> CostCache:
        calls = self.calls
        told = calls.known["cached"]
        read, whole = float(calls.cached[told].sum()), float(calls.total_input[told].sum())
        if whole <= 0:
            return CostCache(hit_rate=None, why="the log gives no counts of cached tokens")
        found = breaks_of(calls, self.chain, self.charged)
        place = plain_numbers(self.steps.rows.column("step"), -1)
        worst = np.argsort(-found.tokens, kind="stable")[:WORST]
        return CostCache(
            hit_rate=read / whole,
            breaks=found.at.size,
            idle=int(found.idle.sum()),
            lost_tokens=int(found.tokens.sum()),
            cost_usd=known_sum(found.cost) if found.at.size else 0.0,
            worst=[
                CostBreak(
                    trace_id=self.steps.traces[int(calls.trace[found.at[i]])],
                    step=int(place[calls.at[found.at[i]]]),
                    tokens=int(found.tokens[i]),
                    cost_usd=None if np.isnan(found.cost[i]) else float(found.cost[i]),
                    idle=bool(found.idle[i]),
                )
                for i in worst.tolist()
            ],
        )

    def _routing(self, run: Estimate, rate: Estimate, each: Estimate) -> CostRouting:
        routes = [parse_route(text) for text in self.options.routes]
        when = np.where(self.calls.time_ns < 0, self.run.info.created_ns, self.calls.time_ns)
        if self.as_of_ns is not None:
            when = np.full_like(when, self.as_of_ns)
        priced: dict[str, Floats] = {}
        for model in {r.model for r in routes}:
            found = price_as(self.calls, self.prices, model, when, self.whole)
            if isinstance(found, str):
                why = f"{found}; give its price with --price {model}=FRESH/OUTPUT"
                raise NotFound(f"--route to {model!r}: {why}", what="price", name=model)
            priced[model] = found
        cost, moved = routed_calls(self.calls, self.steps.tools, self.charged.cost, routes, priced)
        excused = np.isnan(self.charged.cost) & ~self.dark
        after, _ = self.episode_dollars(cost, np.isnan(cost) & ~excused)
        level = self.options.level
        routed = per_run(self.columns._replace(cost=np.where(np.isnan(self.known), np.nan, after)), level)
        share = cost_share(self.columns, after, level)
        even = product(share, rate, level)
        shares = [
            mean_share(routed_calls(self.calls, self.steps.tools, self.charged.cost, [r], priced)[1]) for r in routes
        ]
        return routing_report(self.options, routes, shares, mean_share(moved) or 0.0, routed, share, even, rate, each)
