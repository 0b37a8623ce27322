"""Permutation tests within groups: max-T over features, two norms of a centre's shift, the smallest possible p.

The null is that labels are exchangeable inside each group (Fisher 1935), so what differs between groups
(the difficulty of tasks) never counts. `group` is the index of each row's task.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ._numeric import Bools, Floats, Ints, Numbers, floats, log_choose, normal_cdf
from .multiplicity import max_t

_CHUNK = 4_000_000


class MaxT(NamedTuple):
    """Per feature: the statistic in its permutation standard deviations, p alone, and p adjusted over all features."""

    z: Floats
    p: Floats
    adjusted: Floats


class CentreTests(NamedTuple):
    """Permutation tests of two norms: of the shift averaged over groups, and of each group's own shift.

    `features` is max-T over the averaged shift's components.
    """

    pooled: float
    per_group: float
    features: MaxT


def deal(values: Numbers, group: Numbers, draws: int, rng: np.random.Generator) -> Floats:
    """Values permuted within groups, (draws, rows)."""
    y, at = floats(values), np.asarray(group, dtype=np.int64)
    inside = y[np.argsort(at, kind="stable")]
    order = np.argsort(at + rng.random((draws, y.size)), axis=1)
    out = np.empty((draws, y.size))
    np.put_along_axis(out, order, np.broadcast_to(inside, out.shape), axis=1)
    return out


def log_arrangements(group: Numbers, second: Numbers, groups: int) -> float:
    """The logarithm of the number of ways to deal two labels within groups: 1 over it bounds p from below."""
    at, own = np.asarray(group, dtype=np.int64), np.asarray(second, dtype=bool)
    n = np.bincount(at, minlength=groups)
    return float(np.sum(log_choose(n, np.bincount(at[own], minlength=groups))))


def association(x: Numbers, y: Numbers, group: Numbers, groups: int, draws: int, rng: np.random.Generator) -> MaxT:
    """Test for association of y with columns of x inside groups: Σ ỹ x̃ over its exact permutation sd; step-down max-T.

    Westfall and Young (1993). A column without spread inside groups has z = 0 and p = 1.
    """
    xs, ys, at = _inside(x, y, group, groups)
    sd = np.sqrt(np.diag(_permutation_covariance(xs, ys, at, groups)))
    weight = np.divide(1.0, sd, out=np.zeros(sd.shape), where=sd > 0)
    z = xs.T @ ys * weight
    drawn = np.empty((draws, z.size))
    step = max(1, _CHUNK // max(ys.size, 1))
    for start in range(0, draws, step):
        size = min(step, draws - start)
        drawn[start : start + size] = deal(ys, at, size, rng) @ xs
    drawn = np.abs(drawn * weight)
    return _ranked(z, drawn)


def max_t_normal(score: Numbers, covariance: Numbers, draws: int, rng: np.random.Generator) -> MaxT:
    """Step-down max-T of scores that are jointly normal under the null with this covariance."""
    values, cov = floats(score), floats(covariance)
    sd = np.sqrt(np.maximum(np.diag(cov), 0.0))
    weight = np.divide(1.0, sd, out=np.zeros(sd.shape), where=sd > 0)
    z = values * weight
    roots, axes = np.linalg.eigh(cov * np.outer(weight, weight))
    drawn = np.abs(rng.standard_normal((draws, z.size)) @ (axes * np.sqrt(np.maximum(roots, 0.0))).T)
    found = _ranked(z, drawn)
    return found._replace(p=np.minimum(2 * normal_cdf(-np.abs(z)), 1.0))


def centre_tests(
    x: Numbers, second: Numbers, group: Numbers, groups: int, draws: int, rng: np.random.Generator
) -> CentreTests:
    """Test whether the centre moved between two arms, permuted within groups that have both; `x` is standardised.

    The first norm sees what all groups do alike, the second what each does its own way: report both, Holm over them.
    """
    data, own, at = floats(x), np.asarray(second, dtype=bool), np.asarray(group, dtype=np.int64)
    n = np.bincount(at, minlength=groups)
    taken = np.bincount(at[own], minlength=groups)
    both = (taken > 0) & (taken < n)
    keep = both[at]
    count = int(both.sum())
    if count == 0:
        d = data.shape[1]
        return CentreTests(1.0, 1.0, MaxT(np.zeros(d), np.ones(d), np.ones(d)))
    data, own, at = _by_group(data[keep], own[keep], (np.cumsum(both) - 1)[at[keep]])
    size_all, size_own = n[both].astype(np.float64), taken[both].astype(np.float64)
    # with rows taken from their group's mean, the shift of a group is N / (nA nB) times the second arm's sum
    xs, _, _ = _inside(data, own, at, count)
    pull = size_all / (size_own * (size_all - size_own))
    weight = pull[at] / count
    starts = np.concatenate([[0], np.cumsum(size_all)[:-1]]).astype(np.int64)
    averaged, each = np.empty((draws + 1, data.shape[1])), np.empty(draws + 1)
    step = max(1, _CHUNK // max(own.size * data.shape[1], 1))
    for start in range(0, draws + 1, step):
        size = min(step, draws + 1 - start)
        labels = deal(own.astype(np.float64), at, size, rng)
        if start == 0:
            labels[0] = own
        averaged[start : start + size] = (labels * weight) @ xs
        sums = np.add.reduceat(labels[:, :, None] * xs, starts, axis=1)
        each[start : start + size] = np.mean(pull**2 * np.sum(sums * sums, axis=2), axis=1)
    norm = np.sum(averaged**2, axis=1)
    sd = np.sqrt(np.diag(_dealt_covariance(xs, at, size_all, size_own, pull / count)))
    unit = np.divide(1.0, sd, out=np.zeros(sd.shape), where=sd > 0)
    features = _ranked(averaged[0] * unit, np.abs(averaged[1:] * unit))
    return CentreTests(_tail(norm), _tail(each), features)


def centre_tests_normal(
    x: Numbers, second: Numbers, group: Numbers, groups: int, draws: int, rng: np.random.Generator
) -> CentreTests:
    """The same for many rows per group: each group's shift is normal by then, so its norms are drawn from that."""
    data, own, at = floats(x), np.asarray(second, dtype=bool), np.asarray(group, dtype=np.int64)
    n, taken = (np.bincount(g, minlength=groups).astype(np.float64) for g in (at, at[own]))
    both = (taken > 0) & (taken < n)
    xs, _, _ = _inside(data, own, at, groups)
    pull = np.divide(n, taken * (n - taken), out=np.zeros(groups), where=both)
    factor = pull**2 * taken * (n - taken) / (n * np.maximum(n - 1, 1.0))
    count, d = max(int(both.sum()), 1), data.shape[1]
    shifts, covariances = np.zeros((groups, d)), np.zeros((groups, d, d))
    for g in np.flatnonzero(both):
        rows = xs[at == g]
        shifts[g] = pull[g] * rows[own[at == g]].sum(axis=0)
        covariances[g] = factor[g] * rows.T @ rows
    mean, covariance = shifts.sum(axis=0) / count, covariances.sum(axis=0) / count**2
    spread = np.maximum(np.linalg.eigvalsh(covariance), 0.0)
    norms = rng.chisquare(1.0, (draws, d)) @ spread
    each = np.maximum(np.linalg.eigvalsh(covariances).ravel(), 0.0) / count
    sums = np.concatenate([rng.chisquare(1.0, (size, each.size)) @ each for size in _sizes(draws, each.size)])
    pooled = _tail(np.concatenate([[float(mean @ mean)], norms]))
    per_group = _tail(np.concatenate([[float(np.sum(shifts * shifts)) / count], sums]))
    return CentreTests(pooled, per_group, max_t_normal(mean, covariance, draws, rng))


