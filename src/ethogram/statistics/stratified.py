"""Two arms on the same tasks: the difference within tasks, its test and its interval, for scores of any kind.

A task is a stratum; the second arm minus the first is what is estimated. Everything that is needed of an arm are its
power sums per task (`Sums`), so unequal and missing attempts, passes and failures, grades, cost and time are one case.
The null is that the attempts of a task could have come from either arm (exchangeable within the task).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ._numeric import Floats, Ints, Numbers, bend, floats, normal_cdf, normal_quantile, straighten, student_cdf
from .interval import student


class Sums(NamedTuple):
    """Attempts of one arm per task: how many, and the sums of their values, squares and cubes."""

    n: Floats
    first: Floats
    second: Floats
    third: Floats

    def mean(self) -> Floats:
        """The mean per task; 0 where nothing was attempted."""
        return floats(self.first / np.maximum(self.n, 1.0))

    def joined(self, n: Numbers, value: Numbers) -> Sums:
        """With `more` attempts added per task, of one value each; a part of an attempt counts in part."""
        k, x = floats(n), floats(value)
        return Sums(self.n + k, self.first + k * x, self.second + k * x**2, self.third + k * x**3)

    def squares(self) -> Floats:
        """The sum of squared distances from the task's mean."""
        return np.maximum(self.second - self.first * self.mean(), 0.0)


class Score(NamedTuple):
    """A score statistic: `z` is standard normal under the null, `information` is one over the variance under it.

    `here` is the variance at the estimate, each arm with its own spread. `size` is the sum of nA nB / N over tasks: how
    the information grows with attempts, whatever their outcome.
    """

    difference: Floats
    variance: Floats
    here: Floats
    skewness: Floats
    z: Floats
    information: Floats
    size: Floats
    tasks: Ints


class Difference(NamedTuple):
    """The second arm minus the first with interval and one- and two-sided p-values (`less`: the second is lower)."""

    value: Floats
    low: Floats
    high: Floats
    z: Floats
    less: Floats
    greater: Floats
    two_sided: Floats
    tasks: Ints


class _Parts(NamedTuple):
    weight: Floats
    apart: Floats
    used: Floats
    variance: Floats
    third: Floats
    step: Floats
    size: Floats
    tasks: Ints


def sums_of_counts(successes: Numbers, n: Numbers) -> Sums:
    """Power sums of passes and failures."""
    c, n = np.broadcast_arrays(floats(successes), floats(n))
    return Sums(n, c, c, c)


def sums_of_values(values: Numbers, task: Numbers, tasks: int) -> Sums:
    """Power sums of single attempts, each with the index of its task below `tasks`."""
    x, where = floats(values), np.asarray(task, dtype=np.int64)
    return Sums(*(np.bincount(where, weights=x**power, minlength=tasks).astype(np.float64) for power in range(4)))


def arms_of_values(values: Numbers, task: Numbers, second: Numbers, tasks: int) -> tuple[Sums, Sums]:
    """Power sums of both arms, values taken from the mean of their task so that large numbers lose no digits.

    `second` says which attempts are the second arm's. Differences and tests are the same as without; means are not.
    """
    x, where, own = floats(values), np.asarray(task, dtype=np.int64), np.asarray(second, dtype=bool)
    n = np.bincount(where, minlength=tasks)
    x = x - (np.bincount(where, weights=x, minlength=tasks) / np.maximum(n, 1))[where]
    return sums_of_values(x[~own], where[~own], tasks), sums_of_values(x[own], where[own], tasks)


