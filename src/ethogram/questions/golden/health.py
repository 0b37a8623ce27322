"""Results of stored runs on every task of a golden set: from ledgers, and from traces only where verdicts differ."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ethogram.checks import KINDS
from ethogram.plans import Check, Suite, Task
from ethogram.reading.episode_costs import kept_costs
from ethogram.store import Entry, Home, Run
from ethogram.store.lake import FORK, REPLAY, TASK_DIGESTS
from ethogram.traces import END_STATE, Ref, Scored, digest

from .task_health import TaskRuns


class RanTasks(NamedTuple):
    """A stored run, and the tasks of the set that it ran exactly as they are now."""

    run: Run
    tasks: frozenset[str]


class _Attempt(NamedTuple):
    entry: Entry
    run: Run
    passed: bool
    place: int
    usd: float | None


def runs_with(suite: Suite, home: Home, chosen: Sequence[str] = ()) -> list[RanTasks]:
    """Runs that hold samples of tasks of this suite with the content that they have now, the oldest first.

    `chosen` are runs to look at instead of all those of the home.
    """
    return runs_of_tasks(suite.task_digests(), home, chosen)


def runs_of_tasks(now: Mapping[str, str], home: Home, chosen: Sequence[str] = ()) -> list[RanTasks]:
    """Runs that hold samples of tasks with these digests, the oldest first."""
    found = []
    for run in [home.resolve(name) for name in chosen] if chosen else home.runs():
        if run.info.kind in (REPLAY, FORK):
            continue
        then = run.info.plan.get(TASK_DIGESTS)
        same = {t for t, known in now.items() if isinstance(then, dict) and then.get(t) == known}
        if same:
            found.append(RanTasks(run, frozenset(same)))
    return found


def task_runs(suite: Suite, ran: Sequence[RanTasks]) -> list[TaskRuns]:
    """Passes, use and contradictions of every task; only attempts without a condition count."""
    attempts = _attempts(ran)
    return [
        _of_task(task.id, attempts[task.id], len(ran), _contradictions(task, attempts[task.id])) for task in suite.tasks
    ]


def counted_runs(tasks: Iterable[str], ran: Sequence[RanTasks]) -> list[TaskRuns]:
    """Passes and use of tasks whose definition is not at hand; contradicting verdicts are not looked for."""
    attempts = _attempts(ran)
    return [_of_task(task, attempts[task], len(ran), (0, 0)) for task in tasks]


def _attempts(ran: Sequence[RanTasks]) -> dict[str, list[_Attempt]]:
    attempts: dict[str, list[_Attempt]] = defaultdict(list)
    for place, (run, tasks) in enumerate(ran):
        threshold, costs = run.success_at, kept_costs(run)
        for entry in run.entries:
            head = entry.head
            if head.task in tasks and not head.condition and isinstance(head.outcome, Scored):
                usd = costs[head.trace_id].cost_usd
                attempts[head.task].append(_Attempt(entry, run, head.outcome.success(threshold), place, usd))
    return attempts


def _of_task(task: str, attempts: Sequence[_Attempt], runs: int, contradictions: tuple[int, int]) -> TaskRuns:
    place = np.array([a.place for a in attempts], dtype=np.int64)
    passed = np.array([a.passed for a in attempts], dtype=np.float64)
    alike, contradicted = contradictions
    return TaskRuns(
        task=task,
        passed=np.bincount(place, weights=passed, minlength=runs).astype(np.float64),
        attempts=np.bincount(place, minlength=runs).astype(np.float64),
        usd=_column([a.usd for a in attempts]),
        seconds=_column([a.entry.head.seconds for a in attempts]),
        alike=alike,
        contradicted=contradicted,
    )


def _column(values: Sequence[float | None]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([np.nan if v is None else v for v in values], dtype=np.float64)


def _contradictions(task: Task, attempts: Sequence[_Attempt]) -> tuple[int, int]:
    """How many attempts ended as another one did, and how many of these were judged otherwise than another one.

    What ended alike: the same answer; for checks that see more than the answer also the same calls with the same
    results, and for tasks with a workspace the same files. Where that was not recorded, an end is like no other.
    """
    answers: dict[Ref, list[_Attempt]] = defaultdict(list)
    for attempt in attempts:
        if attempt.entry.head.answer is not None:
            answers[attempt.entry.head.answer].append(attempt)
    alike = contradicted = 0
    with_files = bool(task.files or task.repository) or any(_layer(c) == "L3" for c in task.checks)
    answer_alone = not with_files and all(_layer(c) == "L0" and c.kind != "custom" for c in task.checks)
    for same in answers.values():
        mixed = len({a.passed for a in same}) > 1
        groups: dict[str, list[_Attempt]] = defaultdict(list)
        for attempt in same:
            # traces are opened only where verdicts differ
            groups["" if answer_alone or not mixed else _end_state(attempt, with_files)].append(attempt)
        for group in groups.values():
            if len(group) > 1:
                alike += len(group)
                contradicted += len(group) if len({a.passed for a in group}) > 1 else 0
    return alike, contradicted


def _layer(check: Check) -> str | None:
    return KINDS[check.kind].layer if check.kind in KINDS else None


def _end_state(attempt: _Attempt, with_files: bool) -> str:
    """What was left: the files, or what the tools were asked and gave; what was not kept is like no other."""
    entry = attempt.entry
    if with_files:
        return str(entry.head.meta.get(END_STATE, entry.head.trace_id))
    if entry.forgotten:
        return str(entry.head.trace_id)
    calls = [
        f"{s.tool or s.name} {s.arguments} {s.result} {s.status}" for s in attempt.run.spans(entry) if s.kind == "tool"
    ]
    return digest("end", *calls)
