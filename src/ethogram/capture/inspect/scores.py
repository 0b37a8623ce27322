"""Scores of an Inspect sample: the outcome, the labels, and why there is none."""

from __future__ import annotations

from typing import Any, get_args

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.inspect.log import Log
from ethogram.capture.inspect.places import OWN
from ethogram.capture.parse import as_dict, as_float, as_name, as_text, to_json
from ethogram.traces import REASONS, LabelSource, Missing, Outcome, Scored, cut_whole

_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
_PLACEHOLDER = "88F74D2C"  # the name of the one score in logs that did not name it
_SOURCES: tuple[str, ...] = get_args(LabelSource)


def scores_of(sample: dict[str, Any], log: Log) -> dict[str, dict[str, Any]]:
    """Scores by name; logs that held a single score did not name it."""
    scores = as_dict(sample.get("scores"))
    if not scores and sample.get("score") is not None:
        scores = {_PLACEHOLDER: sample["score"]}
    first = log.scorers[0] if log.scorers else "score"
    return {first if n == _PLACEHOLDER else n: as_dict(s) or {"value": s} for n, s in scores.items() if s is not None}


def sample_outcome(
    scores: dict[str, dict[str, Any]], error: str | None, sample: dict[str, Any], log: Log, own: dict[str, Any]
) -> Outcome:
    """The first score that is one value decides; one that cannot be a number leaves the sample unscored.

    `own` is what our own writer left: which score decided, or why none did.
    """
    first = [own["by"]] if own.get("by") in scores else []
    for name in dict.fromkeys((*first, *log.scorers, *scores)):
        value = scores.get(name, {}).get("value")
        if name not in scores or isinstance(value, dict | list) or own.get("missing"):
            continue
        number = grade(value)
        if number is not None:
            return Scored(number, as_name(own.get("scorer", name)))
        break
    if own.get("missing") in REASONS:
        return Missing(own["missing"], as_text(own.get("detail")))
    if error:
        return Missing("infrastructure.other", cut_whole(error, 500))
    if log.status == "cancelled" or as_dict(sample.get("limit")).get("type") == "operator":
        return Missing("cancelled")
    return Missing("unscored")


def grade(value: Any) -> float | None:
    """A score as a number: Inspect's letters, words for true and false, numbers."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        return _GRADES.get(value, _WORDS.get(value.lower(), as_float(value)))
    return as_float(value)


def add_labels(trace: TraceBuilder, scores: dict[str, dict[str, Any]], sample: dict[str, Any]) -> None:
    """A label for every score, and for every value of a score that has several."""
    for name, score in scores.items():
        value, why = score.get("value"), score.get("explanation")
        own = as_dict(as_dict(score.get("metadata")).get(OWN))
        if own.get("only"):  # our writer needed a score to say the outcome: there was no label
            continue
        many: dict[str, Any] = {name: value}
        if isinstance(value, dict):
            many = {f"{name}.{k}": v for k, v in value.items()}
        elif isinstance(value, list):
            many = {f"{name}.{i}": v for i, v in enumerate(value)}
        for label, one in many.items():
            trace.label(
                as_name(own.get("name")) or label,
                one if one is None or isinstance(one, bool | int | float | str) else to_json(one),
                by=as_name(own.get("by")) or name,
                source=own["source"] if own.get("source") in _SOURCES else "import",
                why=None if why is None else as_text(why),
                span_id=as_name(own.get("span_id")) or None,
            )
    invalid = as_dict(sample.get("invalidation"))
    if invalid:
        trace.label(
            "invalidated", True, by=as_name(invalid.get("author")) or "log", why=as_text(invalid.get("reason")) or None
        )
