"""What was paid for in a run: the attempts that count, and those that others replaced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from ethogram.traces import Param, Totals

from . import ledger
from .entry import Entry
from .lake import GATEWAY, METERS
from .stored_run import Run

Alike = tuple[str, Totals, tuple[tuple[str, Param], ...]]
"""Task, amounts and facts of an attempt: many attempts are alike in them."""


class PaidEntries(NamedTuple):
    """The entries that count, and how often each amount is among them (`standing`) and among those replaced."""

    live: tuple[Entry, ...]
    standing: Counter[Alike]
    replaced: Counter[Alike]


def paid_entries(run: Run) -> PaidEntries:
    """Read the ledger once."""
    segments = ledger.in_force(ledger.read_all(run.files, run.path, ledger.Slim()))
    live = ledger.standing(segments).live
    standing = _alike(live)
    # what a gateway or an imported log replaces is the same attempt, paid for once
    executed = METERS in run.info.plan and run.info.kind != GATEWAY
    replaced = _alike(e for s in segments for e in s.entries) - standing if executed else Counter()
    return PaidEntries(live, standing, replaced)


def repeated_usd(run: Run) -> float:
    """Dollars recorded for tries that were repeated after a failure, and for attempts that others replaced."""
    if METERS not in run.info.plan:  # logs of other tools: nothing was repeated here, so the ledger is not read for it
        return 0.0
    paid = paid_entries(run)
    dollars = sum(wasted(meta, "wasted_usd") * n for (_, _, meta), n in paid.standing.items())
    return dollars + sum(
        ((totals.cost_usd or 0.0) + wasted(meta, "wasted_usd")) * n for (_, totals, meta), n in paid.replaced.items()
    )


def wasted(meta: Iterable[tuple[str, Param]], name: str) -> float:
    """An amount that an attempt notes of its earlier tries (`wasted_usd`, `wasted_tokens`)."""
    value = dict(meta).get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def _alike(entries: Iterable[Entry]) -> Counter[Alike]:
    return Counter((e.head.task, e.totals, tuple(e.head.meta.items())) for e in entries)
