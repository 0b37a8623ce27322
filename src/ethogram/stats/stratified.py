"""Two arms on the same tasks: the difference within tasks, its test and its interval, for scores of any kind.

A task is a stratum; the second arm minus the first is what is estimated. Everything that is needed of an arm are its
power sums per task (`Sums`), so unequal and missing attempts, passes and failures, grades, cost and time are one case.
The null is that the attempts of a task could have come from either arm (exchangeable within the task).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ._numeric import Floats, Ints, Numbers, floats, normal_cdf, normal_quantile, student_cdf
from .interval import Interval, student


class Sums(NamedTuple):
    """Attempts of one arm per task: how many, and the sums of their values, squares and cubes."""

    n: Floats
    first: Floats
    second: Floats
    third: Floats

    def mean(self) -> Floats:
        """The mean per task; 0 where nothing was attempted."""
        return floats(self.first / np.maximum(self.n, 1.0))

    def squares(self) -> Floats:
        """The sum of squared distances from the task's mean."""
        return np.maximum(self.second - self.first * self.mean(), 0.0)


class Score(NamedTuple):
    """A score statistic: `z` is standard normal under the null, `information` is one over the variance under it.

    `size` is the sum of nA nB / N over tasks: how the information grows with attempts, whatever their outcome.
    """

    difference: Floats
    variance: Floats
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


