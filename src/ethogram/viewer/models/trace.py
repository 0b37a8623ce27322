"""The page of one trace: its head, what to read first beside an attempt that passed, and words found in it."""

from __future__ import annotations

import msgspec

from ethogram.errors import EthogramError
from ethogram.questions.home.runs import EpisodeRow
from ethogram.questions.why.question import why
from ethogram.questions.why.results import WhyResult
from ethogram.questions.why.side_by_side import AttemptBeside, BesideReader
from ethogram.reading.outline import TraceOutline
from ethogram.reading.text_search import find_in_trace
from ethogram.reading.trace_words import TextSearch, WordsPart
from ethogram.store import Run
from ethogram.viewer.library import Library

from .attempts import AttemptState, HeldAttempts, run_attempts
from .cards import LabelView, labels_of
from .outline import TraceQuery, opened_outline

MOST_HEAD_TEXT = 4_000
TARGETS = ("target", "expected", "reference", "gold")
LIMITS = ("limit", "limit_value", "stopped", "stop_reason")
"""What a log may call the answer that was wanted, and why an attempt was ended."""


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
    errors: int | None
    labels: list[LabelView]
    meta: dict[str, str]
    problem: str | None = None


def trace_view(library: Library, query: TraceQuery) -> TraceView:
    """The head of a trace."""
    held = run_attempts(library, query.run)
    with opened_outline(library, query.run, query.trace) as outline:
        return head_of(outline, held)


def head_of(outline: TraceOutline, held: HeldAttempts, most: int = MOST_HEAD_TEXT) -> TraceView:
    """The head of an opened trace, its texts cut to `most` characters."""
    head, problem = outline.entry.head, None
    row = held.by_trace[head.trace_id]
    answer, asked, labels = None, "", list[LabelView]()
    try:
        head = outline.run.head(outline.entry)
        answer = outline.run.texts.get(head.answer, outline.entry.texts) if head.answer is not None else None
        asked = _first_input(outline)
        labels = labels_of(outline)
    except EthogramError as error:  # sealed, or damaged: what needs no words can still be read
        problem = str(error)
    meta = {name: str(value) for name, value in head.meta.items() if value is not None}
    target = next((meta[name] for name in TARGETS if name in meta), None)
    return TraceView(
        attempt=row,
        state=held.state(row),
        tokens=row.tokens,
        input=asked[:most],
        answer=None if answer is None else answer[:most],
        target=None if target is None else target[:most],
        limit=" ".join(meta[name] for name in LIMITS if name in meta) or None,
        source=head.origin.name if head.origin is not None else None,
        spans=len(outline),
        steps=int(outline.steps.size),
        turns=int(outline.turns.size),
        errors=row.totals.errors,
        labels=labels,
        meta={name: value[:most] for name, value in meta.items()},
        problem=problem,
    )


class BesideQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A trace, and another run whose passing attempts may stand beside it where its own run has none."""

    run: str
    trace: str
    against: str = ""


def beside_view(library: Library, query: BesideQuery) -> AttemptBeside:
    """Where to begin to read an attempt; a failed one beside the attempt that passed and is nearest to it."""
    base = library.run(query.against) if query.against else None

    def told(run: Run) -> WhyResult:
        return why(run, against=base, home=library.home)

    causes = library.answer(query.run, ("told", query.against), told)
    return library.answer(
        query.run,
        ("beside", query.against, query.trace),
        lambda run: BesideReader(run, causes, base).of(run.find(query.trace)),
    )


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
