"""The tasks that moved, in words: the same for the terminal, Markdown, JUnit and annotations."""

from __future__ import annotations

from ethogram.display.shorten import shortened
from ethogram.lab.gate.moved import Counted, FirstDifference, MovedTask
from ethogram.trace import short_id

SHOWN = 10
"""How many tasks are shown; the rest is counted."""
MOST_REASON = 160


def passes_text(arm: Counted) -> str:
    """Passes of attempts, or the mean of another metric."""
    if arm.passed is not None:
        return f"{arm.passed}/{arm.of}"
    return "–" if arm.mean is None else f"{arm.mean:.4g}"


def reason(task: MovedTask) -> str:
    """The message of the check on the failing attempt, shortened."""
    why = task.why or ""
    return shortened(why, MOST_REASON)


def first_difference(step: FirstDifference | None) -> str:
    """Where the failing attempt first does something else than the passing one."""
    if step is None:
        return ""
    if step.at is None:
        return step.why or ""
    return f"step {step.at}: {step.failing or 'ended'}, not {step.passing or 'the end'}"


def sentence(task: MovedTask) -> str:
    """A task in one line."""
    words = [f"{passes_text(task.base)} → {passes_text(task.candidate)}"]
    if task.q is not None:
        words.append(f"q {task.q:.2g}")
    bad, good = attempt_words([task])
    if task.trace:
        words.append(f"{bad} {short_id(task.trace)}")
    if task.step is not None and task.step.passing_trace:
        words.append(f"{good} {short_id(task.step.passing_trace)}")
    return "; ".join(x for x in (", ".join(words), reason(task), first_difference(task.step)) if x)


def attempt_words(tasks: list[MovedTask]) -> tuple[str, str]:
    """What the two attempts of a task are: of a metric other than success, an attempt may be worse and yet pass."""
    return ("failing", "passing") if all(t.base.passed is not None for t in tasks) else ("worst", "best")


def heading(tasks: list[MovedTask]) -> str:
    """The title of the list: tasks that moved, or the largest drops where none is significant alone."""
    return "tasks that moved" if any(t.moved for t in tasks) else "largest drops (none significant alone)"