def score(first: Sums, second: Sums, *, equal: bool, step: float, reach: float, extra: Numbers = 0.0) -> Score:
    """The stratified permutation score: Cochran (1954), Mantel and Haenszel (1959) for passes, any scores alike.

    Weights are nA nB / N, or equal for every task. Unequal arms make the statistic skewed, which is taken out by the
    transformation of Wilson and Hilferty (1931). `step` is the smallest change of one attempt (1 for passes, 0 if
    there is none): the variance is never less than that of reach²/2 single steps in each arm, below which no test at
    `reach` could decide. `extra` is variance of the difference from elsewhere, such as sessions.
    """
    parts = _parts(first, second, equal, step)
    variance = np.maximum(parts.variance, reach * reach / 2 * parts.step) + floats(extra)
    value = np.sum(parts.weight * parts.apart, axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        skewness = np.where(variance > 0, parts.third / variance**1.5, 0.0)
        raw = np.where(variance > 0, value / np.sqrt(variance), np.where(value == 0, 0.0, np.sign(value) * np.inf))
        information = np.where(variance > 0, 1 / variance, np.inf)
    information = np.where(parts.tasks > 0, information, 0.0)
    return Score(value, variance, skewness, _straight(raw, skewness), information, parts.size, parts.tasks)


def difference(
    first: Sums, second: Sums, level: float, *, equal: bool, step: float, extra: Numbers = 0.0
) -> Difference:
    """The difference on these very tasks: score test, and an interval that leaves out 0 exactly when the test rejects.

    At 0 the variance is that of the null; at the estimate it is what the arms show within tasks (the spread of the
    task differences where an arm has one attempt), in between it is interpolated, a closed form of the idea of
    Miettinen and Nurminen (1985) that also holds for tasks that moved differently and for arms of unequal size.
    """
    reach = float(normal_quantile(0.5 + level / 2))
    found = score(first, second, equal=equal, step=step, reach=reach, extra=extra)
    parts = _parts(first, second, equal, step)
    here = np.maximum(_within(first, second, parts, found.difference), reach * reach / 2 * parts.step) + floats(extra)
    size, falls = np.abs(found.difference), found.difference < 0
    lean = np.where(falls, -1.0, 1.0) * found.skewness
    near = _near_end(size, found.variance, here, _crooked(reach, lean), lean)
    far = size + _beyond(np.maximum(here, found.variance), lean, reach)
    low, high = np.where(falls, -far, near), np.where(falls, -near, far)
    none = found.tasks < 1
    less, greater = normal_cdf(found.z), normal_cdf(-found.z)
    return Difference(
        np.where(none, np.nan, found.difference),
        np.where(none, -np.inf, low),
        np.where(none, np.inf, high),
        found.z,
        less,
        greater,
        np.minimum(2 * np.minimum(less, greater), 1.0),
        found.tasks,
    )


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


def difference_mantel_haenszel(first: Sums, second: Sums, level: float) -> Interval:
    """The interval of the Mantel-Haenszel risk difference for passes with the variance of Sato (1989)."""
    a, na, b, nb = second.first, second.n, first.first, first.n
    both = (na > 0) & (nb > 0)
    total = np.where(both, na + nb, 1.0)
    weight = np.sum(np.where(both, na * nb / total, 0.0), axis=-1)
    value = np.sum(np.where(both, (a * nb - b * na) / total, 0.0), axis=-1) / weight
    p = np.sum(np.where(both, (na * na * b - nb * na * a + na * nb * (nb - na) / 2) / total**2, 0.0), axis=-1)
    q = np.sum(np.where(both, (a * (nb - b) + b * (na - a)) / (2 * total), 0.0), axis=-1)
    half = float(normal_quantile(0.5 + level / 2)) * np.sqrt(np.maximum(value * p + q, 0.0)) / weight
    return Interval(value - half, value + half)


def pooled_z(first: Sums, second: Sums) -> Floats:
    """The two-proportion z-test that forgets the tasks, for comparison only."""
    na, nb = np.sum(first.n, axis=-1), np.sum(second.n, axis=-1)
    a, b = np.sum(first.first, axis=-1), np.sum(second.first, axis=-1)
    rate = (a + b) / (na + nb)
    variance = rate * (1 - rate) * (1 / na + 1 / nb)
    return np.where(variance > 0, (b / nb - a / na) / np.sqrt(np.where(variance > 0, variance, 1.0)), 0.0)


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
    variance = np.sum(weight**2 * spread / (total - 1) / pull, axis=-1)
    lopsided = na * nb * (na - nb) / (total * (total - 1) * np.maximum(total - 2, 1.0)) / pull**3
    third = np.sum(weight**3 * lopsided * cubes, axis=-1)
    steps = np.sum(weight**3 * (1 / na**2 + 1 / nb**2), axis=-1) * step * step
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


def _near_end(size: Floats, at_null: Floats, here: Floats, reach: Floats, lean: Floats) -> Floats:
    """The end that looks towards 0: where (size - y)² = reach² V(y), V going from `at_null` at 0 to `here` at size.

    Where the test does not reject, the end lies beyond 0, and there the variance changes with its skewness.
    """
    inside = size > reach * np.sqrt(at_null)
    safe = np.where(inside, size, 1.0)
    inner = safe + reach * reach * (here - at_null) / safe / 2
    c = safe * safe - reach * reach * at_null
    root = np.sqrt(np.maximum(inner * inner - c, 0.0))
    between = c / np.where(inner + root > 0, inner + root, 1.0)
    outer = size - reach * reach * np.maximum(-lean, 0.0) * np.sqrt(at_null) / 2
    beyond = outer - np.sqrt(np.maximum(outer * outer - size * size + reach * reach * at_null, 0.0))
    return np.where(inside, between, beyond)


def _beyond(variance: Floats, lean: Floats, reach: Numbers) -> Floats:
    """How far an end lies where the variance grows by skewness × sd for every unit (as it does for rare events)."""
    growth = np.maximum(lean, 0.0) * np.sqrt(variance)
    half = floats(reach) ** 2 * growth / 2
    return floats(half + np.sqrt(half * half + floats(reach) ** 2 * variance))


def _straight(z: Floats, skewness: Floats) -> Floats:
    """From a statistic with this skewness to a normal one, increasing everywhere (Wilson and Hilferty 1931)."""
    bent = np.abs(skewness) > 1e-6
    g = np.where(bent, skewness, 1.0)
    with np.errstate(invalid="ignore"):
        return np.where(bent, 6 / g * (np.cbrt(1 + g * z / 2) - 1) + g / 6, z)


def _crooked(z: Numbers, skewness: Floats) -> Floats:
    """The inverse of `_straight` at one z."""
    bent = np.abs(skewness) > 1e-6
    g = np.where(bent, skewness, 1.0)
    return np.where(bent, 2 / g * ((1 + g * (z - g / 6) / 6) ** 3 - 1), z)
