"""The tasks that moved as `gate` and `compare` print them."""

from __future__ import annotations

from rich.console import Console

from ethogram.lab.gate.moved import MovedTask
from ethogram.show.moved import SHOWN, attempt_words, first_difference, heading, passes_text, reason
from ethogram.store import short_id

from .out import plural, table


def print_moved(out: Console, tasks: list[MovedTask]) -> None:
    """Two lines per task: the failing attempt with its reason, a passing one with the first step that differs."""
    if not tasks:
        return
    out.print()
    columns = ["task", "base", "cand", ", ".join(attempt_words(tasks)), "reason, first step that differs"]
    out.print(table(columns, [_row(t) for t in tasks[:SHOWN]], title=heading(tasks)))
    if len(tasks) > SHOWN:
        out.print(f"… and {plural(len(tasks) - SHOWN, 'more task')}; --json lists all", style="dim")


def _row(task: MovedTask) -> list[str]:
    passing = task.step.passing_trace if task.step else None
    traces = [short_id(x) for x in (task.trace, passing) if x]
    shown = [x for x in (reason(task), first_difference(task.step)) if x]
    return [task.task, passes_text(task.base), passes_text(task.candidate), "\n".join(traces), "\n".join(shown)]
