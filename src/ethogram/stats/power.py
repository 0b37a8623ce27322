"""What a design can see and what it costs: noise floor, detectable drop, passes needed, and the simulation to check.

A drop is the first arm minus the second; errors are one-sided, as a gate's are. A pass is one attempt at every task.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from . import sequential, stratified
from ._numeric import Floats, Ints, Numbers, bisect, floats, normal_cdf, normal_quantile

_MOST_LOOKS = 200


class Floor(NamedTuple):
    """How much nothing moves: variance of one attempt within its task, and of whole sessions around each other."""

    within: float
    session: float
    tasks: int
    passes: int


class Effect(NamedTuple):
    """A drop to be seen on so many tasks: its mean and mean square over tasks, and each arm's variance of one attempt."""

    drop: float
    square: float
    first: float
    second: float
    tasks: int


class Plan(NamedTuple):
    """A staged comparison: looks after so many passes of each fresh arm, and how z is judged at each.

    z of the drop at or above `upper` is a find; the drop plus `reach` standard errors below the margin rules it out.
    """

    looks: Floats
    fractions: Floats
    upper: Floats
    reach: Floats
    power: float
    expected_without: float
    expected_with: float


class Outcome(NamedTuple):
    """Simulated decisions: shares that found a drop, that ruled the margin out, that did neither; attempts at the stop."""

    found: float
    ruled_out: float
    undecided: float
    first: float
    second: float
    draws: int


def noise_floor(passes: Numbers) -> Floor:
    """The floor from repeated passes of one version, (passes, tasks), NaN where missing (A/A runs; Miller 2024).

    Within tasks: the mean of the tasks' own variances (n - 1). Of sessions: what the means of passes vary beyond that.
    """
    x = floats(passes)
    seen = ~np.isnan(x)
    n = seen.sum(axis=0)
    many = n > 1
    if not np.any(many):
        raise ValueError("a noise floor needs at least two passes over some task")
    mean = np.where(seen, x, 0.0).sum(axis=0) / np.maximum(n, 1)
    off = np.where(seen, x - mean, 0.0)
    within = float(np.mean((np.sum(off * off, axis=0) / np.maximum(n - 1, 1))[many]))
    # the tasks' own means are taken out first, so that a missing task does not move its pass
    sizes = seen.sum(axis=1)
    full = sizes > 0
    effects = off.sum(axis=1)[full] / sizes[full]
    chance = within * float(np.mean(1 / sizes[full]))
    session = max(0.0, float(np.var(effects, ddof=1)) - chance) if effects.size > 1 else 0.0
    return Floor(within, session, int(np.sum(n > 0)), int(effects.size))


def standard_error(floor: Floor, first: Numbers, second: Numbers, sessions: Numbers) -> Floats:
    """The error of the difference after so many passes of each arm, the second in so many sessions.

    SE² = within / tasks (1 / first + 1 / second) + session (1 / sessions + 1 / first).
    """
    a, b, s = (floats(x) for x in (first, second, sessions))
    return np.sqrt(floor.within / floor.tasks * (1 / a + 1 / b) + floor.session * (1 / s + 1 / a))


def detectable(error: Numbers, alpha: float, power: float) -> Floats:
    """The drop that one test at one-sided alpha sees with this power: z_alpha + z_power standard errors (Lachin 1981)."""
    return floats(floats(error) * float(normal_quantile(1 - alpha) + normal_quantile(power)))


def shifted(rates: Numbers, drop: float) -> Floats:
    """The rates of a version whose mean is lower by `drop` through one shift of all logits, on the last axis."""
    p = np.clip(floats(rates), 1e-12, 1 - 1e-12)
    logit = np.log(p / (1 - p))
    target = np.mean(p, axis=-1) - drop
    ends = np.full(target.shape, 40.0)
    return _expit(logit + bisect(lambda s: np.mean(_expit(logit + s[..., None]), axis=-1) - target, -ends, ends)[..., None])


def effect_on(rates: Numbers, drop: float, tasks: int) -> Effect:
    """The effect of a common shift of the logits on tasks with these pass rates."""
    p = floats(rates)
    q = shifted(p, drop)
    return Effect(drop, float(np.mean((p - q) ** 2)), float(np.mean(p * (1 - p))), float(np.mean(q * (1 - q))), tasks)


def score_power(effect: Effect, first: Numbers, second: Numbers, alpha: float) -> Floats:
    """The power of one stratified score test after so many passes of each arm.

    The null's variance sets the threshold, the alternative's the spread (Lachin 1981), both at finite attempts.
    """
    null, real = _variances(effect, floats(first), floats(second))
    return normal_cdf((effect.drop - float(normal_quantile(1 - alpha)) * np.sqrt(null)) / np.sqrt(real))


def passes_needed(effect: Effect, alpha: float, power: float, stored: float) -> float:
    """The fewest whole passes of the second arm for one test; infinite where `stored` passes of the first cannot do.

    `stored` = 0 means that the first arm is run afresh, as often as the second.
    """
    tried = np.unique(np.round(np.geomspace(1, 1e6, 4000)))
    enough = score_power(effect, tried if stored == 0 else np.full(tried.shape, stored), tried, alpha) >= power
    if not np.any(enough):
        return float("inf")
    k = int(np.argmax(enough))
    between = np.arange(tried[max(k - 1, 0)], tried[k] + 1)
    fine = score_power(effect, between if stored == 0 else np.full(between.shape, stored), between, alpha) >= power
    return float(between[int(np.argmax(fine))])


