"""Attempts to read first where no rule explains them: where to begin, what was said of them, what to compare with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import msgspec

from ethogram.errors import EthogramError
from ethogram.reading.task_names import task_name
from ethogram.store import Run
from ethogram.traces import Scored

from .results import WhyResult, WhyTrace

MOST_READ = 4
MOST_WORDS = 240


class ReadFirst(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that no established cause explains: the step to begin at, what the verifier said, its answer, and an
    attempt at the same task that passed."""

    trace: str
    task: str
    attempt: int
    step: int | None
    said: str
    answer: str
    passing: str | None


def read_first(run: Run, told: WhyResult, most: int = MOST_READ) -> list[ReadFirst]:
    """Unexplained attempts that no lead leads to, one of each task before a second one.

    Example: `[one.trace for one in read_first(run, why(run))]`
    """
    shown = {example.trace for cause in (*told.causes, *told.leads) for example in cause.examples}
    said = {e.trace: e.text or s.said for s in told.said for e in s.examples}
    passing: dict[tuple[str, str], str] = {}
    for entry in run.entries:
        outcome = entry.head.outcome
        if isinstance(outcome, Scored) and outcome.success(run.success_at) and not entry.forgotten:
            passing.setdefault((task_name(entry.head), entry.head.condition), entry.head.trace_id)
    found = []
    for one in list(_by_turns(t for t in told.traces if not t.explained and t.trace not in shown))[:most]:
        entry = run.find(one.trace)
        answer = ""
        with suppress(EthogramError):  # sealed: the place to read is told all the same
            if entry.head.answer is not None:
                answer = run.texts.get(entry.head.answer, entry.texts)[:MOST_WORDS]
        found.append(
            ReadFirst(
                trace=one.trace,
                task=one.task,
                attempt=one.attempt,
                step=one.step,
                said=said.get(one.trace, ""),
                answer=answer,
                passing=passing.get((one.task, entry.head.condition)),
            )
        )
    return found


def _by_turns(traces: Iterator[WhyTrace]) -> Iterator[WhyTrace]:
    """One of each task, then the second of each, and so on."""
    by_task: dict[str, list[WhyTrace]] = {}
    for trace in traces:
        by_task.setdefault(trace.task, []).append(trace)
    for turn in range(max(map(len, by_task.values()), default=0)):
        yield from (own[turn] for own in by_task.values() if turn < len(own))
