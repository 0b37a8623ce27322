"""Power and cost of a design: noise floor, passes needed, and the simulation that checks them.

A drop is the first arm minus the second; errors are one-sided, as a gate's are. A pass is one attempt at every task.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ethogram.statistics import stratified
from ethogram.statistics._numeric import (
    Floats,
    Ints,
    Numbers,
    bend,
    floats,
    normal_cdf,
    normal_quantile,
    straighten,
    student_quantile,
)

from . import sequential

_MOST_STEPS = 400
_MOST_LOOKS = 48


class Floor(NamedTuple):
    """How much nothing moves: variance of one attempt within its task, and of whole sessions around each other.

    `session_error` is the standard error of the latter, which a few sessions leave large.
    """

    within: float
    session: float
    tasks: int
    passes: int
    session_error: float = 0.0


class DropMoments(NamedTuple):
    """A drop to be seen: its mean and mean square over the tasks, and each arm's second and third moment."""

    drop: float
    square: float
    first: float
    second: float
    first_third: float
    second_third: float
    tasks: int


class StagedPlan(NamedTuple):
    """A staged comparison: the passes of each fresh arm at every look, and how z is judged at each.

    z of the drop at or above `upper` is a find; the drop plus `reach` standard errors below the margin rules it out.
    """

    looks: Floats
    fractions: Floats
    upper: Floats
    reach: Floats
    power: float
    expected_without: float
    expected_with: float


class SimulatedDecisions(NamedTuple):
    """Simulated decisions: shares that found a drop, ruled the margin out, did neither; attempts at the stop."""

    found: float
    ruled_out: float
    undecided: float
    first: float
    second: float
    draws: int


class _Spread(NamedTuple):
    variance: Floats
    skewness: Floats


def pass_floor(passes: Numbers) -> Floor:
    """The floor from repeated passes of one version, (passes, tasks), NaN where missing (A/A runs; Miller 2024).

    Within tasks: the mean of the tasks' own variances (n - 1). Of sessions: what the means of passes vary beyond that.
    """
    x = floats(passes)
    known = ~np.isnan(x)
    n = known.sum(axis=0)
    many = n > 1
    if not np.any(many):
        raise ValueError("a noise floor needs at least two passes over some task")
    mean = np.where(known, x, 0.0).sum(axis=0) / np.maximum(n, 1)
    off = np.where(known, x - mean, 0.0)
    within = float(np.mean((np.sum(off * off, axis=0) / np.maximum(n - 1, 1))[many]))
    # the tasks' own means are taken out first, so that a missing task does not move its pass
    sizes = known.sum(axis=1)
    full = sizes > 0
    effects = off.sum(axis=1)[full] / sizes[full]
    chance = within * float(np.mean(1 / sizes[full]))
    if effects.size < 2:
        return Floor(within, 0.0, int(np.sum(n > 0)), int(effects.size), 0.0)
    seen = float(np.var(effects, ddof=1))
    error = seen * float(np.sqrt(2 / (effects.size - 1)))
    return Floor(within, max(0.0, seen - chance), int(np.sum(n > 0)), int(effects.size), error)


def student_variance(variance: Numbers, error: Numbers, reach: Numbers) -> Floats:
    """The variance with which `reach` normal standard errors go as far as Student's t does.

    For a variance that is itself an estimate with this standard error: 2 (variance / error)² degrees of freedom
    (Satterthwaite 1946), and the t with the tail that `reach` has. Without an error it is the variance itself.
    """
    v, e, z = np.broadcast_arrays(*(floats(x) for x in (variance, error, reach)))
    known = (e > 0) & (v > 0) & (z > 0)
    df = np.maximum(2 * (v / np.where(known, e, 1.0)) ** 2, 1.0)
    t = -student_quantile(normal_cdf(-np.where(known, z, 1.0)), df)
    return np.where(known, v * (t / np.where(known, z, 1.0)) ** 2, v)


