"""The tasks that moved as `gate` and `compare` print them."""

from __future__ import annotations

from rich.console import Console

from ethogram.questions.compare.moved_tasks import MovedTask
from ethogram.questions.compare.moved_words import (
    SHOWN,
    attempt_words,
    first_difference,
    heading,
    passes_text,
    reason,
)
from ethogram.store import short_id

from .printing import plural, table


def print_moved(out: Console, tasks: list[MovedTask]) -> None:
    """Two lines per task: the failing attempt with its reason, a passing one with the first step that differs."""
    if not tasks:
        return
    out.print()
    bad, good = attempt_words(tasks)
    columns = ["task", "base", "cand", f"{bad} / {good} trace", "check / first difference"]
    out.print(table(columns, [_row(t, good) for t in tasks[:SHOWN]], title=heading(tasks)))
    if len(tasks) > SHOWN:
        out.print(f"… and {plural(len(tasks) - SHOWN, 'more task')}; --json lists all", style="dim")


def _row(task: MovedTask, good: str) -> list[str]:
    passing = task.step.passing_trace if task.step else None
    traces = [short_id(x) for x in (task.trace, passing) if x]
    shown = [x for x in (reason(task), first_difference(task.step, good)) if x]
    return [task.task, passes_text(task.base), passes_text(task.candidate), "\n".join(traces), "\n".join(shown)]
