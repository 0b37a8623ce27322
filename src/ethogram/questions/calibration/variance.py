"""The variance ledger of stored runs: sources of variance, and what to buy next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ethogram.arguments import at_least, check_level
from ethogram.errors import BadUsage
from ethogram.reading.attempt_prices import run_price
from ethogram.reading.suite_versions import comparable_tasks
from ethogram.reading.task_names import task_name
from ethogram.result import Result
from ethogram.store import Home, Run, home_of, run_of
from ethogram.traces import Missing, Scored

from .judge_accuracy import calibration_of
from .question import JudgeReading
from .variance_ledger import ScoreRow, UnitPrices, VarianceLedger, variance_ledger
from .verdicts import Item, Wanted, item_name, read_items, said_yes


class VarianceResult(Result, kw_only=True):
    """The ledger of runs; `what` is the verdict whose spread is divided."""

    runs: list[str]
    what: str
    ledger: VarianceLedger
    notes: list[str] = []

    def rows(self) -> list[dict[str, Any]]:
        """One row per part of the spread."""
        return [msgspec.to_builtins(e) for e in self.ledger.entries]


def variance(
    runs: Sequence[str | Run],
    *,
    item: str | None = None,
    score: str | None = None,
    prices: UnitPrices | None = None,
    common_tasks: bool = False,
    level: float = 0.95,
    home: Home | str | None = None,
) -> VarianceResult:
    """Divide the spread of outcomes, or of a judge's verdicts, into task, environment, agent and judge.

    Runs and conditions are sessions of the same tasks. Outcomes by default; `item` or `score` take the labels of that
    name, every one that every judge ever gave. `prices` say what a run, a label and a task cost; a run's price is
    measured where it can be. Of different versions of a suite only `common_tasks` are taken. Raises `BadUsage` where
    there is nothing to divide, or where versions differ.

    Example: `variance(["monday", "tuesday"]).ledger.buy`
    """
    check_level(level)
    prices = prices or UnitPrices()
    for option, price in (("run_usd", prices.run), ("label_usd", prices.label), ("task_usd", prices.task)):
        if price is not None:
            at_least(option, price)
    lake = home_of(home)
    found = [run_of(run, lake) for run in runs]
    name = item_name(item) if item is not None else score
    rows = [row for run in found for row in (_outcome_rows(run) if name is None else _verdict_rows(run, name))]
    for other in found[1:]:
        same = comparable_tasks(found[0], other, common_tasks=common_tasks)
        rows = rows if same is None else [row for row in rows if row.task in same]
    if len({r.task for r in rows}) < 2:
        raise BadUsage(
            f"{', '.join(r.name for r in found)}: a spread needs scores of two tasks; "
            f"{'score the run, or ' if name is None else ''}name a judge's verdicts with --item or --score"
        )
    entries = [e for run in found for e in run.entries]
    gone = sum(isinstance(e.head.outcome, Missing) and e.head.outcome.reason != "unscored" for e in entries)
    agents = sorted({e.head.agent for e in entries if e.head.agent})
    notes = [f"the runs hold {len(agents)} agents ({', '.join(agents[:4])}): their difference is in the environment"]
    if prices.run is None:
        prices = msgspec.structs.replace(prices, run=run_price(*found))
    return VarianceResult(
        runs=[r.name for r in found],
        what=name or "outcome",
        ledger=variance_ledger(
            rows, missing=(gone, len(entries)), prices=prices, correction=_correction(found, name), level=level
        ),
        notes=notes if len(agents) > 1 else [],
    )


def _outcome_rows(run: Run) -> list[ScoreRow]:
    return [
        ScoreRow(o.value, task_name(e.head), f"{run.name} {e.head.condition}", e.head.trace_id, "")
        for e in run.entries
        if isinstance(o := e.head.outcome, Scored)
    ]


def _verdict_rows(run: Run, name: str) -> list[ScoreRow]:
    """Every verdict that an automatic judge gave under a name, repeats too."""
    heads = {e.head.trace_id: e.head for e in run.entries}
    rows = []
    for label in run.labels():
        if label.name != name or label.source == "hand" or label.span_id is not None or label.value is None:
            continue
        number = isinstance(label.value, int | float) and not isinstance(label.value, bool)
        value = float(label.value) if number else said_yes(label.value, 0.5)
        if value is not None:
            head = heads[label.trace_id]
            rows.append(ScoreRow(value, task_name(head), f"{run.name} {head.condition}", head.trace_id, label.by))
    return rows


def _correction(runs: Sequence[Run], name: str | None) -> tuple[float, int] | None:
    """The variance of people's answer beside the verdict, and the number of labels that tell it."""
    if name is None:
        return None
    found: list[tuple[float, int]] = []
    for run in runs:
        for item in _items(run, name):
            made = calibration_of(JudgeReading(run).paired(item)[1])
            if made.corrected.value is not None and made.labels:
                rate = made.corrected.value
                found.append((rate * (1 - rate) * (1 - (made.phi or 0.0) ** 2), made.labels))
    return max(found, key=lambda f: f[1], default=None)


def _items(run: Run, name: str) -> list[Item]:
    wanted = Wanted(items=(name,)) if name.startswith("rubric") else Wanted(score=name)
    return read_items(run, wanted)
