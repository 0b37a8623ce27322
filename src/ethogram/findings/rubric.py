"""Rubrics: yes-or-no questions about the steps of a trace, and what a judge answered to them.

A verdict is about one step and one item. A "no" cites a step that exists, so that a person can check it. The verdict
of a whole trace on an item is "no" if any step is; it is unknown if the item applied to no step, or if a step could not
be judged and none is "no". The score of a run is the share of its known items that are "yes".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal, get_args

import msgspec

from ethogram.errors import BadInput
from ethogram.traces import Label, Ref, Trace, TraceId, cut_whole, digest

AppliesTo = Literal["calls", "arguments", "results", "changes", "replies", "steps", "end"]
"""The steps that an item asks about: calls of tools, calls with arguments, calls that returned, calls that change the
world, what a model wrote, every step, or the last step only."""
RUBRIC_LABEL = "rubric"
"""The label of a run's score; `rubric/ITEM` is that of one item."""
ITEM_PREFIX = "rubric/"
MOST_REASON = 2000
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


class RubricItem(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One question about each step that it applies to; `yes` and `no` say what counts as either."""

    name: str
    question: str
    applies_to: AppliesTo
    no: str = ""
    yes: str = ""

    @property
    def label(self) -> str:
        """The name of its labels: `rubric/tool_choice`."""
        return ITEM_PREFIX + self.name


class Rubric(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A named list of items. Two rubrics with the same words have the same digest."""

    name: str
    items: tuple[RubricItem, ...]

    @property
    def digest(self) -> str:
        """The hash of all that it asks."""
        return digest("rubric", msgspec.json.encode(self))

    def item(self, name: str) -> RubricItem | None:
        """The item of this name, if it has one."""
        return next((item for item in self.items if item.name == name), None)


class ItemVerdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The verdict of a judge on one step and one item: `value` is yes, no, or None with the reason in `why`.

    `step` is a position in `trace.steps`; a "no" cites it. `applies` is false where the judge found that the question
    makes no sense at this step; otherwise None means that the step could not be judged.
    """

    item: str
    step: int
    value: bool | None
    why: str = ""
    applies: bool = True


class Coverage(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a trace a judge was shown: steps, those seen at least once, windows, and characters left out."""

    steps: int
    seen: int
    windows: int
    cut_characters: int = 0


class TraceVerdict(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """All verdicts on one trace. `split` are the items and steps on which the members of a panel disagree; `coverage`
    says what a judge was shown that does not read the whole trace at once."""

    verdicts: tuple[ItemVerdict, ...]
    split: tuple[tuple[str, int], ...] = ()
    coverage: Coverage | None = None

    def of(self, item: str) -> tuple[ItemVerdict, ...]:
        """The verdicts on one item, one per step."""
        return tuple(v for v in self.verdicts if v.item == item)


STANDARD = Rubric(
    name="standard",
    items=(
        RubricItem(
            name="tool_choice",
            question="Was this tool a defensible choice at this point?",
            applies_to="calls",
            yes="A competent person could have made this call with what was known at this step.",
            no="It searches where it should read, writes before it has looked, calls a tool that does not exist, or "
            "repeats a call that cannot bring anything new.",
        ),
        RubricItem(
            name="arguments_grounded",
            question="Do all arguments come from the task or from something observed earlier?",
            applies_to="arguments",
            yes="Every id, file and value was given or returned before, or is computed from such values.",
            no="An id, a file name or a value was invented, or the tool rejected the form of the arguments.",
        ),
        RubricItem(
            name="result_read",
            question="Does what follows agree with what this call returned?",
            applies_to="results",
            yes="The next decisions use the result, or at least do not contradict it.",
            no="The next action or the final words contradict the result, or treat an error as a success.",
        ),
        RubricItem(
            name="state_reverified",
            question="Was the state read again after this change?",
            applies_to="changes",
            yes="A later step reads back what was changed, or the change returned the new state and it was used.",
            no="The change was assumed to have worked: nothing reads it back, or it failed and nobody noticed.",
        ),
        RubricItem(
            name="termination",
            question="Did the run end at the right point?",
            applies_to="end",
            yes="It ended because the work was done, or because nothing more could be done.",
            no="It declared success too early, gave up although it could have gone on, went round in a loop until a "
            "limit ended it, or asked a person what a tool could answer.",
        ),
    ),
)
"""The rubric that ships: five items per step."""


def is_rubric_label(name: str) -> bool:
    """Whether a label is a verdict on an item of a rubric, or the score by one."""
    return name == RUBRIC_LABEL or name.startswith(ITEM_PREFIX)


def rubric_from(data: Any) -> Rubric:
    """A rubric from what a YAML or JSON file holds.

    `data` is an object with `items`, a list of objects with `name`, `question` and `applies_to`, perhaps with `yes` and
    `no`, and perhaps a `name`. An item may be the name of a standard item alone. Raises `BadInput` with one sentence.

    Example: `rubric_from({"items": ["termination", {"name": "polite", "question": "…", "applies_to": "replies"}]})`
    """
    if not isinstance(data, dict):
        raise BadInput("a rubric is an object with a list of items; write items: and below it one entry per question")
    unknown = sorted(str(key) for key in data if key not in ("name", "items"))
    if unknown:
        raise BadInput(f"a rubric has no key {unknown[0]!r}; it has name and items")
    listed = data.get("items")
    if not isinstance(listed, list) or not listed:
        raise BadInput("a rubric needs a list of items, each with name, question and applies_to")
    items = tuple(_item(entry, number) for number, entry in enumerate(listed, 1))
    twice = [item.name for i, item in enumerate(items) if item.name in {other.name for other in items[:i]}]
    if twice:
        raise BadInput(f"the rubric asks {twice[0]!r} twice; give each item a name of its own", where=twice[0])
    name = data.get("name", "own")
    if not isinstance(name, str) or not name.strip():
        raise BadInput("the name of a rubric must be a text that is not empty")
    return Rubric(name=name, items=items)


def _item(entry: Any, number: int) -> RubricItem:
    if isinstance(entry, str):
        known = STANDARD.item(entry)
        if known is None:
            names = ", ".join(item.name for item in STANDARD.items)
            raise BadInput(
                f"item {number}: there is no standard item {entry!r}; these are: {names}", where=f"item {number}"
            )
        return known
    try:
        item = msgspec.convert(entry, RubricItem)
    except msgspec.ValidationError as error:
        kinds = ", ".join(get_args(AppliesTo))
        raise BadInput(
            f"item {number}: {str(error).rstrip('.')}; write name, question and applies_to ({kinds})",
            where=f"item {number}",
        ) from None
    if not _NAME.fullmatch(item.name):
        raise BadInput(
            f"item {number}: {item.name!r} is not a name; use lower-case letters, digits and _", where=f"item {number}"
        )
    if not item.question.strip():
        raise BadInput(f"item {number}: {item.name!r} asks nothing; write its question", where=f"item {number}")
    return item


def whole_trace(verdicts: Iterable[ItemVerdict]) -> bool | None:
    """The verdict of a whole trace on an item: no if any step is no; None if the item applied to no step, or if a step
    could not be judged (it might have been a no); else yes."""
    values = [v.value for v in verdicts if v.applies]
    if False in values:
        return False
    return True if values and None not in values else None


def rubric_score(rubric: Rubric, verdict: TraceVerdict) -> float | None:
    """The score of a run: the share of its applicable items that are yes; None where no item could be judged."""
    known = [v for item in rubric.items if (v := whole_trace(verdict.of(item.name))) is not None]
    return sum(known) / len(known) if known else None


def verdict_labels(trace: Trace, rubric: Rubric, verdict: TraceVerdict, by: str, version: str) -> list[Label]:
    """The labels to store: one per step and item that applies there, one per item for the whole trace, and the score.

    The `why` of each is still the words themselves: the store puts an address there. Raises `ValueError` for a verdict
    that cites a step that the trace does not have.
    """
    steps = trace.steps
    found: list[Label] = []
    for item in rubric.items:
        own = verdict.of(item.name)
        for one in own:
            if not 0 <= one.step < len(steps):
                raise ValueError(f"the verdict on {item.name!r} cites step {one.step}, which does not exist")
            if not one.applies:
                continue
            span = steps[one.step].span_id
            found.append(_label(trace.head.trace_id, item.label, one.value, by, version, one.why, span))
        found.append(_label(trace.head.trace_id, item.label, whole_trace(own), by, version, _whole_reason(own)))
    score = rubric_score(rubric, verdict)
    reason = "" if score is not None else "no item could be judged"
    found.append(_label(trace.head.trace_id, RUBRIC_LABEL, score, by, version, reason))
    return found


def _label(
    trace: TraceId, name: str, value: float | bool | None, by: str, version: str, why: str, span: Any = None
) -> Label:
    words = Ref(cut_whole(why, MOST_REASON)) if why else None
    return Label(
        trace_id=trace, name=name, value=value, by=by, source="judge", span_id=span, why=words, version=version
    )


def _whole_reason(verdicts: Sequence[ItemVerdict]) -> str:
    """Why a whole trace is no or unknown: the first such step in words."""
    if not any(v.applies for v in verdicts):
        return "the item applies to no step"
    first = next((v for v in verdicts if v.value is False), None)
    if first is not None:
        return f"step {first.step}: {first.why}" if first.why else f"step {first.step}"
    lost = [v for v in verdicts if v.applies and v.value is None]
    return f"step {lost[0].step} could not be judged: {lost[0].why}".rstrip(": ") if lost else ""
