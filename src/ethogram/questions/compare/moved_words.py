"""The tasks that moved, in words: the same for the terminal, Markdown, JUnit and annotations."""

from __future__ import annotations

from ethogram.display.shorten import shortened
from ethogram.traces import is_length_stop, short_id

from .moved_tasks import Counted, FirstDifference, MovedTask

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


def first_difference(step: FirstDifference | None, good: str = "passing") -> str:
    """Where the failing attempt first does something else than the passing one, in words where there are words.

    `good` is what the better of the two attempts is called.
    """
    if step is None:
        return ""
    if step.at is None:
        return step.why or ""
    did, other = _did(step.failing), _did(step.passing)
    if did is None or other is None or did == other:
        return f"step {step.at}: {step.failing or 'ended'}; the {good} attempt: {step.passing or 'ended'}"
    subject = "the model " if (step.failing or "").startswith("model:") else ""
    return f"step {step.at}: {subject}{did}; the {good} attempt {other}"


def _did(signature: str | None) -> str | None:
    """What an attempt did at a step, by the step's signature; None where there are no words for it."""
    if signature is None:
        return "ended"
    kind, _, rest = signature.partition(":")
    failed = ":error" in f":{rest}"
    if kind == "tool" and rest and rest.isprintable():
        return f"got an error from tool {rest.removesuffix(':error')}" if failed else f"called tool {rest}"
    if kind == "user":
        return "got words of the user"
    parts = rest.split(":")
    if kind != "model" or len(parts) < 3 or failed or not rest.isprintable():
        return None
    stopped, asked = parts[-2:]
    if asked != "-":
        return f"called {asked.replace(',', ', ')}"
    return f"stopped ({stopped})" if is_length_stop(stopped) else "answered"


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
    return "; ".join(x for x in (", ".join(words), reason(task), first_difference(task.step, good)) if x)


def attempt_words(tasks: list[MovedTask]) -> tuple[str, str]:
    """What the two attempts of a task are: of a metric other than success, an attempt may be worse and yet pass."""
    return ("failing", "passing") if all(t.base.passed is not None for t in tasks) else ("worst", "best")


def heading(tasks: list[MovedTask]) -> str:
    """The title of the list: tasks that moved, or the largest drops where none is significant alone."""
    return "tasks that moved" if any(t.moved for t in tasks) else "largest drops (none significant alone)"
