"""Everything that rules find in one trace: what the verifier said, how the calls differ from the reference, classes of
failure, events and error templates. Pure, one pass, and blind to the outcome but for what the verifier said."""

from __future__ import annotations

from ethogram.traces import Trace

from .blame import blamed_step
from .classes import class_findings
from .events import event_findings, template_findings
from .facts import known_facts
from .finding import CATEGORIES, FAILURE_CLASSES, Blamed, Category, Facts, FailureClass, Finding
from .loops import loop_findings
from .reference import category_of, reference_findings
from .step_words import TraceWords
from .verifier_messages import verifier_findings

__all__ = [
    "CATEGORIES",
    "FAILURE_CLASSES",
    "Blamed",
    "Category",
    "Facts",
    "FailureClass",
    "Finding",
    "blamed_step",
    "category_of",
    "findings",
    "known_facts",
]


def findings(trace: Trace | TraceWords, success_at: float, facts: Facts | None = None) -> list[Finding]:
    """What rules find in a trace, strongest source first; `known_facts(trace)` where no facts are given.

    A score or check below `success_at` failed. Raises `KeyError` where texts of the trace are gone, and whatever a
    store raises where they are sealed.

    Example: `[f.name for f in findings(trace, run.success_at)]` may be `["check:equals", "loop:search"]`.
    """
    words = trace if isinstance(trace, TraceWords) else TraceWords(trace)
    facts = known_facts(words.trace) if facts is None else facts
    return [
        *verifier_findings(words.trace, success_at),
        *reference_findings(words, facts),
        *class_findings(words, facts),
        *loop_findings(words),
        *event_findings(words, facts),
        *template_findings(words),
    ]
