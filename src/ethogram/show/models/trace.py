"""The page of one trace: its head, its outline, its turns as cards, and words found in it.

Everything comes in windows: the outline by rows, cards by turns, long texts in slices.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec

from ethogram.errors import EthogramError, NotFound
from ethogram.lab.home.found import find_in_trace
from ethogram.lab.home.outline import TraceOutline, context_of
from ethogram.lab.home.reading import Only, PartKind, TextSearch, WordsPart
from ethogram.lab.home.runs import EpisodeRow
from ethogram.show.library import Library
from ethogram.store.words import label_with_words
from ethogram.trace import Label, Span

from .attempts import AttemptState, row_tokens, run_attempts
from .outline import TraceQuery, opened_outline

MOST_TEXT = 1_600
"""Characters of a text that come with its card; the rest is fetched when somebody unfolds it."""
MOST_HEAD_TEXT = 4_000
MOST_PARTS = 60
MOST_CARDS = 60
TARGETS = ("target", "expected", "reference", "gold")
LIMITS = ("limit", "limit_value", "stopped", "stop_reason")
"""What a log may call the answer that was wanted, and why an attempt was ended."""


class LabelView(msgspec.Struct, frozen=True, kw_only=True):
    """A label of a trace, or of a step of it: a score, a judgement, a note."""

    name: str
    value: float | bool | str | None
    by: str
    source: str
    step: int | None
    why: str


class TraceView(msgspec.Struct, frozen=True, kw_only=True):
    """What stands at the head of a trace. `input` is the first thing that was asked, `target` what the log says was
    wanted; `problem` says why words could not be read."""

    attempt: EpisodeRow
    state: AttemptState
    tokens: int | None
    input: str
    answer: str | None
    target: str | None
    limit: str | None
    source: str | None
    spans: int
    steps: int
    turns: int
    errors: int
    labels: list[LabelView]
    meta: dict[str, str]
    problem: str | None = None


def trace_view(library: Library, query: TraceQuery) -> TraceView:
    """The head of a trace."""
    held = run_attempts(library, query.run)
    with opened_outline(library, query.run, query.trace) as outline:
        head, problem = outline.entry.head, None
        row = held.by_trace[head.trace_id]
        answer, asked, labels = None, "", list[LabelView]()
        try:
            head = outline.run.head(outline.entry)
            answer = outline.run.texts.get(head.answer, outline.entry.texts) if head.answer is not None else None
            asked = _first_input(outline)
            labels = [_label(outline, label) for label in outline.run.labels_of(outline.entry)]
        except EthogramError as error:  # sealed, or damaged: what needs no words can still be read
            problem = str(error)
        meta = {name: str(value) for name, value in head.meta.items() if value is not None}
        limit = " ".join(meta[name] for name in LIMITS if name in meta) or None
        return TraceView(
            attempt=row,
            state=held.state(row),
            tokens=row_tokens(row),
            input=asked[:MOST_HEAD_TEXT],
            answer=None if answer is None else answer[:MOST_HEAD_TEXT],
            target=next((meta[name] for name in TARGETS if name in meta), None),
            limit=limit,
            source=head.origin.name if head.origin is not None else None,
            spans=len(outline),
            steps=int(outline.steps.size),
            turns=int(outline.turns.size),
            errors=int(outline.failed.sum()),
            labels=labels,
            meta={name: value[:MOST_HEAD_TEXT] for name, value in meta.items()},
            problem=problem,
        )


class CardsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A window of cards: from card `first`, or so that `step` is in it."""

    run: str
    trace: str
    only: Only | None = None
    first: int = 0
    step: int | None = None
    count: int = 12


class PartView(msgspec.Struct, frozen=True, kw_only=True):
    """One text of a step: the beginning of it, and how long it is. A part of kind `read` was written by `step`."""

    kind: PartKind
    name: str
    text: str
    chars: int
    step: int | None


class StepView(msgspec.Struct, frozen=True, kw_only=True):
    """One step: its facts, its texts, and what was said of it. `more` parts are not shown."""

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
    """A turn: a call of a model, or a message of a user, and the steps that follow it."""

    turn: int
    steps: list[StepView]


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
        labels: dict[int | None, list[LabelView]] = {}
        with suppress(EthogramError):
            for label in outline.run.labels_of(outline.entry):
                seen = _label(outline, label)
                labels.setdefault(seen.step, []).append(seen)
        built = {s: _step(s, span, parts, labels.get(s, [])) for s, span, parts in outline.words(steps)}
        cards = [
            TurnCard(turn=t, steps=[built[s] for s in range(int(outline.turns[t]), outline.last_step(t))])
            for t in shown
        ]
        return CardsView(first=first, of=int(turns.size), cards=cards)


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
            raise NotFound(f"trace {query.trace} has no step {query.step}; it has {outline.steps.size}")
        ((_, _, parts),) = outline.words([query.step])
        if not 0 <= query.part < len(parts):
            raise NotFound(f"step {query.step} has no text {query.part}; it has {len(parts)}")
        text, first = parts[query.part].text, max(query.first, 0)
        return TextView(text=text[first : first + min(query.count, 1_000_000)], first=first, chars=len(text))


class FindQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A text to look for in a trace."""

    run: str
    trace: str
    text: str


def find_view(library: Library, query: FindQuery) -> TextSearch:
    """The steps that hold a text."""
    with opened_outline(library, query.run, query.trace) as outline:
        return find_in_trace(outline, query.text)


def _first_input(outline: TraceOutline) -> str:
    """The first words of a user, else the first words that went in."""
    steps = range(min(int(outline.steps.size), 2))
    parts = [part for _, _, those in outline.words(steps) for part in those if part.text]
    user = [p for p in parts if p.kind in ("input", "message") and p.name.startswith("user")]
    return (user or [p for p in parts if p.kind == "input"] or [WordsPart(kind="input")])[0].text


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


def _step(step: int, span: Span, parts: list[WordsPart], labels: list[LabelView]) -> StepView:
    return StepView(
        step=step,
        kind=span.kind,
        name=span.tool or span.name,
        agent=span.agent,
        failed=span.status == "error" or span.error is not None,
        seconds=span.seconds,
        model=span.model,
        prompt_version=span.prompt_version,
        context=context_of(span),
        output_tokens=span.output_tokens,
        cost_usd=span.cost_usd,
        stop_reason=span.stop_reason,
        parts=[
            PartView(kind=p.kind, name=p.name, text=p.text[:MOST_TEXT], chars=len(p.text), step=p.step)
            for p in parts[:MOST_PARTS]
        ],
        more=max(len(parts) - MOST_PARTS, 0),
        labels=labels,
    )
