"""One task: where its attempts diverge, how each branch ends, the value of each choice, and forks that tested it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ethogram.estimate import Estimate
from ethogram.questions.fork.stored_forks import StoredFork, stored_forks
from ethogram.reading.task_names import natural, task_name
from ethogram.statistics.interval import wilson
from ethogram.store import Home, Run, home_of
from ethogram.traces import Missing, Scored

from .decisions import DecisionPoint, Stem, branching
from .question import read_why
from .results import Cause
from .run_findings import AllFindings, EventRow


class TreeBranch(msgspec.Struct, frozen=True, kw_only=True):
    """Steps that some attempts have in common, in words, after a branching; and how often those attempts succeed.

    `depth` counts branchings before it, `parent` is its place in the list, `at` the position of its first step. `rate`
    is over the scored attempts that came here; `traces` are all that did, `ended` those whose last step is here.
    """

    depth: int
    parent: int | None
    at: int
    steps: list[str]
    scored: int
    passed: int
    rate: Estimate
    traces: list[str]
    ended: list[str]


class TaskAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt: `passed` is None without a score, and `missing` says why; `step` is the one to read first."""

    trace: str
    attempt: int
    condition: str
    agent: str
    passed: bool | None
    score: float | None
    missing: str | None
    steps: int
    step: int | None
    classes: list[str]


class TaskReading(msgspec.Struct, frozen=True, kw_only=True):
    """The attempts at one task. `branches` are in the order of a tree that is read from top to bottom; `left_out`
    counts those beyond the first few hundred. `contrast` says on what decision points and causes rest."""

    run: str
    task: str
    rate: Estimate
    attempts: list[TaskAttempt]
    branches: list[TreeBranch]
    left_out: int
    decision_points: list[DecisionPoint]
    causes: list[Cause]
    contrast: str
    forks: list[StoredFork]
    missing: dict[str, int]
    notes: list[str]
    previous: str | None
    next: str | None


def read_task(run: str | Run, task: str, *, level: float = 0.95, home: Home | str | None = None) -> TaskReading:
    """The tree of a task's attempts with its decision points and the forks of its traces.

    Raises `NotFound` for a run or a task that does not exist.
    """
    lake = home_of(home)
    reading = read_why(run, task=task, level=level, home=lake)
    found, told = reading.found, reading.result
    stems, left_out = branching(found.paths)
    names = sorted({task_name(e.head) for e in reading.run.entries}, key=natural)
    at = names.index(task)
    return TaskReading(
        run=reading.run.name,
        task=task,
        rate=_rate(found.rows, level),
        attempts=sorted(map(_attempt, found.rows, found.paths), key=lambda a: (a.condition, a.agent, a.attempt)),
        branches=[_branch(stem, found, level) for stem in stems],
        left_out=left_out,
        decision_points=told.decision_points,
        causes=told.causes,
        contrast=told.contrast,
        forks=stored_forks(lake, {row.entry.head.trace_id for row in found.rows}),
        missing=told.missing,
        notes=told.notes,
        previous=names[at - 1] if at else None,
        next=names[at + 1] if at + 1 < len(names) else None,
    )


def _branch(stem: Stem, found: AllFindings, level: float) -> TreeBranch:
    rows = [found.rows[i] for i in stem.rows]
    return TreeBranch(
        depth=stem.depth,
        parent=stem.parent,
        at=stem.at,
        steps=[found.words[sign] for sign in stem.steps],
        scored=sum(row.failed is not None for row in rows),
        passed=sum(row.failed is False for row in rows),
        rate=_rate(rows, level),
        traces=[row.entry.head.trace_id for row in rows],
        ended=[found.rows[i].entry.head.trace_id for i in stem.ended],
    )


def _rate(rows: Sequence[EventRow], level: float) -> Estimate:
    """Attempts at one task are draws of one rate, whatever branch they take."""
    scored = [row for row in rows if row.failed is not None]
    absent = {"unscored": len(rows) - len(scored)} if len(scored) < len(rows) else {}
    if not scored:
        return Estimate(value=None, level=level, of="attempts", missing=absent, why="no attempt has a score")
    passed = sum(row.failed is False for row in scored)
    ends = wilson(passed, len(scored), level)
    return Estimate(
        value=passed / len(scored),
        low=float(ends.low),
        high=float(ends.high),
        level=level,
        method="wilson",
        n=len(scored),
        of="attempts",
        missing=absent,
    )


def _attempt(row: EventRow, path: Sequence[str]) -> TaskAttempt:
    head, outcome = row.entry.head, row.entry.head.outcome
    return TaskAttempt(
        trace=head.trace_id,
        attempt=head.attempt,
        condition=head.condition,
        agent=head.agent,
        passed=None if row.failed is None else not row.failed,
        score=outcome.value if isinstance(outcome, Scored) else None,
        missing=outcome.reason if isinstance(outcome, Missing) else None,
        steps=len(path),
        step=row.step,
        classes=list(row.classes),
    )
