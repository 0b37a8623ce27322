"""A mean of the truth from many cheap predictions and a few labels: prediction-powered estimates.

PPI++ (Angelopoulos, Duchi and Zrnic 2023) adds to the labels' mean what the predictions say of the units without a
label, trusted by a factor λ between 0 and 1 that makes the variance least: a useless judge costs nothing, and no judge
biases the estimate. Units are in cells (strata); inside a cell labels are weighted by one over the probability that
they were drawn (Hájek), so labels may be taken where they tell most. The variance is that of clusters (tasks), labelled
or not: attempts at one task may be in both parts. The interval is Wilson's at the effective n.
"""

from __future__ import annotations

from math import ceil
from typing import NamedTuple

import numpy as np

from ethogram.statistics._numeric import Floats, Ints, Numbers, floats, normal_quantile, student_quantile
from ethogram.statistics.interval import wilson_edge

FEW = 3
"""From this number of tasks with a wrong verdict on, their spread is taken as it is."""


class JudgedSample(NamedTuple):
    """All units with a prediction: its value, the cluster and the cell of each, as numbers from 0."""

    predicted: Floats
    cluster: Ints
    cell: Ints

    @classmethod
    def of(cls, predicted: Numbers, cluster: Numbers | None = None, cell: Numbers | None = None) -> JudgedSample:
        """From plain arrays; without clusters each unit is one of its own, without cells all are in one."""
        f = floats(predicted)
        codes = [
            np.unique(np.asarray(x), return_inverse=True)[1].astype(np.int64).ravel() if x is not None else default
            for x, default in ((cluster, np.arange(f.size)), (cell, np.zeros(f.size, dtype=np.int64)))
        ]
        return cls(f, codes[0], codes[1])


class Labels(NamedTuple):
    """Units with a label: their places among the judged, the truth between 0 and 1, and weights."""

    place: Ints
    truth: Floats
    weight: Floats

    @classmethod
    def of(cls, place: Numbers, truth: Numbers, probability: Numbers = 1.0) -> Labels:
        """From plain arrays; `probability` is that of having been drawn."""
        y = floats(truth)
        return cls(np.asarray(place, dtype=np.int64), y, np.broadcast_to(1 / floats(probability), y.shape))


class Corrected(NamedTuple):
    """The mean of the truth over all judged units, its ends, how far the judge was trusted (λ), and the variance.

    `effective` is the number of independent labels of that variance, `clusters` those that hold a label. `of_labels` is
    the part of the variance that falls with their number; the rest is there because no more units were judged.
    """

    value: float
    low: float
    high: float
    trust: float
    variance: float
    effective: float
    labels: int
    clusters: int
    of_labels: float

    def labels_for(self, half_width: float, level: float) -> int | None:
        """About how many labels, drawn like these, make the interval this narrow to each side; None if none do."""
        left = (half_width / float(normal_quantile(0.5 + level / 2))) ** 2 - (self.variance - self.of_labels)
        return ceil(self.labels * self.of_labels / left) if left > 0 else None


