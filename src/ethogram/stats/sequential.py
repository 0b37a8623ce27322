"""Looking early without fooling oneself: group-sequential boundaries at planned and at unplanned information.

A look k has information I_k (one over the variance of the estimate); z_k is the estimate in standard errors, and under
a true effect θ its mean is θ √I_k. The null is θ ≤ 0, crossing an upper bound rejects it. The joint law of all z_k is
that of a Brownian motion seen at I_1 < I_2 < … (Jennison and Turnbull 2000, chapter 19, whose integration is used).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from ._numeric import Floats, Numbers, bisect, floats, normal_cdf, normal_quantile

_FAR = 12.0
"""A z that is never crossed: its tail is below 1e-32."""

Shape = Literal["obrien-fleming", "pocock", "power", "hwang-shih-decani"]


class Crossing(NamedTuple):
    """The probability of leaving upwards and downwards first at each look."""

    upper: Floats
    lower: Floats


class Design(NamedTuple):
    """Bounds for z at each look, and the drift (effect × √ of the last information) that the design is meant for."""

    fractions: Floats
    upper: Floats
    lower: Floats
    drift: float
    power: float
    expected_null: float
    expected_drift: float


def spent(shape: Shape, fractions: Numbers, alpha: float, parameter: float = 0.0) -> Floats:
    """How much of alpha may be spent by each information fraction (Lan and DeMets 1983).

    `power` is alpha t^parameter (Kim and DeMets 1987); Hwang, Shih and DeCani (1990) is steeper for parameter > 0.
    """
    t = np.clip(floats(fractions), 0.0, 1.0)
    if shape == "obrien-fleming":
        z = float(normal_quantile(1 - alpha / 2))
        return np.where(t > 0, 2 * normal_cdf(-z / np.sqrt(np.where(t > 0, t, 1.0))), 0.0)
    if shape == "pocock":
        return floats(alpha * np.log1p((np.e - 1) * t))
    if shape == "power":
        if parameter <= 0:
            raise ValueError("the power family needs a parameter above 0")
        return floats(alpha * t**parameter)
    if parameter == 0:
        return alpha * t
    return floats(alpha * np.expm1(-parameter * t) / np.expm1(-parameter))


def crossing(information: Numbers, upper: Numbers, lower: Numbers, effect: float) -> Crossing:
    """The probabilities of first crossing each bound at each look, for a true effect."""
    info, up, down = (np.atleast_1d(floats(x)) for x in (information, upper, lower))
    walk = _Walk(effect)
    found = [walk.step(i, u, d) for i, u, d in zip(info, up, down, strict=True)]
    return Crossing(floats([f[0] for f in found]), floats([f[1] for f in found]))


def bounds_from_spending(information: Numbers, cumulative: Numbers) -> Floats:
    """The upper bounds at these looks that spend exactly these cumulative errors under the null (Lan and DeMets 1983).

    Nothing is assumed of the spacing, and earlier bounds do not depend on later looks: after a resume, or when a look
    came at another information than planned, the same call with the looks that really took place gives the bounds.
    """
    info, total = np.atleast_1d(floats(information)), np.atleast_1d(floats(cumulative))
    walk, out, before = _Walk(0.0), np.empty(info.shape), 0.0
    for k, (i, spend) in enumerate(zip(info, total, strict=True)):
        out[k] = walk.bound_for(i, float(spend) - before)
        walk.step(i, out[k], -_FAR)
        before = max(before, float(spend))
    return out


def wang_tsiatis(fractions: Numbers, alpha: float, delta: float) -> Floats:
    """Upper bounds c t^(delta - 1/2) with total one-sided error alpha (Wang and Tsiatis 1987).

    delta 0 is O'Brien and Fleming (1979), 1/2 is Pocock (1977), 1/4 lies between and is near optimal in runs.
    """
    t = np.atleast_1d(floats(fractions))
    shape = t ** (delta - 0.5)

    def excess(c: Floats) -> Floats:
        return floats(alpha - crossing(t, float(c) * shape, np.full(t.shape, -_FAR), 0.0).upper.sum())

    return floats(bisect(excess, 0.5, 8.0, 40) * shape)


def rebound(planned: Numbers, upper: Numbers, information: Numbers, last: bool) -> Floats:
    """Upper bounds at the information that was really met, look by look spending what the plan would have spent.

    `planned` are the planned fractions, `upper` their bounds; the error that the plan spends at look k is spent at the
    k-th real look, whatever its information (Jennison and Turnbull 2000, section 7.3). With `last`, the final look
    spends all that remains. Looks may not be chosen by looking at the estimate.
    """
    info = np.atleast_1d(floats(information))
    plan = np.atleast_1d(floats(planned))
    if info.size > plan.size:
        raise ValueError(f"{info.size} looks were taken, {plan.size} were planned")
    total = np.cumsum(crossing(plan, upper, np.full(plan.shape, -_FAR), 0.0).upper)
    spend = total[: info.size].copy()
    if last and info.size:
        spend[-1] = total[-1]
    return bounds_from_spending(info, spend)


def futility(information: Numbers, upper: Numbers, cumulative: Numbers, effect: float) -> Floats:
    """Lower bounds that give up on the effect: crossed first with these cumulative chances if the effect is real.

    Beta spending (Pampallona, Tsiatis and Kim 2001). The bounds are not binding: the upper ones were found without
    them, so ignoring a crossing costs no error. A lower bound never lies above the upper one.
    """
    info, up, total = (np.atleast_1d(floats(x)) for x in (information, upper, cumulative))
    walk, out, before = _Walk(effect), np.empty(info.shape), 0.0
    for k, (i, u, spend) in enumerate(zip(info, up, total, strict=True)):
        out[k] = min(walk.floor_for(i, float(spend) - before), u)
        _, lost = walk.step(i, u, out[k])
        before += lost
    return out


def design(fractions: Numbers, upper: Numbers, beta: Callable[[Floats], Floats]) -> Design:
    """The drift at which both bounds meet at the last look, so that every path is decided; with power and length.

    `beta` says how much of the chance of a miss may be spent by each fraction; its value at 1 is one minus the power.
    """
    t, up = np.atleast_1d(floats(fractions)), np.atleast_1d(floats(upper))
    cumulative = beta(t)

    def gap(drift: Floats) -> Floats:
        low = futility(t, up, cumulative, float(drift))
        met = crossing(t, up, low, float(drift)).lower.sum()
        # with the last lower bound capped by the upper one, too small a drift shows as a loss beyond the plan
        return floats(low[-1] - up[-1] if low[-1] < up[-1] else 0.0) + floats(cumulative[-1] - met)

    def signed(drift: Floats) -> Floats:
        walk = _Walk(float(drift))
        lows = futility(t, up, cumulative, float(drift))
        for i, u, d in zip(t[:-1], up[:-1], lows[:-1], strict=True):
            walk.step(i, u, d)
        lost = crossing(t[:-1], up[:-1], lows[:-1], float(drift)).lower.sum() if t.size > 1 else 0.0
        return floats(cumulative[-1] - lost - walk.below(t[-1], up[-1]))

    del gap
    drift = float(bisect(signed, 0.5, 12.0, 45))
    low = futility(t, up, cumulative, drift)
    low[-1] = up[-1]
    alive, null = crossing(t, up, low, drift), crossing(t, up, low, 0.0)
    return Design(t, up, low, drift, float(alive.upper.sum()), _length(t, null), _length(t, alive))
