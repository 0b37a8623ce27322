"""Two traces side by side: the steps that differ, from which step on, and the distance against the noise floor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal

import msgspec

from ethogram.display import Drawing, Presentation
from ethogram.errors import BadUsage
from ethogram.measures.divergence import Divergence, first_aligned, repeat_distances
from ethogram.measures.manifestation import NO_STEPS, ControlFlow, Manifestation, ManifestationGroup, turns
from ethogram.measures.noise_floor import AgainstFloor, NoiseFloor, against_floor, noise_floor, warning
from ethogram.measures.sequence import Reading, read_positions
from ethogram.reading.samples import need_trace
from ethogram.reading.task_names import task_name
from ethogram.reading.trace_words import WordsPart, message_words, span_words
from ethogram.reading.traces import find_trace
from ethogram.result import Result
from ethogram.statistics.distance import Alphabet
from ethogram.store import Entry, Home, Run
from ethogram.store.lake import FORK, REPLAY
from ethogram.traces import Missing, Scored, Totals, Trace, metered
from ethogram.traces.signature import traxr_signature

from .pair import PairSide, compare_pair
from .pair_fields import EditCounts, Overhead, pair_fields
from .step_sequences import (
    ReadingOptions,
    final_answer,
    load_readings,
    passed,
    tells_of_crash,
    unusable,
    usual_signature,
)

MOST_RERUNS = 50
"""How many re-runs of the first trace are read for its floor; more would only cost time."""


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two traces."""

    trace_id: str
    run: str | None
    task: str
    attempt: int
    condition: str
    agent: str
    score: float | None
    passed: bool | None
    missing: str | None
    answer: str | None
    crashed: bool
    steps: int
    turns: int
    tool_calls: int
    tokens: Totals


class StepRow(msgspec.Struct, frozen=True, kw_only=True):
    """One position of the alignment: `=` the same, `~` another step, `-` only in the first, `+` only in the second."""

    sign: Literal["=", "~", "+", "-"]
    first: int | None
    second: int | None
    first_signature: str | None
    second_signature: str | None
    lane: str = ""


class TraxrFirst(msgspec.Struct, frozen=True, kw_only=True):
    """The first divergence as traxr counts it: in the alignment that is backtracked whole, without the prefix first."""

    aligned_index: int
    aligned_length: int
    position: float
    sign: Literal["=", "~", "+", "-"]
    type: str
    first_index: int | None
    second_index: int | None
    step: int | None


class WordsAt(msgspec.Struct, frozen=True, kw_only=True):
    """What one side says at the first place that differs: its position, the signature and the words.

    `goes_on` is true where the other side alone has a step there, and this is the step that follows.
    """

    at: int
    signature: str
    parts: list[WordsPart]
    goes_on: bool = False


class DiffResult(Result, kw_only=True):
    """Two traces compared; `t_star` is null where nothing differs, `within_noise_floor` where no floor was measured.

    Where neither trace has a step, distance, edits and control flow are null and `unavailable` says why. `words` are
    those of both sides at the first step that differs, or, where all steps are alike, at the first whose words differ
    (`words_differ`); null for a side that has ended there.
    """

    presentation: ClassVar[Presentation] = Presentation(
        headline="the traces part at step {t_star}; distance {d_norm}",
        facts=("manifestation", "group", "rule", "answer_changed", "recovered", "within_noise_floor", "token_overhead"),
        columns=("sign", "first", "second", "first_signature", "second_signature", "lane"),
        drawing=Drawing("edit", "steps", "steps", "bars", source="edits"),
    )

    first: Side
    second: Side
    reading: str
    signature: str
    lanes: int
    d_norm: float | None
    t_star: int | None
    t_star_norm: float | None
    edits: EditCounts | None
    control_flow: ControlFlow | None
    control_flow_changes: int | None
    answer_changed: bool | None
    recovered: bool | None
    manifestation: Manifestation
    group: ManifestationGroup
    rule: str
    token_overhead: Overhead
    within_noise_floor: bool | None
    tail_probability: float | None
    noise_floor: NoiseFloor
    traxr: TraxrFirst | None
    steps: list[StepRow]
    warnings: list[str]
    unavailable: str | None = None
    words: tuple[WordsAt | None, WordsAt | None] | None = None
    words_differ: bool = False

    def rows(self) -> list[dict[str, Any]]:
        """One row per aligned step."""
        return [msgspec.to_builtins(s) for s in self.steps]


class _Found(msgspec.Struct):
    """A trace and where it is stored, not read yet."""

    trace: Trace
    run: Run | None = None
    entry: Entry | None = None


class _One(msgspec.Struct):
    trace: Trace
    reading: Reading
    run: Run | None
    entry: Entry | None
    answer: str | None
    sealed: bool

    @property
    def crashed(self) -> bool:
        return any(map(tells_of_crash, self.trace.labels))


