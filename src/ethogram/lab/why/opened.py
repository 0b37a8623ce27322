"""The traces of a run opened for reading: failed ones first, each beside the passing attempt that is nearest to it.

What is opened is bounded: texts are cut in the middle, long traces are left out around what matters, and once the
characters are used up the remaining traces are counted instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Literal, NamedTuple

import msgspec

from ethogram.errors import EthogramError, NotFound
from ethogram.lab.gate.moved import what_checks_said
from ethogram.lab.home.reading import PartKind, StepReader, WordsPart
from ethogram.lab.outcomes.columns import success_at
from ethogram.lab.outcomes.names import natural, task_name
from ethogram.measure.decisions import step_words
from ethogram.measure.divergence import diverge
from ethogram.measure.reading import Reading, read_positions
from ethogram.result import Result
from ethogram.store import Entry, Run
from ethogram.trace import Missing, Scored, Trace

from .results import WhyResult, WhyTrace

MOST_TEXT = 2_000
"""Characters of one text; its beginning and its end are kept."""
MOST_BESIDE = 700
"""Characters of one text of the passing attempt, which also stands whole in a place of its own."""
MOST_STEPS = 120
"""Steps of one trace: the first, the last, and those around the steps that matter."""
MOST_CHARACTERS = 5_000_000
LEAST_TEXT, LEAST_STEPS = 200, 24
"""What is kept of a text and of a trace where very many attempts failed."""
OF_A_STEP = 250
"""What a step takes beside its words, in characters."""
MOST_PASSING = 8
"""How many passing attempts of a task are held beside a failed one to find the nearest."""
MOST_LINE = 160

State = Literal["failed", "passed", "unscored", "missing"]
RowSign = Literal["=", "≈", "≠", "~", "+", "-"]


class OpenText(msgspec.Struct, frozen=True, kw_only=True):
    """One text of a step; `left_out` characters of its middle are gone."""

    kind: PartKind
    name: str
    text: str
    left_out: int = 0


class OpenStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step: what it is, its first words on one line, and its texts."""

    step: int
    kind: str
    what: str
    line: str
    failed: bool
    blamed: bool
    texts: list[OpenText]


class OpenRow(msgspec.Struct, frozen=True, kw_only=True):
    """One position of the reading: a step of this attempt, and the step of the passing one at the same place.

    `sign` is that of a diff from the passing attempt to this one; `≈` is the same call with other arguments, `≠` the
    same call with another result. `differs` marks the first step that is not the same. `left_out` counts positions that
    were left out before this one.
    """

    own: OpenStep | None
    passing: OpenStep | None = None
    sign: RowSign = "="
    differs: bool = False
    left_out: int = 0


