"""Variance components of nested levels, from unbalanced repeats.

Levels from the top: tasks, sessions (environments) of a task, attempts (traces) of a session, judges of a trace, and
repeated verdicts of a judge. The variance of the children's means inside a parent is the variance of that level plus
what the levels below leave in a mean; solved from the bottom (Henderson's first method, 1953, with unweighted means).
A level without repeats cannot be told from the one above it, and has no number.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ethogram.statistics._numeric import Floats, Ints, Numbers, floats, gamma_quantile
from ethogram.statistics.resample import jackknife_means

LEVELS = ("task", "environment", "agent", "judge", "repeat")
"""From the top; the last two together are the judge."""
_BELOW = len(LEVELS)
FEWEST = 20
"""Below this number of tasks there are no intervals."""


class Component(NamedTuple):
    """The variance of a level with its interval, and from how many repeats it is known; None where there are none."""

    value: float | None
    low: float | None
    high: float | None
    repeats: int


class Components(NamedTuple):
    """One per level, the variance of a single measurement, and how each level enters the variance of the mean."""

    levels: dict[str, Component]
    total: float
    mean: float
    weights: dict[str, float]
    tasks: int


class _Nodes(NamedTuple):
    """Nodes of a level: their means, and how much of each level's variance is in such a mean."""

    mean: Floats
    share: Floats
    parent: Ints


def components(values: Numbers, levels: tuple[Numbers, Numbers, Numbers, Numbers], level: float) -> Components:
    """From single verdicts with the task, session, trace and judge of each: names, unique below their parents.

    Intervals come from leaving out one task in turn, and are never narrower than those of normal values: below `FEWEST`
    tasks there are none.
    """
    x = floats(values)
    codes = _nested(levels)
    columns, weights = _columns(x, codes)
    means = columns.mean(axis=0)
    tasks = columns.shape[0]
    solved = _solve(means[None, :], tasks)
    point = solved.variance[0]
    repeats = columns[:, 1 : 2 * _BELOW : 2].sum(axis=0)
    repeats[0] = tasks - 1
    left = _solve(jackknife_means(columns), tasks - 1).variance if tasks >= FEWEST else np.zeros((0, _BELOW))
    normal = solved.square[0] * np.sqrt(2 / np.maximum(repeats, 1))
    found = {}
    for i, name in enumerate(LEVELS):
        if repeats[i] <= 0:
            found[name] = Component(None, None, None, 0)
            continue
        low = high = None
        if left.size:
            low, high = _ends(float(point[i]), float(solved.square[0, i]), float(normal[i]), left[:, i], level)
        found[name] = Component(float(point[i]), low, high, int(repeats[i]))
    return Components(found, float(np.sum(point)), float(means[-_BELOW]), weights, tasks)


def _ends(value: float, square: float, normal: float, left: Floats, level: float) -> tuple[float, float]:
    """The mean square of a level is a scaled chi-square of as many degrees of freedom as the jackknife's error of the
    variance says (Satterthwaite 1946); what lower levels put into it is taken out of its ends (Williams 1962).

    That error is itself known badly from a few tasks, and too small where no task is far off: it is at least the one of
    `normal` values.
    """
    n = left.size
    error = max(float(np.sqrt((n - 1) / n * np.sum((left - left.mean()) ** 2))), normal)
    if square <= 0 or error <= 0:
        return value, value
    df = min(max(2 * (square / error) ** 2, 1.0), 1e6)
    tail = (1 - level) / 2
    low, high = (float(square * df / (2 * gamma_quantile(p, df / 2))) - (square - value) for p in (1 - tail, tail))
    return max(low, 0.0), max(high, value)


def _nested(levels: tuple[Numbers, Numbers, Numbers, Numbers]) -> list[Ints]:
    """Codes of the nodes of each level, unique below their parents."""
    codes: list[Ints] = []
    for one in levels:
        _, own = np.unique(np.asarray(one), return_inverse=True)
        if codes:
            _, own = np.unique(np.stack([codes[-1], own.ravel()]), axis=1, return_inverse=True)
        codes.append(own.ravel().astype(np.int64))
    return codes


