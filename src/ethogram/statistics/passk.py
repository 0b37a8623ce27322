"""pass@k and pass^k: unbiased per task from unequal attempts, averaged over tasks, with intervals that have a width.

Arrays of tasks come in on the last axis, `ks` adds a last axis. A task with fewer than k attempts has no unbiased
value (NaN) and is left out of the mean; `tasks` says how many remained.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from ._numeric import Floats, Ints, Numbers, floats, normal_quantile
from .clustered import mean_limits
from .interval import effective_n, wilson_edge

PassKind = Literal["at", "hat"]
Target = Literal["population", "suite"]


class Curve(NamedTuple):
    """One value and interval for each k: means over `tasks` tasks, worth `effective` independent trials."""

    value: Floats
    low: Floats
    high: Floats
    tasks: Ints
    effective: Floats

    def order(self, k: int) -> Curve:
        """One k of a curve over k = 1, 2, …"""
        return Curve(
            self.value[..., k - 1],
            self.low[..., k - 1],
            self.high[..., k - 1],
            self.tasks[..., k - 1],
            self.effective[..., k - 1],
        )


def pass_hat(successes: Numbers, attempts: Numbers, ks: Numbers) -> Floats:
    """P(k attempts all pass): C(c, k) / C(n, k) per task, unbiased for p^k (Yao et al. 2024)."""
    return _all_of(floats(successes), floats(attempts), _orders(ks))


def pass_at(successes: Numbers, attempts: Numbers, ks: Numbers) -> Floats:
    """P(any of k attempts passes): 1 - C(n - c, k) / C(n, k), unbiased for 1 - (1 - p)^k (Chen et al. 2021)."""
    c, n = floats(successes), floats(attempts)
    return 1 - _all_of(n - c, n, _orders(ks))


def naive_hat(successes: Numbers, attempts: Numbers, ks: Numbers) -> Floats:
    """The plug-in (c / n)^k, biased upwards (Jensen 1906); for comparison only."""
    return floats(_rates(successes, attempts)[..., None] ** _orders(ks))


def naive_at(successes: Numbers, attempts: Numbers, ks: Numbers) -> Floats:
    """The plug-in 1 - (1 - c / n)^k, biased downwards (Chen et al. 2021); for comparison only."""
    return floats(1 - (1 - _rates(successes, attempts)[..., None]) ** _orders(ks))


def within_variance(successes: Numbers, attempts: Numbers, ks: Numbers, kind: PassKind) -> Floats:
    """The variance of a task's own value over fresh attempts, unbiased: U_k² - U_2k (Hoeffding 1948).

    Needs 2k attempts, NaN where there are fewer; for k = 1 it is the familiar c (n - c) / (n² (n - 1)).
    """
    c, n, orders = floats(successes), floats(attempts), _orders(ks)
    c = c if kind == "hat" else n - c
    both = _all_of(c, n, np.concatenate([orders, 2 * orders]))
    once, twice = both[..., : orders.size], both[..., orders.size :]
    return np.maximum(once * once - twice, 0.0)


def curve(successes: Numbers, attempts: Numbers, ks: Numbers, level: float, *, kind: PassKind, target: Target) -> Curve:
    """The mean over tasks for every k with its interval, for the tasks' population or for exactly this suite.

    k takes the tasks with k attempts. A bound of pass^j is one of pass^k of the same tasks for k > j too, so the upper
    end of pass^k is the least over all j ≤ k and never rises with k; nor does the lower end of pass@k ever fall.
    """
    c, n, weights = _distinct(successes, attempts)
    orders = _orders(ks)
    c = c if kind == "hat" else n - c
    parts: dict[int, Curve] = {}
    tasks, every = np.full(n.shape, np.nan), None
    for k in sorted(set(orders.tolist()), reverse=True):
        used = np.where(n >= k, weights, 0.0)
        if every is None or not np.array_equal(used, tasks):
            tasks, every = used, _falling(c, n, used, np.arange(1, k + 1), level, target)
        parts[k] = every.order(k)
    value, low, high, tasks_used, effective = (
        np.stack(columns, axis=-1) for columns in zip(*(parts[k] for k in orders.tolist()), strict=True)
    )
    if kind == "at":
        value, low, high = 1 - value, 1 - high, 1 - low
    return Curve(value, low, high, tasks_used.astype(np.int64), effective)


def population(values: Numbers, attempts: Numbers, ks: Numbers, level: float) -> Curve:
    """The mean over the population that the tasks were drawn from; any values between 0 and 1 (graded: ks = 1).

    Wilson with the effective n of clustered tasks, capped by how many tasks differ and ordered (see `clustered`).
    """
    v = floats(values)
    return _population(v, np.where(np.isnan(v), 0.0, 1.0), _groups(attempts, ks), level)


def _population(values: Floats, weights: Floats, groups: Floats, level: float) -> Curve:
    v, tasks, mean = _means(values, weights)
    found = mean_limits(v, weights, np.sum(weights * groups, axis=-2), level)
    some = tasks > 0
    return Curve(
        np.where(some, mean, np.nan),
        np.where(some, np.minimum(found.low, mean), 0.0),
        np.where(some, np.maximum(found.high, mean), 1.0),
        tasks.astype(np.int64),
        np.where(some, found.effective, 0.0),
    )


def _suite(values: Floats, variances: Floats, weights: Floats, attempts: Floats, ks: Ints, level: float) -> Curve:
    """The mean over exactly these tasks, were they attempted anew: Wilson with n_eff from the variance within tasks.

    A task with fewer than 2k attempts lends its distance from the mean instead (never too small: Var(U) ≤ E(U - m)²),
    z²/2 squared steps of the estimate are added so that "nobody wavered" is not certainty, and n_eff is at least the
    number of disjoint groups of k, which Hoeffding (1948) guarantees.
    """
    v, tasks, mean = _means(values, weights)
    n = np.maximum(tasks, 1)
    far = (v - mean[..., None, :]) ** 2 * (n / np.maximum(n - 1, 1))[..., None, :]
    own = np.where(np.isnan(variances), far, variances)
    z = float(normal_quantile(0.5 + level / 2))
    step = (ks / np.maximum(attempts, 1.0)[..., None]) ** 2
    shares = np.sum(weights / np.maximum(_groups(attempts, ks), 1.0), axis=-2)
    variance = (np.sum(weights * own, axis=-2) + z * z / 2 * np.sum(weights * step, axis=-2) / n) / (n * n)
    least = tasks * tasks / np.maximum(shares, 1e-300)
    n_eff = np.where(tasks > 0, effective_n(mean, variance, least, np.inf, least), 0.0)
    low, high = wilson_edge(np.where(tasks > 0, mean, 0.0) * n_eff, n_eff, level)
    return Curve(np.where(tasks > 0, mean, np.nan), low, high, tasks.astype(np.int64), n_eff)


def _falling(c: Floats, n: Floats, weights: Floats, ks: Ints, level: float, target: Target) -> Curve:
    """pass^k for k = 1, 2, … of the same tasks, each bounded by those before it."""
    w = np.broadcast_to(weights[..., None], (*weights.shape, ks.size))
    values = np.where(w > 0, pass_hat(c, n, ks), np.nan)
    if target == "population":
        found = _population(values, w, _groups(n, ks), level)
    else:
        found = _suite(values, within_variance(c, n, ks, "hat"), w, n, ks, level)
    high = np.minimum.accumulate(found.high, axis=-1)
    return found._replace(low=np.minimum(found.low, high), high=high)


def _distinct(successes: Numbers, attempts: Numbers) -> tuple[Floats, Floats, Floats]:
    """Tasks with the same counts as one, with how many they are; batches are left as they are."""
    c, n = (np.array(x) for x in np.broadcast_arrays(floats(successes), floats(attempts)))
    if c.ndim != 1 or c.size < 2:
        return c, n, np.ones(c.shape)
    pairs, times = np.unique(c + 1j * n, return_counts=True)
    return floats(pairs.real), floats(pairs.imag), floats(times)


def _means(values: Floats, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """Values with 0 where there is none, how many tasks have one, and their mean."""
    v = np.where(weights > 0, values, 0.0)
    tasks = np.sum(weights, axis=-2)
    return v, tasks, np.sum(weights * v, axis=-2) / np.maximum(tasks, 1)


def _all_of(c: Floats, n: Floats, orders: Ints) -> Floats:
    """C(c, k) / C(n, k) for every k of `orders`, as a running product: exact to rounding, no large numbers."""
    c, n = np.broadcast_arrays(c, n)
    out = np.empty((*c.shape, orders.size))
    product = np.ones(c.shape)
    for j in range(int(orders.max(initial=0))):
        product = product * np.where(n > j, np.maximum(c - j, 0.0) / np.maximum(n - j, 1.0), np.nan)
        for place in np.flatnonzero(orders == j + 1):
            out[..., place] = product
    return out


def _groups(attempts: Numbers, ks: Numbers) -> Floats:
    return np.floor(floats(attempts)[..., None] / _orders(ks))


def _rates(successes: Numbers, attempts: Numbers) -> Floats:
    n = floats(attempts)
    return floats(successes) / np.where(n > 0, n, np.nan)


def _orders(ks: Numbers) -> Ints:
    orders = np.atleast_1d(np.asarray(ks, dtype=np.int64))
    if orders.ndim != 1 or np.any(orders < 1):
        raise ValueError(f"k must be whole numbers of at least 1, got {ks!r}")
    return orders
