"""The variance ledger: how much of the spread of outcomes is task, agent, judge, environment, infrastructure.

And what the next dollar should buy: the variance of the reported mean that each kind of purchase takes away, per
dollar.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from ethogram.estimate import Estimate

from . import agreement
from .components import FEWEST, LEVELS, Component, Components, components

WORDS = {
    "task": "tasks differ from each other",
    "environment": "the same task differs between sessions",
    "agent": "repeats of one task in one session differ",
    "judge": "judges of the same trace differ",
    "repeat": "one judge asked again about the same trace differs",
    "infrastructure": "attempts that infrastructure lost, if they counted as failures",
}
NOT_REPEATED = {
    "environment": "there is one session: give several runs or conditions of the same tasks",
    "agent": "no task has two attempts in one session",
    "judge": "no trace was judged by two judges: their differences are part of the spread of attempts",
    "repeat": "no judge was asked twice about a trace: its noise is part of the spread above",
}


class ScoreRow(msgspec.Struct, frozen=True):
    """One verdict: its value, the task and session of its trace, the trace, and who gave it."""

    value: float
    task: str
    session: str
    trace: str
    judge: str


class VarianceEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One part of the spread: its variance, its share of the whole, and how much of it is in the reported mean."""

    source: str
    meaning: str
    variance: Estimate
    share: float | None
    of_mean: float | None


class Purchase(msgspec.Struct, frozen=True, kw_only=True):
    """Something that money can buy: its price, what it takes from the variance of the mean, and that per dollar."""

    what: str
    unit: str
    price_usd: float | None
    takes: float | None
    per_usd: float | None
    why: str | None = None


class VarianceLedger(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the spread, the variance of the reported mean, and purchases, the best first."""

    mean: float
    total: float
    variance_of_mean: float
    tasks: int
    traces: int
    entries: list[VarianceEntry]
    purchases: list[Purchase]
    buy: str | None


class UnitPrices(msgspec.Struct, frozen=True, kw_only=True):
    """Dollars of an attempt, a label and a new task; None where unknown."""

    run: float | None = None
    label: float | None = None
    task: float = 0.0


def variance_ledger(
    rows: Sequence[ScoreRow],
    *,
    missing: tuple[int, int] = (0, 0),
    prices: UnitPrices | None = None,
    correction: tuple[float, int] | None = None,
    level: float = 0.95,
) -> VarianceLedger:
    """The ledger of verdicts; `missing` attempts of all planned ones; `correction`: Var(truth - verdict), labels."""
    names = [np.array([getattr(r, name) for r in rows], dtype=object) for name in ("task", "session", "trace", "judge")]
    found = components([r.value for r in rows], (names[0], names[1], names[2], names[3]), level)
    entries = [_entry(name, found.levels[name], found, level) for name in LEVELS]
    entries.append(_lost(found, missing, level))
    total = found.total + (entries[-1].variance.value or 0.0)
    entries = [msgspec.structs.replace(e, share=_part(e.variance.value, total)) for e in entries]
    per_mean = sum((c.value or 0.0) * found.weights[name] for name, c in found.levels.items())
    traces = len({r.trace for r in rows})
    purchases = _purchases(found, traces / found.tasks, per_mean, prices or UnitPrices(), correction)
    best = purchases[0] if purchases and purchases[0].per_usd is not None else None
    return VarianceLedger(
        mean=found.mean,
        total=total,
        variance_of_mean=per_mean,
        tasks=found.tasks,
        traces=traces,
        entries=entries,
        purchases=purchases,
        buy=best.what if best is not None else None,
    )


def _entry(name: str, part: Component, found: Components, level: float) -> VarianceEntry:
    base = Estimate(value=part.value, level=level, method="nested moments", n=part.repeats, of="repeats")
    if part.value is None:
        base = msgspec.structs.replace(base, why=NOT_REPEATED.get(name, "one task has no spread"))
    elif part.low is None:
        base = msgspec.structs.replace(
            base, why=f"{found.tasks} tasks are too few for an interval: {FEWEST} are needed"
        )
    else:
        base = msgspec.structs.replace(base, low=part.low, high=part.high)
    in_mean = None if part.value is None else part.value * found.weights[name]
    return VarianceEntry(source=name, meaning=WORDS[name], variance=base, share=None, of_mean=in_mean)


def _lost(found: Components, missing: tuple[int, int], level: float) -> VarianceEntry:
    """m (1 - m) mean²: what a share m of lost attempts adds to the spread if they count as 0."""
    gone, planned = missing
    one = np.ones(planned)
    rate = agreement.share(np.arange(planned) < gone, one, np.arange(planned), level, "nothing was planned")
    scale = found.mean**2
    ends = [None if r is None else r * (1 - r) * scale for r in (rate.value, rate.low, rate.high)]
    told = Estimate(
        value=ends[0],
        low=ends[1],
        # m (1 - m) is largest at a half, which the interval may hold
        high=scale / 4 if rate.low is not None and rate.high is not None and rate.low < 0.5 < rate.high else ends[2],
        level=level,
        method="missing share × mean²",
        n=planned,
        of="planned attempts",
        why=rate.why,
    )
    if told.low is not None and told.high is not None and told.low > told.high:
        told = msgspec.structs.replace(told, low=told.high, high=told.low)
    return VarianceEntry(
        source="infrastructure", meaning=WORDS["infrastructure"], variance=told, share=None, of_mean=None
    )


def _part(value: float | None, total: float) -> float | None:
    return None if value is None or total <= 0 else value / total


def _purchases(
    found: Components, attempts: float, per_mean: float, prices: UnitPrices, correction: tuple[float, int] | None
) -> list[Purchase]:
    tasks = found.tasks
    inside = sum((found.levels[n].value or 0.0) * found.weights[n] for n in ("agent", "judge", "repeat"))
    no_price = None if prices.run is not None else "no price of an attempt is known: give --run-usd"
    run = prices.run
    made = [
        _purchase("more tasks", f"one task, {attempts:.3g} attempts", _times(run, attempts, prices.task),
                  per_mean / (tasks + 1), no_price),
        _purchase("more attempts", "one attempt at every task", _times(run, tasks, 0.0),
                  inside / (attempts + 1), no_price),
    ]  # fmt: skip
    if correction is not None and correction[1] > 0:
        spread, n = correction
        why = None if prices.label is not None else "no price of a label is known: give --label-usd"
        made.append(_purchase("more labels", "one label", prices.label, spread / (n * (n + 1)), why))
    else:
        made.append(_purchase("more labels", "one label", prices.label, None, "no judge was calibrated on these runs"))
    return sorted(made, key=lambda p: -(p.per_usd if p.per_usd is not None else -1.0))


def _times(price: float | None, count: float, more: float) -> float | None:
    return None if price is None else price * count + more


def _purchase(what: str, unit: str, price: float | None, takes: float | None, why: str | None) -> Purchase:
    rate = None if price is None or takes is None or price <= 0 else takes / price
    if price == 0 and why is None:
        why = "its price is 0: give another"
    return Purchase(what=what, unit=unit, price_usd=price, takes=takes, per_usd=rate, why=why)
