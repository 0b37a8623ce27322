"""Effects of conditions on how often runs pass: contrasts of pass rates, and of convergence, with intervals.

Both put the intervals of the conditions together (MOVER: Zou and Donner 2008), pass rates as they are, convergence on
its logarithm, so that its effect is a ratio. Where a condition always passed or always failed, its convergence is
infinite or 0; the interval of the contrast is then made of the conditions' own ends, which is wider, never narrower.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, inf, isinf, isnan, log
from typing import Any, NamedTuple

from ethogram.estimate import Estimate

from . import twin
from .field import Field

Weighted = Sequence[tuple[float, Field]]
"""Conditions with their weights in a contrast."""


ROUNDING = 1e-12
"""A contrast below this is what rounding leaves of none."""


class _Interval(NamedTuple):
    value: float
    low: float
    high: float


def pass_rate_contrast(used: Weighted, level: float, count: int) -> tuple[Estimate, float | None]:
    """A sum of pass rates with weights, and its p-value against 0."""
    common: dict[str, Any] = {
        "level": level, "n": count, "of": "trajectories",
        "method": "difference of pass rates over conditions; Wilson intervals put together (MOVER)",
    }  # fmt: skip

    def ends(at: float) -> _Interval | None:
        return _combined(used, lambda field: twin.pass_rate(field, at), lambda x: x)

    found = ends(level)
    if found is None:
        return Estimate(value=None, why="some condition has no outcome; score its runs first", **common), None
    return Estimate(value=found.value, low=found.low, high=found.high, **common), _p_value(found.value, ends)


def convergence_contrast(used: Weighted, level: float, count: int) -> tuple[Estimate, float | None]:
    """The ratio of convergences (mean over sd of outcomes) with weights, and its p-value against 1."""
    common: dict[str, Any] = {
        "level": level, "n": count, "of": "trajectories",
        "method": "ratio of convergences over conditions; their intervals put together on logarithms (MOVER)",
    }  # fmt: skip

    def ends(at: float) -> _Interval | None:
        return _combined(used, lambda field: twin.convergence(field, at), _log)

    found = ends(level)
    if found is None:
        why = "some condition has no outcome, or too few graded scores for an interval"
        return Estimate(value=None, why=why, **common), None
    low, high = _exp(found.low), _exp(found.high)
    if isnan(found.value):
        why = "conditions that always passed or always failed stand on both sides: their ratio is not defined"
        return Estimate(value=None, low=low, high=high, why=why, **common), _p_value(found.value, ends)
    return Estimate(value=_exp(found.value), low=low, high=high, **common), _p_value(found.value, ends)


def _combined(
    used: Weighted, estimate: Callable[[Field], Estimate], scale: Callable[[float], float]
) -> _Interval | None:
    """The weighted sum on a scale with its ends; None where a condition has no interval."""
    rows = []
    for weight, field in used:
        found = estimate(field)
        if found.value is None or found.low is None or found.high is None:
            return None
        value, low, high = scale(found.value), scale(found.low), scale(found.high)
        near, far = (low, high) if weight > 0 else (high, low)
        rows.append((float(weight), value, near, far))  # numpy would warn of inf - inf, which is expected here
    value = sum(w * v for w, v, _, _ in rows)
    value = 0.0 if abs(value) < ROUNDING else value
    if isinf(value) or isnan(value):
        low, high = (sum(w * row[i] for w, *row in rows) for i in (1, 2))
        return _Interval(value, -inf if isnan(low) else low, inf if isnan(high) else high)
    below = sum((w * (v - near)) ** 2 for w, v, near, _ in rows)
    above = sum((w * (far - v)) ** 2 for w, v, _, far in rows)
    return _Interval(value, value - below**0.5, value + above**0.5)


def _p_value(value: float, ends: Callable[[float], _Interval | None]) -> float:
    """1 minus the level at which the interval just holds 0."""
    if value == 0 or isnan(value):
        return 1.0
    inside, outside = 1 - 1e-9, 0.0
    for _ in range(20):
        middle = 0.5 * (inside + outside)
        wider = ends(middle)
        holds = wider is None or wider.low <= 0 <= wider.high
        inside, outside = (middle, outside) if holds else (inside, middle)
    return 1 - inside


def _log(value: float) -> float:
    return log(value) if value > 0 else -inf


def _exp(value: float) -> float:
    try:
        return exp(value)
    except OverflowError:
        return inf
