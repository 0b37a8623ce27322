"""The layer of a verdict: L0 the answer, L1 single tool calls, L2 the steps taken, L3 the state at the end.

A kind of check declares its layer with its settings, and the label of a check names its kind, so labels of any age have
a layer. The score of a foreign log has the layer of what its harness verifies, where that is known.
"""

from __future__ import annotations

import re

from ethogram.checks.settings import KINDS
from ethogram.findings.finding import Category, Facts
from ethogram.findings.reference import category_of, reference_findings
from ethogram.findings.rubric import RUBRIC_LABEL
from ethogram.findings.step_words import TraceWords
from ethogram.traces import Label, Layer, Trace

_HARNESS: dict[str, Layer] = {
    "tau-bench": "L3",
    "tau2": "L3",
    "agentdojo": "L3",
    "openhands": "L3",
    "who-and-when": "L0",
}
"""What the harness of a format verifies: the state of its environment, or the answer."""
_ANSWER_SCORERS = frozenset(
    ("match", "includes", "pattern", "answer", "exact", "f1", "choice", "model_graded_qa", "model_graded_fact")
)
"""Scorers of Inspect that look at the answer; those with other names may look at anything."""
_SUPPLIED = re.compile(r"(csv|label|meta):")


def layer_of_label(label: Label) -> Layer | None:
    """The layer of a label that a check gave, or of a judge's score by a rubric (L2); None where it is neither, or the
    kind of the check is not installed here."""
    if label.source == "judge":
        return "L2" if label.name == RUBRIC_LABEL and label.span_id is None else None
    kind, at, _ = label.by.partition("@")
    if label.source != "verifier" or label.span_id is not None or not at:
        return None
    shape = KINDS.get(kind)
    return shape.layer if shape is not None else None


def layer_of_score(format: str, by: str) -> Layer | None:
    """The layer of a score that came with a foreign log; None where nobody says what was verified.

    Example: `layer_of_score("tau-bench", "reward")` is `"L3"`: the reward compares states of its database.
    """
    if _SUPPLIED.match(by):
        return None
    if format == "inspect":
        return "L0" if by in _ANSWER_SCORERS else "L3" if by.startswith("swe_bench") else None
    return _HARNESS.get(format)


def calls_category(trace: Trace, facts: Facts) -> Category | None:
    """How the calls of a trace differ from the expected ones; None where nothing is expected of them."""
    return category_of(reference_findings(TraceWords(trace), facts)) if facts.expected is not None else None
