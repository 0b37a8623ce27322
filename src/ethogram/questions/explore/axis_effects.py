"""Which axes of a grid matter: means over all other axes, and shares of the variance over the grid."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ethogram.statistics._numeric import Floats, Ints, floats


def level_means(rates: Floats, cells: Ints, count: int) -> Floats:
    """Mean rate of each cell, per draw: `rates` (draws × points), `cells` says in which cell a point lies.

    An empty cell has the mean of all points: it says nothing.
    """
    sizes = np.bincount(cells, minlength=count)
    order = np.argsort(cells, kind="stable")
    edges = np.concatenate([[0], np.cumsum(sizes)])
    sums = np.add.reduceat(np.hstack([rates[:, order], np.zeros((len(rates), 1))]), edges[:-1], axis=1)
    means = np.where(sizes > 0, sums / np.maximum(sizes, 1), rates.mean(axis=1, keepdims=True))
    return floats(means)


def shares(rates: Floats, levels: Ints, sizes: Sequence[int], effect: Sequence[int]) -> Floats:
    """The share of the variance over the grid that an effect alone explains, per draw (Sobol 1993).

    One axis: the variance of its level means. Two axes: that of their cell means, less what each explains alone.
    """
    total = np.maximum(rates.var(axis=1), 1e-12)
    if len(effect) == 1:
        return floats(_between(rates, levels[:, effect[0]], sizes[effect[0]]) / total)
    first, second = effect
    cells = levels[:, first] * sizes[second] + levels[:, second]
    both = _between(rates, cells, sizes[first] * sizes[second])
    alone = sum(_between(rates, levels[:, d], sizes[d]) for d in (first, second))
    return floats(np.maximum(both - alone, 0.0) / total)


def _between(rates: Floats, cells: Ints, count: int) -> Floats:
    weights = np.bincount(cells, minlength=count) / len(cells)
    means = level_means(rates, cells, count)
    return floats((means**2 @ weights) - (means @ weights) ** 2)
