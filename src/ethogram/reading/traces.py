"""One trace: found by the start of its id, shown as a tree, with steps marked that act on an unfounded belief."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar

import msgspec

from ethogram.display import Drawing, Presentation
from ethogram.display.shorten import shortened
from ethogram.errors import BadUsage, Damaged, EthogramError, NotFound
from ethogram.findings.belief import BeliefCheck, belief_of
from ethogram.findings.rubric import ITEM_PREFIX, is_rubric_label
from ethogram.result import Result
from ethogram.store import Entry, Home, Run, home_of
from ethogram.traces import Label, Missing, Scored, Span, SpanId, Totals, Trace

from .trace_words import StepReader, TextSearch, WordsPart, chosen_kind, chosen_steps, step_choice


class SpanRow(msgspec.Struct, kw_only=True):
    """One span in a tree: its depth, its facts, and the first words of what went in and came out."""

    depth: int
    span_id: str
    parent_id: str | None
    kind: str
    name: str
    agent: str
    status: str
    step: int | None
    seconds: float | None
    model: str | None
    prompt_version: str | None
    input_tokens: int | None
    cache_read_tokens: int | None
    cache_write_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    stop_reason: str | None
    preview: str
    error: str | None


class StepText(msgspec.Struct, kw_only=True):
    """One step with its words in parts, what went in first."""

    step: int
    span: SpanRow
    parts: list[WordsPart]


class StepJudgement(msgspec.Struct, frozen=True, kw_only=True):
    """A verdict or label on one step for an item of a rubric; the newest of each author."""

    step: int
    span_id: str
    item: str
    value: bool | None
    by: str
    why: str


class TraceTree(Result, kw_only=True):
    """A trace as a tree of spans, parents first; `belief` is the first step that acts on something unobserved.

    `judgements` are verdicts on steps; those on the whole trace stand among `labels`.

    `words` holds the steps that were asked for with their words (the first of `words_of`), and `found` what a search
    for a text found.
    """

    presentation: ClassVar[Presentation] = Presentation(
        title="Trace",
        columns=("step", "kind", "name", "status", "seconds", "input_tokens", "output_tokens", "preview", "error"),
        drawing=Drawing("name", "seconds", "seconds", "bars"),
    )

    run: str
    trace_id: str
    task: str
    attempt: int
    condition: str
    agent: str
    score: float | None
    missing: str | None
    answer: str | None
    source: str | None
    totals: Totals
    labels: list[dict[str, Any]]
    spans: list[SpanRow]
    shown: int
    of: int
    meta: dict[str, Any] = {}
    belief: BeliefCheck = BeliefCheck()
    judgements: list[StepJudgement] = []
    words: list[StepText] = []
    words_of: int = 0
    found: TextSearch | None = None
    missing_detail: str = ""
    """What the missing outcome says beside its reason."""

    def rows(self) -> list[dict[str, Any]]:
        """One row per span."""
        return [msgspec.to_builtins(s) for s in self.spans]


def find_trace(trace: str, *, run: str | None = None, home: Home | str | None = None) -> tuple[Run, Entry]:
    """A trace by the start of its id, in one run or in all of them; a step behind it (`762008:10`) is passed over."""
    lake = home_of(home)
    trace, _ = split_place(trace)
    if run is not None:
        found = lake.resolve(run)
        return found, found.find(trace)
    matches: list[tuple[Run, Entry]] = []
    damaged: Damaged | None = None
    for candidate in reversed(list(lake.runs())):
        try:
            matches.append((candidate, candidate.find(trace)))
        except NotFound:
            continue
        except Damaged as error:  # one damaged run must not hide the others
            damaged = error
    if len({entry.head.trace_id for _, entry in matches}) > 1:
        names = ", ".join(sorted(run.name for run, _ in matches))
        raise BadUsage(f"traces of several runs begin with {trace!r} ({names}); give more digits, or the run")
    if matches:
        return matches[0]
    if damaged is not None:
        raise damaged
    raise NotFound(
        f"no trace {trace!r} in {lake.files.address}; list traces with: ethogram show RUN",
        where=lake.files.address,
        what="trace",
        name=trace,
    )


def split_place(place: str) -> tuple[str, int | None]:
    """A trace and a step as `ethogram why` prints them: `7620080abc:10`; the step is None where there is none."""
    trace, _, step = place.rpartition(":")
    if trace and trace != "b2" and step.isdecimal() and len(step) < 10:
        return trace, int(step)
    return place, None


def trace(
    trace: str,
    *,
    run: str | None = None,
    home: Home | str | None = None,
    limit: int | None = 400,
    step: int | None = None,
    around: int = 0,
    find: str | None = None,
    only: str | None = None,
    full: bool = False,
) -> TraceTree:
    """A trace as a tree; at most `limit` spans get words and rows, so that huge traces open at once.

    `only` leaves spans with errors (`errors`), of tools (`tools`) or of models (`model`). `step` gives the words of one
    step, with `around` also those of this number of steps on either side, `find` those of every step that holds a text,
    whatever its case, and `full` those of all steps. `trace` may name the step itself: `7620080abc:10`. Raises
    `NotFound` for a trace or a step that does not exist, `BadUsage` for choices that make no sense.
    """
    named = split_place(trace)[1]
    choice = step_choice(named if step is None else step, around, find, only, full)
    where, entry = find_trace(trace, run=run, home=home)
    whole = where.trace(entry)
    at, found = chosen_steps(whole, choice) if choice.wants_words else ([], None)
    numbers = {s.span_id: i for i, s in enumerate(whole.steps)}
    rows: list[SpanRow] = []
    for depth, span in whole.walk():
        if limit is not None and len(rows) >= limit:
            break
        if chosen_kind(span, choice.only):
            rows.append(_span_row(whole, span, depth, numbers.get(span.span_id)))
    head, outcome = whole.head, whole.head.outcome
    return TraceTree(
        run=where.name,
        trace_id=head.trace_id,
        task=head.task,
        attempt=head.attempt,
        condition=head.condition,
        agent=head.agent,
        score=outcome.value if isinstance(outcome, Scored) else None,
        missing=outcome.reason if isinstance(outcome, Missing) else None,
        missing_detail=outcome.detail if isinstance(outcome, Missing) else "",
        answer=whole.answer,
        source=head.origin.name if head.origin else None,
        totals=entry.totals,
        labels=[_label(whole, x) for x in whole.labels if x.span_id is None or not is_rubric_label(x.name)],
        judgements=_judgements(whole, numbers),
        spans=rows,
        shown=len(rows),
        of=sum(chosen_kind(span, choice.only) for span in whole.spans),
        meta=dict(head.meta),
        belief=_belief(whole),
        words=step_texts(whole, at[:limit]),
        words_of=len(at),
        found=found,
    )


def step_texts(trace: Trace, steps: Sequence[int]) -> list[StepText]:
    """Steps with their words."""
    if not steps:
        return []
    reader = StepReader(trace)
    return [StepText(step=i, span=_span_row(trace, trace.steps[i], 0, i), parts=reader.parts(i)) for i in steps]


def _belief(trace: Trace) -> BeliefCheck:
    """Where the trace first acts on a belief; unknown where texts are sealed or gone."""
    try:
        return belief_of(trace)
    except (EthogramError, KeyError):
        return BeliefCheck(why="some texts of the trace cannot be read")


def _label(trace: Trace, label: Label) -> dict[str, Any]:
    """A label with its words, where they can be read."""
    built: dict[str, Any] = msgspec.to_builtins(label)
    with suppress(EthogramError, KeyError):
        built["why"] = trace.text(label.why) if label.why is not None else None
    return built


def _judgements(trace: Trace, numbers: Mapping[SpanId, int]) -> list[StepJudgement]:
    """Verdicts on steps, in their order."""
    newest: dict[tuple[SpanId, str, str], Label] = {}
    for label in trace.labels:
        if label.span_id is not None and label.span_id in numbers and is_rubric_label(label.name):
            newest[label.span_id, label.name, label.by] = label
    found = [
        StepJudgement(
            step=numbers[span],
            span_id=span,
            item=name.removeprefix(ITEM_PREFIX),
            value=label.value if isinstance(label.value, bool) else None,
            by=by,
            why=str(_label(trace, label).get("why") or ""),
        )
        for (span, name, by), label in newest.items()
    ]
    return sorted(found, key=lambda j: (j.step, j.item, j.by))


def _span_row(trace: Trace, span: Span, depth: int, step: int | None) -> SpanRow:
    same = ("span_id", "parent_id", "kind", "name", "agent", "status", "seconds", "model", "prompt_version")
    more = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "cost_usd", "stop_reason")
    return SpanRow(
        depth=depth,
        step=step,
        preview=_preview(trace, span),
        error=trace.text(span.error)[:2000] if span.error else None,
        **{name: getattr(span, name) for name in (*same, *more)},
    )


def _preview(trace: Trace, span: Span) -> str:
    """The first words that say what the span did."""
    if span.kind == "tool":
        arguments = trace.text(span.arguments) if span.arguments else ""
        result = trace.text(span.result) if span.result else ""
        return f"{_line(arguments, 80)} → {_line(result, 80)}" if span.result else _line(arguments, 160)
    for ref in span.output:
        message = trace.message(ref)
        if message.text:
            return _line(message.text, 160)
        if message.tool_calls:
            return ", ".join(f"{c.name}({_line(c.arguments, 60)})" for c in message.tool_calls)
    return ""


def _line(text: str, width: int) -> str:
    line = " ".join(text[: 4 * width].split())
    return shortened(line, width)
