"""The sections of a report, in the order in which people ask. Each gives its section and headline cards, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

import msgspec

from ethogram.errors import BadInput, EthogramError
from ethogram.plugins import Plugged, Plugin, plugged
from ethogram.store import Home, Run, run_of

from .part_compare import TITLE, compare_part
from .part_experiment import experiment_part
from .part_explore import explore_part
from .part_field import field_part
from .views import (
    Card,
    ReportView,
    Section,
    TableView,
    attempts_part,
    clean_condition,
    missing_part,
    reliability_part,
    said,
)


class Part(NamedTuple):
    """A question, and what answers it: a function of the run that gives a section and its cards, or None."""

    id: str
    title: str
    make: Callable[[Run], tuple[Section, list[Card]] | None]


def cost_part(run: Run) -> tuple[Section, list[Card]] | None:
    """What does it cost?"""
    from ethogram.lab.cost.costs import cost_of

    report = cost_of(run, condition=clean_condition(run))
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


def _money_between(estimate: Any) -> str:
    if estimate.low is None or estimate.high is None:
        return estimate.why or "no interval"
    high = "no upper limit" if estimate.high == float("inf") else f"${estimate.high:.4g}"
    return f"${estimate.low:.4g} to {high}"


def _usd(value: float | None) -> str:
    return "–" if value is None else f"${value:,.4f}" if 0 < value < 10 else f"${value:,.2f}"


def _tokens(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


PARTS: tuple[Part, ...] = (
    Part("explore", "Where is it unsafe?", explore_part),
    Part("experiment", "Did the damage do something?", experiment_part),
    Part("reliability", "Is it reliable?", reliability_part),
    Part("missing", "What is missing?", missing_part),
    Part("attempts", "Tasks and attempts", attempts_part),
    Part("field", "Why does it fail?", field_part),
    Part("cost", "What does it cost?", cost_part),
)


GROUP = "ethogram.parts"


def plugged_parts() -> Plugged[Part]:
    """The parts that installed packages add."""
    return plugged(GROUP, _checked, taken={part.id for part in PARTS})


def _added_parts() -> list[Part]:
    """The parts of installed packages; one that fails says so in its place."""
    return [plugin.value._replace(make=partial(_guarded, plugin)) for plugin in plugged_parts().working]


def _checked(loaded: Any, name: str) -> Part:
    if not isinstance(loaded, Part) or not callable(loaded.make):
        raise BadInput("it is not an ethogram.show.parts.Part with an id, a title and a function of a run")
    if loaded.id != name:
        raise BadInput(f"its entry point is named {name!r} and the part {loaded.id!r}; give both one name")
    return loaded


def _guarded(plugin: Plugin[Part], run: Run) -> tuple[Section, list[Card]] | None:
    part = plugin.value
    try:
        made = part.make(run)
        if made is None or (isinstance(made[0], Section) and all(isinstance(card, Card) for card in made[1])):
            return made
        why = "it gives no (Section, list of Cards)"
    except EthogramError:
        raise
    except Exception as error:  # the code of others may raise anything
        why = f"{type(error).__name__}: {error}"
    return Section(id=part.id, title=part.title, notes=[f"the part {part.id!r} of {plugin.package} failed: {why}"]), []


OF_EXPLORATIONS = ("explore", "cost")
"""An exploration buys attempts where they say most: a pass rate over them, or a field, would describe the buying."""


def _asked(run: Run) -> list[Part]:
    """The questions that a run can be asked; a world that is no suite has nothing to price."""
    if run.info.kind != "explore":
        return [*PARTS, *_added_parts()]
    return [p for p in PARTS if p.id in OF_EXPLORATIONS and (p.id != "cost" or "suite" in run.info.plan)]


def _of_clean(run: Run, cards: list[Card]) -> list[Card]:
    """In a paired experiment all figures but its own speak of the clean attempts; the cards say so."""
    if clean_condition(run) is None:
        return cards
    return [msgspec.structs.replace(c, label=f"{c.label}, clean attempts") for c in cards]


def report_view(
    run: str | Run = "latest", candidate: str | Run | None = None, *, home: Home | str | None = None
) -> ReportView:
    """Everything a report shows of a run; a part that cannot be had says why instead of vanishing.

    With a `candidate` the report is about that run, and begins with how it differs from `run`.
    """
    found = run_of(run, home)
    asked = _asked(found)
    if candidate is not None:
        base, found = found, run_of(candidate, home)
        asked = [Part("compare", TITLE, partial(compare_part, base)), *_asked(found)]
    sections, cards = [], []
    for part in asked:
        try:
            made = part.make(found)
        except EthogramError as error:
            sections.append(Section(id=part.id, title=part.title, notes=[str(error)]))
            continue
        if made is not None:
            sections.append(made[0])
            cards += made[1] if part.id == "experiment" else _of_clean(found, made[1])
    return ReportView(
        run=found.name,
        subtitle=_subtitle(found),
        made=datetime.fromtimestamp(found.info.created_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M UTC"),
        cards=cards,
        sections=sections,
    )


def _subtitle(run: Run) -> str:
    plan = run.info.plan
    if run.info.kind == "run":
        return f"{plan.get('suite_name', 'a suite')} with {plan.get('agent', 'an agent')}"
    return {"import": "imported logs", "explore": "an exploration"}.get(run.info.kind, run.info.kind)
