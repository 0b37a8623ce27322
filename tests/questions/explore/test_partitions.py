"""Boxes of a grid: against an enumeration of all ways to cut it, and against simulation."""

from __future__ import annotations

import itertools
from math import comb, lgamma

import numpy as np
import pytest

from ethogram.questions.explore.partitions import Partitions, boxes_of, cuts_in_all
from ethogram.questions.explore.surface import Axis

AXES = (Axis(3, True), Axis(3, False))
LEVELS = np.array(list(itertools.product(range(3), range(3))))


def told(n: int, fails: int) -> float:
    """The chance of a sequence of outcomes whose rate is uniform."""
    return 1 / ((n + 1) * comb(n, fails))


def halves(axis: Axis, part: frozenset[int]) -> list[tuple[frozenset[int], frozenset[int]]]:
    """All ways to cut one part of an axis, written down as sets."""
    values = sorted(part)
    if axis.ordered:
        return [(frozenset(values[:i]), frozenset(values[i:])) for i in range(1, len(values))]
    rest = values[1:]
    chosen = (set(c) for k in range(len(rest)) for c in itertools.combinations(rest, k))
    return [(frozenset({values[0], *c}), part - {values[0], *c}) for c in chosen]


def enumerated(box: tuple[frozenset[int], ...], n: np.ndarray, fails: np.ndarray) -> tuple[float, dict[int, float]]:
    """The chance of the data in a box, and for each point the same times its expected rate."""
    rows = [i for i, level in enumerate(LEVELS) if all(x in part for x, part in zip(level, box, strict=True))]
    total, failed = int(n[rows].sum()), int(fails[rows].sum())
    whole, rates = told(total, failed), {i: told(total, failed) * (failed + 1) / (total + 2) for i in rows}
    cuts = [(d, *pair) for d, part in enumerate(box) for pair in halves(AXES[d], part)]
    if not cuts:
        return whole, rates
    whole, rates = whole / 2, {i: r / 2 for i, r in rates.items()}
    for d, left, right in cuts:
        (a, in_a), (b, in_b) = (enumerated((*box[:d], half, *box[d + 1 :]), n, fails) for half in (left, right))
        whole += a * b / 2 / len(cuts)
        for i in rows:
            rates[i] += (in_a[i] * b if i in in_a else a * in_b[i]) / 2 / len(cuts)
    return whole, rates


def test_evidence_and_draws_are_those_of_all_ways_to_cut_the_grid():
    rng = np.random.default_rng(3)
    n = rng.integers(0, 5, 9)
    fails = rng.binomial(n, np.where(LEVELS[:, 0] == 2, 0.8, 0.1))
    boxes = Partitions(LEVELS, AXES)
    boxes.look(n, fails)
    belief = boxes.belief()
    whole, rates = enumerated((frozenset(range(3)), frozenset(range(3))), n, fails)
    assert boxes.evidence == pytest.approx(np.log(whole))
    draws = boxes.draws(rng, 6000, np.arange(9))
    assert draws.mean(axis=0) == pytest.approx(belief.mean, abs=0.1)
    assert draws.var(axis=0) == pytest.approx(belief.variance, rel=0.15)
    expected = np.array([rates[i] / whole for i in range(9)])
    assert (1 / (1 + np.exp(-draws))).mean(axis=0) == pytest.approx(expected, abs=0.02)


def test_all_cuts_are_counted_before_any_is_made():
    for axes in (AXES, (Axis(1, True),), (Axis(4, True), Axis(2, False), Axis(1, False))):
        assert sum(len(c.box) for c in boxes_of(axes).cuts) == cuts_in_all(axes)
    assert cuts_in_all((Axis(4, True),) * 5) == 500_000
    assert cuts_in_all((Axis(10, True),) * 5) > 600_000


def test_a_grid_of_one_point_has_one_rate():
    boxes = Partitions(np.zeros((1, 1), dtype=np.int64), (Axis(1, True),))
    boxes.look(np.array([7]), np.array([2]))
    assert boxes.evidence == pytest.approx(lgamma(3) + lgamma(6) - lgamma(9))
