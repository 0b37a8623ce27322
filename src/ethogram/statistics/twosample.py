"""Two-sample tests task by task: labels are permuted within tasks; nothing else is assumed.

Two kinds of evidence from the same draws. Distances: the energy statistic (Székely and Rizzo 2004), which compares
distances between the sides with those within. Features (log counts of events, length): how far the sides' means are
apart in each feature, in units of its spread under dealing, and the largest of those (Westfall and Young 1993). The
features are summed over tasks with their sign (a change that goes the same way everywhere) and without (each task its
own way).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ._numeric import Bools, Floats
from .multiplicity import max_t
from .resample import permutation_p

_ONE_THREAD = 1_000_000
"""Multiplications of one block."""


class TaskSample(NamedTuple):
    """Runs of one task: distances (runs, runs), features (runs, features), and which runs are the second side's."""

    distances: Floats
    features: Floats
    second: Bools


class TwoSample(NamedTuple):
    """P-values of the three questions, of each feature (adjusted for all of them) and of each task."""

    energy: float
    energy_p: float
    same_way: Floats
    same_way_p: float
    feature_p: Floats
    own_way_p: float
    task_features_p: Floats
    task_energy_p: Floats


def permuted_sides(first: int, second: int, draws: int, rng: np.random.Generator) -> Floats:
    """Permuted labels, 1 for the second side, (draws, attempts): every choice of `second` attempts is equally likely.

    Runs are taken in turn with the chance that what is still needed bears to what is left (Knuth 1969, algorithm S).
    """
    runs = first + second
    chance = rng.random((runs, draws))
    needed = np.full(draws, float(second))
    labels = np.empty((runs, draws))
    for i in range(runs):
        taken = chance[i] * (runs - i) < needed
        labels[i] = taken
        needed -= taken
    return labels.T


def energy(distances: Floats, labels: Floats) -> Floats:
    """nm / (n + m) times twice the mean distance between the sides minus the means within, for each row of labels."""
    m = float(labels[0].sum())
    n = labels.shape[1] - m
    sums = distances.sum(axis=1, keepdims=True)
    product = _times(labels, np.concatenate([distances, sums], axis=1))
    inside_second = np.einsum("ij,ij->i", product[:, :-1], labels)
    reached = product[:, -1]
    inside_first = distances.sum() - 2 * reached + inside_second
    crossing = reached - inside_second
    return np.asarray(n * m / (n + m) * (2 * crossing / (n * m) - inside_first / n**2 - inside_second / m**2))


def compare_samples(tasks: Sequence[TaskSample], draws: int, rng: np.random.Generator) -> TwoSample:
    """Compare the two sides with labels permuted within each task; every task needs attempts on both sides."""
    width = tasks[0].features.shape[1]
    far, apart, spread, own = np.zeros(draws + 1), np.zeros((draws + 1, width)), np.zeros(width), np.zeros(draws + 1)
    task_p: list[tuple[float, float]] = []
    for task in tasks:
        second = int(task.second.sum())
        dealt = permuted_sides(task.second.size - second, second, draws, rng)
        labels = np.concatenate([task.second[None, :].astype(np.float64), dealt])
        here = energy(task.distances, labels)
        moved, variance = _moved(task, labels)
        apart += moved
        spread += variance
        live = variance > 0
        largest = np.max(moved[:, live] ** 2 / variance[live], axis=1) if live.any() else np.zeros(draws + 1)
        far += here
        own += largest
        task_p.append((_p(largest), _p(here)))
    z = np.abs(apart) / np.sqrt(np.where(spread > 0, spread, 1.0))
    return TwoSample(
        energy=float(far[0]),
        energy_p=_p(far),
        same_way=apart[0] / np.sqrt(np.where(spread > 0, spread, 1.0)),
        same_way_p=_p(z.max(axis=1)) if width else 1.0,
        feature_p=max_t(z[0], z[1:]) if width else np.ones(0),
        own_way_p=_p(own),
        task_features_p=np.array([p for p, _ in task_p]),
        task_energy_p=np.array([p for _, p in task_p]),
    )


def _moved(task: TaskSample, labels: Floats) -> tuple[Floats, Floats]:
    """The second side's sum minus what dealing expects, per row of labels, and its variance under dealing."""
    n, second = task.second.size, int(task.second.sum())
    centred = task.features - task.features.mean(axis=0)
    variance = second * (n - second) / n * np.sum(centred**2, axis=0) / (n - 1)
    return _times(labels, centred), np.where(variance > 1e-18, variance, 0.0)


def _times(labels: Floats, matrix: Floats) -> Floats:
    """The product in blocks that BLAS leaves to one thread: a second one costs more here than it brings."""
    out = np.empty((labels.shape[0], matrix.shape[1]))
    step = max(1, _ONE_THREAD // max(matrix.size, 1))
    for start in range(0, labels.shape[0], step):
        np.matmul(labels[start : start + step], matrix, out=out[start : start + step])
    return out


def _p(values: Floats) -> float:
    return permutation_p(float(values[0]), values[1:], "greater")