class OpenTrace(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt to read. `said` is what the checks said of it, `passing` the attempt beside it, if there is one."""

    trace: str
    task: str
    attempt: int
    condition: str
    state: State
    outcome: str
    steps: int
    rows: list[OpenRow]
    classes: list[str] = []
    step: int | None = None
    said: str = ""
    answer: str = ""
    passing: str | None = None
    passing_run: str | None = None
    passing_attempt: int | None = None
    passing_condition: str | None = None
    note: str = ""


class OpenedTraces(Result, kw_only=True):
    """Attempts that were opened, failed ones first, and how many were left out, by how they ended."""

    run: str
    traces: list[OpenTrace]
    left_out: dict[State, int]


class _Attempt(NamedTuple):
    entry: Entry
    task: str
    state: State
    why: WhyTrace | None


class _Passing(NamedTuple):
    run: Run
    entry: Entry


def open_traces(
    run: Run, told: WhyResult, *, base: Run | None = None, most: int = MOST_CHARACTERS, steps: int = MOST_STEPS
) -> OpenedTraces:
    """The attempts of a run with the words of their steps, those that `told` quotes first, then one of every task.

    A failed attempt stands beside a passing one of the same task: of this run, else of `base`. `most` bounds the
    characters of all, `steps` the steps of one.
    """
    attempts = _attempts_of(run, told)
    passing = _passing_attempts(run, attempts, base)
    # the more attempts failed, the less is kept of each: every failed task can be read before one is read whole
    room = most // max(sum(a.state == "failed" for a in attempts), len({a.task for a in attempts}), 1)
    least = min(max(room // 40, LEAST_TEXT), MOST_TEXT)
    opener = _Opener(passing, min(steps, max(room // 500, LEAST_STEPS)), least)
    opened: list[OpenTrace] = []
    left_out: dict[State, int] = {}
    spent = 0
    for attempt in _in_order(attempts, told):
        if spent >= most:
            left_out[attempt.state] = left_out.get(attempt.state, 0) + 1
            continue
        made = opener.open(run, attempt)
        spent += _size(made)
        opened.append(made)
    return OpenedTraces(run=run.name, traces=opened, left_out=left_out)


def open_trace(run: Run, told: WhyResult, trace: str, *, base: Run | None = None) -> OpenTrace:
    """One attempt with the words of its steps, as `open_traces` opens it where there is room; `trace` may be cut short.

    Raises `NotFound` where there is no such trace, or it is no longer kept.
    """
    entry = run.find(trace)
    attempts = _attempts_of(run, told)
    wanted = next((a for a in attempts if a.entry.head.trace_id == entry.head.trace_id), None)
    if wanted is None:
        raise NotFound(f"trace {entry.head.trace_id} is no longer kept: {entry.forgotten}")
    return _Opener(_passing_attempts(run, attempts, base), MOST_STEPS, MOST_TEXT).open(run, wanted)


def _attempts_of(run: Run, told: WhyResult) -> list[_Attempt]:
    by_id = {t.trace: t for t in told.traces}
    threshold = success_at(run)
    return [
        _Attempt(e, task_name(e.head), _state(e, threshold), by_id.get(e.head.trace_id))
        for e in run.entries
        if e.forgotten is None
    ]


def _state(entry: Entry, threshold: float) -> State:
    outcome = entry.head.outcome
    if isinstance(outcome, Scored):
        return "passed" if outcome.success(threshold) else "failed"
    return "unscored" if outcome.reason == "unscored" else "missing"


def _in_order(attempts: Sequence[_Attempt], told: WhyResult) -> Iterator[_Attempt]:
    """Quoted ones, failed ones, others that show a class of failure, the rest; tasks take turns within each."""
    quoted = {e.trace for c in (*told.causes, *told.leads) for e in c.examples}
    quoted |= {e.trace for s in told.said for e in s.examples}

    def rank(attempt: _Attempt) -> int:
        if attempt.entry.head.trace_id in quoted:
            return 0
        return 1 if attempt.state == "failed" else 2 if attempt.why is not None else 3

    for level in range(4):
        tasks: dict[str, list[_Attempt]] = {}
        for attempt in sorted(attempts, key=lambda a: (natural(a.task), a.entry.head.attempt)):
            if rank(attempt) == level:
                tasks.setdefault(attempt.task, []).append(attempt)
        for turn in zip_longest(*tasks.values()):
            yield from (a for a in turn if a is not None)


def _passing_attempts(
    run: Run, attempts: Iterable[_Attempt], base: Run | None
) -> dict[tuple[str, str], list[_Passing]]:
    """Passing attempts by task and condition; those of `base` where this run has none."""
    found: dict[tuple[str, str], list[_Passing]] = {}
    for one in attempts:
        if one.state == "passed":
            found.setdefault((one.task, one.entry.head.condition), []).append(_Passing(run, one.entry))
    if base is not None:
        threshold = success_at(base)
        others: dict[tuple[str, str], list[_Passing]] = {}
        for entry in base.entries:
            if entry.forgotten is None and _state(entry, threshold) == "passed":
                others.setdefault((task_name(entry.head), entry.head.condition), []).append(_Passing(base, entry))
        found = others | found
    return found


class _Opener:
    """Opens attempts; remembers how passing ones read, for many failed attempts are held beside them."""

    def __init__(self, passing: dict[tuple[str, str], list[_Passing]], steps: int, text: int) -> None:
        self.passing, self.steps, self.text = passing, steps, text
        self.readings: dict[str, Reading] = {}

    def open(self, run: Run, attempt: _Attempt) -> OpenTrace:
        trace = run.trace(attempt.entry)
        head = trace.head
        own = read_positions(trace)
        near = self._nearest(attempt, own)
        blamed = attempt.why.step if attempt.why is not None else None
        words = _Words(trace, self.text, blamed)
        if near is None:
            rows = [OpenRow(own=words.step(i), left_out=gap) for i, gap in _kept(len(own), [blamed], self.steps)]
        else:
            rows = self._side_by_side(words, own, near, blamed)
        return OpenTrace(
            trace=head.trace_id,
            task=attempt.task,
            attempt=head.attempt,
            condition=head.condition,
            state=attempt.state,
            outcome=_outcome(trace),
            steps=len(own),
            rows=rows,
            classes=list(attempt.why.classes) if attempt.why is not None else [],
            step=blamed,
            said=what_checks_said(trace, success_at(run)) if attempt.state == "failed" else "",
            answer=words.answer(),
            passing=near.entry.head.trace_id if near is not None else None,
            passing_run=near.run.name if near is not None and near.run.name != run.name else None,
            passing_attempt=near.entry.head.attempt if near is not None else None,
            passing_condition=near.entry.head.condition if near is not None else None,
            note=words.note,
        )

    def _nearest(self, attempt: _Attempt, own: Reading) -> _Passing | None:
        """The passing attempt of the same task that takes the most similar steps."""
        if attempt.state != "failed":
            return None
        condition = attempt.entry.head.condition
        # where nothing passes under this condition, one without any condition says what was to be done
        known = self.passing.get((attempt.task, condition)) or self.passing.get((attempt.task, ""), [])
        known = known[:MOST_PASSING]
        apart = [(diverge(self._reading(p), own).d_norm or 0.0, i) for i, p in enumerate(known)]
        return known[min(apart)[1]] if apart else None

    def _reading(self, passing: _Passing) -> Reading:
        name = passing.entry.head.trace_id
        if name not in self.readings:
            self.readings[name] = read_positions(passing.run.trace(passing.entry))
        return self.readings[name]

    def _side_by_side(self, words: _Words, own: Reading, near: _Passing, blamed: int | None) -> list[OpenRow]:
        """Both attempts step by step; words of the passing one only where it is not the same."""
        other = _Words(near.run.trace(near.entry), min(self.text, MOST_BESIDE), None)
        found = diverge(self._reading(near), own)
        aligned: list[tuple[RowSign, int | None, int | None]] = [
            (words.compared(mine, other, theirs) if sign == "=" else sign, theirs, mine)
            for sign, theirs, mine in found.alignment
        ]
        first = next((i for i, (sign, _, _) in enumerate(aligned) if sign not in "=≈≠"), None)
        changed = next((i for i, (sign, _, _) in enumerate(aligned) if sign != "="), None)
        at = next((i for i, (_, _, mine) in enumerate(aligned) if mine == blamed and mine is not None), None)
        rows = []
        for i, gap in _kept(len(aligned), [at, first, changed], self.steps):
            sign, theirs, mine = aligned[i]
            rows.append(
                OpenRow(
                    own=None if mine is None else words.step(mine, matters=i == changed),
                    passing=None if theirs is None else other.step(theirs, bare=sign == "=", matters=i == changed),
                    sign=sign,
                    differs=i == changed,
                    left_out=gap,
                )
            )
        return rows


class _Words:
    """The steps of one trace in words, cut to a length."""

    def __init__(self, trace: Trace, most: int, blamed: int | None) -> None:
        self.trace, self.most, self.blamed = trace, most, blamed
        self.reader = StepReader(trace)
        self.note = ""

    def step(self, i: int, *, bare: bool = False, matters: bool = False) -> OpenStep:
        """One step; a bare one has its first line only, one that matters is cut least."""
        span = self.trace.steps[i]
        most = MOST_TEXT if matters or i == self.blamed else self.most
        parts = self._parts(i)
        return OpenStep(
            step=i,
            kind=span.kind,
            what=step_words(span),
            line=_line(parts),
            failed=span.status == "error",
            blamed=i == self.blamed,
            texts=[] if bare else [_cut(p, most) for p in parts if p.text or p.kind == "call"],
        )

    def _parts(self, i: int) -> list[WordsPart]:
        try:
            # what another step wrote stands there already
            return [part for part in self.reader.parts(i) if part.kind != "read"]
        except (EthogramError, KeyError):
            self.note = "some words of this attempt are sealed or no longer kept"
            return []

    def compared(self, mine: int | None, other: _Words, theirs: int | None) -> RowSign:
        """Whether two steps of one signature are also the same call: other arguments, then another result."""
        if mine is None or theirs is None:
            return "="
        one, two = self.trace.steps[mine], other.trace.steps[theirs]
        if one.kind != "tool" or two.kind != "tool":
            return "="
        return "≈" if one.arguments != two.arguments else "≠" if one.result != two.result else "="

    def answer(self) -> str:
        try:
            return _middle_out(self.trace.answer or "", self.most)[0]
        except (EthogramError, KeyError):
            return ""


def _kept(count: int, places: Sequence[int | None], most: int) -> list[tuple[int, int]]:
    """Positions to show, each with the number left out before it: ends, and what stands around these places."""
    if count <= most:
        return [(i, 0) for i in range(count)]
    marks = [p for p in places if p is not None]
    around = most // (2 + len(marks))
    wanted = set(range(around)) | set(range(count - around, count))
    for mark in marks:
        wanted.update(range(max(mark - around // 2, 0), min(mark + around - around // 2, count)))
    kept, before = [], -1
    for i in sorted(wanted):
        kept.append((i, i - before - 1))
        before = i
    return kept


def _line(parts: Sequence[WordsPart]) -> str:
    """The first words of what came out: an error before a result, a message before a call."""
    own = [p for p in parts if p.kind != "input"] or list(parts)
    errors = [p for p in own if p.kind == "error"]
    chosen = errors or [p for p in own if p.kind == "result"] or [p for p in own if p.kind == "message"] or own
    asked = "" if errors else next((p.text for p in own if p.kind == "arguments"), "")
    words = " ".join(f"{p.name}({p.text})" if p.kind == "call" else p.text[: 4 * MOST_LINE] for p in chosen[:3])
    whole = f"{_short(asked, MOST_LINE // 2)} → {words}" if asked and chosen[0].kind != "arguments" else words
    return _short(whole, MOST_LINE)


def _short(text: str, width: int) -> str:
    line = " ".join(text[: 4 * width].split())
    return line if len(line) <= width else line[: width - 1] + "…"


def _cut(part: WordsPart, most: int) -> OpenText:
    text, gone = _middle_out(part.text, most)
    return OpenText(kind=part.kind, name=part.name, text=text, left_out=gone)


def _middle_out(text: str, most: int) -> tuple[str, int]:
    if len(text) <= most:
        return text, 0
    gone = len(text) - most
    return f"{text[: 2 * most // 3]}\n… {gone:,} characters left out …\n{text[-most // 3 :]}", gone


def _size(trace: OpenTrace) -> int:
    steps = [s for row in trace.rows for s in (row.own, row.passing) if s is not None]
    return sum(OF_A_STEP + len(s.line) + sum(len(t.text) for t in s.texts) for s in steps)


def _outcome(trace: Trace) -> str:
    outcome = trace.head.outcome
    if isinstance(outcome, Missing):
        return "no score" if outcome.reason == "unscored" else outcome.reason
    return f"score {outcome.value:g}"