def _columns(x: Floats, codes: list[Ints]) -> tuple[Floats, dict[str, float]]:
    """Per task: sum of squares and degrees of freedom of each level, what lower levels put into them, and the mean.

    Column 2 i and 2 i + 1 belong to level i; then follow the squares' shares of lower levels, level by level.
    """
    tasks = int(codes[0].max()) + 1
    squares, shares = np.zeros((tasks, 2 * _BELOW)), np.zeros((tasks, _BELOW, _BELOW))
    task_of = codes[0]
    nodes = _Nodes(x, np.tile(np.eye(_BELOW)[-1], (x.size, 1)), codes[-1])
    for i in range(_BELOW - 1, 0, -1):
        size = int(nodes.parent.max()) + 1
        n = np.bincount(nodes.parent, minlength=size)
        mean = np.bincount(nodes.parent, weights=nodes.mean, minlength=size) / n
        off = np.bincount(nodes.parent, weights=(nodes.mean - mean[nodes.parent]) ** 2, minlength=size)
        inside = np.stack([np.bincount(nodes.parent, weights=c, minlength=size) for c in nodes.share.T], axis=1)
        up = np.zeros(size, dtype=np.int64)
        up[codes[i - 1]] = task_of
        squares[:, 2 * i] += np.bincount(up, weights=off, minlength=tasks)
        squares[:, 2 * i + 1] += np.bincount(up, weights=n - 1, minlength=tasks)
        for j in range(_BELOW):
            lower = inside[:, j] / n * (n - 1)
            shares[:, i, j] += np.bincount(up, weights=lower, minlength=tasks)
        share = inside / n[:, None] ** 2
        if i > 1:
            parent = np.zeros(size, dtype=np.int64)
            parent[codes[i - 1]] = codes[i - 2]
            share[:, i - 1] = 1.0
            nodes = _Nodes(mean, share, parent)
        else:
            shares[:, 0, :] = share
            nodes = _Nodes(mean, share, np.zeros(size, dtype=np.int64))
    flat = shares.reshape(tasks, -1)
    tail = np.zeros((tasks, _BELOW))
    tail[:, 0], tail[:, 1] = nodes.mean, nodes.mean**2
    weights = {name: float(shares[:, 0, j].mean()) / tasks for j, name in enumerate(LEVELS)}
    weights["task"] = 1 / tasks
    return np.concatenate([squares, flat, tail], axis=1), weights


class _Solved(NamedTuple):
    """Of each level: its variance, and the mean square that it was solved from."""

    variance: Floats
    square: Floats


def _solve(means: Floats, tasks: int) -> _Solved:
    """The variances of all levels from column means, never below 0; a level without repeats counts as 0."""
    draws = means.shape[0]
    squares = means[:, : 2 * _BELOW].reshape(draws, _BELOW, 2)
    shares = means[:, 2 * _BELOW : 2 * _BELOW + _BELOW**2].reshape(draws, _BELOW, _BELOW)
    first, second = means[:, -_BELOW], means[:, -_BELOW + 1]
    out, whole = np.zeros((draws, _BELOW)), np.zeros((draws, _BELOW))
    for i in range(_BELOW - 1, 0, -1):
        df = squares[:, i, 1]
        # the diagonal share of a level in its own squares is 1: only lower levels are taken out
        lower = np.sum(shares[:, i, i + 1 :] * out[:, i + 1 :], axis=1)
        safe = np.where(df > 0, df, 1.0)
        whole[:, i] = np.where(df > 0, squares[:, i, 0] / safe, 0.0)
        out[:, i] = np.where(df > 0, np.maximum(squares[:, i, 0] - lower, 0.0) / safe, 0.0)
    between = (second - first**2) * tasks / max(tasks - 1, 1)
    whole[:, 0] = between
    out[:, 0] = np.maximum(between - np.sum(shares[:, 0, 1:] * out[:, 1:], axis=1), 0.0)
    return _Solved(out, whole)
