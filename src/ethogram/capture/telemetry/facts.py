"""What spans say about their trace (task, outcome, session, …) and the evaluations they carry."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ethogram.capture.builder import TraceBuilder
from ethogram.capture.parse import as_dict, as_float, as_name, as_text
from ethogram.traces import REASONS, LabelSource, Missing, Scored

from .span_attributes import Bag
from .spans import RawEvent

EVALUATION = "gen_ai.evaluation.result"
_SESSION = ("session.id", "gen_ai.conversation.id", "user.id", "traceloop.workflow.name")
_HEAD = ("task", "attempt", "condition", "agent", "seed", "answer", "origin")
_ABOUT_THE_TRACE = (*(f"ethogram.{name}" for name in _HEAD), *_SESSION)
_TRACE_NAMES = frozenset(_ABOUT_THE_TRACE)
_SOURCES: dict[str, LabelSource] = {
    "llm": "judge",
    "human": "hand",
    "code": "heuristic",
    "eval": "judge",
    "annotation": "hand",
    "api": "import",
}
_JUDGED = (("evaluations", "evaluation"), ("annotations", "annotation"), ("trace.evaluations", ""))
_OWN_SOURCES: dict[str, LabelSource] = {
    "import": "import",
    "verifier": "verifier",
    "heuristic": "heuristic",
    "judge": "judge",
    "hand": "hand",
}


class Note(msgspec.Struct, kw_only=True):
    """A label before it has a trace; `whole` ones are about the trace, not the span."""

    name: str
    value: float | bool | str | None
    by: str
    source: LabelSource = "import"
    why: str | None = None
    whole: bool = False
    version: str = "1"
    at_ns: int | None = None


def label_source(kind: Any) -> LabelSource:
    """Who judged, from the word a format has for it."""
    return _SOURCES.get(kind.lower(), "import") if isinstance(kind, str) else "import"


def take_facts(bag: Bag) -> dict[str, Any]:
    """Attributes that are about the trace."""
    facts: dict[str, Any] = {}
    if bag.shape.has(_TRACE_NAMES):
        for key in _ABOUT_THE_TRACE:
            if key in bag:
                facts[key] = bag.rest.pop(key)
    for prefix in ("ethogram.outcome.", "ethogram.meta."):
        if bag.shape.has(prefix):
            facts.update({prefix + k: v for k, v in bag.under(prefix).items()})
    return facts


def apply_facts(trace: TraceBuilder, facts: dict[str, Any]) -> None:
    """Set the head of a trace from what its resource and spans said."""
    trace.task = as_name(facts.get("ethogram.task")) or trace.task
    trace.condition = as_name(facts.get("ethogram.condition")) or trace.condition
    trace.agent = as_name(facts.get("ethogram.agent")) or trace.agent
    trace.attempt = _whole(facts.get("ethogram.attempt"))
    trace.seed = _whole(facts.get("ethogram.seed"))
    if "ethogram.answer" in facts:
        trace.answer = as_text(facts["ethogram.answer"])
    value = as_float(facts.get("ethogram.outcome.value"))
    reason = facts.get("ethogram.outcome.missing")
    if value is not None:
        trace.outcome = Scored(value, as_name(facts.get("ethogram.outcome.by")))
    elif reason in REASONS:
        trace.outcome = Missing(reason, as_name(facts.get("ethogram.outcome.detail")))
    for key, fact in facts.items():
        if key.startswith("ethogram.meta."):
            trace.meta[key.removeprefix("ethogram.meta.")] = fact


def _whole(value: Any) -> int | None:
    """A whole number of any size: seeds have 64 bits."""
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    return int(text) if text.isascii() and text.removeprefix("-").isdigit() and len(text) <= 40 else None


def notes_of(bag: Bag, events: Iterable[RawEvent]) -> tuple[list[Note], list[RawEvent]]:
    """Evaluations in the attributes and events of a span, and the events that are none."""
    notes: list[Note] = []
    left: list[RawEvent] = []
    for event in events:
        if event.name == EVALUATION:
            notes.extend(_evaluation(event.attributes, event.time_ns))
        else:
            left.append(event)
    if "gen_ai.evaluation.name" in bag:
        notes.extend(_evaluation({f"gen_ai.evaluation.{k}": v for k, v in bag.under("gen_ai.evaluation.").items()}))
    for prefix, inner in _JUDGED if bag.shape.lists else ():
        for item in bag.indexed(prefix):
            found = as_dict(as_dict(item).get(inner) or as_dict(item).get("evaluation")) or as_dict(item)
            notes.extend(judged(found, prefix, whole=prefix.startswith("trace.")))
    return notes, left


def judged(item: dict[str, Any], by: str, *, whole: bool = False) -> list[Note]:
    """An evaluation or annotation as OpenInference and Phoenix write them: score, label, explanation."""
    result = as_dict(item.get("result")) or item
    return _pair(
        as_name(item.get("name")) or "evaluation",
        as_float(result.get("score")),
        result.get("label"),
        by=as_name(item.get("identifier")) or by,
        source=label_source(item.get("annotator_kind")),
        why=as_text(result.get("explanation")) or None,
        whole=whole,
    )


def _evaluation(attributes: dict[str, Any], when: int | None = None) -> list[Note]:
    """The event `gen_ai.evaluation.result`; our own writer adds who judged, and the value as it was."""
    get = attributes.get
    name = as_name(get("gen_ai.evaluation.name")) or "evaluation"
    why = as_text(get("gen_ai.evaluation.explanation")) or None
    if "ethogram.label.by" in attributes:
        value = get("ethogram.label.value")
        return [
            Note(
                name=name,
                value=value if isinstance(value, bool | int | float | str) else None,
                by=as_name(get("ethogram.label.by")),
                source=_OWN_SOURCES.get(as_name(get("ethogram.label.source")), "import"),
                why=why,
                whole=get("ethogram.label.whole") is True,
                version=as_name(get("ethogram.label.version")) or "1",
                at_ns=when,
            )
        ]
    notes = _pair(
        name,
        as_float(get("gen_ai.evaluation.score.value")),
        get("gen_ai.evaluation.score.label"),
        by=as_name(get("gen_ai.evaluation.evaluator.source")) or EVALUATION,
        source="import",
        why=why,
        whole=False,
    )
    return [msgspec.structs.replace(note, at_ns=when) for note in notes]


def _pair(
    name: str, score: float | None, label: Any, *, by: str, source: LabelSource, why: str | None, whole: bool
) -> list[Note]:
    """A score and a word for it are two labels: a label has one value."""
    word = label if isinstance(label, bool | str) and label != "" else None
    first = Note(name=name, value=word if score is None else score, by=by, source=source, why=why, whole=whole)
    if score is None or word is None:
        return [first]
    return [first, Note(name=f"{name}.label", value=word, by=by, source=source, whole=whole)]