def score(
    first: Sums,
    second: Sums,
    *,
    equal: bool,
    step: float,
    reach: float,
    extra: Numbers = 0.0,
    bias: Numbers = 0.0,
    sampled: bool = False,
) -> Score:
    """The stratified permutation score: Cochran (1954), Mantel and Haenszel (1959) for passes, any scores alike.

    Weights are nA nB / N, or equal for every task. Unequal arms make the statistic skewed, which is taken out by the
    transformation of Wilson and Hilferty (1931). `step` is the smallest change of one attempt (1 for passes, 0 if
    there is none): the variance is never less than that of reach²/2 single steps in each arm, below which no test at
    `reach` could decide. `extra` is variance of the difference from elsewhere, such as sessions; `bias` is what the
    difference shows though nothing changed, and is taken off it. With `sampled` the
    difference stands for the mean over all tasks, those without an attempt included, and which of them were attempted
    (more often) is chance: `here` then carries the variance of that choice. It is 0 where no task changed, so the test
    is the same.
    """
    parts = _parts(first, second, equal, step)
    least = reach * reach / 2 * parts.step
    value = np.sum(parts.weight * parts.apart, axis=-1) - floats(bias)
    variance = np.maximum(parts.variance, least) + floats(extra)
    here = np.maximum(_within(first, second, parts, value), least) + floats(extra)
    if sampled:
        here = here + _choice(first, second, parts, value)
    with np.errstate(divide="ignore", invalid="ignore"):
        skewness = np.where(variance > 0, parts.third / variance**1.5, 0.0)
        raw = np.where(variance > 0, value / np.sqrt(variance), np.where(value == 0, 0.0, np.sign(value) * np.inf))
        information = np.where(variance > 0, 1 / variance, np.inf)
    information = np.where(parts.tasks > 0, information, 0.0)
    return Score(value, variance, here, skewness, straighten(raw, skewness), information, parts.size, parts.tasks)


def difference(
    first: Sums, second: Sums, level: float, *, equal: bool, step: float, extra: Numbers = 0.0
) -> Difference:
    """The difference on these very tasks: score test, and an interval without 0 exactly when the test rejects.

    See `score` and `lower_end` for test and interval. Ends are not cut to what is possible; the caller knows the scale.
    """
    reach = float(normal_quantile(0.5 + level / 2))
    found = score(first, second, equal=equal, step=step, reach=reach, extra=extra)
    low, high = lower_end(found, reach), upper_end(found, reach)
    less, greater = normal_cdf(found.z), normal_cdf(-found.z)
    two = np.minimum(2 * np.minimum(less, greater), 1.0)
    value = np.where(found.tasks > 0, found.difference, np.nan)
    return Difference(value, low, high, found.z, less, greater, two, found.tasks)


def lower_end(found: Score, reach: Numbers) -> Floats:
    """The lower confidence bound of the difference, `reach` standard errors away in the sense of the score test.

    At 0 the variance is that of the null and at the estimate what the arms show within tasks (the spread of the task
    differences where an arm has one attempt); in between it is interpolated, and further out it grows by skewness ×
    sd for every unit, as it does for rare events. A closed form of the idea of Miettinen and Nurminen (1985), for any
    scores, for tasks that moved differently and for arms of unequal size.
    """
    return np.where(found.tasks > 0, found.difference - _reach_out(found, floats(reach), -1.0), -np.inf)


def upper_end(found: Score, reach: Numbers) -> Floats:
    """The upper confidence bound of the difference, as `lower_end`."""
    return np.where(found.tasks > 0, found.difference + _reach_out(found, floats(reach), 1.0), np.inf)


def difference_between_tasks(first: Sums, second: Sums, level: float) -> Difference:
    """The difference for the population of tasks: the paired t of the task differences (Miller 2024).

    Real differences between tasks count as noise here, as they must for a claim beyond these tasks.
    """
    both = (first.n > 0) & (second.n > 0)
    tasks = np.sum(both, axis=-1)
    n = np.maximum(tasks, 1)
    apart = np.where(both, second.mean() - first.mean(), 0.0)
    value = np.sum(apart, axis=-1) / n
    off = np.where(both, apart - value[..., None], 0.0)
    variance = np.sum(off * off, axis=-1) / np.maximum(n - 1, 1) / n
    df = np.maximum(tasks - 1, 0)
    low, high = student(value, variance, df, level)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(variance > 0, value / np.sqrt(variance), np.where(value == 0, 0.0, np.sign(value) * np.inf))
    known = df > 0
    t = np.where(known, t, 0.0)
    less = np.where(known, student_cdf(t, np.maximum(df, 1)), 0.5)
    greater = np.where(known, student_cdf(-t, np.maximum(df, 1)), 0.5)
    two = np.where(known, 2 * np.minimum(less, greater), 1.0)
    return Difference(np.where(tasks > 0, value, np.nan), low, high, t, less, greater, two, tasks.astype(np.int64))


