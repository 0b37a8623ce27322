"""The few special functions that statistics need, typed and loaded on use, and a bisection for whole arrays."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Numbers = npt.ArrayLike


def floats(values: Numbers) -> Floats:
    """An array of doubles."""
    return np.asarray(values, dtype=np.float64)


@cache
def special() -> Any:
    """The module `scipy.special`, imported in two thirds of the time.

    A part of it copies every name that numpy lists, and so imports what numpy has for compilers and tests, which
    otherwise is imported on use. Meanwhile numpy lists only what is there.
    """
    found = vars(np)
    hidden = {name: found[name] for name in ("__all__", "__dir__", "__getattr__")}
    importing = threading.get_ident()

    def absent(name: str) -> Any:
        if threading.get_ident() != importing:  # another thread gets what numpy has
            return hidden["__getattr__"](name)
        raise AttributeError(f"module 'numpy' has no attribute {name!r} while scipy is imported")

    listed = [name for name in np.__all__ if name in found]
    found.update({"__all__": listed, "__dir__": lambda: list(found), "__getattr__": absent})
    try:
        from scipy import special as module
    finally:
        found.update(hidden)
    return module


def normal_quantile(probability: Numbers) -> Floats:
    """The quantile of the standard normal."""
    return floats(special().ndtri(probability))


def normal_cdf(z: Numbers) -> Floats:
    """The lower tail of the standard normal; the upper tail is that of -z."""
    return floats(special().ndtr(z))


def normal_hazard(z: float) -> float:
    """The density of the standard normal over its upper tail: by how much the logarithm of that tail falls."""
    return float(np.exp(-0.5 * z * z - special().log_ndtr(-z)) / np.sqrt(2 * np.pi))


@cache
def hermite(count: int) -> tuple[Floats, Floats]:
    """Nodes of Gauss and Hermite for a mean over a standard normal, and weights that sum to one."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    weights = weights / weights.sum()
    nodes.flags.writeable = weights.flags.writeable = False  # all callers share them
    return nodes, weights


def student_quantile(probability: Numbers, df: Numbers) -> Floats:
    """The quantile of Student's t."""
    return floats(special().stdtrit(df, probability))


def student_cdf(t: Numbers, df: Numbers) -> Floats:
    """The lower tail of Student's t."""
    return floats(special().stdtr(df, t))


def beta_quantile(probability: Numbers, a: Numbers, b: Numbers) -> Floats:
    """The quantile of a Beta."""
    return floats(special().betaincinv(a, b, probability))


def beta_cdf(x: Numbers, a: Numbers, b: Numbers) -> Floats:
    """The lower tail of a Beta."""
    return floats(special().betainc(a, b, x))


def gamma_quantile(probability: Numbers, shape: Numbers) -> Floats:
    """The quantile of a Gamma of scale one."""
    return floats(special().gammaincinv(shape, probability))


def log_beta(a: Numbers, b: Numbers) -> Floats:
    """The logarithm of the Beta function."""
    return floats(special().betaln(a, b))


def log_choose(n: Numbers, k: Numbers) -> Floats:
    """The logarithm of a binomial coefficient; minus infinity where it is zero."""
    n, k = floats(n), floats(k)
    inside = (k >= 0) & (k <= n)
    k = np.where(inside, k, 0.0)
    full = special().gammaln(n + 1) - special().gammaln(k + 1) - special().gammaln(n - k + 1)
    return np.where(inside, full, -np.inf)


def log_mean_exp(values: Floats, log_weights: Floats) -> Floats:
    """The logarithm of a weighted mean of exponentials along the last axis, without overflow."""
    shifted = values + log_weights
    top = np.max(shifted, axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return floats(np.log(np.sum(np.exp(shifted - top), axis=-1)) + top[..., 0])


def straighten(z: Numbers, skewness: Numbers) -> Floats:
    """From a statistic with this skewness to a normal one, increasing everywhere (Wilson and Hilferty 1931)."""
    z, skewness = np.broadcast_arrays(floats(z), floats(skewness))
    bent = np.abs(skewness) > 1e-6
    g = np.where(bent, skewness, 1.0)
    return np.where(bent, 6 / g * (np.cbrt(1 + g * np.where(np.isfinite(z), z, 0.0) / 2) - 1) + g / 6, z)


def bend(z: Numbers, skewness: Numbers) -> Floats:
    """The inverse of `straighten`."""
    z, skewness = np.broadcast_arrays(floats(z), floats(skewness))
    bent = np.abs(skewness) > 1e-6
    g = np.where(bent, skewness, 1.0)
    return np.where(bent, 2 / g * ((1 + g * (z - g / 6) / 6) ** 3 - 1), z)


def bisect(increasing: Callable[[Floats], Floats], low: Numbers, high: Numbers, steps: int = 60) -> Floats:
    """Where an increasing function of arrays passes zero, element by element; an end where it never does."""
    lower, upper = (np.array(x, dtype=np.float64) for x in np.broadcast_arrays(floats(low), floats(high)))
    for _ in range(steps):
        middle = 0.5 * (lower + upper)
        above = increasing(middle) > 0
        upper = np.where(above, middle, upper)
        lower = np.where(above, lower, middle)
    return floats(0.5 * (lower + upper))


def root(
    increasing: Callable[[float], float], low: float, high: float, tolerance: float = 1e-9, close: float = 1e-14
) -> float:
    """Where an increasing function passes zero: false position as Illinois does it; an end where it never does.

    A value within `close` of zero ends the search, and so does a bracket below `tolerance`.
    """
    f_low, f_high = increasing(low), increasing(high)
    if f_low >= 0:
        return low
    if f_high <= 0:
        return high
    kept = 0
    for _ in range(100):
        middle = (low * f_high - high * f_low) / (f_high - f_low)
        if not low < middle < high:
            middle = 0.5 * (low + high)
        value = increasing(middle)
        if abs(value) < close or high - low < tolerance:
            return middle
        if value > 0:
            high, f_high = middle, value
            f_low = f_low / 2 if kept == 1 else f_low
            kept = 1
        else:
            low, f_low = middle, value
            f_high = f_high / 2 if kept == -1 else f_high
            kept = -1
    return 0.5 * (low + high)


def root_near(
    increasing: Callable[[float], float],
    slope: Callable[[float], float],
    start: float,
    low: float,
    high: float,
    close: float = 1e-10,
) -> float:
    """Where an increasing function passes zero, by the secant method from a start where its slope is roughly known.

    A value within `close` of zero ends the search. Where the steps leave the ends, or do not settle, `root` decides.
    """
    before = at = start
    value_before = 0.0
    for step in range(12):
        if not low < at < high:
            break
        value = increasing(at)
        if abs(value) < close:
            return at
        rise = (value - value_before) / (at - before) if step and at != before else slope(at)
        if not rise > 0:
            break
        before, value_before, at = at, value, at - value / rise
    return root(increasing, low, high, close=close)
