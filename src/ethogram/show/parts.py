"""The sections of a report, in the order in which people ask. Each gives its section and headline cards, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ethogram.store import Run

from .views import Card, Section, TableView, attempts_part, missing_part, reliability_part, said

Part = Callable[[Run], "tuple[Section, list[Card]] | None"]


def cost_part(run: Run) -> tuple[Section, list[Card]] | None:
    """What does it cost?"""
    from ethogram.lab.costs import cost_of

    report = cost_of(run.name, home=_home(run))
    title = "What does it cost?"
    if report.per_run.value is None:
        why = report.per_run.why or "nothing in this run has a price"
        return Section(id="cost", title=title, notes=[why]), []
    each, resolved = report.per_run, report.per_resolved
    words = [f"One run costs ${said(each, 4)} on average; one resolved task costs ${said(resolved, 4)}."]
    rows = [
        [
            s.step,
            f"{s.usage.calls:,}",
            _tokens(s.usage.input),
            _tokens(s.usage.output),
            _usd(s.cost_usd),
            _share(s.share),
        ]
        for s in report.by_step
    ]
    tables = [TableView(columns=["step", "calls", "input", "output", "cost", "share"], rows=rows)]
    notes = [f"not priced: {u.model or 'a model without a name'}, {u.why}" for u in report.unpriced]
    cards = [Card(label="per resolved task", value=_usd(resolved.value), detail=_money_between(resolved))]
    return Section(id="cost", title=title, paragraphs=words, tables=tables, notes=notes), cards


def _home(run: Run) -> Any:
    from ethogram.store import Home

    return Home(run.files, run.keys)


def _money_between(estimate: Any) -> str:
    if estimate.low is None or estimate.high is None:
        return estimate.why or "no interval"
    high = "no upper limit" if estimate.high == float("inf") else f"${estimate.high:.4g}"
    return f"${estimate.low:.4g} to {high}"


def _usd(value: float | None) -> str:
    return "–" if value is None else f"${value:,.4f}"


def _tokens(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


PARTS: tuple[Part, ...] = (reliability_part, missing_part, attempts_part, cost_part)