def _parts(first: Sums, second: Sums, equal: bool, step: float) -> _Parts:
    na, nb = np.broadcast_arrays(first.n, second.n)
    used = (na > 0) & (nb > 0)
    tasks = np.sum(used, axis=-1).astype(np.int64)
    na, nb = np.where(used, na, 1.0), np.where(used, nb, 1.0)
    total = na + nb
    pull = na * nb / total
    raw = np.where(used, 1.0 if equal else pull, 0.0)
    weight = raw / np.maximum(np.sum(raw, axis=-1, keepdims=True), 1e-300)
    s1, s2, s3 = (np.where(used, x + y, 0.0) for x, y in zip(first[1:], second[1:], strict=True))
    centre = s1 / total
    spread = np.maximum(s2 - s1 * centre, 0.0)
    cubes = s3 - 3 * centre * s2 + 2 * centre * centre * s1
    apart = np.where(used, second.mean() - first.mean(), 0.0)
    squared = weight * weight
    cubed = squared * weight  # `weight**3` takes twenty times as long
    variance = np.sum(squared * spread / (total - 1) / pull, axis=-1)
    lopsided = na * nb * (na - nb) / (total * (total - 1) * np.maximum(total - 2, 1.0)) / (pull * pull * pull)
    third = np.sum(cubed * lopsided * cubes, axis=-1)
    steps = np.sum(cubed * (1 / (na * na) + 1 / (nb * nb)), axis=-1) * step * step
    size = np.sum(np.where(used, pull, 0.0), axis=-1)
    return _Parts(weight, apart, used.astype(np.float64), variance, third, steps, size, tasks)


def _within(first: Sums, second: Sums, parts: _Parts, value: Floats) -> Floats:
    """The variance of the difference at its estimate, each arm with its own spread."""
    na, nb = np.maximum(first.n, 1.0), np.maximum(second.n, 1.0)
    own = first.squares() / np.maximum(na - 1, 1) / na + second.squares() / np.maximum(nb - 1, 1) / nb
    tasks = np.maximum(parts.tasks, 1)
    spread = (parts.apart - value[..., None]) ** 2 * (tasks / np.maximum(tasks - 1, 1))[..., None]
    each = np.where((na > 1) & (nb > 1), own, spread)
    return floats(np.sum(parts.weight**2 * parts.used * each, axis=-1))


def _choice(first: Sums, second: Sums, parts: _Parts, value: Floats) -> Floats:
    """The variance that comes from which tasks were attempted how often, for the mean over all tasks alike.

    The squared distance of the weights from equal ones, times the variance of the changes between tasks: what the task
    differences show beyond the noise of their attempts.
    """
    tasks = np.maximum(parts.tasks, 2)
    seen = np.sum(parts.used * (parts.apart - value[..., None]) ** 2, axis=-1) / (tasks - 1)
    total = np.maximum(first.n + second.n, 2.0)
    s1, s2 = first.first + second.first, first.second + second.second
    pull = np.where(parts.used > 0, first.n * second.n / total, 1.0)
    noise = np.where(parts.used > 0, np.maximum(s2 - s1 * s1 / total, 0.0) / (total - 1) / pull, 0.0)
    between = np.maximum(seen - np.sum(noise, axis=-1) / tasks, 0.0)
    return floats(between * np.sum((parts.weight - 1 / parts.weight.shape[-1]) ** 2, axis=-1))


def _reach_out(found: Score, reach: Floats, side: float) -> Floats:
    """How far from the estimate the bound lies on one side."""
    size, most = np.abs(found.difference), np.maximum(found.here, found.variance)
    growth = np.maximum(side * found.skewness, 0.0) * np.sqrt(most)
    bent = bend(reach, -side * found.skewness)
    limit = bent * np.sqrt(found.variance)
    rejects = size > limit
    # the test rejects: (size - y)² = bent² V(y), V going from the null's variance at 0 to `here` at the estimate
    safe = np.where(rejects, size, 1.0)
    middle = safe + bent**2 * (found.here - found.variance) / safe / 2
    rest = safe * safe - limit**2
    root = np.sqrt(np.maximum(middle * middle - rest, 0.0))
    between = size - rest / np.where(middle + root > 0, middle + root, 1.0)
    # it does not: the bound lies beyond 0, the less changed from that of a null estimate the nearer to rejecting
    share = np.where(limit > 0, np.minimum(size / np.where(limit > 0, limit, 1.0), 1.0), 0.0)
    far = reach + (bent - reach) * share
    variance = most + (found.variance - most) * share
    half = far**2 * growth / 2
    beyond = half + np.sqrt(np.maximum(half * half - 2 * half * size + far**2 * variance, 0.0))
    half = reach**2 * growth / 2
    away = half + np.sqrt(half * half + reach**2 * most)
    return np.where(side * found.difference >= 0, away, np.where(rejects, between, beyond))
