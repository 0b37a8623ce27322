"""The part of a report about two runs."""

from __future__ import annotations

from ethogram.questions.compare.layer_words import COLUMNS, change_lines, change_rows
from ethogram.questions.compare.moved_tasks import MovedTask
from ethogram.questions.compare.moved_words import (
    SHOWN,
    attempt_words,
    first_difference,
    heading,
    passes_text,
    reason,
)
from ethogram.questions.compare.question import compare
from ethogram.store import Run
from ethogram.traces import short_id

from .causes import RunAnswers
from .views import Card, PagePlace, Section, TableView, said

TITLE = "Did the change break it?"


def compare_part(base: Run, answers: RunAnswers, candidate: Run) -> tuple[Section, list[Card]]:
    """The difference between two runs on the tasks that both have, and the tasks that moved."""
    found = compare(base, candidate, common_tasks=answers.common_tasks)
    lead = (
        f"{found.verdict.capitalize()}: success changed by {said(found.difference)} from {base.name} to "
        f"{candidate.name}, over {found.difference.n} tasks that both have."
    )
    notes = [found.difference.why] if found.difference.why else []
    notes += [f"{name}: {one} → {two}" for name, (one, two) in found.facts.items() if one != two]
    if found.suite is not None and found.suite.differ:
        notes.append(f"only tasks that are the same in both: {found.suite.base} → {found.suite.candidate}")
    alone = len(found.only_base), len(found.only_candidate)
    if any(alone):
        notes.append(f"not compared: {alone[0]} tasks only in {base.name}, {alone[1]} only in {candidate.name}")
    tables = []
    if found.moved:
        rows = [
            [
                task.task,
                passes_text(task.base),
                passes_text(task.candidate),
                _place(task, answers),
                reason(task) or "–",
                first_difference(task.step, attempt_words([task])[1]) or "–",
            ]
            for task in found.moved[:SHOWN]
        ]
        columns = ["task", "base", "candidate", "failing trace", "reason", "first difference"]
        tables = [TableView(columns=columns, rows=rows, caption=heading(found.moved))]
    words = []
    if found.layers is not None:
        words = [f"{line[0].upper()}{line[1:]}." for line in change_lines(found.layers)]
        layers = change_rows(found.layers)
        tables += [TableView(columns=COLUMNS, rows=layers, caption="success by layer")] if layers else []
    card = Card(label=f"change from {base.name}", value=found.verdict, detail=said(found.difference))
    return Section(id="compare", title=TITLE, lead=lead, paragraphs=words, tables=tables, notes=notes), [card]


def _place(task: MovedTask, answers: RunAnswers) -> PagePlace | str:
    """The failing attempt, at the first step where it differs."""
    if task.trace is None:
        return "–"
    if not answers.has_traces:
        return short_id(task.trace)
    return PagePlace(text=short_id(task.trace), trace=task.trace, step=task.step.at if task.step else None)
