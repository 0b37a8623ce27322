"""The sections of a report, in the order in which people ask. Each gives its section and headline cards, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

import msgspec

from ethogram.display.money import dollars
from ethogram.errors import BadInput, EthogramError, Refused
from ethogram.plugins import Plugged, Plugin, plugged
from ethogram.reading.outcomes import clean_condition
from ethogram.reading.samples import sampled_run
from ethogram.reading.suite_versions import comparable_tasks
from ethogram.store import Home, Run

from .attempts import ID as ATTEMPTS_ID
from .attempts import TITLE as ATTEMPTS_TITLE
from .attempts import attempts_part
from .causes import RunAnswers
from .compare import TITLE, compare_part
from .experiment import experiment_part
from .explore import explore_part
from .field import TITLE as FIELD_TITLE
from .field import FieldReading, field_part
from .layers import TITLE as LAYERS_TITLE
from .layers import layers_part
from .views import Card, ReportView, Section, TableView, missing_part, reliability_part
from .why import ID as WHY_ID
from .why import TITLE as WHY_TITLE
from .why import why_part


class ReportPart(NamedTuple):
    """A question, and what answers it: a function of the run that gives a section and its cards, or None."""

    id: str
    title: str
    make: Callable[[Run], tuple[Section, list[Card]] | None]


def cost_part(run: Run) -> tuple[Section, list[Card]] | None:
    """The section about cost."""
    from ethogram.questions.cost.question import cost

    report = cost(run, condition=clean_condition(run))
    title = "What does it cost?"
    if report.per_run.value is None:
        why = report.per_run.why or "nothing in this run has a price"
        return Section(id="cost", title=title, notes=[why]), []
    each, resolved = report.per_run, report.per_resolved
    amounts = [
        [name, dollars(e.value), _money_between(e)]
        for name, e in (("one attempt", each), ("one resolved task", resolved))
    ]
    rows = [
        [
            s.step,
            f"{s.usage.calls:,}",
            _tokens(s.usage.input),
            _tokens(s.usage.output),
            dollars(s.cost_usd),
            _share(s.share),
        ]
        for s in report.by_step
    ]
    tables = [
        TableView(columns=["", "on average", f"{100 * each.level:g} % interval"], rows=amounts),
        TableView(columns=["step", "calls", "input", "output", "cost", "share"], rows=rows, caption="By step"),
    ]
    notes = [f"not priced: {u.model or 'a model without a name'}, {u.why}" for u in report.unpriced]
    cards = []
    if resolved.value:
        cards.append(Card(label="per resolved task", value=dollars(resolved.value), detail=_money_between(resolved)))
    return Section(id="cost", title=title, tables=tables, notes=notes), cards


def _money_between(estimate: Any) -> str:
    if estimate.low is None or estimate.high is None:
        return estimate.why or "no interval"
    if estimate.high == 0:
        return "nothing was charged"
    high = "no upper limit" if estimate.high == float("inf") else dollars(estimate.high)
    return f"{dollars(estimate.low)} to {high}"


def _tokens(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def own_parts(answers: RunAnswers, behaviour: FieldReading) -> tuple[ReportPart, ...]:
    """The parts of every report in their order: the answer, the attempts, then reliability, behaviour and cost."""
    return (
        ReportPart("explore", "Where is it unsafe?", explore_part),
        ReportPart("experiment", "Did the damage do something?", experiment_part),
        ReportPart(WHY_ID, WHY_TITLE, partial(why_part, answers)),
        ReportPart("layers", LAYERS_TITLE, layers_part),
        ReportPart(ATTEMPTS_ID, ATTEMPTS_TITLE, attempts_part),
        ReportPart("reliability", "Is it reliable?", reliability_part),
        ReportPart("missing", "What is missing?", missing_part),
        ReportPart("field", FIELD_TITLE, partial(field_part, behaviour)),
        ReportPart("cost", "What does it cost?", cost_part),
    )


NAMES = ("explore", "experiment", WHY_ID, "layers", ATTEMPTS_ID, "reliability", "missing", "field", "cost")
"""The ids of our own parts, which no plug-in may take."""


GROUP = "ethogram.parts"


def plugged_parts() -> Plugged[ReportPart]:
    """The parts that installed packages add."""
    return plugged(GROUP, _checked, taken=set(NAMES))


def _added_parts() -> list[ReportPart]:
    """The parts of installed packages; one that fails says so in its place."""
    return [plugin.value._replace(make=partial(_guarded, plugin)) for plugin in plugged_parts().working]


def _checked(loaded: Any, name: str) -> ReportPart:
    if not isinstance(loaded, ReportPart) or not callable(loaded.make):
        raise BadInput("it is not an ethogram.extend.ReportPart with an id, a title and a function of a run")
    if loaded.id != name:
        raise BadInput(
            f"its entry point is named {name!r} and the part {loaded.id!r}; give both one name",
            where=f"the entry point {name!r}",
        )
    return loaded


def _guarded(plugin: Plugin[ReportPart], run: Run) -> tuple[Section, list[Card]] | None:
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


def _asked(run: Run, answers: RunAnswers, behaviour: FieldReading) -> list[ReportPart]:
    """The questions that a run can be asked; a world that is no suite has nothing to price."""
    own = own_parts(answers, behaviour)
    if run.info.kind != "explore":
        return [*own, *_added_parts()]
    return [p for p in own if p.id in OF_EXPLORATIONS and (p.id != "cost" or "suite" in run.info.plan)]


def _of_clean(run: Run, cards: list[Card]) -> list[Card]:
    """In a paired experiment all figures but its own are about the clean attempts; the cards say so."""
    if clean_condition(run) is None:
        return cards
    return [msgspec.structs.replace(c, label=f"{c.label}, clean attempts") for c in cards]


def report_view(
    run: str | Run = "latest",
    candidate: str | Run | None = None,
    *,
    behaviour: FieldReading | None = None,
    common_tasks: bool = False,
    home: Home | str | None = None,
) -> ReportView:
    """Everything a report shows of a run; a part that cannot be had says why instead of vanishing.

    With a `candidate` the report is about that run, and begins with how it differs from `run`. `behaviour` says which
    field, states and corridor its behaviour is read by. Two runs of different versions of a suite are refused, unless
    `common_tasks` compares only the tasks that are the same in both.
    """
    return report_of(run_answers(run, candidate, common_tasks=common_tasks, home=home), behaviour)


def run_answers(
    run: str | Run = "latest",
    candidate: str | Run | None = None,
    *,
    common_tasks: bool = False,
    home: Home | str | None = None,
) -> RunAnswers:
    """The run that a report is about: `run`, or the `candidate` against it."""
    found, base = sampled_run(run, home), None
    if candidate is not None:
        base, found = found, sampled_run(candidate, home)
        comparable_tasks(base, found, common_tasks=common_tasks)
    return RunAnswers(found, base=base, common_tasks=common_tasks, home=home)


def report_of(answers: RunAnswers, behaviour: FieldReading | None = None) -> ReportView:
    """Everything a report shows of a run, as `report_view`."""
    found, base = answers.run, answers.base
    asked = _asked(found, answers, behaviour or FieldReading())
    if base is not None:
        asked = [ReportPart("compare", TITLE, partial(compare_part, base, answers)), *asked]
    sections, cards = [], []
    for part in asked:
        try:
            made = part.make(found)
        except EthogramError as error:
            if part.id == "field" and behaviour is not None and not isinstance(error, Refused):
                raise  # what was asked for by name cannot be had: that is no matter of evidence
            sections.append(Section(id=part.id, title=part.title, notes=[str(error)]))
            continue
        if made is not None:
            sections.append(made[0])
            cards += made[1] if part.id == "experiment" else _of_clean(found, made[1])
    return ReportView(
        run=found.name,
        against=None if base is None else base.name,
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
