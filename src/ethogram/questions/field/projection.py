"""Trajectories in few dimensions: the largest principal components, and their share of the spread."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ethogram.measures.columns import Floats

from .field import Field
from .fieldtests import paired
from .standardised import scale_of, standardised


class Projection(NamedTuple):
    """`places` are (K, components); `explained` their shares of the variance; `standard` the standardised values."""

    places: Floats
    explained: Floats
    standard: Floats
    names: list[str]


def project(field: Field, components: int = 2) -> Projection:
    """Principal components of the standardised log features, each task's mean taken out (Pearson 1901).

    Signs are fixed by the largest loading, so that the same runs give the same picture.
    """
    scale = scale_of(field)
    values = standardised(field, scale)
    index = field.task_index
    counts = np.maximum(np.bincount(index, minlength=len(field.tasks)), 1)
    centred = values.copy()
    for column in range(values.shape[1]):
        means = np.bincount(index, weights=values[:, column], minlength=len(field.tasks)) / counts
        centred[:, column] -= means[index]
    names = [name for name, alive in zip(field.names, scale.alive, strict=True) if alive]
    if not names or field.K < 2:
        return Projection(np.zeros((field.K, 0)), np.zeros(0), centred, names)
    _, singular, axes = np.linalg.svd(centred, full_matrices=False)
    kept = min(components, axes.shape[0])
    chosen = axes[:kept]
    signs = np.sign(chosen[np.arange(kept), np.argmax(np.abs(chosen), axis=1)])
    total = float(np.sum(singular**2))
    shares = singular[:kept] ** 2 / total if total > 0 else np.zeros(kept)
    return Projection(centred @ (chosen * signs[:, None]).T, shares, centred, names)


class Centre(NamedTuple):
    """One dimension of two fields: the mean over tasks of each, in standard deviations of the spread within tasks."""

    dimension: str
    first: float
    second: float


def centres(first: Field, second: Field) -> list[Centre]:
    """Where two fields lie, on the tasks that both have and on one scale; dimensions that never vary are left out."""
    pair = paired(first, second)
    names = [name for name, alive in zip(first.names, pair.alive, strict=True) if alive]
    means = []
    for arm in (~pair.second, pair.second):
        task, x = pair.task[arm], pair.x[arm]
        of_task = [x[task == t].mean(axis=0) for t in range(len(pair.tasks)) if (task == t).any()]
        means.append(np.mean(of_task, axis=0))
    return [Centre(name, float(one), float(two)) for name, one, two in zip(names, *means, strict=True)]
