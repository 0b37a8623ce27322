"""The cost of the episodes of a run, kept with the run: screens print it without reading spans or prices.

A record lies in the run's folder `derived` under the hash of its inputs: the ids of the traces, which of them were
forgotten, the user's own prices and the release of the price table. A trace never changes under its id, so a record
that is found under its name fits. What cannot be written is not stored, and what cannot be read is computed: nothing
depends on a record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import msgspec

from ethogram.errors import EthogramError
from ethogram.prices.settings import price_list
from ethogram.store import DERIVED, Entry, Run
from ethogram.store.lake import METERS
from ethogram.traces import UNMETERED, UNSEEN, is_outcome_only
from ethogram.traces.ids import digest

VERSION = 4
"""Raised when pricing is defined anew: older records then fit no longer."""
MOST_EPISODES = 20_000
"""Larger runs are priced every time: the record would take room."""


class EpisodeCost(NamedTuple):
    """Model calls of an episode, its dollars (None unless all calls are recorded and priced), and what is known."""

    calls: int
    cost_usd: float | None
    at_least_usd: float


class CostRecord(msgspec.Struct, frozen=True):
    """The costs by trace id, and the hash of them, so that a damaged record is not believed."""

    costs: dict[str, EpisodeCost]
    digest: str = ""

    def signed(self) -> CostRecord:
        """The same with its hash."""
        return CostRecord(self.costs, digest(msgspec.json.encode(self.costs)))


def is_free(run: Run, entry: Entry) -> bool:
    """Whether an episode without a model call cost nothing: its agent records all its use, and nothing was unseen.

    Of a log, or of an agent that does not say so, nobody knows which calls were made.
    """
    meters = run.info.plan.get(METERS)
    if not isinstance(meters, list) or "usd" not in meters or entry.totals.model_calls != 0:
        return False
    return not (entry.forgotten or is_outcome_only(entry.head) or entry.head.meta.get(UNMETERED))


def is_unseen(entry: Entry) -> bool:
    """Whether model calls may have been made that nobody recorded."""
    return UNSEEN in str(entry.head.meta.get(UNMETERED) or "")


def kept_costs(run: Run) -> dict[str, EpisodeCost]:
    """What each episode cost, by trace id: from the run's record if it fits, else computed and stored.

    The user's own prices count, as in `ethogram cost`.
    """
    entries = run.entries
    if all(e.totals.tokens is None and e.totals.cost_usd is None for e in entries):  # nothing that could be priced
        free = {e.head.trace_id: 0.0 if is_free(run, e) else None for e in entries}
        return {e.head.trace_id: EpisodeCost(e.totals.model_calls or 0, free[e.head.trace_id], 0.0) for e in entries}
    prices = price_list()
    ids = [e.head.trace_id for e in entries]
    forgotten = [e.head.trace_id for e in entries if e.forgotten]
    own = msgspec.json.encode(prices.own)
    release = _price_table()
    rule = digest(f"costs {VERSION}", release, own, "\n".join(ids), "\n".join(forgotten))
    path = f"{run.path}/{DERIVED}/costs-{rule.rpartition(':')[2]}.json"
    small = 0 < len(ids) <= MOST_EPISODES and release != ""
    if small and run.files.exists(path):
        with suppress(EthogramError, msgspec.MsgspecError, UnicodeDecodeError):
            record = msgspec.json.decode(run.files.read(path), type=CostRecord)
            if record == record.signed():
                return record.costs
    from .call_columns import read_calls  # needs numpy and pyarrow
    from .priced_run import PricedRun

    costs = PricedRun(run, list(entries), read_calls(run), prices).by_trace()
    with suppress(EthogramError):  # a home that may only be read
        if small and not run.busy():  # what still grows is soon outdated
            run.files.publish(path, msgspec.json.encode(CostRecord(costs).signed()))
    return costs


def run_cost(run: Run, costs: Mapping[str, EpisodeCost], entries: Iterable[Entry] | None = None) -> float | None:
    """Dollars of a run, or of some `entries` of it, from the cost of each episode by trace id.

    None where a call has no price, or where calls may be that nobody recorded. An episode without a recorded call adds
    nothing.
    """
    chosen = run.entries if entries is None else tuple(entries)
    each = [costs[e.head.trace_id] for e in chosen]
    meters = run.info.plan.get(METERS)
    complete = "usd" in meters if isinstance(meters, list) else any(c.calls or c.cost_usd is not None for c in each)
    if not complete or any(c.cost_usd is None and _may_have_cost(e) for e, c in zip(chosen, each, strict=True)):
        return None
    return sum(c.at_least_usd for c in each)


def _may_have_cost(entry: Entry) -> bool:
    return bool(entry.totals.model_calls or entry.forgotten or is_unseen(entry) or is_outcome_only(entry.head))


def known_costs(entries: Iterable[tuple[Run, Entry]]) -> list[float | None]:
    """Dollars of some episodes, None where they are unknown: what every screen calls their cost."""
    costs: dict[int, dict[str, EpisodeCost]] = {}
    found = []
    for run, entry in entries:
        of_run = costs.get(id(run))
        if of_run is None:
            of_run = costs[id(run)] = kept_costs(run)
        found.append(of_run[entry.head.trace_id].cost_usd)
    return found


def _price_table() -> str:
    """The installed release of genai-prices, by the name of its folder of metadata; "" if that is not found.

    `importlib.metadata` would say the same, in a quarter of the time that the whole of `ethogram show` may take.
    """
    package = find_spec("genai_prices")
    if package is None or package.origin is None:
        return ""
    return next((f.name for f in Path(package.origin).parents[1].glob("genai_prices-*.dist-info")), "")
