"""The first part of a report: causes of failure, their evidence, and what stays unexplained."""

from __future__ import annotations

from collections.abc import Sequence

from ethogram.display.cells import signed_estimate
from ethogram.display.charts import pareto
from ethogram.display.money import dollars
from ethogram.display.shorten import shortened, shortened_list
from ethogram.estimate import Estimate
from ethogram.questions.why.results import Cause, Example, SettlingExperiment, WhyResult
from ethogram.reading.outcomes import clean_condition
from ethogram.store import Run

from .causes import RunAnswers
from .views import Card, Excerpt, PagePlace, Picture, Section, ShownReason, TableView, picture

ID, TITLE = "why", "Why does it fail?"
MOST_CAUSES, LEAST_REASONS = 5, 3
"""How many causes are shown with their words, and from which number on leads are not added; the rest is a table."""
MOST_WHAT = 160
MOST_ROWS = 20


def why_part(answers: RunAnswers, run: Run) -> tuple[Section, list[Card]] | None:
    """The headline, ranked causes and leads with their words, classes of failure, what is unexplained."""
    told = answers.told
    ranked = [(True, c) for c in told.causes] + [(False, c) for c in told.leads]
    count = max(LEAST_REASONS, min(len(told.causes), MOST_CAUSES))
    shown, rest = ranked[:count], ranked[count:]
    first = shown[0][1].examples if shown else []
    if told.failed == 0:
        shown, rest, first = [], [], []
    section = Section(
        id=ID,
        title=TITLE,
        lead=told.headline,
        lead_place=answers.place(first[0]) if first else None,
        reasons=[_reason(cause, is_cause, told, answers) for is_cause, cause in shown],
        paragraphs=_unexplained(told),
        pictures=_pareto(told),
        tables=[t for t in _tables(told, rest, answers) if t.rows],
        commands=told.score_with,
        notes=_notes(told, run),
    )
    return section, []


def _reason(cause: Cause, is_cause: bool, told: WhyResult, answers: RunAnswers) -> ShownReason:
    facts = [_counts(cause, told)]
    if cause.share.low is not None and told.scored:
        facts.append(f"share of failed attempts {_share(cause.share)}")
    if cause.adjusted is not None and is_cause:
        facts.append(f"adjusted p {cause.adjusted:.2g}")
    if cause.tasks:
        facts.append(f"task{'s' * (len(cause.tasks) > 1)} {shortened_list(list(cause.tasks), 4)}")
    facts += [f"class {cause.class_}"] if cause.class_ else []
    facts += [f"owner {cause.owner}"] if cause.owner else []
    return ShownReason(
        what=shortened(cause.what, MOST_WHAT),
        kind="cause" if is_cause else "lead",
        facts=facts,
        excerpts=[Excerpt(place=answers.place(e), text=e.text) for e in cause.examples],
        next=cause.try_,
        settle=(cause.experiment.command or "") if cause.experiment is not None else "",
        price=_price(cause.experiment),
    )


def _price(experiment: SettlingExperiment | None) -> str:
    if experiment is None or experiment.runs is None:
        return ""
    cost = "" if experiment.usd is None else f", about {dollars(experiment.usd)}"
    return f"at most {experiment.runs} attempts{cost}"


def _counts(cause: Cause, told: WhyResult) -> str:
    if told.failed is None:
        return f"in {cause.runs_with} of {told.runs} attempts"
    passed = told.scored - told.failed
    return f"{cause.failed_with} of {told.failed} failed, {cause.succeeded_with} of {passed} successful attempts"


def _unexplained(told: WhyResult) -> list[str]:
    if not told.failed:
        return []
    if not told.unexplained:
        return ["Every failed attempt shows a cause."]
    return [f"Unexplained: {told.unexplained} of {told.failed} failed attempts show no established cause."]


def _pareto(told: WhyResult) -> list[Picture]:
    if not told.classes:
        return []
    noun = "failed attempts" if told.scored else "attempts"
    rows = [
        {"class": c.class_, "share": c.share.value, "covered": c.covered, "owner": c.owner or "nobody"}
        for c in told.classes
        if c.share.value is not None
    ]
    return [picture(pareto(rows, noun))] if rows else []


