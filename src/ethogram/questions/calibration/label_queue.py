"""Questions that are still to be labelled by hand, shown without the judge's verdict.

Verdicts and outcome of a trace are told once the person has answered every question about it: told earlier, they would
sway the answers that are left.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from ethogram.errors import NotFound
from ethogram.findings.asked_steps import asked_steps
from ethogram.findings.classes_by_hand import step_of_label
from ethogram.findings.rubric import ITEM_PREFIX, STANDARD, RubricItem
from ethogram.findings.step_words import TraceWords
from ethogram.reading.task_names import task_name
from ethogram.store import Entry, Home, Run, run_of
from ethogram.traces import Label, Param, Trace, TraceId

from .labels import labeller
from .samples import Sample, outcome_word, read_samples, sampled_items


class QueueItem(msgspec.Struct, frozen=True, kw_only=True):
    """A question of the queue: what counts as yes and as no. `question` is empty for an item of a rubric of one's own,
    whose words are not stored, and for a score."""

    name: str
    question: str = ""
    yes: str = ""
    no: str = ""


class QueueRow(msgspec.Struct, frozen=True, kw_only=True):
    """One trace and one item; `answer` is this person's label, where `answered`."""

    trace: TraceId
    task: str
    attempt: int
    item: str
    answered: bool
    answer: Param


class LabelQueue(msgspec.Struct, frozen=True, kw_only=True):
    """All that samples drew for labelling, in the order to label it; `done` of the rows are answered by `by`."""

    run: str
    by: str
    judged: bool
    sampled: int
    items: list[QueueItem]
    rows: list[QueueRow]
    done: int


class SaidVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict of a judge on the whole trace, or on one step."""

    by: str
    value: Param
    step: int | None
    why: str


class HeldBack(msgspec.Struct, frozen=True, kw_only=True):
    """What is hidden from a person until all questions about a trace are answered."""

    outcome: str
    verdicts: list[SaidVerdict]


class QueueQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """One question about one trace. `steps` are those that the item asks about, empty where that is not known; `left`
    questions about the trace have no answer by this person, and `told` is None as long as there are some."""

    row: QueueRow
    item: QueueItem
    steps: list[int]
    why: str
    left: int
    told: HeldBack | None


def label_queue(run: str | Run = "latest", *, by: str | None = None, home: Home | str | None = None) -> LabelQueue:
    """What is to be labelled in a run, and what `by` (by default the login) has labelled of it.

    Only questions that a judge answered are asked: others enter no figure. Without a verdict or a sample there is none.

    Example: `label_queue("night", by="ada").done`
    """
    found, person = run_of(run, home), labeller(by)
    samples = [s for those in read_samples(found).values() for s in those]
    labels = list(found.labels())
    own = {(x.trace_id, x.name): x.value for x in labels if x.source == "hand" and x.by == person and not x.span_id}
    rows = {(row.trace, row.item): row for sample in samples for row in _rows(found, sample, own)}
    return LabelQueue(
        run=found.name,
        by=person,
        judged=any(x.source == "judge" for x in labels),
        sampled=len({d.trace for s in samples for d in s.drawn}),
        items=[_item(name) for name in dict.fromkeys(row.item for row in rows.values())],
        rows=list(rows.values()),
        done=sum(row.answered for row in rows.values()),
    )


def queue_question(
    run: str | Run, trace: str, item: str, *, by: str | None = None, home: Home | str | None = None
) -> QueueQuestion:
    """One question of the queue; raises `NotFound` for one that no sample drew.

    Example: `queue_question("night", "4f1c22", "rubric/termination").steps`
    """
    found = run_of(run, home)
    queue = label_queue(found, by=by)
    entry = found.find(trace)
    own = [row for row in queue.rows if row.trace == entry.head.trace_id]
    row = next((row for row in own if row.item == item), None)
    if row is None:
        raise NotFound(
            f"no sample of run {found.name!r} asks {item!r} of trace {trace!r}; draw more with: ethogram label "
            f"{found.name} --sample N",
            where=f"run {found.name!r}",
            what="sample",
            name=item,
            known=[one.item for one in own],
        )
    left = sum(not one.answered for one in own)
    whole = found.trace(entry)
    return QueueQuestion(
        row=row,
        item=_item(item),
        steps=_steps(whole, item),
        why=_why(whole, item, queue.by),
        left=left,
        told=None if left else _told(found, entry, whole, item),
    )


def _rows(run: Run, sample: Sample, own: dict[tuple[TraceId, str], Param]) -> Iterator[QueueRow]:
    """The rows of a sample: trace by trace, so that what somebody has read is asked about at once."""
    judged: dict[str, set[TraceId]] = {}
    for item in sampled_items(run, sample.name):
        known = {unit[0] for unit, verdict in item.verdicts.items() if verdict is not None}
        judged.setdefault(item.name, set()).update(known)
    entries = {e.head.trace_id: e for e in run.entries if not e.forgotten}
    for drawn in sample.drawn:
        if (entry := entries.get(drawn.trace)) is None:
            continue
        for name in sorted(judged, key=_place):
            if drawn.trace in judged[name]:
                place = drawn.trace, name
                yield QueueRow(
                    trace=drawn.trace,
                    task=task_name(entry.head),
                    attempt=entry.head.attempt,
                    item=name,
                    answered=place in own,
                    answer=own.get(place),
                )


def _known(name: str) -> RubricItem | None:
    return STANDARD.item(name.removeprefix(ITEM_PREFIX)) if name.startswith(ITEM_PREFIX) else None


def _place(name: str) -> tuple[int, str]:
    """Items of the standard rubric in its order, then others by name."""
    known = _known(name)
    return (STANDARD.items.index(known) if known is not None else len(STANDARD.items)), name


def _item(name: str) -> QueueItem:
    known = _known(name)
    if known is None:
        return QueueItem(name=name)
    return QueueItem(name=name, question=known.question, yes=known.yes, no=known.no)


def _steps(trace: Trace, item: str) -> list[int]:
    known = _known(item)
    return asked_steps(TraceWords(trace), known.applies_to) if known is not None else []


def _why(trace: Trace, item: str, person: str) -> str:
    mine = [x for x in trace.labels if x.name == item and x.source == "hand" and x.by == person and not x.span_id]
    return _words(trace, mine[-1]) if mine else ""


def _told(run: Run, entry: Entry, trace: Trace, item: str) -> HeldBack:
    newest: dict[tuple[str, int | None], SaidVerdict] = {}
    for label in trace.labels:
        if label.source == "judge" and label.name == item:
            step = step_of_label(trace, label)
            newest[label.by, step] = SaidVerdict(by=label.by, value=label.value, step=step, why=_words(trace, label))
    # the verdict of the whole trace first, then the steps that it rests on
    said = sorted(newest.values(), key=lambda v: (v.by, v.step is not None, v.step or 0))
    return HeldBack(
        outcome=outcome_word(entry, run.success_at),
        verdicts=[v for v in said if v.step is None or v.value is False],
    )


def _words(trace: Trace, label: Label) -> str:
    return trace.text(label.why) if label.why is not None else ""
