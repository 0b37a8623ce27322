"""Failure classes set by a person or a judge, which replace those found by rules; with author and reason."""

from __future__ import annotations

from typing import get_args

import msgspec

from ethogram.traces import Label, Trace

from .finding import FailureClass

CLASS_LABEL = "failure_class"
"""The label that holds the classes of a trace, separated by commas."""
NO_CLASS = "none"
"""Says that the failure belongs to no class."""
OVERRIDES = ("hand", "judge")
"""Who may say otherwise than the rules."""


class Override(msgspec.Struct, frozen=True, kw_only=True):
    """The classes that replace those found by rules; they may be empty, and `step` is None for the whole trace."""

    classes: tuple[FailureClass, ...]
    by: str
    why: str
    step: int | None = None


def named_classes(value: str) -> tuple[FailureClass, ...] | None:
    """The classes that a value names; None where it names something else."""
    words = [word.strip() for word in value.split(",")]
    if words == [NO_CLASS]:
        return ()
    known: tuple[FailureClass, ...] = get_args(FailureClass)
    found = [name for word in words for name in known if name == word]
    return tuple(dict.fromkeys(found)) if len(found) == len(words) else None


def class_override(trace: Trace) -> Override | None:
    """The newest label by hand on the class of a trace, or None.

    Raises `KeyError`, or whatever a store raises, where its words are gone or sealed.
    """
    said = [x for x in trace.labels if x.name == CLASS_LABEL and x.source in OVERRIDES]
    for label in reversed(said):
        classes = named_classes(str(label.value))
        if classes is not None:
            why = trace.text(label.why) if label.why is not None else ""
            return Override(classes=classes, by=label.by, why=why, step=step_of_label(trace, label))
    return None


def step_of_label(trace: Trace, label: Label) -> int | None:
    """The step that a label is about."""
    if label.span_id is None:
        return None
    return next((i for i, span in enumerate(trace.steps) if span.span_id == label.span_id), None)