def diff(
    trace_a: Trace | str,
    trace_b: Trace | str,
    *,
    run: str | None = None,
    against: str | None = None,
    reading: str = "steps",
    signature: str | Callable[..., str] | None = None,
    lanes: bool = True,
    full: bool = False,
    home: Home | str | None = None,
) -> DiffResult:
    """Compare two traces step by step; the first is the baseline.

    `trace_a` and `trace_b` are traces, ids or the start of ids; ids are looked for in all runs, or in `run` (and
    `against`, for the second). `reading` is `steps` or `messages`, `lanes` aligns concurrent agents lane by lane.
    `full` also gives the words at the first step that differs.

    The noise floor is taken from repeats of the first trace's task in its own run, under its condition and agent. Two
    traces of traxr are compared by its own signature unless another is named, all others by the structural one.

    Gives the distance, the first step that differs, the alignment and how the difference showed. Raises `NotFound` for
    a trace that does not exist, `BadUsage` for the start of several ids.

    Example: `diff("4f1c22", "9ab01d").d_norm`
    """
    both = [_find(trace_a, run, home), _find(trace_b, against or run, home)]
    usual = usual_signature([f.entry for f in both if f.entry is not None], reading)
    how = ReadingOptions(reading=reading, signature=usual if signature is None else signature, by_lane=lanes)
    first, second = (_read(f, how) for f in both)
    facts = compare_pair(_run(first), _run(second), by_lane=lanes)
    found = facts.divergence
    floor, beside = _floor(first, second, found, how)
    compat = first_aligned(first.reading, second.reading)
    known = found.d_norm is not None
    steps = step_rows(first.reading, second.reading, found)
    words, same_steps = _first_words(first, second, steps, how) if full else (None, False)
    return DiffResult(
        first=_side(first, second.reading),
        second=_side(second, first.reading),
        reading=reading,
        signature=how.name,
        lanes=found.lanes,
        **pair_fields(facts, beside),
        control_flow=facts.flow if known else None,
        noise_floor=floor,
        traxr=None
        if compat is None
        else TraxrFirst(
            aligned_index=compat.at,
            aligned_length=compat.length,
            position=compat.position,
            sign=compat.sign,
            type=compat.type,
            first_index=compat.first,
            second_index=compat.second,
            step=compat.turn,
        ),
        steps=steps,
        warnings=[*_warnings(first, second), *([told] if known and (told := warning(floor)) else [])],
        unavailable=None if known else NO_STEPS,
        words=words,
        words_differ=same_steps,
    )


def pair_words(
    trace_a: str,
    trace_b: str,
    at: tuple[int | None, int | None],
    *,
    run: str | None = None,
    against: str | None = None,
    home: Home | str | None = None,
) -> tuple[list[WordsPart], list[WordsPart]]:
    """The words of two traces at one position each, as `diff` numbers them (`StepRow.first`, `.second`).

    A side without a position has no words. Raises `NotFound` for a trace that does not exist, `BadUsage` for a position
    that it does not have.

    Example: `pair_words("4f1c22", "9ab01d", (3, 4))`
    """
    both = [_find(trace_a, run, home), _find(trace_b, against or run, home)]
    usual = usual_signature([f.entry for f in both if f.entry is not None], "steps")
    how = ReadingOptions(reading="steps", signature=usual)
    parts: list[list[WordsPart]] = []
    for found, place in zip(both, at, strict=True):
        words = _PositionWords(found.trace, how)
        if place is not None and not 0 <= place < len(words):
            raise BadUsage(f"trace {found.trace.head.trace_id} has steps 0 to {len(words) - 1}, no step {place}")
        parts.append([] if place is None else words.parts(place))
    return parts[0], parts[1]


def _first_words(
    first: _One, second: _One, steps: list[StepRow], how: ReadingOptions
) -> tuple[tuple[WordsAt | None, WordsAt | None] | None, bool]:
    """The words of both sides where they first differ, and whether only the words do."""
    one, two = _PositionWords(first.trace, how), _PositionWords(second.trace, how)
    place = next((i for i, row in enumerate(steps) if row.sign != "="), None)
    if place is not None:
        mine = _words_from([(r.first, r.first_signature) for r in steps[place:]], one)
        return (mine, _words_from([(r.second, r.second_signature) for r in steps[place:]], two)), False
    for row in steps:
        if row.first is not None and row.second is not None and one.parts(row.first) != two.parts(row.second):
            here = _words_from([(row.first, row.first_signature)], one)
            return (here, _words_from([(row.second, row.second_signature)], two)), True
    return None, False


def _words_from(rows: list[tuple[int | None, str | None]], words: _PositionWords) -> WordsAt | None:
    for number, (at, sign) in enumerate(rows):
        if at is not None:
            return WordsAt(at=at, signature=sign or "", parts=words.parts(at), goes_on=number > 0)
    return None