def distance_test(
    x: Numbers, new: Numbers, group: Numbers, groups: int, draws: int, rng: np.random.Generator
) -> tuple[float, float]:
    """Test whether new rows are further from the centre of old rows than permuted ones: the mean squared distance
    within groups that have both, and its one-sided p-value.

    Each permutation has its own centre, so that the level holds at any size.
    """
    data, own, at = floats(x), np.asarray(new, dtype=bool), np.asarray(group, dtype=np.int64)
    n, taken = np.bincount(at, minlength=groups), np.bincount(at[own], minlength=groups)
    both = (taken > 0) & (taken < n)
    if not both.any():
        return np.nan, 1.0
    keep = both[at]
    count = int(both.sum())
    data, own, at = _by_group(data[keep], own[keep], (np.cumsum(both) - 1)[at[keep]])
    old = (n - taken)[both].astype(np.float64)
    xs, _, _ = _inside(data, own, at, count)
    square = np.sum(xs * xs, axis=1)
    starts = np.concatenate([[0], np.cumsum(n[both])[:-1]]).astype(np.int64)
    drawn = np.empty(draws + 1)
    step = max(1, _CHUNK // max(own.size * data.shape[1], 1))
    for start in range(0, draws + 1, step):
        size = min(step, draws + 1 - start)
        labels = deal(own.astype(np.float64), at, size, rng)
        if start == 0:
            labels[0] = own
        sums = np.add.reduceat(labels[:, :, None] * xs, starts, axis=1)
        # rows are centred, so the old rows' sum is minus the new rows' sum
        centre = -sums / old[:, None]
        new_n = taken[both].astype(np.float64)
        far = labels @ square - np.sum(2 * sums * centre - new_n[:, None] * centre**2, axis=(1, 2))
        drawn[start : start + size] = far / own.sum()
    return float(drawn[0]), _tail(drawn)


def conformal_p(x: Numbers, new: Numbers) -> tuple[Floats, Floats]:
    """For each new row: how many of n + 1 points lie at least as far out as it, over n + 1; and its distance.

    Vovk, Gammerman and Shafer (2005): if it is exchangeable with the n rows of x, P(p ≤ α) ≤ α for every n. The new row
    takes part in centre and scale, so that all n + 1 are treated alike; features without spread among them are left
    out. The distance is over the median of the reference rows, 1 being ordinary.
    """
    data, rows = floats(x), floats(new)
    n = data.shape[0]
    middle = data.mean(axis=0)
    data, rows = data - middle, rows - middle
    size = np.maximum(np.abs(data).max(axis=0, initial=0.0), 1e-300)
    square = data * data
    # with the reference centred, one more row z moves the mean to z / (n + 1) and adds z² n / (n + 1) to the squares
    variance = (square.sum(axis=0) + rows * rows * (n / (n + 1))) / (n + 1)
    alive = variance > (1e-12 * np.maximum(size, np.abs(rows))) ** 2
    weight = np.divide(1.0, variance, out=np.zeros(variance.shape), where=alive)
    centre = rows / (n + 1)
    p, distance = np.empty(rows.shape[0]), np.empty(rows.shape[0])
    step = max(1, _CHUNK // max(n, 1))
    for start in range(0, rows.shape[0], step):
        part = slice(start, start + step)
        w, c = weight[part], centre[part]
        scores = square @ w.T - 2 * (data @ (w * c).T) + np.sum(w * c * c, axis=1)
        own = np.sum(w * (rows[part] - c) ** 2, axis=1)
        p[part] = (1 + np.sum(scores >= own - 1e-9 * (1 + own), axis=0)) / (n + 1)
        ordinary = np.median(np.maximum(scores, 0.0), axis=0)
        distance[part] = np.sqrt(np.divide(own, ordinary, out=np.where(own > 0, np.inf, 0.0), where=ordinary > 0))
    return p, distance


def _by_group(x: Floats, own: Bools, at: Ints) -> tuple[Floats, Bools, Ints]:
    """Rows of a group next to each other, so that sums over groups are sums over slices."""
    order = np.argsort(at, kind="stable")
    return x[order], own[order], at[order]


def _sizes(draws: int, width: int) -> list[int]:
    """How many draws at a time."""
    step = max(1, _CHUNK // max(width, 1))
    return [min(step, draws - start) for start in range(0, draws, step)]


def _inside(x: Numbers, y: Numbers, group: Numbers, groups: int) -> tuple[Floats, Floats, Ints]:
    """x and y taken from the mean of their group."""
    data, values, at = floats(x), floats(y), np.asarray(group, dtype=np.int64)
    n = np.maximum(np.bincount(at, minlength=groups), 1)
    if groups == 1:
        return data - data.mean(axis=0), values - values.mean(), at
    means = np.stack([np.bincount(at, weights=c, minlength=groups) / n for c in data.T], axis=1)
    return data - means[at], values - (np.bincount(at, weights=values, minlength=groups) / n)[at], at


def _permutation_covariance(xs: Floats, ys: Floats, at: Ints, groups: int) -> Floats:
    """The covariance of Σ ỹ x̃ when y is permuted within groups: Σ over groups of Σ ỹ² Σ x̃ x̃ᵀ / (n - 1)."""
    n = np.bincount(at, minlength=groups)
    factor = np.bincount(at, weights=ys * ys, minlength=groups) / np.maximum(n - 1, 1)
    return floats(xs.T @ (factor[at][:, None] * xs))


def _dealt_covariance(xs: Floats, at: Ints, n: Floats, taken: Floats, weight: Floats) -> Floats:
    """The covariance of Σ over groups of weight × the second arm's sum, arms permuted within groups."""
    factor = weight**2 * taken * (n - taken) / (n * np.maximum(n - 1, 1.0))
    return floats(xs.T @ (factor[at][:, None] * xs))


def _ranked(z: Floats, drawn: Floats) -> MaxT:
    seen = np.abs(z)
    p = (1 + np.sum(drawn >= seen - 1e-9, axis=0)) / (1 + drawn.shape[0])
    return MaxT(z, floats(p), max_t(seen - 1e-9, drawn))


def _tail(values: Floats) -> float:
    """p of the first value among all, itself included (Phipson and Smyth 2010)."""
    slack = 1e-9 * max(1.0, abs(float(values[0])))
    mask: Bools = values >= values[0] - slack
    return float(mask.sum() / values.size)
