"""Which steps of a trace an item of a rubric asks about; the same for every judge and for people."""

from __future__ import annotations

from ethogram.traces import Trace

from .changing_tools import Changing
from .facts import known_facts
from .finding import Facts
from .rubric import AppliesTo, Rubric
from .step_words import StepWords, TraceWords


def asked_steps(words: TraceWords, applies_to: AppliesTo, facts: Facts | None = None) -> list[int]:
    """The positions of the steps that an item with this `applies_to` asks about, in order.

    `facts` declare the tools that change the world; where nobody does, names decide. Expected calls play no part.
    """
    if applies_to == "end":
        last = len(words.steps) - 1
        return [last] if last >= 0 else []
    changes = _changes(words.trace, facts) if applies_to == "changes" else None
    return [step.at for step in words.steps if _is_asked(step, applies_to, changes)]


def asked_of(words: TraceWords, rubric: Rubric, facts: Facts | None = None) -> dict[str, list[int]]:
    """The steps that each item of a rubric asks about, by the name of the item."""
    return {item.name: asked_steps(words, item.applies_to, facts) for item in rubric.items}


def _changes(trace: Trace, facts: Facts | None) -> Changing:
    known = known_facts(trace) if facts is None else facts
    return Changing(known, trace.head.origin.format if trace.head.origin else "")


def _is_asked(step: StepWords, applies_to: AppliesTo, changes: Changing | None) -> bool:
    if applies_to == "steps":
        return True
    if applies_to == "replies":
        return step.span.kind == "model"
    if not step.is_call:
        return False
    if applies_to == "arguments":
        return step.arguments.strip() not in ("", "{}")
    if applies_to == "results":
        return step.returned
    return changes is None or changes(step.name)
