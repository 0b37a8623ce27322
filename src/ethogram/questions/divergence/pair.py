"""One pair: an attempt at a task without a change and one with it, and all comparisons of the two."""

from __future__ import annotations

from typing import Any, NamedTuple

from ethogram.measures.divergence import Divergence, diverge
from ethogram.measures.manifestation import (
    ControlFlow,
    Ends,
    Showing,
    answer_changed,
    classify,
    control_flow,
    recovered,
    token_overhead,
)
from ethogram.measures.sequence import Reading
from ethogram.traces import Totals


class PairSide(NamedTuple):
    """One side of a pair; `answer_known` is false where the answer cannot be read, which is not "no answer".

    What a crashed run left is no answer. `passed` is its outcome, None where it has none.
    """

    reading: Reading
    answer: Any
    totals: Totals
    answer_known: bool = True
    crashed: bool = False
    passed: bool | None = None


class PairFacts(NamedTuple):
    """The facts of a pair; None where unknown. `recovered` is about pairs whose steps differ."""

    divergence: Divergence
    flow: ControlFlow
    answer_changed: bool | None
    recovered: bool | None
    showing: Showing
    token_overhead: float | None


def compare_pair(first: PairSide, second: PairSide, *, by_lane: bool = True) -> PairFacts:
    """Align, count changes of control flow, compare answers and tokens, and name how the change showed up."""
    found = diverge(first.reading, second.reading, by_lane=by_lane)
    flow = control_flow(first.reading, second.reading, found)
    ends = Ends((first.crashed, second.crashed), (first.passed, second.passed))
    known = first.answer_known and second.answer_known and not any(ends.crashed)
    changed = answer_changed(first.answer, second.answer) if known else None
    silent = known and first.answer is not None and second.answer is None
    shown = classify(found.d_norm, flow, changed, null_answer=silent, ends=ends)
    moved = bool(found.d_norm) or flow.total > 0
    back = recovered(changed, ends) if moved else None
    return PairFacts(found, flow, changed, back, shown, token_overhead(first.totals, second.totals))
