"""Effects of conditions on how often runs pass: contrasts of pass rates, and of convergence, with intervals.

Both put the intervals of the conditions together (MOVER: Zou and Donner 2008), pass rates as they are, convergence on
its logarithm, so that its effect is a ratio. Where a condition always passed or always failed, its convergence is
infinite or 0; the interval of the contrast is then made of the conditions' own ends, which is wider, never narrower.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import erf, erfc, exp, inf, isinf, isnan, log, sqrt
from typing import Any, NamedTuple

from ethogram.estimate import Estimate
from ethogram.statistics.interval import ValueWithEnds, known_ends, mover

from . import standardised
from .field import Field

Weighted = Sequence[tuple[float, Field]]
"""Conditions with their weights in a contrast."""


LEAST_Z, MOST_Z = 1e-6, 6.1
"""Below p is 1 to six digits; beyond it is below 1e-9, which is as good as 0."""
FAR = 1e9
"""Stands for an end without bound."""
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
        return _combined(used, lambda field: standardised.pass_rate(field, at), lambda x: x)

    found = ends(level)
    if found is None:
        return Estimate(value=None, why="some condition has no outcome; score its attempts first", **common), None
    return Estimate(value=found.value, low=found.low, high=found.high, **common), _p_value(found.value, ends)


def convergence_contrast(used: Weighted, level: float, count: int) -> tuple[Estimate, float | None]:
    """The ratio of convergences (mean over sd of outcomes) with weights, and its p-value against 1."""
    common: dict[str, Any] = {
        "level": level, "n": count, "of": "trajectories",
        "method": "ratio of convergences over conditions; their intervals put together on logarithms (MOVER)",
    }  # fmt: skip

    def ends(at: float) -> _Interval | None:
        return _combined(used, lambda field: standardised.convergence(field, at), _log)

    found = ends(level)
    if found is None:
        why = "some condition has no outcome, or too few graded scores for an interval"
        return Estimate(value=None, why=why, **common), None
    low, high = _exp(found.low), _exp(found.high)
    if isnan(found.value):
        why = "both sides have conditions that always passed or always failed: their ratio is not defined"
        return Estimate(value=None, low=low, high=high, why=why, **common), _p_value(found.value, ends)
    return Estimate(value=_exp(found.value), low=low, high=high, **common), _p_value(found.value, ends)


def _combined(
    used: Weighted, estimate: Callable[[Field], Estimate], scale: Callable[[float], float]
) -> _Interval | None:
    """The weighted sum on a scale with its ends; None where a condition has no interval."""
    rows: list[tuple[float, ValueWithEnds]] = []
    for weight, field in used:
        found = estimate(field)
        ends = known_ends(found.value, found.low, found.high)
        if ends is None:
            return None
        rows.append((float(weight), (scale(ends[0]), scale(ends[1]), scale(ends[2]))))
    value = sum(w * middle for w, (middle, _, _) in rows)  # numpy would warn of inf - inf, which is expected here
    if isinf(value) or isnan(value):
        turned = [(w, ends if w > 0 else (ends[0], ends[2], ends[1])) for w, ends in rows]
        low, high = (sum(w * ends[i] for w, ends in turned) for i in (1, 2))
        return _Interval(value, -inf if isnan(low) else low, inf if isnan(high) else high)
    value = 0.0 if abs(value) < ROUNDING else value
    made, low, high = mover(rows)
    return _Interval(value, value + (low - made), value + (high - made))


def _p_value(value: float, ends: Callable[[float], _Interval | None]) -> float:
    """1 minus the level at which the interval just holds 0: where its near end crosses 0.

    The end is almost a line in the normal quantile of the level, so a few intervals find it.
    """
    from scipy.optimize import brentq

    if value == 0 or isnan(value):
        return 1.0

    def gap(z: float) -> float:
        wider = ends(erf(z / sqrt(2)))
        near = -FAR if wider is None else wider.low if value > 0 else -wider.high
        return min(max(near, -FAR), FAR)

    if gap(LEAST_Z) <= 0:
        return 1.0
    if gap(MOST_Z) > 0:
        return erfc(MOST_Z / sqrt(2))
    return erfc(float(brentq(gap, LEAST_Z, MOST_Z, xtol=1e-6)) / sqrt(2))


def _log(value: float) -> float:
    return log(value) if value > 0 else -inf


def _exp(value: float) -> float:
    try:
        return exp(value)
    except OverflowError:
        return inf