def corrected_mean(judged: JudgedSample, labels: Labels, level: float) -> Corrected:
    """The corrected mean; every cell with a judged unit must have a label, and `ValueError` says which has none."""
    f, cells = judged.predicted, int(judged.cell.max(initial=-1)) + 1
    at = judged.cell[labels.place]
    size, weight = np.bincount(judged.cell, minlength=cells), np.bincount(at, weights=labels.weight, minlength=cells)
    empty = np.flatnonzero((size > 0) & (weight <= 0))
    if labels.truth.size == 0 or empty.size:
        raise ValueError(f"no label in cell {int(empty[0])}" if empty.size else "no label")
    part = size / f.size
    own = labels.weight / weight[at]  # the weights of each cell add up to 1
    trust = _trust(judged, labels, part, own)
    off = labels.truth - trust * f[labels.place]
    mean = np.bincount(at, weights=own * off, minlength=cells)
    value = float(part @ mean) + trust * float(f.mean())
    n, clusters = labels.truth.size, int(np.unique(judged.cluster[labels.place]).size)
    whole = int(judged.cluster.max()) + 1
    right = np.bincount(judged.cluster[labels.place], weights=part[at] * own * (off - mean[at]), minlength=whole)
    rest = np.bincount(judged.cluster, weights=(trust * f + mean[judged.cell] - value) / f.size, minlength=whole)
    seen = clusters / max(clusters - 1, 1) * float(np.sum(right**2))
    differ = _differ(judged, labels, trust)
    seen *= 1 + max(0.0, 1 - differ / FEW) / max(differ, 1)
    # what no label showed may still be there: as much as one wrong verdict, of a task rather than of a run
    seen = max(seen, float(np.max(part[at] * own)) ** 2 * n / clusters)
    variance = seen + whole / max(whole - 1, 1) * float(np.sum(rest**2 + 2 * rest * right))
    # labels and predictions of one task may cancel by chance, yet never know more than all predictions do
    variance = max(variance, float(np.sum(rest**2)), 1e-300)
    of_labels = min(seen, variance)
    if whole < f.size:
        upper = 0.5 + level / 2
        wider = float(student_quantile(upper, max(clusters - 1, 1)) / normal_quantile(upper)) ** 2
        variance, of_labels = variance * wider, of_labels * wider
    value = min(max(value, 0.0), 1.0)
    spread = value * (1 - value)
    worth = max(spread / variance, 1.0) if spread > 1e-12 else float(clusters)
    low, high = wilson_edge(value * worth, worth, level)
    return Corrected(value, float(low), float(high), trust, variance, worth, n, clusters, of_labels)


def _trust(judged: JudgedSample, labels: Labels, part: Floats, own: Floats) -> float:
    """λ: the covariance of truth and prediction within cells over the variance of the prediction, from 0 to 1."""
    f, at = judged.predicted, judged.cell[labels.place]
    count = np.maximum(np.bincount(at, minlength=part.size), 1)
    x = f[labels.place]
    middle = [np.bincount(at, weights=own * v, minlength=part.size) for v in (x, labels.truth)]
    together = np.bincount(at, weights=own * (x - middle[0][at]) * (labels.truth - middle[1][at]), minlength=part.size)
    sizes = np.maximum(np.bincount(judged.cell, minlength=part.size), 1)
    mean = np.bincount(judged.cell, weights=f, minlength=part.size) / sizes
    square = np.bincount(judged.cell, weights=(f - mean[judged.cell]) ** 2, minlength=part.size) / sizes
    scale = part**2 / count
    below = float(scale @ square)
    return min(max(float(scale @ together) / below, 0.0), 1.0) if below > 0 else 0.0


def _differ(judged: JudgedSample, labels: Labels, trust: float) -> int:
    """How many clusters hold a label that is not what was foreseen: the verdict, or without one the usual answer."""
    usual = judged.predicted[labels.place] if trust > 0 else np.round(np.median(labels.truth))
    return int(np.unique(judged.cluster[labels.place][np.abs(labels.truth - usual) >= 0.5]).size)


def label_worth(correlation: float | None, labels: int, judged: int) -> float:
    """How many labels one label is worth with a judge of this correlation: 1 / (1 - φ² (1 - labels / judged))."""
    return 1 / (1 - (correlation or 0.0) ** 2 * (1 - labels / max(judged, 1)) * (1 - 1e-12))


def raw_multiplier(judge: float | None, truth: float | None, passes: float | None) -> float | None:
    """By how much a comparison of raw verdicts needs more runs: q (1 - q) / (π (1 - π)) / J², None where J ≤ 0.

    `judge` is J, `truth` the true rate π, `passes` the rate q of the verdicts; near 0 and 1 the rates are left out.
    """
    if judge is None or judge <= 0:
        return None
    if truth is None or passes is None or not 0 < truth < 1 or not 0 < passes < 1:
        return 1 / judge**2
    return passes * (1 - passes) / (truth * (1 - truth)) / judge**2
