"""The part of a report about success by layer."""

from __future__ import annotations

from ethogram.questions.compare.layer_words import layer_words
from ethogram.reading.layers import layers_of
from ethogram.reading.outcomes import clean_condition
from ethogram.store import Run

from .views import Card, Section, TableView, said

TITLE = "Which layer fails?"


def layers_part(run: Run) -> tuple[Section, list[Card]] | None:
    """Success of the answer, of tool calls, of the way taken and of the end state; nothing where none is measured."""
    found = layers_of(run, condition=clean_condition(run))
    if all(rate.value is None for rate in found.layers.values()):
        return None
    rows = [
        [layer_words(layer), said(rate) if rate.value is not None else "not measured", str(rate.n), rate.why or ""]
        for layer, rate in found.layers.items()
    ]
    rows = [[*row[:3], row[3].removeprefix("not measured: ")] for row in rows]
    table = TableView(columns=["layer", "success", "tasks", "note"], rows=rows)
    words = [f"{found.look[0].upper()}{found.look[1:]}."] if found.look else []
    return Section(id="layers", title=TITLE, paragraphs=words, tables=[table], notes=found.notes), []
