"""Rates that are constant on boxes of a grid: the exact average over all ways to cut it, one parameter at a time.

A box is cut in two with probability 1/2, any cut being as likely as any other, or is a leaf whose rate is uniform. The
chance of the data then follows from the smallest boxes to the whole grid, and the chance of each box to be a leaf from
the whole grid back (Wong & Ma 2010): nothing is searched, and nothing drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ethogram.statistics._numeric import Bools, Floats, Ints, floats, special

from .surface import Axis, Belief

MOST_CUTS = 600_000
"""Cuts of all boxes in all, at most: five parameters with four values have 500,000."""
GROWTH = 1.15
"""The chances of cuts are computed again when the data has grown by this factor; rates of leaves always are."""
NEGLIGIBLE = 1e-7
LOG_HALF = float(np.log(0.5))


class Cuts(NamedTuple):
    """Cuts of boxes of one size: for each the box and its two halves, and where the cuts of the next box begin."""

    box: Ints
    left: Ints
    right: Ints
    first: Ints
    each: Ints


class Boxes(NamedTuple):
    """All boxes of a grid: per axis which values each part holds, the whole grid, and the cuts, small boxes first."""

    members: tuple[Floats, ...]
    whole: int
    cuts: tuple[Cuts, ...]
    single: Floats

    @property
    def shape(self) -> tuple[int, ...]:
        """Parts per axis."""
        return tuple(len(m) for m in self.members)


def cuts_in_all(axes: Sequence[Axis]) -> int:
    """How many cuts the boxes of a grid have in all."""
    parts = [a.size * (a.size + 1) // 2 if a.ordered else 2**a.size - 1 for a in axes]
    cuts = [(a.size**3 - a.size) // 6 if a.ordered else (3**a.size - 2 ** (a.size + 1) + 1) // 2 for a in axes]
    whole = int(np.prod([float(p) for p in parts]).clip(max=1e15))
    return sum(whole // p * c for p, c in zip(parts, cuts, strict=True))


def _parts(axis: Axis) -> list[int]:
    """Parts of an axis as bits: runs of neighbours along an order, any categories otherwise."""
    if not axis.ordered:
        return list(range(1, 2**axis.size))
    return [(1 << high) - (1 << low) for low in range(axis.size) for high in range(low + 1, axis.size + 1)]


@lru_cache(maxsize=4)
def boxes_of(axes: tuple[Axis, ...]) -> Boxes:
    """All boxes of a grid and their cuts."""
    parts = [_parts(axis) for axis in axes]
    shape = [len(p) for p in parts]
    count = int(np.prod(shape))
    places = np.unravel_index(np.arange(count), shape)
    size = np.sum([np.array([p.bit_count() for p in ps])[at] for ps, at in zip(parts, places, strict=True)], axis=0)
    found: list[Ints] = []
    for d, ps in enumerate(parts):
        step, known = int(np.prod(shape[d + 1 :])), {p: i for i, p in enumerate(ps)}
        for i, part in enumerate(ps):
            rows = np.flatnonzero(places[d] == i)
            # the half with the lowest value is the left one, so that every cut is met once
            for half in (p for p in ps if p & part == p and p != part and p & part & -part and part ^ p in known):
                found.append(np.stack([rows, rows + (known[half] - i) * step, rows + (known[part ^ half] - i) * step]))
    box, left, right = np.concatenate(found, axis=1) if found else np.zeros((3, 0), dtype=np.int64)
    single = np.ones(count)
    single[box] = 0.0
    levels = []
    for s in np.unique(size[box]):
        at = np.flatnonzero(size[box] == s)
        at = at[np.argsort(box[at], kind="stable")]
        first = np.flatnonzero(np.diff(box[at], prepend=-1))
        levels.append(Cuts(box[at], left[at], right[at], first, np.diff(np.append(first, len(at)))))
    members = tuple(
        np.array([[float(p >> x & 1) for x in range(a.size)] for p in ps]) for ps, a in zip(parts, axes, strict=True)
    )
    whole = int(np.ravel_multi_index([ps.index((1 << a.size) - 1) for ps, a in zip(parts, axes, strict=True)], shape))
    return Boxes(members, whole, tuple(levels), single)


class Partitions:
    """What is believed of rates on a grid if they are constant on boxes."""

    def __init__(self, levels: Ints, axes: tuple[Axis, ...]) -> None:
        """Nothing is known yet; `look` brings data."""
        self.boxes = boxes_of(axes)
        self._sizes = tuple(a.size for a in axes)
        self._cells = np.ravel_multi_index(tuple(levels.T), self._sizes)
        self.counted_at = 0
        """Episodes of the data of which `evidence` is."""
        self._leaf = np.zeros(0)
        self._chance: list[Floats] = []
        self.evidence = 0.0
        """Log of the chance of the data."""

    def look(self, n: Ints, fails: Ints) -> None:
        """See all data."""
        self._n, self._fails = self._in_boxes(n), self._in_boxes(fails)
        if n.sum() >= GROWTH * self.counted_at:
            self._count()
            self.counted_at = int(n.sum())

    def draws(self, rng: np.random.Generator, count: int, rows: Ints) -> Floats:
        """Joint draws (count × rows) of the logits: each of a way to cut the grid, and of a rate for every leaf."""
        cells = np.stack(np.unravel_index(self._cells[rows], self._sizes))
        found = np.empty((count, len(rows)))
        known: dict[int, tuple[Floats, Ints, Ints]] = {}
        for drawn in found:
            left = [self.boxes.whole]
            while left:
                box = left.pop()
                if box not in known:
                    known[box] = self._cuts_of(box)
                chances, lefts, rights = known[box]
                cut = int(np.searchsorted(chances, rng.random() * chances[-1], side="right")) if len(chances) else 0
                if cut < len(lefts):
                    left += [int(lefts[cut]), int(rights[cut])]
                else:
                    rate = rng.beta(self._fails[box] + 1, self._n[box] - self._fails[box] + 1)
                    drawn[self._within(box, cells)] = np.log(rate) - np.log1p(-rate)
        return found

    def _in_boxes(self, counts: Ints) -> Ints:
        """Counts of points as sums over boxes."""
        sums = floats(np.bincount(self._cells, counts, int(np.prod(self._sizes)))).reshape(self._sizes)
        for d, members in enumerate(self.boxes.members):
            sums = np.moveaxis(np.tensordot(members, sums, axes=(1, d)), 0, d)
        return np.rint(sums).astype(np.int64).ravel()

    def _at_points(self, values: Floats) -> Floats:
        """For every point the sum over the boxes that hold it."""
        sums = values.reshape(self.boxes.shape)
        for d, members in enumerate(self.boxes.members):
            sums = np.moveaxis(np.tensordot(members.T, sums, axes=(1, d)), 0, d)
        return floats(sums.ravel()[self._cells])

    def _count(self) -> None:
        """The chance of the data in each box, of each cut of it, and of each box to be a leaf."""
        factorial = special().gammaln(np.arange(int(self._n.max()) + 2) + 1.0)
        leaf = factorial[self._fails] + factorial[self._n - self._fails] - factorial[self._n + 1]
        leaf += np.where(self.boxes.single, 0.0, LOG_HALF)
        total, self._chance = leaf.copy(), []
        for box, left, right, first, each in self.boxes.cuts:
            told = total[left] + total[right]
            most = np.maximum.reduceat(told, first)
            relative = np.exp(told - np.repeat(most, each))
            sums = np.add.reduceat(relative, first)
            heads = box[first]
            cut = LOG_HALF + most + np.log(sums / each)
            total[heads] = np.logaddexp(leaf[heads], cut)
            self._chance.append(relative * np.repeat(np.exp(cut - total[heads]) / sums, each))
        self.evidence = float(total[self.boxes.whole])
        reached = np.zeros(len(total))
        reached[self.boxes.whole] = 1.0
        for (box, left, right, _, _), chance in zip(self.boxes.cuts[::-1], self._chance[::-1], strict=True):
            share = reached[box] * chance
            reached += np.bincount(left, share, len(total)) + np.bincount(right, share, len(total))
        self._leaf = reached * np.exp(leaf - total)

    def belief(self) -> Belief:
        """Mean and variance of the logit at every point.

        In a leaf they are those of Beta(1 + failures, 1 + successes); a point's are over all leaves that hold it.
        """
        used = np.flatnonzero(self._leaf > NEGLIGIBLE)
        fails, passed = self._fails[used], self._n[used] - self._fails[used]
        # digamma and trigamma at whole numbers are sums, up to a constant that cancels in the mean
        steps = np.arange(1.0, int(self._n.max()) + 1)
        first_sum = np.concatenate([[0.0], np.cumsum(1 / steps)])
        second_sum = np.pi**2 / 6 - np.concatenate([[0.0], np.cumsum(1 / steps**2)])
        mean = first_sum[fails] - first_sum[passed]
        variance = second_sum[fails] + second_sum[passed]
        sums = []
        for values in (np.ones(len(used)), mean, variance + mean * mean):
            spread = np.zeros(len(self._leaf))
            spread[used] = self._leaf[used] * values
            sums.append(self._at_points(spread))
        whole, first, second = sums
        first, second = first / whole, second / whole
        return Belief(first, np.maximum(second - first * first, 1e-8))

    def _cuts_of(self, box: int) -> tuple[Floats, Ints, Ints]:
        """Chances of the cuts of a box, summed up, with that of none at the end; and the halves."""
        for cuts, chance in zip(self.boxes.cuts, self._chance, strict=True):
            low, high = np.searchsorted(cuts.box, [box, box + 1])
            if low < high:
                summed = np.cumsum(chance[low:high])
                return np.append(summed, 1.0), cuts.left[low:high], cuts.right[low:high]
        return np.ones(1), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)

    def _within(self, box: int, cells: Ints) -> Bools:
        """Which of the cells lie in a box."""
        parts = np.unravel_index(box, self.boxes.shape)
        inside = [m[p][c] > 0 for m, p, c in zip(self.boxes.members, parts, cells, strict=True)]
        return np.asarray(np.logical_and.reduce(inside), dtype=bool)
