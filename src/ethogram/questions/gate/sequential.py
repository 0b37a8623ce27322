"""Group-sequential bounds at planned and at unplanned information.

A look k has information I_k (one over the variance of the estimate); z_k is the estimate in standard errors, and under
a true effect θ its mean is θ √I_k. The null is θ ≤ 0 and a crossing upwards rejects it. Only the ratios of information
matter for the bounds, so any measure that grows with it (nA nB / N summed over tasks) will do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ethogram.statistics._numeric import Floats, Numbers, floats, normal_hazard, normal_quantile, root_near

from .brownian import FAR, Walk


class Crossing(NamedTuple):
    """The probability of leaving first at each look, upwards and downwards."""

    upper: Floats
    lower: Floats


def crossing(information: Numbers, upper: Numbers, lower: Numbers | None, effect: float) -> Crossing:
    """The probabilities of first crossing the bounds at each look, for a true effect (Armitage et al. 1969)."""
    info, up = _looks(information), np.atleast_1d(floats(upper))
    down = np.full(up.shape, -FAR) if lower is None else np.atleast_1d(floats(lower))
    walk = Walk(effect, info)
    found = [walk.step(float(i), float(u), float(d)) for i, u, d in zip(info, up, down, strict=True)]
    return Crossing(floats([f[0] for f in found]), floats([f[1] for f in found]))


def bounds_from_spending(information: Numbers, cumulative: Numbers) -> Floats:
    """The upper bounds that spend exactly these cumulative errors under the null (Lan and DeMets 1983).

    Earlier bounds do not depend on later looks: after a resume, or when a look came at another information than was
    planned, the same call with the looks that really took place gives the bounds.
    """
    info, total = _looks(information), np.atleast_1d(floats(cumulative))
    walk, out, before = Walk(0.0, info), np.empty(info.shape), 0.0
    for k, (i, spend) in enumerate(zip(info, total, strict=True)):
        out[k] = walk.upper_for(float(i), float(spend) - before)
        walk.step(float(i), float(out[k]), -FAR)
        before = max(before, float(spend))
    return out


def wang_tsiatis(fractions: Numbers, alpha: float, delta: float) -> Floats:
    """Upper bounds c t^(delta - 1/2) with total one-sided error alpha (Wang and Tsiatis 1987).

    delta 0 is O'Brien and Fleming (1979), 1/2 is Pocock (1977); 1/4 lies between and is near the fewest runs.
    """
    t = _looks(fractions)
    shape = t ** (delta - 0.5)
    low, high = 0.1, 8.0
    if np.all(shape >= 1):  # at least what one look needs, at most what independent looks need (Bonferroni)
        low, high = (float(normal_quantile(1 - alpha / n)) + e for n, e in ((1, -1e-6), (t.size, 1e-6)))

    def spare(c: float) -> float:  # the logarithm of a normal tail is nearly straight, so few integrations are needed
        return float(np.log(alpha / crossing(t, c * shape, None, 0.0).upper.sum()))

    # as if a few independent looks shared the error, more of them the more even the bounds are: near enough to start
    few = 1 + 5.6 * delta * delta * np.log(t.size)
    start = min(max(float(normal_quantile(1 - alpha / few)), low + 1e-3), high - 1e-3)
    return floats(root_near(spare, normal_hazard, start, low, high, close=1e-9) * shape)


def rebound(planned: Numbers, upper: Numbers, information: Numbers, last: bool) -> Floats:
    """Upper bounds at the information really met: look k spends what the plan would have spent at its look k.

    With `last`, the final look spends all that remains (Jennison and Turnbull 2000, section 7.3). The error is kept
    whatever the information, as long as looks are not timed by the estimate.
    """
    info, plan = _looks(information), _looks(planned)
    if info.size > plan.size:
        raise ValueError(f"{info.size} looks were taken, {plan.size} were planned")
    total = np.cumsum(crossing(plan, upper, None, 0.0).upper)
    spend = total[: info.size].copy()
    if last:
        spend[-1] = total[-1]
    return bounds_from_spending(info, spend)


def _looks(information: Numbers) -> Floats:
    return np.atleast_1d(floats(information))
