"""The page of judges: the queue of labels by hand, and how far each judge can be trusted."""

from __future__ import annotations

from typing import Literal

import msgspec

from ethogram.errors import BadUsage, NotFound
from ethogram.questions.calibration.audit import ItemAudit, audit_run
from ethogram.questions.calibration.label_queue import LabelQueue, QueueQuestion, label_queue, queue_question
from ethogram.questions.calibration.labels import label_trace
from ethogram.questions.calibration.question import ItemCalibration, calibrate
from ethogram.store import Run
from ethogram.viewer.library import Library

from .cards import CardsQuery, CardsView, cards_view

MOST_WHY = 4_000
MOST_NAME = 100
SPELLED = {"yes": "true", "no": "false", "unsure": "unclear"}
"""What `ethogram label` calls an answer; one that is unclear is kept and enters no figure."""


class QueueQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Whose queue: `by` is the login of the server where it is empty."""

    run: str = "latest"
    by: str = ""


def queue_view(library: Library, query: QueueQuery) -> LabelQueue:
    """What is to be labelled by hand."""
    return library.answer(query.run, ("queue", query.by), lambda run: label_queue(run, by=query.by))


class QuestionQuery(msgspec.Struct, frozen=True, kw_only=True):
    """One question of the queue, and a window of the turns of its trace: from turn `first`, or around `step`."""

    run: str
    trace: str
    item: str
    by: str = ""
    first: int = 0
    step: int | None = None
    count: int = 8


class QuestionView(msgspec.Struct, frozen=True, kw_only=True):
    """What is needed to answer one question; the cards hold no labels."""

    question: QueueQuestion
    cards: CardsView


def question_view(library: Library, query: QuestionQuery) -> QuestionView:
    """One question with the steps to read."""
    question = library.answer(
        query.run,
        ("question", query.trace, query.item, query.by),
        lambda run: queue_question(run, query.trace, query.item, by=query.by),
    )
    window = CardsQuery(run=query.run, trace=query.trace, first=query.first, step=query.step, count=query.count)
    return QuestionView(question=question, cards=_unlabelled(cards_view(library, window)))


def _unlabelled(cards: CardsView) -> CardsView:
    """Cards without what judges and people said of their steps: a label is given blind."""
    replace = msgspec.structs.replace
    bare = [replace(card, steps=[replace(step, labels=[]) for step in card.steps]) for card in cards.cards]
    return replace(cards, cards=bare)


class LabelQuery(msgspec.Struct, frozen=True, kw_only=True):
    """An answer by hand to one question of the queue."""

    run: str
    trace: str
    item: str
    answer: Literal["yes", "no", "unsure"]
    why: str = ""
    by: str = ""


class Labelled(msgspec.Struct, frozen=True, kw_only=True):
    """What was kept, and how many questions about the trace are left; who may write sees no words by that."""

    trace: str
    item: str
    answer: str
    left: int


def label_view(library: Library, query: LabelQuery) -> Labelled:
    """Keep a label by hand, as `ethogram label` does; only what a sample drew is asked, and nothing else is taken."""
    if len(query.why) > MOST_WHY or len(query.by) > MOST_NAME:
        raise BadUsage(f"a reason has at most {MOST_WHY} characters, a name {MOST_NAME}; write less")
    by = query.by.strip()
    question = queue_question(library.run(query.run), query.trace, query.item, by=by)
    row = question.row
    label_trace(
        library.run(query.run),
        row.trace,
        SPELLED[query.answer],
        name=query.item,
        why=query.why.strip(),
        by=by,
        home=library.home,
    )
    return Labelled(
        trace=row.trace, item=row.item, answer=query.answer, left=question.left - (0 if row.answered else 1)
    )


class JudgeQuery(msgspec.Struct, frozen=True, kw_only=True):
    """The judges of a run; `against` is the run in which they were calibrated, by default the same one."""

    run: str = "latest"
    against: str = ""


class JudgeView(msgspec.Struct, frozen=True, kw_only=True):
    """Agreement, corrected rates and audit per item; nothing of it where no judge has spoken."""

    run: str
    judged: bool
    level: float
    items: list[ItemCalibration]
    notes: list[str]
    audit: list[ItemAudit]
    audit_share: float
    audit_level: float
    against: str = ""


def judge_view(library: Library, query: JudgeQuery) -> JudgeView:
    """The answers of `ethogram calibrate` and of `ethogram calibrate --audit`."""
    base = library.run(query.against) if query.against else None
    state = library.state(query.against) if query.against else ""
    return library.answer(query.run, ("judge", query.against, state), lambda run: _judge_view(library, run, base))


def _judge_view(library: Library, run: Run, base: Run | None) -> JudgeView:
    try:
        found = calibrate(run, home=library.home)
        audit = audit_run(run, against=base, home=library.home)
    except NotFound:
        return JudgeView(
            run=run.name, judged=False, level=0.95, items=[], notes=[], audit=[], audit_share=0.0, audit_level=0.0
        )
    return JudgeView(
        run=run.name,
        judged=True,
        level=found.level,
        items=found.items,
        notes=found.notes,
        audit=audit.items,
        audit_share=audit.share,
        audit_level=audit.level,
        against=audit.against,
    )
