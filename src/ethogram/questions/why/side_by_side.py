"""One attempt for reading: where to begin, what the checks said, and the nearest passing attempt.

Both are aligned step by step; their words are read from the traces themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from itertools import zip_longest
from typing import Literal, NamedTuple

import msgspec

from ethogram.errors import NotFound
from ethogram.findings.verifier_messages import what_checks_said
from ethogram.measures.divergence import diverge
from ethogram.measures.sequence import Reading, read_positions
from ethogram.reading.task_names import natural, task_name
from ethogram.store import Entry, Run
from ethogram.traces import Scored, Trace

from .decisions import step_words
from .results import Cause, WhyResult, WhyTrace

MOST_PASSING = 8
"""How many passing attempts of a task are held beside a failed one to find the nearest."""
MOST_REASONS = 3
MOST_STEPS = 5_000
"""Attempts with more steps are not aligned: that takes time and memory by the square of their length."""

State = Literal["failed", "passed", "unscored", "missing"]
RowSign = Literal["=", "≈", "≠", "~", "+", "-"]


class PassingAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """The attempt beside another one; `run` is that which holds it."""

    trace: str
    run: str
    attempt: int
    condition: str


class AttemptReason(msgspec.Struct, frozen=True, kw_only=True):
    """A cause or lead that an attempt shows: what happens, at which step, and what to try."""

    what: str
    kind: Literal["cause", "lead"]
    step: int | None
    try_: str = msgspec.field(name="try")


class AttemptBeside(msgspec.Struct, frozen=True, kw_only=True):
    """What helps to read an attempt. `step` is where to begin, `said` what the checks said of it, `reasons` are the
    causes and leads that it shows.

    `own` and `other` are aligned steps of this attempt and of the passing one, one sign for each pair: that of a diff
    from the passing attempt to this one; `≈` is the same call with different arguments, `≠` the same call with another
    result, or, where nothing else differs, other words of the model. `differs` is the first pair that is not the same,
    and `first` says so in words.
    """

    trace: str
    state: State
    classes: list[str] = []
    reasons: list[AttemptReason] = []
    step: int | None = None
    said: str = ""
    passing: PassingAttempt | None = None
    own: list[int | None] = []
    other: list[int | None] = []
    signs: str = ""
    differs: int | None = None
    first: str = ""
    note: str = ""


class _Attempt(NamedTuple):
    entry: Entry
    task: str
    state: State
    why: WhyTrace | None


class _Passing(NamedTuple):
    run: Run
    entry: Entry


class BesideReader:
    """Finds what to hold beside attempts; remembers how passing ones read, for many failed ones share them."""

    def __init__(self, run: Run, told: WhyResult, base: Run | None = None) -> None:
        """A failed attempt stands beside a passing one of the same task: of this run, else of `base`."""
        self.run, self.told = run, told
        self._attempts = _attempts_of(run, told)
        self._by_trace: dict[str, _Attempt] = {a.entry.head.trace_id: a for a in self._attempts}
        self._passing = _passing_attempts(run, self._attempts, base)
        self._readings: dict[str, Reading] = {}

    @property
    def traces(self) -> Set[str]:
        """All attempts that are kept."""
        return self._by_trace.keys()

    @property
    def most_failed(self) -> int:
        """How many attempts failed, or how many tasks there are where that is more."""
        return max(sum(a.state == "failed" for a in self._attempts), len({a.task for a in self._attempts}))

    def in_order(self) -> Iterator[Entry]:
        """Quoted ones, failed ones, others that show a class of failure, the rest; tasks take turns within each."""
        quoted = {e.trace for c in (*self.told.causes, *self.told.leads) for e in c.examples}
        quoted |= {e.trace for s in self.told.said for e in s.examples}

        def rank(attempt: _Attempt) -> int:
            if attempt.entry.head.trace_id in quoted:
                return 0
            return 1 if attempt.state == "failed" else 2 if attempt.why is not None else 3

        for level in range(4):
            tasks: dict[str, list[_Attempt]] = {}
            for attempt in sorted(self._attempts, key=lambda a: (natural(a.task), a.entry.head.attempt)):
                if rank(attempt) == level:
                    tasks.setdefault(attempt.task, []).append(attempt)
            for turn in zip_longest(*tasks.values()):
                yield from (a.entry for a in turn if a is not None)

    def of(self, entry: Entry) -> AttemptBeside:
        """One attempt; raises `NotFound` where it is no longer kept."""
        wanted = self._by_trace.get(entry.head.trace_id)
        if wanted is None:
            raise NotFound(
                f"trace {entry.head.trace_id} is no longer kept: {entry.forgotten}",
                what="trace",
                name=entry.head.trace_id,
            )
        known = AttemptBeside(
            trace=entry.head.trace_id,
            state=wanted.state,
            classes=list(wanted.why.classes) if wanted.why is not None else [],
            reasons=_reasons(self.told, entry.head.trace_id),
            step=wanted.why.step if wanted.why is not None else None,
        )
        if wanted.state != "failed":
            return known
        if (entry.totals.steps or 0) > MOST_STEPS:
            note = f"it has more than {MOST_STEPS:,} steps: compare it with another by: ethogram diff"
            return msgspec.structs.replace(known, note=note)
        trace = self.run.trace(entry)
        known = msgspec.structs.replace(known, said=what_checks_said(trace, self.run.success_at))
        own = read_positions(trace)
        near = self._nearest(wanted, own)
        return known if near is None else self._aligned(known, trace, own, near)

    def _nearest(self, attempt: _Attempt, own: Reading) -> _Passing | None:
        """The passing attempt of the same task that takes the most similar steps."""
        condition = attempt.entry.head.condition
        # where nothing passes under this condition, one without any condition says what was to be done
        known = self._passing.get((attempt.task, condition)) or self._passing.get((attempt.task, ""), [])
        known = [one for one in known if (one.entry.totals.steps or 0) <= MOST_STEPS][:MOST_PASSING]
        apart = [(diverge(self._reading(p), own).d_norm or 0.0, i) for i, p in enumerate(known)]
        return known[min(apart)[1]] if apart else None

    def _reading(self, passing: _Passing) -> Reading:
        name = passing.entry.head.trace_id
        if name not in self._readings:
            self._readings[name] = read_positions(passing.run.trace(passing.entry))
        return self._readings[name]

    def _aligned(self, known: AttemptBeside, trace: Trace, own: Reading, near: _Passing) -> AttemptBeside:
        other = near.run.trace(near.entry)
        pairs: list[tuple[RowSign, int | None, int | None]] = [
            (_compared(trace, mine, other, theirs) if sign == "=" else sign, theirs, mine)
            for sign, theirs, mine in diverge(self._reading(near), own).alignment
        ]
        differs = next((i for i, (sign, _, _) in enumerate(pairs) if sign != "="), None)
        first = _SAME if differs is None else _difference(pairs[differs], trace, other)
        if differs is None:
            said = (i for i, (_, theirs, mine) in enumerate(pairs) if _says_other(trace, mine, other, theirs))
            differs = next(said, None)
            if differs is not None:
                _, theirs, mine = pairs[differs]
                pairs[differs] = ("≠", theirs, mine)
                first = f"step {mine}: the model says something else; all steps and results are the same"
        head = near.entry.head
        return msgspec.structs.replace(
            known,
            passing=PassingAttempt(
                trace=head.trace_id, run=near.run.name, attempt=head.attempt, condition=head.condition
            ),
            own=[mine for _, _, mine in pairs],
            other=[theirs for _, theirs, _ in pairs],
            signs="".join(sign for sign, _, _ in pairs),
            differs=differs,
            first=first,
        )


_SAME = "both took the same steps with the same arguments and results, and said the same"


def _reasons(told: WhyResult, trace: str) -> list[AttemptReason]:
    kinds: tuple[tuple[Literal["cause", "lead"], list[Cause]], ...] = (("cause", told.causes), ("lead", told.leads))
    found = []
    for kind, causes in kinds:
        for cause in causes:
            quoted = next((e for e in cause.examples if e.trace == trace), None)
            if quoted is not None or trace in cause.rests_on:
                at = None if quoted is None else quoted.step
                found.append(AttemptReason(what=cause.what, kind=kind, step=at, try_=cause.try_))
    return found[:MOST_REASONS]


def _difference(pair: tuple[RowSign, int | None, int | None], trace: Trace, other: Trace) -> str:
    sign, theirs, mine = pair
    passing = step_words(other.steps[theirs]) if theirs is not None else ""
    if mine is None:
        return f"the one that passed has a step here that this one does not have: {passing}"
    what = step_words(trace.steps[mine])
    if sign == "≈":
        return f"step {mine} calls {what} with different arguments"
    if sign == "≠":
        return f"step {mine}: the same call of {what} has a different result"
    there = f"where the one that passed has {passing}" if passing else "which the one that passed does not have"
    return f"step {mine}: {what}, {there}"


def _compared(trace: Trace, mine: int | None, other: Trace, theirs: int | None) -> RowSign:
    """Whether two steps of one signature are also the same call: other arguments, then another result."""
    if mine is None or theirs is None:
        return "="
    one, two = trace.steps[mine], other.steps[theirs]
    if one.kind != "tool" or two.kind != "tool":
        return "="
    return "≈" if one.arguments != two.arguments else "≠" if one.result != two.result else "="


def _says_other(trace: Trace, mine: int | None, other: Trace, theirs: int | None) -> bool:
    """Whether two calls of a model gave other words."""
    if mine is None or theirs is None:
        return False
    one, two = trace.steps[mine], other.steps[theirs]
    return one.kind == two.kind == "model" and one.output != two.output


def _attempts_of(run: Run, told: WhyResult) -> list[_Attempt]:
    by_id = {t.trace: t for t in told.traces}
    threshold = run.success_at
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


def _passing_attempts(
    run: Run, attempts: Sequence[_Attempt], base: Run | None
) -> dict[tuple[str, str], list[_Passing]]:
    """Passing attempts by task and condition; those of `base` where this run has none."""
    found: dict[tuple[str, str], list[_Passing]] = {}
    for one in attempts:
        if one.state == "passed":
            found.setdefault((one.task, one.entry.head.condition), []).append(_Passing(run, one.entry))
    if base is not None:
        threshold = base.success_at
        others: dict[tuple[str, str], list[_Passing]] = {}
        for entry in base.entries:
            if entry.forgotten is None and _state(entry, threshold) == "passed":
                others.setdefault((task_name(entry.head), entry.head.condition), []).append(_Passing(base, entry))
        found = others | found
    return found