def shifted(rates: Numbers, drop: float) -> Floats:
    """The rates of a version whose mean is lower by `drop` through one shift of all logits, on the last axis."""
    p = np.clip(floats(rates), 1e-12, 1 - 1e-12)
    logit = np.log(p / (1 - p))
    target = np.mean(p, axis=-1) - drop
    low, high = np.full(target.shape, -40.0), np.full(target.shape, 40.0)
    shift = np.zeros(target.shape)
    for _ in range(60):  # Newton's steps, and a halving where one leaves what is known of the shift
        moved = _expit(logit + shift[..., None])
        off = np.mean(moved, axis=-1) - target
        low, high = np.where(off > 0, low, shift), np.where(off > 0, shift, high)
        if np.all((np.abs(off) < 1e-14) | (high - low < 1e-12)):
            break
        with np.errstate(divide="ignore", invalid="ignore"):
            tried = shift - off / np.mean(moved * (1 - moved), axis=-1)
        shift = np.where((tried > low) & (tried < high), tried, 0.5 * (low + high))
    return _expit(logit + shift[..., None])


def effect_between(first: Numbers, second: Numbers, tasks: int) -> DropMoments:
    """The effect that takes pass rates from the first to the second, averaged over all of them."""
    p, q = floats(first), floats(second)
    one, two = (float(np.mean(r * (1 - r))) for r in (p, q))
    third, other = (float(np.mean(r * (1 - r) * (1 - 2 * r))) for r in (p, q))
    return DropMoments(float(np.mean(p - q)), float(np.mean((p - q) ** 2)), one, two, third, other, tasks)


def effect_on(rates: Numbers, drop: float, tasks: int) -> DropMoments:
    """The effect of a common shift of the logits on tasks with these pass rates."""
    return effect_between(rates, shifted(rates, drop), tasks)


def score_power(effect: DropMoments, first: Numbers, second: Numbers, alpha: float) -> Floats:
    """The power of one stratified score test after these passes of each arm.

    The null's variance sets the threshold, the alternative's the spread (Lachin 1981), both at finite attempts and
    with the skewness that unequal arms bring.
    """
    null, real = _spreads(effect, floats(first), floats(second))
    threshold = bend(float(normal_quantile(1 - alpha)), null.skewness) * np.sqrt(null.variance)
    return normal_cdf(-straighten((threshold - effect.drop) / np.sqrt(real.variance), real.skewness))


