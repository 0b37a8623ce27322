"""pass@k and pass^k: unbiased per task from unequal attempts, averaged over tasks, with intervals that have a width.

Arrays of tasks come in on the last axis, `ks` adds a last axis. A task with fewer than k attempts has no unbiased
value (NaN) and is left out of the mean; `tasks` says how many remained.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from ._numeric import Bools, Floats, Ints, Numbers, floats, normal_quantile, student_quantile
from .interval import effective_n, wilson_edge

Kind = Literal["at", "hat"]
Target = Literal["population", "suite"]


class Curve(NamedTuple):
    """One value and interval for each k: means over `tasks` tasks, worth `effective` independent trials."""

    value: Floats
    low: Floats
    high: Floats
    tasks: Ints
    effective: Floats


def pass_hat(successes: Numbers, attempts: Numbers, ks: Numbers) -> Floats:
    """Do k attempts in a row all pass? C(c, k) / C(n, k) per task, unbiased for p^k (Yao et al. 2024)."""
    return _all_of(floats(successes), floats(attempts), _orders(ks))


def pass_at(successes: Numbers, attempts: Numbers, ks: Numbers) -> Floats:
    """Does any of k attempts pass? 1 - C(n - c, k) / C(n, k), unbiased for 1 - (1 - p)^k (Chen et al. 2021)."""
    c, n = floats(successes), floats(attempts)
    return 1 - _all_of(n - c, n, _orders(ks))


def naive_hat(successes: Numbers, attempts: Numbers, ks: Numbers) -> Floats:
    """The plug-in (c / n)^k, biased upwards (Jensen 1906); for comparison only."""
    return floats(_rates(successes, attempts)[..., None] ** _orders(ks))


def naive_at(successes: Numbers, attempts: Numbers, ks: Numbers) -> Floats:
    """The plug-in 1 - (1 - c / n)^k, biased downwards (Chen et al. 2021); for comparison only."""
    return floats(1 - (1 - _rates(successes, attempts)[..., None]) ** _orders(ks))


def within_variance(successes: Numbers, attempts: Numbers, ks: Numbers, kind: Kind) -> Floats:
    """The variance of a task's own value over fresh attempts, unbiased: U_k² - U_2k (Hoeffding 1948).

    Needs 2k attempts, NaN where there are fewer; for k = 1 it is the familiar c (n - c) / (n² (n - 1)).
    """
    c, n, orders = floats(successes), floats(attempts), _orders(ks)
    c = c if kind == "hat" else n - c
    both = _all_of(c, n, np.concatenate([orders, 2 * orders]))
    once, twice = both[..., : orders.size], both[..., orders.size :]
    return np.maximum(once * once - twice, 0.0)


def curve(successes: Numbers, attempts: Numbers, ks: Numbers, level: float, *, kind: Kind, target: Target) -> Curve:
    """The mean over tasks for every k with its interval, for the tasks' population or for this very suite."""
    values = (pass_hat if kind == "hat" else pass_at)(successes, attempts, ks)
    if target == "population":
        return population(values, attempts, ks, level)
    return suite(values, within_variance(successes, attempts, ks, kind), attempts, ks, level)


def population(values: Numbers, attempts: Numbers, ks: Numbers, level: float) -> Curve:
    """The mean over the population that the tasks were drawn from: Wilson with the effective n of clustered tasks.

    SE² = s² / n over tasks (Miller 2024), n_eff = m (1 - m) / SE² · (z / t)², at most the Σ floor(n_i / k) disjoint
    groups of k, and n where every task says 0 or every task says 1. Never without width. Works as well for any
    values between 0 and 1 (graded scores: ks = 1).
    """
    v, used, tasks = _used(values)
    groups = np.sum(np.where(used, _groups(attempts, ks), 0.0), axis=-2)
    mean, variance = _moments(v, used, tasks)
    z = float(normal_quantile(0.5 + level / 2))
    df = np.maximum(tasks - 1, 1)
    stretch = (student_quantile(0.5 + level / 2, df) / z) ** 2
    n_eff = effective_n(mean, stretch * variance / np.maximum(tasks, 1), 1.0, np.maximum(groups, 1.0), tasks)
    return _wilson_curve(mean, np.where(tasks > 1, n_eff, tasks), tasks, level)


def suite(values: Numbers, variances: Numbers, attempts: Numbers, ks: Numbers, level: float) -> Curve:
    """The mean over exactly these tasks, were they attempted anew: Wilson with n_eff from the variance within tasks.

    A task with fewer than 2k attempts lends its distance from the mean instead (never too small: Var(U) ≤ E(U - m)²),
    z²/2 squared steps of the estimate are added so that "nobody wavered" is not certainty, and n_eff is at least the
    number of disjoint groups of k, which Hoeffding (1948) guarantees.
    """
    v, used, tasks = _used(values)
    mean, _ = _moments(v, used, tasks)
    n = np.maximum(tasks, 1)
    own = floats(variances)
    own = np.where(np.isnan(own), (v - mean[..., None, :]) ** 2 * (n / np.maximum(n - 1, 1))[..., None, :], own)
    groups = _groups(attempts, ks)
    z = float(normal_quantile(0.5 + level / 2))
    with np.errstate(divide="ignore"):
        step = np.where(used, (_orders(ks) / np.maximum(floats(attempts), 1.0)[..., None]) ** 2, 0.0)
        shares = np.sum(np.where(used, 1.0 / np.maximum(groups, 1.0), 0.0), axis=-2)
    variance = (np.sum(np.where(used, own, 0.0), axis=-2) + z * z / 2 * np.sum(step, axis=-2) / n) / (n * n)
    least = tasks * tasks / np.maximum(shares, 1e-300)
    n_eff = effective_n(mean, variance, least, np.inf, least)
    return _wilson_curve(mean, np.where(tasks > 0, n_eff, 0.0), tasks, level)


def _wilson_curve(mean: Floats, n_eff: Floats, tasks: Floats, level: float) -> Curve:
    low, high = wilson_edge(np.where(tasks > 0, mean, 0.0) * n_eff, n_eff, level)
    return Curve(np.where(tasks > 0, mean, np.nan), low, high, tasks.astype(np.int64), n_eff)


def _used(values: Numbers) -> tuple[Floats, Bools, Floats]:
    v = floats(values)
    used = ~np.isnan(v)
    return np.where(used, v, 0.0), used, np.sum(used, axis=-2).astype(np.float64)


def _moments(v: Floats, used: Bools, tasks: Floats) -> tuple[Floats, Floats]:
    """Mean and variance (n - 1) over the tasks in use."""
    n = np.maximum(tasks, 1)
    mean = np.sum(v, axis=-2) / n
    off = np.where(used, v - mean[..., None, :], 0.0)
    return mean, np.sum(off * off, axis=-2) / np.maximum(n - 1, 1)


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
