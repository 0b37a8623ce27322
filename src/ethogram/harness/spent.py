"""What a run has spent so far, by its ledger: what budgets of a further session begin with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from ethogram.errors import BadUsage
from ethogram.prices import Amounts, CallPrices, Metering
from ethogram.store import Entry, Run
from ethogram.store.lake import METERS
from ethogram.store.paid_attempts import paid_entries, wasted
from ethogram.traces import SILENT, UNMETERED, UNSEEN, Param, Totals, inner_ids, tokens_of

from .options import AllCaps


class Books(msgspec.Struct, frozen=True):
    """What the ledger says of a run, in little room: outcomes that count, what they used, and all that was spent.

    `total` is more than `kept` by tries that were repeated, and by attempts that `--retry` replaced.
    """

    live: tuple[Entry, ...]
    kept: Amounts
    total: Amounts
    tasks: dict[str, Amounts]
    unmetered: set[str]
    """Resources of which some episode used an unknown amount."""


def read_books(run: Run) -> Books:
    """Read the ledger once."""
    paid = paid_entries(run)
    books = Books(paid.live, Amounts(), Amounts(), {}, set())
    for entries in (paid.standing, paid.replaced):
        for (task, totals, meta), count in entries.items():
            amounts = paid_amounts(totals, meta)
            books.total.add(amounts, count)
            books.tasks.setdefault(task, Amounts()).add(amounts, count)
            books.unmetered.update(unmetered(totals, dict(meta), run))
            if entries is paid.standing:
                books.kept.add(paid_amounts(totals), count)
    return books


def paid_amounts(totals: Totals, meta: Iterable[tuple[str, Param]] = ()) -> Amounts:
    """What an attempt used, as it was recorded; with its facts, also what its repeated tries used."""
    facts = tuple(meta)
    return Amounts(
        usd=(totals.cost_usd or 0.0) + wasted(facts, "wasted_usd"),
        tokens=(totals.tokens or 0) + wasted(facts, "wasted_tokens"),
        steps=max(totals.steps or 0, (totals.model_calls or 0) + (totals.tool_calls or 0)),
    )


def unmetered(totals: Totals, meta: Mapping[str, Param], run: Run) -> set[str]:
    """What of an episode's use is unknown: as it was recorded, or, of runs that recorded none of it, by its totals."""
    if METERS in run.info.plan:
        return set(filter(None, str(meta.get(UNMETERED) or "").split(",")))
    silent = {"usd": totals.cost_usd is None, "tokens": totals.input_tokens is totals.output_tokens is None}
    return {name for name, unsaid in silent.items() if unsaid and totals.model_calls}


def price_gaps(run: Run, books: Books, metering: Metering) -> str | None:
    """Add what earlier calls without a price cost by prices that are known now; gives why that is still unknown."""
    if "usd" not in books.unmetered:
        return None
    prices, silent = metering.calls(), False
    for entry in books.live:
        unknown, head = unmetered(entry.totals, entry.head.meta, run), entry.head
        if SILENT in unknown:  # the account counts it, where its caps do
            silent = True
            continue
        if UNSEEN in unknown:
            return f"attempt {head.attempt} of task {head.task!r} may have made model calls that were not captured"
        if "usd" not in unknown:
            continue
        cost = _cost(run, entry, prices)
        if cost is None:
            return f"attempt {head.attempt} of task {head.task!r} has model calls without a price"
        more = Amounts(usd=cost - (entry.totals.cost_usd or 0.0))
        books.kept.add(more)
        books.total.add(more)
        books.tasks[head.task].add(more)
    if not silent:
        books.unmetered.discard("usd")
    return None


def check_spent(run: Run, books: Books, caps: AllCaps, metering: Metering) -> None:
    """A cap on dollars counts what earlier sessions spent; where that is unknown, it cannot be kept."""
    if "usd" not in caps.limited() or metering.allow_unmetered:
        return
    why = price_gaps(run, books, metering)
    if why is not None:
        raise BadUsage(
            f"what run {run.name!r} has spent so far is not known ({why}), so the cap on usd cannot be "
            "enforced; give prices with --price, or --allow-unmetered"
        )


def _cost(run: Run, entry: Entry, prices: CallPrices) -> float | None:
    """Dollars of a stored episode; None where a call has no price. A failed call that tells no usage cost nothing."""
    spans = list(run.spans(entry))
    inner = inner_ids(spans, frozenset({"model"}))
    calls = [s for s in spans if s.kind == "model" and s.span_id not in inner]
    costs = [prices.cost(s) for s in calls if s.status != "error" or tokens_of(s)]
    known = [c for c in costs if not isinstance(c, str)]
    return sum(known) if costs and len(known) == len(costs) else None