def _tables(told: WhyResult, rest: Sequence[tuple[bool, Cause]], answers: RunAnswers) -> list[TableView]:
    scored = told.failed is not None
    counted = ["failed", "succeeded"] if scored else ["runs"]
    more: list[list[str | PagePlace]] = [
        [
            c.what,
            "cause" if is_cause else "lead",
            *_numbers(c, scored),
            answers.place(c.examples[0]) if c.examples else "–",
        ]
        for is_cause, c in rest
    ]
    classes = [
        [c.class_, c.owner or "–", str(c.failed_with), str(c.succeeded_with), _share(c.share), _percent(c.covered)]
        if scored
        else [c.class_, c.owner or "–", _share(c.share), _percent(c.covered)]
        for c in told.classes
    ]
    said: list[list[str | PagePlace]] = [
        [s.said, str(s.failed_with), s.examples[0].text if s.examples else "–", _first(s.examples, answers)]
        for s in told.said[:MOST_ROWS]
    ]
    reference = [[name, str(count)] for name, count in told.reference.items()]
    noun = "failed attempts" if scored else "attempts"
    return [
        TableView(
            columns=["class", "owner", *counted[:2], "share", "with those above"] if scored else
            ["class", "owner", "share of attempts", "with those above"],
            rows=classes,
            caption=f"Classes of failure, by {noun}",
        ),
        TableView(columns=["calls", noun], rows=reference, caption="Calls against the reference in the log"),
        TableView(
            columns=["what", "", *counted, "example"],
            rows=more,
            caption=f"{len(more)} further causes and leads",
            folded=True,
        ),
        *_decisions(told),
        TableView(
            columns=["check", noun, "its words", "example"],
            rows=said,
            caption="Messages of the verifier (they describe failures and do not explain them)",
            folded=True,
        ),
        _templates(told, answers),
        _unexplained_table(told, answers),
        *_against(told),
    ]  # fmt: skip


def _unexplained_table(told: WhyResult, answers: RunAnswers) -> TableView:
    left = [t for t in told.traces if t.failed and not t.explained]
    rows: list[list[str | PagePlace]] = [
        [
            t.task,
            str(t.attempt),
            answers.place(Example(trace=t.trace, step=t.step, text="")),
            ", ".join(t.classes) or "–",
        ]
        for t in left[:MOST_ROWS]
    ]
    return TableView(
        columns=["task", "attempt", "step to read", "classes"],
        rows=rows,
        caption=f"Failed attempts without an established cause: {len(left)}"
        + (f", the first {MOST_ROWS}" if len(left) > MOST_ROWS else ""),
        folded=True,
    )


def _decisions(told: WhyResult) -> list[TableView]:
    """The first choice after which success falls, as a small tree: one row per way that runs went on."""
    tables = []
    for point in told.decision_points[:3]:
        before = " > ".join(point.after) or "the beginning"
        rows = [
            [
                b.choice,
                str(b.runs),
                f"{(b.runs - b.failed) / b.runs:.2f}",
                signed_estimate(point.fall) if b.choice == point.choice else "",
            ]
            for b in point.branches
        ]
        where = f"at step {point.step}" if point.step is not None else "the first time"
        tables.append(
            TableView(
                columns=["went on with", "runs", "succeed", "change"],
                rows=rows,
                caption=f"Decision point, {where} after {before}: {point.reached} attempts",
                folded=True,
            )
        )
    return tables


def _templates(told: WhyResult, answers: RunAnswers) -> TableView:
    scored = told.failed is not None
    rows: list[list[str | PagePlace]] = [
        [
            t.words,
            ", ".join(t.of) or "–",
            str(t.episodes),
            *([str(t.failed_with), str(t.succeeded_with)] if scored else []),
            str(t.times),
            _first(t.examples, answers),
        ]
        for t in told.templates[:MOST_ROWS]
    ]
    counted = ["runs", "failed", "succeeded"] if scored else ["runs"]
    caption = f"Error texts, ids, numbers and paths masked: {len(told.templates)}"
    return TableView(columns=["text", "of", *counted, "times", "example"], rows=rows, caption=caption, folded=True)


def _against(told: WhyResult) -> list[TableView]:
    if told.against is None:
        return []
    found = told.against
    rows = [
        [
            c.what,
            c.change,
            str(c.with_now),
            str(c.with_before),
            signed_estimate(c.difference),
            "yes" if c.is_cause else "no",
        ]
        for c in found.changes[:MOST_ROWS]
    ]
    caption = f"More or less frequent than in {found.run}, over {found.tasks} shared tasks"
    return [TableView(columns=["what", "change", "now", "before", "difference", "cause"], rows=rows, caption=caption)]


def _notes(told: WhyResult, run: Run) -> list[str]:
    notes = [f"{told.contrast[:1].upper()}{told.contrast[1:]}."] if told.contrast and told.failed != 0 else []
    if clean_condition(run) is not None:
        notes.append(
            "Clean and disturbed attempts are both read here, and compared only with attempts of their own kind."
        )
    notes += told.notes
    if told.missing:
        notes.append("not counted as failed: " + ", ".join(f"{why} {n}" for why, n in told.missing.items()))
    return notes


def _first(examples: Sequence[Example], answers: RunAnswers) -> str | PagePlace:
    return answers.place(examples[0]) if examples else "–"


def _numbers(cause: Cause, scored: bool) -> list[str]:
    return [str(cause.failed_with), str(cause.succeeded_with)] if scored else [str(cause.runs_with)]


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"


def _share(share: Estimate) -> str:
    if share.value is None or share.low is None or share.high is None:
        return _percent(share.value)
    return f"{share.value:.0%} [{share.low:.0%}, {share.high:.0%}]"
