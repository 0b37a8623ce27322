"""Decisions repeated at each model step with another policy, compared with the recorded ones.

Models are random even where nothing changed, so every step is decided anew twice: by the changed policy, and by the
recorded one as a control. What the control departs by is the noise floor; only what goes beyond it is an effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import numpy as np

from ethogram.estimate import Estimate
from ethogram.measures.behaviour_test import Spread, spread_of
from ethogram.measures.manifestation import prevalence
from ethogram.statistics import exact, stratified
from ethogram.statistics.multiplicity import benjamini_hochberg
from ethogram.traces import Message, canonical_json

Compared = Literal["calls", "names"]
"""What makes two decisions the same: the tools called with their arguments, or the names of the tools alone."""
FALSE_FINDS = 0.10
"""The share of false finds that is borne among the steps that are said to have moved."""

Draws = Sequence[bool | None]
"""For each time that a step was decided anew, whether the decision departed; None where no answer came."""


class StepDraws(msgspec.Struct, frozen=True, kw_only=True):
    """One model step of one trace: how the control and the changed policy decided there."""

    step: int
    control: tuple[bool | None, ...]
    changed: tuple[bool | None, ...]


class TraceDraws(msgspec.Struct, frozen=True, kw_only=True):
    """The model steps of one trace, in order; `length` counts all its steps."""

    task: str
    length: int
    steps: tuple[StepDraws, ...]


class DepartedBy(msgspec.Struct, frozen=True, kw_only=True):
    """The share of traces that had departed by their first, second, … decision."""

    decision: int
    changed: Estimate
    control: Estimate


class Redecision(msgspec.Struct, frozen=True, kw_only=True):
    """How far decisions depart: in how many traces and how soon, and beyond the control by how much.

    `difference` is the share of decisions that depart, changed minus control. `first` and `first_control` are the
    distributions of t*/T, the first departing step over the length of its trace.
    """

    changed: Estimate
    control: Estimate
    difference: Estimate
    first: Spread
    first_control: Spread
    departed_by: list[DepartedBy]


def decision(message: Message, compared: Compared = "calls") -> tuple[Any, ...]:
    """What a model decided, without its words: the tools it called, sorted, or that it answered."""
    if not message.tool_calls:
        return ("answer",)
    if compared == "names":
        return tuple(sorted(call.name for call in message.tool_calls))
    return tuple(sorted((call.name, canonical_json(call.arguments or "{}")) for call in message.tool_calls))


def first_departure(steps: Sequence[StepDraws], arm: Literal["control", "changed"]) -> int | None:
    """The first step at which at least half of the known draws of an arm departed."""
    return next((s.step for s in steps if departs(getattr(s, arm))), None)


def departs(draws: Draws) -> bool:
    """Whether at least half of the known draws departed; never where none is known."""
    known = [d for d in draws if d is not None]
    return bool(known) and 2 * sum(known) >= len(known)


def moved(steps: Sequence[StepDraws]) -> list[bool]:
    """Which steps of a trace the change moved: with one draw each, where it departs and the control does not.

    With several draws, where Fisher's exact test says so after control of the share of false finds over the steps.
    """
    known = [[[d for d in arm if d is not None] for arm in (s.control, s.changed)] for s in steps]
    if all(max(len(one), len(two)) <= 1 for one, two in known):
        return [departs(s.changed) and not departs(s.control) and all(k) for s, k in zip(steps, known, strict=True)]
    counts = np.array([[sum(one), len(one), sum(two), len(two)] for one, two in known], dtype=np.float64).T
    q = benjamini_hochberg(exact.task_tests(*counts).two_sided)
    return [bool(x <= FALSE_FINDS) for x in q]


def redecision(traces: Sequence[TraceDraws], level: float = 0.95) -> Redecision:
    """Departures over traces; tasks are the clusters of every interval."""
    firsts = {arm: [first_departure(t.steps, arm) for t in traces] for arm in ("changed", "control")}
    shares = {
        arm: prevalence([(t.task, _word(at)) for t, at in zip(traces, found, strict=True)], ["departed"], level)
        for arm, found in firsts.items()
    }
    return Redecision(
        changed=_of(shares["changed"]["departed"], "traces"),
        control=_of(shares["control"]["departed"], "traces"),
        difference=_difference(traces, level),
        first=_spread(traces, firsts["changed"]),
        first_control=_spread(traces, firsts["control"]),
        departed_by=_departed_by(traces, level),
    )


def _departed_by(traces: Sequence[TraceDraws], level: float) -> list[DepartedBy]:
    """Traces that were over by then stay as they ended."""
    rows = []
    for n in range(1, max((len(t.steps) for t in traces), default=0) + 1):
        found = {}
        for arm in ("changed", "control"):
            words = [(t.task, _word(first_departure(t.steps[:n], arm))) for t in traces]
            found[arm] = _of(prevalence(words, ["departed"], level)["departed"], "traces")
        rows.append(DepartedBy(decision=n, **found))
    return rows


def _difference(traces: Sequence[TraceDraws], level: float) -> Estimate:
    """The share of decisions that depart, changed minus control: steps decided by both, paired, tasks as clusters."""
    tasks = list(dict.fromkeys(t.task for t in traces))
    rows = [
        (tasks.index(t.task), float(np.mean(one)), float(np.mean(two)))
        for t in traces
        for s in t.steps
        for one, two in [([d for d in s.control if d is not None], [d for d in s.changed if d is not None])]
        if one and two
    ]
    made = Estimate(value=None, level=level, method="paired t over tasks", n=len(tasks), of="tasks")
    if not rows:
        return msgspec.structs.replace(made, why="no step was decided by both")
    where, control, changed = (np.array(column) for column in zip(*rows, strict=True))
    arms = [stratified.sums_of_values(x, where, len(tasks)) for x in (control, changed)]
    found = stratified.difference_between_tasks(arms[0], arms[1], level)
    value, low, high = (float(x) for x in (found.value, found.low, found.high))
    if len(tasks) < 2 or not np.isfinite(low):
        return msgspec.structs.replace(made, value=value, why="one task has no spread to measure by")
    if low == high:
        return msgspec.structs.replace(made, value=value, why="all tasks are alike: there is no spread to measure by")
    return msgspec.structs.replace(made, value=value, low=max(low, -1.0), high=min(high, 1.0))


def _spread(traces: Sequence[TraceDraws], firsts: Sequence[int | None]) -> Spread:
    places = [np.nan if at is None else at / max(t.length, 1) for t, at in zip(traces, firsts, strict=True)]
    return spread_of([np.array(places, dtype=np.float64)])


def _word(at: int | None) -> str:
    return "same" if at is None else "departed"


def _of(estimate: Estimate, of: str) -> Estimate:
    return msgspec.structs.replace(estimate, of=of)
