"""The turns of a trace as cards: their steps with facts, labels and words, in windows; long texts in slices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from ethogram.errors import EthogramError, NotFound
from ethogram.reading.outline import TraceOutline, context_of
from ethogram.reading.trace_words import Only, PartKind, WordsPart
from ethogram.store.head_texts import label_with_words
from ethogram.traces import Label, Span
from ethogram.viewer.library import Library

from .outline import opened_outline

MOST_TEXT = 1_600
"""Characters of a text that come with its card; the rest is fetched when somebody unfolds it."""
MOST_PARTS = 60
MOST_CARDS = 60


class LabelView(msgspec.Struct, frozen=True, kw_only=True):
    """A label of a trace, or of a step of it: a score, a judgement, a note."""

    name: str
    value: float | bool | str | None
    by: str
    source: str
    step: int | None
    why: str


class CardsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A window of cards: from card `first`, or so that `step` is in it."""

    run: str
    trace: str
    only: Only | None = None
    first: int = 0
    step: int | None = None
    count: int = 12


class PartView(msgspec.Struct, frozen=True, kw_only=True):
    """One text of a step: the beginning of it, and how long it is. A part of kind `read` was written by `step`.

    Of a text inside a report `left_out` characters of the middle are gone, and the text says so where they were.
    """

    kind: PartKind
    name: str
    text: str
    chars: int
    step: int | None
    left_out: int = 0


class StepView(msgspec.Struct, frozen=True, kw_only=True):
    """One step: its facts, its texts, and its labels. `more` parts are not shown."""

    step: int
    kind: str
    name: str
    agent: str
    failed: bool
    seconds: float | None
    model: str | None
    prompt_version: str | None
    context: int | None
    output_tokens: int | None
    cost_usd: float | None
    stop_reason: str | None
    parts: list[PartView]
    more: int
    labels: list[LabelView]


class TurnCard(msgspec.Struct, frozen=True, kw_only=True):
    """A turn: a call of a model, or a message of a user, and the steps that follow it.

    A report may leave `left_out` steps out, of this turn and before it.
    """

    turn: int
    steps: list[StepView]
    left_out: int = 0


class CardsView(msgspec.Struct, frozen=True, kw_only=True):
    """A window of the turns; `of` is how many there are under the filter."""

    first: int
    of: int
    cards: list[TurnCard]


def cards_view(library: Library, query: CardsQuery) -> CardsView:
    """A window of turns with their words."""
    with opened_outline(library, query.run, query.trace) as outline:
        turns = outline.visible_turns(query.only)
        count = min(query.count, MOST_CARDS)
        first = max(query.first, 0)
        if query.step is not None and turns.size:
            wanted = int(outline.turn[min(max(query.step, 0), outline.turn.size - 1)])
            first = max(min(int(turns.searchsorted(wanted)), int(turns.size) - 1) - 2, 0)
        shown = [int(t) for t in turns[first : first + count]]
        steps = [s for t in shown for s in range(int(outline.turns[t]), outline.last_step(t))]
        return CardsView(first=first, of=int(turns.size), cards=cards_of(outline, steps))


Cut = Callable[[int, WordsPart], PartView]
"""How much of a text of a step is shown."""


def beginning(step: int, part: WordsPart) -> PartView:
    """The first characters of a text; the rest can be fetched."""
    return PartView(kind=part.kind, name=part.name, text=part.text[:MOST_TEXT], chars=len(part.text), step=part.step)


def cards_of(outline: TraceOutline, steps: Sequence[int], cut: Cut = beginning) -> list[TurnCard]:
    """Some steps, in their order, as cards."""
    labels: dict[int | None, list[LabelView]] = {}
    with suppress(EthogramError):
        for label in labels_of(outline):
            labels.setdefault(label.step, []).append(label)
    turns: dict[int, list[StepView]] = {}
    for step, span, parts in outline.words(steps):
        shown = [cut(step, part) for part in parts[:MOST_PARTS]]
        view = _step(step, span, shown, max(len(parts) - MOST_PARTS, 0), labels.get(step, []))
        turns.setdefault(int(outline.turn[step]), []).append(view)
    return [TurnCard(turn=turn, steps=own) for turn, own in turns.items()]


class TextQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A slice of one text: the `part`th of a step, from character `first`."""

    run: str
    trace: str
    step: int
    part: int
    first: int = 0
    count: int = 100_000


class TextView(msgspec.Struct, frozen=True, kw_only=True):
    """A slice of a text, and how long the whole is."""

    text: str
    first: int
    chars: int


def text_view(library: Library, query: TextQuery) -> TextView:
    """A slice of a text that was too long for its card."""
    with opened_outline(library, query.run, query.trace) as outline:
        if not 0 <= query.step < outline.steps.size:
            raise NotFound(
                f"trace {query.trace} has no step {query.step}; it has {outline.steps.size}",
                where=f"trace {query.trace}",
                what="step",
                name=str(query.step),
            )
        ((_, _, parts),) = outline.words([query.step])
        if not 0 <= query.part < len(parts):
            raise NotFound(
                f"step {query.step} has no text {query.part}; it has {len(parts)}",
                where=f"step {query.step} of trace {query.trace}",
                what="text",
                name=str(query.part),
            )
        text, first = parts[query.part].text, max(query.first, 0)
        return TextView(text=text[first : first + min(query.count, 1_000_000)], first=first, chars=len(text))


def labels_of(outline: TraceOutline) -> list[LabelView]:
    """Every label of a trace; raises `EthogramError` where their words cannot be read."""
    return [_label(outline, label) for label in outline.run.labels_of(outline.entry)]


def _label(outline: TraceOutline, label: Label) -> LabelView:
    """A label with its words; of a step, where it stands."""
    worded = label_with_words(label, lambda ref: outline.run.texts.get(ref, outline.entry.texts))
    why = outline.run.texts.get(label.why, outline.entry.texts) if label.why is not None else ""
    return LabelView(
        name=label.name,
        value=worded.value,
        by=label.by,
        source=label.source,
        step=outline.step_of(label.span_id) if label.span_id is not None else None,
        why=why[:MOST_TEXT],
    )


def _step(step: int, span: Span, parts: list[PartView], more: int, labels: list[LabelView]) -> StepView:
    return StepView(
        step=step,
        kind=span.kind,
        name=span.tool or span.name,
        agent=span.agent,
        failed=span.status == "error",
        seconds=span.seconds,
        model=span.model,
        prompt_version=span.prompt_version,
        context=context_of(span),
        output_tokens=span.output_tokens,
        cost_usd=span.cost_usd,
        stop_reason=span.stop_reason,
        parts=parts,
        more=more,
        labels=labels,
    )
