"""A run with the price of each of its model calls, and what each of its episodes cost."""

from __future__ import annotations

from datetime import UTC, date, datetime

import numpy as np

from ethogram.prices.prices import PriceList
from ethogram.prices.usage import Bools, Floats, Steps, calls_of, charge
from ethogram.store import Entry, Run
from ethogram.traces import UNMETERED, is_outcome_only, is_unmetered

from .call_columns import recorded_cost
from .episode_costs import EpisodeCost, is_free, is_unseen


class PricedRun:
    """Some episodes of a run with their calls priced; no trace is opened.

    `steps` are their steps or only their model calls. `reprice` prices what the log recorded a cost for, `as_of` takes
    the prices of one day.
    """

    def __init__(
        self,
        run: Run,
        entries: list[Entry],
        steps: Steps,
        prices: PriceList,
        *,
        reprice: bool = False,
        as_of: date | None = None,
    ) -> None:
        self.run, self.entries, self.steps, self.prices, self.reprice = run, entries, steps, prices, reprice
        self.calls = calls_of(steps)
        number: dict[str, int] = {e.head.trace_id: i for i, e in enumerate(entries)}
        self.entry_of = np.asarray([number.get(t, 0) for t in steps.traces] or [0], dtype=np.int64)
        self.episode = self.entry_of[self.calls.trace]
        per_trace = np.asarray([bool(e.head.meta.get("usage_is_per_trace")) for e in entries] or [False])
        self.whole: Bools = per_trace[self.episode]
        self.as_of_ns = (
            None if as_of is None else int(datetime(as_of.year, as_of.month, as_of.day, tzinfo=UTC).timestamp() * 1e9)
        )
        self.charged = charge(
            self.calls,
            steps,
            prices,
            undated_ns=run.info.created_ns,
            as_of_ns=self.as_of_ns,
            reprice=reprice,
            whole=self.whole,
        )
        self.dark: Bools = self._dark()
        self.unseen: Bools = np.asarray([is_unseen(e) for e in entries], dtype=bool)
        self.known, self.at_least = self.episode_dollars(self.charged.cost, self.dark)

    def episode_costs(self) -> list[EpisodeCost]:
        """What each episode cost, in the order of `entries`."""
        calls = np.bincount(self.episode, minlength=len(self.entries)).tolist()
        return [
            EpisodeCost(count, None if np.isnan(known) else known, least)
            for count, known, least in zip(calls, self.known.tolist(), self.at_least.tolist(), strict=True)
        ]

    def by_trace(self) -> dict[str, EpisodeCost]:
        """What each episode cost, by the id of its trace."""
        return dict(zip((e.head.trace_id for e in self.entries), self.episode_costs(), strict=True))

    def _dark(self) -> Bools:
        """Calls that cost something unknown: not those that failed without usage, nor those that a total covers."""
        excused = ~self.calls.counted & (self.calls.failed | self.whole)
        return np.isnan(self.charged.cost) & ~excused

    def episode_dollars(self, cost: Floats, dark: Bools) -> tuple[Floats, Floats]:
        """Dollars of every episode, and the part of them that is known.

        They are NaN where a call is unpriced, and where calls may be that nobody recorded.
        """
        size = len(self.entries)
        sums: Floats = np.bincount(self.episode, weights=np.nan_to_num(cost), minlength=size).astype(np.float64)
        unknown = np.bincount(self.episode, weights=dark, minlength=size) > 0
        priced = np.bincount(self.episode, weights=~np.isnan(cost), minlength=size) > 0
        known = np.where(unknown | ~priced, np.nan, sums)
        for i, entry in enumerate(self.entries):
            if entry.forgotten or is_outcome_only(entry.head):
                recorded = None if self.reprice else recorded_cost(entry.totals)
                partly = is_unmetered(entry.head.meta.get(UNMETERED), "cost_usd")
                known[i] = np.nan if recorded is None or partly else recorded
                sums[i] = recorded or 0.0
            elif self.unseen[i]:
                known[i] = np.nan
            elif is_free(self.run, entry):
                known[i] = 0.0
        return known, sums