def sequential_plan(
    effect: Effect, alpha: float, power: float, *, every: float, delta: float, stored: float
) -> Plan | None:
    """The fewest passes of a comparison that looks after `every` of a pass; None where `stored` passes cannot do.

    Bounds c t^(delta - 1/2) (Wang and Tsiatis 1987); ruling out spends (1 - power) t² as a repeated confidence bound
    (Jennison and Turnbull 1989), so it never binds. Looks are placed by information, which a stored arm makes grow
    less than passes do.
    """
    most = _MOST_LOOKS
    reach = float(normal_quantile(1 - alpha) + normal_quantile(power))
    counts = np.arange(1, most + 1)
    null, _ = _variances(effect, _first(counts * every, stored), counts * every)
    enough = effect.drop / np.sqrt(null) > reach * 0.95
    if not np.any(enough):
        return None
    low = int(np.argmax(enough))
    high, found = low, None
    while found is None or found.power < power:
        if high >= most:
            return None
        low, high = high, min(max(high + 1, int(1.25 * high)), most)
        found = staged(effect, alpha, power, every * np.arange(1, high + 1), delta, stored)
    while high - low > 1:
        middle = (low + high) // 2
        tried = staged(effect, alpha, power, every * np.arange(1, middle + 1), delta, stored)
        low, high, found = (low, middle, tried) if tried.power >= power else (middle, high, found)
    return found


def staged(effect: Effect, alpha: float, power: float, looks: Numbers, delta: float, stored: float) -> Plan:
    """What a comparison with looks after these passes would do; `power` sets how strictly the margin is ruled out."""
    at = np.atleast_1d(floats(looks))
    null, real = _variances(effect, _first(at, stored), at)
    fractions = null[-1] / null
    upper = sequential.wang_tsiatis(fractions, alpha, delta)
    reach = sequential.bounds_from_spending(fractions, (1 - power) * fractions**2)
    drift = effect.drop / np.sqrt(null[-1])
    # the statistic is scaled by the null's spread; in units of its own spread the same motion has these bounds
    scale = float(np.sqrt(real[-1] / null[-1]))
    lower = np.minimum(drift * np.sqrt(fractions) - reach, upper)
    true = sequential.crossing(fractions, upper / scale, lower / scale, drift / scale)
    none = sequential.crossing(fractions, upper, lower, 0.0)
    lengths = [float(at @ (x.upper + x.lower) + at[-1] * max(1 - (x.upper + x.lower).sum(), 0.0)) for x in (none, true)]
    return Plan(at, fractions, upper, reach, float(true.upper.sum()), lengths[0], lengths[1])


def simulate(
    first: Numbers,
    second: Numbers,
    attempts: tuple[Ints, Ints],
    plan: Plan,
    margin: float,
    rng: np.random.Generator,
) -> Outcome:
    """Play a staged comparison of passes and failures: `first` and `second` are rates (draws, tasks).

    `attempts` are those of each arm by each look, (looks, tasks).
    """
    shape = np.broadcast_shapes(np.shape(first), np.shape(second))
    p, q = np.broadcast_to(floats(first), shape), np.broadcast_to(floats(second), shape)
    going, found = np.ones(shape[0], dtype=bool), np.zeros(shape[0], dtype=bool)
    used = np.zeros((2, shape[0]))
    a, b = np.zeros(shape), np.zeros(shape)
    before = np.zeros((2, shape[1]), dtype=np.int64)
    for k, (na, nb) in enumerate(zip(*attempts, strict=True)):
        a += rng.binomial(na - before[0], p)
        b += rng.binomial(nb - before[1], q)
        before[:] = na, nb
        sums = stratified.sums_of_counts(a, na), stratified.sums_of_counts(b, nb)
        look = stratified.score(*sums, equal=False, step=1.0, reach=float(plan.upper[-1]))
        crossed = going & (-look.z >= plan.upper[k])
        ruled = sequential.repeated_bound(-look.difference, look.information, plan.reach[k]) < margin
        found |= crossed
        used[:, going] = before.sum(axis=1, keepdims=True)
        going &= ~(crossed | ruled)
    mean = [float(np.mean(x)) for x in (found, ~found & ~going, going)]
    return Outcome(*mean, float(used[0].mean()), float(used[1].mean()), shape[0])


def attempts_by_look(looks: Numbers, tasks: int) -> Ints:
    """Attempts per task after so many passes, (looks, tasks): a part of a pass covers the first tasks."""
    at = np.atleast_1d(floats(looks))
    full = np.floor(at + 1e-9)
    part = np.round((at - full) * tasks)
    return (full[:, None] + (np.arange(tasks) < part[:, None])).astype(np.int64)


def _variances(effect: Effect, first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """The variance of the difference as the null sees it and as it is; below one pass fewer tasks take part."""
    part = np.minimum(1.0, np.minimum(first, second))
    a, b = np.maximum(first, 1.0), np.maximum(second, 1.0)
    pull = a * b / (a + b)
    real = effect.first / a + effect.second / b
    pooled = ((a - 1) * effect.first + (b - 1) * effect.second + pull * (real + effect.square)) / (a + b - 1)
    return floats(pooled / pull / (effect.tasks * part)), floats(real / (effect.tasks * part))


def _first(looks: Floats, stored: float) -> Floats:
    return looks if stored == 0 else np.full(looks.shape, float(stored))


def _expit(x: Floats) -> Floats:
    return floats(1 / (1 + np.exp(-x)))
