"""How far two traces are apart: d_norm, the edits, and t*, the first step at which they differ.

Concurrent agents are aligned lane by lane, because the order in which a scheduler interleaved them says nothing of what
they did. Lanes of the same name belong together, the others by the least distance. Then

    d_norm = sum of the lanes' edits / sum of the lanes' longer lengths,

which is the plain d_norm where there is one lane. t* is the place, in the linear reading, of the first step whose lane
has differed; t*/T divides by the longer linear reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ethogram.stats.distance import (
    Aligned,
    Alphabet,
    Edits,
    Sign,
    align,
    between,
    common_prefix,
    count_edits,
    distance,
    normalised,
    prefixes,
)

from .reading import Reading

Floats = npt.NDArray[np.float64]


class Divergence(NamedTuple):
    """Two readings held side by side; `t_star` is None where nothing differs, `d_norm` where neither has a step."""

    d_norm: float | None
    edits: Edits
    t_star: int | None
    t_star_norm: float | None
    alignment: list[Aligned]
    lanes: int


class FirstAligned(NamedTuple):
    """traxr's first divergence: the first edit of the alignment that is backtracked whole, without the prefix first.

    `position` is its place `at` over the aligned length; `turn` is the log's number of the turn it stands in, if any.
    """

    at: int
    position: float
    sign: Sign
    first: int | None
    second: int | None
    turn: int | None
    length: int
    type: str


def diverge(first: Reading, second: Reading, *, by_lane: bool = True) -> Divergence:
    """Align two readings, lane by lane where either has several lanes."""
    letters = Alphabet()
    if not by_lane or max(len(first.lane_names), len(second.lane_names)) <= 1:
        one, two = letters.word(first.signatures), letters.word(second.signatures)
        alignment = align(one, two)
        start = common_prefix(one, two) if one != two else None
        return _result(alignment, start, max(len(one), len(two)), max(len(one), len(two)), 1)
    pairs = _lane_pairs(first, second, letters)
    alignment = []
    longer, starts = 0, []
    for here, there in pairs:
        one = letters.word(first.signatures[i] for i in here)
        two = letters.word(second.signatures[j] for j in there)
        longer += max(len(one), len(two))
        for sign, i, j in align(one, two):
            alignment.append(Aligned(sign, None if i is None else here[i], None if j is None else there[j]))
        if one != two:
            kept = common_prefix(one, two)
            starts.append(here[kept] if kept < len(here) else there[kept])
    alignment.sort(key=lambda s: (s.first if s.first is not None else s.second or 0, s.second or 0))
    return _result(alignment, min(starts, default=None), longer, max(len(first), len(second)), len(pairs))


def _result(alignment: list[Aligned], start: int | None, longer: int, steps: int, lanes: int) -> Divergence:
    counted = count_edits(alignment)
    return Divergence(
        d_norm=counted.distance / longer if longer else None,
        edits=counted,
        t_star=start,
        t_star_norm=None if start is None else start / steps,
        alignment=alignment,
        lanes=lanes,
    )


def _lane_pairs(first: Reading, second: Reading, letters: Alphabet) -> list[tuple[list[int], list[int]]]:
    """Positions of lanes that belong together: by name, then by the least distance, ties by order of appearance."""
    ours, theirs = list(first.lane_names), list(second.lane_names)
    pairs = [(first.positions(name), second.positions(name)) for name in ours if name in theirs]
    left, right = [n for n in ours if n not in theirs], [n for n in theirs if n not in ours]
    words = {n: letters.word(first.signatures[i] for i in first.positions(n)) for n in left}
    others = {n: letters.word(second.signatures[j] for j in second.positions(n)) for n in right}
    while left and right:
        _, i, j = min((normalised(words[a], others[b]), i, j) for i, a in enumerate(left) for j, b in enumerate(right))
        pairs.append((first.positions(left.pop(i)), second.positions(right.pop(j))))
    pairs.extend((first.positions(n), []) for n in left)
    pairs.extend(([], second.positions(n)) for n in right)
    return pairs


def first_aligned(first: Reading, second: Reading) -> FirstAligned | None:
    """The compatibility reading of traxr; None where every step matches."""
    letters = Alphabet()
    steps = align(letters.word(first.signatures), letters.word(second.signatures), prefix_first=False)
    for at, (sign, i, j) in enumerate(steps):
        if sign != "=":
            turn = None
            if i is not None and first.turns is not None:
                turn = first.turns[i]
            elif i is None and j is not None and second.turns is not None:
                turn = second.turns[j]
            return FirstAligned(at, at / len(steps), sign, i, j, turn, len(steps), _type(first, second, i, j))
    return None


def _type(first: Reading, second: Reading, i: int | None, j: int | None) -> str:
    """What traxr calls a difference; steps for which it has no word are `different_step`."""
    if j is None:
        return "event_missing_in_perturbed"
    if i is None:
        return "event_missing_in_clean"
    kind = first.kinds[i]
    if kind != second.kinds[j]:
        return "event_type_differs"
    if kind == "tool":
        renamed = first.names[i] != second.names[j]
        flipped = first.failed[i] != second.failed[j]
        return "different_tool" if renamed else "tool_success_failure_change" if flipped else "different_operation"
    return {"handoff": "different_agent_routed", "model": "different_action"}.get(kind, "different_step")


class Distances(NamedTuple):
    """Every reading of one list against every reading of another: d_norm (NaN where neither has a step) and t* / T
    (NaN where nothing differs)."""

    d_norm: Floats
    t_star_norm: Floats


def distances(
    first: Sequence[Reading], second: Sequence[Reading], letters: Alphabet, *, by_lane: bool = True
) -> Distances:
    """All distances at once, without alignments; lanes are looked at only where some reading has several."""
    one = [letters.word(r.signatures) for r in first]
    two = one if second is first else [letters.word(r.signatures) for r in second]
    longer = np.maximum([len(w) for w in one] or [0], 1)[:, None] if one else np.zeros((0, 1))
    longer = np.maximum(longer, np.array([len(w) for w in two])[None, :]) if two else np.zeros((len(one), 0))
    d = between(one, two)
    starts = prefixes(one, two) / np.maximum(longer, 1)
    if by_lane and any(len(r.lane_names) > 1 for r in (*first, *second)):
        _by_lane(first, second, letters, d, starts)
    bare = np.logical_and.outer([len(w) == 0 for w in one], [len(w) == 0 for w in two])
    return Distances(np.where(bare, np.nan, d), np.where(d > 0, starts, np.nan))


def repeat_distances(readings: Sequence[Reading], letters: Alphabet, *, by_lane: bool = True) -> Distances:
    """Repeats of one task against each other.

    Where some of them have steps, capture works, and those without are alike: their distance is 0. Where none has,
    all distances are NaN: nothing was captured.
    """
    found = distances(readings, readings, letters, by_lane=by_lane)
    if not any(len(r) for r in readings):
        return found
    return Distances(np.nan_to_num(found.d_norm, nan=0.0), found.t_star_norm)


def _by_lane(first: Sequence[Reading], second: Sequence[Reading], letters: Alphabet, d: Floats, starts: Floats) -> None:
    """Put distances by lane where either side has several: lanes of one name all at once, odd pairs one by one."""
    edits, longer = np.zeros(d.shape), np.zeros(d.shape)
    begun = np.full(d.shape, np.inf)
    for name in dict.fromkeys(n for r in (*first, *second) for n in r.lane_names):
        one, two = _lane(first, name, letters), _lane(second, name, letters)
        length = np.maximum(one.lengths[:, None], two.lengths[None, :])
        here = np.rint(between(one.words, two.words) * length)
        kept = prefixes(one.words, two.words)
        mine = np.take_along_axis(one.places, kept, axis=1)
        theirs = np.take_along_axis(two.places, kept.T, axis=1).T
        at = np.where(kept < one.lengths[:, None], mine, theirs)
        begun = np.where(here > 0, np.minimum(begun, at), begun)
        edits, longer = edits + here, longer + length
    steps = np.maximum(np.array([max(len(r), 1) for r in first])[:, None], np.array([len(r) for r in second])[None, :])
    lanes = [set(r.lane_names) for r in first], [set(r.lane_names) for r in second]
    for i, ours in enumerate(lanes[0]):
        for j, others in enumerate(lanes[1]):
            if len(ours) <= 1 and len(others) <= 1:
                continue
            if ours - others and others - ours:  # which of them belong together is a question of distance
                d[i, j], starts[i, j] = _laned(first[i], second[j], letters)
            else:
                d[i, j], starts[i, j] = edits[i, j] / max(longer[i, j], 1), begun[i, j] / steps[i, j]


class _Lane(NamedTuple):
    """One lane of many readings: words, lengths, and where each step stands (a column more than the longest has)."""

    words: list[str]
    lengths: npt.NDArray[np.int64]
    places: Floats


def _lane(readings: Sequence[Reading], name: str, letters: Alphabet) -> _Lane:
    positions = [r.positions(name) for r in readings]
    words = [letters.word(r.signatures[i] for i in p) for r, p in zip(readings, positions, strict=True)]
    lengths = np.array([len(p) for p in positions], dtype=np.int64)
    places = np.full((len(readings), int(lengths.max(initial=0)) + 1), np.inf)
    for row, p in zip(places, positions, strict=True):
        row[: len(p)] = p
    return _Lane(words, lengths, places)


def _laned(first: Reading, second: Reading, letters: Alphabet) -> tuple[float, float]:
    edits = longer = 0
    starts = []
    for here, there in _lane_pairs(first, second, letters):
        one = letters.word(first.signatures[i] for i in here)
        two = letters.word(second.signatures[j] for j in there)
        edits += distance(one, two)
        longer += max(len(one), len(two))
        if one != two:
            kept = common_prefix(one, two)
            starts.append(here[kept] if kept < len(here) else there[kept])
    start = min(starts, default=0)
    return edits / longer if longer else 0.0, start / max(len(first), len(second), 1)


def upper(matrix: Floats) -> Iterable[float]:
    """The distances of all pairs of a square matrix, each once."""
    return map(float, matrix[np.triu_indices(matrix.shape[0], 1)])
