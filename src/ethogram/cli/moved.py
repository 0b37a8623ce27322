"""The tasks that moved as `gate` and `compare` print them."""

from __future__ import annotations

from rich.console import Console

from ethogram.lab.moved import MovedTask
from ethogram.show.moved import SHOWN, counted, difference, heading, reason, short_id

from .out import plural, table


def print_moved(out: Console, tasks: list[MovedTask]) -> None:
    """A row per task with a failing attempt; nothing where no task moved."""
    if not tasks:
        return
    out.print()
    columns = [heading(tasks), "base", "cand", "failing trace", "what it shows"]
    out.print(table(columns, [_row(t) for t in tasks[:SHOWN]]))
    if len(tasks) > SHOWN:
        out.print(f"… and {plural(len(tasks) - SHOWN, 'more task')}; --json lists all", style="dim")


def _row(task: MovedTask) -> list[str]:
    shown = [x for x in (reason(task), difference(task.step)) if x]
    trace = short_id(task.trace) if task.trace else ""
    return [task.task, counted(task.base), counted(task.candidate), trace, "\n".join(shown)]
