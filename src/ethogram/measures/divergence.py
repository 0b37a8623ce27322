"""How far two traces are apart: d_norm, the edits, and t*, the first step at which they differ.

Concurrent agents are aligned lane by lane, because the order in which a scheduler interleaved them says nothing of what
they did. Lanes of the same name belong together, the others by the least distance. Then

    d_norm = sum of the lanes' edits / sum of the lanes' longer lengths,

which is the plain d_norm where there is one lane. t* is the place, in the linear reading, of the first step whose lane
has differed; t*/T divides by the longer linear reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ethogram.statistics.distance import (
    Aligned,
    Alphabet,
    Edits,
    Sign,
    align,
    common_prefix,
    count_edits,
    distance,
    distances_between,
    normalised,
    prefixes,
)

from .sequence import Reading

Floats = npt.NDArray[np.float64]


class _LanePair(NamedTuple):
    """Two lanes that belong together: where their steps stand in the linear readings."""

    first: Sequence[int]
    second: Sequence[int]


class Divergence:
    """Two readings compared; `t_star` is None where nothing differs, `d_norm` where neither has a step.

    `edits` and `alignment` take several times as long as the distance: they are computed when first asked for.
    """

    def __init__(self, first: Reading, second: Reading, pairs: Sequence[_LanePair]) -> None:
        """Measure the distance of readings whose lanes were paired; `diverge` does both."""
        self._first, self._second, self._pairs = first, second, pairs
        distances, longer, starts = 0, 0, []
        for pair in pairs:
            one, two = _signatures(first, pair.first), _signatures(second, pair.second)
            apart = distance(one, two)
            distances += apart
            longer += max(len(one), len(two))
            if apart:
                kept = common_prefix(one, two)
                starts.append(pair.first[kept] if kept < len(one) else pair.second[kept])
        self.lanes = len(pairs)
        self.d_norm = distances / longer if longer else None
        self.t_star: int | None = min(starts, default=None)
        self.t_star_norm = None if self.t_star is None else self.t_star / max(len(first), len(second))

    @cached_property
    def alignment(self) -> list[Aligned]:
        """The steps side by side, in the order of the first reading."""
        letters, found = Alphabet(), []
        for here, there in self._pairs:
            one, two = letters.word(_signatures(self._first, here)), letters.word(_signatures(self._second, there))
            steps = align(one, two)
            if len(self._pairs) == 1:
                return steps
            found += [Aligned(s, None if i is None else here[i], None if j is None else there[j]) for s, i, j in steps]
        found.sort(key=lambda s: (s.first if s.first is not None else s.second or 0, s.second or 0))
        return found

    @cached_property
    def edits(self) -> Edits:
        """The edits of the alignment."""
        return count_edits(self.alignment)


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
    """Compare two readings, lane by lane where either has several lanes.

    `diverge(read(passing), read(failing)).t_star` is the first step at which they differ.
    """
    if not by_lane or (_one_lane(first) and _one_lane(second)):
        return Divergence(first, second, [_LanePair(range(len(first)), range(len(second)))])
    return Divergence(first, second, _lane_pairs(first, second))


def _one_lane(reading: Reading) -> bool:
    return reading.lanes.count(reading.lanes[0]) == len(reading) if reading.lanes else True


def _signatures(reading: Reading, places: Sequence[int]) -> Sequence[str]:
    """The signatures at some places; all of them, uncopied, where the places are the whole reading."""
    signatures = reading.signatures
    return signatures if len(places) == len(signatures) else [signatures[i] for i in places]


def _lane_pairs(first: Reading, second: Reading) -> list[_LanePair]:
    """Lanes that belong together: by name, then by the least distance, ties by order of appearance."""
    ours, theirs = first.places_by_lane, second.places_by_lane
    pairs = [_LanePair(places, theirs[name]) for name, places in ours.items() if name in theirs]
    left = [places for name, places in ours.items() if name not in theirs]
    right = [places for name, places in theirs.items() if name not in ours]
    ones, twos = [_signatures(first, p) for p in left], [_signatures(second, p) for p in right]
    while left and right:
        _, i, j = min((normalised(a, b), i, j) for i, a in enumerate(ones) for j, b in enumerate(twos))
        pairs.append(_LanePair(left.pop(i), right.pop(j)))
        del ones[i], twos[j]
    pairs.extend(_LanePair(places, ()) for places in left)
    pairs.extend(_LanePair((), places) for places in right)
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
    d = distances_between(one, two)
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
        here = np.rint(distances_between(one.words, two.words) * length)
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
                found = diverge(first[i], second[j])
                d[i, j], starts[i, j] = found.d_norm or 0.0, found.t_star_norm or 0.0
            else:
                d[i, j], starts[i, j] = edits[i, j] / max(longer[i, j], 1), begun[i, j] / steps[i, j]


class _Lane(NamedTuple):
    """One lane of many readings: words, lengths, and where each step stands (a column more than the longest has)."""

    words: list[str]
    lengths: npt.NDArray[np.int64]
    places: Floats


def _lane(readings: Sequence[Reading], name: str, letters: Alphabet) -> _Lane:
    positions = [[i for i, lane in enumerate(r.lanes) if lane == name] for r in readings]
    words = [letters.word(r.signatures[i] for i in p) for r, p in zip(readings, positions, strict=True)]
    lengths = np.array([len(p) for p in positions], dtype=np.int64)
    places = np.full((len(readings), int(lengths.max(initial=0)) + 1), np.inf)
    for row, p in zip(places, positions, strict=True):
        row[: len(p)] = p
    return _Lane(words, lengths, places)


def upper(matrix: Floats) -> Iterable[float]:
    """The distances of all pairs of a square matrix, each once."""
    return map(float, matrix[np.triu_indices(matrix.shape[0], 1)])
