"""Attempts inside a report: what the page of a trace shows of each, cut so that a file holds many of them.

Those that failed come first, each followed by the passing attempt that stands beside it. Texts are cut in the middle
and long attempts around what matters; both say what is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from ethogram.errors import EthogramError
from ethogram.questions.why.side_by_side import AttemptBeside, BesideReader
from ethogram.reading.outline import TraceOutline, trace_outline
from ethogram.reading.trace_words import WordsPart
from ethogram.store import Entry, Run
from ethogram.viewer.models.attempts import HeldAttempts, attempts_of
from ethogram.viewer.models.cards import PartView, TurnCard, cards_of
from ethogram.viewer.models.outline import OutlineView, TurnsView, outline_rows, turns_of
from ethogram.viewer.models.trace import TraceView, head_of

MOST_TEXT, LEAST_TEXT = 2_000, 200
"""Characters of one text: where few attempts failed, and where very many did."""
MOST_STEPS, LEAST_STEPS = 120, 24
"""Steps of one attempt: the first, the last, and those around the steps that matter."""
MOST_ROWS = 300
"""Rows of the outline of one attempt."""


class PaperTrace(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt as `web/src/paper.ts` reads it: the answers of every route of its page."""

    trace: str
    head: TraceView
    turns: TurnsView
    outline: OutlineView
    cards: list[TurnCard]
    beside: AttemptBeside


class PaperLimits(msgspec.Struct, frozen=True):
    """How much of one attempt is held."""

    text: int = MOST_TEXT
    steps: int = MOST_STEPS

    @classmethod
    def sharing(cls, characters: int, attempts: int) -> PaperLimits:
        """The more attempts share the room, the less is held of each: all are read before one is read whole."""
        room = characters // max(attempts, 1)
        return cls(min(max(room // 40, LEAST_TEXT), MOST_TEXT), min(max(room // 500, LEAST_STEPS), MOST_STEPS))


def paper_traces(reader: BesideReader, base: Run | None, limits: PaperLimits) -> Iterator[list[PaperTrace]]:
    """Attempts in the order in which they are worth reading: a failed one with the one that passed, each once."""
    runs = {run.name: run for run in (base, reader.run) if run is not None}
    rows = {name: attempts_of(run) for name, run in runs.items()}
    seen: set[str] = set()
    for entry in reader.in_order():
        if entry.head.trace_id in seen:
            continue
        beside = reader.of(entry)
        pair = beside.differs
        group = [
            _paper_trace(reader.run, entry, rows[reader.run.name], beside, _marks(beside, beside.own, pair), limits)
        ]
        passing = beside.passing
        if passing is not None and passing.trace not in seen:
            run = runs[passing.run]
            own = run.find(passing.trace)
            known = AttemptBeside(trace=passing.trace, state="passed")
            marks = _marks(known, beside.other, pair)
            group.append(_paper_trace(run, own, rows[run.name], known, marks, limits))
        seen.update(one.trace for one in group)
        yield group


def _marks(beside: AttemptBeside, steps: Sequence[int | None], pair: int | None) -> list[int]:
    """The steps that matter: where to begin, and the first difference, or what stands before it."""
    before = [step for step in steps[: pair + 1] if step is not None] if pair is not None else []
    return [step for step in (beside.step, before[-1] if before else None) if step is not None]


def _paper_trace(
    run: Run, entry: Entry, held: HeldAttempts, beside: AttemptBeside, marks: Sequence[int], limits: PaperLimits
) -> PaperTrace:
    outline = trace_outline(run, entry)
    head = head_of(outline, held, limits.text)
    steps = kept_steps(int(outline.steps.size), marks, limits.steps)
    important = set(marks)

    def cut(step: int, part: WordsPart) -> PartView:
        return _cut(part, MOST_TEXT if step in important else limits.text)

    try:
        cards = cards_of(outline, steps, cut)
    except (EthogramError, KeyError):  # sealed, or no longer kept: the head says so
        cards = []
    return PaperTrace(
        trace=entry.head.trace_id,
        # what stands at a step stands in its card; a report shows no further fields of the log
        head=msgspec.structs.replace(head, meta={}, labels=[label for label in head.labels if label.step is None]),
        turns=turns_of(outline),
        outline=_outline(outline, steps),
        cards=_with_gaps([_without_repeats(card) for card in cards]),
        beside=beside,
    )


def _outline(outline: TraceOutline, steps: Sequence[int]) -> OutlineView:
    """Rows of the steps that are held, and of spans that are no step."""
    step = outline.step[outline.row]
    places = np.flatnonzero((step < 0) | np.isin(step, np.array(steps, dtype=np.int64)))
    return outline_rows(outline, places, 0, MOST_ROWS)


def _without_repeats(card: TurnCard) -> TurnCard:
    """A card without what the page does not show: texts that an earlier step wrote."""
    steps = [
        msgspec.structs.replace(step, parts=[part for part in step.parts if part.kind != "read"]) for step in card.steps
    ]
    return msgspec.structs.replace(card, steps=steps)


def _with_gaps(cards: Sequence[TurnCard]) -> list[TurnCard]:
    """Cards that say how many steps were left out of them and before them."""
    found, before = [], -1
    for card in cards:
        gone = card.steps[-1].step - before - len(card.steps)
        found.append(msgspec.structs.replace(card, left_out=gone))
        before = card.steps[-1].step
    return found


def kept_steps(count: int, marks: Sequence[int], most: int) -> list[int]:
    """The steps to hold of `count`: all, or both ends and what stands around the marks."""
    if count <= most:
        return list(range(count))
    around = most // (2 + len(marks))
    wanted = set(range(around)) | set(range(count - around, count))
    for mark in marks:
        wanted.update(range(max(mark - around // 2, 0), min(mark + around - around // 2, count)))
    return sorted(wanted)


def _cut(part: WordsPart, most: int) -> PartView:
    text, gone = part.text, max(len(part.text) - most, 0)
    if gone:
        text = f"{text[: 2 * most // 3]}\n… {gone:,} characters left out …\n{text[len(text) - most // 3 :]}"
    return PartView(kind=part.kind, name=part.name, text=text, chars=len(text), step=part.step, left_out=gone)
