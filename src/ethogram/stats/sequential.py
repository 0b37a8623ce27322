"""Looking early without fooling oneself: group-sequential bounds at planned and at unplanned information.

A look k has information I_k (one over the variance of the estimate); z_k is the estimate in standard errors, and under
a true effect θ its mean is θ √I_k. The null is θ ≤ 0 and a crossing upwards rejects it. Only the ratios of information
matter for the bounds, so any measure that grows with it (nA nB / N summed over tasks) will do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np

from ._brownian import FAR, Walk
from ._numeric import Floats, Numbers, floats, normal_cdf, normal_quantile, root

Shape = Literal["obrien-fleming", "pocock", "power", "hwang-shih-decani"]


class Crossing(NamedTuple):
    """The probability of leaving first at each look, upwards and downwards."""

    upper: Floats
    lower: Floats


class Design(NamedTuple):
    """Bounds for z that meet at the last look, and what they buy.

    `drift` is the effect times the root of the last information at which the design has its `power`; the expected
    fractions of that information are those at the stop, with no effect and with that effect.
    """

    fractions: Floats
    upper: Floats
    lower: Floats
    drift: float
    power: float
    expected_without: float
    expected_with: float


class Stagewise(NamedTuple):
    """After the stop: the p-value, the median unbiased effect and its interval."""

    p: float
    median: float
    low: float
    high: float


def spent(shape: Shape, fractions: Numbers, alpha: float, parameter: float) -> Floats:
    """How much of alpha may be spent by each information fraction (Lan and DeMets 1983).

    `power` is alpha t^parameter (Kim and DeMets 1987), `hwang-shih-decani` the gamma family of 1990; the other two do
    not use the parameter.
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
        return floats(alpha * t)
    return floats(alpha * np.expm1(-parameter * t) / np.expm1(-parameter))


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
    c = root(lambda c: alpha - float(crossing(t, c * shape, None, 0.0).upper.sum()), low, high, 1e-7)
    return floats(c * shape)


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


def futility(information: Numbers, upper: Numbers, cumulative: Numbers, effect: float) -> Floats:
    """Lower bounds that give the effect up: crossed first with these cumulative chances if it is real.

    Beta spending (Pampallona, Tsiatis and Kim 2001). Not binding: the upper bounds were found without them, so to go
    on after a crossing costs no error. A lower bound never lies above the upper one.
    """
    info, up, total = _looks(information), np.atleast_1d(floats(upper)), np.atleast_1d(floats(cumulative))
    walk, out, before = Walk(effect, info), np.empty(info.shape), 0.0
    for k, (i, u, spend) in enumerate(zip(info, up, total, strict=True)):
        out[k] = min(walk.lower_for(float(i), float(spend) - before), float(u))
        before += walk.step(float(i), float(u), float(out[k]))[1]
    return out


def design(fractions: Numbers, upper: Numbers, beta: Callable[[Floats], Floats]) -> Design:
    """The drift at which lower and upper bounds meet at the last look, so that every path is decided there.

    Pampallona, Tsiatis and Kim (2001). `beta` gives the chance of a miss that may be spent by each fraction; its value
    at the last is one minus the power.
    """
    t, up = _looks(fractions), np.atleast_1d(floats(upper))
    total = beta(t)

    def spare(drift: float) -> float:
        """What is left of the allowed misses if the last look decides everything."""
        walk, missed = Walk(drift, t), 0.0
        for i, u, spend in zip(t[:-1], up[:-1], total[:-1], strict=True):
            low = min(walk.lower_for(float(i), float(spend) - missed), float(u))
            missed += walk.step(float(i), float(u), low)[1]
        return float(total[-1]) - missed - walk.below(float(t[-1]), float(up[-1]))

    drift = root(spare, 0.2, FAR, 1e-7)
    lower = futility(t, up, total, drift)
    lower[-1] = up[-1]
    real, none = crossing(t, up, lower, drift), crossing(t, up, lower, 0.0)
    return Design(t, up, lower, drift, float(real.upper.sum()), _length(t, none), _length(t, real))


def stagewise(information: Numbers, upper: Numbers, z: float, level: float) -> Stagewise:
    """Inference after a stop at the last of these looks, by stage and then by z (Armitage 1957; Tsiatis et al. 1984).

    `upper` are the bounds of the earlier looks, none of which was crossed; a futility bound is not used.
    """
    info, up = _looks(information), np.atleast_1d(floats(upper))

    def tail(effect: float) -> float:
        walk, gone = Walk(effect, info), 0.0
        for i, u in zip(info[:-1], up[: info.size - 1], strict=True):
            gone += walk.step(float(i), float(u), -FAR)[0]
        return gone + walk.above(float(info[-1]), z)

    sd = 1 / float(np.sqrt(info[-1]))

    def effect_at(probability: float) -> float:
        return root(lambda e: tail(e) - probability, (z - 10) * sd, (z + 10) * sd, 1e-7 * sd)

    return Stagewise(tail(0.0), effect_at(0.5), effect_at((1 - level) / 2), effect_at((1 + level) / 2))


def repeated_bound(value: Numbers, information: Numbers, reach: Numbers) -> Floats:
    """value + reach / √information: with `reach` from spending bounds, valid at all looks together.

    The repeated confidence bound of Jennison and Turnbull (1989); a negative reach gives the lower one.
    """
    return floats(floats(value) + floats(reach) / np.sqrt(floats(information)))


def conditional_power(z: Numbers, now: Numbers, then: Numbers, bound: Numbers, effect: Numbers) -> Floats:
    """The chance that z exceeds a bound at a later information, given z now (Lachin 2005)."""
    z, now, then, bound, effect = (floats(x) for x in (z, now, then, bound, effect))
    ahead = then - now
    return normal_cdf((z * np.sqrt(now) + effect * ahead - bound * np.sqrt(then)) / np.sqrt(ahead))


def _looks(information: Numbers) -> Floats:
    return np.atleast_1d(floats(information))


def _length(fractions: Floats, left: Crossing) -> float:
    stop = left.upper + left.lower
    return float(fractions @ stop + fractions[-1] * max(1 - stop.sum(), 0.0))
