"""Names of tasks, and their order."""

from __future__ import annotations

from collections.abc import Iterable

from ethogram.traces import Head, short_id

NO_TASK = "unknown:"
"""Begins the name of a trace that names no task: it is a task of its own, for nobody knows which traces share one."""


def natural(task: str) -> tuple[int, int, str]:
    """Tasks that are numbers in the order of numbers, then the others by name."""
    return (0, int(task), "") if task.isdecimal() and len(task) < 400 else (1, 0, task)


def task_name(head: Head) -> str:
    """The task of a trace; a trace that names none is its only attempt at a task of its own."""
    return head.task or NO_TASK + short_id(head.trace_id)


def without_task(tasks: Iterable[str]) -> str | None:
    """A sentence about the tasks that are traces without a task, if there are any."""
    count = sum(task.startswith(NO_TASK) for task in tasks)
    if not count:
        return None
    return (
        f"{count} traces name no task: each counts as the only attempt at a task of its own; "
        "say which task they attempt: import them with --task-from, or send live spans with ethogram.task"
    )
