"""Did the change break it? The part of a report about two runs."""

from __future__ import annotations

from ethogram.lab.gate.comparison import compare
from ethogram.store import Run

from .moved import SHOWN, first_difference, heading, passes_text, reason, short_id
from .views import Card, Section, TableView, said

TITLE = "Did the change break it?"


def compare_part(base: Run, candidate: Run) -> tuple[Section, list[Card]]:
    """The difference between two runs on the tasks that both have, and the tasks that moved."""
    found = compare(base, candidate)
    words = [
        f"{found.verdict.capitalize()}: success changed by {said(found.difference)} from {base.name} to "
        f"{candidate.name}, over {found.difference.n} tasks that both have."
    ]
    notes = [found.difference.why] if found.difference.why else []
    notes += [f"{name}: {one} → {two}" for name, (one, two) in found.facts.items() if one != two]
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
                short_id(task.trace) if task.trace else "–",
                reason(task) or "–",
                first_difference(task.step) or "–",
            ]
            for task in found.moved[:SHOWN]
        ]
        columns = ["task", "base", "candidate", "failing trace", "reason", "first difference"]
        tables = [TableView(columns=columns, rows=rows, caption=heading(found.moved))]
    card = Card(label=f"change from {base.name}", value=found.verdict, detail=said(found.difference))
    return Section(id="compare", title=TITLE, paragraphs=words, tables=tables, notes=notes), [card]
