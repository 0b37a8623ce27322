"""Decision points: places where attempts at a task made different choices, and the value of each choice.

Two kinds of places are looked at. A *prefix*: all steps so far have the same signatures; tasks whose attempts begin
alike share it. And the *first time* that a step of some signature was taken, whatever came before it: this pools tasks
whose attempts begin differently. A choice is the signature of the next step, or the end of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from ethogram.estimate import Estimate
from ethogram.measures.contrasts import ContrastEvent, ContrastRuns
from ethogram.traces import Span, is_length_stop

DEEPEST = 60
"""Prefixes of more steps are shared by no two runs that differ in anything else."""
FEWEST = 3
"""A choice that fewer runs made is not looked at."""
END = "end"
"""Stands for the next step of a run that has none."""


class ChoicePlace(NamedTuple):
    """Where a choice was made: after all the steps of `before`, or after the first step like its last one."""

    before: tuple[str, ...]
    first_time: bool

    @property
    def step(self) -> int | None:
        """The position of the choice in the steps of a trace, where it is the same in all of them."""
        return None if self.first_time else len(self.before)


class Choice(NamedTuple):
    """What some runs did at a place: as an event among the runs that came there."""

    place: ChoicePlace
    choice: str
    event: ContrastEvent


class Branch(msgspec.Struct, frozen=True, kw_only=True):
    """One choice at a place: how many attempts made it, and how many of those failed."""

    choice: str
    runs: int
    failed: int


class DecisionPoint(msgspec.Struct, frozen=True, kw_only=True):
    """A choice and its price: `fall` is the success rate after it minus that after other choices at the same place.

    Compared within tasks; the interval holds for all decision points and events at once. `after` are the last steps
    before it, `step` its position where all runs have the same; `branches` are all ways that runs went on.
    """

    after: tuple[str, ...]
    choice: str
    step: int | None
    reached: int
    chosen: int
    fall: Estimate
    tasks: int
    p: float | None
    adjusted: float | None
    branches: tuple[Branch, ...] = ()


def choices(paths: Sequence[Sequence[str]]) -> list[Choice]:
    """Every choice that at least three runs made where others chose differently; `paths` are signatures per run."""
    found: list[Choice] = []
    seen: set[tuple[bytes, bytes]] = set()
    for place, nexts in (*_prefixes(paths), *_first_times(paths)):
        if len(nexts) < 2:
            continue
        among = np.sort(np.concatenate([np.array(rows, dtype=np.int64) for rows in nexts.values()]))
        for choice, rows in nexts.items():
            if len(rows) < FEWEST:
                continue
            own = np.array(sorted(rows), dtype=np.int64)
            if (own.tobytes(), among.tobytes()) in seen:  # a prefix and a first time that are the same runs
                continue
            seen.add((own.tobytes(), among.tobytes()))
            found.append(Choice(place, choice, ContrastEvent(_name(place, choice), own, among)))
    return found


def branches(choice: Choice, paths: Sequence[Sequence[str]], runs: ContrastRuns) -> tuple[Branch, ...]:
    """All ways on from the place of a choice, the most frequent first."""
    among = choice.event.among
    assert among is not None  # choices always have runs that could have made them
    ways: dict[str, list[int]] = {}
    for row in among.tolist():
        ways.setdefault(_next(paths[row], _at(paths[row], choice.place)), []).append(row)
    told = [Branch(choice=way, runs=len(rows), failed=int(runs.failed[rows].sum())) for way, rows in ways.items()]
    return tuple(sorted(told, key=lambda b: (-b.runs, b.choice)))


def step_of(choice: Choice, path: Sequence[str]) -> int:
    """The position of the step in which a run made its choice."""
    return _at(path, choice.place)


def step_words(span: Span) -> str:
    """What a step is, in words: `asks for book_flight`, `book_flight fails`, `answers`."""
    if span.kind == "model":
        asked = ", ".join(dict.fromkeys(span.requested))
        said = f"asks for {asked}" if asked else "answers"
        stopped = span.stop_reason or ""
        said += f" ({stopped})" if is_length_stop(stopped) or stopped in ("content_filter", "refusal") else ""
        return f"{said}, failed" if span.status == "error" else said
    name = span.tool or span.name
    if span.kind == "tool":
        return f"{name} fails" if span.status == "error" else name
    if span.kind == "user":
        return "the user speaks"
    return f"{span.kind} {name}" + (" fails" if span.status == "error" else "")


def _prefixes(paths: Sequence[Sequence[str]]) -> Iterator[tuple[ChoicePlace, dict[str, list[int]]]]:
    open_: list[tuple[tuple[str, ...], list[int]]] = [((), list(range(len(paths))))]
    while open_:
        before, rows = open_.pop()
        nexts: dict[str, list[int]] = {}
        for row in rows:
            nexts.setdefault(_next(paths[row], len(before)), []).append(row)
        yield ChoicePlace(before, False), nexts
        if len(before) < DEEPEST:
            for choice, own in nexts.items():
                if choice != END and len(own) >= 2 * FEWEST:
                    open_.append(((*before, choice), own))


def _first_times(paths: Sequence[Sequence[str]]) -> Iterator[tuple[ChoicePlace, dict[str, list[int]]]]:
    found: dict[str, dict[str, list[int]]] = {}
    for row, path in enumerate(paths):
        done: set[str] = set()
        for at, sign in enumerate(path):
            if sign not in done:
                done.add(sign)
                found.setdefault(sign, {}).setdefault(_next(path, at + 1), []).append(row)
    return ((ChoicePlace((sign,), True), nexts) for sign, nexts in found.items())


def _at(path: Sequence[str], place: ChoicePlace) -> int:
    return path.index(place.before[-1]) + 1 if place.first_time else len(place.before)


def _next(path: Sequence[str], at: int) -> str:
    return path[at] if at < len(path) else END


def _name(place: ChoicePlace, choice: str) -> str:
    where = f"first {place.before[-1]}" if place.first_time else " > ".join(place.before)
    return f"choice:{where} > {choice}"


class Stem(NamedTuple):
    """Steps that some attempts have in common after a branching; `rows` are those attempts.

    `depth` counts branchings before it, `parent` is its stem (None: none), `at` the position of its first step. `ended`
    are the attempts whose last step is the last of this stem.
    """

    depth: int
    parent: int | None
    at: int
    steps: tuple[str, ...]
    rows: tuple[int, ...]
    ended: tuple[int, ...]


def branching(paths: Sequence[Sequence[str]], most: int = 400) -> tuple[list[Stem], int]:
    """The stems of a tree, each before its branches, the most frequent branch first; and how many were left out.

    `paths` are signatures per attempt. Stems after the first `most` are left out.
    """
    found: list[Stem] = []
    left_out = 0
    waiting: list[tuple[int, int | None, int, tuple[int, ...]]] = []
    if paths:
        waiting.append((0, None, 0, tuple(range(len(paths)))))  # what all begin with, perhaps no step at all
    while waiting:
        depth, parent, at, rows = waiting.pop()
        if len(found) >= most:
            left_out += 1
            continue
        end = _parts_at(paths, rows, at)
        ended = tuple(row for row in rows if len(paths[row]) == end)
        found.append(Stem(depth, parent, at, tuple(paths[rows[0]][at:end]), rows, ended))
        ways: dict[str, list[int]] = {}
        for row in rows:
            if len(paths[row]) > end:
                ways.setdefault(paths[row][end], []).append(row)
        own = len(found) - 1
        ordered = sorted(ways.items(), key=lambda way: (-len(way[1]), way[0]))
        waiting += [(depth + 1, own, end, tuple(way)) for _, way in reversed(ordered)]
    return found, left_out


def _parts_at(paths: Sequence[Sequence[str]], rows: Sequence[int], at: int) -> int:
    """The first position from `at` on where not all of these attempts go on alike."""
    shortest = min(len(paths[row]) for row in rows)
    first = paths[rows[0]]
    while at < shortest and all(paths[row][at] == first[at] for row in rows):
        at += 1
    return at
