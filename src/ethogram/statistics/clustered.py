"""Limits for a mean over tasks drawn from a population, values between 0 and 1, that keep the order of tables.

Wilson's limit with the effective n of clustered tasks (Kish 1965, Miller 2024) takes its variance from the task values.
Where few tasks differ from the rest that variance is itself unknown, and losing a pass could *raise* the low end. Two
rules mend it. The effective n is capped by how many tasks differ. And a limit is the most cautious one over a family of
tables: the upper limit is the largest over all tables that have at most these values, the lower limit the mirror image.
So a lost pass never raises the low end and a gained one never lowers the high end, whatever the table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ._numeric import Floats, Ints, Numbers, floats, normal_quantile, student_quantile
from .interval import effective_n, wilson_edge

DIFFERING = 10
"""This number of tasks must differ from the rest before attempts count as fully as their variance says."""
_SHARES = np.linspace(0.0, 1.0, 9)
_ROUNDS = 9
_MISSED = 0.005


class ClusteredInterval(NamedTuple):
    """The two ends, and the number of independent trials that the table itself is worth."""

    low: Floats
    high: Floats
    effective: Floats


def mean_limits(values: Numbers, weights: Numbers, groups: Numbers, level: float) -> ClusteredInterval:
    """Both ends for the mean of `values` over the axis before the last; `weights` says how many tasks share a value.

    `groups` are the disjoint groups of attempts behind all values together: the effective n is never above that.
    """
    v, w = np.broadcast_arrays(floats(values), floats(weights))
    high, effective = _upper(v, w, floats(groups), level)
    return ClusteredInterval(1 - _upper(1 - v, w, floats(groups), level)[0], high, effective)


class _Tables(NamedTuple):
    """Tables that keep some of the values and have 0 elsewhere: mean, mean square, how many values are kept."""

    mean: Floats
    square: Floats
    kept: Floats

    def between(self, other: _Tables, share: Floats) -> _Tables:
        return _Tables(*(a + share * (b - a) for a, b in zip(self, other, strict=True)))

    def at(self, place: tuple[Ints, ...]) -> _Tables:
        return _Tables(*(part[place] for part in self))


class _Rule(NamedTuple):
    """What a table's limit depends on besides the table, per column of tables.

    `worth` is effective n over m (1 - m) / variance, with Student's quantile in place of the normal one.
    """

    tasks: Floats
    below_one: Floats
    groups: Floats
    worth: Floats
    level: float

    @classmethod
    def of(cls, tasks: Floats, below_one: Floats, groups: Floats, level: float) -> _Rule:
        df, upper = np.maximum(tasks - 1, 1.0), 0.5 + level / 2
        worth = df * (normal_quantile(upper) / student_quantile(upper, df)) ** 2
        return cls(np.maximum(tasks, 1.0), below_one, np.maximum(groups, tasks), worth, level)

    def effective(self, tables: _Tables) -> Floats:
        """Trials of the same variance, at most T · (groups / T) ^ clip((m - 1) / 9, 0, 1), m the tasks that differ."""
        spread = np.maximum(tables.square - tables.mean**2, 0.0)
        return effective_n(tables.mean, spread / self.worth, 1.0, self._most(tables), self.tasks)

    def limit(self, tables: _Tables) -> Floats:
        """The upper limit of one table, or of many."""
        n = self.effective(tables)
        return wilson_edge(np.clip(tables.mean, 0.0, 1.0) * n, n, self.level).high

    def fewest(self, left: _Tables, right: _Tables) -> Floats:
        """No table between these two is worth less: from the largest variance and the smallest m (1 - m) and cap."""
        step = right.mean - left.mean
        rise = right.square - left.square - 2 * left.mean * step
        top = np.clip(np.divide(rise, 2 * step**2, out=np.zeros(step.shape), where=step > 0), 0.0, 1.0)
        spread = np.maximum(left.square - left.mean**2 + top * rise - (top * step) ** 2, 0.0)
        least = np.minimum(left.mean * (1 - left.mean), right.mean * (1 - right.mean))
        seen = np.divide(least, spread, out=np.ones(spread.shape), where=spread > 0)
        # values in [0, 1] never vary more than m (1 - m)
        return floats(np.clip(np.maximum(seen, 1.0) * self.worth, 1.0, self._most(left)))

    def _most(self, tables: _Tables) -> Floats:
        share = np.clip((np.minimum(tables.kept, self.below_one) - 1) / (DIFFERING - 1), 0.0, 1.0)
        return floats(self.tasks * (self.groups / self.tasks) ** share)

    def at(self, column: tuple[Ints, ...]) -> _Rule:
        per_column = (self.tasks, self.below_one, self.groups, self.worth)
        tasks, below_one, groups, worth = (part[column] for part in per_column)
        return _Rule(tasks, below_one, groups, worth, self.level)


def _upper(v: Floats, w: Floats, groups: Floats, level: float) -> tuple[Floats, Floats]:
    """The largest limit over all tables y ≤ v, and the effective n of v itself.

    Wilson's limit rises with the mean and falls with the effective n. Among tables y ≤ v with a given mean the one with
    the largest variance and the fewest positive tasks keeps the largest values and sets the others to 0 (a task in
    between is a mixture of the two), so a search along that one path finds the largest limit over all of them.
    """
    used = w > 0
    order = np.argsort(np.where(used, -v, 1.0), axis=-2, kind="stable")
    v, w = np.take_along_axis(v, order, axis=-2), np.take_along_axis(np.where(used, w, 0.0), order, axis=-2)
    tasks = w.sum(axis=-2, keepdims=True)
    n = np.maximum(tasks, 1.0)
    below_one = np.sum(np.where(v < 1, w, 0.0), axis=-2, keepdims=True)
    rule = _Rule.of(tasks, below_one, np.broadcast_to(groups[..., None, :], tasks.shape), level)
    positive = np.where(v > 0, w, 0.0)
    kept = np.cumsum(positive, axis=-2)
    path = _Tables(np.cumsum(w * v, axis=-2) / n, np.cumsum(w * v * v, axis=-2) / n, kept)
    corners = [_cut(v, positive, kept, n, at) for at in (0.0, 1.0, float(DIFFERING))]
    path = _Tables(*(np.concatenate(parts, axis=-2) for parts in zip(*corners, path, strict=True)))
    along = np.argsort(path.mean, axis=-2, kind="stable")
    path = _Tables(*(np.take_along_axis(part, along, axis=-2) for part in path))
    limits = rule.limit(path)
    own = _Tables(*(part[..., -1:, :] for part in path))
    return _refined(path, rule, limits), rule.effective(own)[..., 0, :]


def _cut(v: Floats, w: Floats, kept: Floats, n: Floats, count: float) -> _Tables:
    """The table that keeps the `count` largest values; the rule bends where 1 and 10 are kept."""
    take = np.clip(count - (kept - w), 0.0, w)
    parts = (take * v / n, take * v * v / n, take)
    return _Tables(*(part.sum(axis=-2, keepdims=True) for part in parts))


def _refined(path: _Tables, rule: _Rule, limits: Floats) -> Floats:
    """The largest limit also between two corners of the path, searched only where it could exceed the corners'."""
    best: Floats = limits.max(axis=-2)
    left, right = (_Tables(*(part[..., s, :] for part in path)) for s in (slice(None, -1), slice(1, None)))
    fewest = rule.fewest(left, right)
    bound = wilson_edge(right.mean * fewest, fewest, rule.level).high
    place = np.nonzero((bound > best[..., None, :] + 1e-12) & (right.mean > left.mean))
    if place[0].size == 0:
        return best
    column = (*place[:-2], np.zeros_like(place[-2]), place[-1])
    local, a, b = rule.at(column), left.at(place), right.at(place)
    seen = local.limit(a.between(b, _SHARES[:, None]))
    # a grid of nine misses the top by little; where even so it stays below the corners there is nothing to find
    near = np.flatnonzero(seen.max(axis=0) > best[(*place[:-2], place[-1])] - _MISSED)
    if near.size == 0:
        return best
    place, column = tuple(x[near] for x in place), tuple(x[near] for x in column)
    local, a, b = rule.at(column), left.at(place), right.at(place)
    np.maximum.at(best, (*place[:-2], place[-1]), _largest(lambda share: local.limit(a.between(b, share)), near.size))
    return best


def _largest(function: Callable[[Floats], Floats], size: int) -> Floats:
    """The largest value on [0, 1] per element: grids, each between the neighbours of the last one's best point."""
    low, width, best = np.zeros(size), np.ones(size), np.full(size, -np.inf)
    for _ in range(_ROUNDS):
        seen = function(low + _SHARES[:, None] * width)
        best = np.maximum(best, seen.max(axis=0))
        at = np.clip(np.argmax(seen, axis=0), 1, _SHARES.size - 2)
        low, width = low + (at - 1) / (_SHARES.size - 1) * width, width * 2 / (_SHARES.size - 1)
    return floats(best)