class _PositionWords:
    """The words at a position of a reading, whichever it is."""

    def __init__(self, trace: Trace, how: ReadingOptions) -> None:
        self.trace = trace
        self.messages = trace.messages if how.reading == "messages" else None
        self.spans = sorted(trace.spans, key=lambda s: s.seq) if how.function() is traxr_signature else trace.steps

    def __len__(self) -> int:
        return len(self.spans if self.messages is None else self.messages)

    def parts(self, at: int) -> list[WordsPart]:
        if self.messages is not None:
            return list(message_words(self.messages[at]))
        return list(span_words(self.trace, self.spans[at]))


def step_rows(first: Reading, second: Reading, found: Divergence) -> list[StepRow]:
    """The alignment with the signatures on both sides."""
    rows = []
    for sign, i, j in found.alignment:
        lane = first.lanes[i] if i is not None else second.lanes[j] if j is not None else ""
        rows.append(
            StepRow(
                sign=sign,
                first=i,
                second=j,
                first_signature=None if i is None else first.signatures[i],
                second_signature=None if j is None else second.signatures[j],
                lane=lane,
            )
        )
    return rows


def _find(wanted: Trace | str, run: str | None, home: Home | str | None) -> _Found:
    if isinstance(wanted, Trace):
        return _Found(wanted)
    place, entry = find_trace(wanted, run=run, home=home)
    need_trace(entry, "diff")
    return _Found(place.trace(entry), place, entry)


def _read(found: _Found, how: ReadingOptions) -> _One:
    reading = read_positions(found.trace, how.reading, how.function())
    if found.run is None or found.entry is None:
        return _One(found.trace, reading, None, None, found.trace.answer, False)
    answer, known = final_answer(found.run, found.entry)
    return _One(found.trace, reading, found.run, found.entry, answer, not known)


def _run(one: _One) -> PairSide:
    outcome = passed(one.run, one.trace.head.outcome)
    return PairSide(
        one.reading, one.answer, metered(one.trace.head, one.trace.totals), not one.sealed, one.crashed, outcome
    )


def _side(one: _One, other: Reading) -> Side:
    head = one.trace.head
    return Side(
        trace_id=head.trace_id,
        run=one.run.name if one.run else None,
        task=head.task,
        attempt=head.attempt,
        condition=head.condition,
        agent=head.agent,
        score=head.outcome.value if isinstance(head.outcome, Scored) else None,
        passed=passed(one.run, head.outcome),
        missing=head.outcome.reason if isinstance(head.outcome, Missing) else None,
        answer=one.answer,
        crashed=one.crashed,
        steps=len(one.reading),
        turns=turns(one.reading, other),
        tool_calls=one.reading.count("tool"),
        tokens=one.trace.totals,
    )


def _floor(first: _One, second: _One, found: Divergence, how: ReadingOptions) -> tuple[NoiseFloor, AgainstFloor]:
    """The first trace's distances to its re-runs, and what they say of the second."""
    reruns = [] if first.run is None or first.entry is None else _reruns(first.run, first.entry, second)
    if not reruns or first.run is None:
        return NoiseFloor(runs=1, tasks=1, pairs=0, reruns=0), AgainstFloor()
    loaded = load_readings(first.run, how, only={e.head.trace_id for e in reruns})
    again = [e.reading for episodes in loaded.tasks.values() for e in episodes]
    d = repeat_distances([first.reading, *again], Alphabet(), by_lane=how.by_lane).d_norm
    return noise_floor([d]), against_floor(found.d_norm, d[0, 1:])


def _reruns(run: Run, entry: Entry, second: _One) -> Sequence[Entry]:
    if run.info.kind in (FORK, REPLAY):  # one record, repeated, tells nothing about variation
        return []
    mine = entry.head
    found = [
        e
        for e in run.entries
        if (task_name(e.head), e.head.condition, e.head.agent) == (task_name(mine), mine.condition, mine.agent)
        and e.head.trace_id not in (mine.trace_id, second.trace.head.trace_id)
        and unusable(e) is None
    ]
    return sorted(found, key=lambda e: (e.head.attempt, e.head.trace_id))[:MOST_RERUNS]


def _warnings(first: _One, second: _One) -> list[str]:
    said = []
    one, two = first.trace.head, second.trace.head
    if one.trace_id == two.trace_id:
        said.append("this is one trace, compared with itself")
    if one.task != two.task:
        said.append(f"these are different tasks ({one.task!r} and {two.task!r}): they need not be alike at all")
    for name, side in (("first", first), ("second", second)):
        if side.sealed:
            said.append(f"the {name} trace's answer is sealed and its key is not at hand: answers are not compared")
        if side.crashed:
            said.append(f"the {name} trace ended in the agent's crash: what it left is not an answer")
        if not len(side.reading):
            said.append(f"the {name} trace has no steps")
        if isinstance(side.trace.head.outcome, Missing) and side.trace.head.outcome.reason != "unscored":
            said.append(f"the {name} trace was cut short ({side.trace.head.outcome.reason}): not the agent's own doing")
    return said
