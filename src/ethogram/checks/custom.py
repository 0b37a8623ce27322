"""Checks that a suite defines: a function of the evidence, or of the answer and what is expected."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import msgspec

from ethogram.errors import BadInput
from ethogram.loading import named_object

from .checks import CheckScore, Evidence, register
from .settings import Custom


@register("custom")
def custom(evidence: Evidence, settings: dict[str, Any]) -> CheckScore:
    """Call a function of the suite. It returns a bool, a score, (score, why), a Verdict, or None if undecided."""
    rule = msgspec.convert(settings, Custom)
    function = named_object(rule.function, evidence.root)
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise BadInput(f"{rule.function!r} is not a plain function", where=rule.function)
    given = function(evidence) if _takes_one(function) else function(evidence.answer, evidence.expected)
    return verdict_of(given, rule.function)


def _takes_one(function: Callable[..., Any]) -> bool:
    """Whether a function wants the evidence as a whole: it has one parameter that must be given."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [p for p in inspect.signature(function).parameters.values() if p.kind in kinds]
    needed = [p for p in parameters if p.default is inspect.Parameter.empty]
    return len(parameters) == 1 or len(needed) == 1


def verdict_of(given: Any, by: str) -> CheckScore:
    """A verdict from what a function gave back."""
    if isinstance(given, CheckScore):
        score, why = given.score, given.why
    elif isinstance(given, tuple) and len(given) == 2:
        score, why = given
    else:
        score, why = given, ""
    if score is None:
        return CheckScore(None, str(why))
    if not isinstance(score, bool | int | float) or not math.isfinite(score) or not 0 <= score <= 1:
        raise ValueError(f"{by} gave {score!r}; a score is a number from 0 to 1")
    return CheckScore(float(score), str(why))
