"""View models of a run: the report and the viewer are drawn from the same records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from ethogram.display import charts as marks
from ethogram.display.chart import Chart
from ethogram.estimate import Estimate
from ethogram.measures import reliability as measured
from ethogram.questions.reliability.question import ReliabilityResult, stats
from ethogram.reading.metric_means import MetricMeans
from ethogram.reading.outcomes import clean_condition, load_outcomes
from ethogram.store import Run

AttemptMark = Literal["pass", "fail", "missing"]


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """A headline figure with what it rests on."""

    label: str
    value: str
    detail: str


class PagePlace(msgspec.Struct, frozen=True, kw_only=True):
    """Words that lead to an attempt, or to a step of it; without a `trace` they are words."""

    text: str
    trace: str = ""
    step: int | None = None


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt: how it ended, what to say of it, and its trace, if it can be opened."""

    mark: AttemptMark
    words: str
    trace: str = ""


class MatrixRow(msgspec.Struct, frozen=True, kw_only=True):
    """One task and its attempts."""

    task: str
    cells: list[Cell]
    rate: str


class TableView(msgspec.Struct, frozen=True, kw_only=True):
    """A table as it is read: words, and numbers that are already rounded; a folded one opens under its caption."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str | PagePlace]]
    caption: str = ""
    folded: bool = False


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """A chart and what it shows, in words; `svg` is the chart drawn, on its way into a page."""

    spec: dict[str, Any]
    words: str
    svg: str = ""


class Excerpt(msgspec.Struct, frozen=True, kw_only=True):
    """The text at a place."""

    place: PagePlace
    text: str


class ShownReason(msgspec.Struct, frozen=True, kw_only=True):
    """A cause or a lead: what happens, how often, with examples, what to try first, and what would settle it."""

    what: str
    kind: Literal["cause", "lead"]
    facts: list[str]
    excerpts: list[Excerpt]
    next: str
    settle: str = ""
    price: str = ""


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the report that answers one question, in this order: the answer in a sentence (`lead`, with the place
    to read first), reasons, paragraphs, attempts, pictures, tables, commands and notes."""

    id: str
    title: str
    lead: str = ""
    lead_place: PagePlace | None = None
    reasons: list[ShownReason] = []
    paragraphs: list[str] = []
    pictures: list[Picture] = []
    tables: list[TableView] = []
    matrix: list[MatrixRow] = []
    commands: list[str] = []
    notes: list[str] = []


class ReportView(msgspec.Struct, frozen=True, kw_only=True):
    """A whole report; `against` is the run that it is compared with, if any."""

    run: str
    against: str | None
    subtitle: str
    made: str
    cards: list[Card]
    sections: list[Section]
    schema_version: int = 1


def reliability_part(run: Run) -> tuple[Section, list[Card]] | None:
    """Is it reliable?"""
    found = stats(run, condition=clean_condition(run))
    if found.n == 0:
        note = f"no episode has a score yet; the ways to score the run are listed by: ethogram why {run.name}"
        return Section(id="reliability", title="Is it reliable?", notes=[note]), []
    pictures = (
        [picture(marks.reliability_curve(_finite(found.rows()), found.same_tasks))] if len(found.pass_at) > 1 else []
    )
    facts = ", ".join(f"{name} {value}" for name, value in found.facts.items())
    paragraphs = [
        f"{found.c} of {found.n} scored attempts succeeded on {len(found.tasks)} tasks ({facts}).",
        _claim(found),
    ]
    rows = [[k, said(at), said(found.pass_hat[k])] for k, at in found.pass_at.items()]
    table = TableView(columns=["k", "pass@k: any of k passes", "pass^k: all k pass"], rows=rows)
    notes = list(dict.fromkeys(e.why for e in (*found.pass_at.values(), *found.pass_hat.values()) if e.why))
    if found.compounding is not None and found.compounding.per_step < 1:
        c = found.compounding
        paragraphs.append(
            f"Per step, {c.per_step:.1%} went without an error; over {c.steps:.1f} steps that would compound to "
            f"{c.predicted:.0%} if every error were fatal. End to end it is {c.observed:.0%}."
        )
    return (
        Section(
            id="reliability",
            title="Is it reliable?",
            paragraphs=paragraphs,
            pictures=pictures,
            tables=[table],
            notes=notes,
        ),
        _cards(found),
    )


def missing_part(run: Run) -> tuple[Section, list[Card]] | None:
    """What is missing?"""
    found = measured.estimate_reliability(load_outcomes(run, condition=clean_condition(run)), [1])
    gone = found.episodes.missing
    if not gone:
        return None
    rows = [{"reason": reason, "attempts": n} for reason, n in sorted(gone.items(), key=lambda x: -x[1])]
    words = [
        f"{sum(gone.values())} of {found.episodes.planned} planned attempts have no score. They are left out of every "
        "rate above, and bounded here."
    ]
    if found.bounds.worst is not None and found.bounds.best is not None:
        words.append(
            f"Had all of them failed, the mean success rate would be {found.bounds.worst:.3f}; had all passed, "
            f"{found.bounds.best:.3f}."
        )
    drawn = marks.bars(rows, "reason", "attempts", "attempts", "missing attempts by reason")
    return Section(id="missing", title="What is missing?", paragraphs=words, pictures=[picture(drawn)]), []


def metrics_table(found: MetricMeans) -> TableView:
    """What an attempt took, metric by metric."""
    rows = [
        [
            m.name,
            "–" if m.mean.value is None else f"{m.mean.value:.4g}",
            m.unit,
            m.better,
            m.formula if m.mean.value is not None else f"{m.formula} ({m.mean.why})",
        ]
        for m in found.metrics
    ]
    return TableView(
        columns=["metric", "mean over tasks", "unit", "better", "what is counted"],
        rows=rows,
        caption="What an attempt took",
        folded=True,
    )


def picture(chart: Chart) -> Picture:
    """A chart as a record."""
    return Picture(spec=chart.spec, words=chart.words)


def said(estimate: Estimate, digits: int = 3) -> str:
    """An estimate in a cell."""
    if estimate.value is None:
        return "–"
    value = f"{estimate.value:.{digits}f}"
    if estimate.low is None or estimate.high is None:
        return f"{value} (no interval)"
    return f"{value} [{estimate.low:.{digits}f}, {estimate.high:.{digits}f}]"


def _claim(found: ReliabilityResult) -> str:
    level = f"{100 * found.level:g} %"
    if found.target == "population":
        return f"Intervals ({level}) are for the population of tasks that these were drawn from."
    return f"Intervals ({level}) are for new attempts at exactly these tasks."


def _cards(found: ReliabilityResult) -> list[Card]:
    once = found.pass_at.get("1")
    cards = []
    if once is not None and once.value is not None:
        cards.append(Card(label="pass@1", value=f"{once.value:.0%}", detail=_between(once)))
    most = max(found.pass_hat, key=int)
    always = found.pass_hat[most]
    if int(most) > 1 and always.value is not None:
        cards.append(Card(label=f"pass^{most}", value=f"{always.value:.0%}", detail=_between(always)))
    episodes = found.episodes
    gone = sum(episodes.missing.values())
    cards.append(
        Card(label="scored", value=f"{episodes.scored:,}", detail=f"of {episodes.planned:,}; {gone:,} missing")
    )
    return cards


def _between(estimate: Estimate) -> str:
    if estimate.low is None or estimate.high is None:
        return "no interval"
    return f"{estimate.low:.0%} to {estimate.high:.0%}, {estimate.n} {estimate.of}"


def _finite(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows that have a value; a chart cannot place the others."""
    return [r for r in rows if r["value"] is not None]
