"""Verdicts of judges and labels of people on the traces of a run: the newest of each author, by item."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from ethogram.capture.verdicts import outcome_of
from ethogram.errors import NotFound
from ethogram.store import Run
from ethogram.traces import Label, Scored, SpanId, TraceId

RUBRIC = "rubric"
"""The score of a run by its rubric, and what the names of its items begin with."""
OUTCOME = "outcome"
"""The recorded outcome of a trace, and the label that a person gives in its place."""
NOT_APPLICABLE = frozenset({"na", "n/a", "none", "not applicable", "unclear"})

Unit = tuple[TraceId, SpanId | None]
"""What a verdict is about: a whole trace, or one of its steps."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which verdicts are meant: items (`termination` or `rubric/termination`), one judge, an ordinary score, steps.

    `versions`: those of all versions of a judge, not of the newest alone.
    """

    items: tuple[str, ...] = ()
    judge: str | None = None
    score: str | None = None
    steps: bool = False
    versions: bool = False

    def names(self) -> set[str]:
        """The labels that are asked for; none if any will do."""
        return {self.score} if self.score is not None else {item_name(i) for i in self.items}


@dataclass
class Item:
    """One judge on one item: its newest verdicts (None: could not be judged), and each person's labels.

    `earlier` counts verdicts of other versions of the judge, which are not used; `at_ns` says when each was given.
    `grades` and `people_grades` are the numbers behind yes and no.
    """

    name: str
    judge: str
    version: str
    verdicts: dict[Unit, float | None] = field(default_factory=dict)
    people: dict[Unit, dict[str, float | None]] = field(default_factory=dict)
    at_ns: dict[Unit, int] = field(default_factory=dict)
    version_of: dict[Unit, str] = field(default_factory=dict)
    grades: dict[Unit, float] = field(default_factory=dict)
    people_grades: dict[Unit, dict[str, float]] = field(default_factory=dict)
    earlier: int = 0


def item_name(item: str) -> str:
    """The label of an item of the rubric, which may be named without what it begins with."""
    return item if "/" in item or item == RUBRIC else f"{RUBRIC}/{item}"


def read_items(run: Run, wanted: Wanted) -> list[Item]:
    """Every judge on every chosen item, by name; each with the labels of people on the item.

    Raises `NotFound` where the run has no such verdicts.
    """
    reading = _Reading(run, wanted)
    items = reading.items()
    if not items:
        raise _nothing(run, wanted, reading)
    return items


def people_say(item: Item, unit: Unit) -> float | None:
    """The share of people who labelled a unit yes; None where nobody said yes or no."""
    told = [a for a in item.people.get(unit, {}).values() if a is not None]
    return math.fsum(told) / len(told) if told else None


def said_yes(value: object, threshold: float) -> float | None:
    """A value as yes (1) or no (0): words like pass and fail, numbers from the threshold on; None if it is neither."""
    if isinstance(value, bool):
        return float(value)
    if value is None or str(value).strip().lower() in NOT_APPLICABLE:
        return None
    found = outcome_of(str(value), "")
    return float(found.success(threshold)) if isinstance(found, Scored) else None


def _grade(value: object) -> float | None:
    """A value as a number: words like pass and fail are 1 and 0; None if it is neither."""
    if value is None or str(value).strip().lower() in NOT_APPLICABLE:
        return None
    found = outcome_of(str(value), "")
    return found.value if isinstance(found, Scored) else None


class _Reading:
    """All labels of a run, read once."""

    def __init__(self, run: Run, wanted: Wanted) -> None:
        self.run, self.wanted, self.threshold = run, wanted, run.success_at
        self.judged: dict[tuple[str, str], list[Label]] = {}
        self.people: dict[str, dict[Unit, dict[str, float | None]]] = {}
        self.people_grades: dict[str, dict[Unit, dict[str, float]]] = {}
        self.other: Counter[str] = Counter()
        for label in run.labels():
            if (label.span_id is not None) != wanted.steps:
                continue
            if label.source == "hand":
                by_unit = self.people.setdefault(label.name, {})
                by_unit.setdefault(_unit(label), {})[label.by] = said_yes(label.value, self.threshold)
                grades = self.people_grades.setdefault(label.name, {}).setdefault(_unit(label), {})
                grades.pop(label.by, None)
                if (grade := _grade(label.value)) is not None:
                    grades[label.by] = grade
            elif label.source == "judge" or wanted.score is not None:
                self.judged.setdefault((label.name, label.by), []).append(label)
            else:
                self.other[label.name] += 1

    def items(self) -> list[Item]:
        names, judge = self.wanted.names(), self.wanted.judge
        chosen = [
            self._item(labels)
            for (name, by), labels in sorted(self.judged.items())
            if (name in names or (not names and name != RUBRIC)) and judge in (None, by)
        ]
        score = self.wanted.score
        if not chosen and not self.wanted.steps and score is not None:
            chosen = self._outcomes(score)
        return chosen

    def _item(self, labels: list[Label]) -> Item:
        last = labels[-1]
        item = Item(last.name, last.by, last.version)
        for label in labels:
            if label.version != last.version:
                item.earlier += 1
                if not self.wanted.versions:
                    continue
            item.verdicts[_unit(label)] = said_yes(label.value, self.threshold)
            item.grades.pop(_unit(label), None)
            if (grade := _grade(label.value)) is not None:
                item.grades[_unit(label)] = grade
            item.at_ns[_unit(label)] = label.at_ns or 0
            item.version_of[_unit(label)] = label.version
        # labels that people gave in the place of the outcome are about a score that is asked for by name
        instead = self.people.get(OUTCOME, {}) if self.wanted.score == item.name else {}
        item.people = self.people.get(item.name) or instead
        item.people_grades = self.people_grades.get(OUTCOME if item.people is instead else item.name, {})
        return item

    def _outcomes(self, score: str) -> list[Item]:
        """The recorded outcomes as verdicts: all of them, or those by one scorer. What a sheet scored is no verdict."""
        item = Item(score, "", "1")
        scorers: set[str] = set()
        for entry in self.run.entries:
            outcome = entry.head.outcome
            if not isinstance(outcome, Scored) or outcome.by.endswith(".csv") or score not in (OUTCOME, outcome.by):
                continue
            scorers.add(outcome.by)
            unit = (entry.head.trace_id, None)
            item.verdicts[unit] = float(outcome.success(self.threshold))
            item.grades[unit] = outcome.value
            item.at_ns[unit] = entry.head.end_ns or 0
        item.judge = ", ".join(sorted(scorers)[:4])
        named = score if self.people.get(score) else OUTCOME
        item.people, item.people_grades = self.people.get(named, {}), self.people_grades.get(named, {})
        return [item] if item.verdicts else []

    def known(self) -> Iterable[str]:
        """Names that could have been meant."""
        scorers = {e.head.outcome.by for e in self.run.entries if isinstance(e.head.outcome, Scored)}
        return sorted({name for name, _ in self.judged} | set(self.other) | {s for s in scorers if s})


def _unit(label: Label) -> Unit:
    return label.trace_id, label.span_id


def _nothing(run: Run, wanted: Wanted, reading: _Reading) -> NotFound:
    names = wanted.names()
    if names:
        return NotFound.named("verdict", ", ".join(sorted(names)), list(reading.known()), where=f"run {run.name!r}")
    if wanted.judge is not None:
        judges = sorted({by for _, by in reading.judged})
        return NotFound.named("judge", wanted.judge, judges, where=f"run {run.name!r}")
    known = ", ".join(list(reading.known())[:6])
    hint = f"; scores that it has: {known}; name one with --score" if known else ""
    return NotFound(f"no judge has said anything of run {run.name!r}; judge it with: ethogram judge {run.name}{hint}")