def passes_needed(effect: DropMoments, alpha: float, power: float, stored: float) -> float:
    """The fewest whole passes of the second arm for one test; infinite where `stored` passes of the first cannot do.

    Lachin (1981), at finite attempts. `stored` = 0 means that the first arm is run afresh, as often as the second.
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
    effect: DropMoments, alpha: float, power: float, *, every: float, delta: float, stored: float
) -> StagedPlan | None:
    """The fewest passes of a comparison that looks after `every` of a pass; None where `stored` passes cannot do.

    Bounds c t^(delta - 1/2) (Wang and Tsiatis 1987); ruling out spends (1 - power) t² as a repeated confidence bound
    (Jennison and Turnbull 1989), so it never binds. Looks are placed by information, which a stored arm makes grow
    less than passes do.
    """
    at = floats(every * np.arange(1, _MOST_STEPS + 1))
    null, _ = _spreads(effect, _first(at, stored), at)
    drift = effect.drop / np.sqrt(null.variance)
    wanted = float(normal_quantile(power))
    one_look = float(normal_quantile(1 - alpha)) + wanted
    # counts of looks: `low` is too few (not even one look at its end would do), `high` is enough or too many to try
    low, high, found = int(np.sum(drift <= 0.95 * one_look)), _MOST_STEPS + 1, None
    target = 1.05 * one_look
    tries = 0
    while high - low > 1:
        # the quantile of power grows by about as much as the drift: a few tries close in; a halving where they do not
        guess = int(np.searchsorted(drift, target)) + 1 if tries < 6 else (low + high) // 2
        count, tries = min(max(guess, low + 1), high - 1), tries + 1
        tried = staged(effect, alpha, power, spaced_looks(effect, every, count, stored), delta, stored)
        low, high, found = (low, count, tried) if tried.power >= power else (count, high, found)
        target = drift[count - 1] + wanted - float(normal_quantile(min(max(tried.power, 1e-9), 1 - 1e-9)))
    return found


def fits_within(
    effect: DropMoments, alpha: float, power: float, passes: float, *, every: float, delta: float, stored: float
) -> bool:
    """Whether a comparison that looks after `every` of a pass has this power within `passes`.

    What `sequential_plan` would answer, for one integration instead of a search.
    """
    count = min(int(passes / every + 1e-9), _MOST_STEPS)
    if count < 1:
        return False
    looks = spaced_looks(effect, every, count, stored)
    null, _ = _spreads(effect, _first(looks[-1:], stored), looks[-1:])
    reach = float(normal_quantile(1 - alpha) + normal_quantile(power))
    if effect.drop / np.sqrt(null.variance[-1]) <= reach * 0.95:  # not even one look at the end would do
        return False
    return staged(effect, alpha, power, looks, delta, stored).power >= power


def spaced_looks(effect: DropMoments, every: float, count: int, stored: float) -> Floats:
    """Looks after `every` of a pass up to `count` of them, thinned where there would be many.

    More than a few dozen looks save no runs; those that stay are evenly spaced in information, so they are close where
    a stored arm lets it grow fast and far apart where it hardly grows any more.
    """
    at = floats(every * np.arange(1, count + 1))
    if count <= _MOST_LOOKS:
        return at
    null, _ = _spreads(effect, _first(at, stored), at)
    information = 1 / null.variance
    wanted = np.linspace(information[0], information[-1], _MOST_LOOKS)
    return at[np.unique(np.searchsorted(information, wanted * (1 - 1e-12)))]


def staged(effect: DropMoments, alpha: float, power: float, looks: Numbers, delta: float, stored: float) -> StagedPlan:
    """What a comparison with looks after these passes would do; `power` sets how strictly the margin is ruled out.

    Power and length by integration (Armitage, McPherson and Rowe 1969). What was asked before is not integrated again.
    """
    return _staged(effect, alpha, power, tuple(np.atleast_1d(floats(looks)).tolist()), delta, stored)


@lru_cache(maxsize=256)
def _staged(
    effect: DropMoments, alpha: float, power: float, looks: tuple[float, ...], delta: float, stored: float
) -> StagedPlan:
    at = floats(looks)
    null, real = _spreads(effect, _first(at, stored), at)
    fractions = null.variance[-1] / null.variance
    upper = sequential.wang_tsiatis(fractions, alpha, delta)
    reach = sequential.bounds_from_spending(fractions, (1 - power) * fractions**2)
    drift = float(effect.drop / np.sqrt(null.variance[-1]))
    # the bound of the drop that must fall below the margin lies further out where variance grows with the drop
    half = reach**2 * np.maximum(null.skewness, 0.0) / 2
    out = half + np.sqrt(half * half + reach**2)
    none = sequential.crossing(fractions, upper, np.minimum(drift * np.sqrt(fractions) - out, upper), 0.0)
    # z is scaled by the null's spread: in units of its own spread, and straightened, the motion meets these bounds
    scale = np.sqrt(real.variance / null.variance)
    centre = drift * np.sqrt(fractions) / scale
    high = straighten(bend(upper, null.skewness) / scale - centre, real.skewness) + centre
    low = straighten(-out * np.maximum(1.0, 1 / scale), real.skewness) + centre
    true = sequential.crossing(fractions, high, np.minimum(low, high), drift / float(scale[-1]))
    lengths = [float(at @ (x.upper + x.lower) + at[-1] * max(1 - (x.upper + x.lower).sum(), 0.0)) for x in (none, true)]
    for shared in (at, fractions, upper, reach):
        shared.flags.writeable = False
    return StagedPlan(at, fractions, upper, reach, float(true.upper.sum()), lengths[0], lengths[1])


def simulate(
    first: Numbers,
    second: Numbers,
    attempts: tuple[Ints, Ints],
    plan: StagedPlan,
    margin: float,
    rng: np.random.Generator,
    *,
    stored: Ints | None = None,
    extra: float = 0.0,
    every_task: bool = False,
    missing: float = 0.0,
) -> SimulatedDecisions:
    """Play a staged comparison of passes and failures: `first` and `second` are rates (draws, tasks).

    `attempts` are those of each arm by each look, (looks, tasks). `stored` are the successes of a first arm that is not
    drawn anew; `extra` is variance of the difference from elsewhere. With `every_task` nothing is ruled out before the
    second arm attempted every task. Of the attempts that are drawn the share `missing` has no outcome.
    """
    shape = np.broadcast_shapes(np.shape(first), np.shape(second))
    p, q = np.broadcast_to(floats(first), shape), np.broadcast_to(floats(second), shape)
    going, found = np.ones(shape[0], dtype=bool), np.zeros(shape[0], dtype=bool)
    used = np.zeros((2, shape[0]))
    a, b = _Drawn(p, missing), _Drawn(q, missing)
    if stored is not None:
        a.passed += stored
        a.known = a.known + attempts[0][-1]
    before = np.zeros((2, shape[1]), dtype=np.int64)
    for k, (na, nb) in enumerate(zip(*attempts, strict=True)):
        if stored is None:
            a.draw(na - before[0], rng)
        b.draw(nb - before[1], rng)
        before[:] = na, nb
        open_draws = np.flatnonzero(going)
        if open_draws.size == 0:
            continue  # draws go on as if nothing were decided, so that results do not depend on it
        # what is decided stays decided: only the other draws are looked at
        sums = a.sums(open_draws), b.sums(open_draws)
        look = stratified.score(*sums, equal=False, step=1.0, reach=float(plan.upper[-1]), extra=extra, sampled=True)
        crossed = -look.z >= plan.upper[k]
        ruled = -stratified.lower_end(look, plan.reach[k]) < margin
        if every_task and np.any(nb == 0):
            ruled = np.zeros(open_draws.size, dtype=bool)
        found[open_draws] = crossed
        used[:, open_draws] = before.sum(axis=1, keepdims=True)
        going[open_draws] = ~(crossed | ruled)
    seen, ruled_out, open_ = (float(np.mean(x)) for x in (found, ~found & ~going, going))
    return SimulatedDecisions(seen, ruled_out, open_, float(used[0].mean()), float(used[1].mean()), shape[0])


MANY = 100
"""Above this number of attempts at once, a binomial for each task is faster than attempt after attempt."""


class _Drawn:
    """Attempts of one arm that are drawn look by look: outcomes known and passed, by draw and task.

    While none goes missing, all draws know the same of each task, and `known` has no row per draw.
    """

    def __init__(self, rates: Floats, missing: float) -> None:
        self.rates = rates
        self.missing = missing
        self.passed = np.zeros(rates.shape)
        self.known = np.zeros(rates.shape if missing > 0 else rates.shape[1:])

    def draw(self, attempts: Ints, rng: np.random.Generator) -> None:
        """Attempt every task this often."""
        most = int(attempts.max(initial=0))
        if most > MANY:
            known = rng.binomial(attempts, 1 - self.missing, self.rates.shape) if self.missing > 0 else attempts
            self.known += known
            self.passed += rng.binomial(known, self.rates)
            return
        for already in range(most):  # most often one: much faster than a binomial for each task
            due = np.flatnonzero(attempts > already)
            rates = self.rates if due.size == attempts.size else self.rates[:, due]
            passed = rng.random(rates.shape) < rates
            if self.missing > 0:
                scored = rng.random(rates.shape) >= self.missing
                self.known[:, due] += scored
                passed &= scored
            else:
                self.known[due] += 1
            self.passed[:, due] += passed

    def sums(self, draws: Ints) -> stratified.Sums:
        """Power sums of some of the draws."""
        passed = self.passed[draws]
        return stratified.Sums(self.known[draws] if self.missing > 0 else self.known, passed, passed, passed)


def _spreads(effect: DropMoments, first: Floats, second: Floats) -> tuple[_Spread, _Spread]:
    """Variance and skewness of the drop as the null sees them and as they are; below one pass fewer tasks take part."""
    tasks = effect.tasks * np.minimum(1.0, np.minimum(first, second))
    a, b = np.maximum(first, 1.0), np.maximum(second, 1.0)
    pull, total = a * b / (a + b), a + b
    real = effect.first / a + effect.second / b
    pooled = ((a - 1) * effect.first + (b - 1) * effect.second + pull * (real + effect.square)) / (total - 1)
    null = pooled / pull / tasks
    real = real / tasks
    third = effect.first_third / a**2 - effect.second_third / b**2
    mixed = (a * effect.first_third + b * effect.second_third) / total * (1 / a**2 - 1 / b**2)
    return _Spread(null, mixed / tasks**2 / null**1.5), _Spread(real, third / tasks**2 / real**1.5)


def _first(looks: Floats, stored: float) -> Floats:
    return looks if stored == 0 else np.full(looks.shape, float(stored))


def _expit(x: Floats) -> Floats:
    return floats(1 / (1 + np.exp(-x)))
